// Loops that keep an extremum with what belongs to it become an extremum and a search.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* declarations = R"(
    program p(n, m)
      input  f64 x[n + 1]
      input  f64 a[n, m]
      input  bool on[n]
      input  i64 at[n]
      output f64 out[n + 2]
      output i64 place[2]
    )";

void becomes(const char* before, const char* after) { expect_pass("extremum_searches", declarations, before, after); }
void keeps(const char* body) { expect_kept("extremum_searches", declarations, body); }

/// `out[0]` is kept with `place[0]`, in a loop over i.
std::string loop_of(const std::string& branch, const std::string& before = "", const std::string& after = "") {
  return "out[0] = 0.5\nplace[0] = 0\nlocal f64 top\ntop = 0.5\nlocal i64 k\nk = 0\nfor i in 0..n:\n" + before +
         branch + after + "out[1] = top\nplace[1] = k\n";
}

TEST(ExtremumSearches, AnExtremumWithItsPlace) {
  becomes(R"(
    local f64 top
    top = x[0]
    local i64 k
    k = 0
    for i in 1..n:
      if x[i] > top:
        top = x[i]
        k = i
    out[0] = top
    place[0] = k
    )",
          R"(
    local f64 top
    top = x[0]
    local i64 k
    k = 0
    local i64 taken:
      local f64 best:
        best = top
        taken = n
        for i in 1..n:
          best max= x[i]
        for i in 1..n:
          taken min= select(x[i] == best && best > top, i, n)
        if taken != n:
          top = x[taken]
          k = taken
    out[0] = top
    place[0] = k
    )");
}

TEST(ExtremumSearches, TheLastOfEqualOnesWhereTheseAreTaken) {
  becomes(R"(
    local i64 k
    k = -1
    local f64 low
    low = 1
    for i in 0..n reversed:
      if low >= x[i]*x[i]:
        k = i
        low = x[i]*x[i]
    for i in 0..n:
      if low >= x[i]:
        k = i
        low = x[i]
    place[0] = k
    )",
          R"(
    local i64 k
    k = -1
    local f64 low
    low = 1
    local i64 taken:
      local f64 best:
        best = low
        taken = n
        for i in 0..n:
          best min= x[i]*x[i]
        for i in 0..n:
          taken min= select(x[i]*x[i] == best, i, n)
        if taken != n:
          k = taken
          low = x[taken]*x[taken]
    local i64 taken:
      local f64 best:
        best = low
        taken = -1
        for i in 0..n:
          best min= x[i]
        for i in 0..n:
          taken max= select(x[i] == best, i, -1)
        if taken != -1:
          k = taken
          low = x[taken]
    place[0] = k
    )");
}

TEST(ExtremumSearches, APlaceAlone) {
  becomes(R"(
    local i64 k
    k = 0
    for i in 1..n:
      if x[i] < x[k]:
        k = i
    place[0] = k
    )",
          R"(
    local i64 k
    k = 0
    local i64 taken:
      local f64 best:
        local f64 before:
          before = select(1 < n, x[k], inf)
          best = before
          taken = n
          for i in 1..n:
            best min= x[i]
          for i in 1..n:
            taken min= select(x[i] == best && best < before, i, n)
          if taken != n:
            k = taken
    place[0] = k
    )");
}

TEST(ExtremumSearches, ANestIsSearchedLoopByLoop) {
  becomes(R"(
    local f64 low
    low = 100
    local i64 k
    k = -1
    local i64 l
    l = -1
    for i in 0..n:
      for j in 0..i reversed:
        local f64 d
        d = x[i] - x[j]
        if d*d < low && j != 3:
          low = d*d
          k = i
          l = j
    out[0] = low
    place[0] = k
    place[1] = l
    )",
          R"(
    local f64 low
    low = 100
    local i64 k
    k = -1
    local i64 l
    l = -1
    local i64 taken:
      local i64 taken_1:
        local f64 best:
          best = low
          taken_1 = n
          for i in 0..n:
            for j in 0..i:
              if j != 3:
                best min= (x[i] - x[j])*(x[i] - x[j])
          for i in 0..n:
            for j in 0..i:
              if j != 3:
                taken_1 min= select((x[i] - x[j])*(x[i] - x[j]) == best && best < low, i, n)
          taken = -1
          for j in 0..taken_1:
            if taken_1 != n && j != 3:
              taken max= select((x[taken_1] - x[j])*(x[taken_1] - x[j]) == best, j, -1)
          if taken_1 != n:
            local f64 d
            d = x[taken_1] - x[taken]
            low = d*d
            k = taken_1
            l = taken
    out[0] = low
    place[0] = k
    place[1] = l
    )");
}

TEST(ExtremumSearches, InALoopFewIterationsAreDoneInOrder) {
  becomes(R"(
    for i in 0..n:
      out[i] = 0
      for j in 0..m:
        if on[i]:
          if a[i, j] > out[i]:
            out[i] = a[i, j]
    for i in 0..n:
      local f64 top
      top = 0
      for j in 0..m:
        if a[i, j] > top:
          top = a[i, j]
      out[i] = top
    )",
          R"(
    for i in 0..n:
      out[i] = 0
      for j in 0..m:
        if on[i]:
          if a[i, j] > out[i]:
            out[i] = a[i, j]
    for i in 0..n:
      local f64 top
      top = 0
      local i64 taken:
        local f64 best:
          best = top
          taken = m
          if m < 65:
            for j in 0..m:
              if a[i, j] > best:
                best = a[i, j]
                taken = j
          else:
            for j in 0..m:
              best max= a[i, j]
            for j in 0..m:
              taken min= select(a[i, j] == best && best > top, j, m)
          if taken != m:
            top = a[i, taken]
      out[i] = top
    )");
}

constexpr const char* guarded = R"(
    for i in 0..n:
      local f64 top
      top = 0
      for j in 0..m:
        if on[i] && a[i, j] > top:
          top = a[i, j]
      out[i] = top
    )";

TEST(ExtremumSearches, WhatConditionsGuardIsSearchedByThreads) {
  keeps(guarded);
  expect_pass("extremum_searches", declarations, guarded, R"(
    for i in 0..n:
      local f64 top
      top = 0
      local i64 taken:
        local f64 best:
          best = top
          taken = m
          if m < 65:
            for j in 0..m:
              if on[i] && a[i, j] > best:
                best = a[i, j]
                taken = j
          else:
            for j in 0..m:
              if on[i]:
                best max= a[i, j]
            for j in 0..m:
              if on[i]:
                taken min= select(a[i, j] == best && best > top, j, m)
          if taken != m:
            top = a[i, taken]
      out[i] = top
    )",
              "", gpu_machine());
}

TEST(ExtremumSearches, WhatReadsOrKeepsMoreStaysInOrder) {
  const std::string take = "    top = x[i]\n    k = i\n", any = "  if x[i] > top:\n";
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of(any + take, "", "  out[2] = top\n")).c_str()));  // read elsewhere
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of(any + take + "    out[1] = out[2]\n    out[2] = 1\n")).c_str()));
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of(any + take + "    out[i] = 1\n")).c_str()));  // not set anew
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of(any + "    top = x[i]\n    k += 1\n")).c_str()));
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of(any + take + "    if on[i]:\n      out[0] = 1\n")).c_str()));
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of(any + "    top = x[i]*0.5\n")).c_str()));  // not what is compared
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of("  if x[i] - x[0] > x[k] - x[i]:\n    k = i\n")).c_str()));
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of("  if x[i] > top || on[i]:\n" + take)).c_str()));
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of("  if x[i] > top && on[i]:\n" + take)).c_str()));  // may not exist
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of("  if on[i] && x[i] > x[k]:\n    k = i\n")).c_str()));
  EXPECT_NO_FATAL_FAILURE(keeps((loop_of("  if exp(x[i]) > top:\n    top = exp(x[i])\n")).c_str()));  // takes long
}

TEST(ExtremumSearches, AFewIterationsStayInOrder) {
  keeps(R"(
    local f64 top
    top = 0
    for i in 0..64:
      if x[i % (n + 1)] > top:
        top = x[i % (n + 1)]
    out[0] = top
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
