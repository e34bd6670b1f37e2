#include "transforms/map/gpu/hoist_parallel_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/fuse.h"

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

class Hoister {
 public:
  Hoister(const ir::Program& program, Analyses& analyses) : program_(program), analyses_(analyses) {}

  ir::Program run() {
    // One change at a time: legality is asked of the program as it is then.
    while (step(program_.body, false)) {
    }
    return program_;
  }

 private:
  /// Makes the first change that is possible at or below `s`.
  bool step(const Stmt& s, bool in_parallel) {
    if (!s) return false;
    if (const auto* n = s.as<ir::Block>(); n && in_parallel && join_fills(s, *n)) return true;
    in_parallel |= is_parallel_loop(s);
    if (const auto* loop = s.as<ir::For>()) {
      const Stmt merged = untiled(*loop);
      if (merged) {
        program_ = ir::with_body(program_, replace(program_.body, s, merged));
        return true;
      }
      if (exchange(s, *loop)) return true;
    }
    bool changed = false;
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                         [&](const Stmt& child) { changed = changed || step(child, in_parallel); }});
    return changed;
  }

  bool exchange(const Stmt& s, const ir::For& outer) {
    if (!is_parallel_loop(outer.body) || refused_.count(s.get()) || ir::uses_stack(s)) return false;
    refused_.insert(s.get());
    const Stmt exchanged = with_parallel_outermost(s);
    return exchanged && accept(replace(program_.body, s, exchanged), exchanged);
  }

  /// Changes the program's body when the iterations of `loop`, a part of it, are independent.
  bool accept(const Stmt& body, const Stmt& loop) {
    const ir::Program candidate = ir::with_body(program_, body);
    if (!can_run_in_parallel({candidate, analyses_}, loop).ok) return false;
    program_ = candidate;
    return true;
  }

  /// Parallel loops around assignments of constants.
  static bool is_fill(const Stmt& s) {
    if (const auto* n = s.as<ir::Assign>()) return n->value.kind() == ir::Kind::FloatConst;
    return is_parallel_loop(s) && is_fill(s.as<ir::For>()->body);
  }

  bool join_fills(const Stmt& s, const ir::Block& n) {
    for (std::size_t k = 0; k + 1 < n.body.size(); ++k) {
      const auto* fill = n.body[k].as<ir::For>();
      if (!fill || !is_fill(n.body[k]) || !is_parallel_loop(n.body[k + 1]) || !refused_.insert(fill).second) continue;
      const auto fusion = fusion_of(n.body[k], n.body[k + 1]);
      if (!fusion || fusion->ahead[0] != 0) continue;
      const Stmt joined = fused(*fusion, Named::Second);
      std::vector<Stmt> body = n.body;
      body[k] = joined;
      body.erase(body.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      if (accept(replace(program_.body, s, ir::block(std::move(body))), joined)) return true;
    }
    return false;
  }

  /// parallel b in 0..ceil(n/c): parallel i in c*b..min(n, c*b + c)  ->  parallel i in 0..n. Null when it is not that.
  static Stmt untiled(const ir::For& tiles) {
    const auto* inner = tiles.body.as<ir::For>();
    if (tiles.mode != LoopMode::Parallel || ir::as_int(tiles.lower) != 0 || !inner || inner->mode != LoopMode::Parallel)
      return {};
    const auto size = coefficient_of(inner->lower, tiles.iterator);
    const auto* least = inner->upper.as<ir::Binary>();
    if (!size || *size < 1 || !least || least->op != BinaryOp::Min) return {};
    const Expr start = ir::var(tiles.iterator) * ir::int_const(*size);
    if (!same_value(inner->lower, start)) return {};
    const Expr end = start + ir::int_const(*size);
    const Expr extent = same_value(least->a, end) ? least->b : least->a;
    if (!same_value(least->a, end) && !same_value(least->b, end)) return {};
    const Expr one = ir::int_const(1), width = ir::int_const(*size);
    const Expr count = ir::binary(BinaryOp::FloorDiv, extent - one, width) + one;
    const Expr count2 = ir::binary(BinaryOp::FloorDiv, extent + ir::int_const(*size - 1), width);
    if (mentions(extent, tiles.iterator) || (!same_value(tiles.upper, count) && !same_value(tiles.upper, count2)))
      return {};
    bool used = false;
    ir::walk(
        inner->body, [](const Stmt&) {},
        [&](const Expr& e) {
          const auto* v = e.as<ir::Var>();
          used |= v && v->symbol == tiles.iterator;
        });
    if (used) return {};
    return ir::for_loop(inner->iterator, ir::int_const(0), extent, inner->body, LoopMode::Parallel, inner->location,
                        inner->at_most);
  }

  ir::Program program_;
  Analyses& analyses_;
  std::set<const ir::StmtNode*> refused_;
};

}  // namespace

ir::Program hoist_parallel_loops(const ir::Program& program, PassContext& context) {
  return Hoister(program, analyses(context)).run();
}

}  // namespace loopgrad::transforms
