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
  SegmentSums(const Scatter& scatter, const SortedIterations& sorted, std::int64_t piece)
      : OrderBuilder(scatter.leaf->location), s_(scatter), sorted_(sorted), piece_(piece) {
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

}  // namespace

Stmt segment_sums(const Scatter& scatter, const SortedIterations& sorted, std::int64_t piece) {
  return SegmentSums(scatter, sorted, piece).code();
}

}  // namespace loopgrad::transforms
