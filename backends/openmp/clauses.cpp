#include "backends/openmp/clauses.h"

#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string pays_text(const std::vector<ThreadLoop>& loops, EmitState& state) {
  std::string all;
  for (const ThreadLoop& loop : loops) {
    const std::string pays = pays_text(loop, state);
    if (pays.empty()) return "";
    all += (all.empty() ? "" : " || ") + pays;
  }
  return all;
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

std::string reduction_clauses(const LoopPlan& plan, EmitState& state) {
  static const char* const operators[] = {"+", "*", "min_of", "max_of"};
  std::string out;
  std::size_t sums = 0, widest = 4;
  for (const auto& [op, arrays] : plan.simd_reductions) {
    std::string list;
    sums += arrays.size();
    for (const Array& array : arrays) widest = std::max(widest, bytes_of(array->type));
    for (const Array& array : arrays) list += (list.empty() ? "" : ", ") + state.names.of(array);
    out += fmt::format(" reduction({} : {})", operators[static_cast<int>(op)], list);
    if (op == ReduceOp::Min) state.helpers.insert(Helper::MinReduction);
    if (op == ReduceOp::Max) state.helpers.insert(Helper::MaxReduction);
  }
  // Many sums keep the processor busy in narrow registers too, and those take fewer steps to be added up at the end.
  if (sums >= 4) out += fmt::format(" simdlen({})", 32 / widest);
  return out;
}

}  // namespace loopgrad::backend
