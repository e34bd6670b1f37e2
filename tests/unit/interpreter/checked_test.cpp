// What checked mode finds, races apart.
#include "tests/unit/interpreter/programs.h"

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace loopgrad::test {
namespace {

/// Runs in unchecked mode, which must succeed, and in checked mode, which must not.
ErrorInfo found(const ir::Program& program, const Arguments& arguments, const Sizes& sizes = {}) {
  EXPECT_NO_THROW(run(program, arguments, {}, sizes));
  return error_of<RuntimeError>([&] { run(program, arguments, checked(), sizes); });
}

TEST(Uninitialised, OutputsStartWithoutValues) {
  const Symbol n = make_symbol("n"), i = make_symbol("i");
  const Array y = f32("y", {var(n)}, ArrayRole::Output, 3);
  // Every second element only is written before all are added to.
  const Symbol j = make_symbol("j");
  const Stmt body =
      block({for_loop(i, c(0), c(2), assign(y, {c(2) * var(i)}, f(1))),
             for_loop(j, c(0), var(n), reduce(y, {var(j)}, ReduceOp::Add, f(1), line(9)), LoopMode::Forward, line(8))});
  std::vector<float> data(4);
  const ErrorInfo error = found(make_program({n}, {y}, body), {{"y", view(data.data(), {4})}});
  EXPECT_EQ(error.code, ErrorCode::UninitialisedRead);
  EXPECT_EQ(error.program, "p");
  EXPECT_EQ(error.loop, "j");
  EXPECT_EQ(error.array, "y");
  EXPECT_EQ(error.location.line, 9u);
  EXPECT_CONTAINS(error.message, "y[1] is read before it is written at j = 1");
}

TEST(Uninitialised, InputsAndInOutsHaveValues) {
  const Array x = f32("x", {}, ArrayRole::Input), y = f32("y", {}, ArrayRole::InOut);
  float a = 1, b = 2;
  run(make_program({}, {x, y}, reduce(y, {}, ReduceOp::Add, load(x, {}))), {{"x", view(&a, {})}, {"y", view(&b, {})}},
      checked());
  EXPECT_EQ(b, 3);
}

TEST(Uninitialised, TapesHaveValuesWhereTheyAreOnlyRead) {
  const Array tape = f32("tape", {c(2)}, ArrayRole::Tape), y = f32("y", {}, ArrayRole::Output);
  std::vector<float> values = {4, 5};
  float result = 0;
  const Arguments arguments = {{"tape", view(values.data(), {2})}, {"y", view(&result, {})}};
  run(make_program({}, {tape, y}, assign(y, {}, load(tape, {c(1)}))), arguments, checked());
  EXPECT_EQ(result, 5);
  const Stmt forward = block({assign(tape, {c(0)}, f(1)), assign(y, {}, load(tape, {c(1)}))});
  EXPECT_EQ(found(make_program({}, {tape, y}, forward), arguments).code, ErrorCode::UninitialisedRead);
}

TEST(Uninitialised, LocalsStartAfreshOnEveryEntry) {
  const Symbol n = make_symbol("n"), i = make_symbol("i");
  const Array y = f32("y", {var(n)}, ArrayRole::Output), t = f32("t", {c(2)}, ArrayRole::Local);
  // Only the first trip writes t: the second must not see its value.
  const Stmt trip = allocate(t, block({if_then(binary(BinaryOp::Eq, var(i), c(0)), assign(t, {c(1)}, f(1))),
                                       assign(y, {var(i)}, load(t, {c(1)}), line(5))}));
  std::vector<float> data(3);
  const ErrorInfo error =
      found(make_program({n}, {y}, for_loop(i, c(0), var(n), trip)), {{"y", view(data.data(), {3})}});
  EXPECT_EQ(error.code, ErrorCode::UninitialisedRead);
  EXPECT_EQ(error.array, "t");
  EXPECT_CONTAINS(error.message, "t[1] is read before it is written at i = 1");
}

TEST(Uninitialised, AnAccumulatorMustBeSet) {
  const Array t = f32("t", {}, ArrayRole::Local), y = f32("y", {}, ArrayRole::Output);
  const auto body = [&](Stmt first) {
    return allocate(t, block({std::move(first), reduce(t, {}, ReduceOp::Add, f(2)), assign(y, {}, load(t, {}))}));
  };
  float result = 0;
  const Arguments arguments = {{"y", view(&result, {})}};
  EXPECT_EQ(found(make_program({}, {y}, body({})), arguments).code, ErrorCode::UninitialisedRead);
  run(make_program({}, {y}, body(assign(t, {}, f(0)))), arguments, checked());
  EXPECT_EQ(result, 2);
}

TEST(Uninitialised, TheIdentityGivesNoValue) {
  const Array t = f32("t", {}, ArrayRole::Local), y = f32("y", {}, ArrayRole::Output);
  float result = 0;
  const Arguments arguments = {{"y", view(&result, {})}};
  const auto sum_of = [&](ReduceOp op, float a, float b) {
    const Stmt sums = block({reduce(t, {}, op, f(a)), reduce(t, {}, op, f(b)), assign(y, {}, f(1))});
    return make_program({}, {y}, allocate(t, sums));
  };
  const float infinite = std::numeric_limits<float>::infinity();
  const std::tuple<ReduceOp, float, float> cases[] = {
      {ReduceOp::Add, 0, 2}, {ReduceOp::Mul, 1, 0}, {ReduceOp::Min, infinite, 0}, {ReduceOp::Max, -infinite, 0}};
  for (const auto& [op, identity, other] : cases) {
    run(sum_of(op, identity, identity), arguments, checked());
    EXPECT_EQ(found(sum_of(op, identity, other), arguments).code, ErrorCode::UninitialisedRead);
  }
  const Stmt read = block({reduce(t, {}, ReduceOp::Add, f(0)), assign(y, {}, load(t, {}))});
  EXPECT_EQ(found(make_program({}, {y}, allocate(t, read)), arguments).code, ErrorCode::UninitialisedRead);
}

/// A scalar may accumulate for an element that has no value, where nothing is added; whoever else reads it has read the
/// element.
TEST(Uninitialised, AScalarStandsForTheElementThatItCopies) {
  const Array t = f32("t", {c(4)}, ArrayRole::Local), s = f32("s", {}, ArrayRole::Local);
  const Array y = f32("y", {}, ArrayRole::Output);
  float result = 0;
  const Arguments arguments = {{"y", view(&result, {})}};
  // The scalar has accumulated for another element before.
  const auto with = [&](float added, Stmt then) {
    const Stmt accumulated =
        block({assign(s, {}, f(7)), assign(s, {}, load(t, {c(3)}), line(4)), reduce(s, {}, ReduceOp::Add, f(added)),
               assign(t, {c(3)}, load(s, {})), std::move(then)});
    return make_program({}, {y}, allocate(t, allocate(s, accumulated)));
  };
  run(with(0, assign(y, {}, f(1))), arguments, checked());
  const ir::Program wrong[] = {with(2, assign(y, {}, f(1))), with(0, assign(t, {c(2)}, load(s, {}))),
                               with(0, assign(y, {}, load(s, {}) * f(2))), with(0, assign(y, {}, load(s, {}))),
                               with(0, assign(y, {}, load(t, {c(3)}), line(4)))};
  for (const ir::Program& program : wrong) {
    const ErrorInfo error = found(program, arguments);
    EXPECT_EQ(error.code, ErrorCode::UninitialisedRead);
    EXPECT_EQ(error.location.line, 4u);
    EXPECT_CONTAINS(error.message, "t[3] is read before it is written");
  }
}

TEST(Uninitialised, StatedAliasesShareWhatIsKnown) {
  // b is a window into a: writing through a makes elements of b readable.
  const Array a = f32("a", {c(4)}, ArrayRole::Output), b = f32("b", {c(2)}, ArrayRole::Output);
  const Array y = f32("y", {}, ArrayRole::Output);
  const Fact fact{FactKind::MayAlias, a, {}, {}, b, {}};
  std::vector<float> memory(4);
  float result = 0;
  const Arguments arguments = {
      {"a", view(memory.data(), {4})}, {"b", view(memory.data() + 1, {2})}, {"y", view(&result, {})}};
  const auto program = [&](std::int64_t written) {
    return make_program({}, {b, y, a}, block({assign(a, {c(written)}, f(7)), assign(y, {}, load(b, {c(1)}))}), {fact});
  };
  run(program(2), arguments, checked());
  EXPECT_EQ(result, 7);
  EXPECT_EQ(found(program(1), arguments).code, ErrorCode::UninitialisedRead);
}

struct NanCase {
  const char* text;
  Expr (*make)(const Expr& x);
  float x;
};
TEST(NotANumber, IsTrappedWhereItIsMade) {
  const NanCase cases[] = {
      {"sqrt(-1)", [](const Expr& x) { return unary(UnaryOp::Sqrt, x); }, -1},
      {"log(-2)", [](const Expr& x) { return unary(UnaryOp::Log, x); }, -2},
      {"div(0, 0)", [](const Expr& x) { return binary(BinaryOp::Div, x, x); }, 0},
      {"sub(inf, inf)", [](const Expr& x) { return binary(BinaryOp::Div, f(1), x) - binary(BinaryOp::Div, f(1), x); },
       0},
      {"pow(-8, 0.5)", [](const Expr& x) { return binary(BinaryOp::Pow, x, f(0.5)); }, -8},
  };
  for (const NanCase& test : cases) {
    const Symbol i = make_symbol("i");
    const Array x = f32("x", {c(3)}, ArrayRole::Input), y = f32("y", {c(3)}, ArrayRole::Output);
    const Stmt body = for_loop(i, c(0), c(3), assign(y, {var(i)}, test.make(load(x, {var(i)})), line(6)));
    const ir::Program program = make_program({}, {x, y}, body);
    std::vector<float> from = {1, test.x, 1}, to(3);
    const Arguments arguments = {{"x", view(from.data(), {3})}, {"y", view(to.data(), {3})}};
    run(program, arguments, checked());  // not asked for
    backend::InterpreterOptions options = checked();
    options.trap_nan = true;
    const ErrorInfo error = error_of<RuntimeError>([&] { run(program, arguments, options); });
    EXPECT_EQ(error.code, ErrorCode::NotANumber);
    EXPECT_CONTAINS(error.message, std::string(test.text) + " is not a number at i = 1");
    EXPECT_EQ(error.location.line, 6u);
  }
}

TEST(NotANumber, MayPassThroughAndIsTrappedInReduces) {
  const Array x = f32("x", {}, ArrayRole::Input), y = f32("y", {}, ArrayRole::InOut);
  const ir::Program program = make_program({}, {x, y}, reduce(y, {}, ReduceOp::Mul, load(x, {}) * f(2)));
  backend::InterpreterOptions options = checked();
  options.trap_nan = true;
  const auto run_with = [&](float a, float b) { run(program, {{"x", view(&a, {})}, {"y", view(&b, {})}}, options); };
  EXPECT_NO_THROW(run_with(std::nanf(""), 1));
  EXPECT_EQ(error_of<RuntimeError>([&] { run_with(std::numeric_limits<float>::infinity(), 0); }).code,
            ErrorCode::NotANumber);
}

/// A program that does nothing but state a fact about ids.
ErrorInfo broken_fact(FactKind kind, std::vector<std::int32_t> data, Expr lower, Expr upper, bool expected = true) {
  const Symbol n = make_symbol("n"), m = make_symbol("m");
  const Array ids = i32("ids", {var(n)}, ArrayRole::Input, 2), y = f32("y", {var(m)}, ArrayRole::Output);
  if (!upper && (kind == FactKind::InRange || kind == FactKind::CsrPointer)) upper = var(m);
  const ir::Program program =
      make_program({n, m}, {ids, y}, assign(y, {c(0)}, f(1)), {Fact{kind, ids, lower, upper, {}, line(4)}});
  std::vector<float> result(5);
  const Arguments arguments = {{"ids", view(data.data(), {static_cast<std::int64_t>(data.size())})},
                               {"y", view(result.data(), {5})}};
  if (!expected) {
    EXPECT_NO_THROW(run(program, arguments, checked()));
    return {};
  }
  run(program, arguments);
  result = std::vector<float>(5);
  const ErrorInfo error = error_of<RuntimeError>([&] { run(program, arguments, checked()); });
  EXPECT_EQ(error.code, ErrorCode::BadFact);
  EXPECT_EQ(error.array, "ids");
  EXPECT_EQ(error.location.line, 4u);
  EXPECT_EQ(result[0], 0) << "facts are verified before the first statement";
  return error;
}

TEST(Facts, DistinctIsVerifiedAsValuesAreSeen) {
  const Symbol n = make_symbol("n"), i = make_symbol("i");
  for (const bool written : {false, true}) {
    const Array at = make_array("at", ScalarType::I64, {var(n)}, ArrayRole::Tape, line(2));
    const Array from = make_array("from", ScalarType::I64, {var(n)}, ArrayRole::Input, line(3));
    const Array y = make_array("y", ScalarType::I64, {var(n)}, ArrayRole::Output, line(4));
    // What is not seen may be anything: element 1.
    const Expr seen = binary(BinaryOp::Ne, var(i), c(1));
    const Stmt body = if_then(seen, written ? assign(at, {var(i)}, load(from, {var(i)}) + c(0), line(7))
                                            : assign(y, {var(i)}, load(at, {var(i)}, line(7)) + c(0), line(7)));
    const ir::Program program = make_program({n}, {at, from, y}, for_loop(i, c(0), var(n), body),
                                             {Fact{FactKind::Distinct, at, {}, {}, {}, line(2)}});
    const auto run_with = [&](std::vector<std::int64_t> values) {
      std::vector<std::int64_t> other = values, result(4);
      run(program,
          {{"at", view(values.data(), {4})}, {"from", view(other.data(), {4})}, {"y", view(result.data(), {4})}},
          checked());
    };
    EXPECT_NO_THROW(run_with({5, 5, 7, 6}));
    const ErrorInfo error = error_of<RuntimeError>([&] { run_with({5, 0, 7, 5}); });
    EXPECT_EQ(error.code, ErrorCode::BadFact);
    EXPECT_EQ(error.location.line, 7u);
    EXPECT_CONTAINS(error.message, "at[0] = 5 and at[3] = 5");
  }
}

TEST(Facts, RangeIsVerified) {
  broken_fact(FactKind::InRange, {0, 4, 2}, c(0), {}, false);
  EXPECT_CONTAINS(broken_fact(FactKind::InRange, {0, 4, 5}, c(0), {}).message,
                  "ids[2] = 5 is not in the stated range [0, 5)");
  broken_fact(FactKind::InRange, {0, -1}, c(0), {});
}

TEST(Facts, OrderIsVerified) {
  broken_fact(FactKind::Sorted, {1, 1, 3}, {}, {}, false);
  broken_fact(FactKind::Sorted, {}, {}, {}, false);
  EXPECT_CONTAINS(broken_fact(FactKind::Sorted, {1, 3, 2}, {}, {}).message, "ids[2] = 2 follows ids[1] = 3");
}

TEST(Facts, InjectivityIsVerified) {
  broken_fact(FactKind::Injective, {3, 1, 2}, {}, {}, false);
  EXPECT_CONTAINS(broken_fact(FactKind::Injective, {3, 1, 2, 1}, {}, {}).message, "ids[1] = 1 and ids[3] = 1");
}

TEST(Facts, CsrPointersAreVerified) {
  broken_fact(FactKind::CsrPointer, {0, 2, 2, 5}, {}, {}, false);
  broken_fact(FactKind::CsrPointer, {1, 2, 5}, {}, {});
  broken_fact(FactKind::CsrPointer, {0, 3, 2, 5}, {}, {});
  EXPECT_CONTAINS(broken_fact(FactKind::CsrPointer, {0, 3, 4}, {}, {}).message, "ids[2] = 4 instead of 5");
  broken_fact(FactKind::CsrPointer, {}, {}, {});
}

TEST(AtMost, IsVerified) {
  const Symbol n = make_symbol("n"), i = make_symbol("i");
  const Array y = f32("y", {}, ArrayRole::InOut),
              trips = make_array("trips", ScalarType::I64, {}, ArrayRole::Input, {});
  const Stmt body =
      for_loop(i, c(1), load(trips, {}) + c(1), reduce(y, {}, ReduceOp::Add, f(1)), LoopMode::Forward, line(5), var(n));
  const ir::Program program = make_program({n}, {y, trips}, body);
  float value = 0;
  std::int64_t count = 4;
  const Arguments arguments = {{"y", view(&value, {})}, {"trips", view(&count, {})}};
  run(program, arguments, checked(), {{"n", 4}});
  EXPECT_EQ(value, 4);
  const ErrorInfo error = found(program, arguments, {{"n", 3}});
  EXPECT_EQ(error.code, ErrorCode::BadIndex);
  EXPECT_EQ(error.loop, "i");
  EXPECT_EQ(error.location.line, 5u);
  EXPECT_CONTAINS(error.message, "the loop from 1 to 5 makes more trips than the 3 that at_most promises");
}

TEST(Shuffling, FollowsTheSeedAndRunsEveryIterationOnce) {
  const Symbol i = make_symbol("i");
  // Atomic sums are what lets a race-free program see its order: by their rounding.
  const Array seen = make_array("seen", ScalarType::F64, {}, ArrayRole::InOut, {});
  const Stmt body =
      reduce(seen, {}, ReduceOp::Add,
             binary(BinaryOp::Pow, float_const(2, ScalarType::F64), cast(ScalarType::F64, var(i))), {}, true);
  const ir::Program program = make_program({}, {seen}, for_loop(i, c(0), c(120), body, LoopMode::Parallel));
  std::set<double> results;
  const auto run_with = [&](std::uint64_t seed) {
    double sum = 1e-3;
    run(program, {{"seen", view(&sum, {})}}, checked(seed));
    return sum;
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const double sum = run_with(seed);
    EXPECT_EQ(sum, run_with(seed));
    EXPECT_NEAR(sum / std::ldexp(1.0, 120), 1, 1e-12);
    results.insert(sum);
  }
  EXPECT_GT(results.size(), 1u);
}

}  // namespace
}  // namespace loopgrad::test
