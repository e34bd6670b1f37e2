#include "dsl/poly/extremes.h"

namespace loopgrad::poly {

namespace {

isl::set alone(const Context& context, const isl::set& set, unsigned dimension) {
  const auto count = static_cast<unsigned>(isl_set_dim(set.get(), isl_dim_set));
  isl_set* const first = isl_set_project_out(set.copy(), isl_dim_set, dimension + 1, count - dimension - 1);
  return checked(context, isl_set_project_out(first, isl_dim_set, 0, dimension));
}

using IsBounded = isl_bool(isl_set*, isl_dim_type, unsigned);
using Extreme = isl_pw_aff*(isl_set*, int);

std::optional<isl::pw_aff> extreme_of(const Context& context, const isl::set& set, unsigned dimension,
                                      IsBounded* is_bounded, Extreme* extreme) {
  const isl::set values = alone(context, set, dimension);
  const isl::set plain = checked(context, isl_set_remove_divs(values.copy()));
  if (!checked(context, is_bounded(plain.get(), isl_dim_set, 0))) return std::nullopt;
  return checked(context, extreme(values.copy(), 0));
}

}  // namespace

std::optional<isl::pw_aff> least_of(const Context& context, const isl::set& set, unsigned dimension) {
  return extreme_of(context, set, dimension, isl_set_dim_has_lower_bound, isl_set_dim_min);
}

std::optional<isl::pw_aff> greatest_of(const Context& context, const isl::set& set, unsigned dimension) {
  return extreme_of(context, set, dimension, isl_set_dim_has_upper_bound, isl_set_dim_max);
}

}  // namespace loopgrad::poly
