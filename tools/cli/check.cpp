#include "tools/cli/commands.h"
#include "tools/cli/device_buffers.h"
#include "tools/cli/directions.h"
#include "tools/cli/table.h"

#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kRoundings = 32;  // that an error of a sum may have, each relative to the sum's terms

struct Row {
  std::string target, variant;
  double output = 0, forward_mode = 0, difference = 0;  // largest relative errors
  std::optional<bool> same_bits = {};                   // for 1, 2 and 3 threads or three runs; none where not promised
  double tolerance = 0;
  double half_ulp = 0;       // of the type that is computed in
  std::string failure = {};  // of a checked run

  bool ok() const {
    return failure.empty() && output <= tolerance && forward_mode <= tolerance &&
           difference <= std::max(tolerance, kDifferenceTolerance) && same_bits.value_or(true);
  }
  /// The least that an error is relative to, so that one of a few roundings is within the tolerance however far the
  /// terms cancel.
  double least_scale(double terms) const { return kRoundings * half_ulp * terms / tolerance; }
};

/// Never lets a NaN pass.
double larger(double a, double b) { return std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b); }

/// What rounding may do to a gradient, for programs of order-one numbers at check sizes.
void set_precision(Row& row, const Program& program, Target target) {
  std::size_t narrowest = 8;
  bool bfloat = false;
  auto look = [&](const ir::Array& array) {
    if (is_float(array->type)) narrowest = std::min(narrowest, bytes_of(array->type));
    bfloat = bfloat || array->type == ScalarType::BF16;
  };
  for (const ir::Array& array : program.ir().arrays) look(array);
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) look(local->array);
  });
  const bool f64 = target == Target::Interpreter || narrowest == 8;
  row.tolerance = f64 ? 1e-9 : narrowest == 4 ? 2e-4 : 5e-2;
  row.half_ulp = f64 ? 0x1p-53 : narrowest == 4 ? 0x1p-24 : bfloat ? 0x1p-9 : 0x1p-12;
}

std::vector<std::string> results_of(const Problem& problem) {
  std::vector<std::string> names = problem.of;
  for (const std::string& name : problem.wrt) names.push_back("d_" + name);
  return names;
}

/// Results of one run of a variant. The in-outs' `d_a` is both incoming and result: `inputs` has it for the first.
Buffers run_variant(const Problem& problem, Variant variant, const CompileOptions& options) {
  GradientExecutable gradient = compile_gradient(problem.program, problem.gradient_options(variant), options);
  Arrays initial = problem.inputs;
  initial.insert(problem.incoming.begin(), problem.incoming.end());
  Buffers buffers({gradient.gradient().forward, gradient.gradient().backward}, problem.sizes, initial, options.f64);
  if (options.target == Target::Cuda) {
    DeviceBuffers device(buffers, 2);
    device.upload();
    gradient.forward(device.arguments(0), problem.sizes);
    gradient.backward(device.arguments(1), problem.sizes);
    device.download();
    return buffers;
  }
  gradient.forward(buffers.arguments(0), problem.sizes);
  gradient.backward(buffers.arguments(1), problem.sizes);
  return buffers;
}

/// What a row of the table runs on: a target, or the interpreter on what a GPU would run.
struct Where {
  Target target;
  bool gpu_mapped = false;
  int threads_per_block = 0;  // as the command line says
  std::string name() const { return gpu_mapped ? "gpu mapping" : name_of(target); }
};

/// The array whose gradient is not finite, if any.
std::string not_finite(const Problem& problem, const Buffers& gradient) {
  for (const std::string& name : problem.wrt) {
    const HostArray& array = gradient.at("d_" + name);
    for (std::int64_t i = 0; i < array.size(); ++i)
      if (!std::isfinite(array.get(i))) return fmt::format("the gradient by '{}' is not finite at element {}", name, i);
  }
  return {};
}

Row check_variant(const Problem& problem, const std::vector<Direction>& directions, const Reference& reference,
                  const Where& where, Variant variant) {
  const Target target = where.target;
  Row row{.target = where.name(), .variant = name_of(variant)};
  set_precision(row, problem.program, target);
  const bool interpreted = target == Target::Interpreter;
  CompileOptions options{.target = target,
                         .checked = interpreted,
                         .f64 = interpreted,
                         .gpu_mapped = where.gpu_mapped,
                         .threads = 1,
                         .threads_per_block = where.threads_per_block};
  try {
    Buffers buffers = run_variant(problem, variant, options);
    for (const auto& [name, expected] : reference.outputs) {
      const auto terms = reference.terms.find(name);
      const double least = terms == reference.terms.end() ? 0 : row.least_scale(terms->second);
      row.output = larger(row.output, relative_error(buffers.at(name), expected, least));
    }
    row.failure = not_finite(problem, buffers);
    for (const Direction& d : directions) {
      const double value = along(problem, d, buffers), least = row.least_scale(d.terms);
      row.forward_mode = larger(row.forward_mode, std::abs(value - d.forward_mode) / std::max(d.scale, least));
      if (!d.kink)
        row.difference = larger(row.difference, std::abs(value - d.difference) / std::max(d.difference_scale, least));
    }
    if (!interpreted) {
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

std::string text_of(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"target", "variant", "outputs", "forward mode", "differences", "repeated", "verdict"}};
  std::string failures;
  for (const Row& row : rows) {
    const bool ran = row.failure.empty();
    auto figure = [&](double value) { return ran ? fmt::format("{:.1e}", value) : "-"; };
    cells.push_back({row.target, row.variant, figure(row.output), figure(row.forward_mode), figure(row.difference),
                     row.same_bits ? (*row.same_bits ? "same bits" : "DIFFERENT") : "", row.ok() ? "ok" : "FAIL"});
    if (!ran) failures += fmt::format("{} {}: {}\n", row.target, row.variant, row.failure);
  }
  return table(cells) + failures;
}

Json json_of(const Row& row) {
  const bool ran = row.failure.empty();
  auto figure = [&](double value) { return ran ? Json(value) : Json(nullptr); };
  return {{"target", row.target},
          {"variant", row.variant},
          {"output_error", figure(row.output)},
          {"forward_mode_error", figure(row.forward_mode)},
          {"difference_error", figure(row.difference)},
          {"tolerance", row.tolerance},
          {"same_bits", row.same_bits ? Json(*row.same_bits) : Json(nullptr)},
          {"ok", row.ok()},
          {"failure", ran ? Json(nullptr) : Json(row.failure)}};
}

}  // namespace

int check_program(const Options& options) {
  const ProgramEntry& entry = *options.program;
  const Sizes sizes = sizes_of(options, entry.check_sizes.empty() ? entry.sizes : entry.check_sizes);
  Problem problem = make_problem(entry, sizes, options.seed);
  problem.max_tape_bytes = options.max_tape_bytes;
  const int block = options.threads_per_block;
  std::vector<Where> targets = {{Target::Interpreter}, {Target::Interpreter, true, block}, {Target::OpenMP}};
  if (has_cuda()) targets.push_back({Target::Cuda, false, block});
  if (options.target) targets = {{*options.target, false, block}};

  std::vector<Direction> directions = choose_directions(problem);
  std::vector<Row> rows;
  Row oracle{.target = "interpreter", .variant = "forward mode", .tolerance = kDifferenceTolerance};
  {
    tools::Progress progress(static_cast<double>(directions.size() + targets.size() * variants().size()));
    measure_directions(problem, directions, [&] { progress.next("forward mode and differences"); });
    for (const Direction& d : directions)
      if (!d.kink)
        oracle.difference = larger(oracle.difference, std::abs(d.forward_mode - d.difference) / d.difference_scale);
    rows.push_back(oracle);
    const Reference reference = reference_outputs(problem);
    for (const Where& where : targets) {
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
  const std::string note =
      kinks == 0 ? ""
                 : fmt::format(
                       "Differences disagree at a kink or a jump along {} of {} directions (nearby they agree): "
                       "there forward mode decides.\n",
                       kinks, directions.size());
  Json json_rows = Json::array();
  for (const Row& row : rows) json_rows.push_back(json_of(row));
  report(options, text + text_of(rows) + note + (ok ? "" : "MISMATCH\n"),
         {{"program", entry.name},
          {"sizes", sizes},
          {"directions", directions.size()},
          {"kinks", kinks},
          {"rows", json_rows},
          {"ok", ok}});
  return ok ? 0 : 1;
}

}  // namespace loopgrad::cli
