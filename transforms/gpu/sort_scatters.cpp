#include "transforms/gpu/sort_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/gpu/counting_sort.h"
#include "transforms/gpu/loop_builder.h"
#include "transforms/gpu/own_scatters.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"
#include "transforms/scatters.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

Expr less(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Lt, a, b); }

/// With loads of one index, of numbers that are kept with 32 bits or 64.
class Builder : protected LoopBuilder {
 protected:
  using LoopBuilder::LoopBuilder;
  Expr at(const Array& array, const Expr& index) const { return ir::cast(ScalarType::I64, get(array, {index})); }
  Stmt put(const Array& array, const Expr& index, const Expr& value) const {
    return set(array, {index}, ir::cast(array->type, value));
  }
};

/// The iterations of a scatter in the order of their targets.
class SortedIterations : Builder {
 public:
  /// `in_order`: the targets are known to ascend.
  SortedIterations(const Scatter& scatter, bool in_order, const SortShares& shares)
      : Builder(scatter.leaf->location),
        s_(scatter),
        is_in_order_(in_order),
        targets(scatter.sum->array->shape[scatter.dimension]),
        count(scatter.iterations()),
        shares_(shares) {
    words_ = local("words", {number(2), count});
    key = local("key", {count}, ScalarType::I32);
    begin = local("begin", {targets}, ScalarType::I32);
    end = local("end", {targets}, ScalarType::I32);
    for (const ScatterFactor& factor : s_.factors) {
      rows_.push_back(factor.rows ? local("row", {factor.extent}, ScalarType::I32) : Array{});
      if (factor.rows) iterators.push_back(iterator_array(*factor.rows, ScalarType::I32));
      const bool from_zero = factor.rows || ir::as_int(factor.loop->lower) == 0;
      iterators.push_back(iterator_array(*factor.loop, from_zero ? ScalarType::I32 : ScalarType::I64));
    }
  }

  Stmt code() const {
    if (is_in_order_) return ir::block({words(), in_order(number(0))});
    // Entries that no row has get a key behind all targets.
    const bool some_miss =
        std::any_of(s_.factors.begin(), s_.factors.end(), [](const ScatterFactor& f) { return f.rows != nullptr; });
    const Expr key_end = some_miss ? targets + number(1) : targets;
    return ir::block({words(), counting_sort(words_, count, key_end, shares_, where_,
                                             [&](const Expr& side) { return in_order(side); })});
  }
  /// Whether numbers of iterations and targets have 31 bits.
  Expr fits() const {
    Expr result = ir::binary(BinaryOp::And, less(count, number(most_sorted)), less(targets, number(most_key_end)));
    for (const ScatterFactor& factor : s_.factors)
      if (factor.rows)
        result =
            ir::binary(BinaryOp::And, result, less(ir::cast(ScalarType::I64, factor.rows->upper), number(most_sorted)));
    return result;
  }
  std::vector<Array> arrays() const {
    std::vector<Array> result = {words_, key, begin, end};
    result.insert(result.end(), iterators.begin(), iterators.end());
    std::copy_if(rows_.begin(), rows_.end(), std::back_inserter(result),
                 [](const Array& row) { return row != nullptr; });
    return result;
  }
  /// Whether another scatter has the same iterations and targets; the order of its loops does not matter.
  bool serves(const Scatter& other) const {
    if (other.sequential.size() != s_.sequential.size()) return false;
    ir::Substitution names;
    for (std::size_t k = 0; k < s_.sequential.size(); ++k) {
      const ir::For &mine = *s_.sequential[k], &its = *other.sequential[k];
      if (!ir::equal(mine.lower, ir::substitute(its.lower, names)) ||
          !ir::equal(mine.upper, ir::substitute(its.upper, names)))
        return false;
      names[its.iterator] = ir::var(mine.iterator);
    }
    return ir::equal(targets, other.sum->array->shape[other.dimension]) &&
           ir::equal(s_.key(), ir::substitute(other.key(), names));
  }

 private:
  Array iterator_array(const ir::For& loop, ScalarType type) const {
    return local(loop.iterator.name + "_of", {count}, type);
  }

  /// row[entry] = the row that has it, or that behind all rows for entries that none has; then `and_then`.
  Stmt rows_of(const ScatterFactor& factor, const Array& row, const Stmt& and_then) const {
    const auto bound = [&](const Expr& e, const Expr& v) {
      const Expr at = ir::substitute(e, {{factor.rows->iterator, ir::cast(ScalarType::I64, v)}});
      return ir::cast(ScalarType::I64, at);
    };
    const auto small = [](const Expr& e) { return ir::cast(ScalarType::I32, e); };
    const ir::Symbol steps = ir::make_symbol("steps");
    const Expr e = ir::var(factor.loop->iterator), behind = factor.rows->upper;
    const auto ends_before = [&](const Expr& v) { return ir::binary(BinaryOp::Le, bound(factor.loop->upper, v), e); };
    const Stmt found =
        bisect(small(factor.rows->lower), small(behind), ir::var(steps), ends_before, [&](const Expr& v) {
          // What comes before the first row is found in it.
          const Expr begun = ir::binary(BinaryOp::Le, bound(factor.loop->lower, v), e);
          const Stmt none = put(row, e, behind);
          return ir::if_then(less(ir::cast(ScalarType::I64, v), behind), ir::if_then(begun, put(row, e, v), none),
                             none);
        });
    const Stmt all = ir::for_loop(factor.loop->iterator, number(0), factor.extent, ir::block({found, and_then}),
                                  LoopMode::Parallel, where_);
    return let(steps, bits_of(behind - factor.rows->lower, most_bisections), all);
  }

  /// words[0, number of the iteration]; numbers of entries that no row has get a target behind all.
  Stmt words() const {
    Expr place = number(0), exists;
    ir::Substitution row_of;
    for (std::size_t k = 0; k < s_.factors.size(); ++k) {
      const ScatterFactor& factor = s_.factors[k];
      const Expr i = ir::var(factor.loop->iterator);
      place = place * factor.extent + (factor.rows ? i : i - factor.loop->lower);
      if (!factor.rows) continue;
      row_of[factor.rows->iterator] = at(rows_[k], i);
      const Expr here = less(at(rows_[k], i), factor.rows->upper);
      exists = exists ? ir::binary(BinaryOp::And, exists, here) : here;
    }
    place = simplify_indices(place);
    const auto word = [&](const Expr& key) { return set(words_, {number(0), place}, sort_word(key, place)); };
    Stmt body = word(ir::substitute(ir::cast(ScalarType::I64, s_.key()), row_of));
    if (exists) body = ir::if_then(exists, body, word(targets));
    // The only loop of a nest has both the row and the word.
    if (s_.factors.size() == 1 && s_.factors[0].rows)
      return ir::with_fresh_names(rows_of(s_.factors[0], rows_[0], body));
    std::vector<Stmt> all;
    for (std::size_t k = 0; k < s_.factors.size(); ++k)
      if (s_.factors[k].rows) all.push_back(ir::with_fresh_names(rows_of(s_.factors[k], rows_[k], ir::block({}))));
    for (auto factor = s_.factors.rbegin(); factor != s_.factors.rend(); ++factor) {
      const ir::For& l = *factor->loop;
      body = ir::for_loop(l.iterator, factor->rows ? number(0) : l.lower, factor->rows ? factor->extent : l.upper, body,
                          LoopMode::Parallel, l.location);
    }
    all.push_back(body);
    return ir::block(std::move(all));
  }

  /// What is known of each position; where each target's positions begin and end.
  Stmt in_order(const Expr& side) const {
    const Stmt none = parallel("target", targets, [&](const Expr& t) {
      return ir::block({put(begin, t, number(0)), put(end, t, number(0))});
    });
    const Stmt all = parallel("at", count, [&](const Expr& p) {
      const Array own = local("own", {}), word = local("word", {});
      const Expr target = ir::load(own, {});
      const auto key_at = [&](const Expr& position) { return key_of(get(words_, {side, position})); };
      // Before the first and behind the last position there is nothing to load.
      const auto where_differs = [&](const Expr& at_end, const Expr& neighbour, const Stmt& then) {
        return ir::if_then(at_end, then, ir::if_then(ir::binary(BinaryOp::Ne, key_at(neighbour), target), then));
      };
      const Stmt begins = where_differs(ir::binary(BinaryOp::Eq, p, number(0)), p - number(1), put(begin, target, p));
      const Stmt ends =
          where_differs(ir::binary(BinaryOp::Eq, p + number(1), count), p + number(1), put(end, target, p + number(1)));
      const Stmt exists =
          ir::if_then(less(target, targets), ir::block({begins, ends, iterators_of(item_of(ir::load(word, {})), p)}));
      const Stmt body = ir::block({set(word, {}, get(words_, {side, p})), set(own, {}, key_of(ir::load(word, {}))),
                                   put(key, p, target), exists});
      return ir::allocate(own, ir::allocate(word, body));
    });
    return ir::block({none, all});
  }

  /// The iterators of the iteration with this number, at position p.
  Stmt iterators_of(const Expr& item, const Expr& p) const {
    std::vector<Stmt> body;
    Expr rest = item;
    for (std::size_t k = s_.factors.size(), n = iterators.size(); k-- > 0;) {
      const ScatterFactor& factor = s_.factors[k];
      const Expr own = k > 0 ? ir::binary(BinaryOp::Mod, rest, factor.extent) : rest;
      const Expr i = factor.rows ? own : own + factor.loop->lower;
      body.push_back(put(iterators[--n], p, i));
      if (factor.rows) body.push_back(put(iterators[--n], p, at(rows_[k], own)));
      if (k > 0) rest = div(rest, factor.extent);
    }
    return ir::block(std::move(body));
  }

  static constexpr std::int64_t most_bisections = 31;
  const Scatter s_;
  const bool is_in_order_;

 public:
  const Expr targets, count;
  Array key, begin, end;         // sorted targets; where the positions of each target begin and end
  std::vector<Array> iterators;  // values of the sequential loops' iterators, sorted

 private:
  const SortShares shares_;
  Array words_;              // of each iteration, its target and its number
  std::vector<Array> rows_;  // of each entry of a CSR structure, by factor; null for other factors
};

/// The sums over sorted iterations.
class SegmentSums : Builder {
 public:
  SegmentSums(const Scatter& scatter, const SortedIterations& sorted, std::int64_t piece)
      : Builder(scatter.leaf->location), s_(scatter), sorted_(sorted), piece_(piece) {
    pieces_ = ceil_div(sorted.count, number(piece));
    std::vector<Expr> shape = s_.sum->array->shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(s_.dimension));
    shape.insert(shape.begin(), {number(2), pieces_});
    parts_ = ir::make_array(s_.sum->array->name + "_part", value_type(s_.sum->array->type), shape, ir::ArrayRole::Local,
                            where_);
  }

  Stmt code() const { return ir::allocate(parts_, ir::block({parts(), sums()}), where_); }

 private:
  /// total = none; total op= each of the positions.
  Stmt over(const Array& total, const Expr& lower, const Expr& upper, const Expr& target) const {
    const Stmt each = loop("slot", lower, upper, LoopMode::Forward, [&](const Expr& slot) {
      std::vector<Expr> iteration;
      for (const Array& iterator : sorted_.iterators) iteration.push_back(at(iterator, slot));
      return add(total, {}, s_.sum_into(target, iteration).as<ir::Reduce>()->value);
    });
    return ir::block({set(total, {}, ir::identity_of(s_.sum->op, total->type)), each});
  }
  Stmt add(const Array& array, std::vector<Expr> indices, const Expr& value) const {
    return ir::reduce(array, std::move(indices), s_.sum->op, value, where_);
  }
  Array total() const { return ir::make_array("total", parts_->type, {}, ir::ArrayRole::Local, where_); }
  std::vector<Expr> part(int which, const Expr& piece) const {
    std::vector<Expr> indices = s_.sum->indices;
    indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(s_.dimension));
    indices.insert(indices.begin(), {number(which), piece});
    return indices;
  }
  Stmt around_all(const Stmt& body) const {
    Stmt row;
    if (s_.outer.size() == 1 && s_.inner.size() == 1) row = whole_loop(*s_.outer[0], *s_.inner[0], body);
    return row ? row : around(s_.outer, around(s_.inner, body));
  }
  Expr is_long(const Expr& target) const {
    return less(number(piece_), at(sorted_.end, target) - at(sorted_.begin, target));
  }

  /// The parts of long segments: in each piece of positions one that begins before it or with it, and one that begins
  /// within; what lies between these is short.
  Stmt parts() const {
    return loop("piece", number(0), pieces_, LoopMode::Parallel, [&](const Expr& c) {
      const Expr begin = c * number(piece_), end = ir::smaller(begin + number(piece_), sorted_.count);
      const Expr head = at(sorted_.key, begin), tail = at(sorted_.key, end - number(1));
      const auto part_of = [&](int which, const Expr& target, const Expr& lower, const Expr& upper) {
        const Array sum = total();
        const Stmt all = ir::block({over(sum, lower, upper, target), set(parts_, part(which, c), ir::load(sum, {}))});
        return ir::if_then(less(target, sorted_.targets), ir::if_then(is_long(target), ir::allocate(sum, all, where_)));
      };
      const Stmt first_part = part_of(0, head, begin, ir::smaller(end, at(sorted_.end, head)));
      const Stmt last_part = ir::if_then(less(head, tail), part_of(1, tail, at(sorted_.begin, tail), end));
      return around_all(ir::block({first_part, last_part}));
    });
  }

  Stmt sums() const {
    return loop("target", number(0), sorted_.targets, LoopMode::Parallel, [&](const Expr& t) {
      const Expr begin = at(sorted_.begin, t), end = at(sorted_.end, t), piece = div(begin, number(piece_));
      std::vector<Expr> indices = s_.sum->indices;
      indices[s_.dimension] = t;
      const Array sum = total();
      const auto of_part = [&](int which, const Expr& c) { return ir::load(parts_, part(which, c), where_); };
      const Stmt begun = ir::if_then(ir::binary(BinaryOp::Eq, begin, piece * number(piece_)),
                                     set(sum, {}, of_part(0, piece)), set(sum, {}, of_part(1, piece)));
      const Stmt others = loop("piece", piece + number(1), div(end - number(1), number(piece_)) + number(1),
                               LoopMode::Forward, [&](const Expr& c) { return add(sum, {}, of_part(0, c)); });
      const Stmt found = ir::if_then(is_long(t), ir::block({begun, others}), over(sum, begin, end, t));
      return around_all(ir::allocate(sum, ir::block({found, add(s_.sum->array, indices, ir::load(sum, {}))}), where_));
    });
  }

  const Scatter& s_;
  const SortedIterations& sorted_;
  const std::int64_t piece_;
  Expr pieces_;
  Array parts_;  // of long segments
};

/// Sorts once for all sums of the program's outermost statements that have iterations and targets in common.
class Sorter {
 public:
  Sorter(const ir::Program& program, std::int64_t enough_threads, int threads_per_block) : program_(program) {
    const auto at_most = [&](std::int64_t share, std::int64_t most) {
      return std::clamp(share, std::int64_t{2}, most);
    };
    piece_ = at_most(enough_threads / 512, 128);
    // The same tile and as many counts whatever the block.
    const auto power_of_two = [](std::int64_t share, std::int64_t least, std::int64_t most) {
      return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::clamp(share, least, most))));
    };
    shares_.threads = threads_per_block ? threads_per_block : power_of_two(enough_threads / 256, 4, 256);
    shares_.keys = power_of_two(std::min<std::int64_t>(enough_threads / 32, 2048) / shares_.threads, 2, 64);
    shares_.values = power_of_two(std::min<std::int64_t>(enough_threads / 16, 4096) / shares_.threads, 2, 32);
    shares_.group = power_of_two(enough_threads / 4096, 2, 16);
    shares_.most_bits = at_most(enough_threads / 1024, 10);
    ir::walk_stmts(program.body, [&](const Stmt& s) {
      for_each_store(s, [&](const Array& array, const auto&) { written_.insert(array); });
    });
  }

  Stmt whole() {
    Stmt body = outermost(program_.body);
    for (const auto& sorted : shared_) body = with_arrays(*sorted, body);
    return body;
  }

 private:
  Stmt outermost(const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>())
      return ir::allocate(local->array, outermost(local->body), local->location);
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : block->body) body.push_back(outermost(child));
      return ir::block(std::move(body));
    }
    const auto scatter = s.kind() == ir::Kind::For ? sortable(s) : std::nullopt;
    return scatter && is_constant(*scatter) ? with_shared(s, *scatter) : inside(s);
  }

  Stmt with_shared(const Stmt& nest, const Scatter& scatter) {
    for (const auto& sorted : shared_)
      if (sorted->serves(scatter)) return where_it_fits(nest, *sorted, SegmentSums(scatter, *sorted, piece_).code());
    shared_.push_back(std::make_unique<SortedIterations>(scatter, ascends(scatter), shares_));
    const SortedIterations& sorted = *shared_.back();
    return where_it_fits(nest, sorted, ir::block({sorted.code(), SegmentSums(scatter, sorted, piece_).code()}));
  }

  Stmt where_it_fits(const Stmt& nest, const SortedIterations& sorted, const Stmt& by_sort) const {
    return ir::with_fresh_names(
        ir::if_then(sorted.fits(), by_sort, owned_scatter(program_, nest).value_or(nest), nest->location));
  }

  Stmt inside(const Stmt& all) {
    return ir::rewrite(all, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Contraction) return s;
      if (s.kind() != ir::Kind::For) return std::nullopt;
      if (const auto scatter = sortable(s)) {
        const SortedIterations sorted(*scatter, ascends(*scatter), shares_);
        const Stmt body = ir::block({sorted.code(), SegmentSums(*scatter, sorted, piece_).code()});
        return ir::with_fresh_names(with_arrays(sorted, where_it_fits(s, sorted, body)));
      }
      if (const auto owned = owned_scatter(program_, s)) return owned;
      // Inside a parallel loop there are owners enough.
      return is_parallel_loop(s) ? std::optional(s) : std::nullopt;
    });
  }

  static Stmt with_arrays(const SortedIterations& sorted, Stmt body) {
    for (const Array& array : sorted.arrays()) body = ir::allocate(array, body, array->location);
    return body;
  }

  /// A scatter whose elements only depend on the target and the parallel loops.
  std::optional<Scatter> sortable(const Stmt& nest) const {
    auto scatter = scatter_in(program_, nest);
    if (!scatter) return std::nullopt;
    for (std::size_t d = 0; d < scatter->sum->indices.size(); ++d)
      for (const ir::For* loop : scatter->sequential)
        if (d != scatter->dimension && mentions(scatter->sum->indices[d], loop->iterator)) return std::nullopt;
    return scatter;
  }

  /// Whether the targets ascend, since the user says so of the array that they are.
  bool ascends(const Scatter& scatter) const {
    Expr key = scatter.key();
    while (const auto* cast = key.as<ir::Cast>()) key = cast->a;
    const auto* load = key.as<ir::Load>();
    if (!load || written_.count(load->array) || scatter.factors.size() != 1 || scatter.factors[0].rows) return false;
    const ir::For& loop = *scatter.factors[0].loop;
    const bool by_loop = load->indices.size() == 1 && ir::equal(load->indices[0], ir::var(loop.iterator));
    return by_loop && std::any_of(program_.facts.begin(), program_.facts.end(), [&](const ir::Fact& fact) {
             return fact.array == load->array && fact.kind == ir::FactKind::Sorted;
           });
  }

  /// The targets are the same wherever they are asked for.
  bool is_constant(const Scatter& scatter) const {
    bool constant = true;
    const auto look = [&](const Expr& e) {
      ir::walk(e, [&](const Expr& x) {
        const auto* load = x.as<ir::Load>();
        constant = constant && !(load && written_.count(load->array));
      });
    };
    look(scatter.key());
    for (const ir::For* loop : scatter.sequential) {
      look(loop->lower);
      look(loop->upper);
    }
    return constant;
  }

  const ir::Program& program_;
  std::int64_t piece_;
  SortShares shares_;
  std::set<Array> written_;
  std::vector<std::unique_ptr<SortedIterations>> shared_;
};

}  // namespace

ir::Program sort_scatters(const ir::Program& program, std::int64_t enough_threads, int threads_per_block) {
  return ir::with_body(program, Sorter(program, enough_threads, threads_per_block).whole());
}

}  // namespace loopgrad::transforms
