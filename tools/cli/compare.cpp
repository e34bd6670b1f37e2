// A comparison as a table and as JSON, and the command.
#include "tools/cli/commands.h"
#include "tools/cli/comparison.h"
#include "tools/cli/table.h"

#include <fmt/format.h>
#include <cmath>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Roofline& roofline) {
  const Work &forward = roofline.forward, &backward = roofline.backward;
  return fmt::format(
      "floor {:.3g} ms = {} and {:.3g} operations at {:.3g} GB/s (copy) and {:.3g} GFLOP/s (f32 FMA), measured now",
      roofline.floor_ms(), human_bytes(forward.bytes + backward.bytes), forward.flops + backward.flops,
      roofline.ceilings.bytes_per_second / 1e9, roofline.ceilings.flops_per_second / 1e9);
}

Json json_of(const Roofline& roofline) {
  return {{"floor_ms", roofline.floor_ms()},
          {"bytes", roofline.forward.bytes + roofline.backward.bytes},
          {"operations", roofline.forward.flops + roofline.backward.flops},
          {"copy_bytes_per_second", roofline.ceilings.bytes_per_second},
          {"fma_flops_per_second", roofline.ceilings.flops_per_second}};
}

std::string text_of(const std::vector<ComparedVariant>& rows, Target target, int runs) {
  std::vector<std::vector<std::string>> cells = {{"variant", "forward ms", "backward ms", "tape", "atomics",
                                                  "parallel loops", "max rel error", fmt::format("{} runs", runs),
                                                  "roofline"}};
  if (target == Target::Cuda) cells.front().insert(cells.front().end(), {"kernels", "device memory"});
  std::string failures;
  for (const ComparedVariant& row : rows) {
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

Json json_of(const ComparedVariant& row, Target target) {
  if (!row.failure.empty())
    return {{"name", name_of(row.variant)},  {"forward_ms", nullptr},        {"backward_ms", nullptr},
            {"tape_bytes", nullptr},         {"atomics", nullptr},           {"max_rel_error", nullptr},
            {"bitwise_repeatable", nullptr}, {"roofline_fraction", nullptr}, {"failure", row.failure}};
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

std::string text_of(const Comparison& c) {
  std::string text = fmt::format("{} on {}: {}\n", c.program, name_of(c.target), sizes_text(c.sizes));
  text += text_of(c.variants, c.target, c.runs);
  text += fmt::format(
      "medians of {} runs or more; atomics and parallel loops are those of the backward program\n"
      "errors against {}\nroofline: {}\n",
      c.runs, c.reference, text_of(c.roofline));
  return text;
}

nlohmann::ordered_json json_of(const Comparison& c) {
  Json rows = Json::array();
  for (const ComparedVariant& row : c.variants) rows.push_back(json_of(row, c.target));
  return {{"program", c.program}, {"target", name_of(c.target)}, {"sizes", c.sizes},
          {"variants", rows},     {"runs_compared", c.runs},     {"roofline", json_of(c.roofline)}};
}

int compare_variants(const Options& options) {
  if (!options.sweep.values.empty()) return compare_sweep(options);
  tools::Progress progress(steps_of_comparison(options));
  const Comparison comparison = compare(options, sizes_of_comparison(options), progress);
  progress.clear();
  report(options, text_of(comparison), json_of(comparison));
  return 0;
}

}  // namespace loopgrad::cli
