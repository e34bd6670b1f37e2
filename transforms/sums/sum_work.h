// Estimates of the work of a sum in some order of its loops: instances, operations, bytes.
//
// The model: instances of the sum in the loop order of a plan, their operations, and the bytes that move between
// memory and a cache, on the machine that the plan is for (machine.h). It depends on that and on sizes, never on the
// machine at hand, so that plans, and with them the bits of a result, are the same everywhere. Whoever knows the sizes
// that a program will run with states them (CompileOptions::expected_sizes); any other size counts as `assumed_size`,
// and iterations that data decide count as `assumed_trips`. Estimates are rough: a plan should only yield to another
// one by a margin.
#pragma once

#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/pass/machine.h"
#include "transforms/sums/gather_sums.h"

#include <functional>

namespace loopgrad::transforms {

/// Of sums of one nest.
class SumWork {
 public:
  /// Sums that iterations of a loop may have in common all the same.
  enum class Shared : std::uint8_t { Scalars, AnySums };
  /// Whether iterations of a loop of the nest have nothing in common but such sums. Where these are into scalars,
  /// threads of one block can share the loop.
  using CanShareOut = std::function<bool(const ir::Stmt& loop, Shared sums)>;

  /// The references must outlive the object. `can_share_out` is only asked for machines with threads in blocks.
  SumWork(const ir::Program& program, const ir::Stmt& nest, const SizeEstimates& sizes, const Machine& machine,
          CanShareOut can_share_out = {})
      : machine_(machine),
        leaves_(leaves(nest)),
        program_(program),
        nest_(nest),
        sizes_(sizes),
        around_(surroundings(nest)),
        can_share_out_(std::move(can_share_out)),
        estimator_(program, sizes) {}

  /// "n = 1048576, k = 64": the sizes that estimates so far have used.
  std::string basis() const { return estimator_.basis(); }
  /// Some of them were not known.
  bool assumed() const { return estimator_.assumed(); }
  /// Nobody has stated some of them; what data decide does not count.
  bool assumed_sizes() const { return estimator_.assumed_sizes(); }

 protected:
  struct Loop {
    ir::Symbol iterator;
    double trips = 1, most = 1;          // likely, and that there is room for where data decide
    double span = 1;                     // values of its iterator in all iterations of the loops around it
    std::vector<double> direction = {};  // what one step changes in the iterators as written
    bool is_shared_out = false;          // by threads of a block
    bool is_parallel = true;             // but for sums
  };
  struct Work {
    double instances = 1, operations = 0, bytes = 0, nanoseconds = 0;
  };

  /// As written, outermost first.
  std::vector<Loop> loops_around(const ir::Stmt& sum);
  /// When each element is owned by one iteration of the loops over `separators`, of which `parallel` may run at once.
  std::vector<Loop> gather_loops(const ir::Stmt& sum, const Separators& separators, double& parallel);
  /// `lanes`: iterations of any loop may run side by side, so that accesses count as in the best direction.
  Work work_of(const ir::Stmt& sum, const std::vector<Loop>& written, std::vector<Loop> order, bool lanes);
  /// What a thread needs for `work` where blocks of a GPU keep tiles of what neighbouring elements have in common, and
  /// parts of long sums run side by side (map/gpu/tile_dense_sums.h). Nullopt for sums whose elements make no tiles.
  std::optional<double> nanoseconds_in_tiles(const ir::Stmt& sum, const Work& work);
  /// Elements of the target that the sum may add to.
  double elements_of(const ir::Stmt& sum);
  /// And in one iteration of the nest's outermost loop.
  double elements_of_iteration(const ir::Stmt& sum);
  double value_of(const ir::Expr& e) { return estimator_.value_of(e, {}); }
  double extent_of(const ir::Array& array, std::size_t dim) { return estimator_.value_of(array->shape[dim], {}); }
  /// How often an element in memory gets what loops inside of all that choose it have summed up. 0 where one loop
  /// chooses: threads that share it keep its elements in registers.
  double updates_of(const ir::Stmt& sum);
  /// Of locals that become arrays over the loops around them, written and read.
  double bytes_kept(const std::vector<ir::Array>& kept);

  /// Iterations of inner loops that can be given to threads of a block, however many these are.
  static double shared_out(const std::vector<Loop>& written);
  /// Threads of a block that iterations of inner loops can be given to.
  double shared_by_block(const std::vector<Loop>& written) const;
  /// What one thread would need for everything else in the nest.
  double rest_nanoseconds(const std::vector<ir::Stmt>& sums);
  /// And for these leaves.
  double nanoseconds_of(const StmtSet& own);
  /// Whether neighbouring iterations of the last loop of the order meet neighbouring elements.
  bool is_contiguous(const ir::Stmt& sum, const std::vector<Loop>& order);
  /// Iterations that a block's threads share: of the innermost loop of the order that stays at one element, and of
  /// those inside of it, over a block of neighbouring elements.
  double innermost_terms(const ir::Stmt& sum, const std::vector<Loop>& order);

  const Machine& machine_;
  const std::vector<ir::Stmt> leaves_;  // of the nest
  const ir::Program& program_;
  const ir::Stmt& nest_;

 private:
  bool is_entry(const ir::Stmt& sum, const ir::Expr& index) const;
  struct Access {
    ir::Array array;
    const std::vector<ir::Expr>* indices = nullptr;
  };

  struct Touched {
    double elements = 0;
    bool is_contiguous = false;
  };
  static Touched touched(const std::vector<ir::Expr>& indices, const std::vector<Loop>& written,
                         const std::vector<Loop>& order, std::size_t level);
  double elements_touched(const Access& access, const std::vector<Loop>& written, const std::vector<Loop>& order,
                          std::size_t level);
  double bytes_moved(const std::vector<Access>& accesses, const std::vector<Loop>& written, std::vector<Loop> order);
  std::vector<Loop> with_lanes(const ir::Stmt& sum, const std::vector<Loop>& written, std::vector<Loop> order) const;
  double elements_of(const ir::Array& array);

  const SizeEstimates& sizes_;
  const std::map<const ir::StmtNode*, std::vector<ir::Stmt>> around_;  // the leaves
  const CanShareOut can_share_out_;
  SizeEstimator estimator_;
};

}  // namespace loopgrad::transforms
