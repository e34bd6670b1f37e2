// Programs whose parallel loops are wrong, as a compiler might make them, and right ones that look alike.
#include "tests/unit/interpreter/programs.h"

namespace loopgrad::test {
namespace {

constexpr std::int64_t extent = 6;

/// One program over x (in-out), y (output) and s (in-out, rank 0), run with several seeds.
struct RaceTest : testing::Test {
  Symbol i = make_symbol("i"), j = make_symbol("j"), k = make_symbol("k");
  Array x = f32("x", {c(extent)}, ArrayRole::InOut), y = f32("y", {c(extent)}, ArrayRole::InOut);
  Array z = f32("z", {c(extent), c(extent)}, ArrayRole::InOut), s = f32("s", {}, ArrayRole::InOut);
  Array index = i32("index", {c(extent)}, ArrayRole::Input);
  std::vector<std::int32_t> indices = {0, 2, 4, 1, 3, 5};

  Expr at(const Array& array, const Expr& e) const { return load(array, {e}); }
  Stmt parallel(const Symbol& iterator, Stmt body, std::int64_t from = 0) const {
    return for_loop(iterator, c(from), c(extent), std::move(body), LoopMode::Parallel, line(4));
  }
  void run_body(const Stmt& body, std::uint64_t seed) {
    std::vector<float> memory_x(extent, 1), memory_y(extent, 1), memory_z(extent * extent, 1);
    float memory_s = 0;
    const ir::Program program = make_program({}, {x, y, z, s, index}, body);
    run(program,
        {{"x", view(memory_x.data(), {extent})},
         {"y", view(memory_y.data(), {extent})},
         {"z", view(memory_z.data(), {extent, extent})},
         {"s", view(&memory_s, {})},
         {"index", view(indices.data(), {extent})}},
        checked(seed));
  }
  void expect_clean(const Stmt& body) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) EXPECT_NO_THROW(run_body(body, seed)) << "seed " << seed;
  }
  /// Found in every order of the iterations; returns the first finding.
  ErrorInfo expect_race(const Stmt& body, const std::string& array, const std::string& loop = "i") {
    ErrorInfo first;
    for (std::uint64_t seed = 8; seed >= 1; --seed) {
      const ErrorInfo error = error_of<RuntimeError>([&] { run_body(body, seed); });
      EXPECT_EQ(error.code, ErrorCode::Race);
      EXPECT_EQ(error.array, array);
      EXPECT_EQ(error.loop, loop);
      first = error;
    }
    return first;
  }
};

TEST_F(RaceTest, StencilUpdateInPlace) {
  // x[i] = x[i] * x[i - 1]
  expect_race(parallel(i, assign(x, {var(i)}, at(x, var(i)) * at(x, var(i) - c(1))), 1), "x");
  // The same from one array into another is fine.
  expect_clean(parallel(i, assign(y, {var(i)}, at(x, var(i)) * at(x, var(i) - c(1))), 1));
}

TEST_F(RaceTest, AdjointOfAStencilThatCrossesIterations) {
  // The gradient of y[i] = x[i] * x[i-1] scattered by the loop of the primal.
  const Stmt scatter = block({reduce(x, {var(i)}, ReduceOp::Add, at(y, var(i)), line(6)),
                              reduce(x, {var(i) - c(1)}, ReduceOp::Add, at(y, var(i)), line(7))});
  const ErrorInfo error = expect_race(parallel(i, scatter, 1), "x");
  EXPECT_EQ(error.program, "p");
  EXPECT_TRUE(error.location.line == 6 || error.location.line == 7) << error.location.line;
  EXPECT_CONTAINS(error.message, "x[");
  EXPECT_CONTAINS(error.message, "i = ");
  EXPECT_CONTAINS(error.message, "(line user.cpp:");
  EXPECT_FALSE(error.hint.empty());
}

TEST_F(RaceTest, MessageNamesBothIterations) {
  const Stmt body = for_loop(i, c(0), c(2), assign(x, {c(3)}, f(1), line(5)), LoopMode::Parallel);
  const std::string message = expect_race(body, "x").message;
  const bool one_order = message.find("i = 0 writes x[3], i = 1 writes it (line user.cpp:5)") != std::string::npos;
  const bool other_order = message.find("i = 1 writes x[3], i = 0 writes it (line user.cpp:5)") != std::string::npos;
  EXPECT_TRUE(one_order || other_order) << message;
}

TEST_F(RaceTest, SumIntoOneElement) {
  expect_race(parallel(i, reduce(s, {}, ReduceOp::Add, at(x, var(i)))), "s");
  expect_clean(for_loop(i, c(0), c(extent), reduce(s, {}, ReduceOp::Add, at(x, var(i)))));
}

TEST_F(RaceTest, MissingBarrierBetweenPhases) {
  // Both phases in one parallel loop: the second reads what other iterations write in the first.
  const Stmt first = assign(y, {var(i)}, at(x, var(i)));
  const Stmt second = assign(x, {var(i)}, at(y, c(extent - 1) - var(i)));
  expect_race(parallel(i, block({first, second})), "y");
  // One loop after the other is what the barrier would have made of it.
  expect_clean(block({parallel(i, first), parallel(j, assign(x, {var(j)}, at(y, c(extent - 1) - var(j))))}));
}

TEST_F(RaceTest, EveryIterationReadsOneElementThatOneWrites) {
  const Stmt write = if_then(binary(BinaryOp::Eq, var(i), c(2)), assign(s, {}, f(1)));
  expect_race(parallel(i, block({assign(y, {var(i)}, load(s, {})), write})), "s");
  expect_race(parallel(i, block({write, assign(y, {var(i)}, load(s, {}))})), "s");
}

TEST_F(RaceTest, IndirectWritesDependOnTheIndices) {
  const Stmt scatter = parallel(i, assign(x, {cast(ScalarType::I64, at(index, var(i)))}, at(y, var(i))));
  expect_clean(scatter);
  indices[5] = 0;
  expect_race(scatter, "x");
}

TEST_F(RaceTest, SharedTemporaryAndPrivateLocal) {
  const Array t = f32("t", {c(2)}, ArrayRole::Local);
  const Stmt use = block({assign(t, {c(1)}, at(x, var(i))), assign(y, {var(i)}, at(t, c(1)))});
  expect_race(allocate(t, parallel(i, use)), "t");
  expect_clean(parallel(i, allocate(t, use)));
}

TEST_F(RaceTest, LocalOfAnOuterIterationIsSharedByTheInnerLoop) {
  const Array t = f32("t", {c(extent)}, ArrayRole::Local);
  const auto nest = [&](const Expr& target) {
    return parallel(i, allocate(t, block({parallel(j, assign(t, {target}, f(1))),
                                          parallel(k, assign(z, {var(i), var(k)}, at(t, c(0))))})));
  };
  expect_race(nest(c(0)), "t", "j");
  expect_clean(nest(var(j)));
}

TEST_F(RaceTest, NestedParallelLoops) {
  const auto nest = [&](std::vector<Expr> target) {
    return parallel(i, parallel(j, assign(z, std::move(target), f(1))));
  };
  expect_clean(nest({var(i), var(j)}));
  expect_race(nest({c(0), var(j)}), "z", "i");
  expect_race(nest({var(i), c(0)}), "z", "j");
}

TEST_F(RaceTest, InnerParallelLoopMayRunAgainAndAgain) {
  // Sequential outer loop: each entry of the inner loop is over before the next one reads.
  const Stmt step = block({parallel(i, assign(y, {var(i)}, at(x, c(extent - 1) - var(i)))),
                           parallel(j, assign(x, {var(j)}, at(y, var(j))))});
  expect_clean(for_loop(k, c(0), c(3), step));
  // In one iteration of a parallel loop, two inner loops are in order as well.
  const Stmt row = block({parallel(i, assign(z, {var(k), var(i)}, f(1))),
                          parallel(j, assign(z, {var(k), var(j)}, load(z, {var(k), c(0)}) + f(1)), 1)});
  expect_clean(parallel(k, row));
}

TEST_F(RaceTest, SequentialInnerLoopBelongsToItsIteration) {
  expect_clean(parallel(i, for_loop(j, c(0), c(extent), reduce(x, {var(i)}, ReduceOp::Add, f(1)))));
  expect_race(parallel(i, for_loop(j, c(0), c(extent), reduce(x, {var(j)}, ReduceOp::Add, f(1)))), "x");
}

TEST_F(RaceTest, AtomicSumsOfOneOpCommute) {
  const auto atomic = [&](const Array& array, std::vector<Expr> at_indices, ReduceOp op) {
    return reduce(array, std::move(at_indices), op, f(1), {}, true);
  };
  expect_clean(parallel(i, atomic(s, {}, ReduceOp::Add)));
  expect_clean(parallel(i, parallel(j, atomic(x, {var(j)}, ReduceOp::Max))));
  expect_race(parallel(i, block({atomic(s, {}, ReduceOp::Add), atomic(s, {}, ReduceOp::Mul)})), "s");
  expect_race(parallel(i, if_then(binary(BinaryOp::Lt, var(i), c(3)), atomic(s, {}, ReduceOp::Add),
                                  atomic(s, {}, ReduceOp::Max))),
              "s");
  expect_race(parallel(i, block({atomic(s, {}, ReduceOp::Add), assign(y, {var(i)}, load(s, {}))})), "s");
  expect_race(
      parallel(i, if_then(binary(BinaryOp::Eq, var(i), c(3)), assign(s, {}, f(0)), atomic(s, {}, ReduceOp::Add))), "s");
  // Not atomic against atomic.
  expect_race(parallel(i, if_then(binary(BinaryOp::Eq, var(i), c(3)), reduce(s, {}, ReduceOp::Add, f(1)),
                                  atomic(s, {}, ReduceOp::Add))),
              "s");
}

TEST_F(RaceTest, OneIterationMayDoAsItLikes) {
  const auto own = [&](const Expr& e) {
    return block({assign(x, {e}, f(1)), reduce(x, {e}, ReduceOp::Add, f(1), {}, true),
                  reduce(x, {e}, ReduceOp::Mul, f(2), {}, true), reduce(x, {e}, ReduceOp::Add, at(x, e))});
  };
  expect_clean(parallel(i, own(var(i))));
}

TEST_F(RaceTest, BoundsAndConditionsAreReadsToo) {
  const Array limits = make_array("limits", ScalarType::I64, {c(extent)}, ArrayRole::InOut, {});
  const Stmt inner = for_loop(j, c(0), load(limits, {c(0)}), assign(z, {var(i), var(j)}, f(1)));
  const Stmt body = parallel(i, block({inner, assign(limits, {var(i)}, c(2))}));
  std::vector<std::int64_t> memory(extent, 1);
  std::vector<float> memory_z(extent * extent);
  const ir::Program program = make_program({}, {z, limits}, body);
  const auto error = error_of<RuntimeError>([&] {
    run(program, {{"z", view(memory_z.data(), {extent, extent})}, {"limits", view(memory.data(), {extent})}},
        checked());
  });
  EXPECT_EQ(error.code, ErrorCode::Race);
  EXPECT_EQ(error.array, "limits");
}

TEST_F(RaceTest, StatedAliasesRaceToo) {
  const Array a = f32("a", {c(4)}, ArrayRole::Input), b = f32("b", {c(4)}, ArrayRole::InOut);
  const Fact fact{FactKind::MayAlias, a, {}, {}, b, {}};
  const ir::Program program =
      make_program({}, {a, b}, for_loop(i, c(0), c(4), assign(b, {var(i)}, at(a, var(i))), LoopMode::Parallel), {fact});
  std::vector<float> memory(8);
  const auto run_at = [&](std::int64_t offset) {
    run(program, {{"a", view(memory.data(), {4})}, {"b", view(memory.data() + offset, {4})}}, checked());
  };
  EXPECT_NO_THROW(run_at(0));  // each iteration reads and writes its own element
  EXPECT_NO_THROW(run_at(4));
  EXPECT_EQ(error_of<RuntimeError>([&] { run_at(1); }).code, ErrorCode::Race);
}

TEST_F(RaceTest, UncheckedModeRunsInOrder) {
  std::vector<float> data = {1, 2, 3};
  const Array v = f32("v", {c(3)}, ArrayRole::InOut);
  const ir::Program program = make_program(
      {}, {v}, for_loop(i, c(1), c(3), assign(v, {var(i)}, at(v, var(i)) + at(v, var(i) - c(1))), LoopMode::Parallel));
  run(program, {{"v", view(data.data(), {3})}});
  EXPECT_EQ(data, (std::vector<float>{1, 3, 6}));
}

}  // namespace
}  // namespace loopgrad::test
