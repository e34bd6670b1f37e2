// Iterations that meet where data say: the first of them takes what is there, or they add to it.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Largest message of the edges into each node, edges in any order.
Program scatter_max() {
  ProgramBuilder p("scatter_max");
  auto nodes = p.size("nodes"), edges = p.size("edges"), d = p.size("d");
  auto src = p.input<int>("src", {edges}), dst = p.input<int>("dst", {edges});
  auto x = p.input<float>("x", {nodes, d}), w = p.input<float>("w", {edges});
  auto y = p.output<float>("y", {nodes, d});
  p.in_range(src, 0, nodes), p.in_range(dst, 0, nodes);
  for (auto v : p.loop("v", nodes))
    for (auto k : p.loop("k", d)) y(v, k) = -10;
  for (auto e : p.loop("e", edges))
    for (auto k : p.loop("k", d)) y(dst(e), k).max_with(x(src(e), k) * w(e));
  for (auto v : p.loop("v", nodes))
    for (auto k : p.loop("k", d)) y(v, k) = y(v, k) * y(v, k);
  return p.build();
}

/// Depth of the nearest fragment in each pixel.
Program z_buffer() {
  ProgramBuilder p("z_buffer");
  auto points = p.size("points"), h = p.size("h"), w = p.size("w");
  auto px = p.input<float>("px", {points}), py = p.input<float>("py", {points}), pz = p.input<float>("pz", {points});
  auto depth = p.output<float>("depth", {h, w});
  for (auto [i, j] : p.loop({"i", h}, {"j", w})) depth(i, j) = 5;
  for (auto q : p.loop("q", points)) {
    auto i = p.let("r", cast<int>(abs(py(q)) * cast<float>(h - 1))),
         j = p.let("c", cast<int>(abs(px(q)) * cast<float>(w - 1)));
    p.when(i < cast<int>(h) && j < cast<int>(w), [&] { depth(i, j).min_with(2 + pz(q)); });
  }
  return p.build();
}

/// A limiter's bounds over the neighbours of both ends of faces, in steps.
Program face_limits() {
  ProgramBuilder p("face_limits");
  auto cells = p.size("cells"), faces = p.size("faces"), steps = p.size("steps");
  auto own = p.input<int>("own", {faces}), nei = p.input<int>("nei", {faces});
  auto q = p.inout<float>("q", {cells});
  p.in_range(own, 0, cells), p.in_range(nei, 0, cells);
  for (auto t : p.loop("t", steps)) {
    auto hi = p.local<float>("hi", {cells});
    for (auto c : p.loop("c", cells)) hi(c) = q(c);
    for (auto f : p.loop("f", faces)) {
      hi(own(f)).max_with(q(nei(f)));
      hi(nei(f)).max_with(q(own(f)));
    }
    for (auto c : p.loop("c", cells)) q(c) = 0.9f * q(c) + 0.1f * hi(c) * hi(c);
  }
  return p.build();
}

/// Motifs along sequences, both of their own lengths, on either strand: the best place, softly.
Program pwm_scan() {
  ProgramBuilder p("pwm_scan");
  auto seqs = p.size("seqs"), letters = p.size("letters"), motifs = p.size("motifs"), cols = p.size("cols");
  auto sptr = p.input<int>("sptr", {seqs + 1}), mptr = p.input<int>("mptr", {motifs + 1}),
       base = p.input<int>("base", {letters});
  auto w = p.input<float>("w", {cols, 4});
  auto out = p.output<float>("out", {seqs, motifs});
  p.csr(sptr, letters), p.csr(mptr, cols), p.in_range(base, 0, 4);
  for (auto s : p.loop("s", seqs))
    for (auto m : p.loop("m", motifs)) {
      auto width = p.let("width", mptr(m + 1) - mptr(m));
      auto top = p.scalar<float>("top", 0), z = p.scalar<float>("z", 1);
      for (auto pos : p.loop("pos", sptr(s), sptr(s + 1) - width + 1)) {
        auto fwd = p.scalar<float>("fwd", 0), rev = p.scalar<float>("rev", 0);
        for (auto c : p.loop("c", width)) {
          fwd += w(mptr(m) + c, base(pos + c));
          rev += w(mptr(m) + c, 3 - base(pos + width - 1 - c));
        }
        auto score = p.let("score", max(fwd, rev));
        p.when(score > top, [&] {
           z = z * exp(top - score) + 1;
           top = score;
         }).otherwise([&] { z += exp(score - top); });
      }
      out(s, m) = top + log(z);
    }
  return p.build();
}

/// Which word of a sentence means which one of its translation: rounds of expectations and counts.
Program word_alignment() {
  ProgramBuilder p("word_alignment");
  auto pairs = p.size("pairs"), sw = p.size("sw"), tw = p.size("tw"), vs = p.size("vs"), vt = p.size("vt"),
       rounds = p.size("rounds");
  auto sptr = p.input<int>("sptr", {pairs + 1}), tptr = p.input<int>("tptr", {pairs + 1}),
       src = p.input<int>("src", {sw}), tgt = p.input<int>("tgt", {tw});
  auto prior = p.input<double>("prior", {vs, vt}), weight = p.input<double>("weight", {pairs});
  auto loglik = p.output<double>("loglik", {rounds});
  p.csr(sptr, sw), p.csr(tptr, tw), p.in_range(src, 0, vs), p.in_range(tgt, 0, vt);
  auto t = p.local<double>("t", {vs, vt}), count = p.local<double>("count", {vs, vt});
  for (auto [e, f] : p.loop({"e", vs}, {"f", vt})) t(e, f) = exp(prior(e, f)) / cast<double>(vt);
  for (auto r : p.loop("r", rounds)) {
    for (auto [e, f] : p.loop({"e", vs}, {"f", vt})) count(e, f) = 0.01 * exp(prior(e, f));
    loglik(r) = 0.0;
    for (auto q : p.loop("q", pairs))
      for (auto j : p.loop("j", tptr(q), tptr(q + 1))) {
        auto z = p.scalar<double>("z", 1e-6);
        for (auto i : p.loop("i", sptr(q), sptr(q + 1))) z += t(src(i), tgt(j));
        loglik(r) += log(z) * weight(q);
        for (auto i : p.loop("i", sptr(q), sptr(q + 1)))
          count(src(i), tgt(j)) += (1.0 + weight(q) * weight(q)) * t(src(i), tgt(j)) / z;
      }
    for (auto e : p.loop("e", vs)) {
      auto sum = p.scalar<double>("sum", 0);
      for (auto f : p.loop("f", vt)) sum += count(e, f);
      for (auto f : p.loop("f", vt)) t(e, f) = count(e, f) / sum;
    }
  }
  return p.build();
}

/// Which kinds of two structures with the same rows meet how often.
Program two_rows() {
  ProgramBuilder p("two_rows");
  auto mols = p.size("mols"), a = p.size("a"), b = p.size("b"), kinds = p.size("kinds");
  auto pa = p.input<int>("pa", {mols + 1}), ka = p.input<int>("ka", {a});
  auto pb = p.input<int>("pb", {mols + 1}), kb = p.input<int>("kb", {b});
  auto x = p.input<double>("x", {a}), w = p.input<double>("w", {b});
  auto hist = p.output<double>("hist", {kinds, kinds});
  p.csr(pa, a), p.csr(pb, b), p.in_range(ka, 0, kinds), p.in_range(kb, 0, kinds);
  for (auto [e, f] : p.loop({"e", kinds}, {"f", kinds})) hist(e, f) = 0.0;
  for (auto m : p.loop("m", mols))
    for (auto i : p.loop("i", pa(m), pa(m + 1)))
      for (auto j : p.loop("j", pb(m), pb(m + 1))) hist(ka(i), kb(j)) += x(i) * w(j);
  return p.build();
}

/// Edges between two nodes: what all neighbours of the first one do to the kinds of those of the second.
Program edge_neighbours() {
  ProgramBuilder p("edge_neighbours");
  auto n = p.size("n"), e = p.size("e"), kinds = p.size("kinds"), edges = p.size("edges");
  auto ptr = p.input<int>("ptr", {n + 1}), col = p.input<int>("col", {e}), from = p.input<int>("from", {edges}),
       to = p.input<int>("to", {edges});
  auto x = p.input<double>("x", {n}), t = p.input<double>("t", {kinds, kinds});
  auto kind = p.input<int>("kind", {n});
  auto y = p.output<double>("y", {edges});
  p.csr(ptr, e), p.in_range(col, 0, n), p.in_range(from, 0, n), p.in_range(to, 0, n), p.in_range(kind, 0, kinds);
  for (auto k : p.loop("k", edges)) {
    y(k) = 0.0;
    for (auto i : p.loop("i", ptr(from(k)), ptr(from(k) + 1)))
      for (auto j : p.loop("j", ptr(to(k)), ptr(to(k) + 1)))
        y(k) += t(kind(col(i)), kind(col(j))) * x(col(i)) * x(col(j));
  }
  return p.build();
}

/// Charges of particles into the eight corners of cells of a grid, and the energy of that.
Program deposit8() {
  ProgramBuilder p("deposit8");
  auto n = p.size("n"), g = p.size("g");
  auto x = p.input<double>("x", {n, 3}), q = p.input<double>("q", {n});
  auto rho = p.local<double>("rho", {g + 1, g + 1, g + 1});
  auto e = p.output<double>("e", {1});
  for (auto [i, j, k] : p.loop({"i", g + 1}, {"j", g + 1}, {"k", g + 1})) rho(i, j, k) = 0.0;
  for (auto i : p.loop("i", n)) {
    auto at = [&](int d, const char* name) { return p.let(name, (sin(x(i, d)) * 0.4999 + 0.5) * cast<double>(g)); };
    auto u = at(0, "u"), v = at(1, "v"), w = at(2, "w");
    auto a = p.let("a", cast<int>(floor(u))), b = p.let("b", cast<int>(floor(v))), c = p.let("c", cast<int>(floor(w)));
    for (int s = 0; s < 8; ++s) {
      auto f = [](const Value& to, const Value& cell, int one) {
        return one ? to - cast<double>(cell) : 1.0 - (to - cast<double>(cell));
      };
      rho(a + (s & 1), b + (s >> 1 & 1), c + (s >> 2)) += q(i) * f(u, a, s & 1) * f(v, b, s >> 1 & 1) * f(w, c, s >> 2);
    }
  }
  e(0) = 0.0;
  for (auto [i, j, k] : p.loop({"i", g + 1}, {"j", g + 1}, {"k", g + 1})) e(0) += rho(i, j, k) * rho(i, j, k);
  return p.build();
}

/// A look-up with linear interpolation, at a place that is computed, in one of many tables.
Program table_lookup() {
  ProgramBuilder p("table_lookup");
  auto n = p.size("n"), tables = p.size("tables"), len = p.size("len");
  auto which = p.input<int>("which", {n});
  auto x = p.input<double>("x", {n}), table = p.input<double>("table", {tables, len});
  auto y = p.output<double>("y", {n});
  p.in_range(which, 0, tables);
  for (auto i : p.loop("i", n)) {
    auto u = p.let("u", (sin(x(i)) * 0.4999 + 0.5) * cast<double>(len - 1));
    auto a = p.let("a", cast<int>(floor(u)));
    auto f = u - cast<double>(a);
    y(i) = (1.0 - f) * table(which(i), a) + f * table(which(i), a + 1);
  }
  return p.build();
}

}  // namespace

std::vector<Field> meetings() {
  return {
      {{"scatter_max", "", scatter_max, {{"nodes", 20011}, {"edges", 200003}, {"d", 33}}},
       {{{"nodes", 3}, {"edges", 7}, {"d", 2}}, {{"nodes", 2}, {"edges", 0}, {"d", 1}}}},
      {{"z_buffer", "", z_buffer, {{"points", 1000003}, {"h", 301}, {"w", 257}}},
       {{{"points", 17}, {"h", 3}, {"w", 4}}, {{"points", 1}, {"h", 1}, {"w", 1}}}},
      {{"face_limits", "", face_limits, {{"cells", 50021}, {"faces", 150001}, {"steps", 5}}},
       {{{"cells", 4}, {"faces", 7}, {"steps", 2}}, {{"cells", 1}, {"faces", 1}, {"steps", 1}}}},
      {{"pwm_scan", "", pwm_scan, {{"seqs", 53}, {"letters", 10007}, {"motifs", 17}, {"cols", 151}}},
       {{{"seqs", 2}, {"letters", 9}, {"motifs", 2}, {"cols", 5}},
        {{"seqs", 1}, {"letters", 3}, {"motifs", 1}, {"cols", 2}}}},
      {{"word_alignment",
        "",
        word_alignment,
        {{"pairs", 1501}, {"sw", 15013}, {"tw", 14009}, {"vs", 301}, {"vt", 307}, {"rounds", 5}}},
       {{{"pairs", 2}, {"sw", 5}, {"tw", 7}, {"vs", 3}, {"vt", 4}, {"rounds", 2}},
        {{"pairs", 1}, {"sw", 1}, {"tw", 1}, {"vs", 1}, {"vt", 1}, {"rounds", 1}}}},
      {{"two_rows", "", two_rows, {{"mols", 3001}, {"a", 60013}, {"b", 70001}, {"kinds", 101}}},
       {{{"mols", 3}, {"a", 7}, {"b", 5}, {"kinds", 2}}, {{"mols", 1}, {"a", 0}, {"b", 0}, {"kinds", 1}}}},
      {{"edge_neighbours", "", edge_neighbours, {{"n", 10007}, {"e", 80021}, {"edges", 30011}, {"kinds", 23}}},
       {{{"n", 3}, {"e", 7}, {"edges", 5}, {"kinds", 2}}, {{"n", 1}, {"e", 0}, {"edges", 1}, {"kinds", 1}}}},
      {{"deposit8", "", deposit8, {{"n", 1000003}, {"g", 61}}}, {{{"n", 5}, {"g", 2}}, {{"n", 1}, {"g", 1}}}},
      {{"table_lookup", "", table_lookup, {{"n", 1000003}, {"tables", 67}, {"len", 1001}}},
       {{{"n", 5}, {"tables", 2}, {"len", 3}}}},
  };
}

}  // namespace loopgrad::fields
