#include "bench/adbench/problem.h"

#include "bench/adbench/programs.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace adbench {

using experiments::Place;
using lg::cli::Arrays;

namespace {

lg::HostArray array_of(const Numbers& values, std::vector<std::int64_t> shape) {
  lg::HostArray array(lg::ScalarType::F64, std::move(shape));
  std::copy(values.begin(), values.end(), array.as<double>());
  return array;
}

lg::HostArray array_of(const Integers& values, std::vector<std::int64_t> shape) {
  lg::HostArray array(lg::ScalarType::I32, std::move(shape));
  std::copy(values.begin(), values.end(), array.as<int>());
  return array;
}

lg::HostArray array_of(double value) { return array_of(Numbers{value}, {}); }

/// What the kinds of problems share: an objective and other programs on the same arrays, inputs of integers unchanged.
class Running : public Problem {
 public:
  Running(const lg::Program& objective, std::vector<lg::Program> derivatives, const Place& place, lg::Sizes sizes,
          Arrays arrays, std::vector<std::string> of)
      : place_(options_of(place, sizes)),
        sizes_(std::move(sizes)),
        objective_(lg::compile(objective, place_.options)),
        programs_(all_of(objective, std::move(derivatives))),
        buffers_(programs_, sizes_, std::move(arrays), false),
        of_(std::move(of)) {
    buffers_.reset();
    bound_.emplace(buffers_, place_, programs_.size());
    arguments_ = arguments(0);
  }
  void objective() override {
    objective_.run(arguments_, sizes_);
    wait();
  }

 protected:
  lg::Arguments arguments(std::size_t program) const {
    return lg::cli::with_versions(bound_->arguments(program), programs_[program]);
  }
  void wait() const {
    if (place_.on_device()) lg::cuda_synchronize();
  }
  void append(const std::string& name, Numbers& to) const {
    const lg::HostArray& array = buffers_.at(name);
    to.insert(to.end(), array.as<double>(), array.as<double>() + array.size());
  }
  Numbers objective_result() const {
    bound_->download();
    Numbers all;
    for (const std::string& name : of_) append(name, all);
    return all;
  }
  const Place& place() const { return place_; }
  const lg::Sizes& sizes() const { return sizes_; }

 private:
  static Place options_of(Place place, const lg::Sizes& sizes) {
    place.options.expected_sizes = sizes;
    return place;
  }
  static std::vector<lg::Program> all_of(const lg::Program& first, std::vector<lg::Program> others) {
    others.insert(others.begin(), first);
    return others;
  }
  Place place_;
  lg::Sizes sizes_;
  lg::Executable objective_;
  std::vector<lg::Program> programs_;
  lg::cli::Buffers buffers_;
  std::vector<std::string> of_;
  std::optional<experiments::Bound> bound_;  // once the buffers have their contents
  lg::Arguments arguments_;
};

/// One number, by reverse mode.
class Scalar : public Running {
 public:
  Scalar(const lg::Program& program, const std::string& of, std::vector<std::string> wrt, const Place& place,
         const lg::Sizes& sizes, Arrays arrays)
      : Scalar(program, lg::differentiate(program, {.wrt = wrt}), of, wrt, place, sizes, std::move(arrays)) {}
  void jacobian() override {
    executable_.forward(forward_, sizes());
    executable_.backward(backward_, sizes());
    wait();
  }
  Result result() override {
    Result all{objective_result(), {}};
    for (const std::string& name : wrt_) append("d_" + name, all.jacobian);
    return all;
  }

 private:
  Scalar(const lg::Program& program, const lg::Gradient& gradient, const std::string& of, std::vector<std::string> wrt,
         const Place& place, const lg::Sizes& sizes, Arrays arrays)
      : Running(program, {gradient.forward, gradient.backward}, place, sizes, with_incoming(std::move(arrays), of),
                {of}),
        executable_(lg::compile(gradient, this->place().options)),
        wrt_(std::move(wrt)) {
    forward_ = arguments(1), backward_ = arguments(2);
  }
  static Arrays with_incoming(Arrays arrays, const std::string& of) {
    arrays["d_" + of] = array_of(1.0);
    return arrays;
  }
  lg::GradientExecutable executable_;
  std::vector<std::string> wrt_;
  lg::Arguments forward_, backward_;
};

/// Which direction an input's elements move in: element e of each row in direction `first` + e. Every output depends
/// on one row at most, so that all derivatives that are not zero by structure are found along few directions at once.
struct Seed {
  std::string input;
  std::int64_t row, first;
};

/// Many outputs, by forward mode along seeds.
class Compressed : public Running {
 public:
  Compressed(const lg::Program& program, std::vector<std::string> of, const std::vector<Seed>& seeds,
             std::int64_t directions, const Place& place, const lg::Sizes& sizes, Arrays arrays)
      : Compressed(program, tangent_of(program, of, seeds, directions), of, place, sizes,
                   seeded(std::move(arrays), seeds, directions)) {}
  void jacobian() override {
    tangent_.run(arguments_, sizes());
    wait();
  }
  Result result() override {
    Result all{objective_result(), {}};
    for (const std::string& name : of_) append("t_" + name, all.jacobian);
    return all;
  }

 private:
  Compressed(const lg::Program& program, const lg::Program& tangent, std::vector<std::string> of, const Place& place,
             const lg::Sizes& sizes, Arrays arrays)
      : Running(program, {tangent}, place, sizes, std::move(arrays), of),
        tangent_(lg::compile(tangent, this->place().options)),
        of_(std::move(of)),
        arguments_(arguments(1)) {}
  static lg::Program tangent_of(const lg::Program& program, const std::vector<std::string>& of,
                                const std::vector<Seed>& seeds, std::int64_t directions) {
    std::vector<std::string> wrt;
    for (const Seed& seed : seeds) wrt.push_back(seed.input);
    return lg::tangent(program, {.wrt = wrt, .of = of, .directions = std::to_string(directions)});
  }
  static Arrays seeded(Arrays arrays, const std::vector<Seed>& seeds, std::int64_t directions) {
    for (const Seed& seed : seeds) {
      const lg::HostArray& input = arrays.at(seed.input);
      std::vector<std::int64_t> shape = input.shape();
      shape.push_back(directions);
      lg::HostArray along(lg::ScalarType::F64, shape);
      for (std::int64_t e = 0; e < input.size(); ++e)
        along.as<double>()[e * directions + seed.first + e % seed.row] = 1;
      arrays["t_" + seed.input] = along;
    }
    return arrays;
  }
  lg::Executable tangent_;
  std::vector<std::string> of_;
  lg::Arguments arguments_;
};

/// The logarithm of the gamma function of p dimensions.
double log_gamma(double a, std::int64_t p) {
  const auto dimensions = static_cast<double>(p);
  double sum = 0.25 * dimensions * (dimensions - 1) * std::log(std::numbers::pi);
  for (std::int64_t j = 0; j < p; ++j) sum += std::lgamma(a - 0.5 * static_cast<double>(j));
  return sum;
}

/// Bundle adjustment's rows come from both outputs with all directions: only that of the weight is not zero in the
/// second.
class Bundle : public Compressed {
 public:
  using Compressed::Compressed;
  Result result() override {
    Result all = Compressed::result();
    const auto observations = static_cast<std::size_t>(sizes().at("p"));
    for (std::size_t i = 0; i < observations; ++i)
      all.jacobian[30 * observations + i] = all.jacobian[30 * observations + 15 * i + 14];
    all.jacobian.resize(31 * observations);
    return all;
  }
};

}  // namespace

Place place_of(const std::string& target) {
  if (target == "interpreter") {
    Place place{target, {}};
    place.options.target = lg::Target::Interpreter;
    return place;
  }
  const std::vector<Place> found = experiments::places({target});
  if (found.empty()) throw std::runtime_error("there is no target '" + target + "' here");
  return found.front();
}

std::unique_ptr<Problem> make_problem(const Gmm& gmm, const Place& place, Prior prior) {
  const double d = static_cast<double>(gmm.d), n = static_cast<double>(gmm.n), k = static_cast<double>(gmm.k),
               m = static_cast<double>(gmm.m), sign = prior == Prior::ADBench ? 1 : -1;
  const double freedom = d + m + 1;
  const double log_norm =
      freedom * d * (std::log(gmm.gamma) - 0.5 * std::numbers::ln2) - log_gamma(0.5 * freedom, gmm.d);
  Arrays arrays = {{"alphas", array_of(gmm.alphas, {gmm.k})},
                   {"means", array_of(gmm.means, {gmm.k, gmm.d})},
                   {"icf", array_of(gmm.icf, {gmm.k, gmm.icf_size()})},
                   {"x", array_of(gmm.x, {gmm.n, gmm.d})},
                   {"constant", array_of(-n * d * 0.5 * std::log(2 * std::numbers::pi) - sign * k * log_norm)},
                   {"squares", array_of(sign * 0.5 * gmm.gamma * gmm.gamma)},
                   {"logarithms", array_of(-sign * m)}};
  return std::make_unique<Scalar>(gmm_program(), "err", std::vector<std::string>{"alphas", "means", "icf"}, place,
                                  lg::Sizes{{"n", gmm.n}, {"d", gmm.d}, {"k", gmm.k}}, std::move(arrays));
}

std::unique_ptr<Problem> make_problem(const Ba& ba, const Place& place) {
  Arrays arrays = {{"camera", array_of(ba.cameras, {ba.n, kCameraParameters})},
                   {"point", array_of(ba.points, {ba.m, 3})},
                   {"weight", array_of(ba.weights, {ba.p})},
                   {"feature", array_of(ba.features, {ba.p, 2})},
                   {"camera_of", array_of(ba.camera_of, {ba.p})},
                   {"point_of", array_of(ba.point_of, {ba.p})}};
  const std::vector<Seed> seeds = {{"camera", kCameraParameters, 0}, {"point", 3, 11}, {"weight", 1, 14}};
  return std::make_unique<Bundle>(ba_program(), std::vector<std::string>{"reprojection", "weight_error"}, seeds, 15,
                                  place, lg::Sizes{{"n", ba.n}, {"m", ba.m}, {"p", ba.p}}, std::move(arrays));
}

std::unique_ptr<Problem> make_problem(const Hand& hand, const Place& place) {
  check(hand, "hand");
  const std::int64_t bones = hand.bones(), vertices = hand.vertices(), points = hand.point_count();
  Arrays arrays = {{"theta", array_of(hand.theta, {kThetas})},
                   {"parent", array_of(hand.parents, {bones})},
                   {"base_relative", array_of(hand.base_relatives, {bones, 3, 4})},
                   {"inverse_absolute", array_of(hand.inverse_absolutes, {bones, 3, 4})},
                   {"base_position", array_of(hand.base_positions, {vertices, 3})},
                   {"weight", array_of(hand.weights, {vertices, bones})},
                   {"side", array_of(hand.mirrored ? -1.0 : 1.0)},
                   {"correspondence", array_of(hand.correspondences, {points})},
                   {"point", array_of(hand.points, {points, 3})}};
  lg::Sizes sizes = {{"bones", bones}, {"vertices", vertices}, {"points", points}};
  std::vector<Seed> seeds = {{"theta", kThetas, 0}};
  if (hand.complicated()) {
    sizes["triangles"] = static_cast<std::int64_t>(hand.triangles.size()) / 3;
    arrays["corner"] = array_of(hand.triangles, {sizes["triangles"], 3});
    arrays["us"] = array_of(hand.us, {points, 2});
    seeds = {{"us", 2, 0}, {"theta", kThetas, 2}};
  }
  return std::make_unique<Compressed>(hand_program(hand.complicated()), std::vector<std::string>{"err"}, seeds,
                                      seeds.back().first + kThetas, place, sizes, std::move(arrays));
}

std::unique_ptr<Problem> make_problem(const Lstm& lstm, const Place& place) {
  Arrays arrays = {{"main", array_of(lstm.main, {lstm.l, 2, 4, lstm.b})},
                   {"extra", array_of(lstm.extra, {3, lstm.b})},
                   {"state", array_of(lstm.state, {lstm.l, 2, lstm.b})},
                   {"sequence", array_of(lstm.sequence, {lstm.c, lstm.b})}};
  return std::make_unique<Scalar>(lstm_program(), "loss", std::vector<std::string>{"main", "extra"}, place,
                                  lg::Sizes{{"l", lstm.l}, {"c", lstm.c}, {"b", lstm.b}}, std::move(arrays));
}

std::unique_ptr<Problem> make_square(double x, const Place& place) {
  return std::make_unique<Scalar>(square_program(), "y", std::vector<std::string>{"x"}, place, lg::Sizes{},
                                  Arrays{{"x", array_of(x)}});
}

SparseJacobian structure_of(const Ba& ba) {
  SparseJacobian j;
  j.rows = 3 * ba.p, j.columns = kCameraParameters * ba.n + 3 * ba.m + ba.p;
  j.row_starts.push_back(0);
  const auto end_row = [&] { j.row_starts.push_back(static_cast<std::int64_t>(j.column_of.size())); };
  const std::int64_t points_at = kCameraParameters * ba.n, weights_at = points_at + 3 * ba.m;
  for (std::int64_t i = 0; i < ba.p; ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (int side = 0; side < 2; ++side) {
      for (std::int64_t k = 0; k < kCameraParameters; ++k)
        j.column_of.push_back(kCameraParameters * ba.camera_of[at] + k);
      for (std::int64_t k = 0; k < 3; ++k) j.column_of.push_back(points_at + 3 * ba.point_of[at] + k);
      j.column_of.push_back(weights_at + i);
      end_row();
    }
  }
  for (std::int64_t i = 0; i < ba.p; ++i) {
    j.column_of.push_back(weights_at + i);
    end_row();
  }
  return j;
}

}  // namespace adbench
