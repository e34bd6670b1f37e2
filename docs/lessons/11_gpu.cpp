// The same program on a GPU: what is generated can be read, and its mapping can be run, on a machine without one.
#include <loopgrad/loopgrad.h>
#include <loopgrad/main.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace lg = loopgrad;

lg::Program blur() {
  lg::ProgramBuilder p("blur");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto w = p.input<float>("w", {3});
  auto y = p.output<float>("y", {n, m});
  for (auto [i, j] : p.loop({"i", n}, {"j", 1, m - 1})) {
    y(i, j) = 0.0f;
    for (auto k : p.loop("k", 3)) y(i, j) += w(k) * x(i, j + k - 1);
  }
  return p.build();
}

// Runs the gradient in memory of the host.
std::vector<float> gradient_by_w(const lg::CompileOptions& options) {
  const std::int64_t n = 4, m = 6;
  std::vector<float> x(n * m), w = {1, 2, 1}, y(n * m), d_y(n * m, 1.0f), d_w(3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % m);
  auto gradient = lg::compile_gradient(blur(), {.wrt = {"w"}}, options);
  const lg::Arguments arrays = {{"x", lg::view(x.data(), {n, m})},
                                {"w", lg::view(w.data(), {3})},
                                {"y", lg::view(y.data(), {n, m})},
                                {"d_y", lg::view(d_y.data(), {n, m})},
                                {"d_w", lg::view(d_w.data(), {3})}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  return d_w;
}

// The same in memory of the GPU. Runs only start: the download waits.
std::vector<float> gradient_on_gpu() {
  const std::int64_t n = 4, m = 6;
  std::vector<float> x(n * m), w = {1, 2, 1}, ones(n * m, 1.0f), d_w(3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % m);
  const lg::DeviceArray on_x(lg::ScalarType::F32, {n, m}), on_w(lg::ScalarType::F32, {3}), on_y(on_x.type(), {n, m}),
      on_d_y(on_x.type(), {n, m}), on_d_w(on_w.type(), {3});
  on_x.upload(x.data());
  on_w.upload(w.data());
  on_d_y.upload(ones.data());
  auto gradient = lg::compile_gradient(blur(), {.wrt = {"w"}}, {.target = lg::Target::Cuda});
  const lg::Arguments arrays = {
      {"x", on_x.view()}, {"w", on_w.view()}, {"y", on_y.view()}, {"d_y", on_d_y.view()}, {"d_w", on_d_w.view()}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  on_d_w.download(d_w.data());
  return d_w;
}

int main() {
  // `loopgrad show blur --target cuda --stage code`, of a program of one's own. Here: which kernels there are.
  const lg::ProgramEntry entry{"blur", "a filter along rows", blur, {{"n", 1000}, {"m", 1000}}, {}, {"w"}};
  std::istringstream code(lg::run_command({"show", "blur", "--target", "cuda", "--stage", "code"}, {entry}).text);
  for (std::string line; std::getline(code, line);) {
    const std::size_t name = line.find("blur_");
    if (line.find("__global__") == std::string::npos || name == std::string::npos) continue;
    std::printf("%s\n", line.substr(name, line.find('(', name) - name).c_str());
  }

  // The programs as they are mapped to blocks and threads, in the interpreter, which looks for races among them.
  const std::vector<float> on_cpu = gradient_by_w({});
  const std::vector<float> mapped =
      gradient_by_w({.target = lg::Target::Interpreter, .checked = true, .gpu_mapped = true});
  std::printf("\nd_w = %g %g %g on the CPU, %g %g %g as mapped to a GPU\n", on_cpu[0], on_cpu[1], on_cpu[2], mapped[0],
              mapped[1], mapped[2]);
  return lg::has_cuda() && gradient_on_gpu() != on_cpu ? 1 : 0;
}
