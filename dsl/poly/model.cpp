#include "dsl/poly/model.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"

#include "dsl/ir/visit.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/intersections.h"
#include "dsl/poly/pieces.h"
#include "dsl/poly/relations.h"
#include "dsl/poly/row_loops.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;

namespace {

bool chooses(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& part) {
    const auto* cast = part.as<ir::Cast>();
    found = found || part.as<ir::Select>() || (cast && cast->a.type() == ScalarType::Bool);
  });
  return found;
}

// A loop of one iteration around the region names a value; all the cases that it is chosen from would be many pieces
// in every set, and of little use.
bool names_a_choice(const ir::For& loop) {
  return chooses(loop.lower) && ir::equal(loop.upper, loop.lower + ir::int_const(1));
}

// max(e, 0)
bool is_clamped(const Expr& extent) {
  auto* node = extent.as<ir::Binary>();
  return node && node->op == BinaryOp::Max &&
         (ir::as_int(node->a).value_or(-1) >= 0 || ir::as_int(node->b).value_or(-1) >= 0);
}

Expr trip_condition(const ir::For& loop, Abstraction& abstraction) {
  Expr lower = abstraction.value(loop.lower), upper = abstraction.value(loop.upper);
  Expr iterator = ir::var(loop.iterator);
  Expr result = in_bounds(iterator, lower, upper);
  if (loop.at_most) {
    result = both(result, ir::binary(BinaryOp::Lt, iterator, lower + abstraction.value(loop.at_most)));
  }
  return result;
}

Expr trip_condition(const ir::While& loop, Abstraction& abstraction) {
  return in_bounds(ir::var(loop.iterator), ir::int_const(0), abstraction.value(loop.max_trips));
}

std::uintptr_t address(const void* node) { return reinterpret_cast<std::uintptr_t>(node); }

// A loop or one side of a condition, but for its body.
PieceKey key_of(const ir::Stmt& s, bool side) {
  PieceKey key{static_cast<std::uintptr_t>(s.kind())};
  if (auto* loop = s.as<ir::For>())
    key.insert(key.end(), {static_cast<std::uintptr_t>(loop->iterator.id), address(loop->lower.get()),
                           address(loop->upper.get()), address(loop->at_most.get())});
  if (auto* loop = s.as<ir::While>())
    key.insert(key.end(), {static_cast<std::uintptr_t>(loop->iterator.id), address(loop->max_trips.get())});
  if (auto* branch = s.as<ir::If>()) key.insert(key.end(), {address(branch->condition.get()), std::uintptr_t{side}});
  return key;
}

// Sets of parameters, from what is around a region.
class Assumptions {
 public:
  Assumptions(const ir::Program& program, Environment& environment, const std::shared_ptr<Context>& context)
      : program_(program), environment_(environment), context_(context) {}

  const Assumption& around(const ir::Stmt& region) {
    Assumption* result = &environment_.sizes.get(*context_, [&] { return of_sizes(); });
    std::vector<ir::Stmt> path;
    if (!find(program_.body, region, path)) return *result;
    for (std::size_t k = 0; k < path.size(); ++k) {
      const ir::Stmt& child = k + 1 < path.size() ? path[k + 1] : region;
      auto* branch = path[k].as<ir::If>();
      const bool side = branch && child.get() == branch->then_body.get();
      if (!branch && !path[k].as<ir::For>() && !path[k].as<ir::While>()) continue;
      const isl::set& outer = result->set;
      result = &at(result->inside, key_of(path[k], side)).get(*context_, [&] { return inside(outer, path[k], side); });
    }
    return *result;
  }

 private:
  Scope scope() const { return {context_, {}, ""}; }

  static bool find(const ir::Stmt& at, const ir::Stmt& region, std::vector<ir::Stmt>& path) {
    if (at.get() == region.get()) return true;
    path.push_back(at);
    bool found = false;
    ir::for_each_child(at, ir::overloaded{[&](const Expr&) {},
                                          [&](const ir::Stmt& child) {
                                            if (!found) found = find(child, region, path);
                                          }});
    if (!found) path.pop_back();
    return found;
  }

  isl::set with(const isl::set& outer, const Expr& condition, const Abstraction& abstraction) const {
    return intersection(outer, points_of(scope(), condition, abstraction).params());
  }

  Assumption of_sizes() const {
    Expr all = ir::bool_const(true);
    auto at_least_zero = [&](const Expr& e) {
      Abstraction abstraction(environment_.facts);
      Expr value = abstraction.value(e);
      if (abstraction.exact()) all = both(all, ir::binary(BinaryOp::Ge, value, ir::int_const(0)));
    };
    for (const ir::Symbol& size : program_.sizes) at_least_zero(ir::var(size));
    for (const ir::Array& array : program_.arrays) {
      for (const Expr& extent : array->shape) {
        if (!extent.as<ir::Var>() && !is_clamped(extent)) at_least_zero(extent);
      }
    }
    const isl::set none = checked(*context_, isl_set_params(scope().universe().release()));
    return {with(none, all, Abstraction(environment_.facts)), {}};
  }

  Assumption inside(const isl::set& outer, const ir::Stmt& s, bool side) const {
    Abstraction abstraction(environment_.facts);
    if (auto* loop = s.as<ir::For>()) {
      if (names_a_choice(*loop)) return {outer, s};
      const Expr condition = trip_condition(*loop, abstraction);
      return {with(outer, condition, abstraction), s};
    }
    const auto* loop = s.as<ir::While>();
    const Expr condition =
        loop ? trip_condition(*loop, abstraction) : abstraction.condition(s.as<ir::If>()->condition, side);
    return {with(outer, condition, abstraction), s};
  }

  const ir::Program& program_;
  Environment& environment_;
  const std::shared_ptr<Context>& context_;
};

constexpr int most_pieces = 24;  // of where a statement is executed: programs as written have fewer

class Builder {
 public:
  Builder(const ir::Program& program, Environment& environment, const std::shared_ptr<Context>& context)
      : environment_(environment),
        row_loops_(program, environment.facts, context),
        accesses_(context, environment.facts) {
    model_.context = context;
    model_.sizes = program.sizes;
    for (const ir::Fact& fact : program.facts) {
      if (fact.kind == ir::FactKind::MayAlias) model_.aliases.push_back(fact);
    }
  }

  Model build(const ir::Stmt& region, const isl::set& assumptions) {
    model_.assumptions = assumptions;
    place_ = &environment_.outside.get(*model_.context, [&] {
      return Place{Scope{model_.context, {}, ""}.universe()};
    });
    statement(region);
    number_statements();
    model_.context->restart_budget();
    return std::move(model_);
  }

 private:
  // Places
  // ---------------------------------------------------------------------------------------------------------------

  // Calls `visit_body` inside of a loop or of one side of a condition.
  template <class Make, class VisitBody>
  void go_inside(const ir::Stmt& s, bool side, const Make& make, const VisitBody& visit_body) {
    Place* outer = place_;
    place_ = &at(outer->inside, key_of(s, side)).get(*model_.context, [&] {
      Place result{outer->domain,    outer->exact,   outer->exact_but_csr, outer->exact_bounds,
                   outer->iterators, outer->numbers, outer->csr,           s};
      make(result);
      return result;
    });
    visit_body();
    place_ = outer;
  }

  Scope scope_of(const Place& place) const { return {model_.context, place.iterators, ""}; }

  void open_loop(Place& place, const ir::Symbol& iterator) const {
    place.iterators.push_back(iterator);
    place.domain = checked(*model_.context, isl_set_add_dims(place.domain.release(), isl_dim_set, 1));
  }

  static void note_numbers(Place& place, const ir::For& loop) {
    const auto lower = ir::as_int(loop.lower), upper = ir::as_int(loop.upper);
    if (lower && upper && *lower < *upper) place.numbers[loop.iterator] = {loop.lower, ir::int_const(*upper - 1)};
  }

  // Pieces of a union are compared pair by pair, here and in all that is asked of the model: the cases of conditions
  // inside of each other soon take seconds. What has many is kept as it is, which is more than what is executed.
  // False: it was not.
  bool restrict(Place& place, const Expr& condition, const Abstraction& abstraction) const {
    const isl::set points = points_of(scope_of(place), condition, abstraction);
    if (isl_set_n_basic_set(place.domain.get()) * isl_set_n_basic_set(points.get()) > most_pieces) {
      place.exact = place.exact_but_csr = false;
      return false;
    }
    place.domain = coalesced(intersection(place.domain, points));
    place.exact = place.exact && abstraction.exact();
    return true;
  }

  // Statements
  // -----------------------------------------------------------------------------------------------------------

  void statement(const ir::Stmt& s) {
    if (!s) return;
    ir::visit(s, ir::overloaded{
                     [&](const ir::Block& node) {
                       for (const ir::Stmt& child : node.body) statement(child);
                     },
                     [&](const ir::Allocate& node) {
                       accesses_.note_local(node.array, place_->iterators.size());
                       statement(node.body);
                     },
                     [&](const ir::For& node) { for_loop(s, node); },
                     [&](const ir::While& node) { while_loop(s, node); }, [&](const ir::If& node) { branch(s, node); },
                     [&](const ir::Contraction& node) { statement(node.loops); },
                     [&](const ir::CustomGradient& node) {  // its rules see the values that there are after it
                       for (const ir::Stmt& part : {node.body, node.adjoint, node.tangent}) statement(part);
                     },
                     [&](const auto&) { leaf(s); }});
  }

  void for_loop(const ir::Stmt& s, const ir::For& node) {
    header(s, {node.lower, node.upper});
    const auto make = [&](Place& place) {
      open_loop(place, node.iterator);
      note_numbers(place, node);
      Abstraction abstraction(environment_.facts, Abstraction::Remainders::Any, place.numbers);
      const Expr condition = trip_condition(node, abstraction);
      const bool restricted = restrict(place, condition, abstraction);
      const bool csr = row_loops_.note(place, node);
      place.exact_but_csr = place.exact_but_csr && (csr || abstraction.exact());
      place.exact_bounds = place.exact_bounds && restricted && abstraction.exact();
    };
    loops_.push_back(s);
    go_inside(s, false, make, [&] { statement(node.body); });
    loops_.pop_back();
  }

  void while_loop(const ir::Stmt& s, const ir::While& node) {
    const auto make = [&](Place& place) {
      open_loop(place, node.iterator);
      Abstraction abstraction(environment_.facts);
      const Expr condition = trip_condition(node, abstraction);
      restrict(place, condition, abstraction);
      place.exact = place.exact_but_csr = place.exact_bounds = false;  // how many trips is up to the data
    };
    loops_.push_back(s);
    go_inside(s, false, make, [&] {
      header(s, {node.condition});
      statement(node.body);
    });
    loops_.pop_back();
  }

  void branch(const ir::Stmt& s, const ir::If& node) {
    header(s, {node.condition});
    for (bool side : {true, false}) {
      const ir::Stmt& body = side ? node.then_body : node.else_body;
      if (!body) continue;
      const auto make = [&](Place& place) {
        Abstraction abstraction(environment_.facts, Abstraction::Remainders::Any, place.numbers);
        const Expr condition = abstraction.condition(node.condition, side);
        restrict(place, condition, abstraction);
        place.exact_but_csr = place.exact_but_csr && abstraction.exact();
      };
      go_inside(s, side, make, [&] { statement(body); });
    }
  }

  // What the bounds or the condition of `s` read.
  void header(const ir::Stmt& s, const std::vector<Expr>& expressions) {
    if (std::none_of(expressions.begin(), expressions.end(), ir::has_load)) return;
    add(s, expressions, [&](Statement& result) {
      for (const Expr& e : expressions) accesses_.add_reads(e, result);
    });
  }

  void leaf(const ir::Stmt& s) {
    std::vector<Expr> expressions;
    ir::for_each_child(s, ir::overloaded{[&](const Expr& e) { expressions.push_back(e); }, [](const ir::Stmt&) {}});
    add(s, expressions, [&](Statement& result) {
      auto write = [&](AccessKind kind, const ir::Array& array, const std::vector<Expr>& indices, ir::ReduceOp op) {
        accesses_.add_write(kind, array, indices, op, result);
      };
      for (const Expr& e : expressions) accesses_.add_reads(e, result);
      if (auto* node = s.as<ir::Assign>()) write(AccessKind::Write, node->array, node->indices, {});
      if (auto* node = s.as<ir::Pop>()) write(AccessKind::Write, node->array, node->indices, {});
      if (auto* node = s.as<ir::Reduce>()) write(AccessKind::Reduce, node->array, node->indices, node->op);
    });
  }

  // The next statement of the model: `add_accesses` is called unless they are known.
  template <class AddAccesses>
  void add(const ir::Stmt& s, const std::vector<Expr>& expressions, const AddAccesses& add_accesses) {
    KnownStatement& known = known_statement(s, expressions);
    PieceKey depths;
    for (const ir::Array& array : known.arrays) depths.push_back(accesses_.loops_around(array));
    Statement& like = at(known.by_depths, depths).get(*model_.context, [&] {
      Statement result;
      result.name = name_of(model_.statements.size());
      result.iterators = place_->iterators;
      result.loops = loops_;  // of bounds that are those of all others like it
      result.domain = checked(*model_.context, isl_set_set_tuple_name(place_->domain.copy(), result.name.c_str()));
      result.exact = place_->exact;
      result.exact_but_csr = place_->exact_but_csr;
      result.exact_bounds = place_->exact_bounds;
      for (const CsrLoop& loop : place_->csr) result.entries.push_back(csr_entry(loop, result));
      accesses_.set_numbers(place_->numbers);
      add_accesses(result);
      return result;
    });
    model_.statements.push_back(like);
    model_.statements.back().stmt = s;
    model_.statements.back().loops = loops_;
  }

  // Statements are the same, whatever their node, when they consist of the same ones.
  KnownStatement& known_statement(const ir::Stmt& s, const std::vector<Expr>& expressions) {
    PieceKey key{static_cast<std::uintptr_t>(s.kind())};
    for (const Expr& e : expressions) key.push_back(address(e.get()));
    ir::Array stored;
    if (auto* node = s.as<ir::Assign>()) stored = node->array;
    if (auto* node = s.as<ir::Pop>()) stored = node->array;
    if (auto* node = s.as<ir::Reduce>()) {
      stored = node->array;
      key.push_back(static_cast<std::uintptr_t>(node->op));
    }
    key.push_back(address(stored.get()));
    const auto [found, is_new] = place_->statements.try_emplace(key);
    KnownStatement& result = found->second;
    if (!is_new) return result;
    result.kept = s;
    if (stored) result.arrays.push_back(stored);
    for (const Expr& e : expressions) {
      ir::walk(e, [&](const Expr& part) {
        auto* load = part.as<ir::Load>();
        if (load && std::find(result.arrays.begin(), result.arrays.end(), load->array) == result.arrays.end())
          result.arrays.push_back(load->array);
      });
    }
    return result;
  }

  CsrEntry csr_entry(const CsrLoop& loop, const Statement& statement) const {
    Abstraction abstraction(environment_.facts);
    Expr iterator = ir::var(statement.iterators[static_cast<std::size_t>(loop.dim)]);
    std::vector<Expr> values = loop.row;
    values.push_back(iterator);
    isl::map key = relation_of(model_.context, statement, values, ir::bool_const(true), abstraction, {});
    return {loop.pointer, loop.dim, loop.strides, loop.of_data ? std::vector<Expr>() : loop.row, key};
  }

  static std::string name_of(std::size_t number) { return fmt::format("S{}", number); }

  // Gives statements of other models the names that they have in this one. Takes a few operations for each, which
  // must not be missing because of what was built before.
  void number_statements() {
    model_.context->restart_without_budget();
    for (std::size_t k = 0; k < model_.statements.size(); ++k) {
      Statement& s = model_.statements[k];
      const std::string name = name_of(k);
      if (s.name == name) continue;
      s.name = name;
      const auto rename = [&](isl::map& map) {
        map = checked(*model_.context, isl_map_set_tuple_name(map.release(), isl_dim_in, name.c_str()));
      };
      s.domain = checked(*model_.context, isl_set_set_tuple_name(s.domain.release(), name.c_str()));
      for (CsrEntry& entry : s.entries) rename(entry.key);
      for (Access& access : s.accesses) {
        rename(access.relation);
        for (Indirect& indirect : access.indirect) rename(indirect.subscript);
      }
    }
  }

  Environment& environment_;
  const RowLoops row_loops_;
  AccessBuilder accesses_;
  Model model_;
  // The current place in the program.
  std::vector<ir::Stmt> loops_;
  Place* place_ = nullptr;
};

}  // namespace

Model build_model(const ir::Program& program, const ir::Stmt& region, const std::shared_ptr<Context>& context) {
  Pieces pieces(context);
  Environment& environment = pieces.environment_of(program);
  return build_model(program, region, environment, assumption_around(program, region, environment, context), context);
}

const Assumption& assumption_around(const ir::Program& program, const ir::Stmt& region, Environment& environment,
                                    const std::shared_ptr<Context>& context) {
  return Assumptions(program, environment, context).around(region);
}

Model build_model(const ir::Program& program, const ir::Stmt& region, Environment& environment,
                  const Assumption& assumption, const std::shared_ptr<Context>& context) {
  // Questions are asked of pairs of statements: thousands take minutes although each is within the budget.
  constexpr int most_statements = 3000;
  int statements = 0;
  ir::walk_stmts(region, [&](const ir::Stmt& s) {
    statements += s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce || s.kind() == ir::Kind::Pop;
  });
  if (statements > most_statements) throw BudgetError();
  return guarded(*context, [&] { return Builder(program, environment, context).build(region, assumption.set); });
}

}  // namespace loopgrad::poly
