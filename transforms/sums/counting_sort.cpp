#include "transforms/sums/counting_sort.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t most_key_bits = 30;
constexpr std::int64_t items = std::int64_t{1} << 32;  // that a word has room for
constexpr std::int64_t scale = std::int64_t{1} << 20;  // every radix divides it
constexpr std::int64_t memory_banks = 32;              // of a multiprocessor

/// The same for what is never negative: it divides without looking at a sign.
Expr natural(const Expr& e) { return ir::binary(BinaryOp::Max, e, ir::int_const(0, e.type())); }

// Digits and positions in a tile have 32 bits.
Expr small(const Expr& e) { return ir::cast(ScalarType::I32, e); }
Expr small(std::int64_t value) { return ir::int_const(value, ScalarType::I32); }
Expr wide(const Expr& e) { return ir::cast(ScalarType::I64, e); }

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// base^exponent
Expr power(const Expr& base, const Expr& exponent, std::int64_t most) {
  Expr result = number(1);
  for (std::int64_t k = 0; k < most; ++k) result = result * ir::select(less(number(k), exponent), base, number(1));
  return result;
}

class CountingSort : LoopBuilder {
 public:
  CountingSort(const Array& words, const Expr& count, const Expr& key_end, const Array& left, const SortShares& shares,
               const SourceLocation& where)
      : LoopBuilder(where),
        words_(words),
        left_(left),
        count_(count),
        key_end_(key_end),
        shares_(shares),
        tile_size_(shares.threads * shares.keys),
        groups_(shares.threads / shares.group) {
    order_ = local("order", {count}, ScalarType::I32);
    start_ = local("start", {radix_ + number(1), tiles_}, ScalarType::I32);
    shift_ = local("shift", {radix_, tiles_}, ScalarType::I32);
  }

  Stmt code(const std::function<Stmt(const Expr& side)>& then) const {
    const ir::Symbol pass = ir::make_symbol("pass"), bits_name = ir::make_symbol("bits");
    const Expr bits = ir::var(bits_name), side = mod(ir::var(pass), number(2));
    const std::int64_t most_passes = ceil_of(most_key_bits, shares_.most_bits);
    const Expr is_first = ir::binary(BinaryOp::Eq, ir::var(pass), number(0));
    const Stmt digits =
        ir::for_loop(pass, number(0), passes_, ir::block({tiles(side, is_first), shifts(side), moved(side)}),
                     LoopMode::Forward, where_, number(most_passes));
    const Expr digit_bits = ceil_div(bits, ir::larger(passes_, number(1)));
    Stmt all = digits;
    for (const Array& array : {order_, start_, shift_}) all = ir::allocate(array, all, where_);
    all = let(high_name_, power(radix_, passes_ - number(1), most_passes), all);
    all = let(radix_name_, power(number(2), digit_bits, shares_.most_bits), all);
    std::int64_t round_bits = 1;
    while (std::int64_t{1} << round_bits < shares_.values) ++round_bits;
    all = let(range_name_,
              power(number(shares_.values), ir::var(rounds_name_), ceil_of(shares_.most_bits + 1, round_bits)), all);
    // Words that are dropped have a digit of their own, behind all others.
    all = let(rounds_name_, ceil_div(left_ ? digit_bits + number(1) : digit_bits, number(round_bits)), all);
    all = let(tiles_name_, ceil_div(count_, number(tile_size_)), all);
    all = ir::block({all, then(mod(passes_, number(2)))});
    all = let(passes_name_, ceil_div(bits, number(shares_.most_bits)), all);
    return ir::with_fresh_names(let(bits_name, bits_of(key_end_ - number(1), most_key_bits), all));
  }

 private:
  Stmt add(const Array& array, const Expr& value) const {
    return ir::reduce(array, {}, ir::ReduceOp::Add, value, where_);
  }
  /// body(t) by all threads of a block.
  template <class Body>
  Stmt team(Body body) const {
    return parallel("t", number(shares_.threads), body);
  }

  /// How many words there are on a side: after the first pass, those that are left.
  Expr words_on(const Expr& side) const { return left_ ? wide(get(left_, {side})) : count_; }

  // Keys. A pass takes the last digit and puts it in front of the others: after all passes they are what they were.

  Expr without_digit(const Expr& key) const { return div(natural(key * div(number(scale), radix_)), number(scale)); }

  // Tiles.

  /// A thread's own are a column, so that threads side by side do not meet in a bank of the memory that they share.
  std::vector<Expr> in_tile(const Expr& q) const {
    const Expr keys = ir::int_const(shares_.keys, q.type());
    return {wide(mod(q, keys)), wide(div(q, keys))};
  }
  /// body(q, p) for positions q of a tile, p in all, of which neighbours belong to neighbouring threads.
  template <class Body>
  Stmt by_neighbours(const Expr& tile, Body body) const {
    return team([&](const Expr& t) {
      return forward("k", number(shares_.keys), [&](const Expr& k) {
        const Expr q = k * number(shares_.threads) + t, p = tile * number(tile_size_) + q;
        return body(q, p);
      });
    });
  }

  Stmt tiles(const Expr& side, const Expr& is_first) const {
    return parallel("tile", tiles_, [&](const Expr& tile) {
      const std::int64_t spare = std::max<std::int64_t>(memory_banks / shares_.keys, 1);
      const Array sorted = local("sorted", {number(shares_.keys), number(shares_.threads + spare)}, ScalarType::I32);
      // What does not exist comes last.
      const Stmt loaded = by_neighbours(tile, [&](const Expr& q, const Expr& p) {
        const Expr key = key_of(get(words_, {side, p})), last = range_ - number(1);
        Expr digit = key - without_digit(key) * radix_;
        if (left_) {
          const Expr is_dropped = ir::both(is_first, ir::binary(BinaryOp::Eq, key, key_end_ - number(1)));
          digit = ir::select(is_dropped, last, digit);
        }
        return ir::if_then(less(p, words_on(side)), set(sorted, in_tile(q), small(q * range_ + digit)),
                           set(sorted, in_tile(q), small(q * range_ + last)));
      });
      const Stmt stored = by_neighbours(tile, [&](const Expr& q, const Expr& p) {
        return ir::if_then(less(p, words_on(side)), set(order_, {p}, get(sorted, in_tile(q))));
      });
      Stmt all = ir::block({loaded, by_rounds(sorted), stored, starts(sorted, side, tile)});
      if (left_) all = ir::if_then(less(tile * number(tile_size_), words_on(side)), all);
      return ir::allocate(sorted, all, where_);
    });
  }

  /// Makes numbers digit*tile_size + position, in ascending order, of position*range + digit. Each round puts a number
  /// behind all whose last bits are less, and these bits to its front. Every thread counts for itself what it has of
  /// each value of the bits; the counts, by value and then by thread, are added up to places.
  Stmt by_rounds(const Array& sorted) const {
    const std::vector<Expr> columns = {number(shares_.threads), number(shares_.keys)};
    const Array own = local("own", columns, ScalarType::I32), rank = local("rank", columns, ScalarType::I32);
    // A row for each thread that adds up.
    const Array counts = local("counts", {number(shares_.threads), number(shares_.values + 1)}, ScalarType::I32);
    const Array sums = thread_sums(ScalarType::I32), totals = group_sums(ScalarType::I32);
    // By value, and then by thread: several threads' counts of a value are in a row.
    const Expr values = number(shares_.values);
    const auto count_of = [&](const Expr& value, const Expr& t) {
      return std::vector<Expr>{value * number(shares_.threads / shares_.values) + div(t, values), mod(t, values)};
    };
    const auto last_bits = [&](const Expr& w) { return mod(natural(w), small(shares_.values)); };
    const Stmt counted = team([&](const Expr& t) {
      const Stmt none = forward("v", values, [&](const Expr& v) { return set(counts, count_of(v, t), small(0)); });
      const Stmt all = forward("k", number(shares_.keys), [&](const Expr& k) {
        const std::vector<Expr> count = count_of(wide(last_bits(get(own, {t, k}))), t);
        return ir::block({set(own, {t, k}, get(sorted, {k, t})), set(rank, {t, k}, get(counts, count)),
                          set(counts, count, get(rank, {t, k}) + small(1))});
      });
      return ir::block({none, all});
    });
    const Stmt added = team([&](const Expr& t) {
      return summed(ScalarType::I32, sums, t, [&](const Array& sum) {
        return forward("v", values, [&](const Expr& v) { return add(sum, get(counts, {t, v})); });
      });
    });
    const Stmt placed = team([&](const Expr& t) {
      const Array next = local("next", {}, ScalarType::I32), count = local("count", {}, ScalarType::I32);
      const Stmt all = forward("v", values, [&](const Expr& v) {
        return ir::allocate(count,
                            ir::block({set(count, {}, get(counts, {t, v})), set(counts, {t, v}, ir::load(next, {})),
                                       add(next, ir::load(count, {}))}));
      });
      return ir::allocate(next, ir::block({before_thread(sums, totals, t, next, {}), all}));
    });
    const Stmt moved = team([&](const Expr& t) {
      return forward("k", number(shares_.keys), [&](const Expr& k) {
        const Array to = local("to", {}, ScalarType::I32);
        const Expr mine = get(own, {t, k}), bits = last_bits(mine), place = natural(ir::load(to, {}));
        const Expr front = bits * small(range_ * number(tile_size_ / shares_.values));
        return ir::allocate(
            to, ir::block({set(to, {}, get(counts, count_of(wide(bits), t)) + get(rank, {t, k})),
                           set(sorted, in_tile(place), div(natural(mine), small(shares_.values)) + front)}));
      });
    });
    Stmt all = forward("round", ir::var(rounds_name_), [&](const Expr&) {
      return ir::block({counted, added, scanned(sums, totals), placed, moved});
    });
    for (const Array& array : {own, rank, counts, sums, totals}) all = ir::allocate(array, all, where_);
    return all;
  }

  /// start[d, tile] = numbers of the tile below those of digit d.
  Stmt starts(const Array& sorted, const Expr& side, const Expr& tile) const {
    const Expr turns = ceil_div(radix_ + number(1), number(shares_.threads));
    const Expr size = ir::smaller(number(tile_size_), words_on(side) - tile * number(tile_size_));
    std::int64_t steps = 1;
    while ((std::int64_t{1} << steps) <= tile_size_) ++steps;
    return team([&](const Expr& t) {
      return forward("turn", turns, [&](const Expr& turn) {
        const Expr d = turn * number(shares_.threads) + t;
        const auto is_before = [&](const Expr& q) {
          return less(get(sorted, in_tile(natural(q))), small(d * number(tile_size_)));
        };
        return ir::if_then(ir::binary(BinaryOp::Le, d, radix_),
                           bisect(small(0), small(size), number(steps), is_before, [&](const Expr& first) {
                             return set(start_, {d, tile}, first);
                           }));
      });
    });
  }

  // Sums over the threads of a block: each group of threads first, then the groups. A group is a column.

  Array thread_sums(ScalarType type) const { return local("sums", {number(shares_.group), number(groups_ + 1)}, type); }
  Array group_sums(ScalarType type) const { return local("totals", {number(groups_)}, type); }
  std::vector<Expr> of_thread(const Expr& t) const {
    return {mod(t, number(shares_.group)), div(t, number(shares_.group))};
  }
  /// sums of thread t = what each(sum) adds up.
  template <class Each>
  Stmt summed(ScalarType type, const Array& sums, const Expr& t, Each each) const {
    const Array sum = local("sum", {}, type);
    return ir::allocate(
        sum, ir::block({set(sum, {}, ir::int_const(0, type)), each(sum), set(sums, of_thread(t), ir::load(sum, {}))}));
  }
  /// Makes sums those of the threads before in the group, and totals those of the groups.
  Stmt scanned(const Array& sums, const Array& totals) const {
    return team([&](const Expr& t) {
      const Array run = local("run", {}, sums->type), own = local("sum", {}, sums->type);
      const Stmt each = forward("k", number(shares_.group), [&](const Expr& k) {
        return ir::allocate(own, ir::block({set(own, {}, get(sums, {k, t})), set(sums, {k, t}, ir::load(run, {})),
                                            add(run, ir::load(own, {}))}));
      });
      const Stmt column =
          ir::block({set(run, {}, ir::int_const(0, sums->type)), each, set(totals, {t}, ir::load(run, {}))});
      return ir::if_then(less(t, number(groups_)), ir::allocate(run, column));
    });
  }
  /// before = the sum of the threads before t; all, where it is asked for, = that of all.
  Stmt before_thread(const Array& sums, const Array& totals, const Expr& t, const Array& before,
                     const Array& all) const {
    const Stmt groups = forward("g", number(groups_), [&](const Expr& g) {
      const Stmt if_before = ir::if_then(less(g, div(t, number(shares_.group))), add(before, get(totals, {g})));
      return all ? ir::block({if_before, add(all, get(totals, {g}))}) : if_before;
    });
    const Stmt own = set(before, {}, get(sums, of_thread(t)));
    return all ? ir::block({own, set(all, {}, ir::int_const(0, all->type)), groups}) : ir::block({own, groups});
  }

  // Places.

  /// Both what comes before a digit and what comes before it in its row are sums of starts.
  Stmt shifts(const Expr& side) const {
    const Expr share = ceil_div(tiles_, number(shares_.threads));
    return parallel("digit", radix_, [&](const Expr& d) {
      const Array sums = thread_sums(ScalarType::I64), totals = group_sums(ScalarType::I64);
      const auto own_tiles = [&](const Expr& t, const auto& body) {
        return loop(
            "tile", t * share, ir::smaller(t * share + share, tiles_), LoopMode::Forward, [&](const Expr& tile) {
              return left_ ? ir::if_then(less(tile * number(tile_size_), words_on(side)), body(tile)) : body(tile);
            });
      };
      const auto start = [&](const Expr& tile) { return wide(get(start_, {d, tile})); };
      const auto words = [&](const Expr& tile) { return wide(get(start_, {d + number(1), tile})) - start(tile); };
      const Stmt added = team([&](const Expr& t) {
        return summed(ScalarType::I64, sums, t, [&](const Array& sum) {
          return own_tiles(t, [&](const Expr& tile) { return add(sum, start(tile) * number(items) + words(tile)); });
        });
      });
      const Stmt set_all = team([&](const Expr& t) {
        const Array before = local("before", {}), all = local("all", {}), next = local("next", {});
        const Stmt begin =
            set(next, {},
                div(natural(ir::load(all, {})), number(items)) + mod(natural(ir::load(before, {})), number(items)));
        const Stmt each = own_tiles(t, [&](const Expr& tile) {
          return ir::block({set(shift_, {d, tile}, small(ir::load(next, {}) - start(tile))), add(next, words(tile))});
        });
        Stmt result = ir::block({before_thread(sums, totals, t, before, all), begin, each});
        if (left_) result = ir::block({result, note_left(side, d, t, ir::load(all, {}))});
        for (const Array& array : {before, all, next}) result = ir::allocate(array, result);
        return result;
      });
      Stmt all = ir::block({added, scanned(sums, totals), set_all});
      for (const Array& array : {sums, totals}) all = ir::allocate(array, all, where_);
      return all;
    });
  }

  /// `all`: of the digit, the words of smaller ones and its own.
  Stmt note_left(const Expr& side, const Expr& d, const Expr& t, const Expr& all) const {
    const Expr is_last = ir::binary(BinaryOp::Eq, d, radix_ - number(1)),
               is_one = ir::binary(BinaryOp::Eq, t, number(0));
    const Expr words = div(natural(all), number(items)) + mod(natural(all), number(items));
    return ir::if_then(ir::both(is_last, is_one), set(left_, {number(1) - side}, small(words)));
  }

  Stmt moved(const Expr& side) const {
    return parallel("p", count_, [&](const Expr& p) {
      const Array from = local("from", {}, ScalarType::I32), word = local("word", {});
      const Expr tile = div(p, number(tile_size_)), mine = natural(ir::load(from, {})), old = ir::load(word, {});
      const Expr digit = wide(div(mine, small(tile_size_))), place = wide(mod(mine, small(tile_size_)));
      const Stmt move =
          ir::block({set(word, {}, get(words_, {side, tile * number(tile_size_) + place})),
                     set(words_, {number(1) - side, wide(get(shift_, {digit, tile})) + mod(p, number(tile_size_))},
                         sort_word(without_digit(key_of(old)) + digit * high_, item_of(old)))});
      Stmt all = ir::block({set(from, {}, get(order_, {p})), left_ ? ir::if_then(less(digit, radix_), move) : move});
      for (const Array& array : {from, word}) all = ir::allocate(array, all);
      return left_ ? ir::if_then(less(p, words_on(side)), all) : all;
    });
  }

  const Array words_, left_;
  const Expr count_, key_end_;
  const SortShares shares_;
  const std::int64_t tile_size_, groups_;
  const ir::Symbol passes_name_ = ir::make_symbol("passes"), tiles_name_ = ir::make_symbol("tiles"),
                   radix_name_ = ir::make_symbol("radix"), range_name_ = ir::make_symbol("range"),
                   rounds_name_ = ir::make_symbol("rounds"), high_name_ = ir::make_symbol("high");
  const Expr passes_ = ir::var(passes_name_), tiles_ = ir::var(tiles_name_);
  const Expr radix_ = ir::var(radix_name_);  // a power of two
  const Expr range_ = ir::var(range_name_);  // the power of shares_.values that is not less
  const Expr high_ = ir::var(high_name_);    // what the first digit counts
  Array order_;                              // of each position of the sorted tile: digit*tile_size + where it was
  Array start_, shift_;                      // of each digit in each tile
};

}  // namespace

Expr bits_of(const Expr& most, std::int64_t most_bits) {
  Expr result = number(0);
  for (std::int64_t bit = 0; bit < most_bits; ++bit)
    result = result + wide(ir::binary(BinaryOp::Le, number(std::int64_t{1} << bit), most));
  return result;
}

Expr sort_word(const Expr& key, const Expr& item) { return key * number(items) + item; }
Expr key_of(const Expr& word) { return div(natural(word), number(items)); }
Expr item_of(const Expr& word) { return mod(natural(word), number(items)); }

Stmt counting_sort(const Array& words, const Expr& count, const Expr& key_end, const Array& left,
                   const SortShares& shares, const SourceLocation& where,
                   const std::function<Stmt(const Expr& side)>& then) {
  return CountingSort(words, count, key_end, left, shares, where).code(then);
}

}  // namespace loopgrad::transforms
