// Relations between instances of two statements: see model.h.
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/model.h"
#include "dsl/symbolic/linear_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace loopgrad::poly {

namespace {

// Whether the rows of both are numbered alike: those that are not say nothing of each other.
bool comparable(const CsrEntry& a, const CsrEntry& b) { return a.pointer == b.pointer && a.strides == b.strides; }

// Keys [row, entry] -> [row, entry] of a CSR structure: rows and entries rise together.
std::string keys_that_rise_together(std::size_t digits) {
  std::string from, to, less, more, same;
  for (std::size_t k = 0; k < digits; ++k) {
    less += fmt::format("{}({}r{} < q{})", k ? " or " : "", same, k, k);
    more += fmt::format("{}({}r{} > q{})", k ? " or " : "", same, k, k);
    same += fmt::format("r{} = q{} and ", k, k);
    from += fmt::format("r{}, ", k);
    to += fmt::format("q{}, ", k);
  }
  return fmt::format("{{ [{}e] -> [{}f] : (({}) and e < f) or ({}true) or (({}) and e > f) }}", from, to, less, same,
                     more);
}

// The relation that a `condition` on two keys gives between instances.
isl::map pairs_by_key(const CsrEntry& a, const CsrEntry& b, const isl::map& keys) {
  return a.key.apply_range(keys).apply_range(b.key.reverse());
}

bool may_alias(const Model& model, const ir::Array& a, const ir::Array& b) {
  return std::any_of(model.aliases.begin(), model.aliases.end(), [&](const ir::Fact& fact) {
    return (fact.array == a && fact.other == b) || (fact.array == b && fact.other == a);
  });
}

// An index as a sum of what is known in the iterators and of numbers that the region reads, but never writes.
struct Offset {
  ir::LinearForm known, read;
};

Offset offset_of(const ir::Expr& index) {
  Offset result;
  const ir::LinearForm form = ir::linear_form(ir::cast(ScalarType::I64, index));
  result.known.constant = form.constant;
  for (const ir::LinearForm::Term& term : form.terms)
    (ir::has_load(term.atom) ? result.read : result.known).terms.push_back(term);
  return result;
}

bool are_equal(const ir::LinearForm& a, const ir::LinearForm& b) {
  return std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(), [](const auto& x, const auto& y) {
    return x.coefficient == y.coefficient && ir::equal(x.atom, y.atom);
  });
}

bool changes(const Model& model, const ir::Expr& e) {
  bool any = false;
  ir::walk(e, [&](const ir::Expr& part) {
    const auto* load = part.as<ir::Load>();
    if (!load) return;
    any |= !model.aliases.empty();
    for (const Statement& statement : model.statements)
      for (const Access& access : statement.accesses)
        any |= access.array == load->array && access.kind != AccessKind::Read;
  });
  return any;
}

// Which iterators, of loops around both, the numbers that are read depend on; nullopt: on others, too.
std::optional<std::vector<unsigned>> common_iterators(const Statement& a, const Statement& b,
                                                      const ir::LinearForm& read) {
  std::size_t common = 0;
  while (common < std::min(a.loops.size(), b.loops.size()) && a.loops[common].same_as(b.loops[common]) &&
         a.iterators[common] == b.iterators[common])
    ++common;
  const auto is_mentioned = [&](const ir::Symbol& iterator) {
    return std::any_of(read.terms.begin(), read.terms.end(),
                       [&](const auto& term) { return ir::mentions(term.atom, iterator); });
  };
  std::vector<unsigned> result;
  for (std::size_t k = 0; k < common; ++k)
    if (is_mentioned(a.iterators[k])) result.push_back(static_cast<unsigned>(k));
  for (const Statement* one : {&a, &b})
    for (std::size_t k = common; k < one->iterators.size(); ++k)
      if (is_mentioned(one->iterators[k])) return std::nullopt;
  return result;
}

// Pairs that one index leaves where both have a number in common that is read, as `ptr[from[k]]` in
// `row[j - ptr[from[k]]]`: in one iteration of the loops that it depends on, what is known besides tells elements
// apart. nullopt for other indices.
std::optional<isl::map> pairs_at_one_offset(const Model& model, const Statement& sa, const ir::Expr& a,
                                            const Statement& sb, const ir::Expr& b) {
  if (!ir::has_load(a) || !ir::has_load(b)) return std::nullopt;
  const Offset one = offset_of(a), other = offset_of(b);
  if (one.known.terms.empty() || !are_equal(one.read, other.read)) return std::nullopt;
  for (const ir::LinearForm::Term& term : one.read.terms)
    if (changes(model, term.atom)) return std::nullopt;
  const auto iterators = common_iterators(sa, sb, one.read);
  if (!iterators) return std::nullopt;
  const auto known = [&](const Statement& s, const ir::LinearForm& form) {
    return to_pw_aff(ir::to_expr(form), {model.context, s.iterators, s.name});
  };
  std::optional<isl::pw_aff> x = known(sa, one.known), y = known(sb, other.known);
  if (!x || !y) return std::nullopt;
  const isl::map values = checked(*model.context, isl_map_from_pw_aff(x->release()));
  const isl::map places = checked(*model.context, isl_map_from_pw_aff(y->release()));
  isl_map* together = unrelated_pairs(sa, sb, true).release();
  for (const unsigned k : *iterators)
    together = isl_map_equate(together, isl_dim_in, static_cast<int>(k), isl_dim_out, static_cast<int>(k));
  return unrelated_pairs(sa, sb, true)
      .subtract(checked(*model.context, together))
      .unite(values.apply_range(places.reverse()));
}

}  // namespace

isl::map unrelated_pairs(const Statement& a, const Statement& b, bool all) {
  return guarded(a.domain.ctx(), [&] {
    auto in = static_cast<unsigned>(a.iterators.size()), out = static_cast<unsigned>(b.iterators.size());
    isl_space* space = isl_space_alloc(a.domain.ctx().get(), 0, in, out);
    space = isl_space_set_tuple_name(space, isl_dim_in, a.name.c_str());
    space = isl_space_set_tuple_name(space, isl_dim_out, b.name.c_str());
    isl_map* const result = all ? isl_map_universe(space) : isl_map_empty(space);
    if (!result) isl::exception::throw_last_error(a.domain.ctx());
    return isl::manage(result);
  });
}

isl::map possible_pairs(const Statement& a, const Statement& b) {
  return guarded(a.domain.ctx(), [&] {
    isl::map result = unrelated_pairs(a, b, true);
    for (const CsrEntry& x : a.entries) {
      for (const CsrEntry& y : b.entries) {
        if (!comparable(x, y)) continue;
        const isl::map keys(x.key.ctx(), keys_that_rise_together(x.strides.size() + 1));
        result = result.intersect(pairs_by_key(x, y, keys));
      }
    }
    return result;
  });
}

isl::map same_entry(const Statement& a, const Statement& b) {
  return guarded(a.domain.ctx(), [&] {
    isl::map result = unrelated_pairs(a, b, false);
    for (const CsrEntry& x : a.entries) {
      for (const CsrEntry& y : b.entries) {
        if (comparable(x, y)) result = result.unite(x.key.apply_range(y.key.reverse()));
      }
    }
    return result;
  });
}

bool are_in_different_planes(const Access& a, const Access& b) {
  return a.array == b.array && ir::are_in_different_planes(a.indices, b.indices);
}

isl::map touching_pairs(const Model& model, const Statement& sa, const Access& a, const Statement& sb,
                        const Access& b) {
  return guarded(*model.context, [&] {
    if (a.array != b.array) return unrelated_pairs(sa, sb, may_alias(model, a.array, b.array));
    if (are_in_different_planes(a, b)) return unrelated_pairs(sa, sb, false);
    isl::map result = a.relation.apply_range(b.relation.reverse());
    for (const Indirect& x : a.indirect) {
      for (const Indirect& y : b.indirect) {
        if (x.dim != y.dim || x.index_array != y.index_array || x.is_of_entry != y.is_of_entry || !x.injective)
          continue;
        result = result.intersect(x.subscript.apply_range(y.subscript.reverse()));
      }
    }
    for (std::size_t d = 0; d < a.indices.size(); ++d)
      if (const auto pairs = pairs_at_one_offset(model, sa, a.indices[d], sb, b.indices[d]))
        result = result.intersect(*pairs);
    return result;
  });
}

}  // namespace loopgrad::poly
