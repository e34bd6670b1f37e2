// `report`: collects the facts and writes the page.
#include "tools/cli/commands.h"
#include "tools/cli/comparison.h"
#include "tools/cli/explanation.h"
#include "tools/report/page.h"
#include "tools/report/part_times.h"

#include "dsl/ir/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Lines of a program with the user's lines that they are from.
Json listing_of(const Program& program) {
  Json lines = Json::array();
  std::istringstream text(ir::print(program.ir(), {.locations = true}));
  const std::string mark = "  // ";
  for (std::string line; std::getline(text, line);) {
    const std::size_t at = line.rfind(mark);
    if (at == std::string::npos) lines.push_back({line, ""});
    else lines.push_back({line.substr(0, at), line.substr(at + mark.size())});
  }
  return lines;
}

Json listings_of(const Options& options) {
  const Program program = options.program->build();
  const Gradient gradient =
      differentiate(program, {.wrt = options.program->wrt,
                              .variant = options.variant,
                              .max_tape_bytes = options.variant == Variant::NaiveTape ? 0 : options.max_tape_bytes});
  return {{"program", listing_of(program)},
          {"forward", listing_of(gradient.forward)},
          {"backward", listing_of(gradient.backward)}};
}

/// The one that the page is about comes first.
std::vector<Variant> ordered_variants(Variant first) {
  std::vector<Variant> all = variants();
  std::stable_partition(all.begin(), all.end(), [&](Variant v) { return v == first; });
  return all;
}

}  // namespace

int report_program(const Options& options) {
  const std::vector<Variant> all = ordered_variants(options.variant);
  Json facts = {{"summary", options.program->summary}, {"explained", Json::array()}};
  {
    tools::Progress progress(static_cast<double>(all.size()) + 2 +
                             (options.measure ? 1 + steps_of_comparison(options) : 0));
    for (const Variant variant : all) {
      progress.next(fmt::format("{} explained", name_of(variant)));
      facts["explained"].push_back(json_of(explain(options, variant)));
    }
    progress.next("listings");
    facts["listings"] = listings_of(options);
    facts["compared"] = facts["profile"] = nullptr;
    if (options.measure) {
      progress.next("the time of each loop");
      facts["profile"] = time_parts(options);
      facts["compared"] = json_of(compare(options, sizes_of(options, options.program->sizes), progress));
    }
    progress.next("page");
    write_file(options.out, page::page_of(facts));
  }
  report(options, options.out + "\n", facts);
  return 0;
}

}  // namespace loopgrad::cli
