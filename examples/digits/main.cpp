// Trains a three-layer network on handwritten digits.
//
//   digits [--variant V] [--threads N] [--epochs N] [--target T]    one run
//   digits --all                                                    each variant, and restructured on 1 and 2 threads
//
// Exit status 1: less than 95 % of the test digits were recognised, or 1 and 2 threads gave different weights.
#include "examples/digits/training.h"
#include "tools/support/progress.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <stdexcept>

namespace {

using digits::lg::Target;
using digits::lg::Variant;

constexpr double kGoodAccuracy = 0.95;

struct Options {
  digits::TrainingOptions training;
  std::string data = LOOPGRAD_DIGITS_DATA;
  bool all = false;
};

std::uint64_t hash_of(const digits::Tensors& parameters) {
  std::uint64_t hash = 0;
  for (const auto& [name, values] : parameters)
    hash = XXH3_64bits_withSeed(values.data(), values.size() * sizeof(float), hash);
  return hash;
}

struct Result {
  std::string label;
  double first_loss = 0, last_loss = 0, accuracy = 0, ms_per_epoch = 0;
  std::uint64_t hash = 0;
};

Result run(const digits::Dataset& data, const digits::TrainingOptions& options, bool every_epoch) {
  loopgrad::tools::Progress progress(options.epochs);
  digits::Observer observer;
  observer.step = [&](int epoch, double fraction) {
    progress.show(epoch - 1 + fraction, fmt::format("epoch {}/{}", epoch, options.epochs));
  };
  observer.epoch = [&](int epoch, double loss, double seconds) {
    progress.clear();
    if (every_epoch) fmt::print("epoch {:3}  loss {:.4f}  {:.1f} ms\n", epoch, loss, 1e3 * seconds);
  };
  digits::Trained trained = digits::train(data.train, options, observer);
  return {fmt::format("{} {} thread{}", name_of(options.variant),
                      options.compile.threads ? std::to_string(options.compile.threads) : "default",
                      options.compile.threads == 1 ? "" : "s"),
          trained.losses.front(),
          trained.losses.back(),
          digits::accuracy(data.test, trained.parameters, options.compile),
          1e3 * trained.seconds / options.epochs,
          hash_of(trained.parameters)};
}

void print(const Result& r) {
  fmt::print("{:<24} loss {:.4f} -> {:.4f}  test accuracy {:.2f} %  {:.1f} ms per epoch  weights {:016x}\n", r.label,
             r.first_loss, r.last_loss, 100 * r.accuracy, r.ms_per_epoch, r.hash);
}

bool good(const Result& r) {
  if (r.accuracy >= kGoodAccuracy && r.last_loss < r.first_loss) return true;
  fmt::print(stderr, "error: {}: the loss did not go down, or the accuracy is below 95 %\n", r.label);
  return false;
}

int run_all(const digits::Dataset& data, digits::TrainingOptions options) {
  bool ok = true;
  std::optional<std::uint64_t> one_thread;
  for (auto [variant, threads] : {std::pair{Variant::NaiveTape, 1},
                                  {Variant::Atomic, 2},
                                  {Variant::Restructured, 1},
                                  {Variant::Restructured, 2}}) {
    options.variant = variant;
    options.compile.threads = threads;
    const Result result = run(data, options, false);
    print(result);
    ok = good(result) && ok;
    if (variant != Variant::Restructured) continue;
    if (one_thread && *one_thread != result.hash) {
      fmt::print(stderr, "error: 1 and 2 threads gave different weights\n");
      ok = false;
    }
    one_thread = result.hash;
  }
  if (ok) fmt::print("restructured: the same bits with 1 and 2 threads\n");
  return ok ? 0 : 1;
}

/// Fills in the options; a number is the exit status of a mistake, or of --help.
std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app{"Trains a three-layer network on handwritten digits"};
  const std::map<std::string, Variant> variants = {
      {"naive-tape", Variant::NaiveTape}, {"atomic", Variant::Atomic}, {"restructured", Variant::Restructured}};
  const std::map<std::string, Target> targets = {{"interpreter", Target::Interpreter}, {"openmp", Target::OpenMP}};
  digits::TrainingOptions& training = options.training;
  app.add_option("--variant", training.variant, "naive-tape, atomic or restructured")
      ->transform(CLI::CheckedTransformer(variants));
  app.add_option("--target", training.compile.target, "interpreter or openmp")
      ->transform(CLI::CheckedTransformer(targets));
  app.add_option("--threads", training.compile.threads, "OpenMP threads (0: the default)")->check(CLI::Range(0, 1024));
  app.add_option("--epochs", training.epochs, "passes over the training set")->check(CLI::Range(1, 10000));
  app.add_option("--batch", training.batch, "samples in a minibatch")->check(CLI::Range(1, 10000));
  app.add_option("--seed", training.seed, "of the split, the weights and the order");
  app.add_option("--data", options.data, "the gzipped CSV file");
  app.add_flag("--all", options.all, "run each variant, and restructured on 1 and 2 threads");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (auto status = parse(argc, argv, options)) return *status;
  try {
    const digits::Dataset data = digits::load(options.data, options.training.seed);
    fmt::print("{} digits to train on, {} to test on\n", data.train.count(), data.test.count());
    if (options.all) return run_all(data, options.training);
    const Result result = run(data, options.training, true);
    print(result);
    return good(result) ? 0 : 1;
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
