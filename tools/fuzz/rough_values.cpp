#include "tools/fuzz/rough_values.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tools/support/random.h"

#include <algorithm>
#include <map>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

constexpr double units_of_functions = 4;  // u each: libraries promise one to two units in the last place of most

bool is_of_a_library(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Not:
    case UnaryOp::Abs:
    case UnaryOp::Sqrt:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::RoundF16:
    case UnaryOp::RoundBF16: return false;
    default: return true;
  }
}
bool is_of_a_library(BinaryOp op) { return op == BinaryOp::Pow || op == BinaryOp::Atan2; }

double unit_of(ScalarType type) { return type == ScalarType::F64 ? 0x1p-53 : 0x1p-24; }

/// With an error in each function of a library, of one sign for each function.
class RoughFunctions final : public Rewriter {
 public:
  explicit RoughFunctions(std::uint64_t seed) : seed_(seed) {}

  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override {
    const Expr exact = rewrite_children(e);
    const auto* u = e.as<Unary>();
    const auto* b = e.as<Binary>();
    if (!is_float(e.type())) return exact;
    if (u && is_of_a_library(u->op)) return rough(exact, static_cast<std::uint64_t>(u->op));
    if (b && is_of_a_library(b->op)) return rough(exact, 1000 + static_cast<std::uint64_t>(b->op));
    return exact;
  }

 private:
  Expr rough(const Expr& exact, std::uint64_t function) const {
    const double sign = seed_ == 0 || tools::Random(seed_ + function).below(2) == 0 ? 1 : -1;
    return exact * float_const(1 + sign * units_of_functions * unit_of(exact.type()), exact.type());
  }

  const std::uint64_t seed_;
};

class RoughSums final : public Rewriter {
 public:
  explicit RoughSums(std::uint64_t seed) : random_(seed), seed_(seed) {}

  Stmt body_of(const ir::Program& program) {
    Stmt body = rewrite(program.body);
    for (const Array& array : program.arrays) body = with_mass(array, body);
    return body;
  }

  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<Allocate>()) {
      const Stmt body = rewrite(n->body);
      return allocate(n->array, with_mass(n->array, body), n->location, n->home);
    }
    if (const auto* n = s.as<Assign>()) return restarted(*n, s);
    if (const auto* n = s.as<Pop>()) return restarted(*n, s);
    const auto* n = s.as<Reduce>();
    if (!n) return rewrite_children(s);
    const bool sums = n->op == ReduceOp::Add || n->op == ReduceOp::Mul;
    return sums && is_summed(n->array, n->indices) ? rough(*n, s) : s;
  }

 private:
  /// Not where the statement would find its element elsewhere after the change.
  static bool is_summed(const Array& array, const std::vector<Expr>& indices) {
    return is_float(array->type) && std::none_of(indices.begin(), indices.end(), [](const Expr& e) {
             bool floats = false;
             walk(e, [&](const Expr& x) { floats |= x.as<Load>() && is_float(x.type()); });
             return floats;
           });
  }

  const Array& mass_of(const Array& array) {
    Array& mass = masses_[array];
    if (!mass)
      mass =
          make_array(array->name + "_mass", value_type(array->type), array->shape, ArrayRole::Local, array->location);
    return mass;
  }
  Stmt with_mass(const Array& array, const Stmt& body) const {
    const auto mass = masses_.find(array);
    return mass == masses_.end() ? body : allocate(mass->second, body, array->location);
  }

  static Expr magnitude(const Expr& e) { return unary(UnaryOp::Abs, e); }

  /// Another sum begins in the element.
  template <class Store>
  Stmt restarted(const Store& n, const Stmt& s) {
    if (!is_summed(n.array, n.indices)) return s;
    const Array& mass = mass_of(n.array);
    return block({s, assign(mass, n.indices, magnitude(load(n.array, n.indices)), n.location)});
  }

  Stmt rough(const Reduce& n, const Stmt& s) {
    const ScalarType type = value_type(n.array->type);
    const double error = seed_ == 0 || random_.below(2) == 0 ? unit_of(type) : -unit_of(type);
    Expr size = magnitude(load(n.array, n.indices));
    std::vector<Stmt> all;
    if (n.op == ReduceOp::Add) {
      const Array& mass = mass_of(n.array);
      all.push_back(reduce(mass, n.indices, ReduceOp::Add, magnitude(n.value), n.location));
      size = binary(BinaryOp::Max, load(mass, n.indices), size);
    }
    all.push_back(s);
    all.push_back(reduce(n.array, n.indices, ReduceOp::Add, float_const(error, type) * size, n.location));
    return block(std::move(all));
  }

  tools::Random random_;
  const std::uint64_t seed_;
  std::map<Array, Array> masses_;
};

}  // namespace

ir::Program rough_values(const ir::Program& program, std::uint64_t seed) {
  return with_body(program, RoughSums(seed).body_of(with_body(program, RoughFunctions(seed).rewrite(program.body))));
}

}  // namespace loopgrad::fuzz
