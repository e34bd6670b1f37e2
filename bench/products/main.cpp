// Products of matrices on the GPU: as loopgrad hands them over, beside the library called directly, and by the loops.
//
//   bench_products [--json FILE]
//
// Medians of the device's times, in milliseconds; the inputs of one case stay where they are. A case without the
// library or without a GPU is refused with the reason.
#include "backends/cuda/matrix_library.h"
#include "bench/median.h"
#include "tools/cli/timed_gradient.h"
#include "tools/programs/programs.h"

#include <loopgrad/device_array.h>
#include <loopgrad/error.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace {

using namespace loopgrad;
namespace cuda = backend::cuda;

constexpr int runs = 20, warm_up = 5;

template <class F>
double median_of(F&& once) {
  std::vector<double> times;
  for (int k = 0; k < runs + warm_up; ++k) {
    const double time = once();
    if (k >= warm_up) times.push_back(time);
  }
  return bench::median(std::move(times));
}

struct Times {
  double forward = 0, backward = 0, both = 0;
  bool same_bits = true;
};

/// A gradient's forward and backward, apart and together.
Times time_gradient(const std::string& name, const Sizes& sizes) {
  const ProgramEntry entry = programs::named(name);
  const Program program = entry.build();
  CompileOptions options;
  options.target = Target::Cuda;
  const GradientExecutable gradient = compile_gradient(program, {.wrt = entry.wrt}, options);
  cli::Arrays initial = cli::make_inputs(entry, program, sizes, 1);
  initial.merge(cli::make_incoming(program, sizes, 2));
  cli::Buffers buffers({gradient.gradient().forward, gradient.gradient().backward}, sizes, initial, false);
  cli::TimedGradient timed(gradient, buffers, Target::Cuda);
  std::vector<std::string> results;
  for (const std::string& wrt : entry.wrt) results.push_back("d_" + wrt);
  Times times;
  std::vector<double> backward;
  std::optional<std::uint64_t> bits;
  times.forward = median_of([&] {
    const auto once = timed.run();
    backward.push_back(once.backward);
    const std::uint64_t now = timed.bits(results);
    times.same_bits &= !bits || *bits == now;
    bits = now;
    return once.forward;
  });
  std::sort(backward.begin(), backward.end());
  times.backward = backward[backward.size() / 2];
  times.both = times.forward + times.backward;
  return times;
}

/// c = a b, then the two products of its gradient, each matrix n x n.
Times time_library(std::int64_t n) {
  std::vector<DeviceArray> arrays;
  const std::vector<float> some(static_cast<std::size_t>(n * n), 0.5f);
  for (int k = 0; k < 5; ++k) {
    arrays.emplace_back(ScalarType::F32, std::vector<std::int64_t>{n, n});
    arrays.back().upload(some.data());
  }
  const cuda::MatrixLibrary library("bench_products");
  auto matrix = [&](int k, bool transposed) {
    const auto at = static_cast<std::size_t>(k);
    return transposed ? cuda::DeviceMatrix{arrays[at].data(), 0, 1, n} : cuda::DeviceMatrix{arrays[at].data(), 0, n, 1};
  };
  auto product = [&](cuda::DeviceMatrix a, cuda::DeviceMatrix b, cuda::DeviceMatrix c) {
    const cuda::Product p = {.m = n, .n = n, .k = n, .alpha = 1, .beta = 0, .a = a, .b = b, .c = c};
    library.multiply(p, nullptr, "bench_products");
  };
  cuda::Timer timer;
  auto timed = [&](auto&& start) {
    return median_of([&] {
      timer.start();
      for (int k = 0; k < 5; ++k) start();
      return timer.stop() / 5;
    });
  };
  Times times;
  times.forward = timed([&] { product(matrix(0, false), matrix(1, false), matrix(2, false)); });
  times.backward = timed([&] {
    product(matrix(2, false), matrix(1, true), matrix(3, false));
    product(matrix(0, true), matrix(2, false), matrix(4, false));
  });
  times.both = times.forward + times.backward;
  return times;
}

nlohmann::ordered_json json_of(const std::string& program, const std::string& by, const Times& t) {
  fmt::print("{:<28} {:<14} {:>9.4f} {:>9.4f} {:>9.4f} {}\n", program, by, t.forward, t.backward, t.both,
             t.same_bits ? "same bits" : "BITS DIFFER");
  return {{"program", program},        {"by", by},          {"forward_ms", t.forward},
          {"backward_ms", t.backward}, {"both_ms", t.both}, {"bitwise_repeatable", t.same_bits}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("products of matrices on the GPU");
  std::string file;
  app.add_option("--json", file, "write JSON to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!cuda::MatrixLibrary::found()) {
      fmt::print(stderr, "bench_products: cuBLAS is not found; LOOPGRAD_CUBLAS names it\n");
      return 2;
    }
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    fmt::print("{}\n{:<28} {:<14} {:>9} {:>9} {:>9} (ms)\n", cuda_device_name(), "", "", "forward", "backward", "both");
    for (const std::int64_t n : {1024, 4096}) {
      const std::string title = fmt::format("matmul {}", n);
      rows.push_back(json_of(title, "cuBLAS", time_library(n)));
      rows.push_back(json_of(title, "loopgrad", time_gradient("matmul", {{"m", n}, {"n", n}, {"k", n}})));
    }
    const Sizes mlp = {{"batch", 4096}, {"in", 784}, {"hidden1", 1024}, {"hidden2", 1024}, {"classes", 10}};
    const Sizes lstm = {{"T", 100}, {"batch", 64}, {"in", 512}, {"hidden", 512}};
    rows.push_back(json_of("mlp 4096", "loopgrad", time_gradient("mlp", mlp)));
    rows.push_back(json_of("lstm 100 x 64 x 512", "loopgrad", time_gradient("lstm", lstm)));
    ::setenv("LOOPGRAD_LEAST_PRODUCT", "inf", 1);
    rows.push_back(json_of("matmul 1024", "loops", time_gradient("matmul", {{"m", 1024}, {"n", 1024}, {"k", 1024}})));
    rows.push_back(json_of("mlp 4096", "loops", time_gradient("mlp", mlp)));
    if (!file.empty()) std::ofstream(file) << rows.dump(2) << "\n";
  } catch (const Error& e) {
    fmt::print(stderr, "bench_products: {}\n", e.what());
    return 2;
  }
}
