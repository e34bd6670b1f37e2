#include "tools/cli/ceilings.h"
#include "tools/cli/commands.h"
#include "tools/cli/directions.h"
#include "tools/cli/lowered.h"
#include "tools/cli/promote.h"
#include "tools/cli/table.h"
#include "tools/cli/timed_gradient.h"
#include "tools/cli/work.h"

#include "backends/cuda/device.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cmath>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRuns = 5, kDeviceRuns = 20;  // compared bit by bit; timed too
constexpr int kMostRuns = 30;               // when they are short
constexpr double kEnoughSeconds = 0.5;
constexpr double kMostSerialWork = 2e7;                 // operations of a naive tape on a GPU
constexpr std::int64_t kMostReferenceTape = 4ll << 30;  // bytes of f64 stack that the reference may take

int runs_on(Target target) { return target == Target::Cuda ? kDeviceRuns : kRuns; }

struct Row {
  Variant variant = Variant::Restructured;
  double forward_ms = 0, backward_ms = 0;
  std::int64_t tape_bytes = 0, device_bytes = 0;
  int atomics = 0, parallel_loops = 0, kernels = 0;
  double error = 0;
  bool bitwise = true;
  double roofline = 0;
  std::string failure;  // then nothing above counts
  Arrays results;       // outputs and gradients
};

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

void time_runs(const Problem& problem, const GradientExecutable& gradient, Target target, bool versioned, Row& row,
               tools::Progress& progress) {
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

/// Why a variant is not measured: it would keep one thread of a GPU busy for minutes. Empty when it would not.
std::string too_long(const Problem& problem, Variant variant, Target target) {
  if (target != Target::Cuda || variant != Variant::NaiveTape) return {};
  const Work work = count_work(problem.program, problem.sizes, problem.inputs);
  const double operations = work.flops + work.bytes / 4;
  if (operations <= kMostSerialWork) return {};
  return fmt::format("not measured: {:.1g} operations on the one thread of a stack tape", operations);
}

Row measure(const Problem& problem, Variant variant, CompileOptions options, bool versioned,
            tools::Progress& progress) {
  options.expected_sizes = problem.sizes;
  Row row;
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

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

/// Fills in the error of every row and returns what it is measured against.
///
/// The naive tape in f64 is the reference. Compiled, it runs at the sizes that were measured as long as its stack fits
/// the memory granted; otherwise the interpreter runs it at the program's check sizes, and the variants once more
/// there.
std::string fill_errors(const Problem& problem, const Options& options, const CompileOptions& compile_options,
                        std::vector<Row>& rows) {
  const CompileOptions interpret{.target = Target::Interpreter, .checked = false, .f64 = true, .threads = 0};
  if (compile_options.target == Target::Interpreter) {
    Arrays reference = run_once(problem, problem.program, Variant::NaiveTape, interpret, true);
    for (Row& row : rows)
      if (row.failure.empty()) row.error = largest_error(row.results, reference);
    return "the naive tape in f64, interpreted, at these sizes";
  }
  const Row& naive = rows.front();
  if (naive.variant == Variant::NaiveTape && naive.failure.empty() && 2 * naive.tape_bytes <= kMostReferenceTape) {
    Arrays reference = run_once(problem, promote_to_f64(problem.program), Variant::NaiveTape, compile_options, true);
    for (Row& row : rows)
      if (row.failure.empty()) row.error = largest_error(row.results, reference);
    return "the naive tape in f64, compiled, at these sizes";
  }
  const ProgramEntry& entry = *options.program;
  const Problem small = make_problem(entry, entry.check_sizes.empty() ? entry.sizes : entry.check_sizes, options.seed);
  Arrays reference = run_once(small, small.program, Variant::NaiveTape, interpret, true);
  for (Row& row : rows)
    if (row.failure.empty())
      row.error = largest_error(run_once(small, small.program, row.variant, compile_options, false), reference);
  return fmt::format("the naive tape in f64, interpreted, at {} (its stack at full size is too large)",
                     sizes_text(small.sizes));
}

/// What the machine could do at best.
struct Roofline {
  Work forward, backward;
  Ceilings ceilings;

  double floor_ms() const { return floor_ms(forward) + floor_ms(backward); }
  double floor_ms(const Work& work) const {
    return 1e3 * std::max(work.bytes / ceilings.bytes_per_second, work.flops / ceilings.flops_per_second);
  }
  std::string text() const {
    return fmt::format(
        "floor {:.3g} ms = {} and {:.3g} operations at {:.3g} GB/s (copy) and {:.3g} GFLOP/s (f32 FMA), measured now",
        floor_ms(), human_bytes(forward.bytes + backward.bytes), forward.flops + backward.flops,
        ceilings.bytes_per_second / 1e9, ceilings.flops_per_second / 1e9);
  }
  Json json() const {
    return {{"floor_ms", floor_ms()},
            {"bytes", forward.bytes + backward.bytes},
            {"operations", forward.flops + backward.flops},
            {"copy_bytes_per_second", ceilings.bytes_per_second},
            {"fma_flops_per_second", ceilings.flops_per_second}};
  }
};

/// Fills in the roofline fractions.
Roofline fill_roofline(const Problem& problem, const CompileOptions& compile_options, std::vector<Row>& rows) {
  Gradient gradient = differentiate(problem.program, {.wrt = problem.wrt, .of = problem.of});
  Roofline roofline;
  roofline.forward = count_work(problem.program, problem.sizes, problem.inputs);
  roofline.backward = count_work(gradient.backward, problem.sizes, problem.inputs);
  roofline.ceilings =
      compile_options.target == Target::Cuda
          ? measure_device_ceilings()
          : measure_ceilings(compile_options.threads, std::max(roofline.forward.bytes, roofline.backward.bytes));
  for (Row& row : rows)
    if (row.failure.empty()) row.roofline = roofline.floor_ms() / (row.forward_ms + row.backward_ms);
  return roofline;
}

std::string text_of(const std::vector<Row>& rows, Target target) {
  std::vector<std::vector<std::string>> cells = {{"variant", "forward ms", "backward ms", "tape", "atomics",
                                                  "parallel loops", "max rel error",
                                                  fmt::format("{} runs", runs_on(target)), "roofline"}};
  if (target == Target::Cuda) cells.front().insert(cells.front().end(), {"kernels", "device memory"});
  std::string failures;
  for (const Row& row : rows) {
    if (!row.failure.empty()) {
      cells.push_back({name_of(row.variant), "-", "-", "-", "-", "-", "-", "-", "-"});
      cells.back().resize(cells.front().size(), "-");
      failures += fmt::format("{}: {}\n", name_of(row.variant), row.failure);
      continue;
    }
    cells.push_back({name_of(row.variant), fmt::format("{:.3f}", row.forward_ms),
                     fmt::format("{:.3f}", row.backward_ms), human_bytes(static_cast<double>(row.tape_bytes)),
                     std::to_string(row.atomics), std::to_string(row.parallel_loops), fmt::format("{:.1e}", row.error),
                     row.bitwise ? "same bits" : "differ", fmt::format("{:.1f} %", 100 * row.roofline)});
    if (target == Target::Cuda)
      cells.back().insert(cells.back().end(),
                          {std::to_string(row.kernels), human_bytes(static_cast<double>(row.device_bytes))});
  }
  return table(cells) + failures;
}

Json json_of(const Row& row, Target target) {
  if (!row.failure.empty())
    return {{"name", name_of(row.variant)},  {"forward_ms", nullptr},       {"backward_ms", nullptr},
            {"tape_bytes", nullptr},         {"atomics", nullptr},          {"max_rel_error", nullptr},
            {"bitwise_repeatable", nullptr}, {"roofline_fraction", nullptr}};
  Json json = {{"name", name_of(row.variant)},
               {"forward_ms", row.forward_ms},
               {"backward_ms", row.backward_ms},
               {"tape_bytes", row.tape_bytes},
               {"atomics", row.atomics},
               {"max_rel_error", std::isfinite(row.error) ? Json(row.error) : Json(nullptr)},
               {"bitwise_repeatable", row.bitwise},
               {"roofline_fraction", row.roofline}};
  if (target == Target::Cuda) {
    json["kernels"] = row.kernels;
    json["device_bytes"] = row.device_bytes;
  }
  return json;
}

}  // namespace

int compare_variants(const Options& options) {
  const ProgramEntry& entry = *options.program;
  const CompileOptions compiling = compile_options(options, Target::OpenMP, {});
  const Target target = compiling.target;
  const bool interpreted = target == Target::Interpreter;
  const Sizes& defaults = interpreted && !entry.check_sizes.empty() ? entry.check_sizes : entry.sizes;
  Problem problem = make_problem(entry, sizes_of(options, defaults), options.seed);
  problem.max_tape_bytes = options.max_tape_bytes;

  std::vector<Row> rows;
  std::string reference;
  Roofline roofline;
  {
    const std::vector<Variant> measured = options.only ? std::vector<Variant>{*options.only} : variants();
    tools::Progress progress(static_cast<double>(measured.size()) * (2 + runs_on(target)) + 2);
    for (Variant variant : measured) rows.push_back(measure(problem, variant, compiling, options.versioned, progress));
    progress.next("reference");
    reference = fill_errors(problem, options, compiling, rows);
    progress.next("ceilings");
    roofline = fill_roofline(problem, compiling, rows);
  }
  std::string text = fmt::format("{} on {}: {}\n", entry.name, name_of(target), sizes_text(problem.sizes));
  text += text_of(rows, target);
  text += fmt::format(
      "medians of {} runs or more; atomics and parallel loops are those of the backward program\n"
      "errors against {}\nroofline: {}\n",
      runs_on(target), reference, roofline.text());
  Json json_rows = Json::array();
  for (const Row& row : rows) json_rows.push_back(json_of(row, target));
  report(options, text,
         {{"program", entry.name},
          {"target", name_of(target)},
          {"sizes", problem.sizes},
          {"variants", json_rows},
          {"runs_compared", runs_on(target)},
          {"roofline", roofline.json()}});
  return 0;
}

}  // namespace loopgrad::cli
