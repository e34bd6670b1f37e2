// Equal expressions as one node, so that equality is identity and what is shared is seen.
#pragma once

#include "dsl/ir/rewriter.h"

#include <unordered_map>

namespace loopgrad::ir {

/// Gives equal expressions the same node. Reads of one element are equal whatever is written in between: that is for
/// the caller to know. Linear in the distinct nodes.
class Interner final : public Rewriter {
 public:
  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override;

 private:
  std::unordered_map<const ExprNode*, Expr> known_;
  std::unordered_multimap<std::size_t, Expr> by_hash_;
  std::vector<Expr> kept_;  // a key must not be the address of another node later on
};

}  // namespace loopgrad::ir
