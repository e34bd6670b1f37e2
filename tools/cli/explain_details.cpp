// All that was decided, in tables.
#include "tools/cli/explanation.h"
#include "tools/cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace loopgrad::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kWidest = 60;  // of an expression in a table; the JSON has all of it

std::string titled(const std::string& title, const Rows& rows) {
  if (rows.size() < 2) return fmt::format("{}: none\n\n", title);
  return fmt::format("{}:\n{}\n", title, table(rows, "  "));
}

std::string lines_text(const TapeRow& row) {
  const std::string& first = *row.lines.begin();
  return row.lines.size() == 1 ? first : fmt::format("{} and {} more", first, row.lines.size() - 1);
}

std::string bytes_text(const std::optional<double>& bytes) { return bytes ? human_bytes(*bytes) : ""; }

std::string tape_text(const Explanation& e) {
  Rows rows = {{"value", "line", "is", "where", "bytes", "=", "written", "read", "the alternative", "reason"}};
  for (const TapeRow& row : e.tape) {
    const std::string how = row.how == "saved" ? fmt::format("saved ({})", row.decision) : row.how;
    rows.push_back({shortened(row.value, kWidest), lines_text(row), how, shortened(row.storage, kWidest),
                    shortened(row.formula, kWidest), bytes_text(row.bytes), bytes_text(row.written),
                    bytes_text(row.read), row.alternative, row.reason});
  }
  return titled(
      fmt::format("Needed values and where the gradient gets them from ({} saved)", human_bytes(tape_bytes(e.tape))),
      rows);
}

std::string sums_text(const ExplainedProgram& part) {
  Rows rows = {{"sum", "line", "plan", "reason"}};
  for (const SumDecision& d : part.decisions.sums)
    rows.push_back({shortened(d.sum, kWidest), d.where.str(), d.plan, d.reason});
  return titled(fmt::format("Sums of the {} program", part.name), rows);
}

std::string contractions_text(const ExplainedProgram& part) {
  // What a library may do is in the plan for the sum.
  Rows rows = {{"sum", "line", "reason"}};
  for (const ContractionDecision& d : part.decisions.contractions)
    if (!d.handed_over) rows.push_back({shortened(d.sum, kWidest), d.where.str(), d.reason});
  return rows.size() < 2 ? "" : titled(fmt::format("No products of matrices in the {} program", part.name), rows);
}

std::string candidates_text(const ExplainedProgram& part) {
  Rows rows = {{"sum", "line", "plan", "us", "MB moved", "operations", "parallel", ""}};
  std::set<std::string> sizes;
  for (const SumDecision& d : part.decisions.sums) {
    for (std::size_t at = 0; at < d.basis.size();) {
      const std::size_t end = std::min(d.basis.find(", ", at), d.basis.size());
      sizes.insert(d.basis.substr(at, end - at));
      at = end + 2;
    }
    std::string sum = shortened(d.sum, kWidest), line = d.where.str();
    for (const SumCandidate& c : d.candidates) {
      const bool chosen = c.plan == d.plan;
      const bool known = c.microseconds > 0;
      rows.push_back({sum, line, (chosen ? "* " : "  ") + c.plan, known ? fmt::format("{:.3g}", c.microseconds) : "-",
                      known ? fmt::format("{:.3g}", c.bytes / 1e6) : "-",
                      known ? fmt::format("{:.3g}", c.operations) : "-",
                      known ? fmt::format("{:.3g}", c.parallel) : "-", c.note});
      sum = line = "";
    }
  }
  if (rows.size() < 2) return "";
  return fmt::format("Estimates for sums of the {} program ({}), * is taken:\n{}\n", part.name, fmt::join(sizes, ", "),
                     table(rows, "  "));
}

std::string parts_text(const ExplainedProgram& part) {
  Rows rows = {{"loops", "line", "runs", "us", "operations", "MB", "at once", ""}};
  for (const PartWork& p : part.parts.parts)
    rows.push_back({shortened(p.loops, kWidest), p.where.str(), fmt::format("{:.4g}", p.runs),
                    fmt::format("{:.3g}", p.microseconds), fmt::format("{:.4g}", p.flops),
                    fmt::format("{:.4g}", p.bytes / 1e6), fmt::format("{:.4g}", p.parallel),
                    p.is_product  ? "a product of matrices"
                    : p.is_shared ? ""
                                  : "in order"});
  return titled(fmt::format("Time of the {} program by the machine model ({:.4g} us)", part.name, part.microseconds()),
                rows);
}

std::string loops_text(const ExplainedProgram& part) {
  Rows rows = {{"loop", "line", "runs", "reason"}};
  for (const LoopDecision& d : part.decisions.loops)
    rows.push_back({d.loop, d.where.str(), d.parallel ? "parallel" : "in order", d.reason});
  return titled(fmt::format("Loops of the {} program", part.name), rows);
}

std::string storage_text(const ExplainedProgram& part) {
  if (part.decisions.storage.empty()) return "";
  Rows rows = {{"array", "line", "decision", "place", "reason"}};
  for (const StorageDecision& d : part.decisions.storage)
    rows.push_back({d.array, d.where.str(), d.decision, d.place, d.reason});
  return titled(fmt::format("Storage of arrays of the {} program", part.name), rows);
}

std::string kernels_text(const ExplainedProgram& part) {
  Rows rows = {{"loops", "line", "shape", "reason"}};
  for (const KernelDecision& d : part.decisions.kernels)
    rows.push_back({d.loops.empty() ? "-" : d.loops, d.where.str(), d.shape, d.reason});
  return titled(fmt::format("Kernels of the {} program", part.name), rows);
}

std::string runs_text(const ExplainedProgram& part) {
  if (part.decisions.runs.empty()) return "";
  Rows rows = {{"what", "line", "runs", "reason"}};
  std::map<std::vector<std::string>, int> times;  // copies of one loop run alike
  for (const RunDecision& d : part.decisions.runs) {
    const std::vector<std::string> row = {d.what, d.where.str(), d.decision, d.reason};
    if (times[row]++ == 0) rows.push_back(row);
  }
  for (std::vector<std::string>& row : rows)
    if (const int copies = times[row]; copies > 1) row[0] += fmt::format(" ({} times)", copies);
  return titled(fmt::format("Threads, lanes and memory of the {} program", part.name), rows);
}

std::string work_text(const Explanation& e) {
  Rows rows = {{"program", "operations", "array bytes", "tape bytes"}};
  bool exact = true;
  for (const ExplainedProgram& part : e.programs) {
    rows.push_back({part.name, fmt::format("{:.4g}", part.work.flops), human_bytes(part.work.bytes),
                    human_bytes(part.work.tape_bytes)});
    exact = exact && part.work.exact;
  }
  std::string text = titled("Work", rows);
  if (!exact) text += "  Estimates: branches or bounds depend on data.\n\n";
  return text;
}

std::string remarks_text(const Explanation& e) {
  std::string text;
  std::set<std::string> known;
  for (const Remark& r : e.remarks) {
    const std::string line = fmt::format("Remark: {}: {}\n", r.where.str(), r.text);
    if (known.insert(line).second) text += line;
  }
  return text.empty() ? "Remarks: none\n" : text;
}

}  // namespace

const std::vector<std::string>& detail_groups() {
  static const std::vector<std::string> groups = {"tape", "sums", "loops", "remarks"};
  return groups;
}

std::string details(const Explanation& e, const std::vector<std::string>& groups) {
  std::string text;
  const auto wanted = [&](const char* group) { return std::count(groups.begin(), groups.end(), group) > 0; };
  if (wanted("tape")) text += tape_text(e);
  for (const ExplainedProgram& part : e.programs) {
    if (wanted("sums")) text += sums_text(part) + candidates_text(part) + contractions_text(part);
    if (!wanted("loops")) continue;
    text += parts_text(part) + loops_text(part) + storage_text(part);
    text += e.target == Target::Cuda ? kernels_text(part) : runs_text(part);
  }
  if (wanted("loops")) text += work_text(e);
  if (wanted("remarks")) text += remarks_text(e);
  return text;
}

}  // namespace loopgrad::cli
