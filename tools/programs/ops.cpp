// Tensor operations, one program each; with matmul they are the fifteen that gradients on GPUs are often timed on.
#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

using Unary = std::function<Value(const Operand&)>;
using Binary = std::function<Value(const Operand&, const Operand&)>;

Program elementwise(const std::string& name, const Unary& f) {
  ProgramBuilder p(name);
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) c(i, j) = f(a(i, j));
  return p.build();
}

Program elementwise(const std::string& name, const Binary& f) {
  ProgramBuilder p(name);
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto b = p.input<float>("b", {n, n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) c(i, j) = f(a(i, j), b(i, j));
  return p.build();
}

Program build_broadcast() {
  ProgramBuilder p("broadcast");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) c(i, j) = a(j);
  return p.build();
}

Program build_max() {
  ProgramBuilder p("max");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto c = p.output<float>("c", {n});
  for (auto i : p.loop("i", 0, n)) {
    c(i) = a(i, 0);
    for (auto j : p.loop("j", 1, n)) c(i).max_with(a(i, j));
  }
  return p.build();
}

Program build_sum() {
  ProgramBuilder p("sum");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto c = p.output<float>("c", {n});
  for (auto i : p.loop("i", 0, n)) {
    c(i) = 0.0f;
    for (auto j : p.loop("j", 0, n)) c(i) += a(i, j);
  }
  return p.build();
}

Program build_transpose() {
  ProgramBuilder p("transpose");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto c = p.output<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) c(i, j) = a(j, i);
  return p.build();
}

/// For logarithms, divisors and bases of powers: away from zero.
void fill_positive(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  for (auto& [name, array] : arrays)
    for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, random.uniform(0.5, 2));
}

ProgramEntry entry(const std::string& name, const std::string& summary, std::function<Program()> build,
                   Fill fill = {}) {
  return {.name = name,
          .summary = summary,
          .build = std::move(build),
          .sizes = {{"n", 2048}},
          .check_sizes = {{"n", 7}},
          .fill = std::move(fill)};
}

ProgramEntry unary(const std::string& name, const std::string& summary, const Unary& f, Fill fill = {}) {
  return entry(
      name, summary, [=] { return elementwise(name, f); }, std::move(fill));
}

ProgramEntry binary(const std::string& name, const std::string& summary, const Binary& f, Fill fill = {}) {
  return entry(
      name, summary, [=] { return elementwise(name, f); }, std::move(fill));
}

}  // namespace

std::vector<ProgramEntry> ops() {
  using O = const Operand&;
  return {
      binary("add", "c = a + b, by element", [](O a, O b) { return a + b; }),
      entry("broadcast", "every row of c is the vector a", build_broadcast),
      unary("copy", "c = a", [](O a) { return a.value; }),
      binary(
          "divide", "c = a / b, by element", [](O a, O b) { return a / b; }, fill_positive),
      unary("exp", "c = exp(a), by element", [](O a) { return exp(a); }),
      unary(
          "log", "c = log(a), by element", [](O a) { return log(a); }, fill_positive),
      entry("max", "the largest element of every row", build_max),
      binary("multiply", "c = a b, by element", [](O a, O b) { return a * b; }),
      unary("negate", "c = -a", [](O a) { return -a; }),
      binary(
          "power", "c = a^b, by element", [](O a, O b) { return pow(a, b); }, fill_positive),
      unary("relu", "c = max(0, a), by element", [](O a) { return max(0, a); }),
      binary("subtract", "c = a - b, by element", [](O a, O b) { return a - b; }),
      entry("sum", "the sum of every row", build_sum),
      entry("transpose", "c[i, j] = a[j, i]", build_transpose),
  };
}

}  // namespace loopgrad::programs
