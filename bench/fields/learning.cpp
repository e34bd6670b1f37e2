#include "bench/fields/fields.h"

#include "tools/support/random.h"

namespace loopgrad::fields {
namespace {

Program batch_norm() {
  ProgramBuilder p("batch_norm");
  auto n = p.size("n"), c = p.size("c"), h = p.size("h");
  auto x = p.input<float>("x", {n, c, h}), gamma = p.input<float>("gamma", {c}), beta = p.input<float>("beta", {c});
  auto y = p.output<float>("y", {n, c, h});
  for (auto k : p.loop("k", 0, c)) {
    auto mean = p.scalar<float>("mean"), var = p.scalar<float>("var");
    mean = 0.0f;
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, h)) mean += x(i, k, j);
    mean /= cast<float>(n * h);
    var = 0.0f;
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, h)) var += (x(i, k, j) - mean) * (x(i, k, j) - mean);
    var /= cast<float>(n * h);
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, h)) y(i, k, j) = gamma(k) * (x(i, k, j) - mean) / sqrt(var + 1e-5f) + beta(k);
  }
  return p.build();
}

Program group_norm() {
  ProgramBuilder p("group_norm");
  auto n = p.size("n"), g = p.size("g"), c = p.size("c"), l = p.size("l");
  auto x = p.input<float>("x", {n, g * c, l}), gamma = p.input<float>("gamma", {g * c});
  auto y = p.output<float>("y", {n, g * c, l});
  for (auto i : p.loop("i", 0, n))
    for (auto q : p.loop("q", 0, g)) {
      auto sum = p.scalar<float>("sum"), squares = p.scalar<float>("squares"), rstd = p.scalar<float>("rstd");
      sum = 0.0f;
      squares = 0.0f;
      for (auto k : p.loop("k", 0, c))
        for (auto j : p.loop("j", 0, l)) {
          sum += x(i, q * c + k, j);
          squares += x(i, q * c + k, j) * x(i, q * c + k, j);
        }
      auto count = cast<float>(c * l);
      rstd = 1.0f / sqrt(squares / count - (sum / count) * (sum / count) + 0.1f);
      for (auto k : p.loop("k", 0, c))
        for (auto j : p.loop("j", 0, l))
          y(i, q * c + k, j) = max((x(i, q * c + k, j) - sum / count) * rstd * gamma(q * c + k), 0.0f);
    }
  return p.build();
}

/// The value under the largest key and under the second largest, as in a router of two experts.
Program top2_router() {
  ProgramBuilder p("top2_router");
  auto n = p.size("n"), e = p.size("e"), d = p.size("d");
  auto key = p.input<float>("key", {n, e}), expert = p.input<float>("expert", {e, d});
  auto y = p.output<float>("y", {n, d});
  for (auto i : p.loop("i", 0, n)) {
    auto best = p.scalar<float>("best"), second = p.scalar<float>("second"), gate = p.scalar<float>("gate");
    auto at = p.scalar<std::int64_t>("at"), at2 = p.scalar<std::int64_t>("at2");
    best = -1e30f;
    at = 0;
    for (auto k : p.loop("k", 0, e)) p.when(key(i, k) > best, [&] { best = key(i, k), at = k; });
    second = -1e30f;
    at2 = 0;
    for (auto k : p.loop("k", 0, e)) p.when(k != at && key(i, k) > second, [&] { second = key(i, k), at2 = k; });
    gate = 1.0f / (1.0f + exp(second - best));
    for (auto j : p.loop("j", 0, d)) y(i, j) = gate * expert(at, j) + (1.0f - gate) * expert(at2, j);
  }
  return p.build();
}

Program cumulative_logsumexp() {
  ProgramBuilder p("cumulative_logsumexp");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum"), next = p.scalar<float>("next");
    largest = -1e30f;
    sum = 0.0f;
    for (auto j : p.loop("j", 0, m)) {
      next = max(largest, x(i, j));
      sum = sum * exp(largest - next) + exp(x(i, j) - next);
      largest = next;
      y(i, j) = largest + log(sum);
    }
  }
  return p.build();
}

Program block_sparse_attention() {
  ProgramBuilder p("block_sparse_attention");
  auto rows = p.size("rows"), b = p.size("b"), d = p.size("d"), blocks = p.size("blocks");
  auto q = p.input<float>("q", {rows * b, d}), k = p.input<float>("k", {rows * b, d});
  auto v = p.input<float>("v", {rows * b, d});
  auto ptr = p.input<int>("ptr", {rows + 1}), col = p.input<int>("col", {blocks});
  auto y = p.output<float>("y", {rows * b, d});
  p.csr(ptr, blocks);
  p.in_range(col, 0, rows);
  auto dot = [&](const Value& i, const Value& j) {
    auto s = p.scalar<float>("s");
    s = 0.0f;
    for (auto c : p.loop("c", 0, d)) s += q(i, c) * k(j, c);
    return s;
  };
  for (auto r : p.loop("r", 0, rows))
    for (auto i : p.loop("i", 0, b)) {
      auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum"), w = p.scalar<float>("w");
      auto acc = p.local<float>("acc", {d});
      largest = -1e30f;
      for (auto e : p.loop("e", ptr(r), ptr(r + 1)))
        for (auto j : p.loop("j", 0, b)) largest.max_with(dot(r * b + i, col(e) * b + j));
      sum = 0.0f;
      for (auto c : p.loop("c", 0, d)) acc(c) = 0.0f;
      for (auto e : p.loop("e", ptr(r), ptr(r + 1)))
        for (auto j : p.loop("j", 0, b)) {
          w = exp(dot(r * b + i, col(e) * b + j) - largest);
          sum += w;
          for (auto c : p.loop("c", 0, d)) acc(c) += w * v(col(e) * b + j, c);
        }
      for (auto c : p.loop("c", 0, d)) y(r * b + i, c) = acc(c) / (sum + 1e-6f);
    }
  return p.build();
}

Program segment_softmax() {
  ProgramBuilder p("segment_softmax");
  auto v = p.size("v"), e = p.size("e");
  auto ptr = p.input<int>("ptr", {v + 1});
  auto x = p.input<float>("x", {e});
  auto y = p.output<float>("y", {e});
  p.csr(ptr, e);
  for (auto i : p.loop("i", 0, v)) {
    auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum");
    largest = -1e30f;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) largest.max_with(x(k));
    sum = 0.0f;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
      y(k) = exp(x(k) - largest);
      sum += y(k);
    }
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) y(k) /= sum;
  }
  return p.build();
}

/// Causal attention with a bias by distance, rows of a triangle.
Program causal_attention() {
  ProgramBuilder p("causal_attention");
  auto n = p.size("n"), d = p.size("d");
  auto q = p.input<float>("q", {n, d}), k = p.input<float>("k", {n, d}), v = p.input<float>("v", {n, d});
  auto bias = p.input<float>("bias", {n});
  auto y = p.output<float>("y", {n, d});
  for (auto i : p.loop("i", 0, n)) {
    auto score = p.local<float>("score", {i + 1});
    auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum");
    largest = -1e30f;
    for (auto j : p.loop("j", 0, i + 1)) {
      score(j) = bias(i - j);
      for (auto c : p.loop("c", 0, d)) score(j) += q(i, c) * k(j, c);
      largest.max_with(score(j));
    }
    sum = 0.0f;
    for (auto j : p.loop("j", 0, i + 1)) {
      score(j) = exp(score(j) - largest);
      sum += score(j);
    }
    for (auto c : p.loop("c", 0, d)) {
      y(i, c) = 0.0f;
      for (auto j : p.loop("j", 0, i + 1)) y(i, c) += score(j) / sum * v(j, c);
    }
  }
  return p.build();
}

Program chamfer() {
  ProgramBuilder p("chamfer");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, 3}), b = p.input<float>("b", {m, 3});
  auto loss = p.output<float>("loss", {});
  loss() = 0.0f;
  auto nearest = [&](const ArrayHandle& from, const ArrayHandle& to, const Value& rows, const Value& cols) {
    for (auto i : p.loop("i", 0, rows)) {
      auto least = p.scalar<float>("least");
      least = 1e30f;
      for (auto j : p.loop("j", 0, cols)) {
        auto dx = from(i, 0) - to(j, 0), dy = from(i, 1) - to(j, 1), dz = from(i, 2) - to(j, 2);
        least.min_with(dx * dx + dy * dy + dz * dz);
      }
      loss() += sqrt(least + 1e-6f) / cast<float>(rows);
    }
  };
  nearest(a, b, n, m);
  nearest(b, a, m, n);
  return p.build();
}

/// A selective state space: a scan over time, a state of s numbers for each channel.
Program state_space() {
  ProgramBuilder p("state_space");
  auto t = p.size("t"), c = p.size("c"), s = p.size("s");
  auto x = p.input<float>("x", {t, c}), delta = p.input<float>("delta", {t, c}), a = p.input<float>("a", {c, s});
  auto b = p.input<float>("b", {t, s}), out = p.input<float>("out", {t, s});
  auto y = p.output<float>("y", {t, c});
  for (auto i : p.loop("i", 0, c)) {
    auto h = p.local<float>("h", {s});
    for (auto k : p.loop("k", 0, s)) h(k) = 0.0f;
    for (auto j : p.loop("j", 0, t)) {
      auto step = p.scalar<float>("step");
      step = log1p(exp(delta(j, i)));
      y(j, i) = 0.0f;
      for (auto k : p.loop("k", 0, s)) {
        h(k) = exp(-step * exp(a(i, k))) * h(k) + step * b(j, k) * x(j, i);
        y(j, i) += h(k) * out(j, k);
      }
    }
  }
  return p.build();
}

/// InfoNCE: normalised rows, the logits of all pairs, cross-entropy on the diagonal, both ways.
Program info_nce() {
  ProgramBuilder p("info_nce");
  auto n = p.size("n"), d = p.size("d");
  auto u = p.input<float>("u", {n, d}), v = p.input<float>("v", {n, d});
  auto loss = p.output<float>("loss", {});
  auto norm = [&](const ArrayHandle& x, const char* name) {
    auto unit = p.local<float>(name, {n, d});
    for (auto i : p.loop("i", 0, n)) {
      auto s = p.scalar<float>("s");
      s = 1e-6f;
      for (auto k : p.loop("k", 0, d)) s += x(i, k) * x(i, k);
      for (auto k : p.loop("k", 0, d)) unit(i, k) = x(i, k) / sqrt(s);
    }
    return unit;
  };
  auto a = norm(u, "a"), b = norm(v, "b");
  auto logit = p.local<float>("logit", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      logit(i, j) = 0.0f;
      for (auto k : p.loop("k", 0, d)) logit(i, j) += 5.0f * a(i, k) * b(j, k);
    }
  loss() = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto row = p.scalar<float>("row"), column = p.scalar<float>("column");
    row = 0.0f;
    column = 0.0f;
    for (auto j : p.loop("j", 0, n)) {
      row += exp(logit(i, j) - 5.0f);
      column += exp(logit(j, i) - 5.0f);
    }
    loss() += 0.5f * (log(row) + log(column)) + 5.0f - logit(i, i);
  }
  return p.build();
}

/// A strided and dilated convolution with its border by branches, and an average pool behind it.
Program dilated_conv() {
  ProgramBuilder p("dilated_conv");
  auto n = p.size("n"), c = p.size("c"), o = p.size("o");
  auto x = p.input<float>("x", {c, 2 * n}), w = p.input<float>("w", {o, c, 5}), y = p.output<float>("y", {o, n});
  for (auto f : p.loop("f", 0, o))
    for (auto i : p.loop("i", 0, n)) {
      y(f, i) = 0.0f;
      for (auto k : p.loop("k", 0, c))
        for (auto t : p.loop("t", 0, 5)) {
          auto at = 2 * i + 3 * (t - 2);
          p.when(at >= 0 && at < 2 * n, [&] { y(f, i) += x(k, at) * w(f, k, t); });
        }
      y(f, i) = max(y(f, i), 0.1f * y(f, i));
    }
  return p.build();
}

/// What is stored in halves: a layer with f16 inputs and bf16 weights.
Program half_layer() {
  ProgramBuilder p("half_layer");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto x = p.input<half>("x", {n, k});
  auto w = p.input<bfloat16>("w", {m, k});
  auto y = p.output<half>("y", {n, m});
  auto loss = p.output<float>("loss", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto norm = p.scalar<float>("norm");
    norm = 1e-3f;
    for (auto j : p.loop("j", 0, m)) {
      auto s = p.scalar<float>("s");
      s = 0.0f;
      for (auto c : p.loop("c", 0, k)) s += x(i, c) * w(j, c);
      y(i, j) = tanh(s);
      norm += s * s;
    }
    loss(i) = sqrt(norm);
  }
  return p.build();
}

/// Points go to their nearest centre; centres become means; the loss is what is left.
Program kmeans_step() {
  ProgramBuilder p("kmeans_step");
  auto n = p.size("n"), k = p.size("k"), d = p.size("d");
  auto x = p.input<float>("x", {n, d}), centre = p.input<float>("centre", {k, d});
  auto moved = p.output<float>("moved", {k, d}), loss = p.output<float>("loss", {});
  auto count = p.local<float>("count", {k});
  for (auto c : p.loop("c", 0, k)) {
    count(c) = 1.0f;
    for (auto j : p.loop("j", 0, d)) moved(c, j) = centre(c, j);
  }
  loss() = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto at = p.scalar<std::int64_t>("at");
    auto least = p.scalar<float>("least");
    least = 1e30f;
    at = 0;
    for (auto c : p.loop("c", 0, k)) {
      auto s = p.scalar<float>("s");
      s = 0.0f;
      for (auto j : p.loop("j", 0, d)) s += (x(i, j) - centre(c, j)) * (x(i, j) - centre(c, j));
      p.when(s < least, [&] { least = s, at = c; });
    }
    loss() += least;
    count(at) += 1.0f;
    for (auto j : p.loop("j", 0, d)) moved(at, j) += x(i, j);
  }
  for (auto c : p.loop("c", 0, k))
    for (auto j : p.loop("j", 0, d)) moved(c, j) /= count(c);
  return p.build();
}

/// Products and extremes along rows: geometric mean, range, and a soft count.
Program row_products() {
  ProgramBuilder p("row_products");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, 3});
  for (auto i : p.loop("i", 0, n)) {
    y(i, 0) = 1.0f;
    y(i, 1) = -10.0f;
    y(i, 2) = 10.0f;
    for (auto j : p.loop("j", 0, m)) {
      y(i, 0) *= 1.0f + 0.3f * x(i, j);
      y(i, 1).max_with(x(i, j));
      y(i, 2).min_with(x(i, j) * x(i, j));
    }
  }
  return p.build();
}

}  // namespace

std::vector<Field> learning() {
  return {
      {{"batch_norm", "", batch_norm, {{"n", 256}, {"c", 64}, {"h", 784}}},
       {{{"n", 3}, {"c", 2}, {"h", 5}}, {{"n", 1}, {"c", 3}, {"h", 2}}, {{"n", 7}, {"c", 1}, {"h", 33}}}},
      {{"group_norm", "", group_norm, {{"n", 128}, {"g", 8}, {"c", 8}, {"l", 784}}},
       {{{"n", 2}, {"g", 3}, {"c", 2}, {"l", 7}},
        {{"n", 1}, {"g", 1}, {"c", 1}, {"l", 3}},
        {{"n", 3}, {"g", 2}, {"c", 7}, {"l", 1}}}},
      {{"top2_router", "", top2_router, {{"n", 40000}, {"e", 16}, {"d", 64}}},
       {{{"n", 7}, {"e", 5}, {"d", 3}}, {{"n", 33}, {"e", 2}, {"d", 1}}, {{"n", 1}, {"e", 3}, {"d", 2}}}},
      {{"cumulative_logsumexp", "", cumulative_logsumexp, {{"n", 2000}, {"m", 512}}},
       {{{"n", 3}, {"m", 7}}, {{"n", 1}, {"m", 1}}, {{"n", 2}, {"m", 33}}}},
      {{"block_sparse_attention", "", block_sparse_attention, {{"rows", 64}, {"b", 16}, {"d", 32}, {"blocks", 400}}},
       {{{"rows", 3}, {"b", 2}, {"d", 3}, {"blocks", 7}},
        {{"rows", 1}, {"b", 1}, {"d", 1}, {"blocks", 1}},
        {{"rows", 7}, {"b", 3}, {"d", 2}, {"blocks", 5}}}},
      {{"segment_softmax", "", segment_softmax, {{"v", 200000}, {"e", 2000000}}},
       {{{"v", 7}, {"e", 12}}, {{"v", 33}, {"e", 7}}, {{"v", 1}, {"e", 3}}}},
      {{"causal_attention", "", causal_attention, {{"n", 768}, {"d", 32}}},
       {{{"n", 7}, {"d", 3}}, {{"n", 1}, {"d", 1}}, {{"n", 33}, {"d", 2}}}},
      {{"chamfer", "", chamfer, {{"n", 3000}, {"m", 2500}}},
       {{{"n", 7}, {"m", 3}}, {{"n", 1}, {"m", 1}}, {{"n", 33}, {"m", 2}}}},
      {{"state_space", "", state_space, {{"t", 512}, {"c", 128}, {"s", 16}}},
       {{{"t", 7}, {"c", 3}, {"s", 2}}, {{"t", 1}, {"c", 1}, {"s", 3}}, {{"t", 33}, {"c", 2}, {"s", 1}}}},
      {{"info_nce", "", info_nce, {{"n", 512}, {"d", 64}}},
       {{{"n", 7}, {"d", 3}}, {{"n", 1}, {"d", 2}}, {{"n", 33}, {"d", 1}}}},
      {{"dilated_conv", "", dilated_conv, {{"n", 4096}, {"c", 16}, {"o", 32}}},
       {{{"n", 7}, {"c", 2}, {"o", 3}}, {{"n", 1}, {"c", 1}, {"o", 1}}, {{"n", 33}, {"c", 1}, {"o", 2}}}},
      {{"half_layer", "", half_layer, {{"n", 512}, {"m", 256}, {"k", 256}}},
       {{{"n", 3}, {"m", 2}, {"k", 7}}, {{"n", 1}, {"m", 1}, {"k", 1}}}},
      {{"kmeans_step", "", kmeans_step, {{"n", 50000}, {"k", 16}, {"d", 16}}},
       {{{"n", 7}, {"k", 3}, {"d", 2}}, {{"n", 33}, {"k", 2}, {"d", 3}}, {{"n", 1}, {"k", 1}, {"d", 1}}}},
      {{"row_products", "", row_products, {{"n", 20000}, {"m", 200}}},
       {{{"n", 3}, {"m", 7}}, {{"n", 2}, {"m", 1}}, {{"n", 1}, {"m", 33}}}},
  };
}

}  // namespace loopgrad::fields
