// Shapes of programs that gradients have got wrong before: in-place time steps, recurrences, indirect writes, sums over
// edges, loops whose trip count depends on data.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

void Writer::pattern() {
#define SHAPE(name) \
  Shape { &Writer::name, #name }
  static const std::vector<Shape> in_order = {SHAPE(double_buffered_time_loop),
                                              SHAPE(time_indexed_array),
                                              SHAPE(ping_pong),
                                              SHAPE(carried_scalar),
                                              SHAPE(recurrence),
                                              SHAPE(linear_recurrence),
                                              SHAPE(linear_recurrence),
                                              SHAPE(tables),
                                              SHAPE(softmax_row),
                                              SHAPE(csr_sum),
                                              SHAPE(csr_sum),
                                              SHAPE(cells_of_grid),
                                              SHAPE(indirect_scatter),
                                              SHAPE(compaction),
                                              SHAPE(bounded_while),
                                              SHAPE(convolution),
                                              SHAPE(triangular_solve),
                                              SHAPE(argmax),
                                              SHAPE(shaped_local),
                                              SHAPE(data_dependent_loop)};
  static const std::vector<Shape> dense = {
      SHAPE(product_of_matrices), SHAPE(batched_product), SHAPE(images),    SHAPE(rows),
      SHAPE(stencil_in_place),    SHAPE(transposed),      SHAPE(flattened), SHAPE(attention)};
  static const std::vector<Shape> integers = {
      SHAPE(counts),         SHAPE(masked),         SHAPE(rounded_result), SHAPE(position_of_largest),
      SHAPE(nested_indices), SHAPE(periodic_steps), SHAPE(data_bins),      SHAPE(sorted_segments)};
  static const std::vector<Shape> rounding = {SHAPE(largest_product), SHAPE(floor_of_product),
                                              SHAPE(branch_at_equality), SHAPE(tied_extrema)};
#undef SHAPE
  const std::int64_t dice = below(100);
  const Shape& shape = axes_.rounded_control && dice < 15 ? one_of(rounding)
                       : dice < 45                        ? one_of(in_order)
                       : dice < 72                        ? one_of(dense)
                                                          : one_of(integers);
  write(shape);
}

/// Adds a value to some output element.
void Writer::sink(const Value& value) {
  auto element = random_element([](const ArrayInfo& a) { return a.writable && a.readable; });
  if (element) *element += squash(value);
}

/// A local that is written everywhere and can be read by what follows.
ArrayInfo Writer::filled_local(const char* stem, std::vector<Extent> extents) {
  ArrayInfo array = declare(ir::ArrayRole::Local, stem, std::move(extents));
  initialise(array);
  arrays_.push_back(array);
  return array;
}

// u -> next -> u, keeping only the last step.
void Writer::double_buffered_time_loop() {
  const Extent space{.size = some_size()};
  const Extent time = chance(50) ? Extent{.pad = 3} : Extent{.size = some_size()};
  const ArrayInfo u = filled_local("u", {space});
  const ArrayInfo next = filled_local("next", {space});
  const bool interior = chance(50);
  each(time, [&](const Value&) {
    each(interior ? 1 : 0, value_of(space) - (interior ? 1 : 0), space, [&](const Value& i) {
      const Value left = u.handle(max(i - 1, 0)), right = u.handle(min(i + 1, value_of(space) - 1));
      const Value middle = u.handle(i);
      next.handle(i) = 0.5 * middle + 0.2 * left + 0.2 * right - 0.1 * middle * squash(middle) + 0.1 * read_input();
    });
    each(space, [&](const Value& i) { u.handle(i) = next.handle(i); });
  });
  each(space, [&](const Value& i) { sink(u.handle(i)); });
}

// u[t + 1, i] from u[t, ...].
void Writer::time_indexed_array() {
  const Extent space{.size = some_size()}, time{.size = some_size()};
  const Extent steps{.size = time.size, .pad = 1};
  const ArrayInfo u = filled_local("u", {steps, space});
  each(time, [&](const Value& t) {
    each(space, [&](const Value& i) {
      const Value here = u.handle(t, i), left = u.handle(t, max(i - 1, 0));
      u.handle(t + 1, i) = 0.7 * here + 0.3 * wave(here * left) + 0.1 * read_input();
    });
  });
  each(space, [&](const Value& i) { sink(u.handle(value_of(time), i)); });
}

// u[t % 2, i].
void Writer::ping_pong() {
  const Extent space{.size = some_size()}, time{.pad = 3};
  const ArrayInfo u = filled_local("u", {Extent{.pad = 2}, space});
  each(time, [&](const Value& t) {
    each(space, [&](const Value& i) {
      const Value old = u.handle(t % 2, i), other = u.handle(t % 2, value_of(space) - 1 - i);
      u.handle((t + 1) % 2, i) = 0.6 * old + 0.3 * wave(other) * read_input();
    });
  });
  each(space, [&](const Value& i) { sink(u.handle(1, i)); });
}

void Writer::carried_scalar() {
  const ArrayInfo s = filled_local("s", {});
  each({.size = some_size()}, [&](const Value&) {
    if (chance(50)) sink(s.handle());
    const Value next = 0.8 * s.handle() + 0.3 * bounded(1);
    if (chance(30)) {
      builder_.when(condition(), [&] { s.handle() = next; });
    } else if (chance(40)) {
      s.handle() *= 1 + 0.3 * squash(tame(1));
    } else {
      s.handle() = next;
    }
  });
  sink(s.handle());
}

// x(i) from x(i - 1), forwards or backwards, in place.
void Writer::recurrence() {
  const Extent space{.size = some_size()};
  const ArrayInfo x = filled_local("x", {space});
  const bool backwards = chance(40);
  each(1, value_of(space), space, [&](const Value& i) {
    const Value at = backwards ? value_of(space) - 1 - i : i;
    const Value before = x.handle(backwards ? at + 1 : at - 1);
    const Value here = x.handle(at);
    if (chance(50)) x.handle(at) = 0.6 * here + 0.4 * wave(before) * read_input();
    else x.handle(at) += 0.3 * here * squash(before);
  });
  each(space, [&](const Value& i) { sink(x.handle(i)); });
}

// Carried values that a machine may do in pieces: linear, sums, products, extrema, one from another, with resets, in
// scalars or elements, up or down, in rows or columns, long enough for several pieces.
void Writer::linear_recurrence() {
  const Extent steps{.pad = static_cast<int>(1 + below(chance(70) ? 40 : 300))}, rows{.size = some_size()};
  const bool across = chance(30), by_element = chance(40), down = chance(30);
  const ArrayInfo x = across ? filled_local("x", {steps, rows}) : filled_local("x", {rows, steps});
  const auto at = [&](const Value& row, const Value& j) { return across ? x.handle(j, row) : x.handle(row, j); };
  const Value count = value_of(steps);
  const int kind = static_cast<int>(below(6));
  const auto row_of = [&](const Value& row) {
    const ArrayInfo s = declare(ir::ArrayRole::Local, "s", {}), v = declare(ir::ArrayRole::Local, "v", {});
    s.handle() = bounded(0);
    v.handle() = constant();
    each(by_element ? 1 : 0, count, steps, [&](const Value& j) {
      const Value place = down ? count - 1 - j : j;
      const Value term = 0.3 * squash(at(row, place));
      if (by_element) {
        const Value before = at(row, down ? place + 1 : place - 1);
        if (kind == 0) at(row, place) += before * 0.5;
        else if (kind == 1) at(row, place) = max(before, at(row, place));
        else at(row, place) = (0.4 + term) * before + 0.2 * at(row, place);
        return;
      }
      if (kind == 0) s.handle() += term;
      else if (kind == 1) s.handle().max_with(at(row, place));
      else if (kind == 2) s.handle() *= 1 - 0.3 * term * term;
      else s.handle() = (0.5 + term) * s.handle() + 0.2 * at(row, place);
      if (kind == 4) builder_.when(j % 7 == 3, [&] { s.handle() = constant(); });
      if (kind == 5) {
        v.handle() = 0.8 * v.handle() + 0.1 * s.handle();
        at(row, place) = v.handle() - s.handle();
      } else {
        at(row, place) = 0.5 * s.handle();
      }
      if (chance(30)) sink(s.handle());
    });
    if (chance(50)) sink(s.handle());
  };
  each(rows, row_of);
  each(rows, [&](const Value& row) { each(steps, [&](const Value& j) { sink(at(row, j)); }); });
}

// Tables over two sequences that read what the others have of earlier rows and columns, as alignments do.
void Writer::tables() {
  const Extent rows{.pad = static_cast<int>(2 + below(5))}, columns{.pad = static_cast<int>(2 + below(5))};
  std::vector<ArrayInfo> all;
  for (std::int64_t k = 2 + below(2); k > 0; --k) all.push_back(filled_local("a", {rows, columns}));
  each(1, value_of(rows), rows, [&](const Value& i) {
    each(1, value_of(columns), columns, [&](const Value& j) {
      for (const ArrayInfo& table : all) {
        const std::int64_t step = below(3);
        const Value row = step < 2 ? i - 1 : i, column = step == 1 ? j : j - 1;
        Value next = 0.2 * read_input();
        for (const ArrayInfo& from : all) next = next + 0.3 * wave(from.handle(row, column));
        if (chance(60)) table.handle(i, j) = next;
        else table.handle(i, j) = max(table.handle(i, j), builder_.let(fresh("next"), next));
      }
    });
  });
  for (const ArrayInfo& table : all)
    each(rows, [&](const Value& i) { each(columns, [&](const Value& j) { sink(table.handle(i, j)); }); });
}

void Writer::softmax_row() {
  const Extent rows{.size = some_size()}, columns{.size = some_size()};
  const ArrayInfo z = filled_local("z", {rows, columns});
  each(rows, [&](const Value& i) {
    const ArrayInfo largest = declare(ir::ArrayRole::Local, "largest", {});
    const ArrayInfo sum = declare(ir::ArrayRole::Local, "sum", {});
    largest.handle() = -1e4;  // f16 holds it
    each(columns, [&](const Value& j) { largest.handle().max_with(z.handle(i, j)); });
    sum.handle() = 0;
    each(columns, [&](const Value& j) {
      z.handle(i, j) = exp(z.handle(i, j) - largest.handle());
      sum.handle() += z.handle(i, j);
    });
    each(columns, [&](const Value& j) { sink(z.handle(i, j) / sum.handle()); });
  });
}

void Writer::csr_sum() {
  if (pointers_.empty()) return indirect_scatter();
  const IndexInfo& ptr = pointers_[0];
  const Extent rows{.size = ptr.extent.size};
  const int kind = static_cast<int>(below(4));
  const bool skips_first = chance(25), looks_back = chance(20);
  each(rows, [&](const Value& v) {
    const ArrayInfo s = declare(ir::ArrayRole::Local, "s", {});
    s.handle() = bounded(0);
    arrays_.push_back(s);
    const Value start = ptr.handle(v);
    each(skips_first ? start + 1 : start, ptr.handle(v + 1), ptr.target, [&](const Value& entry) {
      if (looks_back) {
        each(start, entry + 1, ptr.target, [&](const Value&) { s.handle() = 0.9 * wave(s.handle()) + 0.1 * tame(1); });
      }
      if (kind == 0) s.handle() = 0.8 * s.handle() + 0.3 * bounded(1);
      else if (kind == 1) s.handle().max_with(tame(1));
      else s.handle() += bounded(1);
      if (chance(40)) update();
    });
    sink(s.handle());
  });
}

// Entries of the cells of a grid, which are numbered row by row, and of cells beside them.
void Writer::cells_of_grid() {
  if (pointers_.empty()) return csr_sum();
  const Extent rows{.size = some_size(), .pad = 1}, columns{.size = some_size(), .pad = 1};  // one cell at least
  const Extent entries = pointers_[0].target;
  const Value across = value_of(columns);
  const std::string name = fresh("cells");
  const ArrayHandle start = builder_.input(ScalarType::I32, name, {value_of(rows) * across + 1});
  contents_[name] = {IndexContents::Kind::CsrPointer, ir::Expr(value_of(entries).node())};
  if (chance(80)) builder_.csr(start, value_of(entries));
  const ArrayInfo y = filled_local("y", {entries}), z = filled_local("z", {entries});
  const bool down = chance(25), beside = chance(60), overwrites = chance(50);
  each(rows, [&](const Value& i) {
    each(columns, [&](const Value& j) {
      const Value cell = i * across + (down ? across - 1 - j : j), next = ((i + 1) % value_of(rows)) * across + j;
      each(start(cell), start(cell + 1), entries, [&](const Value& e) {
        if (overwrites) y.handle(e) = 0.6 * wave(y.handle(e)) + bounded(1);
        else y.handle(e) += bounded(1);
        if (!beside) return;
        each(start(next), start(next + 1), entries,
             [&](const Value& f) { z.handle(f) += 0.3 * squash(y.handle(e)) * read_input(); });
      });
    });
  });
  each(entries, [&](const Value& e) { sink(y.handle(e) * z.handle(e)); });
}

// Writes through an index array: sums, overwrites and in-place updates.
void Writer::indirect_scatter() {
  if (indices_.empty()) return convolution();
  const IndexInfo index = one_of(indices_);
  const ArrayInfo bins = filled_local("bins", {index.target});
  const int kind = static_cast<int>(below(4));
  each(index.extent, [&](const Value&) {
    const auto at = index_value(index, chance(20));
    if (!at) return;
    const Element bin = bins.handle(*at);
    if (kind == 0) bin = tame(1);
    else if (kind == 1) bin *= 1 + 0.3 * squash(tame(1));
    else if (kind == 2) bin = 0.7 * bin + 0.3 * wave(bin) * read_input();
    else bin += bounded(1);
  });
  each(index.target, [&](const Value& i) { sink(bins.handle(i)); });
}

// Keeps the elements that pass a test, at positions counted by the program.
void Writer::compaction() {
  const Extent space{.size = some_size()};
  const ArrayInfo kept = filled_local("kept", {space});
  const ArrayHandle count = builder_.local<int>(fresh("count"), {});
  count() = 0;
  each(space, [&](const Value&) {
    const Value candidate = tame(1);
    builder_.when(candidate > constant() - 0.5, [&] {
      kept.handle(count()) = 0.8 * candidate;
      count() += 1;
    });
  });
  each(space, [&](const Value& i) { sink(kept.handle(i)); });
}

void Writer::bounded_while() {
  const ArrayInfo s = filled_local("s", {});
  const Extent trips{.pad = 4};
  const double limit = constant();
  const auto loop = [&] {
    for (const Value t : builder_.loop_while("t", 4, [&](const Value&) { return abs(s.handle() + 0.0191) > limit; })) {
      iterators_.push_back({t, trips});
      scope([&] {
        s.handle() = 0.6 * s.handle() + 0.1 * wave(s.handle());
        if (chance(50)) update();
      });
      iterators_.pop_back();
    }
  };
  if (chance(50)) {
    each({.size = some_size()}, [&](const Value&) {
      s.handle() += bounded(0);
      loop();
    });
  } else {
    loop();
  }
  sink(s.handle());
}

void Writer::convolution() {
  const Extent n{.size = some_size()}, k{.size = some_size()};
  const ArrayInfo x = filled_local("x", {Extent{.size = n.size, .second = k.size}});
  const ArrayInfo w = filled_local("w", {k});
  each(n, [&](const Value& i) { each(k, [&](const Value& j) { sink(x.handle(i + j) * w.handle(j)); }); });
}

// Forward substitution in place.
void Writer::triangular_solve() {
  const Extent n{.size = some_size()};
  const ArrayInfo l = filled_local("l", {n, n}), x = filled_local("x", {n});
  each(n, [&](const Value& i) {
    each(0, i, n, [&](const Value& j) { x.handle(i) -= 0.2 * squash(l.handle(i, j)) * x.handle(j); });
    x.handle(i) /= 1.5 + 0.3 * wave(l.handle(i, i));
  });
  each(n, [&](const Value& i) { sink(x.handle(i)); });
}

// The position of the largest element, then a read at that position.
void Writer::argmax() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = filled_local("x", {Extent{.size = n.size, .pad = 1}});
  const ArrayInfo largest = filled_local("largest", {});
  const ArrayHandle at = builder_.local<std::int64_t>(fresh("at"), {});
  at() = 0;
  each(n, [&](const Value& i) {
    builder_.when(x.handle(i) > largest.handle() + 0.0123, [&] {
      largest.handle() = x.handle(i);
      at() = i;
    });
  });
  sink(largest.handle() + 0.5 * x.handle(at()));
}

// for j in 0..idx(i), with and without a promise about the trip count.
void Writer::data_dependent_loop() {
  if (indices_.empty()) return triangular_solve();
  const IndexInfo index = one_of(indices_);
  LoopOptions options;
  if (chance(50)) options.at_most = {value_of(index.target)};
  each(index.extent, [&](const Value& i) {
    each(
        0, index.second ? index.handle(i, 1) : index.handle(i), index.target,
        [&](const Value&) {
          update();
          if (chance(50)) update();
        },
        options);
  });
}

// A local whose shape depends on the iterator.
void Writer::shaped_local() {
  const Extent n{.size = some_size()};
  each(n, [&](const Value& i) {
    const ArrayHandle t = builder_.local(main_type_, fresh("t"), {i + 1});
    each(0, i + 1, n, [&](const Value& j) { t(j) = tame(1); });
    each(1, i + 1, n, [&](const Value& j) { t(j) = 0.7 * t(j) + 0.3 * wave(t(j - 1)); });
    sink(t(i));
  });
}

}  // namespace loopgrad::fuzz
