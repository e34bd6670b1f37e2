#include "dsl/poly/model.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"

#include "dsl/ir/visit.h"
#include "dsl/poly/relations.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;

namespace {

class Builder {
 public:
  Builder(const ir::Program& program, const std::shared_ptr<Context>& context)
      : program_(program), facts_(program), accesses_(context, facts_) {
    model_.context = context;
    for (const ir::Fact& fact : program.facts) {
      if (fact.kind == ir::FactKind::MayAlias) model_.aliases.push_back(fact);
    }
  }

  Model build(const ir::Stmt& region) {
    model_.assumptions = checked(*model_.context, isl_set_params(outside().universe().release()));
    assume_sizes();
    std::vector<ir::Stmt> path;
    if (find(program_.body, region, path)) assume_path(path, region);
    domain_ = outside().universe();
    statement(region);
    return std::move(model_);
  }

 private:
  struct State {  // what an If or a loop changes for its body
    isl::set domain;
    bool exact, exact_but_csr, exact_bounds;
  };

  Scope outside() const { return {model_.context, {}, ""}; }
  Scope here() const { return {model_.context, iterators_, ""}; }

  // Assumptions on parameters
  // ------------------------------------------------------------------------------------------

  void assume(const Expr& condition, const Abstraction& abstraction) {
    isl::set set = points_of(outside(), condition, abstraction);
    model_.assumptions = model_.assumptions.intersect(set.params());
  }

  void assume_sizes() {
    Expr all = ir::bool_const(true);
    auto at_least_zero = [&](const Expr& e) {
      Abstraction abstraction(facts_);
      Expr value = abstraction.value(e);
      if (abstraction.exact()) all = both(all, ir::binary(BinaryOp::Ge, value, ir::int_const(0)));
    };
    for (const ir::Symbol& size : program_.sizes) at_least_zero(ir::var(size));
    for (const ir::Array& array : program_.arrays) {
      for (const Expr& extent : array->shape) {
        if (!extent.as<ir::Var>() && !is_clamped(extent)) at_least_zero(extent);
      }
    }
    assume(all, Abstraction(facts_));
  }

  // max(e, 0)
  static bool is_clamped(const Expr& extent) {
    auto* node = extent.as<ir::Binary>();
    return node && node->op == BinaryOp::Max &&
           (ir::as_int(node->a).value_or(-1) >= 0 || ir::as_int(node->b).value_or(-1) >= 0);
  }

  static bool find(const ir::Stmt& at, const ir::Stmt& region, std::vector<ir::Stmt>& path) {
    if (at.get() == region.get()) return true;
    path.push_back(at);
    bool found = false;
    ir::visit(at, [&](const auto& node) {
      ir::for_each_child(node, ir::overloaded{[](const Expr&) {},
                                              [&](const ir::Stmt& child) {
                                                if (!found) found = find(child, region, path);
                                              }});
    });
    if (!found) path.pop_back();
    return found;
  }

  // A loop of one iteration around the region names a value; all the cases that it is chosen from would be many pieces
  // in every set, and of little use.
  static bool names_a_choice(const ir::For& loop) {
    bool chooses = false;
    ir::walk(loop.lower, [&](const Expr& e) {
      const auto* cast = e.as<ir::Cast>();
      chooses = chooses || e.as<ir::Select>() || (cast && cast->a.type() == ScalarType::Bool);
    });
    return chooses && ir::equal(loop.upper, loop.lower + ir::int_const(1));
  }

  void assume_path(const std::vector<ir::Stmt>& path, const ir::Stmt& region) {
    for (std::size_t k = 0; k < path.size(); ++k) {
      Abstraction abstraction(facts_);
      if (auto* loop = path[k].as<ir::For>(); loop && !names_a_choice(*loop))
        assume(trip_condition(*loop, abstraction), abstraction);
      if (auto* loop = path[k].as<ir::While>()) assume(trip_condition(*loop, abstraction), abstraction);
      if (auto* branch = path[k].as<ir::If>()) {
        const ir::Stmt& child = k + 1 < path.size() ? path[k + 1] : region;
        assume(abstraction.condition(branch->condition, child.get() == branch->then_body.get()), abstraction);
      }
    }
  }

  // Domains
  // --------------------------------------------------------------------------------------------------------------

  static Expr trip_condition(const ir::For& loop, Abstraction& abstraction) {
    Expr lower = abstraction.value(loop.lower), upper = abstraction.value(loop.upper);
    Expr iterator = ir::var(loop.iterator);
    Expr result = in_bounds(iterator, lower, upper);
    if (loop.at_most) {
      result = both(result, ir::binary(BinaryOp::Lt, iterator, lower + abstraction.value(loop.at_most)));
    }
    return result;
  }

  static Expr trip_condition(const ir::While& loop, Abstraction& abstraction) {
    return in_bounds(ir::var(loop.iterator), ir::int_const(0), abstraction.value(loop.max_trips));
  }

  void restrict(const Expr& condition, const Abstraction& abstraction) {
    domain_ = domain_.intersect(points_of(here(), condition, abstraction)).coalesce();
    exact_ = exact_ && abstraction.exact();
  }

  State save() const { return {domain_, exact_, exact_but_csr_, exact_bounds_}; }
  void restore(const State& state) {
    domain_ = state.domain;
    exact_ = state.exact;
    exact_but_csr_ = state.exact_but_csr;
    exact_bounds_ = state.exact_bounds;
  }

  void open_loop(const ir::Stmt& s, const ir::Symbol& iterator) {
    loops_.push_back(s);
    iterators_.push_back(iterator);
    domain_ = checked(*model_.context, isl_set_add_dims(domain_.release(), isl_dim_set, 1));
  }

  void close_loop(const State& state) {
    iterators_.pop_back();
    loops_.pop_back();
    restore(state);
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
                       accesses_.note_local(node.array, iterators_.size());
                       statement(node.body);
                     },
                     [&](const ir::For& node) { for_loop(s, node); },
                     [&](const ir::While& node) { while_loop(s, node); }, [&](const ir::If& node) { branch(s, node); },
                     [&](const ir::Contraction& node) { statement(node.loops); }, [&](const auto&) { leaf(s); }});
  }

  void for_loop(const ir::Stmt& s, const ir::For& node) {
    header(s, {node.lower, node.upper});
    State state = save();
    open_loop(s, node.iterator);
    Abstraction abstraction(facts_);
    restrict(trip_condition(node, abstraction), abstraction);
    bool csr = note_csr(node);
    exact_but_csr_ = exact_but_csr_ && (csr || abstraction.exact());
    exact_bounds_ = exact_bounds_ && abstraction.exact();
    statement(node.body);
    if (csr) entries_.pop_back();
    close_loop(state);
  }

  // Recognises `for e in [pointer[row], pointer[row + 1])`.
  bool note_csr(const ir::For& node) {
    const ir::Load *lower = as_indirect(node.lower), *upper = as_indirect(node.upper);
    if (!lower || !upper || lower->array != upper->array || !facts_.is_csr_pointer(lower->array)) return false;
    Abstraction abstraction(facts_);
    Expr row = abstraction.value(lower->indices[0]), next = abstraction.value(upper->indices[0]);
    if (!abstraction.exact()) return false;
    auto row_value = to_pw_aff(row, here()), next_value = to_pw_aff(next - ir::int_const(1), here());
    if (!row_value || !next_value) return false;
    if (!checked(*model_.context, isl_pw_aff_is_equal(row_value->get(), next_value->get()))) return false;
    entries_.push_back({lower->array, static_cast<int>(iterators_.size()) - 1, row});
    return true;
  }

  void while_loop(const ir::Stmt& s, const ir::While& node) {
    State state = save();
    open_loop(s, node.iterator);
    Abstraction abstraction(facts_);
    restrict(trip_condition(node, abstraction), abstraction);
    exact_ = exact_but_csr_ = exact_bounds_ = false;  // how many trips is up to the data
    header(s, {node.condition});
    statement(node.body);
    close_loop(state);
  }

  void branch(const ir::Stmt& s, const ir::If& node) {
    header(s, {node.condition});
    for (bool side : {true, false}) {
      const ir::Stmt& body = side ? node.then_body : node.else_body;
      if (!body) continue;
      State state = save();
      Abstraction abstraction(facts_);
      restrict(abstraction.condition(node.condition, side), abstraction);
      exact_but_csr_ = exact_but_csr_ && abstraction.exact();
      statement(body);
      restore(state);
    }
  }

  Statement& add(const ir::Stmt& s) {
    Statement result;
    result.stmt = s;
    result.name = fmt::format("S{}", model_.statements.size());
    result.iterators = iterators_;
    result.domain = checked(*model_.context, isl_set_set_tuple_name(domain_.copy(), result.name.c_str()));
    result.exact = exact_;
    result.exact_but_csr = exact_but_csr_;
    result.exact_bounds = exact_bounds_;
    result.loops = loops_;
    for (const Entry& entry : entries_) result.entries.push_back(csr_entry(entry, result));
    model_.statements.push_back(std::move(result));
    return model_.statements.back();
  }

  void header(const ir::Stmt& s, const std::vector<Expr>& expressions) {
    if (std::none_of(expressions.begin(), expressions.end(), ir::has_load)) return;
    Statement& result = add(s);
    for (const Expr& e : expressions) accesses_.add_reads(e, result);
  }

  void leaf(const ir::Stmt& s) {
    Statement& result = add(s);
    auto write = [&](AccessKind kind, const ir::Array& array, const std::vector<Expr>& indices, ir::ReduceOp op) {
      accesses_.add_write(kind, array, indices, op, result);
    };
    ir::visit(s, [&](const auto& node) {
      ir::for_each_child(
          node, ir::overloaded{[&](const Expr& e) { accesses_.add_reads(e, result); }, [](const ir::Stmt&) {}});
    });
    if (auto* node = s.as<ir::Assign>()) write(AccessKind::Write, node->array, node->indices, {});
    if (auto* node = s.as<ir::Pop>()) write(AccessKind::Write, node->array, node->indices, {});
    if (auto* node = s.as<ir::Reduce>()) write(AccessKind::Reduce, node->array, node->indices, node->op);
  }

  // CSR
  // ------------------------------------------------------------------------------------------------------

  struct Entry {
    ir::Array pointer;
    int dim;
    Expr row;
  };

  CsrEntry csr_entry(const Entry& entry, const Statement& statement) {
    Abstraction abstraction(facts_);
    Expr iterator = ir::var(iterators_[static_cast<std::size_t>(entry.dim)]);
    isl::map key = relation_of(model_.context, statement, {entry.row, iterator}, ir::bool_const(true), abstraction, {});
    return {entry.pointer, entry.dim, key};
  }

  const ir::Program& program_;
  Facts facts_;
  AccessBuilder accesses_;
  Model model_;
  // The current place in the program.
  std::vector<ir::Symbol> iterators_;
  std::vector<ir::Stmt> loops_;
  std::vector<Entry> entries_;
  isl::set domain_;
  bool exact_ = true, exact_but_csr_ = true, exact_bounds_ = true;
};

}  // namespace

Model build_model(const ir::Program& program, const ir::Stmt& region, const std::shared_ptr<Context>& context) {
  // Questions are asked of pairs of statements: thousands take minutes although each is within the budget.
  constexpr int most_statements = 3000;
  int statements = 0;
  ir::walk_stmts(region, [&](const ir::Stmt& s) {
    statements += s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce || s.kind() == ir::Kind::Pop;
  });
  if (statements > most_statements) throw BudgetError();
  return guarded(*context, [&] { return Builder(program, context).build(region); });
}

}  // namespace loopgrad::poly
