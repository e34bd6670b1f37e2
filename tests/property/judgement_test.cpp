// How random programs are judged: rounding is no mismatch, however many terms a sum has, and mistakes are.
#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "tools/fuzz/agreement.h"
#include "tools/fuzz/check.h"
#include "tools/fuzz/reference.h"
#include "tools/fuzz/rough_values.h"
#include "tools/fuzz/session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace loopgrad::fuzz {
namespace {

Case case_of(Program program, Sizes sizes) { return {1, std::move(program), sizes, sizes, {}, {}, {}, {}}; }

/// A case, and what is said of results of it.
class Judge {
 public:
  explicit Judge(Case c) : case_(std::move(c)), reference_(case_, {}, false) {}

  /// The results of the program in f64, rounded in the end.
  Arrays exact() const {
    Arrays wide;
    for (const auto& [name, array] : reference_.inputs()) {
      HostArray copy(is_float(array.type()) ? ScalarType::F64 : array.type(), array.shape());
      for (std::int64_t i = 0; i < array.size(); ++i) copy.set(i, array.get(i));
      wide.emplace(name, std::move(copy));
    }
    run(case_.program.ir(), wide, case_.sizes, {.f64 = true, .checked = false});
    Arrays result = copy_of(reference_.inputs());
    for (auto& [name, array] : result)
      for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, wide.at(name).get(i));
    return result;
  }
  Arrays results_of(const ir::Program& program) const {
    Arrays arrays = copy_of(reference_.inputs());
    run(program, arrays, case_.sizes, {.f64 = false, .checked = false});
    return arrays;
  }
  bool finds(const Arrays& arrays) {
    try {
      reference_.expect(arrays, {});
      return false;
    } catch (const Disagreement&) {
      return true;
    }
  }
  bool was_unstable() const { return reference_.was_unstable(); }
  const Case& judged() const { return case_; }

 private:
  const Case case_;
  NativeReference reference_;
};

Arrays with(Arrays arrays, const std::string& name, std::int64_t element, double factor) {
  HostArray& array = arrays.at(name);
  array.set(element, array.get(element) * factor);
  return arrays;
}

/// y[0] = 0.1 + 0.1 + ..; y[1] = a sum of two terms as large.
Case equal_terms(std::int64_t terms) {
  ProgramBuilder p("equal");
  const Value n = p.size("n");
  const ArrayHandle y = p.output<float>("y", {2});
  y(0) = 0.0f;
  for ([[maybe_unused]] const Value i : p.loop("i", 0, n)) y(0) += 0.1f;
  y(1) = 0.0f;
  for ([[maybe_unused]] const Value i : p.loop("j", 0, 2)) y(1) += 5000.0f;
  return case_of(p.build(), {{"n", terms}});
}

TEST(Judgement, AllowsForTheTermsThatMeetInAnElement) {
  Judge judge(equal_terms(100000));
  const Arrays exact = judge.exact();
  const double serial = judge.results_of(judge.judged().program.ir()).at("y").get(0);
  ASSERT_GT(std::abs(serial - exact.at("y").get(0)), 1.2e-4 * serial) << "a sum in f32 is as good as that";
  EXPECT_FALSE(judge.finds(exact));
  EXPECT_FALSE(judge.was_unstable());
  EXPECT_TRUE(judge.finds(with(exact, "y", 0, 1.03))) << "errors of 100000 terms at most";
  EXPECT_TRUE(judge.finds(with(exact, "y", 1, 1.0005))) << "the sum beside it has two terms";
}

/// 1e-7 + 1e-7 + .. + 0.4 - 0.36, or the other way round: each small term is rounded to the units of 0.4 then.
Program unequal_terms(bool large_first) {
  ProgramBuilder p("unequal");
  const Value n = p.size("n");
  const ArrayHandle y = p.output<float>("y", {});
  y() = 0.0f;
  if (large_first) y() += 0.4f;
  for ([[maybe_unused]] const Value i : p.loop("i", 0, n)) y() += 0.7e-7f;
  if (!large_first) y() += 0.4f;
  y() += -0.36f;
  return p.build();
}

TEST(Judgement, AllowsForALargeTermThatComesFirst) {
  Judge judge(case_of(unequal_terms(false), {{"n", 20000}}));
  const Arrays other = judge.results_of(unequal_terms(true).ir());
  const double last = judge.exact().at("y").get(0);
  ASSERT_GT(std::abs(other.at("y").get(0) - last), 2e-3 * last) << "the order matters";
  EXPECT_FALSE(judge.finds(other));
  EXPECT_FALSE(judge.was_unstable());
  EXPECT_TRUE(judge.finds(with(other, "y", 0, 1.1)));
}

/// What a longer sum is computed from errs as well.
TEST(Judgement, FollowsErrorsOfSumsIntoWhatIsComputedFromThem) {
  ProgramBuilder p("chained");
  const Value n = p.size("n");
  const ArrayHandle y = p.output<float>("y", {});
  const ArrayHandle s = p.local<float>("s", {});
  s() = 0.0f;
  for ([[maybe_unused]] const Value i : p.loop("i", 0, n)) s() += 0.1f;
  y() = s() / 10000.0f - 0.5f;
  Judge judge(case_of(p.build(), {{"n", 100000}}));
  const Arrays exact = judge.exact();
  EXPECT_FALSE(judge.finds(exact));
  EXPECT_TRUE(judge.finds(with(exact, "y", 0, 1.06)));
}

/// 10.1, -10, 10.1, -10, ..
TEST(Judgement, AllowsForTermsThatCancel) {
  ProgramBuilder p("cancelling");
  const Value n = p.size("n");
  const ArrayHandle y = p.output<float>("y", {});
  y() = 0.0f;
  for (const Value i : p.loop("i", 0, n)) y() += select(i % 2 == 0, Value(10.1f), Value(-10.0f));
  Judge judge(case_of(p.build(), {{"n", 2000}}));
  const Arrays exact = judge.exact();
  EXPECT_FALSE(judge.finds(with(exact, "y", 0, 1.001))) << "another order of the terms gives that";
  EXPECT_FALSE(judge.was_unstable());
  EXPECT_TRUE(judge.finds(with(exact, "y", 0, 5)));
}

TEST(Judgement, FindsALargeTermThatIsMissing) {
  ProgramBuilder p("sizes");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), y = p.output<float>("y", {});
  y() = 0.0f;
  for (const Value i : p.loop("i", 0, n)) y() += abs(x(i)) * select(i == 7, Value(2000.0f), Value(1.0f));
  Judge judge(case_of(p.build(), {{"n", 20000}}));
  const Arrays exact = judge.exact();
  EXPECT_FALSE(judge.finds(exact));
  Arrays without = copy_of(exact);
  const double term = std::abs(without.at("x").get(7)) * 2000;
  ASSERT_GT(term, 0.01 * exact.at("y").get(0));
  without.at("y").set(0, exact.at("y").get(0) - term);
  EXPECT_TRUE(judge.finds(without));
}

/// y = start; y *= factor, n times.
Case product_of(double start, double factor, std::int64_t n) {
  ProgramBuilder p("product");
  const Value count = p.size("n");
  const ArrayHandle y = p.output<double>("y", {});
  y() = start;
  for ([[maybe_unused]] const Value i : p.loop("i", 0, count)) y() *= factor;
  return case_of(p.build(), {{"n", n}});
}

TEST(Judgement, ProductsWhoseFactorsOverflowInSomeOrderAreNotCompared) {
  for (const double factor : {1.5, 0.6}) {
    Judge judge(product_of(0, factor, 3000));
    EXPECT_FALSE(judge.finds(with(judge.exact(), "y", 0, std::nan(""))));
    EXPECT_TRUE(judge.was_unstable());
    Judge shorter(product_of(1, factor, 12));
    EXPECT_TRUE(shorter.finds(with(shorter.exact(), "y", 0, 1.001)));
  }
}

/// One unit in the last place of the product, in f64, is 6e-8.
TEST(Judgement, InterpretedProgramsMayRoundInAnotherOrder) {
  ProgramBuilder p("sine");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<double>("x", {}), y = p.output<double>("y", {});
  const ArrayHandle product = p.local<double>("product", {});
  product() = 1.0;
  for ([[maybe_unused]] const Value i : p.loop("i", 0, n)) product() *= 1.5;
  for ([[maybe_unused]] const Value i : p.loop("j", 0, 2)) product() += 0.7;
  y() = sin(product()) + x();
  const Case c = case_of(p.build(), {{"n", 50}});
  Reference reference(c.program, make_arrays(c, true), c.sizes, {}, 1);
  reference.run_primal();
  const auto moved_by = [&](double error) {
    Arrays arrays = copy_of(reference.outputs());
    arrays.at("y").set(0, arrays.at("y").get(0) + error);
    return arrays;
  };
  EXPECT_NO_THROW(reference.expect_outputs(moved_by(6e-8)));
  EXPECT_THROW(reference.expect_outputs(moved_by(6e-5)), Disagreement);
}

// ---- mistakes in random programs ----

enum class Mistake { Coefficient, MissingSum, MissingTerm };

/// The program with a mistake in the sum of that number; the same one when it has fewer.
ir::Program mistaken(const ir::Program& program, Mistake mistake, int number) {
  int sums = 0;
  const auto is_meant = [&](const ir::Reduce& n) {
    return n.op == ir::ReduceOp::Add && is_float(n.array->type) && sums++ == number;
  };
  const ir::Stmt body = ir::rewrite(program.body, {}, [&](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    const auto* loop = s.as<ir::For>();
    if (mistake == Mistake::MissingTerm && loop && loop->body.as<ir::Reduce>() &&
        is_meant(*loop->body.as<ir::Reduce>()))
      return ir::for_loop(loop->iterator, loop->lower, loop->upper - ir::int_const(1), loop->body);
    const auto* n = s.as<ir::Reduce>();
    if (!n || mistake == Mistake::MissingTerm || !is_meant(*n)) return std::nullopt;
    if (mistake == Mistake::MissingSum) return ir::block({});
    const ir::Expr wrong = n->value * ir::float_const(1.02, n->value.type());
    return ir::reduce(n->array, n->indices, n->op, wrong, n->location);
  });
  return ir::with_body(program, body);
}

/// The largest change of a floating element, as a part of the largest number of its array.
double largest_change(const Arrays& one, const Arrays& other) {
  double largest = 0;
  for (const auto& [name, array] : one) {
    if (array.type() != ScalarType::F32 && array.type() != ScalarType::F64) continue;
    double scale = 1e-3, change = 0;
    for (std::int64_t i = 0; i < array.size(); ++i) {
      scale = std::max(scale, std::abs(array.get(i)));
      change = std::max(change, std::abs(array.get(i) - other.at(name).get(i)));
    }
    largest = std::max(largest, change / scale);
  }
  return largest;
}

TEST(Judgement, FindsMistakesInRandomPrograms) {
  int mistakes = 0, found = 0;
  std::string missed;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Judge judge(at_medium_sizes(generate(seed, {.rounded_control = false})));
    const ir::Program& program = judge.judged().program.ir();
    const Arrays right = judge.results_of(program);
    for (const Mistake mistake : {Mistake::Coefficient, Mistake::MissingSum, Mistake::MissingTerm}) {
      const Arrays wrong = judge.results_of(mistaken(program, mistake, static_cast<int>(seed % 3)));
      if (!(largest_change(right, wrong) > 0.005)) continue;
      ++mistakes;
      if (judge.finds(wrong)) ++found;
      else missed += fmt::format("seed {}, mistake {}\n", seed, static_cast<int>(mistake));
    }
  }
  RecordProperty("mistakes", mistakes);
  RecordProperty("found", found);
  EXPECT_GE(mistakes, 60);
  EXPECT_GE(found, mistakes * 9 / 10) << found << " of " << mistakes << "\n" << missed;
}

// ---- programs that overflow ----

/// x = x*x, as often as makes infinity of it.
Case overflowing() {
  ProgramBuilder p("overflowing");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {}), y = p.output<float>("y", {});
  y() = 3.0f + x();
  for ([[maybe_unused]] const Value i : p.loop("i", 0, n)) y() = y() * y();
  return case_of(p.build(), {{"n", 12}});
}

TEST(Judgement, AProgramThatOverflowsIsNoFinding) {
  const Outcome outcome = check(overflowing());
  EXPECT_FALSE(outcome.failure) << outcome.failure->message;
  EXPECT_EQ(outcome.not_finite, "'y' is not finite");
  EXPECT_TRUE(outcome.tried.empty()) << "nothing can be compared";
}

TEST(FuzzSession, CountsWhatIsNotFiniteAndDoesNotCompileIt) {
  SessionOptions options{.seed = 1, .count = 6, .jobs = 1, .compiled_percent = 100};
  options.checks.interpreted = [](const Case& c, const CheckOptions& how) {
    return c.seed == 3 ? check(overflowing(), how) : Outcome();
  };
  options.checks.compiled = [](const std::vector<Case>& cases, const CompiledOptions&, const CompiledWatch&) {
    return std::vector<Outcome>(cases.size());
  };
  const SessionResult result = run_session(options, [](const SessionResult&) {});
  EXPECT_EQ(result.programs, 6u);
  EXPECT_EQ(result.not_finite, 1u);
  EXPECT_EQ(result.compiled, 5u);
  EXPECT_EQ(result.flat, 5u);
  EXPECT_TRUE(result.findings.empty());
}

/// exp(x) - 1 for x near 0, where libraries differ by a unit in the last place of exp.
TEST(Judgement, AllowsForFunctionsWhoseResultsCancel) {
  ProgramBuilder p("cancelled");
  const ArrayHandle x = p.input<float>("x", {1}), y = p.output<float>("y", {1});
  y(0) = 100.0f * (exp(x(0) * 1e-4f) - 1.0f);
  Judge judge(case_of(p.build(), {}));
  const Arrays here = judge.results_of(judge.judged().program.ir());
  const double step = 100 * 0x1p-23;
  ASSERT_GT(std::abs(here.at("y").get(0)), 1e-3);
  Arrays there = copy_of(here);
  there.at("y").set(0, here.at("y").get(0) + step);
  EXPECT_FALSE(judge.finds(there));
  EXPECT_FALSE(judge.was_unstable());
  there.at("y").set(0, here.at("y").get(0) + 30 * step);
  EXPECT_TRUE(judge.finds(there));
}

TEST(RoughValues, FollowEachFunctionByItsError) {
  ProgramBuilder p("functions");
  const ArrayHandle x = p.input<float>("x", {}), y = p.output<float>("y", {});
  y() = exp(x()) + sqrt(abs(x())) + exp(x() + 1.0f);
  EXPECT_EQ(ir::print(rough_values(p.build().ir(), 0).body),
            R"(y = exp(x) + exp(x)*2.3841858e-07 + sqrt(abs(x)) + (exp(x + 1) + exp(x + 1)*2.3841858e-07)
)");
}

TEST(RoughValues, FollowFactorsAboveAndBelowOne) {
  EXPECT_EQ(ir::print(rough_values(product_of(0, 1.5, 3).program.ir(), 0).body), R"(local f64 y_below
local f64 y_above
y = 0
y_above = 1
y_below = 1
for i in 0..n:
  y_above *= max(abs(1.5), 1)
  y_below *= select(abs(1.5) == 0f64, 1, min(abs(1.5), 1))
  y *= 1.5
  y += select(y_above > 1.7976931348623157e+308 || y_below < 2.2250738585072014e-308, inf, 1.1102230246251565e-16*abs(y))
)");
}

TEST(RoughValues, FollowEachStepByItsError) {
  ProgramBuilder p("rough");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<float>("x", {n}), y = p.inout<float>("y", {n});
  y(0) = 0.0f;
  for (const Value i : p.loop("i", 0, n)) y(0) += x(i);
  EXPECT_EQ(ir::print(rough_values(p.build().ir(), 0).body), R"(local f32 y_terms[n]
local f32 y_mass[n]
y[0] = 0
y_mass[0] = abs(y[0])
y_terms[0] = 0
for i in 0..n:
  local f32 y_late
  y_mass[0] += abs(x[i])
  y_late = y_terms[0]*abs(x[i])
  y_terms[0] += 1
  y[0] += x[i]
  y[0] += 5.9604645e-08*(max(y_mass[0], abs(y[0])) + y_late)
)");
}

}  // namespace
}  // namespace loopgrad::fuzz
