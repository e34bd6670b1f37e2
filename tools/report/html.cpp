#include "tools/report/html.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace loopgrad::cli::page {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string Table::html() const {
  const auto attribute = [&](std::size_t c) {
    const Column kind = c < columns_.size() ? columns_[c].second : Column::Text;
    return kind == Column::Number ? " class=\"number\"" : kind == Column::Long ? " class=\"long\"" : "";
  };
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t c = 0; c < columns_.size(); ++c)
    out += fmt::format("<th{}>{}</th>", attribute(c), escaped(columns_[c].first));
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows_) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) out += fmt::format("<td{}>{}</td>", attribute(c), escaped(row[c]));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string bar(const std::string& label, const std::string& value, double share, const std::string& kind) {
  return fmt::format(
      "<div class=\"bar\"><span><span>{}</span><span>{}</span></span><div><u{} "
      "style=\"width:{:.2f}%\"></u></div></div>\n",
      escaped(label), escaped(value), kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
      100 * std::clamp(share, 0.0, 1.0));
}

std::string folded(const std::string& summary, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", escaped(summary), content);
}

std::string time_text(double microseconds) {
  if (microseconds < 1000) return fmt::format("{:.3g} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.3g} ms", microseconds / 1e3);
  return fmt::format("{:.3g} s", microseconds / 1e6);
}

std::string filled(const std::string& text, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  std::set<std::string> used;
  for (std::size_t at = 0;;) {
    const std::size_t open = text.find("{{", at), close = text.find("}}", open);
    out += text.substr(at, open - at);
    if (open == std::string::npos) break;
    const std::string name = text.substr(open + 2, close - open - 2);
    const auto value = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
    if (value == values.end()) throw InternalError("the page asks for '" + name + "'");
    out += value->second;
    used.insert(name);
    at = close + 2;
  }
  if (used.size() < values.size()) throw InternalError("the page leaves out something");
  return out;
}

}  // namespace loopgrad::cli::page
