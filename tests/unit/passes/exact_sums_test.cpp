// Sums in whole numbers: what becomes of a nest, and what the sums are.
#include "transforms/sums/exact_sums.h"
#include "tests/unit/passes/parts.h"
#include "tests/unit/transforms/same_bits.h"
#include "transforms/analysis/deciding_leaves.h"

#include <fmt/format.h>

#include <limits>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

constexpr const char* points = R"(
  program p(n, m, steps, step)
    input  f32 at[n]
    input  f32 v[n]
    inout  f32 t[steps, m]
    inout  f32 y[n]
)";

constexpr const char* nest = R"(
  for i in 0..n:
    local i32 to
    local f32 w
    to = i32(at[i])
    w = v[i]*2
    y[i] = w
    t[step, i64(to)] += w
)";

std::vector<Stmt> sums_into(const Program& program, const std::string& target) {
  std::vector<Stmt> result;
  for (const Stmt& leaf : leaves(program.body)) {
    const auto* sum = leaf.as<ir::Reduce>();
    if (sum && sum->array->name == target) result.push_back(leaf);
  }
  return result;
}

Stmt with_exact_sums(const Program& program, const ir::Expr& terms, std::optional<ExactForm> form = {}) {
  const std::vector<Stmt> sums = sums_into(program, "t");
  if (!form) form = ExactForm{.in_bins = can_have_bins(sums[0].as<ir::Reduce>()->array, gpu_machine())};
  StmtSet finding = DecidingLeaves(program, program.body).of(sums).value();
  finding.merge(set_of(sums));
  const ExactSums exact = exact_sums(program.body, slice(program.body, finding), {{sums, terms, form.value()}});
  const Stmt now = ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto found = exact.in_place.find(s.get());
    return found == exact.in_place.end() ? std::nullopt : std::optional(found->second);
  });
  return exact.around(now, {});
}

ir::Expr size(const Program& program, const std::string& name) {
  for (const ir::Symbol& symbol : program.sizes)
    if (symbol.name == name) return ir::var(symbol);
  throw std::out_of_range(name);
}

std::string exact_text(const std::string& arrays, const std::string& body) {
  const ir::Program program = program_of(arrays.c_str(), body.c_str());
  return ir::print(with_exact_sums(program, size(program, "n")));
}

std::string in_doubles(std::string text) {
  for (std::size_t at; (at = text.find("f32")) != std::string::npos;) text.replace(at, 3, "f64");
  return text;
}

// `step` is one for all terms, and has no place.
TEST(ExactSums, TheNestAddsWholeNumbersToTheBinsOfAnElement) {
  const std::string text = exact_text(points, nest);
  for (const char* part : {"local i64 bins_t[", "*m + to] += (atomic)", "t[step, e0] += "})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find("w = v[i]*2"), text.rfind("w = v[i]*2")) << "terms are made once\n" << text;
}

TEST(ExactSums, OfDoublesTheNestFindsTheLargestTermsAndThenAddsWholeNumbers) {
  const std::string text = exact_text(in_doubles(points), in_doubles(nest));
  // The first pass does what the terms need and nothing else.
  for (const char* part : {"local i64 whole_t[m]", "local f64 largest_t[m]", "largest_t[to] max= (atomic)",
                           "whole_t[to] += (atomic)", "t[step, e0] += ", "y[i] = w"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find("y[i] = w"), text.rfind("y[i] = w")) << text;
}

template <class T>
constexpr ScalarType type_of = std::is_same_v<T, double> ? ScalarType::F64 : ScalarType::F32;

/// What the first row of `t` is after the sums, with values of a few cells.
template <class T>
std::vector<T> summed(const Program& program, const std::vector<T>& at, const std::vector<T>& v, std::int64_t m) {
  const auto n = static_cast<std::int64_t>(at.size());
  const Sizes sizes = {{"n", n}, {"m", m}, {"steps", 2}, {"step", 1}};
  Buffers buffers;
  buffers["at"] = HostArray(type_of<T>, {n});
  buffers["v"] = HostArray(type_of<T>, {n});
  buffers["y"] = HostArray(type_of<T>, {n});
  buffers["t"] = HostArray(type_of<T>, {2, m});
  Arguments arguments;
  for (std::int64_t i = 0; i < n; ++i) {
    buffers["at"].set(i, at[static_cast<std::size_t>(i)]);
    buffers["v"].set(i, v[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t k = 0; k < 2 * m; ++k) buffers["t"].set(k, 0.25);
  for (auto& [name, buffer] : buffers) arguments[name] = buffer.view();
  backend::InterpreterOptions options;
  options.checked = true;
  backend::interpret(program, backend::bind(program, arguments, sizes), options);
  std::vector<T> result;
  for (std::int64_t k = 0; k < m; ++k) result.push_back(static_cast<T>(buffers["t"].get(m + k)));
  return result;
}

/// The nest with numbers of that type.
template <class T>
Program program_in() {
  const auto typed = [](const char* text) {
    return type_of<T> == ScalarType::F64 ? in_doubles(text) : std::string(text);
  };
  return program_of(typed(points).c_str(), typed(nest).c_str());
}

template <class T = float>
Program exact_program(std::optional<ExactForm> form = {}) {
  const ir::Program program = program_in<T>();
  return ir::with_body(program, with_exact_sums(program, size(program, "n"), form));
}

const std::vector<ExactForm> forms_of_floats = {{.in_bins = true}, {.in_bins = true, .few = true}, {.in_bins = false}};

template <class T>
void expect_the_same_bits_in_any_order(T tolerance, std::optional<ExactForm> form = {}) {
  std::mt19937 random(5);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<std::pair<T, T>> terms;
  for (int i = 0; i < 500; ++i)
    terms.emplace_back(static_cast<T>(i % 7), uniform(random) * std::pow(T(10), static_cast<T>(i % 13 - 6)));
  const auto run_in_this_order = [&](const Program& program) {
    std::vector<T> at, v;
    for (const auto& [cell, value] : terms) {
      at.push_back(cell);
      v.push_back(value);
    }
    return summed<T>(program, at, v, 7);
  };
  const std::vector<T> once = run_in_this_order(exact_program<T>(form)), plain = run_in_this_order(program_in<T>());
  std::vector<long double> wanted(7, 0.25), sizes(7, 0.25);
  for (const auto& [cell, value] : terms) {
    wanted[static_cast<std::size_t>(cell)] += 2.0L * value;
    sizes[static_cast<std::size_t>(cell)] += 2.0L * std::abs(value);
  }
  std::shuffle(terms.begin(), terms.end(), random);
  EXPECT_EQ(once, run_in_this_order(exact_program<T>(form)));
  EXPECT_NE(plain, run_in_this_order(program_in<T>())) << "these terms show their order";
  for (std::size_t k = 0; k < 7; ++k)
    EXPECT_NEAR(once[k], static_cast<T>(wanted[k]), tolerance * static_cast<T>(sizes[k])) << k;
}

TEST(ExactSums, HaveTheSameBitsInAnyOrder) {
  for (const ExactForm& form : forms_of_floats) expect_the_same_bits_in_any_order<float>(6e-8f, form);
}
TEST(ExactSums, OfDoublesHaveTheSameBitsInAnyOrderAndAllDigits) { expect_the_same_bits_in_any_order<double>(2.3e-16); }

TEST(ExactSums, OfDoublesHaveNumbersOfAllSizes) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> t = summed<double>(
      exact_program<double>(), {0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 6},
      {1e300, 1e284, 5e307, 5e307, 1e-300, 1e-300, 1e20, -1e20, infinity, std::nan(""), 1e308, 1e308}, 7);
  EXPECT_DOUBLE_EQ(t[0], 2e300 + 2e284);
  EXPECT_NE(t[0], 2e300) << "the second term has a digit left";
  EXPECT_EQ(t[1], infinity) << "2*(5e307 + 5e307)";
  EXPECT_EQ(t[2], 0.25);
  EXPECT_EQ(t[3], 0.25);
  EXPECT_EQ(t[4], infinity);
  EXPECT_TRUE(std::isnan(t[5]));
  EXPECT_EQ(t[6], infinity);
}

TEST(ExactSums, SmallElementsAreAsPreciseAsLargeOnes) {
  for (const ExactForm& form : forms_of_floats) {
    SCOPED_TRACE(fmt::format("{} {}", form.in_bins, form.few));
    const std::vector<float> t = summed<float>(exact_program(form), {0, 1, 1, 2}, {1e30f, 1e-30f, 2e-30f, 0}, 4);
    EXPECT_FLOAT_EQ(t[0], 2e30f);
    EXPECT_FLOAT_EQ(t[1] - 0.25f, 0);
    EXPECT_EQ(t[2], 0.25f);
    EXPECT_EQ(t[3], 0.25f);
    // Alone in its element, the smallest number there is.
    const float least = std::numeric_limits<float>::denorm_min();
    Program from_zero = exact_program(form);
    const std::vector<float> tiny = summed<float>(from_zero, {0, 0}, {least, -least}, 1);
    EXPECT_EQ(tiny[0], 0.25f);
  }
}

TEST(ExactSums, TermsThatAreNotFiniteGiveWhatTheyWouldInAnyOrder) {
  for (const ExactForm& form : forms_of_floats) {
    SCOPED_TRACE(fmt::format("{} {}", form.in_bins, form.few));
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> t =
        summed<float>(exact_program(form), {0, 0, 1, 1, 2, 2, 3, 3, 3, 4},
                      {infinity, 1, -infinity, 1, infinity, -infinity, nan, 1, infinity, 3e38f}, 6);
    EXPECT_EQ(t[0], infinity);
    EXPECT_EQ(t[1], -infinity);
    EXPECT_TRUE(std::isnan(t[2]));
    EXPECT_TRUE(std::isnan(t[3]));
    EXPECT_EQ(t[4], infinity);  // 2*3e38
    EXPECT_EQ(t[5], 0.25f);
  }
}

TEST(ExactSums, ABoundFarAboveTheTermsCostsNoDigits) {
  const auto check = [](auto zero, std::int64_t factor) {
    using T = decltype(zero);
    const Program program = program_in<T>();
    const ir::Expr bound = factor ? size(program, "n") * ir::int_const(factor) : ir::Expr();
    const std::vector<T> t = summed<T>(ir::with_body(program, with_exact_sums(program, bound)), {0, 0, 0, 0, 1, 1, 1},
                                       {T(0.1), T(0.2), T(0.3), T(0.4), T(1e30), T(-1e30), T(1e-30)}, 2);
    EXPECT_FLOAT_EQ(t[0], 2.25);
    EXPECT_FLOAT_EQ(t[1], 0.25);
  };
  for (const int digits : {24, 30, 32, 50}) {
    SCOPED_TRACE(digits);
    check(0.0F, std::int64_t{1} << digits);
    check(0.0, std::int64_t{1} << digits);
  }
  check(0.0F, 0);
}

TEST(ExactSums, MoreTermsHaveMoreBinsOfFewerDigits) {
  const ir::Program program = program_in<float>();
  const auto bins_for = [&](std::int64_t terms, const ExactForm& form) {
    const std::string text = ir::print(with_exact_sums(program, ir::int_const(terms), form));
    const std::size_t at = text.find("bins_t[") + 7;
    return text.substr(at, text.find(']', at) - at);
  };
  const std::int64_t room = 1 << 23, room_of_half = std::int64_t{1} << 31;
  EXPECT_EQ(bins_for(room, {}), "17*m");
  EXPECT_EQ(bins_for(room + 1, {}), "34*m");
  EXPECT_EQ(bins_for(room_of_half, {}), "34*m");
  EXPECT_EQ(bins_for(room_of_half + 1, {}), "68*m");
  EXPECT_EQ(bins_for(1, {.few = true}), "68*m") << "few elements have one number of bins, whatever the terms";
}

TEST(ExactSums, OfFloatsLoseNothingThatCancels) {
  const std::vector<float> v = {1e30F, 1e10F, 1, 1e-20F, 1e-38F, -1e10F, -1e30F, -1};
  const std::vector<float> t = summed<float>(exact_program(), std::vector<float>(v.size(), 0), v, 1);
  EXPECT_EQ(t[0], 0.25F + 2e-20F);
  const std::vector<float> halves = summed<float>(exact_program(), {0, 0, 0}, {3e30F, -0.125F, -3e30F}, 1);
  EXPECT_EQ(halves[0], 0) << "0.25 is there before";
}

// As many of the largest terms that a bin has as there is room for.
TEST(ExactSums, HaveRoomForAllTerms) {
  for (const int exponent : {-126, -103, 0, 18, 19, 20, 33, 125}) {
    SCOPED_TRACE(exponent);
    const float most = std::ldexp(2 - std::ldexp(1.0F, -23), exponent - 1);
    const std::size_t n = 3001;
    const std::vector<float> t =
        summed<float>(exact_program(), std::vector<float>(n, 0), std::vector<float>(n, most), 1);
    EXPECT_EQ(t[0], 0.25F + static_cast<float>(2.0 * static_cast<double>(most) * static_cast<double>(n)));
  }
}

TEST(DecidingLeaves, AreAllThatATermNeedsAndNothingElse) {
  const ir::Program program = program_of(points, nest);
  const DecidingLeaves deciding(program, program.body);
  const auto found = deciding.of(sums_into(program, "t"));
  ASSERT_TRUE(found);
  std::set<std::string> set;
  for (const Stmt& leaf : leaves(slice(program.body, *found))) set.insert(leaf.as<ir::Assign>()->array->name);
  EXPECT_EQ(set, (std::set<std::string>{"to", "w"}));
}

TEST(DecidingLeaves, AreNotKnownWhereTheNestChangesWhatTheyRead) {
  const ir::Program program = program_of(points, R"(
  for i in 0..n:
    local f32 w
    w = y[i]*2
    y[i] = w + 1
    t[step, i64(at[i])] += w
)");
  EXPECT_FALSE(DecidingLeaves(program, program.body).of(sums_into(program, "t")));
}

}  // namespace
}  // namespace loopgrad::transforms
