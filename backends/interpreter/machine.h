// What a compiled program runs on: loops with their current iterations, arrays, and where errors are reported from.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "backends/interpreter/shadow.h"

#include <loopgrad/error.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

namespace loopgrad::backend::interpreter {

/// A loop of the program and the value of its iterator while it runs.
struct LoopSlot {
  const LoopSlot* outer = nullptr;
  std::string name;
  SourceLocation location;
  std::int64_t value = 0;
};

/// A place of the program that can fail: what a message about it needs.
struct Site {
  const ir::Program* program = nullptr;
  const LoopSlot* loop = nullptr;  // the innermost enclosing loop, or null
  const ir::ArrayDecl* array = nullptr;
  SourceLocation location;  // when unknown, the loop's or the program's is reported
};

/// Throws RuntimeError. The message is followed by the values of all iterators around the site. `loop` is the loop to
/// blame when it is not the innermost one.
[[noreturn]] void fail(const Site& site, ErrorCode code, const std::string& message, const std::string& hint,
                       const LoopSlot* loop = nullptr);

struct ArraySlot;

/// An element without a value that was copied to a scalar, and where.
struct Origin {
  const ArraySlot* slot = nullptr;
  std::int64_t offset = 0;
  const Site* site = nullptr;
};

/// An array while the program runs. Locals get their shape and memory on every entry of their Allocate.
struct ArraySlot {
  const ir::ArrayDecl* decl = nullptr;
  std::byte* data = nullptr;
  std::vector<std::int64_t> shape;
  std::unique_ptr<std::byte[]> owned;  // locals
  std::size_t owned_bytes = 0;
  // Checked mode only. Arrays that share memory share a shadow; `shadow_offset` is where this one begins in it.
  std::shared_ptr<Shadow> shadow;
  std::int64_t shadow_offset = 0;
  Origin copied_from = {};  // a scalar without a value: the element that it stands for, if any
  // Where a fact says that the values in different elements differ: the element of each that was seen.
  std::unique_ptr<std::unordered_map<std::int64_t, std::int64_t>> element_of;

  /// "x[3, 4]" for the element at `offset` in row-major order.
  std::string element(std::int64_t offset) const;
};

/// One per run. The nodes of the compiled program point into it, so it never moves.
class Machine {
 public:
  Machine(const ir::Program& program, const Binding& binding, const InterpreterOptions& options, ValueStack* stack);
  Machine(const Machine&) = delete;

  const ir::Program& program;
  const InterpreterOptions options;
  const SizeValues sizes;
  ValueStack& stack;
  ParallelStack parallel;

  /// The type that values and elements of `type` have in this run: in f64 mode every float is f64.
  ScalarType run_type(ScalarType type) const { return options.f64 && is_float(type) ? ScalarType::F64 : type; }
  ArraySlot& array(const ir::Array& array);
  ArraySlot& add_local(const ir::Array& array);
  LoopSlot& add_loop(const ir::Symbol& iterator, SourceLocation location, const LoopSlot* outer);
  const Site& add_site(const LoopSlot* loop, SourceLocation location, const ir::Array& array = {});

 private:
  void add_argument(const ir::Array& array, const View& view);
  void note_distinct(ArraySlot& slot) const;
  void add_shadows(const Binding& binding);

  ValueStack own_stack_;
  std::deque<LoopSlot> loops_;
  std::deque<Site> sites_;
  std::deque<ArraySlot> slots_;
  std::unordered_map<const ir::ArrayDecl*, ArraySlot*> slot_of_;
};

/// Verifies every fact about an array that is given from outside. Throws RuntimeError(BadFact).
void verify_facts(Machine& machine);

}  // namespace loopgrad::backend::interpreter
