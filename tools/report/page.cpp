#include "tools/report/page.h"

#include "tools/cli/table.h"
#include "tools/report/html.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace loopgrad::cli::page {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

std::string bytes_text(const Json& value) { return value.is_number() ? human_bytes(value.get<double>()) : ""; }

std::string sizes_text(const Json& sizes) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : sizes.items())
    parts.push_back(fmt::format("{} = {}", name, value.get<std::int64_t>()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string tile(const std::string& what, const std::string& value, const std::string& note) {
  return fmt::format("<div class=\"tile\">{}<b>{}</b><span class=\"soft\">{}</span></div>\n", escaped(what),
                     escaped(value), escaped(note));
}

/// The variant that the page is about, as it was measured; or null.
const Json* measured_variant(const Json& facts) {
  if (facts["compared"].is_null()) return nullptr;
  for (const Json& variant : facts["compared"]["variants"])
    if (variant["name"] == facts["explained"][0]["variant"] && variant["forward_ms"].is_number()) return &variant;
  return nullptr;
}

/// Whether the name stands in the text as a word of its own.
bool names(const std::string& text, const std::string& name) {
  const auto is_part = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (std::size_t at = text.find(name); at != std::string::npos && !name.empty(); at = text.find(name, at + 1))
    if (!is_part(at + name.size()) && (at == 0 || !is_part(at - 1))) return true;
  return false;
}

/// Lines of the user's, which are numbers alone where there is only one file.
std::string listing(const Json& lines, const std::vector<std::string>& tapes) {
  std::string only_file;
  bool one_file = true;
  for (const Json& line : lines) {
    const std::string where = text_of(line[1]), file = where.substr(0, where.find(':'));
    if (where.empty()) continue;
    one_file &= only_file.empty() || only_file == file;
    only_file = file;
  }
  std::string out = fmt::format("<div class=\"code{}\">\n", one_file ? "" : " files");
  for (const Json& line : lines) {
    const std::string text = text_of(line[0]), where = text_of(line[1]);
    const bool on_tape = std::any_of(tapes.begin(), tapes.end(), [&](const std::string& t) { return names(text, t); });
    out += fmt::format("<div{}{}><i>{}</i><code>{}</code></div>\n", on_tape ? " class=\"tape\"" : "",
                       where.empty() ? "" : fmt::format(" data-line=\"{}\"", escaped(where)),
                       escaped(one_file ? where.substr(where.find(':') + 1) : where), escaped(text));
  }
  return out + "</div>\n";
}

std::string tape_bars(const Json& explained) {
  std::vector<std::pair<double, const Json*>> saved;
  std::vector<std::string> known;  // arrays that several values have
  for (const Json& row : explained["tape"]) {
    const std::string array = text_of(row["storage"]).substr(0, text_of(row["storage"]).find('['));
    if (row["how"] != "saved" || !row["bytes"].is_number() || std::count(known.begin(), known.end(), array)) continue;
    known.push_back(array);
    saved.emplace_back(row["bytes"].get<double>(), &row);
  }
  if (saved.empty()) return "";
  const double all = explained["tape_bytes"].get<double>();
  std::string out = "<div class=\"bars\">\n";
  for (const auto& [bytes, row] : saved)
    out += bar(fmt::format("{}  ({})", text_of((*row)["value"]), text_of((*row)["where"])),
               fmt::format("{} = {}", human_bytes(bytes), text_of((*row)["formula"])), all > 0 ? bytes / all : 0);
  return out + "</div>\n";
}

}  // namespace

std::string tiles(const Json& facts) {
  const Json& explained = facts["explained"][0];
  const Json* measured = measured_variant(facts);
  const auto time = [&](std::size_t program, const char* key) {
    return measured ? 1e3 * (*measured)[key].get<double>()
                    : explained["programs"][program]["microseconds"].get<double>();
  };
  const double forward = time(0, "forward_ms"), backward = time(1, "backward_ms");
  const std::string how =
      measured ? "measured here" : fmt::format("estimated for {}", text_of(explained["machine"]["name"]));
  double arrays = 0, work = 0;
  for (const Json& program : explained["programs"]) {
    arrays = std::max(arrays, program["array_bytes"].get<double>());
    work = std::max(work, program["work_bytes"].get<double>());
  }
  const double tape = explained["tape_bytes"].get<double>();
  return tile("Forward", time_text(forward), how) + tile("Backward", time_text(backward), how) +
         tile("Backward by forward", forward > 0 ? fmt::format("{:.2g}", backward / forward) : "-", "") +
         tile("Tape", human_bytes(tape), "") +
         tile("Memory at most", human_bytes(tape + arrays + work), "arrays, tape, work arrays");
}

std::string change_section(const Json& facts) {
  const Json& advice = facts["explained"][0]["advice"];
  if (advice.empty()) return "<p>Nothing stands out.</p>\n";
  std::string out = "<ul>\n";
  for (const Json& one : advice) out += fmt::format("<li>{}</li>\n", escaped(text_of(one)));
  return out + "</ul>\n";
}

std::string code_section(const Json& facts) {
  std::vector<std::string> tapes;
  for (const Json& row : facts["explained"][0]["tape"])
    if (row["how"] == "saved") tapes.push_back(text_of(row["storage"]).substr(0, text_of(row["storage"]).find('[')));
  const auto of = [&](const char* name) { return listing(facts["listings"][name], tapes); };
  return fmt::format(
             "<div class=\"pair\"><div><h3>As written</h3>\n{}</div><div><h3>The gradient "
             "(backward)</h3>\n{}</div></div>\n",
             of("program"), of("backward")) +
         folded("The forward program, which fills the tape", of("forward"));
}

std::string tape_section(const Json& facts) {
  const Json& explained = facts["explained"][0];
  if (explained["variant"] == "naive-tape")
    return "<p>The tape is a stack, whose bytes are known when it has run.</p>\n";
  Table table({{"value", Table::Column::Text},
               {"lines", Table::Column::Text},
               {"is", Table::Column::Text},
               {"where", Table::Column::Text},
               {"bytes", Table::Column::Number},
               {"in sizes", Table::Column::Text},
               {"written", Table::Column::Number},
               {"read", Table::Column::Number},
               {"the alternative", Table::Column::Long},
               {"reason", Table::Column::Long}});
  for (const Json& row : explained["tape"]) {
    std::vector<std::string> lines;
    for (const Json& line : row["lines"]) lines.push_back(text_of(line));
    table.add({text_of(row["value"]), fmt::format("{}", fmt::join(lines, ", ")), text_of(row["how"]),
               text_of(row["storage"]), bytes_text(row["bytes"]), text_of(row["formula"]),
               bytes_text(row["written_bytes"]), bytes_text(row["read_bytes"]), text_of(row["alternative"]),
               text_of(row["reason"])});
  }
  const std::string bars = tape_bars(explained);
  std::string out = bars.empty() ? "<p>Nothing is saved.</p>\n"
                                 : fmt::format("<p>{} in all: what is saved, by bytes.</p>\n{}",
                                               bytes_text(explained["tape_bytes"]), bars);
  if (!table.empty()) out += folded(fmt::format("All {} values that the gradient needs", table.size()), table.html());
  return out;
}

std::string page_of(const Json& facts) {
  const Json& explained = facts["explained"][0];
  const std::string subtitle = fmt::format(
      "{}, {}, {}. {}", text_of(explained["target"]), text_of(explained["variant"]), sizes_text(explained["sizes"]),
      facts["compared"].is_null() ? "Times are estimates; --measure takes them." : "Times are measured here.");
  return filled(page_template, {{"title", escaped("The gradient of " + text_of(explained["program"]))},
                                {"summary", escaped(text_of(facts["summary"]))},
                                {"subtitle", escaped(subtitle)},
                                {"tiles", tiles(facts)},
                                {"change", change_section(facts)},
                                {"code", code_section(facts)},
                                {"tape", tape_section(facts)},
                                {"sums", sums_section(facts)},
                                {"loops", loops_section(facts)},
                                {"variants", variants_section(facts)},
                                {"more", more_section(facts)}});
}

}  // namespace loopgrad::cli::page
