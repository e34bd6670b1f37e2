// Sums through index arrays, trees of sums and rows that follow each other: what plans are made of, each part alone.
#include "tests/unit/passes/parts.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/locality/row_nests.h"
#include "transforms/map/gpu/lane_groups.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/sums/counting_sort.h"
#include "transforms/sums/improvable_sums.h"
#include "transforms/sums/keyed_loops.h"
#include "transforms/sums/own_scatters.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/segment_sums.h"
#include "transforms/sums/sort_scatters.h"
#include "transforms/sums/sorted_iterations.h"
#include "transforms/sums/tree_sums.h"

#include <gtest/gtest.h>

#include <cmath>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

/// `array` has the same elements after both, up to the order of sums.
void expect_same_array(const std::string& array, const Program& before, const Program& after, const Sizes& sizes) {
  ir::verify(after, "a part of a pass");
  const Buffers expected = run_checked(before, sizes), actual = run_checked(after, sizes);
  const HostArray &e = expected.at(array), &a = actual.at(array);
  for (std::int64_t k = 0; k < e.size(); ++k)
    EXPECT_NEAR(a.get(k), e.get(k), 1e-11 * (1 + std::abs(e.get(k)))) << array << "[" << k << "]";
}

const char* const graph = R"(
  program p(n, m, d, nnz)
    input  i32 ptr[n + 1]
    input  i32 idx[nnz]
    input  f32 w[nnz]
    input  f32 d_y[n, d]
    inout  f32 d_x[m, d]
    fact   ptr csr pointer of nnz
    fact   idx in 0..m
)";

// ---- scatters ----

/// Words of sentences of documents: the number of a word tells the others.
TEST(Scatters, KnowRowsOfRows) {
  const ir::Program program = program_of(R"(
    program p(docs, sentences, words, m)
      input  i32 of_doc[docs + 1]
      input  i32 of_sentence[sentences + 1]
      input  i32 word[words]
      input  f32 d_y[docs]
      inout  f32 d_x[m]
      fact   of_doc csr pointer of sentences
      fact   of_sentence csr pointer of words
      fact   word in 0..m
  )",
                                         R"(
    for k in 0..docs:
      for s in of_doc[k]..of_doc[k + 1]:
        for w in of_sentence[s]..of_sentence[s + 1]:
          d_x[word[w]] += (segments) d_y[k]
  )");
  const auto scatter = scatter_in(program, program.body);
  ASSERT_TRUE(scatter);
  ASSERT_EQ(scatter->factors.size(), 1u);
  EXPECT_EQ(scatter->factors[0].csr.size(), 2u);
  EXPECT_EQ(ir::print(scatter->iterations()), "words");
}

TEST(Scatters, AreStreamsOfInstancesWithAKey) {
  const ir::Program program = program_of(graph, R"(
    for v in 0..n:
      for e in ptr[v]..ptr[v + 1]:
        parallel for k in 0..d:
          d_x[idx[e], k] += (segments) w[e]*d_y[v, k]
  )");
  const auto scatter = scatter_in(program, program.body);
  ASSERT_TRUE(scatter);
  ASSERT_EQ(scatter->factors.size(), 1u);
  EXPECT_EQ(scatter->factors[0].loop->iterator.name, "e");
  EXPECT_EQ(scatter->factors[0].csr.at(0).rows->iterator.name, "v");
  ASSERT_EQ(scatter->inner.size(), 1u);
  EXPECT_EQ(scatter->inner[0]->iterator.name, "k");
  EXPECT_EQ(scatter->dims, std::vector<std::size_t>{0});
  EXPECT_EQ(ir::print(scatter->key()), "idx[e]");
  EXPECT_EQ(ir::print(scatter->targets()), "m");
  EXPECT_EQ(ir::print(scatter->iterations()), "nnz");
  EXPECT_TRUE(scatter->is_plain());
}

TEST(Scatters, AreNothingElse) {
  const auto is_scatter = [](const std::string& body) {
    const ir::Program program = program_of(graph, body);
    return scatter_in(program, program.body).has_value();
  };
  EXPECT_TRUE(is_scatter("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]\n"));
  EXPECT_FALSE(is_scatter("for e in 0..n:\n  d_x[e, 0] += w[e]\n")) << "no index from data";
  EXPECT_FALSE(is_scatter("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]*d_x[0, 0]\n"))
      << "it reads its targets";
  EXPECT_TRUE(is_scatter("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]*d_x[0, 1]\n")) << "but not here";
  EXPECT_FALSE(is_scatter("for e in 0..nnz:\n  d_x[idx[e], 0] += (atomic) w[e]\n"));
  EXPECT_TRUE(is_scatter("for e in 0..ptr[n]:\n  d_x[idx[e], 0] += (segments) w[e]\n")) << "the fact bounds the trips";
  EXPECT_FALSE(is_scatter("for e in 0..i64(w[0]):\n  d_x[idx[e], 0] += (segments) w[e]\n")) << "nothing does";
  EXPECT_FALSE(is_scatter("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]\n  d_x[0, 1] = 1\n"));
}

TEST(OwnScatters, EachOwnerTakesWhatIsItsOwn) {
  for (const char* body : {"parallel for k in 0..d:\n  for e in 0..nnz:\n    d_x[idx[e], k] += (segments) w[e]\n",
                           "for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]\n"}) {
    const ir::Program program = program_of(graph, body);
    const auto owned = owned_scatter(program, program.body);
    ASSERT_TRUE(owned) << body;
    const auto* owners = first<ir::For>(*owned).as<ir::For>();
    EXPECT_EQ(owners->iterator.name, "owner");
    EXPECT_EQ(owners->mode, ir::LoopMode::Parallel);
    for (const std::int64_t entries : {0, 1, 400})
      expect_same_array("d_x", program, ir::with_body(program, *owned),
                        {{"n", 3}, {"m", 700}, {"d", 2}, {"nnz", entries}});
  }
}

TEST(OwnScatters, LeavesWhatReadsItsTargets) {
  const auto is_owned = [](const std::string& body) {
    const ir::Program program = program_of(graph, body);
    return owned_scatter(program, program.body).has_value();
  };
  EXPECT_FALSE(is_owned("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]*d_x[1, 0]\n"));
  EXPECT_TRUE(is_owned("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]*d_x[1, 1]\n")) << "another column";
  EXPECT_FALSE(is_owned("for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]\n  d_x[idx[e], 1] += w[e]\n"));
  EXPECT_FALSE(is_owned("parallel for k in 0..d:\n  d_x[idx[0], k] += w[k]\n")) << "no loop in order";
  EXPECT_FALSE(is_owned("for e in 0..n:\n  d_x[e, 0] += w[e]\n"));
}

/// Keys of which some are equal, sorted with the numbers of their places; `drops`: the last of them stands for nothing.
void expect_sorted(std::int64_t count, std::int64_t key_end, bool drops) {
  Program program = program_of(R"(
    program p(count)
      input  i64 keys[count]
      output i64 sorted[count]
      output i64 places[count]
  )",
                               "for p in 0..count:\n  sorted[p] = keys[p]\n");
  const ir::Expr n = ir::var(program.sizes[0]);
  const ir::Array keys = program.arrays[0], sorted = program.arrays[1], places = program.arrays[2];
  const ir::Array words = ir::make_array("words", ScalarType::I64, {ir::int_const(2), n}, ir::ArrayRole::Local, {});
  const ir::Array left = ir::make_array("left", ScalarType::I32, {ir::int_const(2)}, ir::ArrayRole::Local, {});
  const ir::Symbol p = ir::make_symbol("p"), q = ir::make_symbol("q");
  const auto over = [&](const ir::Symbol& i, Stmt body) {
    return ir::for_loop(i, ir::int_const(0), n, std::move(body));
  };
  const Stmt fill = ir::block({ir::assign(left, {ir::int_const(0)}, ir::cast(ScalarType::I32, n)),
                               over(p, ir::assign(words, {ir::int_const(0), ir::var(p)},
                                                  sort_word(ir::load(keys, {ir::var(p)}), ir::var(p))))});
  const auto kept = [&](const ir::Expr& side) {
    const ir::Expr word = ir::load(words, {side, ir::var(q)});
    const Stmt all =
        ir::block({ir::assign(sorted, {ir::var(q)}, key_of(word)), ir::assign(places, {ir::var(q)}, item_of(word))});
    const ir::Expr end = drops ? ir::cast(ScalarType::I64, ir::load(left, {side})) : n;
    return over(q, ir::if_then(ir::binary(ir::BinaryOp::Lt, ir::var(q), end), all));
  };
  const Stmt sort = counting_sort(words, n, ir::int_const(key_end), drops ? left : ir::Array(),
                                  {.threads = 4, .keys = 2, .values = 4, .group = 2, .most_bits = 3}, {}, kept);
  program.body = ir::allocate(words, ir::allocate(left, ir::block({fill, sort})));
  ir::verify(program, "counting_sort");
  std::vector<std::int64_t> of(static_cast<std::size_t>(count)), order;
  HostArray given(ScalarType::I64, {count}), keys_out(ScalarType::I64, {count}), out(ScalarType::I64, {count});
  for (std::size_t k = 0; k < of.size(); ++k) {
    of[k] = static_cast<std::int64_t>(k * 7919 % 613) % key_end;
    if (drops && k % 3 == 1) of[k] = key_end - 1;
    if (!drops || of[k] != key_end - 1) order.push_back(static_cast<std::int64_t>(k));
    given.set(static_cast<std::int64_t>(k), static_cast<double>(of[k]));
    out.set(static_cast<std::int64_t>(k), -1);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return of[static_cast<std::size_t>(a)] < of[static_cast<std::size_t>(b)];
  });
  const Arguments arguments = {{"keys", given.view()}, {"sorted", keys_out.view()}, {"places", out.view()}};
  backend::interpret(program, backend::bind(program, arguments, {{"count", count}}, {}), {.checked = true});
  for (std::size_t k = 0; k < of.size(); ++k) {
    const auto at = static_cast<std::int64_t>(k);
    if (k >= order.size()) {
      EXPECT_LT(out.get(at), 0) << count << " keys below " << key_end << " of which some are dropped, place " << k;
      continue;
    }
    ASSERT_EQ(out.get(at), static_cast<double>(order[k])) << count << " keys below " << key_end << ", place " << k;
    ASSERT_EQ(keys_out.get(at), static_cast<double>(of[static_cast<std::size_t>(order[k])]));
  }
}

TEST(CountingSort, SortsStably) {
  for (const std::int64_t count : {0, 1, 7, 300})
    for (const std::int64_t key_end : {1, 5, 1000}) expect_sorted(count, key_end, false);
}

TEST(CountingSort, DropsWhatStandsForNothing) {
  for (const std::int64_t count : {0, 1, 7, 300})
    for (const std::int64_t key_end : {2, 5, 16, 17, 1000}) expect_sorted(count, key_end, true);
}

TEST(CountingSort, CountsBinaryDigits) {
  const auto bits = [](std::int64_t most) { return *ir::as_int(bits_of(ir::int_const(most), 10)); };
  EXPECT_EQ(bits(0), 0);
  EXPECT_EQ(bits(1), 1);
  EXPECT_EQ(bits(7), 3);
  EXPECT_EQ(bits(8), 4);
  EXPECT_EQ(bits(5000), 10) << "no more than asked for";
}

/// Segments of many lengths: pieces of 4 positions, so that most targets have several.
TEST(SegmentSums, AddUpSortedIterations) {
  const ir::Program program = program_of(graph, R"(
    for v in 0..n:
      for e in ptr[v]..ptr[v + 1]:
        parallel for k in 0..d:
          d_x[idx[e], k] += (segments) w[e]*d_y[v, k]
  )");
  const auto scatter = scatter_in(program, program.body);
  ASSERT_TRUE(scatter);
  const SortedIterations sorted(*scatter, false, {.threads = 4, .keys = 2, .values = 4, .group = 2, .most_bits = 3});
  EXPECT_EQ(ir::as_int(sorted.shift_to(*scatter).value()), 0);
  const std::vector<Scatter> sums = {*scatter};
  Stmt body = ir::block({sorted.code(), segment_sums({{&sums, &sorted}}, 4, ranges_in(program))});
  for (const ir::Array& array : sorted.arrays()) body = ir::allocate(array, body);
  const Program after = ir::with_body(program, ir::with_fresh_names(body));
  for (const std::int64_t entries : {0, 1, 90})
    for (const std::int64_t targets : {1, 7})
      expect_same_array("d_x", program, after, {{"n", 5}, {"m", targets}, {"d", 2}, {"nnz", entries}});
}

/// What an interpolation adds to, and what some iterations leave out: one sort, in pieces of 4 positions again.
TEST(SegmentSums, AddUpElementsAtADistanceAndWhatSomeIterationsHave) {
  const std::string declarations = R"(
    program p(n, m, d, nnz)
      input  i32 row[nnz]
      input  i32 column[nnz]
      input  f32 w[nnz]
      inout  f32 t[m + 2, d + 1]
      inout  f32 total[m + 2, d + 1]
      fact   row in 0..m + 1
      fact   column in 0..d
  )";
  const ir::Program program = program_of(declarations, R"(
    for e in 0..nnz:
      t[row[e], column[e] + 1] += (segments) w[e]
    for e in 0..nnz:
      t[row[e], column[e]] += (segments) 2*w[e]
    for e in 0..nnz:
      if w[e] > 0:
        t[row[e] + 1, column[e]] += (segments) 3*w[e]
    for e in 0..nnz:
      total[row[e], column[e] + 1] max= (segments) w[e]
  )");
  const Program after = sort_scatters(program, 64);
  std::size_t sorts = 0;
  ir::walk_stmts(after.body, [&](const Stmt& s) {
    const auto* local = s.as<ir::Allocate>();
    sorts += local && local->array->name == "words";
  });
  EXPECT_EQ(sorts, 1u);
  for (const std::int64_t entries : {0, 1, 90})
    for (const std::int64_t columns : {1, 3})
      for (const char* array : {"t", "total"})
        expect_same_array(array, program, after, {{"n", 1}, {"m", 4}, {"d", columns}, {"nnz", entries}});
}

TEST(SortedIterations, KnowHowFarTargetsAreFromTheirOwn) {
  const std::string declarations = R"(
    program p(m, nnz)
      input  i32 idx[nnz]
      input  i32 other[nnz]
      inout  f32 t[m + 9]
      inout  f32 grid[m + 9, m + 9]
  )";
  const auto shift = [&](const std::string& from, const std::string& to) {
    const auto nest = [](const std::string& sum) { return "for e in 0..nnz:\n  " + sum + " += (segments) 1\n"; };
    const ir::Program program = program_of(declarations, nest(from) + nest(to));
    const auto& nests = program.body.as<ir::Block>()->body;
    const auto found =
        SortedIterations(*scatter_in(program, nests[0]), false, {}).shift_to(*scatter_in(program, nests[1]));
    return found ? ir::print(*found) : "none";
  };
  EXPECT_EQ(shift("t[idx[e]]", "t[idx[e]]"), "0");
  EXPECT_EQ(shift("t[idx[e] + 2]", "t[idx[e]]"), "-2");
  EXPECT_EQ(shift("t[idx[e]]", "t[idx[e] + e]"), "none");
  EXPECT_EQ(shift("t[idx[e]]", "t[other[e]]"), "none");
  EXPECT_EQ(shift("grid[idx[e], other[e]]", "grid[idx[e] + 1, other[e] + 2]"), "m + 11");
}

TEST(SortedIterations, ServeScattersOfTheSameTargetsOnly) {
  const auto scatter_of = [](const Program& program) { return *scatter_in(program, program.body); };
  const Program one = program_of(graph, "for e in 0..nnz:\n  d_x[idx[e], 0] += (segments) w[e]\n");
  const Scatter scatter = scatter_of(one);
  const SortedIterations sorted(scatter, false, {});
  const auto serves = [&](const std::string& body) {
    const Program other = ir::with_body(one, ir::with_fresh_names(one.body));
    const Stmt sum = first<ir::Reduce>(other.body);
    Program changed = other;
    if (body == "another value")
      changed.body = replace(other.body, sum,
                             ir::reduce_like(*sum.as<ir::Reduce>(), sum.as<ir::Reduce>()->array,
                                             sum.as<ir::Reduce>()->indices, ir::float_const(1, ScalarType::F32)));
    if (body == "fewer iterations") {
      const auto& loop = *other.body.as<ir::For>();
      changed.body = ir::for_loop(loop.iterator, loop.lower, loop.upper - ir::int_const(1), loop.body);
    }
    return sorted.shift_to(scatter_of(changed)).has_value();
  };
  EXPECT_TRUE(serves("the same"));
  EXPECT_TRUE(serves("another value"));
  EXPECT_FALSE(serves("fewer iterations"));
}

// ---- trees, and sums in other loops ----

std::vector<Stmt> sums_in(const Stmt& s) {
  std::vector<Stmt> sums;
  ir::walk_stmts(s, [&](const Stmt& at) {
    if (at.as<ir::Reduce>()) sums.push_back(at);
  });
  return sums;
}

const char* const vector_program = R"(
  program p(n, m)
    input  f32 x[n, m]
    inout  f32 y[n]
    inout  f32 s
)";

TEST(TreeSums, BlocksAddUpTheirShares) {
  const ir::Program program = program_of(vector_program, R"(
    for i in 0..n:
      y[i] = 2*x[i, 0]
      s += x[i, 0]*x[i, 1]
  )");
  const Stmt tree = tree_sums(program, model_of(program), program.body, {sums_in(program.body)}, cpu_machine());
  expect_body(program, tree, vector_program, R"(
    local f32 s_part[64]
    parallel for block in 0..64:
      local f32 s_own
      s_own = 0
      for i in block*((n + 63)//64)..min(block*((n + 63)//64) + (n + 63)//64, n):
        y[i] = 2*x[i, 0]
        s_own += x[i, 0]*x[i, 1]
      s_part[block] = s_own
    for block in 0..64:
      s += s_part[block]
  )");
  for (const std::int64_t n : {1, 3, 500})
    for (const char* array : {"s", "y"})
      expect_same_array(array, program, ir::with_body(program, tree), {{"n", n}, {"m", 2}});
}

TEST(TreeSums, AreHeldBackOnlyWhereNothingElseTouchesTheElement) {
  const auto held_back = [](const std::string& body) {
    const ir::Program program = program_of(vector_program, body);
    return can_be_held_back(model_of(program), sums_in(program.body));
  };
  EXPECT_TRUE(held_back("for i in 0..n:\n  s += x[i, 0]\n"));
  EXPECT_FALSE(held_back("for i in 0..n:\n  s += x[i, 0]\n  y[i] = s\n"));
  EXPECT_FALSE(held_back("for i in 0..n:\n  s = 0\n  s += x[i, 0]\n"));
}

TEST(TreeSums, LengthsThatLoopsAroundChangeVary) {
  const ir::Program program = program_of(vector_program, R"(
    for i in 0..n:
      for j in i + 1..n:
        s += x[j, 0]
      for k in 0..m:
        s += x[i, k]
  )");
  EXPECT_EQ(ir::print(varying_trips(program, *first<ir::For>(program.body, 1).as<ir::For>())), "n - i - 1");
  EXPECT_FALSE(varying_trips(program, *first<ir::For>(program.body, 2).as<ir::For>()));
}

TEST(ImprovableSums, WantTheLoopOverTheirTargetOutermost) {
  const auto improvable = [](const std::string& body) {
    const ir::Program program = program_of(vector_program, body);
    return improvable_sums(program.body, {}, cpu_machine()).size();
  };
  EXPECT_EQ(improvable("for j in 0..m:\n  for i in 0..n:\n    y[i] += x[i, j]\n"), 1u) << "rows of x lie along j";
  EXPECT_EQ(improvable("for i in 0..n:\n  for j in 0..m:\n    y[i] += x[i, j]\n"), 0u) << "as it should be";
  EXPECT_EQ(improvable("for i in 0..n:\n  for j in 0..m:\n    s += x[i, j]\n"), 0u) << "no loop is over its target";
  const Program taken = program_of(vector_program, "for j in 0..m:\n  for i in 0..n:\n    y[i] += x[i, j]\n");
  EXPECT_TRUE(improvable_sums(taken.body, {sums_in(taken.body)}, cpu_machine()).empty()) << "it is another one's";
}

// ---- rows ----

const char* const grid = R"(
  program p(n, m)
    input  f32 u[n, m]
    inout  f32 v[n, m]
    inout  f32 w[n, m]
)";

TEST(RowNests, AreParallelLoopsOverRows) {
  const auto kind_of = [](const std::string& body) -> int {
    const auto nest = row_nest_of(program_of(grid, body).body);
    return nest ? static_cast<int>(nest->kind) : -1;
  };
  EXPECT_EQ(kind_of("parallel for i in 0..n:\n  parallel for j in 0..m:\n    v[i, j] = u[i, j]\n"),
            static_cast<int>(RowKind::Rows));
  EXPECT_EQ(kind_of("parallel for i in 0..n:\n  v[i, 0] = u[i, 0]\n"), static_cast<int>(RowKind::Ends));
  EXPECT_EQ(kind_of("parallel for i in 0..n:\n  for j in 0..m:\n    v[i, j] = u[i, j]\n"),
            static_cast<int>(RowKind::Other));
  EXPECT_EQ(kind_of("for i in 0..n:\n  v[i, 0] = 1\n"), -1) << "in order";
}

TEST(RowNests, KnowHowManyRowsTheyAreApart) {
  const auto reach = [](const std::string& source) -> std::string {
    const ir::Program program = program_of(grid, dedented(R"(
      parallel for i in 2..n - 2:
        parallel for j in 0..m:
          v[i, j] = u[i, j]
      parallel for i in 2..n - 2:
        parallel for j in 0..m:
    )") + "    w[i, j] = " + source + "\n");
    const auto a = row_nest_of(first<ir::For>(program.body)), b = row_nest_of(first<ir::For>(program.body, 2));
    const RowDistances distances(model_of(program));
    const auto found = distances.between(*a, *b);
    if (!found) return "far";
    return std::to_string(found->up) + " up, " + std::to_string(found->down) + " down" +
           (found->shares ? ", shared" : "") + (distances.independent(*a, *b) ? ", independent" : "");
  };
  EXPECT_EQ(reach("v[i, j]"), "0 up, 0 down, shared");
  EXPECT_EQ(reach("v[i - 1, j]"), "1 up, 0 down, shared") << "the first one's row is one before";
  EXPECT_EQ(reach("v[i - 1, j] + v[i + 2, j]"), "1 up, 2 down, shared");
  EXPECT_EQ(reach("v[n - 1 - i, j]"), "far");
  EXPECT_EQ(reach("u[i, j]"), "0 up, 0 down, shared, independent");
}

TEST(Scatter, RowsThatDataChooseAreAsLongAsTheLongestOne) {
  const ir::Program program = program_of(R"(
  program p(n, r, nnz, longest)
    input  i32 ptr[r + 1]
    input  i32 row[n]
    input  i32 col[nnz]
    input  f32 a[nnz]
    inout  f32 y[n]
    fact   ptr csr pointer of nnz, at most longest a row
    fact   row in 0..r
    fact   col in 0..n
)",
                                         R"(
    for i in 0..n:
      for e in ptr[row[i]]..ptr[row[i] + 1]:
        y[col[e]] += a[e]
)");
  const auto scatter = scatter_form(program, program.body);
  ASSERT_TRUE(scatter);
  EXPECT_EQ(ir::print(scatter->iterations()), "n*longest");
}

TEST(ExpandLocals, RowsThatDataChooseHaveRoomForTheLongestOne) {
  const ir::Program program = program_of(R"(
  program p(n, r, nnz, longest)
    input  i32 ptr[r + 1]
    input  i32 row[n]
    input  f32 a[nnz]
    inout  f32 y[n]
    fact   ptr csr pointer of nnz, at most longest a row
    fact   row in 0..r
)",
                                         R"(
    for i in 0..n:
      for e in ptr[row[i]]..ptr[row[i] + 1]:
        local f32 v
        v = a[e]
        y[i] += v*v
)");
  const ir::Array local = first<ir::Allocate>(program.body).as<ir::Allocate>()->array;
  const auto expanded = expand_locals(program, model_of(program), program.body, {local});
  ASSERT_TRUE(expanded);
  EXPECT_EQ(ir::print(expanded->arrays.at(0)->shape.at(1)), "longest");
  EXPECT_NE(ir::print(expanded->nest).find("v_all[i, e - ptr[row[i]]]"), std::string::npos)
      << ir::print(expanded->nest);
}

// ---- lanes and groups of them ----

const char* const csr = R"(
  program p(n, d, nnz)
    input  i32 ptr[n + 1]
    input  i32 col[nnz]
    input  f32 a[nnz]
    input  f32 h[n, d]
    inout  f32 y[n, d]
    fact   ptr csr pointer of nnz
    fact   col in 0..n
)";

TEST(LaneGroups, ShareWhatDataMakeLong) {
  const ir::Program program = program_of(csr, R"(
    for v in 0..n:
      parallel for j in 0..d:
        y[v, j] = 0
        for e in ptr[v]..ptr[v + 1]:
          y[v, j] += a[e]*h[col[e], j]
  )");
  Analyses known;
  const Stmt inner = first<ir::For>(program.body, 1);
  EXPECT_TRUE(has_length_from_data(*first<ir::For>(program.body, 2).as<ir::For>()));
  ASSERT_TRUE(fits_lane_groups({program, known}, *inner.as<ir::For>()));
  const Stmt grouped = lane_groups({program, known}, *inner.as<ir::For>(), 32);
  EXPECT_TRUE(first<ir::Allocate>(grouped)) << "partial results of the groups";
  EXPECT_NE(ir::print(grouped).find("threads for t in 0..32"), std::string::npos) << ir::print(grouped);
}

TEST(LaneGroups, DoNotFitOtherLoops) {
  const auto fits = [](const std::string& inside) {
    const ir::Program program = program_of(csr, "for v in 0..n:\n  parallel for j in 0..d:\n" + inside);
    Analyses known;
    return fits_lane_groups({program, known}, *first<ir::For>(program.body, 1).as<ir::For>());
  };
  EXPECT_TRUE(fits("    for e in ptr[v]..ptr[v + 1]:\n      y[v, j] += a[e]*h[col[e], j]\n"));
  EXPECT_FALSE(fits("    for e in 0..nnz:\n      y[v, j] += a[e]*h[col[e], j]\n")) << "the host knows the length";
  EXPECT_FALSE(fits("    for e in ptr[v]..ptr[v + 1]:\n      y[v, j] = h[col[e], j]\n")) << "no sum";
  EXPECT_FALSE(fits("    for e in ptr[j]..ptr[j + 1]:\n      y[v, j] += a[e]\n")) << "each lane has its own length";
}

}  // namespace
}  // namespace loopgrad::transforms
