#include "tools/fuzz/rough_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tools/support/random.h"

#include <algorithm>
#include <map>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

class RoughSums final : public Rewriter {
 public:
  explicit RoughSums(std::uint64_t seed) : random_(seed), is_same_sign_(seed == 0) {}

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
    const double unit = type == ScalarType::F64 ? 0x1p-53 : 0x1p-24;
    const double error = is_same_sign_ || random_.below(2) == 0 ? unit : -unit;
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
  const bool is_same_sign_;
  std::map<Array, Array> masses_;
};

}  // namespace

ir::Program rough_sums(const ir::Program& program, std::uint64_t seed) {
  return with_body(program, RoughSums(seed).body_of(program));
}

}  // namespace loopgrad::fuzz
