#include "tools/cli/target_runs.h"

#include "dsl/ir/visit.h"
#include "tools/cli/device_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace loopgrad::cli {
namespace {

constexpr double kRoundings = 32;  // that an error of a sum may have, each relative to the sum's terms

/// Never lets a NaN pass.
double larger(double a, double b) { return std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b); }

}  // namespace

double Precision::least_scale(double terms) const { return kRoundings * half_ulp * terms / tolerance; }

Precision precision_of(const Program& program, bool f64) {
  std::size_t narrowest = 8;
  bool bfloat = false;
  auto look = [&](const ir::Array& array) {
    if (is_float(array->type)) narrowest = std::min(narrowest, bytes_of(array->type));
    bfloat = bfloat || array->type == ScalarType::BF16;
  };
  for (const ir::Array& array : program.ir().arrays) look(array);
  ir::walk_stmts(program.ir().body, [&](const ir::Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) look(local->array);
  });
  if (f64 || narrowest == 8) return {1e-9, 0x1p-53};
  return narrowest == 4 ? Precision{2e-4, 0x1p-24} : Precision{5e-2, bfloat ? 0x1p-9 : 0x1p-12};
}

void Errors::compare_outputs(const Precision& precision, const Reference& reference, const Buffers& buffers) {
  for (const auto& [name, expected] : reference.outputs) {
    const auto terms = reference.terms.find(name);
    const double least = terms == reference.terms.end() ? 0 : precision.least_scale(terms->second);
    output = larger(output, relative_error(buffers.at(name), expected, least));
  }
}

void Errors::compare_along(const Precision& precision, const Direction& d, double value) {
  const double least = precision.least_scale(d.terms);
  forward_mode = larger(forward_mode, std::abs(value - d.forward_mode) / std::max(d.scale, least));
  if (d.has_difference())
    difference = larger(difference, std::abs(value - d.difference) / std::max(d.difference_scale, least));
}

Buffers run_variant(const Problem& problem, Variant variant, const CompileOptions& options) {
  GradientExecutable gradient = compile_gradient(problem.program, problem.gradient_options(variant), options);
  Arrays initial = problem.inputs;
  initial.insert(problem.incoming.begin(), problem.incoming.end());
  Buffers buffers({gradient.gradient().forward, gradient.gradient().backward}, problem.sizes, initial, options.f64);
  if (options.target == Target::Cuda) {
    DeviceBuffers device(buffers, 2);
    device.upload();
    gradient.forward(device.arguments(0), problem.sizes);
    gradient.backward(device.arguments(1), problem.sizes);
    device.download();
    return buffers;
  }
  gradient.forward(buffers.arguments(0), problem.sizes);
  gradient.backward(buffers.arguments(1), problem.sizes);
  return buffers;
}

std::string not_finite(const Problem& problem, const Buffers& gradient) {
  const auto first_of = [&](const std::string& name) {
    const HostArray& array = gradient.at(name);
    std::int64_t i = 0;
    while (i < array.size() && std::isfinite(array.get(i))) ++i;
    return i < array.size() ? std::optional(i) : std::nullopt;
  };
  for (const std::string& name : problem.wrt) {
    const auto element = first_of("d_" + name);
    if (!element) continue;
    for (const std::string& output : problem.of)
      if (const auto own = first_of(output))
        return fmt::format(
            "the program's own result '{}' is not finite at element {} for these sizes and inputs: it has no gradient",
            output, *own);
    return fmt::format("the gradient by '{}' is not finite at element {}", name, *element);
  }
  return {};
}

TangentRun::TangentRun(const Problem& problem, const CompileOptions& options)
    : problem_(problem),
      options_(options),
      program_(tangent(problem.program, {.wrt = problem.wrt, .of = problem.of})),
      run_(compile(program_, options)) {}

Buffers TangentRun::along(const Direction& direction) const {
  Buffers buffers({program_}, problem_.sizes, inputs_along(problem_, direction), options_.f64);
  if (options_.target == Target::Cuda) {
    DeviceBuffers device(buffers, 1);
    device.upload();
    run_.run(device.arguments(0), problem_.sizes);
    device.download();
  } else {
    run_.run(buffers.arguments(0), problem_.sizes);
  }
  return buffers;
}

}  // namespace loopgrad::cli
