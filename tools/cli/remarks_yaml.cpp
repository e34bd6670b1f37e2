// Decisions in the form of LLVM's optimisation remarks, which editors and opt-viewer read.
#include "tools/cli/explanation.h"

#include <fmt/format.h>

namespace loopgrad::cli {
namespace {

/// A scalar in double quotes, which YAML shares with JSON. File names may be no UTF-8.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

class RemarkStream {
 public:
  /// `kind`: "Passed" (done), "Missed" (left as it was), "Analysis" (a fact).
  void add(const char* kind, const char* pass, const std::string& name, const std::string& function,
           const SourceLocation& where, const std::string& text) {
    text_ += fmt::format("--- !{}\nPass:            {}\nName:            {}\n", kind, pass, quoted(name));
    if (where.known())
      text_ += fmt::format("DebugLoc:        {{ File: {}, Line: {}, Column: 0 }}\n", quoted(where.file), where.line);
    text_ += fmt::format("Function:        {}\nArgs:\n  - String:          {}\n...\n", quoted(function), quoted(text));
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_program(RemarkStream& out, const std::string& program, const ExplainedProgram& part) {
  const std::string function = program + "_" + part.name;
  for (const SumDecision& d : part.decisions.sums)
    out.add(d.plan == "serial" ? "Missed" : "Passed", "loopgrad-sums", d.plan, function, d.where,
            fmt::format("{}: {}: {}", d.sum, d.plan, d.reason));
  for (const LoopDecision& d : part.decisions.loops)
    out.add(d.parallel ? "Passed" : "Missed", "loopgrad-loops", d.parallel ? "parallel" : "in order", function, d.where,
            fmt::format("loop '{}' {}: {}", d.loop, d.parallel ? "is parallel" : "runs in order", d.reason));
  for (const ContractionDecision& d : part.decisions.contractions)
    out.add(d.handed_over ? "Passed" : "Missed", "loopgrad-products", "product", function, d.where,
            fmt::format("{}: {}", d.sum, d.reason));
  for (const StorageDecision& d : part.decisions.storage)
    out.add("Passed", "loopgrad-storage", d.decision, function, d.where,
            fmt::format("{} is {} {}: {}", d.array, d.decision, d.place, d.reason));
  for (const KernelDecision& d : part.decisions.kernels)
    out.add("Analysis", "loopgrad-kernels", d.shape, function, d.where,
            fmt::format("{}: {}: {}", d.loops, d.shape, d.reason));
  for (const RunDecision& d : part.decisions.runs)
    out.add(d.decision == "one by one" ? "Missed" : "Passed", "loopgrad-runs", d.decision, function, d.where,
            fmt::format("{}: {}: {}", d.what, d.decision, d.reason));
}

}  // namespace

std::string remarks_yaml(const Explanation& e) {
  RemarkStream out;
  for (const TapeRow& row : e.tape)
    out.add("Analysis", "loopgrad-tape", row.how, e.program, row.where,
            fmt::format("{}: {}{}{}", row.value, row.how, row.storage.empty() ? "" : " in " + row.storage,
                        row.reason.empty() ? "" : ": " + row.reason));
  for (const ExplainedProgram& part : e.programs) add_program(out, e.program, part);
  for (const Remark& r : e.remarks) out.add("Analysis", "loopgrad", "remark", e.program, r.where, r.text);
  return out.take();
}

}  // namespace loopgrad::cli
