#include "backends/runtime/solve_sizes.h"
#include "tools/cli/commands.h"
#include "tools/cli/lowered.h"
#include "tools/cli/table.h"
#include "tools/cli/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kWidest = 60;  // of an expression in a table; the JSON has all of it

struct Part {  // one of the programs of a gradient
  std::string name;
  Work work;
  Report decisions;  // sums and loops, from lowering
};

std::string titled(const std::string& title, const Rows& rows) {
  if (rows.size() < 2) return fmt::format("{}: none\n\n", title);
  return fmt::format("{}:\n{}\n", title, table(rows, "  "));
}

/// A value, how the gradient has it, and the lines that need it.
struct TapeRow {
  const TapeDecision* decision;
  std::set<std::string> lines;
  std::string array;  // of the tape, or empty
};

/// Reads of one value that are had alike are one row; what is saved comes first.
std::vector<TapeRow> tape_rows(const Report& decisions) {
  std::vector<TapeRow> rows;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> known;
  for (const TapeDecision& d : decisions.tape) {
    const std::string array = d.elements.empty() ? "" : d.storage.substr(0, d.storage.find('['));
    const auto [row, is_new] = known.emplace(std::tuple(d.value, d.decision, array), rows.size());
    if (is_new) rows.push_back({&d, {}, array});
    rows[row->second].lines.insert(d.where.str());
  }
  std::stable_partition(rows.begin(), rows.end(), [](const TapeRow& row) { return !row.array.empty(); });
  return rows;
}

/// Of the tape's arrays, where their extents depend on sizes only.
std::map<std::string, double> tape_bytes(const Program& forward, const Sizes& sizes) {
  backend::SizeValues values;
  for (const ir::Symbol& symbol : forward.ir().sizes)
    if (const auto size = sizes.find(symbol.name); size != sizes.end()) values[symbol] = size->second;
  std::map<std::string, double> bytes;
  for (const ir::Array& array : forward.ir().arrays) {
    if (array->role != ir::ArrayRole::Tape) continue;
    double product = static_cast<double>(bytes_of(array->type));
    bool known = true;
    for (const ir::Expr& extent : array->shape) {
      const auto value = backend::try_evaluate(extent, values);
      known &= value.has_value();
      product *= static_cast<double>(value.value_or(0));
    }
    if (known) bytes[array->name] = product;
  }
  return bytes;
}

std::string lines_text(const TapeRow& row) {
  const std::string& first = *row.lines.begin();
  return row.lines.size() == 1 ? first : fmt::format("{} and {} more", first, row.lines.size() - 1);
}

std::string tape_text(const std::vector<TapeRow>& tape, const std::map<std::string, double>& bytes) {
  Rows rows = {{"value", "line", "decision", "storage", "elements", "bytes", "reason"}};
  for (const TapeRow& row : tape) {
    const TapeDecision& d = *row.decision;
    const auto size = bytes.find(row.array);
    rows.push_back({shortened(d.value, kWidest), lines_text(row), d.decision, d.storage, d.elements,
                    size == bytes.end() ? "" : human_bytes(size->second), d.reason});
  }
  double sum = 0;
  for (const auto& [array, size] : bytes) sum += size;
  return titled(fmt::format("Needed values and where the gradient gets them from ({} saved)", human_bytes(sum)), rows);
}

std::string sums_text(const Part& part) {
  Rows rows = {{"sum", "line", "plan", "reason"}};
  for (const SumDecision& d : part.decisions.sums)
    rows.push_back({shortened(d.sum, kWidest), d.where.str(), d.plan, d.reason});
  return titled(fmt::format("Sums of the {} program", part.name), rows);
}

std::string contractions_text(const Part& part) {
  // What a library may do is in the plan for the sum.
  Rows rows = {{"sum", "line", "reason"}};
  for (const ContractionDecision& d : part.decisions.contractions)
    if (!d.handed_over) rows.push_back({shortened(d.sum, kWidest), d.where.str(), d.reason});
  return rows.size() < 2 ? "" : titled(fmt::format("No products of matrices in the {} program", part.name), rows);
}

std::string candidates_text(const Part& part) {
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

std::string loops_text(const Part& part) {
  Rows rows = {{"loop", "line", "runs", "reason"}};
  for (const LoopDecision& d : part.decisions.loops)
    rows.push_back({d.loop, d.where.str(), d.parallel ? "parallel" : "in order", d.reason});
  return titled(fmt::format("Loops of the {} program", part.name), rows);
}

std::string storage_text(const Part& part) {
  if (part.decisions.storage.empty()) return "";
  Rows rows = {{"array", "line", "decision", "place", "reason"}};
  for (const StorageDecision& d : part.decisions.storage)
    rows.push_back({d.array, d.where.str(), d.decision, d.place, d.reason});
  return titled(fmt::format("Storage of arrays of the {} program", part.name), rows);
}

std::string kernels_text(const Part& part) {
  Rows rows = {{"loops", "line", "shape", "reason"}};
  for (const KernelDecision& d : part.decisions.kernels)
    rows.push_back({d.loops.empty() ? "-" : d.loops, d.where.str(), d.shape, d.reason});
  return titled(fmt::format("Kernels of the {} program", part.name), rows);
}

std::string runs_text(const Part& part) {
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

std::string remarks_text(const std::vector<Remark>& remarks) {
  std::string text;
  for (const Remark& r : remarks) text += fmt::format("Remark: {}: {}\n", r.where.str(), r.text);
  return text;
}

std::string work_text(const std::vector<Part>& parts) {
  Rows rows = {{"program", "operations", "array bytes", "tape bytes"}};
  bool exact = true;
  for (const Part& part : parts) {
    rows.push_back({part.name, fmt::format("{:.4g}", part.work.flops), human_bytes(part.work.bytes),
                    human_bytes(part.work.tape_bytes)});
    exact = exact && part.work.exact;
  }
  std::string text = titled("Work", rows);
  if (!exact) text += "  Lower bounds: branches or bounds depend on computed data.\n";
  return text;
}

Json json_of(const SourceLocation& where) { return where.known() ? Json(where.str()) : Json(nullptr); }

Json json_of(const Part& part) {
  Json sums = Json::array(), contractions = Json::array(), loops = Json::array(), kernels = Json::array(),
       runs = Json::array(), storage = Json::array();
  for (const ContractionDecision& d : part.decisions.contractions)
    contractions.push_back(
        {{"sum", d.sum}, {"where", json_of(d.where)}, {"handed_over", d.handed_over}, {"reason", d.reason}});
  for (const SumDecision& d : part.decisions.sums) {
    Json candidates = Json::array();
    for (const SumCandidate& c : d.candidates)
      candidates.push_back({{"plan", c.plan},
                            {"possible", c.possible},
                            {"microseconds", c.microseconds},
                            {"bytes", c.bytes},
                            {"operations", c.operations},
                            {"parallel", c.parallel},
                            {"note", c.note},
                            {"level", c.level}});
    sums.push_back({{"sum", d.sum},
                    {"where", json_of(d.where)},
                    {"plan", d.plan},
                    {"reason", d.reason},
                    {"basis", d.basis},
                    {"candidates", candidates},
                    {"level", d.level}});
  }
  for (const LoopDecision& d : part.decisions.loops)
    loops.push_back({{"loop", d.loop}, {"where", json_of(d.where)}, {"parallel", d.parallel}, {"reason", d.reason}});
  for (const StorageDecision& d : part.decisions.storage)
    storage.push_back({{"array", d.array},
                       {"where", json_of(d.where)},
                       {"decision", d.decision},
                       {"place", d.place},
                       {"reason", d.reason}});
  for (const KernelDecision& d : part.decisions.kernels)
    kernels.push_back({{"loops", d.loops}, {"where", json_of(d.where)}, {"shape", d.shape}, {"reason", d.reason}});
  for (const RunDecision& d : part.decisions.runs)
    runs.push_back({{"what", d.what}, {"where", json_of(d.where)}, {"decision", d.decision}, {"reason", d.reason}});
  return {{"name", part.name},
          {"operations", part.work.flops},
          {"array_bytes", part.work.bytes},
          {"tape_bytes", part.work.tape_bytes},
          {"exact", part.work.exact},
          {"sums", sums},
          {"contractions", contractions},
          {"loops", loops},
          {"storage", storage},
          {"kernels", kernels},
          {"runs", runs}};
}

Json json_of_tape(const std::vector<TapeRow>& rows, const std::map<std::string, double>& bytes) {
  Json tape = Json::array();
  for (const TapeRow& row : rows) {
    const TapeDecision& d = *row.decision;
    const auto size = bytes.find(row.array);
    tape.push_back({{"value", d.value},
                    {"where", json_of(d.where)},
                    {"lines", row.lines},
                    {"decision", d.decision},
                    {"storage", d.storage},
                    {"elements", d.elements},
                    {"bytes", size == bytes.end() ? Json(nullptr) : Json(size->second)},
                    {"reason", d.reason}});
  }
  return tape;
}

}  // namespace

int explain_program(const Options& options) {
  const ProgramEntry& entry = *options.program;
  Program program = entry.build();
  Sizes sizes = sizes_of(options, entry.sizes);
  Arrays inputs = make_inputs(entry, program, sizes, options.seed);
  Gradient gradient =
      differentiate(program, {.wrt = entry.wrt, .variant = options.variant, .max_tape_bytes = options.max_tape_bytes});

  const CompileOptions compiling = compile_options(options, Target::OpenMP, sizes);
  Report forward, backward;
  backend::lower_gradient(gradient, compiling, forward, backward);
  std::vector<Part> parts;
  std::vector<Remark> remarks = gradient.report.remarks;
  for (const bool is_forward : {true, false}) {
    const Program& program_of_part = is_forward ? gradient.forward : gradient.backward;
    Part part{is_forward ? "forward" : "backward", count_work(program_of_part, sizes, inputs),
              is_forward ? forward : backward};
    remarks.insert(remarks.end(), part.decisions.remarks.begin(), part.decisions.remarks.end());
    parts.push_back(std::move(part));
  }

  std::string text = fmt::format("{} ({})", entry.name, name_of(options.variant));
  for (const auto& [name, value] : sizes) text += fmt::format(" {}={}", name, value);
  const std::vector<TapeRow> tape = tape_rows(gradient.report);
  const std::map<std::string, double> bytes = tape_bytes(gradient.forward, sizes);
  text += "\n\n" + tape_text(tape, bytes);
  Json programs = Json::array(), remark_list = Json::array();
  for (const Part& part : parts) {
    text += sums_text(part) + candidates_text(part) + contractions_text(part) + loops_text(part) + storage_text(part);
    text += compiling.target == Target::Cuda ? kernels_text(part) : runs_text(part);
    programs.push_back(json_of(part));
  }
  for (const Remark& r : remarks) remark_list.push_back({{"text", r.text}, {"where", json_of(r.where)}});
  report(options, text + work_text(parts) + remarks_text(remarks),
         {{"program", entry.name},
          {"variant", name_of(options.variant)},
          {"sizes", sizes},
          {"tape", json_of_tape(tape, bytes)},
          {"programs", programs},
          {"remarks", remark_list}});
  return 0;
}

}  // namespace loopgrad::cli
