#include "transforms/map/gpu/peel_last_steps.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/peel.h"
#include "transforms/map/gpu/fuse_nests.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

class Peeler {
 public:
  Peeler(const ir::Program& program, Analyses& analyses) : program_(program), analyses_(analyses) {}

  ir::Program run() {
    while (step(program_.body)) {
    }
    return program_;
  }

 private:
  /// Makes the first change that is possible in the host's part at or below `s`.
  bool step(const Stmt& s) {
    if (!s || is_parallel_loop(s)) return false;
    const auto* block = s.as<ir::Block>();
    for (std::size_t k = 0; block && k + 1 < block->body.size(); ++k)
      if (peel(s, k)) return true;
    bool changed = false;
    ir::for_each_child(
        s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { changed = changed || step(child); }});
    return changed;
  }

  /// The last iteration of a loop in a block before it is over, fused with what follows; false where that does not fit.
  bool peel(const Stmt& s, std::size_t k) {
    const auto& list = s.as<ir::Block>()->body;
    const Stmt &first = list[k], &second = list[k + 1];
    const auto* loop = first.as<ir::For>();
    if (!loop || peeled_.count(first.get()) || is_parallel_loop(first) || !is_parallel_loop(loop->body) ||
        !is_parallel_loop(second))
      return false;
    const std::optional<Peeled> peeled = peel_last(*loop);
    if (!peeled) return false;
    const std::optional<NestsToFuse> both = nests_to_fuse(peeled->last, second);
    if (!both) return false;
    std::vector<Stmt> body = list;
    body[k] = ir::if_then(ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper),
                          ir::block({peeled->before, both->nest}), ir::with_fresh_names(second), loop->location);
    body.erase(body.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    const ir::Program candidate = ir::with_body(program_, replace(program_.body, s, ir::block(std::move(body))));
    if (!can_fuse_parallel({candidate, analyses_}, both->fusion, both->nest).ok) return false;
    program_ = candidate;
    peeled_.insert(peeled->before.get());
    return true;
  }

  ir::Program program_;
  Analyses& analyses_;
  std::set<const ir::StmtNode*> peeled_;  // once is enough
};

}  // namespace

ir::Program peel_last_steps(const ir::Program& program, PassContext& context) {
  return Peeler(program, analyses(context)).run();
}

}  // namespace loopgrad::transforms
