#include "tools/cli/directions.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace loopgrad::cli {
namespace {

using tools::Random;

constexpr std::int64_t kAllElements = 64;  // of arrays up to this size each element is a direction
constexpr int kDense = 2;

const CompileOptions kOracle{.target = Target::Interpreter, .checked = true, .f64 = true, .threads = 0};

/// The direction as arrays, one for each name in wrt.
Arrays tangent_of(const Problem& problem, const Direction& direction) {
  Arrays tangent;
  Random random(problem.seed + 77 + static_cast<std::uint64_t>(direction.element));
  for (const std::string& name : problem.wrt) {
    HostArray& t = tangent[name] = HostArray(ScalarType::F64, problem.inputs.at(name).shape());
    if (direction.array == name) t.set(direction.element, 1);
    if (direction.array.empty())
      for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, random.uniform(-1, 1));
  }
  return tangent;
}

double dot(const HostArray& a, const HostArray& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

class Oracle {
 public:
  explicit Oracle(const Problem& problem)
      : problem_(problem),
        tangent_program_(tangent(problem.program, {.wrt = problem.wrt, .of = problem.of})),
        tangent_run_(compile(tangent_program_, kOracle)),
        primal_run_(compile(problem.program, kOracle)) {}

  double forward_mode(const Arrays& tangent) const {
    Arrays initial = problem_.inputs;
    for (const std::string& name : problem_.of)  // in-outs that are not among wrt start with a zero tangent
      if (initial.contains(name)) initial["t_" + name] = HostArray(ScalarType::F64, initial.at(name).shape());
    for (const auto& [name, t] : tangent) initial["t_" + name] = t;
    Buffers buffers({tangent_program_}, problem_.sizes, initial, true);
    tangent_run_.run(buffers.arguments(0), problem_.sizes);
    double sum = 0;
    for (const std::string& name : problem_.of) sum += dot(problem_.incoming.at("d_" + name), buffers.at("t_" + name));
    return sum;
  }

  /// A kink (of max, abs or a branch) between the two points spoils a difference, and so does a step that is too small:
  /// of several steps the one nearest to forward mode counts.
  double difference(const Arrays& tangent, double forward_mode, double tolerance) const {
    double best = std::numeric_limits<double>::quiet_NaN();
    for (double step : {1e-5, 1e-6, 1e-7, 1e-4}) {
      double value = (value_at(tangent, step) - value_at(tangent, -step)) / (2 * step);
      if (std::isnan(best) || std::abs(value - forward_mode) < std::abs(best - forward_mode)) best = value;
      if (std::abs(best - forward_mode) <= tolerance) break;
    }
    return best;
  }

  Buffers primal_at(const Arrays& tangent, double step) const {
    Arrays moved;
    for (const auto& [name, array] : problem_.inputs) moved[name] = as_f64(array);
    for (const auto& [name, t] : tangent)
      for (std::int64_t i = 0; i < t.size(); ++i) moved.at(name).set(i, moved.at(name).get(i) + step * t.get(i));
    Buffers buffers({problem_.program}, problem_.sizes, moved, true);
    primal_run_.run(buffers.arguments(0), problem_.sizes);
    return buffers;
  }

 private:
  double value_at(const Arrays& tangent, double step) const {
    Buffers buffers = primal_at(tangent, step);
    double sum = 0;
    for (const std::string& name : problem_.of) sum += dot(problem_.incoming.at("d_" + name), buffers.at(name));
    return sum;
  }

  const Problem& problem_;
  Program tangent_program_;
  Executable tangent_run_, primal_run_;
};

}  // namespace

Problem make_problem(const ProgramEntry& entry, const Sizes& sizes, std::uint64_t seed) {
  Program program = entry.build();
  Problem problem{program, resolve_wrt(program, entry.wrt), resolve_of(program), sizes, {}, {}, seed};
  problem.inputs = make_inputs(entry, program, sizes, seed);
  problem.incoming = make_incoming(program, sizes, seed);
  return problem;
}

std::vector<Direction> choose_directions(const Problem& problem) {
  std::vector<Direction> directions;
  Random random(problem.seed);
  for (const std::string& name : problem.wrt) {
    const std::int64_t size = problem.inputs.at(name).size();
    for (std::int64_t i = 0; i < std::min(size, kAllElements); ++i)
      directions.push_back({.array = name, .element = size <= kAllElements ? i : random.below(size)});
  }
  for (int i = 0; i < kDense; ++i) directions.push_back({.array = "", .element = i});
  return directions;
}

void measure_directions(const Problem& problem, std::vector<Direction>& directions, const std::function<void()>& step) {
  Oracle oracle(problem);
  std::map<std::string, double> largest;
  double overall = 0;
  for (Direction& d : directions) {
    step();
    Arrays tangent = tangent_of(problem, d);
    d.forward_mode = oracle.forward_mode(tangent);
    largest[d.array] = std::max(largest[d.array], std::abs(d.forward_mode));
    overall = std::max(overall, std::abs(d.forward_mode));
    d.difference = oracle.difference(tangent, d.forward_mode, 1e-7 * std::max(overall, 1e-3));
  }
  for (Direction& d : directions) {
    const double scale = d.array.empty() ? overall : largest[d.array];
    if (scale > 0) d.scale = scale;
  }
}

double along(const Problem& problem, const Direction& direction, const Buffers& gradient) {
  if (!direction.array.empty()) return gradient.at("d_" + direction.array).get(direction.element);
  double sum = 0;
  for (const auto& [name, t] : tangent_of(problem, direction)) sum += dot(t, gradient.at("d_" + name));
  return sum;
}

Arrays reference_outputs(const Problem& problem) {
  Buffers buffers = Oracle(problem).primal_at({}, 0);
  Arrays outputs;
  for (const std::string& name : problem.of) outputs[name] = buffers.at(name);
  return outputs;
}

}  // namespace loopgrad::cli
