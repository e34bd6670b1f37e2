#include "tools/cli/explanation.h"

#include "backends/interface/backend.h"
#include "dsl/ir/visit.h"
#include "tools/cli/lowered.h"
#include "transforms/analysis/size_estimates.h"

#include <fmt/format.h>

namespace loopgrad::cli {
namespace {

const Arrays no_inputs;

/// Local arrays that live in memory of the call, of its threads or the device; those that follow each other count both.
double bytes_of_locals(const ir::Program& lowered, const Sizes& sizes, double threads) {
  const WorkCounter counter(lowered, sizes, no_inputs, WorkCounter::Unknown::Likely);
  double bytes = 0;
  ir::walk_stmts(lowered.body, [&](const ir::Stmt& s) {
    const auto* n = s.as<ir::Allocate>();
    if (!n) return;
    if (n->home == ir::Home::Call || n->home == ir::Home::Grid) bytes += counter.bytes_of(n->array);
    if (n->home == ir::Home::PerThread || n->home == ir::Home::Iteration) bytes += threads * counter.bytes_of(n->array);
  });
  return bytes;
}

/// Of arrays and tapes of both programs, which share what has one name.
ExplainedMemory memory_of(const Gradient& gradient, const Sizes& sizes, const std::vector<TapeRow>& tape) {
  ExplainedMemory memory;
  std::map<std::string, double> arrays;
  std::set<std::string> tapes;
  for (const Program* program : {&gradient.forward, &gradient.backward}) {
    const WorkCounter counter(program->ir(), sizes, no_inputs, WorkCounter::Unknown::Likely);
    for (const ir::Array& array : program->ir().arrays) {
      if (array->role == ir::ArrayRole::Tape) tapes.insert(array->name);
      else arrays[array->name] = std::max(arrays[array->name], counter.bytes_of(array));
    }
  }
  for (const auto& [name, bytes] : arrays) memory.arrays += bytes;
  memory.tapes = tape_bytes(tape);
  for (const TapeRow& row : tape)
    if (row.how == "saved" && !row.bytes && tapes.erase(row.array) > 0) memory.by_data.push_back(row.formula);
  return memory;
}

/// What estimates of time are made for. The loops of a GPU's threads say in many nested loops what the parallel loops
/// before the mapping say in a few; scans and sorts are in blocks by then.
ir::Program estimated(const ir::Program& program, const ir::Program& emitted, const CompileOptions& options,
                      Variant variant) {
  const backend::Backend& target = backend::backend_of(options.target);
  if (!target.machine(options).is_gpu()) return emitted;
  Report ignored;
  const transforms::LowerOptions lowering = backend::lowering_of(options, backend::sum_mode(variant));
  return transforms::lower_for(program, transforms::up_to_mapping(lowering), ignored).program;
}

/// What is likely of the longest rows of CSR structures.
Sizes with_longest_rows(const ir::Program& forward, const Sizes& sizes) {
  Sizes all = sizes;
  transforms::SizeEstimator estimates(forward, sizes);
  for (const ir::Fact& fact : forward.facts) {
    const auto* longest = fact.longest ? fact.longest.as<ir::Var>() : nullptr;
    if (longest) all[longest->symbol.name] = static_cast<std::int64_t>(estimates.value_of(fact.longest, {}));
  }
  return all;
}

/// With the lengths of segments that the gradient's own sizing program finds (see max_tape_bytes); other sizes that
/// data decide stay unknown.
Sizes with_lengths(const Gradient& gradient, const Sizes& sizes) {
  Sizes all = with_longest_rows(gradient.forward.ir(), sizes);
  std::map<std::string, HostArray> found;
  Arguments arguments;
  for (const ir::Array& array : gradient.sizing.ir().arrays) {
    if (array->role != ir::ArrayRole::Output) return all;
    found[array->name] = HostArray(array->type, {});
    arguments[array->name] = found[array->name].view();
  }
  if (found.empty()) return all;
  compile(gradient.sizing, {.target = Target::Interpreter, .checked = false}).run(arguments, sizes);
  for (const auto& [name, value] : found) all[name] = static_cast<std::int64_t>(value.get(0));
  return all;
}

}  // namespace

Explanation explain(const Options& options, Variant variant) {
  const ProgramEntry& entry = *options.program;
  Explanation e;
  e.program = entry.name;
  e.variant = variant;
  e.sizes = sizes_of(options, entry.sizes);
  const Gradient gradient =
      differentiate(entry.build(), {.wrt = entry.wrt,
                                    .variant = variant,
                                    .max_tape_bytes = variant == Variant::NaiveTape ? 0 : options.max_tape_bytes});
  const Sizes all = with_lengths(gradient, e.sizes);
  const CompileOptions compiling = compile_options(options, Target::OpenMP, e.sizes);
  e.target = compiling.target;
  e.machine = backend::backend_of(compiling.target).machine(compiling);
  Report forward, backward;
  const backend::LoweredGradient lowered = backend::lower_gradient(gradient, compiling, forward, backward);
  e.remarks = gradient.report.remarks;
  for (const bool is_forward : {true, false}) {
    const ir::Program& emitted = (is_forward ? lowered.forward : lowered.backward).program;
    const Program& program = is_forward ? gradient.forward : gradient.backward;
    ExplainedProgram part;
    part.name = is_forward ? "forward" : "backward";
    part.work = count_work(program, all, no_inputs, WorkCounter::Unknown::Likely);
    part.decisions = is_forward ? forward : backward;
    part.parts = parts_of(estimated(program.ir(), emitted, compiling, variant), all, e.machine);
    part.work_bytes = bytes_of_locals(emitted, all, e.machine.is_gpu() ? 1 : e.machine.threads);
    part.atomics = count_atomics(emitted);
    part.parallel_loops = count_parallel_loops(emitted);
    e.remarks.insert(e.remarks.end(), part.decisions.remarks.begin(), part.decisions.remarks.end());
    e.programs.push_back(std::move(part));
  }
  e.tape = tape_table(gradient, all);
  e.memory = memory_of(gradient, all, e.tape);
  for (const ExplainedProgram& part : e.programs) e.memory.work = std::max(e.memory.work, part.work_bytes);
  return e;
}

std::string name_of_machine(const Explanation& e) {
  if (e.machine.is_gpu()) return "a GPU of the kind of an H200";
  return fmt::format("a CPU with {:.0f} threads", e.machine.threads);
}

}  // namespace loopgrad::cli
