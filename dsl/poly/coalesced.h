// Sets and maps in fewer pieces, with the same points.
//
// isl 0.25 may add points where pieces have integer divisions: of { [j] : 0 <= j <= 4 and (j <= 2 or j % 3 > 0) },
// which lacks 3, isl_set_coalesce makes { [j] : 0 <= j <= 4 }. What is not equal to what it was is left as it was.
#pragma once

#include <isl/aff.h>
#include <isl/cpp.h>

namespace loopgrad::poly {

inline isl::set coalesced(const isl::set& set) {
  const isl::set fewer = set.coalesce();
  return !set.involves_locals() || fewer.is_equal(set) ? fewer : set;
}

inline isl::map coalesced(const isl::map& map) {
  const isl::map fewer = map.coalesce();
  return !map.wrap().involves_locals() || fewer.is_equal(map) ? fewer : map;
}

inline isl::pw_aff coalesced(const isl::pw_aff& value) {
  const isl::pw_aff fewer = value.coalesce();
  return !value.involves_locals() || isl_pw_aff_is_equal(fewer.get(), value.get()) == isl_bool_true ? fewer : value;
}

}  // namespace loopgrad::poly
