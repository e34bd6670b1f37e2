// `compare --sweep`.
#include "tools/cli/commands.h"
#include "tools/cli/comparison.h"
#include "tools/report/sweep_plot.h"

#include <fmt/format.h>

namespace loopgrad::cli {

using Json = nlohmann::ordered_json;

/// The same for each value of a size; the plot has its data beside it.
int compare_sweep(const Options& options) {
  const Sweep& sweep = options.sweep;
  std::string text;
  Json points = Json::array();
  {
    tools::Progress progress(static_cast<double>(sweep.values.size()) * steps_of_comparison(options));
    for (const std::int64_t value : sweep.values) {
      Sizes sizes = sizes_of_comparison(options);
      sizes[sweep.size] = value;
      const Comparison comparison = compare(options, sizes, progress);
      text += text_of(comparison) + "\n";
      points.push_back(json_of(comparison));
    }
  }
  const Json json = {{"program", options.program->name}, {"size", sweep.size}, {"points", points}};
  if (!options.plot.empty()) {
    const bool is_svg = options.plot.ends_with(".svg");
    const std::string data = (is_svg ? options.plot.substr(0, options.plot.size() - 4) : options.plot) + ".json";
    write_file(options.plot, page::sweep_plot(json));
    write_file(data, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    text += fmt::format("{}\n{}\n", options.plot, data);
  }
  report(options, text, json);
  return 0;
}

}  // namespace loopgrad::cli
