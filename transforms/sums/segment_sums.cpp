#include "transforms/sums/segment_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/fuse.h"

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

bool is_by_rows(const Scatter& scatter, const Expr& index) {
  const auto mentions = [&](const ir::For* loop) { return ir::mentions(index, loop->iterator); };
  return std::any_of(scatter.outer.begin(), scatter.outer.end(), mentions) ||
         std::any_of(scatter.inner.begin(), scatter.inner.end(), mentions);
}

class SegmentSums : OrderBuilder {
 public:
  SegmentSums(const std::vector<Scatter>& all, const SortedIterations& sorted, std::int64_t piece,
              const IndexRanges& ranges)
      : OrderBuilder(all[0].leaf->location), all_(all), first_(all[0]), sorted_(sorted), piece_(piece) {
    pieces_ = ceil_div(sorted.count, number(piece));
    for (const Scatter& scatter : all) {
      const Array& target = scatter.sum->array;
      std::vector<Expr> shape = of_rows(scatter, target->shape);
      shape.insert(shape.begin(), {number(2), pieces_});
      parts_.push_back(
          ir::make_array(target->name + "_part", value_type(target->type), shape, ir::ArrayRole::Local, where_));
      names_.push_back(*same_rows(first_, scatter));
      exists_.push_back(existence(scatter, ranges));
      add_shift(sorted.shift_to(scatter).value());
    }
  }

  Stmt with_parts(Stmt body) const {
    for (auto array = parts_.rbegin(); array != parts_.rend(); ++array) body = ir::allocate(*array, body, where_);
    return body;
  }

  /// The parts of long segments: in each piece of positions one that begins before it or with it, and one that begins
  /// within; what lies between these is short.
  Stmt parts() const {
    return loop("piece", number(0), pieces_, LoopMode::Parallel, [&](const Expr& c) {
      const Expr begin = c * number(piece_), end = ir::smaller(begin + number(piece_), sorted_.positions());
      const Expr head = at(sorted_.key, begin), tail = at(sorted_.key, end - number(1));
      const auto part_of = [&](int which, const Expr& target, const Expr& lower, const Expr& upper) {
        const auto places_of = [&](std::size_t k) { return all_[k].places_of(simplify_indices(target + shifts_[k])); };
        const Stmt all = with_totals(all_numbers_, [&](const Totals& totals) {
          const Stmt stores = for_each_sum(all_numbers_, totals, [&](std::size_t k, const Array& total) {
            return if_exists(k, set(parts_[k], part(k, which, c), ir::load(total, {})));
          });
          return ir::block({over(all_numbers_, totals, lower, upper, places_of), stores});
        });
        return ir::if_then(less(target, sorted_.targets), ir::if_then(is_long(target), all));
      };
      const Stmt first_part = part_of(0, head, begin, ir::smaller(end, at(sorted_.end, head)));
      const Stmt last_part = ir::if_then(less(head, tail), part_of(1, tail, at(sorted_.begin, tail), end));
      const Stmt both = ir::block({first_part, last_part});
      const bool all_exist = sorted_.positions().same_as(sorted_.count);
      return around_all(all_exist ? both : ir::if_then(less(begin, sorted_.positions()), both));
    });
  }

  Stmt sums() const {
    return first_.over_targets([&](const Places& places, const Expr& t) {
      std::vector<Stmt> all;
      for (const Group& group : groups_) all.push_back(sums_of(group, places, t));
      return around_all(ir::block(std::move(all)));
    });
  }

 private:
  using Numbers = std::vector<std::size_t>;  // of sums
  using Totals = std::vector<Array>;         // one for each sum
  using Places = std::vector<Expr>;
  /// Sums whose targets are as far from the sorted ones.
  struct Group {
    Expr shift;
    Numbers sums;
  };

  void add_shift(const Expr& shift) {
    all_numbers_.push_back(all_numbers_.size());
    const auto found =
        std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return ir::equal(group.shift, shift); });
    if (found == groups_.end()) groups_.push_back({shift, {all_numbers_.back()}});
    else found->sums.push_back(all_numbers_.back());
    shifts_.push_back(shift);
  }

  /// What `list` has for the dimensions in which rows choose the element.
  static std::vector<Expr> of_rows(const Scatter& scatter, const std::vector<Expr>& list) {
    std::vector<Expr> result;
    for (std::size_t d = 0; d < list.size(); ++d)
      if (!std::count(scatter.dims.begin(), scatter.dims.end(), d) && is_by_rows(scatter, scatter.sum->indices[d]))
        result.push_back(list[d]);
    return result;
  }

  /// Whether a row has an element: conditions on instances may leave out all of a target that has some.
  static Expr existence(const Scatter& scatter, const IndexRanges& ranges) {
    const ir::Reduce& sum = *scatter.sum;
    Expr result = ir::bool_const(true);
    for (std::size_t d = 0; !scatter.is_plain() && d < sum.indices.size(); ++d) {
      const Expr &index = sum.indices[d], &extent = sum.array->shape[d];
      if (std::count(scatter.dims.begin(), scatter.dims.end(), d) || ranges.stays_within(index, extent)) continue;
      for (const Expr& divisor : divisors_in(index))
        result = ir::both(result, ir::binary(BinaryOp::Ne, divisor, ir::int_const(0)));
      result = ir::both(
          result, ir::both(ir::binary(BinaryOp::Ge, index, ir::int_const(0)), ir::binary(BinaryOp::Lt, index, extent)));
    }
    return result;
  }

  Stmt if_exists(std::size_t k, const Stmt& s) const {
    return ir::equal(exists_[k], ir::bool_const(true)) ? s : ir::if_then(exists_[k], s);
  }

  /// f(number of the sum, its total), for these of them, with rows that are those of the first.
  template <class F>
  Stmt for_each_sum(const Numbers& sums, const Totals& totals, F&& f) const {
    std::vector<Stmt> result;
    for (const std::size_t k : sums) result.push_back(ir::substitute(f(k, totals[k]), names_[k]));
    return ir::block(std::move(result));
  }

  Stmt with_totals(const Numbers& sums, const std::function<Stmt(const Totals&)>& body) const {
    Totals totals;
    for (const Array& part : parts_)
      totals.push_back(ir::make_array("total", part->type, {}, ir::ArrayRole::Local, where_));
    Stmt result = body(totals);
    for (auto k = sums.rbegin(); k != sums.rend(); ++k) result = ir::allocate(totals[*k], result, where_);
    return result;
  }

  /// Empty where an instance may have been sorted by another row's end: at a distance the number of the target does not
  /// say which row that is, only conditions on the instance's own indices do.
  Places places_if_own(std::size_t k, const std::function<Places(std::size_t)>& places_of) const {
    const bool is_own = all_[k].dims.size() == 1 || ir::as_int(shifts_[k]) == 0;
    return is_own ? places_of(k) : Places{};
  }

  /// Each total = none; total op= each of the positions, which are of this sorted target.
  Stmt over(const Numbers& sums, const Totals& totals, const Expr& lower, const Expr& upper,
            const std::function<Places(std::size_t)>& places_of) const {
    const Stmt none = for_each_sum(sums, totals, [&](std::size_t k, const Array& total) {
      return set(total, {}, ir::identity_of(all_[k].sum->op, total->type));
    });
    const Stmt each = loop("slot", lower, upper, LoopMode::Forward, [&](const Expr& slot) {
      return ir::with_fresh_names(sorted_.with_instance_at(slot, [&](const std::vector<Expr>& instance) {
        return for_each_sum(sums, totals, [&](std::size_t k, const Array& total) {
          return ir::rewrite(all_[k].sum_into(places_if_own(k, places_of), instance), {},
                             [&](const Stmt& s) -> std::optional<Stmt> {
                               const auto* sum = s.as<ir::Reduce>();
                               return sum ? std::optional(ir::reduce_like(*sum, total, {}, sum->value)) : std::nullopt;
                             });
        });
      }));
    });
    return ir::block({none, each});
  }
  Stmt add(std::size_t k, const Array& array, std::vector<Expr> indices, const Expr& value) const {
    return ir::reduce(array, std::move(indices), all_[k].sum->op, value, where_);
  }
  std::vector<Expr> part(std::size_t k, int which, const Expr& piece) const {
    std::vector<Expr> indices = of_rows(all_[k], all_[k].sum->indices);
    indices.insert(indices.begin(), {number(which), piece});
    return indices;
  }
  Expr part_value(std::size_t k, int which, const Expr& piece) const {
    return ir::load(parts_[k], part(k, which, piece), where_);
  }
  Stmt around_all(const Stmt& body) const {
    Stmt row;
    if (first_.outer.size() == 1 && first_.inner.size() == 1)
      row = whole_loop(*first_.outer[0], *first_.inner[0], body);
    return row ? row : around(first_.outer, around(first_.inner, body));
  }
  Expr is_long(const Expr& target) const {
    return less(number(piece_), at(sorted_.end, target) - at(sorted_.begin, target));
  }

  /// What a group adds to the target `t`, which has these places.
  Stmt sums_of(const Group& group, const Places& places, const Expr& t) const {
    const Expr sorted_target = simplify_indices(t - group.shift);
    const Stmt all = with_totals(group.sums, [&](const Totals& totals) {
      // Elements that nothing is added to may have no value yet.
      return ir::block({found(group.sums, totals, places, sorted_target),
                        for_each_sum(group.sums, totals, [&](std::size_t k, const Array& total) {
                          std::vector<Expr> indices = all_[k].sum->indices;
                          for (std::size_t d = 0; d < first_.dims.size(); ++d) indices[all_[k].dims[d]] = places[d];
                          return if_exists(k, add(k, all_[k].sum->array, indices, ir::load(total, {})));
                        })});
    });
    const Stmt result = ir::if_then(less(at(sorted_.begin, sorted_target), at(sorted_.end, sorted_target)), all);
    if (ir::as_int(group.shift) == 0) return result;
    const Expr is_one = ir::binary(BinaryOp::Ge, sorted_target, number(0));
    return ir::if_then(ir::both(is_one, less(sorted_target, sorted_.targets)), result);
  }

  /// The totals of a target: of its parts, or of its positions.
  Stmt found(const Numbers& sums, const Totals& totals, const Places& places, const Expr& sorted_target) const {
    const Expr begin = at(sorted_.begin, sorted_target), end = at(sorted_.end, sorted_target),
               piece = div(begin, number(piece_));
    const auto begun = [&](int which) {
      return for_each_sum(sums, totals, [&](std::size_t k, const Array& total) {
        return if_exists(k, set(total, {}, part_value(k, which, piece)));
      });
    };
    const Stmt first_part = ir::if_then(ir::binary(BinaryOp::Eq, begin, piece * number(piece_)), begun(0), begun(1));
    const Stmt others = loop("piece", piece + number(1), div(end - number(1), number(piece_)) + number(1),
                             LoopMode::Forward, [&](const Expr& c) {
                               return for_each_sum(sums, totals, [&](std::size_t k, const Array& total) {
                                 return if_exists(k, add(k, total, {}, part_value(k, 0, c)));
                               });
                             });
    return ir::if_then(is_long(sorted_target), ir::block({first_part, others}),
                       over(sums, totals, begin, end, [&](std::size_t) { return places; }));
  }

  const std::vector<Scatter>& all_;
  const Scatter& first_;
  const SortedIterations& sorted_;
  const std::int64_t piece_;
  Expr pieces_;
  std::vector<Array> parts_;             // of long segments, for each sum
  std::vector<ir::Substitution> names_;  // of rows, for each sum
  std::vector<Expr> shifts_;             // of its targets, for each sum
  std::vector<Expr> exists_;             // the row's element, for each sum
  Numbers all_numbers_;
  std::vector<Group> groups_;
};

std::size_t depth_of(Stmt nest) {
  std::size_t depth = 0;
  for (; is_parallel_loop(nest); nest = nest.as<ir::For>()->body) ++depth;
  return depth;
}

/// The second nest in the first one, where they have equal bounds.
std::optional<Stmt> joined(const Stmt& first, const Stmt& second) {
  const std::size_t depth = depth_of(first);
  if (depth == 0 || depth != depth_of(second)) return std::nullopt;
  const auto fusion = fusion_of(first, second, depth);
  const bool same = fusion && fusion->first.size() == depth &&
                    std::all_of(fusion->ahead.begin(), fusion->ahead.end(), [](std::int64_t k) { return k == 0; });
  return same ? std::optional(fused(*fusion)) : std::nullopt;
}

/// Whether different iterations of the same rows add to different elements of an array that both add to: `b`'s loops
/// are named as those of `a`, each of which has elements of its own in each iteration.
bool keep_apart(const Scatter& a, const Scatter& b, const ir::Substitution& names) {
  if (a.sum->array != b.sum->array) return true;
  if (a.dims != b.dims) return false;
  for (std::size_t d = 0; d < a.sum->indices.size(); ++d) {
    if (std::count(a.dims.begin(), a.dims.end(), d)) continue;
    const Expr &mine = a.sum->indices[d], its = ir::substitute(b.sum->indices[d], names);
    if ((is_by_rows(a, mine) || is_by_rows(a, its)) && !ir::equal(mine, its)) return false;
  }
  return true;
}

}  // namespace

std::optional<ir::Substitution> same_rows(const Scatter& like, const Scatter& scatter) {
  ir::Substitution names;
  for (const Loops Scatter::*rows : {&Scatter::outer, &Scatter::inner}) {
    const Loops &mine = like.*rows, &its = scatter.*rows;
    if (mine.size() != its.size()) return std::nullopt;
    for (std::size_t k = 0; k < mine.size(); ++k) {
      const bool same = mine[k]->mode == its[k]->mode &&
                        ir::equal(mine[k]->lower, ir::substitute(its[k]->lower, names)) &&
                        ir::equal(mine[k]->upper, ir::substitute(its[k]->upper, names));
      if (!same) return std::nullopt;
      names[its[k]->iterator] = ir::var(mine[k]->iterator);
    }
  }
  return keep_apart(like, scatter, names) ? std::optional(names) : std::nullopt;
}

namespace {

/// Whether loops over targets would wait for each other, as both add to one array, and need not: iterations with other
/// numbers add to other elements. Loops that have nothing in common run side by side.
bool should_join(const std::vector<Scatter>& first, const std::vector<Scatter>& second) {
  bool meet = false, apart = true;
  for (const Scatter& a : first)
    for (const Scatter& b : second)
      if (a.sum->array == b.sum->array) {
        meet = true;
        apart &= same_rows(a, b).has_value();
      }
  return meet && apart;
}

/// Each nest in the first one that it has its bounds in common with, and `should` be joined to: all that are in it.
Stmt all_joined(const std::vector<Stmt>& nests, const std::function<bool(std::size_t, std::size_t)>& should) {
  std::vector<Stmt> result;
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t n = 0; n < nests.size(); ++n) {
    std::optional<Stmt> both;
    for (std::size_t k = 0; k < result.size() && !both; ++k) {
      if (!std::all_of(members[k].begin(), members[k].end(), [&](std::size_t m) { return should(m, n); })) continue;
      both = joined(result[k], nests[n]);
      if (!both) continue;
      result[k] = *both;
      members[k].push_back(n);
    }
    if (both) continue;
    result.push_back(nests[n]);
    members.push_back({n});
  }
  return ir::block(std::move(result));
}

}  // namespace

Stmt segment_sums(const std::vector<SortedSums>& all, std::int64_t piece, const IndexRanges& ranges) {
  std::vector<SegmentSums> by_order;
  std::vector<Stmt> parts, sums;
  for (const SortedSums& one : all) {
    by_order.emplace_back(*one.sums, *one.sorted, piece, ranges);
    parts.push_back(by_order.back().parts());
    sums.push_back(by_order.back().sums());
  }
  const auto always = [](std::size_t, std::size_t) { return true; };
  const auto one_array = [&](std::size_t a, std::size_t b) { return should_join(*all[a].sums, *all[b].sums); };
  Stmt result = ir::block({all_joined(parts, always), all_joined(sums, one_array)});
  for (const SegmentSums& one : by_order) result = one.with_parts(result);
  return result;
}

}  // namespace loopgrad::transforms
