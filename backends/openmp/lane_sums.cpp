#include "backends/openmp/lane_sums.h"

#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::backend {
namespace {

using namespace ir;

constexpr std::size_t lanes = 8;  // as many as sums, so that adding up their lanes fills one vector

/// Whether a term has the same operations in every lane, on neighbouring elements or on one.
bool fits(const Expr& e, ScalarType type, const Symbol& iterator) {
  if (e.type() != type) return false;
  if (e.kind() == Kind::FloatConst) return true;
  if (const auto* negated = e.as<Unary>()) return negated->op == UnaryOp::Neg && fits(negated->a, type, iterator);
  if (const auto* all = e.as<Fma>())
    return fits(all->a, type, iterator) && fits(all->b, type, iterator) && fits(all->c, type, iterator);
  if (const auto* both = e.as<Binary>()) {
    static constexpr BinaryOp arithmetic[] = {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div};
    return std::find(std::begin(arithmetic), std::end(arithmetic), both->op) != std::end(arithmetic) &&
           fits(both->a, type, iterator) && fits(both->b, type, iterator);
  }
  const auto* load = e.as<Load>();
  if (!load || load->array->type != type) return false;
  for (std::size_t d = 0; d < load->indices.size(); ++d) {
    const auto stride = ir::coefficient_of(load->indices[d], iterator);
    const bool last = d + 1 == load->indices.size();
    if (!stride || (*stride != 0 && !(last && *stride == 1))) return false;
  }
  return true;
}

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

std::vector<const Reduce*> lane_sums_of(const For& loop) {
  const auto* body = loop.body.as<Block>();
  if (!body || body->body.size() != lanes) return {};
  std::vector<const Reduce*> sums;
  for (const Stmt& s : body->body) {
    const auto* sum = s.as<Reduce>();
    if (!sum || sum->atomic || sum->op != ReduceOp::Add || !sum->array->shape.empty()) return {};
    const ScalarType type = sum->array->type;
    const bool known = std::any_of(sums.begin(), sums.end(), [&](const Reduce* r) { return r->array == sum->array; });
    if (known || (type != ScalarType::F32 && type != ScalarType::F64) || !fits(sum->value, type, loop.iterator))
      return {};
    if (!sums.empty() && sums.front()->array->type != type) return {};
    sums.push_back(sum);
  }
  return sums;
}

void emit_lane_sums(const For& loop, const std::vector<const Reduce*>& sums, const LoopHeader& header, CodeText& code,
                    EmitState& state) {
  state.helpers.insert(Helper::LaneSums);
  const std::string type = storage_cpp_type(sums.front()->array->type), iterator = state.names.of(loop.iterator),
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
