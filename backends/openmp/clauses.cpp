#include "backends/openmp/clauses.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace loopgrad::backend {
namespace {

using namespace ir;

bool reads_data(const For& loop) { return has_load(loop.lower) || has_load(loop.upper); }

/// The condition under which threads pay for a loop; empty when they surely do.
std::string pays_text(const ThreadLoop& l, EmitState& state) {
  const For& loop = *l.loop;
  if (!loop.work) return "";
  const std::string total = reads_data(loop) ? fmt::format("({} - {}) * {}", l.header.upper, l.header.lower,
                                                           text_of(loop.work, state, Level::Prefix))
                                             : text_of((loop.upper - loop.lower) * loop.work, state, Level::Relation);
  const std::string pays = fmt::format("{} >= {}", total, loop.run.least_work);
  // Blocks may be as much as that, and there may be only one.
  const auto* blocks = loop.upper.as<Binary>();
  const auto known = as_int(loop.work);
  if (!blocks || blocks->op != BinaryOp::FloorDiv || loop.run.together > 1 || (known && *known < loop.run.least_work))
    return pays;
  return fmt::format("({} && {})",
                     text_of(binary(BinaryOp::Lt, loop.lower + int_const(1), loop.upper), state, Level::And), pays);
}

/// What the lanes of the loop sum into, by operation and declaration.
std::map<ReduceOp, std::vector<Array>> sums_of_lanes(const For& loop) {
  std::set<Array> own;
  std::map<ReduceOp, std::map<std::int64_t, Array>> found;
  walk_stmts(loop.body, [&](const Stmt& s) {
    if (const auto* n = s.as<Allocate>()) own.insert(n->array);
    const auto* n = s.as<Reduce>();
    if (n && n->of_lanes && !own.count(n->array)) found[n->op][n->array->id] = n->array;
  });
  std::map<ReduceOp, std::vector<Array>> sums;
  for (const auto& [op, arrays] : found)
    for (const auto& [id, array] : arrays) sums[op].push_back(array);
  return sums;
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

std::string share_text(const For& loop, const LoopHeader& header, EmitState& state) {
  std::string trips = reads_data(loop) ? fmt::format("({} - {})", header.upper, header.lower)
                                       : text_of(loop.upper - loop.lower, state, Level::Prefix);
  const For* inner = &loop;
  for (int i = 1; i < loop.run.together; ++i) {
    inner = inner->body.as<For>();
    trips += " * " + text_of(inner->upper - inner->lower, state, Level::Prefix);
  }
  return trips + " / (64 * threads) + 1";
}

std::string lane_clauses(const For& loop, EmitState& state) {
  static const char* const operators[] = {"+", "*", "min_of", "max_of"};
  std::string out;
  for (const auto& [op, arrays] : sums_of_lanes(loop)) {
    std::string list;
    for (const Array& array : arrays) list += (list.empty() ? "" : ", ") + state.names.of(array);
    out += fmt::format(" reduction({} : {})", operators[static_cast<int>(op)], list);
    if (op == ReduceOp::Min) state.helpers.insert(Helper::MinReduction);
    if (op == ReduceOp::Max) state.helpers.insert(Helper::MaxReduction);
  }
  if (loop.run.lanes > 0) out += fmt::format(" simdlen({})", loop.run.lanes);
  return out;
}

}  // namespace loopgrad::backend
