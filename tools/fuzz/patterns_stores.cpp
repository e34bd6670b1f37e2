// Stores at places that data choose, and who reads them: the largest so far takes all, elements that an earlier step
// has left, elements that a mask, a count or a border fills, neighbours, strides.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

// At data-chosen elements the largest so far takes all: several arrays keep what it brings.
void Writer::takers() {
  const Extent n{.size = some_size()}, bins{.size = some_size()}, few{.pad = 2};
  const IndexInfo key = indices_between(n, bins);
  const ArrayInfo x = operand("x", {n}), w = operand("w", {n, few});
  const ArrayInfo best = filled_local("best", {bins}), one = filled_local("one", {bins});
  const ArrayInfo two = filled_local("two", {bins, few});
  const ArrayHandle who = chance(40) ? integer_output("who", ScalarType::I64, bins) : integers("who", {bins});
  each(bins, [&](const Value& b) {
    who(b) = 0;
    if (chance(50)) best.handle(b) = -2;
  });
  const bool smallest = chance(25), doubled = chance(60), steps = chance(40), reads = chance(40), always = chance(20);
  const LoopOptions order = some_order();
  const auto run = [&](const Value&) {
    each(
        0, value_of(n), n,
        [&](const Value& e) {
          const Value v = builder_.let(fresh("v"), x.handle(e) * w.handle(e, 0));
          const Value at = key.handle(e);
          const Value ahead = smallest ? v < best.handle(at) - 0.0123 : v > best.handle(at) + 0.0123;
          const auto take = [&] {
            if (!always) best.handle(at) = v;
            if (chance(70)) one.handle(at) = chance(50) ? Value(x.handle(e)) : squash(x.handle(e)) * bounded(0);
            if (doubled) each(few, [&](const Value& c) { two.handle(at, c) = w.handle(e, c) * x.handle(e); });
            who(at) = e;
            if (chance(30)) one.handle(at) += 0.3 * two.handle(at, 1);
          };
          if (always) take();
          else builder_.when(chance(25) ? ahead && condition() : ahead, take);
          if (reads) sink(one.handle(at) * bounded(0));
        },
        order);
    if (steps) each(bins, [&](const Value& b) { best.handle(b) = 0.6 * best.handle(b) - 0.2; });
  };
  if (steps) each(some_steps(), run);
  else run(0);
  each(bins, [&](const Value& b) {
    sink(best.handle(b) * one.handle(b));
    sink(two.handle(b, 0) * two.handle(b, 1) + as_float(who(b) % 5) * 0.1);
  });
}

// The largest so far in scalars, with what belongs to it. An iteration may store for itself in front of that, and have
// a sum that goes on from one inner iteration to the next.
void Writer::kept_extrema() {
  const bool nested = chance(65), runs = nested && chance(40), stores = chance(40), also = chance(30);
  const Extent n{.size = some_size()}, m = nested ? Extent{.size = some_size()} : Extent{.pad = 2};
  const ArrayInfo x = operand("x", {n, m}), w = operand("w", {n, m}), y = filled_local("y", {n});
  const ArrayInfo top = new_scalar("top"), with = new_scalar("with"), last = new_scalar("last");
  const ArrayHandle row = integers("row", {});
  top.handle() = -2;
  with.handle() = 0.25;
  last.handle() = 0.1;
  row() = 0;
  const LoopOptions order = some_order();
  const auto one = [&](const Value& i, const Value& j, const ArrayInfo& sum) {
    if (runs) sum.handle() += 0.4 * x.handle(i, j);
    const Value v = builder_.let(fresh("v"), runs ? Value(sum.handle()) : x.handle(i, j) * w.handle(i, j));
    if (stores) y.handle(i) = 0.7 * v;
    if (also) last.handle() = 0.3 * v;
    builder_.when(chance(25) ? v > top.handle() && condition() : v > top.handle(), [&] {
      top.handle() = v;
      with.handle() = w.handle(i, j);
      row() = i;
      if (also && chance(50)) last.handle() = 0.6 * v;
    });
  };
  each(
      0, value_of(n), n,
      [&](const Value& i) {
        const ArrayInfo sum = new_scalar("sum");
        sum.handle() = 0;
        if (nested) each(m, [&](const Value& j) { one(i, j, sum); });
        else one(i, 0, sum);
      },
      order);
  sink(top.handle() * with.handle() + as_float(row() % 5) * 0.1);
  sink(last.handle());
  each(n, [&](const Value& i) { sink(y.handle(i)); });
}

// What is read at data-chosen elements is cleared behind it, so that who comes first has it all.
void Writer::taken_and_cleared() {
  const Extent n{.size = some_size()}, bins{.size = some_size()}, few{.pad = 2};
  const IndexInfo key = indices_between(n, bins), other = indices_between(n, bins);
  const ArrayInfo x = filled_local("x", {n}), a = filled_local("a", {bins}), b = filled_local("b", {bins});
  const ArrayInfo c = filled_local("c", {bins, few});
  const bool together = chance(50), inner = chance(50), moves = chance(30), guarded = chance(30);
  const std::int64_t part = 1 + below(5);
  const ArrayHandle place = integers("place", {});
  place() = 0;
  const LoopOptions order = some_order();
  const auto taken = [&](const Value& e) {
    place() = cast<std::int64_t>(key.handle(e));
    if (together) x.handle(e) += a.handle(key.handle(e)) + 0.5 * b.handle(key.handle(e)) * x.handle(e);
    else x.handle(e) = 0.5 * x.handle(e) + a.handle(place());
    if (moves) place() = cast<std::int64_t>(other.handle(e));
    a.handle(moves || !together ? Value(place()) : Value(key.handle(e))) = 0;
    if (chance(60)) b.handle(key.handle(e)) = chance(70) ? Value(0) : Value(0.25);
    if (!inner) return;
    each(0, value_of(n) / part, n, [&](const Value&) {
      x.handle(e) += 0.2 * b.handle(key.handle(e));
      b.handle(key.handle(e)) = 0;
    });
    each(few, [&](const Value& k) {
      x.handle(e) += 0.1 * c.handle(other.handle(e), k);
      c.handle(other.handle(e), k) = 0;
    });
  };
  each(
      0, value_of(n), n,
      [&](const Value& e) {
        if (guarded) builder_.when(condition(), [&] { taken(e); });
        else taken(e);
      },
      order);
  each(n, [&](const Value& i) { pass_on(x, i); });
  each(bins, [&](const Value& i) { sink(a.handle(i) + b.handle(i) * c.handle(i, 1)); });
}

// Of an array that each step writes in part, elements are read that earlier steps have left, by data or by computed
// places.
void Writer::stale_elements() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = operand("x", {n, n}), y = filled_local("y", {n, n}), z = filled_local("z", {n, n});
  const ArrayInfo v = declare(ir::ArrayRole::Local, "v", {n});
  const IndexInfo index = indices_between(n, n);
  const bool by_data = chance(60), masked = chance(30), squares = chance(60), copied = chance(80);
  each(n, [&](const Value& t) {
    if (masked)
      each(n, [&](const Value& i) {
        builder_.when(t == 0 || (i + t) % 3 != 0, [&] { v.handle(i) = wave(x.handle(t, i)); });
      });
    else each(t, value_of(n), n, [&](const Value& i) { v.handle(i) = wave(x.handle(t, i)); });
    if (copied) each(t, value_of(n), n, [&](const Value& i) { y.handle(t, i) = v.handle(i); });
    each(n, [&](const Value& i) {
      const Value at =
          by_data ? cast<std::int64_t>(index.handle((i + t) % value_of(n))) : (i * i + t * 7) % value_of(n);
      const Value other = chance(50) ? at : (i * i) % value_of(n);
      z.handle(t, i) = squares ? v.handle(at) * v.handle(other) : squash(v.handle(at));
    });
  });
  each(n, [&](const Value& i) { each(n, [&](const Value& t) { sink(z.handle(t, i) * y.handle(i, t)); }); });
}

// Which elements of the levels are filled a mask or a count says, which the steps change behind it.
void Writer::masked_fill() {
  const Extent n{.size = some_size()}, time = some_steps(), steps{.pad = time.pad + 1};
  const bool counted = chance(50), updates = chance(70);
  const ArrayInfo x = operand("x", {n}), v = declare(ir::ArrayRole::Local, "v", {steps, n}), y = filled_local("y", {n});
  const ArrayHandle kind = small_integers("kind", {steps, n}, 6);
  const IndexInfo cut = indices_between(n, n);
  const ArrayHandle mask = integers("mask", {steps, n}), count = integers("count", {steps});
  each(steps, [&](const Value& l) {
    count(l) = 0;
    each(n, [&](const Value& i) {
      mask(l, i) = cast<std::int64_t>(kind(l, i));
      count(l) = cast<std::int64_t>(cut.handle(l % value_of(n)));
    });
  });
  // Constant as they are in the first place.
  const auto first_cut = [&](const Value& l) { return cast<std::int64_t>(cut.handle(l % value_of(n))); };
  each(steps, [&](const Value& l) {
    const double level = constant();
    if (counted) each(0, count(l), n, [&](const Value& i) { v.handle(l, i) = level; });
    else each(n, [&](const Value& i) { builder_.when(mask(l, i) % 2 == 0, [&] { v.handle(l, i) = level; }); });
  });
  const auto others = [&](const Value& l, const std::function<Value(const Value&)>& value) {
    each(n, [&](const Value& i) {
      builder_.when(counted ? i >= first_cut(l) : kind(l, i) % 2 != 0, [&] { v.handle(l, i) = value(i); });
    });
  };
  others(0, [&](const Value& i) -> Value { return x.handle(i); });
  each(time, [&](const Value& t) {
    if (updates)
      each(steps, [&](const Value& l) {
        count(l) = count(l) / 2;
        each(n, [&](const Value& i) { mask(l, i) = chance(50) ? Value(1) : mask(l, i) + 1; });
      });
    others(t + 1, [&](const Value& i) -> Value {
      return 0.5 * v.handle(t, i) * squash(x.handle(i)) + 0.25 * v.handle(t, (i + 1) % value_of(n));
    });
  });
  each(n, [&](const Value& i) {
    y.handle(i) = v.handle(value_of(time), i) * v.handle(value_of(time), i) * as_float(mask(value_of(time), i) % 3);
    pass_on(y, i);
  });
}

// Levels of time with a border that is filled in whatever order, and sums into the next level where there is one.
void Writer::levels() {
  const Extent time = some_steps(), steps{.pad = time.pad + 1}, n{.size = some_size(), .pad = 1};
  const ArrayInfo x = operand("x", {n}), c = operand("c", {time});
  const ArrayInfo v = declare(ir::ArrayRole::Local, "v", {steps, n}), z = filled_local("z", {time, n});
  const IndexInfo index = indices_between({.size = n.size}, {.size = n.size});
  const int order = static_cast<int>(below(4));
  each(n, [&](const Value& i) { v.handle(0, i) = x.handle(i); });
  const auto border = [&](const Value& t) { v.handle(t + 1, 0) = c.handle(t); };
  if (order == 2) each(0, value_of(time), time, border, {.step = 2});
  if (order == 2) each(1, value_of(time), time, border, {.step = 2});
  else if (order != 3) each(0, value_of(time), time, border, {.descending = order == 1});
  const bool sums = chance(60), last = chance(50);
  each(time, [&](const Value& t) {
    if (order == 3) border(t);
    each(1, value_of(n), n, [&](const Value& i) {
      v.handle(t + 1, i) = 0.6 * wave(v.handle(t, i)) + 0.4 * v.handle(t, i - 1) * v.handle(t, i);
    });
    if (!sums) return;
    each(n, [&](const Value& i) { z.handle(t, i) = 0.5 * z.handle(t, i) + v.handle(t, i); });
    each({.size = n.size}, [&](const Value& i) {
      const Value at = last ? cast<std::int64_t>(index.handle(i)) : i;
      builder_.when(x.handle(i) > 0.1173 && t + 1 < value_of(time),
                    [&] { z.handle(t + 1, at) += x.handle(i) * squash(v.handle(t + 1, i)); });
    });
  });
  each(n, [&](const Value& i) {
    sink(v.handle(value_of(time), i) * bounded(0));
    sink(z.handle(value_of(time) - 1, i));
  });
}

// An element and its neighbour in the row, where there is one, are written or read from one place.
void Writer::neighbours() {
  const Extent n{.size = some_size()}, h{.size = some_size()}, w{.size = some_size()};
  const IndexInfo row = indices_between(n, h), column = indices_between(n, w);
  const ArrayInfo f = operand("f", {n}), x = operand("x", {n}), y = filled_local("y", {n});
  const ArrayInfo image = operand("image", {h, w}), mass = filled_local("mass", {h, w});
  const bool down = chance(30), reads = chance(60), writes = !reads || chance(50), reversed = chance(50);
  const int kind = chance(70) ? 0 : static_cast<int>(below(6));
  each(n, [&](const Value& i) {
    const Value r = cast<std::int64_t>(row.handle(i)), c = cast<std::int64_t>(column.handle(i));
    const Value beside = down ? r + 1 < value_of(h) : c + 1 < value_of(w);
    const Value r1 = down ? r + 1 : r, c1 = down ? c : c + 1;
    const auto here = [&] {
      if (writes) keyed_update(mass.handle(r, c), kind, x.handle(i) * (1 - f.handle(i)));
      if (reads) y.handle(i) += image.handle(r, c) * (1 - f.handle(i));
    };
    const auto there = [&] {
      builder_.when(beside, [&] {
        if (writes) keyed_update(mass.handle(r1, c1), kind, x.handle(i) * f.handle(i));
        if (reads) y.handle(i) += image.handle(r1, c1) * f.handle(i);
      });
    };
    if (reversed) there();
    here();
    if (!reversed) there();
    pass_on(y, i);
  });
  each(h, [&](const Value& r) { each(w, [&](const Value& c) { sink(mass.handle(r, c) * bounded(0)); }); });
}

// Elements are stored by strided loops, up or down, one after the other or from each other.
void Writer::strided_stores() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = operand("x", {n}), y = declare(ir::ArrayRole::Local, "y", {n});
  const std::int64_t step = 2 + below(2);
  const bool from_each_other = chance(50), steps = chance(40), pairs = chance(30);
  const auto stride = [&](std::int64_t first, const std::function<void(const Value&)>& f) {
    each(first, value_of(n), n, f, {.step = step, .descending = chance(40)});
  };
  const auto fill = [&](const Value&) {
    if (pairs) {  // each iteration stores a few neighbours
      each(0, value_of(n), n,
           [&](const Value& i) {
             for (std::int64_t k = 0; k < step; ++k)
               builder_.when(i + k < value_of(n),
                             [&] { y.handle(i + k) = squash(x.handle(i)) * (0.3 + 0.2 * double(k)); });
           },
           {.step = step, .descending = chance(40)});
      return;
    }
    stride(0, [&](const Value& i) { y.handle(i) = wave(x.handle(i)); });
    for (std::int64_t k = 1; k < step; ++k)
      stride(k, [&](const Value& i) {
        if (from_each_other) y.handle(i) = 0.6 * y.handle(i - k) * x.handle(i) + 0.1;
        else y.handle(i) = squash(x.handle(i) * x.handle(i - 1));
      });
  };
  fill(0);
  if (steps)
    each(some_steps(), [&](const Value&) {
      stride(below(step),
             [&](const Value& i) { y.handle(i) = 0.5 * y.handle(i) + 0.4 * wave(y.handle(max(i - 1, 0))); });
    });
  arrays_.push_back(y);
  stride(0, [&](const Value& i) {
    if (chance(50)) update();
    y.handle(i) *= 1 + 0.2 * squash(x.handle(value_of(n) - 1 - i));
  });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

}  // namespace loopgrad::fuzz
