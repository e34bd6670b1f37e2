// For which sizes does an index leave its extent? For indices that follow from sizes and iterators, where nobody needs
// to look at each of them in a run:
//
//   for i in 0..n:                          n > m                       (y has m elements)
//     y[i] = x[i + 1]               ->      n > 0 && n + 1 > k          (x has k)
//
// The iterations that an access happens in and that it leaves its array in are a set of isl's; what remains of it when
// the iterators are projected out is a condition on sizes, which costs nothing to evaluate before a run.
#pragma once

#include "transforms/bounds/open_accesses.h"

#include <memory>

namespace loopgrad::transforms {

/// When an index is outside of its extent.
struct Leaving {
  /// A bool of sizes: where it does not hold, no iteration leaves the extent. Null: nobody knows.
  ir::Expr sizes;
  /// Where it holds, one does. Otherwise data decide whether the access happens, or isl does not understand all of it.
  bool is_sure = false;

  bool never() const { return sizes && ir::as_int(sizes) == 0; }
};

/// One iteration that leaves the extent.
struct LeavingExample {
  std::vector<std::pair<std::string, std::int64_t>> iterators;
  std::int64_t index = 0;
};

/// Asks isl about the accesses of one program that OpenAccess::only_sizes marks; at most `most_asked` times and with a
/// budget for each, so that large programs do not take longer to generate. The others are "nobody knows".
class LeavingAccesses {
 public:
  static constexpr int most_asked = 1000;
  static constexpr unsigned long budget = 50'000;  // operations of isl for one access: some milliseconds

  explicit LeavingAccesses(const ir::Program& program);
  ~LeavingAccesses();
  LeavingAccesses(const LeavingAccesses&) = delete;

  Leaving leaving(const OpenAccess& access);
  /// For an error message: an iteration at which the access leaves its array, with these sizes; the first one. nullopt
  /// where isl cannot tell.
  std::optional<LeavingExample> example(const OpenAccess& access, const std::map<ir::Symbol, std::int64_t>& sizes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace loopgrad::transforms
