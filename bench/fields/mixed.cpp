#include "bench/fields/fields.h"

#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

/// Shortest paths between all pairs with a smooth minimum, in place.
Program floyd_warshall() {
  ProgramBuilder p("floyd_warshall");
  auto n = p.size("n");
  auto d = p.inout<float>("d", {n, n});
  for (auto k : p.loop("k", 0, n))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) {
        auto way = d(i, k) + d(k, j);
        d(i, j) = -log(exp(-d(i, j)) + exp(-way - 1.0f));
      }
  return p.build();
}

/// Bellman-Ford: rounds of relaxations over a list of edges, each at once.
Program bellman_ford() {
  ProgramBuilder p("bellman_ford");
  auto v = p.size("v"), e = p.size("e"), t = p.size("t");
  auto from = p.input<int>("from", {e}), to = p.input<int>("to", {e});
  auto w = p.input<float>("w", {e}), start = p.input<float>("start", {v});
  auto dist = p.output<float>("dist", {v});
  p.in_range(from, 0, v);
  p.in_range(to, 0, v);
  for (auto i : p.loop("i", 0, v)) dist(i) = 3.0f + start(i);
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    for (auto k : p.loop("k", 0, e)) dist(to(k)).min_with(dist(from(k)) + 0.5f + w(k) * w(k));
  }
  return p.build();
}

/// Viterbi: the best path by stored choices, then a loss along that path.
Program viterbi() {
  ProgramBuilder p("viterbi");
  auto t = p.size("t"), s = p.size("s");
  auto emit = p.input<float>("emit", {t, s}), move = p.input<float>("move", {s, s});
  auto loss = p.output<float>("loss", {}), score = p.output<float>("score", {s});
  auto from = p.local<std::int64_t>("from", {t, s});
  auto now = p.local<float>("now", {s}), next = p.local<float>("next", {s});
  for (auto j : p.loop("j", 0, s)) now(j) = emit(0, j);
  for (auto i : p.loop("i", 1, t)) {
    for (auto j : p.loop("j", 0, s)) {
      auto best = p.scalar<float>("best");
      best = -1e30f;
      from(i, j) = 0;
      for (auto k : p.loop("k", 0, s))
        p.when(now(k) + move(k, j) > best, [&] { best = now(k) + move(k, j), from(i, j) = k; });
      next(j) = best + emit(i, j);
    }
    for (auto j : p.loop("j", 0, s)) now(j) = next(j);
  }
  for (auto j : p.loop("j", 0, s)) score(j) = now(j);
  auto at = p.scalar<std::int64_t>("at");
  at = 0;
  loss() = 0.0f;
  for (auto b : p.loop("b", 0, t)) {
    auto i = t - 1 - b;
    loss() += emit(i, at) * emit(i, at);
    p.when(i > 0, [&] { at = Value(from(i, at)); });
  }
  return p.build();
}

/// Largest value in each bin, and the product over another: neither is a sum.
Program scatter_extremes() {
  ProgramBuilder p("scatter_extremes");
  auto n = p.size("n"), b = p.size("b");
  auto bin = p.input<int>("bin", {n});
  auto x = p.input<float>("x", {n});
  auto top = p.output<float>("top", {b}), product = p.output<float>("product", {b});
  p.in_range(bin, 0, b);
  for (auto k : p.loop("k", 0, b)) {
    top(k) = -1.0f;
    product(k) = 1.0f;
  }
  for (auto i : p.loop("i", 0, n)) {
    top(bin(i)).max_with(sin(2.0f * x(i)));
    product((bin(i) * 3 + 1) % b) *= 1.0f + 0.1f * x(i);
  }
  return p.build();
}

/// Balances of accounts with interest between their movements, one after another; each movement notes what was there.
Program ledger() {
  ProgramBuilder p("ledger");
  auto n = p.size("n"), accounts = p.size("accounts"), parts = p.size("parts");
  auto account = p.input<int>("account", {n});
  auto amount = p.input<float>("amount", {n, parts}), rate = p.input<float>("rate", {n});
  auto balance = p.inout<float>("balance", {accounts, parts}), seen = p.output<float>("seen", {n, parts});
  p.in_range(account, 0, accounts);
  for (auto i : p.loop("i", 0, n))
    for (auto k : p.loop("k", 0, parts)) {
      seen(i, k) = balance(account(i), k) * balance(account(i), (k + 1) % parts);
      balance(account(i), k) = balance(account(i), k) * (0.5f + 0.1f * rate(i)) + tanh(amount(i, k));
    }
  return p.build();
}

/// Newton's iteration for each point until it has converged.
Program newton() {
  ProgramBuilder p("newton");
  auto n = p.size("n"), most = p.size("most");
  auto a = p.input<double>("a", {n}), b = p.input<double>("b", {});
  auto root = p.output<double>("root", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto x = p.scalar<double>("x"), step = p.scalar<double>("step");
    x = 2.0;
    step = 1.0;
    for (auto k : p.loop_while("k", most, [&](const Value&) { return abs(step) > 1e-9; })) {
      (void)k;
      step = (x * x * x + (a(i) + 2.0) * x - b() - 5.0) / (3.0 * x * x + a(i) + 2.0);
      x -= step;
    }
    root(i) = x;
  }
  return p.build();
}

/// A lower triangular system in CSR form, rows that need rows before them.
Program sparse_triangular() {
  ProgramBuilder p("sparse_triangular");
  auto n = p.size("n"), nnz = p.size("nnz");
  auto ptr = p.input<int>("ptr", {n + 1}), col = p.input<int>("col", {nnz});
  auto a = p.input<float>("a", {nnz}), diagonal = p.input<float>("diagonal", {n}), b = p.input<float>("b", {n});
  auto x = p.output<float>("x", {n});
  p.csr(ptr, nnz);
  p.in_range(col, 0, n);
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = b(i);
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) p.when(col(k) < i, [&] { s -= 0.5f * a(k) * x(col(k)); });
    x(i) = s / (2.0f + diagonal(i));
  }
  return p.build();
}

/// A butterfly transform: levels of strides that double, in place.
Program butterflies() {
  ProgramBuilder p("butterflies");
  auto rows = p.size("rows"), half = p.size("half"), levels = p.size("levels");
  auto a = p.inout<float>("a", {rows, 2 * half});
  auto w = p.input<float>("w", {levels, half});
  for (auto r : p.loop("r", 0, rows)) {
    auto stride = p.scalar<std::int64_t>("stride");
    stride = 1;
    for (auto l : p.loop("l", 0, levels)) {
      for (auto k : p.loop("k", 0, half)) {
        auto low = p.scalar<std::int64_t>("low"), high = p.scalar<std::int64_t>("high");
        auto u = p.scalar<float>("u"), v = p.scalar<float>("v");
        low = (k / stride) * 2 * stride + k % stride;
        low = min(low, 2 * half - 1);
        high = min(low + stride, 2 * half - 1);
        u = a(r, low);
        v = a(r, high) * w(l, k);
        a(r, low) = 0.7f * (u + v);
        a(r, high) = 0.7f * (u - v);
      }
      stride *= 2;
    }
  }
  return p.build();
}

/// A walk that integers decide, with weights that it meets.
Program random_walks() {
  ProgramBuilder p("random_walks");
  auto walks = p.size("walks"), steps = p.size("steps"), g = p.size("g");
  auto field = p.input<float>("field", {g}), gain = p.input<float>("gain", {steps});
  auto seed = p.input<int>("seed", {walks});
  auto y = p.output<float>("y", {walks}), visits = p.output<float>("visits", {g});
  for (auto i : p.loop("i", 0, g)) visits(i) = 0.0f;
  for (auto q : p.loop("q", 0, walks)) {
    auto state = p.scalar<std::int64_t>("state"), at = p.scalar<std::int64_t>("at");
    auto weight = p.scalar<float>("weight");
    state = cast<std::int64_t>(seed(q)) * 2654435761 + q;
    at = g / 2;
    weight = 1.0f;
    for (auto s : p.loop("s", 0, steps)) {
      state = (state * 1103515245 + 12345) % 2147483648;
      p.when((state / 65536) % 2 == 0, [&] { at = max(0, at - 1); }).otherwise([&] { at = min(g - 1, at + 1); });
      weight *= 1.0f + 0.1f * field(at) * gain(s);
      visits(at) += weight;
    }
    y(q) = weight;
  }
  return p.build();
}

/// A packed Cholesky factor, in place, its log-determinant and a solve.
Program packed_cholesky() {
  ProgramBuilder p("packed_cholesky");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n * (n + 1) / 2});
  auto b = p.input<double>("b", {n});
  auto x = p.output<double>("x", {n}), logdet = p.output<double>("logdet", {});
  auto at = [](const Value& i, const Value& j) { return i * (i + 1) / 2 + j; };
  logdet() = 0.0;
  for (auto j : p.loop("j", 0, n)) {
    for (auto k : p.loop("k", 0, j)) a(at(j, j)) -= a(at(j, k)) * a(at(j, k));
    a(at(j, j)) = sqrt(a(at(j, j)));
    logdet() += 2.0 * log(a(at(j, j)));
    for (auto i : p.loop("i", j + 1, n)) {
      for (auto k : p.loop("k", 0, j)) a(at(i, j)) -= a(at(i, k)) * a(at(j, k));
      a(at(i, j)) /= a(at(j, j));
    }
  }
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s");
    s = b(i);
    for (auto k : p.loop("k", 0, i)) s -= a(at(i, k)) * x(k);
    x(i) = s / a(at(i, i));
  }
  return p.build();
}

/// A queue of fixed length in a ring buffer: what comes out is mixed with what goes in.
Program ring_buffer() {
  ProgramBuilder p("ring_buffer");
  auto t = p.size("t"), n = p.size("n"), c = p.size("c");
  auto x = p.input<float>("x", {t, c}), mix = p.input<float>("mix", {c});
  auto y = p.output<float>("y", {t, c});
  auto line = p.local<float>("line", {n, c});
  for (auto i : p.loop("i", 0, n))
    for (auto k : p.loop("k", 0, c)) line(i, k) = 0.0f;
  for (auto s : p.loop("s", 0, t))
    for (auto k : p.loop("k", 0, c)) {
      y(s, k) = x(s, k) + tanh(mix(k) * line(s % n, k));
      line(s % n, k) = y(s, k);
    }
  return p.build();
}

/// Heads of attention over pages of keys that a table names, of lengths of their own.
Program paged_attention() {
  ProgramBuilder p("paged_attention");
  auto b = p.size("b"), pages = p.size("pages"), most = p.size("most"), size = p.size("size"), d = p.size("d");
  auto q = p.input<float>("q", {b, d}), k = p.input<float>("k", {pages, size, d}),
       v = p.input<float>("v", {pages, size, d});
  auto table = p.input<int>("table", {b, most}), length = p.input<int>("length", {b});
  auto y = p.output<float>("y", {b, d});
  p.in_range(table, 0, pages);
  p.in_range(length, 1, most * size + 1);
  for (auto i : p.loop("i", 0, b)) {
    auto sum = p.scalar<float>("sum"), top = p.scalar<float>("top");
    auto acc = p.local<float>("acc", {d});
    sum = 0.0f;
    top = -1e30f;
    for (auto c : p.loop("c", 0, d)) acc(c) = 0.0f;
    for (auto j : p.loop("j", 0, length(i))) {
      auto s = p.scalar<float>("s"), next = p.scalar<float>("next"), scale = p.scalar<float>("scale"),
           w = p.scalar<float>("w");
      s = 0.0f;
      for (auto c : p.loop("c", 0, d)) s += q(i, c) * k(table(i, j / size), j % size, c);
      next = max(top, s);
      scale = exp(top - next);
      w = exp(s - next);
      sum = sum * scale + w;
      for (auto c : p.loop("c", 0, d)) acc(c) = acc(c) * scale + w * v(table(i, j / size), j % size, c);
      top = next;
    }
    for (auto c : p.loop("c", 0, d)) y(i, c) = acc(c) / sum;
  }
  return p.build();
}

/// Upwind advection: which neighbour counts depends on the sign of the velocity, itself transported.
Program upwind() {
  ProgramBuilder p("upwind");
  auto t = p.size("t"), n = p.size("n");
  auto u = p.inout<float>("u", {n}), c = p.inout<float>("c", {n});
  for (auto s : p.loop("s", 0, t)) {
    (void)s;
    auto flux = p.local<float>("flux", {n + 1});
    for (auto i : p.loop("i", 0, n + 1)) {
      auto left = max(i - 1, 0), right = min(i, n - 1);
      auto speed = p.scalar<float>("speed");
      speed = 0.5f * (u(left) + u(right));
      p.when(speed > 0.0f, [&] { flux(i) = speed * c(left); }).otherwise([&] { flux(i) = speed * c(right); });
    }
    for (auto i : p.loop("i", 0, n)) {
      c(i) -= 0.2f * (flux(i + 1) - flux(i));
      u(i) = u(i) * (1.0f - 0.1f * abs(u(i))) + 0.05f * c(i);
    }
  }
  return p.build();
}

/// Max pooling with overlap, and its inverse by the places of the maxima.
Program pool_unpool() {
  ProgramBuilder p("pool_unpool");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {2 * n + 1, 2 * m + 1}), w = p.input<float>("w", {n, m});
  auto y = p.output<float>("y", {2 * n + 1, 2 * m + 1});
  auto top = p.local<float>("top", {n, m});
  auto row = p.local<int>("row", {n, m}), column = p.local<int>("column", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      top(i, j) = -1e30f;
      row(i, j) = 0;
      column(i, j) = 0;
      for (auto a : p.loop("a", 0, 3))
        for (auto b : p.loop("b", 0, 3))
          p.when(x(2 * i + a, 2 * j + b) > top(i, j), [&] {
            top(i, j) = x(2 * i + a, 2 * j + b);
            row(i, j) = cast<int>(2 * i + a);
            column(i, j) = cast<int>(2 * j + b);
          });
    }
  for (auto i : p.loop("i", 0, 2 * n + 1))
    for (auto j : p.loop("j", 0, 2 * m + 1)) y(i, j) = 0.1f * x(i, j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(row(i, j), column(i, j)) += w(i, j) * top(i, j) * top(i, j);
  return p.build();
}

/// Momentum and a running second moment over steps of training a line fit: what an unrolled optimiser does.
Program unrolled_adam() {
  ProgramBuilder p("unrolled_adam");
  auto t = p.size("t"), n = p.size("n"), d = p.size("d");
  auto x = p.input<float>("x", {n, d}), y = p.input<float>("y", {n}), rate = p.input<float>("rate", {});
  auto w = p.inout<float>("w", {d});
  auto loss = p.output<float>("loss", {t});
  auto m = p.local<float>("m", {d}), v = p.local<float>("v", {d}), g = p.local<float>("g", {d});
  for (auto k : p.loop("k", 0, d)) {
    m(k) = 0.0f;
    v(k) = 0.01f;
  }
  for (auto s : p.loop("s", 0, t)) {
    for (auto k : p.loop("k", 0, d)) g(k) = 0.0f;
    loss(s) = 0.0f;
    for (auto i : p.loop("i", 0, n)) {
      auto error = p.scalar<float>("error");
      error = -1.0f * y(i);
      for (auto k : p.loop("k", 0, d)) error += x(i, k) * w(k);
      loss(s) += error * error / cast<float>(n);
      for (auto k : p.loop("k", 0, d)) g(k) += 2.0f * error * x(i, k) / cast<float>(n);
    }
    for (auto k : p.loop("k", 0, d)) {
      m(k) = 0.9f * m(k) + 0.1f * g(k);
      v(k) = 0.99f * v(k) + 0.01f * g(k) * g(k);
      w(k) -= 0.1f * rate() * m(k) / sqrt(v(k) + 0.01f);
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> mixed() {
  auto positive = [](const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    HostArray& a = arrays.at("a");
    const std::int64_t n = sizes.at("n");
    for (std::int64_t i = 0, at = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j, ++at)
        a.set(at, i == j ? static_cast<double>(n) + 1 : random.uniform(-1, 1));
  };
  auto seeds = [](const Sizes&, std::uint64_t seed, InputArrays& arrays) {
    tools::Random random(seed);
    HostArray& s = arrays.at("seed");
    for (std::int64_t i = 0; i < s.size(); ++i) s.set(i, static_cast<double>(random.below(1000000)));
  };
  return {
      {{"floyd_warshall", "", floyd_warshall, {{"n", 160}}}, {{{"n", 5}}, {{"n", 1}}, {{"n", 2}}}},
      {{"bellman_ford", "", bellman_ford, {{"v", 20000}, {"e", 100000}, {"t", 5}}},
       {{{"v", 5}, {"e", 9}, {"t", 3}}, {{"v", 1}, {"e", 1}, {"t", 1}}, {{"v", 33}, {"e", 40}, {"t", 2}}}},
      {{"viterbi", "", viterbi, {{"t", 2000}, {"s", 48}}},
       {{{"t", 7}, {"s", 3}}, {{"t", 1}, {"s", 1}}, {{"t", 33}, {"s", 2}}}},
      {{"scatter_extremes", "", scatter_extremes, {{"n", 500000}, {"b", 1000}}},
       {{{"n", 7}, {"b", 3}}, {{"n", 33}, {"b", 2}}, {{"n", 1}, {"b", 1}}}},
      {{"ledger", "", ledger, {{"n", 300000}, {"accounts", 7000}, {"parts", 3}}},
       {{{"n", 7}, {"accounts", 3}, {"parts", 2}},
        {{"n", 33}, {"accounts", 2}, {"parts", 1}},
        {{"n", 1}, {"accounts", 1}, {"parts", 3}}}},
      {{"newton", "", newton, {{"n", 200000}, {"most", 20}}},
       {{{"n", 7}, {"most", 30}}, {{"n", 1}, {"most", 1}}, {{"n", 3}, {"most", 4}}}},
      {{"sparse_triangular", "", sparse_triangular, {{"n", 100000}, {"nnz", 600000}}},
       {{{"n", 7}, {"nnz", 12}}, {{"n", 1}, {"nnz", 2}}, {{"n", 33}, {"nnz", 7}}}},
      {{"butterflies", "", butterflies, {{"rows", 500}, {"half", 256}, {"levels", 9}}},
       {{{"rows", 2}, {"half", 4}, {"levels", 3}},
        {{"rows", 1}, {"half", 1}, {"levels", 1}},
        {{"rows", 1}, {"half", 3}, {"levels", 4}}}},
      {{"random_walks", "", random_walks, {{"walks", 20000}, {"steps", 64}, {"g", 101}}, {}, {}, seeds},
       {{{"walks", 3}, {"steps", 7}, {"g", 5}},
        {{"walks", 1}, {"steps", 1}, {"g", 1}},
        {{"walks", 7}, {"steps", 33}, {"g", 3}}}},
      {{"packed_cholesky", "", packed_cholesky, {{"n", 200}}, {}, {}, positive}, {{{"n", 5}}, {{"n", 1}}, {{"n", 2}}}},
      {{"ring_buffer", "", ring_buffer, {{"t", 4000}, {"n", 50}, {"c", 64}}},
       {{{"t", 12}, {"n", 3}, {"c", 2}}, {{"t", 2}, {"n", 7}, {"c", 1}}, {{"t", 5}, {"n", 1}, {"c", 3}}}},
      {{"paged_attention", "", paged_attention, {{"b", 256}, {"pages", 400}, {"most", 16}, {"size", 16}, {"d", 32}}},
       {{{"b", 2}, {"pages", 5}, {"most", 3}, {"size", 2}, {"d", 3}},
        {{"b", 1}, {"pages", 1}, {"most", 1}, {"size", 1}, {"d", 1}},
        {{"b", 3}, {"pages", 2}, {"most", 2}, {"size", 3}, {"d", 2}}}},
      {{"upwind", "", upwind, {{"t", 100}, {"n", 20000}}},
       {{{"t", 3}, {"n", 7}}, {{"t", 1}, {"n", 1}}, {{"t", 5}, {"n", 2}}}},
      {{"pool_unpool", "", pool_unpool, {{"n", 500}, {"m", 500}}},
       {{{"n", 2}, {"m", 3}}, {{"n", 1}, {"m", 1}}, {{"n", 5}, {"m", 1}}}},
      {{"unrolled_adam", "", unrolled_adam, {{"t", 50}, {"n", 2000}, {"d", 32}}},
       {{{"t", 3}, {"n", 5}, {"d", 2}}, {{"t", 1}, {"n", 1}, {"d", 1}}, {{"t", 2}, {"n", 7}, {"d", 3}}}},
  };
}

}  // namespace loopgrad::fields
