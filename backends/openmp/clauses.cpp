#include "backends/openmp/clauses.h"

#include "dsl/ir/visit.h"

#include <fmt/format.h>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// Below this many operations a parallel loop costs more than it gains.
constexpr std::int64_t least_parallel_work = 20000;

bool reads_data(const For& loop) { return has_load(loop.lower) || has_load(loop.upper); }

/// The condition under which threads pay for a loop; empty when they surely do.
std::string pays_text(const ThreadLoop& l, EmitState& state) {
  const For& loop = *l.loop;
  const Expr work = work_of_trip(loop);
  std::string total;
  if (reads_data(loop)) {
    total = fmt::format("({} - {}) * {}", l.header.upper, l.header.lower, text_of(work, state, Level::Prefix));
  } else {
    const Expr operations = (loop.upper - loop.lower) * work;
    if (const auto known = as_int(operations); known && *known >= least_parallel_work) return "";
    total = text_of(operations, state, Level::Relation);
  }
  return fmt::format("{} >= {}", total, least_parallel_work);
}

}  // namespace

std::string if_clause(const std::vector<ThreadLoop>& loops, EmitState& state) {
  std::string all;
  for (const ThreadLoop& loop : loops) {
    const std::string pays = pays_text(loop, state);
    if (pays.empty()) return "";
    all += (all.empty() ? "" : " || ") + pays;
  }
  return fmt::format(" if (parallel : {})", all);
}

std::string share_text(const For& loop, const LoopHeader& header, const LoopPlan& plan, EmitState& state) {
  std::string trips = reads_data(loop) ? fmt::format("({} - {})", header.upper, header.lower)
                                       : text_of(loop.upper - loop.lower, state, Level::Prefix);
  const For* inner = &loop;
  for (int i = 1; i < plan.collapse; ++i) {
    inner = inner->body.as<For>();
    trips += " * " + text_of(inner->upper - inner->lower, state, Level::Prefix);
  }
  return trips + " / (64 * threads) + 1";
}

}  // namespace loopgrad::backend
