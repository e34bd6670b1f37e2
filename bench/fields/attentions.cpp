// Sequence models of these years: chunks, sinks, relative places, caches in pages, experts that choose.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// Attention with a gated delta rule by chunks: a triangular system in each chunk, a decaying state between them.
Program chunked_delta() {
  ProgramBuilder p("chunked_delta");
  auto heads = p.size("heads"), chunks = p.size("chunks"), c = p.size("c"), d = p.size("d");
  auto q = p.input<float>("q", {heads, chunks * c, d}), k = p.input<float>("k", {heads, chunks * c, d}),
       v = p.input<float>("v", {heads, chunks * c, d});
  auto beta = p.input<float>("beta", {heads, chunks * c}), gate = p.input<float>("gate", {heads, chunks * c});
  auto o = p.output<float>("o", {heads, chunks * c, d});
  auto kn = p.local<float>("kn", {heads, chunks * c, d});
  for (auto [h, t] : p.loop({"h", heads}, {"t", chunks * c})) {
    auto norm = p.scalar<float>("norm", 1e-3f);
    for (auto a : p.loop("a", d)) norm += k(h, t, a) * k(h, t, a);
    for (auto a : p.loop("a", d)) kn(h, t, a) = k(h, t, a) / sqrt(norm);
  }
  for (auto h : p.loop("h", heads)) {
    auto state = p.local<float>("state", {d, d});
    for (auto [a, e] : p.loop({"a", d}, {"e", d})) state(a, e) = 0.0f;
    for (auto n : p.loop("n", chunks)) {
      auto cum = p.local<float>("cum", {c}), u = p.local<float>("u", {c, d});
      auto run = p.scalar<float>("run", 0);
      for (auto i : p.loop("i", c)) {
        run -= 0.2f * log1p(exp(-gate(h, n * c + i)));
        cum(i) = run;
      }
      for (auto i : p.loop("i", c)) {
        auto t = n * c + i;
        for (auto e : p.loop("e", d)) {
          auto known = p.scalar<float>("known", 0);
          for (auto a : p.loop("a", d)) known += kn(h, t, a) * state(a, e);
          u(i, e) = v(h, t, e) - exp(cum(i)) * known;
        }
        for (auto j : p.loop("j", i)) {
          auto kk = p.scalar<float>("kk", 0);
          for (auto a : p.loop("a", d)) kk += kn(h, t, a) * kn(h, n * c + j, a);
          auto weight = p.let("weight", kk * exp(cum(i) - cum(j)));
          for (auto e : p.loop("e", d)) u(i, e) -= weight * u(j, e);
        }
        for (auto e : p.loop("e", d)) u(i, e) *= sigmoid(beta(h, t));
      }
      for (auto i : p.loop("i", c)) {
        auto t = n * c + i;
        for (auto e : p.loop("e", d)) {
          auto seen = p.scalar<float>("seen", 0);
          for (auto a : p.loop("a", d)) seen += q(h, t, a) * state(a, e);
          o(h, t, e) = exp(cum(i)) * seen;
        }
        for (auto j : p.loop("j", i + 1)) {
          auto qk = p.scalar<float>("qk", 0);
          for (auto a : p.loop("a", d)) qk += q(h, t, a) * kn(h, n * c + j, a);
          auto weight = p.let("weight", qk * exp(cum(i) - cum(j)));
          for (auto e : p.loop("e", d)) o(h, t, e) += weight * u(j, e);
        }
      }
      for (auto [a, e] : p.loop({"a", d}, {"e", d})) {
        auto s = p.scalar<float>("s", exp(run) * state(a, e));
        for (auto j : p.loop("j", c)) s += exp(run - cum(j)) * kn(h, n * c + j, a) * u(j, e);
        state(a, e) = s;
      }
    }
  }
  return p.build();
}

/// A window of keys and a few sinks before it, keys by tiles with a running maximum, several queries to one key,
/// rotated.
Program sink_window() {
  ProgramBuilder p("sink_window");
  auto heads = p.size("heads"), group = p.size("group"), t = p.size("t"), half = p.size("half");
  auto window = p.size("window"), sinks = p.size("sinks");
  auto q = p.input<float>("q", {heads * group, t, 2 * half}), k = p.input<float>("k", {heads, t, 2 * half}),
       v = p.input<float>("v", {heads, t, 2 * half});
  auto rate = p.input<float>("rate", {half});
  auto y = p.output<float>("y", {heads * group, t, 2 * half});
  auto lse = p.output<float>("lse", {heads * group, t});
  auto kr = p.local<float>("kr", {heads, t, 2 * half});
  for (auto [h, j, r] : p.loop({"h", heads}, {"j", t}, {"r", half})) {
    auto angle = p.let("angle", cast<float>(j) * exp(-2.0f + rate(r)));
    kr(h, j, r) = k(h, j, r) * cos(angle) - k(h, j, r + half) * sin(angle);
    kr(h, j, r + half) = k(h, j, r) * sin(angle) + k(h, j, r + half) * cos(angle);
  }
  constexpr int tile = 16;
  for (auto [g, i] : p.loop({"g", heads * group}, {"i", t})) {
    auto qr = p.local<float>("qr", {2 * half}), sum = p.local<float>("sum", {2 * half});
    for (auto r : p.loop("r", half)) {
      auto angle = p.let("angle", cast<float>(i) * exp(-2.0f + rate(r)));
      qr(r) = q(g, i, r) * cos(angle) - q(g, i, r + half) * sin(angle);
      qr(r + half) = q(g, i, r) * sin(angle) + q(g, i, r + half) * cos(angle);
    }
    for (auto r : p.loop("r", 2 * half)) sum(r) = 0.0f;
    auto largest = p.scalar<float>("largest", -1e30f), total = p.scalar<float>("total", 0);
    for (auto b : p.loop("b", i / tile + 1))
      p.when(b * tile < sinks || b * tile + tile > i - window, [&] {
        auto s = p.local<float>("s", {tile});
        auto top = p.scalar<float>("top", largest);
        for (auto l : p.loop("l", tile)) {
          auto j = b * tile + l;
          p.when(j <= i && (j < sinks || j > i - window), [&] {
             s(l) = 0.0f;
             for (auto r : p.loop("r", 2 * half)) s(l) += qr(r) * kr(g / group, j, r);
             s(l) /= sqrt(cast<float>(2 * half));
             top.max_with(s(l));
           }).otherwise([&] { s(l) = -1e30f; });
        }
        auto scale = p.let("scale", exp(largest - top));
        total *= scale;
        for (auto r : p.loop("r", 2 * half)) sum(r) *= scale;
        for (auto l : p.loop("l", tile)) {
          auto j = b * tile + l;
          p.when(j <= i && (j < sinks || j > i - window), [&] {
            auto w = p.let("w", exp(s(l) - top));
            total += w;
            for (auto r : p.loop("r", 2 * half)) sum(r) += w * v(g / group, j, r);
          });
        }
        largest = top;
      });
    for (auto r : p.loop("r", 2 * half)) y(g, i, r) = sum(r) / total;
    lse(g, i) = largest + log(total);
  }
  return p.build();
}

/// Disentangled attention: content to content, content to place and place to content; places in logarithmic buckets.
Program disentangled() {
  ProgramBuilder p("disentangled");
  auto b = p.size("b"), t = p.size("t"), d = p.size("d"), span = p.size("span");
  auto q = p.input<float>("q", {b, t, d}), k = p.input<float>("k", {b, t, d}), v = p.input<float>("v", {b, t, d});
  auto pq = p.input<float>("pq", {2 * span, d}), pk = p.input<float>("pk", {2 * span, d});
  auto len = p.input<int>("len", {b});
  auto y = p.output<float>("y", {b, t, d});
  p.in_range(len, 1, t + 1);
  auto bucket = p.local<std::int64_t>("bucket", {2 * t});
  for (auto i : p.loop("i", 2 * t)) {
    auto far = p.let("far", i - t), mid = p.let("mid", max(span / 2, 1)), away = p.let("away", max(far, -far));
    p.when(away <= mid, [&] { bucket(i) = far + span; }).otherwise([&] {
      auto steps = p.let("steps", log(cast<float>(away) / cast<float>(mid)) * 0.4f * cast<float>(span - mid));
      auto m = p.let("m", mid + cast<std::int64_t>(ceil(steps)));
      bucket(i) = select(far > 0, m, -m) + span;
    });
    bucket(i) = min(max(bucket(i), 0), 2 * span - 1);
  }
  for (auto n : p.loop("n", b)) {
    auto c2p = p.local<float>("c2p", {t, 2 * span}), p2c = p.local<float>("p2c", {t, 2 * span});
    for (auto [i, r] : p.loop({"i", len(n)}, {"r", 2 * span})) {
      c2p(i, r) = 0.0f;
      p2c(i, r) = 0.0f;
      for (auto a : p.loop("a", d)) c2p(i, r) += q(n, i, a) * pk(r, a);
      for (auto a : p.loop("a", d)) p2c(i, r) += k(n, i, a) * pq(r, a);
    }
    for (auto i : p.loop("i", t)) {
      for (auto a : p.loop("a", d)) y(n, i, a) = 0.0f;
      p.when(i < len(n), [&] {
        auto s = p.local<float>("s", {t});
        auto m = p.scalar<float>("m", -1e30f), z = p.scalar<float>("z", 0);
        for (auto j : p.loop("j", len(n))) {
          s(j) = 0.0f;
          for (auto a : p.loop("a", d)) s(j) += q(n, i, a) * k(n, j, a);
          s(j) += c2p(i, bucket(i - j + t)) + p2c(j, bucket(j - i + t));
          s(j) /= sqrt(3.0f * cast<float>(d));
          m.max_with(s(j));
        }
        for (auto j : p.loop("j", len(n))) {
          s(j) = exp(s(j) - m);
          z += s(j);
        }
        for (auto j : p.loop("j", len(n)))
          for (auto a : p.loop("a", d)) y(n, i, a) += s(j) / z * v(n, j, a);
      });
    }
  }
  return p.build();
}

/// New tokens of several sequences are put into pages of a cache, then each attends to all before it in its sequence.
Program ragged_prefill() {
  ProgramBuilder p("ragged_prefill");
  auto seqs = p.size("seqs"), tokens = p.size("tokens"), most = p.size("most"), page = p.size("page");
  auto heads = p.size("heads"), d = p.size("d");
  auto first = p.input<int>("first", {seqs + 1}), past = p.input<int>("past", {seqs});
  auto table = p.input<int>("table", {seqs, most}), slot = p.input<int>("slot", {tokens});
  auto q = p.input<float>("q", {tokens, heads, d}), k = p.input<float>("k", {tokens, d}),
       v = p.input<float>("v", {tokens, d});
  auto k_cache = p.inout<float>("k_cache", {seqs * most * page, d}),
       v_cache = p.inout<float>("v_cache", {seqs * most * page, d});
  auto y = p.output<float>("y", {tokens, heads, d});
  p.csr(first, tokens);
  p.in_range(past, 0, most * page);
  p.in_range(table, 0, seqs * most);
  p.in_range(slot, 0, seqs * most * page);
  p.injective(slot);
  for (auto [t, a] : p.loop({"t", tokens}, {"a", d})) {
    k_cache(slot(t), a) = k(t, a);
    v_cache(slot(t), a) = v(t, a);
  }
  for (auto s : p.loop("s", seqs))
    for (auto t : p.loop("t", first(s), first(s + 1)))
      for (auto h : p.loop("h", heads)) {
        auto seen = p.let("seen", past(s) + (t - first(s)) + 1);
        auto w = p.local<float>("w", {most * page});
        auto m = p.scalar<float>("m", -1e30f), z = p.scalar<float>("z", 0);
        for (auto j : p.loop("j", min(seen, most * page))) {
          auto at = p.let("at", table(s, j / page) * page + j % page);
          auto dot = p.scalar<float>("dot", 0);
          for (auto a : p.loop("a", d)) dot += q(t, h, a) * k_cache(at, a);
          w(j) = dot / sqrt(cast<float>(d));
          m.max_with(w(j));
        }
        for (auto a : p.loop("a", d)) y(t, h, a) = 0.0f;
        for (auto j : p.loop("j", min(seen, most * page))) {
          auto e = p.let("e", exp(w(j) - m));
          z += e;
          for (auto a : p.loop("a", d)) y(t, h, a) += e * v_cache(table(s, j / page) * page + j % page, a);
        }
        for (auto a : p.loop("a", d)) y(t, h, a) /= z;
      }
  return p.build();
}

/// Experts choose their tokens: the best by affinity, one after the other, a gated layer of theirs, summed per token.
Program expert_choice() {
  ProgramBuilder p("expert_choice");
  auto n = p.size("n"), e = p.size("e"), room = p.size("room"), d = p.size("d"), f = p.size("f");
  auto x = p.input<float>("x", {n, d}), router = p.input<float>("router", {d, e});
  auto up = p.input<float>("up", {e, d, f}), gate = p.input<float>("gate", {e, d, f}),
       down = p.input<float>("down", {e, f, d});
  auto y = p.output<float>("y", {n, d});
  auto affinity = p.local<float>("affinity", {n, e});
  auto chosen = p.local<std::int64_t>("chosen", {e, room});
  for (auto i : p.loop("i", n)) {
    auto z = p.scalar<float>("z", 0);
    for (auto k : p.loop("k", e)) {
      auto s = p.scalar<float>("s", 0);
      for (auto a : p.loop("a", d)) s += x(i, a) * router(a, k);
      affinity(i, k) = exp(s);
      z += affinity(i, k);
    }
    for (auto k : p.loop("k", e)) affinity(i, k) /= z;
  }
  for (auto k : p.loop("k", e)) {
    auto taken = p.local<bool>("taken", {n});
    for (auto i : p.loop("i", n)) taken(i) = false;
    for (auto r : p.loop("r", room)) {
      auto best = p.scalar<float>("best", -1);
      auto which = p.scalar<std::int64_t>("which", 0);
      for (auto i : p.loop("i", n))
        p.when(!taken(i) && affinity(i, k) > best, [&] {
          best = affinity(i, k);
          which = i;
        });
      taken(which) = true;
      chosen(k, r) = which;
    }
  }
  for (auto [i, a] : p.loop({"i", n}, {"a", d})) y(i, a) = x(i, a);
  for (auto k : p.loop("k", e))
    for (auto r : p.loop("r", room)) {
      auto i = p.let("i", chosen(k, r));
      auto hidden = p.local<float>("hidden", {f});
      for (auto c : p.loop("c", f)) {
        auto u = p.scalar<float>("u", 0), g = p.scalar<float>("g", 0);
        for (auto a : p.loop("a", d)) {
          u += x(i, a) * up(k, a, c);
          g += x(i, a) * gate(k, a, c);
        }
        hidden(c) = u * g * sigmoid(g);
      }
      for (auto a : p.loop("a", d)) {
        auto s = p.scalar<float>("s", 0);
        for (auto c : p.loop("c", f)) s += hidden(c) * down(k, c, a);
        y(i, a) += affinity(i, k) * s;
      }
    }
  return p.build();
}

/// Time mixing of a recurrent language model: tokens shifted and mixed, decayed sums kept with their largest exponent.
Program time_mixing() {
  ProgramBuilder p("time_mixing");
  auto b = p.size("b"), t = p.size("t"), c = p.size("c");
  auto x = p.input<float>("x", {b, t, c});
  auto mix = p.input<float>("mix", {3, c}), scale = p.input<float>("scale", {3, c});
  auto decay = p.input<float>("decay", {c}), bonus = p.input<float>("bonus", {c});
  auto y = p.output<float>("y", {b, t, c});
  for (auto [n, j] : p.loop({"n", b}, {"j", c})) {
    auto above = p.scalar<float>("above", 0), below = p.scalar<float>("below", 0);
    auto most = p.scalar<float>("most", -1e30f), last = p.scalar<float>("last", 0);
    auto w = p.let("w", -exp(decay(j)));
    for (auto s : p.loop("s", t)) {
      auto mixed = [&](int r) {
        return (x(n, s, j) * (0.5f + 0.5f * mix(r, j)) + last * (0.5f - 0.5f * mix(r, j))) * scale(r, j);
      };
      auto k = p.let("k", 2.0f * mixed(0)), v = p.let("v", mixed(1)), r = p.let("r", sigmoid(mixed(2)));
      auto top = p.let("top", max(most, bonus(j) + k));
      auto old = p.let("old", exp(most - top)), now = p.let("now", exp(bonus(j) + k - top));
      y(n, s, j) = r * (old * above + now * v) / (old * below + now);
      auto next = p.let("next", max(most + w, k));
      auto kept = p.let("kept", exp(most + w - next)), added = p.let("added", exp(k - next));
      above = kept * above + added * v;
      below = kept * below + added;
      most = next;
      last = x(n, s, j);
    }
  }
  return p.build();
}

/// Sequences of about the same length, each with pages of its own in any order.
void pages_and_slots(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t seqs = sizes.at("seqs"), tokens = sizes.at("tokens"), most = sizes.at("most"),
                     page = sizes.at("page");
  std::vector<std::int64_t> pages(static_cast<std::size_t>(seqs * most));
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = pages.size(); i > 1; --i)
    std::swap(pages[i - 1], pages[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  for (std::int64_t s = 0; s < seqs; ++s) {
    const std::int64_t begin = tokens * s / seqs, end = tokens * (s + 1) / seqs;
    const std::int64_t past = random.below(most * page - (end - begin) + 1);
    arrays.at("first").set(s, static_cast<double>(begin));
    arrays.at("past").set(s, static_cast<double>(std::min(past, most * page - 1)));
    for (std::int64_t m = 0; m < most; ++m)
      arrays.at("table").set(s * most + m, static_cast<double>(pages[static_cast<std::size_t>(s * most + m)]));
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t at = past + t - begin;
      const std::int64_t to = pages[static_cast<std::size_t>(s * most + at / page)] * page + at % page;
      arrays.at("slot").set(t, static_cast<double>(to));
    }
  }
  arrays.at("first").set(seqs, static_cast<double>(tokens));
}

}  // namespace

std::vector<Field> attentions() {
  return {
      {{"chunked_delta", "", chunked_delta, {{"heads", 6}, {"chunks", 13}, {"c", 30}, {"d", 28}}},
       {{{"heads", 2}, {"chunks", 3}, {"c", 3}, {"d", 2}},
        {{"heads", 1}, {"chunks", 1}, {"c", 1}, {"d", 1}},
        {{"heads", 1}, {"chunks", 2}, {"c", 5}, {"d", 3}}}},
      {{"sink_window",
        "",
        sink_window,
        {{"heads", 2}, {"group", 3}, {"t", 507}, {"half", 15}, {"window", 65}, {"sinks", 4}}},
       {{{"heads", 1}, {"group", 2}, {"t", 37}, {"half", 2}, {"window", 9}, {"sinks", 2}},
        {{"heads", 1}, {"group", 1}, {"t", 1}, {"half", 1}, {"window", 1}, {"sinks", 1}},
        {{"heads", 2}, {"group", 1}, {"t", 18}, {"half", 1}, {"window", 3}, {"sinks", 1}}}},
      {{"disentangled", "", disentangled, {{"b", 5}, {"t", 187}, {"d", 37}, {"span", 24}}},
       {{{"b", 2}, {"t", 7}, {"d", 2}, {"span", 3}},
        {{"b", 1}, {"t", 1}, {"d", 1}, {"span", 1}},
        {{"b", 3}, {"t", 4}, {"d", 3}, {"span", 2}}}},
      {{"ragged_prefill",
        "",
        ragged_prefill,
        {{"seqs", 9}, {"tokens", 405}, {"most", 11}, {"page", 18}, {"heads", 3}, {"d", 36}},
        {},
        {},
        pages_and_slots},
       {{{"seqs", 3}, {"tokens", 7}, {"most", 3}, {"page", 2}, {"heads", 2}, {"d", 2}},
        {{"seqs", 1}, {"tokens", 1}, {"most", 1}, {"page", 1}, {"heads", 1}, {"d", 1}},
        {{"seqs", 2}, {"tokens", 9}, {"most", 2}, {"page", 5}, {"heads", 1}, {"d", 3}}}},
      {{"expert_choice", "", expert_choice, {{"n", 603}, {"e", 7}, {"room", 150}, {"d", 42}, {"f", 54}}},
       {{{"n", 5}, {"e", 3}, {"room", 2}, {"d", 2}, {"f", 3}},
        {{"n", 1}, {"e", 1}, {"room", 1}, {"d", 1}, {"f", 1}},
        {{"n", 7}, {"e", 2}, {"room", 4}, {"d", 3}, {"f", 2}}}},
      {{"time_mixing", "", time_mixing, {{"b", 3}, {"t", 413}, {"c", 211}}},
       {{{"b", 2}, {"t", 5}, {"c", 3}}, {{"b", 1}, {"t", 1}, {"c", 1}}, {{"b", 1}, {"t", 9}, {"c", 2}}}},
  };
}

}  // namespace loopgrad::fields
