// Passes that plan, start and merge sums, each alone.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(AssignFirstSums, StartsASumWhereItBegins) {
  expect_pass("assign_first_sums", R"(
    program p(m, n, k)
      input  f32 a[m, k]
      input  f32 d_c[m, n]
      output f32 d_b[k, n]
    )",
              R"(
    for l in 0..k:
      for j in 0..n:
        d_b[l, j] = 0
    for l in 0..k:
      for j in 0..n:
        for i in 0..m:
          d_b[l, j] += d_c[i, j]*a[i, l]
    )",
              R"(
    for l in 0..k:
      for j in 0..n:
        d_b[l, j] = 0
    for l in 0..k:
      for j in 0..n:
        d_b[l, j] = 0
        for i in 0..m:
          d_b[l, j] += d_c[i, j]*a[i, l]
    )");
}

TEST(AssignFirstSums, MakesAnAssignmentOfZeroAndASum) {
  expect_pass("assign_first_sums", R"(
    program p(n)
      input  f32 v[n]
      output f32 x[n]
    )",
              R"(
    for i in 0..n:
      x[i] = 0
      x[i] += v[i]
    )",
              R"(
    for i in 0..n:
      x[i] = v[i]
    )");
}

TEST(AssignFirstSums, StartsTheSumOfARecurrenceInItsFirstStep) {
  expect_pass("assign_first_sums", R"(
    program p(T, n)
      inout  f32 v[T + 1, n]
      output f32 y[n]
    )",
              R"(
    for i in 0..n:
      y[i] = 0
    for t in 0..T:
      for i in 0..n:
        y[i] += v[t, i]
      for i in 0..n:
        v[t + 1, i] = v[t, i]*2
    )",
              R"(
    for i in 0..n:
      y[i] = 0
    for t in 0..T:
      for i in 0..n:
        y[i] = select(0 < t, y[i], 0)
        y[i] += v[t, i]
      for i in 0..n:
        v[t + 1, i] = v[t, i]*2
    )");
}

TEST(AssignFirstSums, KeepsASumIntoWhatTheCallerGave) {
  expect_kept("assign_first_sums", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 y[n]
    )",
              R"(
    for i in 0..n:
      y[i] += a[i]
    )");
}

TEST(AssignSingleSums, AssignsWhatIsAddedOnce) {
  expect_pass("assign_single_sums", R"(
    program p(n)
      input  f32 a[n]
      output f32 y[n + 1]
    )",
              R"(
    for i in 0..n + 1:
      y[i] = 0
    for i in 0..n:
      y[i] += a[i]
    )",
              R"(
    for i in 0..n + 1:
      y[i] = 0
    for i in 0..n:
      y[i] = a[i]
    )");
}

TEST(AssignSingleSums, AssignsTheFirstOfTwoOnly) {
  expect_pass("assign_single_sums", R"(
    program p(n)
      input  f32 a[n]
      output f32 y[n + 1]
    )",
              R"(
    for i in 0..n + 1:
      y[i] = 0
    for i in 0..n:
      y[i] += a[i]
    for i in 0..n:
      y[i] += a[i]
    )",
              R"(
    for i in 0..n + 1:
      y[i] = 0
    for i in 0..n:
      y[i] = a[i]
    for i in 0..n:
      y[i] += a[i]
    )");
}

TEST(AssignSingleSums, KeepsSumsIntoComputedElements) {
  expect_kept("assign_single_sums", R"(
    program p(n)
      input  f32 a[n]
      output f32 y[n + 1]
    )",
              R"(
    for i in 0..n + 1:
      y[i] = 0
    for i in 0..n:
      y[i + 1] += a[i]
    )");
}

TEST(ZeroFills, ShrinksToWhatIsNotAssignedAgain) {
  expect_pass("assign_first_sums,zero_fills", R"(
    program p(n)
      input  f32 d_y[n]
      input  f32 w
      output f32 d_x[n]
    )",
              R"(
    for i in 0..n:
      d_x[i] = 0
    for i in 0..n - 1:
      d_x[i] += d_y[i]*w
    )",
              R"(
    if n >= 1:
      d_x[n - 1] = 0
    for i in 0..n - 1:
      d_x[i] = d_y[i]*w
    )");
}

TEST(ZeroFills, LeavesWhatIsReadBefore) {
  expect_pass("assign_first_sums,zero_fills", R"(
    program p(n)
      input  f32 d_y[n]
      output f32 d_x[n]
      output f32 z
    )",
              R"(
    for i in 0..n:
      d_x[i] = 0
    z = d_x[0]
    for i in 0..n:
      d_x[i] += d_y[i]
    )",
              R"(
    if n >= 1:
      d_x[0] = 0
    z = d_x[0]
    for i in 0..n:
      d_x[i] = d_y[i]
    )");
}

TEST(ZeroFills, KeepsArraysOfWhichNoSumWasAssigned) {
  expect_kept("zero_fills", R"(
    program p(n)
      input  f32 d_y[n]
      input  f32 w
      output f32 d_x[n]
    )",
              R"(
    for i in 0..n:
      d_x[i] = 0
    for i in 0..n - 1:
      d_x[i] = d_y[i]*w
    )");
}

TEST(DelaySums, AddsInTheStepThatSumsUpTheSameLevel) {
  expect_pass("delay_sums", R"(
    program p(T, n)
      inout  f32 v[T + 2, n]
    )",
              R"(
    for t in 1..T + 1 reversed:
      for i in 0..n:
        v[t, i] += v[t + 1, i]*2
      for i in 0..n:
        v[t - 1, i] += -v[t + 1, i]
    )",
              R"(
    for t in 1..T + 1 reversed:
      for i in 0..n:
        v[t, i] += select(t < T, -v[t + 2, i], 0)
        v[t, i] += v[t + 1, i]*2
    for i in 0..n:
      v[0, i] += select(1 < T + 1, -v[2, i], 0)
    )",
              "waits for the next step of 't'");
}

TEST(DelaySums, KeepsASumThatThisStepReads) {
  expect_kept("delay_sums", R"(
    program p(T, n)
      inout  f32 v[T + 2, n]
      inout  f32 y[n]
    )",
              R"(
    for t in 1..T + 1 reversed:
      for i in 0..n:
        v[t, i] += v[t + 1, i]*2
      for i in 0..n:
        v[t - 1, i] += -v[t + 1, i]
      for i in 0..n:
        y[i] += v[t - 1, i]
    )");
}

TEST(DelaySums, KeepsSumsOfArraysThatMayAlias) {
  expect_kept("delay_sums", R"(
    program p(T, n)
      input  f32 x[T + 2, n]
      inout  f32 v[T + 2, n]
      inout  f32 w[T + 2, n]
      fact   v may alias w
    )",
              R"(
    for t in 1..T + 1 reversed:
      for i in 0..n:
        v[t, i] += x[t + 1, i]*2
      for i in 0..n:
        v[t - 1, i] += -x[t + 1, i]
    )");
}

TEST(MergeUpdates, MakesOneStatementOfUpdatesInARow) {
  expect_pass("merge_updates", R"(
    program p(n)
      input  f32 a[n]
      input  f32 b[n + 1]
      output f32 d[n]
    )",
              R"(
    for i in 0..n:
      d[i] = a[i]
      d[i] += 0.1*b[i + 1]
      d[i] += a[i]
    )",
              R"(
    for i in 0..n:
      d[i] = fma(0.1, b[i + 1], a[i]) + a[i]
    )");
}

TEST(MergeUpdates, KeepsAnUpdateThatReadsTheElement) {
  expect_kept("merge_updates", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 d[n]
    )",
              R"(
    for i in 1..n:
      d[i] = a[i]
      d[i] += d[i - 1]*d[i]
    )");
}

TEST(MergeUpdates, KeepsAtomicSumsAndHalves) {
  expect_kept("merge_updates", R"(
    program p(n)
      input  f32 a[n]
      output f16 d[n]
      inout  f32 e[n]
    )",
              R"(
    parallel for i in 0..n:
      d[i] = f16(a[i])
      d[i] += a[i]
      e[i] = a[i]
      e[i] += (atomic) a[i]
    )");
}

TEST(RecognizeContractions, MarksAProductOfMatrices) {
  expect_pass("recognize_contractions", R"(
    program p(m, k, n)
      input  f32 a[m, k]
      input  f32 b[k, n]
      output f32 c[m, n]
    )",
              R"(
    for i in 0..m:
      for j in 0..n:
        c[i, j] = 0
        for l in 0..k:
          c[i, j] += a[i, l]*b[l, j]
    )",
              R"(
    contraction c = a*b (m x n x k):
      at c[0; 0, n, 1] = a[0; 0, k, 1]*b[0; 0, n, 1]
      for i in 0..m:
        for j in 0..n:
          c[i, j] = 0
      for i in 0..m:
        for j in 0..n:
          for l in 0..k:
            c[i, j] += a[i, l]*b[l, j]
    )",
              "where there is a library");
}

TEST(RecognizeContractions, KeepsTriangles) {
  expect_kept("recognize_contractions", R"(
    program p(m, k, n)
      input  f32 a[m, k]
      input  f32 b[k, n]
      output f32 c[m, n]
    )",
              R"(
    for i in 0..m:
      for j in 0..n:
        c[i, j] = 0
        for l in 0..i:
          c[i, j] += a[i, l]*b[l, j]
    )",
              "depend on its loops");
}

TEST(RecognizeContractions, TakesATransposedOperand) {
  expect_pass("recognize_contractions", R"(
    program p(m, k, n)
      input  f32 b[k, n]
      input  f32 d_c[m, n]
      output f32 d_a[m, k]
    )",
              R"(
    for z0 in 0..m:
      for z1 in 0..k:
        d_a[z0, z1] = 0
    for i in 0..m reversed:
      for j in 0..n reversed:
        for l in 0..k reversed:
          d_a[i, l] += d_c[i, j]*b[l, j]
    )",
              R"(
    contraction d_a = d_c*b (m x k x n):
      at d_a[0; 0, k, 1] = d_c[0; 0, n, 1]*b[0; 0, 1, n]
      for z0 in 0..m:
        for z1 in 0..k:
          d_a[z0, z1] = 0
      for i in 0..m reversed:
        for j in 0..n reversed:
          for l in 0..k reversed:
            d_a[i, l] += d_c[i, j]*b[l, j]
    )");
}

// Hidden values of one sample after the other: on a GPU, products of all samples pay for memory for all of them; as
// much as that is where nobody has stated sizes, the host decides.
TEST(RecognizeContractions, KeepsRowsForProductsInsideNests) {
  expect_pass("recognize_contractions", R"(
    program p(m, k, n)
      input  f32 a[m, k]
      input  f32 b[k, n]
      output f32 c[m, n]
    )",
              R"(
    for i in 0..m:
      local f32 s[n]
      for j in 0..n:
        s[j] = 0
      for j in 0..n:
        for l in 0..k:
          s[j] += a[i, l]*b[l, j]
      for j in 0..n:
        c[i, j] = tanh(s[j])
    )",
              R"(
    if 4*m*n <= 1073741824:
      local f32 s_all[m, n]
      for i in 0..m:
        for j in 0..n:
          s_all[i, j] = 0
      contraction s_all += a*b (m x n x k):
        at s_all[0; 0, n, 1] = a[0; 0, k, 1]*b[0; 0, n, 1]
        for i in 0..m:
          for j in 0..n:
            for l in 0..k:
              s_all[i, j] += a[i, l]*b[l, j]
      for i in 0..m:
        for j in 0..n:
          c[i, j] = tanh(s_all[i, j])
    else:
      for i in 0..m:
        local f32 s[n]
        for j in 0..n:
          s[j] = 0
        for j in 0..n:
          for l in 0..k:
            s[j] += a[i, l]*b[l, j]
        for j in 0..n:
          c[i, j] = tanh(s[j])
    )",
              "where there is a library", gpu_machine());
}

TEST(RestructureSums, GathersWhatShiftedIterationsShare) {
  expect_pass("restructure_sums", R"(
    program p(n, k)
      input  f32 x[n + k - 1]
      input  f32 w[k]
      input  f32 d_y[n]
      inout  f32 d_x[n + k - 1]
    )",
              R"(
    for i in 0..n:
      for j in 0..k:
        d_x[i + j] += d_y[i]*w[j]
    )",
              R"(
    for c0 in 0..k + n - 1:
      for j in max(0, c0 - n + 1)..min(k, c0 + 1):
        d_x[c0] += d_y[c0 - j]*w[j]
    )",
              "gather: the outermost loops enumerate i + j");
}

TEST(RestructureSums, MakesPartialResultsOfWhatAllIterationsAddTo) {
  expect_pass("restructure_sums", R"(
    program p(n, k)
      input  f32 x[n, k]
      input  f32 d_y[n]
      inout  f32 d_w[k]
    )",
              R"(
    for i in 0..n:
      for j in 0..k:
        d_w[j] += d_y[i]*x[i, j]
    )",
              R"(
    local f32 d_w_part[max(min(64, n//4), 1), k]
    parallel for block in 0..max(min(64, n//4), 1):
      for z0 in 0..k:
        d_w_part[block, z0] = 0
      for i in block*((n + max(min(64, n//4), 1) - 1)//max(min(64, n//4), 1))..min(block*((n + max(min(64, n//4), 1) - 1)//max(min(64, n//4), 1)) + (n + max(min(64, n//4), 1) - 1)//max(min(64, n//4), 1), n):
        for j in 0..k:
          d_w_part[block, j] += d_y[i]*x[i, j]
    for z0 in 0..k:
      for block in 0..max(min(64, n//4), 1):
        d_w[z0] += d_w_part[block, z0]
    )",
              "partials: all iterations add to every element");
}

TEST(RestructureSums, KeepsARecurrence) {
  expect_kept("restructure_sums", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 y[n + 1]
    )",
              R"(
    for i in 0..n:
      y[i + 1] += y[i]*a[i]
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
