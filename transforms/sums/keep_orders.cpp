#include "transforms/sums/keep_orders.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/changed_inputs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// A statement that the program runs as a whole under conditions of sizes, or every step of sequential loops.
struct Leaf {
  Stmt stmt;
  std::vector<Expr> conditions;
  std::vector<const ir::StmtNode*> loops;  // around it, each outermost first
  bool prepared = false;                   // it computes what follows from index arrays alone
};

struct ById {
  bool operator()(const Array& a, const Array& b) const { return a->id < b->id; }
};
using Arrays = std::set<Array, ById>;  // in an order that is the same in every process

/// The arrays from outside that a statement loads from or stores to; what it adds to is both.
struct Touched {
  Arrays read, written;
};

Touched touched_by(const Stmt& s) {
  Touched result;
  for (const Access& access : accesses_of(s)) (access.writes ? result.written : result.read).insert(access.array);
  for (const Stmt& leaf : leaves(s))
    if (const auto* sum = leaf.as<ir::Reduce>(); sum && result.written.count(sum->array))
      result.read.insert(sum->array);
  return result;
}

class Keeper {
 public:
  Keeper(const ir::Program& program, const LowerOptions& options) : program_(program), options_(options) {
    const Arrays written = touched_by(program.body).written;
    const std::set<Array> aliased = ir::aliased_arrays(program);
    for (const Array& array : program.arrays)
      if (array->role == ir::ArrayRole::Input && !is_float(array->type) && !written.count(array) &&
          !aliased.count(array))
        inputs_.insert(array);
    if (!inputs_.empty()) find_candidates(program.body);
  }

  ir::Program run(KeptOrders& kept) {
    if (candidates_.empty()) return program_;
    do {
      leaves_.clear();
      visit(program_.body, {});
    } while (drop_unfit());
    const auto is_read_later = [&](const Array& array) {
      return std::any_of(leaves_.begin(), leaves_.end(), [&](const Leaf& leaf) {
        return !leaf.prepared && touched_by(leaf.stmt).read.count(array) > 0;
      });
    };
    std::copy_if(candidates_.begin(), candidates_.end(), std::back_inserter(kept.arrays), is_read_later);
    if (kept.arrays.empty()) return program_;
    return split(kept);
  }

 private:
  bool is_of_sizes(const Expr& e) const { return ir::is_of_sizes(e, program_); }

  /// Local arrays of integers that exist once, whatever the iterations.
  void find_candidates(const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) {
      const Array& array = local->array;
      if (!is_float(array->type) && std::all_of(array->shape.begin(), array->shape.end(),
                                                [&](const Expr& extent) { return is_of_sizes(extent); }))
        candidates_.insert(array);
    }
    if (!has_parts(s)) return;
    for_each_part(s, [&](const Stmt& part, const Expr&) { find_candidates(part); });
  }

  /// Whether `s` is looked into for statements that can be moved.
  bool has_parts(const Stmt& s) const {
    if (const auto* branch = s.as<ir::If>()) return is_of_sizes(branch->condition);
    if (const auto* loop = s.as<ir::For>())
      return !ir::is_parallel(loop->mode) && is_of_sizes(loop->lower) && is_of_sizes(loop->upper);
    return s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Allocate;
  }

  /// f(part, the condition under which it runs; null: always)
  static void for_each_part(const Stmt& s, const std::function<void(const Stmt&, const Expr&)>& f) {
    if (const auto* block = s.as<ir::Block>()) {
      for (const Stmt& child : block->body) f(child, {});
    } else if (const auto* local = s.as<ir::Allocate>()) {
      f(local->body, {});
    } else if (const auto* branch = s.as<ir::If>()) {
      f(branch->then_body, branch->condition);
      if (branch->else_body) f(branch->else_body, ir::unary(ir::UnaryOp::Not, branch->condition));
    } else if (const auto* loop = s.as<ir::For>()) {
      f(loop->body, ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper));
    }
  }

  void visit(const Stmt& s, const std::vector<Expr>& conditions) {
    if (ir::is_empty(s)) return;
    const bool prepared = is_prepared(s);
    if (prepared || !has_parts(s)) {
      leaves_.push_back({s, conditions, loops_, prepared});
      return;
    }
    if (const auto* local = s.as<ir::Allocate>()) declared_in_[local->array] = loops_.size();
    if (s.kind() == ir::Kind::For) loops_.push_back(s.get());
    for_each_part(s, [&](const Stmt& part, const Expr& condition) {
      std::vector<Expr> all = conditions;
      if (condition) all.push_back(condition);
      visit(part, all);
    });
    if (s.kind() == ir::Kind::For) loops_.pop_back();
  }

  /// Whether all that the statement reads is known before the program begins, and all that it writes is a candidate.
  bool is_prepared(const Stmt& s) const {
    const Touched touched = touched_by(s);
    const auto is_mine = [&](const Array& array) { return candidates_.count(array) > 0; };
    bool fits = contains_loop(s) && !ir::uses_stack(s) && !has_contraction(s) &&
                std::all_of(touched.written.begin(), touched.written.end(), is_mine) &&
                std::all_of(touched.read.begin(), touched.read.end(),
                            [&](const Array& array) { return is_mine(array) || inputs_.count(array); });
    std::set<ir::Symbol> known(program_.sizes.begin(), program_.sizes.end());
    ir::walk(
        s,
        [&](const Stmt& child) {
          if (const auto* loop = child.as<ir::For>()) known.insert(loop->iterator);
          if (const auto* loop = child.as<ir::While>()) known.insert(loop->iterator);
        },
        [&](const Expr& e) {
          if (const auto* v = e.as<ir::Var>()) fits &= known.count(v->symbol) > 0;
        });
    return fits;
  }

  /// What a trip of a loop may find as the one before has left it: once is not as good as every time.
  void note_carried(Arrays& unfit) const {
    std::map<const ir::StmtNode*, Touched> by_loop;
    for (const Leaf& leaf : leaves_) {
      if (!leaf.prepared) continue;
      const Touched touched = touched_by(leaf.stmt);
      const auto note = [&](const Arrays& arrays, Arrays Touched::*kind) {
        for (const Array& array : arrays) {
          const auto declared = declared_in_.find(array);
          if (declared == declared_in_.end()) continue;
          for (std::size_t k = declared->second; k < leaf.loops.size(); ++k)
            (by_loop[leaf.loops[k]].*kind).insert(array);
        }
      };
      note(touched.read, &Touched::read), note(touched.written, &Touched::written);
    }
    for (const auto& [loop, touched] : by_loop)
      for (const Array& array : touched.written)
        if (touched.read.count(array)) unfit.insert(array);
  }

  /// Takes candidates away that something else writes, that are read before they are complete, or that go from trip to
  /// trip of a loop.
  bool drop_unfit() {
    Arrays read, unfit;
    note_carried(unfit);
    for (const Leaf& leaf : leaves_) {
      const Touched touched = touched_by(leaf.stmt);
      for (const Array& array : touched.written)
        if (!leaf.prepared || read.count(array)) unfit.insert(array);
      if (leaf.prepared) continue;
      read.insert(touched.read.begin(), touched.read.end());
      for (const Array& array : touched.read)
        if (array->shape.empty()) unfit.insert(array);
    }
    return std::erase_if(candidates_, [&](const Array& array) { return unfit.count(array) > 0; }) > 0;
  }

  ir::Program split(KeptOrders& kept) const {
    StmtSet moved;
    Arrays used, scratch;
    std::vector<Stmt> first;
    for (std::size_t k = 0; k < leaves_.size();) {
      // Neighbours under the same conditions share them.
      std::vector<Stmt> group;
      std::size_t next = k;
      for (; next < leaves_.size() && ir::equal(leaves_[next].conditions, leaves_[k].conditions); ++next) {
        if (!leaves_[next].prepared) continue;
        group.push_back(leaves_[next].stmt);
        for (const Stmt& s : leaves(leaves_[next].stmt)) moved.insert(s.get());
        Touched touched = touched_by(leaves_[next].stmt);
        used.merge(touched.read);
        scratch.merge(touched.written);
      }
      Stmt all = ir::block(group);
      for (std::size_t c = leaves_[k].conditions.size(); c-- > 0;) all = ir::if_then(leaves_[k].conditions[c], all);
      if (!group.empty()) first.push_back(all);
      k = next;
    }
    StmtSet rest = set_of(leaves(program_.body));
    for (const ir::StmtNode* s : moved) rest.erase(s);
    return with_arguments(ir::block(first), slice(program_.body, rest), used, scratch, kept);
  }

  /// The program `first; rest`, with kept arrays and `stale` among its arguments.
  ir::Program with_arguments(Stmt first, const Stmt& rest, const Arrays& used, const Arrays& scratch,
                             KeptOrders& kept) const {
    ir::Program result = program_;
    kept.stale = ir::make_symbol(ir::free_name(result, "stale"));
    result.sizes.push_back(kept.stale);
    for (const Array& array : used)
      if (inputs_.count(array)) kept.deciding.push_back(array);
    std::map<Array, Array> arguments;
    for (const Array& array : scratch)
      if (std::find(kept.arrays.begin(), kept.arrays.end(), array) == kept.arrays.end())
        first = ir::allocate(array, first, array->location);
    for (Array& array : kept.arrays) {
      const Array own =
          ir::make_array_like(array, ir::free_name(result, array->name), array->type, ir::ArrayRole::InOut);
      arguments[array] = own;
      result.arrays.push_back(own);
      array = own;
    }
    if (options_.orders == Orders::Compared) first = only_where_changed(first, result, kept);
    const Expr is_stale = ir::binary(ir::BinaryOp::Ne, ir::var(kept.stale), ir::int_const(0));
    const Stmt all = ir::block({ir::if_then(is_stale, first), without(rest, arguments)});
    result.body = ir::replace_arrays(all, arguments);
    return result;
  }

  /// With what is noted of the arrays that decide among the arguments of `result`. Sizes alone never change.
  Stmt only_where_changed(const Stmt& first, ir::Program& result, KeptOrders& kept) const {
    kept.compares = true;
    std::vector<SeenArray> seen;
    for (const Array& array : kept.deciding) {
      seen.push_back({array, ir::make_array_like(array, ir::free_name(result, array->name + "_seen"), array->type,
                                                 ir::ArrayRole::InOut)});
      result.arrays.push_back(seen.back().seen);
      kept.arrays.push_back(seen.back().seen);
    }
    if (seen.empty()) return ir::if_then(ir::binary(ir::BinaryOp::Eq, ir::var(kept.stale), ir::int_const(1)), first);
    return where_changed(first, kept.stale, seen, options_.machine.is_gpu());
  }

  /// Without the allocations of arrays that are arguments now.
  static Stmt without(const Stmt& s, const std::map<Array, Array>& arguments) {
    class Remover final : public ir::Rewriter {
     public:
      explicit Remover(const std::map<Array, Array>& arguments) : arguments_(arguments) {}
      using Rewriter::rewrite;
      Stmt rewrite(const Stmt& s) override {
        const auto* local = s.as<ir::Allocate>();
        return local && arguments_.count(local->array) ? rewrite(local->body) : rewrite_children(s);
      }

     private:
      const std::map<Array, Array>& arguments_;
    };
    return Remover(arguments).rewrite(s);
  }

  const ir::Program& program_;
  const LowerOptions& options_;
  Arrays inputs_;      // of which the program only reads, integers
  Arrays candidates_;  // locals that only prepared statements write
  std::vector<Leaf> leaves_;
  std::vector<const ir::StmtNode*> loops_;    // around what is being looked at
  std::map<Array, std::size_t> declared_in_;  // in how many of these
};

}  // namespace

ir::Program keep_orders(const ir::Program& program, KeptOrders& kept, const LowerOptions& options) {
  kept = {};
  return Keeper(program, options).run(kept);
}

}  // namespace loopgrad::transforms
