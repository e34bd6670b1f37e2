#include "transforms/bounds/leaving_accesses.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/relations.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

/// What must hold for an access to happen, and how it is made, with sizes replaced by their values where those are
/// known.
struct Conditions {
  std::vector<ir::Symbol> iterators;
  std::vector<isl::set> inexact;  // where data or products decide: all that is possible
  Expr exact = ir::bool_const(true);
};

}  // namespace

class LeavingAccesses::Impl {
 public:
  explicit Impl(const ir::Program& program)
      : facts_(program), scalars_(program), context_(std::make_shared<poly::Context>(budget)), program_(program) {}

  Leaving leaving(const OpenAccess& access) {
    if (asked_++ >= most_asked) return {};
    return within_budget(Leaving{}, [&] {
      bool is_exact = true;
      const isl::set iterations = leaving_iterations(access, {}, is_exact);
      if (iterations.is_empty()) return Leaving{ir::bool_const(false), true};
      const auto count = static_cast<unsigned>(isl_set_dim(iterations.get(), isl_dim_set));
      const isl::set sizes =
          poly::coalesced(checked(*context_, isl_set_project_out(iterations.copy(), isl_dim_set, 0, count)));
      const isl::set known = assumptions();
      if (sizes.intersect(known).is_empty()) return Leaving{ir::bool_const(false), true};
      return Leaving{poly::to_condition(sizes, {}, *context_, known), is_exact};
    });
  }

  std::optional<LeavingExample> example(const OpenAccess& access, const std::map<ir::Symbol, std::int64_t>& sizes) {
    return within_budget(std::optional<LeavingExample>(), [&]() -> std::optional<LeavingExample> {
      ir::Substitution values;
      for (const auto& [symbol, value] : sizes) values[symbol] = ir::int_const(value);
      bool is_exact = true;
      const isl::set all = leaving_iterations(access, values, is_exact);
      if (!is_exact || all.is_empty()) return std::nullopt;
      const isl::set first = checked(*context_, isl_set_lexmin(all.copy()));
      const auto point = checked(*context_, isl_set_sample_point(first.copy()));
      LeavingExample result;
      int dim = 0;
      for (const Stmt& s : access.around) {
        const ir::Symbol* iterator = iterator_of(s);
        if (!iterator) continue;
        const isl::val value = checked(*context_, isl_point_get_coordinate_val(point.get(), isl_dim_set, dim++));
        result.iterators.emplace_back(iterator->name, value.num_si());
        values[*iterator] = ir::int_const(value.num_si());
      }
      const auto index = ir::as_int(ir::substitute(access.index, values));
      if (!index) return std::nullopt;
      result.index = *index;
      return result;
    });
  }

 private:
  template <class Result, class Work>
  Result within_budget(Result otherwise, Work&& work) {
    try {
      context_->restart_budget();
      return poly::guarded(*context_, work);
    } catch (const poly::BudgetError&) {
      return otherwise;
    }
  }

  static const ir::Symbol* iterator_of(const Stmt& s) {
    if (const auto* n = s.as<ir::For>()) return &n->iterator;
    if (const auto* n = s.as<ir::While>()) return &n->iterator;
    return nullptr;
  }

  poly::Scope scope(const Conditions& all) const { return {context_, all.iterators, ""}; }

  /// What one statement decides. Each has an abstraction of its own: what it reads may change until the next one.
  template <class Condition>
  void restrict(Conditions& all, bool& is_exact, const Condition& condition) const {
    poly::Abstraction abstraction(facts_);
    const Expr holds = condition(abstraction);
    is_exact = is_exact && abstraction.exact();
    if (abstraction.exact()) all.exact = ir::both(all.exact, holds);
    else all.inexact.push_back(points_of(scope(all), holds, abstraction));
  }

  /// The iterations that the access happens in, as far as known.
  Conditions conditions(const OpenAccess& access, const ir::Substitution& values, bool& is_exact) const {
    Conditions all;
    const auto known = [&](const Expr& e) { return ir::substitute(scalars_.look_through(e), values); };
    for (const Stmt& s : access.around)
      if (const ir::Symbol* iterator = iterator_of(s)) all.iterators.push_back(*iterator);
    for (std::size_t k = 0; k < access.around.size(); ++k) {
      const Stmt& s = access.around[k];
      if (const auto* n = s.as<ir::For>()) {
        restrict(all, is_exact, [&](poly::Abstraction& a) {
          return poly::in_bounds(ir::var(n->iterator), a.value(known(n->lower)), a.value(known(n->upper)));
        });
      } else if (const auto* loop = s.as<ir::While>()) {
        restrict(all, is_exact, [&](poly::Abstraction& a) {
          return poly::in_bounds(ir::var(loop->iterator), ir::int_const(0), a.value(known(loop->max_trips)));
        });
        is_exact = false;  // how many trips is up to the data
      } else if (const auto* branch = s.as<ir::If>()) {
        const Stmt& inner = k + 1 < access.around.size() ? access.around[k + 1] : access.statement;
        const bool side = branch->then_body.same_as(inner);
        restrict(all, is_exact, [&](poly::Abstraction& a) { return a.condition(known(branch->condition), side); });
      }
    }
    if (access.when)
      restrict(all, is_exact, [&](poly::Abstraction& a) { return a.condition(known(access.when), true); });
    return all;
  }

  isl::set leaving_iterations(const OpenAccess& access, const ir::Substitution& values, bool& is_exact) const {
    const Conditions all = conditions(access, values, is_exact);
    poly::Abstraction abstraction(facts_);
    const auto value = [&](const Expr& e) { return abstraction.value(ir::substitute(e, values)); };
    const Expr index = value(access.index), extent = value(access.array->shape[access.dimension]);
    is_exact = is_exact && abstraction.exact();
    const auto where = [&](const Expr& outside) {
      return points_of(scope(all), ir::both(all.exact, outside), abstraction);
    };
    isl::set result =
        where(ir::binary(BinaryOp::Lt, index, ir::int_const(0))).unite(where(ir::binary(BinaryOp::Ge, index, extent)));
    for (const isl::set& possible : all.inexact) result = result.intersect(possible);
    return result;
  }

  /// Sizes and extents of arguments are not negative.
  isl::set assumptions() const {
    Expr all = ir::bool_const(true);
    const auto at_least_zero = [&](const Expr& e) {
      poly::Abstraction abstraction(facts_);
      const Expr value = abstraction.value(e);
      if (abstraction.exact()) all = ir::both(all, ir::binary(BinaryOp::Ge, value, ir::int_const(0)));
    };
    for (const ir::Symbol& size : program_.sizes) at_least_zero(ir::var(size));
    for (const ir::Array& array : program_.arrays)
      for (const Expr& extent : array->shape)
        if (array->role != ir::ArrayRole::Tape) at_least_zero(extent);
    return points_of({context_, {}, ""}, all, poly::Abstraction(facts_));
  }

  const poly::Facts facts_;
  const ir::KnownScalars scalars_;
  const std::shared_ptr<poly::Context> context_;
  const ir::Program& program_;
  int asked_ = 0;
};

LeavingAccesses::LeavingAccesses(const ir::Program& program) : impl_(std::make_unique<Impl>(program)) {}
LeavingAccesses::~LeavingAccesses() = default;

Leaving LeavingAccesses::leaving(const OpenAccess& access) { return impl_->leaving(access); }

std::optional<LeavingExample> LeavingAccesses::example(const OpenAccess& access,
                                                       const std::map<ir::Symbol, std::int64_t>& sizes) {
  return impl_->example(access, sizes);
}

}  // namespace loopgrad::transforms
