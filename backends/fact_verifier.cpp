#include "backends/fact_verifier.h"

#include "backends/interpreter/interpreter.h"
#include "backends/records.h"
#include "backends/runtime/solve_sizes.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <set>

namespace loopgrad::backend {
namespace {

/// Sets of versioned arrays that a program takes turns with.
constexpr std::size_t most_versioned = 64;

std::set<ir::Array> stated_about(const ir::Program& program) {
  std::set<ir::Array> arrays;
  for (const ir::Fact& fact : program.facts)
    if (ir::is_about_data(fact.kind)) arrays.insert(fact.array);
  return arrays;
}

ir::Program with_facts(ir::Program program, std::vector<ir::Fact> facts) {
  program.facts = std::move(facts);
  return program;
}

bool same_memory(const View& a, const View& b) {
  return a.data == b.data && a.type == b.type && a.shape == b.shape && a.version == b.version;
}

}  // namespace

void FactVerifier::use(Stage stage, const CompileOptions& options) {
  stage_.emplace(std::move(stage));
  options_ = options;
}

std::unique_ptr<FactVerifier> FactVerifier::independent() const {
  std::unique_ptr<FactVerifier> copy(new FactVerifier(facts_));
  if (stage_) copy->use(stage_->independent(), options_);
  return copy;
}

void FactVerifier::verify(const Arguments& arguments, const Sizes& sizes, void* stream) {
  if (options_.facts == Facts::Trust ||
      (ir::is_empty(facts_.program.body) && facts_.of_sizes.empty() && facts_.deciding.empty()))
    return;
  if (options_.checked && !options_.gpu_mapped) return;  // the interpreter does
  std::lock_guard lock(mutex_);
  const Binding binding = bind(arguments, sizes);
  const bool compiled = !runs_as_written(options_);  // else each index is compared
  if (compiled) check_sizes(binding.sizes);
  views_.clear();
  if (compiled && facts_.on_host.empty() && facts_.needed && !try_evaluate(facts_.needed, binding.sizes).value_or(1))
    return;  // whatever is in the arrays
  const Key key = key_of(binding);
  std::map<std::string, View> views;
  bool is_versioned = true;
  for (std::size_t i = 0; i < facts_.stated.arrays.size(); ++i) {
    if (!facts_.deciding.count(facts_.stated.arrays[i])) continue;
    is_versioned &= binding.arrays[i].version != 0;
    views[facts_.stated.arrays[i]->name] = binding.arrays[i];
  }
  const bool capturing = memory().is_capturing(stream);
  const bool known = is_versioned && std::find(versioned_.begin(), versioned_.end(), key) != versioned_.end();
  if (capturing && !known && key != last_)
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "this run cannot be captured into a CUDA graph: facts about its index arrays have not "
                                 "been verified",
                      .program = facts_.stated.name,
                      .hint = "make one run with the same arguments and sizes before the capture, or compile with "
                              ".facts = Facts::Trust"});
  if (!capturing && !known) {
    last_.clear();
    verify_now(binding, stream);
    last_ = key;
    if (is_versioned) versioned_.push_front(key);
    if (versioned_.size() > most_versioned) versioned_.pop_back();
  }
  views_ = std::move(views);
}

void FactVerifier::check_sizes(const SizeValues& sizes) {
  if (sizes == last_sizes_) return;
  // What does not fit into 64 bits is found when extents and bounds are computed.
  for (const FactsProgram::OfSizes& one : facts_.of_sizes)
    if (try_evaluate(one.broken, sizes).value_or(0)) refuse_sizes(one, sizes);
  last_sizes_ = sizes;
}

void FactVerifier::refuse_sizes(const FactsProgram::OfSizes& one, const SizeValues& sizes) const {
  const transforms::OpenAccess& access = one.access;
  const ir::Expr& shape = access.array->shape[access.dimension];
  std::string loop, where, given;
  for (const ir::Stmt& s : access.around)
    if (const auto* n = s.as<ir::For>()) loop = n->iterator.name;
  const auto example = transforms::LeavingAccesses(facts_.source).example(access, sizes);
  ir::Substitution values;
  for (const auto& [symbol, value] : sizes) {
    values[symbol] = ir::int_const(value);
    given += fmt::format("{}{} = {}", given.empty() ? " with " : ", ", symbol.name, value);
  }
  if (example)
    for (const auto& [name, value] : example->iterators)
      where += fmt::format("{}{} = {}", where.empty() ? ", at " : ", ", name, value);
  const ir::Expr extent = ir::substitute(shape, values);
  throw UsageError({.code = ErrorCode::BadIndex,
                    .message = fmt::format("{} is outside of [0, {}), dimension {}{}{}; nothing has been written",
                                           example ? fmt::format("index {}", example->index) : "an index",
                                           ir::print(extent), access.dimension, where, given),
                    .program = facts_.stated.name,
                    .loop = loop,
                    .array = access.array->name,
                    .hint = "correct the bounds of the loop or the sizes, or put a condition around the access",
                    .location = access.location});
}

Binding FactVerifier::bind(const Arguments& arguments, const Sizes& sizes) {
  Arguments all = arguments;
  if (!ir::is_empty(facts_.program.body)) {
    if (!result_.owner) result_ = memory().make_array(ScalarType::I64, {1});
    all[facts_.result->name] = result_.view;
  }
  try {
    return stage_->bind(all, sizes, true);
  } catch (const UsageError& error) {  // the user knows the program by its own name
    ErrorInfo info = error.info();
    info.program = facts_.stated.name;
    throw UsageError(info);
  }
}

FactVerifier::Key FactVerifier::key_of(const Binding& binding) const {
  Key key;
  for (const auto& [symbol, size] : binding.sizes) key.push_back(size);
  for (std::size_t i = 0; i < facts_.stated.arrays.size(); ++i) {
    if (!facts_.deciding.count(facts_.stated.arrays[i])) continue;
    const View& view = binding.arrays[i];
    key.push_back(reinterpret_cast<std::intptr_t>(view.data));
    key.push_back(static_cast<std::int64_t>(view.version));
    key.insert(key.end(), view.shape.begin(), view.shape.end());
  }
  return key;
}

void FactVerifier::verify_now(const Binding& binding, void* stream) {
  // The interpreter compares every index itself.
  if (runs_as_written(options_)) return verify_on_host(facts_.stated, without_result(binding));
  if (!facts_.on_host.empty()) verify_on_host(with_facts(facts_.stated, facts_.on_host), without_result(binding));
  if (ir::is_empty(facts_.program.body) || holds(binding, stream)) return;
  verify_on_host(facts_.stated, without_result(binding));
  look_for_index(without_result(binding));
  throw RuntimeError({.code = ErrorCode::BadFact,
                      .message = "indices did not fit when they were verified, and fit now",
                      .program = facts_.stated.name,
                      .hint = "do not change arrays while a program runs on them",
                      .location = facts_.stated.location});
}

bool FactVerifier::holds(const Binding& binding, void* stream) {
  stage_->run(binding, {}, nullptr, stream);
  std::int64_t result = 0;
  memory().copy_out(&result, result_.view.data, sizeof(result), stream);
  return result == 0;
}

void FactVerifier::look_for_index(const Binding& binding) const {
  if (facts_.sites.empty()) return;
  std::deque<HostArray> copies;
  Binding bound = on_host(binding, facts_.deciding, copies);
  std::vector<std::int64_t> seen(facts_.sites.size());
  bound.arrays.push_back(view(seen.data(), {static_cast<std::int64_t>(seen.size())}));
  interpret(facts_.recording, bound, {.f64 = options_.f64});
  for (std::size_t k = 0; k < seen.size(); ++k)
    if (seen[k] != transforms::nothing_recorded)
      throw_out_of_range(facts_.sites[k], seen[k], binding.sizes, facts_.stated.name, "nothing has been written");
}

Binding FactVerifier::on_host(const Binding& binding, const std::set<ir::Array>& arrays,
                              std::deque<HostArray>& copies) const {
  Binding bound = binding;
  memory().synchronize();  // elements may be computed on any stream
  for (std::size_t i = 0; i < facts_.stated.arrays.size(); ++i)
    if (arrays.count(facts_.stated.arrays[i])) bound.arrays[i] = memory().on_host(bound.arrays[i], copies);
  return bound;
}

Binding FactVerifier::without_result(Binding binding) const {
  binding.arrays.resize(facts_.stated.arrays.size());
  return binding;
}

void FactVerifier::verify_on_host(const ir::Program& program, const Binding& binding) const {
  memory().synchronize();  // elements may be computed on any stream
  std::deque<HostArray> copies;
  const auto arrays = stated_about(program);
  ir::Program stated = program;  // with these arrays only
  stated.arrays.clear();
  Binding bound{binding.sizes, {}};
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    if (!arrays.count(program.arrays[i])) continue;
    stated.arrays.push_back(program.arrays[i]);
    bound.arrays.push_back(memory().on_host(binding.arrays[i], copies));
  }
  verify_facts(stated, bound);
}

void FactVerifier::refuse_without_facts(const ir::Program& program, const ir::Array& array) const {
  for (const ir::Fact& fact : program.facts)
    if (fact.array == array) return;
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "backward() is given other memory than forward(), which has looked at the indices in it",
                    .program = program.name,
                    .array = array->name,
                    .hint = "pass the same array, or state in_range about it",
                    .location = array->location});
}

void FactVerifier::verify_others(const ir::Program& program, const Binding& binding) {
  if (options_.facts == Facts::Trust || options_.checked) return;
  std::lock_guard lock(mutex_);
  std::set<ir::Array> others;
  ir::Program bound = program;  // without what `binding` leaves out
  std::erase_if(bound.arrays, [](const ir::Array& array) { return array->role == ir::ArrayRole::Tape; });
  for (std::size_t i = 0; i < bound.arrays.size(); ++i) {
    const auto seen = views_.find(bound.arrays[i]->name);
    if (seen != views_.end() && !same_memory(seen->second, binding.arrays[i])) others.insert(bound.arrays[i]);
  }
  if (!backend_of(options_.target).interprets())
    for (const ir::Array& array : others) refuse_without_facts(bound, array);
  std::erase_if(bound.facts,
                [&](const ir::Fact& fact) { return !others.count(fact.array) || !ir::is_about_data(fact.kind); });
  if (!bound.facts.empty()) verify_on_host(bound, binding);
}

}  // namespace loopgrad::backend
