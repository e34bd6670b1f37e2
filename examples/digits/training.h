// Training by Adam, with gradients from loopgrad.
#pragma once

#include "examples/digits/dataset.h"
#include "examples/digits/network.h"

#include <functional>
#include <map>
#include <string>

namespace digits {

/// Parameters, or anything of their shape, by name.
using Tensors = std::map<std::string, std::vector<float>>;

struct TrainingOptions {
  lg::Variant variant = lg::Variant::Restructured;
  lg::CompileOptions compile;
  int epochs = 30;
  std::int64_t batch = 32;
  float learning_rate = 0.003f;
  std::uint64_t seed = 1;
};

/// What training tells while it goes on. `fraction` of the epoch is done.
struct Observer {
  std::function<void(int epoch, double fraction)> step;
  std::function<void(int epoch, double mean_loss, double seconds)> epoch;
};

struct Trained {
  Tensors parameters;
  std::vector<double> losses;  // the mean of each epoch
  double seconds = 0;          // in epochs, without compiling
  double compile_ms = 0;
};

Trained train(const Samples& samples, const TrainingOptions& options, const Observer& observer);

/// The share of samples whose highest score is that of the label.
double accuracy(const Samples& samples, const Tensors& parameters, const lg::CompileOptions& options);

}  // namespace digits
