#include "tape/name_values.h"

#include "dsl/frontend/nest_locals.h"
#include "dsl/frontend/shared_values.h"
#include "dsl/ir/interner.h"
#include "dsl/ir/library_calls.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "tape/stores.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;
using ir::UnaryOp;

// An adjoint may take this many times the operations of what it is the adjoint of, and a few more.
constexpr double times_forward = 4, few_operations = 8;

// So many times a function of a library may be called where the statement calls one: for its value, its derivative, and
// once more.
constexpr double times_called = 3;

/// What an expression costs written out: `adjoint` counts the operations of the terms for all active reads in it, from
/// a seed that costs nothing, and `adjoint_calls` the functions of a library among them.
struct Cost {
  double operations = 0, reads = 0, adjoint = 0, calls = 0, adjoint_calls = 0;

  void pass(const Cost& operand, double slope, double slope_calls) {
    operations += operand.operations;
    calls += operand.calls;
    reads += operand.reads;
    adjoint += operand.adjoint + operand.reads * slope;
    adjoint_calls += operand.adjoint_calls + operand.reads * slope_calls;
  }
};

bool is_linear(const Expr& e) {
  if (const auto* n = e.as<ir::Unary>()) return n->op == UnaryOp::Neg;
  if (const auto* n = e.as<ir::Binary>()) return n->op == BinaryOp::Add || n->op == BinaryOp::Sub;
  return e.kind() == ir::Kind::Cast;
}

bool is_function(const Expr& e) {
  const auto* n = e.as<ir::Unary>();
  const auto* two = e.as<ir::Binary>();
  return (n && n->op != UnaryOp::Neg && n->op != UnaryOp::Not) ||
         (two && (two->op == BinaryOp::Div || two->op == BinaryOp::Pow || two->op == BinaryOp::Atan2));
}

bool is_operation(const Expr& e) {
  const auto* n = e.as<ir::Binary>();
  return is_function(e) || e.kind() == ir::Kind::Fma || (n && is_float(e.type()));
}

using CostOf = std::function<const Cost&(const Expr&)>;

/// `of` knows the operands.
Cost cost_of(const Expr& e, const CostOf& of, const IsActive& active) {
  Cost cost;
  cost.operations = is_operation(e) ? 1 : 0;
  cost.calls = ir::is_library_call(e) ? 1 : 0;
  const double own = cost.calls;
  ir::visit(e,
            ir::overloaded{
                [&](const ir::Load& n) { cost.reads = is_float(e.type()) && active(n.array) ? 1 : 0; },
                [&](const ir::Unary& n) {
                  const Cost& a = of(n.a);
                  cost.pass(a, is_linear(e) ? 0 : 2 + a.operations, is_linear(e) ? 0 : own + a.calls);
                },
                [&](const ir::Binary& n) {
                  const double a = of(n.a).operations, b = of(n.b).operations;
                  const double a_calls = of(n.a).calls, b_calls = of(n.b).calls;
                  const bool product = n.op == BinaryOp::Mul;
                  cost.pass(of(n.a), is_linear(e) ? 0 : product ? 1 + b : 2 + a + b, is_linear(e) ? 0 : own + b_calls);
                  cost.pass(of(n.b),
                            is_linear(e) ? 0
                            : product    ? 1 + a
                                         : 2 + a + 2 * b,
                            is_linear(e) ? 0 : own + a_calls + (product ? 0 : b_calls));
                },
                [&](const ir::Fma& n) {
                  cost.pass(of(n.a), 1 + of(n.b).operations, of(n.b).calls);
                  cost.pass(of(n.b), 1 + of(n.a).operations, of(n.a).calls);
                  cost.pass(of(n.c), 0, 0);
                },
                [&](const ir::Select& n) {
                  const double condition = of(n.condition).operations, calls = of(n.condition).calls;
                  cost.operations += condition;
                  cost.calls += calls;
                  cost.pass(of(n.a), condition, calls);
                  cost.pass(of(n.b), condition, calls);
                },
                [&](const ir::Cast& n) { cost.pass(of(n.a), 0, 0); },
                [](const auto&) {},
            });
  return cost;
}

/// The statements of a body outside of its loops and branches.
void straight_line(const Stmt& s, std::vector<Stmt>& out) {
  if (const auto* block = s.as<ir::Block>())
    for (const Stmt& child : block->body) straight_line(child, out);
  else if (const auto* local = s.as<ir::Allocate>()) straight_line(local->body, out);
  else if (stored_array(s)) out.push_back(s);
}

Expr value_of(const Stmt& store) {
  if (const auto* assign = store.as<ir::Assign>()) return assign->value;
  const auto* sum = store.as<ir::Reduce>();
  return sum ? sum->value : Expr();
}

/// What must stay part of a statement that stores `value`: all of it, and the product that a fused sum adds.
bool is_kept_whole(const Stmt& store, const Expr& value, const Expr& e) {
  if (e.same_as(value)) return true;
  const auto* sum = store.as<ir::Reduce>();
  const auto* negated = value.as<ir::Unary>();
  return sum && sum->fused && negated && e.same_as(negated->a);
}

/// Indices are no part of a value.
template <class F>
void for_each_operand(const Expr& e, const F& f) {
  if (e.kind() == ir::Kind::Load) return;
  ir::for_each_child(e, [&](const Expr& operand) { f(operand); });
}

/// The nodes of a body's straight line that are to get names.
class Choice {
 public:
  Choice(const Stmt& body, const IsActive& active) : active_(active) {
    straight_line(body, stores_);
    ir::Interner interner;
    for (const Stmt& store : stores_) enter(values_[store.get()] = interner.rewrite(value_of(store)));
    for (const Stmt& store : stores_) ++uses_[value(store).get()];
  }

  /// What the statement stores, with equal parts of all statements as one node.
  const Expr& value(const Stmt& store) const { return values_.at(store.get()); }

  /// Fills `wanted`, `split`: statements whose parts get names.
  void choose() {
    const CostOf of = [this](const Expr& e) -> const Cost& { return written_out_.at(e.get()); };
    for (const Expr& e : order_) written_out_[e.get()] = cost_of(e, of, active_);
    double adjoint = 0, operations = 0;
    for (const Expr& e : order_) operations += is_operation(e);
    std::unordered_set<const ir::ExprNode*> in_large, called_often;
    for (const Stmt& store : stores_) {
      const Cost& cost = of(value(store));
      if (cost.reads == 0) continue;
      adjoint += cost.adjoint + cost.reads;
      if (cost.adjoint + cost.reads > times_forward * cost.operations + few_operations) mark(value(store), in_large);
      if (calls_often(value(store), cost)) mark(value(store), called_often);
    }
    for (const Expr& e : order_)
      if (uses_[e.get()] > 1 && is_chosen_by_data(e)) wanted_.insert(e.get());
    const bool shares = adjoint > times_forward * operations + few_operations;
    if (!shares && in_large.empty() && called_often.empty() && wanted_.empty()) return;
    const CostOf named = [this](const Expr& e) -> const Cost& { return named_.at(e.get()); };
    for (const Expr& e : order_) {
      Cost& cost = named_[e.get()] = cost_of(e, named, active_);
      if (wants(e)) continue;
      if (!is_float(e.type()) || cost.operations < 1 || cost.reads < 1) continue;
      const bool large = in_large.contains(e.get());
      const bool shared = (large || shares) && uses_[e.get()] > 1;
      const bool steep = large && steep_.contains(e.get()) && (cost.operations >= 2 || is_function(e));
      const bool called = called_often.contains(e.get()) &&
                          (ir::is_library_call(e) || (cost.reads > 1 && called_with_.contains(e.get())));
      if (!shared && !steep && !called && !(large && is_function(e))) continue;
      wanted_.insert(e.get());
      cost = {0, 1, 0};
    }
  }

  /// Each read of such an element is a sum of its own in the adjoint, which has to find it. Rows of which data choose
  /// one are left alone: their elements are next to each other, and read again sooner than kept.
  bool is_chosen_by_data(const Expr& e) const {
    const auto* load = e.as<ir::Load>();
    return load && is_float(e.type()) && active_(load->array) && ir::chooses_element(load->indices);
  }

  /// Terms of the adjoint repeat the calls within a statement. What it calls last is its own result.
  static bool calls_often(const Expr& value, const Cost& cost) {
    const double last = ir::is_library_call(value) ? 1 : 0;
    return cost.adjoint_calls - last * cost.reads > times_called * (cost.calls - last);
  }

  bool wants(const Expr& e) const { return wanted_.contains(e.get()); }
  bool empty() const { return wanted_.empty(); }

 private:
  /// Operands first.
  void enter(const Expr& e) {
    if (uses_.contains(e.get())) return;
    uses_[e.get()] = 0;
    for_each_operand(e, [&](const Expr& operand) {
      enter(operand);
      ++uses_[operand.get()];
      if (!is_linear(e)) steep_.insert(operand.get());
      if (ir::is_library_call(e)) called_with_.insert(operand.get());
    });
    order_.push_back(e);
  }

  void mark(const Expr& e, std::unordered_set<const ir::ExprNode*>& nodes) const {
    if (nodes.insert(e.get()).second) for_each_operand(e, [&](const Expr& operand) { mark(operand, nodes); });
  }

  const IsActive& active_;
  std::vector<Stmt> stores_;
  std::map<const ir::StmtNode*, Expr> values_;
  std::vector<Expr> order_;  // distinct nodes
  std::unordered_map<const ir::ExprNode*, int> uses_;
  std::unordered_set<const ir::ExprNode*> steep_;        // operands of operations that are not linear
  std::unordered_set<const ir::ExprNode*> called_with_;  // operands of calls: a derivative is one of all of their reads
  std::unordered_map<const ir::ExprNode*, Cost> written_out_, named_;
  std::unordered_set<const ir::ExprNode*> wanted_;
};

struct NamedValue {
  Expr of, local;
  std::set<Array> reads;
};
using NamedValues = std::map<const ir::ExprNode*, NamedValue>;

class Namer {
 public:
  Namer(const IsActive& active, std::set<Array>& named) : active_(active), named_(named) {}

  /// A body of its own: of a loop, a branch, or all of the program. `known` holds on entry.
  Stmt body(const Stmt& s, NamedValues known) {
    if (!s) return s;
    Choice choice(s, active_);
    choice.choose();
    return part(s, choice, known);
  }

 private:
  Stmt part(const Stmt& s, const Choice& choice, NamedValues& known) {
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) { return block(n, s, choice, known); },
                            [&](const ir::Allocate& n) {
                              const Stmt inner = scope(n.body, choice, known);
                              return inner.same_as(n.body) ? s : ir::allocate(n.array, inner, n.location);
                            },
                            [&](const ir::For& n) {
                              const Stmt inner = body(n.body, kept_by(n.body, known));
                              forget_written(s, known);
                              return inner.same_as(n.body) ? s
                                                           : ir::for_loop(n.iterator, n.lower, n.upper, inner, n.mode,
                                                                          n.location, n.at_most);
                            },
                            [&](const ir::While& n) {
                              const Stmt inner = body(n.body, kept_by(n.body, known));
                              forget_written(s, known);
                              return inner.same_as(n.body)
                                         ? s
                                         : ir::while_loop(n.iterator, n.max_trips, n.condition, inner, n.location);
                            },
                            [&](const ir::If& n) {
                              const Stmt then_body = body(n.then_body, known), else_body = body(n.else_body, known);
                              forget_written(s, known);
                              if (then_body.same_as(n.then_body) && else_body.same_as(n.else_body)) return s;
                              return ir::if_then(n.condition, then_body, else_body, n.location);
                            },
                            [&](const auto&) { return stored_array(s) ? store_alone(s, choice, known) : s; },
                        });
  }

  /// Names of a nested scope end with it.
  Stmt scope(const Stmt& s, const Choice& choice, NamedValues& known) {
    NamedValues inside = known;
    const Stmt result = part(s, choice, inside);
    forget_written(s, known);
    return result;
  }

  Stmt block(const ir::Block& n, const Stmt& self, const Choice& choice, NamedValues& known) {
    std::vector<Stmt> statements;
    std::vector<ir::DeclaredLocal> locals;
    NamedValues inside = known;
    bool changed = false;
    for (const Stmt& child : n.body) {
      if (stored_array(child)) {
        statements.push_back(store(child, choice, inside, statements, locals));
      } else {
        statements.push_back(child.kind() == ir::Kind::Block ? scope(child, choice, inside)
                                                             : part(child, choice, inside));
      }
      changed |= !statements.back().same_as(child);
    }
    forget_written(self, known);
    return changed ? ir::nest_locals(statements, locals) : self;
  }

  Stmt store_alone(const Stmt& s, const Choice& choice, NamedValues& known) {
    std::vector<Stmt> statements;
    std::vector<ir::DeclaredLocal> locals;
    const Stmt last = store(s, choice, known, statements, locals);
    if (locals.empty()) return last;
    statements.push_back(last);
    return ir::nest_locals(statements, locals);
  }

  Stmt store(const Stmt& s, const Choice& choice, NamedValues& known, std::vector<Stmt>& statements,
             std::vector<ir::DeclaredLocal>& locals) {
    const Stmt result = with_names(s, choice, known, statements, locals);
    forget(*stored_array(s), known);
    return result;
  }

  Stmt with_names(const Stmt& s, const Choice& choice, NamedValues& known, std::vector<Stmt>& statements,
                  std::vector<ir::DeclaredLocal>& locals) {
    const Expr& value = choice.value(s);
    bool concerned = false;
    ir::walk(value, [&](const Expr& e) {
      concerned |= !is_kept_whole(s, value, e) && (choice.wants(e) || known.contains(e.get()));
      return !concerned;
    });
    if (!concerned) return s;
    const ir::KnownValues local_of = [&](const Expr& e) {
      const auto found = known.find(e.get());
      return found == known.end() || is_kept_whole(s, value, e) ? Expr() : found->second.local;
    };
    const ir::SharedValues split = ir::name_wanted_values(
        value, s->location, local_of, [&](const Expr& e) { return choice.wants(e) && !is_kept_whole(s, value, e); });
    for (const ir::SharedValues::Local& local : split.locals) {
      named_.insert(local.array);
      locals.push_back({local.array, statements.size()});
      const Stmt assignment = ir::assign(local.array, {}, local.value, s->location);
      statements.push_back(local.guard ? ir::if_then(local.guard, assignment, {}, s->location) : assignment);
      if (local.of) remember(local.of, local.array, known);
    }
    const auto* assign = s.as<ir::Assign>();
    if (assign) return ir::assign(assign->array, assign->indices, split.result, s->location);
    const auto& sum = *s.as<ir::Reduce>();
    return ir::reduce_like(sum, sum.array, sum.indices, split.result);
  }

  static void remember(const Expr& value, const Array& local, NamedValues& known) {
    NamedValue result{value, ir::load(local, {}, local->location), {}};
    ir::walk(value, [&](const Expr& e) {
      if (const auto* read = e.as<ir::Load>()) result.reads.insert(read->array);
    });
    known.emplace(value.get(), std::move(result));
  }

  static void forget(const Array& written, NamedValues& known) {
    std::erase_if(known, [&](const auto& entry) { return entry.second.reads.contains(written); });
  }
  static void forget_written(const Stmt& s, NamedValues& known) {
    if (known.empty()) return;
    ir::walk_stmts(s, [&](const Stmt& inner) {
      if (const Array* array = stored_array(inner)) forget(*array, known);
    });
  }
  static NamedValues kept_by(const Stmt& s, NamedValues known) {
    forget_written(s, known);
    return known;
  }

  const IsActive& active_;
  std::set<Array>& named_;
};

}  // namespace

Stmt name_values(const Stmt& body, const IsActive& active, std::set<Array>& named) {
  return Namer(active, named).body(body, {});
}

}  // namespace loopgrad::tape
