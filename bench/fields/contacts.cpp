// Contacts, membranes, networks, beams of hypotheses and books of loans.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// Contact: nodes of one line look for the nearest segment of another; a penalty with friction goes to all three nodes.
Program contact() {
  ProgramBuilder p("contact");
  auto slaves = p.size("slaves"), segments = p.size("segments");
  auto s = p.input<double>("s", {slaves, 2}), slip = p.input<double>("slip", {slaves});
  auto x = p.input<double>("x", {segments + 1, 2}), stiffness = p.input<double>("stiffness", {});
  auto fs = p.output<double>("fs", {slaves, 2}), fx = p.output<double>("fx", {segments + 1, 2});
  auto work = p.output<double>("work", {});
  work() = 0;
  for (auto [i, c] : p.loop({"i0", segments + 1}, {"c0", 2})) fx(i, c) = 0;
  for (auto i : p.loop("i", slaves)) {
    const Vec<2> at = load<2>(s.row(i));
    auto nearest = p.scalar<double>("nearest", 1e30);
    auto best = p.scalar<int>("best", -1);
    for (auto j : p.loop("j", segments)) {
      const Vec<2> d = at - 0.5 * (load<2>(x.row(j)) + load<2>(x.row(j + 1)));
      auto r = p.let("r", dot(d, d));
      p.when(r < nearest, [&] {
        nearest = r;
        best = cast<int>(j);
      });
    }
    store(fs.row(i), Vec<2>::all(0));
    p.when(best >= 0, [&] {
      const Vec<2> a = load<2>(x.row(best)), edge = load<2>(x.row(best + 1)) - a, from = at - a;
      auto l2 = p.let("l2", dot(edge, edge) + 1e-4);
      auto xi = p.let("xi", min(max(dot(from, edge) / l2, 0.0), 1.0));
      auto gap = p.let("gap", (from[1] * edge[0] - from[0] * edge[1]) / sqrt(l2) - 0.1);
      p.when(gap < 0, [&] {
        auto pressure = p.let("pressure", -(5 + stiffness()) * gap);
        auto trial = p.let("trial", 3 * slip(i));
        auto shear = p.scalar<double>("shear");
        p.when(abs(trial) > 0.3 * pressure, [&] {
           shear = 0.3 * pressure * select(trial < 0, -1.0, 1.0);
         }).otherwise([&] { shear = trial; });
        work() += 0.5 * pressure * abs(gap) + abs(shear * slip(i));
        for (auto c : p.loop("c", 2)) {
          auto t = p.let("t", select(c == 0, edge[0], edge[1]) / sqrt(l2));
          auto n = p.let("n", select(c == 0, -edge[1], edge[0]) / sqrt(l2));
          auto f = p.let("f", pressure * n - shear * t);
          fs(i, c) += f;
          fx(best, c) -= (1 - xi) * f;
          fx(best + 1, c) -= xi * f;
        }
      });
    });
  }
  return p.build();
}

/// Cohesive zones: a chain of bulk elements with interfaces that soften as their largest opening grows, explicit in
/// time.
Program cohesive_zone() {
  ProgramBuilder p("cohesive_zone");
  auto n = p.size("n"), steps = p.size("steps");
  auto mass = p.input<double>("mass", {n}), strength = p.input<float>("strength", {n}),
       energy = p.input<float>("energy", {n});
  auto pull = p.input<double>("pull", {steps});
  auto u = p.inout<double>("u", {n, 2}), v = p.inout<double>("v", {n, 2});
  auto worst = p.inout<double>("worst", {n});
  auto lost = p.output<double>("lost", {steps});
  auto f = p.local<double>("f", {n, 2});
  for (auto t : p.loop("t", steps)) {
    for (auto [i, c] : p.loop({"i0", n}, {"c0", 2})) f(i, c) = 0;
    f(n - 1, 1) = 2 + pull(t);
    lost(t) = 0;
    for (auto e : p.loop("e", n)) {  // bulk: from the left to the right node of a segment
      auto strain = p.let("strain", u(e, 1) - u(e, 0));
      f(e, 0) += 10 * strain;
      f(e, 1) -= 10 * strain;
    }
    for (auto e : p.loop("e1", n - 1)) {
      auto open = p.let("open", u(e + 1, 0) - u(e, 1));
      auto first = p.let("first", 0.05 + 0.02 * cast<double>(strength(e)));
      auto last = p.let("last", 0.4 + 0.1 * cast<double>(energy(e)));
      worst(e).max_with(open);
      auto damage = p.scalar<double>("damage", 0);
      p.when(worst(e) > first, [&] {
        damage = min(1.0, last * (worst(e) - first) / (worst(e) * (last - first)));
        lost(t) += damage * first;
      });
      auto pressure = p.scalar<double>("pressure");
      pressure = 8 * open;
      p.when(open > 0, [&] { pressure *= 1 - damage; });
      f(e, 1) += pressure;
      f(e + 1, 0) -= pressure;
    }
    for (auto [i, c] : p.loop({"i2", n}, {"c2", 2})) {
      v(i, c) = 0.99 * (v(i, c) + 0.05 * f(i, c) / (1.5 + mass(i)));
      u(i, c) += 0.05 * v(i, c);
    }
    u(0, 0) = 0;
    v(0, 0) = 0;
  }
  return p.build();
}

/// Immersed boundary: a closed fibre pulls on a fluid through a smoothed delta, the fluid relaxes and carries it along.
Program immersed_boundary() {
  ProgramBuilder p("immersed_boundary");
  auto n = p.size("n"), g = p.size("g"), steps = p.size("steps");
  auto spring = p.input<float>("spring", {n});
  auto x = p.inout<float>("x", {n, 2}), u = p.inout<float>("u", {g, g, 2});
  auto force = p.local<float>("force", {g, g, 2}), old = p.local<float>("old", {g, g, 2});
  auto delta = [&](const Value& r) { return select(abs(r) < 2, 0.25f * (1 + cos(1.5707963f * r)), 0.0f); };
  for (auto t : p.loop("t", steps)) {
    (void)t;
    for (auto [i, j, c] : p.loop({"i0", g}, {"j0", g}, {"c0", 2})) force(i, j, c) = 0;
    for (auto k : p.loop("k", n)) {
      const Vec<2> here = load<2>(x.row(k));
      const Vec<2> pull = (1 + spring(k)) * (load<2>(x.row((k + 1) % n)) - here) +
                          (1 + spring((k + n - 1) % n)) * (load<2>(x.row((k + n - 1) % n)) - here);
      auto px = p.let("px", (x(k, 0) * 0.4f + 0.5f) * cast<float>(g)),
           py = p.let("py", (x(k, 1) * 0.4f + 0.5f) * cast<float>(g));
      auto cx = p.scalar<int>("cx"), cy = p.scalar<int>("cy");
      cx = cast<int>(floor(px));
      cy = cast<int>(floor(py));
      for (auto [a, b] : p.loop({"a", 4}, {"b", 4})) {
        auto i = p.let("i", cx + a - 1), j = p.let("j", cy + b - 1);
        auto w = p.let("w", delta(px - cast<float>(i)) * delta(py - cast<float>(j)));
        add_to(force.row((i + 4 * g) % g).row((j + 4 * g) % g), w * pull);
      }
    }
    for (auto [i, j, c] : p.loop({"i1", g}, {"j1", g}, {"c1", 2})) old(i, j, c) = u(i, j, c);
    for (auto [i, j, c] : p.loop({"i2", g}, {"j2", g}, {"c2", 2})) {
      auto around =
          old((i + 1) % g, j, c) + old((i + g - 1) % g, j, c) + old(i, (j + 1) % g, c) + old(i, (j + g - 1) % g, c);
      u(i, j, c) = old(i, j, c) + 0.1f * (around - 4 * old(i, j, c)) + 0.05f * force(i, j, c);
    }
    for (auto k : p.loop("k3", n)) {
      auto px = p.let("px3", (x(k, 0) * 0.4f + 0.5f) * cast<float>(g)),
           py = p.let("py3", (x(k, 1) * 0.4f + 0.5f) * cast<float>(g));
      auto cx = p.scalar<int>("cx3"), cy = p.scalar<int>("cy3");
      cx = cast<int>(floor(px));
      cy = cast<int>(floor(py));
      auto moved = p.local<float>("moved", {2});
      for (auto c : p.loop("c4", 2)) moved(c) = 0;
      for (auto [a, b, c] : p.loop({"a3", 4}, {"b3", 4}, {"c3", 2})) {
        auto i = cx + a - 1, j = cy + b - 1;
        moved(c) += delta(px - cast<float>(i)) * delta(py - cast<float>(j)) * u((i + 4 * g) % g, (j + 4 * g) % g, c);
      }
      for (auto c : p.loop("c5", 2)) x(k, c) = 0.9f * x(k, c) + 0.1f * tanh(moved(c));
    }
  }
  return p.build();
}

/// A graph as edges sorted by their target: runs of equal targets are walked for a softmax, without row starts.
Program sorted_edges() {
  ProgramBuilder p("sorted_edges");
  auto nodes = p.size("nodes"), edges = p.size("edges"), d = p.size("d"), hops = p.size("hops");
  auto to = p.input<int>("to", {edges}), from = p.input<int>("from", {edges});
  p.sorted(to), p.in_range(to, 0, nodes), p.in_range(from, 0, nodes);
  auto h = p.inout<float>("h", {nodes, d});
  auto key = p.input<float>("key", {hops, d}), bias = p.input<float>("bias", {edges});
  auto score = p.local<float>("score", {edges}), largest = p.local<float>("largest", {nodes}),
       sum = p.local<float>("sum", {nodes});
  auto next = p.local<float>("next", {nodes, d});
  for (auto t : p.loop("t", hops)) {
    for (auto v : p.loop("v", nodes)) {
      largest(v) = -1e30f;
      sum(v) = 1e-6f;
      for (auto k : p.loop("k0", d)) next(v, k) = 0.5f * h(v, k);
    }
    for (auto e : p.loop("e", edges)) {
      score(e) = bias(e);
      for (auto k : p.loop("k", d)) score(e) += h(to(e), k) * key(t, k) * h(from(e), k);
      largest(to(e)).max_with(score(e));
    }
    for (auto e : p.loop("e1", edges)) {
      score(e) = exp(score(e) - largest(to(e)));
      sum(to(e)) += score(e);
    }
    for (auto e : p.loop("e2", edges))
      for (auto k : p.loop("k2", d)) next(to(e), k) += score(e) / sum(to(e)) * h(from(e), k);
    for (auto [v, k] : p.loop({"v3", nodes}, {"k3", d})) h(v, k) = tanh(next(v, k));
  }
  return p.build();
}

/// Smoothing of a mesh: vertices move along weighted one-ring averages, out and back (Taubin), then its normals'
/// energy.
Program mesh_smoothing() {
  ProgramBuilder p("mesh_smoothing");
  auto v = p.size("v"), e = p.size("e"), faces = p.size("faces"), rounds = p.size("rounds");
  auto ptr = p.input<int>("ptr", {v + 1}), ring = p.input<int>("ring", {e}), tri = p.input<int>("tri", {faces, 3});
  p.csr(ptr, e), p.in_range(ring, 0, v), p.in_range(tri, 0, v);
  auto start = p.input<float>("start", {v, 3}), pinned = p.input<float>("pinned", {v});
  auto lambda = p.input<float>("lambda", {});
  auto x = p.output<float>("x", {v, 3}), area = p.output<float>("area", {});
  auto normal = p.output<float>("normal", {v, 3});
  auto lap = p.local<float>("lap", {v, 3});
  for (auto [i, c] : p.loop({"i0", v}, {"c0", 3})) x(i, c) = start(i, c);
  for (auto r : p.loop("r", 2 * rounds)) {
    for (auto i : p.loop("i", v)) {
      auto total = p.scalar<float>("total", 1e-3f);
      for (auto c : p.loop("c1", 3)) lap(i, c) = 0;
      for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
        const Vec<3> d = load<3>(x.row(ring(k))) - load<3>(x.row(i));
        auto w = p.let("w", 1 / (0.1f + length(d + Vec<3>::all(1e-3f))));
        total += w;
        add_to(lap.row(i), w * d);
      }
      for (auto c : p.loop("c2", 3)) lap(i, c) /= total;
    }
    auto factor = p.let("factor", select(r % 2 == 0, 0.5f + 0.1f * lambda(), -0.53f));
    for (auto i : p.loop("i3", v))
      p.when(pinned(i) < 0.8f, [&] {
        for (auto c : p.loop("c3", 3)) x(i, c) += factor * lap(i, c);
      });
  }
  area() = 0;
  for (auto [i, c] : p.loop({"i4", v}, {"c4", 3})) normal(i, c) = 0;
  for (auto f : p.loop("f", faces)) {
    const Vec<3> a = load<3>(x.row(tri(f, 0))), b = load<3>(x.row(tri(f, 1))), c = load<3>(x.row(tri(f, 2)));
    const Vec<3> n = cross(b - a, c - a);
    area() += 0.5f * sqrt(dot(n, n) + 1e-6f);
    for (auto k : p.loop("k5", 3)) add_to(normal.row(tri(f, k)), n);
  }
  for (auto i : p.loop("i6", v)) {
    const Vec<3> n = load<3>(normal.row(i));
    auto size = p.let("size", sqrt(dot(n, n) + 1e-4f));
    for (auto c : p.loop("c6", 3)) normal(i, c) /= size;
  }
  return p.build();
}

/// Beam search: the best continuations of all hypotheses by repeated largest, back pointers, and the winner's score.
Program beam_search() {
  ProgramBuilder p("beam_search");
  auto batch = p.size("batch"), steps = p.size("steps"), beam = p.size("beam"), words = p.size("words");
  auto first = p.input<float>("first", {batch, words}), step = p.input<float>("step", {steps, words, words});
  auto bonus = p.input<float>("bonus", {batch, steps});
  auto score = p.output<float>("score", {batch, beam});
  auto last = p.output<int>("last", {batch, beam});
  for (auto b : p.loop("b", batch)) {
    auto all = p.local<float>("all", {beam, words}), kept = p.local<float>("kept", {beam});
    auto word = p.local<int>("word", {beam});
    for (auto k : p.loop("k0", beam)) {
      score(b, k) = select(k == 0, 0.0f, -100.0f);
      last(b, k) = 0;
    }
    for (auto t : p.loop("t", steps)) {
      for (auto [k, w] : p.loop({"k1", beam}, {"w1", words}))
        all(k, w) = 0.9f * score(b, k) + step(t, last(b, k), w) + select(t == 0, first(b, w), 0.0f);
      for (auto r : p.loop("r", beam)) {
        auto bk = p.scalar<int>("bk", 0), bw = p.scalar<int>("bw", 0);
        auto best = p.scalar<float>("best", -1e30f);
        for (auto [k, w] : p.loop({"k2", beam}, {"w2", words}))
          p.when(all(k, w) > best, [&] {
            best = all(k, w);
            bk = cast<int>(k);
            bw = cast<int>(w);
          });
        kept(r) = all(bk, bw) + bonus(b, t);
        word(r) = bw;
        all(bk, bw) = -1e30f;
      }
      for (auto k : p.loop("k3", beam)) {
        score(b, k) = kept(k);
        last(b, k) = word(k);
      }
    }
  }
  return p.build();
}

/// Traffic: flows choose among routes by their costs, links get slower with load, averaged over rounds.
Program traffic() {
  ProgramBuilder p("traffic");
  auto links = p.size("links"), routes = p.size("routes"), uses = p.size("uses"), trips = p.size("trips"),
       rounds = p.size("rounds");
  auto of_trip = p.input<int>("of_trip", {trips + 1}), of_route = p.input<int>("of_route", {routes + 1});
  auto link = p.input<int>("link", {uses});
  p.csr(of_trip, routes), p.csr(of_route, uses), p.in_range(link, 0, links);
  auto demand = p.input<double>("demand", {trips}), free = p.input<double>("free", {links}),
       room = p.input<double>("room", {links});
  auto theta = p.input<double>("theta", {});
  auto total = p.output<double>("total", {}), share = p.output<float>("share", {routes});
  auto load = p.local<double>("load", {links}), cost = p.local<double>("cost", {links}),
       flow = p.local<double>("flow", {routes});
  auto length = p.local<double>("length", {routes});
  for (auto r : p.loop("r0", routes)) flow(r) = 0;
  for (auto t : p.loop("t", rounds)) {
    for (auto l : p.loop("l", links)) load(l) = 0;
    for (auto r : p.loop("r1", routes))
      for (auto k : p.loop("k1", of_route(r), of_route(r + 1))) load(link(k)) += flow(r);
    for (auto l : p.loop("l2", links)) {
      auto x = p.let("x", load(l) / (3 + room(l)));
      cost(l) = (1 + 0.5 * free(l)) * (1 + 0.15 * pow(x, 4));
    }
    for (auto r : p.loop("r3", routes)) {
      length(r) = 0;
      for (auto k : p.loop("k3", of_route(r), of_route(r + 1))) length(r) += cost(link(k));
    }
    for (auto o : p.loop("o", trips)) {
      auto least = p.scalar<double>("least", 1e30), sum = p.scalar<double>("sum", 0);
      for (auto r : p.loop("r4", of_trip(o), of_trip(o + 1))) least.min_with(length(r));
      for (auto r : p.loop("r5", of_trip(o), of_trip(o + 1))) sum += exp((least - length(r)) * (1 + 0.5 * theta()));
      for (auto r : p.loop("r6", of_trip(o), of_trip(o + 1))) {
        auto w = p.let("w", exp((least - length(r)) * (1 + 0.5 * theta())) / sum);
        flow(r) += ((1 + demand(o)) * w - flow(r)) / cast<double>(t + 1);
        share(r) = cast<float>(w);
      }
    }
  }
  total() = 0;
  for (auto l : p.loop("l7", links)) total() += load(l) * cost(l);
  return p.build();
}

/// A book of loans: each with its own maturity, in classes of rating that migrate, with prepayment and discounting.
Program loan_book() {
  ProgramBuilder p("loan_book");
  auto loans = p.size("loans"), most = p.size("most"), k = p.size("k");
  auto months = p.input<int>("months", {loans}), rating = p.input<int>("rating", {loans});
  p.in_range(months, 0, most + 1), p.in_range(rating, 0, k);
  auto logit = p.input<double>("logit", {k, k + 1}), curve = p.input<double>("curve", {most});
  auto coupon = p.input<float>("coupon", {loans}), prepay = p.input<float>("prepay", {k});
  auto value = p.output<double>("value", {loans}), cash = p.output<double>("cash", {most}),
       loss = p.output<double>("loss", {k});
  auto move = p.local<double>("move", {k, k + 1}), discount = p.local<double>("discount", {most + 1});
  for (auto a : p.loop("a", k)) {  // the last column is default
    auto sum = p.scalar<double>("sum", 0);
    loss(a) = 0;
    for (auto b : p.loop("b", k + 1)) sum += exp(logit(a, b) - 2 * abs(cast<double>(a - b)));
    for (auto b : p.loop("b1", k + 1)) move(a, b) = exp(logit(a, b) - 2 * abs(cast<double>(a - b))) / sum;
  }
  discount(0) = 1;
  for (auto t : p.loop("t", most)) {
    cash(t) = 0;
    discount(t + 1) = discount(t) / (1.01 + 0.01 * curve(t));
  }
  for (auto i : p.loop("i", loans)) {
    auto at = p.local<double>("at", {k}), next = p.local<double>("next", {k});
    auto rate = p.let("rate", 0.02 + 0.01 * cast<double>(coupon(i)));
    for (auto a : p.loop("a0", k)) at(a) = 0;
    at(rating(i)) = 1;
    value(i) = 0;
    for (auto t : p.loop("t1", months(i))) {
      auto paid = p.scalar<double>("paid", 0);
      for (auto a : p.loop("a1", k)) next(a) = 0;
      for (auto a : p.loop("a2", k)) {
        auto early = p.let("early", 0.05 * sigmoid(cast<double>(prepay(a))));
        paid += at(a) * (rate + early);
        loss(a) += 0.4 * at(a) * move(a, k) * discount(t + 1);
        for (auto b : p.loop("b2", k)) next(b) += at(a) * (1 - early) * move(a, b);
      }
      for (auto a : p.loop("a3", k)) at(a) = next(a);
      cash(t) += paid;
      value(i) += paid * discount(t + 1);
    }
    for (auto a : p.loop("a4", k)) value(i) += at(a) * discount(months(i));
  }
  return p.build();
}

}  // namespace

std::vector<Field> contacts() {
  return {
      {{"contact", "", contact, {{"slaves", 4001}, {"segments", 1003}}},
       {{{"slaves", 7}, {"segments", 4}}, {{"slaves", 1}, {"segments", 1}}, {{"slaves", 12}, {"segments", 2}}}},
      {{"cohesive_zone", "", cohesive_zone, {{"n", 50021}, {"steps", 60}}},
       {{{"n", 5}, {"steps", 4}}, {{"n", 1}, {"steps", 1}}, {{"n", 9}, {"steps", 3}}}},
      {{"immersed_boundary", "", immersed_boundary, {{"n", 5003}, {"g", 255}, {"steps", 10}}},
       {{{"n", 4}, {"g", 6}, {"steps", 2}}, {{"n", 1}, {"g", 1}, {"steps", 1}}, {{"n", 3}, {"g", 3}, {"steps", 2}}}},
      {{"sorted_edges", "", sorted_edges, {{"nodes", 10007}, {"edges", 100003}, {"d", 17}, {"hops", 3}}},
       {{{"nodes", 4}, {"edges", 7}, {"d", 2}, {"hops", 2}},
        {{"nodes", 1}, {"edges", 1}, {"d", 1}, {"hops", 1}},
        {{"nodes", 9}, {"edges", 5}, {"d", 3}, {"hops", 1}}}},
      {{"mesh_smoothing", "", mesh_smoothing, {{"v", 20011}, {"e", 120011}, {"faces", 40009}, {"rounds", 5}}},
       {{{"v", 5}, {"e", 11}, {"faces", 4}, {"rounds", 2}},
        {{"v", 1}, {"e", 1}, {"faces", 1}, {"rounds", 1}},
        {{"v", 9}, {"e", 7}, {"faces", 6}, {"rounds", 1}}}},
      {{"beam_search", "", beam_search, {{"batch", 65}, {"steps", 13}, {"beam", 5}, {"words", 501}}},
       {{{"batch", 2}, {"steps", 3}, {"beam", 2}, {"words", 4}},
        {{"batch", 1}, {"steps", 1}, {"beam", 1}, {"words", 1}},
        {{"batch", 3}, {"steps", 2}, {"beam", 3}, {"words", 5}}}},
      {{"traffic",
        "",
        traffic,
        {{"links", 5003}, {"routes", 20011}, {"uses", 200017}, {"trips", 4001}, {"rounds", 10}}},
       {{{"links", 4}, {"routes", 5}, {"uses", 11}, {"trips", 3}, {"rounds", 3}},
        {{"links", 1}, {"routes", 1}, {"uses", 1}, {"trips", 1}, {"rounds", 1}},
        {{"links", 7}, {"routes", 9}, {"uses", 6}, {"trips", 2}, {"rounds", 2}}}},
      {{"loan_book", "", loan_book, {{"loans", 5003}, {"most", 61}, {"k", 8}}},
       {{{"loans", 4}, {"most", 5}, {"k", 3}},
        {{"loans", 1}, {"most", 1}, {"k", 1}},
        {{"loans", 9}, {"most", 3}, {"k", 2}}}},
  };
}

}  // namespace loopgrad::fields
