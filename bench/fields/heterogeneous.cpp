// Kernels of Rodinia, Parboil, SHOC, NAS and mini-apps, as their authors wrote them: flattened arrays, clamped
// neighbours, transforms in place, blocks, lists by length.
#include "bench/fields/fields.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// hotspot3D: one flattened array, neighbours by conditions on the position.
Program chip_heat() {
  ProgramBuilder p("chip_heat");
  auto nx = p.size("nx"), ny = p.size("ny"), nz = p.size("nz"), steps = p.size("steps");
  auto power = p.input<float>("power", {nx * ny * nz});
  auto t = p.inout<float>("t", {nx * ny * nz});
  auto out = p.local<float>("out", {nx * ny * nz});
  for (auto s : p.loop("s", steps)) {
    (void)s;
    for (auto [z, y, x] : p.loop({"z", nz}, {"y", ny}, {"x", nx})) {
      auto c = x + y * nx + z * nx * ny;
      auto w = select(x == 0, c, c - 1), e = select(x == nx - 1, c, c + 1);
      auto n = select(y == 0, c, c - nx), so = select(y == ny - 1, c, c + nx);
      auto b = select(z == 0, c, c - nx * ny), a = select(z == nz - 1, c, c + nx * ny);
      out(c) = 0.4f * t(c) + 0.1f * t(n) + 0.1f * t(so) + 0.1f * t(e) + 0.1f * t(w) + 0.09f * t(a) + 0.09f * t(b) +
               0.01f * power(c) * t(c);
    }
    for (auto i : p.loop("i", nx * ny * nz)) t(i) = out(i);
  }
  return p.build();
}

/// srad: speckle from an image, with lists of neighbours and statistics of the whole in each step.
Program speckle() {
  ProgramBuilder p("speckle");
  auto rows = p.size("rows"), cols = p.size("cols"), steps = p.size("steps");
  auto j = p.inout<float>("j", {rows, cols});
  auto lambda = p.input<float>("lambda", {});
  auto in = p.local<int>("in", {rows}), is = p.local<int>("is", {rows}), jw = p.local<int>("jw", {cols}),
       je = p.local<int>("je", {cols});
  for (auto i : p.loop("i", rows)) {
    in(i) = cast<int>(i - 1);
    is(i) = cast<int>(i + 1);
  }
  for (auto k : p.loop("k", cols)) {
    jw(k) = cast<int>(k - 1);
    je(k) = cast<int>(k + 1);
  }
  in(0) = 0;
  is(rows - 1) = cast<int>(rows - 1);
  jw(0) = 0;
  je(cols - 1) = cast<int>(cols - 1);
  auto dn = p.local<float>("dn", {rows, cols}), ds = p.local<float>("ds", {rows, cols}),
       dw = p.local<float>("dw", {rows, cols}), de = p.local<float>("de", {rows, cols}),
       c = p.local<float>("c", {rows, cols});
  for (auto [i, k] : p.loop({"i", rows}, {"k", cols})) j(i, k) = exp(j(i, k));
  for (auto s : p.loop("s", steps)) {
    (void)s;
    auto sum = p.scalar<float>("sum", 0), sum2 = p.scalar<float>("sum2", 0);
    for (auto [i, k] : p.loop({"i", rows}, {"k", cols})) {
      sum += j(i, k);
      sum2 += j(i, k) * j(i, k);
    }
    auto mean = p.let("mean", sum / cast<float>(rows * cols));
    auto var = p.let("var", sum2 / cast<float>(rows * cols) - mean * mean + 0.01f);
    auto q0 = p.let("q0", var / (mean * mean));
    for (auto [i, k] : p.loop({"i", rows}, {"k", cols})) {
      auto jc = p.let("jc", j(i, k));
      dn(i, k) = j(in(i), k) - jc;
      ds(i, k) = j(is(i), k) - jc;
      dw(i, k) = j(i, jw(k)) - jc;
      de(i, k) = j(i, je(k)) - jc;
      auto g2 = (dn(i, k) * dn(i, k) + ds(i, k) * ds(i, k) + dw(i, k) * dw(i, k) + de(i, k) * de(i, k)) / (jc * jc);
      auto l = (dn(i, k) + ds(i, k) + dw(i, k) + de(i, k)) / jc;
      auto num = 0.5f * g2 - 0.0625f * l * l, den = 1.0f + 0.25f * l;
      auto q = p.let("q", num / (den * den + 0.01f));
      c(i, k) = 1.0f / (1.0f + (q - q0) * (q - q0) / (q0 * (1.0f + q0) * (1.0f + q0)));
      p.when(c(i, k) < 0.0f, [&] { c(i, k) = 0.0f; }).otherwise([&] {
        p.when(c(i, k) > 1.0f, [&] { c(i, k) = 1.0f; });
      });
    }
    for (auto [i, k] : p.loop({"i", rows}, {"k", cols})) {
      auto d = c(i, k) * dn(i, k) + c(is(i), k) * ds(i, k) + c(i, k) * dw(i, k) + c(i, je(k)) * de(i, k);
      j(i, k) += 0.25f * (0.3f + 0.1f * lambda()) * d;
    }
  }
  return p.build();
}

/// pathfinder: the cheapest way down, two rows that are swapped by copying.
Program way_down() {
  ProgramBuilder p("way_down");
  auto rows = p.size("rows"), cols = p.size("cols");
  auto wall = p.input<float>("wall", {rows * cols});
  auto dst = p.output<float>("dst", {cols});
  auto src = p.local<float>("src", {cols});
  for (auto i : p.loop("i", cols)) dst(i) = wall(i);
  for (auto t : p.loop("t", rows - 1)) {
    for (auto i : p.loop("i", cols)) src(i) = dst(i);
    for (auto i : p.loop("i", cols)) {
      auto least = p.scalar<float>("least", src(i));
      p.when(i > 0, [&] { least = min(least, src(i - 1)); });
      p.when(i < cols - 1, [&] { least = min(least, src(i + 1)); });
      dst(i) = wall((t + 1) * cols + i) + least;
    }
  }
  return p.build();
}

/// needleman-wunsch of Rodinia: flattened, diagonals up to the middle and then after it.
Program diagonals() {
  ProgramBuilder p("diagonals");
  auto m = p.size("m");  // positions; the table has a row and a column more
  auto ref = p.input<float>("ref", {(m + 1) * (m + 1)}), penalty = p.input<float>("penalty", {});
  auto t = p.inout<float>("t", {(m + 1) * (m + 1)});
  auto w = m + 1;
  for (auto i : p.loop("i", 1, w)) {
    t(i * w) = -1.0f * penalty() * cast<float>(i);
    t(i) = -1.0f * penalty() * cast<float>(i);
  }
  auto cell = [&](const Value& at) {
    auto up = t(at - 1 - w) + ref(at), left = t(at - 1) - penalty(), top = t(at - w) - penalty();
    t(at) = max(max(up, left), top);
  };
  for (auto i : p.loop("i", m))
    for (auto x : p.loop("x", i + 1)) cell((x + 1) * w + (i + 1 - x));
  for (auto i : p.loop("i", 0, m - 1, {.descending = true}))
    for (auto x : p.loop("x", i + 1)) cell((x + m - i) * w + (m - x));
  return p.build();
}

/// FFT of radix two in place: bits reversed, stages with a twiddle that is turned on.
Program fft_in_place() {
  ProgramBuilder p("fft_in_place");
  auto bits = p.size("bits"), n = p.size("n");  // n = 2 to the power of bits
  auto re = p.inout<double>("re", {n}), im = p.inout<double>("im", {n});
  auto j = p.scalar<std::int64_t>("j", 0), k = p.scalar<std::int64_t>("k");
  for (auto i : p.loop("i", n - 1)) {
    p.when(i < j, [&] {
      auto tr = p.let("tr", re(i)), ti = p.let("ti", im(i));
      re(i) = re(j);
      im(i) = im(j);
      re(j) = tr;
      im(j) = ti;
    });
    k = n / 2;
    for (auto b : p.loop_while("b", bits, [&](const Value&) { return k <= j && k > 0; })) {
      (void)b;
      j = j - k;
      k = k / 2;
    }
    j = j + k;
  }
  auto le = p.scalar<std::int64_t>("le", 1);
  for (auto l : p.loop("l", bits)) {
    (void)l;
    auto le2 = p.let("le2", le);
    le = le * 2;
    auto ur = p.scalar<double>("ur", 1), ui = p.scalar<double>("ui", 0);
    auto sr = p.let("sr", cos(3.14159265358979 / cast<double>(le2))),
         si = p.let("si", -sin(3.14159265358979 / cast<double>(le2)));
    for (auto jj : p.loop("jj", 0, le2, {.at_most = {n}})) {
      for (auto m : p.loop("m", 0, n / le, {.at_most = {n}})) {
        auto i = p.let("i", m * le + jj);
        auto ip = p.let("ip", i + le2);
        auto tr = p.let("tr", re(ip) * ur - im(ip) * ui), ti = p.let("ti", re(ip) * ui + im(ip) * ur);
        re(ip) = re(i) - tr;
        im(ip) = im(i) - ti;
        re(i) += tr;
        im(i) += ti;
      }
      auto tr = p.let("tr", ur);
      ur = tr * sr - ui * si;
      ui = tr * si + ui * sr;
    }
  }
  return p.build();
}

/// A bitonic network that sorts keys and carries values along.
Program bitonic() {
  ProgramBuilder p("bitonic");
  auto n = p.size("n"), bits = p.size("bits");  // n = 2 to the power of bits
  auto key = p.inout<float>("key", {n}), value = p.inout<float>("value", {n});
  for (auto k : p.loop("k", bits))
    for (auto jj : p.loop("jj", 0, k + 1, {.descending = true})) {
      auto d = p.scalar<std::int64_t>("d", 1), size = p.scalar<std::int64_t>("size", 2);
      for (auto s : p.loop("s", jj)) {
        (void)s;
        d = d * 2;
      }
      for (auto s : p.loop("s", k)) {
        (void)s;
        size = size * 2;
      }
      for (auto i : p.loop("i", n)) {
        auto l = p.let("l", select((i / d) % 2 == 0, i + d, i - d));
        p.when(l > i && l < n, [&] {
          p.when(((i / size) % 2 == 0 && key(i) > key(l)) || ((i / size) % 2 != 0 && key(i) < key(l)), [&] {
            auto a = p.let("a", key(i)), b = p.let("b", value(i));
            key(i) = key(l);
            value(i) = value(l);
            key(l) = a;
            value(l) = b;
          });
        });
      }
    }
  return p.build();
}

/// spmv with jagged diagonals: rows sorted by length, entries by diagonal.
Program jagged() {
  ProgramBuilder p("jagged");
  auto n = p.size("n"), diags = p.size("diags"), entries = p.size("entries");
  auto start = p.input<int>("start", {diags}), length = p.input<int>("length", {n}), perm = p.input<int>("perm", {n}),
       col = p.input<int>("col", {entries});
  auto val = p.input<float>("val", {entries}), x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  p.in_range(start, 0, entries - n + 1);
  p.in_range(length, 0, diags + 1);
  p.in_range(perm, 0, n);
  p.injective(perm);
  p.in_range(col, 0, n);
  for (auto i : p.loop("i", n)) {
    auto sum = p.scalar<float>("sum", 0);
    for (auto k : p.loop("k", length(i))) {
      auto at = p.let("at", start(k) + i);
      sum += val(at) * x(col(at));
    }
    y(perm(i)) = sum;
  }
  return p.build();
}

/// tpacf: angles of pairs put into bins that are found by halving.
Program angle_bins() {
  ProgramBuilder p("angle_bins");
  auto n = p.size("n"), bins = p.size("bins"), most = p.size("most");
  auto x = p.input<float>("x", {n, 3}), w = p.input<float>("w", {n}), binb = p.input<float>("binb", {bins + 1});
  auto h = p.output<float>("h", {bins + 2});
  for (auto b : p.loop("b", bins + 2)) h(b) = 0.0f;
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", i + 1, n)) {
      auto dot = p.let("dot", x(i, 0) * x(j, 0) + x(i, 1) * x(j, 1) + x(i, 2) * x(j, 2));
      auto low = p.scalar<std::int64_t>("low", 0), high = p.scalar<std::int64_t>("high");
      high = bins;
      for (auto s : p.loop_while("s", most, [&](const Value&) { return high > low + 1; })) {
        (void)s;
        auto k = p.let("k", (low + high) / 2);
        p.when(dot >= binb(k), [&] { high = k; }).otherwise([&] { low = k; });
      }
      p.when(dot >= binb(low), [&] { h(low) += w(i) * w(j); }).otherwise([&] {
        p.when(dot < binb(high), [&] { h(high + 1) += w(i) * w(j) * dot; }).otherwise([&] { h(high) += w(i) * w(j); });
      });
    }
  return p.build();
}

/// BT: a line of blocks, 3 by 3, eliminated forward and substituted back in place.
Program block_line() {
  ProgramBuilder p("block_line");
  auto lines = p.size("lines"), n = p.size("n");
  auto a = p.input<double>("a", {lines, n, 3, 3}), b = p.input<double>("b", {lines, n, 3, 3});
  auto c = p.inout<double>("c", {lines, n, 3, 3}), r = p.inout<double>("r", {lines, n, 3});
  for (auto l : p.loop("l", lines)) {
    for (auto i : p.loop("i", n)) {
      auto m = p.local<double>("m", {3, 3});
      for (auto [s, t] : p.loop({"s", 3}, {"t", 3})) m(s, t) = 0.2 * b(l, i, s, t) + select(s == t, 4.0, 0.0);
      p.when(i > 0, [&] {
        for (auto [s, t] : p.loop({"s", 3}, {"t", 3})) {
          r(l, i, s) -= a(l, i, s, t) * r(l, i - 1, t);
          for (auto u : p.loop("u", 3)) m(s, t) -= a(l, i, s, u) * c(l, i - 1, u, t);
        }
      });
      for (int s = 0; s < 3; ++s) {  // elimination without pivots, written out as in binvcrhs
        auto pivot = p.let("pivot", 1.0 / m(s, s));
        for (int t = s + 1; t < 3; ++t) m(s, t) *= pivot;
        for (int t = 0; t < 3; ++t) c(l, i, s, t) *= pivot;
        r(l, i, s) *= pivot;
        for (int q = 0; q < 3; ++q) {
          if (q == s) continue;
          auto coeff = p.let("coeff", m(q, s));
          for (int t = s + 1; t < 3; ++t) m(q, t) -= coeff * m(s, t);
          for (int t = 0; t < 3; ++t) c(l, i, q, t) -= coeff * c(l, i, s, t);
          r(l, i, q) -= coeff * r(l, i, s);
        }
      }
    }
    for (auto i : p.loop("i", 0, n - 1, {.descending = true}))
      for (auto [s, t] : p.loop({"s", 3}, {"t", 3})) r(l, i, s) -= c(l, i, s, t) * r(l, i + 1, t);
  }
  return p.build();
}

}  // namespace

std::vector<Field> heterogeneous() {
  auto rising = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    const std::int64_t bins = sizes.at("bins");
    for (std::int64_t i = 0; i <= bins; ++i) arrays.at("binb").set(i, 1.0 - 2.0 * double(i) / double(bins));
  };
  return {{{"chip_heat", "", chip_heat, {{"nx", 101}, {"ny", 73}, {"nz", 11}, {"steps", 20}}},
           {{{"nx", 3}, {"ny", 4}, {"nz", 2}, {"steps", 2}},
            {{"nx", 1}, {"ny", 1}, {"nz", 1}, {"steps", 1}},
            {{"nx", 2}, {"ny", 3}, {"nz", 3}, {"steps", 3}}}},
          {{"speckle", "", speckle, {{"rows", 301}, {"cols", 403}, {"steps", 5}}},
           {{{"rows", 3}, {"cols", 4}, {"steps", 2}},
            {{"rows", 1}, {"cols", 2}, {"steps", 1}},
            {{"rows", 5}, {"cols", 3}, {"steps", 1}}}},
          {{"way_down", "", way_down, {{"rows", 201}, {"cols", 30011}}},
           {{{"rows", 3}, {"cols", 5}}, {{"rows", 1}, {"cols", 1}}, {{"rows", 5}, {"cols", 2}}}},
          {{"diagonals", "", diagonals, {{"m", 1501}}}, {{{"m", 4}}, {{"m", 1}}, {{"m", 6}}}},
          {{"fft_in_place", "", fft_in_place, {{"bits", 16}, {"n", 65536}}},
           {{{"bits", 3}, {"n", 8}}, {{"bits", 1}, {"n", 2}}, {{"bits", 2}, {"n", 4}}}},
          {{"bitonic", "", bitonic, {{"n", 16384}, {"bits", 14}}},
           {{{"n", 8}, {"bits", 3}}, {{"n", 2}, {"bits", 1}}, {{"n", 4}, {"bits", 2}}}},
          {{"jagged", "", jagged, {{"n", 100003}, {"diags", 20}, {"entries", 1100037}}},
           {{{"n", 4}, {"diags", 3}, {"entries", 9}},
            {{"n", 1}, {"diags", 1}, {"entries", 2}},
            {{"n", 7}, {"diags", 2}, {"entries", 12}}}},
          {{"angle_bins", "", angle_bins, {{"n", 1001}, {"bins", 23}, {"most", 6}}, {}, {}, rising},
           {{{"n", 5}, {"bins", 4}, {"most", 3}},
            {{"n", 2}, {"bins", 1}, {"most", 1}},
            {{"n", 7}, {"bins", 7}, {"most", 4}}}},
          {{"block_line", "", block_line, {{"lines", 201}, {"n", 203}}},
           {{{"lines", 2}, {"n", 3}}, {{"lines", 1}, {"n", 1}}, {{"lines", 3}, {"n", 4}}}}};
}

}  // namespace loopgrad::fields
