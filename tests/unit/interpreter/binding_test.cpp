#include "backends/runtime/solve_sizes.h"
#include "tests/unit/interpreter/programs.h"

#include <array>
#include <limits>

namespace loopgrad::test {
namespace {

using backend::bind;
using backend::Binding;

/// y[n] from x[n + k - 1] and w[k]: the shapes of a convolution.
struct Convolution {
  Symbol n = make_symbol("n"), k = make_symbol("k");
  Array x = f32("x", {var(n) + var(k) - c(1)}, ArrayRole::Input, 11);
  Array w = f32("w", {var(k)}, ArrayRole::Input, 12);
  Array y = f32("y", {var(n)}, ArrayRole::Output, 13);
  ir::Program program = make_program({n, k}, {x, w, y}, {});
  std::vector<float> memory_x = std::vector<float>(10), memory_w = std::vector<float>(3),
                     memory_y = std::vector<float>(8);

  Arguments arguments(std::int64_t x_extent = 10, std::int64_t w_extent = 3, std::int64_t y_extent = 8) {
    return {{"x", view(memory_x.data(), {x_extent})},
            {"w", view(memory_w.data(), {w_extent})},
            {"y", view(memory_y.data(), {y_extent})}};
  }
  ErrorInfo error(const Arguments& given, const Sizes& sizes = {}) const {
    return error_of<UsageError>([&] { bind(program, given, sizes); });
  }
};

/// As loops compute with them: numbers of 32 bits wrap, what is divided by zero is zero, and `and` and `or` ask for the
/// second operand where the first has not decided.
TEST(SizeValues, AreWhatTheLanguageSays) {
  using ir::binary;
  using enum ir::BinaryOp;
  const Symbol m = make_symbol("m");
  const auto value = [&](const ir::Expr& e, std::int64_t size) { return backend::try_evaluate(e, {{m, size}}); };
  const ir::Expr narrow = ir::cast(ScalarType::I32, var(m));
  EXPECT_EQ(value(narrow * narrow, 50'000), static_cast<std::int32_t>(2'500'000'000u));
  EXPECT_EQ(value(narrow, std::int64_t{1} << 32), 0);
  EXPECT_EQ(value(-ir::cast(ScalarType::I32, var(m)), std::int64_t{1} << 31), -(std::int64_t{1} << 31));
  EXPECT_EQ(value(binary(FloorDiv, c(7), var(m)), 0), 0);
  EXPECT_EQ(value(binary(Mod, c(7), var(m)), 0), 0);
  EXPECT_EQ(value(binary(Mod, var(m), c(-1)), 7), 0);
  const ir::Expr wide = var(m) * var(m) * var(m), overflows = binary(Lt, c(0), wide);
  EXPECT_EQ(value(overflows, std::int64_t{1} << 40), std::nullopt);
  EXPECT_EQ(value(binary(And, binary(Lt, var(m), c(9)), overflows), std::int64_t{1} << 40), 0);
  EXPECT_EQ(value(binary(Or, binary(Lt, c(9), var(m)), overflows), std::int64_t{1} << 40), 1);
  EXPECT_EQ(value(binary(And, overflows, binary(Lt, var(m), c(9))), std::int64_t{1} << 40), std::nullopt);
}

TEST(Binding, SolvesSizesThatAreAnExtent) {
  Convolution conv;
  const Binding binding = bind(conv.program, conv.arguments(), {});
  EXPECT_EQ(binding.sizes.at(conv.n), 8);
  EXPECT_EQ(binding.sizes.at(conv.k), 3);
  ASSERT_EQ(binding.arrays.size(), 3u);
  EXPECT_EQ(binding.arrays[0].data, conv.memory_x.data());
  EXPECT_EQ(binding.arrays[2].data, conv.memory_y.data());
}

TEST(Binding, RemembersSizesOfTheSameShapesOnly) {
  Convolution conv;
  const backend::BindPlan plan(conv.program);
  const backend::BindOptions options{.plan = &plan};
  const auto sizes_of = [&](const Arguments& given, const Sizes& sizes = {}) {
    const Binding binding = backend::bind(conv.program, given, sizes, options);
    return std::pair(binding.sizes.at(conv.n), binding.sizes.at(conv.k));
  };
  const auto error_of_bind = [&](const Arguments& given, const Sizes& sizes = {}) {
    return error_of<UsageError>([&] { backend::bind(conv.program, given, sizes, options); });
  };
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_EQ(sizes_of(conv.arguments()), (std::pair<std::int64_t, std::int64_t>(8, 3)));
    EXPECT_EQ(sizes_of(conv.arguments(9, 3, 7)), (std::pair<std::int64_t, std::int64_t>(7, 3)));
    EXPECT_EQ(error_of_bind(conv.arguments(10, 3, 7)).code, ErrorCode::BadShape);
    EXPECT_EQ(sizes_of(conv.arguments(9, 3, 7)), (std::pair<std::int64_t, std::int64_t>(7, 3)));
    EXPECT_EQ(error_of_bind(conv.arguments(9, 3, 7), {{"n", 8}}).code, ErrorCode::BadShape);
    Arguments overlapping = conv.arguments(9, 3, 7);
    overlapping["y"].data = conv.memory_x.data();
    EXPECT_EQ(error_of_bind(overlapping).code, ErrorCode::Aliasing);
    Arguments typed = conv.arguments(9, 3, 7);
    typed["y"].type = ScalarType::I32;
    EXPECT_EQ(error_of_bind(typed).code, ErrorCode::BadType);
  }
}

TEST(Binding, SolvesAffineExtentsWithOneUnknown) {
  const Symbol n = make_symbol("n"), k = make_symbol("k"), m = make_symbol("m");
  const Array x = f32("x", {var(n) + var(k) - c(1)}, ArrayRole::Input);
  const Array w = f32("w", {c(2) * var(k) + c(1)}, ArrayRole::Input);
  const Array z = f32("z", {var(n) * var(m)}, ArrayRole::Input);
  const ir::Program program = make_program({n, k, m}, {z, x, w}, {});
  std::vector<float> data(100);
  const Arguments arguments = {
      {"x", view(data.data(), {10})}, {"w", view(data.data(), {7})}, {"z", view(data.data(), {40})}};
  const Binding binding = bind(program, arguments, {});
  EXPECT_EQ(binding.sizes.at(k), 3);  // 2k + 1 = 7
  EXPECT_EQ(binding.sizes.at(n), 8);  // n + 3 - 1 = 10
  EXPECT_EQ(binding.sizes.at(m), 5);  // 8m = 40
}

TEST(Binding, RefusesExtentsWithoutAnIntegerSolution) {
  const Symbol k = make_symbol("k");
  const Array w = f32("w", {c(2) * var(k) + c(3)}, ArrayRole::Input, 5);
  const ir::Program program = make_program({k}, {w}, {});
  std::vector<float> data(10);
  for (const std::int64_t extent : {8, 1}) {  // 2k = 5, and k = -1
    const ErrorInfo error = error_of<UsageError>([&] { bind(program, {{"w", view(data.data(), {extent})}}, {}); });
    EXPECT_EQ(error.code, ErrorCode::BadShape);
    EXPECT_EQ(error.array, "w");
    EXPECT_EQ(error.location.line, 5u);
    EXPECT_CONTAINS(error.message, "no size 'k'");
  }
}

TEST(Binding, ChecksThatExtentsAgree) {
  Convolution conv;
  const ErrorInfo error = conv.error(conv.arguments(9, 3, 8));
  EXPECT_EQ(error.code, ErrorCode::BadShape);
  EXPECT_EQ(error.program, "p");
  EXPECT_EQ(error.array, "x");
  EXPECT_EQ(error.location.line, 11u);
  EXPECT_FALSE(error.hint.empty());
  EXPECT_CONTAINS(error.message, "extent 9 in dimension 0, expected");
  EXPECT_CONTAINS(error.message, "= 10");
  EXPECT_CONTAINS(error.message, "n = 8");
}

TEST(Binding, GivenSizesWinAndMustAgree) {
  Convolution conv;
  EXPECT_EQ(bind(conv.program, conv.arguments(), {{"n", 8}}).sizes.at(conv.n), 8);
  const ErrorInfo error = conv.error(conv.arguments(), {{"k", 4}});
  EXPECT_EQ(error.code, ErrorCode::BadShape);
  EXPECT_CONTAINS(error.message, "expected k = 4");
  EXPECT_EQ(error.array, "w");
}

TEST(Binding, RefusesUnknownAndNegativeSizes) {
  Convolution conv;
  ErrorInfo error = conv.error(conv.arguments(), {{"m", 4}});
  EXPECT_EQ(error.code, ErrorCode::BadSize);
  EXPECT_CONTAINS(error.message, "there is no size 'm'");
  EXPECT_CONTAINS(error.hint, "n, k");
  EXPECT_NO_THROW(bind(conv.program, conv.arguments(), {{"m", 4}}, {.ignore_unknown = true}));
  error = conv.error(conv.arguments(), {{"n", -1}});
  EXPECT_EQ(error.code, ErrorCode::BadSize);
  EXPECT_CONTAINS(error.message, "negative");
  EXPECT_EQ(error.location.line, 1u);
}

TEST(Binding, RefusesSizesThatFollowFromNothing) {
  const Symbol n = make_symbol("n"), m = make_symbol("m");
  const Array x = f32("x", {var(n) + var(m)}, ArrayRole::Input);
  const ir::Program program = make_program({n, m}, {x}, {});
  std::vector<float> data(10);
  const ErrorInfo error = error_of<UsageError>([&] { bind(program, {{"x", view(data.data(), {10})}}, {}); });
  EXPECT_EQ(error.code, ErrorCode::BadSize);
  EXPECT_CONTAINS(error.message, "'n' does not follow");
  EXPECT_CONTAINS(error.hint, "\"n\"");
  EXPECT_EQ(bind(program, {{"x", view(data.data(), {10})}}, {{"n", 4}}).sizes.at(m), 6);
}

TEST(Binding, RefusesMissingUnknownAndMistypedArguments) {
  Convolution conv;
  Arguments arguments = conv.arguments();
  arguments.erase("w");
  ErrorInfo error = conv.error(arguments);
  EXPECT_EQ(error.code, ErrorCode::BadArgument);
  EXPECT_EQ(error.array, "w");
  EXPECT_EQ(error.location.line, 12u);

  arguments = conv.arguments();
  arguments["v"] = arguments["w"];
  error = conv.error(arguments);
  EXPECT_EQ(error.code, ErrorCode::BadArgument);
  EXPECT_CONTAINS(error.message, "there is no array 'v'");
  EXPECT_CONTAINS(error.hint, "x, w, y");
  EXPECT_EQ(bind(conv.program, arguments, {}, {.ignore_unknown = true}).arrays.size(), 3u);

  std::vector<double> doubles(3);
  arguments = conv.arguments();
  arguments["w"] = view(doubles.data(), {3});
  error = conv.error(arguments);
  EXPECT_EQ(error.code, ErrorCode::BadType);
  EXPECT_CONTAINS(error.message, "type f64, expected f32");
}

TEST(Binding, RefusesAnotherRank) {
  Convolution conv;
  Arguments arguments = conv.arguments();
  arguments["y"].shape = {4, 2};
  const ErrorInfo error = conv.error(arguments);
  EXPECT_EQ(error.code, ErrorCode::BadShape);
  EXPECT_EQ(error.array, "y");
  EXPECT_CONTAINS(error.message, "2 dimensions, expected 1");
}

TEST(Binding, RefusesNegativeAndHugeExtents) {
  Convolution conv;
  Arguments arguments = conv.arguments();
  arguments["w"].shape = {-3};
  EXPECT_EQ(conv.error(arguments).code, ErrorCode::BadSize);
  arguments["w"].shape = {std::numeric_limits<std::int64_t>::max() / 2};  // the count fits, the bytes do not
  const ErrorInfo error = conv.error(arguments);
  EXPECT_EQ(error.code, ErrorCode::BadSize);
  EXPECT_EQ(error.array, "w");
}

TEST(Binding, RefusesExtentsThatOverflow) {
  const Symbol n = make_symbol("n");
  const Array x = f32("x", {var(n) * var(n)}, ArrayRole::Input, 4);
  const ir::Program program = make_program({n}, {x}, {});
  std::vector<float> data(10);
  const auto error = error_of<UsageError>([&] {
    bind(program, {{"x", view(data.data(), {10})}}, {{"n", std::int64_t{1} << 40}});
  });
  EXPECT_EQ(error.code, ErrorCode::BadSize);
  EXPECT_EQ(error.array, "x");
  EXPECT_EQ(error.location.line, 4u);
  EXPECT_CONTAINS(error.message, "overflows");
  EXPECT_THROW(backend::evaluate(var(n) + c(1), {{n, std::numeric_limits<std::int64_t>::max()}}), UsageError);
  EXPECT_THROW(backend::shape_of(x, {{n, std::int64_t{1} << 31}}), UsageError);  // 2^62 elements of 4 bytes
  EXPECT_THROW(backend::shape_of(f32("y", {var(n) - c(5)}, ArrayRole::Input), {{n, 4}}), UsageError);
  EXPECT_EQ(backend::shape_of(x, {{n, 3}}), (std::vector<std::int64_t>{9}));
}

TEST(Binding, EvaluatesExpressionsOfSizes) {
  const Symbol n = make_symbol("n");
  const backend::SizeValues sizes = {{n, -7}};
  const auto value = [&](const Expr& e) { return backend::evaluate(e, sizes); };
  EXPECT_EQ(value(binary(BinaryOp::FloorDiv, var(n), c(2))), -4);
  EXPECT_EQ(value(binary(BinaryOp::Mod, var(n), c(3))), 2);
  EXPECT_EQ(value(binary(BinaryOp::Max, var(n), c(3))), 3);
  EXPECT_EQ(value(unary(UnaryOp::Abs, var(n))), 7);
  EXPECT_EQ(value(select(binary(BinaryOp::Lt, var(n), c(0)), c(1), binary(BinaryOp::FloorDiv, c(1), var(n) + c(7)))),
            1);
  EXPECT_EQ(value(binary(BinaryOp::FloorDiv, c(1), var(n) + c(7))), 0);  // divided by zero
  EXPECT_THROW(value(var(n) * c(std::numeric_limits<std::int64_t>::max())), UsageError);
  EXPECT_THROW(value(var(make_symbol("m"))), InternalError);
}

TEST(Binding, RefusesGapsAndTransposition) {
  const Symbol n = make_symbol("n"), m = make_symbol("m");
  const Array x = f32("x", {var(n), var(m)}, ArrayRole::Input, 3);
  const ir::Program program = make_program({n, m}, {x}, {});
  std::vector<float> data(100);
  const auto bind_strides = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    bind(program, {{"x", View{data.data(), ScalarType::F32, std::move(shape), std::move(strides)}}}, {});
  };
  EXPECT_NO_THROW(bind_strides({4, 5}, {5, 1}));
  EXPECT_NO_THROW(bind_strides({1, 5}, {77, 1}));  // a stride that is never used
  EXPECT_NO_THROW(bind_strides({0, 5}, {9, 9}));
  for (const auto& strides : std::vector<std::vector<std::int64_t>>{{6, 1}, {1, 4}, {10, 2}, {0, 1}, {-5, 1}, {5}}) {
    const ErrorInfo error = error_of<UsageError>([&] { bind_strides({4, 5}, strides); });
    EXPECT_EQ(error.code, ErrorCode::BadLayout);
    EXPECT_EQ(error.array, "x");
    EXPECT_EQ(error.location.line, 3u);
    EXPECT_CONTAINS(error.message, "not contiguous");
  }
}

TEST(Binding, RefusesNullAndMisalignedData) {
  Convolution conv;
  Arguments arguments = conv.arguments();
  arguments["w"].data = nullptr;
  EXPECT_EQ(conv.error(arguments).code, ErrorCode::BadArgument);
  arguments["w"].data = reinterpret_cast<char*>(conv.memory_w.data()) + 1;
  arguments["w"].shape = {1};
  arguments["y"].shape = {10};
  EXPECT_EQ(conv.error(arguments).code, ErrorCode::BadLayout);
  arguments["w"] = view(static_cast<const float*>(nullptr), {0});  // nothing is there to be read
  arguments["y"] = view(conv.memory_y.data(), {8});
  arguments["x"].shape = {7};
  EXPECT_EQ(bind(conv.program, arguments, {}).sizes.at(conv.k), 0);
}

TEST(Binding, AcceptsHalfTypesAndExpectsF64InF64Mode) {
  const Symbol n = make_symbol("n");
  const Array a = make_array("a", ScalarType::F16, {var(n)}, ArrayRole::Input, {});
  const Array b = make_array("b", ScalarType::BF16, {var(n)}, ArrayRole::Output, {});
  const Array i = i32("i", {var(n)}, ArrayRole::Input);
  const ir::Program program = make_program({n}, {a, b, i}, {});
  const HostArray half(ScalarType::F16, {4}), bfloat(ScalarType::BF16, {4}), ints(ScalarType::I32, {4});
  EXPECT_NO_THROW(bind(program, {{"a", half.view()}, {"b", bfloat.view()}, {"i", ints.view()}}, {}));
  EXPECT_THROW(bind(program, {{"a", bfloat.view()}, {"b", bfloat.view()}, {"i", ints.view()}}, {}), UsageError);
  const HostArray x(ScalarType::F64, {4}), y(ScalarType::F64, {4});
  const Arguments doubles = {{"a", x.view()}, {"b", y.view()}, {"i", ints.view()}};
  EXPECT_NO_THROW(bind(program, doubles, {}, {.all_f64 = true}));
  EXPECT_THROW(bind(program, doubles, {}), UsageError);
}

/// Two arrays of extent n with roles and facts of choice.
struct Pair {
  Symbol n = make_symbol("n"), m = make_symbol("m");
  Array a, b;
  std::array<float, 20> memory{};
  Pair(ArrayRole role_a, ArrayRole role_b) : a(f32("a", {var(n)}, role_a, 21)), b(f32("b", {var(m)}, role_b, 22)) {}
  void bind_at(std::int64_t offset, std::vector<Fact> facts = {}, Stmt body = {}) {
    const ir::Program program = make_program({n, m}, {a, b}, std::move(body), std::move(facts));
    bind(program, {{"a", view(memory.data(), {10})}, {"b", view(memory.data() + offset, {5})}}, {});
  }
};

TEST(Binding, RefusesOverlapWhenEitherIsWritten) {
  for (const auto& [role_a, role_b] : {std::pair{ArrayRole::Input, ArrayRole::Output},
                                       {ArrayRole::InOut, ArrayRole::Input},
                                       {ArrayRole::Output, ArrayRole::InOut}}) {
    for (const std::int64_t offset : {0, 3, 9}) {
      const ErrorInfo error = error_of<UsageError>([&] { Pair(role_a, role_b).bind_at(offset); });
      EXPECT_EQ(error.code, ErrorCode::Aliasing);
      EXPECT_EQ(error.array, "b");
      EXPECT_EQ(error.location.line, 22u);
      EXPECT_CONTAINS(error.message, "shares memory with 'a'");
      EXPECT_CONTAINS(error.hint, "may_alias(a, b)");
    }
    EXPECT_NO_THROW(Pair(role_a, role_b).bind_at(10));  // touching ends
  }
  EXPECT_NO_THROW(Pair(ArrayRole::Input, ArrayRole::Input).bind_at(3));
}

TEST(Binding, RefusesOverlapOfATapeThatIsWritten) {
  Pair written(ArrayRole::Tape, ArrayRole::Input);
  const Stmt body = assign(written.a, {c(0)}, f(1));
  EXPECT_EQ(error_of<UsageError>([&] { written.bind_at(2, {}, body); }).code, ErrorCode::Aliasing);
  EXPECT_NO_THROW(Pair(ArrayRole::Tape, ArrayRole::Input).bind_at(2));  // only read
}

TEST(Binding, AllowsStatedAliasing) {
  Pair pair(ArrayRole::Input, ArrayRole::InOut);
  const Fact fact{FactKind::MayAlias, pair.b, {}, {}, pair.a, {}};
  EXPECT_NO_THROW(pair.bind_at(3, {fact}));
}

TEST(Binding, RefusesStatedAliasingOfPartsOfElements) {
  const Array a = f32("a", {c(4)}, ArrayRole::InOut);
  const Array b = make_array("b", ScalarType::F64, {c(2)}, ArrayRole::InOut, {});
  const ir::Program program = make_program({}, {a, b}, {}, {Fact{FactKind::MayAlias, a, {}, {}, b, {}}});
  std::vector<double> memory(4);
  const Arguments arguments = {{"a", View{memory.data(), ScalarType::F32, {4}, {}}}, {"b", view(memory.data(), {2})}};
  const ErrorInfo error = error_of<UsageError>([&] { bind(program, arguments, {}); });
  EXPECT_EQ(error.code, ErrorCode::Aliasing);
  EXPECT_CONTAINS(error.message, "whole elements");
}

}  // namespace
}  // namespace loopgrad::test
