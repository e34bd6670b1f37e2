#include "transforms/map/gpu/peel_last_steps.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/map/gpu/fuse_nests.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

class Peeler {
 public:
  explicit Peeler(const ir::Program& program) : program_(program) {}

  Stmt visit(const Stmt& s) const {
    return rewrite_host_blocks(s, [this](const ir::Block& n) { return block(n); });
  }

 private:
  Stmt block(const ir::Block& n) const {
    std::vector<Stmt> result;
    for (const Stmt& child : n.body) {
      const Stmt peeled = result.empty() ? Stmt() : peel(result.back(), child);
      if (peeled) result.back() = peeled;
      else result.push_back(visit(child));
    }
    return ir::block(std::move(result));
  }

  /// Both with the last iteration of `first` before it is over fused with `second`; null where that does not fit.
  Stmt peel(const Stmt& first, const Stmt& second) const {
    const auto* loop = first.as<ir::For>();
    if (!loop || is_parallel_loop(first) || !is_parallel_loop(loop->body) || !is_parallel_loop(second)) return {};
    if (ir::has_load(loop->lower) || ir::has_load(loop->upper)) return {};
    const bool backward = loop->mode == ir::LoopMode::Backward;
    if (!backward && loop->mode != ir::LoopMode::Forward) return {};
    const Expr one = ir::int_const(1);
    const Expr last = backward ? loop->lower : simplify_indices(loop->upper - one);
    const Stmt step = simplify_indices(ir::substitute(ir::with_fresh_names(loop->body), {{loop->iterator, last}}));
    const Stmt fused = fused_nests(program_, step, second);
    if (!fused) return {};
    const Stmt before = ir::for_loop(loop->iterator, backward ? simplify_indices(loop->lower + one) : loop->lower,
                                     backward ? loop->upper : last, loop->body, loop->mode, loop->location);
    return ir::if_then(ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper), ir::block({before, fused}),
                       ir::with_fresh_names(second), loop->location);
  }

  const ir::Program& program_;
};

}  // namespace

ir::Program peel_last_steps(const ir::Program& program) {
  return ir::with_body(program, Peeler(program).visit(program.body));
}

}  // namespace loopgrad::transforms
