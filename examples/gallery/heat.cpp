// Heat source inversion: where and how strongly a plate is heated, from the temperatures at some places at the end.
#include "examples/adam.h"
#include "examples/gallery/picture.h"

#include <loopgrad/loopgrad.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace lg = loopgrad;

namespace {

constexpr std::int64_t kSide = 48, kSteps = 150;  // places of the plate along a side, steps of time
constexpr int kIterations = 300;
constexpr double kSmoothness = 0.02;  // how much edges count

/// A plate with a cold frame, heated by `source` all the time. It conducts heat and radiates it away.
lg::Program plate() {
  lg::ProgramBuilder p("plate");
  auto n = p.size("n"), steps = p.size("steps"), sensors = p.size("sensors");
  auto source = p.input<double>("source", {n, n});
  auto row = p.input<int>("row", {sensors}), column = p.input<int>("column", {sensors});
  auto measured = p.input<double>("measured", {sensors});
  auto smoothness = p.input<double>("smoothness", {});
  auto field = p.output<double>("field", {n, n});  // the temperature at the end
  auto loss = p.output<double>("loss", {});
  p.in_range(row, 0, n);
  p.in_range(column, 0, n);

  auto u = p.ring<double>("u", 2, {n, n});  // u(t) and u(t + 1) take turns
  for (auto [t, i, j] : p.loop({"t", 2}, {"i", n}, {"j", n})) u(t, i, j) = 0;
  for (auto t : p.loop("t", steps))
    for (auto [i, j] : p.loop({"i", 1, n - 1}, {"j", 1, n - 1})) {
      auto here = p.let("here", u(t, i, j));
      auto flow = u(t, i - 1, j) + u(t, i + 1, j) + u(t, i, j - 1) + u(t, i, j + 1) - 4 * here;
      u(t + 1, i, j) = here + 0.2 * flow + 0.1 * (source(i, j) - here * here * here * here);
    }
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) field(i, j) = u(steps, i, j);

  loss() = 0;
  for (auto s : p.loop("s", sensors)) {
    auto off = p.let("off", field(row(s), column(s)) - measured(s));
    loss() += off * off / lg::cast<double>(sensors);
  }
  // Of all sources that explain the measurements, one with few edges: the total variation.
  for (auto [i, j] : p.loop({"i", n - 1}, {"j", n - 1})) {
    auto down = p.let("down", source(i + 1, j) - source(i, j)), right = p.let("right", source(i, j + 1) - source(i, j));
    loss() += smoothness() * sqrt(down * down + right * right + 1e-4) / lg::cast<double>(n * n);
  }
  return p.build();
}

double at(const std::vector<double>& values, std::int64_t i, std::int64_t j) {
  return values[static_cast<std::size_t>(i * kSide + j)];
}

/// A warm disc, a hot square and a bar.
std::vector<double> true_source() {
  std::vector<double> source;
  for (std::int64_t i = 0; i < kSide; ++i)
    for (std::int64_t j = 0; j < kSide; ++j) {
      const bool disc = std::hypot(static_cast<double>(i) - 15, static_cast<double>(j) - 14) < 7.5;
      const bool square = i >= 11 && i < 18 && j >= 30 && j < 37;
      const bool bar = i >= 31 && i < 36 && j >= 9 && j < 39;
      source.push_back(disc ? 0.6 : square ? 1.0 : bar ? 0.8 : 0.0);
    }
  return source;
}

/// Thermometers at every third place in both directions.
struct Sensors {
  std::vector<int> row, column;
  std::vector<double> measured;
  Sensors() {
    for (int i = 1; i < kSide; i += 3)
      for (int j = 1; j < kSide; j += 3) {
        row.push_back(i);
        column.push_back(j);
      }
    measured.resize(row.size());
  }
};

/// The plate after all steps; with `slope`, also the gradient of the loss by the source.
class Plate {
 public:
  explicit Plate(const Sensors& sensors) : sensors_(sensors), field_(kSide * kSide) {}

  double run(const std::vector<double>& source, double smoothness, std::vector<double>* slope = nullptr) {
    double loss = 0;
    const double one = 1;
    const auto count = static_cast<std::int64_t>(sensors_.row.size());
    lg::Arguments arrays = {{"source", lg::view(source.data(), {kSide, kSide})},
                            {"row", lg::versioned(lg::view(sensors_.row.data(), {count}), 1)},
                            {"column", lg::versioned(lg::view(sensors_.column.data(), {count}), 1)},
                            {"measured", lg::view(sensors_.measured.data(), {count})},
                            {"smoothness", lg::view(&smoothness, {})},
                            {"field", lg::view(field_.data(), {kSide, kSide})},
                            {"loss", lg::view(&loss, {})},
                            {"d_loss", lg::view(&one, {})}};
    gradient_.forward(arrays, {{"steps", kSteps}});
    if (slope == nullptr) return loss;
    arrays["d_source"] = lg::view(slope->data(), {kSide, kSide});
    gradient_.backward(arrays, {{"steps", kSteps}});
    return loss;
  }
  const std::vector<double>& field() const { return field_; }

 private:
  lg::GradientExecutable gradient_ = lg::compile_gradient(plate(), {.wrt = {"source"}, .of = {"loss"}});
  const Sensors& sensors_;
  std::vector<double> field_;
};

/// What the thermometers show, each off by half a percent of the largest temperature at most.
void measure(Sensors& sensors, const std::vector<double>& field) {
  std::mt19937 random(1);
  const double largest = *std::max_element(field.begin(), field.end());
  for (std::size_t s = 0; s < sensors.row.size(); ++s) {
    const double noise = static_cast<double>(random()) / 4294967296.0 * 2 - 1;
    sensors.measured[s] = at(field, sensors.row[s], sensors.column[s]) + 0.005 * largest * noise;
  }
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    all += b[i] * b[i];
  }
  return std::sqrt(sum / all);
}

constexpr std::int64_t kScale = 4;

gallery::Picture picture(const std::vector<double>& values, double largest) {
  return {kSide, kSide, kScale,
          [&](std::int64_t i, std::int64_t j) { return gallery::heat_colour(at(values, i, j) / largest); }};
}

void invert(const std::string& folder) {
  const std::vector<double> truth = true_source();
  Sensors sensors;
  Plate plate(sensors);
  plate.run(truth, 0);
  measure(sensors, plate.field());
  gallery::Picture measured = picture(plate.field(), *std::max_element(plate.field().begin(), plate.field().end()));
  for (std::size_t s = 0; s < sensors.row.size(); ++s)
    measured.dot(kScale * (sensors.column[s] + 0.5), kScale * (sensors.row[s] + 0.5), 1, {90, 200, 250});

  std::vector<double> source(truth.size(), 0.0), slope(truth.size());
  const double first = plate.run(source, 0);
  examples::Adam<double> adam(source.size(), 0.15);
  for (int iteration = 0; iteration <= kIterations; ++iteration) {
    const double loss = plate.run(source, kSmoothness, &slope);
    if (iteration % 50 == 0)
      std::printf("iteration %3d  loss %.4f  source off by %3.0f %%\n", iteration, loss, 100 * distance(source, truth));
    adam.step(source, slope);
    for (double& value : source) value = std::max(value, 0.0);  // nothing cools the plate but its frame
  }
  std::printf("mean squared error at the sensors: %.2f before, %.5f after\n", first, plate.run(source, 0));
  std::printf("the true source has a loss of %.4f\n", plate.run(truth, kSmoothness));
  if (!folder.empty()) {
    picture(truth, 1).save(folder + "/heat_true.png");
    picture(source, 1).save(folder + "/heat_recovered.png");
    measured.save(folder + "/heat_measured.png");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    invert(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
