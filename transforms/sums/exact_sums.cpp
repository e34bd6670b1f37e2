#include "transforms/sums/exact_sums.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/sums/partial_results.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_whole = std::int64_t{1} << 62;
// A bound of a loop may be far above its trips, and more terms of one element than this would take an hour.
constexpr std::int64_t most_terms = std::int64_t{1} << 40;
constexpr std::int64_t negative = std::int64_t{1} << 32;  // what stands for a term of minus infinity, or NaN
// Below these, largest terms count as such: what they are divided into has to be a number.
constexpr double least_of_floats = 1e-60, least_of_doubles = 1e-280;

Expr real(double value, ScalarType type) { return ir::float_const(value, type); }
Expr quotient(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Div, a, b); }

/// The sums into one target.
class Target : LoopBuilder {
 public:
  Target(const Stmt& nest, const std::vector<Stmt>& sums, const Expr& terms)
      : LoopBuilder(sums[0]->location),
        target_(sums[0].as<ir::Reduce>()->array),
        type_(value_type(target_->type)),
        is_fine_(type_ == ScalarType::F64),
        most_(real(is_fine_ ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max(), type_)),
        infinity_(real(std::numeric_limits<double>::infinity(), type_)),
        range_(quotient(real(static_cast<double>(most_whole), ScalarType::F64),
                        as_f64(ir::smaller(ir::larger(terms, number(1)), number(most_terms))))) {
    find_dims(nest, sums);
    for (const std::size_t d : dims_) shape_.push_back(target_->shape[d]);
    largest_ = local("largest_" + target_->name, shape_, type_);
    whole_ = local("whole_" + target_->name, shape_);
    if (is_fine_) rest_ = local("rest_" + target_->name, shape_);
  }

  std::vector<Array> arrays() const {
    return is_fine_ ? std::vector<Array>{largest_, whole_, rest_} : std::vector<Array>{largest_, whole_};
  }

  Stmt clear() const {
    return over([&](const std::vector<Expr>& at) {
      std::vector<Stmt> all = {set(largest_, at, real(0, type_)), set(whole_, at, number(0))};
      if (is_fine_) all.push_back(set(rest_, at, number(0)));
      return ir::block(std::move(all));
    });
  }

  Stmt largest_term(const ir::Reduce& sum) const {
    return with_term(sum, [&](const Expr& term) {
      const Expr size = ir::unary(ir::UnaryOp::Abs, term);
      const Expr noted = ir::select(ir::binary(BinaryOp::Le, size, most_), size, infinity_);
      return ir::reduce(largest_, place_of(sum), ir::ReduceOp::Max, noted, sum.location, true);
    });
  }

  Stmt whole_term(const ir::Reduce& sum) const {
    return with_term(sum, [&](const Expr& term) {
      const Expr largest = get(largest_, place_of(sum));
      // What the first time was rounded to nothing may be any number of times that.
      const Expr limited =
          ir::binary(BinaryOp::Min, ir::binary(BinaryOp::Max, as_f64(term) * scale(largest), -range_), range_);
      return is_fine_ ? in_two(sum, term, largest, limited)
                      : add(whole_, sum, whole_or_infinite(term, largest, nearest(limited)));
    });
  }

  Stmt into_target(const poly::Model* model) const {
    const Stmt all = over([&](const std::vector<Expr>& at) { return into_element(at); });
    std::vector<Expr> fixed = first_;
    const ir::Symbol any = ir::make_symbol("any");
    for (const std::size_t d : dims_) fixed[d] = ir::var(any);
    const Expr exists = model ? element_exists(*model, target_, fixed, {any}) : ir::bool_const(true);
    return ir::equal(exists, ir::bool_const(true)) ? all : ir::if_then(exists, all);
  }

 private:
  static Expr as_f64(const Expr& e) { return ir::cast(ScalarType::F64, e); }
  static Expr nearest(const Expr& e) { return ir::unary(ir::UnaryOp::Floor, e + real(0.5, ScalarType::F64)); }

  Stmt add(const Array& array, const ir::Reduce& sum, const Expr& value) const {
    return ir::reduce(array, place_of(sum), ir::ReduceOp::Add, value, sum.location, true);
  }

  /// Terms that are not finite are counted.
  Expr whole_or_infinite(const Expr& term, const Expr& largest, const Expr& whole) const {
    const Expr infinite = ir::select(ir::binary(BinaryOp::Le, term, most_), number(0), number(1)) +
                          ir::select(ir::binary(BinaryOp::Ge, term, -most_), number(0), number(negative));
    return ir::select(ir::binary(BinaryOp::Le, largest, most_), ir::cast(ScalarType::I64, whole), infinite);
  }

  /// What the first whole number leaves of a double is a second one, of units that are smaller by `range`.
  Stmt in_two(const ir::Reduce& sum, const Expr& term, const Expr& largest, const Expr& limited) const {
    const Array scaled = local("scaled", {}, type_), whole = local("whole", {}, type_);
    const Expr left = nearest((get(scaled, {}) - get(whole, {})) * range_);
    const Expr rest = ir::select(ir::binary(BinaryOp::Le, largest, most_), ir::cast(ScalarType::I64, left), number(0));
    const Stmt both =
        ir::block({set(scaled, {}, limited), set(whole, {}, nearest(get(scaled, {}))),
                   add(whole_, sum, whole_or_infinite(term, largest, get(whole, {}))), add(rest_, sum, rest)});
    return ir::allocate(scaled, ir::allocate(whole, both, where_), where_);
  }

  /// Indices that are one for all terms, known outside, have no place in the arrays.
  void find_dims(const Stmt& nest, const std::vector<Stmt>& sums) {
    std::vector<std::vector<Expr>> elements;
    for (const Stmt& sum : sums) elements.push_back(sum.as<ir::Reduce>()->indices);
    first_ = elements[0];
    const std::vector<Expr> fixed = fixed_indices(nest, elements);
    for (std::size_t d = 0; d < fixed.size(); ++d)
      if (!fixed[d]) dims_.push_back(d);
  }

  template <class Body>
  Stmt over(Body body) const {
    return ir::over_elements(shape_, where_, body, "e");
  }

  std::vector<Expr> place_of(const ir::Reduce& sum) const {
    std::vector<Expr> result;
    for (const std::size_t d : dims_) result.push_back(sum.indices[d]);
    return result;
  }

  /// body(the value of the sum, named)
  template <class Body>
  Stmt with_term(const ir::Reduce& sum, Body body) const {
    const Array term = local("term", {}, type_);
    return ir::allocate(term, ir::block({set(term, {}, sum.value), body(get(term, {}))}), where_);
  }

  /// Wholes for one, of an element whose largest term this is.
  Expr scale(const Expr& largest) const {
    const double least = is_fine_ ? least_of_doubles : least_of_floats;
    return quotient(range_, ir::binary(BinaryOp::Max, as_f64(largest), real(least, ScalarType::F64)));
  }

  Stmt into_element(const std::vector<Expr>& at) const {
    const Expr largest = get(largest_, at), whole = get(whole_, at), none = real(0, type_);
    const Expr wholes = is_fine_ ? as_f64(whole) + quotient(as_f64(get(rest_, at)), range_) : as_f64(whole);
    const Expr finite = ir::cast(type_, quotient(wholes, scale(largest)));
    const auto counted = [&](const Expr& count) {
      return ir::select(ir::binary(BinaryOp::Eq, count, number(0)), none, infinity_);
    };
    const Expr infinite = counted(mod(whole, number(negative))) - counted(div(whole, number(negative)));
    std::vector<Expr> indices = first_;
    for (std::size_t k = 0; k < dims_.size(); ++k) indices[dims_[k]] = at[k];
    return ir::reduce(target_, indices, ir::ReduceOp::Add,
                      ir::select(ir::binary(BinaryOp::Le, largest, most_), finite, infinite), where_);
  }

  const Array target_;
  const ScalarType type_;
  const bool is_fine_;  // doubles: in two whole numbers
  const Expr most_, infinity_, range_;
  std::vector<Expr> first_;        // the indices of the first sum
  std::vector<std::size_t> dims_;  // of the target that choose the element
  std::vector<Expr> shape_;        // of these
  Array largest_, whole_, rest_;
};

}  // namespace

bool can_be_exact(const Array& target) { return is_float(target->type); }

ExactSums exact_sums(const Stmt& finding, const std::vector<WholeSums>& targets, const poly::Model* model) {
  std::map<const ir::StmtNode*, Stmt> largest;
  std::vector<Stmt> before, after;
  ExactSums result;
  for (const WholeSums& whole : targets) {
    const Target target(finding, whole.sums, whole.terms);
    for (const Array& array : target.arrays()) result.arrays.push_back(array);
    before.push_back(target.clear());
    after.push_back(target.into_target(model));
    for (const Stmt& sum : whole.sums) {
      largest[sum.get()] = target.largest_term(*sum.as<ir::Reduce>());
      result.in_place[sum.get()] = target.whole_term(*sum.as<ir::Reduce>());
    }
  }
  before.push_back(ir::with_fresh_names(ir::rewrite(finding, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto found = largest.find(s.get());
    return found == largest.end() ? std::nullopt : std::optional(found->second);
  })));
  result.before = ir::block(std::move(before));
  result.after = ir::block(std::move(after));
  return result;
}

}  // namespace loopgrad::transforms
