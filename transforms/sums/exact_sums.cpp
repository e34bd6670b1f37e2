#include "transforms/sums/exact_sums.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/sums/partial_results.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t negative = std::int64_t{1} << 32;  // what stands for a term of minus infinity, or NaN

Expr real(double value, ScalarType type) { return ir::float_const(value, type); }
Expr f64(double value) { return real(value, ScalarType::F64); }
Expr as_f64(const Expr& e) { return ir::cast(ScalarType::F64, e); }
Expr quotient(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Div, a, b); }
Expr size_of(const Expr& e) { return ir::unary(ir::UnaryOp::Abs, e); }

/// The sums into one target.
class Target : protected LoopBuilder {
 public:
  Target(const Stmt& nest, const std::vector<Stmt>& sums)
      : LoopBuilder(sums[0]->location),
        target_(sums[0].as<ir::Reduce>()->array),
        type_(value_type(target_->type)),
        most_(real(type_ == ScalarType::F64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max(),
                   type_)),
        infinity_(real(std::numeric_limits<double>::infinity(), type_)) {
    find_dims(nest, sums);
    for (const std::size_t d : dims_) shape_.push_back(target_->shape[d]);
  }
  virtual ~Target() = default;

  virtual std::vector<Array> arrays() const = 0;
  virtual Stmt clear() const = 0;
  virtual Stmt whole_term(const ir::Reduce& sum) const = 0;
  virtual Stmt into_element(const std::vector<Expr>& at) const = 0;

  Stmt into_target(const poly::Model* model) const {
    const Stmt all = over([&](const std::vector<Expr>& at) { return into_element(at); });
    std::vector<Expr> fixed = first_;
    const ir::Symbol any = ir::make_symbol("any");
    for (const std::size_t d : dims_) fixed[d] = ir::var(any);
    const Expr exists = model ? element_exists(*model, target_, fixed, {any}) : ir::bool_const(true);
    return ir::equal(exists, ir::bool_const(true)) ? all : ir::if_then(exists, all);
  }

 protected:
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

  Stmt add(const Array& array, const std::vector<Expr>& at, const ir::Reduce& sum, const Expr& value) const {
    return ir::reduce(array, at, ir::ReduceOp::Add, value, sum.location, true);
  }

  /// body(the value of the sum, named)
  template <class Body>
  Stmt with_term(const ir::Reduce& sum, Body body) const {
    const Array term = local("term", {}, type_);
    return ir::allocate(term, ir::block({set(term, {}, sum.value), body(get(term, {}))}), where_);
  }

  /// Of a size. NaN is not.
  Expr is_finite(const Expr& size) const { return ir::binary(BinaryOp::Le, size, most_); }

  /// What counts a term that is not finite, and what such terms give that are counted so.
  Expr count_of(const Expr& term) const {
    return ir::select(ir::binary(BinaryOp::Le, term, most_), number(0), number(1)) +
           ir::select(ir::binary(BinaryOp::Ge, term, -most_), number(0), number(negative));
  }
  Expr infinite(const Expr& counts) const {
    const auto counted = [&](const Expr& count) {
      return ir::select(ir::binary(BinaryOp::Eq, count, number(0)), real(0, type_), infinity_);
    };
    return counted(mod(counts, number(negative))) - counted(div(counts, number(negative)));
  }

  Stmt add_to_target(const std::vector<Expr>& at, const Expr& value) const {
    std::vector<Expr> indices = first_;
    for (std::size_t k = 0; k < dims_.size(); ++k) indices[dims_[k]] = at[k];
    return ir::reduce(target_, indices, ir::ReduceOp::Add, value, where_);
  }

  const Array target_;
  const ScalarType type_;
  const Expr most_, infinity_;
  std::vector<Expr> first_;        // the indices of the first sum
  std::vector<std::size_t> dims_;  // of the target that choose the element
  std::vector<Expr> shape_;        // of these
};

constexpr int bins_of_floats = 16;       // and one that counts what is not finite
constexpr int digits_of_bin = 16;        // of exponents that a bin is for
constexpr int digits_of_floats = 24;     // of a float
constexpr int least_exponent = -149;     // of the last digit of all
constexpr double most_in_bin = 1 << 23;  // terms that have 24 + 16 digits each
constexpr double most_in_half = many_terms - 1;

constexpr std::int64_t most_parts = 4;

/// Bins that each of the 16 is, for so many terms.
double parts_of_bin(double terms) { return terms <= most_in_bin ? 1 : terms <= most_in_half ? 2 : most_parts; }

/// Floats: a whole number for each of some sizes of terms.
class Bins : public Target {
 public:
  Bins(const Stmt& nest, const WholeSums& whole)
      : Target(nest, whole.sums), is_few_(whole.form.few), parts_(number(most_parts)) {
    const Expr& terms = whole.terms;
    const auto at_most = [&](double most) {
      return ir::binary(BinaryOp::Le, terms, number(static_cast<std::int64_t>(most)));
    };
    if (terms && !is_few_)
      parts_ =
          ir::select(at_most(most_in_bin), number(1), ir::select(at_most(most_in_half), number(2), number(most_parts)));
    bins_ = local("bins_" + target_->name, {parts_ * number(bins_of_floats + 1) * product(shape_)});
  }

  std::vector<Array> arrays() const override { return {bins_}; }

  Stmt clear() const override {
    return ir::over_elements(
        bins_->shape, where_, [&](const std::vector<Expr>& at) { return set(bins_, at, number(0)); }, "e");
  }

  Stmt whole_term(const ir::Reduce& sum) const override {
    return with_term(sum, [&](const Expr& term) {
      const Array rest = local("rest", {}, type_), bin = local("bin", {}, ScalarType::I32);
      const Array part = local("part", {}, ScalarType::I32);
      std::vector<Stmt> all = {set(rest, {}, term), set(bin, {}, small(0)), set(part, {}, small(0))};
      for (int step = bins_of_floats / 2; step > 0; step /= 2)
        narrow(all, rest, bin, small(step), step * digits_of_bin, ir::bool_const(true));
      if (!ir::equal(parts_, number(1))) {
        const Expr is_quarter = at_least(parts_, 4);
        narrow(all, rest, part, ir::select(is_quarter, small(2), small(1)), digits_of_bin / 2, at_least(parts_, 2));
        narrow(all, rest, part, small(1), digits_of_bin / 4, is_quarter);
      }
      const Expr finite = is_finite(size_of(term));
      const auto of_finite = [&](const Expr& it, int other) {
        return ir::select(finite, ir::cast(ScalarType::I64, it), number(other));
      };
      const Expr place = place_in(of_finite(get(bin, {}), bins_of_floats), of_finite(get(part, {}), 0), place_of(sum));
      const Expr whole = as_f64(get(rest, {})) * f64(std::ldexp(1, -least_exponent));
      const Expr value = ir::select(finite, ir::cast(ScalarType::I64, whole), count_of(term));
      all.push_back(add(bins_, {place}, sum, value));
      Stmt result = ir::block(std::move(all));
      for (const Array& array : {rest, bin, part}) result = ir::allocate(array, result, where_);
      return result;
    });
  }

  Stmt into_element(const std::vector<Expr>& at) const override {
    const Array total = local("total", {}, ScalarType::F64), unit = local("unit", {}, ScalarType::F64);
    const auto times = [&](int parts) { return f64(std::ldexp(1, digits_of_bin / parts)); };
    const Expr next_unit =
        ir::select(at_least(parts_, 4), times(4), ir::select(at_least(parts_, 2), times(2), times(1)));
    const Stmt sum = forward("part", parts_, [&](const Expr& part) {
      Expr all;  // in one expression: these are loaded at once
      for (int bin = 0; bin < bins_of_floats; ++bin) {
        const Expr one = as_f64(get(bins_, {place_in(number(bin), part, at)})) *
                         f64(std::ldexp(1, least_exponent + bin * digits_of_bin));
        all = all ? all + one : one;
      }
      return ir::block(
          {set(total, {}, get(total, {}) + all * get(unit, {})), set(unit, {}, get(unit, {}) * next_unit)});
    });
    const Expr counts = get(bins_, {place_in(number(bins_of_floats), number(0), at)});
    const Expr value =
        ir::select(ir::binary(BinaryOp::Eq, counts, number(0)), ir::cast(type_, get(total, {})), infinite(counts));
    const Stmt all = ir::block({set(total, {}, f64(0)), set(unit, {}, f64(1)), sum, add_to_target(at, value)});
    return ir::allocate(total, ir::allocate(unit, all, where_), where_);
  }

 private:
  static Expr small(std::int64_t value) { return ir::int_const(value, ScalarType::I32); }

  /// What is too large for the first bins is made that much smaller, which no digit is lost by, for a bin that is
  /// `step` further up.
  void narrow(std::vector<Stmt>& all, const Array& rest, const Array& bin, const Expr& step, int by,
              const Expr& condition) const {
    const Expr first_beyond = real(std::ldexp(1, least_exponent + digits_of_floats + by), type_);
    const Expr is_further = ir::both(condition, ir::binary(BinaryOp::Ge, size_of(get(rest, {})), first_beyond));
    Expr smaller = get(rest, {});
    constexpr int at_once = 64;  // a factor with no more digits is a normal number
    for (int left = by; left > 0; left -= at_once)
      smaller = smaller * real(std::ldexp(1, -std::min(left, at_once)), type_);
    all.push_back(set(bin, {}, ir::select(is_further, get(bin, {}) + step, get(bin, {}))));
    all.push_back(set(rest, {}, ir::select(is_further, smaller, get(rest, {}))));
  }

  /// All elements of a bin are neighbours, as they are in the target, or all bins of an element.
  Expr place_in(const Expr& bin, const Expr& part, const std::vector<Expr>& at) const {
    Expr element = number(0);
    for (std::size_t k = 0; k < at.size(); ++k) element = element * shape_[k] + at[k];
    const Expr row = part * number(bins_of_floats + 1) + bin;
    return is_few_ ? element * number(most_parts * (bins_of_floats + 1)) + row : row * product(shape_) + element;
  }

  const bool is_few_;
  Expr parts_;  // that each bin is
  Array bins_;
};

constexpr std::int64_t most_whole = std::int64_t{1} << 62;
// More terms of one element would take an hour.
constexpr double most_terms = static_cast<double>(std::int64_t{1} << 40);
// Below these, largest terms count as such: what they are divided into has to be a number.
constexpr double least_of_floats = 1e-60, least_of_doubles = 1e-280;

/// A whole number, of units that the largest term of an element decides; of doubles, two.
class Ranges : public Target {
 public:
  Ranges(const Stmt& nest, const std::vector<Stmt>& sums, const Expr& terms)
      : Target(nest, sums),
        is_fine_(type_ == ScalarType::F64),
        range_(quotient(
            f64(static_cast<double>(most_whole)),
            ir::select(less(terms, number(many_terms)), as_f64(ir::larger(terms, number(1))), f64(most_terms)))),
        largest_(local("largest_" + target_->name, shape_, type_)),
        whole_(local("whole_" + target_->name, shape_)),
        rest_(local("rest_" + target_->name, shape_)) {}

  std::vector<Array> arrays() const override {
    return is_fine_ ? std::vector<Array>{largest_, whole_, rest_} : std::vector<Array>{largest_, whole_};
  }

  Stmt clear() const override {
    return over([&](const std::vector<Expr>& at) {
      std::vector<Stmt> all = {set(largest_, at, real(0, type_)), set(whole_, at, number(0))};
      if (is_fine_) all.push_back(set(rest_, at, number(0)));
      return ir::block(std::move(all));
    });
  }

  Stmt largest_term(const ir::Reduce& sum) const {
    return with_term(sum, [&](const Expr& term) {
      const Expr size = size_of(term);
      return ir::reduce(largest_, place_of(sum), ir::ReduceOp::Max, ir::select(is_finite(size), size, infinity_),
                        sum.location, true);
    });
  }

  Stmt whole_term(const ir::Reduce& sum) const override {
    return with_term(sum, [&](const Expr& term) {
      const std::vector<Expr> at = place_of(sum);
      const Expr finite = is_finite(get(largest_, at));
      const Array scaled = local("scaled", {}, ScalarType::F64), whole = local("whole", {}, ScalarType::F64);
      // What the first time was rounded to nothing may be any number of times that.
      const Expr limited = ir::binary(
          BinaryOp::Min, ir::binary(BinaryOp::Max, as_f64(term) * scale(get(largest_, at)), -range_), range_);
      const Expr left = nearest((get(scaled, {}) - get(whole, {})) * range_);
      const Expr whole_or_count = ir::select(finite, ir::cast(ScalarType::I64, get(whole, {})), count_of(term));
      std::vector<Stmt> all = {set(scaled, {}, limited), set(whole, {}, nearest(get(scaled, {}))),
                               add(whole_, at, sum, whole_or_count)};
      if (is_fine_) all.push_back(add(rest_, at, sum, ir::select(finite, ir::cast(ScalarType::I64, left), number(0))));
      return ir::allocate(scaled, ir::allocate(whole, ir::block(std::move(all)), where_), where_);
    });
  }

  Stmt into_element(const std::vector<Expr>& at) const override {
    const Expr largest = get(largest_, at), whole = get(whole_, at);
    const Expr wholes = is_fine_ ? as_f64(whole) + quotient(as_f64(get(rest_, at)), range_) : as_f64(whole);
    const Expr finite = ir::cast(type_, quotient(wholes, scale(largest)));
    return add_to_target(at, ir::select(is_finite(largest), finite, infinite(whole)));
  }

 private:
  static Expr nearest(const Expr& e) { return ir::unary(ir::UnaryOp::Floor, e + f64(0.5)); }

  /// Wholes for one, of an element whose largest term this is.
  Expr scale(const Expr& largest) const {
    const double least = is_fine_ ? least_of_doubles : least_of_floats;
    return quotient(range_, ir::binary(BinaryOp::Max, as_f64(largest), f64(least)));
  }

  const bool is_fine_;
  const Expr range_;
  const Array largest_, whole_, rest_;
};

}  // namespace

bool can_be_exact(const Array& target) { return is_float(target->type); }
bool can_have_bins(const Array& target, const Machine& machine) {
  return value_type(target->type) == ScalarType::F32 && !machine.wide_floats;
}

Stmt ExactSums::around(const Stmt& nest, const SourceLocation& where) const {
  Stmt result = ir::block({before, nest, after});
  for (const Array& array : arrays) result = ir::allocate(array, result, where);
  return result;
}

double bytes_of_exact(const Array& target, const ExactForm& form, double terms) {
  constexpr double word = 8;
  if (form.in_bins) return word * (bins_of_floats + 1) * (form.few ? most_parts : parts_of_bin(terms));
  return value_type(target->type) == ScalarType::F32 ? word + 4 : 3 * word;
}

ExactSums exact_sums(const Stmt& nest, const Stmt& finding, const std::vector<WholeSums>& targets,
                     const poly::Model* model) {
  std::map<const ir::StmtNode*, Stmt> largest;
  std::vector<Stmt> before, after;
  ExactSums result;
  const auto take = [&](const Target& target, const std::vector<Stmt>& sums) {
    for (const Array& array : target.arrays()) result.arrays.push_back(array);
    before.push_back(target.clear());
    after.push_back(target.into_target(model));
    for (const Stmt& sum : sums) result.in_place[sum.get()] = target.whole_term(*sum.as<ir::Reduce>());
  };
  for (const WholeSums& whole : targets) {
    if (whole.form.in_bins) {
      take(Bins(nest, whole), whole.sums);
      continue;
    }
    const Ranges ranges(nest, whole.sums, whole.terms);
    take(ranges, whole.sums);
    for (const Stmt& sum : whole.sums) largest[sum.get()] = ranges.largest_term(*sum.as<ir::Reduce>());
  }
  if (!largest.empty())
    before.push_back(ir::with_fresh_names(ir::rewrite(finding, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto found = largest.find(s.get());
      return found == largest.end() ? std::nullopt : std::optional(found->second);
    })));
  result.before = ir::block(std::move(before));
  result.after = ir::block(std::move(after));
  return result;
}

}  // namespace loopgrad::transforms
