#include "dsl/symbolic/flat_index.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <utility>

namespace loopgrad::ir {

bool FlatIndices::is_of_sizes(const Expr& e) const {
  bool result = true, any = false;
  walk(e, [&](const Expr& part) {
    const auto* v = part.as<Var>();
    if (v) any = true;
    if (part.as<Load>() || (v && !sizes_.count(v->symbol))) result = false;
  });
  return result && any;
}

void FlatIndices::add_factors(const Expr& e, Stride& stride) {
  if (const auto* n = e.as<Binary>(); n && n->op == BinaryOp::Mul) {
    add_factors(n->a, stride);
    add_factors(n->b, stride);
    return;
  }
  if (as_int(e) == 1) return;
  const std::string text = print(e);
  factor_of_.emplace(text, e);
  stride.insert(text);
}

Stride FlatIndices::factors(const Expr& extent) {
  Stride result;
  add_factors(extent, result);
  return result;
}

Expr FlatIndices::product(const Stride& stride) const {
  Expr result;
  for (const std::string& factor : stride) {
    const Expr& e = factor_of_.at(factor);
    result = result ? result * e : e;
  }
  return result ? result : int_const(1);
}

void FlatIndices::add_terms(const Expr& e, const Expr& coefficient, const Stride& stride, StridedTerms& terms) {
  const auto* n = e.as<Binary>();
  if (n && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub)) {
    add_terms(n->a, coefficient, stride, terms);
    add_terms(n->b, n->op == BinaryOp::Sub ? -coefficient : coefficient, stride, terms);
    return;
  }
  if (const auto* u = e.as<Unary>(); u && u->op == UnaryOp::Neg) return add_terms(u->a, -coefficient, stride, terms);
  if (n && n->op == BinaryOp::Mul && !is_of_sizes(e)) {
    const bool second = is_of_sizes(n->b) || as_int(n->b);
    const Expr &factor = second ? n->b : n->a, &rest = second ? n->a : n->b;
    if (is_of_sizes(factor) || (numbers_ && as_int(factor).value_or(0) > 1)) {
      Stride wider = stride;
      add_factors(factor, wider);
      return add_terms(rest, coefficient, wider, terms);
    }
    if (as_int(factor)) return add_terms(rest, factor * coefficient, stride, terms);
  }
  const bool is_subtracted = as_int(coefficient).value_or(1) < 0;
  const Expr term = is_subtracted ? -coefficient * e : coefficient * e;
  const bool of_sizes = is_of_sizes(e);
  StridedTerms::Rest& rest = of_sizes ? terms.of_sizes : terms.rests[stride];
  (is_subtracted ? rest.subtracted : rest.added).push_back(of_sizes ? term * product(stride) : term);
}

StridedTerms FlatIndices::terms(const Expr& e) {
  StridedTerms result;
  add_terms(e, int_const(1), {}, result);
  return result;
}

namespace {

/// That an iterator of 0 is added to.
std::int64_t number_in(const StridedTerms::Rest& rest) {
  std::int64_t sum = 0;
  for (const Expr& term : rest.added) sum += as_int(term).value_or(0);
  for (const Expr& term : rest.subtracted) sum -= as_int(term).value_or(0);
  return sum;
}

/// Numbers, such as the row that the first m in i*m + m + j stands for, come after the other terms that are added.
Expr sum_of(const std::vector<Expr>& added, const std::vector<Expr>& subtracted) {
  Expr sum;
  for (const bool numbers : {false, true})
    for (const Expr& term : added)
      if (as_int(term).has_value() == numbers) sum = sum ? sum + term : term;
  if (!sum) sum = int_const(0);
  for (const Expr& term : subtracted) sum = sum - term;
  return sum;
}

}  // namespace

std::vector<Expr> FlatIndices::indices(const StridedTerms& terms, const std::vector<Stride>& chain) {
  std::vector<StridedTerms::Rest> rests;
  for (const Stride& stride : chain) {
    const auto found = terms.rests.find(stride);
    rests.push_back(found == terms.rests.end() ? StridedTerms::Rest() : found->second);
  }
  // In i*m + (m - 1 - j) the second m is where the columns count down from; in i*m + m + j it is a row further.
  const auto counts_down = [&](std::size_t k) {
    if (k >= rests.size() || rests[k].subtracted.empty()) return false;
    return std::all_of(rests[k].added.begin(), rests[k].added.end(),
                       [](const Expr& e) { return as_int(e).has_value(); });
  };
  const auto dimension_of = [&](const Expr& term) {
    std::size_t k = 0;
    while (!quotient(factors(term), chain[k])) ++k;  // the last one is 1
    return k;
  };
  const auto part = [&](const Expr& term, std::size_t k) { return product(*quotient(factors(term), chain[k])); };
  std::vector<std::vector<Expr>> first(rests.size());
  for (const Expr& term : terms.of_sizes.added) {
    const std::size_t k = dimension_of(term);
    // One row is enough to count down from: in (n - 1 - i)*m + (m - 1 - j) the rows are n*m.
    const bool is_start = counts_down(k + 1) && factors(term) == chain[k] && first[k + 1].empty();
    const std::size_t in = is_start ? k + 1 : k;
    first[in].push_back(part(term, in));
  }
  for (const Expr& term : terms.of_sizes.subtracted) {
    const std::size_t k = dimension_of(term);
    rests[k].subtracted.push_back(part(term, k));
  }
  for (std::size_t k = rests.size(); k-- > 1;) {
    if (!counts_down(k) || !first[k].empty() || number_in(rests[k]) >= 0) continue;
    // Nor is there one in n*m - 1 - (i*m + j): it is the last of the rows.
    const auto row = quotient(chain[k - 1], chain[k]);
    first[k].push_back(product(*row));
    rests[k - 1].subtracted.push_back(int_const(1));
  }
  std::vector<Expr> result;
  for (std::size_t k = 0; k < rests.size(); ++k) {
    first[k].insert(first[k].end(), rests[k].added.begin(), rests[k].added.end());
    result.push_back(sum_of(first[k], rests[k].subtracted));
  }
  return result;
}

std::optional<Stride> quotient(const Stride& product, const Stride& part) {
  if (!std::includes(product.begin(), product.end(), part.begin(), part.end())) return std::nullopt;
  Stride result;
  std::set_difference(product.begin(), product.end(), part.begin(), part.end(), std::inserter(result, result.end()));
  return result;
}

std::optional<std::vector<Stride>> as_chain(const std::set<Stride>& strides) {
  std::vector<Stride> chain(strides.begin(), strides.end());
  std::erase(chain, Stride());
  std::sort(chain.begin(), chain.end(), [](const Stride& a, const Stride& b) { return a.size() > b.size(); });
  chain.push_back({});
  for (std::size_t k = 1; k < chain.size(); ++k)
    if (!quotient(chain[k - 1], chain[k])) return std::nullopt;
  return chain;
}

bool same_product(const Expr& a, const Expr& b) {
  const auto factors_of = [](const Expr& e) {
    FlatIndices flat({}, true);
    std::pair<std::int64_t, Stride> result = {1, {}};
    for (const std::string& factor : flat.factors(simplify_indices(e))) {
      if (const auto number = as_int(flat.product({factor}))) result.first *= *number;
      else result.second.insert(factor);
    }
    return result;
  };
  return factors_of(a) == factors_of(b);
}

}  // namespace loopgrad::ir
