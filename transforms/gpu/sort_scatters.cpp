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
#include <memory>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

Expr less(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Lt, a, b); }

constexpr std::int64_t most_bisections = 48;  // of more elements than any memory has

/// With loads of one index.
class Builder : protected LoopBuilder {
 protected:
  using LoopBuilder::LoopBuilder;
  Expr at(const Array& array, const Expr& index) const { return get(array, {index}); }
};

/// The iterations of a scatter in the order of their targets.
class SortedIterations : Builder {
 public:
  SortedIterations(const Scatter& scatter, const SortShares& shares)
      : Builder(scatter.leaf->location),
        s_(scatter),
        targets(scatter.sum->array->shape[scatter.dimension]),
        count(scatter.iterations()),
        shares_(shares) {
    target_of_ = local("target_of", {count});
    key = local("key", {count});
    item_ = local("item", {count});
    first = local("first", {targets + number(1)});
    for (const ir::For* loop : s_.sequential) iterators.push_back(local(loop->iterator.name + "_of", {count}));
    for (const ScatterFactor& factor : s_.factors)
      rows_.push_back(factor.rows ? local("row", {factor.extent}) : Array{});
  }

  Stmt code() const {
    const Stmt sort = counting_sort(target_of_, key, item_, count, targets + number(1), shares_, where_);
    return ir::block({target_of_all(), sort, firsts(), iterators_in_order()});
  }
  std::vector<Array> arrays() const {
    std::vector<Array> result = {target_of_, key, item_, first};
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
  /// The first of lower..upper for which `is_before` is false, or upper, which `finish` gets.
  template <class Before, class Finish>
  Stmt bisect(const Expr& lower, const Expr& upper, Before is_before, Finish finish) const {
    const Array low = local("low", {}), high = local("high", {});
    const Expr l = ir::load(low, {}), h = ir::load(high, {}), middle = div(l + h, number(2));
    const Stmt halve = ir::if_then(
        less(l, h), ir::if_then(is_before(middle), set(low, {}, middle + number(1)), set(high, {}, middle)));
    const Stmt steps =
        loop("step", number(0), number(most_bisections), LoopMode::Forward, [&](const Expr&) { return halve; });
    const Stmt all = ir::block({set(low, {}, lower), set(high, {}, upper), steps, finish(l)});
    return ir::allocate(low, ir::allocate(high, all, where_), where_);
  }

  /// row[entry] = the row that has it; behind all rows for entries that none has.
  Stmt rows_of(const ScatterFactor& factor, const Array& row) const {
    const auto bound = [&](const Expr& e, const Expr& v) {
      return ir::cast(ScalarType::I64, ir::substitute(e, {{factor.rows->iterator, v}}));
    };
    return loop("entry", number(0), factor.extent, LoopMode::Parallel, [&](const Expr& e) {
      const auto ends_before = [&](const Expr& v) { return ir::binary(BinaryOp::Le, bound(factor.loop->upper, v), e); };
      return bisect(factor.rows->lower, factor.rows->upper, ends_before, [&](const Expr& v) {
        // What comes before the first row is found in it.
        const Expr has = less(v, factor.rows->upper);
        const Stmt none = set(row, {e}, factor.rows->upper);
        return ir::if_then(
            has, ir::if_then(ir::binary(BinaryOp::Le, bound(factor.loop->lower, v), e), set(row, {e}, v), none), none);
      });
    });
  }

  /// target[number of the iteration]; numbers of entries that no row has get one behind all.
  Stmt target_of_all() const {
    Expr place = number(0), exists;
    std::vector<Stmt> all;
    ir::Substitution row_of;
    for (std::size_t k = 0; k < s_.factors.size(); ++k) {
      const ScatterFactor& factor = s_.factors[k];
      const Expr i = ir::var(factor.loop->iterator);
      place = place * factor.extent + (factor.rows ? i : i - factor.loop->lower);
      if (!factor.rows) continue;
      all.push_back(rows_of(factor, rows_[k]));
      row_of[factor.rows->iterator] = at(rows_[k], i);
      const Expr here = less(at(rows_[k], i), factor.rows->upper);
      exists = exists ? ir::binary(BinaryOp::And, exists, here) : here;
    }
    place = simplify_indices(place);
    Stmt body = set(target_of_, {place}, ir::substitute(ir::cast(ScalarType::I64, s_.key()), row_of));
    if (exists) body = ir::if_then(exists, body, set(target_of_, {place}, targets));
    for (auto factor = s_.factors.rbegin(); factor != s_.factors.rend(); ++factor) {
      const ir::For& l = *factor->loop;
      body = ir::for_loop(l.iterator, factor->rows ? number(0) : l.lower, factor->rows ? factor->extent : l.upper, body,
                          LoopMode::Parallel, l.location);
    }
    all.push_back(body);
    return ir::block(std::move(all));
  }

  /// first[t]: the first position whose key is not below t.
  Stmt firsts() const {
    return loop("target", number(0), targets + number(1), LoopMode::Parallel, [&](const Expr& t) {
      return bisect(
          number(0), count, [&](const Expr& p) { return less(at(key, p), t); },
          [&](const Expr& p) { return set(first, {t}, p); });
    });
  }

  /// The iterators of each item, in the sorted order.
  Stmt iterators_in_order() const {
    return loop("at", number(0), count, LoopMode::Parallel, [&](const Expr& p) {
      std::vector<Stmt> body;
      Expr rest = at(item_, p);
      for (std::size_t k = s_.factors.size(), n = s_.sequential.size(); k-- > 0;) {
        const ScatterFactor& factor = s_.factors[k];
        const Expr own = k > 0 ? ir::binary(BinaryOp::Mod, rest, factor.extent) : rest;
        const Expr i = factor.rows ? own : own + factor.loop->lower;
        body.push_back(set(iterators[--n], {p}, i));
        if (factor.rows) body.push_back(set(iterators[--n], {p}, at(rows_[k], own)));
        rest = div(rest, factor.extent);
      }
      return ir::if_then(less(at(key, p), targets), ir::block(std::move(body)));
    });
  }

  const Scatter s_;

 public:
  const Expr targets, count;
  Array key, first;              // sorted targets; the position of each target's first iteration
  std::vector<Array> iterators;  // values of the sequential loops' iterators, sorted

 private:
  const SortShares shares_;
  Array target_of_, item_;   // of each iteration; sorted numbers of iterations
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
    return less(number(piece_), at(sorted_.first, target + number(1)) - at(sorted_.first, target));
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
      const Stmt first_part = part_of(0, head, begin, ir::smaller(end, at(sorted_.first, head + number(1))));
      const Stmt last_part = ir::if_then(less(head, tail), part_of(1, tail, at(sorted_.first, tail), end));
      return around_all(ir::block({first_part, last_part}));
    });
  }

  Stmt sums() const {
    return loop("target", number(0), sorted_.targets, LoopMode::Parallel, [&](const Expr& t) {
      const Expr begin = at(sorted_.first, t), end = at(sorted_.first, t + number(1)),
                 piece = div(begin, number(piece_));
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
  Sorter(const ir::Program& program, std::int64_t enough_threads) : program_(program) {
    const auto at_most = [&](std::int64_t share, std::int64_t most) {
      return std::clamp(share, std::int64_t{2}, most);
    };
    piece_ = at_most(enough_threads / 512, 128);
    shares_ = {at_most(enough_threads / 2048, 32), at_most(enough_threads / 512, 128),
               at_most(enough_threads / 1024, 64)};
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
    return scatter && is_constant(*scatter) ? with_shared(*scatter) : inside(s);
  }

  Stmt with_shared(const Scatter& scatter) {
    for (const auto& sorted : shared_)
      if (sorted->serves(scatter)) return ir::with_fresh_names(SegmentSums(scatter, *sorted, piece_).code());
    shared_.push_back(std::make_unique<SortedIterations>(scatter, shares_));
    return ir::with_fresh_names(
        ir::block({shared_.back()->code(), SegmentSums(scatter, *shared_.back(), piece_).code()}));
  }

  Stmt inside(const Stmt& all) {
    return ir::rewrite(all, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Contraction) return s;
      if (s.kind() != ir::Kind::For) return std::nullopt;
      if (const auto scatter = sortable(s)) {
        const SortedIterations sorted(*scatter, shares_);
        const Stmt body = ir::block({sorted.code(), SegmentSums(*scatter, sorted, piece_).code()});
        return ir::with_fresh_names(with_arrays(sorted, body));
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

ir::Program sort_scatters(const ir::Program& program, std::int64_t enough_threads) {
  return ir::with_body(program, Sorter(program, enough_threads).whole());
}

}  // namespace loopgrad::transforms
