// Loops that vectorising compilers are measured by (TSVC), as their authors wrote them.
#include "bench/fields/fields.h"

#include <algorithm>

namespace loopgrad::fields {
namespace {

/// s115: a triangle of saxpys in place.
Program triangle_saxpy() {
  ProgramBuilder p("triangle_saxpy");
  auto n = p.size("n");
  auto aa = p.input<float>("aa", {n, n});
  auto a = p.inout<float>("a", {n});
  for (auto j : p.loop("j", n))
    for (auto i : p.loop("i", j + 1, n)) a(i) -= aa(j, i) * a(j);
  return p.build();
}

/// s116: unrolled by five, each reads the next one before it is written.
Program unrolled_products() {
  ProgramBuilder p("unrolled_products");
  auto n = p.size("n");
  auto a = p.inout<float>("a", {n});
  for (auto i : p.loop("i", 0, n - 5, {.step = 5})) {
    a(i) = a(i + 1) * a(i);
    a(i + 1) = a(i + 2) * a(i + 1);
    a(i + 2) = a(i + 3) * a(i + 2);
    a(i + 3) = a(i + 4) * a(i + 3);
    a(i + 4) = a(i + 5) * a(i + 4);
  }
  return p.build();
}

/// s118: each element is a product of a column with those before it, backwards.
Program backward_dots() {
  ProgramBuilder p("backward_dots");
  auto n = p.size("n");
  auto bb = p.input<float>("bb", {n, n});
  auto a = p.inout<float>("a", {n});
  for (auto i : p.loop("i", 1, n))
    for (auto j : p.loop("j", 0, i)) a(i) += bb(j, i) * a(i - j - 1);
  return p.build();
}

/// s122: two induction variables with strides of sizes.
Program strided_induction() {
  ProgramBuilder p("strided_induction");
  auto n = p.size("n"), n1 = p.size("n1");
  auto b = p.input<float>("b", {n});
  auto a = p.inout<float>("a", {n});
  auto k = p.scalar<std::int64_t>("k", 0);
  for (auto i : p.loop("i", n1 - 1, n, {.step = 3})) {
    k += 1;
    a(i) += b(n - k) * a(i);
  }
  return p.build();
}

/// s123: one or two elements for each iteration.
Program one_or_two() {
  ProgramBuilder p("one_or_two");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n}), d = p.input<float>("d", {n}),
       e = p.input<float>("e", {n});
  auto a = p.inout<float>("a", {2 * n});
  auto j = p.scalar<std::int64_t>("j", -1);
  for (auto i : p.loop("i", n)) {
    j += 1;
    a(j) = b(i) + d(i) * e(i);
    p.when(c(i) > 0.0f, [&] {
      j += 1;
      a(j) = c(i) + d(i) * e(i);
    });
  }
  return p.build();
}

/// s126: down the columns, and along a flat array by a counter.
Program counter_in_nest() {
  ProgramBuilder p("counter_in_nest");
  auto n = p.size("n");
  auto flat = p.input<float>("flat", {n * n}), cc = p.input<float>("cc", {n, n});
  auto bb = p.inout<float>("bb", {n, n});
  auto k = p.scalar<std::int64_t>("k", 1);
  for (auto i : p.loop("i", n)) {
    for (auto j : p.loop("j", 1, n)) {
      bb(j, i) = bb(j - 1, i) + flat(k - 1) * cc(j, i);
      k += 1;
    }
    k += 1;
  }
  return p.build();
}

/// s128: two induction variables made of each other.
Program coupled_inductions() {
  ProgramBuilder p("coupled_inductions");
  auto n = p.size("n");
  auto c = p.input<float>("c", {2 * n}), d = p.input<float>("d", {n});
  auto a = p.output<float>("a", {n});
  auto b = p.inout<float>("b", {2 * n});
  auto j = p.scalar<std::int64_t>("j", -1), k = p.scalar<std::int64_t>("k");
  for (auto i : p.loop("i", n)) {
    k = j + 1;
    a(i) = b(k) * d(i);
    j = k + 1;
    b(k) = a(i) + c(k) * c(k);
  }
  return p.build();
}

/// s141: a packed triangle, walked along by a stride that grows.
Program packed_walk() {
  ProgramBuilder p("packed_walk");
  auto n = p.size("n");
  auto bb = p.input<float>("bb", {n, n});
  auto flat = p.inout<float>("flat", {n * (n + 1) / 2});
  for (auto i : p.loop("i", n)) {
    auto k = p.scalar<std::int64_t>("k");
    k = (i + 1) * i / 2 + i;
    for (auto j : p.loop("j", i, n)) {
      flat(k) += bb(j, i) * bb(j, i);
      k += j + 1;
    }
  }
  return p.build();
}

/// s161: two branches, one of which writes what the other one reads next.
Program branch_feeds_branch() {
  ProgramBuilder p("branch_feeds_branch");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), d = p.input<float>("d", {n}), e = p.input<float>("e", {n});
  auto a = p.inout<float>("a", {n}), c = p.inout<float>("c", {n});
  for (auto i : p.loop("i", n - 1)) {
    p.when(b(i) < 0.0f, [&] { c(i + 1) = a(i) + d(i) * d(i); }).otherwise([&] { a(i) = c(i) * c(i) + d(i) * e(i); });
  }
  return p.build();
}

/// s176: a convolution whose kernel is half of the signal.
Program half_convolution() {
  ProgramBuilder p("half_convolution");
  auto m = p.size("m");
  auto b = p.input<float>("b", {2 * m}), c = p.input<float>("c", {m});
  auto a = p.inout<float>("a", {m});
  for (auto j : p.loop("j", m))
    for (auto i : p.loop("i", m)) a(i) += b(i + m - j - 1) * c(j);
  return p.build();
}

/// s211 and s241: statements whose order has to be changed, or one of them split.
Program node_splitting() {
  ProgramBuilder p("node_splitting");
  auto n = p.size("n");
  auto c = p.input<float>("c", {n}), d = p.input<float>("d", {n}), e = p.input<float>("e", {n});
  auto a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  for (auto i : p.loop("i", 1, n - 1)) {
    a(i) = b(i - 1) + c(i) * d(i);
    b(i) = b(i + 1) - e(i) * d(i);
  }
  for (auto i : p.loop("i", n - 1)) {
    a(i) = b(i) * c(i) * d(i);
    b(i) = a(i) * a(i + 1) * d(i);
  }
  return p.build();
}

/// s222: a recurrence between two statements that undo each other.
Program recurrence_between() {
  ProgramBuilder p("recurrence_between");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n}), c = p.input<float>("c", {n});
  auto a = p.inout<float>("a", {n}), e = p.inout<float>("e", {n});
  for (auto i : p.loop("i", 1, n)) {
    a(i) += b(i) * c(i);
    e(i) = e(i - 1) * e(i - 1) + a(i) * 0.1f;
    a(i) -= b(i) * c(i);
  }
  return p.build();
}

/// s232: squares along the rows of a triangle.
Program triangle_squares() {
  ProgramBuilder p("triangle_squares");
  auto n = p.size("n");
  auto bb = p.input<float>("bb", {n, n});
  auto aa = p.inout<float>("aa", {n, n});
  for (auto j : p.loop("j", 1, n))
    for (auto i : p.loop("i", 1, j + 1)) aa(j, i) = 0.4f * aa(j, i - 1) * aa(j, i - 1) + 0.5f * bb(j, i);
  return p.build();
}

/// s255: averages with the two last values carried around the end of the array.
Program carried_around() {
  ProgramBuilder p("carried_around");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n});
  auto a = p.output<float>("a", {n});
  auto x = p.scalar<float>("x", b(n - 1)), y = p.scalar<float>("y", b(n - 2));
  for (auto i : p.loop("i", n)) {
    a(i) = (b(i) * b(i) + x + y) * 0.333f;
    y = x;
    x = b(i);
  }
  return p.build();
}

/// s256: a row that every column uses again.
Program row_used_again() {
  ProgramBuilder p("row_used_again");
  auto n = p.size("n");
  auto bb = p.input<float>("bb", {n, n}), d = p.input<float>("d", {n});
  auto a = p.inout<float>("a", {n}), cc = p.output<float>("cc", {n, n});
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) cc(i, j) = 0.0f;
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", 1, n)) {
      a(j) = 1.0f - a(j - 1) * d(j);
      cc(j, i) = a(j) + bb(j, i) * d(j);
    }
  return p.build();
}

/// s258: what a branch last set, however long ago.
Program last_set() {
  ProgramBuilder p("last_set");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n}), c = p.input<float>("c", {n}), d = p.input<float>("d", {n});
  auto b = p.output<float>("b", {n}), e = p.output<float>("e", {n});
  auto s = p.scalar<float>("s", 0);
  for (auto i : p.loop("i", n)) {
    p.when(a(i) > 0.0f, [&] { s = d(i) * d(i); });
    b(i) = s * c(i) + d(i);
    e(i) = (s + 1.0f) * a(i);
  }
  return p.build();
}

/// s277: two gotos.
Program two_gotos() {
  ProgramBuilder p("two_gotos");
  auto n = p.size("n");
  auto c = p.input<float>("c", {n}), d = p.input<float>("d", {n}), e = p.input<float>("e", {n});
  auto a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  for (auto i : p.loop("i", n - 1))
    p.when(a(i) < 0.0f, [&] {
      p.when(b(i) < 0.0f, [&] { a(i) += c(i) * d(i); });
      b(i + 1) = c(i) * a(i) + d(i) * e(i);
    });
  return p.build();
}

/// s281: reads from the other end of the array, which has been written from the middle on.
Program crossing() {
  ProgramBuilder p("crossing");
  auto n = p.size("n");
  auto c = p.input<float>("c", {n});
  auto a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  auto x = p.scalar<float>("x");
  for (auto i : p.loop("i", n)) {
    x = a(n - i - 1) + b(i) * c(i);
    a(i) = x * 0.5f - 1.0f;
    b(i) = x * x;
  }
  return p.build();
}

/// s292: the last two indices, carried around.
Program indices_around() {
  ProgramBuilder p("indices_around");
  auto n = p.size("n");
  auto b = p.input<float>("b", {n});
  auto a = p.output<float>("a", {n});
  auto im1 = p.scalar<std::int64_t>("im1"), im2 = p.scalar<std::int64_t>("im2");
  im1 = n - 1;
  im2 = max(n - 2, 0);
  for (auto i : p.loop("i", n)) {
    a(i) = (b(i) + b(im1) * b(im2)) * 0.333f;
    im2 = im1;
    im1 = i;
  }
  return p.build();
}

}  // namespace

std::vector<Field> vectorisers() {
  auto small = [](const char* of) {
    return [of](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
      HostArray& x = arrays.at(of);
      for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, x.get(i) / static_cast<double>(sizes.at("n")));
    };
  };
  const Sizes line{{"n", 4000037}};
  const std::vector<Sizes> lines{{{"n", 7}}, {{"n", 3}}, {{"n", 22}}}, squares{{{"n", 5}}, {{"n", 2}}, {{"n", 8}}};
  return {{{"triangle_saxpy", "", triangle_saxpy, {{"n", 3001}}, {}, {}, small("aa")}, squares},
          {{"unrolled_products", "", unrolled_products, line}, {{{"n", 7}}, {{"n", 6}}, {{"n", 23}}}},
          {{"backward_dots", "", backward_dots, {{"n", 1501}}, {}, {}, small("bb")}, squares},
          {{"strided_induction", "", strided_induction, {{"n", 4000037}, {"n1", 5}}},
           {{{"n", 7}, {"n1", 2}}, {{"n", 3}, {"n1", 1}}, {{"n", 22}, {"n1", 4}}}},
          {{"one_or_two", "", one_or_two, {{"n", 2000003}}}, lines},
          {{"counter_in_nest", "", counter_in_nest, {{"n", 1501}}}, squares},
          {{"coupled_inductions", "", coupled_inductions, {{"n", 2000003}}}, lines},
          {{"packed_walk", "", packed_walk, {{"n", 1501}}}, squares},
          {{"branch_feeds_branch", "", branch_feeds_branch, line}, lines},
          {{"half_convolution", "", half_convolution, {{"m", 7001}}}, {{{"m", 5}}, {{"m", 1}}, {{"m", 8}}}},
          {{"node_splitting", "", node_splitting, line}, lines},
          {{"recurrence_between", "", recurrence_between, line}, lines},
          {{"triangle_squares", "", triangle_squares, {{"n", 3001}}}, squares},
          {{"carried_around", "", carried_around, line}, lines},
          {{"row_used_again", "", row_used_again, {{"n", 1501}}}, squares},
          {{"last_set", "", last_set, line}, lines},
          {{"two_gotos", "", two_gotos, line}, lines},
          {{"crossing", "", crossing, line}, lines},
          {{"indices_around", "", indices_around, line}, lines}};
}

}  // namespace loopgrad::fields
