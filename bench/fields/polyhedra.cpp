// Kernels of PolyBench and of Parboil, SHOC and Rodinia as their authors wrote them.
#include "bench/fields/fields.h"

#include <algorithm>

namespace loopgrad::fields {
namespace {

/// nussinov: the best pairing of a sequence, from its end.
Program pairing() {
  ProgramBuilder p("pairing");
  auto n = p.size("n");
  auto seq = p.input<int>("seq", {n});
  auto bonus = p.input<float>("bonus", {n, n});
  auto table = p.output<float>("table", {n, n});
  p.in_range(seq, 0, 4);
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) table(i, j) = 0.0f;
  for (auto i : p.loop("i", 0, n, {.descending = true}))
    for (auto j : p.loop("j", i + 1, n)) {
      p.when(j - 1 >= 0, [&] { table(i, j).max_with(table(i, j - 1)); });
      p.when(i + 1 < n, [&] { table(i, j).max_with(table(i + 1, j)); });
      p.when(j - 1 >= 0 && i + 1 < n, [&] {
        p.when(i < j - 1, [&] {
           table(i, j).max_with(table(i + 1, j - 1) + select(seq(i) + seq(j) == 3, 1.0f + bonus(i, j), 0.0f));
         }).otherwise([&] { table(i, j).max_with(table(i + 1, j - 1)); });
      });
      for (auto k : p.loop("k", i + 1, j)) table(i, j).max_with(table(i, k) + table(k + 1, j));
    }
  return p.build();
}

/// deriche: recursive filters left, right, down and up, with scalars carried along each line.
Program edge_filter() {
  ProgramBuilder p("edge_filter");
  auto w = p.size("w"), h = p.size("h");
  auto in = p.input<float>("in", {w, h});
  auto alpha = p.input<float>("alpha", {});
  auto out = p.output<float>("out", {w, h});
  auto y1 = p.local<float>("y1", {w, h}), y2 = p.local<float>("y2", {w, h});
  auto al = p.let("al", 0.5f + 0.2f * alpha());
  auto k = p.let("k", (1.0f - exp(-al)) * (1.0f - exp(-al)) / (1.0f + 2.0f * al * exp(-al) - exp(-2.0f * al)));
  auto a1 = k, a3 = p.let("a3", k * exp(-2.0f * al) * -1.0f);
  auto a2 = p.let("a2", k * exp(-al) * (al - 1.0f)), a4 = p.let("a4", k * exp(-al) * (al + 1.0f));
  auto b1 = p.let("b1", 2.0f * exp(-al)), b2 = p.let("b2", -exp(-2.0f * al));
  for (auto i : p.loop("i", w)) {
    auto ym1 = p.scalar<float>("ym1", 0), ym2 = p.scalar<float>("ym2", 0), xm1 = p.scalar<float>("xm1", 0);
    for (auto j : p.loop("j", h)) {
      y1(i, j) = a1 * in(i, j) + a2 * xm1 + b1 * ym1 + b2 * ym2;
      xm1 = in(i, j);
      ym2 = ym1;
      ym1 = y1(i, j);
    }
  }
  for (auto i : p.loop("i", w)) {
    auto yp1 = p.scalar<float>("yp1", 0), yp2 = p.scalar<float>("yp2", 0), xp1 = p.scalar<float>("xp1", 0),
         xp2 = p.scalar<float>("xp2", 0);
    for (auto j : p.loop("j", 0, h, {.descending = true})) {
      y2(i, j) = a4 * xp1 + a3 * xp2 + b1 * yp1 + b2 * yp2;
      xp2 = xp1;
      xp1 = in(i, j);
      yp2 = yp1;
      yp1 = y2(i, j);
    }
  }
  for (auto [i, j] : p.loop({"i", w}, {"j", h})) out(i, j) = y1(i, j) + y2(i, j);
  for (auto j : p.loop("j", h)) {
    auto tm1 = p.scalar<float>("tm1", 0), ym1 = p.scalar<float>("ym1", 0), ym2 = p.scalar<float>("ym2", 0);
    for (auto i : p.loop("i", w)) {
      y1(i, j) = a1 * out(i, j) + a2 * tm1 + b1 * ym1 + b2 * ym2;
      tm1 = out(i, j);
      ym2 = ym1;
      ym1 = y1(i, j);
    }
  }
  for (auto j : p.loop("j", h)) {
    auto tp1 = p.scalar<float>("tp1", 0), tp2 = p.scalar<float>("tp2", 0), yp1 = p.scalar<float>("yp1", 0),
         yp2 = p.scalar<float>("yp2", 0);
    for (auto i : p.loop("i", 0, w, {.descending = true})) {
      y2(i, j) = a4 * tp1 + a3 * tp2 + b1 * yp1 + b2 * yp2;
      tp2 = tp1;
      tp1 = out(i, j);
      yp2 = yp1;
      yp1 = y2(i, j);
    }
  }
  for (auto [i, j] : p.loop({"i", w}, {"j", h})) out(i, j) = y1(i, j) + y2(i, j);
  return p.build();
}

/// ludcmp: a scalar in the middle, then forward and backward substitution.
Program lu_solve() {
  ProgramBuilder p("lu_solve");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  auto b = p.input<double>("b", {n});
  auto x = p.output<double>("x", {n}), y = p.output<double>("y", {n});
  auto w = p.scalar<double>("w");
  for (auto i : p.loop("i", n)) a(i, i) += 4.0 + cast<double>(n);
  for (auto i : p.loop("i", n)) {
    for (auto j : p.loop("j", i)) {
      w = a(i, j);
      for (auto k : p.loop("k", j)) w -= a(i, k) * a(k, j);
      a(i, j) = w / a(j, j);
    }
    for (auto j : p.loop("j", i, n)) {
      w = a(i, j);
      for (auto k : p.loop("k", i)) w -= a(i, k) * a(k, j);
      a(i, j) = w;
    }
  }
  for (auto i : p.loop("i", n)) {
    w = b(i);
    for (auto j : p.loop("j", i)) w -= a(i, j) * y(j);
    y(i) = w;
  }
  for (auto i : p.loop("i", 0, n, {.descending = true})) {
    w = y(i);
    for (auto j : p.loop("j", i + 1, n)) w -= a(i, j) * x(j);
    x(i) = w / a(i, i);
  }
  return p.build();
}

/// gramschmidt: columns made orthogonal, the later ones in place.
Program orthogonal_columns() {
  ProgramBuilder p("orthogonal_columns");
  auto m = p.size("m"), n = p.size("n");
  auto a = p.inout<double>("a", {m, n});
  auto r = p.output<double>("r", {n, n}), q = p.output<double>("q", {m, n});
  for (auto [i, j] : p.loop({"i", n}, {"j", n})) r(i, j) = 0.0;
  for (auto k : p.loop("k", n)) {
    auto nrm = p.scalar<double>("nrm", 0.01);
    for (auto i : p.loop("i", m)) nrm += a(i, k) * a(i, k);
    r(k, k) = sqrt(nrm);
    for (auto i : p.loop("i", m)) q(i, k) = a(i, k) / r(k, k);
    for (auto j : p.loop("j", k + 1, n)) {
      r(k, j) = 0.0;
      for (auto i : p.loop("i", m)) r(k, j) += q(i, k) * a(i, j);
      for (auto i : p.loop("i", m)) a(i, j) -= q(i, k) * r(k, j);
    }
  }
  return p.build();
}

/// correlation: centred and scaled in place, then a symmetric product whose mirror is copied.
Program correlations() {
  ProgramBuilder p("correlations");
  auto n = p.size("n"), m = p.size("m");
  auto data = p.inout<float>("data", {n, m});
  auto corr = p.output<float>("corr", {m, m});
  auto mean = p.local<float>("mean", {m}), dev = p.local<float>("dev", {m});
  for (auto j : p.loop("j", m)) {
    mean(j) = 0.0f;
    for (auto i : p.loop("i", n)) mean(j) += data(i, j);
    mean(j) /= cast<float>(n);
  }
  for (auto j : p.loop("j", m)) {
    dev(j) = 0.0f;
    for (auto i : p.loop("i", n)) dev(j) += (data(i, j) - mean(j)) * (data(i, j) - mean(j));
    dev(j) = sqrt(dev(j) / cast<float>(n) + 1e-6f);
    dev(j) = select(dev(j) <= 0.1f, 1.0f, dev(j));
  }
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", m)) {
      data(i, j) -= mean(j);
      data(i, j) /= sqrt(cast<float>(n)) * dev(j);
    }
  for (auto i : p.loop("i", m - 1)) {
    corr(i, i) = 1.0f;
    for (auto j : p.loop("j", i + 1, m)) {
      corr(i, j) = 0.0f;
      for (auto k : p.loop("k", n)) corr(i, j) += data(k, i) * data(k, j);
      corr(j, i) = corr(i, j);
    }
  }
  corr(m - 1, m - 1) = 1.0f;
  return p.build();
}

/// symm: a symmetric matrix of which one half is stored, times another one; sums up and down at once.
Program half_stored() {
  ProgramBuilder p("half_stored");
  auto m = p.size("m"), n = p.size("n");
  auto a = p.input<float>("a", {m, m}), b = p.input<float>("b", {m, n}), alpha = p.input<float>("alpha", {}),
       beta = p.input<float>("beta", {});
  auto c = p.inout<float>("c", {m, n});
  for (auto i : p.loop("i", m))
    for (auto j : p.loop("j", n)) {
      auto t = p.scalar<float>("t", 0);
      for (auto k : p.loop("k", i)) {
        c(k, j) += alpha() * b(i, j) * a(i, k);
        t += b(k, j) * a(i, k);
      }
      c(i, j) = beta() * c(i, j) + alpha() * b(i, j) * a(i, i) + alpha() * t;
    }
  return p.build();
}

/// trmm: a triangle times a matrix, in place.
Program triangle_in_place() {
  ProgramBuilder p("triangle_in_place");
  auto m = p.size("m"), n = p.size("n");
  auto a = p.input<float>("a", {m, m}), alpha = p.input<float>("alpha", {});
  auto b = p.inout<float>("b", {m, n});
  for (auto i : p.loop("i", m))
    for (auto j : p.loop("j", n)) {
      for (auto k : p.loop("k", i + 1, m)) b(i, j) += a(k, i) * b(k, j);
      b(i, j) = alpha() * b(i, j);
    }
  return p.build();
}

/// fdtd-2d: three fields in place, the source a line of time.
Program fields_2d() {
  ProgramBuilder p("fields_2d");
  auto nx = p.size("nx"), ny = p.size("ny"), steps = p.size("steps");
  auto fict = p.input<float>("fict", {steps}), eps = p.input<float>("eps", {nx, ny});
  auto ex = p.inout<float>("ex", {nx, ny}), ey = p.inout<float>("ey", {nx, ny}), hz = p.inout<float>("hz", {nx, ny});
  for (auto t : p.loop("t", steps)) {
    for (auto j : p.loop("j", ny)) ey(0, j) = fict(t);
    for (auto [i, j] : p.loop({"i", 1, nx}, {"j", ny})) ey(i, j) -= 0.5f * eps(i, j) * (hz(i, j) - hz(i - 1, j));
    for (auto [i, j] : p.loop({"i", nx}, {"j", 1, ny})) ex(i, j) -= 0.5f * eps(i, j) * (hz(i, j) - hz(i, j - 1));
    for (auto [i, j] : p.loop({"i", nx - 1}, {"j", ny - 1}))
      hz(i, j) -= 0.7f * (ex(i, j + 1) - ex(i, j) + ey(i + 1, j) - ey(i, j));
  }
  return p.build();
}

/// doitgen: a product of many, through a row that every one uses again.
Program row_through() {
  ProgramBuilder p("row_through");
  auto nr = p.size("nr"), nq = p.size("nq"), np = p.size("np");
  auto c4 = p.input<float>("c4", {np, np});
  auto a = p.inout<float>("a", {nr, nq, np});
  auto sum = p.local<float>("sum", {np});
  for (auto r : p.loop("r", nr))
    for (auto q : p.loop("q", nq)) {
      for (auto i : p.loop("i", np)) {
        sum(i) = 0.0f;
        for (auto s : p.loop("s", np)) sum(i) += a(r, q, s) * c4(s, i);
      }
      for (auto i : p.loop("i", np)) a(r, q, i) = sum(i);
    }
  return p.build();
}

/// jacobi-1d with two arrays that are copied forth and back, its coefficient squared.
Program forth_and_back() {
  ProgramBuilder p("forth_and_back");
  auto n = p.size("n"), steps = p.size("steps");
  auto w = p.input<float>("w", {n});
  auto a = p.inout<float>("a", {n}), b = p.inout<float>("b", {n});
  for (auto t : p.loop("t", steps)) {
    (void)t;
    for (auto i : p.loop("i", 1, n - 1)) b(i) = 0.33333f * (a(i - 1) + w(i) * a(i) * a(i) + a(i + 1));
    for (auto i : p.loop("i", 1, n - 1)) a(i) = 0.33333f * (b(i - 1) + b(i) + b(i + 1));
  }
  return p.build();
}

}  // namespace

std::vector<Field> polyhedra() {
  const std::vector<Sizes> squares{{{"n", 5}}, {{"n", 2}}, {{"n", 8}}},
      mn{{{"m", 5}, {"n", 4}}, {{"m", 1}, {"n", 3}}, {{"m", 7}, {"n", 6}}};
  auto scaled = [](const char* of, const char* by) {
    return [of, by](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
      HostArray& x = arrays.at(of);
      for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, x.get(i) / static_cast<double>(sizes.at(by)));
    };
  };
  return {{{"pairing", "", pairing, {{"n", 301}}}, {{{"n", 5}}, {{"n", 2}}, {{"n", 9}}}},
          {{"edge_filter", "", edge_filter, {{"w", 1021}, {"h", 803}}},
           {{{"w", 5}, {"h", 3}}, {{"w", 1}, {"h", 1}}, {{"w", 2}, {"h", 7}}}},
          {{"lu_solve", "", lu_solve, {{"n", 301}}}, squares},
          {{"orthogonal_columns", "", orthogonal_columns, {{"m", 301}, {"n", 253}}}, mn},
          {{"correlations", "", correlations, {{"n", 401}, {"m", 303}}},
           {{{"n", 5}, {"m", 4}}, {{"n", 2}, {"m", 1}}, {{"n", 7}, {"m", 3}}}},
          {{"half_stored", "", half_stored, {{"m", 301}, {"n", 403}}}, mn},
          {{"triangle_in_place", "", triangle_in_place, {{"m", 301}, {"n", 403}}, {}, {}, scaled("a", "m")}, mn},
          {{"fields_2d", "", fields_2d, {{"nx", 501}, {"ny", 603}, {"steps", 20}}},
           {{{"nx", 5}, {"ny", 4}, {"steps", 3}},
            {{"nx", 1}, {"ny", 1}, {"steps", 1}},
            {{"nx", 3}, {"ny", 7}, {"steps", 2}}}},
          {{"row_through", "", row_through, {{"nr", 61}, {"nq", 73}, {"np", 81}}},
           {{{"nr", 3}, {"nq", 2}, {"np", 4}}, {{"nr", 1}, {"nq", 1}, {"np", 1}}, {{"nr", 2}, {"nq", 3}, {"np", 5}}}},
          {{"forth_and_back", "", forth_and_back, {{"n", 100003}, {"steps", 100}}},
           {{{"n", 7}, {"steps", 3}}, {{"n", 3}, {"steps", 1}}, {{"n", 22}, {"steps", 4}}}}};
}

}  // namespace loopgrad::fields
