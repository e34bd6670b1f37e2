// Before a run: do the facts hold that the program states about the arrays given?
#pragma once

#include "backends/facts_program.h"
#include "backends/stage.h"

#include <deque>
#include <memory>
#include <mutex>

namespace loopgrad::backend {

/// Verifies the facts of one program. What is `versioned` is looked at once; everything else in every call, as a
/// pointer says nothing of the contents. May be called from several threads, which then take turns.
class FactVerifier {
 public:
  /// `program` as it was before lowering.
  explicit FactVerifier(const ir::Program& program) : facts_(facts_program(program)) {}

  /// The same for a copy of the executable: it has seen nothing yet.
  std::unique_ptr<FactVerifier> independent() const;

  /// What has to be lowered and compiled for the target, given to `use` as a stage; its body may be empty.
  const ir::Program& program() const { return facts_.program; }
  void use(Stage stage, const CompileOptions& options);

  /// Throws RuntimeError(BadFact) naming array, element and the line of the fact, and UsageError as Stage::bind does.
  /// On a device it waits for the answer, on `stream`. While that is captured it cannot: arguments that were not the
  /// last ones to be verified are then refused.
  void verify(const Arguments& arguments, const Sizes& sizes, void* stream);
  /// For a program that runs on arrays that `verify` has seen just now: facts about others are looked at, on the host.
  /// Throws UsageError for others whose elements are indices without facts.
  void verify_others(const ir::Program& program, const Binding& binding);

 private:
  explicit FactVerifier(FactsProgram facts) : facts_(std::move(facts)) {}
  using Key = std::vector<std::int64_t>;  // sizes, and what identifies the arrays

  Binding bind(const Arguments& arguments, const Sizes& sizes);
  void check_sizes(const SizeValues& sizes);
  [[noreturn]] void refuse_sizes(const FactsProgram::OfSizes& one, const SizeValues& sizes) const;
  Key key_of(const Binding& binding) const;
  void verify_now(const Binding& binding, void* stream);
  bool holds(const Binding& binding, void* stream);
  /// Throws RuntimeError(BadIndex) for the first index that is out of range.
  void look_for_index(const Binding& binding) const;
  /// Looks for the first element that breaks one of the facts.
  void verify_on_host(const ir::Program& program, const Binding& binding) const;
  /// What is bound to `arrays`, copied where it is on a device.
  Binding on_host(const Binding& binding, const std::set<ir::Array>& arrays, std::deque<HostArray>& copies) const;
  const Memory& memory() const { return backend_of(options_.target).memory(); }
  Binding without_result(Binding binding) const;
  void refuse_without_facts(const ir::Program& program, const ir::Array& array) const;

  FactsProgram facts_;
  std::optional<Stage> stage_;
  CompileOptions options_;
  OwnedArray result_;  // where the program writes what it has found
  std::mutex mutex_;
  Key last_;                              // verified by the last call
  std::optional<SizeValues> last_sizes_;  // with which no access leaves its array
  std::map<std::string, View> views_;     // verified by the last call: those that decide
  std::deque<Key> versioned_;             // verified once
};

}  // namespace loopgrad::backend
