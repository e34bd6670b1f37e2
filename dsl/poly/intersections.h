// Intersections that do not ask whether anything is left. isl asks that at each step, which takes an integer program of
// all parameters each time; who builds up a set or a relation step by step needs the answer at the end, if at all.
#pragma once

#include <isl/cpp.h>

namespace loopgrad::poly {

/// `a` and `b` at once. Where each is one conjunction the result may be empty without isl knowing it yet; else this is
/// isl's own intersection. The same holds for the other functions.
isl::set intersection(const isl::set& a, const isl::set& b);
isl::map intersection(const isl::map& a, const isl::map& b);
/// `a` for elements of `domain`, or to elements of `range`.
isl::map with_domain(const isl::map& a, const isl::set& domain);
isl::map with_range(const isl::map& a, const isl::set& range);
/// `a` for parameters as `parameters`, a set without dimensions, has them.
isl::set with_parameters(const isl::set& a, const isl::set& parameters);
isl::map with_parameters(const isl::map& a, const isl::set& parameters);

}  // namespace loopgrad::poly
