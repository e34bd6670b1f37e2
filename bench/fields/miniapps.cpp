// Kernels of NAS and of mini-apps, as their authors wrote them.
#include "bench/fields/fields.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// SNAP: a sweep through the cells from each corner, angles inside, with a fix-up of negative fluxes.
Program corner_sweeps() {
  ProgramBuilder p("corner_sweeps");
  auto nx = p.size("nx"), ny = p.size("ny"), na = p.size("na");
  auto total = p.input<double>("total", {ny, nx}), source = p.input<double>("source", {ny, nx});
  auto mu = p.input<double>("mu", {na}), eta = p.input<double>("eta", {na}), weight = p.input<double>("weight", {na});
  auto flux = p.output<double>("flux", {ny, nx}), leak = p.output<double>("leak", {});
  auto psii = p.local<double>("psii", {ny, na}), psij = p.local<double>("psij", {nx, na});
  for (auto [j, i] : p.loop({"j", ny}, {"i", nx})) flux(j, i) = 0.0;
  leak() = 0.0;
  for (auto octant : p.loop("octant", 4)) {
    auto ist = octant % 2, jst = octant / 2;
    for (auto [j, a] : p.loop({"j", ny}, {"a", na})) psii(j, a) = 0.0;
    for (auto [i, a] : p.loop({"i", nx}, {"a", na})) psij(i, a) = 0.0;
    for (auto jj : p.loop("jj", ny))
      for (auto ii : p.loop("ii", nx)) {
        auto i = p.let("i", select(ist == 0, ii, nx - 1 - ii)), j = p.let("j", select(jst == 0, jj, ny - 1 - jj));
        for (auto a : p.loop("a", na)) {
          auto hi = abs(mu(a)) + 0.1, hj = abs(eta(a)) + 0.1;
          auto psi = p.scalar<double>("psi"), oi = p.scalar<double>("oi"), oj = p.scalar<double>("oj");
          psi = (source(j, i) + hi * psii(j, a) + hj * psij(i, a)) / (1.5 + total(j, i) + hi + hj);
          oi = 2.0 * psi - psii(j, a);
          oj = 2.0 * psi - psij(i, a);
          p.when(oi < 0.0 || oj < 0.0, [&] {
            psi =
                (source(j, i) + 0.5 * hi * psii(j, a) + 0.5 * hj * psij(i, a)) / (1.5 + total(j, i) + 0.5 * (hi + hj));
            oi = psi;
            oj = psi;
          });
          psii(j, a) = oi;
          psij(i, a) = oj;
          flux(j, i) += weight(a) * psi;
        }
      }
    for (auto [j, a] : p.loop({"j", ny}, {"a", na})) leak() += weight(a) * psii(j, a);
  }
  return p.build();
}

/// MG: levels in one array, each at its offset; restriction down and prolongation up.
Program flat_levels() {
  ProgramBuilder p("flat_levels");
  auto levels = p.size("levels"), n = p.size("n");  // n is the finest, 2 to the power of levels, and one more
  auto r = p.inout<double>("r", {2 * n + levels}), u = p.inout<double>("u", {2 * n + levels});
  auto c = p.input<double>("c", {4});
  auto start = p.scalar<std::int64_t>("start", 0), m = p.scalar<std::int64_t>("m");
  m = n;
  for (auto l : p.loop("l", levels - 1)) {  // down: the next level starts where this one ends
    (void)l;
    auto half = p.let("half", (m - 1) / 2 + 1), next = p.let("next", start + m), here = p.let("here", start);
    for (auto k : p.loop("k", 1, half - 1, {.at_most = {n}}))
      r(next + k) = c(0) * r(here + 2 * k) + c(1) * (r(here + 2 * k - 1) + r(here + 2 * k + 1));
    start = next;
    m = half;
  }
  for (auto l : p.loop("l", levels - 1)) {  // up
    (void)l;
    auto twice = p.let("twice", (m - 1) * 2 + 1), coarse = p.let("coarse", start);
    auto fine = p.let("fine", coarse - twice);
    for (auto k : p.loop("k", m - 1, {.at_most = {n}})) {
      u(fine + 2 * k) += u(coarse + k);
      u(fine + 2 * k + 1) += 0.5 * (u(coarse + k) + u(coarse + k + 1));
    }
    for (auto k : p.loop("k", 1, twice - 1, {.at_most = {n}}))
      u(fine + k) += c(2) * u(fine + k) * r(fine + k) + c(3) * (r(fine + k - 1) + r(fine + k + 1));
    start = fine;
    m = twice;
  }
  return p.build();
}

/// EP: pairs that are accepted, made normal, counted in rings.
Program accepted_pairs() {
  ProgramBuilder p("accepted_pairs");
  auto n = p.size("n");
  auto x = p.input<double>("x", {2 * n});
  auto q = p.output<double>("q", {10}), sums = p.output<double>("sums", {2});
  for (auto i : p.loop("i", 10)) q(i) = 0.0;
  auto sx = p.scalar<double>("sx", 0), sy = p.scalar<double>("sy", 0);
  for (auto i : p.loop("i", n)) {
    auto x1 = x(2 * i), x2 = x(2 * i + 1);
    auto t1 = p.let("t1", x1 * x1 + x2 * x2);
    p.when(t1 <= 1.0 && t1 > 1e-4, [&] {
      auto t2 = p.let("t2", sqrt(-2.0 * log(t1) / t1));
      auto t3 = p.let("t3", x1 * t2), t4 = p.let("t4", x2 * t2);
      auto l = p.let("l", min(cast<std::int64_t>(max(abs(t3), abs(t4))), 9));
      q(l) += t3 * t3;
      sx += t3;
      sy += t4;
    });
  }
  sums(0) = sx;
  sums(1) = sy;
  return p.build();
}

/// lavaMD: boxes with lists of neighbour boxes, a fixed number of particles in each.
Program boxes() {
  ProgramBuilder p("boxes");
  auto nb = p.size("nb"), per = p.size("per"), nn = p.size("nn");
  auto count = p.input<int>("count", {nb}), near = p.input<int>("near", {nb, nn});
  auto rv = p.input<float>("rv", {nb * per, 4}), qv = p.input<float>("qv", {nb * per}),
       alpha = p.input<float>("alpha", {});
  auto fv = p.output<float>("fv", {nb * per, 4});
  p.in_range(count, 0, nn + 1);
  p.in_range(near, 0, nb);
  auto a2 = p.let("a2", 2.0f * alpha() * alpha());
  for (auto [i, c] : p.loop({"i", nb * per}, {"c", 4})) fv(i, c) = 0.0f;
  for (auto l : p.loop("l", nb))
    for (auto k : p.loop("k", 1 + count(l))) {
      auto pointer = p.let("pointer", select(k == 0, l, cast<std::int64_t>(near(l, max(k - 1, 0)))));
      for (auto i : p.loop("i", per))
        for (auto j : p.loop("j", per)) {
          auto ai = l * per + i, bj = p.let("bj", pointer * per + j);
          auto r2 = p.let(
              "r2", rv(ai, 0) + rv(bj, 0) - (rv(ai, 1) * rv(bj, 1) + rv(ai, 2) * rv(bj, 2) + rv(ai, 3) * rv(bj, 3)));
          auto vij = p.let("vij", exp(-a2 * r2)), fs = p.let("fs", 2.0f * vij);
          fv(ai, 0) += qv(bj) * vij;
          for (int c = 1; c < 4; ++c) fv(ai, c) += qv(bj) * (fs * (rv(ai, c) - rv(bj, c)));
        }
    }
  return p.build();
}

/// spmv by coordinates, its entries sorted by row, summed in a scalar that is written when the row ends (as in
/// HeCBench).
Program coordinate_rows() {
  ProgramBuilder p("coordinate_rows");
  auto n = p.size("n"), e = p.size("e");
  auto row = p.input<int>("row", {e}), col = p.input<int>("col", {e});
  auto val = p.input<float>("val", {e}), x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  p.in_range(row, 0, n);
  p.sorted(row);
  p.in_range(col, 0, n);
  for (auto i : p.loop("i", n)) y(i) = 0.0f;
  auto sum = p.scalar<float>("sum", 0);
  for (auto k : p.loop("k", e)) {
    sum += val(k) * x(col(k));
    p.when(k == e - 1 || row(min(k + 1, e - 1)) != row(k), [&] {
      y(row(k)) = sum;
      sum = 0.0f;
    });
  }
  return p.build();
}

/// SHOC: a scan in blocks: sums of blocks, a scan of these, and each block from there.
Program scan_in_blocks() {
  ProgramBuilder p("scan_in_blocks");
  auto blocks = p.size("blocks"), b = p.size("b");
  auto in = p.input<float>("in", {blocks * b});
  auto out = p.output<float>("out", {blocks * b});
  auto sums = p.local<float>("sums", {blocks});
  for (auto k : p.loop("k", blocks)) {
    sums(k) = 0.0f;
    for (auto i : p.loop("i", b)) sums(k) += in(k * b + i) * in(k * b + i);
  }
  auto run = p.scalar<float>("run", 0);
  for (auto k : p.loop("k", blocks)) {
    auto old = p.let("old", sums(k));
    sums(k) = run;
    run += old;
  }
  for (auto k : p.loop("k", blocks)) {
    auto acc = p.scalar<float>("acc", sums(k));
    for (auto i : p.loop("i", b)) {
      acc += in(k * b + i) * in(k * b + i);
      out(k * b + i) = acc * in(k * b + i);
    }
  }
  return p.build();
}

/// heartwall: a template looked for in a window, by sums that are subtracted from each other.
Program template_match() {
  ProgramBuilder p("template_match");
  auto h = p.size("h"), w = p.size("w"), th = p.size("th"), tw = p.size("tw");
  auto img = p.input<float>("img", {h * w}), t = p.input<float>("t", {th * tw});
  auto ncc = p.output<float>("ncc", {h - th + 1, w - tw + 1}), best = p.output<float>("best", {3});
  auto sum = p.local<float>("sum", {h + 1, w + 1}), sq = p.local<float>("sq", {h + 1, w + 1});
  for (auto i : p.loop("i", h + 1)) sum(i, 0) = 0.0f, sq(i, 0) = 0.0f;
  for (auto j : p.loop("j", w + 1)) sum(0, j) = 0.0f, sq(0, j) = 0.0f;
  for (auto i : p.loop("i", h)) {
    auto a = p.scalar<float>("a", 0), b = p.scalar<float>("b", 0);
    for (auto j : p.loop("j", w)) {
      a += img(i * w + j);
      b += img(i * w + j) * img(i * w + j);
      sum(i + 1, j + 1) = sum(i, j + 1) + a;
      sq(i + 1, j + 1) = sq(i, j + 1) + b;
    }
  }
  auto mean = p.scalar<float>("mean", 0), dev = p.scalar<float>("dev", 0);
  for (auto k : p.loop("k", th * tw)) mean += t(k);
  mean /= cast<float>(th * tw);
  for (auto k : p.loop("k", th * tw)) dev += (t(k) - mean) * (t(k) - mean);
  for (auto [i, j] : p.loop({"i", h - th + 1}, {"j", w - tw + 1})) {
    auto s = p.let("s", sum(i + th, j + tw) - sum(i, j + tw) - sum(i + th, j) + sum(i, j));
    auto q = p.let("q", sq(i + th, j + tw) - sq(i, j + tw) - sq(i + th, j) + sq(i, j));
    auto c = p.scalar<float>("c", 0);
    for (auto [u, v] : p.loop({"u", th}, {"v", tw})) c += img((i + u) * w + j + v) * (t(u * tw + v) - mean);
    ncc(i, j) = c / sqrt((q - s * s / cast<float>(th * tw) + 1.0f) * (dev + 0.1f));
  }
  best(0) = -2.0f;
  auto bi = p.scalar<std::int64_t>("bi", 0), bj = p.scalar<std::int64_t>("bj", 0);
  for (auto [i, j] : p.loop({"i", h - th + 1}, {"j", w - tw + 1}))
    p.when(ncc(i, j) > best(0), [&] {
      best(0) = ncc(i, j);
      bi = i;
      bj = j;
    });
  best(1) = cast<float>(bi) * best(0);
  best(2) = cast<float>(bj);
  return p.build();
}

/// CloverLeaf: advection along rows: which cells are upwind and downwind depends on the flux.
Program donor_cells() {
  ProgramBuilder p("donor_cells");
  auto ny = p.size("ny"), nx = p.size("nx");
  auto vol = p.input<double>("vol", {ny, nx + 4}), flux = p.input<double>("flux", {ny, nx + 5});
  auto density = p.inout<double>("density", {ny, nx + 4}), energy = p.inout<double>("energy", {ny, nx + 4});
  auto mass = p.local<double>("mass", {ny, nx + 5}), ener = p.local<double>("ener", {ny, nx + 5});
  for (auto k : p.loop("k", ny))
    for (auto j : p.loop("j", 2, nx + 3)) {
      auto upwind = p.scalar<std::int64_t>("upwind"), donor = p.scalar<std::int64_t>("donor"),
           downwind = p.scalar<std::int64_t>("downwind");
      p.when(flux(k, j) > 0.0, [&] {
         upwind = j - 2;
         donor = j - 1;
         downwind = j;
       }).otherwise([&] {
        upwind = min(j + 1, nx + 3);
        donor = j;
        downwind = j - 1;
      });
      auto sigma = p.let("sigma", abs(0.2 * flux(k, j)) / (1.5 + vol(k, donor)));
      auto diffuw = p.let("diffuw", density(k, donor) - density(k, upwind)),
           diffdw = p.let("diffdw", density(k, downwind) - density(k, donor));
      auto wind = p.scalar<double>("wind", 1.0), limiter = p.scalar<double>("limiter", 0.0);
      p.when(diffdw <= 0.0, [&] { wind = -1.0; });
      p.when(diffuw * diffdw > 0.0, [&] {
        limiter = (1.0 - sigma) * wind *
                  min(min(abs(diffuw), abs(diffdw)), (abs(diffuw) * (1.0 + sigma) + abs(diffdw) * (2.0 - sigma)) / 6.0);
      });
      mass(k, j) = 0.2 * flux(k, j) * (density(k, donor) + limiter);
      ener(k, j) = mass(k, j) * energy(k, donor);
    }
  for (auto k : p.loop("k", ny))
    for (auto j : p.loop("j", 2, nx + 2)) {
      auto pre = p.let("pre", (3.0 + density(k, j)) * (1.5 + vol(k, j)));
      auto post = p.let("post", pre + mass(k, j) - mass(k, j + 1));
      energy(k, j) = (energy(k, j) * pre + ener(k, j) - ener(k, j + 1)) / post;
      density(k, j) = post / (1.5 + vol(k, j) + 0.2 * (flux(k, j) - flux(k, j + 1))) - 3.0;
    }
  return p.build();
}

}  // namespace

std::vector<Field> miniapps() {
  return {
      {{"corner_sweeps", "", corner_sweeps, {{"nx", 101}, {"ny", 83}, {"na", 31}}},
       {{{"nx", 3}, {"ny", 2}, {"na", 2}}, {{"nx", 1}, {"ny", 1}, {"na", 1}}, {{"nx", 2}, {"ny", 4}, {"na", 3}}}},
      {{"flat_levels", "", flat_levels, {{"levels", 19}, {"n", 524289}}},
       {{{"levels", 3}, {"n", 9}}, {{"levels", 1}, {"n", 3}}, {{"levels", 2}, {"n", 5}}}},
      {{"accepted_pairs", "", accepted_pairs, {{"n", 1000003}}}, {{{"n", 7}}, {{"n", 1}}, {{"n", 22}}}},
      {{"boxes", "", boxes, {{"nb", 64}, {"per", 37}, {"nn", 26}}},
       {{{"nb", 3}, {"per", 2}, {"nn", 2}}, {{"nb", 1}, {"per", 1}, {"nn", 1}}, {{"nb", 4}, {"per", 3}, {"nn", 3}}}},
      {{"coordinate_rows", "", coordinate_rows, {{"n", 200003}, {"e", 2000003}}},
       {{{"n", 4}, {"e", 9}}, {{"n", 1}, {"e", 1}}, {{"n", 7}, {"e", 12}}}},
      {{"scan_in_blocks", "", scan_in_blocks, {{"blocks", 4001}, {"b", 509}}},
       {{{"blocks", 3}, {"b", 4}}, {{"blocks", 1}, {"b", 1}}, {{"blocks", 5}, {"b", 3}}}},
      {{"template_match", "", template_match, {{"h", 201}, {"w", 303}, {"th", 11}, {"tw", 13}}},
       {{{"h", 5}, {"w", 4}, {"th", 2}, {"tw", 3}},
        {{"h", 2}, {"w", 2}, {"th", 1}, {"tw", 1}},
        {{"h", 4}, {"w", 6}, {"th", 3}, {"tw", 2}}}},
      {{"donor_cells", "", donor_cells, {{"ny", 601}, {"nx", 803}}},
       {{{"ny", 2}, {"nx", 3}}, {{"ny", 1}, {"nx", 1}}, {{"ny", 3}, {"nx", 7}}}}};
}

}  // namespace loopgrad::fields
