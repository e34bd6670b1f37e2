// What partial results of a sum consist of, and how many there are: for tree_sums.
#pragma once

#include "dsl/poly/model.h"
#include "transforms/analysis/nest.h"
#include "transforms/pass/machine.h"

namespace loopgrad::transforms {

/// The partial results of one group of sums.
struct Partial {
  ir::Stmt first;  // of the sums: its work decides how many blocks there are
  ir::Array target;
  ir::ReduceOp op;
  StmtSet sums;
  std::vector<ir::Expr> fixed;  // per dimension of the target: the index that all sums use, or null where they move
  std::vector<ir::Expr> shape;  // extents of the dimensions in which they move, as far as they do
  std::vector<ir::Expr> room;   // the target's extents in these dimensions
  ir::Array parts;              // [block, moving dimensions...]
  ir::Array own;                // a block's accumulator, or null when it works in `parts` directly

  // The moving ones of an element's indices.
  std::vector<ir::Expr> moving(const std::vector<ir::Expr>& indices) const {
    std::vector<ir::Expr> result;
    for (std::size_t k = 0; k < indices.size(); ++k) {
      if (!fixed[k]) result.push_back(indices[k]);
    }
    return result;
  }
  // The element of the target with these moving indices.
  std::vector<ir::Expr> element(const std::vector<ir::Expr>& moving) const {
    std::vector<ir::Expr> result = fixed;
    auto next = moving.begin();
    for (ir::Expr& index : result) {
      if (!index) index = *next++;
    }
    return result;
  }
  bool is_small() const;
};

/// Of sums into one target, in the nest that the model describes. `parts` and `own` are still null.
Partial partial_of(const poly::Model& model, const std::vector<ir::Stmt>& sums);

ir::Expr product(const std::vector<ir::Expr>& factors);

/// Trips of the loops around a sum as far as they are known on entry to the nest, as factors: all extents that depend
/// on nothing inside. A loop over the entries of CSR rows counts all entries, in place of the loops over these rows, or
/// the average of a row where data choose it; one whose bounds
/// are other data is taken to have the usual number of trips (`assumed_trips`), or `at_most` where that is less. One
/// whose bounds move with the loops around it counts with the width of its band, or half of the most that there may be.
std::vector<ir::Expr> work_of(const ir::Program& program, const poly::Model& model, const ir::Stmt& sum);

/// How many blocks of iterations should have partial results of that shape: so many that these stay a quarter of the
/// work for each element. Where `many` are wanted, which each has little of: as many as keep the partial results small
/// beside a GPU's memory, and the work of a block worth it.
ir::Expr blocks_for(std::vector<ir::Expr> work, const std::vector<ir::Expr>& shape, bool many);

/// How many blocks of iterations of `nest` have these partial results, all together: at least 1, known on entry. On a
/// CPU they are also to stay small beside what the nest's heaviest statement does.
/// Estimates ask for the same.
ir::Expr partial_blocks(const ir::Program& program, const poly::Model& model, const ir::For& nest,
                        const std::vector<Partial>& partials, const Machine& machine);

/// Whether a CPU has the iterations of a block in lanes (see wants_lanes): then blocks have whole tiles of them.
bool in_lanes(const ir::For& nest, const Machine& machine);
inline constexpr std::int64_t lanes_of_block = 64;

/// Whether a condition on sizes and iterators around the nest holds whenever the nest is entered.
bool holds_on_entry(const poly::Model& model, const ir::Expr& condition);

/// Whether the indices, and those of the reads that they are made of, lie inside their arrays: what of that the model
/// does not show. Iterators of the combining loops (`inside`) do; a constant may be beyond an array that is empty.
ir::Expr element_exists(const poly::Model& model, const ir::Array& array, const std::vector<ir::Expr>& indices,
                        const std::vector<ir::Symbol>& inside);

}  // namespace loopgrad::transforms
