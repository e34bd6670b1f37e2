// Loops whose iterations share nothing but what they sum into: threads can take them apart, each with sums of its own.
#pragma once

#include "transforms/analysis/analysed.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace loopgrad::transforms {

/// The arrays and elements that a sequential loop sums into, when these sums are all that its iterations share.
struct SharedSum {
  ir::Array array;
  std::vector<ir::Expr> indices;
  ir::ReduceOp op = ir::ReduceOp::Add;
  SourceLocation location;
};

/// The sums of `loop` if its iterations share nothing else and every element summed into is the same for all
/// iterations and surely exists; nullopt otherwise. `loop` is a For inside `program`, by identity. An empty list: the
/// loop is parallel. A sum may happen in some iterations only where the element is there in any case: as loops around
/// go through all of them, or numbers choose it. A scalar must then be the block's own, or there must be only one
/// block.
std::optional<std::vector<SharedSum>> shared_sums(const Analysed& program, const ir::Stmt& loop);

/// An element that surely exists, and that the threads of no other block change.
struct OwnElement {
  ir::Array array;
  std::vector<ir::Expr> indices;
  bool assigned = false;  // before the loop in question
  bool is_target_of(const SharedSum& sum) const;
};

/// The same, with elements that may be added to even when the loop makes no trip.
std::optional<std::vector<SharedSum>> shared_sums(const Analysed& program, const ir::Stmt& loop,
                                                  const std::vector<OwnElement>& own);

/// Sums into copies: `sum` is replaced by a fresh scalar in `body`; used for partial results.
struct PartialSums {
  std::vector<ir::Array> parts;  // one for each sum, rank 0
  ir::Stmt body;                 // with the sums redirected into the parts
};
PartialSums redirect_sums(const std::vector<SharedSum>& sums, const ir::Stmt& body, const char* suffix);

/// `shared_sums` of loops, which takes dependence analysis, each found once. The program must outlive the object.
class KnownSums {
 public:
  explicit KnownSums(const Analysed& program) : program_(program) {}

  const std::optional<std::vector<SharedSum>>& of(const ir::Stmt& loop) const {
    const auto [found, is_new] = known_.try_emplace(loop.get());
    if (is_new) found->second = {loop, shared_sums(program_, loop)};
    return found->second.second;
  }

 private:
  const Analysed program_;
  mutable std::map<const ir::StmtNode*, std::pair<ir::Stmt, std::optional<std::vector<SharedSum>>>> known_;
};

}  // namespace loopgrad::transforms
