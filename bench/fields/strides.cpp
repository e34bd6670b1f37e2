// Networks and cables whose loops have work of their own between them: what is summed over jumps through memory as it
// is written.
#include "bench/fields/fields.h"

namespace loopgrad::fields {
namespace {

/// State spaces in their dual form: chunks of a sequence, with a state between them.
Program mamba2_chunks() {
  ProgramBuilder p("mamba2_chunks");
  auto heads = p.size("heads"), chunks = p.size("chunks"), q = p.size("q"), d = p.size("d"), n = p.size("n");
  auto x = p.input<float>("x", {heads, chunks, q, d});
  auto dt = p.input<float>("dt", {heads, chunks, q});
  auto a_log = p.input<float>("a_log", {heads});
  auto bm = p.input<float>("bm", {chunks, q, n});  // shared by the heads
  auto cm = p.input<float>("cm", {chunks, q, n});
  auto skip = p.input<float>("skip", {heads});
  auto y = p.output<float>("y", {heads, chunks, q, d});
  for (auto h : p.loop("h", heads)) {
    auto state = p.local<float>("state", {n, d});
    for (auto i : p.loop("i", n))
      for (auto j : p.loop("j", d)) state(i, j) = 0;
    for (auto c : p.loop("c", chunks)) {
      auto step = p.local<float>("step", {q}), cum = p.local<float>("cum", {q});
      auto run = p.scalar<float>("run", 0);
      for (auto t : p.loop("t", q)) {
        step(t) = log1p(exp(dt(h, c, t)));
        run += -exp(a_log(h)) * step(t);
        cum(t) = run;
      }
      for (auto t : p.loop("t", q)) {
        for (auto j : p.loop("j", d)) y(h, c, t, j) = skip(h) * x(h, c, t, j);
        for (auto s : p.loop("s", t + 1)) {
          auto g = p.scalar<float>("g", 0);
          for (auto i : p.loop("i", n)) g += cm(c, t, i) * bm(c, s, i);
          auto w = p.let("w", g * exp(cum(t) - cum(s)) * step(s));
          for (auto j : p.loop("j", d)) y(h, c, t, j) += w * x(h, c, s, j);
        }
        for (auto i : p.loop("i", n))
          for (auto j : p.loop("j", d)) y(h, c, t, j) += exp(cum(t)) * cm(c, t, i) * state(i, j);
      }
      for (auto i : p.loop("i", n))
        for (auto j : p.loop("j", d)) {
          auto s = p.scalar<float>("s", 0);
          for (auto t : p.loop("t", q)) s += exp(cum(q - 1) - cum(t)) * step(t) * bm(c, t, i) * x(h, c, t, j);
          state(i, j) = exp(cum(q - 1)) * state(i, j) + s;
        }
    }
  }
  return p.build();
}

/// Attention in two levels: words of sentences of documents, both of them rows of a length of their own.
Program doc_attention() {
  ProgramBuilder p("doc_attention");
  auto docs = p.size("docs"), sents = p.size("sents"), words = p.size("words"), vocab = p.size("vocab"),
       d = p.size("d");
  auto sptr = p.input<int>("sptr", {docs + 1});
  auto wptr = p.input<int>("wptr", {sents + 1});
  auto word = p.input<int>("word", {words});
  auto emb = p.input<float>("emb", {vocab, d});
  auto ww = p.input<float>("ww", {d, d});
  auto cw = p.input<float>("cw", {d});
  auto cs = p.input<float>("cs", {d});
  auto y = p.output<float>("y", {docs, d});
  p.csr(sptr, sents);
  p.csr(wptr, words);
  p.in_range(word, 0, vocab);
  auto sent = p.local<float>("sent", {sents, d});
  for (auto i : p.loop("i", docs)) {
    for (auto s : p.loop("s", sptr(i), sptr(i + 1))) {
      auto z = p.scalar<float>("z", 1e-6f);
      for (auto k : p.loop("k", d)) sent(s, k) = 0;
      for (auto w : p.loop("w", wptr(s), wptr(s + 1))) {
        auto score = p.scalar<float>("score", 0);
        for (auto k : p.loop("k", d)) {
          auto u = p.scalar<float>("u", 0);
          for (auto j : p.loop("j", d)) u += emb(word(w), j) * ww(j, k);
          score += cw(k) * tanh(u);
        }
        auto e = p.let("e", exp(score));
        z += e;
        for (auto k : p.loop("k", d)) sent(s, k) += e * emb(word(w), k);
      }
      for (auto k : p.loop("k", d)) sent(s, k) /= z;
    }
    auto zs = p.scalar<float>("zs", 1e-6f);
    for (auto k : p.loop("k", d)) y(i, k) = 0;
    for (auto s : p.loop("s", sptr(i), sptr(i + 1))) {
      auto score = p.scalar<float>("score", 0);
      for (auto k : p.loop("k", d)) score += cs(k) * sent(s, k);
      auto e = p.let("e", exp(score));
      zs += e;
      for (auto k : p.loop("k", d)) y(i, k) += e * sent(s, k);
    }
    for (auto k : p.loop("k", d)) y(i, k) /= zs;
  }
  return p.build();
}

/// Topics of documents that are bags of words, from noise around a mean.
Program prod_lda() {
  ProgramBuilder p("prod_lda");
  auto docs = p.size("docs"), bow = p.size("bow"), vocab = p.size("vocab"), topics = p.size("topics"),
       hid = p.size("hid");
  auto ptr = p.input<int>("ptr", {docs + 1});
  auto word = p.input<int>("word", {bow});
  auto count = p.input<int>("count", {bow});
  auto eps = p.input<float>("eps", {docs, topics});
  auto emb = p.input<float>("emb", {vocab, hid});
  auto wm = p.input<float>("wm", {hid, topics});
  auto ws = p.input<float>("ws", {hid, topics});
  auto beta = p.input<float>("beta", {topics, vocab});
  auto elbo = p.output<float>("elbo", {docs});
  p.csr(ptr, bow);
  p.in_range(word, 0, vocab);
  p.in_range(count, 1, 7);
  for (auto d : p.loop("d", docs)) {
    auto h = p.local<float>("h", {hid});
    for (auto k : p.loop("k", hid)) h(k) = 0;
    for (auto e : p.loop("e", ptr(d), ptr(d + 1)))
      for (auto k : p.loop("k", hid)) h(k) += count(e) * emb(word(e), k);
    auto theta = p.local<float>("theta", {topics});
    auto kl = p.scalar<float>("kl", 0), zt = p.scalar<float>("zt", 0), top = p.scalar<float>("top", -1e30f);
    for (auto t : p.loop("t", topics)) {
      auto mu = p.scalar<float>("mu", 0), ls = p.scalar<float>("ls", 0);
      for (auto k : p.loop("k", hid)) {
        auto act = p.let("act", tanh(0.1f * h(k)));
        mu += act * wm(k, t);
        ls += act * ws(k, t);
      }
      theta(t) = mu + eps(d, t) * exp(0.5f * ls);
      top.max_with(theta(t));
      kl += 0.5f * (exp(ls) + mu * mu - 1 - ls);
    }
    for (auto t : p.loop("t", topics)) {
      theta(t) = exp(theta(t) - top);
      zt += theta(t);
    }
    for (auto t : p.loop("t", topics)) theta(t) /= zt;
    auto m = p.scalar<float>("m", -1e30f), z = p.scalar<float>("z", 0);
    auto logits = p.local<float>("logits", {vocab});
    for (auto w : p.loop("w", vocab)) {
      logits(w) = 0;
      for (auto t : p.loop("t", topics)) logits(w) += theta(t) * beta(t, w);
      m.max_with(logits(w));
    }
    for (auto w : p.loop("w", vocab)) z += exp(logits(w) - m);
    elbo(d) = -kl;
    for (auto e : p.loop("e", ptr(d), ptr(d + 1))) elbo(d) += count(e) * (logits(word(e)) - m - log(z));
  }
  return p.build();
}

/// Balls around centres in a cloud of points: two layers, and the maximum over each ball.
Program set_abstraction() {
  ProgramBuilder p("set_abstraction");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k"), c = p.size("c"), h = p.size("h"), o = p.size("o");
  auto pos = p.input<float>("pos", {n, 3});
  auto feat = p.input<float>("feat", {n, c});
  auto centre = p.input<int>("centre", {m});
  auto nbr = p.input<int>("nbr", {m, k});
  auto found = p.input<int>("found", {m});
  auto w1 = p.input<float>("w1", {c + 3, h});
  auto b1 = p.input<float>("b1", {h});
  auto w2 = p.input<float>("w2", {h, o});
  auto b2 = p.input<float>("b2", {o});
  auto out = p.output<float>("out", {m, o});
  p.in_range(centre, 0, n);
  p.in_range(nbr, 0, n);
  p.in_range(found, 1, k + 1);
  for (auto i : p.loop("i", m)) {
    for (auto q : p.loop("q", o)) out(i, q) = -1e30f;
    for (auto e : p.loop("e", found(i))) {
      auto in = p.local<float>("in", {c + 3}), hid = p.local<float>("hid", {h});
      auto j = nbr(i, e);
      for (auto r : p.loop("r", 3)) in(r) = pos(j, r) - pos(centre(i), r);
      for (auto r : p.loop("r", c)) in(r + 3) = feat(j, r);
      for (auto q : p.loop("q", h)) {
        auto s = p.scalar<float>("s", b1(q));
        for (auto r : p.loop("r", c + 3)) s += in(r)*w1(r, q);
        hid(q) = max(s, 0.0f);
      }
      for (auto q : p.loop("q", o)) {
        auto s = p.scalar<float>("s", b2(q));
        for (auto r : p.loop("r", h)) s += hid(r) * w2(r, q);
        out(i, q).max_with(max(s, 0.0f));
      }
    }
  }
  return p.build();
}

/// Trees of gates: nodes from the leaves on, each of which adds to its parent.
Program tree_lstm() {
  ProgramBuilder p("tree_lstm");
  auto nodes = p.size("nodes"), d = p.size("d"), words = p.size("words");
  auto parent = p.input<int>("parent", {nodes});
  auto word = p.input<int>("word", {nodes});
  auto emb = p.input<float>("emb", {words, d});
  auto wx = p.input<float>("wx", {4, d, d});
  auto uh = p.input<float>("uh", {4, d, d});
  auto bias = p.input<float>("bias", {4, d});
  auto h = p.output<float>("h", {nodes, d});
  auto c = p.output<float>("c", {nodes, d});
  p.in_range(parent, 0, nodes);
  p.in_range(word, 0, words);
  auto hsum = p.local<float>("hsum", {nodes, d}), fc = p.local<float>("fc", {nodes, d});
  for (auto v : p.loop("v", nodes))
    for (auto k : p.loop("k", d)) {
      hsum(v, k) = 0;
      fc(v, k) = 0;
    }
  for (auto v : p.loop("v", nodes)) {
    auto g = p.local<float>("g", {3, d});
    for (auto q : p.loop("q", 3))
      for (auto k : p.loop("k", d)) {
        auto s = p.scalar<float>("s", bias(q, k));
        for (auto j : p.loop("j", d)) s += wx(q, j, k) * emb(word(v), j) + uh(q, j, k) * hsum(v, j);
        g(q, k) = s;
      }
    for (auto k : p.loop("k", d)) {
      c(v, k) = sigmoid(g(0, k)) * tanh(g(2, k)) + fc(v, k);
      h(v, k) = sigmoid(g(1, k)) * tanh(c(v, k));
    }
    p.when(parent(v) != v, [&] {
      for (auto k : p.loop("k", d)) {
        auto s = p.scalar<float>("s", bias(3, k));
        for (auto j : p.loop("j", d)) s += wx(3, j, k) * emb(word(parent(v)), j) + uh(3, j, k) * h(v, j);
        fc(parent(v), k) += sigmoid(s) * c(v, k);
        hsum(parent(v), k) += h(v, k);
      }
    });
  }
  return p.build();
}

/// Decoding with a cache: tokens one by one; each layer writes its row of the cache and attends to what is there.
Program kv_decode() {
  ProgramBuilder p("kv_decode");
  auto b = p.size("b"), steps = p.size("steps"), layers = p.size("layers"), d = p.size("d"), v = p.size("v");
  auto tok = p.input<int>("tok", {b, steps});
  auto len = p.input<int>("len", {b});
  auto emb = p.input<float>("emb", {v, d});
  auto wq = p.input<float>("wq", {layers, d, d});
  auto wk = p.input<float>("wk", {layers, d, d});
  auto wv = p.input<float>("wv", {layers, d, d});
  auto slope = p.input<float>("slope", {layers});
  auto out = p.output<float>("out", {b, d});
  p.in_range(tok, 0, v);
  p.in_range(len, 1, steps + 1);
  for (auto i : p.loop("i", b)) {
    auto kc = p.local<float>("kc", {layers, steps, d}), vc = p.local<float>("vc", {layers, steps, d});
    for (auto k : p.loop("k", d)) out(i, k) = 0;
    for (auto t : p.loop("t", len(i))) {
      auto x = p.local<float>("x", {d});
      for (auto k : p.loop("k", d)) x(k) = emb(tok(i, t), k);
      for (auto l : p.loop("l", layers)) {
        auto rms = p.scalar<float>("rms", 1e-5f);
        for (auto k : p.loop("k", d)) rms += x(k) * x(k) / d;
        auto q = p.local<float>("q", {d});
        for (auto k : p.loop("k", d)) {
          auto sq = p.scalar<float>("sq", 0), sk = p.scalar<float>("sk", 0), sv = p.scalar<float>("sv", 0);
          for (auto j : p.loop("j", d)) {
            auto xn = x(j) / sqrt(rms);
            sq += xn * wq(l, j, k);
            sk += xn * wk(l, j, k);
            sv += xn * wv(l, j, k);
          }
          q(k) = sq;
          kc(l, t, k) = sk;
          vc(l, t, k) = sv;
        }
        auto sc = p.local<float>("sc", {steps});
        auto m = p.scalar<float>("m", -1e30f), z = p.scalar<float>("z", 0);
        for (auto s : p.loop("s", t + 1)) {
          auto a = p.scalar<float>("a", 0);
          for (auto k : p.loop("k", d)) a += q(k) * kc(l, s, k);
          sc(s) = a - abs(slope(l)) * (t - s);  // ALiBi
          m.max_with(sc(s));
        }
        for (auto s : p.loop("s", t + 1)) {
          sc(s) = exp(sc(s) - m);
          z += sc(s);
        }
        for (auto k : p.loop("k", d)) {
          auto o = p.scalar<float>("o", 0);
          for (auto s : p.loop("s", t + 1)) o += sc(s) * vc(l, s, k);
          x(k) += o / z;
        }
      }
      for (auto k : p.loop("k", d)) out(i, k) += x(k) / len(i);
    }
  }
  return p.build();
}

/// Neurons, cables that branch: elimination from the leaves to the root and back, in each step.
Program hines() {
  ProgramBuilder p("hines");
  auto neurons = p.size("neurons"), comps = p.size("comps"), steps = p.size("steps");
  auto parent = p.input<int>("parent", {comps});
  auto g = p.input<double>("g", {comps}), gna = p.input<double>("gna", {comps}),
       stim = p.input<double>("stim", {neurons, steps});
  auto v = p.inout<double>("v", {neurons, comps}), mgate = p.inout<double>("mgate", {neurons, comps});
  auto trace = p.output<double>("trace", {neurons, steps});
  p.in_range(parent, 0, comps);
  for (auto t : p.loop("t", steps))
    for (auto q : p.loop("q", neurons)) {
      auto d = p.local<double>("d", {comps}), b = p.local<double>("b", {comps});
      for (auto i : p.loop("i", comps)) {
        auto alpha = p.let("alpha", 1.0 / (1.0 + exp(-v(q, i)))), beta = p.let("beta", 0.5 * exp(-0.1 * v(q, i)));
        mgate(q, i) += 0.1 * (alpha * (1.0 - mgate(q, i)) - beta * mgate(q, i));
        d(i) = 1.5 + g(i) * g(i);
        b(i) = v(q, i) - 0.1 * gna(i) * mgate(q, i) * mgate(q, i) * mgate(q, i) * (v(q, i) - 0.5);
      }
      b(0) += stim(q, t);
      for (auto i : p.loop("i", 1, comps)) d(parent(i)) += 0.1 * g(i) * g(i);
      for (auto i : p.loop("i", 1, comps, {.descending = true})) {
        auto f = p.let("f", 0.1 * g(i) * g(i) / d(i));
        d(parent(i)) -= 0.1 * f * g(i) * g(i);
        b(parent(i)) += f * b(i);
      }
      v(q, 0) = b(0) / d(0);
      for (auto i : p.loop("i", 1, comps)) v(q, i) = (b(i) + 0.1 * g(i) * g(i) * v(q, parent(i))) / d(i);
      trace(q, t) = v(q, comps - 1);
    }
  return p.build();
}

/// Messages on edges: for each edge all edges into its source, by a basis of angles and distances.
Program triplets() {
  ProgramBuilder p("triplets");
  auto n = p.size("n"), edges = p.size("edges"), d = p.size("d"), nl = p.size("nl"), nr = p.size("nr");
  auto into = p.input<int>("into", {n + 1});
  auto src = p.input<int>("src", {edges});
  auto x = p.input<float>("x", {n, 3});
  auto h = p.input<float>("h", {edges, d});
  auto w = p.input<float>("w", {nl, nr, d});
  auto y = p.output<float>("y", {n, d});
  p.csr(into, edges);
  p.in_range(src, 0, n);
  auto msg = p.local<float>("msg", {edges, d});
  for (auto v : p.loop("v", n)) {
    for (auto e : p.loop("e", into(v), into(v + 1))) {
      for (auto k : p.loop("k", d)) msg(e, k) = h(e, k);
      auto a = loopgrad::load<3>(x.row(v)) - loopgrad::load<3>(x.row(src(e)));
      for (auto f : p.loop("f", into(src(e)), into(src(e) + 1))) {
        p.when(src(f) != v, [&] {
          auto b = loopgrad::load<3>(x.row(src(f))) - loopgrad::load<3>(x.row(src(e)));
          auto rb = p.let("rb", sqrt(dot(b, b) + 0.01f));
          auto ct = p.let("ct", dot(a, b) / (rb * sqrt(dot(a, a) + 0.01f)));
          auto cut = p.let("cut", pow(max(1 - rb / 3, 0.0f), 2));
          auto pl = p.local<float>("pl", {nl + 1});
          pl(0) = 1;
          pl(1) = ct;
          for (auto l : p.loop("l", 2, nl)) {
            auto lf = loopgrad::cast<float>(l);
            pl(l) = ((2 * lf - 1) * ct * pl(l - 1) - (lf - 1) * pl(l - 2)) / lf;
          }
          for (auto l : p.loop("l", nl))
            for (auto r : p.loop("r", nr)) {
              auto basis = p.let("basis", cut * pl(l) * sin((loopgrad::cast<float>(r) + 1) * rb) / rb);
              for (auto k : p.loop("k", d)) msg(e, k) += basis * w(l, r, k) * h(f, k);
            }
        });
      }
    }
  }
  for (auto v : p.loop("v", n))
    for (auto k : p.loop("k", d)) {
      y(v, k) = 0;
      for (auto e : p.loop("e", into(v), into(v + 1))) y(v, k) += msg(e, k) * sigmoid(msg(e, k));
    }
  return p.build();
}

}  // namespace

std::vector<Field> strides() {
  return {
      {{"mamba2_chunks", "", mamba2_chunks, {{"heads", 7}, {"chunks", 5}, {"q", 61}, {"d", 65}, {"n", 33}}},
       {{{"heads", 2}, {"chunks", 2}, {"q", 3}, {"d", 2}, {"n", 2}},
        {{"heads", 1}, {"chunks", 2}, {"q", 2}, {"d", 17}, {"n", 18}}}},
      {{"doc_attention",
        "",
        doc_attention,
        {{"docs", 71}, {"sents", 701}, {"words", 11003}, {"vocab", 1501}, {"d", 49}}},
       {{{"docs", 2}, {"sents", 3}, {"words", 7}, {"vocab", 4}, {"d", 2}},
        {{"docs", 1}, {"sents", 2}, {"words", 3}, {"vocab", 2}, {"d", 17}}}},
      {{"prod_lda", "", prod_lda, {{"docs", 301}, {"bow", 15013}, {"vocab", 2003}, {"topics", 31}, {"hid", 65}}},
       {{{"docs", 3}, {"bow", 7}, {"vocab", 5}, {"topics", 2}, {"hid", 2}},
        {{"docs", 2}, {"bow", 3}, {"vocab", 3}, {"topics", 17}, {"hid", 3}}}},
      {{"set_abstraction", "", set_abstraction, {{"n", 4001}, {"m", 509}, {"k", 33}, {"c", 19}, {"h", 37}, {"o", 67}}},
       {{{"n", 5}, {"m", 3}, {"k", 3}, {"c", 2}, {"h", 2}, {"o", 2}},
        {{"n", 3}, {"m", 2}, {"k", 2}, {"c", 2}, {"h", 17}, {"o", 18}}}},
      {{"tree_lstm", "", tree_lstm, {{"nodes", 1501}, {"d", 51}, {"words", 307}}},
       {{{"nodes", 5}, {"d", 2}, {"words", 3}}, {{"nodes", 3}, {"d", 17}, {"words", 2}}}},
      {{"kv_decode", "", kv_decode, {{"b", 7}, {"steps", 71}, {"layers", 3}, {"d", 65}, {"v", 503}}},
       {{{"b", 2}, {"steps", 3}, {"layers", 2}, {"d", 2}, {"v", 3}},
        {{"b", 1}, {"steps", 2}, {"layers", 1}, {"d", 17}, {"v", 2}}}},
      {{"hines", "", hines, {{"neurons", 101}, {"comps", 301}, {"steps", 15}}},
       {{{"neurons", 2}, {"comps", 5}, {"steps", 2}}, {{"neurons", 1}, {"comps", 1}, {"steps", 1}}}},
      {{"triplets", "", triplets, {{"n", 1001}, {"edges", 6007}, {"d", 17}, {"nl", 5}, {"nr", 4}}},
       {{{"n", 3}, {"edges", 7}, {"d", 2}, {"nl", 3}, {"nr", 2}},
        {{"n", 1}, {"edges", 1}, {"d", 1}, {"nl", 1}, {"nr", 1}}}},
  };
}

}  // namespace loopgrad::fields
