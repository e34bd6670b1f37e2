#include "bench/adbench/gradbench.h"

#include "bench/adbench/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <functional>
#include <stdexcept>

namespace adbench {
namespace {

using Json = nlohmann::json;
using experiments::Place;

/// What a module makes of an input: something to run, and its results as GradBench has them.
struct Prepared {
  std::unique_ptr<Problem> problem;
  std::function<Json(const Result&)> objective, jacobian;
};

/// Rows of a matrix one after the other, the first `kept` elements of each (0: all, of equal length).
template <class T>
std::vector<T> flat(const Json& matrix, std::size_t kept = 0) {
  std::vector<T> all;
  std::size_t length = 0;
  for (const Json& row : matrix) {
    const auto elements = row.get<std::vector<T>>();
    if (&row == &matrix.front()) length = elements.size();
    if (elements.size() != length || length < kept) throw std::runtime_error("the rows of a matrix differ in length");
    all.insert(all.end(), elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(kept ? kept : length));
  }
  return all;
}

/// So many rows of equal length, from some place of `numbers` on.
Json rows_of(const Numbers& numbers, std::size_t first, std::size_t count, std::size_t stride, std::size_t length) {
  Json rows = Json::array();
  for (std::size_t k = 0; k < count; ++k) {
    const auto row = numbers.begin() + static_cast<std::ptrdiff_t>(first + k * stride);
    rows.push_back(Numbers(row, row + static_cast<std::ptrdiff_t>(length)));
  }
  return rows;
}

Json first_of(const Numbers& numbers) { return numbers.at(0); }

void expect_size(std::size_t size, std::int64_t expected, const char* what) {
  if (static_cast<std::int64_t>(size) != expected)
    throw std::runtime_error(fmt::format("'{}' has {} numbers where {} are expected", what, size, expected));
}

Prepared gmm(const Json& input, const Place& place) {
  Gmm g;
  g.d = input.at("d"), g.k = input.at("k"), g.n = input.at("n");
  g.alphas = input.at("alpha").get<Numbers>(), g.means = flat<double>(input.at("mu")),
  g.x = flat<double>(input.at("x"));
  const Numbers q = flat<double>(input.at("q")), l = flat<double>(input.at("l"));
  const auto d = static_cast<std::size_t>(g.d), k = static_cast<std::size_t>(g.k), below = d * (d - 1) / 2;
  expect_size(g.alphas.size(), g.k, "alpha");
  expect_size(g.means.size(), g.k * g.d, "mu");
  expect_size(q.size(), g.k * g.d, "q");
  expect_size(l.size(), g.k * static_cast<std::int64_t>(below), "l");
  expect_size(g.x.size(), g.n * g.d, "x");
  for (std::size_t c = 0; c < k; ++c) {
    const auto part = [&](const Numbers& of, std::size_t length) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(c * length);
      g.icf.insert(g.icf.end(), first, first + static_cast<std::ptrdiff_t>(length));
    };
    part(q, d), part(l, below);
  }
  g.gamma = input.at("gamma"), g.m = input.at("m");
  const auto jacobian = [k, d, below](const Result& result) {
    const Numbers& all = result.jacobian;
    const std::size_t icf = k + k * d;
    return Json{{"alpha", Numbers(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k))},
                {"mu", rows_of(all, k, k, d, d)},
                {"q", rows_of(all, icf, k, d + below, d)},
                {"l", rows_of(all, icf + d, k, d + below, below)}};
  };
  return {make_problem(g, place, Prior::GradBench), [](const Result& r) { return first_of(r.objective); }, jacobian};
}

/// Results are the same for all observations, and told once.
Prepared ba(const Json& input, const Place& place) {
  Ba b;
  b.n = input.at("n"), b.m = input.at("m"), b.p = input.at("p");
  b.cameras = input.at("cam").get<Numbers>(), b.points = input.at("x").get<Numbers>();
  b.weights = {input.at("w").get<double>()}, b.features = input.at("feat").get<Numbers>();
  if (b.n < 1 || b.m < 1 || b.p < 10) throw std::runtime_error("a camera, a point and ten observations are expected");
  expect_size(b.cameras.size(), kCameraParameters, "cam");
  expect_size(b.points.size(), 3, "x");
  expect_size(b.features.size(), 2, "feat");
  b.replicate();
  const auto objective = [p = b.p](const Result& result) {
    const Numbers& all = result.objective;
    return Json{{"reproj_error", {{"elements", {all.at(0), all.at(1)}}, {"repeated", p}}},
                {"w_err", {{"element", all.back()}, {"repeated", p}}}};
  };
  const auto jacobian = [structure = structure_of(b)](const Result& result) {
    // As many as there are derivatives of the first observation, and the last one.
    const auto told = [](const auto& of) {
      auto some = std::vector(of.begin(), of.begin() + 2 * (kCameraParameters + 4));
      some.push_back(of.back());
      return some;
    };
    return Json{
        {"rows", told(structure.row_starts)}, {"cols", told(structure.column_of)}, {"vals", told(result.jacobian)}};
  };
  return {make_problem(b, place), objective, jacobian};
}

Numbers affine_maps(const Json& matrices) {
  Numbers all;
  for (const Json& matrix : matrices) {
    const Numbers elements = flat<double>(matrix);
    expect_size(elements.size(), 16, "a matrix of a bone");
    if (!append_affine(elements, all)) throw std::runtime_error("the last row of a bone's matrix is not 0 0 0 1");
  }
  return all;
}

Prepared ht(const Json& input, const Place& place) {
  const Json &data = input.at("data"), &model = data.at("model");
  Hand h;
  h.bone_names = model.at("bone_names").get<std::vector<std::string>>();
  h.parents = model.at("parents").get<Integers>();
  h.base_relatives = affine_maps(model.at("base_relatives"));
  h.inverse_absolutes = affine_maps(model.at("inverse_base_absolutes"));
  h.base_positions = flat<double>(model.at("base_positions"), 3);  // the fourth is 1
  h.weights = flat<double>(model.at("weights"));
  h.triangles = flat<int>(model.at("triangles"));
  h.mirrored = model.at("is_mirrored");
  h.correspondences = data.at("correspondences").get<Integers>();
  h.points = flat<double>(data.at("points"));
  if (input.contains("us")) h.us = flat<double>(input.at("us"));
  h.theta = input.at("theta").get<Numbers>();
  check(h, "hand");
  const std::size_t columns = h.theta.size() + (h.complicated() ? 2 : 0), rows = 3 * h.correspondences.size();
  return {make_problem(h, place), [](const Result& result) { return Json(result.objective); },
          [=](const Result& result) { return rows_of(result.jacobian, 0, rows, columns, columns); }};
}

Prepared lstm(const Json& input, const Place& place) {
  Lstm l;
  const Json& main = input.at("main_params");
  l.main = flat<double>(main), l.extra = flat<double>(input.at("extra_params"));
  l.state = flat<double>(input.at("state")), l.sequence = flat<double>(input.at("sequence"));
  l.l = static_cast<std::int64_t>(main.size() / 2), l.c = static_cast<std::int64_t>(input.at("sequence").size());
  l.b = static_cast<std::int64_t>(l.extra.size() / 3);
  if (l.l < 1 || l.c < 2 || l.b < 1) throw std::runtime_error("there is no layer, bit or second character");
  expect_size(l.main.size(), l.l * 8 * l.b, "main_params");
  expect_size(l.extra.size(), 3 * l.b, "extra_params");
  expect_size(l.state.size(), l.l * 2 * l.b, "state");
  expect_size(l.sequence.size(), l.c * l.b, "sequence");
  return {make_problem(l, place), [](const Result& result) { return first_of(result.objective); },
          [](const Result& result) { return Json(result.jacobian); }};
}

/// x^2, whose derivative the module calls "double".
Prepared hello(const Json& input, const Place& place) {
  return {make_square(input.get<double>(), place), [](const Result& result) { return first_of(result.objective); },
          [](const Result& result) { return first_of(result.jacobian); }};
}

struct Module {
  const char *name, *objective, *jacobian;
  Prepared (*prepare)(const Json& input, const Place& place);
};
constexpr Module modules[] = {{"hello", "square", "double", hello},
                              {"gmm", "objective", "jacobian", gmm},
                              {"ba", "objective", "jacobian", ba},
                              {"ht", "objective", "jacobian", ht},
                              {"lstm", "objective", "jacobian", lstm}};

const Module& module_of(const std::string& name) {
  for (const Module& module : modules)
    if (module.name == name) return module;
  throw std::runtime_error(fmt::format("there is no module '{}'", name));
}

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

Json timing(const char* name, std::int64_t nanoseconds) { return {{"name", name}, {"nanoseconds", nanoseconds}}; }

}  // namespace

GradBench::GradBench(const std::string& target) : target_(target), place_(place_of(target)) {}

Json GradBench::evaluated(const Json& message) const {
  const Module& module = module_of(message.at("module"));
  const std::string function = message.at("function");
  const bool of_jacobian = function == module.jacobian;
  if (!of_jacobian && function != module.objective)
    throw std::runtime_error(fmt::format("module '{}' has no function '{}'", module.name, function));
  const Json& input = message.at("input");
  const bool has_runs = input.is_object();
  const int least_runs = has_runs ? input.value("min_runs", 1) : 1;
  const double least_seconds = has_runs ? input.value("min_seconds", 0.0) : 0;

  const Clock::time_point start = Clock::now();
  const Prepared prepared = module.prepare(input, place_);
  Json timings = {timing("prepare", nanoseconds_since(start))};
  double seconds = 0;
  for (int run = 0; run < std::max(least_runs, 1) || seconds < least_seconds; ++run) {
    const Clock::time_point begin = Clock::now();
    if (of_jacobian) prepared.problem->jacobian();
    else prepared.problem->objective();
    const std::int64_t taken = nanoseconds_since(begin);
    timings.push_back(timing("evaluate", taken));
    seconds += static_cast<double>(taken) * 1e-9;
  }
  const Result result = prepared.problem->result();
  return {{"success", true},
          {"output", of_jacobian ? prepared.jacobian(result) : prepared.objective(result)},
          {"timings", std::move(timings)}};
}

Json GradBench::answer(const Json& message) const {
  Json answer = {{"id", message.at("id")}};
  const std::string kind = message.at("kind");
  try {
    if (kind == "start") answer.update({{"tool", "loopgrad"}, {"config", {{"target", target_}}}});
    if (kind == "define") module_of(message.at("module")), answer["success"] = true;
    if (kind == "evaluate") answer.update(evaluated(message));
  } catch (const std::exception& error) {
    answer.update({{"success", false}, {"error", error.what()}});
  }
  return answer;
}

}  // namespace adbench
