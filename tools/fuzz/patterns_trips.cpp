// What a scalar has from a trip before, from a branch that locals of an inner loop decide on, or from the last trip of
// an inner loop; branches that one iteration takes, that have arrays of their own, or that change what they ask.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

// Scalars that are read before the trip assigns them: all but the first trip do.
void Writer::trip_before() {
  const Extent n{.size = some_size()}, m{.size = some_size(), .pad = 1};
  const bool across = chance(50), of_key = chance(50), both = chance(30);
  const ArrayInfo x = across ? operand("x", {m, n}) : operand("x", {n, m}), y = filled_local("y", {n});
  const ArrayHandle key = small_integers("key", {m}, 3);
  const int kind = static_cast<int>(below(4));
  each(n, [&](const Value& i) {
    const ArrayInfo s = new_scalar("s"), u = new_scalar("u");
    const ArrayHandle last = builder_.local(chance(50) ? ScalarType::I32 : ScalarType::I64, fresh("last"), {});
    s.handle() = 0;
    const auto at = [&](const Value& k) { return across ? x.handle(k, i) : x.handle(i, k); };
    each(m, [&](const Value& k) {
      const Value inside = both ? k > 0 && key(k) == 1 : k != 0;
      const Value before = of_key ? as_float(last()) * 0.2 : Value(u.handle());
      builder_.when(inside, [&] {
        if (kind == 0) s.handle() += before * at(k - 1);
        else if (kind == 1) s.handle() = 0.7 * s.handle() + 0.3 * squash(before) * at(k);
        else if (kind == 2) s.handle().max_with(before - at(k));
        else builder_.when(before > 0.1713, [&] { s.handle() += at(k) * at(k); });
      });
      if (chance(30)) sink(s.handle());
      u.handle() = chance(50) ? as_float(key(k)) * 0.3 : squash(at(k)) * bounded(0);
      last() = cast<std::int64_t>(key(k));
    });
    y.handle(i) = s.handle() * wave(s.handle()) + (of_key ? as_float(last()) * 0.1 : Value(u.handle()));
    pass_on(y, i);
  });
}

// A scalar is set in branches on locals of an inner loop, and read behind it.
void Writer::inner_conditions() {
  const Extent n{.size = some_size()}, few{.pad = 3 + static_cast<int>(below(3))};
  const ArrayInfo x = operand("x", {n, few}), w = operand("w", {few}), y = filled_local("y", {n});
  const bool in_branch = chance(40), with_array = chance(40), other_side = chance(40), summed = chance(50);
  const int kind = static_cast<int>(below(4));
  const double limit = constant() - 0.2;
  each(n, [&](const Value& i) {
    const ArrayInfo s = new_scalar("s"), z = new_scalar("z");
    s.handle() = kind == 1 ? Value(-4) : Value(0.1);
    z.handle() = 0;
    const auto inner = [&](const Value& g) {
      const ArrayInfo h = declare(ir::ArrayRole::Local, "h", {few});
      if (with_array) each(few, [&](const Value& l) { h.handle(l) = g * x.handle(i, l) + 0.2; });
      each(few, [&](const Value& l) {
        const Value c =
            builder_.let(fresh("c"), with_array ? h.handle(l) * h.handle(value_of(few) - 1 - l) - 0.3 * w.handle(l)
                                                : 0.5 * x.handle(i, l) * x.handle(i, l) + x.handle(i, l) * w.handle(l));
        const Value d = builder_.let(fresh("d"), c * c - 0.2 * x.handle(i, l));
        const Branch branch = builder_.when(chance(50) ? c > limit : d > limit - 0.1, [&] {
          if (kind == 0) s.handle() += chance(50) ? Value(w.handle(l)) : c * g;
          else if (kind == 1) s.handle().max_with(d);
          else if (kind == 2) s.handle() = 0.5 * s.handle() + c * x.handle(i, l);
          else s.handle() = d;
        });
        if (other_side) branch.otherwise([&] { s.handle() = s.handle() * 0.5 + 0.2 * c; });
        if (summed) y.handle(i) += 0.3 * squash(c * c) * x.handle(i, l);
        z.handle() += d * c;
        if (chance(20)) sink(s.handle() * c);
      });
    };
    const Value g = builder_.let(fresh("g"), x.handle(i, 0) * w.handle(0) - x.handle(i, 1) * w.handle(1) + 0.1);
    if (in_branch) builder_.when(g > 0.0173, [&] { inner(g); });
    else inner(g);
    y.handle(i) += wave(s.handle()) * (chance(50) ? Value(x.handle(i, 0)) : squash(z.handle()));
    pass_on(y, i);
  });
}

// What the last trip of a loop has left, be it one inside or one before, is read where there was a trip.
void Writer::last_of_inner() {
  const Extent n{.size = some_size()}, m{.size = some_size(), .pad = 1};
  const ArrayInfo x = operand("x", {n}), b = operand("b", {m}), y = filled_local("y", {n});
  const bool alike = chance(40), levels = chance(40), conditional = chance(30);
  if (alike) {  // all iterations compute the same from it, and there may be none
    const ArrayInfo s = new_scalar("s");
    const Value count = chance(50) ? value_of(n) : value_of(n) / 3;
    each(0, count, n, [&](const Value& i) { s.handle() = x.handle(i) * bounded(0); });
    each(0, count, n, [&](const Value& i) {
      y.handle(i) = x.handle(i) * squash(s.handle() * s.handle()) * x.handle(i);
      pass_on(y, i);
    });
    return;
  }
  const Extent steps = some_steps(), rows{.pad = steps.pad + 2};
  const ArrayInfo v = filled_local("v", {rows, n});
  each(1, value_of(steps) + 1, {.pad = steps.pad + 1}, [&](const Value& t) {
    if (levels) each(n, [&](const Value& i) { v.handle(t, i) += v.handle(t - 1, i) * x.handle(i); });
    each(n, [&](const Value& i) {
      const ArrayInfo s = new_scalar("s");
      each(m, [&](const Value& j) {
        if (conditional) builder_.when(j == 0 || b.handle(j) > 0.1173, [&] { s.handle() = b.handle(j) * x.handle(i); });
        else s.handle() = b.handle(j);
      });
      v.handle(t + 1, i) += s.handle() * 0.5;
      if (!levels) v.handle(t, i) = 0.5 * v.handle(t, i) + squash(s.handle()) * s.handle();
    });
  });
  each(n, [&](const Value& i) { sink(v.handle(value_of(steps), i) * bounded(0)); });
}

// Of a loop one iteration does what others do not, with a scalar for all.
void Writer::one_iteration() {
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const ArrayInfo x = operand("x", {m, n}), y = filled_local("y", {n});
  const bool given = chance(40);
  const auto scalar = [&](const char* stem) {
    const ArrayInfo s = declare(given ? ir::ArrayRole::Output : ir::ArrayRole::Local, stem, {});
    s.handle() = 0.5;
    arrays_.push_back(s);
    return s;
  };
  const ArrayInfo acc = scalar("acc"), z = scalar("z");
  const Extent other{.size = some_size()};
  const int which = static_cast<int>(below(4)), kind = static_cast<int>(below(6));
  each(n, [&](const Value& i) {
    const ArrayInfo s = new_scalar("s");
    s.handle() = 0;
    each(m, [&](const Value& k) { s.handle() += x.handle(k, i) * bounded(0); });
    y.handle(i) = squash(s.handle()) * 0.25;
    std::optional<Value> place;
    if (which == 0) place = state_value(n);
    else if (which == 1) place = value_of(other);
    else if (which == 2) place = value_of(n) - 1;
    builder_.when(i == (place ? *place : value_of(n) / 2), [&] {
      keyed_update(acc.handle(), kind, squash(s.handle()) * s.handle());
      if (chance(80)) z.handle() = chance(50) ? wave(acc.handle()) : squash(acc.handle()) * acc.handle();
      else update();
    });
    pass_on(y, i);
  });
  sink(z.handle() * acc.handle());
}

// A branch has an array, in which data choose, and may change what its condition reads.
void Writer::branch_with_array() {
  const Extent n{.size = some_size()}, m{.size = some_size()}, three{.pad = 3};
  const ArrayHandle index = small_integers("slot", {n}, 3);
  const ArrayInfo x = operand("x", {m, n}), u = filled_local("u", {n}), y = filled_local("y", {n});
  const bool by_sum = chance(40), changes = chance(60), otherwise = chance(50);
  const IndexInfo far = indices_between(n, n);
  each(n, [&](const Value& i) {
    const ArrayInfo s = new_scalar("s");
    s.handle() = 0;
    each(m, [&](const Value& k) { s.handle() += 0.3 * x.handle(k, i) * bounded(0); });
    y.handle(i) = s.handle();
    const Value asked = by_sum ? Value(s.handle()) : Value(u.handle(i));
    const Branch branch = builder_.when(asked > 0.0713, [&] {
      const ArrayInfo h = declare(ir::ArrayRole::Local, "h", {three});
      const Value t = squash(s.handle());
      h.handle(0) = t;
      if (changes && chance(30)) u.handle(i) = -1;
      h.handle(1) = t * t;
      h.handle(2) = 1 + t;
      y.handle(i) = h.handle(index(i)) * t;
      if (changes) u.handle(chance(70) ? i : Value(far.handle(i))) = chance(50) ? Value(-1) : y.handle(i) - 0.5;
    });
    if (otherwise) branch.otherwise([&] { y.handle(i) *= 0.7; });
    pass_on(y, i);
  });
  each(n, [&](const Value& i) { pass_on(u, i); });
}

// A condition inside of another one, without which there may be nothing that it asks.
void Writer::guarded_condition() {
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const ArrayHandle flag = small_integers("flag", {n}, 2);
  const ArrayInfo x = operand("x", {m, n}), y = filled_local("y", {n});
  const Value limit = chance(50) ? value_of(n) / 2 : min(value_of(n), value_of(m));
  const bool sums = chance(60), joined = chance(30);
  each(n, [&](const Value& i) {
    const ArrayInfo s = new_scalar("s");
    s.handle() = 0;
    each(m, [&](const Value& k) { s.handle() += 0.3 * x.handle(k, i); });
    const auto inside = [&] {
      if (sums) each(m, [&](const Value& k) { s.handle() += x.handle(k, i) * x.handle(k, i); });
      else update();
    };
    if (joined) builder_.when(i < limit && flag(limit - 1) > 0, inside);
    else builder_.when(i < limit, [&] { builder_.when(flag(limit - 1) > 0, inside); });
    y.handle(i) = squash(s.handle());
    pass_on(y, i);
  });
}

// Two loops that read what the steps change, of which one may have no trip.
void Writer::side_by_side() {
  const Extent r{.size = some_size()}, n{.size = some_size()}, m{.size = some_size()};
  const ArrayInfo x = operand("x", {n}), z = operand("z", {m}), a = filled_local("a", {r});
  const ArrayInfo u = filled_local("u", {{.pad = 2}});
  const std::int64_t part = 1 + below(6);
  const bool nested = chance(70), nonlinear = chance(40);
  const auto term = [&](const Value& v) { return nonlinear ? wave(u.handle(0) * v) : u.handle(0) * v; };
  each(chance(50) ? some_steps() : Extent{.size = some_size()}, [&](const Value&) {
    const auto both = [&](const Value& i) {
      each(0, value_of(n) / part, n, [&](const Value& j) { a.handle(i) += 0.2 * term(x.handle(j)); });
      each(0, value_of(m) / (7 - part), m, [&](const Value& j) { a.handle(i) += 0.2 * term(z.handle(j)); });
    };
    if (nested) each(r, both);
    else each(0, min(1, value_of(r)), r, both);
    builder_.when(condition(), [&] { u.handle(0) = u.handle(0) * 0.5 + 0.25; }).otherwise([&] {
      u.handle(1) = u.handle(1) * 0.9 - 0.1 * u.handle(0);
    });
  });
  each(r, [&](const Value& i) { pass_on(a, i); });
}

// Sums into neighbours in a band that moves along, with weights at strided places.
void Writer::band() {
  const Extent rows{.pad = 1 + static_cast<int>(below(2))}, n{.size = some_size()}, m{.size = some_size()};
  const Extent wide{.size = n.size, .second = m.size, .pad = 1};
  const ArrayInfo x = operand("x", {rows, n}), y = filled_local("y", {rows, wide});
  const std::int64_t slope = 1 + below(2);
  const Value all = slope * (value_of(n) + value_of(m));
  const ArrayHandle q = builder_.input(main_type_, fresh("q"), {all + 1});
  const ArrayHandle r = builder_.input(main_type_, fresh("r"), {all + 1});
  const bool beside = chance(70), back = chance(30);
  const LoopOptions order = some_order();
  each(rows, [&](const Value& l) {
    each(n, [&](const Value& i) {
      const Value g = builder_.let(fresh("g"), squash(x.handle(l, i)));
      each(
          i, i + value_of(m), wide,
          [&](const Value& j) {
            const Value place = back ? j : i - slope * j + all;
            y.handle(l, j) += g * q(place) * r(place);
            if (beside) y.handle(l, j + 1) += g * r(place);
          },
          order);
    });
  });
  each(rows, [&](const Value& l) { each(wide, [&](const Value& j) { sink(y.handle(l, j)); }); });
}

// A recurrence that reads an array which may be in the memory that it writes. It has no gradient.
void Writer::shared_recurrence() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = declare(ir::ArrayRole::InOut, "x", {n});
  ArrayInfo b = x;
  b.name = fresh("b");
  b.handle = builder_.input(x.type, b.name, shape_of({n}));
  builder_.may_alias(x.handle, b.handle);
  if (chance(80)) shared_[b.name] = x.name;
  const bool ahead = chance(30), sums = chance(30);
  each(
      1, value_of(n), n,
      [&](const Value& i) {
        const Value other = ahead ? b.handle(min(i + 1, value_of(n) - 1)) : b.handle(i - 1);
        if (sums) x.handle(i) += 0.3 * x.handle(i - 1) * other;
        else x.handle(i) = 0.5 * x.handle(i - 1) + 0.4 * other;
      },
      some_order());
  each(n, [&](const Value& i) { sink(x.handle(i)); });
}

}  // namespace loopgrad::fuzz
