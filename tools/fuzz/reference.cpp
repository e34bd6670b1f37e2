#include "tools/fuzz/reference.h"

#include "tools/fuzz/rough_values.h"
#include "tools/support/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::fuzz {
namespace {

constexpr double tolerance = 1e-8;      // of f64, relative to the largest number of its kind
constexpr double tolerated_errors = 2;  // of rounding: those of both sides, each in an order of its own

bool names(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

bool is_tangent_input(const ir::Array& array) {
  return array->name.starts_with("t_") && array->role != ir::ArrayRole::Output;
}

}  // namespace

Reference::Reference(const Program& program, Arrays inputs, Sizes sizes, GradientOptions what, std::uint64_t seed)
    : program_(program), inputs_(std::move(inputs)), sizes_(std::move(sizes)), what_(std::move(what)), seed_(seed) {}

void Reference::run_primal() {
  outputs_ = copy_of(inputs_);
  run(program_.ir(), outputs_, sizes_, {});
  for (const auto& [name, array] : outputs_) {
    for (std::int64_t i = 0; i < array.size(); ++i)
      if (!std::isfinite(array.get(i))) throw NotFinite("'" + name + "' is not finite");
  }
  for (const ir::Array& array : program_.ir().arrays) {
    if (!is_float(array->type) || array->role == ir::ArrayRole::Input || !names(what_.of, array->name)) continue;
    incoming_["d_" + array->name] = random_like(outputs_.at(array->name), array->name, seed_ + 1);
  }
}

void Reference::run_tangent(int elements) {
  tangent_ = tangent(program_, what_).ir();
  std::vector<std::pair<std::string, std::int64_t>> all;
  for (const ir::Array& t : tangent_.arrays) {
    if (!is_tangent_input(t)) continue;
    for (std::int64_t i = 0; i < inputs_.at(t->name.substr(2)).size(); ++i) all.emplace_back(t->name.substr(2), i);
  }
  tools::Random random(seed_ + 3);
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  if (all.size() > static_cast<std::size_t>(elements)) all.resize(static_cast<std::size_t>(elements));
  for (std::uint64_t i = 0; i < 2; ++i) add_direction("a random direction", "", 0, i);
  for (const auto& [array, element] : all) add_direction(fmt::format("{}[{}]", array, element), array, element, 0);
}

/// The direction of one element, or a random one when `array` is empty.
void Reference::add_direction(std::string name, const std::string& array, std::int64_t element, std::uint64_t seed) {
  Direction direction;
  direction.name = std::move(name);
  for (const ir::Array& t : tangent_.arrays) {
    if (!is_tangent_input(t)) continue;
    const std::string of = t->name.substr(2);
    const HostArray& input = inputs_.at(of);
    HostArray along =
        array.empty() ? random_like(input, of, seed_ + 11 + seed) : HostArray(input.type(), input.shape());
    if (of == array) along.set(element, 1);
    direction.tangents[t->name] = std::move(along);
  }
  const Arrays arrays = run_along(direction, tangent_);
  expect_outputs(arrays);
  direction.derivative = derivative_in(arrays);
  if (!std::isfinite(direction.derivative))
    throw Disagreement("the derivative along " + direction.name + " is not finite");
  largest_ = std::max(largest_, std::abs(direction.derivative));
  directions_.push_back(std::move(direction));
}

Arrays Reference::run_along(const Direction& direction, const ir::Program& tangent, bool checked) const {
  Arrays arrays = copy_of(inputs_);
  for (const auto& [t, along] : direction.tangents) arrays[t] = copy_of(along);
  run(tangent, arrays, sizes_, {.checked = checked});
  return arrays;
}

double Reference::derivative_in(const Arrays& arrays) const {
  double derivative = 0;
  for (const auto& [d, given] : incoming_) derivative += dot(given, arrays.at("t_" + d.substr(2)));
  return derivative;
}

void Reference::expect_outputs(const Arrays& arrays) const {
  for (const auto& [name, expected] : outputs_) {
    double scale = is_float(expected.type()) ? 1e-3 : 0;
    for (std::int64_t i = 0; i < expected.size(); ++i) scale = std::max(scale, std::abs(expected.get(i)));
    if (!is_float(expected.type())) scale = 0;  // integers are exact
    for (std::int64_t i = 0; i < expected.size(); ++i) {
      const double value = arrays.at(name).get(i);
      if (std::abs(value - expected.get(i)) <= tolerance * scale) continue;
      const double error = is_float(expected.type()) ? error_of_rounding(name, i) : 0;
      if (std::isfinite(error) && !(std::abs(value - expected.get(i)) <= tolerance * scale + tolerated_errors * error))
        throw Disagreement(fmt::format("'{}' element {} is {}, not {}", name, i, value, expected.get(i)));
    }
  }
}

double Reference::error_of_rounding(const std::string& name, std::int64_t element) const {
  if (errors_of_rounding_.empty())
    errors_of_rounding_ = errors_of_rounding(outputs_, seed_, [&](std::uint64_t seed) {
      Arrays arrays = copy_of(inputs_);
      run(rough_values(program_.ir(), seed, true), arrays, sizes_, {.checked = false});
      return arrays;
    });
  return errors_of_rounding_.at(name)[static_cast<std::size_t>(element)];
}

/// Of its derivative.
double Reference::error_of_rounding(const Direction& direction) const {
  HostArray exact(ScalarType::F64, {});
  exact.set(0, direction.derivative);
  const auto errors = errors_of_rounding({{"", exact}}, seed_, [&](std::uint64_t seed) {
    HostArray rough(ScalarType::F64, {});
    rough.set(0, derivative_in(run_along(direction, rough_values(tangent_, seed, true), false)));
    return Arrays{{"", rough}};
  });
  return errors.at("").front();
}

void Reference::expect_gradient(const Arrays& arrays) const {
  for (const Direction& direction : directions_) {
    double value = 0;
    for (const auto& [t, along] : direction.tangents) value += dot(arrays.at("d_" + t.substr(2)), along);
    expect_derivative(direction, value);
  }
}

void Reference::expect_tangent(const Direction& direction, const Arrays& arrays) const {
  expect_outputs(arrays);
  expect_derivative(direction, derivative_in(arrays));
}

void Reference::expect_derivative(const Direction& direction, double value) const {
  const double off = std::abs(value - direction.derivative), tolerated = tolerance * (1e-3 + largest_);
  if (off <= tolerated) return;
  const double error = error_of_rounding(direction);
  if (std::isfinite(error) && !(off <= tolerated + tolerated_errors * error))
    throw Disagreement(
        fmt::format("the derivative along {} is {}, not {}", direction.name, value, direction.derivative));
}

namespace {

/// Runs a lowered program twice: see GradientRun. `written`: as it was before.
void run_twice(const ir::Program& lowered, const ir::Program& written, GradientRun::Kept kept, Arrays& arrays,
               Sizes sizes, std::uint64_t seed) {
  const auto is_new = [&](const ir::Array& array) {
    return array->role == ir::ArrayRole::InOut && !ir::find_array(written, array->name);
  };
  Arrays first = copy_of(arrays);
  sizes["stale"] = 1;
  run(lowered, first, sizes, {.seed = seed});
  const auto was_seen_in = [&](const ir::Array& array) { return is_new(array) && array->name.ends_with("_seen"); };
  const bool can_differ = std::any_of(lowered.arrays.begin(), lowered.arrays.end(), [&](const ir::Array& array) {
    return was_seen_in(array) && first.at(array->name).size() > 0;
  });
  for (const ir::Array& array : lowered.arrays) {
    if (!is_new(array)) continue;
    HostArray& own = arrays.insert_or_assign(array->name, copy_of(first.at(array->name))).first->second;
    if (kept == GradientRun::Kept::Same || !can_differ) continue;
    const bool was_seen = was_seen_in(array);
    for (std::int64_t i = 0; i < own.size(); ++i) own.set(i, was_seen ? 1 - own.get(i) : 0);
  }
  sizes["stale"] = 2;
  run(lowered, arrays, sizes, {.seed = seed + 1});
  for (const ir::Array& array : lowered.arrays)
    if (is_new(array)) arrays.erase(array->name);  // another program has its own of that name
}

}  // namespace

void check_gradient(const Reference& reference, const Gradient& gradient, const GradientRun& how, std::uint64_t seed,
                    std::string& stage) {
  const bool keeps = how.kept != GradientRun::Kept::Nothing;
  const auto run_as = [&](const Program& program, Form form, const Schedule& schedule, Arrays& arrays,
                          const Sizes& sizes, std::uint64_t own_seed, backend::ValueStack& stack) {
    Sizes all = sizes;
    if (keeps) all["stale"] = 2;
    transforms::LowerOptions options = how.lowering;
    options.mode = backend::sum_mode(how.variant);
    options.orders = keeps ? transforms::Orders::Compared : transforms::Orders::Computed;
    options.schedule = schedule;
    const ir::Program lowered = formed(program.ir(), form, all, options);
    if (lowered.sizes.size() > program.ir().sizes.size())
      return run_twice(lowered, program.ir(), how.kept, arrays, sizes, own_seed);
    run_noting(lowered, program.ir(), arrays, sizes, {.seed = own_seed}, &stack);
  };
  const std::string variant = name_of(how.variant), before = stage;
  stage = fmt::format("{}{}: sizing", before, variant);
  const Sizes sizes = all_sizes(gradient, reference.inputs(), reference.sizes(), {});
  for (const Form form : how.forms) {
    const std::string which = form == Form::AsWritten ? "" : std::string(",") + label(form);
    backend::ValueStack stack;
    Arrays arrays = copy_of(reference.inputs());
    stage = fmt::format("{}{}: forward{}", before, variant, which);
    run_as(gradient.forward, form, how.forward_schedule, arrays, sizes, seed + 13, stack);
    reference.expect_outputs(arrays);
    stage = fmt::format("{}{}: backward{}", before, variant, which);
    for (const auto& [name, array] : reference.incoming()) arrays[name] = copy_of(array);
    run_as(gradient.backward, form, how.backward_schedule, arrays, sizes, seed + 17, stack);
    if (!stack.entries.empty()) throw Disagreement("values are left on the stack");
    reference.expect_gradient(arrays);
  }
  stage = before;
}

}  // namespace loopgrad::fuzz
