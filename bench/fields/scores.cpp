// Sparse tensors, speech and language, light through media: lists of entries, lattices of lengths, sweeps.
#include "bench/fields/fields.h"

#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::fields {
namespace {

/// One sweep of alternating least squares for a sparse tensor of order three in coordinates, a mode at a time in place.
Program cp_sweep() {
  ProgramBuilder p("cp_sweep");
  auto nnz = p.size("nnz"), n = p.size("n"), rank = p.size("rank");
  auto at = p.input<int>("at", {nnz, 3});
  p.in_range(at, 0, n);
  auto value = p.input<double>("value", {nnz});
  auto factor = p.inout<double>("factor", {3, n, rank});
  auto fit = p.output<double>("fit", {});
  for (int mode = 0; mode < 3; ++mode) {
    const int one = (mode + 1) % 3, two = (mode + 2) % 3;
    auto gram = p.local<double>("gram", {rank, rank}), m = p.local<double>("m", {n, rank});
    for (auto [r, s] : p.loop({"r", rank}, {"s", rank})) {
      auto a = p.scalar<double>("a", 0), b = p.scalar<double>("b", 0);
      for (auto i : p.loop("i", n)) {
        a += factor(one, i, r) * factor(one, i, s);
        b += factor(two, i, r) * factor(two, i, s);
      }
      gram(r, s) = a * b + select(r == s, 1.0 + cast<double>(n) * cast<double>(n), Value(0.0));
    }
    for (auto [i, r] : p.loop({"i1", n}, {"r1", rank})) m(i, r) = 0.0;
    for (auto e : p.loop("e", nnz))
      for (auto r : p.loop("r2", rank))
        m(at(e, mode), r) += value(e) * factor(one, at(e, one), r) * factor(two, at(e, two), r);
    for (auto k : p.loop("k", rank))  // elimination, all right hand sides at once
      for (auto r : p.loop("r3", k + 1, rank)) {
        auto f = p.let("f", gram(r, k) / gram(k, k));
        for (auto c : p.loop("c", k, rank)) gram(r, c) -= f * gram(k, c);
        for (auto i : p.loop("i2", n)) m(i, r) -= f * m(i, k);
      }
    for (auto r : p.loop("r4", rank, {.descending = true}))
      for (auto i : p.loop("i3", n)) {
        auto x = p.scalar<double>("x");
        x = m(i, r);
        for (auto c : p.loop("c1", r + 1, rank)) x -= gram(r, c) * factor(mode, i, c);
        factor(mode, i, r) = x / gram(r, r) + 0.5 * factor(mode, i, r);
      }
  }
  fit() = 0.0;
  for (auto e : p.loop("e1", nnz)) {
    auto model = p.scalar<double>("model", 0);
    for (auto r : p.loop("r5", rank)) model += factor(0, at(e, 0), r) * factor(1, at(e, 1), r) * factor(2, at(e, 2), r);
    fit() += (value(e) - model) * (value(e) - model);
  }
  return p.build();
}

/// A Tucker model of entries in coordinates: a small core times three rows.
Program tucker_entries() {
  ProgramBuilder p("tucker_entries");
  auto nnz = p.size("nnz"), n = p.size("n"), r1 = p.size("r1"), r2 = p.size("r2");
  auto i = p.input<int>("i", {nnz}), j = p.input<int>("j", {nnz}), k = p.input<int>("k", {nnz});
  for (auto x : {i, j, k}) p.in_range(x, 0, n);
  p.sorted(i);
  auto a = p.input<float>("a", {n, r1}), b = p.input<float>("b", {n, r2}), c = p.input<float>("c", {n, r2}),
       core = p.input<float>("core", {r1, r2, r2}), value = p.input<float>("value", {nnz});
  auto loss = p.output<float>("loss", {}), each = p.output<float>("each", {nnz});
  loss() = 0.0f;
  for (auto e : p.loop("e", nnz)) {
    each(e) = 0.0f;
    for (auto x : p.loop("x", r1)) {
      auto inner = p.scalar<float>("inner", 0);
      for (auto [y, z] : p.loop({"y", r2}, {"z", r2})) inner += core(x, y, z) * b(j(e), y) * c(k(e), z);
      each(e) += a(i(e), x) * inner;
    }
    auto miss = p.let("miss", each(e) - value(e));
    loss() += select(abs(miss) < 1.0f, 0.5f * miss * miss, abs(miss) - 0.5f);
  }
  return p.build();
}

/// A transducer's loss: lattices of frames and labels in one flat array, each utterance with lengths and an offset that
/// runs.
Program transducer() {
  ProgramBuilder p("transducer");
  auto utts = p.size("utts"), tmax = p.size("tmax"), umax = p.size("umax"), cells = p.size("cells");
  auto frames = p.input<int>("frames", {utts}), labels = p.input<int>("labels", {utts});
  p.in_range(frames, 1, tmax + 1), p.in_range(labels, 0, umax);
  auto blank = p.input<double>("blank", {cells}), emit = p.input<double>("emit", {cells});
  auto loss = p.output<double>("loss", {utts}), total = p.output<double>("total", {});
  auto start = p.scalar<std::int64_t>("start", 0);
  total() = 0.0;
  for (auto b : p.loop("b", utts)) {
    auto alpha = p.local<double>("alpha", {tmax, umax});
    auto width = p.let("width", labels(b) + 1);
    for (auto t : p.loop("t", frames(b)))
      for (auto u : p.loop("u", labels(b) + 1)) {
        auto here = p.let("here", start + t * width + u);
        auto stay = p.scalar<double>("stay", -50), up = p.scalar<double>("up", -50);
        p.when(t > 0, [&] { stay = alpha(t - 1, u) - abs(blank(here - width)); });
        p.when(u > 0, [&] { up = alpha(t, u - 1) - abs(emit(here - 1)); });
        auto most = p.let("most", max(stay, up));
        alpha(t, u) = most + log(exp(stay - most) + exp(up - most));
        p.when(t == 0 && u == 0, [&] { alpha(t, u) = 0.0; });
      }
    loss(b) = abs(blank(start + frames(b) * width - 1)) - alpha(frames(b) - 1, labels(b));
    total() += loss(b) / cast<double>(frames(b));
    start += frames(b) * width;
  }
  return p.build();
}

/// Sentences scored by a language model that backs off: states link to shorter ones until one knows the word.
Program back_off() {
  ProgramBuilder p("back_off");
  auto words = p.size("words"), states = p.size("states"), vocab = p.size("vocab"), order = p.size("order");
  auto word = p.input<int>("word", {words}), next = p.input<int>("next", {states, vocab}),
       known = p.input<int>("known", {states, vocab}), shorter = p.input<int>("shorter", {states});
  p.in_range(word, 0, vocab), p.in_range(next, 0, states), p.in_range(known, 0, 3), p.in_range(shorter, 0, states);
  auto score = p.input<float>("score", {states, vocab}), weight = p.input<float>("weight", {states});
  auto surprise = p.output<float>("surprise", {words}), perplexity = p.output<float>("perplexity", {});
  auto state = p.scalar<std::int64_t>("state", 0);
  perplexity() = 0.0f;
  for (auto w : p.loop("w", words)) {
    auto sum = p.scalar<float>("sum", 0);
    for (auto s : p.loop_while("s", order, [&](auto) { return state > 0 && known(state, word(w)) == 0; })) {
      (void)s;
      sum += weight(state) * weight(state);
      state = min(shorter(state), state - 1);
    }
    sum += log(1.5f + score(state, word(w)));
    surprise(w) = sum;
    perplexity() += exp(-sum);
    state = next(state, word(w));
  }
  return p.build();
}

/// Attention-free decoding: keep the best `beam` sums of parents and tokens at each step, as indices into the step
/// before.
Program beam_scores() {
  ProgramBuilder p("beam_scores");
  auto steps = p.size("steps"), beam = p.size("beam"), vocab = p.size("vocab");
  auto logit = p.input<float>("logit", {steps, vocab}), bigram = p.input<float>("bigram", {vocab, vocab});
  auto best = p.output<float>("best", {beam}), path = p.output<float>("path", {steps, beam});
  auto score = p.ring<float>("score", 2, {beam});
  auto last = p.ring<int>("last", 2, {beam});
  for (auto b : p.loop("b0", beam))
    score(0, b) = select(b == 0, cast<float>(Value(0)), cast<float>(Value(-20))), last(0, b) = 0;
  for (auto t : p.loop("t", steps)) {
    for (auto b : p.loop("b1", beam)) score(t + 1, b) = -1e3f, last(t + 1, b) = 0;
    for (auto [b, v] : p.loop({"b", beam}, {"v", vocab})) {
      auto s = p.scalar<float>("s"), d = p.scalar<float>("d");
      auto w = p.scalar<int>("w"), x = p.scalar<int>("x");
      s = score(t, b) + logit(t, v) + 0.5f * bigram(last(t, b), v);
      w = cast<int>(v);
      for (auto q : p.loop("q", beam))
        p.when(s > score(t + 1, q), [&] {
          d = score(t + 1, q), x = last(t + 1, q);
          score(t + 1, q) = s, last(t + 1, q) = w;
          s = d, w = x;
        });
    }
    for (auto b : p.loop("b2", beam)) path(t, b) = score(t + 1, b) * logit(t, last(t + 1, b));
  }
  for (auto b : p.loop("b3", beam)) best(b) = score(steps, b);
  return p.build();
}

/// Two streams of light in columns of a flattened atmosphere: layers are added from below, then fluxes go down.
Program two_stream() {
  ProgramBuilder p("two_stream");
  auto columns = p.size("columns"), layers = p.size("layers");
  auto tau = p.input<float>("tau", {columns * layers}), single = p.input<float>("single", {columns * layers}),
       ground = p.input<float>("ground", {columns});
  auto heat = p.output<float>("heat", {columns * layers}), top = p.output<float>("top", {columns});
  for (auto c : p.loop("c", columns)) {
    auto r = p.local<float>("r", {layers}), t = p.local<float>("t", {layers}),
         albedo = p.local<float>("albedo", {layers + 1});
    for (auto l : p.loop("l", layers)) {
      auto w = p.let("w", 0.5f + 0.4f * single(c * layers + l)), d = p.let("d", 0.2f + abs(tau(c * layers + l)));
      auto k = p.let("k", sqrt(3.0f * (1.0f - w) * (1.0f - 0.5f * w)));
      auto e = p.let("e", exp(-k * d));
      auto q = p.let("q", (1.0f - k) / (1.0f + k));
      r(l) = q * (1.0f - e * e) / (1.0f - q * q * e * e);
      t(l) = e * (1.0f - q * q) / (1.0f - q * q * e * e);
    }
    albedo(layers) = 0.3f + 0.2f * ground(c);
    for (auto l : p.loop("l1", layers, {.descending = true}))
      albedo(l) = r(l) + t(l) * t(l) * albedo(l + 1) / (1.0f - r(l) * albedo(l + 1));
    auto down = p.scalar<float>("down", 1);
    top(c) = albedo(0);
    for (auto l : p.loop("l2", layers)) {
      auto below = p.let("below", down * t(l) / (1.0f - r(l) * albedo(l + 1)));
      heat(c * layers + l) = down * (1.0f - albedo(l)) - below * (1.0f - albedo(l + 1));
      down = below;
    }
  }
  return p.build();
}

/// Discrete directions over cells in their upwind order, with short rows of cells upstream; a few source iterations.
Program upwind_sweep() {
  ProgramBuilder p("upwind_sweep");
  auto angles = p.size("angles"), cells = p.size("cells"), links = p.size("links");
  auto order = p.input<int>("order", {angles, cells}), ptr = p.input<int>("ptr", {cells + 1}),
       up = p.input<int>("up", {angles, links});
  p.csr(ptr, links), p.in_range(order, 0, cells), p.in_range(up, 0, cells);
  auto sigma = p.input<double>("sigma", {cells}), scatter = p.input<double>("scatter", {cells}),
       source = p.input<double>("source", {cells}), weight = p.input<double>("weight", {angles});
  auto phi = p.output<double>("phi", {cells}), leak = p.output<double>("leak", {angles});
  auto psi = p.local<double>("psi", {cells}), old = p.local<double>("old", {cells});
  for (auto c : p.loop("c0", cells)) phi(c) = 0.0;
  for (auto it : p.loop("it", 3)) {
    (void)it;
    for (auto c : p.loop("c1", cells)) {
      old(c) = phi(c);
      phi(c) = 0.0;
    }
    for (auto a : p.loop("a", angles)) {
      for (auto c : p.loop("c2", cells)) psi(c) = 0.5;
      for (auto k : p.loop("k", cells)) {
        auto c = p.let("c", cast<std::int64_t>(order(a, k)));
        auto in = p.scalar<double>("in", 0.1);
        for (auto l : p.loop("l", ptr(c), ptr(c + 1))) in += 0.3 * psi(up(a, l));
        psi(c) = (in + 1.0 + source(c) + (0.3 + 0.1 * scatter(c)) * old(c)) / (2.0 + abs(sigma(c)));
        phi(c) += (0.2 + 0.1 * weight(a)) * psi(c);
      }
      leak(a) = psi(order(a, cells - 1));
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> scores() {
  auto orders = [](const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    const std::int64_t n = sizes.at("cells");
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t a = 0; a < sizes.at("angles"); ++a) {
      for (std::int64_t i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
      for (std::int64_t i = n - 1; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i + 1))]);
      for (std::int64_t i = 0; i < n; ++i)
        arrays.at("order").set(a * n + i, static_cast<double>(order[static_cast<std::size_t>(i)]));
    }
  };
  return {
      {{"cp_sweep", "", cp_sweep, {{"nnz", 150000}, {"n", 3000}, {"rank", 11}}},
       {{{"nnz", 9}, {"n", 4}, {"rank", 3}}, {{"nnz", 1}, {"n", 1}, {"rank", 1}}, {{"nnz", 3}, {"n", 7}, {"rank", 2}}}},
      {{"tucker_entries", "", tucker_entries, {{"nnz", 70000}, {"n", 3000}, {"r1", 7}, {"r2", 5}}},
       {{{"nnz", 9}, {"n", 4}, {"r1", 3}, {"r2", 2}}, {{"nnz", 1}, {"n", 1}, {"r1", 1}, {"r2", 1}}}},
      {{"transducer", "", transducer, {{"utts", 100}, {"tmax", 90}, {"umax", 30}, {"cells", 270000}}},
       {{{"utts", 3}, {"tmax", 4}, {"umax", 3}, {"cells", 36}}, {{"utts", 1}, {"tmax", 1}, {"umax", 1}, {"cells", 1}}}},
      {{"back_off", "", back_off, {{"words", 300000}, {"states", 3000}, {"vocab", 300}, {"order", 5}}},
       {{{"words", 11}, {"states", 5}, {"vocab", 3}, {"order", 3}},
        {{"words", 1}, {"states", 1}, {"vocab", 1}, {"order", 1}}}},
      {{"beam_scores", "", beam_scores, {{"steps", 70}, {"beam", 5}, {"vocab", 3000}}},
       {{{"steps", 3}, {"beam", 2}, {"vocab", 5}},
        {{"steps", 1}, {"beam", 1}, {"vocab", 1}},
        {{"steps", 4}, {"beam", 3}, {"vocab", 2}}}},
      {{"two_stream", "", two_stream, {{"columns", 10000}, {"layers", 53}}},
       {{{"columns", 3}, {"layers", 5}}, {{"columns", 1}, {"layers", 1}}, {{"columns", 7}, {"layers", 2}}}},
      {{"upwind_sweep", "", upwind_sweep, {{"angles", 12}, {"cells", 20000}, {"links", 40000}}, {}, {}, orders},
       {{{"angles", 2}, {"cells", 5}, {"links", 8}}, {{"angles", 1}, {"cells", 1}, {"links", 1}}}},
  };
}

}  // namespace loopgrad::fields
