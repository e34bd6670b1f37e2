#include "tools/fuzz/rough_values.h"

#include "dsl/ir/library_calls.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tools/support/random.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

constexpr double units_of_functions = 4;  // u each: libraries promise one to two units in the last place of most

double unit_of(ScalarType type, bool f64) { return f64 || type == ScalarType::F64 ? 0x1p-53 : 0x1p-24; }

/// With an error in each function of a library, of one sign for each function.
class RoughFunctions final : public Rewriter {
 public:
  RoughFunctions(std::uint64_t seed, bool f64) : seed_(seed), f64_(f64) {}

  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override {
    const Expr exact = rewrite_children(e);
    const auto* u = e.as<Unary>();
    const auto* b = e.as<Binary>();
    if (!is_float(e.type())) return exact;
    if (u && is_library_call(u->op)) return rough(exact, static_cast<std::uint64_t>(u->op));
    if (b && is_library_call(b->op)) return rough(exact, 1000 + static_cast<std::uint64_t>(b->op));
    return exact;
  }

 private:
  Expr rough(const Expr& exact, std::uint64_t function) const {
    const double sign = seed_ == 0 || tools::Random(seed_ + function).below(2) == 0 ? 1 : -1;
    const double error = sign * units_of_functions * unit_of(exact.type(), f64_);
    // Of an f32 that is run as f64 the factor has no f32.
    return exact + exact * float_const(error, exact.type());
  }

  const std::uint64_t seed_;
  const bool f64_;
};

class RoughSums final : public Rewriter {
 public:
  RoughSums(std::uint64_t seed, bool f64) : random_(seed), seed_(seed), f64_(f64) {}

  Stmt body_of(const ir::Program& program) {
    walk_stmts(program.body, [&](const Stmt& s) {
      const auto* n = s.as<Reduce>();
      if (n && is_summed(n->array, n->indices)) declare(n->array, n->op);
    });
    Stmt body = rewrite(program.body);
    for (const Array& array : program.arrays) body = with_beside(array, body);
    return body;
  }

  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<Allocate>())
      return allocate(n->array, with_beside(n->array, rewrite(n->body)), n->location, n->home);
    if (const auto* n = s.as<Assign>()) return restarted(*n, s);
    if (const auto* n = s.as<Pop>()) return restarted(*n, s);
    const auto* n = s.as<Reduce>();
    if (!n) return rewrite_children(s);
    if (!is_summed(n->array, n->indices)) return s;
    return n->op == ReduceOp::Add ? rough_sum(*n, s) : n->op == ReduceOp::Mul ? rough_product(*n, s) : s;
  }

 private:
  /// What is followed beside an array: of sums the mass and the number of terms; of products the factors above one, and
  /// those below.
  struct Beside {
    Array mass, terms, above, below;

    std::array<Array, 4> all() const { return {mass, terms, above, below}; }
  };

  /// Not where the statement would find its element elsewhere after the change.
  static bool is_summed(const Array& array, const std::vector<Expr>& indices) {
    return is_float(array->type) && std::none_of(indices.begin(), indices.end(), [](const Expr& e) {
             bool floats = false;
             walk(e, [&](const Expr& x) { floats |= x.as<Load>() && is_float(x.type()); });
             return floats;
           });
  }

  void declare(const Array& array, ReduceOp op) {
    const auto like = [&](Array& made, const char* name) {
      if (!made)
        made = make_array(array->name + name, value_type(array->type), array->shape, ArrayRole::Local, array->location);
    };
    if (op == ReduceOp::Add) like(beside_[array].mass, "_mass");
    if (op == ReduceOp::Add) like(beside_[array].terms, "_terms");
    if (op != ReduceOp::Mul) return;
    like(beside_[array].above, "_above");
    like(beside_[array].below, "_below");
  }
  Stmt with_beside(const Array& array, Stmt body) const {
    const auto all = beside_.find(array);
    if (all == beside_.end()) return body;
    for (const Array& made : all->second.all())
      if (made) body = allocate(made, body, array->location);
    return body;
  }

  static Expr magnitude(const Expr& e) { return unary(UnaryOp::Abs, e); }
  Expr error_of(const Array& array) {
    const ScalarType type = value_type(array->type);
    const double unit = unit_of(type, f64_);
    return float_const(seed_ == 0 || random_.below(2) == 0 ? unit : -unit, type);
  }

  /// Another sum or product begins in the element.
  template <class Store>
  Stmt restarted(const Store& n, const Stmt& s) {
    const auto all = beside_.find(n.array);
    if (all == beside_.end() || !is_summed(n.array, n.indices)) return s;
    std::vector<Stmt> list = {s};
    const auto& [mass, terms, above, below] = all->second;
    const ScalarType type = value_type(n.array->type);
    const Expr one = float_const(1, type);
    if (mass) list.push_back(assign(mass, n.indices, magnitude(load(n.array, n.indices)), n.location));
    if (terms) list.push_back(assign(terms, n.indices, float_const(0, type), n.location));
    if (above) list.push_back(assign(above, n.indices, one, n.location));
    if (below) list.push_back(assign(below, n.indices, one, n.location));
    return block(std::move(list));
  }

  Stmt rough_sum(const Reduce& n, const Stmt& s) {
    const auto& [mass, terms, above, below] = beside_.at(n.array);
    const Expr size = binary(BinaryOp::Max, load(mass, n.indices), magnitude(load(n.array, n.indices)));
    const Array late = make_array(n.array->name + "_late", mass->type, {}, ArrayRole::Local, n.location);
    const Expr one = float_const(1, mass->type);
    const Stmt steps = block(
        {reduce(mass, n.indices, ReduceOp::Add, magnitude(n.value), n.location),
         assign(late, {}, load(terms, n.indices) * magnitude(n.value), n.location),  // the sum may change the value
         reduce(terms, n.indices, ReduceOp::Add, one, n.location), s,
         reduce(n.array, n.indices, ReduceOp::Add, error_of(n.array) * (size + load(late, {})), n.location)});
    return allocate(late, steps, n.location);
  }

  /// Infinity where the factors leave the range of the type.
  Stmt rough_product(const Reduce& n, const Stmt& s) {
    const auto& [mass, terms, above, below] = beside_.at(n.array);
    const ScalarType type = value_type(n.array->type);
    const bool wide = f64_ || type == ScalarType::F64;
    const auto number = [&](double value) { return float_const(value, type); };
    const double largest = wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    const double least = wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
    const Expr factor = magnitude(n.value), one = number(1);
    const Expr small = select(binary(BinaryOp::Eq, factor, number(0)), one, binary(BinaryOp::Min, factor, one));
    const Expr leaves = binary(BinaryOp::Or, binary(BinaryOp::Gt, load(above, n.indices), number(largest)),
                               binary(BinaryOp::Lt, load(below, n.indices), number(least)));
    const Expr error = error_of(n.array) * magnitude(load(n.array, n.indices));
    const Expr infinity = number(std::numeric_limits<double>::infinity());
    return block({reduce(above, n.indices, ReduceOp::Mul, binary(BinaryOp::Max, factor, one), n.location),
                  reduce(below, n.indices, ReduceOp::Mul, small, n.location), s,
                  reduce(n.array, n.indices, ReduceOp::Add, select(leaves, infinity, error), n.location)});
  }

  tools::Random random_;
  const std::uint64_t seed_;
  const bool f64_;
  std::map<Array, Beside> beside_;
};

/// NaN counts as more than anything, and is kept.
void widen(double& spread, double change) {
  if (!std::isnan(spread) && !(change <= spread)) spread = change;
}

}  // namespace

ir::Program rough_values(const ir::Program& program, std::uint64_t seed, bool f64) {
  const ir::Program rough = with_body(program, RoughFunctions(seed, f64).rewrite(program.body));
  return with_body(rough, RoughSums(seed, f64).body_of(rough));
}

std::map<std::string, std::vector<double>> errors_of_rounding(
    const Arrays& exact, std::uint64_t seed, const std::function<Arrays(std::uint64_t seed)>& run_with) {
  constexpr std::uint64_t runs = 4;  // signs of errors in different statements may cancel out, so several draw them
  std::map<std::string, std::vector<double>> all;
  for (const auto& [name, array] : exact) all[name].assign(static_cast<std::size_t>(array.size()), 0);
  for (std::uint64_t k = 0; k < runs; ++k) {
    Arrays rough;
    try {
      rough = run_with(k == 0 ? 0 : seed + k);
    } catch (const RuntimeError&) {  // an index that was computed from a rounded value
      for (auto& [name, errors] : all) std::fill(errors.begin(), errors.end(), std::numeric_limits<double>::infinity());
      return all;
    }
    for (auto& [name, errors] : all) {
      for (std::size_t i = 0; i < errors.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        widen(errors[i], std::abs(rough.at(name).get(at) - exact.at(name).get(at)));
      }
    }
  }
  return all;
}

}  // namespace loopgrad::fuzz
