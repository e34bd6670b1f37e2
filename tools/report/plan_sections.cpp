// The sections about how the programs run: sums, loops, variants, and all else that was decided.
#include "tools/cli/table.h"
#include "tools/report/html.h"
#include "tools/report/page.h"
#include "tools/report/roofline.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::cli::page {
namespace {

using Json = nlohmann::ordered_json;
using Column = Table::Column;

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

std::string number(const Json& value, const char* format = "{:.3g}") {
  return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>()) : "-";
}

/// What there was to choose from; the chosen one has a colour.
std::string candidates(const Json& sum) {
  double most = 0;
  for (const Json& c : sum["candidates"]) most = std::max(most, c["microseconds"].get<double>());
  std::string out = "<div class=\"bars\">\n";
  for (const Json& c : sum["candidates"]) {
    const double us = c["microseconds"].get<double>();
    const bool chosen = c["plan"] == sum["plan"];
    const std::string note = text_of(c["note"]).empty() ? "" : ": " + text_of(c["note"]);
    out += bar(fmt::format("{}{}{}", text_of(c["plan"]), chosen ? " (taken)" : "", note),
               us > 0 ? time_text(us) : "no estimate", most > 0 ? us / most : 0, chosen ? "forward" : "backward");
  }
  return out + "</div>\n";
}

std::string sums_of(const Json& program) {
  std::string out = fmt::format("<h3>{}</h3>\n", escaped(text_of(program["name"])));
  Table plain({{"sum", Column::Long}, {"line", Column::Text}, {"plan", Column::Text}, {"reason", Column::Long}});
  std::string chosen;
  for (const Json& sum : program["sums"]) {
    const std::string plan = text_of(sum["plan"]), level = text_of(sum["level"]);
    plain.add({text_of(sum["sum"]), text_of(sum["where"]), level.empty() ? plan : plan + ", " + level,
               text_of(sum["reason"])});
    if (sum["candidates"].size() > 1)
      chosen += folded(fmt::format("{} ({}): {}", shortened(text_of(sum["sum"]), 60), text_of(sum["where"]), plan),
                       candidates(sum));
  }
  if (plain.empty()) return out + "<p>None.</p>\n";
  out += plain.html();
  if (!chosen.empty()) out += "<p>What there was to choose from:</p>\n" + chosen;
  return out;
}

/// Measured, or else as the model has it.
double time_of(const Json& facts, const std::string& program, std::size_t part, const Json& estimate) {
  const Json& profile = facts["profile"];
  if (!profile.is_null() && profile[program].size() > part && profile[program][part].is_number())
    return profile[program][part].get<double>();
  return estimate["microseconds"].get<double>();
}

std::string decisions(const Json& rows, const std::string& title, const std::vector<const char*>& keys) {
  if (rows.empty()) return {};
  std::vector<std::pair<std::string, Column>> columns;
  for (const char* key : keys)
    columns.emplace_back(std::string(key) == "where" ? "line" : key,
                         std::string(key) == "reason" ? Column::Long : Column::Text);
  Table table(columns);
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const char* key : keys)
      cells.push_back(row[key].is_boolean() ? (row[key].get<bool>() ? "yes" : "no") : text_of(row[key]));
    table.add(std::move(cells));
  }
  return folded(fmt::format("{} ({})", title, table.size()), table.html());
}

}  // namespace

std::string sums_section(const Json& facts) {
  std::string out;
  for (const Json& program : facts["explained"][0]["programs"]) out += sums_of(program);
  return out;
}

std::string loops_section(const Json& facts) {
  const Json& explained = facts["explained"][0];
  const bool measured = !facts["profile"].is_null();
  Table table({{"", Column::Number},
               {"loops", Column::Text},
               {"line", Column::Text},
               {"program", Column::Text},
               {measured ? "measured" : "estimate", Column::Number},
               {"model", Column::Number},
               {"runs", Column::Number},
               {"operations", Column::Number},
               {"bytes", Column::Number},
               {"at once", Column::Number},
               {"", Column::Text}});
  std::vector<RooflinePoint> points;
  for (const Json& program : explained["programs"]) {
    const std::string name = text_of(program["name"]);
    std::size_t index = 0;
    for (const Json& part : program["parts"]) {
      const std::string label = std::to_string(table.size() + 1);
      const double us = time_of(facts, name, index++, part);
      if (us == 0 && part["runs"] == 0) continue;  // of a branch that is not taken
      const bool in_order = !part["parallel"].get<bool>() && !part["product"].get<bool>();
      table.add({label, text_of(part["loops"]), text_of(part["where"]), name, time_text(us),
                 time_text(part["microseconds"].get<double>()), number(part["runs"]), number(part["flops"]),
                 human_bytes(part["bytes"].get<double>()), number(part["iterations_at_once"], "{:.0f}"),
                 in_order                      ? "in order"
                 : part["product"].get<bool>() ? "product of matrices"
                                               : ""});
      points.push_back({label, fmt::format("{}: {} ({})", label, text_of(part["loops"]), text_of(part["where"])), name,
                        part["flops"].get<double>(), part["bytes"].get<double>(), us});
    }
  }
  const Json& roofs = facts["compared"].is_null() ? explained["machine"] : facts["compared"]["roofline"];
  const double bytes = roofs.value(facts["compared"].is_null() ? "bytes_per_second" : "copy_bytes_per_second", 0.0);
  const double flops = roofs.value(facts["compared"].is_null() ? "flops_per_second" : "fma_flops_per_second", 0.0);
  std::string out = fmt::format(
      "<p>{} The roof is {}: {:.3g} GB/s and {:.3g} GFLOP/s. <span class=\"forward\">Forward</span> and <span "
      "class=\"backward\">backward</span>; the larger a point, the longer it takes.</p>\n",
      measured ? "Times are measured." : "Times are the machine model's.",
      facts["compared"].is_null() ? "the model's" : "what this machine reaches", bytes / 1e9, flops / 1e9);
  out += roofline(points, bytes, flops);
  out += table.html();
  for (const Json& program : explained["programs"]) {
    const std::string name = text_of(program["name"]);
    out += decisions(program["loops"], "Which loops are parallel, " + name, {"loop", "where", "parallel", "reason"});
    out += decisions(program["kernels"], "Kernels, " + name, {"loops", "where", "shape", "reason"});
  }
  return out;
}

std::string variants_section(const Json& facts) {
  const Json& compared = facts["compared"];
  Table table({{"variant", Column::Text},
               {"forward", Column::Number},
               {"backward", Column::Number},
               {"tape", Column::Number},
               {"atomics", Column::Number},
               {"largest error", Column::Number},
               {"same bits", Column::Text},
               {"of the roofline", Column::Number}});
  double most = 0;
  std::vector<std::pair<std::string, std::pair<double, double>>> times;
  if (compared.is_null()) {
    for (const Json& e : facts["explained"]) {
      const double forward = e["programs"][0]["microseconds"].get<double>(),
                   backward = e["programs"][1]["microseconds"].get<double>();
      times.push_back({text_of(e["variant"]), {forward, backward}});
      const bool stack = e["variant"] == "naive-tape";
      table.add({text_of(e["variant"]), time_text(forward), time_text(backward),
                 stack ? "a stack" : human_bytes(e["tape_bytes"].get<double>()), number(e["programs"][1]["atomics"]),
                 "-", "-", "-"});
    }
  } else {
    for (const Json& v : compared["variants"]) {
      const bool ran = v["forward_ms"].is_number();
      const double forward = ran ? 1e3 * v["forward_ms"].get<double>() : 0,
                   backward = ran ? 1e3 * v["backward_ms"].get<double>() : 0;
      if (ran) times.push_back({text_of(v["name"]), {forward, backward}});
      table.add({text_of(v["name"]), ran ? time_text(forward) : "-", ran ? time_text(backward) : "-",
                 ran ? human_bytes(v["tape_bytes"].get<double>()) : "-", number(v["atomics"]),
                 number(v["max_rel_error"], "{:.1e}"),
                 !ran                                  ? "-"
                 : v["bitwise_repeatable"].get<bool>() ? "yes"
                                                       : "no",
                 ran ? fmt::format("{:.1f} %", 100 * v["roofline_fraction"].get<double>()) : "-"});
    }
  }
  for (const auto& [name, pair] : times) most = std::max({most, pair.first, pair.second});
  std::string out = "<div class=\"bars\">\n";
  for (const auto& [name, pair] : times) {
    out += bar(name + ", forward", time_text(pair.first), most > 0 ? pair.first / most : 0, "forward");
    out += bar(name + ", backward", time_text(pair.second), most > 0 ? pair.second / most : 0, "backward");
  }
  return out + "</div>\n" + table.html();
}

std::string more_section(const Json& facts) {
  const Json& explained = facts["explained"][0];
  std::string out;
  for (const Json& program : explained["programs"]) {
    const std::string name = text_of(program["name"]);
    out += decisions(program["storage"], "Arrays that live elsewhere, " + name,
                     {"array", "where", "decision", "place", "reason"});
    out += decisions(program["runs"], "Threads, lanes and memory, " + name, {"what", "where", "decision", "reason"});
    out +=
        decisions(program["contractions"], "Products of matrices, " + name, {"sum", "where", "handed_over", "reason"});
  }
  out += decisions(explained["remarks"], "Remarks", {"where", "text"});
  return out.empty() ? "<p>Nothing.</p>\n" : out;
}

}  // namespace loopgrad::cli::page
