// The plan for sums as a value: its candidates, what was chosen, and what it tells the mapping.
#include "transforms/pass/sum_plan.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/sums/strategies.h"

#include <set>

namespace loopgrad::transforms {
namespace {

LoweredProgram planned_for(const Machine& machine, const Program& program, const Sizes& sizes,
                           Part last = Part::Shared) {
  LoweredProgram result;
  result.before = program.ir();
  const LowerOptions options{.machine = machine, .orders = Orders::Kept, .expected_sizes = sizes, .last = last};
  result.after = lower_for(program.ir(), options, result.report).program;
  ir::verify(result.after, "lower");
  result.text = ir::print(result.after.body);
  return result;
}

const SumDecision& decision(const LoweredProgram& l, const std::string& sum) {
  for (const SumDecision& d : l.report.sums)
    if (d.sum.starts_with(sum)) return d;
  throw std::out_of_range(sum + " in " + l.text);
}

const SumCandidate& candidate(const SumDecision& d, const std::string& plan) {
  for (const SumCandidate& c : d.candidates)
    if (c.plan == plan) return c;
  throw std::out_of_range(plan);
}

/// Rows by an index, and a total: `t` is chosen by data.
Program lookups() {
  ProgramBuilder p("lookups");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n, m});
  auto t = p.inout<double>("t", {rows, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), j) += 2.0 * a(i, j);
  return p.build();
}

Program counts() {
  ProgramBuilder p("counts");
  auto n = p.size("n");
  auto bin = p.input<std::int32_t>("bin", {n});
  p.in_range(bin, 0, 100);
  auto a = p.input<double>("a", {n});
  auto t = p.inout<double>("t", {100});
  for (auto i : p.loop("i", 0, n)) t(bin(i)) += a(i);
  return p.build();
}

Program total() {
  ProgramBuilder p("total");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto s = p.inout<double>("s", {});
  for (auto i : p.loop("i", 0, n)) s() += a(i);
  return p.build();
}

int marked(const ir::Stmt& s) {
  int count = 0;
  ir::walk_stmts(s, [&](const ir::Stmt& child) {
    const auto* sum = child.as<ir::Reduce>();
    count += sum && sum->by_segments;
  });
  return count;
}

TEST(SumPlan, EveryStrategyForSharedSumsHasOneRow) {
  std::set<Strategy> rows;
  for (const SumStrategy* row : sum_strategies()) {
    EXPECT_TRUE(rows.insert(row->strategy).second);
    EXPECT_EQ(&strategy(row->strategy), row);
    EXPECT_TRUE(row->obstacle && row->reason) << name_of(row->strategy, Level::None);
    EXPECT_TRUE(!row->by_estimate || row->cost) << "what estimates choose has one";
  }
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(Strategy::Atomic));  // all but None
  EXPECT_THROW(strategy(Strategy::None), InternalError);
}

TEST(SumPlan, SaysWhatTheMappingMakesOfIt) {
  const Sizes wide = {{"n", 1 << 20}, {"rows", 1 << 20}, {"m", 64}},
              narrow = {{"n", 1 << 20}, {"rows", 1 << 20}, {"m", 4}};
  const LoweredProgram by_inverse = planned_for(cpu_machine(), lookups(), wide, Part::Running);
  EXPECT_EQ(decision(by_inverse, "t").plan, "segments") << decision(by_inverse, "t").reason;
  EXPECT_NE(decision(by_inverse, "t").reason.find("by an inverse of the indices"), std::string::npos);
  const LoweredProgram by_columns = planned_for(cpu_machine(), lookups(), narrow, Part::Running);
  EXPECT_EQ(decision(by_columns, "t").plan, "gather") << decision(by_columns, "t").reason;
  EXPECT_NE(decision(by_columns, "t").reason.find("by an inverse of the indices, where"), std::string::npos);
}

/// Each value to the cell that its position lies in: two of the numbers of a row, or in f64.
template <class T = float>
Program deposit(bool by_row = false) {
  ProgramBuilder p("deposit");
  auto n = p.size("n"), m = p.size("m"), rows = p.size("rows");
  auto x = p.input<float>("x", {n});
  auto v = p.input<T>("v", {n, rows});
  auto t = p.inout<T>("t", {m, rows});
  for (auto i : p.loop("i", 0, n)) {
    auto cell = p.scalar<int>("cell");
    cell = cast<int>(x(i) * cast<float>(m));
    if (by_row)
      for (auto j : p.loop("j", 0, rows)) t(cell, j) += v(i, j);
    else {
      t(cell, 0) += v(i, 0);
      t(cell, 1) += v(i, 1);
    }
  }
  return p.build();
}

TEST(SumPlan, ElementsThatTheProgramChoosesAreSummedInWholeNumbers) {
  const Sizes sizes = {{"n", 1 << 24}, {"m", 1 << 18}, {"rows", 2}};
  const LoweredProgram l = planned_for(gpu_machine(), deposit(), sizes);
  EXPECT_EQ(decision(l, "t").plan, "exact");
  EXPECT_NE(decision(l, "t").reason.find("of sorting"), std::string::npos) << decision(l, "t").reason;
  // Both sums in one pass, and nothing is kept for all iterations.
  EXPECT_EQ(l.text.find("largest_t["), l.text.find("largest_t[m"));
  EXPECT_EQ(l.text.find("[n]"), std::string::npos) << l.text;
  EXPECT_EQ(outer_sequential_loops(l.after.body), std::vector<std::string>{}) << l.text;
  const LoweredProgram wide = planned_for(gpu_machine(), deposit<double>(), sizes);
  EXPECT_EQ(decision(wide, "t").plan, "exact");
  EXPECT_NE(wide.text.find("rest_t["), std::string::npos) << "doubles have two";
}

TEST(SumPlan, WholeNumbersAreForFewNumbersOfOneKey) {
  const Sizes sizes = {{"n", 1 << 18}, {"m", 1 << 16}, {"rows", 64}};
  const SumDecision rows = decision(planned_for(gpu_machine(), deposit(true), sizes), "t");
  EXPECT_EQ(rows.plan, "segments") << rows.reason;
  const LoweredProgram cpu = planned_for(cpu_machine(), deposit(), sizes);
  for (const SumCandidate& c : decision(cpu, "t").candidates) EXPECT_NE(c.plan, "exact");
  const auto into = [](std::int64_t elements) {
    return decision(planned_for(gpu_machine(), deposit(), {{"n", 1 << 24}, {"m", elements}, {"rows", 2}}), "t");
  };
  EXPECT_EQ(into(500).plan, "exact") << into(500).reason;
  EXPECT_EQ(into(30).plan, "partials") << "many terms would wait for one element: " << into(30).reason;
}

// All bins of an element side by side are for few elements, which somebody has to have said.
TEST(SumPlan, WholeNumbersOfFewElementsHaveTheirBinsSideBySide) {
  const auto bins_for = [](const Sizes& sizes) {
    const std::string text = planned_for(gpu_machine(), deposit(), sizes).text;
    const std::size_t at = text.find("local i64 bins_t[");
    return at == std::string::npos ? "none" : text.substr(at, text.find('(', at) - at);
  };
  EXPECT_EQ(bins_for({{"n", 1 << 24}, {"m", 500}, {"rows", 2}}).substr(0, 20), "local i64 bins_t[68*");
  for (const Sizes& sizes :
       {Sizes{{"n", 1 << 18}, {"m", 1 << 16}, {"rows", 64}}, Sizes{{"n", 1 << 24}, {"rows", 2}}, Sizes{}})
    EXPECT_EQ(bins_for(sizes).find("68*"), std::string::npos) << bins_for(sizes);
}

/// Terms by an index array, in so many steps.
Program by_index(bool in_steps) {
  ProgramBuilder p("by_index");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("steps");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, m);
  auto v = p.input<float>("v", {n});
  auto t = p.inout<float>("t", {m});
  const auto add = [&] {
    for (auto i : p.loop("i", 0, n)) t(idx(i)) += v(i);
  };
  if (!in_steps) {
    add();
    return p.build();
  }
  for ([[maybe_unused]] auto s : p.loop("s", steps)) {
    add();
    for (auto k : p.loop("k", 0, m)) t(k) = sin(t(k));
  }
  return p.build();
}

TEST(SumPlan, WholeNumbersAreForWhatIsSortedForOneUse) {
  const Sizes sizes = {{"n", 1 << 18}, {"m", 1 << 16}, {"steps", 10}};
  EXPECT_EQ(decision(planned_for(gpu_machine(), by_index(false), sizes), "t").plan, "exact");
  const SumDecision steps = decision(planned_for(gpu_machine(), by_index(true), sizes), "t");
  EXPECT_EQ(steps.plan, "segments") << "an order is for all steps";
  EXPECT_NE(candidate(steps, "exact").note.find("sorted once"), std::string::npos);
  // Rows that share a key are sorted together: without sizes nobody knows how wide they are.
  ProgramBuilder p("rows_by_index");
  auto n = p.size("n"), m = p.size("m"), d = p.size("d");
  auto idx = p.input<int>("idx", {n});
  p.in_range(idx, 0, m);
  auto v = p.input<float>("v", {n, d}), t = p.inout<float>("t", {m, d});
  for (auto i : p.loop("i", 0, n))
    for (auto k : p.loop("k", d)) t(idx(i), k) += v(i, k);
  EXPECT_EQ(decision(planned_for(gpu_machine(), p.build(), {}), "t").plan, "segments");
}

TEST(SumPlan, SaysWhoHasPartialResults) {
  const Sizes sizes = {{"n", 1 << 20}};
  const LoweredProgram cpu = planned_for(cpu_machine(), total(), sizes),
                       gpu = planned_for(gpu_machine(), total(), sizes);
  EXPECT_EQ(decision(cpu, "s").plan, "tree");
  EXPECT_EQ(decision(cpu, "s").level, "register");
  EXPECT_EQ(decision(gpu, "s").plan, "tree");
  EXPECT_EQ(decision(gpu, "s").level, "block");  // the mapping shares out the loop as it stands
  EXPECT_EQ(candidate(decision(gpu, "s"), "tree").level, "block");
  EXPECT_EQ(decision(planned_for(cpu_machine(), counts(), sizes), "t").level, "grid");
  EXPECT_EQ(decision(planned_for(gpu_machine(), counts(), sizes), "t").level, "lanes");
}

TEST(SumPlan, SegmentsHaveAnEstimateWhereDataChooseElements) {
  const Sizes sizes = {{"n", 1 << 16}, {"rows", 1 << 15}, {"m", 64}};
  const SumDecision on_gpu = decision(planned_for(gpu_machine(), lookups(), sizes), "t");
  EXPECT_EQ(on_gpu.plan, "segments");
  EXPECT_TRUE(candidate(on_gpu, "segments").possible);
  EXPECT_GT(candidate(on_gpu, "segments").microseconds, 0);
  EXPECT_LT(candidate(on_gpu, "segments").microseconds, candidate(on_gpu, "serial").microseconds);
  EXPECT_NE(on_gpu.reason.find("sorted"), std::string::npos) << on_gpu.reason;
  const SumDecision on_cpu = decision(planned_for(cpu_machine(), lookups(), sizes), "t");
  EXPECT_EQ(on_cpu.plan, "gather");
  EXPECT_FALSE(candidate(on_cpu, "segments").possible);
  EXPECT_FALSE(candidate(on_cpu, "segments").note.empty());
  const SumDecision affine = decision(planned_for(gpu_machine(), smoothing(), {}), "y");
  for (const SumCandidate& c : affine.candidates) EXPECT_NE(c.plan, "segments");
}

TEST(SumPlan, TheMappingIsToldOfSegmentsOnce) {
  const Sizes sizes = {{"n", 1 << 16}, {"rows", 1 << 15}, {"m", 64}};
  for (const Machine& machine : {cpu_machine(), gpu_machine()}) {
    EXPECT_EQ(marked(planned_for(machine, lookups(), sizes).after.body), 1);
    EXPECT_EQ(marked(planned_for(machine, lookups(), sizes, Part::Mapping).after.body), 0);
    EXPECT_EQ(marked(planned_for(machine, total(), sizes).after.body), 0);
    // Partial results stand in for the elements: nothing is left to sort.
    EXPECT_EQ(marked(planned_for(machine, counts(), sizes).after.body), 0);
  }
  // Nor in a nest of which another sum has left, whose arrays are copies.
  ProgramBuilder p("two");
  auto n = p.size("n");
  auto bin = p.input<std::int32_t>("bin", {n});
  p.in_range(bin, 0, 100);
  auto a = p.input<double>("a", {n});
  auto u = p.inout<double>("u", {n + n - 1}), t = p.inout<double>("t", {100});
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 0, n)) u(i + j) += a(i) * a(j);
    t(bin(i)) += a(i);
  }
  const LoweredProgram l = planned_for(cpu_machine(), p.build(), sizes);
  EXPECT_EQ(decision(l, "u").plan, "gather") << l.text;
  EXPECT_EQ(decision(l, "t").plan, "partials") << l.text;
  EXPECT_EQ(marked(l.after.body), 0) << l.text;
  for (const SumDecision& d : l.report.sums) EXPECT_FALSE(d.sum.starts_with("t_part[")) << "no sum of the user's";
}

/// A sum in every step of a loop that data keep in order: a node adds to one that comes later.
Program links(bool triangle = false) {
  ProgramBuilder p("links");
  auto n = p.size("n"), h = p.size("h");
  auto to = p.input<std::int32_t>("to", {n});
  p.in_range(to, 0, n);
  auto x = p.inout<double>("x", {n, h}), y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s", 0.0);
    for (auto j : p.loop("j", triangle ? min(Value(i), h) : Value(0), h)) s += x(i, j);
    y(i) = s;
    x(to(i), 0) += s;
  }
  return p.build();
}

TEST(SumPlan, AShortSumInEveryStepIsAddedUpInOrder) {
  const auto plan = [](const Machine& machine, const Program& program, const Sizes& sizes, const char* sum) {
    return decision(planned_for(machine, program, sizes), sum).plan;
  };
  const SumDecision few = decision(planned_for(cpu_machine(), links(), {{"n", 1000}, {"h", 16}}), "s");
  EXPECT_EQ(few.plan, "serial");
  EXPECT_NE(few.reason.find("in every step"), std::string::npos) << few.reason;
  EXPECT_EQ(plan(cpu_machine(), links(), {{"n", 1000}, {"h", 1 << 20}}, "s"), "tree");
  EXPECT_EQ(plan(cpu_machine(), links(true), {{"n", 1000}, {"h", 1000}}, "s"), "tree");  // no estimate knows i
  EXPECT_EQ(plan(cpu_machine(), links(), {}, "s"), "tree");                              // nobody knows how many
  EXPECT_EQ(plan(cpu_machine(), total(), {{"n", 100}}, "s"), "tree");                    // once
  EXPECT_EQ(plan(gpu_machine(), links(), {{"n", 10}, {"h", 100}}, "s"), "tree");         // one thread of it is slow
}

/// Rows of a triangular matrix one after the other, each of which adds to elements that later ones read.
TEST(SumPlan, ShortRowsInEveryStepAreNotSorted) {
  ProgramBuilder p("sweep");
  auto n = p.size("n"), entries = p.size("entries");
  auto row = p.input<std::int32_t>("row", {n}), ptr = p.input<std::int32_t>("ptr", {n + 1});
  auto col = p.input<std::int32_t>("col", {entries});
  p.csr(ptr, entries);
  p.in_range(row, 0, n);
  p.in_range(col, 0, n);
  auto a = p.input<double>("a", {entries}), x = p.inout<double>("x", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s", 0.5 * x(row(i)));
    x(row(i)) = 1.0;
    for (auto e : p.loop("e", ptr(row(i)), ptr(row(i) + 1))) x(col(e)) += a(e) * s;
  }
  const Program program = p.build();
  const auto planned = [&](const Sizes& sizes) { return decision(planned_for(gpu_machine(), program, sizes), "x"); };
  const SumDecision few = planned({{"n", 1000}, {"entries", 7000}});
  EXPECT_EQ(few.plan, "serial");
  EXPECT_NE(few.reason.find("for every row in turn"), std::string::npos) << few.reason;
  EXPECT_EQ(planned({{"n", 10}, {"entries", 10'000'000}}).plan, "segments");
}

/// Images whose pixels go to places that their values choose, by way of locals: images are parallel as they stand.
Program warped() {
  ProgramBuilder p("warped");
  auto b = p.size("b"), n = p.size("n");
  auto x = p.input<float>("x", {b, n});
  auto t = p.inout<float>("t", {b, n});
  for (auto [k, i] : p.loop({"k", b}, {"i", n})) {
    auto place = p.let("place", x(k, i) * cast<float>(n));
    auto at = p.let("at", min(max(cast<std::int64_t>(place), 0), n - 1));
    auto weight = p.let("weight", place - cast<float>(at));
    t(k, at) += 1.0f - weight;
    t(k, (at + 1) % n) += weight;
  }
  return p.build();
}

TEST(SumPlan, WhatIsParallelAsItStandsKeepsNoLocalsForItsSums) {
  for (const Sizes& sizes : {Sizes{{"b", 64}, {"n", 100000}}, Sizes{}}) {
    const LoweredProgram l = planned_for(cpu_machine(), warped(), sizes);
    EXPECT_EQ(l.text.find("weight_all"), std::string::npos) << l.text;
    EXPECT_EQ(l.text.find("at_all"), std::string::npos) << l.text;
    EXPECT_EQ(outer_parallel_loops(l.after.body), std::vector<std::string>{"k"});
  }
}

TEST(SumPlan, AtomicSumsAreNoChoiceInOtherVariants) {
  const SumDecision d = decision(planned_for(cpu_machine(), total(), {{"n", 1 << 20}}), "s");
  EXPECT_FALSE(candidate(d, "atomic").possible);
  EXPECT_NE(candidate(d, "atomic").note.find("variant"), std::string::npos);
}

/// Few wave vectors, each with a loop over many atoms: in the order of the outermost loop there would be few blocks.
TEST(SumPlan, ASumOfOneElementLeavesANestThatIsParallelWithoutIt) {
  ProgramBuilder p("energy");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<double>("x", {n});
  auto total = p.inout<double>("total", {});
  auto own = p.output<double>("own", {k, k});
  for (auto [a, b] : p.loop({"a", k}, {"b", k})) {
    auto re = p.scalar<double>("re", 0);
    for (auto i : p.loop("i", n)) re += cos(cast<double>(a + 2 * b) * x(i));
    own(a, b) = re;
    total() += re * re;
  }
  const Program program = p.build();
  const LoweredProgram l = planned_for(gpu_machine(), program, {{"n", 5000}, {"k", 9}});
  EXPECT_EQ(decision(l, "total").plan, "split") << l.text;
  EXPECT_NE(l.text.find("parallel for b in"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 13}, {"k", 3}});
}

/// Rows of a sparse matrix: in blocks of iterations each row would be done by one thread.
TEST(SumPlan, ASumOfOneElementLeavesRaggedRowsToTheThreadsOfAGpu) {
  ProgramBuilder p("quadratic");
  auto n = p.size("n"), nnz = p.size("nnz");
  auto ptr = p.input<std::int32_t>("ptr", {n + 1}), col = p.input<std::int32_t>("col", {nnz});
  p.csr(ptr, nnz);
  p.in_range(col, 0, n);
  auto a = p.input<double>("a", {nnz}), x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto total = p.inout<double>("total", {});
  for (auto i : p.loop("i", n)) {
    y(i) = 0;
    for (auto e : p.loop("e", ptr(i), ptr(i + 1))) y(i) += a(e) * x(col(e));
    total() += x(i) * y(i);
  }
  const Program program = p.build();
  const Sizes sizes = {{"n", 50000}, {"nnz", 350000}};
  EXPECT_EQ(decision(planned_for(gpu_machine(), program, sizes), "total").plan, "split");
  EXPECT_EQ(decision(planned_for(cpu_machine(), program, sizes), "total").plan, "tree");
}

/// Sums over rows whose length data decide: of a CSR structure, and of so many elements of a row of a matrix.
enum class Stores { Nothing, OwnElements, SharedElement };
Program sums_of_rows(Stores stores) {
  ProgramBuilder p("rows");
  auto rows = p.size("rows"), nnz = p.size("nnz"), n = p.size("n");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1}), count = p.input<std::int32_t>("count", {rows});
  p.csr(ptr, nnz);
  p.in_range(count, 0, n + 1);
  auto a = p.input<double>("a", {nnz}), x = p.input<double>("x", {rows, n});
  auto total = p.output<double>("total", {}), largest = p.output<double>("largest", {});
  auto y = p.output<double>("y", {rows, n});
  total() = 0;
  largest() = 0;
  for (auto [r, k] : p.loop({"r", rows}, {"k", n})) y(r, k) = 0;
  for (auto r : p.loop("r", rows))
    for (auto e : p.loop("e", ptr(r), ptr(r + 1))) total() += a(e) * a(e);
  for (auto r : p.loop("r", rows))
    for (auto k : p.loop("k", 0, count(r), {.at_most = {n}})) {
      auto s = p.let("s", sin(x(r, k)));
      p.when(s > 0.0, [&] { total() += s; });
      largest().max_with(s);
      if (stores == Stores::OwnElements) y(r, k) = s;
      if (stores == Stores::SharedElement) y(r, 0) = s;
    }
  return p.build();
}

TEST(SumPlan, BlocksHavePiecesOfRowsWhereRowsAreFew) {
  const Sizes sizes = {{"rows", 3}, {"nnz", 10000}, {"n", 5000}};
  for (Machine machine : {cpu_machine(), gpu_machine()}) {
    machine.least_piece = 2;
    for (const Stores stores : {Stores::Nothing, Stores::OwnElements}) {
      const LoweredProgram l = planned_for(machine, sums_of_rows(stores), sizes);
      EXPECT_NE(l.text.find("for e in ptr[r] + block%"), std::string::npos) << l.text;
      EXPECT_NE(l.text.find("for k in block%"), std::string::npos) << l.text;
      for (const std::int64_t rows : {1, 2, 7, 90})
        for (const std::int64_t n : {1, 3, 70}) expect_same_results(l, {{"rows", rows}, {"nnz", 4 * n}, {"n", n}});
    }
    // What its iterations share keeps a row whole (a GPU takes the sums apart from it).
    if (machine.is_gpu()) continue;
    const LoweredProgram shared = planned_for(machine, sums_of_rows(Stores::SharedElement), sizes);
    EXPECT_EQ(shared.text.find("for k in block%"), std::string::npos) << shared.text;
  }
}

/// Entries of rows are added to where data say.
loopgrad::Program entries_of_rows(std::int64_t rows) {
  ProgramBuilder p("entries");
  auto nnz = p.size("nnz"), m = p.size("m");
  const Value n(rows);
  auto ptr = p.input<std::int32_t>("ptr", {n + 1}), to = p.input<std::int32_t>("to", {nnz});
  p.csr(ptr, nnz);
  p.in_range(to, 0, m);
  auto x = p.input<double>("x", {n}), y = p.inout<double>("y", {m});
  for (auto r : p.loop("r", n))
    for (auto e : p.loop("e", ptr(r), ptr(r + 1))) y(to(e)) += x(r);
  return p.build();
}

// Each piece has partial results of its own, which no more of them are worth than the entries pay for.
TEST(SumPlan, ManyShortRowsStayWhole) {
  for (const std::int64_t rows : {3, 5000}) {
    Report report;
    const SizeEstimates sizes = {{"nnz", 20000}, {"m", 500}};
    const LowerOptions options = {.machine = cpu_machine(), .expected_sizes = sizes, .last = Part::Shared};
    const std::string text = ir::print(lower_for(entries_of_rows(rows).ir(), options, report).program);
    EXPECT_NE(text.find("y_part["), std::string::npos) << text;
    EXPECT_EQ(text.find("for e in ptr[r] + block%") != std::string::npos, rows == 3) << text;
  }
}

/// Cables that branch: each part adds to its parent, and is then eliminated into it.
loopgrad::Program cables(bool eliminates) {
  ProgramBuilder p("cables");
  auto n = p.size("n"), m = p.size("m");
  auto parent = p.input<std::int32_t>("parent", {m});
  auto g = p.input<float>("g", {m});
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, m});
  p.in_range(parent, 0, m);
  for (auto q : p.loop("q", n)) {
    auto d = p.local<float>("d", {m});
    for (auto i : p.loop("i", m)) d(i) = x(q, i);
    for (auto i : p.loop("i", 1, m)) d(parent(i)) += g(i);
    if (eliminates)
      for (auto i : p.loop("i", 1, m)) d(parent(i)) -= g(i) / d(i);
    for (auto i : p.loop("i", m)) y(q, i) = d(i);
  }
  return p.build();
}

// The array of a recurrence is at hand where one thread of a block goes through it; sorted sums would take it away.
TEST(SumPlan, FewTermsStayWhereARecurrenceHasTheirArray) {
  for (const bool eliminates : {false, true}) {
    Report report;
    const SizeEstimates sizes = {{"n", 100}, {"m", 300}};
    lower_for(cables(eliminates).ir(), {.machine = gpu_machine(), .expected_sizes = sizes, .last = Part::Shared},
              report);
    EXPECT_EQ(plan_of(report, "d"), eliminates ? "" : "segments");
  }
}

/// Patches of `taps` that are `step` apart are added to rows.
loopgrad::Program patches(std::int64_t step, std::int64_t taps) {
  ProgramBuilder p("patches");
  auto b = p.size("b"), n = p.size("n");
  auto x = p.input<float>("x", {b, n}), w = p.input<float>("w", {taps});
  auto y = p.inout<float>("y", {b, step * n + taps});
  for (auto c : p.loop("c", b))
    for (auto i : p.loop("i", n))
      for (auto r : p.loop("r", taps)) y(c, step * i + r) += x(c, i) * w(r);
  return p.build();
}

// By steps of two, four taps leave an element two terms, which divisions would find: rows are enough for the threads.
TEST(SumPlan, ElementsOfFewTermsAreNotLookedUpOnACpu) {
  for (const auto& [step, taps, looks_up] : {std::tuple{1, 4, true}, {2, 4, false}, {2, 16, true}}) {
    const LoweredProgram l = lowered(patches(step, taps));
    EXPECT_EQ(l.text.find(fmt::format("{}i + r", step == 1 ? "" : fmt::format("{}*", step))) == std::string::npos,
              looks_up)
        << l.text;
    expect_same_results(l, {{"b", 3}, {"n", 5}});
  }
}

// What a branch adds to from iteration to iteration is no value of one of them, although elements are gathered.
TEST(SumPlan, RunningSumsStayWhereElementsAreGathered) {
  ProgramBuilder p("runs_up");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {m}), w = p.input<float>("w", {n});
  auto y = p.inout<float>("y", {m});
  for (auto i : p.loop("i", n)) {
    auto s = p.scalar<float>("s", 0);
    for (auto k : p.loop("k", m)) {
      p.when(x(k) > 0, [&] { s += w(i); });
      y(k) += s;
    }
  }
  const loopgrad::Program program = p.build();
  for (const Machine& machine : {cpu_machine(), gpu_machine()}) {
    const LoweredProgram l = planned_for(machine, program, {{"n", 31}, {"m", 20003}});
    expect_same_results(l, {{"n", 3}, {"m", 5}});
  }
}

// Pairs of entries of two rows each: in one step they are fewer than the elements that blocks would clear and combine.
// A sum that would have blocks by itself keeps to the order that the other one needs.
TEST(SumPlan, SumsOfALoopGoTheSameWay) {
  ProgramBuilder p("alignments");
  auto pairs = p.size("pairs"), sw = p.size("sw"), tw = p.size("tw"), v = p.size("v"), rounds = p.size("rounds");
  auto sptr = p.input<int>("sptr", {pairs + 1}), tptr = p.input<int>("tptr", {pairs + 1});
  auto src = p.input<int>("src", {sw}), tgt = p.input<int>("tgt", {tw});
  auto t = p.inout<double>("t", {v, v}), total = p.output<double>("total", {rounds});
  p.csr(sptr, sw), p.csr(tptr, tw), p.in_range(src, 0, v), p.in_range(tgt, 0, v);
  auto count = p.local<double>("count", {v, v});
  for (auto r : p.loop("r", rounds)) {
    for (auto [e, f] : p.loop({"e", v}, {"f", v})) count(e, f) = 0.01;
    total(r) = 0.0;
    for (auto q : p.loop("q", pairs))
      for (auto j : p.loop("j", tptr(q), tptr(q + 1))) {
        auto z = p.scalar<double>("z", 1e-6);
        for (auto i : p.loop("i", sptr(q), sptr(q + 1))) z += t(src(i), tgt(j));
        total(r) += log(z * z);
        for (auto i : p.loop("i", sptr(q), sptr(q + 1))) count(src(i), tgt(j)) += t(src(i), tgt(j)) / z;
      }
    for (auto e : p.loop("e", v)) {
      auto sum = p.scalar<double>("sum", 0);
      for (auto f : p.loop("f", v)) sum += count(e, f);
      for (auto f : p.loop("f", v)) t(e, f) = count(e, f) / sum;
    }
  }
  const Sizes sizes = {{"pairs", 1501}, {"sw", 15013}, {"tw", 14009}, {"v", 307}, {"rounds", 5}};
  const LoweredProgram l = planned_for(cpu_machine(), p.build(), sizes);
  EXPECT_EQ(l.text.find("count_part"), std::string::npos) << "64 blocks would each have all elements, in every round";
  expect_same_results(l, {{"pairs", 3}, {"sw", 7}, {"tw", 5}, {"v", 2}, {"rounds", 2}});
}

// The mapping shares out a sum into one element that surely exists; a condition may leave out all terms of another.
TEST(SumPlan, AConditionalSumIntoAnElementHasBlocks) {
  ProgramBuilder p("leaks");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto leak = p.inout<double>("leak", {2});
  for (auto i : p.loop("i", n)) p.when(x(i) > 0, [&] { leak(1) += x(i) * x(i); });
  const LoweredProgram l = planned_for(gpu_machine(), p.build(), {{"n", 20011}});
  EXPECT_NE(l.text.find("leak_part["), std::string::npos) << l.text;
  for (const int n_value : {0, 1, 1500}) expect_same_results(l, {{"n", n_value}});
}

}  // namespace
}  // namespace loopgrad::transforms
