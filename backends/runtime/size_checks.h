// Generated code computes extents and bounds in 64 bits that wrap around: whether these fit is found out before a run.
#pragma once

#include "backends/runtime/binding.h"

namespace loopgrad::backend {

/// The extents of local arrays and the bounds of loops that follow from sizes alone. Those that iterators or data
/// decide are checked where the generated code computes them.
class SizeChecks {
 public:
  struct Bound {
    ir::Expr value;
    std::string loop;
    SourceLocation location;
  };
  struct Local {
    ir::Array array;
    std::vector<ir::Expr> extents;  // those of sizes alone
  };

  explicit SizeChecks(const ir::Program& program);

  /// Throws UsageError(BadSize) at the user's line for an expression that does not fit into 64 bits, and for a local
  /// array whose bytes do not. An extent below zero counts as zero.
  void check(const SizeValues& sizes) const;
  /// What `check` evaluates, for code that does so itself.
  const std::vector<Bound>& bounds() const { return bounds_; }
  const std::vector<Local>& locals() const { return locals_; }

 private:
  [[noreturn]] void refuse(const std::string& message, const std::string& loop, const std::string& array,
                           const SourceLocation& location) const;

  std::string program_;
  std::vector<Bound> bounds_;
  std::vector<Local> locals_;
};

/// The bounds of loops as the user wrote them, where sizes alone tell them. Passes take loops apart in ways that leave
/// bounds which `SizeChecks` cannot tell from those of iterators, and compute with them a little further: every bound
/// has to be within `furthest_bound` of zero.
class WrittenBounds {
 public:
  struct Bound {
    ir::Expr value;
    std::string loop;
    SourceLocation location;
    bool is_counted = true;  // false: it only ends a `while`, and need not be near to zero
  };

  /// `program` as it was before lowering.
  explicit WrittenBounds(const ir::Program& program);

  /// Throws UsageError(BadSize) at the user's line. `name` is that of the program that runs.
  void check(const SizeValues& sizes, const std::string& name) const;
  const std::vector<Bound>& bounds() const { return bounds_; }

 private:
  std::vector<Bound> bounds_;
};

}  // namespace loopgrad::backend
