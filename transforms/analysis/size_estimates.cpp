#include "transforms/analysis/size_estimates.h"

#include "dsl/ir/queries.h"
#include "dsl/symbolic/csr_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;

double SizeEstimator::value_of(const Expr& e, const std::map<ir::Symbol, double>& iterators) {
  if (auto value = ir::as_int(e)) return static_cast<double>(*value);
  if (auto* node = e.as<ir::Var>()) {
    if (auto it = iterators.find(node->symbol); it != iterators.end()) return it->second;
    bool is_size = std::count(program_.sizes.begin(), program_.sizes.end(), node->symbol) > 0;
    auto known = sizes_.find(node->symbol.name);
    bool given = is_size && known != sizes_.end();
    if (const ir::Fact* csr = given ? nullptr : longest_row_of(node->symbol)) return longest_row(*csr, iterators);
    double value = given ? static_cast<double>(known->second) : is_size ? assumed_size : assumed_size / 2;
    if (is_size) used_[node->symbol.name] = value;
    assumed_ |= !given;
    return value;
  }
  if (auto* node = e.as<ir::Cast>()) return value_of(node->a, iterators);
  if (auto* node = e.as<ir::Unary>(); node && node->op == ir::UnaryOp::Neg) return -value_of(node->a, iterators);
  if (auto* node = e.as<ir::Select>()) {
    const auto holds = holds_by_estimate(node->condition, iterators);
    if (!holds) return std::max(value_of(node->a, iterators), value_of(node->b, iterators));
    return value_of(*holds ? node->a : node->b, iterators);
  }
  auto* node = e.as<ir::Binary>();
  if (!node) {
    assumed_ = true;  // read from data
    return assumed_trips;
  }
  double a = value_of(node->a, iterators), b = value_of(node->b, iterators);
  switch (node->op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return b == 0 ? 0 : std::floor(a / b);
    case BinaryOp::Mod: return b == 0 ? 0 : a - b * std::floor(a / b);
    case BinaryOp::Min: return std::min(a, b);
    case BinaryOp::Max: return std::max(a, b);
    default: return 1;
  }
}

/// A comparison of numbers that follow from sizes.
std::optional<bool> SizeEstimator::holds_by_estimate(const Expr& condition,
                                                     const std::map<ir::Symbol, double>& iterators) {
  const auto* n = condition.as<ir::Binary>();
  if (!n || n->a.type() != ScalarType::I64 || ir::has_load(condition)) return std::nullopt;
  for (const auto& [iterator, value] : iterators)
    if (ir::mentions(condition, iterator)) return std::nullopt;
  const double a = value_of(n->a, iterators), b = value_of(n->b, iterators);
  switch (n->op) {
    case BinaryOp::Lt: return a < b;
    case BinaryOp::Le: return a <= b;
    case BinaryOp::Gt: return a > b;
    case BinaryOp::Ge: return a >= b;
    default: return std::nullopt;
  }
}

/// The CSR structure whose longest row it is.
const ir::Fact* SizeEstimator::longest_row_of(const ir::Symbol& size) const {
  for (const ir::Fact& fact : program_.facts) {
    const auto* longest = fact.longest ? fact.longest.as<ir::Var>() : nullptr;
    if (longest && longest->symbol == size) return &fact;
  }
  return nullptr;
}

/// As if chance chose the row of each entry.
double SizeEstimator::longest_row(const ir::Fact& csr, const std::map<ir::Symbol, double>& iterators) {
  const double rows = std::max(1.0, value_of(csr.array->shape[0], iterators) - 1);
  const double entries = value_of(csr.upper, iterators), mean = entries / rows;
  return std::min(std::max(1.0, entries), std::ceil(mean + 4 * std::sqrt(mean)));
}

const ir::Fact* SizeEstimator::rows_of(const Expr& bound) const {
  const Expr base = ir::entry_of(bound).base;
  const auto* load = base.as<ir::Load>();
  return load ? ir::csr_fact(program_, load->array) : nullptr;
}

double SizeEstimator::average_row(const ir::Fact& csr, const std::map<ir::Symbol, double>& iterators) {
  return value_of(csr.upper, iterators) / std::max(1.0, value_of(csr.array->shape[0], iterators) - 1);
}

double SizeEstimator::trips_of(const Expr& lower, const Expr& upper, const std::map<ir::Symbol, double>& iterators) {
  const auto is_in_row = [&](const Expr& bound) {  // an entry that a loop around is at
    return !ir::has_load(bound) && std::any_of(iterators.begin(), iterators.end(), [&](const auto& iterator) {
      return ir::mentions(bound, iterator.first);
    });
  };
  const ir::Fact *start = rows_of(lower), *end = rows_of(upper);
  if (start || end) {
    // Entries are counted from the start of their row, as the iterators are.
    const bool one_row = start == end || (!end && is_in_row(upper)) || (!start && is_in_row(lower));
    const double from = start ? static_cast<double>(ir::entry_of(lower).offset) : 0;
    const double to = end ? average_row(*end, iterators) + static_cast<double>(ir::entry_of(upper).offset) : 0;
    if (one_row)
      return std::max(0.0, (end ? to : value_of(upper, iterators)) - (start ? from : value_of(lower, iterators)));
  }
  if (!ir::has_load(upper)) return std::max(0.0, value_of(upper, iterators) - value_of(lower, iterators));
  assumed_ = true;
  // Where a promise stands beside the data, as many as may be with rows that are filled to a part.
  const auto* least = upper.as<ir::Binary>();
  if (!least || least->op != BinaryOp::Min || ir::has_load(lower)) return assumed_trips;
  const Expr& most = ir::has_load(least->a) ? least->b : least->a;
  if (ir::has_load(most)) return assumed_trips;
  const double room = std::max(0.0, value_of(most, iterators) - value_of(lower, iterators));
  return std::clamp(room / 2, std::min(assumed_trips, room), room);
}

bool SizeEstimator::assumed_sizes() const {
  return std::any_of(used_.begin(), used_.end(), [&](const auto& used) { return !sizes_.count(used.first); });
}

std::string SizeEstimator::basis() const {
  std::string text;
  for (const auto& [name, value] : used_) {
    bool given = sizes_.count(name) > 0;
    text += fmt::format("{}{} = {}{}", text.empty() ? "" : ", ", name, static_cast<std::int64_t>(value),
                        given ? "" : " (assumed)");
  }
  return text;
}

}  // namespace loopgrad::transforms
