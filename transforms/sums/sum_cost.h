// Estimates of what each way of doing a sum costs, for the choice between them and for people.
#pragma once

#include "transforms/pass/sum_plan.h"
#include "transforms/sums/exact_sums.h"
#include "transforms/sums/gather_sums.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/sum_work.h"

namespace loopgrad::transforms {

/// Estimates for sums of one nest.
class SumCosts : SumWork {
 public:
  using SumWork::assumed;
  using SumWork::assumed_sizes;
  using SumWork::basis;
  using SumWork::Shared;
  using SumWork::SumWork;

  /// Each element owned by one iteration of the loops over `separators`. `kept` are locals that have to be kept for all
  /// iterations of the loops around them.
  PlanCandidate gather(const std::vector<ir::Stmt>& sums, const Separators& separators,
                       const std::vector<ir::Array>& kept);
  /// Partial results of so many `blocks` (partial_results.h) of iterations of the nest's outermost loop.
  PlanCandidate partials(const std::vector<ir::Stmt>& sums, const ir::Expr& blocks);
  /// The same in a nest of its own, where each element in each block is owned by one iteration.
  PlanCandidate split(const std::vector<ir::Stmt>& sums, const Separators& separators,
                      const std::vector<ir::Array>& kept, const ir::Expr& blocks);
  /// The iterations in the order of their targets, which sums may have in common.
  PlanCandidate segments(const std::vector<ir::Stmt>& sums, const std::vector<ir::Array>& kept);
  /// In whole numbers (exact_sums.h), in the form that takes less time.
  PlanCandidate exact(const std::vector<ir::Stmt>& sums) { return exact(sums, form_of_exact(sums)); }
  PlanCandidate exact(const std::vector<ir::Stmt>& sums, const ExactForm& form);
  ExactForm form_of_exact(const std::vector<ir::Stmt>& sums);
  /// Each sum in a nest of its own, in which no two iterations of the outermost loop add to one element.
  PlanCandidate apart(const std::vector<ir::Stmt>& sums, const std::vector<ir::Array>& kept);
  /// Whether what gathering keeps for all iterations takes more room than partial results would.
  bool keeps_more(const std::vector<ir::Array>& kept, const std::vector<ir::Stmt>& sums, const ir::Expr& blocks);
  PlanCandidate atomic(const std::vector<ir::Stmt>& sums);
  PlanCandidate serial(const std::vector<ir::Stmt>& sums);
  /// In order in each iteration of the nest's outermost loop, which is parallel.
  PlanCandidate as_written(const std::vector<ir::Stmt>& sums);

 private:
  struct InverseSizes {
    double keys, targets, rows;  // rows: of the widest sum
  };
  PlanCandidate inverse(PlanCandidate result, double nanoseconds, double extra, const InverseSizes& n) const;
  PlanCandidate in_order(const std::vector<ir::Stmt>& sums, double parallel);
  double rest_alone(const std::vector<ir::Stmt>& sums);
  Work work_of_blocks(const ir::Stmt& sum, double blocks);
  double combining_us(double blocks, double elements, double partial_bytes) const;
  double chosen_elements(const ir::Stmt& sum, const std::vector<Loop>& written);
  double starts_of_sorting(std::size_t orders, std::size_t sums) const;
  double rows_with_one_key(const Scatter& scatter, const std::vector<Loop>& written);
  double in_memory(double bytes, double times_longer) const;
  static bool is_small(const ir::Stmt& sum);
};

}  // namespace loopgrad::transforms
