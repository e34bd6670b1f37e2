#include "bench/reference/report.h"

#include "tools/cli/options.h"
#include "tools/cli/table.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <ctime>
#include <fstream>

namespace loopgrad::bench {
namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const Row& row) {
  if (!row.skipped.empty())
    return {{"name", row.name}, {"forward_ms", nullptr}, {"backward_ms", nullptr}, {"skipped", row.skipped}};
  return {{"name", row.name},
          {"forward_ms", row.forward_ms},
          {"backward_ms", row.backward_ms},
          {"runs", row.runs},
          {"max_rel_difference", number(row.error)}};
}

double both(const Row& row) { return row.forward_ms + row.backward_ms; }

/// What the restructured variant must reach, and whether it did.
Json verdict(const Result& result) {
  Json targets = Json::array();
  const Row *ours = find_row(result, "restructured"), *hand = find_row(result, "hand"),
            *naive = find_row(result, "naive-tape");
  const auto add = [&](const std::string& what, double target, double reached, bool ok) {
    targets.push_back({{"what", what}, {"target", target}, {"reached", reached}, {"ok", ok}});
  };
  if (result.measured->hand && ours && hand) {
    const double forward = ours->forward_ms / hand->forward_ms, backward = ours->backward_ms / hand->backward_ms;
    add("forward / hand", *result.measured->hand, forward, forward <= *result.measured->hand);
    add("backward / hand", *result.measured->hand, backward, backward <= *result.measured->hand);
  }
  if (result.measured->naive && ours && naive) {
    const double faster = both(*naive) / both(*ours);
    add("naive-tape / ours", *result.measured->naive, faster, faster >= *result.measured->naive);
  }
  return targets;
}

std::string sizes_text(const Json& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value.get<std::int64_t>());
  return text;
}

/// Total time by row name; NaN where it did not run.
double total(const Json& program, const std::string& name) {
  for (const Json& row : program.at("rows"))
    if (row.at("name") == name && !row.at("forward_ms").is_null())
      return row.at("forward_ms").get<double>() + row.at("backward_ms").get<double>();
  return std::nan("");
}

std::string times(double ratio) { return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : "-"; }

std::string table_of(const Json& program) {
  const double hand = total(program, "hand"), naive = total(program, "naive-tape"),
               floor = program.value("floor_ms", 0.0);
  std::vector<std::vector<std::string>> cells = {
      {"", "forward ms", "backward ms", "both ms", "of hand", "faster than naive", "of floor", "difference"}};
  std::string notes;
  for (const Json& row : program.at("rows")) {
    const auto name = row.at("name").get<std::string>();
    if (row.at("forward_ms").is_null()) {
      cells.push_back({name, "-", "-", "-", "-", "-", "-", "-"});
      notes += fmt::format("  {}: {}\n", name, row.value("skipped", "did not run"));
      continue;
    }
    const double ms = total(program, name);
    const bool compared = row.contains("max_rel_difference") && row.at("max_rel_difference").is_number();
    cells.push_back({name, fmt::format("{:.3f}", row.at("forward_ms").get<double>()),
                     fmt::format("{:.3f}", row.at("backward_ms").get<double>()), fmt::format("{:.3f}", ms),
                     times(ms / hand), times(naive / ms), times(ms / floor),
                     compared ? fmt::format("{:.1e}", row.at("max_rel_difference").get<double>()) : "-"});
  }
  for (const Json& target : program.at("targets"))
    notes += fmt::format("  {}: {:.2f}, target {} {}\n", target.at("what").get<std::string>(),
                         target.at("reached").get<double>(), target.at("target").get<double>(),
                         target.at("ok").get<bool>() ? "reached" : "MISSED");
  return cli::table(cells, "  ") + notes;
}

}  // namespace

Json json_of_run(const std::string& command) {
  return {{"date", fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(std::time(nullptr)))},
          {"cpu", cpu_model()},
          {"threads", omp_get_max_threads()},
          {"compiler", fmt::format("g++ {}", __VERSION__)},
          {"command", command},
          {"peers", Json::object()},
          {"programs", Json::array()}};
}

Json json_of(const Result& result, const std::vector<Json>& peers) {
  Json rows = Json::array();
  for (const Row& row : result.rows) rows.push_back(json_of(row));
  const nlohmann::json sizes = result.measured->sizes;
  for (const Json& peer : peers)
    for (const Json& theirs : peer.at("programs"))
      if (theirs.at("program") == result.measured->program->name && nlohmann::json(theirs.at("sizes")) == sizes)
        for (const Json& row : theirs.at("rows")) rows.push_back(row);
  return {{"program", result.measured->program->name},
          {"sizes", result.measured->sizes},
          {"bytes", {{"forward", result.forward_bytes}, {"backward", result.backward_bytes}}},
          {"floor_ms", result.floor_ms},
          {"rows", rows},
          {"targets", verdict(result)}};
}

Json read_peers(const std::string& file) {
  std::ifstream in(file);
  if (!in) cli::bad_input(fmt::format("cannot read '{}'", file));
  try {
    Json peers = Json::parse(in);
    for (const Json& program : peers.at("programs"))
      for (const Json& row : program.at("rows"))
        static_cast<void>(row.at("name")), static_cast<void>(row.at("forward_ms"));
    return peers;
  } catch (const nlohmann::json::exception& error) {
    cli::bad_input(fmt::format("'{}' is not a file of bench/peers ({})", file, error.what()));
  }
}

std::string differences_of(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> cells = {{"program", "sizes"}};
  for (const Result& result : results) {
    cells.push_back({result.measured->program->name, sizes_text(result.measured->sizes)});
    for (const Row& row : result.rows)
      cells.back().push_back(row.skipped.empty() ? fmt::format("{} {:.1e}", row.name, row.error)
                                                 : fmt::format("{}: {}", row.name, row.skipped));
  }
  std::size_t columns = 0;
  for (const auto& row : cells) columns = std::max(columns, row.size());
  for (auto& row : cells) row.resize(columns);
  return cli::table(cells);
}

std::string heading_of(const Json& run) {
  return fmt::format("{}, {} threads, {}\n", run.at("cpu").get<std::string>(), run.at("threads").get<int>(),
                     run.at("compiler").get<std::string>());
}

std::string text_of(const Json& program) {
  return fmt::format("\n{} {}\n{}", program.at("program").get<std::string>(), sizes_text(program.at("sizes")),
                     table_of(program));
}

}  // namespace loopgrad::bench
