// Relations between instances of two statements: see model.h.
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
    return result;
  });
}

}  // namespace loopgrad::poly
