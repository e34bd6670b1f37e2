#include "dsl/symbolic/linear_form.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"

#include <algorithm>
#include <map>

namespace loopgrad::ir {

namespace {

// As the integers of a program do.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

void add_term(LinearForm& form, const Expr& atom, std::int64_t coefficient) {
  auto found = std::find_if(form.terms.begin(), form.terms.end(),
                            [&](const LinearForm::Term& term) { return equal(term.atom, atom); });
  if (found == form.terms.end()) {
    if (coefficient != 0) form.terms.push_back({atom, coefficient});
    return;
  }
  found->coefficient = wrapping_sum(found->coefficient, coefficient);
  if (found->coefficient == 0) form.terms.erase(found);
}

bool is_min_or_max(const Expr& e) {
  auto* node = e.as<Binary>();
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

// Collects sums. What is no sum is looked at once however often it occurs: bounds that were split again and again hold
// the same minimum many times over.
class Simplifier {
 public:
  LinearForm form(const Expr& e) {
    LinearForm result;
    collect(result, e, 1);
    return result;
  }

  Expr simplified(const Expr& e) {
    return rewrite(e, [this](const Expr& child) -> std::optional<Expr> {
      const bool sum = child.type() == ScalarType::I64 && (child.as<Binary>() || child.as<Unary>());
      if (!sum) return std::nullopt;
      Expr simple = expr_of(form(child));
      return equal(simple, child) ? child : simple;
    });
  }

  Expr expr_of(const LinearForm& form);

 private:
  void collect(LinearForm& form, const Expr& e, std::int64_t factor) {
    if (auto value = as_int(e)) {
      form.constant = wrapping_sum(form.constant, wrapping_product(factor, *value));
      return;
    }
    if (auto* node = e.as<Unary>(); node && node->op == UnaryOp::Neg)
      return collect(form, node->a, wrapping_product(-1, factor));
    if (auto* node = e.as<Binary>()) {
      if (node->op == BinaryOp::Add || node->op == BinaryOp::Sub) {
        collect(form, node->a, factor);
        return collect(form, node->b, node->op == BinaryOp::Add ? factor : wrapping_product(-1, factor));
      }
      if (node->op == BinaryOp::Mul) {
        if (auto value = as_int(node->a)) return collect(form, node->b, wrapping_product(factor, *value));
        if (auto value = as_int(node->b)) return collect(form, node->a, wrapping_product(factor, *value));
      }
    }
    const LinearForm& terms = form_of_term(e);
    for (const auto& term : terms.terms) add_term(form, term.atom, wrapping_product(factor, term.coefficient));
    form.constant = wrapping_sum(form.constant, wrapping_product(factor, terms.constant));
  }

  const LinearForm& form_of_term(const Expr& e) {
    auto found = known_.find(e.get());
    if (found == known_.end()) found = known_.emplace(e.get(), std::pair(e, term(e))).first;
    return found->second.second;
  }

  // What leaves its type is no index: neither a quotient nor the smaller of two follows from a sum of terms then.
  LinearForm term(const Expr& e) {
    auto* node = e.as<Binary>();
    const bool is_index = node && !may_wrap(node->a) && !may_wrap(node->b);
    if (is_index && is_min_or_max(e)) {  // of expressions that differ by a constant
      if (const auto ahead = apart(node->a, node->b)) {
        bool first = (*ahead < 0) == (node->op == BinaryOp::Min);
        return form(first ? node->a : node->b);
      }
    }
    const auto divisor = is_index && node->op == BinaryOp::FloorDiv ? as_int(node->b) : std::nullopt;
    if (divisor && *divisor > 0) {
      LinearForm numerator = form(node->a);
      LinearForm quotient = take_quotient(numerator, *divisor);
      Expr rest = binary(BinaryOp::FloorDiv, expr_of(numerator), node->b);
      if (auto value = as_int(rest)) quotient.constant += *value;
      else add_term(quotient, rest, 1);
      return quotient;
    }
    Expr atom = rewrite(e, [&](const Expr& child) -> std::optional<Expr> {
      if (child.same_as(e) || child.type() != ScalarType::I64) return std::nullopt;
      return simplified(child);
    });
    return {{{atom, 1}}, 0};
  }

  std::optional<std::int64_t> apart(const Expr& a, const Expr& b) {
    const LinearForm difference = form(a - b);
    return difference.terms.empty() ? std::optional(difference.constant) : std::nullopt;
  }

  std::map<const ExprNode*, std::pair<Expr, LinearForm>> known_;  // with the node, so that no other takes its place
};

Expr scaled(const Expr& atom, std::int64_t coefficient) {
  return coefficient == 1 ? atom : int_const(coefficient) * atom;
}

Expr Simplifier::expr_of(const LinearForm& form) {
  if (form.terms.size() == 1 && form.terms[0].coefficient == 1 && form.constant != 0 &&
      is_min_or_max(form.terms[0].atom)) {
    auto& node = *form.terms[0].atom.as<Binary>();
    Expr constant = int_const(form.constant);
    return binary(node.op, simplified(node.a + constant), simplified(node.b + constant));
  }
  Expr result;
  for (const auto& term : form.terms) {
    if (term.coefficient > 0)
      result = result ? result + scaled(term.atom, term.coefficient) : scaled(term.atom, term.coefficient);
  }
  bool started = static_cast<bool>(result);
  if (!started) result = int_const(form.constant);
  for (const auto& term : form.terms) {
    if (term.coefficient < 0) result = result - scaled(term.atom, -term.coefficient);
  }
  return started ? result + int_const(form.constant) : result;
}

}  // namespace

LinearForm linear_form(const Expr& e) { return Simplifier().form(e); }
Expr to_expr(const LinearForm& form) { return Simplifier().expr_of(form); }
Expr simplify_indices(const Expr& e) { return Simplifier().simplified(e); }

std::optional<std::int64_t> coefficient_of(const Expr& e, const Symbol& symbol) {
  std::int64_t result = 0;
  for (const auto& term : linear_form(e).terms) {
    if (auto* node = term.atom.as<Var>()) {
      if (node->symbol == symbol) result = term.coefficient;
    } else if (mentions(term.atom, symbol)) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<std::int64_t> distance(const Expr& a, const Expr& b) {
  if (a.type() != b.type()) return std::nullopt;
  const LinearForm form = linear_form(a - b);
  return form.terms.empty() ? std::optional(form.constant) : std::nullopt;
}

// x mod m and y mod m when x - y is a constant that m does not divide.
static bool remainders_differ(const Expr& a, const Expr& b) {
  const auto *x = a.as<Binary>(), *y = b.as<Binary>();
  if (!x || !y || x->op != BinaryOp::Mod || y->op != BinaryOp::Mod) return false;
  const auto m = as_int(x->b);
  if (!m || *m < 1 || as_int(y->b) != m || may_wrap(x->a) || may_wrap(y->a)) return false;
  const auto apart = distance(x->a, y->a);
  return apart && *apart % *m != 0;
}

bool is_never_negative(const Program& program, const Expr& e) {
  if (may_wrap(e)) return false;
  const LinearForm form = linear_form(e);
  return form.constant >= 0 && std::all_of(form.terms.begin(), form.terms.end(), [&](const LinearForm::Term& term) {
           auto* var = term.atom.as<Var>();
           return term.coefficient > 0 && var &&
                  std::find(program.sizes.begin(), program.sizes.end(), var->symbol) != program.sizes.end();
         });
}

bool surely_differ(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (remainders_differ(a[k], b[k]) || distance(a[k], b[k]).value_or(0) != 0) return true;
  }
  return false;
}

bool are_in_different_planes(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    const auto at = as_int(a[k]), other = as_int(b[k]);
    if (at && other && *at != *other) return true;
  }
  return false;
}

bool may_read(const Expr& e, const Array& array, const std::vector<Expr>& indices) {
  bool found = false;
  walk(e, [&](const Expr& child) {
    auto* load = child.as<Load>();
    found = found || (load && load->array == array && !surely_differ(load->indices, indices));
  });
  return found;
}

Stmt simplify_indices(const Stmt& s) {
  return rewrite(s, [](const Expr& e) -> std::optional<Expr> { return simplify_indices(e); });
}

}  // namespace loopgrad::ir
