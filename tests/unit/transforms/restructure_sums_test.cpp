#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

using Names = std::vector<std::string>;

TEST(RestructureSums, ConvolutionGathers) {
  ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto w = p.input<float>("w", {k});
  auto dy = p.input<float>("dy", {n});
  auto dx = p.inout<float>("dx", {n + k - 1});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, k)) dx(i + j) += dy(i) * w(j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(l.text,
            "parallel for c0 in 0..k + n - 1:\n"
            "  for j in max(0, c0 - n + 1)..min(k, c0 + 1):\n"
            "    dx[c0] += dy[c0 - j]*w[j]\n");
  EXPECT_EQ(plan_of(l.report, "dx"), "gather");
  for (Sizes sizes : {Sizes{{"n", 9}, {"k", 4}}, Sizes{{"n", 2}, {"k", 5}}, Sizes{{"n", 1}, {"k", 1}}}) {
    expect_same_results(l, sizes);
  }
}

TEST(RestructureSums, StridedConvolutionGathers) {
  ProgramBuilder p("strided");
  auto n = p.size("n"), k = p.size("k");
  auto w = p.input<float>("w", {k});
  auto dy = p.input<float>("dy", {n});
  auto dx = p.inout<float>("dx", {2 * n + k});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, k)) dx(2 * i + j) += dy(i) * w(j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"c0"});
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 7}, {"k", 3}});
  expect_same_results(l, {{"n", 1}, {"k", 6}});
}

// What eight iterations add to one element stays in a register: the element is that of the loop over elements.
TEST(RestructureSums, SumsIntoQuotientsNameTheirElement) {
  ProgramBuilder p("cells");
  auto n = p.size("n");
  auto a = p.input<float>("a", {8 * n, 8 * n});
  auto t = p.inout<float>("t", {n + 1, n + 1});
  for (auto i : p.loop("i", 0, 8 * n))
    for (auto j : p.loop("j", 0, 8 * n)) {
      t(i / 8, j / 8) += a(i, j);
      t(i / 8 + 1, j / 8) += 2.0f * a(i, j);
    }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "t"), "gather");
  EXPECT_EQ(l.text.find("//8"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("t[c0, c1] += a["), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 3}});
  expect_same_results(l, {{"n", 1}});
}

// Whatever case of an index holds: the loop over elements knows the element, and each piece what is read.
TEST(RestructureSums, SumsAcrossMirroredBordersNameTheirElement) {
  ProgramBuilder p("mirror");
  auto h = p.size("h"), w = p.size("w"), r = p.size("r");
  auto d_out = p.input<float>("d_out", {h, w}), tap = p.input<float>("tap", {2 * r + 1});
  auto img = p.input<float>("img", {h, w});
  auto d_img = p.inout<float>("d_img", {h, w});
  for (auto [i, j] : p.loop({"i", h}, {"j", w}))
    for (auto k : p.loop("k", -r, r + 1)) {
      auto low = select(i + k < 0, -(i + k), i + k);
      auto at = max(min(select(low >= h, 2 * h - 2 - low, low), h - 1), 0);
      d_img(at, j) += tap(k + r) * d_out(i, j) * img(at, max(min(j, w - 1), 0));
    }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "d_img"), "gather");
  EXPECT_EQ(l.text.find("select"), std::string::npos) << l.text;
  std::size_t sums = 0;
  for (std::size_t at = l.text.find("+="); at != std::string::npos; at = l.text.find("+=", at + 1)) {
    ++sums;
    EXPECT_EQ(l.text.rfind("d_img[c0, c1] ", at), at - 14) << l.text;
    EXPECT_NE(l.text.find("*img[c0, c1]", at), std::string::npos) << l.text;
  }
  EXPECT_GE(sums, 4u);
  for (const auto& [h_value, r_value] : std::vector<std::pair<int, int>>{{1, 1}, {2, 4}, {3, 2}, {9, 2}})
    expect_same_results(l, {{"h", h_value}, {"w", 3}, {"r", r_value}});
}

TEST(RestructureSums, TriangleGathersAlongItsDiagonals) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto dy = p.input<float>("dy", {n, n});
  auto dx = p.inout<float>("dx", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", i, n)) dx(j - i) += dy(i, j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "dx"), "gather");
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 6}});
}

Program stencil(bool with_time) {
  ProgramBuilder p("stencil");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("T");
  auto du = p.inout<float>("du", {n, m});
  auto next = p.inout<float>("next", {n, m});
  auto step = [&] {
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 1, m - 1)) {
        du(i, j) += 0.5f * next(i, j);
        du(i - 1, j) += 0.1f * next(i, j);
        du(i + 1, j) += 0.2f * next(i, j);
        du(i, j - 1) += 0.3f * next(i, j);
        du(i, j + 1) += 0.4f * next(i, j);
        next(i, j) = 0.0f;
      }
  };
  if (!with_time) step();
  else {
    for (auto t : p.loop("t", 0, steps)) {
      (void)t;
      step();
      for (auto i : p.loop("i", 0, n))
        for (auto j : p.loop("j", 0, m)) next(i, j) = du(i, j) * 0.25f;
    }
  }
  return p.build();
}

TEST(RestructureSums, ShiftedSumsOfAStencilShareOneSweep) {
  LoweredProgram l = lowered(stencil(false));
  // One nest over the target with all five sums, then the reset that they had to come before.
  EXPECT_EQ(outer_parallel_loops(l.after.body), (Names{"c0", "i"}));
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  for (Sizes sizes : {Sizes{{"n", 6}, {"m", 7}, {"T", 0}}, Sizes{{"n", 3}, {"m", 3}, {"T", 0}},
                      Sizes{{"n", 2}, {"m", 5}, {"T", 0}}, Sizes{{"n", 4}, {"m", 3}, {"T", 0}}}) {
    expect_same_results(l, sizes);
  }
}

TEST(RestructureSums, TimeStaysOutside) {
  LoweredProgram l = lowered(stencil(true));
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{"t"});
  EXPECT_EQ(outer_parallel_loops(l.after.body), (Names{"c0", "i", "i"}));
  expect_same_results(l, {{"n", 5}, {"m", 6}, {"T", 3}});
}

TEST(RestructureSums, MatrixProductGivesTwoNests) {
  ProgramBuilder p("matmul");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto a = p.input<float>("a", {m, k}), b = p.input<float>("b", {k, n}), dc = p.input<float>("dc", {m, n});
  auto da = p.inout<float>("da", {m, k}), db = p.inout<float>("db", {k, n});
  for (auto i : p.loop("i", 0, m))
    for (auto j : p.loop("j", 0, n))
      for (auto l : p.loop("l", 0, k)) {
        da(i, l) += dc(i, j) * b(l, j);
        db(l, j) += dc(i, j) * a(i, l);
      }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(l.text,
            "contraction da += dc*b (m x k x n):\n"
            "  at da[0; 0, k, 1] = dc[0; 0, n, 1]*b[0; 0, 1, n]\n"
            "  parallel for i in 0..m:\n"
            "    parallel for l in 0..k:\n"
            "      for j in 0..n:\n"
            "        da[i, l] += dc[i, j]*b[l, j]\n"
            "contraction db += a*dc (k x n x m):\n"
            "  at db[0; 0, n, 1] = a[0; 0, 1, k]*dc[0; 0, n, 1]\n"
            "  parallel for l in 0..k:\n"
            "    parallel for j in 0..n:\n"
            "      for i in 0..m:\n"
            "        db[l, j] += dc[i, j]*a[i, l]\n");
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 5}});
}

TEST(RestructureSums, ScalarLossBecomesATree) {
  ProgramBuilder p("loss");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto loss = p.inout<float>("loss", {});
  for (auto i : p.loop("i", 0, n)) loss() += x(i) * x(i);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "loss"), "tree");
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"block"});
  for (std::int64_t n_value : {0, 1, 63, 64, 65, 1000}) expect_same_results(l, {{"n", n_value}});
}

TEST(RestructureSums, OtherOperationsHaveTreesToo) {
  ProgramBuilder p("extrema");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto least = p.inout<float>("least", {}), largest = p.inout<float>("largest", {}),
       product = p.inout<float>("product", {});
  for (auto i : p.loop("i", 0, n)) {
    least().min_with(x(i));
    largest().max_with(x(i));
    product() *= x(i);
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"block"});
  expect_same_results(l, {{"n", 70}});
}

TEST(RestructureSums, HistogramBecomesATree) {
  ProgramBuilder p("histogram");
  auto n = p.size("n"), bins = p.size("bins");
  auto bin = p.input<int>("bin", {n});
  auto weight = p.input<float>("weight", {n});
  auto h = p.inout<float>("h", {bins});
  p.in_range(bin, 0, bins);
  for (auto i : p.loop("i", 0, n)) h(bin(i)) += weight(i);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "h"), "partials");
  expect_same_results(l, {{"n", 500}, {"bins", 5}});
  expect_same_results(l, {{"n", 5}, {"bins", 50}});  // too little work for partial results: one block
}

TEST(RestructureSums, EmbeddingRunsBlocksOfColumns) {
  ProgramBuilder p("embedding");
  auto n = p.size("n"), rows = p.size("rows"), d = p.size("d");
  auto idx = p.input<int>("idx", {n});
  auto dy = p.input<float>("dy", {n, d});
  auto table = p.inout<float>("table", {rows, d});
  p.in_range(idx, 0, rows);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, d)) table(idx(i), j) += dy(i, j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"j_block"});
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 20}, {"rows", 6}, {"d", 70}});
}

TEST(RestructureSums, SumsOverCsrEdgesRunBlocksOfColumns) {
  ProgramBuilder p("graph");
  auto nodes = p.size("V"), edges = p.size("E"), d = p.size("D");
  auto ptr = p.input<int>("ptr", {nodes + 1});
  auto src = p.input<int>("src", {edges});
  auto dy = p.input<float>("dy", {nodes, d});
  auto dh = p.inout<float>("dh", {nodes, d});
  p.csr(ptr, edges);
  p.in_range(src, 0, nodes);
  for (auto v : p.loop("v", 0, nodes))
    for (auto e : p.loop("e", ptr(v), ptr(v + 1)))
      for (auto j : p.loop("j", 0, d)) dh(src(e), j) += dy(v, j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"j_block"});
  expect_same_results(l, {{"V", 7}, {"E", 30}, {"D", 40}});
}

TEST(RestructureSums, EdgeWeightsAreATreeSizedByTheEdges) {
  ProgramBuilder p("edges");
  auto nodes = p.size("V"), edges = p.size("E");
  auto ptr = p.input<int>("ptr", {nodes + 1});
  auto src = p.input<int>("src", {edges});
  auto a = p.input<float>("a", {edges});
  auto d_from = p.inout<float>("d_from", {nodes}), d_to = p.inout<float>("d_to", {nodes});
  p.csr(ptr, edges);
  p.in_range(src, 0, nodes);
  for (auto v : p.loop("v", 0, nodes))
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) {
      d_from(src(e)) += a(e);
      d_to(v) += a(e);
    }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "d_from"), "partials");
  EXPECT_NE(l.text.find("E//(4*max(V, 1))"), std::string::npos) << l.text;
  expect_same_results(l, {{"V", 5}, {"E", 200}});
  expect_same_results(l, {{"V", 20}, {"E", 10}});
}

/// What neighbours on a ring give to each other, and `more` to an element that all share.
Program ring(bool more) {
  ProgramBuilder p("ring");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto d = p.inout<float>("d", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      d(i, j) += 2.0f * x(i, j);
      d((i + 1) % n, j) += x(i, j);
      d((i + n - 1) % n, (j + 1) % m) += 3.0f * x(i, j);
      if (more) d(0, j) += x(i, j);
    }
  return p.build();
}

TEST(RestructureSums, NeighboursOnARingGetNestsOfTheirOwn) {
  const LoweredProgram l = lowered(ring(false));
  EXPECT_EQ(plan_of(l.report, "d"), "apart");
  EXPECT_EQ(l.text.find("d_part"), std::string::npos) << l.text;
  EXPECT_TRUE(outer_sequential_loops(l.after.body).empty()) << l.text;
  for (const Sizes& sizes : {Sizes{{"n", 5}, {"m", 3}}, Sizes{{"n", 1}, {"m", 2}}, Sizes{{"n", 2}, {"m", 1}}})
    expect_same_results(l, sizes);
  const LoweredProgram shared = lowered(ring(true));
  EXPECT_NE(plan_of(shared.report, "d"), "apart") << "one of the sums meets itself";
  expect_same_results(shared, {{"n", 5}, {"m", 3}});
}

TEST(RestructureSums, RowsThatNeedRowsBeforeThemHaveNoPartialResultsOfAllElements) {
  ProgramBuilder p("solve");  // the gradient of a sparse triangular system
  auto n = p.size("n"), nnz = p.size("nnz");
  auto ptr = p.input<int>("ptr", {n + 1}), col = p.input<int>("col", {nnz});
  auto a = p.input<float>("a", {nnz});
  auto d_x = p.inout<float>("d_x", {n});
  p.csr(ptr, nnz);
  p.in_range(col, 0, n);
  for (auto i : p.loop("i", 0, n)) {
    auto d_s = p.scalar<float>("d_s");
    d_s = 0.5f * d_x(i);
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) d_x(col(k)) -= d_s * a(k);
  }
  const LoweredProgram l = lowered(p.build());
  const std::size_t partial = l.text.find("d_x_part"), kept = l.text.rfind("d_x[col[k]] +=");
  EXPECT_NE(l.text.find("if max(1024, 8*n) <= "), std::string::npos) << l.text;
  EXPECT_LT(partial, kept) << l.text;
  expect_same_results(l, {{"n", 5}, {"nnz", 12}});
}

TEST(RestructureSums, SumsOfShortRowsOfATriangleAreLeftInOrder) {
  ProgramBuilder p("intervals");
  auto n = p.size("n");
  auto t = p.inout<float>("t", {n, n});
  for (auto i : p.loop("i", 0, n, {.descending = true}))
    for (auto j : p.loop("j", i + 1, n))
      for (auto k : p.loop("k", i, j)) t(i, j).max_with(t(i, k) + t(k + 1, j));
  const LoweredProgram l = lowered(p.build());
  EXPECT_NE(l.text.find("if 1024 <= j - i:"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 7}});
}

TEST(RestructureSums, NestsOfNeighboursKeepWhatTheyHaveInCommon) {
  ProgramBuilder p("wave");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto d = p.inout<float>("d", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto slope = p.scalar<float>("slope");
    slope = 1.0f;
    slope *= sin(x(i)) * cos(x(i));
    d((i + 1) % n) += slope * x(i);
    d((i + n - 1) % n) -= slope;
  }
  const LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "d"), "apart") << l.text;
  EXPECT_NE(l.text.find("slope_all[n]"), std::string::npos) << l.text;
  EXPECT_TRUE(outer_sequential_loops(l.after.body).empty()) << l.text;
  for (const std::int64_t size : {1, 2, 7}) expect_same_results(l, {{"n", size}});
}

TEST(RestructureSums, RecurrencesStaySequential) {
  ProgramBuilder p("recurrence");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto x = p.inout<float>("x", {n});
  auto da = p.inout<float>("da", {n});
  for (auto i : p.loop("i", 1, n)) {
    x(i) = a(i) * x(i - 1);
    da(i) += x(i - 1);
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_TRUE(outer_parallel_loops(l.after.body).empty()) << l.text;
  EXPECT_EQ(l.text, ir::print(l.before.body));
  expect_same_results(l, {{"n", 9}});
}

TEST(RestructureSums, SumThatReadsItsTargetKeepsItsOrder) {
  ProgramBuilder p("own");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {2 * n});
  for (auto i : p.loop("i", 1, n)) x(i) += 0.5f * x(i - 1);
  LoweredProgram l = lowered(p.build());
  EXPECT_TRUE(outer_parallel_loops(l.after.body).empty());
  expect_same_results(l, {{"n", 9}});
}

TEST(RestructureSums, SumsUsedInTheLoopAreSerial) {
  ProgramBuilder p("running");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto total = p.inout<float>("total", {});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    total() += x(i);
    y(i) = total();
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_TRUE(outer_parallel_loops(l.after.body).empty());
  expect_same_results(l, {{"n", 12}});
}

TEST(RestructureSums, LocalsThatCrossASplitAreKeptForAllIterations) {
  // As in the gradient of a sliding window: d_score is computed per query and needed per key.
  ProgramBuilder p("window");
  auto n = p.size("n"), w = p.size("w"), d = p.size("d");
  auto q = p.input<float>("q", {n, d}), dy = p.input<float>("dy", {n, d});
  auto dq = p.inout<float>("dq", {n, d}), dk = p.inout<float>("dk", {n + w, d});
  for (auto j : p.loop("j", 0, n)) {
    auto score = p.local<float>("score", {w});
    for (auto o : p.loop("o", 0, w)) {
      score(o) = 0.0f;
      for (auto e : p.loop("e", 0, d)) score(o) += dy(j, e) * exp(q(j, e));
    }
    for (auto o : p.loop("o", 0, w))
      for (auto e : p.loop("e", 0, d)) {
        dq(j, e) += score(o) * dy(j, e);
        dk(j + o, e) += score(o) * q(j, e);
      }
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "dk"), "gather");
  EXPECT_NE(l.text.find("local f32 score_all[n, w]"), std::string::npos) << l.text;
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 6}, {"w", 3}, {"d", 2}});
  expect_same_results(l, {{"n", 0}, {"w", 3}, {"d", 2}});
}

TEST(RestructureSums, CheapLocalsAreComputedAgain) {
  ProgramBuilder p("seed");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n}), dy = p.input<float>("dy", {n});
  auto dx = p.inout<float>("dx", {n + 1}), db = p.inout<float>("db", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto seed = p.scalar<float>("seed");
    seed = dy(i) * a(i);
    dx(i) += seed;
    dx(i + 1) += 2.0f * seed;
    db(i) += seed;
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(l.text.find("seed_all"), std::string::npos) << l.text;
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 8}});
}

TEST(RestructureSums, ValuesThatChangeAreNotComputedAgain) {
  ProgramBuilder p("reset");
  auto n = p.size("n");
  auto dy = p.inout<float>("dy", {n});
  auto dx = p.inout<float>("dx", {n + 1});
  for (auto i : p.loop("i", 0, n)) {
    auto seed = p.scalar<float>("seed");
    seed = dy(i);
    dy(i) = 0.0f;
    dx(i) += seed;
    dx(i + 1) += 2.0f * seed;
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_NE(l.text.find("seed_all"), std::string::npos) << l.text;
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 8}});
}

TEST(RestructureSums, DataDependentBranchesMoveWithTheirSums) {
  ProgramBuilder p("branch");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {k});
  auto dx = p.inout<float>("dx", {n + k});
  for (auto i : p.loop("i", 0, n))
    p.when(x(i) > 0.0f, [&] {
       for (auto j : p.loop("j", 0, k)) dx(i + j) += w(j);
     }).otherwise([&] {
      for (auto j : p.loop("j", 0, k)) dx(i + j) += 2.0f * w(j);
    });
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "dx"), "gather");
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{});
  expect_same_results(l, {{"n", 9}, {"k", 4}});
}

TEST(RestructureSums, BatchOfOneIsNoObstacle) {
  // The batch loop is parallel as it is, but may have a single iteration.
  ProgramBuilder p("batch");
  auto b = p.size("b"), n = p.size("n"), k = p.size("k");
  auto w = p.input<float>("w", {k}), dy = p.input<float>("dy", {b, n});
  auto dx = p.inout<float>("dx", {b, n + k});
  for (auto s : p.loop("s", 0, b))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, k)) dx(s, i + j) += dy(s, i) * w(j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(l.text,
            "parallel for s in 0..b:\n"
            "  parallel for c1 in 0..k + n - 1:\n"
            "    for j in max(0, c1 - n + 1)..min(k, c1 + 1):\n"
            "      dx[s, c1] += dy[s, c1 - j]*w[j]\n");
  expect_same_results(l, {{"b", 2}, {"n", 5}, {"k", 3}});
}

TEST(RestructureSums, PartialResultsOfHalfPrecisionAreWide) {
  ProgramBuilder p("half");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto total = p.inout<half>("total", {});
  for (auto i : p.loop("i", 0, n)) total() += x(i);
  LoweredProgram l = lowered(p.build());
  EXPECT_NE(l.text.find("local f32 total_part[64]"), std::string::npos) << l.text;
}

// Elements past the row get their first values in later iterations of the loop around.
TEST(RestructureSums, TreesAddToNoElementThatTheirLoopsDoNotReach) {
  ProgramBuilder p("rows");
  auto n = p.size("n");
  auto d = p.inout<float>("d", {n});
  auto y = p.output<float>("y", {2 * n});
  for (auto i : p.loop("i", 0, n)) {
    y(2 * i) = 1.0f;
    for (auto j : p.loop("j", 0, i + 1)) {
      p.when(d(j) > -1.0f, [&] { y(2 * i) += d(j); });  // a condition that later iterations see otherwise: not kept
      d(j) = 0.5f * d(j) - 0.5f;
      y(2 * j) += d(j);
    }
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "y"), "partials") << l.text;
  for (const std::int64_t n_value : {0, 1, 2, 9}) expect_same_results(l, {{"n", n_value}});
}

TEST(RestructureSums, AtomicModeKeepsLoopsAndMarksSums) {
  ProgramBuilder p("atomic");
  auto n = p.size("n"), k = p.size("k");
  auto w = p.input<float>("w", {k}), dy = p.input<float>("dy", {n});
  auto dx = p.inout<float>("dx", {n + k});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, k)) dx(i + j) += dy(i) * w(j);
  LoweredProgram l = lowered(p.build(), SumMode::Atomic);
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"i"});
  EXPECT_EQ(plan_of(l.report, "dx"), "atomic");
  int atomics = 0;
  ir::walk_stmts(l.after.body, [&](const ir::Stmt& s) {
    auto* sum = s.as<ir::Reduce>();
    atomics += sum && sum->atomic;
  });
  EXPECT_EQ(atomics, 1);
  expect_same_results(l, {{"n", 9}, {"k", 4}});
}

TEST(RestructureSums, SerialModeChangesNothing) {
  Program program = stencil(true);
  LoweredProgram l = lowered(program, SumMode::Serial);
  EXPECT_TRUE(l.after.body.same_as(program.ir().body));
}

TEST(RestructureSums, BeyondTheBudgetLoopsKeepTheirOrder) {
  Program program = stencil(false);
  Report report;
  const LowerOptions options = {.last = Part::Shared};
  PassContext context{options, report};
  context.isl_budget = 50;
  ir::Program after = program.ir();
  for (const Pass& pass : passes(options)) after = pass.run(after, context);
  EXPECT_TRUE(outer_parallel_loops(after.body).empty());
  ASSERT_FALSE(report.remarks.empty());
  EXPECT_NE(report.remarks[0].text.find("work limit"), std::string::npos) << report.remarks[0].text;
}

}  // namespace
}  // namespace loopgrad::transforms
