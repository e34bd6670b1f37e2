// Dense nests of two to four dimensions: what libraries, register tiles, lanes and fused rows take.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

/// An operand: an input of its own, or something computed.
ArrayInfo Writer::operand(const char* stem, std::vector<Extent> extents) {
  if (!chance(60)) return filled_local(stem, std::move(extents));
  ArrayInfo array = declare(ir::ArrayRole::Input, stem, std::move(extents));
  arrays_.push_back(array);
  return array;
}

void Writer::product_of_matrices() {
  const Extent n{.size = some_size()}, m{.size = some_size()}, k{.size = some_size()};
  const bool left = chance(30), right = chance(30);
  const ArrayInfo a = left ? operand("a", {k, n}) : operand("a", {n, k});
  const ArrayInfo b = right ? operand("b", {m, k}) : operand("b", {k, m});
  const ArrayInfo c = filled_local("c", {n, m});
  const int form = static_cast<int>(below(3));
  each(n, [&](const Value& i) {
    each(m, [&](const Value& j) {
      if (form == 0) c.handle(i, j) = 0.0;
      const auto term = [&](const Value& l) {
        const Value x = left ? a.handle(l, i) : a.handle(i, l), y = right ? b.handle(j, l) : b.handle(l, j);
        return x * y;
      };
      each(k, [&](const Value& l) { c.handle(i, j) += 0.3 * term(l); });
      if (form == 2) c.handle(i, j) = squash(c.handle(i, j));
    });
  });
  each(n, [&](const Value& i) { each(m, [&](const Value& j) { sink(c.handle(i, j)); }); });
}

void Writer::batched_product() {
  const Extent batch{.size = some_size()}, n{.size = some_size()}, k{.size = some_size()}, m{.pad = 3};
  const ArrayInfo a = operand("a", {batch, n, k}), b = operand("b", {batch, k, m});
  const ArrayInfo c = filled_local("c", {batch, n, m});
  each(batch, [&](const Value& p) {
    each(n, [&](const Value& i) {
      each(m, [&](const Value& j) {
        each(k, [&](const Value& l) { c.handle(p, i, j) += 0.2 * a.handle(p, i, l) * b.handle(p, l, j); });
      });
    });
  });
  each(batch, [&](const Value& p) { each(n, [&](const Value& i) { sink(c.handle(p, i, 1)); }); });
}

// y[b, o, i, j] from x[b, c, i + u, j + v] and w[o, c, u, v].
void Writer::images() {
  const Extent images{.pad = 2}, from{.pad = 2}, to{.pad = 3}, taps{.pad = 2};
  const Extent n{.size = some_size()}, wide{.size = n.size, .pad = 1};
  const ArrayInfo x = operand("x", {images, from, wide, wide}), w = operand("w", {to, from, taps, taps});
  const ArrayInfo y = filled_local("y", {images, to, n, n});
  const auto inner = [&](const Value& b, const Value& o, const Value& i, const Value& j) {
    each(from, [&](const Value& c) {
      each(taps, [&](const Value& u) {
        each(taps, [&](const Value& v) {
          y.handle(b, o, i, j) += 0.2 * x.handle(b, c, i + u, j + v) * w.handle(o, c, u, v);
        });
      });
    });
  };
  each(images, [&](const Value& b) {
    each(to, [&](const Value& o) {
      each(n, [&](const Value& i) { each(n, [&](const Value& j) { inner(b, o, i, j); }); });
    });
  });
  each(n, [&](const Value& i) { each(n, [&](const Value& j) { sink(y.handle(1, 2, i, j) * y.handle(0, 0, i, j)); }); });
}

// Mean and variance along rows, then what is normalised by them.
void Writer::rows() {
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const ArrayInfo x = operand("x", {n, m}), y = filled_local("y", {n, m});
  each(n, [&](const Value& i) {
    const ArrayInfo mean = declare(ir::ArrayRole::Local, "mean", {}),
                    spread = declare(ir::ArrayRole::Local, "spread", {});
    mean.handle() = 0;
    each(m, [&](const Value& j) { mean.handle() += x.handle(i, j); });
    mean.handle() /= cast(value_type(mean.type), value_of(m));
    spread.handle() = 0.1;
    each(m, [&](const Value& j) {
      const Value off = x.handle(i, j) - mean.handle();
      spread.handle() += off * off;
    });
    each(m, [&](const Value& j) { y.handle(i, j) = (x.handle(i, j) - mean.handle()) / sqrt(spread.handle()); });
  });
  each(n, [&](const Value& i) { each(m, [&](const Value& j) { sink(y.handle(i, j)); }); });
}

// Several steps over a grid, each in place.
void Writer::stencil_in_place() {
  const Extent n{.size = some_size()}, steps{.pad = 2 + static_cast<int>(below(2))};
  const ArrayInfo u = filled_local("u", {n, n});
  each(steps, [&](const Value&) {
    each(1, value_of(n) - 1, n, [&](const Value& i) {
      each(1, value_of(n) - 1, n, [&](const Value& j) {
        const Value around = u.handle(i - 1, j) + u.handle(i + 1, j) + u.handle(i, j - 1) + u.handle(i, j + 1);
        u.handle(i, j) = 0.5 * u.handle(i, j) + 0.1 * around - 0.05 * wave(u.handle(i, j));
      });
    });
  });
  each(n, [&](const Value& i) { each(n, [&](const Value& j) { sink(u.handle(i, j)); }); });
}

void Writer::transposed() {
  const Extent n{.size = some_size()}, m{.size = some_size()}, k{.pad = 2};
  const ArrayInfo x = operand("x", {n, m, k}), y = filled_local("y", {k, m, n});
  each(n, [&](const Value& i) {
    each(m, [&](const Value& j) {
      each(k, [&](const Value& l) { y.handle(l, j, i) = 0.9 * x.handle(i, j, l) + 0.1 * y.handle(l, j, i); });
    });
  });
  each(m, [&](const Value& j) { each(n, [&](const Value& i) { sink(y.handle(0, j, i) * y.handle(1, j, i)); }); });
}

// Matrices that are indexed by positions, with a border or not, by rows and columns or all at once.
void Writer::flattened() {
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const int border = chance(40) ? 2 : 0, shift = border ? 1 : 0;
  const Value rows = value_of(n) + border, columns = value_of(m) + border;
  const auto at = [&](const Value& i, const Value& j) { return (i + shift) * columns + (j + shift); };
  const ArrayHandle x = builder_.input(float_type(), fresh("flat"), {rows * columns});
  const ArrayHandle u = builder_.local(float_type(), fresh("flat"), {rows * columns}),
                    y = builder_.output(float_type(), fresh("flat"), {columns * rows});
  for (const auto t : builder_.loop("t", 0, rows * columns)) u(t) = 0.5 * x(t);
  if (chance(50)) each(n, [&](const Value& e) { each(m, [&](const Value& j) { u(at(e, j)) = tame(1); }); });
  for (const auto t : builder_.loop("s", 0, rows * columns)) y(t) = 0.0;
  each(n, [&](const Value& e) {
    each(m, [&](const Value& j) {
      const Value left = border ? u(at(e, j) - 1) : select(j > 0, u(e * columns + max(j - 1, 0)), u(at(e, j)));
      const Value above = border ? u((e + 2) * columns + j) : u(columns - 1 - j + columns * e);
      y(at(e, j)) += 0.3 * wave(left) * above + 0.2 * u(at(e, j));
    });
  });
  each(n, [&](const Value& e) { each(m, [&](const Value& j) { sink(y(at(e, j))); }); });
}

// Attention within a band: scores, their softmax and a weighted sum.
void Writer::attention() {
  const Extent n{.size = some_size()}, d{.pad = 3};
  const ArrayInfo q = operand("q", {n, d}), k = operand("k", {n, d}), y = filled_local("y", {n, d});
  each(n, [&](const Value& i) {
    const Value lower = max(i - 2, 0), upper = min(i + 3, value_of(n));
    const ArrayInfo score = declare(ir::ArrayRole::Local, "score", {n}), sum = declare(ir::ArrayRole::Local, "sum", {});
    sum.handle() = 0;
    each(lower, upper, n, [&](const Value& j) {
      score.handle(j) = 0.0;
      each(d, [&](const Value& c) { score.handle(j) += q.handle(i, c) * k.handle(j, c); });
      score.handle(j) = exp(0.5 * score.handle(j));
      sum.handle() += score.handle(j);
    });
    each(lower, upper, n, [&](const Value& j) {
      each(d, [&](const Value& c) { y.handle(i, c) += score.handle(j) / sum.handle() * k.handle(j, c); });
    });
  });
  each(n, [&](const Value& i) { each(d, [&](const Value& c) { sink(y.handle(i, c)); }); });
}

}  // namespace loopgrad::fuzz
