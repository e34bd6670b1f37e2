// What follows from carried scalars: see dsl/symbolic/closed_counters.h and dsl/ir/own_values.h.
#include "tests/property/once_wrong.h"

namespace loopgrad::fuzz {
namespace {

/// The bound of the loop over j is not what w(i) is inside of it, so max(w(i), 0) is not w(i).
Program largest_of_changed_bound() {
  ProgramBuilder p("largest_of_changed_bound");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto w = p.inout<int>("w", {n});
  auto k = p.scalar<std::int64_t>("k");
  k = 0;
  for (auto i : p.loop("i", n)) {
    y(i) = x(k);
    k += 1;
  }
  for (auto i : p.loop("i", n)) {
    w(i) = cast<int>(abs(x(i))) + 3;
    for ([[maybe_unused]] auto j : p.loop("j", 0, w(i), {.at_most = {10}})) {
      w(i) -= 2;
      y(i) += cast<double>(max(cast<std::int64_t>(w(i)), 0)) * x(i) * x(i);
    }
  }
  return p.build();
}

/// The same for a scalar; an index that is kept inside by hand leaves the array.
Program index_of_changed_bound() {
  ProgramBuilder p("index_of_changed_bound");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto c = p.scalar<std::int64_t>("c"), k = p.scalar<std::int64_t>("k");
  k = 0;
  for (auto i : p.loop("i", n)) {
    y(i) = x(k);
    k += 1;
  }
  c = min(n, 2 + cast<std::int64_t>(abs(x(0))));
  for (auto i : p.loop("i", 0, c)) {
    c -= 3;
    y(max(c, 0)) += x(i) * x(i);
  }
  return p.build();
}

/// Nothing but the condition of the while around reads what the last iteration has set.
Program read_by_condition() {
  ProgramBuilder p("read_by_condition");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), b = p.input<double>("b", {n});
  auto y = p.output<double>("y", {n});
  auto s = p.scalar<double>("s");
  s = 0.0;
  for (auto i : p.loop("i", n)) y(i) = 0.0;
  for ([[maybe_unused]] auto t : p.loop_while("t", 5, [&](auto) { return s < 100.0; })) {
    s = 1.0;
    for (auto i : p.loop("i", n)) {
      y(i) += x(i) * s;
      s = b(i) + 200.0;
    }
  }
  return p.build();
}

/// A region's input that only its rule has to do with.
Program named_by_region() {
  ProgramBuilder p("named_by_region");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), b = p.input<double>("b", {n});
  auto y = p.output<double>("y", {n}), z = p.output<double>("z", {1});
  auto s = p.local<double>("s"), t = p.local<double>("t");
  s() = 0.5;
  for (auto i : p.loop("i", n)) {
    y(i) = x(i) * s();
    s() = b(i);
  }
  p.custom_gradient({t}, {s},
                    {.forward = [&] { t() = 2.0; },
                     .adjoint = [&](const Derivatives& d) { d(s)() += d(t)(); },
                     .tangent = [&](const Derivatives& d) { d(t)() = d(s)(); }});
  z(0) = t();
  return p.build();
}

/// A state that wraps around 64 bits is no index: a quotient of it is not a sum of quotients.
Program quotient_of_state() {
  ProgramBuilder p("quotient_of_state");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto state = p.scalar<std::int64_t>("state");
  state = 0;
  for (auto i : p.loop("i", n)) {
    state += std::int64_t{-7046029254386353131};
    y(i) = x((state / 4096) % n) * x(i);
  }
  return p.build();
}

/// A sign of it.
Program sign_of_state() {
  ProgramBuilder p("sign_of_state");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto state = p.scalar<std::int64_t>("state");
  state = 0;
  for (auto i : p.loop("i", n)) {
    state += std::int64_t{1} << 62;
    y(i) = select(state > 0, x(i), 2.0 * x(i));
  }
  return p.build();
}

/// The same written by the user, and the smaller of two such numbers.
Program quotient_of_hash() {
  ProgramBuilder p("quotient_of_hash");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  const std::int64_t step = -7046029254386353131;
  for (auto i : p.loop("i", n)) {
    auto hash = (i + 1) * step;
    y(i) = x((hash / 4) % n) * x(i) + select(min(hash, hash + step) == hash, x(i), 0.5 * x(i));
  }
  return p.build();
}

/// On a GPU the element was loaded before the loop and stored after it, without the branch: there may be none.
Program element_of_branch() {
  ProgramBuilder p("element_of_branch");
  auto n = p.size("n");
  auto f = p.input<double>("f", {3, n});
  auto v = p.inout<double>("v", {n});
  for (auto t : p.loop("t", 3)) p.when(n > 0, [&] { v(n / 2) = v(n / 2) * 0.5 + f(t, n / 2); });
  return p.build();
}

/// Likewise in loops around: one row has no next one.
Program next_row_of_branch() {
  ProgramBuilder p("next_row_of_branch");
  auto n = p.size("n");
  auto f = p.input<double>("f", {4, n});
  auto v = p.inout<double>("v", {n});
  for (auto i : p.loop("i", n))
    for (auto t : p.loop("t", 4)) p.when(i + 1 < n, [&] { v(i + 1) = v(i + 1) * 0.5 + f(t, i); });
  return p.build();
}

const std::vector<Sizes> small = {{{"n", 1}}, {{"n", 2}}, {{"n", 5}}};

TEST(OnceWrongCarried, LargestOfChangedBound) { expect_right(largest_of_changed_bound, small); }
TEST(OnceWrongCarried, IndexOfChangedBound) { expect_right(index_of_changed_bound, small); }
TEST(OnceWrongCarried, ReadByCondition) { expect_right(read_by_condition, small); }
TEST(OnceWrongCarried, NamedByRegion) { expect_right(named_by_region, small); }
TEST(OnceWrongCarried, QuotientOfState) { expect_right(quotient_of_state, small); }
TEST(OnceWrongCarried, QuotientOfHash) { expect_right(quotient_of_hash, small); }
TEST(OnceWrongCarried, SignOfState) { expect_right(sign_of_state, small); }
TEST(OnceWrongCarried, ElementOfBranch) { expect_right(element_of_branch, {{{"n", 0}}, {{"n", 1}}, {{"n", 5}}}); }
TEST(OnceWrongCarried, NextRowOfBranch) { expect_right(next_row_of_branch, small); }

}  // namespace
}  // namespace loopgrad::fuzz
