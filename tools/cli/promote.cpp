#include "tools/cli/promote.h"

#include "dsl/ir/program.h"
#include "dsl/ir/rewriter.h"

namespace loopgrad::cli {
namespace {

using ir::Allocate, ir::Array, ir::Assign, ir::Cast, ir::Expr, ir::Fact, ir::FloatConst, ir::Load, ir::Reduce, ir::Stmt;

class Promoter final : public ir::Rewriter {
 public:
  explicit Promoter(ScalarType type) : type_(type) {}

  Array promoted(const Array& array) {
    if (!is_float(array->type) || array->type == type_) return array;
    Array& copy = arrays_[array->id];
    if (!copy) copy = ir::make_array_like(array, array->name, type_, array->role);
    return copy;
  }

  Expr rewrite(const Expr& e) override {
    if (const auto* n = e.as<FloatConst>()) return ir::float_const(n->value, type_);
    if (const auto* n = e.as<Load>()) return ir::load(promoted(n->array), all(n->indices), n->location);
    if (const auto* n = e.as<Cast>()) return ir::cast(is_float(n->type) ? type_ : n->type, rewrite(n->a));
    return rewrite_children(e);
  }

  Stmt rewrite(const Stmt& s) override {
    return ir::visit(
        s, ir::overloaded{
               [&](const Assign& n) {
                 return ir::assign(promoted(n.array), all(n.indices), rewrite(n.value), n.location);
               },
               [&](const Reduce& n) { return ir::reduce_like(n, promoted(n.array), all(n.indices), rewrite(n.value)); },
               [&](const Allocate& n) { return ir::allocate(promoted(n.array), rewrite(n.body), n.location); },
               [&](const auto&) { return rewrite_children(s); }});
  }

 private:
  std::vector<Expr> all(const std::vector<Expr>& list) {
    std::vector<Expr> out;
    for (const Expr& e : list) out.push_back(rewrite(e));
    return out;
  }

  ScalarType type_;
  std::map<std::int64_t, Array> arrays_;
};

Program with_floats_of(ScalarType type, const Program& program) {
  Promoter promoter(type);
  ir::Program copy = program.ir();
  for (Array& array : copy.arrays) array = promoter.promoted(array);
  for (Fact& fact : copy.facts) {
    if (fact.array) fact.array = promoter.promoted(fact.array);
    if (fact.other) fact.other = promoter.promoted(fact.other);
  }
  copy.body = promoter.rewrite(copy.body);
  return Program(std::make_shared<const ir::Program>(std::move(copy)));
}

}  // namespace

Program promote_to_f64(const Program& program) { return with_floats_of(ScalarType::F64, program); }
Program demote_to_f32(const Program& program) { return with_floats_of(ScalarType::F32, program); }

}  // namespace loopgrad::cli
