// Estimates of what each way of doing a sum costs, for the choice between them and for people.
//
// The model: instances of the sum in the loop order of the plan, their operations, and the bytes that move between
// memory and a cache, on the machine that the plan is for (machine.h). It depends on that and on sizes, never on the
// machine at hand, so that plans, and with them the bits of a result, are the same everywhere. Whoever knows the sizes
// that a program will run with states them (CompileOptions::expected_sizes); any other size counts as `assumed_size`,
// and iterations that data decide count as `assumed_trips`. Estimates are rough: a plan should only yield to another
// one by a margin.
#pragma once

#include "transforms/analysis/size_estimates.h"
#include "transforms/pass/machine.h"
#include "transforms/sums/gather_sums.h"

#include <loopgrad/report.h>

#include <functional>

namespace loopgrad::transforms {

/// Estimates for sums of one nest.
class SumCosts {
 public:
  /// Whether iterations of a loop of the nest have nothing in common but sums into scalars, so that threads of one
  /// block can share them.
  using CanShareOut = std::function<bool(const ir::Stmt& loop)>;

  /// The references must outlive the object. `can_share_out` is only asked for machines with threads in blocks.
  SumCosts(const ir::Program& program, const ir::Stmt& nest, const SizeEstimates& sizes, const Machine& machine,
           CanShareOut can_share_out = {})
      : program_(program),
        sizes_(sizes),
        nest_(nest),
        machine_(machine),
        can_share_out_(std::move(can_share_out)),
        estimator_(program, sizes) {}

  /// Each element owned by one iteration of the loops over `separators`. `kept` are locals that have to be kept for all
  /// iterations of the loops around them.
  SumCandidate gather(const std::vector<ir::Stmt>& sums, const Separators& separators,
                      const std::vector<ir::Array>& kept);
  /// Partial results of blocks of iterations of the nest's outermost loop.
  SumCandidate partials(const std::vector<ir::Stmt>& sums);
  /// Each sum in a nest of its own, in which no two iterations of the outermost loop add to one element.
  SumCandidate apart(const std::vector<ir::Stmt>& sums, const std::vector<ir::Array>& kept);
  /// Whether what gathering keeps for all iterations takes more room than partial results would.
  bool keeps_more(const std::vector<ir::Array>& kept, const std::vector<ir::Stmt>& sums);
  SumCandidate atomic(const std::vector<ir::Stmt>& sums);
  SumCandidate serial(const std::vector<ir::Stmt>& sums);

  /// "n = 1048576, k = 64": the sizes that estimates so far have used.
  std::string basis() const { return estimator_.basis(); }
  /// Some of them were not known.
  bool assumed() const { return estimator_.assumed(); }

 private:
  struct Loop {
    ir::Symbol iterator;
    double trips = 1;
    std::vector<double> direction;  // what one step changes in the iterators as written
    bool is_shared_out = false;     // by threads of a block
  };
  struct Access {
    ir::Array array;
    const std::vector<ir::Expr>* indices = nullptr;
  };
  struct Work {
    double instances = 1, operations = 0, bytes = 0, nanoseconds = 0;
  };

  std::vector<Loop> loops_around(const ir::Stmt& sum);
  std::vector<Loop> gather_loops(const ir::Stmt& sum, const Separators& separators, double& parallel);
  double elements_touched(const Access& access, const std::vector<Loop>& written, const std::vector<Loop>& order,
                          std::size_t level);
  double bytes_moved(const std::vector<Access>& accesses, const std::vector<Loop>& written, std::vector<Loop> order);
  // `lanes`: iterations of any loop may run side by side, so that accesses count as in the best direction.
  Work work_of(const ir::Stmt& sum, const std::vector<Loop>& written, std::vector<Loop> order, bool lanes);
  std::vector<Loop> with_lanes(const ir::Stmt& sum, const std::vector<Loop>& written, std::vector<Loop> order) const;
  double shared_by_block(const std::vector<Loop>& written) const;
  double rest_nanoseconds(const std::vector<ir::Stmt>& sums);
  double elements_of(const ir::Stmt& sum);
  double elements_of(const ir::Array& array);
  double blocks_of(const std::vector<ir::Stmt>& sums, double elements);
  static bool is_small(const ir::Stmt& sum);
  double bytes_kept(const std::vector<ir::Array>& kept);

  const ir::Program& program_;
  const SizeEstimates& sizes_;
  const ir::Stmt& nest_;
  const Machine& machine_;
  const CanShareOut can_share_out_;
  SizeEstimator estimator_;
};

}  // namespace loopgrad::transforms
