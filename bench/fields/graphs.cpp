// Graphs of several kinds: of types, triangles, sets, ranks until they rest, labels that spread, walks.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Attention on a graph whose nodes and edges have kinds: projections by kind, a prior for each kind of edge, heads.
Program kinds_attention() {
  ProgramBuilder p("kinds_attention");
  auto nodes = p.size("nodes"), edges = p.size("edges"), kinds = p.size("kinds"), rels = p.size("rels");
  auto heads = p.size("heads"), d = p.size("d");
  auto first = p.input<int>("first", {nodes + 1}), src = p.input<int>("src", {edges}),
       rel = p.input<int>("rel", {edges}), kind = p.input<int>("kind", {nodes});
  auto x = p.input<float>("x", {nodes, heads * d}), prior = p.input<float>("prior", {rels, heads});
  auto wq = p.input<float>("wq", {kinds, heads * d, heads * d}),
       wk = p.input<float>("wk", {kinds, heads * d, heads * d});
  auto att = p.input<float>("att", {rels, heads, d, d}), msg = p.input<float>("msg", {rels, heads, d, d});
  auto y = p.output<float>("y", {nodes, heads * d});
  p.csr(first, edges);
  p.in_range(src, 0, nodes);
  p.in_range(rel, 0, rels);
  p.in_range(kind, 0, kinds);
  auto q = p.local<float>("q", {nodes, heads * d}), k = p.local<float>("k", {nodes, heads * d});
  for (auto [v, o] : p.loop({"v", nodes}, {"o", heads * d})) {
    q(v, o) = 0.0f;
    k(v, o) = 0.0f;
    for (auto i : p.loop("i", heads * d)) {
      q(v, o) += wq(kind(v), o, i) * x(v, i);
      k(v, o) += wk(kind(v), o, i) * x(v, i);
    }
  }
  auto score = p.local<float>("score", {edges, heads});
  for (auto v : p.loop("v", nodes))
    for (auto h : p.loop("h", heads)) {
      auto m = p.scalar<float>("m", -1e30f), z = p.scalar<float>("z", 0);
      for (auto e : p.loop("e", first(v), first(v + 1))) {
        auto s = p.scalar<float>("s", 0);
        for (auto a : p.loop("a", d))
          for (auto b : p.loop("b", d)) s += q(v, h * d + a) * att(rel(e), h, a, b) * k(src(e), h * d + b);
        score(e, h) = s * prior(rel(e), h) / sqrt(cast<float>(d));
        m.max_with(score(e, h));
      }
      for (auto e : p.loop("e", first(v), first(v + 1))) {
        score(e, h) = exp(score(e, h) - m);
        z += score(e, h);
      }
      for (auto a : p.loop("a", d)) y(v, h * d + a) = x(v, h * d + a);
      for (auto e : p.loop("e", first(v), first(v + 1)))
        for (auto a : p.loop("a", d)) {
          auto s = p.scalar<float>("s", 0);
          for (auto b : p.loop("b", d)) s += msg(rel(e), h, a, b) * k(src(e), h * d + b);
          y(v, h * d + a) += score(e, h) / z * s;
        }
    }
  return p.build();
}

/// Triangles with weights: sorted rows of both ends of an edge are merged; a clustering coefficient for each node.
Program weighted_triangles() {
  ProgramBuilder p("weighted_triangles");
  auto nodes = p.size("nodes"), edges = p.size("edges"), most = p.size("most");
  auto first = p.input<int>("first", {nodes + 1}), to = p.input<int>("to", {edges});
  auto w = p.input<float>("w", {edges});
  auto clustering = p.output<float>("clustering", {nodes});
  p.csr(first, edges);
  p.in_range(to, 0, nodes);
  for (auto u : p.loop("u", nodes)) {
    auto sum = p.scalar<float>("sum", 0), strength = p.scalar<float>("strength", 1e-2f);
    for (auto e : p.loop("e", first(u), first(u + 1))) {
      auto v = p.let("v", to(e));
      strength += exp(w(e));
      auto i = p.scalar<int>("i", first(u)), j = p.scalar<int>("j", first(v));
      for (auto step : p.loop_while("step", 2 * most, [&](auto) { return i < first(u + 1) && j < first(v + 1); })) {
        (void)step;
        p.when(to(i) == to(j),
               [&] {
                 sum += exp((w(e) + w(i) + w(j)) / 3.0f);
                 i += 1;
                 j += 1;
               })
            .otherwise(to(i) < to(j), [&] { i += 1; })
            .otherwise([&] { j += 1; });
      }
    }
    clustering(u) = sum / (strength * strength);
  }
  return p.build();
}

/// Layers on a hypergraph: nodes to the sets that they are in, with attention, and back, each weighted by its size.
Program set_layers() {
  ProgramBuilder p("set_layers");
  auto nodes = p.size("nodes"), sets = p.size("sets"), pairs = p.size("pairs"), layers = p.size("layers"),
       d = p.size("d");
  auto of_set = p.input<int>("of_set", {sets + 1}), member = p.input<int>("member", {pairs});
  auto of_node = p.input<int>("of_node", {nodes + 1}), home = p.input<int>("home", {pairs});
  auto x = p.input<float>("x", {nodes, d}), w = p.input<float>("w", {layers, d, d}),
       ask = p.input<float>("ask", {layers, d});
  auto y = p.output<float>("y", {nodes, d});
  p.csr(of_set, pairs);
  p.csr(of_node, pairs);
  p.in_range(member, 0, nodes);
  p.in_range(home, 0, sets);
  auto group = p.local<float>("group", {sets, d}), turned = p.local<float>("turned", {nodes, d});
  for (auto [v, a] : p.loop({"v", nodes}, {"a", d})) y(v, a) = x(v, a);
  for (auto l : p.loop("l", layers)) {
    for (auto [v, a] : p.loop({"v", nodes}, {"a", d})) {
      turned(v, a) = 0.0f;
      for (auto b : p.loop("b", d)) turned(v, a) += w(l, a, b) * y(v, b);
    }
    for (auto s : p.loop("s", sets)) {
      auto z = p.scalar<float>("z", 1e-3f);
      for (auto a : p.loop("a", d)) group(s, a) = 0.0f;
      for (auto e : p.loop("e", of_set(s), of_set(s + 1))) {
        auto dot = p.scalar<float>("dot", 0);
        for (auto a : p.loop("a", d)) dot += turned(member(e), a) * ask(l, a);
        auto share = p.let("share", exp(tanh(dot)));
        z += share;
        for (auto a : p.loop("a", d)) group(s, a) += share * turned(member(e), a);
      }
      for (auto a : p.loop("a", d)) group(s, a) /= z;
    }
    for (auto v : p.loop("v", nodes)) {
      auto degree = p.let("degree", cast<float>(of_node(v + 1) - of_node(v)));
      for (auto a : p.loop("a", d)) {
        auto s = p.scalar<float>("s", 0);
        for (auto e : p.loop("e", of_node(v), of_node(v + 1))) {
          auto size = cast<float>(of_set(home(e) + 1) - of_set(home(e)));
          s += group(home(e), a) / sqrt(size + 1.0f);
        }
        y(v, a) += max(s / (degree + 1.0f), 0.1f * s);
      }
    }
  }
  return p.build();
}

/// PageRank with weights that are normalised, dangling nodes, until ranks hardly change.
Program ranks_until() {
  ProgramBuilder p("ranks_until");
  auto v = p.size("v"), e = p.size("e"), most = p.size("most");
  auto first = p.input<int>("first", {v + 1}), src = p.input<int>("src", {e});
  auto w = p.input<double>("w", {e}), jump = p.input<double>("jump", {v});
  auto rank = p.output<double>("rank", {v});
  p.csr(first, e);
  p.in_range(src, 0, v);
  auto leaves = p.local<double>("leaves", {v}), next = p.local<double>("next", {v});
  auto all = p.scalar<double>("all", 0), change = p.scalar<double>("change", 1);
  for (auto i : p.loop("i", v)) {
    leaves(i) = 0.0;
    all += exp(jump(i));
  }
  for (auto k : p.loop("k", e)) leaves(src(k)) += exp(w(k));
  for (auto i : p.loop("i", v)) rank(i) = 1.0 / cast<double>(v);
  for (auto s : p.loop_while("s", most, [&](auto) { return change > 1e-6; })) {
    (void)s;
    auto lost = p.scalar<double>("lost", 0);
    for (auto i : p.loop("i", v)) p.when(leaves(i) == 0.0, [&] { lost += rank(i); });
    change = 0.0;
    for (auto i : p.loop("i", v)) {
      auto sum = p.scalar<double>("sum", 0);
      for (auto k : p.loop("k", first(i), first(i + 1))) sum += exp(w(k)) / leaves(src(k)) * rank(src(k));
      next(i) = (0.3 + 0.7 * lost) * exp(jump(i)) / all + 0.7 * sum;
      change += abs(next(i) - rank(i));
    }
    for (auto i : p.loop("i", v)) rank(i) = next(i);
  }
  return p.build();
}

/// Labels spread from the nodes that have one: in place, nodes in a given order, each the mean of its neighbours now.
Program label_spread() {
  ProgramBuilder p("label_spread");
  auto v = p.size("v"), e = p.size("e"), c = p.size("c"), rounds = p.size("rounds");
  auto first = p.input<int>("first", {v + 1}), to = p.input<int>("to", {e}), order = p.input<int>("order", {v});
  auto known = p.input<int>("known", {v});
  auto w = p.input<float>("w", {e}), start = p.input<float>("start", {v, c}), trust = p.input<float>("trust", {});
  auto f = p.output<float>("f", {v, c}), entropy = p.output<float>("entropy", {rounds});
  p.csr(first, e);
  p.in_range(to, 0, v);
  p.in_range(order, 0, v);
  p.injective(order);
  p.in_range(known, 0, 4);
  for (auto i : p.loop("i", v)) {
    auto z = p.scalar<float>("z", 0);
    for (auto k : p.loop("k", c)) z += exp(start(i, k));
    for (auto k : p.loop("k", c)) f(i, k) = exp(start(i, k)) / z;
  }
  for (auto r : p.loop("r", rounds)) {
    for (auto n : p.loop("n", v)) {
      auto i = p.let("i", order(n));
      p.when(known(i) != 0, [&] {
        auto sum = p.local<float>("sum", {c});
        auto z = p.scalar<float>("z", 0);
        for (auto k : p.loop("k", c)) {
          sum(k) = exp(trust()) * f(i, k);
          z += sum(k);
        }
        for (auto a : p.loop("a", first(i), first(i + 1))) {
          auto weight = p.let("weight", exp(w(a)));
          for (auto k : p.loop("k", c)) {
            sum(k) += weight * f(to(a), k);
            z += weight * f(to(a), k);
          }
        }
        for (auto k : p.loop("k", c)) f(i, k) = sum(k) / z;
      });
    }
    entropy(r) = 0.0f;
    for (auto [i, k] : p.loop({"i", v}, {"k", c})) entropy(r) -= f(i, k) * log(f(i, k) + 1e-6f);
  }
  return p.build();
}

/// Embeddings from walks: integers draw the way through a graph and what is not near; both tables, one loss.
Program walk_embeddings() {
  ProgramBuilder p("walk_embeddings");
  auto v = p.size("v"), e = p.size("e"), walks = p.size("walks"), steps = p.size("steps"), d = p.size("d");
  auto first = p.input<int>("first", {v + 1}), to = p.input<int>("to", {e}), from = p.input<int>("from", {walks});
  auto in = p.input<float>("in", {v, d}), out = p.input<float>("out", {v, d});
  auto loss = p.output<float>("loss", {walks});
  p.csr(first, e);
  p.in_range(to, 0, v);
  p.in_range(from, 0, v);
  for (auto k : p.loop("k", walks)) {
    auto path = p.local<int>("path", {steps});
    auto state = p.scalar<std::int64_t>("state", k * 7919 + 12345);
    auto draw = [&] { state = (state * 1103515245 + 12345) % 2147483648; };
    path(0) = from(k);
    for (auto s : p.loop("s", 1, steps)) {
      auto here = p.let("here", path(s - 1));
      auto degree = p.let("degree", cast<std::int64_t>(first(here + 1) - first(here)));
      draw();
      p.when(degree > 0, [&] {
         path(s) = to(min(first(here) + (state / 65536) % max(degree, 1), e - 1));
       }).otherwise([&] { path(s) = from(k); });
    }
    loss(k) = 0.0f;
    for (auto s : p.loop("s", steps))
      for (auto t : p.loop("t", max(s - 3, 0), min(s + 4, steps)))
        p.when(t != s, [&] {
          auto dot = p.scalar<float>("dot", 0);
          for (auto a : p.loop("a", d)) dot += in(path(s), a) * out(path(t), a);
          loss(k) += log1p(exp(-dot));
          for (auto n : p.loop("n", 3)) {
            (void)n;
            draw();
            auto other = p.let("other", (state / 65536) % v);
            auto wrong = p.scalar<float>("wrong", 0);
            for (auto a : p.loop("a", d)) wrong += in(path(s), a) * out(other, a);
            loss(k) += log1p(exp(wrong));
          }
        });
  }
  return p.build();
}

/// Rows of about the same length, at most half of `most` where that is a size, whose entries rise.
void rising_rows(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t nodes = sizes.at("nodes"), edges = sizes.at("edges");
  for (std::int64_t u = 0; u <= nodes; ++u) arrays.at("first").set(u, static_cast<double>(edges * u / nodes));
  for (std::int64_t u = 0; u < nodes; ++u) {
    const std::int64_t begin = edges * u / nodes, end = edges * (u + 1) / nodes;
    std::vector<std::int64_t> row;
    for (std::int64_t e = begin; e < end; ++e)
      row.push_back((u + random.below(std::min<std::int64_t>(nodes, 41))) % nodes);
    std::sort(row.begin(), row.end());
    for (std::int64_t e = begin; e < end; ++e)
      arrays.at("to").set(e, static_cast<double>(row[static_cast<std::size_t>(e - begin)]));
  }
}

}  // namespace

std::vector<Field> graphs() {
  return {
      {{"kinds_attention",
        "",
        kinds_attention,
        {{"nodes", 1507}, {"edges", 9011}, {"kinds", 4}, {"rels", 7}, {"heads", 3}, {"d", 9}}},
       {{{"nodes", 4}, {"edges", 9}, {"kinds", 2}, {"rels", 3}, {"heads", 2}, {"d", 2}},
        {{"nodes", 1}, {"edges", 1}, {"kinds", 1}, {"rels", 1}, {"heads", 1}, {"d", 1}},
        {{"nodes", 5}, {"edges", 3}, {"kinds", 3}, {"rels", 2}, {"heads", 1}, {"d", 3}}}},
      {{"weighted_triangles",
        "",
        weighted_triangles,
        {{"nodes", 4001}, {"edges", 48013}, {"most", 13}},
        {},
        {},
        rising_rows},
       {{{"nodes", 5}, {"edges", 13}, {"most", 3}},
        {{"nodes", 1}, {"edges", 2}, {"most", 2}},
        {{"nodes", 7}, {"edges", 21}, {"most", 3}}}},
      {{"set_layers", "", set_layers, {{"nodes", 2003}, {"sets", 701}, {"pairs", 9007}, {"layers", 3}, {"d", 23}}},
       {{{"nodes", 5}, {"sets", 3}, {"pairs", 9}, {"layers", 2}, {"d", 2}},
        {{"nodes", 1}, {"sets", 1}, {"pairs", 1}, {"layers", 1}, {"d", 1}},
        {{"nodes", 3}, {"sets", 4}, {"pairs", 5}, {"layers", 3}, {"d", 3}}}},
      {{"ranks_until", "", ranks_until, {{"v", 8009}, {"e", 61001}, {"most", 60}}},
       {{{"v", 6}, {"e", 11}, {"most", 40}}, {{"v", 1}, {"e", 2}, {"most", 3}}, {{"v", 9}, {"e", 5}, {"most", 7}}}},
      {{"label_spread", "", label_spread, {{"v", 5003}, {"e", 40009}, {"c", 9}, {"rounds", 8}}},
       {{{"v", 6}, {"e", 11}, {"c", 2}, {"rounds", 3}},
        {{"v", 1}, {"e", 2}, {"c", 1}, {"rounds", 1}},
        {{"v", 9}, {"e", 5}, {"c", 3}, {"rounds", 2}}}},
      {{"walk_embeddings", "", walk_embeddings, {{"v", 3001}, {"e", 20011}, {"walks", 301}, {"steps", 21}, {"d", 26}}},
       {{{"v", 5}, {"e", 11}, {"walks", 3}, {"steps", 5}, {"d", 2}},
        {{"v", 1}, {"e", 1}, {"walks", 1}, {"steps", 1}, {"d", 1}},
        {{"v", 9}, {"e", 5}, {"walks", 2}, {"steps", 7}, {"d", 3}}}},
  };
}

}  // namespace loopgrad::fields
