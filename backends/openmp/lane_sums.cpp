#include "backends/openmp/lane_sums.h"

namespace loopgrad::backend {
namespace {

using namespace ir;

constexpr std::size_t lanes = 8;  // as many as sums

}  // namespace

const char* const lane_sums_text = R"(
// A value for each of eight neighbouring iterations.
template <class T>
using Lanes __attribute__((vector_size(8 * sizeof(T)))) = T;

// Through arrays, because lanes of a vector that are named one by one stay single numbers.
template <class T, class Step>
inline void add_lanes(Lanes<T>& sums, int64_t first, Step step) {
  T before[8], after[8];
  __builtin_memcpy(before, &sums, sizeof(sums));
#pragma omp simd simdlen(8)
  for (int lane = 0; lane < 8; ++lane) after[lane] = step(first + lane, before[lane]);
  __builtin_memcpy(&sums, after, sizeof(sums));
}

// Adds up the lanes of eight sums: first those of pairs of sums, then of four, then of all.
template <class T>
inline void add_up_lanes(const Lanes<T> (&sums)[8], T (&totals)[8]) {
  Lanes<T> pairs[4], fours[2];
  for (int k = 0; k < 4; ++k)
    pairs[k] = __builtin_shufflevector(sums[2 * k], sums[2 * k + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
               __builtin_shufflevector(sums[2 * k], sums[2 * k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  for (int k = 0; k < 2; ++k)
    fours[k] = __builtin_shufflevector(pairs[2 * k], pairs[2 * k + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               __builtin_shufflevector(pairs[2 * k], pairs[2 * k + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  const Lanes<T> all = __builtin_shufflevector(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) +
                       __builtin_shufflevector(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
  for (int k = 0; k < 8; ++k) totals[k] = all[k];
}
)";

void emit_lane_sums(const For& loop, const LoopHeader& header, CodeText& code, EmitState& state) {
  std::vector<const Reduce*> sums;
  for (const Stmt& s : loop.body.as<Block>()->body) sums.push_back(s.as<Reduce>());
  state.helpers.insert(Helper::LaneSums);
  const std::string type = storage_cpp_type(sums.front()->array), iterator = state.names.of(loop.iterator),
                    partial = state.names.fresh("lane_sums"), totals = state.names.fresh("totals"),
                    first = state.names.fresh(iterator + "_first");
  code.line("Lanes<{}> {}[{}] = {{}};", type, partial, lanes);
  code.line("int64_t {} = {};", first, header.lower);
  code.line("for (; {0} + {1} <= {2}; {0} += {1}) {{", first, lanes, header.upper);
  code.indented([&] {
    for (std::size_t k = 0; k < lanes; ++k) {
      code.comment(sums[k]->location);
      code.line("add_lanes<{0}>({1}[{2}], {3}, [&](int64_t {4}, {0} before) {{ return {5}; }});", type, partial, k,
                first, iterator, updated_text(*sums[k], "before", state));
    }
  });
  code.line("}}");
  code.line("for (int64_t {0} = {1}; {0} < {2}; ++{0}) {{", iterator, first, header.upper);
  code.indented([&] {
    for (const Reduce* sum : sums) {
      const std::string& total = state.names.of(sum->array);
      code.line("{} = {};", total, updated_text(*sum, total, state));
    }
  });
  code.line("}}");
  code.line("{} {}[{}];", type, totals, lanes);
  code.line("add_up_lanes<{}>({}, {});", type, partial, totals);
  for (std::size_t k = 0; k < lanes; ++k) code.line("{} += {}[{}];", state.names.of(sums[k]->array), totals, k);
}

}  // namespace loopgrad::backend
