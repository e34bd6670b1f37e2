// Integer and bool results, and indices that are computed: nested, around rings, from data.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

ArrayHandle Writer::integer_output(const char* stem, ScalarType type, const Extent& extent) {
  const ArrayHandle array = builder_.output(type, fresh(stem), {value_of(extent)});
  each(extent, [&](const Value& i) {
    if (type == ScalarType::Bool) array(i) = Value(false);
    else array(i) = 0;
  });
  return array;
}

// How many go to each bin, and the mean of what they bring.
void Writer::counts() {
  if (indices_.empty()) return masked();
  const IndexInfo index = one_of(indices_);
  const ArrayHandle count = integer_output("count", chance(50) ? ScalarType::I32 : ScalarType::I64, index.target);
  const ArrayInfo sum = filled_local("sum", {index.target});
  each(index.extent, [&](const Value&) {
    const auto at = index_value(index, false);
    if (!at) return;
    count(*at) += 1;
    sum.handle(*at) += bounded(1);
  });
  each(index.target, [&](const Value& i) { sink(sum.handle(i) / cast(value_type(sum.type), 1 + count(i))); });
}

// A mask of bools that later loops read.
void Writer::masked() {
  const Extent n{.size = some_size()};
  const ArrayHandle mask = integer_output("mask", ScalarType::Bool, n);
  each(n, [&](const Value& i) {
    const Value chosen = condition();
    mask(i) = chosen;
  });
  each(n, [&](const Value& i) {
    builder_.when(mask(i), [&] { update(); }).otherwise([&] { sink(tame(1)); });
    sink(select(mask(value_of(n) - 1 - i), bounded(1), constant()));
  });
}

// Integers that are rounded floats, smallest and largest among them.
void Writer::rounded_result() {
  const Extent n{.size = some_size()};
  const ArrayHandle level = integer_output("level", chance(50) ? ScalarType::I32 : ScalarType::I64, n);
  const ArrayHandle extreme = integer_output("extreme", ScalarType::I64, {.pad = 2});
  each(n, [&](const Value& i) {
    const Value input = read_input();
    const ScalarType type = chance(50) ? ScalarType::I32 : ScalarType::I64;
    level(i) = cast(type, chance(50) ? floor(4 * input + 0.0131) : ceil(3 * input - 0.0171));
    extreme(0).min_with(cast<std::int64_t>(level(i)));
    extreme(1).max_with(cast<std::int64_t>(level(i)) % 3);
  });
  each(n, [&](const Value& i) { sink(bounded(0) * cast(value_type(main_type_), level(i))); });
}

void Writer::position_of_largest() {
  const Extent n{.size = some_size()}, rows{.size = some_size()}, wide{.size = n.size, .pad = 1};
  const ArrayInfo x = filled_local("x", {rows, wide});
  const ArrayHandle at = integer_output("at", ScalarType::I64, rows);
  each(rows, [&](const Value& r) {
    each(n, [&](const Value& i) { builder_.when(x.handle(r, i) > x.handle(r, at(r)) + 0.0123, [&] { at(r) = i; }); });
    sink(x.handle(r, at(r)));
  });
}

// y[a[b[i]]] += x[b[i]] and reads as deep.
void Writer::nested_indices() {
  const IndexInfo* outer = nullptr;
  const IndexInfo* inner = nullptr;
  for (const IndexInfo& a : indices_) {
    for (const IndexInfo& b : indices_)
      if (!a.second && a.extent == b.target) outer = &a, inner = &b;
  }
  if (!outer) return indirect_scatter();
  const IndexInfo a = *outer, b = *inner;
  const ArrayInfo sums = filled_local("sums", {a.target}), x = filled_local("x", {b.target});
  each(b.extent, [&](const Value&) {
    const auto first = index_value(b, false);
    if (!first) return;
    if (chance(50)) sums.handle(a.handle(*first)) += bounded(1) * x.handle(*first);
    else sums.handle(a.handle(*first)) = 0.5 * sums.handle(a.handle(*first)) + 0.4 * x.handle(*first);
    sink(sums.handle(a.handle(*first)) * x.handle(*first));
  });
  each(a.target, [&](const Value& i) { sink(sums.handle(i)); });
}

// Pushes and pulls around a ring, over several steps.
void Writer::periodic_steps() {
  const Extent n{.size = some_size()};
  const ArrayInfo u = filled_local("u", {n}), v = filled_local("v", {n});
  const Value size = value_of(n);
  const bool pushes = chance(50);
  each({.pad = 2}, [&](const Value&) {
    each(n, [&](const Value& i) {
      const Value next = (i + 1 + size) % size, before = (i - 1 + size) % size;
      if (pushes) v.handle(next) = 0.6 * u.handle(i) + 0.3 * wave(u.handle(before));
      else v.handle(i) = 0.6 * u.handle(next) - 0.3 * squash(u.handle(before)) * u.handle(i);
    });
    each(n, [&](const Value& i) { u.handle(i) = v.handle(i); });
  });
  each(n, [&](const Value& i) { sink(u.handle(i)); });
}

// Sums into the bin that the value of a float names.
void Writer::data_bins() {
  const Extent n{.size = some_size()}, bins{.pad = 3};
  const ArrayInfo x = declare(ir::ArrayRole::Input, "x", {n}), h = filled_local("h", {bins});
  each(n, [&](const Value& i) {
    const Value scaled = floor(1.5 * x.handle(i) + 1.5 + 0.0003);
    const Value at = min(max(cast<std::int64_t>(scaled), 0), 2);
    if (chance(70)) h.handle(at) += x.handle(i) * bounded(0);
    else h.handle(at) = 0.4 * h.handle(at) + 0.5 * x.handle(i);
  });
  each(bins, [&](const Value& b) { sink(h.handle(b)); });
}

// Sums over segments that a sorted array names.
void Writer::sorted_segments() {
  if (segments_.empty()) return counts();
  const IndexInfo segment = one_of(segments_);
  const Extent columns{.pad = 2};
  const ArrayInfo sums = filled_local("sums", {segment.target, columns});
  each(segment.extent, [&](const Value& e) {
    each(columns, [&](const Value& c) { sums.handle(segment.handle(e), c) += bounded(1); });
    sink(sums.handle(segment.handle(e), 0) * bounded(0));
  });
  each(segment.target, [&](const Value& i) { sink(sums.handle(i, 1)); });
}

}  // namespace loopgrad::fuzz
