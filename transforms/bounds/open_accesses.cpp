#include "transforms/bounds/open_accesses.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <functional>
#include <map>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

IndexRanges::IndexRanges(const ir::Program& program) : program_(program) {
  context_.non_negative = [](const ir::Symbol&) { return true; };  // bounds are made of sizes
  context_.leaf = [this](const Expr& leaf) { return range_of_leaf(leaf); };
  context_.row_length = [this](const ir::Load& first) { return range_of_row(first); };
  written_ = stored_in(program.body);
  find_names(program);
}

/// Whenever such a scalar is read, it holds what that one assignment gave it.
void IndexRanges::find_names(const ir::Program& program) {
  std::set<Array> others;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    const auto* assign = s.as<ir::Assign>();
    for_each_store(s, [&](const Array& array, const std::vector<Expr>&) {
      const bool is_scalar = assign && array->role == ir::ArrayRole::Local && array->shape.empty();
      if (!is_scalar || !names_.try_emplace(array, assign->value).second) others.insert(array);
    });
  });
  for (const Array& array : others) names_.erase(array);
}

void IndexRanges::enter(const Stmt& s) {
  if (const auto* loop = s.as<ir::While>()) {
    if (const auto trips = ir::range_of(loop->max_trips, context_))
      context_.variables[loop->iterator] = {ir::int_const(0), trips->highest - ir::int_const(1)};
    if (is_from_data(loop->max_trips)) from_data_.insert(loop->iterator);
  }
  if (const auto* loop = s.as<ir::For>()) enter(*loop);
}

void IndexRanges::enter(const ir::For& loop) {
  const auto lower = ir::range_of(loop.lower, context_);
  const auto behind = ir::highest_of(loop.upper, context_);
  if (lower && behind) context_.variables[loop.iterator] = {lower->lowest, least(*behind) - ir::int_const(1)};
  if (is_from_data(loop.lower) || is_from_data(loop.upper)) from_data_.insert(loop.iterator);
}

void IndexRanges::begin_trip(const Stmt& loop) {
  const auto* n = loop.as<ir::For>();
  const auto known = n ? context_.variables.find(n->iterator) : context_.variables.end();
  trips_.push_back(known == context_.variables.end() ? ir::int_const(0)
                                                     : simplify_indices(known->second.highest - known->second.lowest));
}

std::optional<ir::Range> IndexRanges::range_of_leaf(const Expr& leaf) const {
  const auto* load = leaf.as<ir::Load>();
  if (!load) {
    for (const ir::Symbol& size : program_.sizes)
      if (size == leaf.as<ir::Var>()->symbol) return ir::Range{leaf, leaf};
    return std::nullopt;
  }
  if (const auto name = names_.find(load->array); name != names_.end()) {
    if (!asked_.insert(load->array).second) return std::nullopt;  // it follows from itself
    const auto range = is_integer(load->array->type) ? ir::range_of(name->second, context_) : std::nullopt;
    asked_.erase(load->array);
    return range;
  }
  if (written_.count(load->array)) return std::nullopt;
  for (const ir::Fact& fact : program_.facts) {
    if (fact.array != load->array) continue;
    if (fact.kind == ir::FactKind::InRange) return ir::Range{fact.lower, fact.upper - ir::int_const(1)};
    if (fact.kind == ir::FactKind::CsrPointer) return ir::Range{ir::int_const(0), fact.upper};
  }
  return std::nullopt;
}

std::optional<ir::Range> IndexRanges::range_of_row(const ir::Load& first) const {
  const ir::Fact* const csr = written_.count(first.array) ? nullptr : ir::csr_fact(program_, first.array);
  if (!csr) return std::nullopt;
  return ir::Range{ir::int_const(0), csr->longest ? csr->longest : ir::cast(ScalarType::I64, csr->upper)};
}

bool IndexRanges::is_from_data(const Expr& index) const {
  bool data = false;
  ir::walk(index, [&](const Expr& part) {
    const auto* load = part.as<ir::Load>();
    const auto* v = part.as<ir::Var>();
    data |= load || (v && from_data_.count(v->symbol));
  });
  return data;
}

namespace {

/// A sum of products of sizes: by the ids of the factors, in rising order, their coefficient.
using Polynomial = std::map<std::vector<std::int64_t>, std::int64_t>;

/// nullopt where the expression is none, is a long one, or does not fit in 64 bits.
std::optional<Polynomial> polynomial(const Expr& e) {
  constexpr std::size_t most_terms = 32;
  if (const auto value = ir::as_int(e)) return Polynomial{{{}, *value}};
  if (const auto* v = e.as<ir::Var>()) return Polynomial{{{v->symbol.id}, 1}};
  const auto* n = e.as<ir::Binary>();
  if (!n || (n->op != BinaryOp::Add && n->op != BinaryOp::Sub && n->op != BinaryOp::Mul)) return std::nullopt;
  auto a = polynomial(n->a), b = polynomial(n->b);
  if (!a || !b || a->size() * b->size() > most_terms) return std::nullopt;
  bool fits = true;
  const auto add = [&](Polynomial& sum, const std::vector<std::int64_t>& factors, std::int64_t x, std::int64_t y) {
    std::int64_t product = 0, &all = sum[factors];
    fits = fits && !__builtin_mul_overflow(x, y, &product) && !__builtin_add_overflow(all, product, &all);
  };
  Polynomial result;
  if (n->op == BinaryOp::Mul) {
    for (const auto& [x, x_times] : *a)
      for (const auto& [y, y_times] : *b) {
        std::vector<std::int64_t> factors = x;
        factors.insert(factors.end(), y.begin(), y.end());
        std::sort(factors.begin(), factors.end());
        add(result, factors, x_times, y_times);
      }
  } else {
    result = *a;
    for (const auto& [factors, times] : *b) add(result, factors, times, n->op == BinaryOp::Add ? 1 : -1);
  }
  return fits ? std::optional(result) : std::nullopt;
}

}  // namespace

/// As is_never_negative, also for products: of flattened indices, n*m - 1 - ((n - 1)*m + m - 1) is 0.
bool IndexRanges::is_surely_not_negative(const Expr& e) const {
  if (is_never_negative(program_, e)) return true;
  const auto sum = polynomial(e);
  const auto is_size = [&](std::int64_t id) {
    return std::any_of(program_.sizes.begin(), program_.sizes.end(),
                       [&](const ir::Symbol& size) { return size.id == id; });
  };
  const bool is_sum = sum && std::all_of(sum->begin(), sum->end(), [&](const auto& term) {
                        return term.second >= 0 && std::all_of(term.first.begin(), term.first.end(), is_size);
                      });
  return is_sum || is_not_negative_for_all_rows(e);
}

/// No row is longer than all of them: what gets less with a longer row is no less than with that.
bool IndexRanges::is_not_negative_for_all_rows(const Expr& e) const {
  return std::any_of(program_.facts.begin(), program_.facts.end(), [&](const ir::Fact& fact) {
    const auto* longest = fact.longest ? fact.longest.as<ir::Var>() : nullptr;
    if (!longest || !mentions(e, longest->symbol)) return false;
    const auto sum = polynomial(e);
    const bool falls =
        sum && std::all_of(sum->begin(), sum->end(), [&](const auto& term) {
          return term.second <= 0 || std::count(term.first.begin(), term.first.end(), longest->symbol.id) == 0;
        });
    const Expr all = ir::cast(ScalarType::I64, fact.upper);
    return falls && is_surely_not_negative(ir::substitute(e, {{longest->symbol, all}}));
  });
}

/// Without a minimum where it is clear which side is smaller, as in min(n, n + m).
Expr IndexRanges::least(const Expr& e) const {
  const auto* n = e.as<ir::Binary>();
  if (!n || n->op != BinaryOp::Min) return e;
  const Expr a = least(n->a), b = least(n->b);
  if (is_surely_not_negative(b - a)) return a;
  return is_surely_not_negative(a - b) ? b : e;
}

/// As is_surely_not_negative, in the trips that loops around are known to make.
bool IndexRanges::is_not_negative_here(const Expr& e) const {
  return is_surely_not_negative(e) || std::any_of(trips_.begin(), trips_.end(),
                                                  [&](const Expr& apart) { return is_surely_not_negative(e - apart); });
}

bool IndexRanges::stays_within(const Expr& index, const Expr& extent) const {
  const auto range = ir::range_of(index, context_);
  if (!range) return false;
  const std::function<bool(const Expr&)> is_low = [&](const Expr& highest) {
    const auto* n = highest.as<ir::Binary>();
    if (n && n->op == BinaryOp::Max) return is_low(n->a) && is_low(n->b);
    if (n && n->op == BinaryOp::Min && (is_low(n->a) || is_low(n->b))) return true;
    return is_not_negative_here(extent - ir::int_const(1) - highest);
  };
  const std::function<bool(const Expr&)> is_high = [&](const Expr& lowest) {
    const auto* n = lowest.as<ir::Binary>();
    if (n && n->op == BinaryOp::Max && (is_high(n->a) || is_high(n->b))) return true;
    if (n && n->op == BinaryOp::Min) return is_high(n->a) && is_high(n->b);
    return is_not_negative_here(lowest);
  };
  return is_high(range->lowest) && is_low(range->highest);
}

Expr IndexRanges::beyond(const Expr& index, const Expr& extent) const {
  const auto range = ir::range_of(index, context_);
  if (!range) return {};
  const Expr outside = ir::binary(BinaryOp::Or, ir::binary(BinaryOp::Lt, range->lowest, ir::int_const(0)),
                                  ir::binary(BinaryOp::Ge, range->highest, extent));
  return ir::is_of_sizes(outside, program_) ? outside : Expr();
}

namespace {

class Finder {
 public:
  Finder(const ir::Program& program, const std::set<Array>& computed) : scalars_(program, computed), ranges_(program) {}

  std::vector<OpenAccess> run(const Stmt& body) {
    statement(body);
    return std::move(found_);
  }

 private:
  void statement(const Stmt& s) {
    if (!s) return;
    where_ = s->location;
    statement_ = s;
    const auto* loop = s.as<ir::While>();
    if (loop) {  // the condition is evaluated for each trip
      expression(loop->max_trips, {});
      enter(s);
      expression(loop->condition, {});
    } else {
      ir::for_each_child(s, ir::overloaded{[&](const Expr& e) { expression(e, {}); }, [](const Stmt&) {}});
      for_each_store(
          s, [&](const Array& array, const std::vector<Expr>& indices) { access(array, indices, {}, where_, false); });
      enter(s);
    }
    ranges_.begin_trip(s);
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { statement(child); }});
    ranges_.end_trip();
    around_.pop_back();
  }
  void enter(const Stmt& s) {
    ranges_.enter(s);
    around_.push_back(s);
  }

  void expression(const Expr& e, const Expr& when) {
    if (const auto* load = e.as<ir::Load>()) {
      for (const Expr& index : load->indices) expression(index, when);
      return access(load->array, load->indices, when, load->location.known() ? load->location : where_, true);
    }
    if (const auto* s = e.as<ir::Select>()) {
      expression(s->condition, when);
      expression(s->a, ir::both(when, s->condition));
      return expression(s->b, ir::both(when, ir::unary(ir::UnaryOp::Not, s->condition)));
    }
    const auto* b = e.as<ir::Binary>();
    if (b && (b->op == BinaryOp::And || b->op == BinaryOp::Or)) {
      expression(b->a, when);
      return expression(b->b, ir::both(when, b->op == BinaryOp::And ? b->a : ir::unary(ir::UnaryOp::Not, b->a)));
    }
    ir::for_each_child(e, ir::overloaded{[&](const Expr& child) { expression(child, when); }, [](const Stmt&) {}});
  }

  void access(const Array& array, const std::vector<Expr>& indices, const Expr& when, const SourceLocation& where,
              bool is_read) {
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const Expr index = scalars_.look_through(indices[d]);
      const bool only_sizes = !ranges_.is_from_data(index);
      if (!only_sizes && array->role == ir::ArrayRole::Tape) continue;
      if (ranges_.stays_within(index, array->shape[d])) continue;
      const Expr condition = when ? scalars_.look_through(when) : Expr();
      const bool known = scalars_.is_known(index) && (!condition || scalars_.is_known(condition)) && known_around();
      const Expr beyond = only_sizes ? ranges_.beyond(index, array->shape[d]) : Expr();
      found_.push_back({array, d, index, condition, statement_, around_, where, is_read, only_sizes, beyond, known});
    }
  }

  bool known_around() const {
    return std::all_of(around_.begin(), around_.end(), [&](const Stmt& s) {
      const auto known = [&](const Expr& e) { return scalars_.is_known(scalars_.look_through(e)); };
      if (const auto* loop = s.as<ir::For>()) return known(loop->lower) && known(loop->upper);
      if (const auto* branch = s.as<ir::If>()) return known(branch->condition);
      return s.kind() != ir::Kind::While;
    });
  }

  const ir::KnownScalars scalars_;
  IndexRanges ranges_;
  std::vector<Stmt> around_;
  Stmt statement_;
  SourceLocation where_;
  std::vector<OpenAccess> found_;
};

}  // namespace

std::vector<OpenAccess> open_accesses(const ir::Program& program, const std::set<Array>& computed) {
  return program.body ? Finder(program, computed).run(program.body) : std::vector<OpenAccess>();
}

}  // namespace loopgrad::transforms
