// A library of programs that knows loopgrad by its headers only: the Python package has the rest.
#include <loopgrad/plugin.h>
#include <loopgrad/program.h>

namespace {

loopgrad::Program halved() {
  loopgrad::ProgramBuilder p("halved");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) / 2;
  return p.build();
}

loopgrad::Program shifted() {
  loopgrad::ProgramBuilder p("shifted");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n + 1});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i + 1);
  return p.build();
}

}  // namespace

LOOPGRAD_PLUGIN({"halved", "half of x", halved, {{"n", 10}}}, {"shifted", "the next element", shifted, {{"n", 10}}})
