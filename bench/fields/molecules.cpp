// Crystals, proteins, spectra and reactions.
#include <loopgrad/small.h>

#include "bench/fields/fields.h"
#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

/// Structure factors: atoms under the operations of a space group, complex sums for each reflection, a scale, a
/// residual.
Program reflections() {
  ProgramBuilder p("reflections");
  auto h = p.size("h"), atoms = p.size("atoms"), ops = p.size("ops"), kinds = p.size("kinds");
  auto hkl = p.input<int>("hkl", {h, 3}), turn = p.input<int>("turn", {ops, 3, 3}),
       kind = p.input<int>("kind", {atoms});
  p.in_range(hkl, -4, 5), p.in_range(turn, -1, 2), p.in_range(kind, 0, kinds);
  auto x = p.input<double>("x", {atoms, 3}), b = p.input<double>("b", {atoms}), occ = p.input<double>("occ", {atoms}),
       shift = p.input<double>("shift", {ops, 3}), form = p.input<double>("form", {kinds, 5}),
       seen = p.input<double>("seen", {h});
  auto r = p.output<double>("r", {}), scale = p.output<double>("scale", {});
  auto size = p.local<double>("size", {h});
  auto top = p.scalar<double>("top", 0), bottom = p.scalar<double>("bottom", 1e-3);
  for (auto i : p.loop("i", h)) {
    auto s2 = p.let("s2", 0.02 * cast<double>(hkl(i, 0) * hkl(i, 0) + hkl(i, 1) * hkl(i, 1) + hkl(i, 2) * hkl(i, 2)));
    auto re = p.scalar<double>("re", 0), im = p.scalar<double>("im", 0);
    for (auto a : p.loop("a", atoms)) {
      auto f = p.scalar<double>("f");
      f = form(kind(a), 4);
      for (auto g : p.loop("g", 2)) f += form(kind(a), 2 * g) * exp(-1.0 * abs(form(kind(a), 2 * g + 1)) * s2);
      f *= (1.0 + 0.2 * occ(a)) * exp(-0.5 * (1.0 + b(a)) * s2);
      for (auto o : p.loop("o", ops)) {
        auto phase = p.scalar<double>("phase", 0);
        for (auto c : p.loop("c", 3)) {
          auto turned = p.scalar<double>("turned");
          turned = shift(o, c);
          for (auto d : p.loop("d", 3)) turned += cast<double>(turn(o, c, d)) * x(a, d);
          phase += cast<double>(hkl(i, c)) * turned;
        }
        re += f * cos(6.283185307 * phase);
        im += f * sin(6.283185307 * phase);
      }
    }
    size(i) = sqrt(re * re + im * im + 1e-6);
    top += abs(seen(i)) * size(i);
    bottom += size(i) * size(i);
  }
  scale() = top / bottom;
  r() = 0.0;
  for (auto i : p.loop("i1", h)) r() += abs(abs(seen(i)) - scale() * size(i));
  return p.build();
}

/// A powder's pattern: each line adds to a window of channels whose ends follow from its place and width.
Program powder_pattern() {
  ProgramBuilder p("powder_pattern");
  auto phases = p.size("phases"), lines = p.size("lines"), n = p.size("n");
  auto row = p.input<int>("row", {phases + 1});
  p.csr(row, lines);
  auto d = p.input<double>("d", {lines}), height = p.input<double>("height", {lines}),
       cell = p.input<double>("cell", {phases}), amount = p.input<double>("amount", {phases}),
       shape = p.input<double>("shape", {phases, 4}), background = p.input<double>("background", {5}),
       seen = p.input<double>("seen", {n});
  auto y = p.output<double>("y", {n}), misfit = p.output<double>("misfit", {});
  for (auto i : p.loop("i", n)) {
    auto t = p.let("t", 2.0 * cast<double>(i) / cast<double>(n) - 1.0);
    auto b = p.scalar<double>("b", 0);
    for (auto k : p.loop("k", 5, {.descending = true})) b = b * t + background(k);
    y(i) = b;
  }
  for (auto f : p.loop("f", phases))
    for (auto l : p.loop("l", row(f), row(f + 1))) {
      auto place = p.let("place", (0.5 + 0.4 * d(l)) * (1.0 + 0.01 * cell(f)) * cast<double>(n));
      auto width = p.let("width", 3.0 + shape(f, 0) + abs(shape(f, 1)) * place / cast<double>(n));
      auto eta = p.let("eta", 0.5 + 0.3 * shape(f, 2));
      auto from = p.let("from", max(cast<std::int64_t>(place - 8.0 * width), 0)),
           to = p.let("to", min(cast<std::int64_t>(place + 8.0 * width), n));
      for (auto i : p.loop("i1", from, to, {.at_most = {n}})) {
        auto u = p.let("u", (cast<double>(i) - place) / width);
        auto side = p.let("side", u * (1.0 + 0.1 * shape(f, 3) * select(u < 0, 1.0, -1.0)));
        y(i) += exp(amount(f) + height(l)) * (eta / (1.0 + side * side) + (1.0 - eta) * exp(-0.693 * side * side));
      }
    }
  misfit() = 0.0;
  for (auto i : p.loop("i2", n)) misfit() += (y(i) - seen(i)) * (y(i) - seen(i)) / (1.0 + abs(y(i)));
  return p.build();
}

/// Torsions: four atoms each, a few terms of cosines by the torsion's kind, and the forces on all four.
Program torsions() {
  ProgramBuilder p("torsions");
  auto n = p.size("n"), t = p.size("t"), kinds = p.size("kinds"), terms = p.size("terms");
  auto atom = p.input<int>("atom", {t, 4}), kind = p.input<int>("kind", {t}), row = p.input<int>("row", {kinds + 1}),
       fold = p.input<int>("fold", {terms});
  p.in_range(atom, 0, n), p.in_range(kind, 0, kinds), p.csr(row, terms), p.in_range(fold, 1, 7);
  auto x = p.input<double>("x", {n, 3}), k = p.input<double>("k", {terms}), phase = p.input<double>("phase", {terms});
  auto energy = p.output<double>("energy", {t}), pull = p.output<double>("pull", {n, 3});
  for (auto [i, c] : p.loop({"i", n}, {"c", 3})) pull(i, c) = 0.0;
  for (auto q : p.loop("q", t)) {
    auto at = [&](int j) { return load<3>(x.row(atom(q, j))); };
    const Vec<3> a = at(1) - at(0) + Vec<3>::all(0.1), b = p.let("b", at(2) - at(1) - Vec<3>(0.2, 0.1, 0.3)),
                 c = at(3) - at(2) + Vec<3>(0.3, -0.2, 0.1);
    const Vec<3> m = p.let("m", cross(a, b)), n1 = p.let("n1", cross(b, c));
    auto angle = p.let("angle", atan2(dot(cross(m, n1), b) / (length(b) + 1e-3), dot(m, n1) + 1e-3));
    energy(q) = 0.0;
    auto slope = p.scalar<double>("slope", 0);
    for (auto e : p.loop("e", row(kind(q)), row(kind(q) + 1))) {
      auto v = p.let("v", cast<double>(fold(e)) * angle - phase(e));
      energy(q) += k(e) * (1.0 + cos(v));
      slope -= k(e) * cast<double>(fold(e)) * sin(v);
    }
    add_to(pull.row(atom(q, 0)), slope * m / (dot(m, m) + 0.1));
    add_to(pull.row(atom(q, 3)), -1.0 * slope * n1 / (dot(n1, n1) + 0.1));
  }
  return p.build();
}

/// Solvation: effective radii of atoms by all others within a cutoff, then an energy of pairs that needs both radii.
Program solvation() {
  ProgramBuilder p("solvation");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, 3}), q = p.input<double>("q", {n}), radius = p.input<double>("radius", {n});
  auto energy = p.output<double>("energy", {}), born = p.output<double>("born", {n});
  for (auto i : p.loop("i", n)) {
    auto sum = p.scalar<double>("sum", 0);
    auto mine = p.let("mine", 0.15 + 0.05 * radius(i));
    for (auto j : p.loop("j", n)) {
      auto r2 = p.scalar<double>("r2", 1e-4);
      for (auto c : p.loop("c", 3)) r2 += (x(i, c) - x(j, c)) * (x(i, c) - x(j, c));
      p.when(i != j && r2 < 1.0, [&] {
        auto r = p.let("r", sqrt(r2)), other = p.let("other", 0.8 * (0.15 + 0.05 * radius(j)));
        auto up = p.let("up", r + other), low = p.let("low", max(mine, abs(r - other)));
        p.when(up > mine, [&] {
          sum += 0.5 * (1.0 / low - 1.0 / up + 0.25 * (r - other * other / r) * (1.0 / (up * up) - 1.0 / (low * low)) +
                        0.5 * log(low / up) / r);
        });
      });
    }
    auto psi = p.let("psi", sum * (mine - 0.009));
    born(i) = 1.0 / (1.0 / (mine - 0.009) - tanh(psi - 0.8 * psi * psi + 4.85 * psi * psi * psi) / mine * 0.9);
  }
  energy() = 0.0;
  for (auto i : p.loop("i1", n))
    for (auto j : p.loop("j1", i, n)) {
      auto r2 = p.scalar<double>("r2", 0);
      for (auto c : p.loop("c1", 3)) r2 += (x(i, c) - x(j, c)) * (x(i, c) - x(j, c));
      auto f = sqrt(r2 + born(i) * born(j) * exp(-0.25 * r2 / (born(i) * born(j))));
      energy() -= select(i == j, 0.5, 1.0) * q(i) * q(j) / f;
    }
  return p.build();
}

/// Spectra of peptides: masses add up from both ends, each fragment meets the peaks near it, by two places that move
/// on.
Program peptide_scores() {
  ProgramBuilder p("peptide_scores");
  auto n = p.size("n"), letters = p.size("letters"), peaks = p.size("peaks"), kinds = p.size("kinds");
  auto seq = p.input<int>("seq", {n + 1}), spec = p.input<int>("spec", {n + 1}),
       letter = p.input<int>("letter", {letters});
  p.csr(seq, letters), p.csr(spec, peaks), p.in_range(letter, 0, kinds);
  auto gap = p.input<double>("gap", {peaks}), size = p.input<double>("size", {peaks}),
       mass = p.input<double>("mass", {kinds}), mod = p.input<double>("mod", {letters}),
       tolerance = p.input<double>("tolerance", {});
  auto score = p.output<double>("score", {n, 2});
  auto place = p.local<double>("place", {peaks});
  for (auto s : p.loop("s0", n)) {
    auto at = p.scalar<double>("at", 0.1);
    for (auto k : p.loop("k0", spec(s), spec(s + 1))) {
      at += 0.3 + 0.2 * gap(k);
      place(k) = at;
    }
  }
  for (auto s : p.loop("s", n)) {
    auto wide = p.let("wide", 0.15 + 0.05 * tolerance());
    for (auto end : p.loop("end", 2)) {
      score(s, end) = 0.0;
      auto sum = p.scalar<double>("sum", 0);
      auto here = p.scalar<std::int64_t>("here");
      here = spec(s);
      for (auto a : p.loop("a", seq(s), seq(s + 1))) {
        auto which = select(end == 0, a, seq(s) + seq(s + 1) - 1 - a);
        sum += 0.6 + 0.3 * mass(letter(which)) + 0.05 * mod(which);
        for (auto k : p.loop_while("k", peaks, [&](auto) {
               return here < spec(s + 1) && place(min(here, peaks - 1)) < sum - 3.0 * wide;
             })) {
          (void)k;
          here += 1;
        }
        for (auto k : p.loop("k1", here, min(here + 3, cast<std::int64_t>(spec(s + 1))), {.at_most = {3}})) {
          auto off = p.let("off", (place(k) - sum) / wide);
          p.when(abs(off) < 3.0, [&] { score(s, end) += size(k) * exp(-0.5 * off * off); });
        }
      }
    }
  }
  return p.build();
}

/// Grains of a metal: slip systems in turned lattices, a local Newton iteration with a tolerance, step by step.
Program slip_systems() {
  ProgramBuilder p("slip_systems");
  auto grains = p.size("grains"), systems = p.size("systems"), steps = p.size("steps");
  auto angle = p.input<double>("angle", {grains, 3}), slip = p.input<double>("slip", {systems, 3}),
       normal = p.input<double>("normal", {systems, 3}), hard = p.input<double>("hard", {grains}),
       pull = p.input<double>("pull", {steps});
  auto stress = p.output<double>("stress", {steps}), work = p.output<double>("work", {grains});
  for (auto s : p.loop("s0", steps)) stress(s) = 0.0;
  for (auto g : p.loop("g", grains)) {
    const Mat<3> turn = p.let("turn", [&] {
      const Value a = angle(g, 0), b = angle(g, 1);
      Mat<3> first = Mat<3>::identity(), second = Mat<3>::identity();
      first(0, 0) = cos(a), first(0, 1) = -1.0 * sin(a), first(1, 0) = sin(a), first(1, 1) = cos(a);
      second(1, 1) = cos(b), second(1, 2) = -1.0 * sin(b), second(2, 1) = sin(b), second(2, 2) = cos(b);
      return first * second;
    }());
    auto schmid = p.local<double>("schmid", {systems}), strength = p.local<double>("strength", {systems});
    for (auto k : p.loop("k", systems)) {
      const Vec<3> d = turn * load<3>(slip.row(k)), m = turn * load<3>(normal.row(k));
      schmid(k) = d[0] * m[0] * 0.9 + 0.1 * angle(g, 2);
      strength(k) = 1.0 + 0.3 * hard(g);
    }
    auto sigma = p.scalar<double>("sigma", 0);
    work(g) = 0.0;
    for (auto s : p.loop("s", steps)) {
      auto strain = p.let("strain", 0.2 + 0.1 * pull(s));
      auto old = p.let("old", sigma);
      auto rest = p.scalar<double>("rest", 1.0);
      for (auto it : p.loop_while("it", 15, [&](auto) { return abs(rest) > 1e-8; })) {
        (void)it;
        auto flow = p.scalar<double>("flow", 0), slope = p.scalar<double>("slope", 0);
        for (auto k : p.loop("k1", systems)) {
          auto u = p.let("u", schmid(k) * sigma / strength(k));
          flow += 0.01 * schmid(k) * u * (1.0 + u * u);
          slope += 0.01 * schmid(k) * (1.0 + 3.0 * u * u) * schmid(k) / strength(k);
        }
        rest = sigma - old - 2.0 * (strain - flow);
        sigma -= rest / (1.0 + 2.0 * slope);
      }
      auto total = p.scalar<double>("total", 0);
      for (auto k : p.loop("k2", systems)) total += abs(0.01 * schmid(k) * sigma / strength(k));
      for (auto k : p.loop("k3", systems)) strength(k) += total * (1.0 + 0.2 * hard(g)) / (1.0 + strength(k));
      stress(s) += sigma / cast<double>(grains);
      work(g) += sigma * strain;
    }
  }
  return p.build();
}

/// Reactions by chance: integers draw which one happens next by its share, scores of the parameters along the way.
Program drawn_reactions() {
  ProgramBuilder p("drawn_reactions");
  auto runs = p.size("runs"), reactions = p.size("reactions"), species = p.size("species"), events = p.size("events");
  auto needs = p.input<int>("needs", {reactions, 2}), gives = p.input<int>("gives", {reactions}),
       seed = p.input<int>("seed", {runs});
  p.in_range(needs, 0, species), p.in_range(gives, 0, species), p.in_range(seed, 0, 1000000);
  auto rate = p.input<double>("rate", {reactions}), start = p.input<double>("start", {species});
  auto last = p.output<double>("last", {runs, species}), score = p.output<double>("score", {runs}),
       time = p.output<double>("time", {runs});
  for (auto r : p.loop("r", runs)) {
    auto x = p.local<double>("x", {species});
    for (auto s : p.loop("s", species)) x(s) = 3.0 + start(s);
    auto state = p.scalar<std::int64_t>("state");
    state = seed(r);
    score(r) = 0.0;
    time(r) = 0.0;
    for (auto e : p.loop("e", events)) {
      (void)e;
      state = (state * 1103515245 + 12345) % 2147483648;
      auto share = p.local<double>("share", {reactions});
      auto sum = p.scalar<double>("sum", 0);
      for (auto k : p.loop("k", reactions)) {
        share(k) = exp(rate(k)) * x(needs(k, 0)) * x(needs(k, 1));
        sum += share(k);
      }
      auto rest = p.scalar<double>("rest");
      auto which = p.scalar<std::int64_t>("which", 0);
      rest = sum * cast<double>(state) / 2147483648.0 - share(0);
      for (auto k : p.loop_while("k1", reactions - 1, [&](auto) { return rest > 0; })) {
        which = k + 1;
        rest -= share(k + 1);
      }
      score(r) += log(share(which) / sum);
      time(r) += 1.0 / sum;
      x(needs(which, 0)) *= 0.9;
      x(needs(which, 1)) *= 0.95;
      x(gives(which)) += 0.2;
    }
    for (auto s : p.loop("s1", species)) last(r, s) = x(s);
  }
  return p.build();
}

/// Codons: three letters name a codon, its usage a weight; windows slide, a dip in the running mean is kept per gene.
Program codon_windows() {
  ProgramBuilder p("codon_windows");
  auto genes = p.size("genes"), letters = p.size("letters"), w = p.size("w");
  auto row = p.input<int>("row", {genes + 1}), letter = p.input<int>("letter", {letters});
  p.csr(row, letters), p.in_range(letter, 0, 4);
  auto usage = p.input<float>("usage", {64}), pair = p.input<float>("pair", {64, 64}),
       slow = p.input<float>("slow", {});
  auto index = p.output<float>("index", {genes}), dip = p.output<float>("dip", {genes});
  for (auto g : p.loop("g", genes)) {
    auto codons = p.let("codons", (row(g + 1) - row(g)) / 3);
    auto codon = [&](const Value& k) {
      auto at = row(g) + 3 * k;
      return letter(at) * 16 + letter(at + 1) * 4 + letter(at + 2);
    };
    auto logs = p.scalar<float>("logs", 0), window = p.scalar<float>("window", 0);
    dip(g) = 10.0f;
    for (auto k : p.loop("k", codons)) {
      auto c = p.let("c", codon(k));
      auto weight = p.let("weight", usage(c) + select(k > 0, 0.2f * pair(codon(max(k - 1, 0)), c), 0.0f));
      logs += weight;
      window += exp(weight);
      p.when(k >= w, [&] {
        auto old = p.let("old", codon(k - w));
        window -= exp(usage(old) + select(k > w, 0.2f * pair(codon(max(k - w - 1, 0)), old), 0.0f));
        dip(g).min_with(window * (1.0f + 0.1f * slow()));
      });
    }
    index(g) = logs / cast<float>(codons + 1);
  }
  return p.build();
}

}  // namespace

std::vector<Field> molecules() {
  return {
      {{"reflections", "", reflections, {{"h", 501}, {"atoms", 61}, {"ops", 8}, {"kinds", 5}}},
       {{{"h", 3}, {"atoms", 4}, {"ops", 2}, {"kinds", 2}}, {{"h", 1}, {"atoms", 1}, {"ops", 1}, {"kinds", 1}}}},
      {{"powder_pattern", "", powder_pattern, {{"phases", 5}, {"lines", 1201}, {"n", 10007}}},
       {{{"phases", 2}, {"lines", 5}, {"n", 31}}, {{"phases", 1}, {"lines", 1}, {"n", 3}}}},
      {{"torsions", "", torsions, {{"n", 20011}, {"t", 60013}, {"kinds", 41}, {"terms", 97}}},
       {{{"n", 9}, {"t", 7}, {"kinds", 3}, {"terms", 7}}, {{"n", 5}, {"t", 1}, {"kinds", 1}, {"terms", 2}}}},
      {{"solvation", "", solvation, {{"n", 701}}}, {{{"n", 7}}, {{"n", 1}}}},
      {{"peptide_scores", "", peptide_scores, {{"n", 3001}, {"letters", 40009}, {"peaks", 200003}, {"kinds", 20}}},
       {{{"n", 3}, {"letters", 9}, {"peaks", 13}, {"kinds", 4}},
        {{"n", 1}, {"letters", 2}, {"peaks", 1}, {"kinds", 1}}}},
      {{"slip_systems", "", slip_systems, {{"grains", 401}, {"systems", 12}, {"steps", 41}}},
       {{{"grains", 2}, {"systems", 3}, {"steps", 3}}, {{"grains", 1}, {"systems", 1}, {"steps", 1}}}},
      {{"drawn_reactions", "", drawn_reactions, {{"runs", 301}, {"reactions", 17}, {"species", 11}, {"events", 501}}},
       {{{"runs", 2}, {"reactions", 4}, {"species", 3}, {"events", 6}},
        {{"runs", 1}, {"reactions", 1}, {"species", 1}, {"events", 2}}}},
      {{"codon_windows", "", codon_windows, {{"genes", 2003}, {"letters", 1500007}, {"w", 17}}},
       {{{"genes", 3}, {"letters", 47}, {"w", 2}}, {{"genes", 1}, {"letters", 3}, {"w", 1}}}},
  };
}

}  // namespace loopgrad::fields
