// Nets of neurons, registers of qubits, circuits: states that lists of elements change, step by step.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Hodgkin and Huxley's membrane along cables of `c` compartments each (flattened), with synapses from a list.
Program hodgkin_huxley() {
  ProgramBuilder p("hodgkin_huxley");
  auto cells = p.size("cells"), c = p.size("c"), syn = p.size("syn"), steps = p.size("steps");
  auto pre = p.input<int>("pre", {syn}), post = p.input<int>("post", {syn});
  p.in_range(pre, 0, cells), p.in_range(post, 0, cells * c);
  auto weight = p.input<double>("weight", {syn}), drive = p.input<double>("drive", {cells});
  auto axial = p.input<double>("axial", {cells * c}), g = p.input<double>("g", {3});
  auto v = p.inout<double>("v", {cells * c});
  auto spikes = p.output<double>("spikes", {steps, cells});
  auto m = p.local<double>("m", {cells * c}), h = p.local<double>("h", {cells * c}),
       n = p.local<double>("n", {cells * c});
  auto current = p.local<double>("current", {cells * c});
  for (auto i : p.loop("i0", cells * c)) m(i) = 0.05, h(i) = 0.6, n(i) = 0.32;
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i1", cells * c)) current(i) = 0.0;
    for (auto e : p.loop("e", syn)) {
      auto gate = p.let("gate", sigmoid(4.0 * v(pre(e) * c + c - 1) - 1.0));
      current(post(e)) += 0.1 * weight(e) * gate * (0.5 - v(post(e)));
    }
    for (auto [k, j] : p.loop({"k", cells}, {"j", c})) {
      auto i = k * c + j;
      auto u = p.let("u", v(i));
      auto near = p.scalar<double>("near", 0.0);
      p.when(j > 0, [&] { near += (1.0 + 0.3 * axial(i)) * (v(i - 1) - u); });
      p.when(j + 1 < c, [&] { near += (1.0 + 0.3 * axial(i + 1)) * (v(i + 1) - u); });
      p.when(j == 0, [&] { near += drive(k); });
      auto ion = p.let("ion", (1.2 + g(0)) * m(i) * m(i) * m(i) * h(i) * (u - 1.15) +
                                  (0.36 + 0.2 * g(1)) * pow(n(i), 4.0) * (u + 0.12) + (0.03 + 0.01 * g(2)) * (u - 0.1));
      current(i) += 0.2 * near - ion;
    }
    for (auto i : p.loop("i2", cells * c)) {
      auto u = p.let("u2", v(i));
      m(i) += 0.1 * (sigmoid(6.0 * u - 1.5) - m(i));
      h(i) += 0.05 * (sigmoid(1.0 - 5.0 * u) - h(i));
      n(i) += 0.05 * (sigmoid(4.0 * u - 1.0) - n(i));
      v(i) += 0.1 * current(i);
    }
    for (auto k : p.loop("k2", cells)) spikes(t, k) = max(v(k * c + c - 1) - 0.2, 0.0);
  }
  return p.build();
}

/// Rotations of single qubits and controlled phases in a list; amplitudes change in place, addressed by bits.
Program qubit_circuit() {
  ProgramBuilder p("qubit_circuit");
  auto q = p.size("q"), dim = p.size("dim"), gates = p.size("gates");
  auto kind = p.input<int>("kind", {gates}), target = p.input<int>("target", {gates}),
       control = p.input<int>("control", {gates});
  p.in_range(kind, 0, 3), p.in_range(target, 0, q), p.in_range(control, 0, q);
  auto theta = p.input<double>("theta", {gates});
  auto bit = p.input<int>("bit", {q});
  p.in_range(bit, 1, dim / 2 + 1);
  auto re = p.inout<double>("re", {dim}), im = p.inout<double>("im", {dim});
  auto z = p.output<double>("z", {q});
  for (auto g : p.loop("g", gates)) {
    auto stride = p.let("stride", cast<std::int64_t>(bit(target(g))));
    auto other = p.let("other", cast<std::int64_t>(bit(control(g))));
    auto c = p.let("c", cos(0.5 * theta(g))), s = p.let("s", sin(0.5 * theta(g)));
    p.when(kind(g) == 0,
           [&] {  // about y
             for (auto k : p.loop("k", dim / 2)) {
               auto a = p.let("a", (k / stride) * 2 * stride + k % stride), b = p.let("b", a + stride);
               p.when(b < dim, [&] {
                 auto ar = p.let("ar", re(a)), ai = p.let("ai", im(a)), br = p.let("br", re(b)),
                      bi = p.let("bi", im(b));
                 re(a) = c * ar - s * br;
                 im(a) = c * ai - s * bi;
                 re(b) = s * ar + c * br;
                 im(b) = s * ai + c * bi;
               });
             }
           })
        .otherwise([&] {
          p.when(kind(g) == 1,
                 [&] {  // about z
                   for (auto k : p.loop("k2", dim)) {
                     auto sign = p.let("sign", select((k / stride) % 2 == 1, s, -s));
                     auto r = p.let("r", re(k)), i = p.let("i", im(k));
                     re(k) = c * r - sign * i;
                     im(k) = sign * r + c * i;
                   }
                 })
              .otherwise([&] {  // a phase where both are set
                for (auto k : p.loop("k3", dim))
                  p.when((k / stride) % 2 == 1 && (k / other) % 2 == 1, [&] {
                    auto r = p.let("r2", re(k)), i = p.let("i2", im(k));
                    re(k) = c * r - s * i;
                    im(k) = s * r + c * i;
                  });
              });
        });
  }
  for (auto j : p.loop("j", q)) {
    z(j) = 0.0;
    for (auto k : p.loop("k4", dim)) {
      auto size = p.let("size", re(k) * re(k) + im(k) * im(k));
      z(j) += select((k / bit(j)) % 2 == 0, size, -size);
    }
  }
  return p.build();
}

/// Trotter steps of a transverse Ising chain: a diagonal phase, then each qubit turned; the bit doubles from qubit to
/// qubit.
Program trotter_ising() {
  ProgramBuilder p("trotter_ising");
  auto q = p.size("q"), dim = p.size("dim"), steps = p.size("steps");
  auto coupling = p.input<float>("coupling", {q}), field = p.input<float>("field", {q});
  auto re = p.inout<float>("re", {dim}), im = p.inout<float>("im", {dim});
  for (auto t : p.loop("t", steps)) {
    (void)t;
    for (auto k : p.loop("k", dim)) {
      auto e = p.scalar<float>("e", 0);
      auto rest = p.scalar<std::int64_t>("rest", 0), last = p.scalar<std::int64_t>("last", 0),
           now = p.scalar<std::int64_t>("now", 0);
      rest = k;
      for (auto j : p.loop("j", q)) {
        now = rest % 2;
        p.when(j > 0, [&] { e += coupling(j) * select(now == last, cast<float>(Value(1)), cast<float>(Value(-1))); });
        last = now;
        rest = rest / 2;
      }
      auto c = p.let("c", cos(0.1f * e)), s = p.let("s", sin(0.1f * e)), r = p.let("r", re(k)), i = p.let("i", im(k));
      re(k) = c * r - s * i;
      im(k) = s * r + c * i;
    }
    auto bit = p.scalar<std::int64_t>("bit", 1);
    for (auto j : p.loop("j2", q)) {
      auto c = p.let("c2", cos(0.1f * field(j))), s = p.let("s2", sin(0.1f * field(j)));
      for (auto k : p.loop("k2", dim))
        p.when((k / bit) % 2 == 0 && k + bit < dim, [&] {
          auto ar = p.let("ar", re(k)), ai = p.let("ai", im(k)), br = p.let("br", re(k + bit)),
               bi = p.let("bi", im(k + bit));
          re(k) = c * ar + s * bi;
          im(k) = c * ai - s * br;
          re(k + bit) = c * br + s * ai;
          im(k + bit) = c * bi - s * ar;
        });
      bit = 2 * bit;
    }
  }
  return p.build();
}

/// The overlap of two matrix product states: an environment goes along the chain.
Program mps_overlap() {
  ProgramBuilder p("mps_overlap");
  auto sites = p.size("sites"), d = p.size("d"), chains = p.size("chains");
  auto a = p.input<float>("a", {chains, sites, 2, d, d}), b = p.input<float>("b", {sites, 2, d, d});
  auto out = p.output<float>("out", {chains});
  for (auto c : p.loop("c", chains)) {
    auto env = p.local<float>("env", {d, d}), half = p.local<float>("half", {2, d, d});
    for (auto [x, y] : p.loop({"x0", d}, {"y0", d}))
      env(x, y) = select(x == y, cast<float>(Value(1)), cast<float>(Value(0)));
    auto scale = p.scalar<float>("scale", 0);
    for (auto s : p.loop("s", sites)) {
      for (auto [o, x, y] : p.loop({"o", 2}, {"x", d}, {"y", d})) {
        half(o, x, y) = 0.0f;
        for (auto k : p.loop("k", d)) half(o, x, y) += env(k, y) * a.at({c, s, o, k, x});
      }
      auto norm = p.scalar<float>("norm", 0.1f);
      for (auto [x, y] : p.loop({"x1", d}, {"y1", d})) {
        env(x, y) = 0.0f;
        for (auto o : p.loop("o1", 2))
          for (auto k : p.loop("k1", d)) env(x, y) += half(o, x, k) * b(s, o, k, y);
        norm += env(x, y) * env(x, y);
      }
      for (auto [x, y] : p.loop({"x2", d}, {"y2", d})) env(x, y) = env(x, y) / sqrt(norm);
      scale += 0.5f * log(norm);
    }
    out(c) = scale;
    for (auto x : p.loop("x3", d)) out(c) += env(x, x);
  }
  return p.build();
}

/// A transient: resistors, capacitors and diodes in lists stamp currents and slopes; a few relaxations a step.
Program spice_transient() {
  ProgramBuilder p("spice_transient");
  auto nodes = p.size("nodes"), rs = p.size("rs"), cs = p.size("cs"), ds = p.size("ds"), steps = p.size("steps");
  auto ra = p.input<int>("ra", {rs}), rb = p.input<int>("rb", {rs}), ca = p.input<int>("ca", {cs}),
       da = p.input<int>("da", {ds}), db = p.input<int>("db", {ds});
  for (auto x : {ra, rb, ca, da, db}) p.in_range(x, 0, nodes);
  auto g = p.input<double>("g", {rs}), cap = p.input<double>("cap", {cs}), sat = p.input<double>("sat", {ds});
  auto source = p.input<double>("source", {steps});
  auto v = p.inout<double>("v", {nodes});
  auto probe = p.output<double>("probe", {steps});
  auto f = p.local<double>("f", {nodes}), slope = p.local<double>("slope", {nodes}),
       old = p.local<double>("old", {nodes});
  for (auto t : p.loop("t", steps)) {
    for (auto i : p.loop("i0", nodes)) old(i) = v(i);
    for (auto r : p.loop("r", 3)) {
      (void)r;
      for (auto i : p.loop("i1", nodes)) f(i) = 0.01 * v(i), slope(i) = 0.5;
      f(0) -= source(t);
      for (auto e : p.loop("e", rs)) {
        auto now = p.let("now", (1.0 + 0.5 * g(e)) * (v(ra(e)) - v(rb(e))));
        f(ra(e)) += now;
        f(rb(e)) -= now;
        slope(ra(e)) += 1.0 + 0.5 * g(e);
        slope(rb(e)) += 1.0 + 0.5 * g(e);
      }
      for (auto e : p.loop("e1", cs)) {
        f(ca(e)) += (2.0 + cap(e)) * (v(ca(e)) - old(ca(e)));
        slope(ca(e)) += 2.0 + cap(e);
      }
      for (auto e : p.loop("e2", ds)) {
        auto drop = p.let("drop", v(da(e)) - v(db(e)));
        auto grow = p.let("grow", (0.1 + 0.05 * sat(e)) * exp(min(2.0 * drop, 3.0)));
        f(da(e)) += grow - 0.1;
        f(db(e)) -= grow - 0.1;
        slope(da(e)) += select(2.0 * drop < 3.0, 2.0 * grow, Value(0.0));
        slope(db(e)) += select(2.0 * drop < 3.0, 2.0 * grow, Value(0.0));
      }
      for (auto i : p.loop("i2", nodes)) v(i) -= f(i) / slope(i);
    }
    probe(t) = v(nodes - 1);
  }
  return p.build();
}

/// Flows of power: each bus has the ends of its branches, branch*2 + side; taps of transformers and limits of branches.
Program branch_flows() {
  ProgramBuilder p("branch_flows");
  auto buses = p.size("buses"), branches = p.size("branches");
  auto ptr = p.input<int>("ptr", {buses + 1}), end = p.input<int>("end", {2 * branches}),
       bus = p.input<int>("bus", {2 * branches});
  p.csr(ptr, 2 * branches), p.in_range(end, 0, 2 * branches), p.in_range(bus, 0, buses);
  auto g = p.input<double>("g", {branches}), b = p.input<double>("b", {branches}),
       tap = p.input<double>("tap", {branches}), limit = p.input<double>("limit", {branches});
  auto vm = p.input<double>("vm", {buses}), va = p.input<double>("va", {buses});
  auto active = p.output<double>("active", {buses}), reactive = p.output<double>("reactive", {buses}),
       over = p.output<double>("over", {});
  over() = 0.0;
  for (auto i : p.loop("i", buses)) {
    active(i) = 0.0, reactive(i) = 0.0;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
      auto l = p.let("l", end(k) / 2), side = p.let("side", end(k) % 2);
      auto far = p.let("far", bus(2 * l + 1 - side));
      auto ratio = p.let("ratio", 1.0 + 0.1 * tap(l));
      auto angle = p.let("angle", va(i) - va(far));
      auto mine = p.let("mine", (1.0 + 0.1 * vm(i)) / select(side == 0, ratio, Value(1.0)));
      auto theirs = p.let("theirs", (1.0 + 0.1 * vm(far)) / select(side == 0, Value(1.0), ratio));
      auto c = p.let("c", cos(angle)), s = p.let("s", sin(angle));
      auto pk = p.let("pk", mine * mine * g(l) - mine * theirs * (g(l) * c + b(l) * s));
      auto qk = p.let("qk", -(mine * mine * b(l)) - mine * theirs * (g(l) * s - b(l) * c));
      active(i) += pk;
      reactive(i) += qk;
      over() += pow(max(pk * pk + qk * qk - 0.5 - 0.1 * limit(l), 0.0), 2.0);
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> circuits() {
  auto bits = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    for (std::int64_t i = 0; i < sizes.at("q"); ++i) arrays.at("bit").set(i, std::exp2(i));
  };
  return {
      {{"hodgkin_huxley", "", hodgkin_huxley, {{"cells", 300}, {"c", 7}, {"syn", 3000}, {"steps", 100}}},
       {{{"cells", 3}, {"c", 4}, {"syn", 7}, {"steps", 3}}, {{"cells", 1}, {"c", 1}, {"syn", 2}, {"steps", 2}}}},
      {{"qubit_circuit", "", qubit_circuit, {{"q", 14}, {"dim", 16384}, {"gates", 150}}, {}, {}, bits},
       {{{"q", 3}, {"dim", 8}, {"gates", 7}}, {{"q", 1}, {"dim", 2}, {"gates", 3}}}},
      {{"trotter_ising", "", trotter_ising, {{"q", 12}, {"dim", 4096}, {"steps", 30}}},
       {{{"q", 3}, {"dim", 8}, {"steps", 2}},
        {{"q", 1}, {"dim", 2}, {"steps", 1}},
        {{"q", 2}, {"dim", 4}, {"steps", 3}}}},
      {{"mps_overlap", "", mps_overlap, {{"sites", 30}, {"d", 13}, {"chains", 40}}},
       {{{"sites", 3}, {"d", 3}, {"chains", 2}}, {{"sites", 1}, {"d", 1}, {"chains", 1}}}},
      {{"spice_transient",
        "",
        spice_transient,
        {{"nodes", 1000}, {"rs", 3000}, {"cs", 500}, {"ds", 700}, {"steps", 100}}},
       {{{"nodes", 5}, {"rs", 7}, {"cs", 3}, {"ds", 4}, {"steps", 3}},
        {{"nodes", 1}, {"rs", 2}, {"cs", 1}, {"ds", 1}, {"steps", 2}}}},
      {{"branch_flows", "", branch_flows, {{"buses", 70000}, {"branches", 110000}}},
       {{{"buses", 7}, {"branches", 9}}, {{"buses", 1}, {"branches", 2}}, {{"buses", 23}, {"branches", 5}}}},
  };
}

}  // namespace loopgrad::fields
