#include "transforms/map/gpu/place_barriers.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/least_values.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <utility>

namespace loopgrad::transforms {
namespace {

using namespace ir;
using ir::Program;

/// One access to memory that threads share.
struct Touch {
  Array array;  // one for all that may alias
  std::vector<Expr> indices;
  bool writes = false;
  std::set<Symbol> own = {};  // iterators inside the statement, of which threads have different values at once
};

bool any_mentions(const std::vector<Expr>& indices, const std::set<Symbol>& symbols) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
    return std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& s) { return mentions(index, s); });
  });
}

/// One kernel.
class BarrierPlacer {
 public:
  BarrierPlacer(const Stmt& kernel, const std::set<Array>& aliased) : aliased_(aliased), least_(kernel) {
    walk_stmts(kernel, [&](const Stmt& s) {
      if (const auto* n = s.as<Assign>()) written_.insert(n->array);
      if (const auto* n = s.as<Reduce>()) written_.insert(n->array);
    });
    for (const Array& array : aliased)
      if (written_.count(array)) written_.insert(aliased.begin(), aliased.end());
  }

  /// `s`: Grid loops and what is inside.
  Stmt place(const Stmt& s) {
    if (has_mode(s, LoopMode::Grid)) return with_mapped_body(s, place(s.as<For>()->body));
    std::vector<Stmt> body = {inside(s)};
    // The block's next iteration is independent of this one but for the memory that it uses again.
    const bool shared = std::any_of(pending_.begin(), pending_.end(),
                                    [&](const Touch& touch) { return shared_.count(touch.array) > 0; });
    if (shared) wait(body);
    return block(std::move(body));
  }

 private:
  Stmt inside(const Stmt& s) {
    std::vector<Stmt> out;
    visit(s, out);
    return block(std::move(out));
  }
  /// The body of a loop or branch, which ends with a barrier where something has been written since the last one, or,
  /// `again`, read that the body writes. What has been read before counts on after it, unless it `runs` in any case.
  Stmt body_of(const Stmt& s, bool again, bool runs) {
    const std::vector<Touch> before_it = pending_;
    const int waits = waits_;
    std::vector<Stmt> out = {inside(s)};
    std::set<Array> written;
    for (const Touch& touch : touched_by(s))
      if (again && touch.writes) written.insert(touch.array);
    if (std::any_of(pending_.begin(), pending_.end(),
                    [&](const Touch& touch) { return touch.writes || written.count(touch.array) > 0; }))
      wait(out);
    if (waits_ != waits && !runs) also_pending(before_it);
    return block(std::move(out));
  }

  /// Adds a statement that all threads execute together, with the barriers that it needs.
  void visit(const Stmt& s, std::vector<Stmt>& out) {
    if (!s) return;
    ir::visit(s, overloaded{
                     [&](const Block& n) {
                       for (const Stmt& child : n.body) visit(child, out);
                     },
                     [&](const Allocate& n) {
                       (n.home == Home::Block ? shared_ : copies_).insert(n.array);
                       const Stmt rest = inside(n.body);
                       out.push_back(with_mapping(s, [&](Allocate& copy) { copy.body = rest; }));
                     },
                     [&](const For& n) { visit_loop(s, n, out); },
                     [&](const While& n) {
                       before_control({n.max_trips, n.condition}, out);
                       const std::vector<Touch> outside = pending_;
                       // All have evaluated the condition before any changes what it reads, and the other way round.
                       std::vector<Stmt> trip = {inside(n.body)};
                       wait(trip);
                       out.push_back(while_loop(n.iterator, n.max_trips, n.condition, block(trip), n.location));
                       pending_ = outside;  // when the condition does not hold they are just behind it
                     },
                     [&](const If& n) {
                       before_control({n.condition}, out);
                       const std::vector<Touch> outside = pending_;
                       const Stmt then_body = body_of(n.then_body, false, false);
                       std::vector<Touch> after = std::exchange(pending_, outside);
                       const Stmt else_body = n.else_body ? body_of(n.else_body, false, false) : Stmt();
                       also_pending(after);
                       out.push_back(if_then(n.condition, then_body, else_body, n.location));
                     },
                     [&](const Contraction& n) { visit(n.loops, out); },
                     [&](const auto&) {
                       before(touched_by(s), out);
                       out.push_back(s);
                     },
                 });
  }

  void visit_loop(const Stmt& s, const For& n, std::vector<Stmt>& out) {
    if (n.mode == LoopMode::Threads) {
      before(touched_by(s), out);
      out.push_back(s);
    } else if (has_one_trip(n) && !has_load(n.lower)) {
      out.push_back(with_mapped_body(s, inside(n.body)));
    } else {
      before_control({n.lower, n.upper}, out);
      out.push_back(with_mapped_body(s, body_of(n.body, true, least_.is_at_least(n.upper - n.lower, 1))));
    }
  }

  void note(const Array& array, const std::vector<Expr>& indices, bool writes, std::vector<Touch>& touched) const {
    if (copies_.count(array) || !written_.count(array)) return;
    if (aliased_.count(array)) touched.push_back({*aliased_.begin(), {}, writes});
    else touched.push_back({array, indices, writes});
  }
  void note_loads(const Expr& e, std::vector<Touch>& touched) const {
    if (const auto* l = e.as<Load>()) note(l->array, l->indices, false, touched);
  }

  std::vector<Touch> touched_by(const Stmt& s) const {
    std::vector<Touch> touched;
    std::set<Symbol> own;
    walk(
        s,
        [&](const Stmt& t) {
          if (const auto* n = t.as<Assign>()) note(n->array, n->indices, true, touched);
          if (const auto* n = t.as<Reduce>()) note(n->array, n->indices, true, touched);
          if (const auto* n = t.as<For>()) own.insert(n->iterator);
          if (const auto* n = t.as<While>()) own.insert(n->iterator);
        },
        [&](const Expr& e) { note_loads(e, touched); });
    for (Touch& touch : touched) touch.own = own;
    return touched;
  }

  bool are_apart(const Touch& a, const Touch& b) const {
    if (std::any_of(a.indices.begin(), a.indices.end(), has_load)) return false;
    if (std::any_of(b.indices.begin(), b.indices.end(), has_load)) return false;
    // A symbol in both must be one value, the same for all threads.
    if (any_mentions(a.indices, b.own) || any_mentions(b.indices, a.own)) return false;
    return a.indices.size() == b.indices.size() && least_.are_apart(a.indices, b.indices);
  }

  void before(const std::vector<Touch>& next, std::vector<Stmt>& out) {
    const bool meet = std::any_of(next.begin(), next.end(), [&](const Touch& a) {
      return std::any_of(pending_.begin(), pending_.end(), [&](const Touch& b) {
        return a.array == b.array && (a.writes || b.writes) && !are_apart(a, b);
      });
    });
    if (meet) wait(out);
    pending_.insert(pending_.end(), next.begin(), next.end());
  }
  /// Before control flow that all threads take together, as these decide.
  void before_control(std::initializer_list<Expr> decided_by, std::vector<Stmt>& out) {
    if (std::any_of(pending_.begin(), pending_.end(), [](const Touch& touch) { return touch.writes; })) wait(out);
    std::vector<Touch> touched;
    for (const Expr& e : decided_by) walk(e, [&](const Expr& x) { note_loads(x, touched); });
    before(touched, out);
  }
  /// Each once: what both sides of a branch leave would double with every branch.
  void also_pending(const std::vector<Touch>& touched) {
    for (const Touch& a : touched) {
      const bool known = std::any_of(pending_.begin(), pending_.end(), [&](const Touch& b) {
        return a.array == b.array && a.writes == b.writes && a.own == b.own && ir::equal(a.indices, b.indices);
      });
      if (!known) pending_.push_back(a);
    }
  }
  void wait(std::vector<Stmt>& out) {
    out.push_back(barrier());
    pending_.clear();
    ++waits_;
  }

  const std::set<Array>& aliased_;
  const LeastValues least_;
  std::set<Array> written_;  // in the kernel, or what may be the same memory
  std::set<Array> shared_,
      copies_;  // locals outside of loops over threads: of the block, and of which each has its own
  int waits_ = 0;
  std::vector<Touch> pending_;  // since the last barrier
};

class KernelRewriter final : public Rewriter {
 public:
  explicit KernelRewriter(const Program& program) : aliased_(aliased_arrays(program)) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (!has_mode(s, LoopMode::Grid)) return rewrite_children(s);
    if (s.as<For>()->block.empty()) return s;
    return with_mapping(BarrierPlacer(s, aliased_).place(s), [](For& kernel) { kernel.run.barriers = true; });
  }

 private:
  const std::set<Array> aliased_;
};

}  // namespace

Program place_barriers(const Program& program) {
  return with_body(program, KernelRewriter(program).rewrite(program.body));
}

}  // namespace loopgrad::transforms
