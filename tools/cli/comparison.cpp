#include "tools/cli/comparison.h"

#include "tools/cli/lowered.h"
#include "tools/cli/promote.h"
#include "tools/cli/timed_gradient.h"

#include "backends/cuda/device.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace loopgrad::cli {
namespace {

constexpr int kRuns = 5, kDeviceRuns = 20;  // compared bit by bit; timed too
constexpr int kMostRuns = 30;               // when they are short
constexpr double kEnoughSeconds = 0.5;
constexpr double kMostSerialWork = 1e6;                 // operations of a naive tape on a GPU
constexpr std::int64_t kMostReferenceTape = 4ll << 30;  // bytes of f64 stack that the reference may take

int runs_on(Target target) { return target == Target::Cuda ? kDeviceRuns : kRuns; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Names of everything that a gradient computes.
std::vector<std::string> result_names(const Problem& problem) {
  std::vector<std::string> names;
  for (const std::string& name : problem.of)  // an in-out may be overwritten by nothing but the forward program
    names.push_back(name);
  for (const std::string& name : problem.wrt) names.push_back("d_" + name);
  return names;
}

Arrays results_of(const Problem& problem, const Buffers& buffers) {
  Arrays results;
  for (const std::string& name : result_names(problem)) results[name] = copy_of(buffers.at(name));
  return results;
}

Buffers make_buffers(const Problem& problem, const Gradient& gradient, bool f64) {
  Arrays initial = problem.inputs;
  initial.insert(problem.incoming.begin(), problem.incoming.end());
  return Buffers({gradient.forward, gradient.backward}, problem.sizes, initial, f64);
}

double largest_error(const Arrays& results, const Arrays& reference) {
  double error = 0;
  for (const auto& [name, expected] : reference) error = std::max(error, relative_error(results.at(name), expected));
  return error;
}

void time_runs(const Problem& problem, const GradientExecutable& gradient, Target target, bool versioned,
               ComparedVariant& row, tools::Progress& progress) {
  const backend::cuda::MemoryUse before = backend::cuda::memory_use();
  backend::cuda::forget_memory_peak();
  Buffers buffers = make_buffers(problem, gradient.gradient(), false);
  TimedGradient timed(gradient, buffers, target, versioned);
  const int runs = runs_on(target);
  std::vector<double> forward_ms, backward_ms;
  std::uint64_t first_bits = 0;
  double total_ms = 0;
  for (int run = -1; run < kMostRuns && (run < runs || total_ms < 1e3 * kEnoughSeconds); ++run) {  // -1 warms up
    if (run < runs) progress.next(fmt::format("{} run {}", name_of(row.variant), run + 1));
    const TimedGradient::Milliseconds ms = timed.run();
    if (run < 0) continue;
    forward_ms.push_back(ms.forward);
    backward_ms.push_back(ms.backward);
    total_ms += ms.forward + ms.backward;
    if (run >= runs) continue;
    const std::uint64_t bits = timed.bits(result_names(problem));
    if (run == 0) first_bits = bits;
    row.bitwise = row.bitwise && bits == first_bits;
  }
  row.device_bytes = backend::cuda::memory_use().peak - before.in_use;
  timed.fetch();
  row.forward_ms = median(forward_ms);
  row.backward_ms = median(backward_ms);
  row.tape_bytes = gradient.tape_bytes();
  row.kernels = gradient.kernel_count();
  row.results = results_of(problem, buffers);
}

/// About as many as there are steps in order.
double operations_of(const Problem& problem) {
  const Work work = count_work(problem.program, problem.sizes, problem.inputs, WorkCounter::Unknown::Likely);
  return work.flops + work.bytes / 4;
}

/// Why a variant is not measured: it would keep one thread of a GPU busy for minutes. Empty when it would not.
std::string too_long(const Problem& problem, Variant variant, Target target) {
  if (target != Target::Cuda || variant != Variant::NaiveTape) return {};
  const double operations = operations_of(problem);
  if (operations <= kMostSerialWork) return {};
  return fmt::format("not measured: {:.1g} operations on the one thread of a stack tape", operations);
}

ComparedVariant measure(const Problem& problem, Variant variant, CompileOptions options, bool versioned,
                        tools::Progress& progress) {
  options.expected_sizes = problem.sizes;
  ComparedVariant row;
  row.variant = variant;
  progress.next(fmt::format("{} compile", name_of(variant)));
  row.failure = too_long(problem, variant, options.target);
  if (!row.failure.empty()) return row;
  try {
    GradientExecutable gradient = compile_gradient(problem.program, problem.gradient_options(variant), options);
    Report ignored;
    const ir::Program lowered =
        backend::lower_gradient(gradient.gradient(), options, ignored, ignored).backward.program;
    row.atomics = count_atomics(lowered);
    row.parallel_loops = count_parallel_loops(lowered);
    time_runs(problem, gradient, options.target, versioned, row, progress);
  } catch (const RuntimeError& error) {
    if (error.code() != ErrorCode::OutOfMemory) throw;  // a tape that is too large concerns its variant only
    row.failure = error.what();
  }
  return row;
}

Arrays run_once(const Problem& problem, const Program& program, Variant variant, const CompileOptions& options,
                bool f64) {
  GradientExecutable gradient = compile_gradient(program, problem.gradient_options(variant), options);
  Buffers buffers = make_buffers(problem, gradient.gradient(), f64);
  TimedGradient timed(gradient, buffers, options.target);
  timed.run();
  timed.fetch();
  return results_of(problem, buffers);
}

/// Whether the stack of the naive tape in f64 fits the memory granted to it: as it was measured, or, where it was not,
/// if every operation saved two values.
bool reference_fits(const Problem& problem, const ComparedVariant& naive) {
  if (naive.variant == Variant::NaiveTape && naive.failure.empty()) return 2 * naive.tape_bytes <= kMostReferenceTape;
  return 16 * operations_of(problem) <= static_cast<double>(kMostReferenceTape);
}

/// Fills in the error of every row and returns what it is measured against.
///
/// The naive tape in f64 is the reference. Compiled for the CPU, whatever the target is, it runs at the sizes that were
/// measured as long as its stack fits; otherwise the interpreter runs it at the program's check sizes, and the variants
/// once more there.
std::string fill_errors(const Problem& problem, const Options& options, const CompileOptions& compile_options,
                        std::vector<ComparedVariant>& rows) {
  const CompileOptions interpret{.target = Target::Interpreter, .checked = false, .f64 = true, .threads = 0};
  if (compile_options.target == Target::Interpreter) {
    Arrays reference = run_once(problem, problem.program, Variant::NaiveTape, interpret, true);
    for (ComparedVariant& row : rows)
      if (row.failure.empty()) row.error = largest_error(row.results, reference);
    return "the naive tape in f64, interpreted, at these sizes";
  }
  const ComparedVariant& naive = rows.front();
  if (reference_fits(problem, naive)) {
    CompileOptions on_cpu = compile_options;
    on_cpu.target = Target::OpenMP;
    on_cpu.threads_per_block = 0;
    Arrays reference = run_once(problem, promote_to_f64(problem.program), Variant::NaiveTape, on_cpu, true);
    for (ComparedVariant& row : rows)
      if (row.failure.empty()) row.error = largest_error(row.results, reference);
    return "the naive tape in f64, compiled for the CPU, at these sizes";
  }
  const ProgramEntry& entry = *options.program;
  const Problem small = make_problem(entry, entry.check_sizes.empty() ? entry.sizes : entry.check_sizes, options.seed);
  Arrays reference = run_once(small, small.program, Variant::NaiveTape, interpret, true);
  for (ComparedVariant& row : rows)
    if (row.failure.empty())
      row.error = largest_error(run_once(small, small.program, row.variant, compile_options, false), reference);
  const char* const why = naive.variant != Variant::NaiveTape ? "the naive tape is not measured"
                          : naive.failure.empty()             ? "its stack at full size is too large"
                                                              : "it does not run at full size";
  return fmt::format("the naive tape in f64, interpreted, at {} ({})", sizes_text(small.sizes), why);
}

/// Fills in the roofline fractions.
Roofline fill_roofline(const Problem& problem, const CompileOptions& compile_options,
                       std::vector<ComparedVariant>& rows) {
  Gradient gradient = differentiate(problem.program, {.wrt = problem.wrt, .of = problem.of});
  Roofline roofline;
  roofline.forward = count_work(problem.program, problem.sizes, problem.inputs);
  roofline.backward = count_work(gradient.backward, problem.sizes, problem.inputs);
  roofline.ceilings =
      compile_options.target == Target::Cuda
          ? measure_device_ceilings()
          : measure_ceilings(compile_options.threads, std::max(roofline.forward.bytes, roofline.backward.bytes));
  for (ComparedVariant& row : rows)
    if (row.failure.empty()) row.roofline = roofline.floor_ms() / (row.forward_ms + row.backward_ms);
  return roofline;
}

}  // namespace

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

double Roofline::floor_ms(const Work& work) const {
  return 1e3 * std::max(work.bytes / ceilings.bytes_per_second, work.flops / ceilings.flops_per_second);
}

Sizes sizes_of_comparison(const Options& options) {
  const ProgramEntry& entry = *options.program;
  const bool small = options.target == Target::Interpreter && !entry.check_sizes.empty();
  return sizes_of(options, small ? entry.check_sizes : entry.sizes);
}

double steps_of_comparison(const Options& options) {
  const auto measured = options.only ? std::size_t{1} : variants().size();
  return static_cast<double>(measured) * (2 + runs_on(options.target.value_or(Target::OpenMP))) + 2;
}

Comparison compare(const Options& options, const Sizes& sizes, tools::Progress& progress) {
  const CompileOptions compiling = compile_options(options, Target::OpenMP, {});
  Problem problem = make_problem(*options.program, sizes, options.seed);
  problem.max_tape_bytes = options.max_tape_bytes;
  Comparison result;
  result.program = options.program->name;
  result.target = compiling.target;
  result.sizes = problem.sizes;
  result.runs = runs_on(compiling.target);
  for (Variant variant : options.only ? std::vector<Variant>{*options.only} : variants())
    result.variants.push_back(measure(problem, variant, compiling, options.versioned, progress));
  progress.next("reference");
  result.reference = fill_errors(problem, options, compiling, result.variants);
  progress.next("ceilings");
  result.roofline = fill_roofline(problem, compiling, result.variants);
  return result;
}

}  // namespace loopgrad::cli
