// Parts of the language, and ways of writing sums and loops, that users' programs have: buffers that take turns,
// tables, other views of an array, small vectors, keys that may be "none", trip counts that the program computes.
#include "tools/fuzz/writer.h"

#include <loopgrad/small.h>

namespace loopgrad::fuzz {

void Writer::later_pattern() {
#define SHAPE(name) \
  Shape { &Writer::name, #name }
  static const std::vector<Shape> shapes = {
      SHAPE(turns),         SHAPE(table_of_weights), SHAPE(other_views), SHAPE(small_vectors),  SHAPE(stopped),
      SHAPE(optional_keys), SHAPE(guarded_accesses), SHAPE(hashed),      SHAPE(computed_trips), SHAPE(computed_trips),
      SHAPE(nested_while),  SHAPE(followed_links),   SHAPE(by_key),      SHAPE(scalar_sums),    SHAPE(scalar_sums)};
#undef SHAPE
  write(one_of(shapes));
}

/// Uses a value: adds it to some element, or stores it in an element of its own where a sum would hide the order.
void Writer::pass_on(const ArrayInfo& result, const Value& i) {
  if (chance(50)) sink(result.handle(i));
  else sink(result.handle(i) * bounded(0));
}

// Two or three buffers that take turns over the steps of a loop.
void Writer::turns() {
  const Extent n{.size = some_size()};
  const std::int64_t count = 2 + below(2);
  const Extent steps = chance(60) ? Extent{.pad = static_cast<int>(2 + below(3))} : Extent{.size = some_size()};
  const ArrayView u = builder_.ring<double>(fresh("u"), count, {value_of(n)});
  for (std::int64_t k = 0; k < count; ++k) each(n, [&](const Value& i) { u(k, i) = tame(1); });
  const bool wave_like = count == 3, ring = chance(50);
  each(wave_like ? 2 : 0, value_of(steps), steps, [&](const Value& t) {
    each(n, [&](const Value& i) {
      const Value next = ring ? (i + 1) % value_of(n) : min(i + 1, value_of(n) - 1);
      const Value before = wave_like ? t - 1 : t;
      const Value old = u(before, i), beside = u(before, next);
      const Value older = wave_like ? Value(u(t - 2, i)) : old;
      u(wave_like ? t : t + 1, i) = 0.5 * old + 0.3 * beside - 0.2 * squash(older) * old + 0.1 * read_input();
    });
  });
  each(n, [&](const Value& i) { sink(u(value_of(steps), i) * bounded(0)); });
}

void Writer::table_of_weights() {
  const Extent n{.size = some_size()}, wide{.size = n.size, .pad = 2}, taps{.pad = 3};
  const ArrayInfo x = operand("x", {wide}), y = filled_local("y", {n});
  const ArrayHandle w = builder_.table<double>(fresh("w"), {0.25, -0.5, 0.375});
  const bool nonlinear = chance(50);
  each(n, [&](const Value& i) {
    each(taps, [&](const Value& k) {
      const Value term = w(k) * x.handle(i + k);
      y.handle(i) += nonlinear ? squash(term) * y.handle(i) * 0.5 : term;
    });
    pass_on(y, i);
  });
}

// One memory as a vector, as a matrix and by its rows.
void Writer::other_views() {
  const Extent n{.size = some_size()}, m = chance(50) ? Extent{.pad = 3} : Extent{.size = some_size()};
  const Value rows = value_of(n), columns = value_of(m);
  const ArrayHandle flat = builder_.local(main_type_, fresh("flat"), {rows * columns});
  const ArrayView matrix = flat.reshaped({rows, columns});
  each(n, [&](const Value& i) { each(m, [&](const Value& j) { matrix(i, j) = tame(1); }); });
  const bool by_place = chance(40);
  each(n, [&](const Value& i) {
    const ArrayView row = matrix.row(i);
    const ArrayInfo s = declare(ir::ArrayRole::Local, "s", {});
    s.handle() = 0;
    each(m, [&](const Value& j) {
      s.handle() += row(j) * row(columns - 1 - j);
      if (chance(50)) row(j) = 0.7 * row(j) + 0.2 * squash(s.handle());
    });
    sink(s.handle());
  });
  each(n, [&](const Value& i) {
    each(m, [&](const Value& j) { sink(by_place ? flat(i * columns + j) : matrix.row(i)(j)); });
  });
}

// Forces between the points that an index array names.
void Writer::small_vectors() {
  const Extent n{.size = some_size()}, three{.pad = 3};
  const ArrayInfo x = operand("x", {n, three}), force = filled_local("force", {n, three});
  const IndexInfo* partner = nullptr;
  for (const IndexInfo& index : indices_)
    if (!index.second && index.target == n) partner = &index;
  const int kind = static_cast<int>(below(3));
  const auto between = [&](const Value& a, const Value& b) {
    const Vec<3> d = load<3>(x.handle.row(a)) - load<3>(x.handle.row(b));
    const Value size = builder_.let(fresh("size"), sqrt(0.3 + dot(d, d)));
    Vec<3> f = (size - constant()) * (d / size);
    if (kind == 1) f = cross(f, load<3>(x.handle.row(b)));
    if (kind == 2) f = Mat<3>::identity() * f - 0.3 * f;
    add_to(force.handle.row(a), f);
    add_to(force.handle.row(b), 0.5 * f);
  };
  if (partner && chance(70)) {
    const IndexInfo index = *partner;
    each(index.extent, [&](const Value& e) {
      const Value at = index.handle(e);
      between(at, chance(50) || index.extent != n ? Value(at) : e);
    });
  } else {
    each(n, [&](const Value& i) { between(i, value_of(n) - 1 - i); });
  }
  each(n, [&](const Value& i) { each(three, [&](const Value& c) { sink(force.handle(i, c)); }); });
}

// Values that derivatives take for constants, in products and in what carries a value on.
void Writer::stopped() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = operand("x", {n}), y = filled_local("y", {n});
  const ArrayInfo s = filled_local("s", {});
  const bool carried = chance(50);
  each(n, [&](const Value& i) {
    const Value constant_part =
        builder_.let(fresh("fixed"), stop_gradient(chance(50) ? Value(x.handle(i)) : squash(y.handle(i))));
    y.handle(i) = constant_part * x.handle(i) + 0.3 * stop_gradient(y.handle(i));
    if (carried) s.handle() = 0.7 * s.handle() + 0.3 * stop_gradient(s.handle()) * y.handle(i);
    else s.handle() += constant_part * y.handle(i);
    pass_on(y, i);
  });
  sink(s.handle());
}

/// What an update of an element under a key may be.
void Writer::keyed_update(const Element& bin, int kind, const Value& value) {
  if (kind == 0) bin += value;
  else if (kind == 1) bin *= 1 + 0.3 * squash(value);
  else if (kind == 2) bin.max_with(value - 0.0173);
  else if (kind == 3) bin.min_with(value + 0.0313);
  else if (kind == 4) bin = 0.6 * bin + 0.4 * value;
  else bin = value;
}

// Keys, given or computed, of which -1 is "none": the guard keeps these from the array.
void Writer::optional_keys() {
  const Extent n{.size = some_size()}, bins{.size = some_size()};
  const ArrayInfo h = filled_local("h", {bins});
  const int kind = static_cast<int>(below(6));
  const bool given = chance(60);
  std::optional<ArrayHandle> key;
  if (given) {
    const std::string name = fresh("link");
    const ScalarType type = chance(50) ? ScalarType::I32 : ScalarType::I64;
    key = builder_.input(type, name, {value_of(n)});
    contents_[name] = {IndexContents::Kind::Below, ir::Expr((value_of(bins) + 1).node()), -1};
    if (chance(30)) builder_.in_range(*key, -1, value_of(bins));
  } else {
    key = builder_.local<std::int64_t>(fresh("key"), {value_of(n)});
    each(n, [&](const Value& i) {
      const Value chosen = condition();
      (*key)(i) = select(chosen && value_of(bins) > 0, i % max(value_of(bins), 1), -1);
    });
  }
  const bool below_too = chance(40);
  each(n, [&](const Value& i) {
    const Value k = (*key)(i);
    const Value inside = below_too ? k >= 0 && k < value_of(bins) : k >= 0;
    builder_.when(inside, [&] {
      keyed_update(h.handle(k), kind, bounded(1));
      if (chance(40)) sink(h.handle(k));
    });
  });
  each(bins, [&](const Value& b) { sink(h.handle(b)); });
}

// Reads and writes beside an indirect place, where a branch says that the place is there.
void Writer::guarded_accesses() {
  if (indices_.empty()) return optional_keys();
  const IndexInfo index = one_of(indices_);
  const ArrayInfo x = operand("x", {index.target}), h = filled_local("h", {index.target});
  const int kind = static_cast<int>(below(6));
  const std::int64_t shift = 1 + below(2);
  const bool down = chance(50);
  each(index.extent, [&](const Value& i) {
    const Value at = index.second ? Value(index.handle(i, 1)) : Value(index.handle(i));
    const Value beside = down ? at - shift : at + shift;
    const Value inside = down ? beside >= 0 : beside < value_of(index.target);
    if (chance(50)) sink(select(inside, x.handle(beside), 0.25) * bounded(0));
    builder_.when(inside, [&] { keyed_update(h.handle(beside), kind, squash(x.handle(at)) * x.handle(beside)); });
  });
  each(index.target, [&](const Value& b) { sink(h.handle(b)); });
}

// Places that a hash names, which wraps around in 32 bits or 64.
void Writer::hashed() {
  const Extent n{.size = some_size()}, bins = chance(50) ? Extent{.pad = 5} : Extent{.size = n.size};
  const ArrayInfo h = filled_local("h", {bins});
  const bool narrow = chance(50);
  const int kind = static_cast<int>(below(6));
  each(n, [&](const Value& i) {
    const Value start = narrow ? cast<int>(i) : i;
    const Value factor = narrow ? Value(1103515245) : Value(std::int64_t{6364136223846793005});
    const Value mixed = (start + 1) * factor + 12345;
    const Value again = mixed * factor - start;
    const Value at = cast<std::int64_t>(chance(50) ? mixed : again) % value_of(bins);
    keyed_update(h.handle(at), kind, bounded(1));
    if (chance(40)) sink(h.handle(at));
  });
  each(bins, [&](const Value& b) { sink(h.handle(b)); });
}

// Loops of which the program computes how long they are, below a promise, with values that their gradient needs.
void Writer::computed_trips() {
  const Extent n{.size = some_size()}, most = chance(50) ? Extent{.pad = 4} : Extent{.size = some_size()};
  const ArrayInfo x = operand("x", {n});
  const ArrayHandle count = builder_.local<std::int64_t>(fresh("trips"), {value_of(n)});
  const bool of_float = most.size < 0 && x.type == ScalarType::F64 && x.input;
  each(n, [&](const Value& i) {
    if (of_float) count(i) = min(max(cast<std::int64_t>(floor(2 * x.handle(i) + 2.0003)), 0), value_of(most));
    else count(i) = min(i + 1, value_of(most));
    if (chance(30)) builder_.when(condition(), [&] { count(i) = 0; });
  });
  const bool kept = chance(50), from_one = chance(25);
  each(n, [&](const Value& i) {
    const ArrayInfo s = declare(ir::ArrayRole::Local, "s", {});
    s.handle() = x.handle(i);
    arrays_.push_back(s);
    LoopOptions options = other_order();
    options.at_most = {value_of(most)};
    each(
        from_one ? 1 : 0, count(i), most,
        [&](const Value&) {
          s.handle() = 0.7 * s.handle() + 0.3 * wave(s.handle()) * read_input();
          if (kept) update();
        },
        options);
    sink(s.handle());
  });
}

// A while in a loop, with a loop in it, all of whose steps are needed again.
void Writer::nested_while() {
  const Extent n{.size = some_size()}, trips{.pad = 3}, inner = chance(50) ? Extent{.pad = 2} : n;
  const ArrayInfo x = operand("x", {n}), left = filled_local("left", {n});
  const double limit = 0.2 + 0.1 * constant();
  each(n, [&](const Value& i) {
    const ArrayInfo s = declare(ir::ArrayRole::Local, "s", {});
    s.handle() = 1.5 * x.handle(i);
    arrays_.push_back(s);
    const auto goes_on = [&](const Value&) { return abs(s.handle() + 0.0191) > limit; };
    for (const Value t : builder_.loop_while("t", value_of(trips), goes_on)) {
      iterators_.push_back({t, trips});
      scope([&] {
        each(inner, [&](const Value&) { s.handle() = 0.8 * s.handle() + 0.1 * wave(s.handle() * x.handle(i)); });
        if (chance(50)) left.handle(i) = 0.5 * left.handle(i) + 0.3 * s.handle() * squash(left.handle(i));
        if (chance(30)) update();
      });
      iterators_.pop_back();
    }
    pass_on(left, i);
    sink(s.handle());
  });
}

// Places that are reached by following an index array several times.
void Writer::followed_links() {
  std::vector<IndexInfo> maps;
  for (const IndexInfo& index : indices_)
    if (!index.second && index.extent == index.target) maps.push_back(index);
  if (maps.empty()) return guarded_accesses();
  const IndexInfo map = one_of(maps), other = one_of(maps);
  const ArrayInfo x = operand("x", {map.target}), h = filled_local("h", {map.target});
  const int kind = static_cast<int>(below(6));
  const bool in_scalar = chance(60) || other.target != map.target;
  each(map.extent, [&](const Value& i) {
    if (!in_scalar) {
      keyed_update(h.handle(map.handle(other.handle(map.handle(i)))), kind, bounded(0) * x.handle(other.handle(i)));
      return;
    }
    const ArrayHandle at = builder_.local<std::int64_t>(fresh("at"), {});
    at() = i;
    each({.pad = 3}, [&](const Value&) {
      at() = map.handle(at());
      keyed_update(h.handle(at()), kind, squash(x.handle(at())) * x.handle(i));
    });
    sink(x.handle(at()));
  });
  each(map.target, [&](const Value& b) { sink(h.handle(b)); });
}

// Sums, products, extrema and recurrences by a key, of rows or of numbers.
void Writer::by_key() {
  if (indices_.empty()) return hashed();
  const IndexInfo index = one_of(indices_);
  const bool rows = chance(40);
  const Extent columns = chance(50) ? Extent{.pad = 3} : Extent{.size = some_size()};
  const ArrayInfo h = rows ? filled_local("h", {index.target, columns}) : filled_local("h", {index.target});
  const ArrayInfo x = rows ? operand("x", {index.extent, columns}) : operand("x", {index.extent});
  const int kind = static_cast<int>(below(6));
  each(index.extent, [&](const Value& e) {
    const Value key = index.second ? Value(index.handle(e, 0)) : Value(index.handle(e));
    if (!rows) return keyed_update(h.handle(key), kind, x.handle(e) * bounded(0));
    each(columns, [&](const Value& c) { keyed_update(h.handle(key, c), kind, x.handle(e, c) * bounded(0)); });
  });
  each(index.target, [&](const Value& b) {
    if (!rows) return sink(h.handle(b));
    each(columns, [&](const Value& c) { sink(h.handle(b, c)); });
  });
}

// Sums that go through a scalar, often of another type than what they sum, in nests of several shapes.
void Writer::scalar_sums() {
  static constexpr ScalarType all[] = {ScalarType::F64, ScalarType::F32, ScalarType::F16, ScalarType::BF16};
  const Extent n{.size = some_size()}, m{.size = some_size()};
  const ArrayInfo a = operand("a", {n, m}), x = operand("x", {m}), y = filled_local("y", {n});
  const ScalarType type = chance(60) ? main_type_ : all[below(4)];
  const bool outside = chance(30), product = chance(20), again = chance(40);
  std::optional<ArrayHandle> kept;
  if (outside) kept = builder_.local(type, fresh("acc"), {});
  each(n, [&](const Value& i) {
    const ArrayHandle acc = kept ? *kept : builder_.local(type, fresh("acc"), {});
    acc() = product ? 1.0 : 0.0;
    each(m, [&](const Value& j) {
      if (product) acc() *= 1 + 0.3 * squash(a.handle(i, j) * x.handle(j));
      else acc() += a.handle(i, j) * x.handle(j);
    });
    y.handle(i) = again ? 0.5 * y.handle(i) + squash(acc()) : acc();
    each(m, [&](const Value& j) { sink(squash(acc()) * a.handle(i, j)); });
    pass_on(y, i);
  });
}

}  // namespace loopgrad::fuzz
