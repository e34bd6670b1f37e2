// Control that the last bit of a value decides: extrema of products, floors of products, equality, ties.
//
// What decides is never a sum that a pass may reorder: forward and backward programs of every variant must see the same
// value, bit by bit.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

// The products that reach their maximum get the gradient; so do those that a later loop finds equal to it.
void Writer::largest_product() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = operand("x", {n}), w = operand("w", {n});
  const ArrayInfo largest = filled_local("largest", {});
  const bool smallest = chance(50);
  const double c = constant();
  each(n, [&](const Value& i) {
    const Value product = x.handle(i) * w.handle(i) + c;
    if (smallest) largest.handle().min_with(product);
    else largest.handle().max_with(product);
  });
  each(n, [&](const Value& i) {
    builder_.when(x.handle(i) * w.handle(i) + c == largest.handle(), [&] { sink(0.5 * x.handle(i)); });
  });
  sink(largest.handle());
}

void Writer::floor_of_product() {
  const Extent n{.size = some_size()}, bins{.pad = 4};
  const ArrayInfo x = operand("x", {n}), h = filled_local("h", {bins});
  const double scale = chance(50) ? 2.0 : 1.7;
  each(n, [&](const Value& i) {
    const Value position = x.handle(i) * scale + 2.0;
    const Value at = min(max(cast<std::int64_t>(floor(position)), 0), 3);
    h.handle(at) += (position - floor(position)) * x.handle(i);
  });
  each(bins, [&](const Value& b) { sink(h.handle(b)); });
}

// Branches at the very border: values that are often equal, and products that are nearly so.
void Writer::branch_at_equality() {
  const Extent n{.size = some_size()};
  const ArrayInfo x = operand("x", {n}), y = declare(ir::ArrayRole::Input, "y", {n});
  coarse_.insert(y.name);
  if (x.input && chance(50)) coarse_.insert(x.name);
  arrays_.push_back(y);
  each(n, [&](const Value& i) {
    const Value a = x.handle(i) * y.handle(i) - 0.25 * x.handle(i), b = (y.handle(i) - 0.25) * x.handle(i);
    const std::int64_t kind = below(3);
    const Value at_border = kind == 0 ? a == b : kind == 1 ? a >= b : y.handle(i) <= 0.25;
    builder_.when(at_border, [&] { sink(2 * x.handle(i)); }).otherwise([&] { sink(x.handle(i) * x.handle(i)); });
  });
}

// Ties: the first of equal values gets the gradient.
void Writer::tied_extrema() {
  const Extent n{.size = some_size()}, rows{.pad = 2};
  const ArrayInfo x = declare(ir::ArrayRole::Input, "x", {rows, n});
  coarse_.insert(x.name);
  arrays_.push_back(x);
  const ArrayInfo largest = filled_local("largest", {rows}), smallest = filled_local("smallest", {n});
  if (chance(50)) each(rows, [&](const Value& r) { largest.handle(r) = 0.25; });
  each(rows, [&](const Value& r) {
    each(n, [&](const Value& i) {
      largest.handle(r).max_with(x.handle(r, i));
      smallest.handle(i).min_with(0.5 * x.handle(r, i));
    });
  });
  each(rows, [&](const Value& r) { sink(largest.handle(r) * bounded(0)); });
  each(n, [&](const Value& i) { sink(smallest.handle(i) + max(x.handle(0, i), x.handle(1, i))); });
}

}  // namespace loopgrad::fuzz
