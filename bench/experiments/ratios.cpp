#include "bench/experiments/ratios.h"

#include "backends/lowering.h"
#include "transforms/pass/pass.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace experiments {
namespace {

/// Leaves passes out of what is lowered while it lives.
class Without {
 public:
  explicit Without(const std::set<std::string>& passes) {
    if (const char* before = std::getenv(kName)) before_ = before;
    ::setenv(kName, fmt::format("{}", fmt::join(passes, ",")).c_str(), 1);
  }
  Without(const Without&) = delete;
  ~Without() {
    if (before_) ::setenv(kName, before_->c_str(), 1);
    else ::unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "LOOPGRAD_SKIP";
  std::optional<std::string> before_;
};

lg::GradientOptions gradient_options(const lg::ProgramEntry& entry) {
  lg::GradientOptions options;
  options.wrt = entry.wrt;
  return options;
}

lg::CompileOptions options_of(const Place& place, const lg::Sizes& sizes) {
  lg::CompileOptions options = place.options;
  options.expected_sizes = sizes;
  return options;
}

struct Sides {
  std::vector<std::string> side_by_side, of_each;  // sizes that are multiplied
};

/// What the authors of the programs scale, as far as it is a size of theirs.
const std::map<std::string, Sides>& sides() {
  static const std::map<std::string, Sides> all = {{"lbm", {{"nz"}, {"T"}}},
                                                   {"dg", {{"elements"}, {}}},
                                                   {"xsbench", {{"lookups"}, {"most", "isotopes"}}},
                                                   {"rsbench", {{"lookups"}, {"in_window"}}},
                                                   {"lulesh", {{"elems", "nodes"}, {}}},
                                                   {"gmm", {{"n"}, {"K"}}},
                                                   {"ba", {{"n"}, {}}},
                                                   {"hand", {{"points"}, {}}},
                                                   {"lstm", {{"batch"}, {"T"}}}};
  return all;
}

lg::Sizes times(lg::Sizes sizes, const std::vector<std::string>& names, double factor) {
  for (const std::string& name : names)
    sizes.at(name) = std::max<std::int64_t>(1, std::llround(static_cast<double>(sizes.at(name)) * factor));
  // A cube of elements has as many nodes as its edges say.
  if (sizes.count("elems") && sizes.count("nodes")) {
    const std::int64_t edge = std::llround(std::cbrt(static_cast<double>(sizes.at("elems"))));
    sizes["elems"] = edge * edge * edge;
    sizes["nodes"] = (edge + 1) * (edge + 1) * (edge + 1);
  }
  return sizes;
}

}  // namespace

const std::vector<std::string>& programs_of_papers() {
  static const std::vector<std::string> names = {"lbm", "dg", "xsbench", "rsbench", "lulesh",
                                                 "gmm", "ba", "hand",    "lstm"};
  return names;
}

std::vector<Scaled> scaled(const lg::ProgramEntry& entry, const std::vector<double>& factors) {
  std::vector<Scaled> result;
  const auto found = sides().find(entry.name);
  if (found == sides().end()) return result;
  for (const double factor : factors)
    result.push_back({"iterations side by side", factor, times(entry.sizes, found->second.side_by_side, factor)});
  for (const double factor : factors)
    if (!found->second.of_each.empty())
      result.push_back({"work of each", factor, times(entry.sizes, found->second.of_each, factor)});
  return result;
}

Json ratio(const lg::ProgramEntry& entry, const Place& place, const lg::Sizes& sizes,
           const std::set<std::string>& skip) {
  try {
    const Without without(skip);
    const lg::CompileOptions options = options_of(place, sizes);
    const lg::Program program = entry.build();
    const lg::Gradient gradient = lg::differentiate(program, gradient_options(entry));
    const lg::Executable primal = lg::compile(program, options);
    const lg::GradientExecutable both = lg::compile(gradient, options);
    lg::cli::Arrays initial = lg::cli::make_inputs(entry, program, sizes, 1);
    initial.merge(lg::cli::make_incoming(program, sizes, 2));
    lg::cli::Buffers buffers({program, gradient.forward, gradient.backward}, sizes, std::move(initial), false);
    buffers.reset();
    const Bound bound(buffers, place, 3);
    const auto arguments = [&](std::size_t k, const lg::Program& of) {
      return lg::cli::with_versions(bound.arguments(k), of);
    };
    const lg::Arguments own = arguments(0, program), forward = arguments(1, gradient.forward),
                        backward = arguments(2, gradient.backward);
    const double primal_ms = milliseconds(place, [&] { primal.run(own, sizes); });
    const double forward_ms = milliseconds(place, [&] { both.forward(forward, sizes); });
    const double backward_ms = milliseconds(place, [&] { both.backward(backward, sizes); });
    return {{"primal_ms", primal_ms},
            {"forward_ms", forward_ms},
            {"backward_ms", backward_ms},
            {"ratio", (forward_ms + backward_ms) / primal_ms}};
  } catch (const lg::Error& error) {
    return {{"failure", error.what()}};
  }
}

std::vector<std::string> optional_passes(const Place& place) {
  lg::transforms::LowerOptions options;
  options.machine = place.on_device() ? lg::transforms::gpu_machine() : lg::transforms::cpu_machine();
  std::vector<std::string> names;
  for (const lg::transforms::Pass& pass : lg::transforms::passes(options))
    if (!pass.required && std::find(names.begin(), names.end(), pass.name) == names.end())
      names.emplace_back(pass.name);
  return names;
}

std::string gradient_code(const lg::ProgramEntry& entry, const Place& place, const lg::Sizes& sizes,
                          const std::set<std::string>& skip) {
  const Without without(skip);
  return lg::backend::source_of(lg::differentiate(entry.build(), gradient_options(entry)), options_of(place, sizes));
}

}  // namespace experiments
