#include <loopgrad/gradcheck.h>

#include "tools/cli/sides.h"
#include "tools/cli/target_runs.h"

#include <loopgrad/error.h>
#include <loopgrad/signature.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace loopgrad {
namespace {

using namespace cli;

constexpr double kLeastRate = 1.8;         // of Taylor's test
constexpr double kRoundingOfSums = 1e-13;  // relative, of values in f64: smaller remainders show no rate

[[noreturn]] void refuse(ErrorCode code, const Program& program, const ArgumentInfo& info, std::string message,
                         std::string hint) {
  throw UsageError({.code = code,
                    .message = std::move(message),
                    .program = program.name(),
                    .array = info.name,
                    .hint = std::move(hint),
                    .location = info.where});
}

/// A contiguous copy.
HostArray copy_of_view(const View& view) {
  HostArray copy(view.type, view.shape);
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.type));
  std::vector<std::int64_t> index(view.shape.size(), 0);
  for (std::int64_t to = 0; to < copy.size(); ++to) {
    std::int64_t from = view.strides.empty() ? to : 0;
    for (std::size_t d = 0; d < view.strides.size(); ++d) from += index[d] * view.strides[d];
    std::memcpy(static_cast<char*>(copy.data()) + to * bytes, static_cast<const char*>(view.data) + from * bytes,
                static_cast<std::size_t>(bytes));
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < view.shape[d]) break;
      index[d] = 0;
    }
  }
  return copy;
}

/// All sizes of the program: those that follow from shapes, and the others as they are given.
Sizes complete_sizes(const Program& program, Sizes sizes, const Sizes& given) {
  for (const std::string& name : size_names(program)) {
    if (sizes.contains(name)) continue;
    const auto found = given.find(name);
    if (found == given.end())
      throw UsageError({.code = ErrorCode::BadSize,
                        .message = fmt::format("size '{}' does not follow from the arguments", name),
                        .program = program.name(),
                        .hint = fmt::format("pass it: gradcheck(program, arguments, {{{{\"{}\", ..}}}})", name)});
    sizes.insert(*found);
  }
  return sizes;
}

/// The problem that the arguments pose. Throws UsageError.
Problem problem_of(const Program& program, const Arguments& arguments, const Sizes& sizes,
                   const GradcheckOptions& options) {
  Shapes shapes;
  for (const auto& [name, view] : arguments) shapes[name] = view.shape;
  const Extents extents = extents_of(program, shapes, sizes);
  Problem problem{program,
                  resolve_wrt(program, options.gradient.wrt),
                  options.gradient.of,
                  complete_sizes(program, extents.sizes, sizes),
                  {},
                  {},
                  options.seed};
  if (problem.of.empty()) problem.of = resolve_of(program);
  for (const ArgumentInfo& info : arguments_of(program)) {
    if (info.role == Role::Output) continue;
    const auto given = arguments.find(info.name);
    if (given == arguments.end())
      refuse(ErrorCode::BadArgument, program, info, "gradcheck is not given this array",
             "pass all inputs and in-outs; outputs are not needed");
    const View& view = given->second;
    if (view.device != Device::Host)
      refuse(ErrorCode::BadArgument, program, info, "the array is not in memory of the host",
             "gradcheck copies its arguments to the target by itself: pass memory of the host");
    if (view.type != info.type)
      refuse(ErrorCode::BadType, program, info,
             fmt::format("the array has elements of {}, not {}", name_of(view.type), name_of(info.type)),
             "pass an array of the declared type");
    if (view.shape != extents.shapes.at(info.name))
      refuse(ErrorCode::BadShape, program, info,
             fmt::format("the array has the shape [{}], not [{}]", fmt::join(view.shape, ", "),
                         fmt::join(extents.shapes.at(info.name), ", ")),
             "shapes and sizes have to agree");
    problem.inputs[info.name] = copy_of_view(view);
  }
  problem.incoming = make_incoming(program, problem.sizes, options.seed);
  return problem;
}

class Checker {
 public:
  Checker(const Problem& problem, const GradcheckOptions& options) : problem_(problem), options_(options) {}

  Gradcheck check() {
    result_.program = problem_.program.name();
    result_.target = name_of(options_.compile.target);
    directions_ = choose_directions(problem_, options_.elements);
    result_.directions = static_cast<int>(directions_.size());
    result_.stopped_by = seen_through(problem_.program);
    measure_directions(problem_, directions_, [] {});
    for (const Direction& d : directions_) {
      if (d.kink) add_kink(d, sides_across(d));
      else if (d.stopped) ++result_.stopped;
      else compare_difference(d);
    }
    compare_gradient();
    test_taylor();
    return std::move(result_);
  }

 private:
  GradcheckFinding finding(const char* test, const Direction& d, double expected, double found) const {
    return {.test = test,
            .array = d.array,
            .element = d.element,
            .expected = expected,
            .found = found,
            .where = {},
            .text = {}};
  }

  void compare_difference(const Direction& d) {
    const double error = std::abs(d.forward_mode - d.difference) / d.difference_scale;
    result_.differences =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(result_.differences, error);
    if (error <= kDifferenceTolerance) return;
    GradcheckFinding f = finding("differences", d, d.difference, d.forward_mode);
    const std::vector<Side> sides = sides_across(d);
    if (!sides.empty()) f.where = sides.front().where;
    f.text = fmt::format("along {} differences give {:.9g}, forward mode gives {:.9g}; nearby they disagree as well{}",
                         name_of(problem_, d), d.difference, d.forward_mode,
                         sides.empty() ? "" : fmt::format(" ({} changes sides here)", text_of(sides)));
    result_.findings.push_back(std::move(f));
  }

  std::vector<Side> sides_across(const Direction& d) {
    if (!sides_) sides_.emplace(problem_.program);
    return cli::sides_across(*sides_, problem_, d);
  }

  void add_kink(const Direction& d, const std::vector<Side>& sides) {
    GradcheckFinding f = finding("kink", d, d.difference, d.forward_mode);
    if (!sides.empty()) f.where = sides.front().where;
    f.text = fmt::format("along {} {}: forward mode gives {:.6g} and differences {:.6g}", name_of(problem_, d),
                         sides.empty() ? "there is a kink or a jump (nearby both agree)"
                                       : fmt::format("{} changes sides here", text_of(sides)),
                         d.forward_mode, d.difference);
    result_.kinks.push_back(std::move(f));
  }

  /// The elements that are at a kink that a direction of all of them crosses. False where it crosses none.
  bool add_kinks_across(const Direction& all) {
    const std::vector<Side> sides = sides_across(all);
    if (sides.empty()) return false;
    if (!result_.kinks.empty()) return true;
    for (const Direction& d : directions_)
      if (const std::vector<Side> own = d.array.empty() ? std::vector<Side>{} : sides_across(d); !own.empty())
        add_kink(d, own);
    if (result_.kinks.empty()) add_kink(all, sides);
    return true;
  }

  void compare_gradient() {
    CompileOptions compile = options_.compile;
    const bool interpreted = compile.target == Target::Interpreter;
    if (interpreted) compile.f64 = compile.checked = true;
    Precision precision = precision_of(problem_.program, interpreted);
    if (options_.tolerance > 0) precision = {options_.tolerance, 0};  // and no allowance for terms that cancel
    result_.tolerance = precision.tolerance;
    const Buffers gradient = run_variant(problem_, options_.gradient.variant, compile);
    if (const std::string text = not_finite(problem_, gradient); !text.empty())
      result_.findings.push_back({.test = "finite", .array = {}, .where = {}, .text = text});
    for (const Direction& d : directions_) {
      const double value = along(problem_, d, gradient);
      Errors errors;
      errors.compare_along(precision, d, value);
      result_.dot_product = std::max(result_.dot_product, errors.forward_mode);
      if (errors.forward_mode <= precision.tolerance) continue;
      GradcheckFinding f = finding("dot product", d, d.forward_mode, value);
      f.text = fmt::format("along {} the gradient on {} gives {:.9g}, forward mode gives {:.9g}", name_of(problem_, d),
                           result_.target, value, d.forward_mode);
      result_.findings.push_back(std::move(f));
    }
  }

  /// The remainder f(x + h v) - f(x) - h f'(x) v falls with h^2.
  void test_taylor() {
    result_.taylor_rate = std::numeric_limits<double>::quiet_NaN();
    for (const Direction& d : directions_) {
      if (!d.array.empty() || !d.has_difference()) continue;
      const Line line(problem_, d);
      const double here = line.value_at(0);
      double best = std::numeric_limits<double>::infinity(), before = 0, step = 1e-2;
      bool any = false;
      for (int k = 0; k < 8; ++k, step /= 2) {
        const double there = line.value_at(step);
        const double remainder = std::abs(there - here - step * d.forward_mode);
        const double noise = kRoundingOfSums * std::max({std::abs(here), std::abs(there), d.difference_scale});
        if (!(remainder > 100 * noise)) break;
        if (k > 0) {
          const double rate = std::log2(before / remainder);
          best = any ? std::max(best, rate) : rate;
          any = true;
        }
        before = remainder;
      }
      if (best < kLeastRate && add_kinks_across(d)) continue;
      result_.taylor_rate = std::isnan(result_.taylor_rate) ? best : std::min(result_.taylor_rate, best);
      if (best >= kLeastRate) continue;
      GradcheckFinding f = finding("Taylor", d, 2, best);
      f.text = fmt::format("along {} the error of the linear model falls with the step to the power {:.2f}, not 2",
                           name_of(problem_, d), best);
      result_.findings.push_back(std::move(f));
    }
  }

  const Problem& problem_;
  const GradcheckOptions& options_;
  std::vector<Direction> directions_;
  std::optional<Sides> sides_;
  Gradcheck result_;
};

}  // namespace

std::string Gradcheck::str() const {
  std::string text = fmt::format(
      "gradient of '{}' on {}, along {} directions: {}\n"
      "  differences  {:.1e}  (forward mode against central differences, in f64)\n"
      "  dot product  {:.1e}  (the gradient against forward mode; tolerance {:.0e})\n"
      "  Taylor       {:.2f}     (rate: 2 for a right derivative, inf for a linear function)\n",
      program, target, directions, ok() ? "ok" : "WRONG", differences, dot_product, tolerance, taylor_rate);
  for (const GradcheckFinding& f : findings) text += fmt::format("  {}: {}\n", f.test, f.text);
  if (stopped > 0)
    text +=
        fmt::format("  differences see through {} along {} directions: forward mode decides\n", stopped_by, stopped);
  for (const GradcheckFinding& f : kinks) text += fmt::format("  kink: {}\n", f.text);
  return text;
}

Gradcheck gradcheck(const Program& program, const Arguments& arguments, const Sizes& sizes,
                    const GradcheckOptions& options) {
  if (!options.gradient.directions.empty())
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "gradcheck takes its directions one by one",
                      .program = program.name(),
                      .hint = "leave out `directions`"});
  const Problem problem = problem_of(program, arguments, sizes, options);
  return Checker(problem, options).check();
}

}  // namespace loopgrad
