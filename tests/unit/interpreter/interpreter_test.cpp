// What conditions, statements and arrays mean, in unchecked mode.
#include "tests/unit/interpreter/programs.h"

#include <cmath>
#include <limits>

namespace loopgrad::test {
namespace {

TEST(Conditions, EvaluateOnlyWhatTheyNeed) {
  // x[i] is in range only on the side that must be taken.
  const Array x = f32("x", {c(3)}, ArrayRole::Input), y = f32("y", {c(5)}, ArrayRole::Output);
  const Symbol i = make_symbol("i");
  const Expr inside = binary(BinaryOp::Lt, var(i), c(3));
  const Expr positive = binary(BinaryOp::Gt, load(x, {var(i)}), f(0));
  const Expr both = binary(BinaryOp::And, inside, positive);
  const Expr either = binary(BinaryOp::Or, unary(UnaryOp::Not, inside), positive);
  std::vector<float> data = {1, -1, 2}, result(5);
  const auto results = [&](const Expr& value) {
    const Stmt body = for_loop(i, c(0), c(5), assign(y, {var(i)}, value));
    run(make_program({}, {x, y}, body), {{"x", view(data.data(), {3})}, {"y", view(result.data(), {5})}});
    return result;
  };
  EXPECT_EQ(results(select(inside, load(x, {var(i)}), f(9))), (std::vector<float>{1, -1, 2, 9, 9}));
  EXPECT_EQ(results(select(both, f(1), f(0))), (std::vector<float>{1, 0, 1, 0, 0}));
  EXPECT_EQ(results(select(either, f(1), f(0))), (std::vector<float>{1, 0, 1, 1, 1}));
}

TEST(Loops, EvaluateBoundsOnceAndRunInOrder) {
  const Array limit = make_array("limit", ScalarType::I64, {}, ArrayRole::InOut, {});
  const Array order = make_array("order", ScalarType::I64, {c(10)}, ArrayRole::InOut, {});
  const Array count = make_array("count", ScalarType::I64, {}, ArrayRole::InOut, {});
  const Symbol i = make_symbol("i");
  const auto results = [&](LoopMode mode) {
    std::int64_t n = 4, steps = 0;
    std::vector<std::int64_t> seen(10, -1);
    // The body changes what the bound was read from.
    const Stmt body = block({assign(order, {load(count, {})}, var(i)), reduce(count, {}, ReduceOp::Add, c(1)),
                             reduce(limit, {}, ReduceOp::Add, c(3))});
    run(make_program({}, {limit, order, count}, for_loop(i, c(1), load(limit, {}), body, mode)),
        {{"limit", view(&n, {})}, {"order", view(seen.data(), {10})}, {"count", view(&steps, {})}});
    seen.resize(static_cast<std::size_t>(steps));
    return seen;
  };
  EXPECT_EQ(results(LoopMode::Forward), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(results(LoopMode::Parallel), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(results(LoopMode::Backward), (std::vector<std::int64_t>{3, 2, 1}));
}

TEST(Loops, MayBeEmpty) {
  const Array y = f32("y", {}, ArrayRole::InOut);
  const Symbol i = make_symbol("i");
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), highest = std::numeric_limits<std::int64_t>::max();
  for (const LoopMode mode : {LoopMode::Forward, LoopMode::Backward, LoopMode::Parallel}) {
    float value = 5;
    const Stmt body = block({for_loop(i, c(3), c(3), assign(y, {}, f(0)), mode),
                             for_loop(make_symbol("j"), c(highest), c(lowest), assign(y, {}, f(0)), mode)});
    const ir::Program program = make_program({}, {y}, body);
    run(program, {{"y", view(&value, {})}});
    run(program, {{"y", view(&value, {})}}, checked());
    EXPECT_EQ(value, 5);
  }
}

TEST(Loops, WhileTestsBeforeEachTrip) {
  // Halve x until it is below 1, at most max times.
  const Array x = f32("x", {}, ArrayRole::InOut);
  const Array trips = make_array("trips", ScalarType::I64, {}, ArrayRole::InOut, {});
  const Symbol i = make_symbol("i"), max = make_symbol("max");
  const Stmt body = block({reduce(x, {}, ReduceOp::Mul, f(0.5)), assign(trips, {}, var(i) + c(1))});
  const ir::Program program =
      make_program({max}, {x, trips}, while_loop(i, var(max), binary(BinaryOp::Ge, load(x, {}), f(1)), body));
  const auto trips_from = [&](float start, std::int64_t limit) {
    std::int64_t made = 0;
    run(program, {{"x", view(&start, {})}, {"trips", view(&made, {})}}, {}, {{"max", limit}});
    return made;
  };
  EXPECT_EQ(trips_from(5, 10), 3);
  EXPECT_EQ(trips_from(5, 2), 2);
  EXPECT_EQ(trips_from(0.5, 10), 0);
  EXPECT_EQ(trips_from(5, 0), 0);
}

TEST(Statements, BranchOnData) {
  const Array x = f32("x", {c(3)}, ArrayRole::InOut);
  const Symbol i = make_symbol("i");
  const Expr xi = load(x, {var(i)});
  const Stmt body = for_loop(i, c(0), c(3),
                             block({if_then(binary(BinaryOp::Lt, xi, f(0)), assign(x, {var(i)}, -xi)),
                                    if_then(binary(BinaryOp::Gt, xi, f(2)), assign(x, {var(i)}, f(2)),
                                            reduce(x, {var(i)}, ReduceOp::Add, f(10)))}));
  std::vector<float> data = {-1, 3, -4};
  run(make_program({}, {x}, body), {{"x", view(data.data(), {3})}});
  EXPECT_EQ(data, (std::vector<float>{11, 2, 2}));
}

TEST(Statements, ReduceWithEveryOp) {
  const Array x = f32("x", {c(4)}, ArrayRole::InOut);
  const Array n = i32("n", {c(4)}, ArrayRole::InOut);
  std::vector<Stmt> body;
  const ReduceOp ops[] = {ReduceOp::Add, ReduceOp::Mul, ReduceOp::Min, ReduceOp::Max};
  for (int k = 0; k < 4; ++k) {
    body.push_back(reduce(x, {c(k)}, ops[k], f(3)));
    body.push_back(reduce(n, {c(k)}, ops[k], int_const(-3, ScalarType::I32)));
  }
  std::vector<float> data = {5, 5, 5, 5};
  std::vector<std::int32_t> ints = {5, 5, 5, 5};
  run(make_program({}, {x, n}, block(body)), {{"x", view(data.data(), {4})}, {"n", view(ints.data(), {4})}});
  EXPECT_EQ(data, (std::vector<float>{8, 15, 3, 5}));
  EXPECT_EQ(ints, (std::vector<std::int32_t>{2, -15, -3, 5}));
}

TEST(Arrays, AreRowMajorAndIndexedByData) {
  const Symbol n = make_symbol("n"), m = make_symbol("m"), i = make_symbol("i"), j = make_symbol("j");
  const Array x = f32("x", {var(n), var(m)}, ArrayRole::Input);
  const Array index = i32("index", {var(m)}, ArrayRole::Input);
  const Array y = f32("y", {var(m), var(n)}, ArrayRole::Output);
  const Expr target = cast(ScalarType::I64, load(index, {var(j)}));
  const Stmt body =
      for_loop(i, c(0), var(n), for_loop(j, c(0), var(m), assign(y, {target, var(i)}, load(x, {var(i), var(j)}))));
  std::vector<float> from = {1, 2, 3, 4, 5, 6}, to(6);
  std::vector<std::int32_t> order = {2, 0, 1};
  run(make_program({n, m}, {x, index, y}, body),
      {{"x", view(from.data(), {2, 3})}, {"index", view(order.data(), {3})}, {"y", view(to.data(), {3, 2})}});
  EXPECT_EQ(to, (std::vector<float>{2, 5, 3, 6, 1, 4}));
}

TEST(Arrays, StoreHalfTypesRounded) {
  for (const ScalarType type : {ScalarType::F16, ScalarType::BF16}) {
    const Array x = make_array("x", type, {}, ArrayRole::InOut, {});
    const Array y = f32("y", {}, ArrayRole::Output);
    HostArray data(type, {});
    data.set(0, 256);
    float result = 0;
    // 256 + 0.25 in f32, then stored: f16 keeps 0.25, bf16 does not. The sum of two loads happens in f32.
    const Stmt body = block({reduce(x, {}, ReduceOp::Add, f(0.25)), assign(y, {}, load(x, {}) + f(1e-3))});
    run(make_program({}, {x, y}, body), {{"x", data.view()}, {"y", view(&result, {})}});
    const float stored = type == ScalarType::F16 ? 256.25f : 256.0f;
    EXPECT_EQ(data.get(0), stored);
    EXPECT_EQ(result, stored + 1e-3f);
  }
}

TEST(Arrays, LocalsMayDependOnIterators) {
  // Reverses the first i + 1 elements through a local of that extent and sums the first of each.
  const Symbol n = make_symbol("n"), i = make_symbol("i"), j = make_symbol("j"), k = make_symbol("k");
  const Array x = f32("x", {var(n)}, ArrayRole::Input), y = f32("y", {var(n)}, ArrayRole::Output);
  const Array t = f32("t", {var(i) + c(1)}, ArrayRole::Local);
  const Stmt fill = for_loop(j, c(0), var(i) + c(1), assign(t, {var(j)}, load(x, {var(i) - var(j)})));
  const Stmt sum = for_loop(k, c(0), var(i) + c(1), reduce(y, {var(i)}, ReduceOp::Add, load(t, {var(k)})));
  const Stmt body = for_loop(i, c(0), var(n), allocate(t, block({fill, assign(y, {var(i)}, load(t, {c(0)})), sum})));
  std::vector<float> from = {1, 2, 3}, to(3);
  const ir::Program program = make_program({n}, {x, y}, body);
  for (const auto& options : {backend::InterpreterOptions{}, checked()}) {
    run(program, {{"x", view(from.data(), {3})}, {"y", view(to.data(), {3})}}, options);
    EXPECT_EQ(to, (std::vector<float>{2, 5, 9}));
  }
}

TEST(Arrays, LocalsOfBadShapeAreErrors) {
  const Symbol n = make_symbol("n");
  const Array t = f32("t", {var(n) - c(5), var(n)}, ArrayRole::Local, 31);
  const ir::Program program = make_program({n}, {}, allocate(t, assign(t, {c(0), c(0)}, f(1)), line(32)));
  const auto error_at = [&](std::int64_t size) {
    return error_of<RuntimeError>([&] { run(program, {}, {}, {{"n", size}}); });
  };
  const ErrorInfo error = error_at(3);
  EXPECT_EQ(error.code, ErrorCode::BadSize);
  EXPECT_EQ(error.array, "t");
  EXPECT_EQ(error.location.line, 32u);
  EXPECT_CONTAINS(error.message, "[-2, 3]");
  EXPECT_EQ(error_at(std::int64_t{1} << 33).code, ErrorCode::BadSize);      // more than 64 bits of bytes
  EXPECT_EQ(error_at(std::int64_t{1} << 28).code, ErrorCode::OutOfMemory);  // 2^58 bytes
}

TEST(Arrays, AnIndexOutOfRangeIsAnErrorInEveryMode) {
  const Symbol n = make_symbol("n"), i = make_symbol("i"), j = make_symbol("j");
  const Array x = f32("x", {var(n), c(4)}, ArrayRole::Input, 3), y = f32("y", {var(n)}, ArrayRole::InOut, 4);
  const Expr element = load(x, {var(i), var(i) + var(j)}, line(6));
  const Stmt body =
      for_loop(i, c(0), var(n), for_loop(j, c(0), c(3), reduce(y, {var(i)}, ReduceOp::Add, element, line(5))));
  const ir::Program program = make_program({n}, {x, y}, body);
  std::vector<float> data(12), result(3);
  for (const auto& options : {backend::InterpreterOptions{}, checked()}) {
    const ErrorInfo error = error_of<RuntimeError>([&] {
      run(program, {{"x", view(data.data(), {3, 4})}, {"y", view(result.data(), {3})}}, options);
    });
    EXPECT_EQ(error.code, ErrorCode::BadIndex);
    EXPECT_EQ(error.array, "x");
    EXPECT_EQ(error.loop, "j");
    EXPECT_EQ(error.program, "p");
    EXPECT_EQ(error.location.line, 6u);
    EXPECT_CONTAINS(error.message, "index 4 is outside of [0, 4), dimension 1 of x at i = 2, j = 2");
  }
}

TEST(Arrays, ANegativeIndexIsAnError) {
  const Array y = f32("y", {c(3)}, ArrayRole::InOut);
  std::vector<float> result(3);
  for (const Stmt& body : {assign(y, {c(-1)}, f(1)), reduce(y, {c(-1)}, ReduceOp::Add, f(1))}) {
    const ir::Program program = make_program({}, {y}, body);
    const auto error = error_of<RuntimeError>([&] { run(program, {{"y", view(result.data(), {3})}}); });
    EXPECT_EQ(error.code, ErrorCode::BadIndex);
    EXPECT_CONTAINS(error.message, "index -1");
  }
}

TEST(Stack, PopsWhatWasPushedLast) {
  const Array x = f32("x", {c(3)}, ArrayRole::InOut),
              flag = make_array("flag", ScalarType::Bool, {}, ArrayRole::Output, {});
  const Symbol i = make_symbol("i"), j = make_symbol("j");
  const Stmt forward =
      block({push(binary(BinaryOp::Gt, load(x, {c(0)}), f(0))), for_loop(i, c(0), c(3), push(load(x, {var(i)})))});
  const Stmt backward = block({for_loop(j, c(0), c(3), pop(x, {var(j)})), pop(flag, {})});
  std::vector<float> data = {1, 2, 3};
  bool positive = false;
  const Arguments arguments = {{"x", view(data.data(), {3})}, {"flag", view(&positive, {})}};
  backend::ValueStack stack;
  const ir::Program push_program = make_program({}, {x, flag}, forward);
  backend::interpret(push_program, backend::bind(push_program, arguments, {}), {}, &stack);
  EXPECT_EQ(stack.entries.size(), 4u);
  EXPECT_EQ(stack.bytes, 13);
  const ir::Program pop_program = make_program({}, {x, flag}, backward);
  backend::interpret(pop_program, backend::bind(pop_program, arguments, {}), {}, &stack);
  EXPECT_EQ(data, (std::vector<float>{3, 2, 1}));
  EXPECT_TRUE(positive);
  EXPECT_TRUE(stack.entries.empty());
  EXPECT_EQ(stack.bytes, 0);
  EXPECT_EQ(stack.peak_bytes, 13);
}

TEST(Stack, MisuseIsAnInternalError) {
  const Array x = f32("x", {}, ArrayRole::InOut), n = i32("n", {}, ArrayRole::InOut);
  float value = 0;
  std::int32_t integer = 0;
  const Arguments arguments = {{"x", view(&value, {})}, {"n", view(&integer, {})}};
  EXPECT_THROW(run(make_program({}, {x, n}, pop(x, {})), arguments), InternalError);
  EXPECT_THROW(run(make_program({}, {x, n}, block({push(load(n, {})), pop(x, {})})), arguments), InternalError);
}

TEST(F64Mode, ComputesAndStoresInF64) {
  const Array x = f32("x", {}, ArrayRole::Input), y = make_array("y", ScalarType::F16, {}, ArrayRole::Output, {});
  const Array t = f32("t", {}, ArrayRole::Local);
  const Stmt body = allocate(t, block({push((load(x, {}) + f(1)) - f(1)), pop(t, {}),
                                       assign(y, {}, cast(ScalarType::F32, cast(ScalarType::F64, load(t, {}))))}));
  const ir::Program program = make_program({}, {x, y}, body);
  double from = std::ldexp(1.0, -40), to = 0;
  backend::InterpreterOptions options;
  options.f64 = true;
  run(program, {{"x", view(&from, {})}, {"y", view(&to, {})}}, options);
  EXPECT_EQ(to, from);
}

TEST(Work, IsCountedExactly) {
  const Symbol n = make_symbol("n"), i = make_symbol("i");
  const Array x = f32("x", {var(n)}, ArrayRole::Input), y = f32("y", {}, ArrayRole::InOut);
  const Array index = i32("index", {var(n)}, ArrayRole::Input), t = f32("t", {}, ArrayRole::Local);
  const Expr at = cast(ScalarType::I64, load(index, {var(i)})) + c(0);
  // Per trip: 2 loads and exp, mul, negation for t; then t is added to y: 3 flops, 3 loads, 1 store. The counter is an
  // integer and a local.
  const Array counter = i32("counter", {}, ArrayRole::Local);
  const Stmt trip = allocate(
      t, block({assign(t, {}, -unary(UnaryOp::Exp, load(x, {at})) * f(3)), reduce(y, {}, ReduceOp::Add, load(t, {}))}));
  const Stmt count = reduce(counter, {}, ReduceOp::Add, int_const(1, ScalarType::I32));
  const Stmt body = allocate(counter, block({assign(counter, {}, int_const(0, ScalarType::I32)),
                                             for_loop(i, c(0), var(n), block({trip, count}))}));
  const ir::Program program = make_program({n}, {x, y, index}, body);
  std::vector<float> data(5);
  std::vector<std::int32_t> zeros(5);
  float result = 0;
  for (const bool with_checks : {false, true}) {
    backend::WorkCount work;
    backend::InterpreterOptions options;
    options.checked = with_checks;
    options.work = &work;
    run(program, {{"x", view(data.data(), {5})}, {"y", view(&result, {})}, {"index", view(zeros.data(), {5})}},
        options);
    EXPECT_EQ(work.flops, 15);
    EXPECT_EQ(work.loads, 15);
    EXPECT_EQ(work.stores, 5);
  }
}

}  // namespace
}  // namespace loopgrad::test
