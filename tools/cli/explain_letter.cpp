// What a person wants to know first.
#include "tools/cli/explanation.h"
#include "tools/cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace loopgrad::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kWidth = 100;      // of a line
constexpr std::size_t kMostParts = 8;    // listed by time
constexpr std::size_t kMostOrdered = 6;  // loops in order
constexpr double kLittle = 0.01;         // of a program's time: not worth a line
constexpr double kFewShare = 0.2;        // worth a word where few iterations run at once

/// Broken into lines, the later ones indented.
std::string wrapped(const std::string& text, const std::string& first, const std::string& margin) {
  std::string out = first;
  std::size_t column = first.size();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > margin.size() && column + end - at > kWidth) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n" + margin;
      column = margin.size();
    }
    out += text.substr(at, end - at) + " ";
    column += end - at + 1;
    at = end + 1;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

std::string time_text(double microseconds) {
  if (microseconds < 1000) return fmt::format("{:.3g} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.3g} ms", microseconds / 1e3);
  return fmt::format("{:.3g} s", microseconds / 1e6);
}

std::string head(const Explanation& e) {
  std::vector<std::string> sizes;
  for (const auto& [name, value] : e.sizes) sizes.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{} ({}, {}) {}\n\n", e.program, name_of(e.target), name_of(e.variant), fmt::join(sizes, " "));
}

std::string times(const Explanation& e) {
  const double forward = e.programs[0].microseconds(), backward = e.programs[1].microseconds();
  std::string text = fmt::format("Forward takes about {} and backward {}", time_text(forward), time_text(backward));
  if (forward > 0) text += fmt::format(" ({:.2g} times as long)", backward / forward);
  text += fmt::format(", as the machine model of {} has it, which is rough.", name_of_machine(e));
  const bool exact = e.programs[0].work.exact && e.programs[1].work.exact;
  if (!exact) text += " Branches or bounds depend on data: facts tell what is likely.";
  return wrapped(text, "", "");
}

std::string tape(const Explanation& e) {
  std::vector<const TapeRow*> saved;
  bool unknown = false;
  std::set<std::string> known;  // tapes that several values have
  for (const TapeRow& row : e.tape) {
    if (row.how != "saved" || !known.insert(row.array).second) continue;
    saved.push_back(&row);
    unknown |= !row.bytes;
  }
  if (e.variant == Variant::NaiveTape) return "The tape is a stack: its bytes are known when it has run (`compare`).\n";
  if (saved.empty()) return "There is no tape: what the gradient needs is still in its arrays, or is computed again.\n";
  std::vector<std::string> values;
  for (const TapeRow* row : saved) {
    if (values.size() == 3) break;
    values.push_back(fmt::format("{} ({}, {})", shortened(row->value, 32), row->where.str(),
                                 row->bytes ? human_bytes(*row->bytes) : "as data decide"));
  }
  if (saved.size() > values.size()) values.push_back(fmt::format("{} more", saved.size() - values.size()));
  return wrapped(fmt::format("The tape takes {}{}: {}.", human_bytes(tape_bytes(e.tape)),
                             unknown ? " and what data decide" : "", fmt::join(values, ", ")),
                 "", "");
}

std::string memory(const Explanation& e) {
  const ExplainedMemory& m = e.memory;
  std::string text = fmt::format("Memory: {}", human_bytes(m.arrays + m.tapes + m.work));
  if (m.by_data.empty()) text += " at most";
  else text += fmt::format(", and {} bytes of tapes as data decide", fmt::join(m.by_data, " + "));
  text += fmt::format("; arrays are {}, the tape {}, work arrays {}.", human_bytes(m.arrays), human_bytes(m.tapes),
                      human_bytes(m.work));
  if (e.variant == Variant::NaiveTape) text += " The stack comes to that.";
  return wrapped(text, "", "");
}

std::string slowest(const Explanation& e) {
  struct Line {
    const ExplainedProgram* program;
    const PartWork* part;
  };
  std::vector<Line> lines;
  for (const ExplainedProgram& program : e.programs)
    for (const PartWork& part : program.parts.parts) lines.push_back({&program, &part});
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.part->microseconds > b.part->microseconds; });
  Rows rows = {{"loops", "line", "program", "time", "share", "at once", ""}};
  for (const Line& line : lines) {
    const double share = line.part->microseconds / std::max(1e-9, line.program->microseconds());
    if (rows.size() > kMostParts || share < kLittle) continue;
    rows.push_back({shortened(line.part->loops, 32), line.part->where.str(), line.program->name,
                    time_text(line.part->microseconds), fmt::format("{:.0f} %", 100 * share),
                    fmt::format("{:.0f}", line.part->parallel),
                    line.part->is_product  ? "a product of matrices"
                    : line.part->is_shared ? ""
                                           : "in order"});
  }
  return rows.size() < 2 ? "" : "\nWhere the time goes:\n" + table(rows, "  ");
}

/// Why a loop is not parallel, as its decision says. Copies of a loop may have several.
std::string why_in_order(const Report& decisions, const std::string& loop, const SourceLocation& where) {
  for (const LoopDecision& d : decisions.loops)
    if (!d.parallel && d.loop == loop && d.where.str() == where.str()) return d.reason;
  return {};
}

std::string waits(const OrderedLoop& loop) {
  if (!loop.in_block) return "";
  return loop.has_shared ? " in one block, of which there are too few to fill the device"
                         : " in one thread, of which there are too few to fill the device";
}

/// Parallel loops that leave most of the machine idle, for no other reason.
std::string few_at_once(const Explanation& e) {
  const double enough = e.machine.is_gpu() ? e.machine.threads / 8 : e.machine.threads;
  std::string text;
  for (const ExplainedProgram& program : e.programs)
    for (const PartWork& part : program.parts.parts) {
      const double own = part.microseconds - part.runs * e.machine.start_us;
      const double share = own / std::max(1e-9, program.microseconds());
      if (!part.is_shared || part.waits_for_steps || part.parallel >= enough || share < kFewShare) continue;
      text += wrapped(fmt::format("'{}' ({}, {}): no more than {:.0f} iterations at once, {:.0f} % of the time.",
                                  part.loops, part.where.str(), program.name, part.parallel, 100 * share),
                      "  ", "    ");
    }
  return text;
}

std::string in_order(const Explanation& e) {
  std::string text;
  std::size_t listed = 0, left_out = 0;
  for (const ExplainedProgram& program : e.programs) {
    std::set<std::string> known;  // copies of one loop
    for (const OrderedLoop& loop : program.parts.ordered) {
      const double share = loop.microseconds / std::max(1e-9, program.microseconds());
      const std::string why = why_in_order(program.decisions, loop.loop, loop.where);
      if (share < kLittle || loop.trips < 2 || !known.insert(loop.loop + loop.where.str() + why).second) continue;
      if (listed++ >= kMostOrdered) {
        ++left_out;
        continue;
      }
      text += wrapped(
          fmt::format("'{}' ({}, {}): {:.0f} iterations one after the other{}, {:.0f} % of the time{}{}", loop.loop,
                      loop.where.str(), program.name, loop.trips, waits(loop), 100 * share,
                      loop.has_shared ? "; what is in each is parallel" : "", why.empty() ? "." : ". " + why + "."),
          "  ", "    ");
    }
  }
  text += few_at_once(e);
  if (left_out > 0) text += fmt::format("  and {} more (--details=loops)\n", left_out);
  return text.empty() ? "\nAll loops that take time are parallel.\n" : "\nWhat is not parallel, and why:\n" + text;
}

std::string changes(const Explanation& e) {
  std::string text;
  for (const std::string& one : advice(e)) text += wrapped(one, "  - ", "    ");
  return text.empty() ? "\nNothing to change stands out.\n" : "\nWhat to change:\n" + text;
}

}  // namespace

std::string letter(const Explanation& e) {
  return head(e) + times(e) + tape(e) + memory(e) + slowest(e) + in_order(e) + changes(e);
}

}  // namespace loopgrad::cli
