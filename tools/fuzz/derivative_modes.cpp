#include "tools/fuzz/derivative_modes.h"

#include "tools/support/random.h"

#include <loopgrad/autodiff.h>

#include <algorithm>

namespace loopgrad::fuzz {
namespace {

constexpr std::int64_t most_directions = 3;
constexpr double factors[most_directions] = {1, -0.5, 2};  // of the incoming gradient

/// An array of several: element i of number q is at [i, q].
HostArray side_by_side(const std::vector<const HostArray*>& arrays, const std::vector<double>& scale = {}) {
  const auto count = static_cast<std::int64_t>(arrays.size());
  std::vector<std::int64_t> shape = arrays.front()->shape();
  shape.push_back(count);
  HostArray all(arrays.front()->type(), shape);
  for (std::int64_t q = 0; q < count; ++q) {
    const auto k = static_cast<std::size_t>(q);
    const double factor = scale.empty() ? 1 : scale[k];
    for (std::int64_t i = 0; i < arrays[k]->size(); ++i) all.set(i * count + q, factor * arrays[k]->get(i));
  }
  return all;
}

/// Number `q` of them, divided by `scale`.
HostArray one_of(const HostArray& all, std::int64_t q, double scale = 1) {
  std::vector<std::int64_t> shape = all.shape();
  const std::int64_t count = shape.back();
  shape.pop_back();
  HostArray one(all.type(), shape);
  for (std::int64_t i = 0; i < one.size(); ++i) one.set(i, all.get(i * count + q) / scale);
  return one;
}

ir::Program formed_for(const ir::Program& program, const ModeRun& how, const Sizes& sizes) {
  return formed(program, how.form, sizes, how.lowering);
}

/// Of a program, the derivatives of the primal's arrays: `d_x` is one where there is an `x`, unlike a tape of some `d`.
bool is_derivative(const Reference& reference, const std::string& name, const std::string& prefix) {
  const ir::Program& primal = reference.program().ir();
  return name.starts_with(prefix) && ir::find_array(primal, name.substr(prefix.size())) &&
         !ir::find_array(primal, name);
}

/// The number of directions as it is asked for, and what runs get for it.
struct Count {
  std::string text;
  Sizes sizes;
};

Count count_of(const Reference& reference, std::int64_t count, std::uint64_t seed) {
  Count result{seed % 2 == 0 ? "directions" : std::to_string(count), reference.sizes()};
  if (seed % 2 == 0) result.sizes["directions"] = count;
  return result;
}

}  // namespace

void check_tangent(const Reference& reference, const ModeRun& how) {
  const ir::Program program = formed_for(tangent(reference.program(), reference.what()).ir(), how, reference.sizes());
  std::int64_t done = 0;
  for (const Reference::Direction& direction : reference.directions()) {
    if (done++ == most_directions) break;
    Arrays arrays = copy_of(reference.inputs());
    for (const auto& [t, along] : direction.tangents) arrays[t] = copy_of(along);
    run(program, arrays, reference.sizes(), {.seed = how.seed});
    reference.expect_tangent(direction, arrays);
  }
}

void check_tangents_at_once(const Reference& reference, const ModeRun& how) {
  const std::vector<Reference::Direction>& directions = reference.directions();
  const auto count = std::min(most_directions, static_cast<std::int64_t>(directions.size()));
  const Count asked = count_of(reference, count, how.seed);
  GradientOptions options = reference.what();
  options.directions = asked.text;
  const ir::Program program = formed_for(tangent(reference.program(), options).ir(), how, asked.sizes);
  Arrays arrays = copy_of(reference.inputs());
  for (const auto& [t, first] : directions.front().tangents) {
    std::vector<const HostArray*> parts;
    for (std::int64_t q = 0; q < count; ++q) parts.push_back(&directions[static_cast<std::size_t>(q)].tangents.at(t));
    arrays[t] = side_by_side(parts);
  }
  run(program, arrays, asked.sizes, {.seed = how.seed});
  for (std::int64_t q = 0; q < count; ++q) {
    Arrays one;
    for (const auto& [name, array] : arrays)
      one.emplace(name, is_derivative(reference, name, "t_") ? one_of(array, q) : array);
    reference.expect_tangent(directions[static_cast<std::size_t>(q)], one);
  }
}

void check_adjoints_at_once(const Reference& reference, const ModeRun& how) {
  const Count asked = count_of(reference, most_directions, how.seed);
  GradientOptions options = reference.what();
  options.directions = asked.text;
  const Gradient gradient = differentiate(reference.program(), options);
  Sizes sizes = all_sizes(gradient, reference.inputs(), reference.sizes(), {});
  Arrays arrays = copy_of(reference.inputs());
  run(formed_for(gradient.forward.ir(), how, sizes), arrays, sizes, {.seed = how.seed});
  reference.expect_outputs(arrays);
  sizes.insert(asked.sizes.begin(), asked.sizes.end());
  for (const auto& [d, incoming] : reference.incoming())
    arrays[d] = side_by_side({&incoming, &incoming, &incoming}, {factors, factors + most_directions});
  run(formed_for(gradient.backward.ir(), how, sizes), arrays, sizes, {.seed = how.seed});
  for (std::int64_t q = 0; q < most_directions; ++q) {
    Arrays one;
    for (const auto& [name, array] : arrays)
      if (is_derivative(reference, name, "d_")) one.emplace(name, one_of(array, q, factors[q]));
    reference.expect_gradient(one);
  }
}

bool check_accumulated(const Reference& reference, const ModeRun& how) {
  GradientOptions options = reference.what();
  tools::Random random(how.seed);
  for (const ir::Array& array : reference.program().ir().arrays) {
    const bool wanted = options.wrt.empty() || std::ranges::find(options.wrt, array->name) != options.wrt.end();
    if (array->role == ir::ArrayRole::Input && is_float(array->type) && wanted && random.below(3) > 0)
      options.accumulate.push_back(array->name);
  }
  if (options.accumulate.empty()) return false;
  const Gradient gradient = differentiate(reference.program(), options);
  const Sizes sizes = all_sizes(gradient, reference.inputs(), reference.sizes(), {});
  Arrays arrays = copy_of(reference.inputs());
  run(formed_for(gradient.forward.ir(), how, sizes), arrays, sizes, {.seed = how.seed});
  reference.expect_outputs(arrays);
  for (const auto& [d, incoming] : reference.incoming()) arrays[d] = copy_of(incoming);
  Arrays before;
  for (const std::string& name : options.accumulate) {
    const HostArray given = random_like(reference.inputs().at(name), "d_" + name, how.seed);
    arrays["d_" + name] = copy_of(before.emplace("d_" + name, given).first->second);
  }
  run(formed_for(gradient.backward.ir(), how, sizes), arrays, sizes, {.seed = how.seed});
  for (const auto& [name, given] : before) {
    HostArray& sum = arrays.at(name);
    for (std::int64_t i = 0; i < sum.size(); ++i) sum.set(i, sum.get(i) - given.get(i));
  }
  reference.expect_gradient(arrays);
  return true;
}

}  // namespace loopgrad::fuzz
