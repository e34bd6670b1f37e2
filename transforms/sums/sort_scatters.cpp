#include "transforms/sums/sort_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/sums/counting_sort.h"
#include "transforms/sums/own_scatters.h"
#include "transforms/sums/scatters.h"

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
        targets(scatter.targets()),
        count(scatter.iterations()),
        shares_(shares) {
    words_ = local("words", {number(2), count});
    key = local("key", {count}, ScalarType::I32);
    begin = local("begin", {targets}, ScalarType::I32);
    end = local("end", {targets}, ScalarType::I32);
    // Of several loops the iterators follow from the number of the instance; entries of a CSR structure need their row.
    is_numbered_ = s_.factors.size() > 1 && std::none_of(s_.factors.begin(), s_.factors.end(),
                                                         [](const ScatterFactor& f) { return f.rows != nullptr; });
    if (is_numbered_) {
      instance_ = local("instance", {count}, ScalarType::I32);
      return;
    }
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
    const bool some_miss = !s_.is_plain() || std::any_of(s_.factors.begin(), s_.factors.end(),
                                                         [](const ScatterFactor& f) { return f.rows || f.is_ragged; });
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
    if (is_numbered_) result.push_back(instance_);
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
    return s_.is_plain() && other.is_plain() && ir::equal(targets, other.targets()) &&
           ir::equal(s_.key(), ir::substitute(other.key(), names));
  }
  /// The values of the iterators of the loops over instances, at a position.
  std::vector<Expr> instance_at(const Expr& position) const {
    if (is_numbered_) return instance_of(at(instance_, position));
    std::vector<Expr> result;
    for (const Array& iterator : iterators) result.push_back(at(iterator, position));
    return result;
  }

 private:
  /// The values of the iterators of the instance with this number; rows of a CSR structure are looked up.
  std::vector<Expr> instance_of(const Expr& number_of_instance) const {
    const std::size_t n = s_.factors.size();
    std::vector<Expr> offsets(n);
    Expr rest = number_of_instance;
    for (std::size_t k = n; k-- > 0;) {
      offsets[k] = k > 0 ? ir::binary(BinaryOp::Mod, rest, s_.factors[k].extent) : rest;
      if (k > 0) rest = div(rest, s_.factors[k].extent);
    }
    std::vector<Expr> result;
    ir::Substitution known;
    for (std::size_t k = 0; k < n; ++k) {
      const ScatterFactor& factor = s_.factors[k];
      if (factor.rows) result.push_back(at(rows_[k], offsets[k]));
      if (factor.rows) known[factor.rows->iterator] = result.back();
      result.push_back(factor.rows ? offsets[k] : ir::substitute(factor.loop->lower, known) + offsets[k]);
      known[factor.loop->iterator] = result.back();
    }
    return result;
  }

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

  /// words[0, number of the instance]; instances that do not exist get a target behind all.
  Stmt words() const {
    // The only loop of a nest has both the row and the word.
    if (s_.factors.size() == 1 && s_.factors[0].rows)
      return ir::with_fresh_names(rows_of(s_.factors[0], rows_[0], word_of(ir::var(s_.factors[0].loop->iterator))));
    std::vector<Stmt> all;
    for (std::size_t k = 0; k < s_.factors.size(); ++k)
      if (s_.factors[k].rows) all.push_back(ir::with_fresh_names(rows_of(s_.factors[k], rows_[k], ir::block({}))));
    // One loop, whatever the loops of the nest, so that neighbouring threads write neighbouring words.
    all.push_back(parallel("place", count, [&](const Expr& place) { return word_of(place); }));
    return ir::block(std::move(all));
  }

  Stmt word_of(const Expr& place) const {
    const std::vector<Expr> values = instance_of(place);
    ir::Substitution known;
    for (std::size_t k = 0; k < values.size(); ++k) known[s_.sequential[k]->iterator] = values[k];
    Expr exists;
    for (std::size_t k = 0; k < s_.factors.size(); ++k) {
      const ScatterFactor& factor = s_.factors[k];
      if (!factor.rows && !factor.is_ragged) continue;
      const ir::For& loop = factor.rows ? *factor.rows : *factor.loop;
      const Expr own = less(known.at(loop.iterator), ir::substitute(loop.upper, known));
      exists = exists ? ir::binary(BinaryOp::And, exists, own) : own;
    }
    const auto word = [&](const Expr& key) { return set(words_, {number(0), place}, sort_word(key, place)); };
    const Stmt body = ir::substitute(s_.for_each(word(s_.key())), known);
    const Stmt none = word(targets);
    if (s_.is_plain()) return exists ? ir::if_then(exists, body, none) : body;
    // Conditions of the leaf may leave out the word.
    return ir::with_fresh_names(ir::block({none, exists ? ir::if_then(exists, body) : body}));
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

  /// What is known of the instance with this number, at position p.
  Stmt iterators_of(const Expr& item, const Expr& p) const {
    if (is_numbered_) return put(instance_, p, item);
    const std::vector<Expr> values = instance_of(item);
    std::vector<Stmt> body;
    for (std::size_t k = 0; k < values.size(); ++k) body.push_back(put(iterators[k], p, values[k]));
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
  bool is_numbered_ = false;
  Array instance_;           // their numbers, sorted; in place of iterators where these follow from them
  Array words_;              // of each instance, its target and its number
  std::vector<Array> rows_;  // of each entry of a CSR structure, by factor; null for other factors
};

/// The sums over sorted iterations.
class SegmentSums : Builder {
 public:
  SegmentSums(const Scatter& scatter, const SortedIterations& sorted, std::int64_t piece)
      : Builder(scatter.leaf->location), s_(scatter), sorted_(sorted), piece_(piece) {
    pieces_ = ceil_div(sorted.count, number(piece));
    std::vector<Expr> shape = without_key(s_.sum->array->shape);
    shape.insert(shape.begin(), {number(2), pieces_});
    parts_ = ir::make_array(s_.sum->array->name + "_part", value_type(s_.sum->array->type), shape, ir::ArrayRole::Local,
                            where_);
  }

  Stmt code() const { return ir::allocate(parts_, ir::block({parts(), sums()}), where_); }

 private:
  std::vector<Expr> without_key(std::vector<Expr> list) const {
    for (std::size_t k = s_.dims.size(); k-- > 0;) list.erase(list.begin() + static_cast<std::ptrdiff_t>(s_.dims[k]));
    return list;
  }
  /// total = none; total op= each of the positions.
  Stmt over(const Array& total, const Expr& lower, const Expr& upper, const std::vector<Expr>& target) const {
    const Stmt each = loop("slot", lower, upper, LoopMode::Forward, [&](const Expr& slot) {
      const Stmt one = s_.sum_into(target, sorted_.instance_at(slot));
      return ir::with_fresh_names(ir::rewrite(one, {}, [&](const Stmt& s) -> std::optional<Stmt> {
        const auto* sum = s.as<ir::Reduce>();
        return sum ? std::optional(ir::reduce_like(*sum, total, {}, sum->value)) : std::nullopt;
      }));
    });
    return ir::block({set(total, {}, ir::identity_of(s_.sum->op, total->type)), each});
  }
  Stmt add(const Array& array, std::vector<Expr> indices, const Expr& value) const {
    return ir::reduce(array, std::move(indices), s_.sum->op, value, where_);
  }
  Array total() const { return ir::make_array("total", parts_->type, {}, ir::ArrayRole::Local, where_); }
  std::vector<Expr> part(int which, const Expr& piece) const {
    std::vector<Expr> indices = without_key(s_.sum->indices);
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
        const Stmt all =
            ir::block({over(sum, lower, upper, s_.places_of(target)), set(parts_, part(which, c), ir::load(sum, {}))});
        return ir::if_then(less(target, sorted_.targets), ir::if_then(is_long(target), ir::allocate(sum, all, where_)));
      };
      const Stmt first_part = part_of(0, head, begin, ir::smaller(end, at(sorted_.end, head)));
      const Stmt last_part = ir::if_then(less(head, tail), part_of(1, tail, at(sorted_.begin, tail), end));
      return around_all(ir::block({first_part, last_part}));
    });
  }

  Stmt sums() const {
    return s_.over_targets([&](const std::vector<Expr>& places, const Expr& t) {
      const Expr begin = at(sorted_.begin, t), end = at(sorted_.end, t), piece = div(begin, number(piece_));
      std::vector<Expr> indices = s_.sum->indices;
      for (std::size_t k = 0; k < s_.dims.size(); ++k) indices[s_.dims[k]] = places[k];
      const Array sum = total();
      const auto of_part = [&](int which, const Expr& c) { return ir::load(parts_, part(which, c), where_); };
      const Stmt begun = ir::if_then(ir::binary(BinaryOp::Eq, begin, piece * number(piece_)),
                                     set(sum, {}, of_part(0, piece)), set(sum, {}, of_part(1, piece)));
      const Stmt others = loop("piece", piece + number(1), div(end - number(1), number(piece_)) + number(1),
                               LoopMode::Forward, [&](const Expr& c) { return add(sum, {}, of_part(0, c)); });
      const Stmt found = ir::if_then(is_long(t), ir::block({begun, others}), over(sum, begin, end, places));
      // Elements that nothing is added to may have no value yet.
      const Stmt all = ir::block({found, add(s_.sum->array, indices, ir::load(sum, {}))});
      return around_all(ir::if_then(less(begin, end), ir::allocate(sum, all, where_)));
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
    many_threads_ = std::max<std::int64_t>(enough_threads / 8, 2);
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
  /// Statements that run once: what is sorted before one of them is sorted for all that follow.
  Stmt outermost(const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>())
      return ir::allocate(local->array, outermost(local->body), local->location);
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : block->body) body.push_back(outermost(child));
      return ir::block(std::move(body));
    }
    const Stmt result = inside(s);
    std::vector<Stmt> all = std::move(before_);
    before_.clear();
    all.push_back(result);
    return ir::block(std::move(all));
  }

  /// Sorts that depend on nothing that changes are shared by all nests with the same iterations and targets.
  Stmt with_shared(const Stmt& nest, const Scatter& scatter) {
    const auto found =
        std::find_if(shared_.begin(), shared_.end(), [&](const auto& one) { return one->serves(scatter); });
    const SortedIterations* sorted = found == shared_.end() ? nullptr : found->get();
    if (!sorted) {
      shared_.push_back(std::make_unique<SortedIterations>(scatter, ascends(scatter), shares_));
      sorted = shared_.back().get();
      before_.push_back(ir::if_then(sorted->fits(), ir::with_fresh_names(sorted->code())));
    }
    return where_it_fits(nest, scatter, *sorted, SegmentSums(scatter, *sorted, piece_).code());
  }

  /// By sorted segments, where the numbers fit and the nest is not parallel enough as it is.
  Stmt where_it_fits(const Stmt& nest, const Scatter& scatter, const SortedIterations& sorted,
                     const Stmt& by_sort) const {
    const Stmt result =
        ir::if_then(sorted.fits(), by_sort, owned_scatter(program_, nest).value_or(nest), nest->location);
    if (!scatter.is_shared_out) return ir::with_fresh_names(result);
    const auto& loop = *nest.as<ir::For>();
    return ir::if_then(at_least(loop.upper - loop.lower, many_threads_), nest, ir::with_fresh_names(result),
                       nest->location);
  }

  Stmt inside(const Stmt& all) {
    return ir::rewrite(all, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Contraction) return s;
      if (s.kind() != ir::Kind::For) return std::nullopt;
      if (const auto scatter = scatter_in(program_, s)) {
        if (is_constant(*scatter)) return with_shared(s, *scatter);
        const SortedIterations sorted(*scatter, ascends(*scatter), shares_);
        const Stmt body = ir::block({sorted.code(), SegmentSums(*scatter, sorted, piece_).code()});
        return ir::with_fresh_names(with_arrays(sorted, where_it_fits(s, *scatter, sorted, body)));
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

  /// Whether the targets ascend, since the user says so of the array that they are.
  bool ascends(const Scatter& scatter) const {
    Expr key = scatter.key();
    while (const auto* cast = key.as<ir::Cast>()) key = cast->a;
    const auto* load = key.as<ir::Load>();
    if (!load || written_.count(load->array) || scatter.factors.size() != 1 || !scatter.is_plain()) return false;
    if (scatter.factors[0].rows || scatter.factors[0].is_ragged) return false;
    const ir::For& loop = *scatter.factors[0].loop;
    const bool by_loop = load->indices.size() == 1 && ir::equal(load->indices[0], ir::var(loop.iterator));
    return by_loop && std::any_of(program_.facts.begin(), program_.facts.end(), [&](const ir::Fact& fact) {
             return fact.array == load->array && fact.kind == ir::FactKind::Sorted;
           });
  }

  /// The targets are the same wherever they are asked for.
  bool is_constant(const Scatter& scatter) const {
    bool constant = true;
    const auto is_known = [&](const ir::Symbol& symbol) {
      return std::find(program_.sizes.begin(), program_.sizes.end(), symbol) != program_.sizes.end() ||
             std::any_of(scatter.sequential.begin(), scatter.sequential.end(),
                         [&](const ir::For* loop) { return loop->iterator == symbol; });
    };
    const auto look = [&](const Expr& x) {
      if (const auto* load = x.as<ir::Load>()) constant &= !written_.count(load->array);
      if (const auto* variable = x.as<ir::Var>()) constant &= is_known(variable->symbol);
    };
    for (const Expr& decider : scatter.deciders()) ir::walk(decider, look);
    for (const ScatterFactor& factor : scatter.factors) ir::walk(factor.extent, look);
    ir::walk(scatter.targets(), look);
    for (const ir::For* loop : scatter.sequential) {
      ir::walk(loop->lower, look);
      ir::walk(loop->upper, look);
    }
    return constant;
  }

  const ir::Program& program_;
  std::int64_t piece_, many_threads_;
  SortShares shares_;
  std::set<Array> written_;
  std::vector<Stmt> before_;  // sorts that the next outermost statement needs
  std::vector<std::unique_ptr<SortedIterations>> shared_;
};

}  // namespace

ir::Program sort_scatters(const ir::Program& program, std::int64_t enough_threads, int threads_per_block) {
  return ir::with_body(program, Sorter(program, enough_threads, threads_per_block).whole());
}

}  // namespace loopgrad::transforms
