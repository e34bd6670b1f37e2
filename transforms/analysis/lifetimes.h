// How many elements of an array are alive at once. Include from .cpp files only (isl is large).
#pragma once

#include "dsl/poly/model.h"

#include <optional>

namespace loopgrad::transforms {

/// Least numbers k such that the element at index l of a dimension may be where the one at l % k is: no two that differ
/// by a multiple of k there, and nowhere else, are alive at once.
struct Places {
  std::int64_t apart = 1;     // what a statement reads is alive while it stores
  std::int64_t in_place = 1;  // what it stores may take the place of what the same instance of it reads
};

/// Of an array that is allocated around the region of the model, and that nothing outside of it reads; nullopt where
/// there is no such number, or none up to `most_places`. May throw poly::BudgetError.
///
/// Time goes by the loops in order whose iterators are in the index, and by the nests in each of their iterations. An
/// index is alive from the first store to an element that has it to the last read of one; within a nest, iterations of
/// parallel loops come in any order, and elements count one by one: what is read only before an element is stored that
/// differs in this index alone is no longer alive then. So answers err on the side of more that is alive. Method:
/// Lefebvre and Feautrier, "Automatic storage management for parallel programs" (1998).
std::optional<Places> places_alive(const poly::Model& model, const ir::Array& array, std::size_t dimension);

inline constexpr std::int64_t most_places = 64;

}  // namespace loopgrad::transforms
