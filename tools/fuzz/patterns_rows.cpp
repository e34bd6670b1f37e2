// Rows that data or the program choose or make, and parts of rows.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

// Rows as long as data or the program say, stored one after another, and read again.
void Writer::rows_one_after_another() {
  const Extent n{.size = some_size()}, all{.size = n.size, .scale = 2, .pad = 2}, few{.pad = 2};
  const ArrayHandle given = small_integers("length", {n}, 3);
  const ArrayInfo x = operand("x", {n}), out = filled_local("out", {all}), y = filled_local("y", {n});
  const ArrayHandle length = integers("length", {n}), start = integers("start", {n}), at = integers("at", {});
  const bool counts = chance(40), within = chance(40), steps = chance(35), keeps = chance(60);
  const int kind = static_cast<int>(below(3));
  const auto rows = [&](const Value&) {
    at() = 0;
    each(n, [&](const Value& i) {
      if (counts) {
        length(i) = 0;
        each(few, [&](const Value&) { builder_.when(condition(), [&] { length(i) += 1; }); });
      } else {
        length(i) = cast<std::int64_t>(given(i));
      }
      start(i) = at();
      if (within)
        each(few, [&](const Value& j) {
          builder_.when(j < length(i), [&] {
            keep_at(out, {}, at(), kind, x.handle(i) * bounded(0));
            at() += 1;
          });
        });
      else
        each(0, min(cast<std::int64_t>(length(i)), 2), few,
             [&](const Value& j) { keep_at(out, {}, at() + j, kind, x.handle(i) * bounded(0)); });
      if (!within) at() += length(i);
    });
    if (keeps)
      each(n, [&](const Value& i) {
        LoopOptions options = some_order();
        const Value from = fixed(start(i), options);
        each(
            from, min(from + length(i), value_of(all)), all,
            [&](const Value& e) { y.handle(i) += squash(out.handle(e)) * bounded(0); }, options);
      });
    else each(0, at(), all, [&](const Value& e) { sink(out.handle(e) * bounded(0)); }, {.at_most = {value_of(all)}});
  };
  if (steps) each(some_steps(), rows);
  else rows(0);
  each(all, [&](const Value& i) { sink(out.handle(i) * bounded(0)); });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

/// A part of the row: with entries counted from the start of all, and from the start of the row.
void Writer::part_of_row(const Value& lo, const Value& hi, const Extent& entries,
                         const std::function<void(const Value&, const Value&)>& f) {
  const std::int64_t c = 1 + below(4), from = below(3);
  const auto of_row = [&](const Value& count, const LoopOptions& options) {
    each(
        0, count, entries, [&](const Value& t) { f(lo + t, t); }, options);
  };
  LoopOptions options = some_order();
  const Value length = hi - lo;
  const Extent twice{.size = entries.size, .scale = 2}, more{.size = entries.size, .pad = 4};
  const auto nearest = [&](const Value& count, const Extent& most) {  // there may be more trips than entries
    builder_.when(hi > lo, [&] {
      each(
          0, count, most, [&](const Value& t) { f(lo + min(t, length - 1), min(t, length - 1)); }, options);
    });
  };
  switch (below(12)) {
    case 6: return of_row(length - 1, options);
    case 7: return nearest(2 * length - 1, twice);
    case 8: return nearest(min(length * length, value_of(entries)), entries);
    case 9: return nearest(length + c, more);
    case 10: return nearest(max(length / 3, c), more);
    case 0: return of_row((hi - lo) / 2, options);
    case 1: return of_row(min(hi - lo, c), options);
    case 2:
      return each(
          lo + from, min(lo + from + c, hi), entries, [&](const Value& e) { f(e, e - lo); }, options);
    case 3:
      return each(
          max(hi - c, lo), hi, entries, [&](const Value& e) { f(e, e - lo); }, options);
    case 4: {
      options.step = 2;
      return of_row(hi - lo, options);
    }
    case 5:
      return each(
          0, (hi - lo) / 2, entries, [&](const Value& t) { f(hi - 1 - t, t); }, options);
    default: return of_row(hi - lo, options);
  }
}

// Halves, first and last entries, windows and every other entry of a row, and pairs in it.
void Writer::parts_of_rows() {
  if (pointers_.empty()) declare_pointers();
  const IndexInfo ptr = one_of(pointers_);
  const Extent rows{.size = ptr.extent.size}, entries = ptr.target, n{.size = some_size()}, few{.pad = 3};
  const IndexInfo to = indices_between(entries, n);
  const ArrayInfo x = operand("x", {entries}), u = filled_local("u", {n}), y = filled_local("y", {rows});
  const ArrayInfo z = filled_local("z", {entries});
  const int use = static_cast<int>(below(5)), kind = static_cast<int>(below(6));
  const bool steps = chance(40), pairs = chance(30), chosen = chance(30);
  const auto all = [&](const Value&) {
    each(rows, [&](const Value& r) {
      const ArrayInfo s = new_scalar("s");
      s.handle() = 0.1;
      const Value lo = cast<std::int64_t>(ptr.handle(r)), hi = cast<std::int64_t>(ptr.handle(r + 1));
      std::optional<ArrayInfo> h;
      if (use == 4) h = filled_local("h", {few});
      const auto one = [&](const Value& e, const Value& t) {
        if (use == 0) s.handle() += x.handle(e) * u.handle(to.handle(e));
        else if (use == 1) s.handle() = 0.6 * s.handle() + 0.3 * wave(x.handle(e) * u.handle(to.handle(e)));
        else if (use == 2) keyed_update(u.handle(to.handle(e)), kind, x.handle(e) * bounded(0));
        else if (use == 3) z.handle(e) = 0.5 * z.handle(e) + squash(x.handle(e)) * z.handle(lo + t / 2);
        else keyed_update(h->handle(t % 3), kind, x.handle(e) * u.handle(to.handle(e)));
      };
      part_of_row(lo, hi, entries, [&](const Value& e, const Value& t) {
        const auto body = [&] {
          one(e, t);
          if (pairs)
            part_of_row(lo, hi, entries,
                        [&](const Value& f, const Value&) { y.handle(r) += 0.2 * squash(x.handle(e) * z.handle(f)); });
        };
        if (chosen) builder_.when(condition(), body);
        else body();
      });
      if (h) each(few, [&](const Value& k) { s.handle() += h->handle(k) * h->handle(0); });
      y.handle(r) = 0.7 * y.handle(r) + 0.2 * squash(s.handle());
    });
    if (steps) each(n, [&](const Value& i) { u.handle(i) = 0.8 * wave(u.handle(i)) + 0.1; });
  };
  if (steps) each(some_steps(), all);
  else all(0);
  each(rows, [&](const Value& r) { pass_on(y, r); });
  each(entries, [&](const Value& e) { sink(z.handle(e)); });
  each(n, [&](const Value& i) { sink(u.handle(i)); });
}

// Which rows are done, data or steps say.
void Writer::chosen_rows() {
  if (pointers_.empty()) declare_pointers();
  const IndexInfo ptr = one_of(pointers_);
  const Extent rows{.size = ptr.extent.size}, entries = ptr.target, n{.size = some_size()};
  const IndexInfo who = indices_between(n, rows), next = indices_between(rows, rows), to = indices_between(entries, n);
  const ArrayInfo x = operand("x", {entries}), z = filled_local("z", {entries}), y = filled_local("y", {rows});
  const ArrayInfo u = filled_local("u", {n});
  const ArrayHandle at = integers("at", {}), current = integers("current", {n});
  const int form = static_cast<int>(below(4)), kind = static_cast<int>(below(6)), use = static_cast<int>(below(4));
  const auto row_of = [&](const Value& r, const Value& i) {
    const ArrayInfo s = new_scalar("s");
    s.handle() = 0;
    const Value lo = cast<std::int64_t>(ptr.handle(r)), hi = cast<std::int64_t>(ptr.handle(r + 1));
    part_of_row(lo, hi, entries, [&](const Value& e, const Value&) {
      if (use == 0) s.handle() += x.handle(e) * z.handle(e);
      else if (use == 1) keyed_update(z.handle(e), kind, x.handle(e) * bounded(0));
      else if (use == 2) keyed_update(u.handle(to.handle(e)), kind, x.handle(e) * bounded(0));
      else s.handle() = 0.7 * s.handle() + 0.3 * wave(x.handle(e) * u.handle(to.handle(e)));
    });
    if (chance(60)) y.handle(r) += squash(s.handle()) * bounded(0);
    else u.handle(i) = 0.6 * u.handle(i) + 0.3 * wave(s.handle());
  };
  if (form == 0) {
    each(n, [&](const Value& i) { row_of(who.handle(i), i); });
  } else if (form == 1) {  // along a chain of rows
    builder_.when(value_of(rows) > 0, [&] {
      at() = 0;
      each(n, [&](const Value& i) {
        row_of(at(), i);
        at() = cast<std::int64_t>(next.handle(at()));
      });
    });
  } else {
    each(n, [&](const Value& i) { current(i) = cast<std::int64_t>(who.handle(i)); });
    each(some_steps(), [&](const Value&) {
      each(n, [&](const Value& i) {
        if (form == 2) row_of(current(i), i);
        else builder_.when(condition(), [&] { row_of(current(i), i); });
      });
      each(n, [&](const Value& i) { current(i) = cast<std::int64_t>(next.handle(current(i))); });
    });
  }
  each(rows, [&](const Value& r) { pass_on(y, r); });
  each(entries, [&](const Value& e) { sink(z.handle(e)); });
  each(n, [&](const Value& i) { sink(u.handle(i)); });
}

}  // namespace loopgrad::fuzz
