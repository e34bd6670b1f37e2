#include "bench/experiments/network.h"

#include "tools/programs/programs.h"

#include <fmt/format.h>

namespace experiments {
namespace {

constexpr std::int64_t kBatch = 256, kInputs = 784, kClasses = 10;
constexpr int kSteps = 10;
constexpr float kRate = 0.5f;

const std::vector<std::string> kParameters = {"w1", "b1", "w2", "b2", "w3", "b3"};

/// p -= rate d_p, for all parameters.
lg::Program descend() {
  lg::ProgramBuilder p("descend");
  auto in = p.size("in"), hidden1 = p.size("hidden1"), hidden2 = p.size("hidden2"), classes = p.size("classes");
  const std::vector<std::pair<lg::Value, lg::Value>> layers = {{in, hidden1}, {hidden1, hidden2}, {hidden2, classes}};
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const auto& [rows, columns] = layers[k];
    auto w = p.inout<float>(kParameters[2 * k], {rows, columns});
    auto d_w = p.input<float>("d_" + kParameters[2 * k], {rows, columns});
    auto b = p.inout<float>(kParameters[2 * k + 1], {columns});
    auto d_b = p.input<float>("d_" + kParameters[2 * k + 1], {columns});
    for (auto i : p.loop("i", 0, rows))
      for (auto j : p.loop("j", 0, columns)) w(i, j) -= kRate * d_w(i, j);
    for (auto j : p.loop("j", 0, columns)) b(j) -= kRate * d_b(j);
  }
  return p.build();
}

/// Everything compiled for one place; one compilation serves all widths.
struct Network {
  explicit Network(const Place& place)
      : entry(lg::programs::mlp()),
        program(entry.build()),
        gradient(lg::compile_gradient(program, {.wrt = entry.wrt}, place.options)),
        update(lg::compile(update_program, place.options)) {}

  lg::ProgramEntry entry;
  lg::Program program, update_program = descend();
  lg::GradientExecutable gradient;
  lg::Executable update;
};

Json train(const Network& network, const Place& place, std::int64_t width) {
  const lg::Sizes sizes = {
      {"batch", kBatch}, {"in", kInputs}, {"hidden1", width}, {"hidden2", width}, {"classes", kClasses}};
  lg::cli::Arrays initial = lg::cli::make_inputs(network.entry, network.program, sizes, 1);
  initial["d_loss"] = lg::HostArray(lg::ScalarType::F32, {});
  initial["d_loss"].set(0, 1);
  const lg::Gradient& gradient = network.gradient.gradient();
  lg::cli::Buffers buffers({gradient.forward, gradient.backward, network.update_program}, sizes, initial, false);
  buffers.reset();
  const Bound bound(buffers, place, 3);
  const lg::Arguments forward = bound.arguments(0), backward = bound.arguments(1), update = bound.arguments(2);
  lg::Sizes update_sizes = sizes;
  update_sizes.erase("batch");
  auto step = [&] {
    network.gradient.forward(forward, sizes);
    network.gradient.backward(backward, sizes);
    network.update.run(update, update_sizes);
  };
  network.gradient.forward(forward, sizes);
  const double first_loss = bound.first("loss");
  for (int k = 0; k < kSteps; ++k) step();
  network.gradient.forward(forward, sizes);
  const double last_loss = bound.first("loss");
  const double step_ms = milliseconds(place, step);
  return {{"width", width},           {"target", place.name},   {"step_ms", step_ms}, {"steps", kSteps},
          {"first_loss", first_loss}, {"last_loss", last_loss}, {"skipped", nullptr}};
}

}  // namespace

Json train_networks(const Settings& settings, const std::function<void(const std::string&)>& progress) {
  Json rows = Json::array();
  for (const Place& place : settings.places) {
    const Network network(place);
    double last = 0;
    for (const std::int64_t width : settings.widths) {
      progress(fmt::format("network of width {} on {}", width, place.name));
      const double seconds = 4 * last / 1e3;
      if (seconds * kSteps > 3 * settings.most_seconds) {
        rows.push_back({{"width", width},
                        {"target", place.name},
                        {"step_ms", nullptr},
                        {"steps", nullptr},
                        {"first_loss", nullptr},
                        {"last_loss", nullptr},
                        {"skipped", fmt::format("about {:.0f} s a step", seconds)}});
        last *= 4;
        continue;
      }
      rows.push_back(train(network, place, width));
      last = rows.back()["step_ms"].get<double>();
    }
  }
  return rows;
}

void compile_network(const Settings& settings) {
  for (const Place& place : settings.places) Network network(place);
}

}  // namespace experiments
