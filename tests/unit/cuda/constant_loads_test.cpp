// What a kernel writes is not read as if it never changed. NVRTC marks loads of arrays that a kernel does not write as
// constant (ld.global.nc); from `c ? only_read[i] : written[j]` it may make one load of either address, which must not
// be one of these. The assembly is followed from each such load back to the kernel's arguments.
#include "backends/cuda/nvrtc.h"
#include "backends/lowering.h"

#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace loopgrad {
namespace {

using Registers = std::set<std::string>;

Registers registers_in(const std::string& text) {
  static const std::regex pattern("%rd[0-9]+");
  Registers found;
  for (std::sregex_iterator r(text.begin(), text.end(), pattern), end; r != end; ++r) found.insert(r->str());
  return found;
}

/// One kernel: which arguments a register may point into, and the registers that loads and stores go through.
struct Kernel {
  std::map<std::string, std::set<std::string>> points_into;
  std::vector<std::string> constant_loads, stores;
};

Kernel kernel_of(const std::string& text) {
  static const std::regex argument(R"(ld\.param\.u64\s+(%rd\d+), \[(\w+)\])"), pointer(R"(cvta\S*\s+%rd\d+, (%rd\d+))"),
      value(R"(\s+(?:mov|add|sub|selp|cvta|mad)\S*\s+(%rd\d+),(.*);)"), load(R"(ld\.global\.nc\S*\s.*\[(%rd\d+))"),
      store(R"((?:st|atom|red)\.global\S*\s.*?\[(%rd\d+))");
  Kernel kernel;
  std::map<std::string, std::string> arguments;
  std::vector<std::pair<std::string, Registers>> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    if (std::regex_search(line, m, argument)) arguments[m[1]] = m[2];
    if (std::regex_search(line, m, pointer) && arguments.count(m[1])) kernel.points_into[m[1]] = {arguments[m[1]]};
    if (std::regex_search(line, m, value)) values.emplace_back(m[1], registers_in(m[2]));
    if (std::regex_search(line, m, load)) kernel.constant_loads.push_back(m[1]);
    if (std::regex_search(line, m, store)) kernel.stores.push_back(m[1]);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [to, from] : values) {
      auto& reached = kernel.points_into[to];
      const std::size_t before = reached.size();
      for (const std::string& r : from) reached.insert(kernel.points_into[r].begin(), kernel.points_into[r].end());
      changed = changed || reached.size() != before;
    }
  }
  return kernel;
}

struct Loads {
  int constant = 0;                 // loads that are marked so
  std::set<std::string> of_writes;  // arguments that a kernel writes and that such a load may reach
};

Loads constant_loads(const std::string& ptx) {
  Loads result;
  for (std::size_t at = 0; (at = ptx.find(".entry ", at)) != std::string::npos; ++at) {
    Kernel kernel = kernel_of(ptx.substr(at, ptx.find("\n}", at) - at));
    std::set<std::string> written;
    for (const std::string& r : kernel.stores)
      written.insert(kernel.points_into[r].begin(), kernel.points_into[r].end());
    for (const std::string& r : kernel.constant_loads) {
      ++result.constant;
      for (const std::string& argument : kernel.points_into[r])
        if (written.count(argument)) result.of_writes.insert(argument);
    }
  }
  return result;
}

/// Of forward and backward in all variants.
void expect_only_what_stays(const Program& program) {
  if (!backend::has_nvrtc()) GTEST_SKIP() << "no libnvrtc on this machine: nothing is compiled";
  int constant = 0;
  for (const Variant variant : {Variant::NaiveTape, Variant::Atomic, Variant::Restructured}) {
    const Gradient gradient = differentiate(program, {.variant = variant});
    const std::string source = backend::source_of(gradient, {.target = Target::Cuda});
    const Loads loads = constant_loads(backend::compile_ptx(source, "sm_90", program.name()));
    EXPECT_TRUE(loads.of_writes.empty()) << *loads.of_writes.begin() << "\n" << source;
    constant += loads.constant;
  }
  EXPECT_GT(constant, 0) << "nothing was looked at";
}

TEST(ConstantLoads, OneSideOfASelectionWasWritten) {
  ProgramBuilder p("choice");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto total = p.output<float>("total", {});
  total() = 0.5f;
  for (auto i : p.loop("i", 0, n)) total() = sin(select(x(i) > 0.5f, total(), x(i)));
  expect_only_what_stays(p.build());
}

TEST(ConstantLoads, BranchesThatReadEither) {
  ProgramBuilder p("branches");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), w = p.input<double>("w", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = x(i) * w(i);
    p.when(w(i) > 0.25, [&] { y(i) = y(i) * 3.0; }).otherwise([&] { y(i) = w(i) * 3.0; });
  }
  expect_only_what_stays(p.build());
}

TEST(ConstantLoads, BesideCopiesOfATargetInMemory) {
  ProgramBuilder p("copies");
  auto n = p.size("n"), bins = p.size("bins");
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {n});
  auto h = p.output<float>("h", {bins});
  for (auto b : p.loop("b", 0, bins)) h(b) = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto bin = cast<std::int64_t>(abs(x(i)) * cast<float>(bins - 1));
    h(bin) += select(w(i) > 0.25f, w(i), x(i));
  }
  expect_only_what_stays(p.build());
}

TEST(ConstantLoads, TheElementBeforeOrABorder) {
  ProgramBuilder p("border");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<half>("x", {n, m});
  auto border = p.input<half>("border", {m});
  auto y = p.output<half>("y", {n, m});
  for (auto j : p.loop("j", 0, m))
    for (auto i : p.loop("i", 0, n)) {
      auto before = p.scalar<float>("before");
      before = select(i == 0, cast<float>(border(j)), cast<float>(y(max(i - 1, 0), j)));
      y(i, j) = cast<half>(before * cast<float>(x(i, j)));
    }
  expect_only_what_stays(p.build());
}

}  // namespace
}  // namespace loopgrad
