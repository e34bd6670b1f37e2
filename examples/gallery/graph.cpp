// A graph network on the handwritten digits: each digit hears from those that look like it. Few of them are labelled.
#include "examples/adam.h"
#include "examples/digits/dataset.h"
#include "examples/gallery/picture.h"

#include <loopgrad/loopgrad.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lg = loopgrad;

namespace {

constexpr std::int64_t kHidden = 32, kNeighbours = 5, kLabelled = 100;
constexpr int kEpochs = 100;

/// Edges first(v), ..., first(v + 1) - 1 go into node v, from these nodes.
struct Edges {
  lg::ArrayHandle first, from;
};

/// out(v) = m(v) w + b, where m(v) is the mean of what `in` holds for v and for its neighbours.
void layer(lg::ProgramBuilder& p, const Edges& edges, const lg::ArrayHandle& in, const lg::ArrayHandle& w,
           const lg::ArrayHandle& b, const lg::ArrayHandle& out) {
  auto mean = p.local<double>("mean", {in.extent(0), in.extent(1)});
  for (auto v : p.loop("v", in.extent(0))) {
    for (auto c : p.loop("c", in.extent(1))) mean(v, c) = in(v, c);
    for (auto e : p.loop("e", edges.first(v), edges.first(v + 1)))
      for (auto c : p.loop("c", in.extent(1))) mean(v, c) += in(edges.from(e), c);
    auto heard = p.let("heard", lg::cast<double>(1 + edges.first(v + 1) - edges.first(v)));
    for (auto j : p.loop("j", w.extent(1))) {
      auto sum = p.scalar<double>("sum", 0);
      for (auto c : p.loop("c", w.extent(0))) sum += mean(v, c) * w(c, j);
      out(v, j) = sum / heard + b(j);
    }
  }
}

/// Two layers of messages, and the cross-entropy of those nodes whose label is known.
lg::Program network() {
  lg::ProgramBuilder p("network");
  auto nodes = p.size("nodes"), edges = p.size("edges"), labelled = p.size("labelled");
  auto x = p.input<double>("x", {nodes, digits::kPixels});
  const Edges graph = {p.input<std::int64_t>("first", {nodes + 1}), p.input<int>("from", {edges})};
  auto known = p.input<int>("known", {labelled}), label = p.input<int>("label", {labelled});
  auto w1 = p.input<double>("w1", {digits::kPixels, kHidden}), b1 = p.input<double>("b1", {kHidden});
  auto w2 = p.input<double>("w2", {kHidden, digits::kClasses}), b2 = p.input<double>("b2", {digits::kClasses});
  auto score = p.output<double>("score", {nodes, digits::kClasses});
  auto loss = p.output<double>("loss", {});
  p.csr(graph.first, edges);
  p.in_range(graph.from, 0, nodes);
  p.in_range(known, 0, nodes);
  p.injective(known);  // no node is named twice
  p.in_range(label, 0, digits::kClasses);

  auto hidden = p.local<double>("hidden", {nodes, kHidden});
  layer(p, graph, x, w1, b1, hidden);
  for (auto [v, j] : p.loop({"v", nodes}, {"j", kHidden})) hidden(v, j) = max(0.0, hidden(v, j));
  layer(p, graph, hidden, w2, b2, score);

  loss() = 0;
  for (auto s : p.loop("s", labelled)) {
    auto largest = p.scalar<double>("largest", -1e30), sum = p.scalar<double>("sum", 0);
    for (auto c : p.loop("c", digits::kClasses)) largest.max_with(score(known(s), c));
    for (auto c : p.loop("c", digits::kClasses)) sum += exp(score(known(s), c) - largest);
    loss() += (log(sum) + largest - score(known(s), label(s))) / lg::cast<double>(labelled);
  }
  return p.build();
}

struct Graph {
  std::vector<std::int64_t> first = {0};
  std::vector<int> from;
};

/// The digits in an order that is random and always the same, each with its label.
digits::Samples all_digits() {
  auto [all, others] = digits::load(LOOPGRAD_DIGITS_DATA, 1);
  all.pixels.insert(all.pixels.end(), others.pixels.begin(), others.pixels.end());
  all.labels.insert(all.labels.end(), others.labels.begin(), others.labels.end());
  return all;
}

double squared_distance(const digits::Samples& samples, std::int64_t a, std::int64_t b) {
  double sum = 0;
  for (std::int64_t k = 0; k < digits::kPixels; ++k) {
    const double d = samples.pixels[static_cast<std::size_t>(a * digits::kPixels + k)] -
                     samples.pixels[static_cast<std::size_t>(b * digits::kPixels + k)];
    sum += d * d;
  }
  return sum;
}

/// Edges in both directions between each digit and those that look most like it.
Graph neighbours(const digits::Samples& samples) {
  const int count = static_cast<int>(samples.count());
  std::vector<std::set<int>> into(samples.labels.size());
  std::vector<std::pair<double, int>> others;
  for (int v = 0; v < count; ++v) {
    others.clear();
    for (int u = 0; u < count; ++u)
      if (u != v) others.emplace_back(squared_distance(samples, u, v), u);
    std::partial_sort(others.begin(), others.begin() + kNeighbours, others.end());
    for (std::size_t k = 0; k < kNeighbours; ++k) {
      into[static_cast<std::size_t>(v)].insert(others[k].second);
      into[static_cast<std::size_t>(others[k].second)].insert(v);
    }
  }
  Graph graph;
  for (const std::set<int>& nodes : into) {
    graph.from.insert(graph.from.end(), nodes.begin(), nodes.end());
    graph.first.push_back(static_cast<std::int64_t>(graph.from.size()));
  }
  return graph;
}

/// A parameter, its gradient, and what moves it.
struct Parameter {
  std::vector<std::int64_t> shape;
  std::vector<double> values, slope = values;
  examples::Adam<double> adam{values.size(), 0.02};
};

std::map<std::string, Parameter> initial_parameters() {
  std::mt19937 random(1);
  const auto uniform = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    for (double& v : values)
      v = (static_cast<double>(random()) / 2147483648.0 - 1) * std::sqrt(6.0 / static_cast<double>(rows));
    return Parameter{{rows, columns}, values};
  };
  const auto zero = [](std::int64_t size) {
    return Parameter{{size}, std::vector<double>(static_cast<std::size_t>(size))};
  };
  return {{"w1", uniform(digits::kPixels, kHidden)},
          {"b1", zero(kHidden)},
          {"w2", uniform(kHidden, digits::kClasses)},
          {"b2", zero(digits::kClasses)}};
}

/// The digits, of which the first `kLabelled` are labelled, their graph, and what the network says.
struct Nodes {
  const digits::Samples& samples;
  Graph graph;
  std::vector<double> x{samples.pixels.begin(), samples.pixels.end()};
  std::vector<double> score = std::vector<double>(samples.labels.size() * digits::kClasses);

  double largest(std::size_t node) const {
    const auto row = score.begin() + static_cast<std::ptrdiff_t>(node * digits::kClasses);
    return *std::max_element(row, row + digits::kClasses);
  }
  /// The share of unlabelled digits that are recognised.
  double accuracy() const {
    double right = 0;
    for (std::size_t v = kLabelled; v < samples.labels.size(); ++v)
      right += score[v * digits::kClasses + static_cast<std::size_t>(samples.labels[v])] == largest(v);
    return right / static_cast<double>(samples.labels.size() - kLabelled);
  }
  /// Each digit between ten corners, near those that get high scores; its colour says which one would be right.
  void save(const std::string& path) const {
    static constexpr gallery::Colour colours[] = {{31, 119, 180},  {255, 127, 14}, {44, 160, 44},   {214, 39, 40},
                                                  {148, 103, 189}, {140, 86, 75},  {227, 119, 194}, {90, 90, 90},
                                                  {188, 189, 34},  {23, 190, 207}};
    gallery::Picture picture(256, 256, gallery::kPaper);
    for (std::size_t v = 0; v < samples.labels.size(); ++v) {
      double across = 0, down = 0, sum = 0;
      for (std::size_t c = 0; c < digits::kClasses; ++c) {
        const double share = std::exp((score[v * digits::kClasses + c] - largest(v)) / 3),
                     angle = std::acos(-1.0) * static_cast<double>(c) / 5;
        across += share * std::sin(angle);
        down -= share * std::cos(angle);
        sum += share;
      }
      picture.dot(std::round(128 + 120 * across / sum), std::round(128 + 120 * down / sum), 1.5,
                  colours[samples.labels[v]]);
    }
    picture.save(path);
  }
};

/// Trains a network, whose picture `before` is saved as well.
void train(lg::GradientExecutable& gradient, Nodes& nodes, const std::string& before) {
  const std::int64_t count = nodes.samples.count(), edges = nodes.graph.first.back();
  std::vector<int> known(kLabelled);
  std::iota(known.begin(), known.end(), 0);
  double loss = 0;
  const double one = 1;
  lg::Arguments arrays = {{"x", lg::view(nodes.x.data(), {count, digits::kPixels})},
                          {"first", lg::versioned(lg::view(nodes.graph.first.data(), {count + 1}), 1)},
                          {"from", lg::versioned(lg::view(nodes.graph.from.data(), {edges}), 1)},
                          {"known", lg::view(known.data(), {kLabelled})},
                          {"label", lg::view(nodes.samples.labels.data(), {kLabelled})},
                          {"score", lg::view(nodes.score.data(), {count, digits::kClasses})},
                          {"loss", lg::view(&loss, {})},
                          {"d_loss", lg::view(&one, {})}};
  std::map<std::string, Parameter> parameters = initial_parameters();
  for (auto& [name, parameter] : parameters) {
    arrays[name] = lg::view(parameter.values.data(), parameter.shape);
    arrays["d_" + name] = lg::view(parameter.slope.data(), parameter.shape);
  }
  for (int epoch = 0; epoch <= kEpochs; ++epoch) {
    gradient.forward(arrays);
    if (epoch == 0 && !before.empty()) nodes.save(before);
    if (epoch % 20 == 0)
      std::printf("epoch %3d  loss %.4f  %.1f %% of the others recognised\n", epoch, loss, 100 * nodes.accuracy());
    gradient.backward(arrays);
    for (auto& [name, parameter] : parameters) parameter.adam.step(parameter.values, parameter.slope);
  }
}

void compare(const std::string& folder) {
  const digits::Samples all = all_digits();
  auto gradient = lg::compile_gradient(network(), {.wrt = {"w1", "b1", "w2", "b2"}, .of = {"loss"}});
  Nodes alone{.samples = all, .graph = {.first = std::vector<std::int64_t>(all.labels.size() + 1), .from = {}}};
  Nodes connected{.samples = all, .graph = neighbours(all)};
  std::printf("%zu digits, %lld labelled\n\nwithout edges\n", all.labels.size(), static_cast<long long>(kLabelled));
  train(gradient, alone, "");
  std::printf("\nwith %zu edges\n", connected.graph.from.size());
  train(gradient, connected, folder.empty() ? "" : folder + "/graph_before.png");
  if (folder.empty()) return;
  alone.save(folder + "/graph_alone.png");
  connected.save(folder + "/graph_after.png");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    compare(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
