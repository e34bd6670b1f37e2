// Loops whose bounds change in them or between them, rows of several structures, and loops that have no trip.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

// Rows as long as an array says that they change, for themselves or for others.
void Writer::changing_bounds() {
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const ArrayInfo q = operand("q", {n, m}), k = operand("k", {m, n}), y = filled_local("y", {n, n});
  const bool given = chance(40), narrow = chance(50), product = chance(50), promised = chance(70), from = chance(25);
  const ScalarType type = narrow ? ScalarType::I32 : ScalarType::I64;
  const std::string name = fresh("length");
  const ArrayHandle length =
      given ? builder_.inout(type, name, shape_of({n})) : builder_.local(type, name, shape_of({n}));
  if (given) contents_[name] = {IndexContents::Kind::Below, ir::int_const(9)};
  if (!given || chance(50)) each(n, [&](const Value& i) { length(i) = cast(type, value_of(n) - i / 2); });
  const int change = static_cast<int>(below(5)), whose = static_cast<int>(below(4));
  LoopOptions options = some_order();
  if (promised) options.at_most = {value_of(n)};
  const auto changed = [&](const Value& l) {
    if (change == 0) length(l) = cast(type, Value(1));
    else if (change == 1) length(l) = cast(type, Value(0));
    else if (change == 2) length(l) = length(l) / 2;
    else if (change == 3) length(l) = cast(type, min(2 * cast<std::int64_t>(length(l)), 3 * value_of(n)));
    else length(l) -= cast(type, Value(1));
  };
  const auto rows = [&](const Value&) {
    each(n, [&](const Value& l) {
      const Value border = fixed(max(cast<std::int64_t>(length(l)), 0), options);
      const auto body = [&](const Value& o) {
        const ArrayInfo s = new_scalar("s");
        s.handle() = 0.1;
        if (product) each(m, [&](const Value& d) { s.handle() += 0.3 * q.handle(l, d) * k.handle(d, o); });
        else s.handle() = select(o > 1, wave(y.handle(l, o)), 0.5);
        if (chance(60)) y.handle(l, o) = squash(s.handle()) * s.handle();
        else y.handle(l, o) += s.handle() * bounded(0);
        const Value other = whose == 0 ? o : whose == 1 ? (l + 1) % value_of(n) : l;
        if (chance(50)) builder_.when(whose == 2 ? o == 0 : condition(), [&] { changed(other); });
        else changed(other);
      };
      if (from) each(border, value_of(n), n, body, options);
      else each(0, min(value_of(n), border), n, body, options);
    });
  };
  if (chance(40)) each({.pad = 2}, rows);
  else rows(0);
  each(n, [&](const Value& i) { each(n, [&](const Value& j) { sink(y.handle(i, j)); }); });
}

// Sums over ranges that data begin and end, once in each step, of what the steps change; and so do, perhaps, the
// ranges.
void Writer::changing_rows() {
  const Extent n{.size = some_size()};
  const IndexInfo low = indices_between(n, n), count = indices_between(n, n), column = indices_between(n, n);
  const ArrayInfo u = filled_local("u", {n}), w = operand("w", {n}), y = filled_local("y", {n});
  const bool moves = chance(50), again = chance(40), promised = chance(50);
  const ArrayHandle start = integers("start", {n}), length = integers("length", {n});
  if (moves)
    each(n, [&](const Value& i) {
      start(i) = cast<std::int64_t>(low.handle(i));
      length(i) = cast<std::int64_t>(count.handle(i));
    });
  LoopOptions options = some_order();
  if (promised) options.at_most = {value_of(n)};
  const int kind = static_cast<int>(below(3));
  each(some_steps(), [&](const Value&) {
    each(n, [&](const Value& i) {
      const ArrayInfo s = new_scalar("s");
      s.handle() = 0;
      if (again) builder_.recompute(s.handle);
      const Value from = moves ? Value(start(i)) : cast<std::int64_t>(low.handle(i));
      const Value trips = moves ? Value(length(i)) : cast<std::int64_t>(count.handle(i));
      each(
          from, min(from + trips, value_of(n)), n,
          [&](const Value& j) {
            const Value term = u.handle(column.handle(j)) * w.handle(j);
            if (kind == 0) s.handle() += 0.3 * term;
            else if (kind == 1) s.handle().max_with(term);
            else s.handle() = 0.6 * s.handle() + 0.3 * squash(term);
            if (!again && chance(30)) update();
          },
          options);
      y.handle(i) += wave(s.handle());
    });
    each(n, [&](const Value& i) {
      u.handle(i) = u.handle(i) * squash(w.handle(i)) + 0.1 * read_input();
      if (!moves) return;
      if (chance(60)) start(i) = (start(i) + 1) % value_of(n);
      if (chance(60)) length(i) = chance(50) ? length(i) / 2 : Value(length((i + 1) % value_of(n)));
    });
  });
  each(n, [&](const Value& i) { pass_on(y, i); });
}

// Rows of a grid's cells in each step, of what the steps change.
void Writer::grid_again() {
  if (pointers_.empty()) declare_pointers();
  const Extent rows{.size = some_size(), .pad = 1}, columns{.size = some_size(), .pad = 1};
  const Extent entries = pointers_[0].target, n{.size = some_size()};
  const std::string name = fresh("cells");
  const ArrayHandle start = builder_.input(ScalarType::I32, name, {value_of(rows) * value_of(columns) + 1});
  contents_[name] = {IndexContents::Kind::CsrPointer, ir::Expr(value_of(entries).node())};
  if (chance(80)) builder_.csr(start, value_of(entries));
  const IndexInfo column = indices_between(entries, n);
  const ArrayInfo u = filled_local("u", {n}), w = operand("w", {n}), y = filled_local("y", {rows, columns});
  const bool again = chance(60), from_zero = chance(30), nonlinear = chance(40);
  each(some_steps(), [&](const Value&) {
    each(rows, [&](const Value& a) {
      each(columns, [&](const Value& b) {
        const ArrayInfo s = new_scalar("s");
        s.handle() = 0;
        if (again) builder_.recompute(s.handle);
        const Value cell = a * value_of(columns) + b;
        const auto add = [&](const Value& e) {
          const Value term = u.handle(column.handle(e));
          if (nonlinear) s.handle() = 0.7 * s.handle() + 0.3 * wave(term);
          else s.handle() += 0.5 * term;
        };
        if (from_zero) each(0, start(cell + 1) - start(cell), entries, [&](const Value& t) { add(start(cell) + t); });
        else each(start(cell), start(cell + 1), entries, add);
        y.handle(a, b) += wave(s.handle());
      });
    });
    each(n, [&](const Value& i) { u.handle(i) = u.handle(i) * squash(w.handle(i)) + 0.05; });
  });
  each(rows, [&](const Value& a) { each(columns, [&](const Value& b) { sink(y.handle(a, b)); }); });
}

// Rows of one structure through the entries of another one, or of both side by side.
void Writer::two_graphs() {
  while (pointers_.size() < 2) declare_pointers();
  const IndexInfo first = pointers_[0], second = one_of(pointers_);
  const Extent nodes{.size = first.extent.size}, others{.size = second.extent.size};
  const IndexInfo to = indices_between(first.target, others);
  const ArrayInfo w = operand("w", {first.target}), x = operand("x", {second.target});
  const ArrayInfo y = filled_local("y", {nodes}), z = filled_local("z", {second.target});
  const bool nested = chance(70), writes = chance(50), chosen = chance(40), steps = chance(40);
  const int kind = static_cast<int>(below(6));
  const auto over_second = [&](const Value& row, const Value& v, const Value& factor) {
    each(
        second.handle(row), second.handle(row + 1), second.target,
        [&](const Value& f) {
          const Value term = factor * squash(x.handle(f) * z.handle(f));
          const auto use = [&] {
            if (writes) keyed_update(z.handle(f), kind, 0.5 * term);
            else y.handle(v) += term;
          };
          if (chosen) builder_.when(condition(), use);
          else use();
        },
        some_order());
  };
  const auto all = [&](const Value&) {
    each(nodes, [&](const Value& v) {
      const ArrayInfo s = new_scalar("s");
      s.handle() = 0;
      each(
          first.handle(v), first.handle(v + 1), first.target,
          [&](const Value& e) {
            s.handle() += w.handle(e) * bounded(0);
            if (nested) over_second(to.handle(e), v, w.handle(e));
            else if (chance(50)) s.handle() = 0.8 * s.handle() + 0.1 * wave(s.handle());
          },
          some_order());
      if (!nested) builder_.when(v < value_of(others), [&] { over_second(v, v, squash(s.handle())); });
      y.handle(v) = 0.7 * y.handle(v) + 0.2 * squash(s.handle());
    });
  };
  if (steps) each(some_steps(), all);
  else all(0);
  each(second.target, [&](const Value& f) { sink(z.handle(f)); });
  each(nodes, [&](const Value& v) { pass_on(y, v); });
}

// Entries of rows in an array of a row that is smaller than these, or larger: a condition keeps them inside.
void Writer::rows_beyond() {
  if (pointers_.empty()) declare_pointers();
  const IndexInfo ptr = one_of(pointers_);
  const Extent rows{.size = ptr.extent.size};
  const Extent m = chance(50) ? Extent{.pad = 2 + static_cast<int>(below(4))} : Extent{.size = some_size()};
  const ArrayInfo x = operand("x", {ptr.target}), y = filled_local("y", {rows});
  const bool cleared = chance(50), pairs = chance(50), from_zero = chance(30);
  each(rows, [&](const Value& v) {
    const ArrayInfo s = declare(ir::ArrayRole::Local, "s", {m});
    if (cleared) each(m, [&](const Value& k) { s.handle(k) = 0; });
    const auto entries = [&](const std::function<void(const Value&, const Value&)>& f) {
      if (from_zero)
        each(0, ptr.handle(v + 1) - ptr.handle(v), ptr.target, [&](const Value& t) { f(ptr.handle(v) + t, t); });
      else each(ptr.handle(v), ptr.handle(v + 1), ptr.target, [&](const Value& a) { f(a, a); });
    };
    entries([&](const Value& a, const Value& at) {
      builder_.when(at < value_of(m), [&] {
        if (cleared) s.handle(at) += x.handle(a) * x.handle(a);
        else s.handle(at) = x.handle(a) * x.handle(a);
      });
    });
    entries([&](const Value& a, const Value& at) {
      if (!pairs) {
        builder_.when(at < value_of(m), [&] { y.handle(v) += squash(s.handle(at)) * s.handle(at); });
        return;
      }
      entries([&](const Value&, const Value& other) {
        builder_.when(at < value_of(m) && other < value_of(m),
                      [&] { y.handle(v) += wave(s.handle(at) - s.handle(other) * x.handle(a)); });
      });
    });
    pass_on(y, v);
  });
}

// There is no step, and what steps would read need not exist.
void Writer::no_step() {
  const std::string name = fresh("none");
  const Value none = builder_.size(name);
  empty_sizes_.push_back(name);
  const Extent q{.size = some_size(), .pad = 1}, m{.size = some_size()}, few{.pad = 2};
  const ArrayHandle index = small_integers("idx", {few}, 1);
  const ArrayInfo x = operand("x", {m}), y = filled_local("y", {q}), s = filled_local("s", {});
  const bool inside = chance(40), sums = chance(70);
  const auto steps = [&] {
    each(0, none, {.pad = 1}, [&](const Value&) {
      s.handle() = s.handle() * 0.5 + wave(y.handle(0));
      each(m, [&](const Value& i) {
        if (sums) y.handle(index(i + 7)) += s.handle() * x.handle(i);
        else y.handle(index(i + 7)) = squash(y.handle(index(i + 7))) * x.handle(i);
      });
    });
  };
  if (inside)
    each(some_steps(), [&](const Value&) {
      steps();
      each(q, [&](const Value& i) { y.handle(i) = 0.6 * y.handle(i) + 0.2 * wave(s.handle()); });
    });
  else steps();
  each(q, [&](const Value& i) { pass_on(y, i); });
}

// Arrays as large as sizes say, or a part of them, of which loops take as much as data say.
void Writer::local_by_size() {
  const Extent n{.size = some_size()}, most = chance(50) ? Extent{.size = n.size, .pad = 1} : Extent{.pad = 4};
  const int form = static_cast<int>(below(3));
  const Value extent = form == 0 ? min(value_of(most), 4) : form == 1 ? value_of(most) / 2 + 1 : value_of(most);
  const ArrayHandle length = small_integers("length", {n}, 5);
  const ArrayInfo x = operand("x", {n}), y = filled_local("y", {n});
  const bool fills = chance(60), outside = chance(30), backwards = chance(40);
  std::optional<ArrayHandle> kept;
  if (outside) kept = builder_.local(main_type_, fresh("t"), {extent});
  each(n, [&](const Value& i) {
    const ArrayHandle t = kept ? *kept : builder_.local(main_type_, fresh("t"), {extent});
    const Value count = min(cast<std::int64_t>(length(i)), extent);
    each(0, fills ? extent : count, most, [&](const Value& k) { t(k) = squash(x.handle(i)) * as_float(k + 1) * 0.2; });
    LoopOptions options;
    options.descending = backwards;
    each(
        1, count, most, [&](const Value& k) { t(k) = 0.6 * t(k) + 0.3 * wave(t(k - 1)) * read_input(); }, options);
    each(0, count, most, [&](const Value& k) {
      y.handle(i) += t(k) * t(count - 1 - k);
      if (chance(30)) update();
    });
    pass_on(y, i);
  });
}

}  // namespace loopgrad::fuzz
