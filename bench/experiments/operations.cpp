#include "bench/experiments/operations.h"

#include "tools/cli/work.h"
#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <fmt/format.h>

#include <algorithm>

namespace experiments {
namespace {

lg::Sizes square(const lg::ProgramEntry& entry, std::int64_t n) {
  lg::Sizes sizes;
  for (const auto& [name, value] : entry.sizes) sizes[name] = n;
  return sizes;
}

/// Positive numbers, so that logarithms, quotients and powers are defined. A few thousand random ones, repeated with a
/// period that is no power of two: large arrays are filled at once.
void fill(const lg::HostArray& array, std::uint64_t seed) {
  constexpr std::int64_t period = 4093;
  lg::tools::Random random(seed);
  float* const out = array.as<float>();
  for (std::int64_t i = 0; i < std::min(period, array.size()); ++i) out[i] = static_cast<float>(random.uniform(0.5, 2));
  for (std::int64_t i = period; i < array.size(); ++i) out[i] = out[i - period];
}

lg::cli::Buffers make_buffers(const lg::Gradient& gradient, const lg::Sizes& sizes) {
  lg::cli::Buffers buffers({gradient.forward, gradient.backward}, sizes, {}, false);
  std::uint64_t seed = 1;
  for (const std::size_t program : {0u, 1u})
    for (const auto& [name, view] : buffers.arguments(program)) fill(buffers.at(name), seed++);
  return buffers;
}

lg::CompileOptions with_block(const Place& place, int block) {
  lg::CompileOptions options = place.options;
  options.threads_per_block = block;
  return options;
}

/// One operation on all places.
class Operation {
 public:
  Operation(const std::string& name, const Settings& settings)
      : name_(name),
        settings_(settings),
        entry_(lg::programs::named(name)),
        gradient_(lg::differentiate(entry_.build())) {}

  const lg::GradientExecutable& compiled(const Place& place, int block) {
    const auto key = std::pair(place.name, block);
    const auto found = compiled_.find(key);
    if (found != compiled_.end()) return found->second;
    return compiled_.emplace(key, lg::compile(gradient_, with_block(place, block))).first->second;
  }

  void sweep(Json& rows, const std::function<void(const std::string&)>& progress) {
    std::map<std::string, double> last;  // milliseconds at the size before, by place
    for (const std::int64_t n : settings_.sizes) {
      progress(fmt::format("{} n={}", name_, n));
      std::optional<lg::cli::Buffers> buffers;
      for (const Place& place : settings_.places) {
        const double growth = name_ == "matmul" ? 8 : 4;
        const auto before = last.find(place.name);
        if (before != last.end() && before->second * growth > 1e3 * settings_.most_seconds) {
          last[place.name] *= growth;
          rows.push_back(row(n, place, 0));
          rows.back()["skipped"] = fmt::format("about {:.0f} s", last[place.name] / 1e3);
          continue;
        }
        if (!buffers) buffers.emplace(make_buffers(gradient_, square(entry_, n)));
        rows.push_back(measure(*buffers, n, place, 0));
        last[place.name] = rows.back()["forward_ms"].get<double>() + rows.back()["backward_ms"].get<double>();
      }
    }
    sweep_blocks(rows, progress);
  }

 private:
  void sweep_blocks(Json& rows, const std::function<void(const std::string&)>& progress) {
    const std::int64_t n = settings_.block_sweep_size;
    for (const Place& place : settings_.places) {
      if (!place.on_device()) continue;
      const lg::cli::Buffers buffers = make_buffers(gradient_, square(entry_, n));
      for (const int block : settings_.blocks) {
        progress(fmt::format("{} n={}, {} threads per block", name_, n, block));
        rows.push_back(measure(buffers, n, place, block));
      }
    }
  }

  Json row(std::int64_t n, const Place& place, int block) const {
    return {{"op", name_},           {"n", n},
            {"target", place.name},  {"threads_per_block", block ? Json(block) : Json(nullptr)},
            {"forward_ms", nullptr}, {"backward_ms", nullptr},
            {"bytes", bytes(n)},     {"skipped", nullptr}};
  }

  Json measure(const lg::cli::Buffers& buffers, std::int64_t n, const Place& place, int block) {
    const lg::GradientExecutable& gradient = compiled(place, block);
    const Bound bound(buffers, place, 2);
    const lg::Arguments forward = bound.arguments(0), backward = bound.arguments(1);
    const double forward_ms = milliseconds(place, [&] { gradient.forward(forward, buffers.sizes()); });
    const double backward_ms = milliseconds(place, [&] { gradient.backward(backward, buffers.sizes()); });
    Json result = row(n, place, block);
    result["forward_ms"] = forward_ms;
    result["backward_ms"] = backward_ms;
    return result;
  }

  /// That must be moved, forward and backward together.
  double bytes(std::int64_t n) const {
    const lg::Sizes sizes = square(entry_, n);
    return lg::cli::count_work(gradient_.forward, sizes, {}).bytes +
           lg::cli::count_work(gradient_.backward, sizes, {}).bytes;
  }

  std::string name_;
  const Settings& settings_;
  lg::ProgramEntry entry_;
  lg::Gradient gradient_;
  std::map<std::pair<std::string, int>, lg::GradientExecutable> compiled_;
};

}  // namespace

std::vector<std::string> operation_names() {
  std::vector<std::string> names = {"matmul"};
  for (const lg::ProgramEntry& entry : lg::programs::ops()) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  return names;
}

Json sweep_operations(const Settings& settings, const std::function<void(const std::string&)>& progress) {
  Json rows = Json::array();
  for (const std::string& name : settings.operations) Operation(name, settings).sweep(rows, progress);
  return rows;
}

void compile_operations(const Settings& settings, const std::string& operation) {
  Operation compiled(operation, settings);
  for (const Place& place : settings.places) {
    compiled.compiled(place, 0);
    if (!place.on_device()) continue;
    for (const int block : settings.blocks) compiled.compiled(place, block);
  }
}

}  // namespace experiments
