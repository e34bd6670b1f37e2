// A differentiable renderer that recovers a shape: the corners of a polygon are moved until its picture is a given one.
#include "examples/adam.h"
#include "examples/gallery/picture.h"

#include <loopgrad/loopgrad.h>
#include <loopgrad/small.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace lg = loopgrad;

namespace {

/// How much of a pixel the polygon covers, softly: 1 well inside, 0 well outside, in between near an edge.
lg::Value coverage(lg::ProgramBuilder& p, const lg::ArrayHandle& corner, const lg::Vec<2>& pixel,
                   const lg::Value& softness) {
  auto nearest = p.scalar<double>("nearest", 1e30);  // the squared distance to the outline
  auto crossings = p.scalar<int>("crossings", 0);    // of the outline with the line from the pixel to the right
  for (auto k : p.loop("k", corner.extent(0))) {
    const lg::Vec<2> a = lg::load<2>(corner.row(k)), b = lg::load<2>(corner.row((k + 1) % corner.extent(0)));
    const lg::Vec<2> edge = b - a, from_a = pixel - a;
    const lg::Value along = p.let("along", min(max(dot(from_a, edge) / dot(edge, edge), 0.0), 1.0));
    const lg::Vec<2> away = from_a - along * edge;
    nearest.min_with(dot(away, away));
    const lg::Value beside = (a[1] > pixel[1]) != (b[1] > pixel[1]);
    p.when(beside && from_a[0] < edge[0] * from_a[1] / edge[1], [&] { crossings += 1; });
  }
  auto distance = p.let("distance", sqrt(nearest + 1e-12));
  return sigmoid(lg::select(crossings % 2 == 1, distance, -distance) / softness);
}

/// The picture of a polygon in the unit square, and how far it is from another picture.
lg::Program rendering() {
  lg::ProgramBuilder p("rendering");
  auto size = p.size("size"), corners = p.size("corners");
  auto corner = p.input<double>("corner", {corners, 2});
  auto softness = p.input<double>("softness", {}), stiffness = p.input<double>("stiffness", {});
  auto target = p.input<double>("target", {size, size});
  auto image = p.output<double>("image", {size, size});
  auto loss = p.output<double>("loss", {});
  loss() = 0;
  for (auto [i, j] : p.loop({"i", size}, {"j", size})) {
    const auto place = [&](const lg::Value& k) { return (lg::cast<double>(k) + 0.5) / lg::cast<double>(size); };
    image(i, j) = coverage(p, corner, {place(j), place(i)}, softness());
    auto off = p.let("off", image(i, j) - target(i, j));
    loss() += off * off / lg::cast<double>(size * size);
  }
  for (auto k : p.loop("k", corners)) {  // corners stay apart evenly, and in order
    const lg::Vec<2> step = lg::load<2>(corner.row((k + 1) % corners)) - lg::load<2>(corner.row(k));
    loss() += stiffness() * lg::cast<double>(corners) * dot(step, step);
  }
  return p.build();
}

struct Run {
  std::vector<double> image;
  double loss = 0;
};

/// The picture of a polygon beside a target; with `slope`, also the gradient by its corners.
Run render(lg::GradientExecutable& renderer, const std::vector<double>& corner, const std::vector<double>& target,
           double softness, double stiffness, std::vector<double>* slope) {
  const auto size = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(target.size()))));
  const auto corners = static_cast<std::int64_t>(corner.size() / 2);
  Run run{.image = std::vector<double>(target.size())};
  lg::Arguments arrays = {{"corner", lg::view(corner.data(), {corners, 2})},
                          {"softness", lg::view(&softness, {})},
                          {"stiffness", lg::view(&stiffness, {})},
                          {"target", lg::view(target.data(), {size, size})},
                          {"image", lg::view(run.image.data(), {size, size})},
                          {"loss", lg::view(&run.loss, {})}};
  renderer.forward(arrays);
  if (slope == nullptr) return run;
  const double one = 1;
  arrays["d_loss"] = lg::view(&one, {});
  arrays["d_corner"] = lg::view(slope->data(), {corners, 2});
  renderer.backward(arrays);
  return run;
}

/// A cat's head, which no polygon has made: a disc and two ears, 4 x 4 samples in a pixel.
std::vector<double> cat(std::int64_t size) {
  const auto inside = [](double x, double y) {
    const double side = std::abs(x - 0.5);  // the head is symmetric
    const bool head = std::hypot(side, 1.15 * (y - 0.58)) < 0.3;
    const bool ear = y > 0.16 + 2.2 * (0.22 - side) && y > 0.16 + 4.5 * (side - 0.22) && y < 0.5;
    return head || ear;
  };
  std::vector<double> picture;
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j) {
      double covered = 0;
      for (int s = 0; s < 16; ++s)
        covered += inside((static_cast<double>(j) + (s % 4 + 0.5) / 4) / static_cast<double>(size),
                          (static_cast<double>(i) + (s / 4 + 0.5) / 4) / static_cast<double>(size));
      picture.push_back(covered / 16);
    }
  return picture;
}

/// A small circle that is not where the shape is.
std::vector<double> circle(int corners) {
  std::vector<double> points;
  for (int k = 0; k < corners; ++k) {
    const double angle = 2 * std::acos(-1.0) * k / corners;
    points.insert(points.end(), {0.62 + 0.12 * std::cos(angle), 0.66 + 0.12 * std::sin(angle)});
  }
  return points;
}

void save(const std::vector<double>& image, std::int64_t size, const std::string& path) {
  gallery::Picture(size, size, 1, [&](std::int64_t i, std::int64_t j) {
    return mixed(gallery::kPaper, gallery::kInk, image[static_cast<std::size_t>(i * size + j)]);
  }).save(path);
}

void recover(const std::string& folder) {
  constexpr std::int64_t size = 64, large = 192;  // pixels of a side when fitting, and in the gallery
  constexpr int steps = 300;
  auto renderer = lg::compile_gradient(rendering(), {.wrt = {"corner"}, .of = {"loss"}});
  const std::vector<double> target = cat(size), blank(large * large);
  std::vector<double> corner = circle(64), slope(corner.size());
  const auto picture = [&](const char* name) {
    if (!folder.empty()) save(render(renderer, corner, blank, 0.003, 0, nullptr).image, large, folder + "/" + name);
  };
  picture("shape_before.png");
  const double first = render(renderer, corner, target, 0.01, 0, nullptr).loss;
  examples::Adam<double> adam(corner.size(), 0.004);
  for (int step = 0; step <= steps; ++step) {
    const double softness = 0.01 + 0.05 * std::exp(-step / 60.0);  // far edges are felt first, then near ones sharply
    const double loss = render(renderer, corner, target, softness, 3e-4, &slope).loss;
    if (step % 50 == 0) std::printf("step %3d  loss %.3f\n", step, loss);
    adam.step(corner, slope);
  }
  const double last = render(renderer, corner, target, 0.01, 0, nullptr).loss;
  std::printf("mean squared difference of the pictures: %.3f before, %.3f after\n", first, last);
  picture("shape_after.png");
  if (!folder.empty()) save(cat(large), large, folder + "/shape_target.png");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    recover(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
