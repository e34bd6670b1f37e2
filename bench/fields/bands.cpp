// Sums over bands and triangles: pairs, windows, offsets, in which each element has terms in few of the iterations.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// A banded matrix, stored by diagonals, times a vector, twice.
Program band_matrix() {
  ProgramBuilder p("band_matrix");
  auto n = p.size("n"), r = p.size("r");
  auto a = p.input<float>("a", {n, 2 * r + 1}), x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto t = p.local<float>("t", {n});
  for (auto i : p.loop("i0", n)) t(i) = 0;
  for (auto i : p.loop("i1", n)) y(i) = 0;
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", max(i - r, 0), min(i + r + 1, n))) t(i) += a(i, j - i + r) * x(j);
  for (auto i : p.loop("i2", n))
    for (auto j : p.loop("j2", max(i - r, 0), min(i + r + 1, n))) y(j) += a(i, j - i + r) * sin(t(i));
  return p.build();
}

/// A picture that another one guides: windows of weights that depend on both of their ends.
Program joint_upsampling() {
  ProgramBuilder p("joint_upsampling");
  auto h = p.size("h"), w = p.size("w");
  auto low = p.input<float>("low", {h, w}), guide = p.input<float>("guide", {h, w});
  auto y = p.output<float>("y", {h, w});
  for (auto [i, j] : p.loop({"i0", h}, {"j0", w})) y(i, j) = low(i, j);
  for (auto i : p.loop("i", 3, h - 3))
    for (auto j : p.loop("j", 3, w - 3)) {
      auto num = p.scalar<float>("num", 0), den = p.scalar<float>("den", 1e-3f);
      for (auto a : p.loop("a", -3, 4))
        for (auto b : p.loop("b", -3, 4)) {
          auto k = p.let("k", exp(-pow(guide(i, j) - guide(i + a, j + b), 2) * 4));
          num += k * low(i + a, j + b);
          den += k;
        }
      y(i, j) = num / den;
    }
  return p.build();
}

/// Charges on a line: all pairs, with forces on both and an energy for each.
Program pair_charges() {
  ProgramBuilder p("pair_charges");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), q = p.input<float>("q", {n});
  auto force = p.output<float>("force", {n}), energy = p.output<float>("energy", {n});
  for (auto i : p.loop("i0", n)) {
    force(i) = 0;
    energy(i) = 0;
  }
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", 0, i)) {
      auto d = p.let("d", x(i) - x(j));
      auto s = p.let("s", q(i) * q(j) / (d * d + 0.1));
      force(i) += s * d;
      force(j) -= s * d;
      energy(i) += 0.5 * s;
      energy(j) += 0.5 * s;
    }
  return p.build();
}

/// Normalised cross-correlation of two images in windows, with means that neighbours share.
Program local_contrast() {
  ProgramBuilder p("local_contrast");
  auto n = p.size("n"), m = p.size("m"), r = p.size("r");
  auto x = p.input<float>("x", {n, m}), z = p.input<float>("z", {n, m});
  auto y = p.output<float>("y", {n, m});
  auto mean = p.local<float>("mean", {n, m});
  for (auto [i, j] : p.loop({"i0", n}, {"j0", m})) {
    auto s = p.scalar<float>("s", 0), c = p.scalar<float>("c", 0);
    for (auto a : p.loop("a0", max(i - r, 0), min(i + r + 1, n)))
      for (auto b : p.loop("b0", max(j - r, 0), min(j + r + 1, m))) {
        s += x(a, b);
        c += 1;
      }
    mean(i, j) = s / c;
  }
  for (auto [i, j] : p.loop({"i", n}, {"j", m})) {
    auto up = p.scalar<float>("up", 0), down = p.scalar<float>("down", 0.01);
    for (auto a : p.loop("a", max(i - r, 0), min(i + r + 1, n)))
      for (auto b : p.loop("b", max(j - r, 0), min(j + r + 1, m))) {
        auto d = p.let("d", x(a, b) - mean(a, b));
        up += d * (z(a, b) - z(i, j));
        down += d * d;
      }
    y(i, j) = up / sqrt(down);
  }
  return p.build();
}

/// A layer whose weights depend on how far apart two places are (relative positions), in a window, by channels.
Program relative_window() {
  ProgramBuilder p("relative_window");
  auto n = p.size("n"), d = p.size("d"), r = p.size("r");
  auto x = p.input<float>("x", {n, d}), w = p.input<float>("w", {2 * r + 1, d}), gate = p.input<float>("gate", {n});
  auto y = p.output<float>("y", {n, d});
  for (auto [i, c] : p.loop({"i0", n}, {"c0", d})) y(i, c) = 0;
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", max(i - r, 0), min(i + r + 1, n))) {
      auto g = p.let("g", tanh(gate(i) * gate(j)));
      for (auto c : p.loop("c", d)) y(i, c) += g * w(j - i + r, c) * x(j, c);
    }
  return p.build();
}

/// Angles between triples of points, i < j < k.
Program triples() {
  ProgramBuilder p("triples");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i0", n)) y(i) = 0;
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", i + 1, n))
      for (auto k : p.loop("k", j + 1, n)) {
        auto c = p.let("c", w(i) * w(j) * w(k) / (1 + (x(i) - 2 * x(j) + x(k)) * (x(i) - 2 * x(j) + x(k))));
        y(i) += c;
        y(j) -= 0.5 * c;
        y(k) += 0.25 * c;
      }
  return p.build();
}

/// Toeplitz and Hankel products of a batch: parameters by the sum and the difference of indices.
Program toeplitz() {
  ProgramBuilder p("toeplitz");
  auto b = p.size("b"), n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {b, m}), t = p.input<float>("t", {n + m - 1}), h = p.input<float>("h", {n + m - 1});
  auto y = p.output<float>("y", {b, n});
  for (auto [s, i] : p.loop({"s0", b}, {"i0", n})) y(s, i) = 0;
  for (auto [s, i, j] : p.loop({"s", b}, {"i", n}, {"j", m})) y(s, i) += (t(i - j + m - 1) + tanh(h(i + j))) * x(s, j);
  return p.build();
}

}  // namespace

std::vector<Field> bands() {
  return {
      {{"joint_upsampling", "", joint_upsampling, {{"h", 403}, {"w", 501}}},
       {{{"h", 8}, {"w", 7}}, {{"h", 1}, {"w", 2}}}},
      {{"band_matrix", "", band_matrix, {{"n", 300007}, {"r", 21}}}, {{{"n", 9}, {"r", 2}}, {{"n", 2}, {"r", 3}}}},
      {{"pair_charges", "", pair_charges, {{"n", 4001}}}, {{{"n", 8}}, {{"n", 1}}}},
      {{"local_contrast", "", local_contrast, {{"n", 517}, {"m", 433}, {"r", 2}}},
       {{{"n", 6}, {"m", 5}, {"r", 1}}, {{"n", 1}, {"m", 3}, {"r", 2}}}},
      {{"relative_window", "", relative_window, {{"n", 20011}, {"d", 33}, {"r", 15}}},
       {{{"n", 7}, {"d", 3}, {"r", 2}}, {{"n", 2}, {"d", 1}, {"r", 1}}}},
      {{"triples", "", triples, {{"n", 307}}}, {{{"n", 7}}, {{"n", 2}}}},
      {{"toeplitz", "", toeplitz, {{"b", 33}, {"n", 513}, {"m", 701}}},
       {{{"b", 2}, {"n", 4}, {"m", 5}}, {{"b", 1}, {"n", 1}, {"m", 2}}}},
  };
}

}  // namespace loopgrad::fields
