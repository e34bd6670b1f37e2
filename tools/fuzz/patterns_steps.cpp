// Integers that go from step to step: generators of random numbers, permutations, places, cursors, counters. What they
// were in a step the gradient has to know in that step, be it from the tape or computed again.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

// A generator for each element, or one for all; its numbers choose places, branches or terms.
void Writer::random_numbers() {
  const Extent n{.size = some_size()};
  const bool one = chance(30), inside = one || chance(40), again = chance(30);
  const ArrayHandle seed = one ? integers("seed", {}) : integers("seed", {n});
  const ArrayInfo u = filled_local("u", {n}), w = operand("w", {n});
  const auto at = [&](const Value& i) { return one ? seed() : seed(i); };
  const auto advance = [&](const Value& i) {
    const Element number = at(i);
    number = (number * 1103515245 + 12345) % 2147483648;
  };
  if (one) seed() = 12 + below(1000);
  else each(n, [&](const Value& i) { seed(i) = i * 7919 + 5; });
  const int kind = static_cast<int>(below(4));
  each(some_steps(), [&](const Value&) {
    if (!inside) each(n, advance);
    each(n, [&](const Value& i) {
      if (inside) advance(i);
      const Value number = at(i), place = number / 5 % value_of(n);
      if (kind == 0) u.handle(i) = 0.6 * u.handle(i) + 0.3 * w.handle(i) * squash(u.handle(place));
      else if (kind == 1) change_float(u.handle(place), w.handle(i) * bounded(0));
      else if (kind == 2)
        builder_.when(number % 3 == 0, [&] { update(); }).otherwise([&] { u.handle(i) = wave(u.handle(i)); });
      else
        u.handle(i) =
            u.handle(i) * w.handle(i) * squash(u.handle((i + 1) % value_of(n))) + as_float(number % 1000) * 0.001;
      if (again) advance(i);
    });
  });
  each(n, [&](const Value& i) { pass_on(u, i); });
}

// Who is whose neighbour changes, by way of a second array.
void Writer::moving_permutation() {
  const Extent n{.size = some_size()};
  const IndexInfo who = indices_between(n, n);
  const ArrayHandle now = integers("now", {n}), next = integers("next", {n});
  const ArrayInfo s = filled_local("s", {n}), w = operand("w", {n});
  const bool from_data = chance(50);
  each(n, [&](const Value& i) {
    now(i) = from_data ? cast<std::int64_t>(who.handle(i)) : i;
    next(i) = i;
  });
  const int move = static_cast<int>(below(4)), use = static_cast<int>(below(3));
  const auto moved = [&] {
    each(n, [&](const Value& i) {
      if (move == 0) next(i) = now((i + 1) % value_of(n));
      else if (move == 1) next(i) = now(who.handle(i));
      else if (move == 2) next(now(i)) = i;
      else builder_.when(condition(), [&] { next(i) = now(value_of(n) - 1 - i); });
    });
  };
  const auto used = [&] {
    each(n, [&](const Value& i) {
      if (use == 0) s.handle(i) = 0.8 * s.handle(i) + 0.2 * w.handle(i) * wave(s.handle(next(i)));
      else if (use == 1) change_float(s.handle(next(i)), w.handle(i) * bounded(0));
      else s.handle(next(i)) = 0.5 * s.handle(now(i)) + 0.3 * squash(w.handle(i));
    });
  };
  const bool first = chance(60);
  each(some_steps(), [&](const Value&) {
    if (first) moved();
    used();
    if (!first) moved();
    each(n, [&](const Value& i) { now(i) = next(i); });
  });
  each(n, [&](const Value& i) { pass_on(s, i); });
}

// Sums and others into places that move, by as much for all or as data say.
void Writer::moving_places() {
  const Extent n{.size = some_size()}, steps = chance(50) ? some_steps() : Extent{.size = some_size()};
  const IndexInfo index = indices_between(n, n);
  const ArrayInfo x = operand("x", {steps, n}), y = filled_local("y", {n});
  const ArrayHandle place = integers("place", {n});
  each(n, [&](const Value& i) { place(i) = cast<std::int64_t>(index.handle(i)); });
  const bool together = chance(40), conditional = chance(30), by_data = chance(40), first = chance(60);
  const int kind = static_cast<int>(below(6));
  const auto move = [&](const Value& i) {
    const Value by = by_data ? cast<std::int64_t>(index.handle(value_of(n) - 1 - i)) : Value(1);
    if (conditional) builder_.when(condition(), [&] { place(i) = (place(i) + by) % value_of(n); });
    else place(i) = (place(i) + by) % value_of(n);
  };
  const auto use = [&](const Value& t, const Value& i) {
    keyed_update(y.handle(place(i)), kind, x.handle(t, i) * squash(x.handle(t, i)));
    if (chance(40)) sink(y.handle(place(i)) * bounded(0));
  };
  each(steps, [&](const Value& t) {
    if (!together && first) each(n, move);
    each(n, [&](const Value& i) {
      if (together && first) move(i);
      use(t, i);
      if (together && !first) move(i);
    });
    if (!together && !first) each(n, move);
  });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// A cursor goes on in the very loop that begins at it, and back to where data say.
void Writer::cursor() {
  const Extent n{.size = some_size()}, wide{.size = n.size, .pad = 8};
  const IndexInfo start = indices_between(n, n);
  const ArrayInfo x = operand("x", {n}), y = filled_local("y", {wide});
  const ArrayHandle position = integers("position", {});
  position() = 0;
  const bool goes_on = chance(70), by_cursor = chance(40), resets = chance(60);
  const LoopOptions order = some_order();
  const int kind = static_cast<int>(below(6));
  each(n, [&](const Value& i) {
    if (resets) builder_.when(condition(), [&] { position() = cast<std::int64_t>(start.handle(i)); });
    const Value from = fixed(position(), order);
    each(
        from, from + 3, wide,
        [&](const Value& t) {
          if (by_cursor) keyed_update(y.handle(position()), kind, x.handle(i) * squash(y.handle(t)));
          else keyed_update(y.handle(t), kind, x.handle(i) * x.handle(i));
          if (goes_on) position() += 1;
        },
        order);
    if (goes_on) builder_.when(position() >= value_of(n), [&] { position() = position() % value_of(n); });
    else position() = (position() + 2) % value_of(n);
  });
  each(wide, [&](const Value& i) { pass_on(y, i); });
}

// How far loops go, or where they begin, is counted from step to step; beside them are others that still have a trip.
void Writer::counted_down() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = operand("x", {n}), y = filled_local("y", {n});
  const ArrayHandle count = integers("count", {});
  const bool is_lower = chance(40), first = chance(40), beside = chance(40), promised = chance(30);
  count() = is_lower ? 0 : 1 + below(4);
  const auto change = [&] {
    const Value by = 1 + below(2);
    builder_.when(condition(), [&] { count() = is_lower ? count() + by : count() - by; }).otherwise([&] {
      count() = chance(50) ? 0 : 1;
    });
  };
  const auto term = [&](const Value& i) { return x.handle(i) * x.handle(value_of(n) - 1 - i) * as_float(count()); };
  LoopOptions options = some_order();
  if (promised) options.at_most = {value_of(n)};
  const auto border = [&] { return min(count(), value_of(n)); };
  each(chance(50) ? Extent{.size = some_size()} : some_steps(), [&](const Value&) {
    if (first) change();
    const auto body = [&](const Value& i) {
      y.handle(i) += 0.1 * term(i);
      if (chance(30)) update();
    };
    if (is_lower) each(border(), value_of(n), n, body, options);
    else each(0, border(), n, body, options);
    if (beside)
      builder_.when(count() > 1, [&] {
        each(0, border(), n, [&](const Value& i) { y.handle(i) = 0.7 * y.handle(i) + 0.01 * wave(term(i)); });
      });
    if (!first) change();
  });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// Conditions of a while are by arrays that its trips, other iterations or the steps change.
void Writer::changing_while() {
  const Extent n{.size = some_size()}, trips{.pad = 2 + static_cast<int>(below(3))};
  const ArrayInfo x = filled_local("x", {n}), limit = filled_local("limit", {n});
  const ArrayHandle left = integers("left", {n});
  const IndexInfo index = indices_between(n, n);
  const int kind = static_cast<int>(below(4));
  each(n, [&](const Value& i) { left(i) = i % 4; });
  const auto goes_on = [&](const Value& i) -> Value {
    if (kind == 0) return abs(x.handle(i) + 0.0191) > 0.3 + 0.2 * abs(limit.handle(i));
    if (kind == 1) return left(i) > 0;
    if (kind == 2) return x.handle(index.handle(i)) > limit.handle(i) + 0.0137;
    return left(i) > 0 && x.handle(i) < 0.7813;
  };
  each(some_steps(), [&](const Value&) {
    each(n, [&](const Value& i) {
      for (const Value t : builder_.loop_while("t", value_of(trips), [&](const Value&) { return goes_on(i); })) {
        iterators_.push_back({t, trips});
        scope([&] {
          x.handle(i) = 0.6 * x.handle(i) + 0.2 * wave(x.handle(i)) * read_input();
          if (chance(50)) limit.handle(i) += 0.05 * squash(x.handle(i));
          if (kind == 1 || kind == 3) left(i) -= 1;
          if (chance(40)) left(index.handle(i)) = left(index.handle(i)) / 2;
          if (chance(40)) update();
        });
        iterators_.pop_back();
      }
      if (chance(40)) sink(x.handle(i) * bounded(0));
    });
    each(n, [&](const Value& i) {
      if (chance(60)) limit.handle(i) = 0.8 * limit.handle(i) + 0.1 * x.handle(value_of(n) - 1 - i);
      left(i) = chance(50) ? (left(i) + 2) % 4 : i % 3;
    });
  });
  each(n, [&](const Value& i) { pass_on(x, i); });
}

// Elements at places that the same array names, before and after these change.
void Writer::index_by_itself() {
  const Extent n{.size = some_size()}, few{.pad = 4 + static_cast<int>(below(6))};
  const std::int64_t count = few.pad;
  const ArrayHandle k = integers("k", {few}), given = small_integers("given", {few}, few.pad);
  const ArrayInfo u = filled_local("u", {few}), x = operand("x", {n});
  const bool from_data = chance(50);
  each(few, [&](const Value& i) { k(i) = from_data ? cast<std::int64_t>(given(i)) : i * 3 % count; });
  const auto one = [&](const Value& i) {
    const std::int64_t other = below(count);
    switch (below(6)) {
      case 0: k(k(i) % count) = other; break;
      case 1: k(k(i) % count) += other; break;
      case 2: k(i) = k(k(other) % count); break;
      case 3: k(k(k(i) % count) % count).max_with(k(other)); break;
      case 4: change_float(u.handle(k(i) % count), read_input()); break;
      default: change_float(u.handle(k(k(other) % count) % count), squash(u.handle(i))); break;
    }
  };
  const auto several = [&](const Value& i) {
    for (std::int64_t left = 2 + below(2); left > 0; --left) one(i);
  };
  if (chance(50)) several(below(count));
  each(chance(50) ? some_steps() : n, [&](const Value&) {
    if (chance(60)) each(few, several);
    else several(below(count));
  });
  each(n, [&](const Value& i) { sink(x.handle(i) * x.handle(i) * as_float(k(i % count) % 9) * 0.2); });
  each(few, [&](const Value& i) { pass_on(u, i); });
}

}  // namespace loopgrad::fuzz
