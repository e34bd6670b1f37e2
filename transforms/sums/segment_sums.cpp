#include "transforms/sums/segment_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/ranges.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

class SegmentSums : OrderBuilder {
 public:
  SegmentSums(const Scatter& scatter, const SortedIterations& sorted, const Pieces& cut)
      : OrderBuilder(scatter.leaf->location), s_(scatter), sorted_(sorted), group_(number(cut.group)) {
    piece_ = length_of_pieces(cut);
    pieces_ = ceil_div(sorted.count, piece_);
    std::vector<Expr> shape = without_key(s_.sum->array->shape);
    shape.insert(shape.begin(), ceil_div(pieces_, group_));
    groups_ = partial("_group", shape);
    shape[0] = pieces_;
    shape.insert(shape.begin(), number(2));
    parts_ = partial("_part", shape);
  }

  Stmt code() const {
    const Stmt all = ir::block({parts(), ir::if_then(less(group_, pieces_), groups()), sums()});
    return ir::allocate(parts_, ir::allocate(groups_, all, where_), where_);
  }

 private:
  /// Positions of a piece: fewer where there are not threads enough, which are pieces times elements of a row.
  Expr length_of_pieces(const Pieces& cut) const {
    Expr work = sorted_.count;
    for (const Loops* loops : {&s_.outer, &s_.inner})
      for (const ir::For* loop : *loops) {
        const Expr extent = loop->upper - loop->lower;
        bool known = true;  // on the host, before the nest
        ir::walk(extent, [&](const Expr& e) {
          const auto* v = e.as<ir::Var>();
          known &= e.kind() != ir::Kind::Load && !(v && is_iterator(v->symbol));
        });
        if (known) work = work * extent;
      }
    Expr result = number(cut.shortest);
    for (std::int64_t length = 2 * cut.shortest; length <= cut.longest; length *= 2)
      result = ir::select(at_least(work, length * cut.threads), number(length), result);
    return result;
  }
  bool is_iterator(const ir::Symbol& symbol) const {
    const auto is_its = [&](const ir::For* loop) { return loop->iterator == symbol; };
    return std::any_of(s_.outer.begin(), s_.outer.end(), is_its) ||
           std::any_of(s_.inner.begin(), s_.inner.end(), is_its) ||
           std::any_of(s_.sequential.begin(), s_.sequential.end(), is_its);
  }
  Array partial(const char* name, const std::vector<Expr>& shape) const {
    return ir::make_array(s_.sum->array->name + name, value_type(s_.sum->array->type), shape, ir::ArrayRole::Local,
                          where_);
  }
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
  Expr is_long(const Expr& target) const { return less(piece_, at(sorted_.end, target) - at(sorted_.begin, target)); }

  /// The parts of long segments: in each piece of positions one that begins before it or with it, and one that begins
  /// within; what lies between these is short.
  Stmt parts() const {
    return loop("piece", number(0), pieces_, LoopMode::Parallel, [&](const Expr& c) {
      const Expr begin = c * piece_, end = ir::smaller(begin + piece_, sorted_.count);
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

  /// Where all positions of a group are those of one target, the sum of their parts.
  Stmt groups() const {
    return loop("group", number(0), ceil_div(pieces_, group_), LoopMode::Parallel, [&](const Expr& g) {
      const Expr first = g * group_, last = ir::smaller(first + group_, pieces_);
      const Expr head = at(sorted_.key, first * piece_);
      const Expr tail = at(sorted_.key, ir::smaller(last * piece_, sorted_.count) - number(1));
      const Array sum = total();
      const Stmt each = loop("piece", first, last, LoopMode::Forward,
                             [&](const Expr& c) { return add(sum, {}, ir::load(parts_, part(0, c), where_)); });
      const Stmt all = ir::block(
          {set(sum, {}, ir::identity_of(s_.sum->op, sum->type)), each, set(groups_, of_group(g), ir::load(sum, {}))});
      const Expr is_one = ir::binary(BinaryOp::And, ir::binary(BinaryOp::Eq, head, tail), less(head, sorted_.targets));
      // A segment of this length is a long one.
      return around_all(ir::if_then(is_one, ir::if_then(is_long(head), ir::allocate(sum, all, where_))));
    });
  }
  std::vector<Expr> of_group(const Expr& group) const {
    std::vector<Expr> indices = without_key(s_.sum->indices);
    indices.insert(indices.begin(), group);
    return indices;
  }

  Stmt sums() const {
    return s_.over_targets([&](const std::vector<Expr>& places, const Expr& t) {
      const Expr begin = at(sorted_.begin, t), end = at(sorted_.end, t);
      std::vector<Expr> indices = s_.sum->indices;
      for (std::size_t k = 0; k < s_.dims.size(); ++k) indices[s_.dims[k]] = places[k];
      const Array sum = total();
      const Stmt found = ir::if_then(is_long(t), over_parts(sum, begin, end), over(sum, begin, end, places));
      // Elements that nothing is added to may have no value yet.
      const Stmt all = ir::block({found, add(s_.sum->array, indices, ir::load(sum, {}))});
      return around_all(ir::if_then(less(begin, end), ir::allocate(sum, all, where_)));
    });
  }
  /// Of a long segment: its parts up to the first group that is all its own, these groups, and the parts behind them.
  Stmt over_parts(const Array& sum, const Expr& begin, const Expr& end) const {
    const Expr piece = div(begin, piece_), behind = div(end - number(1), piece_) + number(1);
    const Expr first = ceil_div(piece + number(1), group_), last = div(div(end, piece_), group_);
    const Expr has_groups = less(first, last);
    const auto parts_in = [&](const Expr& lower, const Expr& upper) {
      return loop("piece", lower, upper, LoopMode::Forward,
                  [&](const Expr& c) { return add(sum, {}, ir::load(parts_, part(0, c), where_)); });
    };
    const auto start = [&](int which) { return set(sum, {}, ir::load(parts_, part(which, piece), where_)); };
    const Stmt between = loop("group", first, last, LoopMode::Forward,
                              [&](const Expr& g) { return add(sum, {}, ir::load(groups_, of_group(g), where_)); });
    return ir::block({ir::if_then(ir::binary(BinaryOp::Eq, begin, piece * piece_), start(0), start(1)),
                      parts_in(piece + number(1), ir::select(has_groups, first * group_, behind)), between,
                      parts_in(ir::select(has_groups, last * group_, behind), behind)});
  }

  const Scatter& s_;
  const SortedIterations& sorted_;
  const Expr group_;
  Expr piece_, pieces_;
  Array parts_, groups_;
};

}  // namespace

Stmt segment_sums(const Scatter& scatter, const SortedIterations& sorted, const Pieces& pieces) {
  return SegmentSums(scatter, sorted, pieces).code();
}

}  // namespace loopgrad::transforms
