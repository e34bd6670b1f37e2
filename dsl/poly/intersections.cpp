#include "dsl/poly/intersections.h"

#include <vector>

namespace loopgrad::poly {
namespace {

// Of more, isl's own test for each piece pays: those that are empty would be compared with all others later.
constexpr int most_pieces = 256;

int pieces_of(const isl::map& a) { return isl_map_n_basic_map(a.get()); }
int pieces_of(const isl::set& a) { return isl_set_n_basic_set(a.get()); }

isl_space* parameters_of(const isl::map& a) { return isl_space_params(isl_map_get_space(a.get())); }
isl_space* parameters_of(const isl::set& a) { return isl_space_params(isl_set_get_space(a.get())); }

/// The conjunctions of `a`, with the parameters of `like` first.
std::vector<isl::basic_map> conjunctions_of(const isl::map& a, const isl::space& like) {
  std::vector<isl::basic_map> all;
  const isl::map aligned = isl::manage(isl_map_align_params(a.copy(), like.copy()));
  aligned.foreach_basic_map([&](const isl::basic_map& piece) { all.push_back(piece); });
  return all;
}

std::vector<isl::basic_set> conjunctions_of(const isl::set& a, const isl::space& like) {
  std::vector<isl::basic_set> all;
  const isl::set aligned = isl::manage(isl_set_align_params(a.copy(), like.copy()));
  aligned.foreach_basic_set([&](const isl::basic_set& piece) { all.push_back(piece); });
  return all;
}

isl::map union_of(isl_basic_map* piece) { return isl::manage(isl_map_from_basic_map(piece)); }
isl::set union_of(isl_basic_set* piece) { return isl::manage(isl_set_from_basic_set(piece)); }
bool is_plainly_empty(const isl::map& a) { return isl_map_plain_is_empty(a.get()) == isl_bool_true; }
bool is_plainly_empty(const isl::set& a) { return isl_set_plain_is_empty(a.get()) == isl_bool_true; }

/// `combined` of each conjunction of one and of the other, or `general`, isl's function for unions.
template <class A, class B, class Combined, class General>
A combination(const A& a, const B& b, Combined combined, General general) {
  if (pieces_of(a) * pieces_of(b) > most_pieces) return general();
  const isl::space parameters = isl::manage(isl_space_align_params(parameters_of(a), parameters_of(b)));
  const auto of_a = conjunctions_of(a, parameters);
  const auto of_b = conjunctions_of(b, parameters);
  // Also of one conjunction none may be left: aligning drops those that are plainly empty.
  if (of_a.empty() || of_b.empty()) return general();
  A result;
  for (const auto& x : of_a)
    for (const auto& y : of_b) {
      const A piece = union_of(combined(x.copy(), y.copy()));
      if (result.is_null() || is_plainly_empty(result)) result = piece;
      else if (!is_plainly_empty(piece)) result = result.unite(piece);
    }
  return result;
}

}  // namespace

isl::set intersection(const isl::set& a, const isl::set& b) {
  return combination(a, b, isl_basic_set_intersect, [&] { return a.intersect(b); });
}

isl::map intersection(const isl::map& a, const isl::map& b) {
  return combination(a, b, isl_basic_map_intersect, [&] { return a.intersect(b); });
}

isl::map with_domain(const isl::map& a, const isl::set& domain) {
  return combination(a, domain, isl_basic_map_intersect_domain, [&] { return a.intersect_domain(domain); });
}

isl::map with_range(const isl::map& a, const isl::set& range) {
  return combination(a, range, isl_basic_map_intersect_range, [&] { return a.intersect_range(range); });
}

isl::map with_parameters(const isl::map& a, const isl::set& parameters) {
  const auto as_set = [](isl_basic_map* x, isl_basic_set* y) {
    return isl_basic_set_unwrap(isl_basic_set_intersect_params(isl_basic_map_wrap(x), y));
  };
  return combination(a, parameters, as_set, [&] { return a.intersect_params(parameters); });
}

}  // namespace loopgrad::poly
