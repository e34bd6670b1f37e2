#include "dsl/poly/linear_constraints.h"

#include "dsl/ir/wrapping.h"

#include <algorithm>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;

namespace {

// Extrema inside of each other double the rows, and parts that are shared are gone through as often as they are used.
constexpr std::size_t most_work = 1 << 14;  // rows, each time that a part is added to all of them

bool accumulate(std::int64_t& sum, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

bool scale(std::int64_t& value, std::int64_t by) { return !__builtin_mul_overflow(value, by, &value); }

bool scale(std::vector<std::int64_t>& values, std::int64_t by) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t& value) { return scale(value, by); });
}

// `values[k]`, enlarged where needed.
std::int64_t& at(std::vector<std::int64_t>& values, std::size_t k) {
  if (values.size() <= k) values.resize(k + 1, 0);
  return values[k];
}

}  // namespace

bool LinearConstraints::add_variable(const ir::Symbol& symbol, std::int64_t factor, Row& row) {
  auto iterator = std::find(scope_.iterators.begin(), scope_.iterators.end(), symbol);
  if (iterator != scope_.iterators.end())
    return accumulate(at(row.of_iterators, static_cast<std::size_t>(iterator - scope_.iterators.begin())), factor, 1);
  auto parameter = std::find(parameters_.begin(), parameters_.end(), symbol);
  const auto number = static_cast<std::size_t>(parameter - parameters_.begin());
  if (parameter == parameters_.end()) parameters_.push_back(symbol);
  return accumulate(at(row.of_parameters, number), factor, 1);
}

// A minimum added to something that is not negative: so it is with both of its operands. Likewise a maximum subtracted.
bool LinearConstraints::add_extremum(const ir::Binary& node, std::int64_t factor, Rows& rows) {
  if (factor != 0 && (factor > 0) != (node.op == BinaryOp::Min)) return false;
  Rows with_b = rows;
  if (!add_multiple(node.a, factor, rows) || !add_multiple(node.b, factor, with_b)) return false;
  rows.insert(rows.end(), with_b.begin(), with_b.end());
  return true;
}

bool LinearConstraints::add_multiple(const Expr& e, std::int64_t factor, Rows& rows) {
  const auto to_each = [&](const auto& add) { return std::all_of(rows.begin(), rows.end(), add); };
  work_ += rows.size();
  if (!is_integer(e.type()) || work_ > most_work) return false;
  if (auto* node = e.as<ir::IntConst>())
    return to_each([&](Row& row) { return accumulate(row.constant, factor, node->value); });
  if (auto* node = e.as<ir::Var>()) return to_each([&](Row& row) { return add_variable(node->symbol, factor, row); });
  if (auto* node = e.as<ir::Unary>()) return node->op == ir::UnaryOp::Neg && add_product(node->a, factor, -1, rows);
  if (auto* node = e.as<ir::Cast>())
    return is_integer(node->a.type()) && bytes_of(node->a.type()) <= bytes_of(node->type) &&
           add_multiple(node->a, factor, rows);
  auto* node = e.as<ir::Binary>();
  if (!node || (!scope_.never_wraps && ir::may_wrap(e))) return false;
  const auto a = ir::as_int(node->a), b = ir::as_int(node->b);
  switch (node->op) {
    case BinaryOp::Add: return add_multiple(node->a, factor, rows) && add_multiple(node->b, factor, rows);
    case BinaryOp::Sub: return add_multiple(node->a, factor, rows) && add_product(node->b, factor, -1, rows);
    case BinaryOp::Mul: return a ? add_product(node->b, factor, *a, rows) : b && add_product(node->a, factor, *b, rows);
    case BinaryOp::Min:
    case BinaryOp::Max: return add_extremum(*node, factor, rows);
    case BinaryOp::FloorDiv:
      if (!b || *b <= 0 || (factor != 1 && factor != -1)) return false;
      return to_each([&](Row& row) {
        if (row.quotient) return false;
        row.quotient = node;
        row.of_quotient = factor;
        return true;
      });
    default: return false;
  }
}

bool LinearConstraints::add_product(const Expr& e, std::int64_t factor, std::int64_t other, Rows& rows) {
  return scale(factor, other) && add_multiple(e, factor, rows);
}

// s + floor(a/c) >= 0 is c*s + a >= 0, and s - floor(a/c) >= 0 is c*s - a + c - 1 >= 0.
bool LinearConstraints::resolve_quotients(Rows& rows) {
  Rows result;
  for (const Row& row : rows) {
    Rows resolved{row};
    if (row.quotient) {
      const std::int64_t divisor = *ir::as_int(row.quotient->b);
      Row& sum = resolved[0];
      sum.quotient = nullptr;
      if (!scale(sum.of_iterators, divisor) || !scale(sum.of_parameters, divisor) || !scale(sum.constant, divisor) ||
          !accumulate(sum.constant, row.of_quotient < 0 ? divisor - 1 : 0, 1) ||
          !add_multiple(row.quotient->a, row.of_quotient, resolved) || !resolve_quotients(resolved))
        return false;
    }
    result.insert(result.end(), resolved.begin(), resolved.end());
  }
  rows = std::move(result);
  return true;
}

bool LinearConstraints::add(const Expr& condition) {
  auto* node = condition.as<ir::Binary>();
  if (!node || !ir::is_comparison(node->op) || node->op == BinaryOp::Ne || !is_integer(node->a.type())) return false;
  const bool equal = node->op == BinaryOp::Eq;
  const bool strict = node->op == BinaryOp::Lt || node->op == BinaryOp::Gt;
  const std::int64_t sign = node->op == BinaryOp::Lt || node->op == BinaryOp::Le ? -1 : 1;
  const std::size_t known = parameters_.size();
  work_ = 0;
  const auto give_up = [&] {
    parameters_.resize(known);
    return false;
  };
  Rows rows(1), reversed(1);
  rows[0].constant = strict ? -1 : 0;
  if (!add_multiple(node->a, sign, rows) || !add_multiple(node->b, -sign, rows)) return give_up();
  if (equal) {
    if (!add_multiple(node->a, -sign, reversed) || !add_multiple(node->b, sign, reversed)) return give_up();
    if (!rows[0].quotient) {
      equalities_.push_back(rows[0]);
      return true;
    }
    rows.insert(rows.end(), reversed.begin(), reversed.end());
  }
  if (!resolve_quotients(rows)) return give_up();
  inequalities_.insert(inequalities_.end(), rows.begin(), rows.end());
  return true;
}

isl_mat* LinearConstraints::matrix(const Rows& rows) const {
  isl_ctx* ctx = scope_.context->isl().get();
  const std::size_t iterators = scope_.iterators.size(), parameters = parameters_.size();
  const std::size_t columns = parameters + iterators + 1;
  isl_mat* result = isl_mat_alloc(ctx, static_cast<unsigned>(rows.size()), static_cast<unsigned>(columns));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::int64_t> values = rows[r].of_parameters;
    values.resize(parameters, 0);
    values.insert(values.end(), rows[r].of_iterators.begin(), rows[r].of_iterators.end());
    values.resize(columns, 0);
    values.back() = rows[r].constant;
    for (std::size_t c = 0; c < columns; ++c)
      result = isl_mat_set_element_val(result, static_cast<int>(r), static_cast<int>(c),
                                       isl_val_int_from_si(ctx, static_cast<long>(values[c])));
  }
  return result;
}

isl::set LinearConstraints::points() const {
  isl_space* space = scope_.space().release();
  for (const ir::Symbol& symbol : parameters_)
    space = isl_space_add_param_id(space, scope_.context->id_of(symbol).release());
  isl_basic_set* all = isl_basic_set_from_constraint_matrices(space, matrix(equalities_), matrix(inequalities_),
                                                              isl_dim_param, isl_dim_set, isl_dim_div, isl_dim_cst);
  return checked(*scope_.context, isl_set_from_basic_set(all));
}

}  // namespace loopgrad::poly
