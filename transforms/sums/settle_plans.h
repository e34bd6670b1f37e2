// What plans of sums come to in the mapping, where that is another thing than they say.
//
// Whether the iterations of a sum into elements that data choose can be numbered where its nest stands in the end
// (sort_scatters.h), or whether there are rows for which an inverse pays (invert_scatters.h), is not known when it is
// planned, and what was to be gathered by columns is brought into order as well. Nor is it known whether the host gets
// to a product of matrices, or a kernel, which has no library.
#pragma once

#include "transforms/pass/pass.h"

#include <map>
#include <string>
#include <utility>

namespace loopgrad::transforms {

/// How the mapping does a sum that is marked by plan_segments.
enum class DataOrder {
  AsItStands,     // its loops stay as they are
  Owned,          // each block owns a range of the elements
  MadeElsewhere,  // iterations go by their elements at other sizes than those that are expected
  Made,           // they do at these
};

/// Sums by line and array, as plans know them; those that are not here stay as they stand.
class MadeOrders {
 public:
  void note(const ir::Reduce& sum, DataOrder order);
  DataOrder of(const ir::Reduce& sum) const;

 private:
  using Key = std::pair<std::string, std::int64_t>;
  static Key key_of(const ir::Reduce& sum) { return {sum.location.str(), sum.array->id}; }
  std::map<Key, DataOrder> orders_;
};

/// Of a machine.
struct OrderTexts {
  const char *made, *none;  // how an order is made, and when; why there is none
};

/// The plans for the marked sums of `program`, as it was before orders were made, say what is done.
void settle_segments(const ir::Program& program, const MadeOrders& orders, const OrderTexts& how, PassContext& context);

/// The plans for products of `program` that are no products in `mapped` say what their loops do.
void settle_products(const ir::Program& program, const ir::Program& mapped, PassContext& context);

}  // namespace loopgrad::transforms
