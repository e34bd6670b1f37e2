#include "transforms/map/gpu/row_pieces.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

bool is_ragged(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  return loop && is_parallel_loop(s) && !(host_knows(loop->lower) && host_knows(loop->upper));
}

Stmt in_pieces(const ir::For& row, const Expr& pieces) {
  const ir::Symbol piece = ir::make_symbol("piece");
  const Expr lower = ir::cast(ScalarType::I64, row.lower), upper = ir::cast(ScalarType::I64, row.upper);
  const Expr share = ceil_div(upper - lower, pieces), first = lower + ir::var(piece) * share;
  const Stmt part = ir::for_loop(row.iterator, first, ir::smaller(first + share, upper), row.body, row.mode,
                                 row.location, row.at_most);
  return ir::for_loop(piece, number(0), pieces, part, ir::LoopMode::Parallel, row.location);
}

}  // namespace

Stmt row_pieces(const ParallelNest& nest, const Expr& pieces) {
  const auto* list = nest.body.as<ir::Block>();
  const std::vector<Stmt> all = list ? list->body : std::vector<Stmt>{nest.body};
  std::vector<Stmt> result;
  bool some = false;
  for (const Stmt& s : all) {
    if (!is_parallel_loop(s)) return {};
    const bool cut = is_ragged(s);
    some |= cut;
    const Stmt own = around(nest.loops, cut ? in_pieces(*s.as<ir::For>(), pieces) : s);
    result.push_back(result.empty() ? own : ir::with_fresh_names(own));
  }
  return some ? ir::block(std::move(result)) : Stmt();
}

}  // namespace loopgrad::transforms
