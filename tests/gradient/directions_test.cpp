// Derivatives along several directions at once are those along each of them, in both modes.
#include "tests/gradient/shared_programs.h"
#include "transforms/pipeline.h"

#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace loopgrad::test {
namespace {

constexpr std::int64_t count = 3;  // directions

using Arrays = std::map<std::string, HostArray>;

HostArray copied(const HostArray& array) {
  HostArray copy(array.type(), array.shape());
  for (std::int64_t i = 0; i < array.size(); ++i) copy.set(i, array.get(i));
  return copy;
}

/// What is run on: integers as given, everything else random in [0.25, 1.25].
struct Inputs {
  Sizes sizes;
  std::map<std::string, std::vector<double>> values = {};
  GradientOptions options = {};
};

class Comparison {
 public:
  Comparison(const Program& program, const Inputs& inputs, const CompileOptions& how, std::string directions)
      : program_(program), inputs_(inputs), how_(how), directions_(std::move(directions)), sizes_(inputs.sizes) {
    sizes_["many"] = count;
  }

  void tangents() {
    GradientOptions options = inputs_.options;
    const Program one = tangent(program_, options);
    options.directions = directions_;
    const Program all = tangent(program_, options);
    Arrays wide = filled(all);
    const Arrays start = copy(wide);
    compile(all, how_).run(views(all, wide), needed(all));
    const Executable single = compile(one, how_);
    for (std::int64_t q = 0; q < count; ++q) {
      Arrays arrays = direction(one, start, q);
      single.run(views(one, arrays), needed(one));
      expect_direction(one, arrays, wide, q);
    }
  }

  void adjoints() {
    GradientOptions options = inputs_.options;
    const Gradient one = differentiate(program_, options);
    options.directions = directions_;
    const Gradient all = differentiate(program_, options);
    const GradientExecutable run = compile(all, how_);
    Arrays wide = filled(all.forward);
    for (auto& [name, array] : filled(all.backward)) wide.emplace(name, array);
    const GradientExecutable single = compile(one, how_);
    const Arrays again = copy(wide);  // the same start for both: in-outs change
    single.forward(views(one.forward, again), needed(program_));
    run.forward(views(all.forward, wide), needed(program_));
    const Arrays start = copy(wide);
    run.backward(views(all.backward, wide), needed(all.backward));
    for (std::int64_t q = 0; q < count; ++q) {
      Arrays arrays = direction(one.backward, start, q);
      single.backward(views(one.backward, arrays), needed(one.backward));
      expect_direction(one.backward, arrays, wide, q);
    }
  }

 private:
  Arrays filled(const Program& program) {
    Arrays arrays;
    const Extents extents = extents_of(program, {}, needed(program));
    for (const ArgumentInfo& info : arguments_of(program)) {
      HostArray array(is_float(info.type) && how_.f64 ? ScalarType::F64 : info.type, extents.shapes.at(info.name));
      const auto given = inputs_.values.find(info.name);
      for (std::int64_t i = 0; i < array.size(); ++i)
        array.set(i, given != inputs_.values.end() ? given->second.at(static_cast<std::size_t>(i))
                     : is_float(info.type)         ? uniform_(random_)
                                                   : 0);
      arrays[info.name] = array;
    }
    return arrays;
  }

  static Arguments views(const Program& program, const Arrays& arrays) {
    Arguments result;
    for (const ArgumentInfo& info : arguments_of(program)) result[info.name] = arrays.at(info.name).view();
    return result;
  }

  /// Those of our sizes that the program has; sizes of tapes are the executable's.
  Sizes needed(const Program& program) const {
    Sizes result;
    for (const std::string& name : size_names(program))
      if (const auto it = sizes_.find(name); it != sizes_.end()) result.insert(*it);
    return result;
  }

  static Arrays copy(const Arrays& arrays) {
    Arrays result;
    for (const auto& [name, array] : arrays) result[name] = copied(array);
    return result;
  }

  /// The arrays of `program`, of those with a dimension more the slice of direction `q`.
  Arrays direction(const Program& program, const Arrays& wide, std::int64_t q) const {
    Arrays result;
    const Extents extents = extents_of(program, {}, needed(program));
    for (const ArgumentInfo& info : arguments_of(program)) {
      const HostArray& from = wide.at(info.name);
      HostArray& to = result[info.name] = HostArray(from.type(), extents.shapes.at(info.name));
      const bool same = from.shape() == to.shape();
      for (std::int64_t i = 0; i < to.size(); ++i) to.set(i, from.get(same ? i : i * count + q));
    }
    return result;
  }

  void expect_direction(const Program& program, const Arrays& arrays, const Arrays& wide, std::int64_t q) const {
    const Arrays found = direction(program, wide, q);
    int derivatives = 0;
    for (const ArgumentInfo& info : arguments_of(program)) {
      if (info.role == Role::Input) continue;
      derivatives += wide.at(info.name).shape() != found.at(info.name).shape();
      const HostArray &expected = arrays.at(info.name), &value = found.at(info.name);
      const double tolerance = expected.type() == ScalarType::F64 ? 1e-12 : 1e-4;
      for (std::int64_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(value.get(i), expected.get(i), tolerance * (1 + std::abs(expected.get(i))))
            << info.name << " element " << i << " of direction " << q << " in\n"
            << program_.str();
    }
    EXPECT_GT(derivatives, 0) << "nothing was compared";
  }

  const Program& program_;
  const Inputs& inputs_;
  CompileOptions how_;
  std::string directions_;
  Sizes sizes_;
  std::mt19937_64 random_{11};
  std::uniform_real_distribution<double> uniform_{0.25, 1.25};
};

/// In the checked interpreter in f64, and compiled as declared.
void expect_same(const Program& program, const Inputs& inputs) {
  setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
  for (const CompileOptions& how :
       {CompileOptions{.target = Target::Interpreter, .checked = true, .f64 = true},
        CompileOptions{.target = Target::Interpreter, .checked = true, .f64 = true, .gpu_mapped = true},
        CompileOptions{.threads = 2}}) {
    SCOPED_TRACE(std::string(name_of(how.target)) + (how.gpu_mapped ? ", as for a GPU" : ""));
    Comparison(program, inputs, how, "many").tangents();
    Comparison(program, inputs, how, "many").adjoints();
  }
  Comparison(program, inputs, {.threads = 1}, std::to_string(count)).tangents();
  Comparison(program, inputs, {.threads = 1}, std::to_string(count)).adjoints();
}

TEST(Directions, OfSharedValues) {
  expect_same(inverse_4x4(), {{{"n", 2}}});
  expect_same(n_body(), {{{"n", 4}}});
}

/// A cell is computed, overwritten and used again; values are updated in place, behind conditions that read them.
TEST(Directions, OfStatementsThatOverwriteWhatEarlierOnesRead) {
  ProgramBuilder p("overwritten");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), grid = p.input<double>("grid", {n + 2});
  auto y = p.output<double>("y", {n});
  auto a = p.inout<double>("a", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto cell = p.scalar<std::int64_t>("cell");
    auto s = p.scalar<double>("s");
    cell = i;
    s = grid(cell) * x(i);
    cell = cell + 1;
    s += sin(grid(cell)) * s;
    cell = cell + 1;
    s = select(s > 0.5, s * grid(cell), 0.25 * s);
    a(i) = a(i) * a(i) + select(a(i) > 0.7, a(i), 2.0 * s);
    y(i) = s / a(i);
  }
  expect_same(p.build(), {{{"n", 5}}});
}

TEST(Directions, OfLoopsWithBoundsFromDataAndExtrema) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), e = p.size("e");
  auto row = p.input<std::int32_t>("row", {n + 1}), col = p.input<std::int32_t>("col", {e});
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {e});
  auto y = p.output<float>("y", {n});
  p.csr(row, e);
  p.in_range(col, 0, n);
  for (auto v : p.loop("v", 0, n)) {
    auto top = p.scalar<float>("top", -1e30f), sum = p.scalar<float>("sum", 0.0f);
    for (auto k : p.loop("k", row(v), row(v + 1))) top.max_with(w(k) * x(col(k)));
    for (auto k : p.loop("k", row(v), row(v + 1))) sum += exp(w(k) * x(col(k)) - top);
    p.when(sum > 0.0f, [&] { y(v) = log(sum) + top; }).otherwise([&] { y(v) = x(v); });
  }
  expect_same(p.build(), {{{"n", 4}, {"e", 6}}, {{"row", {0, 2, 2, 5, 6}}, {"col", {1, 3, 0, 2, 3, 1}}}});
}

TEST(Directions, OfAWhileLoopAndProducts) {
  ProgramBuilder p("root");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto z = p.inout<double>("z", {});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = x(i) + 1.0;
    for (auto k : p.loop_while("k", 20, [&](Value) { return abs(s * s - x(i)) > 1e-3; })) {
      (void)k;
      s = 0.5 * (s + x(i) / s);
    }
    y(i) = s;
    z() *= s;
  }
  expect_same(p.build(), {{{"n", 3}}});
}

TEST(Directions, OfHalfPrecisionArraysAndOfSomeOfThem) {
  ProgramBuilder p("halves");
  auto n = p.size("n");
  auto x = p.input<half>("x", {n, 2});
  auto d_z = p.input<float>("d_z", {n});  // a name as of a gradient
  auto a = p.inout<float>("a", {n});
  auto y = p.output<half>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    a(i) += x(i, 0) * d_z(i);
    y(i) = tanh(x(i, 1)) * a(i);
  }
  const Program program = p.build();
  expect_same(program, {{{"n", 4}}});
  expect_same(program, {{{"n", 4}}, {}, {.wrt = {"x"}, .of = {"y"}}});
  expect_same(program, {{{"n", 4}}, {}, {.wrt = {"a"}, .of = {"y", "a"}}});
  expect_same(program, {{{"n", 4}}, {}, {.wrt = {"d_z"}, .of = {"a"}}});
}

TEST(Directions, ShareWhatTheyHaveInCommon) {
  ProgramBuilder p("p");
  auto x = p.input<double>("x", {4});
  auto y = p.output<double>("y", {4});
  for (auto i : p.loop("i", 0, 4)) {
    auto s = p.scalar<double>("s");
    s = sin(x(i));
    y(i) = exp(s) * s;
  }
  const std::string text = tangent(p.build(), {.directions = "k"}).str();
  const auto loop = text.find("for direction in 0..k");
  ASSERT_NE(loop, std::string::npos) << text;
  EXPECT_EQ(text.find("for direction", loop + 1), std::string::npos) << "one loop for all statements:\n" << text;
  for (const char* shared : {"sin(", "cos(", "exp("}) EXPECT_LT(text.rfind(shared), loop) << text;
  EXPECT_NE(text.find("local f64 t_s\n"), std::string::npos) << "a scalar in that loop:\n" << text;
}

/// y = A (x*x) + x[0] in two columns, and an update in place: the Jacobian is known.
TEST(Jacobian, OfBothModesIsTheDerivativeByEveryElement) {
  ProgramBuilder p("squares");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("A", {m, n}), x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {m, 2});
  auto z = p.inout<double>("z", {n});
  for (auto i : p.loop("i", 0, m)) {
    y(i, 0) = x(0);
    for (auto j : p.loop("j", 0, n)) y(i, 0) += a(i, j) * x(j) * x(j);
    y(i, 1) = 2.0 * y(i, 0);
  }
  for (auto j : p.loop("j", 1, n)) z(j) = z(j - 1) * z(j) + x(j);
  const Program program = p.build();
  std::vector<double> a_at = {1, 2, 3, 4, 5, 6}, x_at = {0.5, 1.5, 2}, y_at(4), j(12);
  for (const JacobianMode mode : {JacobianMode::Forward, JacobianMode::Reverse}) {
    const bool forward = mode == JacobianMode::Forward;
    const Program all = jacobian(program, "y", "x", mode);
    EXPECT_EQ(arguments_of(all).back().name, "j_y_x");
    std::vector<double> z_at = {2, 3, 4};
    const Arguments arguments = {{"A", view(a_at.data(), {2, 3})},
                                 {"x", view(x_at.data(), {3})},
                                 {"y", view(y_at.data(), {2, 2})},
                                 {"z", view(z_at.data(), {3})}};
    Arguments more = arguments;
    more["j_y_x"] = forward ? view(j.data(), {2, 2, 3}) : view(j.data(), {3, 4});
    compile(all, {.target = Target::Interpreter, .checked = true}).run(more);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t c = 0; c < 2; ++c)
        for (std::size_t k = 0; k < 3; ++k)
          EXPECT_DOUBLE_EQ(j[forward ? (i * 2 + c) * 3 + k : (k * 2 + i) * 2 + c],
                           static_cast<double>(c + 1) * (2 * a_at[i * 3 + k] * x_at[k] + (k == 0)));
    // Of an in-out by its own initial contents: z1 = z0 z1 + x1, z2 = z1' z2 + x2.
    z_at = {2, 3, 4};
    more = arguments;
    more["j_z_z"] = view(j.data(), {3, 3});
    compile(jacobian(program, "z", "z", mode), {.target = Target::Interpreter, .checked = true}).run(more);
    const double expected[3][3] = {{1, 0, 0}, {3, 2, 0}, {12, 8, 7.5}};
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t k = 0; k < 3; ++k) EXPECT_DOUBLE_EQ(j[forward ? r * 3 + k : k * 3 + r], expected[r][k]);
  }
}

TEST(Directions, OfAGradientAsOneProgram) {
  const Program hessian = tangent(joined(differentiate(n_body(), {.wrt = {"x"}})), {.wrt = {"x"}, .of = {"g_x"}});
  expect_same(joined(differentiate(n_body(), {.wrt = {"x"}})), {{{"n", 3}}, {}, {.wrt = {"x"}, .of = {"g_x"}}});
  const Program several = joined(differentiate(n_body(), {.wrt = {"x"}, .directions = "k"}));
  EXPECT_EQ(size_names(several).back(), "k");
  EXPECT_EQ(arguments_of(hessian).back().name, "t_g_x");
}

/// A library may do each of the two products.
TEST(Tangent, OfAProductOfMatricesIsTwoProducts) {
  ProgramBuilder p("product");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n});
  auto c = p.inout<float>("c", {n, n});
  for (auto [i, j, k] : p.loop({"i", n}, {"j", n}, {"k", n})) c(i, j) += a(i, k) * b(k, j);
  Report report;
  const Program forward_mode = tangent(p.build());
  transforms::lower_for(forward_mode.ir(), {}, report);
  EXPECT_EQ(report.contractions.size(), 3u);
  for (const ContractionDecision& product : report.contractions) EXPECT_TRUE(product.handed_over) << product.sum;
}

TEST(Directions, RefuseStacksAndNamesThatAreTaken) {
  const auto refusal = [](auto&& call) {
    try {
      call();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Program program = n_body();
  EXPECT_NE(refusal([&] { differentiate(program, {.variant = Variant::NaiveTape, .directions = "k"}); }).find("stack"),
            std::string::npos);
  EXPECT_NE(refusal([&] { tangent(program, {.directions = "n"}); }).find("'n'"), std::string::npos);
  EXPECT_NE(refusal([&] { tangent(program, {.directions = "0"}); }).find("0 directions"), std::string::npos);
  EXPECT_NE(refusal([&] { differentiate(program, {.directions = "x"}); }).find("'x'"), std::string::npos);
}

}  // namespace
}  // namespace loopgrad::test
