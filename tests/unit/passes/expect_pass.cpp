#include "tests/unit/passes/expect_pass.h"

#include "dsl/ir/structural_equal.h"
#include "tests/support/ir_text.h"
#include "tests/unit/transforms/lowered.h"

#include <sstream>

namespace loopgrad::transforms {
namespace {

const Pass* find_pass(const std::vector<Pass>& list, const std::string& name) {
  for (const Pass& pass : list)
    if (name == pass.name) return &pass;
  return nullptr;
}

/// The machine whose list has all of them; the CPU where both have.
Machine machine_with(const std::string& passes_text) {
  std::istringstream names(passes_text);
  const std::vector<Pass> list = passes({.machine = cpu_machine()});
  for (std::string name; std::getline(names, name, ',');)
    if (!find_pass(list, name)) return gpu_machine();
  return cpu_machine();
}

/// Small numbers that are not multiples of anything, so that no two sizes are mixed up.
Sizes sizes_of(const ir::Program& program) {
  const std::int64_t values[] = {13, 5, 7, 3, 4};
  Sizes sizes;
  for (std::size_t k = 0; k < program.sizes.size(); ++k) sizes[program.sizes[k].name] = values[k % 5];
  return sizes;
}

/// What the caller gets is the same; a pass may store less on a tape when it says who reads it.
void expect_same_outputs(const ir::Program& before, const ir::Program& after) {
  const Sizes sizes = sizes_of(before);
  const Buffers expected = run_checked(before, sizes), actual = run_checked(after, sizes);
  for (const ir::Array& array : before.arrays) {
    if (array->role == ir::ArrayRole::Tape) continue;
    const HostArray &e = expected.at(array->name), &a = actual.at(array->name);
    for (std::int64_t k = 0; k < e.size(); ++k)
      EXPECT_NEAR(a.get(k), e.get(k), 1e-11 * (1 + std::abs(e.get(k)))) << array->name << "[" << k << "]";
  }
}

}  // namespace

std::string dedented(const std::string& text) {
  std::istringstream in(text);
  std::string result;
  std::size_t margin = std::string::npos;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    if (margin == std::string::npos) margin = first;
    result += line.substr(std::min(margin, first)) + "\n";
  }
  return result;
}

ir::Program program_of(const std::string& declarations, const std::string& body) {
  return ir::parse_program(dedented(declarations) + dedented(body));
}

std::string reasons_in(const Report& report) {
  std::string text;
  for (const SumDecision& sum : report.sums) text += sum.plan + ": " + sum.reason + "\n";
  for (const LoopDecision& loop : report.loops) text += loop.loop + ": " + loop.reason + "\n";
  for (const StorageDecision& d : report.storage)
    text += d.array + ": " + d.decision + ", " + d.place + ": " + d.reason + "\n";
  for (const ContractionDecision& product : report.contractions) text += product.sum + ": " + product.reason + "\n";
  for (const KernelDecision& kernel : report.kernels) text += kernel.shape + ": " + kernel.reason + "\n";
  for (const RunDecision& run : report.runs) text += run.what + ": " + run.decision + ": " + run.reason + "\n";
  for (const Remark& remark : report.remarks) text += remark.text + "\n";
  return text;
}

PassResult run_passes(const std::string& passes_text, const std::string& declarations, const std::string& body,
                      const Machine& machine) {
  PassResult result;
  result.before = result.after = program_of(declarations, body);
  ir::verify(result.before, "parse_program");
  const LowerOptions options{.machine = machine};
  PassContext context{options, result.report};
  std::istringstream names(passes_text);
  const std::vector<Pass> list = passes(options);
  for (std::string name; std::getline(names, name, ',');) {
    const Pass* pass = find_pass(list, name);
    if (!pass) ADD_FAILURE() << "there is no pass '" << name << "' for this machine";
    else result.after = run_pass(*pass, result.after, context);
  }
  ir::verify(result.after, passes_text.c_str());
  report_plans(context);
  return result;
}

void expect_pass(const std::string& passes_text, const std::string& declarations, const std::string& before,
                 const std::string& after, const std::string& said, const std::optional<Machine>& machine) {
  const PassResult result =
      run_passes(passes_text, declarations, before, machine ? *machine : machine_with(passes_text));
  const ir::Program expected = program_of(declarations, after);
  EXPECT_EQ(ir::print(result.after), ir::print(expected));
  EXPECT_TRUE(ir::structurally_equal(result.after, expected)) << "the same text, but another program";
  EXPECT_NE(ir::print(result.before), ir::print(expected)) << "nothing is tested";
  EXPECT_NE(reasons_in(result.report).find(said), std::string::npos) << reasons_in(result.report);
  expect_same_outputs(result.before, expected);
}

void expect_kept(const std::string& passes_text, const std::string& declarations, const std::string& body,
                 const std::string& said, const std::optional<Machine>& machine) {
  const PassResult result = run_passes(passes_text, declarations, body, machine ? *machine : machine_with(passes_text));
  EXPECT_EQ(ir::print(result.after), ir::print(result.before));
  EXPECT_NE(reasons_in(result.report).find(said), std::string::npos) << reasons_in(result.report);
}

}  // namespace loopgrad::transforms
