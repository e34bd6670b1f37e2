#include "examples/digits/training.h"

#include "examples/adam.h"
#include "tools/support/random.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace digits {
namespace {

using loopgrad::tools::Random;

lg::View parameter_view(const std::string& name, const std::vector<float>& values) {
  const std::size_t layer = static_cast<std::size_t>(name[1] - '1');
  if (name[0] == 'b') return lg::view(values.data(), {kLayers[layer + 1]});
  return lg::view(values.data(), {kLayers[layer], kLayers[layer + 1]});
}

/// Weights uniform with He's spread, biases zero.
Tensors initial_parameters(Random& random) {
  Tensors parameters;
  for (std::size_t layer = 0; layer < 3; ++layer) {
    const double spread = std::sqrt(6.0 / static_cast<double>(kLayers[layer]));
    std::vector<float>& w = parameters[kParameters[2 * layer]];
    w.resize(static_cast<std::size_t>(kLayers[layer] * kLayers[layer + 1]));
    for (float& value : w) value = static_cast<float>(random.uniform(-spread, spread));
    parameters[kParameters[2 * layer + 1]].assign(static_cast<std::size_t>(kLayers[layer + 1]), 0.0f);
  }
  return parameters;
}

/// One minibatch after another, in an order that changes from epoch to epoch.
class Batches {
 public:
  Batches(const Samples& samples, std::int64_t size, Random& random)
      : samples_(samples), size_(size), random_(random), order_(samples.labels.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  void shuffle() {
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
  }
  std::int64_t count() const { return (samples_.count() + size_ - 1) / size_; }
  Samples at(std::int64_t batch) const {
    Samples out;
    for (std::int64_t i = batch * size_; i < std::min((batch + 1) * size_, samples_.count()); ++i) {
      const std::size_t from = order_[static_cast<std::size_t>(i)];
      const auto pixels = samples_.pixels.begin() + static_cast<std::ptrdiff_t>(from * kPixels);
      out.pixels.insert(out.pixels.end(), pixels, pixels + kPixels);
      out.labels.push_back(samples_.labels[from]);
    }
    return out;
  }

 private:
  const Samples& samples_;
  std::int64_t size_;
  Random& random_;
  std::vector<std::size_t> order_;
};

lg::Arguments primal_arguments(const Samples& batch, const Tensors& parameters) {
  lg::Arguments arguments = {{"x", lg::view(batch.pixels.data(), {batch.count(), kPixels})}};
  for (const auto& [name, values] : parameters) arguments[name] = parameter_view(name, values);
  return arguments;
}

}  // namespace

Trained train(const Samples& samples, const TrainingOptions& options, const Observer& observer) {
  lg::GradientExecutable gradient =
      lg::compile_gradient(loss(), {.wrt = kParameters, .variant = options.variant}, options.compile);
  Random random(options.seed);
  Trained result{.parameters = initial_parameters(random), .losses = {}};
  result.compile_ms = gradient.build_ms();
  Tensors slope = result.parameters;
  std::map<std::string, examples::Adam<float>> adam;
  for (const auto& [name, values] : result.parameters)
    adam.emplace(name, examples::Adam<float>(values.size(), options.learning_rate));
  Batches batches(samples, options.batch, random);
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    double total = 0;
    batches.shuffle();
    for (std::int64_t b = 0; b < batches.count(); ++b) {
      observer.step(epoch, static_cast<double>(b) / static_cast<double>(batches.count()));
      const Samples batch = batches.at(b);
      float loss_value = 0, incoming = 1;
      lg::Arguments arguments = primal_arguments(batch, result.parameters);
      arguments["label"] = lg::view(batch.labels.data(), {batch.count()});
      arguments["loss"] = lg::view(&loss_value, {});
      gradient.forward(arguments);
      arguments["d_loss"] = lg::view(&incoming, {});
      for (auto& [name, values] : slope) arguments["d_" + name] = parameter_view(name, values);
      gradient.backward(arguments);
      for (auto& [name, values] : result.parameters) adam.at(name).step(values, slope[name]);
      total += loss_value * static_cast<double>(batch.count());
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.losses.push_back(total / static_cast<double>(samples.count()));
    result.seconds += seconds;
    observer.epoch(epoch, result.losses.back(), seconds);
  }
  return result;
}

double accuracy(const Samples& samples, const Tensors& parameters, const lg::CompileOptions& options) {
  std::vector<float> score(static_cast<std::size_t>(samples.count() * kClasses));
  lg::Arguments arguments = primal_arguments(samples, parameters);
  arguments["score"] = lg::view(score.data(), {samples.count(), kClasses});
  lg::compile(scores(), options).run(arguments);
  std::int64_t right = 0;
  for (std::int64_t s = 0; s < samples.count(); ++s) {
    const auto row = score.begin() + static_cast<std::ptrdiff_t>(s * kClasses);
    right += std::max_element(row, row + kClasses) - row == samples.labels[static_cast<std::size_t>(s)];
  }
  return static_cast<double>(right) / static_cast<double>(samples.count());
}

}  // namespace digits
