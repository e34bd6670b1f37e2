#include "tools/cli/directions.h"

#include "dsl/ir/visit.h"
#include "tools/cli/commands.h"
#include "tools/cli/promote.h"
#include "tools/support/random.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace loopgrad::cli {
namespace {

using tools::Random;

constexpr int kDense = 2;
constexpr double kHalfUlp = 0x1p-24;       // of f32
constexpr std::size_t kNoiseSamples = 7;   // directions of an array whose rounding errors are looked at
constexpr double kNearby = 1e-3;           // how far, relative to each input, a point nearby is
constexpr double kDifferenceNoise = 1e-5;  // of a difference that cancels, relative to its terms: 2^-53 / 1e-6 / 1e-5

const CompileOptions kOracle{.target = Target::Interpreter, .checked = true, .f64 = true, .threads = 0};
const CompileOptions kSingle{.target = Target::Interpreter, .checked = true, .threads = 0};

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

HostArray as_f32(const HostArray& array) {
  return is_float(array.type()) ? converted(array, ScalarType::F32) : copy_of(array);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Arrays with_tangents(const Problem& problem, const Arrays& inputs, const Arrays& tangent) {
  Arrays initial = inputs;
  for (const std::string& name : problem.of)  // in-outs that are not among wrt start with a zero tangent
    if (initial.contains(name)) initial["t_" + name] = HostArray(ScalarType::F64, initial.at(name).shape());
  for (const auto& [name, t] : tangent) initial["t_" + name] = t;
  return initial;
}

/// The inputs in f64, moved.
Arrays moved_along(const Arrays& inputs, const Arrays& tangent, double step) {
  Arrays moved;
  for (const auto& [name, array] : inputs) moved[name] = as_f64(array);
  for (const auto& [name, t] : tangent)
    for (std::int64_t i = 0; i < t.size(); ++i) moved.at(name).set(i, moved.at(name).get(i) + step * t.get(i));
  return moved;
}

/// Sum of <incoming, array> over the arrays with that prefix of what `of` names.
double along_incoming(const Problem& problem, const Buffers& buffers, const std::string& prefix) {
  double sum = 0;
  for (const std::string& name : problem.of) sum += dot(problem.incoming.at("d_" + name), buffers.at(prefix + name));
  return sum;
}

class Oracle {
 public:
  explicit Oracle(const Problem& problem)
      : problem_(problem),
        tangent_program_(tangent(problem.program, {.wrt = problem.wrt, .of = problem.of})),
        tangent_in_f32_(demote_to_f32(tangent_program_)),
        primal_in_f32_(demote_to_f32(problem.program)),
        tangent_run_(compile(tangent_program_, kOracle)),
        primal_run_(compile(problem.program, kOracle)),
        tangent_run_in_f32_(compile(tangent_in_f32_, kSingle)),
        primal_run_in_f32_(compile(primal_in_f32_, kSingle)) {}

  double forward_mode(const Arrays& inputs, const Arrays& tangent) const {
    Buffers buffers({tangent_program_}, problem_.sizes, with_tangents(problem_, inputs, tangent), true);
    tangent_run_.run(buffers.arguments(0), problem_.sizes);
    return along_incoming(problem_, buffers, "t_");
  }

  /// What forward mode is off by when it computes in f32.
  double rounding_error(const Arrays& tangent, double forward_mode) const {
    Arrays initial;
    for (const auto& [name, array] : with_tangents(problem_, problem_.inputs, tangent)) initial[name] = as_f32(array);
    Buffers buffers({tangent_in_f32_}, problem_.sizes, initial, false);
    tangent_run_in_f32_.run(buffers.arguments(0), problem_.sizes);
    return std::abs(along_incoming(problem_, buffers, "t_") - forward_mode);
  }

  /// A kink (of max, abs or a branch) between the two points spoils a difference, and so does a step that is too small:
  /// of several steps the one nearest to forward mode counts.
  double difference(const Arrays& inputs, const Arrays& tangent, double forward_mode, double tolerance) const {
    double best = std::numeric_limits<double>::quiet_NaN();
    for (double step : {1e-5, 1e-6, 1e-7, kWidestStep}) {
      double value = (value_at(inputs, tangent, step) - value_at(inputs, tangent, -step)) / (2 * step);
      if (std::isnan(best) || std::abs(value - forward_mode) < std::abs(best - forward_mode)) best = value;
      if (std::abs(best - forward_mode) <= tolerance) break;
    }
    return best;
  }

  Buffers primal_at(const Arrays& inputs, const Arrays& tangent, double step) const {
    const Arrays moved = moved_along(inputs, tangent, step);
    Buffers buffers({problem_.program}, problem_.sizes, moved, true);
    primal_run_.run(buffers.arguments(0), problem_.sizes);
    return buffers;
  }

  Buffers primal_in_f32() const {
    Arrays initial;
    for (const auto& [name, array] : problem_.inputs) initial[name] = as_f32(array);
    Buffers buffers({primal_in_f32_}, problem_.sizes, initial, false);
    primal_run_in_f32_.run(buffers.arguments(0), problem_.sizes);
    return buffers;
  }

 private:
  double value_at(const Arrays& inputs, const Arrays& tangent, double step) const {
    return along_incoming(problem_, primal_at(inputs, tangent, step), "");
  }

  const Problem& problem_;
  Program tangent_program_, tangent_in_f32_, primal_in_f32_;
  Executable tangent_run_, primal_run_, tangent_run_in_f32_, primal_run_in_f32_;
};

/// Calls `f`, and gives what it returns unless checked execution finds something: 0 then.
template <class F>
auto unless_refused(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const RuntimeError& error) {
    if (!is_finding(error)) throw;
    return {};
  }
}

/// The inputs with every element of `wrt` moved a little, away from the ties and whole numbers that tests are full of.
/// `zeros` is the sign that zeros get; 0: any.
Arrays point_nearby(const Problem& problem, int zeros) {
  Arrays moved = problem.inputs;
  Random random(problem.seed + 4711);
  for (const std::string& name : problem.wrt) {
    HostArray& array = moved[name] = as_f64(problem.inputs.at(name));
    for (std::int64_t i = 0; i < array.size(); ++i) {
      const double value = array.get(i), by = kNearby * random.uniform(-1, 1);
      array.set(i, value != 0 ? value * (1 + by) : zeros != 0 ? zeros * std::abs(by) : by);
    }
  }
  return moved;
}

/// Whether difference and forward mode agree at a point nearby, so that a kink or a jump explains that they do not
/// here. A wrong derivative is wrong there, too.
bool agree_nearby(const Oracle& oracle, const Problem& problem, const Direction& d) {
  const Arrays tangent = tangent_of(problem, d);
  for (const int zeros : {0, 1, -1}) {
    const Arrays inputs = point_nearby(problem, zeros);
    const bool agree = unless_refused([&] {
      const double forward_mode = oracle.forward_mode(inputs, tangent);
      const double tolerance = kDifferenceTolerance * std::max(d.difference_scale, std::abs(forward_mode));
      return std::abs(oracle.difference(inputs, tangent, forward_mode, tolerance) - forward_mode) <= tolerance;
    });
    if (agree) return true;
  }
  return false;
}

/// Sum of |incoming * output|: what a difference is a difference of.
double size_of_results(const Oracle& oracle, const Problem& problem) {
  const Buffers buffers = oracle.primal_at(problem.inputs, {}, 0);
  double sum = 0;
  for (const std::string& name : problem.of) {
    const HostArray &incoming = problem.incoming.at("d_" + name), &output = buffers.at(name);
    for (std::int64_t i = 0; i < output.size(); ++i) sum += std::abs(incoming.get(i) * output.get(i));
  }
  return sum;
}

/// Where difference and forward mode disagree: whether something explains that.
void judge_by_forward_mode(const Oracle& oracle, const Problem& problem, Direction& d) {
  d.kink = agree_nearby(oracle, problem, d);
  d.stopped =
      !d.kink && std::isfinite(d.forward_mode) && std::isfinite(d.difference) && !seen_through(problem.program).empty();
}

}  // namespace

std::string seen_through(const Program& program) {
  bool stops = false;
  std::string rule;
  ir::walk(
      program.ir().body,
      [&](const ir::Stmt& t) {
        const auto* region = t.as<ir::CustomGradient>();
        if (region && region->tangent && rule.empty())
          rule = fmt::format("the tangent of the custom gradient at {}", region->location.str());
      },
      [&](const ir::Expr& e) {
        const auto* n = e.as<ir::Unary>();
        stops |= n && n->op == ir::UnaryOp::Stop;
      });
  return fmt::format("{}{}{}", stops ? "stop_gradient" : "", stops && !rule.empty() ? " and " : "", rule);
}

Problem make_problem(const ProgramEntry& entry, const Sizes& sizes, std::uint64_t seed) {
  Program program = entry.build();
  Problem problem{program, resolve_wrt(program, entry.wrt), resolve_of(program), sizes, {}, {}, seed};
  problem.inputs = make_inputs(entry, program, sizes, seed);
  problem.incoming = make_incoming(program, sizes, seed);
  return problem;
}

Problem problem_of_gradient(const Problem& problem) {
  const Program program = joined(differentiate(problem.program, {.wrt = problem.wrt, .of = problem.of}));
  Problem second{program, problem.wrt, {}, problem.sizes, {}, {}, problem.seed};
  second.inputs = problem.inputs;
  for (const std::string& name : problem.wrt) second.of.push_back("g_" + name);
  for (const std::string& name : problem.of) {
    second.wrt.push_back("g_" + name);
    second.inputs["g_" + name] = problem.incoming.at("d_" + name);
  }
  second.incoming = make_incoming(program, problem.sizes, problem.seed + 1);
  return second;
}

std::vector<Direction> choose_directions(const Problem& problem, std::int64_t elements) {
  std::vector<Direction> directions;
  Random random(problem.seed);
  for (const std::string& name : problem.wrt) {
    const std::int64_t size = problem.inputs.at(name).size();
    for (std::int64_t i = 0; i < std::min(size, elements); ++i)
      directions.push_back({.array = name, .element = size <= elements ? i : random.below(size)});
  }
  for (int i = 0; i < kDense; ++i) directions.push_back({.array = "", .element = i});
  return directions;
}

std::string name_of(const Problem& problem, const Direction& direction) {
  if (direction.array.empty()) return "a random direction";
  const std::vector<std::int64_t>& shape = problem.inputs.at(direction.array).shape();
  std::vector<std::int64_t> indices(shape.size());
  std::int64_t rest = direction.element;
  for (std::size_t k = shape.size(); k-- > 0; rest /= shape[k]) indices[k] = rest % shape[k];
  return fmt::format("{}[{}]", direction.array, fmt::join(indices, ", "));
}

void measure_directions(const Problem& problem, std::vector<Direction>& directions, const std::function<void()>& step) {
  Oracle oracle(problem);
  std::map<std::string, double> largest;
  std::map<std::string, std::vector<double>> rounding;
  double overall = 0;
  for (Direction& d : directions) {
    step();
    Arrays tangent = tangent_of(problem, d);
    d.forward_mode = oracle.forward_mode(problem.inputs, tangent);
    largest[d.array] = std::max(largest[d.array], std::abs(d.forward_mode));
    overall = std::max(overall, std::abs(d.forward_mode));
    d.difference = oracle.difference(problem.inputs, tangent, d.forward_mode, 1e-7 * std::max(overall, 1e-3));
    if (std::vector<double>& of_array = rounding[d.array]; of_array.size() < kNoiseSamples)
      of_array.push_back(unless_refused([&] { return oracle.rounding_error(tangent, d.forward_mode); }));
  }
  const double results = size_of_results(oracle, problem);
  for (Direction& d : directions) {
    const double scale = d.array.empty() ? overall : largest[d.array];
    if (scale > 0) d.scale = scale;
    d.terms = median(rounding[d.array]) / kHalfUlp;
    d.difference_scale = std::max(d.scale, kDifferenceNoise * std::max(d.terms, results));
    if (!(std::abs(d.difference - d.forward_mode) <= kDifferenceTolerance * d.difference_scale))
      judge_by_forward_mode(oracle, problem, d);
  }
}

double along(const Problem& problem, const Direction& direction, const Buffers& gradient) {
  if (!direction.array.empty()) return gradient.at("d_" + direction.array).get(direction.element);
  double sum = 0;
  for (const auto& [name, t] : tangent_of(problem, direction)) sum += dot(t, gradient.at("d_" + name));
  return sum;
}

Line::Line(const Problem& problem, const Direction& direction)
    : problem_(problem), tangent_(tangent_of(problem, direction)), run_(compile(problem.program, kOracle)) {}

Arrays Line::inputs_at(double step) const { return moved_along(problem_.inputs, tangent_, step); }

double Line::value_at(double step) const {
  const Buffers buffers({problem_.program}, problem_.sizes, inputs_at(step), true);
  run_.run(buffers.arguments(0), problem_.sizes);
  return along_incoming(problem_, buffers, "");
}

Arrays inputs_along(const Problem& problem, const Direction& direction) {
  return with_tangents(problem, problem.inputs, tangent_of(problem, direction));
}

double along_incoming(const Problem& problem, const Buffers& tangents) {
  return along_incoming(problem, tangents, "t_");
}

Reference reference_outputs(const Problem& problem) {
  const Oracle oracle(problem);
  const Buffers buffers = oracle.primal_at(problem.inputs, {}, 0);
  Reference reference;
  for (const std::string& name : problem.of) reference.outputs[name] = buffers.at(name);
  reference.terms = unless_refused([&] {
    const Buffers rounded = oracle.primal_in_f32();
    std::map<std::string, double> terms;
    for (const std::string& name : problem.of) {
      const HostArray &exact = buffers.at(name), &single = rounded.at(name);
      std::vector<double> errors;
      for (std::int64_t i = 0; i < exact.size(); ++i) errors.push_back(std::abs(exact.get(i) - single.get(i)));
      terms[name] = median(std::move(errors)) / kHalfUlp;
    }
    return terms;
  });
  return reference;
}

}  // namespace loopgrad::cli
