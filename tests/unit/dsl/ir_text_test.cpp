// Reading the printed form, and what it says about a text that is no program.
#include "tests/support/ir_text.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"

#include <gtest/gtest.h>
#include <loopgrad/error.h>

namespace loopgrad::ir {
namespace {

/// Read and printed again.
std::string again(const std::string& text) {
  const Program program = parse_program(text);
  verify(program, "parse_program");
  return print(program);
}

std::string error_of(const std::string& text) {
  try {
    parse_program(text);
  } catch (const TextError& error) {
    return error.what();
  }
  return "none";
}

const Program everything() {
  return parse_program(R"(program all(n, m)
  input  f32 x[n, m]
  input  i32 index[n]
  input  i64 ptr[n + 1]
  output f32 y[n]
  inout  f64 z
  tape   f16 kept[n]
  fact   index in 0..m
  fact   ptr csr pointer of m
  fact   index injective
  fact   index sorted
  fact   x may alias y
  fact   kept[n - 1, ..] is the last that is read later
parallel for i in 0..n:
  local f32 s
  s = 0
  for e in ptr[i]..ptr[i + 1] reversed (at most m):
    s += x[i, index[e]]*x[i, e]
    s += (rounded product) x[i, e]*2
    s max= -inf
  for k in 0..m while k < 3 && s > 0.5:
    if k == 0:
      s *= exp(-s)
    else if x[i, k] < 1 || !(k < 2):
      z += (atomic) f64(s)
    else:
      s = 1
  y[i] = select(s < 1, fma(s, 2, 1e-05), min(s, nan))
  kept[i] = f16(y[i])
local f32 shared[n] (grid):
  grid for b in 0..n:
    local f32 row[8, 4] (thread):
      local f32 tile[8] (block)
      local f64 t (thread)
      t = 0
      threads for c in 0..8:
        t += (block) 1
        for step in 0..(n - c + 31)//32 (strided):
          for d in max(c + step*32, 1)..min(c + step*32 + 4, n) (chunk of 4):
            tile[c] = row[c, d - (c + step*32)]
        z min= f64(0.1f32)
        shared[b] = tile[c]
  z = (1 - z)/f64(n//2 - n%3)
push(1f32)
push(z)
z = pop()
)");
}

TEST(IrText, ReadsWhatIsPrinted) {
  const Program program = everything();
  const std::string text = print(program);
  EXPECT_EQ(again(text), text);
  EXPECT_TRUE(structurally_equal(parse_program(text), program));
}

/// What the mapping to a GPU decides is said, and is not lost on the way.
TEST(IrText, KeepsWhoSharesALocalAndTheShapesOfLoops) {
  std::string found;
  walk_stmts(parse_program(print(everything())).body, [&](const Stmt& s) {
    if (const auto* n = s.as<Allocate>(); n && n->home != Home::Unplaced)
      found += n->array->name + ":" + std::to_string(static_cast<int>(n->home)) + " ";
    if (const auto* n = s.as<For>(); n && n->shape != LoopShape{})
      found += n->iterator.name + ":" + std::to_string(n->shape.chunk) + (n->shape.strided ? "s " : " ");
    if (const auto* n = s.as<Reduce>(); n && n->of_block) found += n->array->name + "+ ";
  });
  EXPECT_EQ(found, "shared:1 row:3 tile:2 t:3 t+ step:0s d:4 ");
}

/// What the mapping to a CPU decides is read back, and rewriting keeps it.
TEST(IrText, KeepsHowACpuRunsLoops) {
  const std::string text = R"(program p(n, m)
  input  f32 x[n, m]
  output f32 y[n, m]
  inout  f32 z[n]
for t in 0..3:
  local f32 row[m] (call) (out 1)
  parallel for i in 0..n (threads) (together 2) (uneven) (pays from 20000 at m*3) (or alone):
    parallel for j in 0..m:
      local f32 s
      s = 0
      for k in 0..m (lanes 8):
        s += (lanes) (rounded product) x[i, k]*x[i, j]
      local f32 part[j + 1] (iteration)
      part[0] = s
      z[i] = part[0]
  parallel for i in 0..n (threads):
    local f32 few[3] (stack)
    few[0] = 1
    z[i] = few[0]
  parallel for i in 0..n (joined) (threads) (lanes):
    z[i] = z[i]*2
  for i in 0..m (lanes) (streams 4*n*m):
    y[0, i] = (streamed) x[0, i]
  row[0] = z[0]
  z[0] = row[0]
)";
  EXPECT_EQ(again(text), text);
  const Program program = parse_program(text);
  EXPECT_EQ(print(with_body(program, with_fresh_names(program.body))), text);
  const Array z = program.arrays[2], w = make_array("z", ScalarType::F32, z->shape, ArrayRole::InOut, {});
  Program other = with_body(program, replace_arrays(program.body, {{z, w}}));
  other.arrays[2] = w;
  EXPECT_EQ(print(other), text);
  const Stmt larger = substitute(program.body, {{program.sizes[1], int_const(40)}});
  EXPECT_NE(print(larger).find("(pays from 20000 at 120) (or alone)"), std::string::npos) << print(larger);
  EXPECT_FALSE(structurally_equal(larger, program.body));
}

/// What the summation plan says of a sum goes through a text, and is dropped where data no longer choose the element.
TEST(IrText, KeepsThatASumIsDoneBySegments) {
  const std::string head = "program p(n, m)\n  input  f32 x[n]\n  input  i32 index[n]\n  inout  f32 y[m]\n";
  const std::string text = head + "for i in 0..n:\n  y[index[i]] += (segments) (rounded product) x[i]*2\n";
  const Program program = parse_program(text);
  EXPECT_EQ(print(program), text);
  verify(program, "parse_program");
  const Stmt sum = program.body.as<For>()->body;
  const Reduce& node = *sum.as<Reduce>();
  EXPECT_TRUE(node.by_segments && !node.fused);
  EXPECT_TRUE(reduce_like(node, node.array, node.indices, node.value).as<Reduce>()->by_segments);
  EXPECT_FALSE(reduce_like(node, node.array, {int_const(0)}, node.value).as<Reduce>()->by_segments);
  EXPECT_FALSE(with_segments(node, false).as<Reduce>()->by_segments);
  EXPECT_FALSE(structurally_equal(program, with_body(program, with_segments(node, false))));
  EXPECT_THROW(verify(parse_program(head + "for i in 0..m:\n  y[i] += (segments) 1\n"), "test"), InternalError);
}

/// Passes rewrite loops by the factory, which must not say of a loop what no longer holds.
TEST(IrText, LeavesOutAShapeThatNoLongerFits) {
  const Symbol i = make_symbol("i"), n = make_symbol("n");
  const Array y = make_array("y", ScalarType::F32, {var(n)}, ArrayRole::Output, {});
  const Stmt body = assign(y, {var(i)}, const_of(1, ScalarType::F32));
  const Stmt chunk = chunk_loop(i, {int_const(8), {}, var(n)}, 4, body);
  ASSERT_TRUE(chunk.as<For>());
  EXPECT_EQ(chunk.as<For>()->shape.chunk, 4);
  EXPECT_EQ(substitute(chunk, {{n, var(make_symbol("m"))}}).as<For>()->shape.chunk, 4);
  EXPECT_EQ(substitute(chunk, {{n, int_const(12)}}).as<For>()->shape.chunk, 0);  // for i in 8..12
}

TEST(IrText, SaysWhereSomethingElseWasExpected) {
  const std::string head = "program p(n)\n  output f32 y[n]\n";
  EXPECT_EQ(error_of(""), "line 1: expected 'program NAME(SIZES)'");
  EXPECT_EQ(error_of("program p(n)\n  outout f32 y[n]\n"),
            "line 2: expected input, output, inout, tape or fact, found 'outout'");
  EXPECT_EQ(error_of(head + "for i in 0..n\n  y[i] = 0\n"), "line 3: expected ':', found the end of the line");
  EXPECT_EQ(error_of(head + "for i in 0..n:\ny[i] = 0\n"), "line 4: expected a body, or 'pass'");
  EXPECT_EQ(error_of(head + "for i in 0..n:\n   y[i] = 0\n"), "line 4: expected an indentation in steps of two spaces");
  EXPECT_EQ(error_of(head + "y[i] = 0\n"), "line 3: nothing is called 'i' here");
  EXPECT_EQ(error_of(head + "for i in 0..n:\n  y[i] = 0\ny[i] = 1\n"), "line 5: nothing is called 'i' here");
  EXPECT_EQ(error_of(head + "y[0] = n\n"), "line 3: expected an expression of type f32, found 'n' of type i64");
  EXPECT_EQ(error_of(head + "y[0.5] = 0\n"), "line 3: expected a constant of type i64, found '0.5'");
  EXPECT_EQ(error_of(head + "y = 0\n"), "line 3: expected 1 indices of 'y'");
  EXPECT_EQ(error_of(head + "y[0] = 0 0\n"), "line 3: expected the end of the line, found '0'");
  EXPECT_EQ(error_of(head + "y[0] = cube(y[0])\n"), "line 3: nothing is called 'cube' here");
  EXPECT_EQ(error_of(head + "y[0] = n < 1 < 2\n"),
            "line 3: expected an expression of type f32, found '<' of type bool");
  EXPECT_EQ(error_of(head + "parallel for i in 0..n reversed:\n  pass\n"),
            "line 3: expected no order of a parallel loop, found ':'");
}

TEST(IrText, TakesTypesFromThePlace) {
  const std::string text =
      "program p(n)\n"
      "  input  i32 index[n]\n"
      "  inout  i32 count[n]\n"
      "  inout  f32 x[n]\n"
      "for i in 0..n:\n"
      "  if index[i] < 3 && index[i] < count[i] && index[i] < n && i32(index[i]) < count[i] + 1:\n"
      "    x[index[i]] = f32(f64(x[i])*0.1) + f32(index[i]) + f32(0.1)\n"
      "  count[i64(index[i] + count[i]) + 1] = index[i] + 1\n"
      "  x[i] = select(i32(index[i]*2) == 0, 1, f32(index[i] + 1))\n"
      "  x[i] += (atomic) x[i]*2\n";
  EXPECT_EQ(again(text), text);
}

TEST(IrText, KnowsWhereALocalEnds) {
  const std::string text =
      "program p(n)\n"
      "  inout  f32 x[n]\n"
      "local f32 t:\n"
      "  t = x[0]\n"
      "  x[1] = t\n"
      "local f32 t\n"
      "t = x[2]\n"
      "x[1] += t\n";
  EXPECT_EQ(again(text), text);
}

TEST(IrText, ReadsProductsOfMatrices) {
  const std::string text =
      "program p(m, n, k)\n"
      "  input  f32 a[m, k]\n"
      "  input  f32 b[n, k]\n"
      "  output f32 c[m, n]\n"
      "contraction c += -0.5*a*b (m x n x (k - 1)):\n"
      "  at c[0; 0, n, 1] = a[1; 0, k, 1]*b[1; 0, 1, k]\n"
      "  for i in 0..m:\n"
      "    for j in 0..n:\n"
      "      for l in 0..k - 1:\n"
      "        c[i, j] += -(a[i, l + 1]*b[j, l + 1])*0.5\n";
  EXPECT_EQ(again(text), text);
}

}  // namespace
}  // namespace loopgrad::ir
