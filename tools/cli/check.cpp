#include "tools/cli/commands.h"
#include "tools/cli/promote.h"
#include "tools/cli/sides.h"
#include "tools/cli/table.h"
#include "tools/cli/target_runs.h"

#include <loopgrad/device_array.h>

#include <fmt/format.h>
#include <algorithm>
#include <optional>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNamedKinks = 3;  // lines about them

struct Row {
  std::string target, variant;
  Errors errors = {};
  std::optional<bool> same_bits = {};  // for 1, 2 and 3 threads or three runs; none where not promised
  Precision precision = {};
  std::string failure = {};  // of a checked run

  bool ok() const {
    return failure.empty() && errors.output <= precision.tolerance && errors.forward_mode <= precision.tolerance &&
           errors.difference <= std::max(precision.tolerance, kDifferenceTolerance) && same_bits.value_or(true);
  }
};

std::vector<std::string> results_of(const Problem& problem) {
  std::vector<std::string> names = problem.of;
  for (const std::string& name : problem.wrt) names.push_back("d_" + name);
  return names;
}

/// What a row of the table runs on: a target, or the interpreter on what a GPU would run.
struct Where {
  Target target;
  bool gpu_mapped = false;
  int threads_per_block = 0;  // as the command line says
  std::string name() const { return gpu_mapped ? "gpu mapping" : name_of(target); }
};

CompileOptions options_for(const Where& where) {
  const bool interpreted = where.target == Target::Interpreter;
  return {.target = where.target,
          .checked = interpreted,
          .f64 = interpreted,
          .gpu_mapped = where.gpu_mapped,
          .threads = 1,
          .threads_per_block = where.threads_per_block};
}

Row check_variant(const Problem& problem, const std::vector<Direction>& directions, const Reference& reference,
                  const Where& where, Variant variant) {
  const Target target = where.target;
  Row row{.target = where.name(), .variant = name_of(variant)};
  row.precision = precision_of(problem.program, target == Target::Interpreter);
  CompileOptions options = options_for(where);
  try {
    Buffers buffers = run_variant(problem, variant, options);
    row.errors.compare_outputs(row.precision, reference, buffers);
    row.failure = not_finite(problem, buffers);
    for (const Direction& d : directions) row.errors.compare_along(row.precision, d, along(problem, d, buffers));
    if (target != Target::Interpreter) {
      bool same = true;
      for (int threads : {2, 3}) {
        if (target == Target::OpenMP) options.threads = threads;
        Buffers other = run_variant(problem, variant, options);
        same = same && hash_bits(other, results_of(problem)) == hash_bits(buffers, results_of(problem));
      }
      if (variant != Variant::Atomic) row.same_bits = same;
    }
  } catch (const RuntimeError& error) {
    if (!is_finding(error)) throw;
    row.failure = error.what();
  }
  return row;
}

Row check_tangent(const Problem& problem, const std::vector<Direction>& directions, const Reference& reference,
                  const Where& where) {
  Row row{.target = where.name(), .variant = "tangent"};
  row.precision = precision_of(problem.program, where.target == Target::Interpreter);
  CompileOptions options = options_for(where);
  try {
    const TangentRun run(problem, options);
    for (const Direction& d : directions) {
      const Buffers buffers = run.along(d);
      if (&d == &directions.front()) row.errors.compare_outputs(row.precision, reference, buffers);
      row.errors.compare_along(row.precision, d, along_incoming(problem, buffers));
    }
    if (where.target != Target::Interpreter) {
      std::vector<std::string> names = problem.of;
      for (const std::string& name : problem.of) names.push_back("t_" + name);
      const Direction& dense = directions.back();
      const std::uint64_t bits = hash_bits(run.along(dense), names);
      bool same = true;
      for (int threads : {2, 3}) {
        if (where.target == Target::OpenMP) options.threads = threads;
        same = same && hash_bits(TangentRun(problem, options).along(dense), names) == bits;
      }
      row.same_bits = same;
    }
  } catch (const RuntimeError& error) {
    if (!is_finding(error)) throw;
    row.failure = error.what();
  }
  return row;
}

std::string text_of(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"target", "variant", "outputs", "forward mode", "differences", "repeated", "verdict"}};
  std::string failures;
  for (const Row& row : rows) {
    const bool ran = row.failure.empty();
    auto figure = [&](double value) { return ran ? fmt::format("{:.1e}", value) : "-"; };
    cells.push_back({row.target, row.variant, figure(row.errors.output), figure(row.errors.forward_mode),
                     figure(row.errors.difference), row.same_bits ? (*row.same_bits ? "same bits" : "DIFFERENT") : "",
                     row.ok() ? "ok" : "FAIL"});
    if (!ran) failures += fmt::format("{} {}: {}\n", row.target, row.variant, row.failure);
  }
  return table(cells) + failures;
}

Json json_of(const Row& row) {
  const bool ran = row.failure.empty();
  auto figure = [&](double value) { return ran ? Json(value) : Json(nullptr); };
  return {{"target", row.target},
          {"variant", row.variant},
          {"output_error", figure(row.errors.output)},
          {"forward_mode_error", figure(row.errors.forward_mode)},
          {"difference_error", figure(row.errors.difference)},
          {"tolerance", row.precision.tolerance},
          {"same_bits", row.same_bits ? Json(*row.same_bits) : Json(nullptr)},
          {"ok", row.ok()},
          {"failure", ran ? Json(nullptr) : Json(row.failure)}};
}

/// The first kinks, each in a line.
std::string text_of_kinks(const Problem& problem, const std::vector<Direction>& directions) {
  const Sides sides(problem.program);
  std::string text;
  int lines = 0;
  for (const Direction& d : directions) {
    if (!d.kink || lines == kNamedKinks) continue;
    const std::vector<Side> changed = sides_across(sides, problem, d);
    if (changed.empty()) continue;
    ++lines;
    text += fmt::format("  {}: {}\n", name_of(problem, d), text_of(changed));
  }
  return text;
}

}  // namespace

int check_program(const Options& options) {
  const ProgramEntry& entry = *options.program;
  const Sizes sizes = sizes_of(options, entry.check_sizes.empty() ? entry.sizes : entry.check_sizes);
  Problem problem = make_problem(entry, sizes, options.seed);
  problem.max_tape_bytes = options.max_tape_bytes;
  const bool second = options.mode == Mode::HessianVector || options.mode == Mode::SecondGradient;
  const bool forward = options.mode == Mode::Tangent || options.mode == Mode::HessianVector;
  if (second) {
    problem = problem_of_gradient(problem);
    // Second derivatives cancel further than f32 can tell from a mistake: what is looked at is the structure.
    problem.program = promote_to_f64(problem.program);
  }
  const int block = options.threads_per_block;
  std::vector<Where> targets = {{Target::Interpreter}, {Target::Interpreter, true, block}, {Target::OpenMP}};
  if (has_cuda()) targets.push_back({Target::Cuda, false, block});
  if (options.target) targets = {{*options.target, false, block}};

  std::vector<Direction> directions = choose_directions(problem, options.elements);
  std::vector<Row> rows;
  Row oracle{.target = "interpreter", .variant = "forward mode", .precision = {kDifferenceTolerance}};
  {
    tools::Progress progress(static_cast<double>(directions.size() + targets.size() * variants().size()));
    measure_directions(problem, directions, [&] { progress.next("forward mode and differences"); });
    for (const Direction& d : directions) oracle.errors.compare_along(oracle.precision, d, d.forward_mode);
    rows.push_back(oracle);
    const Reference reference = reference_outputs(problem);
    for (const Where& where : targets) {
      if (forward) {
        progress.next(fmt::format("{} tangent", where.name()));
        rows.push_back(check_tangent(problem, directions, reference, where));
        continue;
      }
      for (Variant variant : variants()) {
        progress.next(fmt::format("{} {}", where.name(), name_of(variant)));
        if (where.gpu_mapped && variant == Variant::NaiveTape) continue;  // has no loops to map
        rows.push_back(check_variant(problem, directions, reference, where, variant));
      }
    }
  }
  const bool ok = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.ok(); });
  std::string text = fmt::format("{}: largest relative errors along {} directions, by {}\n", entry.name,
                                 directions.size(), fmt::join(problem.wrt, ", "));
  const auto kinks = std::count_if(directions.begin(), directions.end(), [](const Direction& d) { return d.kink; });
  const auto stopped =
      std::count_if(directions.begin(), directions.end(), [](const Direction& d) { return d.stopped; });
  std::string note;
  if (kinks > 0)
    note += fmt::format(
        "Differences disagree at a kink or a jump along {} of {} directions (nearby they agree): "
        "there forward mode decides.\n{}",
        kinks, directions.size(), text_of_kinks(problem, directions));
  if (stopped > 0)
    note += fmt::format("Differences see through {} along {} of {} directions: there forward mode decides.\n",
                        seen_through(problem.program), stopped, directions.size());
  Json json_rows = Json::array();
  for (const Row& row : rows) json_rows.push_back(json_of(row));
  report(options, text + text_of(rows) + note + (ok ? "" : "MISMATCH\n"),
         {{"program", entry.name},
          {"sizes", sizes},
          {"directions", directions.size()},
          {"kinks", kinks},
          {"stopped", stopped},
          {"rows", json_rows},
          {"ok", ok}});
  return ok ? 0 : 1;
}

}  // namespace loopgrad::cli
