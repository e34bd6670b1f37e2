// One lowered program, ready to run on its target; and how a few of them are built together.
#pragma once

#include "backends/interface/backend.h"
#include "backends/orders.h"
#include "backends/records.h"

namespace loopgrad::backend {

/// A program on its target. Arrays of role Tape are not bound by name but given by the caller. Runs on any threads at
/// once are right.
class Stage {
 public:
  /// `code` may be null for a program that is only bound to arguments.
  Stage(std::shared_ptr<const ir::Program> program, const CompileOptions& options, std::shared_ptr<const Code> code);

  /// Arrays of the program in which it notes what it has left out, and those that it finds again; given before the
  /// first run.
  void keep(std::vector<transforms::Record> records, transforms::KeptOrders orders = {});

  const ir::Program& program() const { return *program_; }
  /// Sizes and all arrays but the tape, checked; nothing is written.
  Binding bind(const Arguments& arguments, const Sizes& sizes, bool ignore_unknown = false) const;
  /// Runs on what `bind` gave and the tape arrays by name. Throws RuntimeError, of indices and trip counts out of range
  /// after the run.
  void run(const Binding& bound, const std::map<std::string, View>& tape, TapeStack* stack,
           void* stream = nullptr) const;
  /// The same compiled code, with memory of its own where runs would follow each other.
  Stage independent() const;
  /// Whether a graph of the caller's may refer to the arrays of past runs.
  bool was_captured() const { return code_ && code_->was_captured(); }
  /// Kernels of a device that the program consists of.
  int kernel_count() const { return code_ ? code_->kernel_count() : 0; }
  /// As of Code.
  std::vector<double> part_seconds() const { return code_ ? code_->part_seconds() : std::vector<double>(); }

 private:
  std::shared_ptr<const ir::Program> program_;
  ir::Program without_tape_;  // for binding: what callers give
  std::shared_ptr<const BindPlan> bind_plan_;
  const Backend* backend_;
  bool f64_;
  std::shared_ptr<const Code> code_;
  std::shared_ptr<Records> records_;
  std::shared_ptr<Orders> orders_;
};

/// Stages of one compilation.
struct Build {
  std::vector<Stage> stages;  // one per program, in order
  std::string source;
  double milliseconds = 0;
  bool from_cache = false;
};

/// `name`: what messages call all of this; that of the last program when empty. Throws UsageError for options that do
/// not fit the target, CompileError as Backend::compile does. `timed`: as for that.
Build build_stages(const std::vector<ir::Program>& lowered, const CompileOptions& options, const std::string& name = {},
                   const KernelReasons& reasons = {}, bool timed = false);

}  // namespace loopgrad::backend
