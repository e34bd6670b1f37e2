#include "dsl/poly/linear_constraints.h"

#include <algorithm>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;

namespace {

bool accumulate(std::int64_t& sum, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum);
}

// `of` enlarged where needed.
std::int64_t& at(std::vector<std::int64_t>& values, std::size_t of) {
  if (values.size() <= of) values.resize(of + 1, 0);
  return values[of];
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

bool LinearConstraints::add_multiple(const Expr& e, std::int64_t factor, Row& row) {
  if (!is_integer(e.type())) return false;
  if (auto* node = e.as<ir::IntConst>()) return accumulate(row.constant, factor, node->value);
  if (auto* node = e.as<ir::Var>()) return add_variable(node->symbol, factor, row);
  if (auto* node = e.as<ir::Unary>()) return node->op == ir::UnaryOp::Neg && add_product(node->a, factor, -1, row);
  if (auto* node = e.as<ir::Cast>())
    return is_integer(node->a.type()) && bytes_of(node->a.type()) <= bytes_of(node->type) &&
           add_multiple(node->a, factor, row);
  auto* node = e.as<ir::Binary>();
  if (!node) return false;
  if (node->op == BinaryOp::Add) return add_multiple(node->a, factor, row) && add_multiple(node->b, factor, row);
  if (node->op == BinaryOp::Sub) return add_multiple(node->a, factor, row) && add_product(node->b, factor, -1, row);
  if (node->op != BinaryOp::Mul) return false;
  if (const auto a = ir::as_int(node->a)) return add_product(node->b, factor, *a, row);
  const auto b = ir::as_int(node->b);
  return b && add_product(node->a, factor, *b, row);
}

bool LinearConstraints::add_product(const Expr& e, std::int64_t factor, std::int64_t other, Row& row) {
  std::int64_t product = 0;
  return accumulate(product, factor, other) && add_multiple(e, product, row);
}

bool LinearConstraints::add(const Expr& condition) {
  auto* node = condition.as<ir::Binary>();
  if (!node || !ir::is_comparison(node->op) || node->op == BinaryOp::Ne || !is_integer(node->a.type())) return false;
  const bool less = node->op == BinaryOp::Lt || node->op == BinaryOp::Le;
  const bool strict = node->op == BinaryOp::Lt || node->op == BinaryOp::Gt;
  Row row;
  row.constant = strict ? -1 : 0;
  const std::size_t known = parameters_.size();
  if (!add_multiple(node->a, less ? -1 : 1, row) || !add_multiple(node->b, less ? 1 : -1, row)) {
    parameters_.resize(known);
    return false;
  }
  (node->op == BinaryOp::Eq ? equalities_ : inequalities_).push_back(std::move(row));
  return true;
}

isl_mat* LinearConstraints::matrix(const std::vector<Row>& rows) const {
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
