#include "transforms/linear_form.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;

namespace {

void add_term(LinearForm& form, const Expr& atom, std::int64_t coefficient) {
  auto found = std::find_if(form.terms.begin(), form.terms.end(),
                            [&](const LinearForm::Term& term) { return ir::equal(term.atom, atom); });
  if (found == form.terms.end()) {
    if (coefficient != 0) form.terms.push_back({atom, coefficient});
    return;
  }
  found->coefficient += coefficient;
  if (found->coefficient == 0) form.terms.erase(found);
}

bool is_min_or_max(const Expr& e) {
  auto* node = e.as<ir::Binary>();
  return node && (node->op == BinaryOp::Min || node->op == BinaryOp::Max);
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return ((a % b) + b) % b; }

// Takes out of `numerator` what `divisor` divides: (4*c + e + 7) // 4 is c + 1 + (e + 3) // 4. Returns what came out.
LinearForm take_quotient(LinearForm& numerator, std::int64_t divisor) {
  LinearForm quotient;
  std::vector<LinearForm::Term> rest;
  for (const auto& term : numerator.terms) {
    if (term.coefficient % divisor == 0) quotient.terms.push_back({term.atom, term.coefficient / divisor});
    else rest.push_back(term);
  }
  numerator.terms = rest;
  std::int64_t left = floor_mod(numerator.constant, divisor);
  quotient.constant = (numerator.constant - left) / divisor;
  numerator.constant = left;
  return quotient;
}

void collect(LinearForm& form, const Expr& e, std::int64_t factor) {
  if (auto value = ir::as_int(e)) {
    form.constant += factor * *value;
    return;
  }
  if (auto* node = e.as<ir::Unary>(); node && node->op == ir::UnaryOp::Neg) return collect(form, node->a, -factor);
  if (auto* node = e.as<ir::Binary>()) {
    if (node->op == BinaryOp::Add || node->op == BinaryOp::Sub) {
      collect(form, node->a, factor);
      return collect(form, node->b, node->op == BinaryOp::Add ? factor : -factor);
    }
    if (node->op == BinaryOp::Mul) {
      if (auto value = ir::as_int(node->a)) return collect(form, node->b, factor * *value);
      if (auto value = ir::as_int(node->b)) return collect(form, node->a, factor * *value);
    }
  }
  if (is_min_or_max(e)) {  // of expressions that differ by a constant
    auto& node = *e.as<ir::Binary>();
    if (const auto ahead = distance(node.a, node.b)) {
      bool first = (*ahead < 0) == (node.op == BinaryOp::Min);
      return collect(form, first ? node.a : node.b, factor);
    }
  }
  if (auto* node = e.as<ir::Binary>(); node && node->op == BinaryOp::FloorDiv) {
    auto divisor = ir::as_int(node->b);
    if (divisor && *divisor > 0) {
      LinearForm numerator = linear_form(node->a);
      LinearForm quotient = take_quotient(numerator, *divisor);
      for (const auto& term : quotient.terms) add_term(form, term.atom, factor * term.coefficient);
      form.constant += factor * quotient.constant;
      Expr rest = ir::binary(BinaryOp::FloorDiv, to_expr(numerator), node->b);
      if (auto value = ir::as_int(rest)) form.constant += factor * *value;
      else add_term(form, rest, factor);
      return;
    }
  }
  Expr atom = ir::rewrite(e, [&](const Expr& child) -> std::optional<Expr> {
    if (child.same_as(e) || child.type() != ScalarType::I64) return std::nullopt;
    return simplify_indices(child);
  });
  add_term(form, atom, factor);
}

Expr scaled(const Expr& atom, std::int64_t coefficient) {
  return coefficient == 1 ? atom : ir::int_const(coefficient) * atom;
}

}  // namespace

LinearForm linear_form(const Expr& e) {
  LinearForm form;
  collect(form, e, 1);
  return form;
}

Expr to_expr(const LinearForm& form) {
  if (form.terms.size() == 1 && form.terms[0].coefficient == 1 && form.constant != 0 &&
      is_min_or_max(form.terms[0].atom)) {
    auto& node = *form.terms[0].atom.as<ir::Binary>();
    Expr constant = ir::int_const(form.constant);
    return ir::binary(node.op, simplify_indices(node.a + constant), simplify_indices(node.b + constant));
  }
  Expr result;
  for (const auto& term : form.terms) {
    if (term.coefficient > 0)
      result = result ? result + scaled(term.atom, term.coefficient) : scaled(term.atom, term.coefficient);
  }
  bool started = static_cast<bool>(result);
  if (!started) result = ir::int_const(form.constant);
  for (const auto& term : form.terms) {
    if (term.coefficient < 0) result = result - scaled(term.atom, -term.coefficient);
  }
  return started ? result + ir::int_const(form.constant) : result;
}

std::optional<std::int64_t> coefficient_of(const Expr& e, const ir::Symbol& symbol) {
  std::int64_t result = 0;
  for (const auto& term : linear_form(e).terms) {
    if (auto* node = term.atom.as<ir::Var>()) {
      if (node->symbol == symbol) result = term.coefficient;
    } else if (mentions(term.atom, symbol)) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<std::int64_t> distance(const Expr& a, const Expr& b) {
  const LinearForm form = linear_form(a - b);
  return form.terms.empty() ? std::optional(form.constant) : std::nullopt;
}

// x mod m and y mod m when x - y is a constant that m does not divide.
static bool remainders_differ(const Expr& a, const Expr& b) {
  const auto *x = a.as<ir::Binary>(), *y = b.as<ir::Binary>();
  if (!x || !y || x->op != BinaryOp::Mod || y->op != BinaryOp::Mod) return false;
  const auto m = ir::as_int(x->b);
  if (!m || *m < 1 || ir::as_int(y->b) != m) return false;
  const auto apart = distance(x->a, y->a);
  return apart && *apart % *m != 0;
}

bool is_never_negative(const ir::Program& program, const Expr& e) {
  const LinearForm form = linear_form(e);
  return form.constant >= 0 && std::all_of(form.terms.begin(), form.terms.end(), [&](const LinearForm::Term& term) {
           auto* var = term.atom.as<ir::Var>();
           return term.coefficient > 0 && var &&
                  std::find(program.sizes.begin(), program.sizes.end(), var->symbol) != program.sizes.end();
         });
}

bool surely_differ(const std::vector<ir::Expr>& a, const std::vector<ir::Expr>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (remainders_differ(a[k], b[k]) || distance(a[k], b[k]).value_or(0) != 0) return true;
  }
  return false;
}

bool may_read(const Expr& e, const ir::Array& array, const std::vector<Expr>& indices) {
  bool found = false;
  ir::walk(e, [&](const Expr& child) {
    auto* load = child.as<ir::Load>();
    found = found || (load && load->array == array && !surely_differ(load->indices, indices));
  });
  return found;
}

Expr simplify_indices(const Expr& e) {
  return ir::rewrite(e, [](const Expr& child) -> std::optional<Expr> {
    bool sum = child.type() == ScalarType::I64 && (child.as<ir::Binary>() || child.as<ir::Unary>());
    if (!sum) return std::nullopt;
    Expr simple = to_expr(linear_form(child));
    return ir::equal(simple, child) ? child : simple;
  });
}

ir::Stmt simplify_indices(const ir::Stmt& s) {
  return ir::rewrite(s, [](const Expr& e) -> std::optional<Expr> { return simplify_indices(e); });
}

}  // namespace loopgrad::transforms
