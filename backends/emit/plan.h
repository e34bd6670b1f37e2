// What emitted sources consist of, whatever they are emitted for: the programs of a gradient, lowered, and what a
// caller passes to each of them. Files of the targets print it; see docs/emit.md for what users see.
#pragma once

#include "backends/c_text/prelude.h"
#include "backends/interface/backend.h"
#include "backends/runtime/size_checks.h"
#include "dsl/ir/printer.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace loopgrad::backend {

/// How names of the user's are spelled in emitted sources: one spelling per name, in all functions.
class Spelling {
 public:
  /// `x` is `x_`, as in all generated code; see `generated_name`.
  const std::string& of(const std::string& name);

 private:
  ir::NameTable table_{generated_name};
  std::map<std::string, std::string> known_;
};

/// What a function returns: a kind, and for people a number that tells the array, size or line.
enum class StatusKind {
  Ok,
  BadArgument,
  Overlap,
  BadSize,
  SmallMemory,
  OutOfMemory,
  BadFact,
  BadIndex,
  DeviceFailed,
};

/// The statuses that a source returns, with a text each.
class Statuses {
 public:
  explicit Statuses(std::string program) : program_(std::move(program)) {}
  /// The status of a kind and its own text, as C.
  std::string of(StatusKind kind, const std::string& text);
  /// One number for several kinds, of which the emitted code adds one: see `number_of`.
  int add(const std::map<StatusKind, std::string>& texts);
  std::string kind(StatusKind kind) const;
  /// `enum { NAME_ok = 0, ... };` with what each means.
  std::string declaration() const;
  /// The body of NAME_error_text.
  std::string switch_text() const;

 private:
  std::string program_;
  int last_ = 0;
  std::map<int, std::string> texts_;  // by status
};

/// An array as the caller passes it.
struct EmitArray {
  ir::Array array;
  bool is_written = false;
  int status = 0;  // for what is wrong with it
};

/// One program of the gradient, ready to be printed.
struct EmitPart {
  ir::Program program;
  std::vector<transforms::Record> records;
  transforms::KeptOrders kept;
  std::vector<KernelDecision> kernels;

  bool is_empty() const { return ir::is_empty(program.body); }
};

/// An access that leaves its array for the sizes for which `broken` holds.
struct LeavingAccess {
  ir::Expr broken;
  ir::Array array;
  std::size_t dimension = 0;
  SourceLocation location;
};

/// All of it. The parts that a program has no need of have an empty body.
struct EmitPlan {
  explicit EmitPlan(const std::string& own_name) : name(own_name), statuses(own_name) {}

  std::string name;  // of the program and the files, a C identifier
  EmitPart sizing, forward, backward, facts_part;
  bool verifies = true;  // forward and backward look at facts by themselves
  std::vector<ir::Fact> facts;
  ir::Array violations;  // what the program of the facts writes: how many do not hold
  ir::Expr needed;       // for which sizes it has anything to look at; null for all of them
  std::vector<LeavingAccess> leaving;
  std::vector<WrittenBounds::Bound> bounds;  // of the loops that the user wrote
  std::vector<std::string> sizes;            // parameters of all functions, in order
  std::vector<std::string> computed;         // those of `sizes` that NAME_sizes tells
  std::vector<EmitArray> of_forward, of_backward, of_facts, of_sizing;
  mutable Spelling names;
  mutable Statuses statuses;

  /// Those that take arrays, in the order of a file: what is passed to any function, once each.
  std::vector<EmitArray> all_arrays() const;
  bool has_facts() const { return !facts_part.is_empty(); }
  bool has_sizing() const { return !sizing.is_empty(); }
  /// Whether a library may have something to do.
  bool has_products() const;
  bool keeps_orders() const { return !forward.kept.arrays.empty() || !backward.kept.arrays.empty(); }
  std::vector<ir::Array> tape() const;
  /// Those that are known when the part runs: all but what it computes.
  std::vector<std::string> sizes_of(const EmitPart& part) const;
};

/// What a user gets. The source includes the header by its name.
struct EmittedFiles {
  std::string header_name, header;  // C
  std::string source_name, source;
  std::string build;  // how to compile and link it, a line each
};

/// `n*k + 1` of the user's names, for comments and texts: "[n, k]".
std::string shape_words(const ir::Array& array);

/// Arrays of the runtime's own that a part is given beside those of the caller: records and kept orders.
std::vector<ir::Array> own_arrays(const EmitPart& part);

}  // namespace loopgrad::backend
