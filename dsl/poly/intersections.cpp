#include "dsl/poly/intersections.h"

namespace loopgrad::poly {
namespace {

bool is_one(const isl::map& a) { return isl_map_n_basic_map(a.get()) == 1; }
bool is_one(const isl::set& a) { return isl_set_n_basic_set(a.get()) == 1; }

isl_space* parameters_of(const isl::map& a) { return isl_space_params(isl_map_get_space(a.get())); }
isl_space* parameters_of(const isl::set& a) { return isl_space_params(isl_set_get_space(a.get())); }

/// The only conjunction of `a`, with the parameters of `like` first.
isl_basic_map* conjunction_of(const isl::map& a, isl_space* like) {
  isl_map* const aligned = isl_map_align_params(a.copy(), like);
  isl_basic_map_list* const list = isl_map_get_basic_map_list(aligned);
  isl_map_free(aligned);
  isl_basic_map* const only = isl_basic_map_list_get_basic_map(list, 0);
  isl_basic_map_list_free(list);
  return only;
}

isl_basic_set* conjunction_of(const isl::set& a, isl_space* like) {
  isl_set* const aligned = isl_set_align_params(a.copy(), like);
  isl_basic_set_list* const list = isl_set_get_basic_set_list(aligned);
  isl_set_free(aligned);
  isl_basic_set* const only = isl_basic_set_list_get_basic_set(list, 0);
  isl_basic_set_list_free(list);
  return only;
}

/// Parameters of both, in the order of `a`.
template <class A, class B>
isl_space* parameters_of_both(const A& a, const B& b) {
  return isl_space_align_params(parameters_of(a), parameters_of(b));
}

isl::map managed(isl_basic_map* conjunction) { return isl::manage(isl_map_from_basic_map(conjunction)); }
isl::set managed(isl_basic_set* conjunction) { return isl::manage(isl_set_from_basic_set(conjunction)); }

/// `combined` of both as conjunctions, or `general`, isl's function for unions.
template <class A, class B, class Combined, class General>
A combination(const A& a, const B& b, Combined combined, General general) {
  if (!is_one(a) || !is_one(b)) return general();
  isl_space* const parameters = parameters_of_both(a, b);
  auto* const x = conjunction_of(a, isl_space_copy(parameters));
  auto* const y = conjunction_of(b, parameters);
  return managed(combined(x, y));
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

isl::set with_parameters(const isl::set& a, const isl::set& parameters) {
  return combination(a, parameters, isl_basic_set_intersect_params, [&] { return a.intersect_params(parameters); });
}

isl::map with_parameters(const isl::map& a, const isl::set& parameters) {
  const auto as_set = [](isl_basic_map* x, isl_basic_set* y) {
    return isl_basic_set_unwrap(isl_basic_set_intersect_params(isl_basic_map_wrap(x), y));
  };
  return combination(a, parameters, as_set, [&] { return a.intersect_params(parameters); });
}

}  // namespace loopgrad::poly
