// A sum over the neighbours in a graph, which is stored as rows of one long array of edges (CSR).
#include <loopgrad/loopgrad.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program neighbours() {
  lg::ProgramBuilder p("neighbours");
  auto nodes = p.size("nodes"), edges = p.size("edges");
  auto first = p.input<std::int64_t>("first", {nodes + 1});  // edges first(v), ..., first(v + 1) - 1 go into v
  auto from = p.input<int>("from", {edges});                 // where they come from
  auto w = p.input<float>("w", {edges});
  auto x = p.input<float>("x", {nodes});
  auto y = p.output<float>("y", {nodes});
  p.csr(first, edges);         // first(0) = 0, never decreasing, first(nodes) = edges
  p.in_range(from, 0, nodes);  // each is a node
  for (auto v : p.loop("v", nodes)) {
    y(v) = 0.0f;
    for (auto e : p.loop("e", first(v), first(v + 1))) y(v) += w(e) * x(from(e));
  }
  return p.build();
}

int main() {
  auto gradient = lg::compile_gradient(neighbours(), {.wrt = {"w", "x"}});

  // 0 <- 1, 0 <- 2, 1 <- 2; nothing goes into 2.
  std::vector<std::int64_t> first = {0, 2, 3, 3};
  std::vector<int> from = {1, 2, 2};
  std::vector<float> w = {10, 20, 30}, x = {1, 2, 3}, y(3), d_y = {1, 1, 1}, d_w(3), d_x(3);
  lg::Arguments arrays = {{"first", lg::versioned(lg::view(first.data(), {4}), 1)},  // stays as it is: looked at once
                          {"from", lg::versioned(lg::view(from.data(), {3}), 1)},
                          {"w", lg::view(w.data(), {3})},
                          {"x", lg::view(x.data(), {3})},
                          {"y", lg::view(y.data(), {3})},
                          {"d_y", lg::view(d_y.data(), {3})},
                          {"d_w", lg::view(d_w.data(), {3})},
                          {"d_x", lg::view(d_x.data(), {3})}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  std::printf("y   = %g %g %g\n", y[0], y[1], y[2]);
  std::printf("d_w = %g %g %g\n", d_w[0], d_w[1], d_w[2]);  // x at the edge's start
  std::printf("d_x = %g %g %g\n", d_x[0], d_x[1], d_x[2]);  // weights of the edges that leave it

  // What was promised is looked at before anything runs.
  from[1] = 7;
  arrays["from"] = lg::versioned(lg::view(from.data(), {3}), 2);
  try {
    gradient.forward(arrays);
  } catch (const lg::Error& error) {
    std::printf("\n%s\n", error.what());
  }
  return 0;
}
