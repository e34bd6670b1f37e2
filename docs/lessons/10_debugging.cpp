// What goes wrong, and who says so: while recording, before a run, and in the checked interpreter.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <functional>
#include <vector>

namespace lg = loopgrad;

void attempt(const char* what, const std::function<void()>& action) {
  try {
    action();
    std::printf("%s: nothing is wrong\n\n", what);
  } catch (const lg::Error& error) {
    std::printf("%s (%s):\n%s\n\n", what, lg::name_of(error.code()), error.what());
  }
}

lg::Program keeps_a_value() {
  lg::ProgramBuilder p("swap");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  lg::Value old = x(0);
  x(0) = x(1);
  x(1) = old;  // is that the old x(0), or the new one?
  return p.build();
}

lg::Program smooth(bool starts) {
  lg::ProgramBuilder p("smooth");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  if (starts) y(0) = x(0);
  for (auto i : p.loop("i", 1, n)) y(i) = 0.5f * (y(i - 1) + lg::sqrt(x(i)));
  return p.build();
}

void run_smooth(const lg::CompileOptions& options, bool starts, std::vector<float> x, std::size_t outputs) {
  std::vector<float> y(outputs);
  lg::compile(smooth(starts), options)
      .run({{"x", lg::view(x.data(), {static_cast<std::int64_t>(x.size())})},
            {"y", lg::view(y.data(), {static_cast<std::int64_t>(y.size())})}});
}

int main() {
  attempt("recording", [] { keeps_a_value(); });
  attempt("arguments", [] { run_smooth({}, true, {1, 4, 9}, 2); });

  const lg::CompileOptions checked = {.target = lg::Target::Interpreter, .checked = true, .trap_nan = true};
  attempt("never written", [&] { run_smooth(checked, false, {1, 4, 9}, 3); });
  attempt("not a number", [&] { run_smooth(checked, true, {1, -4, 9}, 3); });
  attempt("as it should be", [&] { run_smooth(checked, true, {1, 4, 9}, 3); });
  return 0;
}
