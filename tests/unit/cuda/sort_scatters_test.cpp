// Sums through index arrays on a GPU: each test fails without the pass, and what it makes computes the same in the
// checked interpreter.
#include "transforms/sums/sort_scatters.h"
#include "backends/cuda/index_width.h"
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/sorted.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

TEST(SortScatters, TargetsTakeTheIterationsThatAddToThem) {
  ProgramBuilder p("lookups");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n, m});
  auto t = p.inout<double>("t", {rows, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), j) += 2.0 * a(i, j);
  // Without iterations; one target with all of them; short and long segments; a high digit of the key; many without
  // any.
  expect_sorted(p.build(), {{{"n", 0}, {"rows", 3}, {"m", 2}},
                            {{"n", 1}, {"rows", 1}, {"m", 1}},
                            {{"n", 100}, {"rows", 1}, {"m", 2}},
                            {{"n", 61}, {"rows", 7}, {"m", 3}},
                            {{"n", 90}, {"rows", 40}, {"m", 1}},
                            {{"n", 50}, {"rows", 700}, {"m", 2}},
                            {{"n", 5}, {"rows", 2}, {"m", 0}}});
}

TEST(SortScatters, NoLoopNeedBeParallel) {
  ProgramBuilder p("counts");
  auto n = p.size("n"), m = p.size("m"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n, m});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n, m});
  auto t = p.inout<double>("t", {rows});
  for (auto i : p.loop("i", 1, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i, j)) += a(i, j) * a(0, j);
  expect_sorted(p.build(), {{{"n", 1}, {"m", 4}, {"rows", 3}}, {{"n", 12}, {"m", 7}, {"rows", 5}}});
}

TEST(SortScatters, RowsOfAGraphAreFoundForItsEntries) {
  ProgramBuilder p("graph");
  auto v = p.size("V"), e = p.size("E"), m = p.size("m");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto src = p.input<std::int32_t>("src", {e});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto w = p.input<double>("w", {e});
  auto a = p.input<double>("a", {v, m});
  auto t = p.inout<double>("t", {v, m});
  for (auto i : p.loop("i", 0, v))
    for (auto k : p.loop("k", ptr(i), ptr(i + 1)))
      for (auto j : p.loop("j", 0, m)) t(src(k), j) += w(k) * a(i, j);
  expect_sorted(p.build(), {{{"V", 1}, {"E", 3}, {"m", 2}},
                            {{"V", 6}, {"E", 40}, {"m", 1}},
                            {{"V", 40}, {"E", 20}, {"m", 3}},
                            {{"V", 3}, {"E", 0}, {"m", 2}}});
}

TEST(SortScatters, RowsOfRowsAreFoundFromTheInside) {
  for (const int first : {0, 1}) {
    ProgramBuilder p("documents");
    auto docs = p.size("docs"), sentences = p.size("sentences"), tokens = p.size("tokens"), m = p.size("m");
    auto of_doc = p.input<std::int32_t>("of_doc", {docs + 1});
    auto of_sentence = p.input<std::int32_t>("of_sentence", {sentences + 1});
    auto word = p.input<std::int32_t>("word", {tokens});
    p.csr(of_doc, sentences);
    p.csr(of_sentence, tokens);
    p.in_range(word, 0, m);
    auto a = p.input<double>("a", {docs, 2}), b = p.input<double>("b", {sentences}), c = p.input<double>("c", {tokens});
    auto t = p.inout<double>("t", {m, 2});
    for (auto k : p.loop("k", first, docs))
      for (auto s : p.loop("s", of_doc(k), of_doc(k + 1)))
        for (auto w : p.loop("w", of_sentence(s), of_sentence(s + 1)))
          for (auto j : p.loop("j", 0, 2)) t(word(w), j) += a(k, j) * b(s) + c(w);
    expect_sorted(p.build(), {{{"docs", 3}, {"sentences", 5}, {"tokens", 40}, {"m", 4}},
                              {{"docs", 7}, {"sentences", 4}, {"tokens", 20}, {"m", 9}},
                              {{"docs", 2}, {"sentences", 3}, {"tokens", 0}, {"m", 2}},
                              {{"docs", 1}, {"sentences", 0}, {"tokens", 0}, {"m", 1}}});
  }
}

/// Which rows there are is up to a loop around them: they are not looked up.
TEST(SortScatters, RowsThatALoopChoosesStayInOrder) {
  ProgramBuilder p("chosen_rows");
  auto n = p.size("n"), e = p.size("E"), m = p.size("m");
  auto ptr = p.input<std::int32_t>("ptr", {n + 1}), idx = p.input<std::int32_t>("idx", {e});
  p.csr(ptr, e);
  p.in_range(idx, 0, m);
  auto a = p.input<double>("a", {n}), w = p.input<double>("w", {e});
  auto t = p.inout<double>("t", {m});
  for (auto i : p.loop("i", 0, n))
    for (auto s : p.loop("s", 0, i))
      for (auto k : p.loop("k", ptr(s), ptr(s + 1))) t(idx(k)) += a(i) * w(k);
  const Program program = p.build();
  for (const auto pass : {sorted, mapped, mapped_by_default})
    for (const Sizes& sizes : {Sizes{{"n", 5}, {"E", 20}, {"m", 4}}, Sizes{{"n", 1}, {"E", 3}, {"m", 2}}})
      expect_same_results(passed_for_gpu(program, pass), sizes);
}

TEST(SortScatters, SomeRowsOfAGraphLeaveEntriesOut) {
  ProgramBuilder p("some_rows");
  auto v = p.size("V"), e = p.size("E"), steps = p.size("T");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto src = p.input<std::int32_t>("src", {e});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto a = p.input<double>("a", {steps, v});
  auto t = p.inout<double>("t", {v});
  for (auto s : p.loop("s", 0, steps))
    for (auto i : p.loop("i", 2, v - 1))
      for (auto k : p.loop("k", ptr(i), ptr(i + 1))) t(src(k)) += a(s, i);
  expect_sorted(p.build(), {{{"V", 8}, {"E", 50}, {"T", 3}}, {{"V", 3}, {"E", 9}, {"T", 1}}});
}

TEST(SortScatters, IndicesThatTheLoopMovesArePartOfTheKey) {
  ProgramBuilder p("moved");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto t = p.inout<double>("t", {rows, n});
  for (auto i : p.loop("i", 0, n)) t(idx(0), max(i - 1, 0)) += a(i);
  const Program program = p.build();
  for (const auto pass : {sorted, mapped}) {
    const LoweredProgram result = passed_for_gpu(program, pass);
    EXPECT_NE(result.text.find("idx[0]*n + max(place - 1, 0)"), std::string::npos) << result.text;
    expect_same_results(result, {{"n", 9}, {"rows", 3}});
  }
}

TEST(SortScatters, SumsWithTheSameTargetsAreSortedOnce) {
  for (const bool changed : {false, true}) {
    ProgramBuilder p("pairs");
    auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
    auto idx = p.inout<std::int32_t>("idx", {n});
    auto a = p.input<double>("a", {n, m});
    auto t = p.inout<double>("t", {rows, m}), s = p.inout<double>("s", {rows});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) t(idx(i), j) += a(i, j);
    if (changed)
      for (auto i : p.loop("i", 0, n)) idx(i) = 1;
    for (auto k : p.loop("k", 0, n)) s(idx(k)) += a(k, 0);
    const Program program = p.build();
    expect_sorted(program, {{{"n", 40}, {"rows", 6}, {"m", 2}}});
    const LoweredProgram result = passed_for_gpu(program, sorted);
    EXPECT_EQ(count_of(result.text, "local i64 words"), changed ? 2u : 1u) << result.text;
  }
}

TEST(SortScatters, TargetsThatTheProgramComputesAreSortedOnceWhileTheyStay) {
  ProgramBuilder p("nearest");
  auto n = p.size("n"), rows = p.size("rows"), steps = p.size("steps");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto t = p.inout<double>("t", {rows, 2}), s = p.inout<double>("s", {rows});
  auto place = p.local<std::int32_t>("place", {n});
  for (auto k : p.loop("step", 0, steps)) {
    for (auto i : p.loop("i", 0, n)) place(i) = cast<std::int32_t>((idx(i) + k) % rows);
    for (auto i : p.loop("i", 0, n)) p.when(place(i) > 0, [&] { t(place(i), 0) += a(i); });
    for (auto i : p.loop("i", 0, n)) p.when(place(i) > 0, [&] { t(place(i), 1) += 2.0 * a(i); });
    for (auto i : p.loop("i", 0, n)) s(place(i)) += a(i);  // also those that the others leave out
  }
  const Program program = p.build();
  expect_sorted(program, {{{"n", 40}, {"rows", 6}, {"steps", 3}}, {{"n", 9}, {"rows", 1}, {"steps", 1}}});
  const LoweredProgram result = passed_for_gpu(program, sorted);
  EXPECT_EQ(count_of(result.text, "local i64 words"), 2u) << result.text;
  EXPECT_LT(result.text.find("for step in"), result.text.find("local i64 words")) << result.text;
}

/// The order serves all steps, whose conditions differ: it leaves out what has no target, which an index alone may
/// tell, or a condition that lasts.
TEST(SortScatters, ConditionsThatChangeInALoopAreNoPartOfTheOrder) {
  for (const int first : {0, 1, -1}) {
    ProgramBuilder p("contacts");
    auto n = p.size("n"), k = p.size("k"), steps = p.size("steps");
    auto near = p.input<std::int32_t>("near", {n, k});
    if (first <= 0) p.in_range(near, first, n);
    auto x = p.inout<double>("x", {n});
    for (auto t : p.loop("step", 0, steps)) {
      (void)t;
      auto v = p.local<double>("v", {n});
      for (auto i : p.loop("i0", 0, n)) v(i) = 0.0;
      for (auto i : p.loop("i", 0, n))
        for (auto e : p.loop("e", 0, k)) {
          auto j = p.let("j", near(i, e));
          const auto pull = [&] {
            auto gap = p.let("gap", x(j) - x(i));
            p.when(gap > 0.25, [&] { v(j) -= 0.1 * gap; });
          };
          if (first < 0) p.when(j >= 0, pull);
          else pull();
        }
      for (auto i : p.loop("i1", 0, n)) x(i) += v(i);
    }
    const Program program = p.build();
    expect_sorted(program, {{{"n", 20}, {"k", 3}, {"steps", 3}}, {{"n", 1}, {"k", 2}, {"steps", 2}}});
    const LoweredProgram result = passed_for_gpu(program, sorted);
    EXPECT_LT(result.text.find("local i64 words"), result.text.find("for step in")) << result.text;
  }
}

/// What the order of one sum leaves out, since it has no target there, may have one for a sum beside it.
TEST(SortScatters, WhatHasNoTargetMayHaveOneAtADistance) {
  for (const bool in_one_loop : {true, false}) {
    ProgramBuilder p("edges");
    auto n = p.size("n"), edges = p.size("edges"), steps = p.size("steps");
    auto at = p.input<std::int32_t>("at", {edges});
    p.in_range(at, -1, n);
    auto a = p.input<double>("a", {edges}), x = p.inout<double>("x", {n});
    for (auto t : p.loop("step", 0, steps)) {
      (void)t;
      auto left = p.local<double>("left", {n + 1}), right = p.local<double>("right", {n + 1});
      for (auto i : p.loop("i0", 0, n + 1)) {
        left(i) = 0.0;
        right(i) = 0.0;
      }
      const auto to_left = [&](const Value& e) {
        p.when(x(0) * a(e) > 0.1 && at(e) >= 0, [&] { left(at(e)) += a(e); });
      };
      const auto to_right = [&](const Value& e) { p.when(x(0) * a(e) < 0.2, [&] { right(at(e) + 1) += a(e); }); };
      for (auto e : p.loop("e", 0, edges)) {
        to_left(e);
        if (in_one_loop) to_right(e);
      }
      if (!in_one_loop)
        for (auto e : p.loop("e1", 0, edges)) to_right(e);
      for (auto i : p.loop("i2", 0, n)) x(i) = 0.5 * x(i) + left(i) + right(i) * right(i + 1);
    }
    expect_sorted(p.build(), {{{"n", 5}, {"edges", 40}, {"steps", 3}}, {{"n", 1}, {"edges", 3}, {"steps", 2}}});
  }
}

TEST(SortScatters, LoopsBetweenRowsAndTheirEntriesAreNoObstacle) {
  ProgramBuilder p("blocks");
  auto rows = p.size("rows"), entries = p.size("entries"), b = p.size("b");
  auto ptr = p.input<std::int32_t>("ptr", {rows + 1}), col = p.input<std::int32_t>("col", {entries});
  p.csr(ptr, entries);
  p.in_range(col, 0, rows);
  auto a = p.input<double>("a", {entries, b});
  auto t = p.inout<double>("t", {rows, b});
  for (auto r : p.loop("r", 0, rows))
    for (auto i : p.loop("i", 0, b))
      for (auto e : p.loop("e", ptr(r), ptr(r + 1)))
        for (auto j : p.loop("j", 0, b)) t(col(e), j) += a(e, i) * a(e, j);
  expect_sorted(p.build(), {{{"rows", 5}, {"entries", 17}, {"b", 3}}, {{"rows", 1}, {"entries", 0}, {"b", 2}}});
}

TEST(SortScatters, SumsWithOneOrderAreAddedUpTogether) {
  for (const bool reads : {false, true}) {
    ProgramBuilder p("momentum_and_mass");
    auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
    auto idx = p.input<std::int32_t>("idx", {n});
    p.in_range(idx, 0, rows);
    auto a = p.input<double>("a", {n, m}), b = p.input<double>("b", {n, m});
    auto t = p.inout<double>("t", {rows, m}), s = p.inout<double>("s", {rows, m});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) t(idx(i), j) += a(i, j);
    for (auto i : p.loop("i", 0, n))
      for (auto k : p.loop("k", 0, m)) s(idx(i), k) += reads ? b(i, k) * t(idx(i), 0) : b(i, k);
    const Program program = p.build();
    expect_sorted(
        program,
        {{{"n", 0}, {"rows", 3}, {"m", 2}}, {{"n", 100}, {"rows", 2}, {"m", 2}}, {{"n", 61}, {"rows", 7}, {"m", 3}}});
    const LoweredProgram result = passed_for_gpu(program, sorted);
    // Two ends of each piece, and the short segments of a target.
    EXPECT_EQ(count_of(result.text, "for slot in"), reads ? 6u : 3u) << result.text;
  }
}

// Each order has its sort; a step of few elements waits for launches.
TEST(SortScatters, SumsWithSeveralOrdersShareTheLoopsOfOneArray) {
  ProgramBuilder p("both_ends");
  auto edges = p.size("edges"), nodes = p.size("nodes"), m = p.size("m");
  auto from = p.input<std::int32_t>("from", {edges}), to = p.input<std::int32_t>("to", {edges});
  p.in_range(from, 0, nodes), p.in_range(to, 0, nodes);
  auto flow = p.input<double>("flow", {edges, m});
  auto change = p.inout<double>("change", {nodes, m}), sum = p.inout<double>("sum", {nodes, m});
  for (auto e : p.loop("e", edges))
    for (auto j : p.loop("j", m)) change(from(e), j) += flow(e, j);
  for (auto e : p.loop("e", edges))
    for (auto j : p.loop("j", m)) sum(to(e), j) += flow(e, j) * flow(e, j);
  for (auto e : p.loop("e", edges))
    for (auto j : p.loop("j", m)) change(to(e), j) -= flow(e, j);
  const Program program = p.build();
  expect_sorted(program, {{{"edges", 0}, {"nodes", 3}, {"m", 2}}, {{"edges", 61}, {"nodes", 7}, {"m", 3}}});
  const LoweredProgram result = passed_for_gpu(program, sorted);
  EXPECT_EQ(count_of(result.text, "parallel for piece in 0.."), 1u) << result.text;
  EXPECT_EQ(count_of(result.text, "change[target, j] += total"), 2u) << result.text;
  // One of each order for its ends, and one for all sums.
  EXPECT_EQ(count_of(result.text, "parallel for target in 0.."), 2u + 1u) << result.text;
}

TEST(SortScatters, TermsOfMuchThatWouldBeKeptAreKeptThemselves) {
  ProgramBuilder p("forces");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto t = p.inout<double>("t", {rows});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto u = p.let("u", exp(sin(a(i)) * 0.1)), v = p.let("v", exp(cos(a(i)) * 0.2)), w = p.let("w", exp(u * v * 0.1));
    t(idx(i)) += u * v + w * u - v;
    y(i) = u + v + w;
  }
  const Program program = p.build();
  expect_sorted(program, {{{"n", 0}, {"rows", 3}}, {{"n", 40}, {"rows", 3}}});
  const LoweredProgram result = passed_for_gpu(program, sorted);
  EXPECT_NE(result.text.find("local f64 t_term_all[n]"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("u_all"), std::string::npos) << result.text;
}

TEST(SortScatters, LocalsOfTheLoopAreKeptForTheSum) {
  ProgramBuilder p("attention");
  auto v = p.size("V"), e = p.size("E");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto src = p.input<std::int32_t>("src", {e});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto a = p.input<double>("a", {e});
  auto t = p.inout<double>("t", {v});
  auto top = p.inout<double>("top", {v});
  for (auto i : p.loop("i", 0, v)) {
    auto left = p.local<double>("left");
    left() = 1.0;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
      auto share = p.local<double>("share");
      share() = left() * a(k);
      left() -= share();
      t(src(k)) += share();
    }
    top(i) += left();
  }
  const Program program = p.build();
  expect_sorted(program, {{{"V", 9}, {"E", 30}}, {{"V", 2}, {"E", 0}}});
  EXPECT_EQ(plan_of(passed_for_gpu(program, sorted).report, "t"), "segments");
}

TEST(SortScatters, LargestValuesStartFromTheSmallest) {
  ProgramBuilder p("tops");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n, m});
  auto t = p.inout<double>("t", {rows, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), j).max_with(a(i, j) - 2.0);
  expect_sorted(p.build(), {{{"n", 30}, {"rows", 2}, {"m", 2}}, {{"n", 9}, {"rows", 12}, {"m", 1}}});
}

Program lookups() {
  ProgramBuilder p("lookups");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n});
  auto t = p.inout<double>("t", {rows});
  for (auto i : p.loop("i", 0, n)) t(idx(i)) += a(i);
  return p.build();
}

TEST(SortScatters, ABlockSortsATileInMemoryOfItsOwn) {
  const LoweredProgram result = passed_for_gpu(lookups(), mapped_by_default);
  const std::string code = backend::emit_cuda({result.after}).source();
  // What threads have of a tile is theirs; the tile and the counts are the block's; nothing is atomic.
  for (const char* part : {"grid for tile in", "threads for t in 0..256", "local i32 own[256, 8]"})
    EXPECT_NE(result.text.find(part), std::string::npos) << part << " in " << result.text;
  for (const char* part :
       {"__shared__ __align__(16) int32_t sorted_[2080]", "__shared__ int32_t counts_[4352]", "int32_t own_[8];"})
    EXPECT_NE(code.find(part), std::string::npos) << part << " in " << code;
  EXPECT_EQ(code.find("atomic"), std::string::npos) << code;
  const std::size_t tile = code.find("sorted_[2080]"), begin = code.rfind("__global__", tile);
  ASSERT_NE(tile, std::string::npos);
  EXPECT_EQ(code.substr(begin, code.find("\n}\n", tile) - begin).find("dynamic_shared"), std::string::npos) << code;
}

TEST(SortScatters, TargetsThatAscendNeedNoSort) {
  ProgramBuilder p("segments");
  auto n = p.size("n"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  p.sorted(idx);
  auto a = p.input<double>("a", {n});
  auto t = p.inout<double>("t", {rows});
  for (auto i : p.loop("i", 0, n)) t(idx(i)) += a(i);
  const Program program = p.build();
  for (const auto pass : {sorted, mapped}) {
    const LoweredProgram result = passed_for_gpu(program, pass);
    EXPECT_NE(result.text.find("local i64 words["), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("order"), std::string::npos) << result.text;
    for (const Sizes& sizes :
         {Sizes{{"n", 50}, {"rows", 7}}, Sizes{{"n", 9}, {"rows", 40}}, Sizes{{"n", 0}, {"rows", 2}}})
      expect_same_results(result, sizes);
  }
  EXPECT_NE(passed_for_gpu(lookups(), sorted).text.find("order"), std::string::npos);
}

TEST(SortScatters, WhatNumbersOf32BitsCannotCountIsNotSorted) {
  const LoweredProgram result = passed_for_gpu(lookups(), sorted);
  EXPECT_NE(result.text.find("if n < 2147483648 && rows < 1073741824"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("owner"), std::string::npos) << result.text;
}

TEST(SortScatters, IndicesHave32BitsWhereAllFit) {
  const LoweredProgram result = passed_for_gpu(lookups(), mapped_by_default);
  backend::SizeValues sizes;
  const auto fits = [&](std::int64_t n) {
    sizes[result.after.sizes[0]] = n;
    sizes[result.after.sizes[1]] = 1000;
    return backend::has_narrow_indices(result.after, sizes);
  };
  EXPECT_TRUE(fits(1 << 20));
  EXPECT_FALSE(fits(std::int64_t{1} << 30));
}

TEST(SortScatters, ShortLoopsThatDecideNothingBelongToAnInstance) {
  ProgramBuilder p("elements");
  auto n = p.size("n"), rows = p.size("rows");
  auto node = p.input<std::int32_t>("node", {n, 3});
  p.in_range(node, 0, rows);
  auto a = p.input<double>("a", {n, 3});
  auto t = p.inout<double>("t", {rows, 2});
  for (auto e : p.loop("e", 0, n))
    for (auto i : p.loop("i", 0, 3))
      for (auto j : p.loop("j", 0, 3))
        for (auto c : p.loop("c", 0, 2)) t(node(e, i), c) += a(e, j) * (a(e, i) + cast<double>(c));
  // Sorted are n*3 numbers of an element and a corner, not n*9.
  const Program program = p.build();
  const LoweredProgram result = passed_for_gpu(program, sorted);
  EXPECT_NE(result.text.find("local i64 words[2, n*3]"), std::string::npos) << result.text;
  expect_sorted(program, {{{"n", 0}, {"rows", 3}}, {{"n", 61}, {"rows", 7}}, {{"n", 20}, {"rows", 90}}});
}

// What decides about the targets exists where the branch is taken alone.
TEST(SortScatters, SortsOfABranchStayInIt) {
  ProgramBuilder p("later_steps");
  auto n = p.size("n"), steps = p.size("steps"), rows = p.size("rows");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n}), level = p.input<double>("level", {steps});
  auto t = p.inout<double>("t", {rows});
  for (auto s : p.loop("s", 0, steps))
    p.when(s > 0, [&] {
      t(0) *= 0.5;  // steps stay in order
      for (auto i : p.loop("i", 0, n)) p.when(a(i) > level(s - 1), [&] { t(idx(i)) += a(i); });
    });
  expect_sorted(p.build(), {{{"n", 61}, {"steps", 3}, {"rows", 7}}, {{"n", 5}, {"steps", 1}, {"rows", 2}}});
}

/// Nothing sets the elements of `r` that only instances whose condition does not hold would add to.
TEST(SortScatters, ElementsWithoutAValueGetNone) {
  ProgramBuilder p("some");
  auto cells = p.size("cells"), faces = p.size("faces");
  auto owner = p.input<std::int32_t>("owner", {faces});
  p.in_range(owner, 0, cells);
  auto u = p.inout<double>("u", {faces});
  auto r = p.local<double>("r", {cells, 1});
  for (auto f : p.loop("f", 0, faces)) {
    u(f) = u(f) * 2.0;
    p.when(u(f) > 1.0, [&] { r(owner(f), 0) = 0.0; });
  }
  for (auto f : p.loop("f", 0, faces)) p.when(u(f) > 1.0, [&] { r(owner(f), 0) += u(f); });
  for (auto f : p.loop("f", 0, faces)) p.when(u(f) > 1.0, [&] { u(f) = r(owner(f), 0); });
  const LoweredProgram result = passed_for_gpu(p.build(), sorted);
  EXPECT_NE(result.text.find("local i64 words["), std::string::npos) << result.text;
  expect_same_results(result, {{"cells", 9}, {"faces", 40}});
}

/// An iterator that follows from the number of an instance is computed once for all that reads it.
TEST(SortScatters, IteratorsOfAnInstanceAreComputedOnce) {
  ProgramBuilder p("boxes");
  auto a = p.size("a"), b = p.size("b"), c = p.size("c"), d = p.size("d"), m = p.size("m");
  auto idx = p.input<std::int32_t>("idx", {a, b, c, d});
  p.in_range(idx, 0, m);
  auto x = p.input<double>("x", {a, b, c, d});
  auto t = p.inout<double>("t", {m});
  for (auto [i, j] : p.loop({"i", a}, {"j", b}))
    for (auto [k, l] : p.loop({"k", c}, {"l", d})) t(idx(i, j, k, l)) += x(i, j, k, l) * x(i, j, k, l);
  const Program program = p.build();
  expect_sorted(program, {{{"a", 3}, {"b", 2}, {"c", 3}, {"d", 4}, {"m", 5}}});
  const LoweredProgram result = passed_for_gpu(program, sorted);
  // In the words, and in the sums: over a target's own instances and twice over those of a piece.
  EXPECT_EQ(count_of(result.text, "//max(i32(d), 1)"), 4u) << result.text;
}

}  // namespace
}  // namespace loopgrad::transforms
