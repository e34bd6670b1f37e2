// Places that a program gives out or chooses as it goes on, by counters or by keys of this step, and sums into arrays
// of an iteration's own.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

void Writer::place_pattern() {
#define SHAPE(name) \
  Shape { &Writer::name, #name }
  static const std::vector<Shape> shapes = {SHAPE(packed),        SHAPE(packed),         SHAPE(packed_rows),
                                            SHAPE(parts_of_rows), SHAPE(parts_of_rows),  SHAPE(chosen_keys),
                                            SHAPE(chosen_keys),   SHAPE(chosen_rows),    SHAPE(chosen_rows),
                                            SHAPE(bins_in_steps), SHAPE(batch_of_steps), SHAPE(rows_one_after_another),
                                            SHAPE(stacked)};
#undef SHAPE
  const auto content = [&] { write(one_of(shapes)); };
  if (chance(35)) in_steps(content);
  else content();
}

/// In this place and the next one what is kept goes.
void Writer::keep_at(const ArrayInfo& out, const std::vector<Operand>& row, const Value& place, int kind,
                     const Value& value) {
  const auto at = [&](const Value& k) {
    std::vector<Operand> indices = row;
    indices.emplace_back(k);
    return out.handle.at(indices);
  };
  if (kind == 0) at(place) = value;
  else if (kind == 1) at(place) += value;
  else if (kind == 2) at(place) = 0.6 * at(place) + 0.3 * squash(value);
  else {
    const Value kept = builder_.let(fresh("kept"), value);
    at(place) = kept;
    at(place + 1) = 0.5 * kept;
  }
}

// What passes a test goes to places that a counter gives out, from one end or both; then it is used.
void Writer::packed() {
  const Extent n{.size = some_size()}, room{.size = n.size, .pad = 2};
  const ArrayInfo x = operand("x", {n}), out = filled_local("out", {room}), y = filled_local("y", {n});
  const ArrayHandle k = builder_.local(chance(60) ? ScalarType::I64 : ScalarType::I32, fresh("k"), {});
  const ArrayHandle l = integers("l", {}), where = integers("where", {n});
  const int kind = static_cast<int>(below(4)), second = static_cast<int>(below(4));
  const bool first = chance(30), both_ends = chance(30), keeps = chance(50), steps = chance(40), twice = chance(25);
  const LoopOptions order = some_order();
  const auto pack = [&](const Value&) {
    k() = 0;
    l() = 0;
    each(
        0, value_of(n), n,
        [&](const Value& i) {
          where(i) = 0;
          const auto give = [&] {
            if (first) k() += 1;
            keep_at(out, {}, k(), kind, x.handle(i) * bounded(0));
            if (keeps) where(i) = cast<std::int64_t>(k());
            if (chance(30)) sink(out.handle(k()) * x.handle(i));
            if (!first) k() += 1;
          };
          const Branch branch = builder_.when(condition(), give);
          if (both_ends)
            branch.otherwise([&] {
              keep_at(out, {}, value_of(n) - 1 - l(), second % 3, x.handle(i));
              l() += 1;
            });
          else if (twice) builder_.when(condition(), [&] { keep_at(out, {}, k(), second % 3, squash(x.handle(i))); });
        },
        order);
    LoopOptions options;
    if (chance(50)) options.at_most = {value_of(n)};
    each(
        0, cast<std::int64_t>(k()), n,
        [&](const Value& i) {
          if (chance(60)) y.handle(i) += out.handle(i) * bounded(0);
          else sink(wave(out.handle(i)) * y.handle(i));
        },
        options);
    if (keeps) each(n, [&](const Value& i) { y.handle(i) = 0.7 * y.handle(i) + 0.2 * out.handle(where(i)); });
  };
  if (steps) each(some_steps(), pack);
  else pack(0);
  each(room, [&](const Value& i) { sink(out.handle(i) * bounded(0)); });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// Each row is packed for itself, and its part is used by the row.
void Writer::packed_rows() {
  const Extent rows{.size = some_size()}, n{.size = some_size()}, room{.size = n.size, .pad = 2};
  const bool own = chance(40);
  const ArrayInfo x = operand("x", {rows, n}), y = filled_local("y", {rows});
  const ArrayInfo all = filled_local("out", {rows, room});
  const ArrayHandle count = integers("count", {rows});
  const int kind = static_cast<int>(below(4));
  const bool counts = chance(50), restarts = chance(30);
  each(rows, [&](const Value& r) {
    const ArrayHandle k = integers("k", {});
    ArrayInfo out = all;
    if (own) out = filled_local("own", {room});
    const std::vector<Operand> row = own ? std::vector<Operand>{} : std::vector<Operand>{r};
    const auto at = [&](const Value& i) {
      std::vector<Operand> indices = row;
      indices.emplace_back(i);
      return out.handle.at(indices);
    };
    k() = 0;
    each(n, [&](const Value& i) {
      builder_.when(condition(), [&] {
        keep_at(out, row, k(), kind, x.handle(r, i) * squash(x.handle(r, i)));
        k() += 1;
      });
      if (restarts) builder_.when(condition(), [&] { k() = 0; });
    });
    if (counts) count(r) = k();
    LoopOptions options = some_order();
    if (chance(60)) options.at_most = {value_of(n)};
    each(
        0, fixed(k(), options), n,
        [&](const Value& i) {
          y.handle(r) += at(i) * bounded(0);
          if (chance(40)) at(i) = 0.5 * at(i) + 0.3 * wave(at(0));
        },
        options);
    if (own) sink(at(0) * at(1));
  });
  if (counts)
    each(rows, [&](const Value& r) {
      each(0, count(r), n, [&](const Value& i) { y.handle(r) = 0.7 * y.handle(r) + 0.2 * squash(all.handle(r, i)); });
    });
  each(rows, [&](const Value& r) { pass_on(y, r); });
  each(rows, [&](const Value& r) { each(room, [&](const Value& i) { sink(all.handle(r, i)); }); });
}

// A stack: what one iteration puts on it another one takes.
void Writer::stacked() {
  const Extent n{.size = some_size()}, room{.size = n.size, .pad = 2};
  const ArrayInfo x = operand("x", {n}), stack = filled_local("stack", {room}), y = filled_local("y", {n});
  const ArrayHandle top = integers("top", {});
  const bool steps = chance(40), changes = chance(40);
  const int kind = static_cast<int>(below(3));
  const auto run = [&](const Value&) {
    top() = 0;
    each(n, [&](const Value& i) {
      builder_
          .when(condition(),
                [&] {
                  keep_at(stack, {}, top(), kind, x.handle(i) * squash(x.handle(i)));
                  top() += 1;
                })
          .otherwise([&] {
            builder_.when(top() > 0, [&] {
              top() -= 1;
              y.handle(i) += stack.handle(top()) * bounded(0);
              if (changes) stack.handle(top()) = 0.5 * wave(stack.handle(top()));
            });
          });
    });
  };
  if (steps) each(some_steps(), run);
  else run(0);
  each(room, [&](const Value& i) { sink(stack.handle(i) * bounded(0)); });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// Each step chooses for all points where they belong, by what the steps change, and sums them up there.
void Writer::chosen_keys() {
  const Extent n{.size = some_size()}, few{.pad = 2 + static_cast<int>(below(3))}, two{.pad = 2};
  const ArrayInfo x = operand("x", {n}), c = filled_local("c", {few}), y = filled_local("y", {n});
  const bool rows = chance(30), once = chance(30), apart = chance(60), outside = chance(40), counts = chance(50);
  const ArrayInfo sum = rows ? filled_local("sum", {few, two}) : filled_local("sum", {few});
  const ArrayHandle key = integers("key", {n}), count = integers("count", {few});
  const int kind = chance(60) ? 0 : static_cast<int>(below(6)), choice = static_cast<int>(below(3));
  const auto choose = [&](const Value& i) {
    if (choice == 0) {
      const ArrayInfo best = new_scalar("best");
      best.handle() = 9;
      key(i) = 0;
      each(few, [&](const Value& k) {
        const Value d = builder_.let(fresh("d"), abs(x.handle(i) - c.handle(k)));
        builder_.when(d < best.handle() - 0.0113, [&] {
          best.handle() = d;
          key(i) = k;
        });
      });
    } else if (choice == 1) {
      key(i) = select(c.handle(i % few.pad) > x.handle(i) + 0.0137, i % few.pad, (i + 1) % few.pad);
    } else {
      key(i) = (cast<std::int64_t>(key(i)) + 1) % few.pad;
    }
  };
  const auto use = [&](const Value& i) {
    const auto one = [&](const Element& element) { keyed_update(element, kind, x.handle(i) * bounded(0)); };
    if (rows) each(two, [&](const Value& d) { one(sum.handle(key(i), d)); });
    else one(sum.handle(key(i)));
    if (counts) count(key(i)) += 1;
    if (chance(30)) y.handle(i) += 0.3 * c.handle(key(i)) * x.handle(i);
  };
  each(n, [&](const Value& i) { key(i) = i % few.pad; });
  each(some_steps(), [&](const Value&) {
    each(few, [&](const Value& k) {
      count(k) = 0;
      if (outside) return;
      if (rows) each(two, [&](const Value& d) { sum.handle(k, d) = 0; });
      else sum.handle(k) = 0;
    });
    if (apart) each(n, choose);
    each(n, [&](const Value& i) {
      if (!apart) choose(i);
      use(i);
    });
    each(few, [&](const Value& k) {
      const Value total = rows ? Value(sum.handle(k, 1)) : Value(sum.handle(k));
      c.handle(k) = 0.6 * c.handle(k) + 0.3 * squash(total) / (1 + as_float(count(k)));
    });
    if (once) each(n, [&](const Value& i) { y.handle(i) = 0.8 * y.handle(i) + 0.1 * c.handle(key(i)); });
  });
  each(few, [&](const Value& k) { sink(c.handle(k) * bounded(0)); });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// An array that each iteration of a step sums into, at keys that are given or go on with the steps.
void Writer::bins_in_steps() {
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const Extent bins = chance(50) ? Extent{.pad = 3} : Extent{.size = some_size(), .pad = 1};
  const IndexInfo given = indices_between(m, {.size = m.size});
  const ArrayInfo x = operand("x", {n, m}), w = operand("w", {bins}), y = filled_local("y", {n});
  const ArrayHandle key = integers("key", {m});
  const int kind = chance(60) ? 0 : static_cast<int>(below(6));
  const bool moves = chance(50), by_row = chance(30), second = chance(30);
  each(m, [&](const Value& j) { key(j) = cast<std::int64_t>(given.handle(j)); });
  each(chance(60) ? some_steps() : Extent{.size = some_size()}, [&](const Value&) {
    each(n, [&](const Value& i) {
      const ArrayInfo h = declare(ir::ArrayRole::Local, "h", {bins});
      each(bins, [&](const Value& b) { h.handle(b) = kind == 1 ? Value(1) : Value(0); });
      each(m, [&](const Value& j) {
        const Value at = (key(j) + (by_row ? i : Value(0))) % value_of(bins);
        keyed_update(h.handle(at), kind, x.handle(i, j) * squash(y.handle(i)));
      });
      if (second) each(m, [&](const Value& j) { sink(h.handle(key(j) % value_of(bins)) * x.handle(i, j)); });
      y.handle(i) = 0.5 * y.handle(i);
      each(bins, [&](const Value& b) { y.handle(i) += 0.3 * wave(h.handle(b)) * w.handle(b); });
    });
    if (moves) each(m, [&](const Value& j) { key(j) = key(j) + 1 + j % 2; });
  });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// A few problems, each with steps of its own over arrays of its own.
void Writer::batch_of_steps() {
  const Extent batch = chance(50) ? Extent{.pad = 2} : Extent{.size = some_size()}, n{.size = some_size()};
  const IndexInfo index = indices_between(n, n);
  const Extent steps = chance(50) ? some_steps() : Extent{.size = some_size()};
  const ArrayInfo x = operand("x", {batch, n}), w = operand("w", {n}), y = filled_local("y", {batch, n});
  const int kind = static_cast<int>(below(6)), border = static_cast<int>(below(3));
  const bool shares = chance(40), between = chance(50), two = chance(40), counts = chance(30), scalar = chance(50);
  each(batch, [&](const Value& b) {
    const ArrayInfo u = filled_local("u", {n}), v = filled_local("v", {n});
    const ArrayInfo s = new_scalar("s");
    const ArrayHandle k = integers("k", {});
    s.handle() = 0.2;
    k() = 0;
    const auto one = [&](const Value& t) {
      if (scalar) s.handle() = 0.8 * s.handle() + 0.1 * as_float(t);
      each(border == 0 ? 1 : 0, value_of(n), n, [&](const Value& i) {
        const Value beside = border == 0   ? u.handle(i - 1)
                             : border == 1 ? u.handle(index.handle(i))
                                           : u.handle(max(i - 1, 0));
        v.handle(i) = 0.6 * wave(beside) * x.handle(b, i) + 0.2 * s.handle();
      });
      if (counts) each(n, [&](const Value& i) { builder_.when(v.handle(i) > 0.1213, [&] { k() += 1; }); });
      each(n, [&](const Value& i) {
        if (two) u.handle(i) = 0.5 * u.handle(i) + 0.4 * v.handle(i);
        else keyed_update(u.handle(index.handle(i)), kind, v.handle(i) * w.handle(i));
      });
      if (between) each(n, [&](const Value& i) { s.handle() += 0.05 * u.handle(i) * v.handle(i); });
      if (shares) sink(u.handle(0) * x.handle(b, 0));
    };
    each(steps, one);
    if (chance(40)) each(steps, one);
    each(n, [&](const Value& i) { y.handle(b, i) = u.handle(i) * s.handle() + as_float(k()) * 0.1; });
  });
  each(batch, [&](const Value& b) { each(n, [&](const Value& i) { sink(y.handle(b, i) * bounded(0)); }); });
}

}  // namespace loopgrad::fuzz
