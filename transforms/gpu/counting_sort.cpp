#include "transforms/gpu/counting_sort.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"
#include "transforms/gpu/loop_builder.h"

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t most_keys = std::int64_t{1} << 40;  // more than any memory has

/// Of numbers below `end`.
Expr digits_of(const Expr& end, std::int64_t radix) {
  Expr result = number(1);
  for (std::int64_t power = radix; power < most_keys; power *= radix)
    result = result + ir::cast(ScalarType::I64, ir::binary(BinaryOp::Lt, number(power), end));
  return result;
}

std::int64_t most_digits(std::int64_t radix) {
  std::int64_t result = 1;
  for (std::int64_t power = radix; power < most_keys; power *= radix) ++result;
  return result;
}

class CountingSort : LoopBuilder {
 public:
  CountingSort(const Array& key, const Array& sorted, const Array& item, const Expr& count, const Expr& key_end,
               const SortShares& shares, const SourceLocation& where)
      : LoopBuilder(where), key_(key), sorted_(sorted), item_(item), count_(count), key_end_(key_end), shares_(shares) {
    const Expr group = number(shares.group), supers = ceil_div(groups_, group);
    counts_ = local("count", {group, groups_});
    places_ = local("place", counts_->shape);
    group_sums_ = local("group_sum", {group, supers});
    group_places_ = local("group_place", group_sums_->shape);
    super_sums_ = local("super_sum", {supers});
    super_places_ = local("super_place", super_sums_->shape);
    rest_ = local("rest", {number(2), number(shares.tile), tiles_});
    from_ = local("from", rest_->shape);
  }

  Stmt code() const {
    const Stmt begin = parallel("at", count_, [&](const Expr& at) {
      return ir::block({set(rest_, key_at(number(0), at), get(key_, {at})), set(from_, key_at(number(0), at), at)});
    });
    const ir::Symbol digit = ir::make_symbol("digit");
    const Stmt passes = ir::for_loop(digit, number(0), digits_, pass(ir::var(digit)), LoopMode::Forward, where_,
                                     number(most_digits(shares_.radix)));
    const Stmt end = parallel("at", count_, [&](const Expr& at) {
      const Expr from = get(from_, key_at(mod(digits_, number(2)), at));
      return ir::block({set(item_, {at}, from), set(sorted_, {at}, get(key_, {from}))});
    });
    // Of group sums only what fills up the last column keeps its zeros.
    Stmt all = ir::block({begin, zeros(group_sums_), passes, end});
    for (const Array& array : {counts_, places_, group_sums_, group_places_, super_sums_, super_places_, rest_, from_})
      all = ir::allocate(array, all, where_);
    const Expr group = number(shares_.group);
    all = let(groups_name_, ceil_div(number(shares_.radix) * tiles_, group), all);
    all = let(tiles_name_, ceil_div(count_, number(shares_.tile)), all);
    return ir::with_fresh_names(let(digits_name_, digits_of(key_end_, shares_.radix), all));
  }

 private:
  Stmt add(const Array& array, std::vector<Expr> at, const Expr& value) const {
    return ir::reduce(array, std::move(at), ir::ReduceOp::Add, value, where_);
  }
  // Tiles and groups are columns of arrays, so that threads that go through neighbouring ones read neighbours.
  std::vector<Expr> key_at(const Expr& side, const Expr& p) const {
    return {side, mod(p, number(shares_.tile)), div(p, number(shares_.tile))};
  }
  std::vector<Expr> count_at(const Expr& p) const {
    return {mod(p, number(shares_.group)), div(p, number(shares_.group))};
  }

  /// Tiles side by side, the keys of each in their order: body(tile, k).
  template <class Body>
  Stmt tiles(Body body) const {
    return parallel("tile", tiles_, [&](const Expr& tile) {
      const Expr size = ir::smaller(number(shares_.tile), count_ - tile * number(shares_.tile));
      return forward("k", size, [&](const Expr& k) { return body(tile, k); });
    });
  }

  /// By the last digit of what is left of the keys, which it takes away.
  Stmt pass(const Expr& digit) const {
    const Expr source = mod(digit, number(2)), target = number(1) - source, radix = number(shares_.radix);
    // All counts of a digit, tile by tile, come before those of the next.
    const auto place = [&](const Expr& tile, const Expr& k) {
      return count_at(mod(get(rest_, {source, k, tile}), radix) * tiles_ + tile);
    };
    const Stmt counted =
        tiles([&](const Expr& tile, const Expr& k) { return add(counts_, place(tile, k), number(1)); });
    const Stmt moved = tiles([&](const Expr& tile, const Expr& k) {
      const Array to = local("to", {});
      const Expr next = ir::load(to, {});
      return ir::allocate(
          to, ir::block({set(to, {}, get(places_, place(tile, k))), set(places_, place(tile, k), next + number(1)),
                         set(from_, key_at(target, next), get(from_, {source, k, tile})),
                         set(rest_, key_at(target, next), div(get(rest_, {source, k, tile}), radix))}));
    });
    return ir::block({zeros(counts_), counted, scanned(), moved});
  }

  Stmt zeros(const Array& array) const {
    return parallel("k", array->shape[0], [&](const Expr& k) {
      return parallel("g", array->shape[1], [&](const Expr& g) { return set(array, {k, g}, number(0)); });
    });
  }

  /// places[p] = counts[0] + .. + counts[p - 1], in the order of the columns.
  Stmt scanned() const {
    const auto alone = [](const Expr& g) { return std::vector<Expr>{g}; };
    const auto in_column = [&](const Expr& g) { return count_at(g); };
    const Array run = local("run", {});
    const Stmt top = forward("g", super_sums_->shape[0], [&](const Expr& g) {
      return ir::block({set(super_places_, {g}, ir::load(run, {})), add(run, {}, get(super_sums_, {g}))});
    });
    return ir::block({sums(counts_, group_sums_, in_column), sums(group_sums_, super_sums_, alone),
                      ir::allocate(run, ir::block({set(run, {}, number(0)), top})),
                      places(group_sums_, super_places_, alone, group_places_),
                      places(counts_, group_places_, in_column, places_)});
  }
  template <class Place>
  Stmt sums(const Array& values, const Array& of_columns, Place place) const {
    return parallel("g", values->shape[1], [&](const Expr& g) {
      const Array sum = local("sum", {});
      const Stmt all = forward("k", values->shape[0], [&](const Expr& k) { return add(sum, {}, get(values, {k, g})); });
      return ir::allocate(sum, ir::block({set(sum, {}, number(0)), all, set(of_columns, place(g), ir::load(sum, {}))}));
    });
  }
  template <class Place>
  Stmt places(const Array& values, const Array& of_columns, Place place, const Array& result) const {
    return parallel("g", values->shape[1], [&](const Expr& g) {
      const Array run = local("run", {});
      const Stmt all = forward("k", values->shape[0], [&](const Expr& k) {
        return ir::block({set(result, {k, g}, ir::load(run, {})), add(run, {}, get(values, {k, g}))});
      });
      return ir::allocate(run, ir::block({set(run, {}, get(of_columns, place(g))), all}));
    });
  }

  const Array key_, sorted_, item_;
  const Expr count_, key_end_;
  const SortShares shares_;
  const ir::Symbol digits_name_ = ir::make_symbol("digits"), tiles_name_ = ir::make_symbol("tiles"),
                   groups_name_ = ir::make_symbol("groups");
  const Expr digits_ = ir::var(digits_name_), tiles_ = ir::var(tiles_name_), groups_ = ir::var(groups_name_);
  Array counts_, places_;            // of each digit in each tile
  Array group_sums_, group_places_;  // of groups of these
  Array super_sums_, super_places_;  // of groups of groups
  Array rest_, from_;                // before and after a pass in turn: digits left, and the place in the beginning
};

}  // namespace

Stmt counting_sort(const Array& key, const Array& sorted, const Array& item, const Expr& count, const Expr& key_end,
                   const SortShares& shares, const SourceLocation& where) {
  return CountingSort(key, sorted, item, count, key_end, shares, where).code();
}

}  // namespace loopgrad::transforms
