// Where the elements of each array live: what passes decide, with the reason, for `explain`.
//
// A decision has its legality in one place and its action in another. Which elements are alive at once, or meet, is
// asked of lifetimes.h and of isl; what is legal is re-addressed by ir::move_elements.
//
//   alias     merge_copies, read_levels, store_last_level: another array has the same values
//   folded    fold_arrays: an index modulo the number of places that are alive at once
//   windowed  row_windows: the rows that strips of rows still need
//   register  accumulate_in_registers (CPU), forward_elements, update_once, keep_last_elements (GPU): a scalar has the
//             element over some statements. Each says which; elements_in_scalars.h is the legality and the action (not
//             noted: nearly every sum is)
//   dead      unread_stores (not noted: adjoints are full of it)
//   expanded  expand_locals (noted by the plan of the sum that needs it)
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

enum class Storage { Alias, Folded, Windowed };

/// `where`: the user's line, if it is not the one that declares the array.
void note_storage(PassContext& context, const ir::Array& array, Storage storage, std::string place, std::string reason,
                  const SourceLocation& where);

}  // namespace loopgrad::transforms
