// Reactions, plans, prices, lists of what people chose, and stars.
#include "bench/fields/fields.h"

#include <algorithm>
#include <functional>

namespace loopgrad::fields {
namespace {

/// A stiff mechanism: reactions name few species each; implicit steps by Newton with a factored Jacobian in every cell.
Program mechanism() {
  ProgramBuilder p("mechanism");
  auto cells = p.size("cells"), species = p.size("species"), reactions = p.size("reactions"), uses = p.size("uses"),
       makes = p.size("makes"), steps = p.size("steps");
  auto uptr = p.input<int>("uptr", {reactions + 1}), use = p.input<int>("use", {uses});
  auto mptr = p.input<int>("mptr", {reactions + 1}), make = p.input<int>("make", {makes});
  p.csr(uptr, uses);
  p.csr(mptr, makes);
  p.in_range(use, 0, species);
  p.in_range(make, 0, species);
  auto a = p.input<double>("a", {reactions}), barrier = p.input<double>("barrier", {reactions}),
       start = p.input<double>("start", {cells, species});
  auto warm = p.input<double>("warm", {cells});
  auto y = p.output<double>("y", {cells, species}), heat = p.output<double>("heat", {cells});
  for (auto c : p.loop("c", cells)) {
    auto t = p.scalar<double>("t");
    t = 1 + 0.2 * warm(c);
    heat(c) = 0;
    for (auto s : p.loop("s0", species)) y(c, s) = 0.6 + 0.5 * start(c, s);
    for (auto step : p.loop("step", steps)) {
      (void)step;
      auto rate = p.local<double>("rate", {reactions});
      auto z = p.local<double>("z", {species}), f = p.local<double>("f", {species});
      auto j = p.local<double>("j", {species, species});
      auto worst = p.scalar<double>("worst", 1);
      for (auto r : p.loop("r0", reactions)) rate(r) = (0.3 + 0.2 * a(r)) * exp(-(1 + 0.5 * barrier(r)) / t);
      for (auto s : p.loop("s1", species)) z(s) = y(c, s);
      for (auto k : p.loop_while("k", 5, [&](auto) { return worst > 1e-6; })) {
        (void)k;
        for (auto s : p.loop("s2", species)) {
          f(s) = y(c, s) - z(s);
          for (auto q : p.loop("q2", species)) j(s, q) = select(s == q, 1.0, 0.0);
        }
        for (auto r : p.loop("r", reactions)) {
          auto flow = p.scalar<double>("flow");
          flow = 0.1 * rate(r);
          for (auto u : p.loop("u", uptr(r), uptr(r + 1))) flow *= z(use(u));
          for (auto u : p.loop("u1", uptr(r), uptr(r + 1))) f(use(u)) -= flow;
          for (auto m : p.loop("m1", mptr(r), mptr(r + 1))) f(make(m)) += flow;
          for (auto u : p.loop("u2", uptr(r), uptr(r + 1))) {
            auto slope = p.scalar<double>("slope");
            slope = 0.1 * rate(r);
            for (auto v : p.loop("v2", uptr(r), uptr(r + 1))) p.when(v != u, [&] { slope *= z(use(v)); });
            for (auto v : p.loop("v3", uptr(r), uptr(r + 1))) j(use(v), use(u)) += slope;
            for (auto m : p.loop("m3", mptr(r), mptr(r + 1))) j(make(m), use(u)) -= slope;
          }
        }
        for (auto q : p.loop("q", species)) {
          for (auto i : p.loop("i", q + 1, species)) {
            j(i, q) /= j(q, q);
            for (auto l : p.loop("l", q + 1, species)) j(i, l) -= j(i, q) * j(q, l);
            f(i) -= j(i, q) * f(q);
          }
        }
        worst = 0;
        for (auto i : p.loop("i4", species, {.descending = true})) {
          for (auto l : p.loop("l4", i + 1, species)) f(i) -= j(i, l) * f(l);
          f(i) /= j(i, i);
          z(i) += f(i);
          worst.max_with(abs(f(i)));
        }
      }
      auto change = p.scalar<double>("change", 0);
      for (auto s : p.loop("s5", species)) {
        change += abs(z(s) - y(c, s));
        y(c, s) = z(s);
      }
      t += 0.05 * change / cast<double>(species);
      heat(c) += change;
    }
  }
  return p.build();
}

/// One round of iLQR: linearised pendulums, Riccati backwards, and rollouts until one is better than what was.
Program ilqr() {
  ProgramBuilder p("ilqr");
  auto batch = p.size("batch"), horizon = p.size("horizon"), n = p.size("n");
  const int m = 2;
  auto u0 = p.input<double>("u0", {batch, horizon, m}), x0 = p.input<double>("x0", {batch, n});
  auto a = p.input<double>("a", {n, n}), b = p.input<double>("b", {n, m}), goal = p.input<double>("goal", {n}),
       weight = p.input<double>("weight", {n});
  auto u = p.output<double>("u", {batch, horizon, m}), cost = p.output<double>("cost", {batch}),
       length = p.output<double>("length", {batch});
  auto dynamics = [&](const ArrayView& x, const ArrayView& act, const ArrayView& next) {
    for (auto i : p.loop("di", n)) {
      auto s = p.scalar<double>("s", 0);
      for (auto j : p.loop("dj", n)) s += a(i, j) * x(j);
      next(i) = x(i) + 0.1 * tanh(s);
      for (auto k : p.loop("dk", m)) next(i) += 0.1 * (1 + b(i, k)) * act(k);
    }
  };
  auto price = [&](const ArrayView& x, const Value& i) {
    return (1 + weight(i) * weight(i)) * (x(i) - goal(i)) * (x(i) - goal(i));
  };
  for (auto e : p.loop("e", batch)) {
    auto x = p.local<double>("x", {horizon + 1, n}), gain = p.local<double>("gain", {horizon, m, n}),
         feed = p.local<double>("feed", {horizon, m});
    for (auto i : p.loop("i0", n)) x(0, i) = x0(e, i);
    cost(e) = 0;
    for (auto t : p.loop("t0", horizon)) {
      dynamics(x.row(t), u0.row(e).row(t), x.row(t + 1));
      for (auto i : p.loop("i1", n)) cost(e) += price(x.row(t + 1), i);
      for (auto k : p.loop("k1", m)) cost(e) += 0.1 * u0(e, t, k) * u0(e, t, k);
    }
    auto v = p.local<double>("v", {n}), vv = p.local<double>("vv", {n, n});
    for (auto i : p.loop("i2", n)) {
      v(i) = 2 * (1 + weight(i) * weight(i)) * (x(horizon, i) - goal(i));
      for (auto j : p.loop("j2", n)) vv(i, j) = select(i == j, 2 * (1 + weight(i) * weight(i)), 0.0);
    }
    for (auto t : p.loop("t", horizon, {.descending = true})) {
      auto f = p.local<double>("f", {n, n}), vf = p.local<double>("vf", {n, n}), vb = p.local<double>("vb", {n, m});
      auto qx = p.local<double>("qx", {n}), qu = p.local<double>("qu", {m}), qux = p.local<double>("qux", {m, n}),
           quu = p.local<double>("quu", {m, m});
      for (auto i : p.loop("i3", n)) {
        auto s = p.scalar<double>("s3", 0);
        for (auto j : p.loop("j3", n)) s += a(i, j) * x(t, j);
        auto slope = p.let("slope", 1 - tanh(s) * tanh(s));
        for (auto j : p.loop("j4", n)) f(i, j) = select(i == j, 1.0, 0.0) + 0.1 * slope * a(i, j);
      }
      for (auto [i, j] : p.loop({"i5", n}, {"j5", n})) {
        vf(i, j) = 0;
        for (auto l : p.loop("l5", n)) vf(i, j) += vv(i, l) * f(l, j);
      }
      for (auto [i, k] : p.loop({"i6", n}, {"k6", m})) {
        vb(i, k) = 0;
        for (auto l : p.loop("l6", n)) vb(i, k) += vv(i, l) * 0.1 * (1 + b(l, k));
      }
      for (auto i : p.loop("i7", n)) {
        qx(i) = select(t > 0, 2 * (1 + weight(i) * weight(i)) * (x(t, i) - goal(i)), 0.0);
        for (auto l : p.loop("l7", n)) qx(i) += f(l, i) * v(l);
      }
      for (auto k : p.loop("k8", m)) {
        qu(k) = 0.2 * u0(e, t, k);
        for (auto l : p.loop("l8", n)) qu(k) += 0.1 * (1 + b(l, k)) * v(l);
        for (auto j : p.loop("j8", n)) {
          qux(k, j) = 0;
          for (auto l : p.loop("l9", n)) qux(k, j) += 0.1 * (1 + b(l, k)) * vf(l, j);
        }
        for (auto q : p.loop("q8", m)) {
          quu(k, q) = select(k == q, 0.2 + 1e-3, 0.0);
          for (auto l : p.loop("l10", n)) quu(k, q) += 0.1 * (1 + b(l, k)) * vb(l, q);
        }
      }
      const Mat<2> inv = inverse(load_matrix<2, 2>(quu));
      const Vec<2> k = -1.0 * (inv * load<2>(qu));
      store(feed.row(t), k);
      for (auto j : p.loop("j11", n)) {
        const Vec<2> column = -1.0 * (inv * Vec<2>(qux(0, j), qux(1, j)));
        gain(t, 0, j) = column[0];
        gain(t, 1, j) = column[1];
      }
      for (auto i : p.loop("i12", n)) {
        v(i) = qx(i);
        for (auto k2 : p.loop("k12", m)) v(i) += qux(k2, i) * feed(t, k2);
        for (auto j : p.loop("j12", n)) {
          vv(i, j) = select(i == j && t > 0, 2 * (1 + weight(i) * weight(i)), 0.0);
          for (auto l : p.loop("l12", n)) vv(i, j) += f(l, i) * vf(l, j);
          for (auto k2 : p.loop("k13", m)) vv(i, j) += qux(k2, i) * gain(t, k2, j);
        }
      }
    }
    auto better = p.scalar<double>("better"), alpha = p.scalar<double>("alpha", 2);
    better = cost(e) + 1;
    for (auto trial : p.loop_while("trial", 5, [&](auto) { return better > cost(e); })) {
      (void)trial;
      alpha *= 0.5;
      better = 0;
      auto now = p.local<double>("now", {n}), then = p.local<double>("then", {n});
      for (auto i : p.loop("i14", n)) now(i) = x(0, i);
      for (auto t : p.loop("t14", horizon)) {
        for (auto k : p.loop("k14", m)) {
          u(e, t, k) = u0(e, t, k) + alpha * feed(t, k);
          for (auto j : p.loop("j14", n)) u(e, t, k) += gain(t, k, j) * (now(j) - x(t, j));
          better += 0.1 * u(e, t, k) * u(e, t, k);
        }
        dynamics(now, u.row(e).row(t), then);
        for (auto i : p.loop("i15", n)) {
          better += price(then, i);
          now(i) = then(i);
        }
      }
    }
    cost(e) = better;
    length(e) = alpha;
  }
  return p.build();
}

/// Proximal policy optimisation: advantages backwards through episodes that end, normalised; clipped ratios and values.
Program ppo_loss() {
  ProgramBuilder p("ppo_loss");
  auto t = p.size("t"), n = p.size("n"), acts = p.size("acts");
  auto reward = p.input<float>("reward", {t * n}), value = p.input<float>("value", {(t + 1) * n}),
       logit = p.input<float>("logit", {t * n, acts});
  auto old = p.input<float>("old", {t * n}), lambda = p.input<float>("lambda", {});
  auto done = p.input<int>("done", {t * n}), action = p.input<int>("action", {t * n});
  p.in_range(done, 0, 2);
  p.in_range(action, 0, acts);
  auto loss = p.output<float>("loss", {}), entropy = p.output<float>("entropy", {}),
       clipped = p.output<float>("clipped", {});
  auto adv = p.local<float>("adv", {t * n});
  for (auto e : p.loop("e", n)) {
    auto run = p.scalar<float>("run", 0);
    for (auto s : p.loop("s", t, {.descending = true})) {
      auto on = p.let("on", select(done(s * n + e) == 1, 0.0f, 1.0f));
      auto delta = p.let("delta", reward(s * n + e) + 0.99f * on * value((s + 1) * n + e) - value(s * n + e));
      run = delta + 0.99f * (0.9f + 0.05f * lambda()) * on * run;
      adv(s * n + e) = run;
    }
  }
  auto mean = p.scalar<double>("mean", 0), var = p.scalar<double>("var", 0);
  for (auto k : p.loop("k0", t * n)) mean += cast<double>(adv(k));
  mean /= cast<double>(t * n);
  for (auto k : p.loop("k1", t * n)) var += (cast<double>(adv(k)) - mean) * (cast<double>(adv(k)) - mean);
  auto scale = p.let("scale", cast<float>(1 / sqrt(var / cast<double>(t * n) + 1e-4)));
  loss() = 0;
  entropy() = 0;
  clipped() = 0;
  for (auto k : p.loop("k", t * n)) {
    auto top = p.scalar<float>("top", -1e30f), sum = p.scalar<float>("sum", 0), h = p.scalar<float>("h", 0);
    for (auto a : p.loop("a0", acts)) top.max_with(logit(k, a));
    for (auto a : p.loop("a1", acts)) sum += exp(logit(k, a) - top);
    auto z = p.let("z", top + log(sum));
    for (auto a : p.loop("a2", acts)) h -= exp(logit(k, a) - z) * (logit(k, a) - z);
    auto ratio = p.let("ratio", exp(logit(k, action(k)) - z - (old(k) - 1.5f)));
    auto good = p.let("good", scale * (adv(k) - cast<float>(mean)));
    auto bound = p.let("bound", max(min(ratio, 1.2f), 0.8f));
    loss() -= min(ratio * good, bound * good);
    auto gap = p.let("gap", adv(k) - 0.3f * value(k));
    loss() += 0.5f * max(gap * gap, (abs(gap) - 0.1f) * (abs(gap) - 0.1f));
    entropy() += h;
    p.when(ratio > 1.2f || ratio < 0.8f, [&] { clipped() += ratio; });
  }
  return p.build();
}

/// Backups in a tree of which parents are given: soft and hard values upwards, visits downwards, in place.
Program tree_backup() {
  ProgramBuilder p("tree_backup");
  auto n = p.size("n");
  auto parent = p.input<int>("parent", {n}), player = p.input<int>("player", {n});
  p.in_range(parent, 0, n);
  p.in_range(player, 0, 2);
  auto reward = p.input<float>("reward", {n}), prior = p.input<float>("prior", {n}), heat = p.input<float>("heat", {});
  auto value = p.output<float>("value", {n}), visits = p.output<float>("visits", {n}),
       best = p.output<float>("best", {n});
  auto sum = p.local<float>("sum", {n}), top = p.local<float>("top", {n});
  auto children = p.local<int>("children", {n});
  for (auto i : p.loop("i0", n)) {
    sum(i) = 0;
    top(i) = -1e3f;
    best(i) = -1e3f;
    children(i) = 0;
    visits(i) = 0;
  }
  for (auto i : p.loop("i", 1, n, {.descending = true})) {
    auto up = p.let("up", parent(i));
    auto beta = 1 + 0.5f * heat();
    p.when(children(i) == 0, [&] {
       value(i) = reward(i);
       best(i) = reward(i);
     }).otherwise([&] {
      value(i) = reward(i) + 0.9f * (top(i) + log(sum(i)) / beta);
      best(i) = reward(i) + 0.9f * best(i);
    });
    auto v = p.let("v", select(player(i) == 0, value(i), -value(i)));
    p.when(v > top(up),
           [&] {  // a sum of exponentials that keeps its largest
             sum(up) = sum(up) * exp(beta * max(top(up) - v, -30.0f)) + 1;
             top(up) = v;
           })
        .otherwise([&] { sum(up) += exp(beta * (v - top(up))); });
    best(up).max_with(select(player(i) == 0, best(i), -best(i)));
    children(up) += 1;
  }
  value(0) = reward(0) + 0.9f * top(0);
  visits(0) = 1;
  for (auto i : p.loop("i2", 1, n)) {
    auto up = p.let("up2", parent(i));
    visits(i) += visits(up) * sigmoid(prior(i) + value(i) - value(up)) / cast<float>(1 + children(up));
  }
  return p.build();
}

/// Factors of users and items by stochastic steps through a list of ratings, in place; errors of each round.
Program rating_steps() {
  ProgramBuilder p("rating_steps");
  auto users = p.size("users"), items = p.size("items"), ratings = p.size("ratings"), k = p.size("k"),
       rounds = p.size("rounds");
  auto user = p.input<int>("user", {ratings}), item = p.input<int>("item", {ratings});
  p.in_range(user, 0, users);
  p.in_range(item, 0, items);
  auto score = p.input<float>("score", {ratings}), rate = p.input<float>("rate", {rounds}),
       shrink = p.input<float>("shrink", {});
  auto u = p.inout<float>("u", {users, k}), v = p.inout<float>("v", {items, k});
  auto bu = p.inout<float>("bu", {users}), bi = p.inout<float>("bi", {items});
  auto error = p.output<float>("error", {rounds});
  for (auto t : p.loop("t", rounds)) {
    error(t) = 0;
    for (auto r : p.loop("r", ratings)) {
      auto a = p.let("a", user(r)), b = p.let("b", item(r));
      auto e = p.scalar<float>("e");
      e = score(r) - bu(a) - bi(b);
      for (auto f : p.loop("f", k)) e -= u(a, f) * v(b, f);
      auto step = p.let("step", 0.05f * (1 + 0.5f * rate(t)));
      auto decay = p.let("decay", 0.1f * shrink() * shrink());
      bu(a) += step * (e - decay * bu(a));
      bi(b) += step * (e - decay * bi(b));
      for (auto f : p.loop("f1", k)) {
        auto before = p.let("before", u(a, f));
        u(a, f) += step * (e * v(b, f) - decay * u(a, f));
        v(b, f) += step * (e * before - decay * v(b, f));
      }
      error(t) += e * e;
    }
  }
  return p.build();
}

/// Pairs that a user chose and did not: what was not is drawn by integers until it is in none of the user's few.
Program ranking_pairs() {
  ProgramBuilder p("ranking_pairs");
  auto users = p.size("users"), items = p.size("items"), chosen = p.size("chosen"), k = p.size("k"),
       draws = p.size("draws");
  auto ptr = p.input<int>("ptr", {users + 1}), item = p.input<int>("item", {chosen});
  p.csr(ptr, chosen);
  p.in_range(item, 0, items);
  auto u = p.input<float>("u", {users, k}), v = p.input<float>("v", {items, k}), bias = p.input<float>("bias", {items});
  auto loss = p.output<float>("loss", {users}), hard = p.output<float>("hard", {chosen});
  for (auto a : p.loop("a", users)) {
    loss(a) = 0;
    for (auto e : p.loop("e", ptr(a), ptr(a + 1))) {
      auto good = p.scalar<float>("good"), worst = p.scalar<float>("worst", -1e30f);
      auto seed = p.scalar<std::int64_t>("seed");
      seed = e * 7919 + 17;
      good = bias(item(e));
      for (auto f : p.loop("f", k)) good += u(a, f) * v(item(e), f);
      for (auto d : p.loop("d", draws)) {
        (void)d;
        auto other = p.scalar<int>("other", 0), taken = p.scalar<int>("taken", 1);
        for (auto t : p.loop_while("t", 4, [&](auto) { return taken > 0; })) {
          (void)t;
          seed = (seed * 1103515245 + 12345) % 2147483648;
          other = cast<int>(seed / 65536 % items);
          taken = 0;
          for (auto q : p.loop("q", ptr(a), ptr(a + 1))) p.when(item(q) == other, [&] { taken += 1; });
        }
        auto bad = p.scalar<float>("bad");
        bad = bias(other);
        for (auto f : p.loop("f1", k)) bad += u(a, f) * v(other, f);
        loss(a) += log1p(exp(bad - good));
        worst.max_with(bad);
      }
      hard(e) = max(1 + worst - good, 0.0f);
    }
  }
  return p.build();
}

/// BM25: terms of queries are looked for in the sorted rows of documents; a softmax over documents against clicks.
Program bm25() {
  ProgramBuilder p("bm25");
  auto docs = p.size("docs"), entries = p.size("entries"), terms = p.size("terms"), queries = p.size("queries"),
       words = p.size("words");
  auto dptr = p.input<int>("dptr", {docs + 1}), term = p.input<int>("term", {entries});
  auto qptr = p.input<int>("qptr", {queries + 1}), word = p.input<int>("word", {words}),
       click = p.input<int>("click", {queries});
  p.csr(dptr, entries);
  p.csr(qptr, words);
  p.in_range(term, 0, terms);
  p.in_range(word, 0, terms);
  p.in_range(click, 0, docs);
  auto tf = p.input<float>("tf", {entries}), k1 = p.input<float>("k1", {}), b = p.input<float>("b", {}),
       boost = p.input<float>("boost", {terms});
  auto loss = p.output<float>("loss", {queries}), score = p.output<float>("score", {queries, docs});
  auto df = p.local<int>("df", {terms});
  auto length = p.local<float>("length", {docs});
  auto mean = p.scalar<float>("mean", 0);
  for (auto t : p.loop("t0", terms)) df(t) = 0;
  for (auto d : p.loop("d0", docs)) {
    length(d) = 0.1f;
    for (auto e : p.loop("e0", dptr(d), dptr(d + 1))) {
      df(term(e)) += 1;
      length(d) += 1 + 0.5f * tf(e);
    }
    mean += length(d);
  }
  mean /= cast<float>(docs);
  for (auto q : p.loop("q", queries)) {
    auto top = p.scalar<float>("top", -1e30f), sum = p.scalar<float>("sum", 0);
    for (auto d : p.loop("d", docs)) {
      score(q, d) = 0;
      auto slow = p.let("slow", (1.2f + 0.5f * k1()) * (0.5f + 0.2f * b() + (0.5f - 0.2f * b()) * length(d) / mean));
      for (auto w : p.loop("w", qptr(q), qptr(q + 1))) {
        auto lo = p.scalar<int>("lo"), hi = p.scalar<int>("hi");
        lo = dptr(d);
        hi = dptr(d + 1);
        for (auto s : p.loop_while("s", 8, [&](auto) { return lo < hi; })) {
          (void)s;
          auto mid = p.let("mid", (lo + hi) / 2);
          p.when(term(mid) < word(w), [&] { lo = mid + 1; }).otherwise([&] { hi = mid; });
        }
        p.when(lo < dptr(d + 1), [&] {
          p.when(term(lo) == word(w), [&] {
            auto idf =
                p.let("idf", log(1 + (cast<float>(docs - df(word(w))) + 0.5f) / (cast<float>(df(word(w))) + 0.5f)));
            auto f = p.let("f", 1 + 0.5f * tf(lo));
            score(q, d) += (1 + boost(word(w))) * idf * f * (2.2f + 0.5f * k1()) / (f + slow);
          });
        });
      }
      top.max_with(score(q, d));
    }
    for (auto d : p.loop("d1", docs)) sum += exp(score(q, d) - top);
    loss(q) = top + log(sum) - score(q, click(q));
  }
  return p.build();
}

/// Bags of embeddings whose rows follow each other by their lengths, pooled in three ways, and products of all pairs.
Program bags() {
  ProgramBuilder p("bags");
  auto samples = p.size("samples"), features = p.size("features"), rows = p.size("rows"), d = p.size("d");
  auto length = p.input<int>("length", {samples, features}), id = p.input<int>("id", {samples * features * 4});
  p.in_range(length, 0, 5);
  p.in_range(id, 0, rows);
  auto table = p.input<float>("table", {features, rows, d}),
       weight = p.input<float>("weight", {samples * features * 4});
  auto dense = p.input<float>("dense", {samples, d}), top = p.input<float>("top", {(features + 1) * features / 2});
  auto out = p.output<float>("out", {samples});
  auto at = p.scalar<int>("at", 0);
  auto pooled = p.local<float>("pooled", {samples, features + 1, d});
  for (auto s : p.loop("s", samples)) {
    for (auto k : p.loop("k0", d)) pooled(s, 0, k) = dense(s, k);
    for (auto f : p.loop("f", features)) {
      for (auto k : p.loop("k", d)) {
        auto v = p.scalar<float>("v");
        v = select(f % 3 == 2, -1.0f, 0.0f);
        for (auto e : p.loop("e", length(s, f))) {
          auto row = p.let("row", weight(at + e) * table(f, id(at + e), k));
          p.when(f % 3 == 2, [&] { v.max_with(row); }).otherwise([&] { v += row; });
        }
        p.when(f % 3 == 1 && length(s, f) > 0, [&] { v /= cast<float>(length(s, f)); });
        pooled(s, f + 1, k) = v;
      }
      at += length(s, f);
    }
  }
  for (auto s : p.loop("s1", samples)) {
    out(s) = 0;
    for (auto i : p.loop("i", 1, features + 1))
      for (auto j : p.loop("j", i)) {
        auto dot = p.scalar<float>("dot", 0);
        for (auto k : p.loop("k1", d)) dot += pooled(s, i, k) * pooled(s, j, k);
        out(s) += top(i * (i - 1) / 2 + j) * max(dot, 0.1f * dot);
      }
  }
  return p.build();
}

/// Barnes and Hut: masses of a given tree upwards, forces by walking it with skips, leapfrog.
Program barnes_hut() {
  ProgramBuilder p("barnes_hut");
  auto n = p.size("n"), nodes = p.size("nodes"), steps = p.size("steps");
  auto body = p.input<int>("body", {nodes}), parent = p.input<int>("parent", {nodes}),
       skip = p.input<int>("skip", {nodes});
  p.in_range(body, -1, n);
  p.in_range(parent, 0, nodes);
  p.in_range(skip, 1, nodes + 1);
  auto mass = p.input<double>("mass", {n}), theta = p.input<double>("theta", {});
  auto x = p.inout<double>("x", {n, 2}), v = p.inout<double>("v", {n, 2});
  auto potential = p.output<double>("potential", {steps});
  auto m = p.local<double>("m", {nodes}), spread = p.local<double>("spread", {nodes}),
       c = p.local<double>("c", {nodes, 2});
  for (auto t : p.loop("t", steps)) {
    for (auto k : p.loop("k0", nodes)) {
      m(k) = 1e-3;
      spread(k) = 1e-3;
      c(k, 0) = 0;
      c(k, 1) = 0;
    }
    for (auto k : p.loop("k", nodes, {.descending = true})) {
      p.when(body(k) >= 0, [&] {
        auto b = p.let("b", max(body(k), 0));
        m(k) += 1 + 0.5 * mass(b);
        for (auto d : p.loop("d", 2)) c(k, d) += (1 + 0.5 * mass(b)) * x(b, d);
      });
      c(k, 0) /= m(k);
      c(k, 1) /= m(k);
      p.when(k > 0, [&] {
        auto up = p.let("up", parent(k));
        p.when(up < k, [&] {
          m(up) += m(k);
          for (auto d : p.loop("d1", 2)) c(up, d) += m(k) * c(k, d);
          spread(up).max_with(1.5 * spread(k) + 0.02);
        });
      });
    }
    potential(t) = 0;
    for (auto i : p.loop("i", n)) {
      auto ax = p.scalar<double>("ax", 0), ay = p.scalar<double>("ay", 0);
      auto at = p.scalar<int>("at", 0);
      for (auto s : p.loop_while("s", nodes, [&](auto) { return at < nodes; })) {
        (void)s;
        auto dx = p.let("dx", c(at, 0) - x(i, 0)), dy = p.let("dy", c(at, 1) - x(i, 1));
        auto r2 = p.let("r2", dx * dx + dy * dy + 0.01);
        p.when(body(at) >= 0 || spread(at) * spread(at) < (0.5 + 0.1 * theta()) * r2, [&] {
           p.when(body(at) != i, [&] {
             auto f = p.let("f", m(at) / (r2 * sqrt(r2)));
             ax += f * dx;
             ay += f * dy;
             potential(t) -= 0.5 * m(at) / sqrt(r2);
           });
           at = max(skip(at), at + 1);
         }).otherwise([&] { at += 1; });
      }
      v(i, 0) += 0.01 * ax;
      v(i, 1) += 0.01 * ay;
    }
    for (auto [i, d] : p.loop({"i1", n}, {"d2", 2})) x(i, d) += 0.01 * v(i, d);
  }
  return p.build();
}

/// Stars in a picture: profiles in windows that borders cut, their sum against what was seen, and better brightnesses.
Program star_fit() {
  ProgramBuilder p("star_fit");
  auto h = p.size("h"), w = p.size("w"), stars = p.size("stars"), r = p.size("r");
  auto at = p.input<float>("at", {stars, 2}), flux = p.input<float>("flux", {stars}),
       shape = p.input<float>("shape", {3});
  auto seen = p.input<float>("seen", {h, w}), noise = p.input<float>("noise", {h, w}), sky = p.input<float>("sky", {3});
  auto chi2 = p.output<double>("chi2", {}), better = p.output<float>("better", {stars}),
       model = p.output<float>("model", {h, w});
  for (auto [i, j] : p.loop({"i0", h}, {"j0", w}))
    model(i, j) = sky(0) + sky(1) * cast<float>(i) / cast<float>(h) + sky(2) * cast<float>(j) / cast<float>(w);
  auto window = [&](const Value& s, auto&& visit) {
    auto y = p.let("y", (0.5f + 0.5f * at(s, 0)) * cast<float>(h - 1)),
         x = p.let("x", (0.5f + 0.5f * at(s, 1)) * cast<float>(w - 1));
    auto iy = p.let("iy", cast<int>(floor(y + 0.5f))), ix = p.let("ix", cast<int>(floor(x + 0.5f)));
    for (auto i : p.loop("i", max(iy - r, 0), min(iy + r + 1, h)))
      for (auto j : p.loop("j", max(ix - r, 0), min(ix + r + 1, w))) {
        auto dy = p.let("dy", cast<float>(i) - y), dx = p.let("dx", cast<float>(j) - x);
        auto q =
            p.let("q", (1 + 0.3f * shape(0)) * dx * dx + (1 + 0.3f * shape(1)) * dy * dy + 0.2f * shape(2) * dx * dy);
        visit(i, j, p.let("psf", pow(1 + 0.3f * abs(q), -2.5f)));
      }
  };
  for (auto s : p.loop("s", stars))
    window(s, [&](const Value& i, const Value& j, const Value& psf) { model(i, j) += (1.5f + flux(s)) * psf; });
  chi2() = 0;
  for (auto [i, j] : p.loop({"i1", h}, {"j1", w})) {
    auto gap = p.let("gap", (seen(i, j) - model(i, j)) / (0.5f + 0.2f * noise(i, j)));
    p.when(abs(gap) < 6, [&] { chi2() += cast<double>(gap * gap); }).otherwise([&] {
      chi2() += cast<double>(12 * abs(gap) - 36);
    });
  }
  for (auto s : p.loop("s2", stars)) {
    auto top = p.scalar<float>("top", 0), bottom = p.scalar<float>("bottom", 1e-2f);
    window(s, [&](const Value& i, const Value& j, const Value& psf) {
      top += psf * (seen(i, j) - model(i, j)) / (0.5f + 0.2f * noise(i, j));
      bottom += psf * psf / (0.5f + 0.2f * noise(i, j));
    });
    better(s) = 1.5f + flux(s) + top / bottom;
  }
  return p.build();
}

/// An auction: those without a thing bid for the best one, whose owner has to bid again, until all have one.
Program auction() {
  ProgramBuilder p("auction");
  auto n = p.size("n"), rounds = p.size("rounds");
  auto worth = p.input<double>("worth", {n, n}), eps = p.input<double>("eps", {});
  auto price = p.output<double>("price", {n}), gain = p.output<double>("gain", {n});
  auto owner = p.local<int>("owner", {n}), queue = p.local<int>("queue", {n});
  for (auto i : p.loop("i0", n)) {
    price(i) = 0;
    owner(i) = -1;
    queue(i) = cast<int>(n - 1 - i);
    gain(i) = 0;
  }
  auto waiting = p.scalar<int>("waiting");
  waiting = cast<int>(n);
  for (auto r : p.loop_while("r", rounds * n, [&](auto) { return waiting > 0; })) {
    (void)r;
    auto i = p.scalar<int>("i"), which = p.scalar<int>("which", 0);
    i = queue(waiting - 1);
    waiting -= 1;
    auto first = p.scalar<double>("first", -1e9), second = p.scalar<double>("second", -10);
    for (auto j : p.loop("j", n)) {
      auto left = p.let("left", worth(i, j) - price(j));
      p.when(left > first, [&] {
         second.max_with(first);
         first = left;
         which = cast<int>(j);
       }).otherwise([&] { second.max_with(left); });
    }
    p.when(owner(which) >= 0, [&] {
      queue(waiting) = owner(which);
      waiting += 1;
    });
    owner(which) = i;
    price(which) += first - second + 0.1 + 0.05 * eps();
    gain(which) = first;
  }
  return p.build();
}

/// Flows on arcs in a list, pushed along in order as far as capacities and what is left at their tails allow.
Program push_flow() {
  ProgramBuilder p("push_flow");
  auto nodes = p.size("nodes"), arcs = p.size("arcs"), rounds = p.size("rounds");
  auto tail = p.input<int>("tail", {arcs}), head = p.input<int>("head", {arcs});
  p.in_range(tail, 0, nodes);
  p.in_range(head, 0, nodes);
  auto capacity = p.input<double>("capacity", {arcs}), cost = p.input<double>("cost", {arcs}),
       supply = p.input<double>("supply", {nodes});
  auto flow = p.output<double>("flow", {arcs}), level = p.output<double>("level", {nodes}),
       total = p.output<double>("total", {});
  auto excess = p.local<double>("excess", {nodes});
  for (auto i : p.loop("i0", nodes)) {
    excess(i) = max(supply(i), 0.0);
    level(i) = 0;
  }
  for (auto a : p.loop("a0", arcs)) flow(a) = 0;
  total() = 0;
  for (auto r : p.loop("r", rounds)) {
    (void)r;
    for (auto a : p.loop("a", arcs)) {
      auto i = p.let("i", tail(a)), j = p.let("j", head(a));
      p.when(i != j && level(i) > level(j) - 0.2, [&] {
        auto push = p.let("push", min(0.5 * excess(i), 1 + 0.5 * capacity(a) - flow(a)));
        p.when(push > 1e-3, [&] {
          flow(a) += push;
          excess(i) -= push;
          excess(j) += push;
          total() += (1 + 0.5 * cost(a)) * push;
        });
      });
    }
    for (auto i : p.loop("i1", nodes)) level(i) += 0.1 * excess(i);
  }
  return p.build();
}

}  // namespace

std::vector<Field> reactions() {
  auto tree = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    // a binary tree over n bodies, depth first: a node of count bodies has 2 count - 1 nodes
    const std::int64_t n = sizes.at("n"), nodes = sizes.at("nodes");
    for (std::int64_t k = 0; k < nodes; ++k) {
      arrays.at("body").set(k, -1);
      arrays.at("parent").set(k, 0);
      arrays.at("skip").set(k, static_cast<double>(k + 1));
    }
    std::int64_t next = 0;
    const std::function<void(std::int64_t, std::int64_t, std::int64_t)> place =
        [&](std::int64_t first, std::int64_t count, std::int64_t up) {
          const std::int64_t at = next++;
          if (at >= nodes) return;
          arrays.at("parent").set(at, static_cast<double>(up));
          if (count == 1) {
            arrays.at("body").set(at, static_cast<double>(first));
          } else {
            place(first, count / 2, at);
            place(first + count / 2, count - count / 2, at);
          }
          arrays.at("skip").set(at, static_cast<double>(std::min(next, nodes)));
        };
    place(0, n, 0);
    for (std::int64_t i = 0; i < n; ++i)
      arrays.at("x").set(2 * i, 20.0 * static_cast<double>(i) / static_cast<double>(n));
  };
  auto sorted_terms = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    for (std::int64_t d = 0; d < sizes.at("docs"); ++d) {
      std::vector<double> row;
      const auto from = static_cast<std::int64_t>(arrays.at("dptr").get(d)),
                 to = static_cast<std::int64_t>(arrays.at("dptr").get(d + 1));
      for (std::int64_t e = from; e < to; ++e) row.push_back(arrays.at("term").get(e));
      std::sort(row.begin(), row.end());
      for (std::int64_t e = from; e < to; ++e) arrays.at("term").set(e, row[static_cast<std::size_t>(e - from)]);
    }
  };
  auto earlier = [](const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
    for (std::int64_t i = 1; i < sizes.at("n"); ++i) {
      const auto at = static_cast<std::int64_t>(arrays.at("parent").get(i));
      arrays.at("parent").set(i, static_cast<double>(at % i));
    }
  };
  return {
      {{"mechanism",
        "",
        mechanism,
        {{"cells", 301}, {"species", 9}, {"reactions", 21}, {"uses", 43}, {"makes", 41}, {"steps", 5}}},
       {{{"cells", 2}, {"species", 3}, {"reactions", 4}, {"uses", 7}, {"makes", 6}, {"steps", 2}},
        {{"cells", 1}, {"species", 1}, {"reactions", 1}, {"uses", 1}, {"makes", 1}, {"steps", 1}},
        {{"cells", 3}, {"species", 4}, {"reactions", 3}, {"uses", 4}, {"makes", 5}, {"steps", 1}}}},
      {{"ilqr", "", ilqr, {{"batch", 101}, {"horizon", 51}, {"n", 5}}},
       {{{"batch", 2}, {"horizon", 4}, {"n", 3}},
        {{"batch", 1}, {"horizon", 1}, {"n", 1}},
        {{"batch", 3}, {"horizon", 3}, {"n", 2}}}},
      {{"ppo_loss", "", ppo_loss, {{"t", 257}, {"n", 301}, {"acts", 7}}},
       {{{"t", 5}, {"n", 3}, {"acts", 4}}, {{"t", 1}, {"n", 1}, {"acts", 1}}, {{"t", 4}, {"n", 7}, {"acts", 3}}}},
      {{"tree_backup", "", tree_backup, {{"n", 300007}}, {}, {}, earlier}, {{{"n", 7}}, {{"n", 1}}, {{"n", 15}}}},
      {{"rating_steps",
        "",
        rating_steps,
        {{"users", 3001}, {"items", 1709}, {"ratings", 60013}, {"k", 11}, {"rounds", 3}}},
       {{{"users", 3}, {"items", 4}, {"ratings", 9}, {"k", 3}, {"rounds", 2}},
        {{"users", 1}, {"items", 1}, {"ratings", 2}, {"k", 1}, {"rounds", 1}},
        {{"users", 7}, {"items", 2}, {"ratings", 5}, {"k", 2}, {"rounds", 3}}}},
      {{"ranking_pairs",
        "",
        ranking_pairs,
        {{"users", 7001}, {"items", 3001}, {"chosen", 21007}, {"k", 11}, {"draws", 5}}},
       {{{"users", 3}, {"items", 5}, {"chosen", 7}, {"k", 3}, {"draws", 2}},
        {{"users", 1}, {"items", 1}, {"chosen", 1}, {"k", 1}, {"draws", 1}},
        {{"users", 4}, {"items", 3}, {"chosen", 5}, {"k", 2}, {"draws", 3}}}},
      {{"bm25",
        "",
        bm25,
        {{"docs", 4001}, {"entries", 16007}, {"terms", 307}, {"queries", 31}, {"words", 97}},
        {},
        {},
        sorted_terms},
       {{{"docs", 5}, {"entries", 13}, {"terms", 4}, {"queries", 3}, {"words", 7}},
        {{"docs", 1}, {"entries", 1}, {"terms", 1}, {"queries", 1}, {"words", 1}},
        {{"docs", 3}, {"entries", 9}, {"terms", 2}, {"queries", 2}, {"words", 3}}}},
      {{"bags", "", bags, {{"samples", 2003}, {"features", 7}, {"rows", 1009}, {"d", 17}}},
       {{{"samples", 3}, {"features", 3}, {"rows", 4}, {"d", 3}},
        {{"samples", 1}, {"features", 1}, {"rows", 1}, {"d", 1}},
        {{"samples", 5}, {"features", 2}, {"rows", 3}, {"d", 2}}}},
      {{"barnes_hut", "", barnes_hut, {{"n", 1201}, {"nodes", 2401}, {"steps", 2}}, {}, {}, tree},
       {{{"n", 4}, {"nodes", 7}, {"steps", 2}},
        {{"n", 1}, {"nodes", 1}, {"steps", 1}},
        {{"n", 6}, {"nodes", 11}, {"steps", 2}}}},
      {{"star_fit", "", star_fit, {{"h", 301}, {"w", 403}, {"stars", 907}, {"r", 6}}},
       {{{"h", 5}, {"w", 7}, {"stars", 3}, {"r", 2}},
        {{"h", 1}, {"w", 1}, {"stars", 1}, {"r", 1}},
        {{"h", 4}, {"w", 3}, {"stars", 5}, {"r", 1}}}},
      {{"auction", "", auction, {{"n", 301}, {"rounds", 100}}},
       {{{"n", 4}, {"rounds", 5}}, {{"n", 1}, {"rounds", 1}}, {{"n", 5}, {"rounds", 2}}}},
      {{"push_flow", "", push_flow, {{"nodes", 10007}, {"arcs", 50021}, {"rounds", 20}}},
       {{{"nodes", 4}, {"arcs", 9}, {"rounds", 3}},
        {{"nodes", 1}, {"arcs", 1}, {"rounds", 1}},
        {{"nodes", 7}, {"arcs", 5}, {"rounds", 2}}}},
  };
}

}  // namespace loopgrad::fields
