// Intersections that do not ask whether anything is left. isl asks that of each piece at each step, which takes an
// integer program of all parameters each time; who builds up a set or a relation step by step needs the answer at the
// end, if at all, and where some piece is known to be left the others need not be asked.
#pragma once

#include <isl/cpp.h>

namespace loopgrad::poly {

/// `a` and `b` at once. Pieces of the result may be empty without isl knowing it yet. The same holds for the others.
isl::set intersection(const isl::set& a, const isl::set& b);
isl::map intersection(const isl::map& a, const isl::map& b);
/// `a` for elements of `domain`, or to elements of `range`.
isl::map with_domain(const isl::map& a, const isl::set& domain);
isl::map with_range(const isl::map& a, const isl::set& range);
/// `a` for parameters as `parameters`, a set without dimensions, has them.
isl::map with_parameters(const isl::map& a, const isl::set& parameters);

}  // namespace loopgrad::poly
