#include "tools/fuzz/agreement.h"

#include "dsl/ir/visit.h"
#include "tools/fuzz/rough_values.h"
#include "tools/support/random.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace loopgrad::fuzz {
namespace {

/// Of the coarsest type that the program stores values in.
struct Precision {
  double tolerance, step;
  bool half = false;
};
Precision precision_of(const ir::Program& program) {
  bool half = false, single = false, brain = false;
  const auto see = [&](const ir::Array& array) {
    half |= array->type == ScalarType::F16;
    brain |= array->type == ScalarType::BF16;
    single |= array->type == ScalarType::F32;
  };
  for (const ir::Array& array : program.arrays) see(array);
  ir::walk(
      program.body,
      [&](const ir::Stmt& s) {
        if (const auto* local = s.as<ir::Allocate>()) see(local->array);
      },
      [&](const ir::Expr& e) { single |= e.type() == ScalarType::F32; });
  if (brain) return {6e-2, 8e-3, true};
  if (half) return {1e-2, 1e-3, true};
  if (single) return {1e-4, 1e-6};
  return {1e-8, 1e-14};
}

constexpr double tolerated_spreads = 30;
constexpr double tolerated_errors_of_rounding =
    2;                                 // those of the run and of the reference, each in an order of its own
constexpr double least_certain = 0.6;  // where so much of the largest number is tolerated, there is nothing to compare

/// The same arrays with f64 for all floats.
Arrays widened(const Arrays& arrays) {
  Arrays result;
  std::map<const void*, std::string> owners;
  for (const auto& [name, array] : arrays) {
    const auto [owner, is_new] = owners.try_emplace(array.data(), name);
    if (!is_new && array.size() > 0) {
      result.emplace(name, result.at(owner->second));
      continue;
    }
    HostArray wide(is_float(array.type()) ? ScalarType::F64 : array.type(), array.shape());
    for (std::int64_t i = 0; i < array.size(); ++i) wide.set(i, array.get(i));
    result.emplace(name, std::move(wide));
  }
  return result;
}

/// NaN counts as more than anything, and is kept.
void widen(double& spread, const HostArray& one, const HostArray& other) {
  for (std::int64_t i = 0; i < one.size(); ++i) {
    const double change = std::abs(one.get(i) - other.get(i));
    if (!std::isnan(spread) && !(change <= spread)) spread = change;
  }
}

}  // namespace

NativeReference::NativeReference(const Case& c, const GradientOptions& what, bool with_gradient)
    : case_(c), gradient_{c.program, c.program, c.program, {}, {}}, with_gradient_(with_gradient) {
  const Precision precision = precision_of(c.program.ir());
  tolerance_ = precision.tolerance;
  step_ = precision.step;
  is_half_ = precision.half;
  inputs_ = make_arrays(c, false);
  if (with_gradient) {
    GradientOptions naive = what;
    naive.variant = Variant::NaiveTape;
    gradient_ = differentiate(c.program, naive);
    for (const ir::Array& array : gradient_.backward.ir().arrays) {
      if (!array->name.starts_with("d_") || array->role == ir::ArrayRole::Output) continue;
      const HostArray like(array->type, inputs_.at(array->name.substr(2)).shape());
      inputs_[array->name] = random_like(like, array->name, c.seed + 1);
    }
  }
  results_ = run_on(inputs_, false);
}

Arrays NativeReference::run_on(const Arrays& inputs, bool f64, std::optional<std::uint64_t> rough) const {
  const Interpretation how{.f64 = f64, .checked = false};
  const auto with_errors = [&](const Program& program) {
    return rough ? rough_values(program.ir(), *rough) : program.ir();
  };
  Arrays arrays = copy_of(inputs);
  if (!with_gradient_) {
    run(with_errors(case_.program), arrays, case_.sizes, how);
    return arrays;
  }
  const Sizes sizes = all_sizes(gradient_, arrays, case_.sizes, how);
  backend::ValueStack stack;
  run(with_errors(gradient_.forward), arrays, sizes, how, &stack);
  run(with_errors(gradient_.backward), arrays, sizes, how, &stack);
  return arrays;
}

std::vector<Program> NativeReference::programs() const {
  if (!with_gradient_) return {case_.program};
  return {gradient_.sizing, gradient_.forward, gradient_.backward};
}

void NativeReference::expect(const Arrays& arrays, const std::set<std::string>& same_bits) {
  for (const auto& [name, actual] : arrays)
    if (results_.contains(name)) expect_array(name, actual, same_bits.contains(name));
}

void NativeReference::expect_array(const std::string& name, const HostArray& actual, bool same_bits) {
  const HostArray& expected = results_.at(name);
  const auto bytes = static_cast<std::size_t>(expected.bytes());
  if (bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0) return;
  double scale = is_float(expected.type()) ? 1e-3 : 0;
  for (std::int64_t i = 0; i < expected.size() && scale > 0; ++i) {
    if (std::isfinite(expected.get(i))) scale = std::max(scale, std::abs(expected.get(i)));
  }
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const double a = actual.get(i), e = expected.get(i);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const auto differs = [&](const char* how) {
      throw Disagreement(fmt::format("'{}' element {} is {}, not {}{}", name, i, a, e, how));
    };
    if (same_bits) differs(" (the same bits are due)");
    if (std::abs(a - e) <= tolerance_ * scale) continue;
    find_spread();
    const double tolerated = tolerated_spreads * spread_.at(name) +
                             tolerated_errors_of_rounding * errors_of_rounding_.at(name)[static_cast<std::size_t>(i)];
    if (!(tolerated < least_certain * scale)) {  // also for what is not finite
      was_unstable_ = true;
      continue;
    }
    if (!(std::abs(a - e) <= tolerance_ * scale + tolerated)) differs("");
  }
}

void NativeReference::find_spread() {
  if (!spread_.empty()) return;
  tools::Random random(case_.seed + 5);
  for (int k = 0; k < 4; ++k) {
    Arrays inputs = copy_of(inputs_);
    for (auto& [name, array] : inputs) {
      if (!is_float(array.type())) continue;
      for (std::int64_t i = 0; i < array.size(); ++i)
        array.set(i, array.get(i) * (1 + random.uniform(-step_, step_)) + random.uniform(-step_, step_) * 1e-3);
    }
    const Arrays moved = run_on(inputs, false);
    for (const auto& [name, array] : results_) widen(spread_[name], array, moved.at(name));
  }
  find_errors_of_rounding();
  if (!is_half_) return;
  // A sum that is rounded to a few bits at each step stands still while its terms go on; it does so wherever it starts.
  const Arrays wide = run_on(widened(inputs_), true);
  for (const auto& [name, array] : results_) widen(spread_[name], array, wide.at(name));
}

/// In f64, where a small error is not rounded away.
void NativeReference::find_errors_of_rounding() {
  const Arrays inputs = widened(inputs_);
  errors_of_rounding_ = errors_of_rounding(run_on(inputs, true), case_.seed,
                                           [&](std::uint64_t seed) { return run_on(inputs, true, seed); });
}

}  // namespace loopgrad::fuzz
