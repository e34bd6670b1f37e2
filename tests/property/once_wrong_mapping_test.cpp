#include "backends/cuda/emitter.h"
#include "dsl/ir/visit.h"
#include "tests/property/once_wrong.h"
#include "tools/fuzz/execution.h"
#include "transforms/pass/pass.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::fuzz {
namespace {

// hoist_steps: a local of a step whose extent follows from the step left its scope ("a variable out of scope").
Program local_by_step() {
  ProgramBuilder p("local_by_step");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {3, n});
  auto y = p.output<double>("y", {3, n});
  for (auto s : p.loop("s", 3)) {
    for (auto i : p.loop("i", n)) y(s, i) = x(s, i);
    for (auto t : p.loop("t", T)) {
      auto u = p.local<double>("u", {t + n});
      for (auto i : p.loop("i", t + n)) u(i) = sin(y(s, i % n));
      for (auto i : p.loop("i", n)) y(s, i) = u(i + t) * 0.5 + u(i);
    }
  }
  return p.build();
}

TEST(OnceWrongMapping, LocalsOfStepsWhoseExtentsFollowFromTheStep) {
  transforms::LowerOptions options;
  options.machine = transforms::gpu_machine();
  options.expected_sizes = {{"n", 200000}, {"T", 100}};
  Report report;
  const ir::Program mapped = transforms::lower_for(local_by_step().ir(), options, report).program;
  const Sizes sizes = {{"n", 4}, {"T", 3}};
  Arrays plain = make_arrays(case_of(local_by_step(), sizes), false), arrays = copy_of(plain);
  run(local_by_step().ir(), plain, sizes, {});
  run(mapped, arrays, sizes, {});
  for (std::int64_t k = 0; k < 12; ++k) EXPECT_EQ(arrays.at("y").get(k), plain.at("y").get(k));
}

// spread_loops, atomic variant: one thread's atomic sum into a scalar that each thread keeps became a sum of all
// threads: an internal error, or (without a branch, from 4097 rows on) a sum of bf16 bits as whole numbers.
template <class T, bool branch>
Program row_sum() {
  ProgramBuilder p("row_sum");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<T>("x", {m, n});
  auto k = p.input<int>("k", {n});
  auto y = p.inout<T>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<T>("s");
    s = 0;
    auto add = [&] {
      for (auto j : p.loop("j", m)) s += x(j, i) * x(j, i);
    };
    if (branch) p.when(k(i) > 0, add);
    else add();
    y(i) = s / (1 + s * s);
    y(n - 1 - i) += y(i) / (1 + y(i) * y(i));
  }
  return p.build();
}

Program few_sums_of_a_while() {
  ProgramBuilder p("few_sums_of_a_while");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {m, n});
  auto k = p.input<int>("k", {n});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<float>("s");
    s = 0;
    auto c = p.scalar<int>("c", 0);
    for (auto w : p.loop_while("w", 3, [&](const Value&) { return c < k(i); })) {
      for (auto j : p.loop("j", 3)) s += x(min(j + w, m - 1), i) * x(min(j, m - 1), i);
      c += 1;
    }
    for (auto j : p.loop("j", m)) s += x(j, i);
    y(i) = s / (1 + s * s);
    y(n - 1 - i) += y(i) / (1 + y(i) * y(i));
  }
  return p.build();
}

TEST(OnceWrongMapping, AtomicSumsOfOneThreadIntoScalarsOfABlock) {
  expect_right(row_sum<bfloat16, true>, {{{"n", 4}, {"m", 5}}});
  expect_right(row_sum<half, true>, {{{"n", 4}, {"m", 5}}});
  expect_right(few_sums_of_a_while, {{{"n", 4}, {"m", 5}}});
  // Silent, in the text only.
  transforms::LowerOptions options;
  options.machine = transforms::gpu_machine();
  options.mode = transforms::SumMode::Atomic;
  Report report;
  const ir::Program mapped = transforms::lower_for(row_sum<bfloat16, false>().ir(), options, report).program;
  ir::walk_stmts(mapped.body, [](const ir::Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    EXPECT_FALSE(sum && sum->of_block && sum->array->type == ScalarType::BF16) << "a sum of all threads in bf16";
  });
}

// Products that leave 64 bits, in front of the array: sizes that are no extents, loops that begin far away, three ids.
std::vector<double> run_with_room(const Program& p, Arguments arguments, const Sizes& sizes, const std::string& name) {
  std::vector<double> room(192, 0.5);
  arguments[name] = view(room.data() + 64, {64});
  for (int k = 64; k < 128; ++k) room[static_cast<std::size_t>(k)] = 0;
  compile(p, {.target = Target::OpenMP}).run(arguments, sizes);
  return room;
}

TEST(OnceWrongMapping, RemaindersOfProductsWithSizesThatAreNumbers) {
  ProgramBuilder p("seeds");
  auto n = p.size("n"), seed = p.size("seed");
  auto y = p.input<double>("y", {n});
  auto h = p.inout<double>("h", {64});
  for (auto i : p.loop("i", n)) h((i * seed + 1) % 64) = y(i) + 1;
  const Program program = p.build();
  std::vector<double> y_of(5, 1.0);
  const auto room = run_with_room(program, {{"y", view(y_of.data(), {5})}}, {{"seed", 6364136223846793005}}, "h");
  for (std::size_t k = 0; k < 64; ++k) EXPECT_EQ(room[k], 0.5) << k;
}

TEST(OnceWrongMapping, RemaindersInLoopsThatBeginFarAway) {
  ProgramBuilder p("far");
  auto n = p.size("n");
  auto y = p.input<double>("y", {n});
  auto h = p.inout<double>("h", {64});
  const std::int64_t far = (std::int64_t{1} << 61) - 9;
  for (auto i : p.loop("i", far, far + 5)) h((i * 5 + 1) % 64) = y(0) + 1;
  const Program program = p.build();
  std::vector<double> y_of(5, 1.0);
  const auto room = run_with_room(program, {{"y", view(y_of.data(), {5})}}, {}, "h");
  for (std::size_t k = 0; k < 64; ++k) EXPECT_EQ(room[k], 0.5) << k;
}

TEST(OnceWrongMapping, RemaindersOfProductsOfThreeIdsOnAGpu) {
  ProgramBuilder p("triple");
  auto n = p.size("n"), nodes = p.size("nodes");
  auto a = p.input<std::int64_t>("a", {n}), b = p.input<std::int64_t>("b", {n}), c = p.input<std::int64_t>("c", {n});
  for (auto& ids : {a, b, c}) p.in_range(ids, 0, nodes);
  auto h = p.inout<double>("h", {64});
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", n))
      for (auto k : p.loop("k", n)) h((a(i) * b(j) * c(k)) % 64) = 7.0;
  const Program program = p.build();
  transforms::LowerOptions options;
  options.machine = transforms::gpu_machine();
  Report report;
  const ir::Program mapped = transforms::lower_for(program.ir(), options, report).program;
  EXPECT_EQ(backend::emit_cuda({mapped}).source().find("c_[k_] % 64"), std::string::npos);
}

/// Two sums of one list, under conditions: the targets of the second are a row further, as many columns before. An
/// order of those entries that have a target in the first serves no other.
Program next_row() {
  ProgramBuilder p("next_row");
  auto n = p.size("n"), steps = p.size("steps"), entries = p.size("entries");
  auto x = p.input<double>("x", {entries});
  auto r = p.input<std::int64_t>("r", {entries}), c = p.input<std::int64_t>("c", {entries});
  p.in_range(r, 0, n);
  p.in_range(c, 0, 8);
  auto q = p.inout<double>("q", {n + 1, 4}), u = p.inout<double>("u", {n + 1, 4}), w = p.inout<double>("w", {entries});
  for (auto s : p.loop("s", steps)) {
    (void)s;
    for (auto i : p.loop("i", entries)) p.when(w(i) > 0.0 && c(i) < 4, [&] { q(r(i), c(i)) += x(i) * w(i); });
    for (auto i : p.loop("i2", entries))
      p.when(w(i) > 0.0 && c(i) >= 4, [&] { u(r(i) + 1, c(i) - 4) += x(i) * w(i) * 2.0; });
    for (auto i : p.loop("i3", entries)) w(i) = w(i) * 0.5 + 0.1;
  }
  return p.build();
}

TEST(OnceWrongMapping, OrdersOfSumsWhoseTargetsAreARowFurther) {
  expect_right(next_row, {{{"n", 3}, {"steps", 2}, {"entries", 9}}});
}

/// Sums of one order, the second into the row's elements from behind; and sums by columns beside sums by rows.
Program mirrored_rows() {
  ProgramBuilder p("mirrored_rows");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<int>("a", {n}), b = p.input<int>("b", {n});
  p.in_range(a, 0, m), p.in_range(b, 0, m);
  auto x = p.input<double>("x", {n, m});
  auto y = p.inout<double>("y", {m, m}), z = p.inout<double>("z", {m, m});
  for (auto i : p.loop("i", n))
    for (auto k : p.loop("k", m)) {
      y(a(i), k) += x(i, k);
      y(a(i), m - 1 - k) += 2.0 * x(i, k) * x(i, k);
      z(a(i), k) += sin(x(i, k));
      z(k, b(i)) += cos(x(i, k));
    }
  return p.build();
}

TEST(OnceWrongMapping, SumsIntoElementsThatOtherRowsAddTo) { expect_right(mirrored_rows, {{{"n", 9}, {"m", 3}}}); }

// Of an extent min(n, seed) the seed is no moderate number, nor is it one because a product with it is an index.
TEST(OnceWrongMapping, ProductsWithSizesThatAreNumbersWrapInCuda) {
  ProgramBuilder p("numbers");
  auto n = p.size("n"), seed = p.size("seed");
  auto x = p.input<double>("x", {n});
  auto y = p.inout<double>("y", {n}), few = p.inout<double>("few", {min(n, seed)});
  auto c = p.inout<std::int64_t>("c", {n});
  for (auto i : p.loop("i", n)) {
    c(i) = seed * (i + 2);
    y((seed * (i + 1)) % n) += x(i) * few(0);
  }
  transforms::LowerOptions options;
  options.machine = transforms::gpu_machine();
  Report report;
  const std::string text =
      backend::emit_cuda({transforms::lower_for(p.build().ir(), options, report).program}).source();
  EXPECT_EQ(text.find("seed_ * ("), std::string::npos) << text;
  EXPECT_NE(text.find("wrapping_mul(seed_"), std::string::npos) << text;
}

}  // namespace
}  // namespace loopgrad::fuzz
