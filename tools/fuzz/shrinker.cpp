#include "tools/fuzz/shrinker.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <set>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

/// The simpler statements that may stand for one, boldest first.
std::vector<Stmt> simpler(const Stmt& s) {
  std::vector<Stmt> result;
  if (s.kind() != Kind::Block) result.push_back(block({}));
  if (const auto* loop = s.as<For>()) {
    result.push_back(substitute(loop->body, {{loop->iterator, loop->lower}}));
    if (loop->at_most)
      result.push_back(for_loop(loop->iterator, loop->lower, loop->upper, loop->body, loop->mode, loop->location));
    if (as_int(loop->lower) != 0)
      result.push_back(for_loop(loop->iterator, int_const(0), loop->upper, loop->body, loop->mode, loop->location));
  } else if (const auto* repeat = s.as<While>()) {
    result.push_back(
        for_loop(repeat->iterator, int_const(0), repeat->max_trips, repeat->body, LoopMode::Forward, repeat->location));
  } else if (const auto* branch = s.as<If>()) {
    result.push_back(branch->then_body);
    if (branch->else_body) {
      result.push_back(branch->else_body);
      result.push_back(if_then(branch->condition, branch->then_body, {}, branch->location));
    }
  } else if (const auto* local = s.as<Allocate>()) {
    result.push_back(local->body);
  } else if (const auto* region = s.as<CustomGradient>()) {
    result.push_back(region->body);
  } else if (const auto* sum = s.as<Reduce>()) {
    result.push_back(assign(sum->array, sum->indices, sum->value, sum->location));
  }
  return result;
}

/// The simpler expressions of the same type that may stand for one.
std::vector<Expr> simpler(const Expr& e) {
  std::vector<Expr> result;
  const bool constant = e.kind() == Kind::IntConst || e.kind() == Kind::FloatConst;
  if (constant) return result;
  if (e.type() == ScalarType::Bool) {
    result.push_back(bool_const(true));
    result.push_back(bool_const(false));
  } else {
    result.push_back(const_of(is_float(e.type()) ? 0.5 : 0, e.type()));
  }
  visit(e, [&](const auto& node) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(node)>, Load>) {
      for_each_child(node, [&](const Expr& child) {
        if (child.type() == e.type()) result.push_back(child);
      });
    }
  });
  return result;
}

/// A rule goes with its region as it is: with another one it may be wrong itself.
std::set<const StmtNode*> regions_of(const ir::Program& program) {
  std::set<const StmtNode*> regions;
  walk_stmts(program.body, [&](const Stmt& s) {
    if (s.kind() == Kind::CustomGradient) regions.insert(s.get());
  });
  return regions;
}

class Shrinker {
 public:
  Shrinker(Case c, const std::function<bool(const Case&)>& still_fails, int attempts,
           const std::function<bool()>& is_over)
      : best_(std::move(c)), still_fails_(still_fails), attempts_(attempts), is_over_(is_over) {}

  Case run() {
    bool progress = true;
    while (progress && !is_over()) {
      progress = statements();
      progress |= expressions();
      progress |= arguments();
      progress |= smaller_sizes();
      progress |= fewer_choices();
    }
    return best_;
  }

 private:
  bool is_over() const { return attempts_ <= 0 || is_over_(); }

  bool accept(Case candidate) {
    if (is_over()) return false;
    const std::set<const StmtNode*> now = regions_of(best_.program.ir()), then = regions_of(candidate.program.ir());
    if (!std::includes(now.begin(), now.end(), then.begin(), then.end())) return false;
    --attempts_;
    try {
      verify(candidate.program.ir(), "shrink");
      if (!still_fails_(candidate)) return false;
    } catch (const InternalError&) {
      return false;  // a symbol or array lost its declaration
    }
    best_ = std::move(candidate);
    return true;
  }

  bool accept_program(ir::Program program) {
    Case candidate = best_;
    candidate.program = loopgrad::Program(std::make_shared<const ir::Program>(std::move(program)));
    return accept(std::move(candidate));
  }
  bool accept_body(Stmt body) {
    if (is_empty(body)) body = block({});
    return accept_program(with_body(best_.program.ir(), std::move(body)));
  }

  /// Tries the simplifications of the statement at each position, in textual order.
  bool statements() {
    bool progress = false;
    for (std::size_t position = 0;; ++position) {
      const Stmt target = statement_at(position);
      if (!target || is_over()) return progress;
      for (const Stmt& candidate : simpler(target)) {
        const auto replace = [&](const Stmt& s) { return s.same_as(target) ? std::optional(candidate) : std::nullopt; };
        if (!accept_body(rewrite(best_.program.ir().body, {}, replace))) continue;
        progress = true;
        --position;  // look at what is there now
        break;
      }
    }
  }

  bool expressions() {
    bool progress = false;
    for (std::size_t position = 0;; ++position) {
      const Expr target = expression_at(position);
      if (!target || is_over()) return progress;
      for (const Expr& candidate : simpler(target)) {
        const auto replace = [&](const Expr& e) { return e.same_as(target) ? std::optional(candidate) : std::nullopt; };
        if (!accept_body(rewrite(best_.program.ir().body, replace))) continue;
        progress = true;
        --position;
        break;
      }
    }
  }

  Stmt statement_at(std::size_t position) const {
    Stmt found;
    std::size_t count = 0;
    walk_stmts(best_.program.ir().body, [&](const Stmt& s) {
      if (count++ == position) found = s;
    });
    return found;
  }
  Expr expression_at(std::size_t position) const {
    Expr found;
    std::size_t count = 0;
    walk(
        best_.program.ir().body, [](const Stmt&) {},
        [&](const Expr& e) {
          if (count++ == position) found = e;
        });
    return found;
  }

  /// Drops arrays, facts and sizes; the verifier notices those that are still used.
  bool arguments() {
    bool progress = false;
    const auto drop_each = [&](auto member) {
      for (std::size_t i = 0; i < (best_.program.ir().*member).size();) {
        ir::Program program = best_.program.ir();
        (program.*member).erase((program.*member).begin() + static_cast<std::ptrdiff_t>(i));
        if (accept_program(std::move(program))) progress = true;
        else ++i;
      }
    };
    drop_each(&ir::Program::facts);
    drop_each(&ir::Program::arrays);
    drop_each(&ir::Program::sizes);
    forget_unused();
    return progress;
  }

  /// Sizes and contents of what is no longer declared.
  void forget_unused() {
    std::set<std::string> names;
    for (const Symbol& size : best_.program.ir().sizes) names.insert(size.name);
    for (const Array& array : best_.program.ir().arrays) names.insert(array->name);
    std::erase_if(best_.sizes, [&](const auto& entry) { return !names.contains(entry.first); });
    std::erase_if(best_.medium, [&](const auto& entry) { return !names.contains(entry.first); });
    std::erase_if(best_.shared,
                  [&](const auto& entry) { return !names.contains(entry.first) || !names.contains(entry.second); });
    std::erase_if(best_.contents, [&](const auto& entry) { return !names.contains(entry.first); });
  }

  bool fewer_choices() {
    bool progress = false;
    for (const std::string& pass : std::set(best_.left_out)) {
      Case candidate = best_;
      candidate.left_out.erase(pass);
      if (accept(std::move(candidate))) progress = true;
    }
    for (const auto& [size, value] : Sizes(best_.expected)) {
      Case candidate = best_;
      candidate.expected.erase(size);
      if (accept(std::move(candidate))) progress = true;
    }
    return progress;
  }

  bool smaller_sizes() {
    const bool few = smaller_sizes(&Case::sizes), medium = smaller_sizes(&Case::medium);
    return few || medium;
  }

  bool smaller_sizes(Sizes Case::*which) {
    bool progress = false;
    for (const auto& [name, value] : Sizes(best_.*which)) {
      for (std::int64_t smaller : {std::int64_t{1}, std::int64_t{2}, value / 4, value / 2, value - 1}) {
        if (smaller >= (best_.*which).at(name) || smaller < 0) continue;
        Case candidate = best_;
        (candidate.*which)[name] = smaller;
        if (accept(std::move(candidate))) progress = true;
      }
    }
    return progress;
  }

  Case best_;
  const std::function<bool(const Case&)>& still_fails_;
  int attempts_;
  const std::function<bool()>& is_over_;
};

}  // namespace

Case shrink(Case c, const std::function<bool(const Case&)>& still_fails, int attempts,
            const std::function<bool()>& is_over) {
  return Shrinker(std::move(c), still_fails, attempts, is_over).run();
}

}  // namespace loopgrad::fuzz
