// One pass alone: IR text in, IR text out, as in the headers of transforms/.
#pragma once

#include "transforms/pass/pass.h"

#include <optional>
#include <string>

namespace loopgrad::transforms {

/// What passes made of a program.
struct PassResult {
  ir::Program before, after;
  Report report;
};

/// Runs passes of the list, "one" or "one,another", on the program that is `declarations` ("program p(n)" and the lines
/// of its arrays and facts) and `body`. Both may be indented as a whole.
PassResult run_passes(const std::string& passes, const std::string& declarations, const std::string& body,
                      const Machine& machine = cpu_machine());

/// They turn `before` into `after`, and say `said` in the report. Both compute the same in the checked interpreter, so
/// that a mistake cannot be copied into a test (but for what is on a tape). Passes of the mapping to a GPU are found on
/// the GPU's list; `machine` is for those that both have.
void expect_pass(const std::string& passes, const std::string& declarations, const std::string& before,
                 const std::string& after, const std::string& said = "", const std::optional<Machine>& machine = {});

/// They leave `body` as it is, and say `said` in the report.
void expect_kept(const std::string& passes, const std::string& declarations, const std::string& body,
                 const std::string& said = "", const std::optional<Machine>& machine = {});

/// The text with its lines moved to the left together.
std::string dedented(const std::string& text);
/// The program that two texts are together, each without its margin.
ir::Program program_of(const std::string& declarations, const std::string& body);

/// All reasons and remarks of a report, a line each.
std::string reasons_in(const Report& report);

}  // namespace loopgrad::transforms
