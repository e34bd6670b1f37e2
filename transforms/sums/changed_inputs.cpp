#include "transforms/sums/changed_inputs.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t elements_at_once = 4096;  // that a thread of a CPU compares before it tells the others

class Changes : LoopBuilder {
 public:
  Changes(const ir::Symbol& stale, const std::vector<SeenArray>& arrays, bool is_for_gpu, const SourceLocation& where)
      : LoopBuilder(where),
        stale_(ir::var(stale)),
        arrays_(arrays),
        is_for_gpu_(is_for_gpu),
        changed_(local("changed", {number(1)}, ScalarType::I32)) {}

  Stmt where_changed(const Stmt& code) const {
    std::vector<Stmt> compared, noted;
    for (const SeenArray& one : arrays_) {
      compared.push_back(compare(one));
      noted.push_back(
          over(one.seen->shape, [&](const std::vector<Expr>& at) { return set(one.seen, at, get(one.array, at)); }));
    }
    const auto stale_is = [&](std::int64_t value) { return ir::binary(BinaryOp::Eq, stale_, number(value)); };
    noted.push_back(code);
    const Stmt work = ir::block(std::move(noted));
    const Stmt all = ir::block({set(changed_, {number(0)}, ir::cast(ScalarType::I32, stale_is(1))),
                                ir::if_then(stale_is(2), ir::block(std::move(compared))),
                                is_for_gpu_ ? in_each_kernel(work) : ir::if_then(is_changed(), work, {}, where_)});
    return ir::allocate(changed_, all, where_);
  }

 private:
  Expr is_changed() const {
    return ir::binary(BinaryOp::Ne, get(changed_, {number(0)}), ir::int_const(0, ScalarType::I32));
  }

  Expr differs(const SeenArray& one, const std::vector<Expr>& at) const {
    return ir::binary(BinaryOp::Ne, get(one.array, at), get(one.seen, at));
  }

  Stmt raise(const Expr& value) const {
    return ir::reduce(changed_, {number(0)}, ir::ReduceOp::Max, value, where_, true);
  }

  Stmt compare(const SeenArray& one) const {
    if (!is_for_gpu_ && !one.seen->shape.empty()) return compare_in_pieces(one);
    return over(one.seen->shape, [&](const std::vector<Expr>& at) {
      return ir::if_then(differs(one, at), raise(ir::int_const(1, ScalarType::I32)), {}, where_);
    });
  }

  /// Parallel loops over all elements.
  template <class Body>
  Stmt over(const std::vector<Expr>& shape, const Body& body) const {
    return ir::over_elements(shape, where_, body, "e", ir::LoopMode::Parallel);
  }

  /// A thread goes through many elements, and has something to say at most once.
  Stmt compare_in_pieces(const SeenArray& one) const {
    const Array own = local("differs", {}, ScalarType::I32);
    const auto note = [&](const std::vector<Expr>& at) {
      return ir::reduce(own, {}, ir::ReduceOp::Max, ir::cast(ScalarType::I32, differs(one, at)), where_);
    };
    const auto in_piece = [&](const Stmt& elements) {
      const Expr any = ir::binary(BinaryOp::Ne, get(own, {}), ir::int_const(0, ScalarType::I32));
      return ir::allocate(own,
                          ir::block({set(own, {}, ir::int_const(0, ScalarType::I32)), elements,
                                     ir::if_then(any, raise(get(own, {})), {}, where_)}),
                          where_);
    };
    const std::vector<Expr>& shape = one.seen->shape;
    if (shape.size() == 1)
      return parallel("piece", ceil_div(shape[0], number(elements_at_once)), [&](const Expr& piece) {
        const Expr first = piece * number(elements_at_once);
        const Expr last = ir::binary(BinaryOp::Min, first + number(elements_at_once), shape[0]);
        return in_piece(loop("e", first, last, ir::LoopMode::Forward, [&](const Expr& e) { return note({e}); }));
      });
    return parallel("piece", shape[0], [&](const Expr& piece) {
      std::vector<Expr> at = {piece};
      return in_piece(rest_of(shape, at, note));
    });
  }

  /// Loops in order over the dimensions that `at` has no index of yet.
  template <class Body>
  Stmt rest_of(const std::vector<Expr>& shape, std::vector<Expr>& at, const Body& body) const {
    if (at.size() == shape.size()) return body(at);
    return forward("e", shape[at.size()], [&](const Expr& e) {
      at.push_back(e);
      return rest_of(shape, at, body);
    });
  }

  /// With the condition where a kernel begins: inside of nests of parallel loops, which the host starts.
  Stmt in_each_kernel(const Stmt& s) const {
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> all;
      for (const Stmt& child : block->body) all.push_back(in_each_kernel(child));
      return ir::block(std::move(all));
    }
    if (const auto* own = s.as<ir::Allocate>())
      return ir::allocate(own->array, in_each_kernel(own->body), own->location);
    if (const auto* branch = s.as<ir::If>(); branch && !ir::has_load(branch->condition))
      return ir::if_then(branch->condition, in_each_kernel(branch->then_body),
                         branch->else_body ? in_each_kernel(branch->else_body) : Stmt(), branch->location);
    if (const auto* loop = s.as<ir::For>(); loop && !ir::has_load(loop->lower) && !ir::has_load(loop->upper))
      if (is_parallel_loop(s) || contains_parallel_loop(loop->body))
        return with_body(*loop, is_parallel_loop(s) ? in_nest(loop->body) : in_each_kernel(loop->body));
    return ir::if_then(is_changed(), s, {}, where_);
  }

  Stmt in_nest(const Stmt& s) const {
    const auto* loop = s.as<ir::For>();
    if (loop && is_parallel_loop(s)) return with_body(*loop, in_nest(loop->body));
    return ir::if_then(is_changed(), s, {}, where_);
  }

  const Expr stale_;
  const std::vector<SeenArray>& arrays_;
  const bool is_for_gpu_;
  const Array changed_;
};

}  // namespace

Stmt where_changed(const Stmt& code, const ir::Symbol& stale, const std::vector<SeenArray>& arrays, bool is_for_gpu) {
  return Changes(stale, arrays, is_for_gpu, arrays[0].array->location).where_changed(code);
}

}  // namespace loopgrad::transforms
