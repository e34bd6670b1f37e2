#include "backends/runtime/facts_program.h"

#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace loopgrad::backend {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

Expr number(std::int64_t value) { return ir::int_const(value); }
Expr both(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::And, a, b); }
Expr either(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Or, a, b); }
Expr less(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Lt, a, b); }
Expr as_index(const Expr& e) { return ir::cast(ScalarType::I64, e); }

/// A loop over all elements of an array.
struct Elements {
  explicit Elements(const Array& array_in) : array(array_in) {
    for (std::size_t d = 0; d < array->shape.size(); ++d) iterators.push_back(ir::make_symbol("i"));
  }
  Expr value() const { return as_index(ir::load(array, indices(), array->location)); }
  std::vector<Expr> indices() const {
    std::vector<Expr> all;
    for (std::size_t d = 0; d < iterators.size(); ++d)
      all.push_back(backwards ? array->shape[d] - number(1) - ir::var(iterators[d]) : ir::var(iterators[d]));
    return all;
  }
  /// Number of the element in row-major order.
  Expr position() const {
    const std::vector<Expr> all = indices();
    Expr result = number(0);
    for (std::size_t d = 0; d < all.size(); ++d) result = result * array->shape[d] + all[d];
    return result;
  }
  Stmt loop(Stmt body, const SourceLocation& where) const {
    for (std::size_t d = iterators.size(); d-- > 0;)
      body = ir::for_loop(iterators[d], number(0), array->shape[d], body, ir::LoopMode::Forward, where);
    return body;
  }

  Array array;
  std::vector<ir::Symbol> iterators;
  bool backwards = false;  // the last element first
};

class Builder {
 public:
  explicit Builder(const ir::Program& program) : source_(program) {
    violations_ = ir::make_array(free_name(), ScalarType::I64, {}, ir::ArrayRole::Output, program.location);
    for (const Array& array : program.arrays) {
      if (array->role == ir::ArrayRole::Tape) continue;
      inputs_[array] = ir::make_array(array->name, array->type, array->shape, ir::ArrayRole::Input, array->location);
      arrays_.push_back(inputs_[array]);
    }
  }

  FactsProgram build() {
    for (const ir::Fact& fact : source_.facts) add(fact);
    FactsProgram result;
    result.result = violations_->name;
    result.stated = {source_.name, used_sizes(), arrays_, std::move(stated_), ir::block({}), source_.location};
    result.on_host = std::move(on_host_);
    if (!checks_.empty()) {
      checks_.insert(checks_.begin(), ir::assign(violations_, {}, number(0), source_.location));
      arrays_.push_back(violations_);
    }
    result.program = {source_.name + "_facts", result.stated.sizes, std::move(arrays_), std::move(parallel_), {},
                      source_.location};
    result.program.body = ir::with_fresh_names(ir::block(std::move(checks_)));
    return result;
  }

 private:
  void add(ir::Fact fact) {
    const auto found = inputs_.find(fact.array);
    if (found == inputs_.end() || fact.kind == ir::FactKind::MayAlias || fact.kind == ir::FactKind::ReadUpTo) return;
    const Array array = fact.array = found->second;
    stated_.push_back(fact);
    switch (fact.kind) {
      case ir::FactKind::InRange: return count(Elements(array), fact, outside(fact));
      case ir::FactKind::Sorted: return sorted(array, fact);
      case ir::FactKind::CsrPointer: return csr_pointer(array, fact);
      case ir::FactKind::Injective: return injective(array, fact);
      case ir::FactKind::MayAlias: return;  // allows, promises nothing
      case ir::FactKind::ReadUpTo: return;  // about other programs
    }
  }

  std::string free_name() const {
    std::string name = "violations";
    while (ir::find_array(source_, name)) name += "_";
    return name;
  }

  using Condition = std::function<Expr(const Elements&)>;

  void count(const Elements& elements, const ir::Fact& fact, const Condition& broken) {
    checks_.push_back(elements.loop(counted(broken(elements), fact), fact.location));
  }
  Stmt counted(const Expr& broken, const ir::Fact& fact) const {
    return ir::reduce(violations_, {}, ir::ReduceOp::Add, as_index(broken), fact.location);
  }

  static Condition outside(const ir::Fact& fact) {
    return [fact](const Elements& e) {
      return either(less(e.value(), fact.lower), ir::binary(BinaryOp::Ge, e.value(), fact.upper));
    };
  }

  void sorted(const Array& array, const ir::Fact& fact) {
    const ir::Symbol i = ir::make_symbol("i");
    const auto at = [&](const Expr& place) { return ir::load(array, {place}, fact.location); };
    checks_.push_back(ir::for_loop(i, number(1), array->shape[0],
                                   counted(less(at(ir::var(i)), at(ir::var(i) - number(1))), fact),
                                   ir::LoopMode::Forward, fact.location));
  }

  void csr_pointer(const Array& array, const ir::Fact& fact) {
    const Expr& extent = array->shape[0];
    const auto at = [&](const Expr& place) { return as_index(ir::load(array, {place}, fact.location)); };
    const Expr ends = either(ir::binary(BinaryOp::Ne, at(number(0)), number(0)),
                             ir::binary(BinaryOp::Ne, at(extent - number(1)), fact.upper));
    // Of an array without elements nothing may be read.
    checks_.push_back(ir::if_then(less(number(0), extent), counted(ends, fact), counted(ir::bool_const(true), fact)));
    sorted(array, fact);
  }

  void injective(const Array& array, const ir::Fact& fact) {
    const Expr end = table_end(fact);
    if (!end) return on_host_.push_back(fact);
    const Array owner =
        ir::make_array("owner", ScalarType::I64, {ir::larger(end, number(0))}, ir::ArrayRole::Local, fact.location);
    const auto if_inside = [&](const Elements& e, const Stmt& body) {
      const Expr inside = both(ir::binary(BinaryOp::Ge, e.value(), number(0)), less(e.value(), end));
      return e.loop(ir::if_then(inside, body, {}, fact.location), fact.location);
    };
    const Elements first(array);
    Elements again(array);
    again.backwards = true;  // so that no pass does both at once, where the fact says what is to be found out
    const Expr owned_by = ir::load(owner, {again.value()}, fact.location);
    const Stmt all = ir::block({if_inside(first, ir::assign(owner, {first.value()}, first.position(), fact.location)),
                                if_inside(again, counted(ir::binary(BinaryOp::Ne, owned_by, again.position()), fact))});
    checks_.push_back(ir::allocate(owner, all, fact.location));
    parallel_.push_back(fact);
  }

  /// The upper bound that is stated for the elements, where the lower one is 0.
  Expr table_end(const ir::Fact& injective) const {
    for (const ir::Fact& fact : source_.facts)
      if (fact.kind == ir::FactKind::InRange && inputs_.at(fact.array) == injective.array &&
          ir::as_int(fact.lower) == 0)
        return fact.upper;
    return {};
  }

  /// All but those that the runtime computes for tapes.
  std::vector<ir::Symbol> used_sizes() const {
    std::set<ir::Symbol> used;
    auto note = [&](const Expr& e) {
      if (!e) return;
      ir::walk(e, [&](const Expr& part) {
        if (const auto* v = part.as<ir::Var>()) used.insert(v->symbol);
      });
    };
    for (const auto& [array, input] : inputs_)
      for (const Expr& extent : input->shape) note(extent);
    for (const ir::Fact& fact : source_.facts) {
      if (fact.kind == ir::FactKind::ReadUpTo) continue;
      note(fact.lower);
      note(fact.upper);
    }
    std::vector<ir::Symbol> sizes;
    for (const ir::Symbol& size : source_.sizes)
      if (used.count(size)) sizes.push_back(size);
    return sizes;
  }

  const ir::Program& source_;
  Array violations_;
  std::map<Array, Array> inputs_;
  std::vector<Array> arrays_;
  std::vector<Stmt> checks_;
  std::vector<ir::Fact> stated_, parallel_, on_host_;
};

}  // namespace

bool states_facts(const ir::Program& program) {
  return std::any_of(program.facts.begin(), program.facts.end(), [](const ir::Fact& fact) {
    return fact.kind != ir::FactKind::MayAlias && fact.kind != ir::FactKind::ReadUpTo &&
           fact.array->role == ir::ArrayRole::Input;
  });
}

FactsProgram facts_program(const ir::Program& program) { return Builder(program).build(); }

}  // namespace loopgrad::backend
