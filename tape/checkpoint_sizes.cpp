#include "tape/checkpoint_sizes.h"

#include "dsl/ir/rewriter.h"

namespace loopgrad::tape {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

Expr number(std::int64_t value) { return ir::int_const(value); }
Expr ceil_div(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::FloorDiv, a + b - number(1), b); }

class Decision {
 public:
  Decision(const LoopToDecide& loop, const Expr& share, std::vector<Array>& outputs)
      : loop_(loop),
        share_(share),
        taped_(result(loop.lengths.taped, outputs)),
        blocks_(result(loop.lengths.blocks, outputs)),
        leaves_(result(loop.lengths.leaves, outputs)),
        leaf_(result(loop.lengths.leaf, outputs)) {}

  /// Adds what the loop takes to `needed`.
  Stmt code(const Array& needed) const {
    const Expr whole = loop_.bytes_of_tape(loop_.trips);
    const Stmt taped = ir::block({put(taped_, loop_.trips), put(needed, now(needed) + whole)});
    // Where nothing fits, what takes least may be the whole tape.
    const Expr taken =
        ir::select(is(BinaryOp::Lt, now(cost_), number(0)), ir::binary(BinaryOp::Min, now(bytes_), whole), now(bytes_));
    const Stmt in_blocks =
        ir::block({put(cost_, number(-1)), put(bytes_, number(-1)),
                   each("k", number(1), loop_.trips + number(1), [&](const Expr& k) { return with_leaf(k); }),
                   put(needed, now(needed) + taken)});
    const Expr fits = is(BinaryOp::Or, is(BinaryOp::Le, whole, share_), is(BinaryOp::Eq, loop_.trips, number(0)));
    Stmt all = ir::block({put(taped_, number(0)), put(blocks_, number(0)), put(leaves_, number(1)),
                          put(leaf_, number(0)), ir::if_then(fits, taped, in_blocks, loop_.where)});
    for (const Array& local : {cost_, bytes_, b_, need_, work_}) all = ir::allocate(local, all, loop_.where);
    return all;
  }

 private:
  Array result(const ir::Symbol& size, std::vector<Array>& outputs) const {
    outputs.push_back(ir::make_array(size.name, ScalarType::I64, {}, ir::ArrayRole::Output, loop_.where));
    return outputs.back();
  }
  Array scalar(const char* name) const {
    return ir::make_array(name, ScalarType::I64, {}, ir::ArrayRole::Local, loop_.where);
  }
  static Expr now(const Array& a) { return ir::load(a, {}); }
  Stmt put(const Array& a, const Expr& value) const { return ir::assign(a, {}, value, loop_.where); }
  static Expr is(BinaryOp op, const Expr& a, const Expr& b) { return ir::binary(op, a, b); }
  template <class Body>
  Stmt each(const char* name, const Expr& lower, const Expr& upper, const Body& body) const {
    const ir::Symbol i = ir::make_symbol(name);
    return ir::for_loop(i, lower, upper, body(ir::var(i)), ir::LoopMode::Forward, loop_.where);
  }

  /// Segments of k iterations: more than about the root of their number in a block take more states than fewer.
  Stmt with_leaf(const Expr& k) const {
    const Expr segments = ceil_div(loop_.trips, k);
    const Expr root = ir::cast(ScalarType::I64, ir::unary(ir::UnaryOp::Sqrt, ir::cast(ScalarType::F64, segments)));
    return each("c", number(1), root + number(2), [&](const Expr& c) {
      const Expr blocks = now(b_), need = now(need_), work = now(work_);
      const Expr fits = is(BinaryOp::Le, need, share_), fitted = is(BinaryOp::Ge, now(cost_), number(0));
      const Expr shorter = is(BinaryOp::Lt, work, now(cost_));
      const Expr first = ir::unary(ir::UnaryOp::Not, fitted);
      // The shortest that fits; as long as there is none, the one that takes least.
      const Expr better = is(BinaryOp::And, fits, is(BinaryOp::Or, first, shorter));
      const Expr none = is(BinaryOp::Lt, now(bytes_), number(0)), less = is(BinaryOp::Lt, need, now(bytes_));
      const Expr smaller = is(BinaryOp::And, first, is(BinaryOp::Or, none, less));
      const Stmt take = ir::block({put(blocks_, blocks), put(leaves_, c), put(leaf_, k), put(bytes_, need),
                                   put(cost_, ir::select(fits, work, now(cost_)))});
      return ir::block({put(b_, ceil_div(segments, c)),
                        put(need_, (blocks + c - number(1)) * loop_.bytes_of_state + loop_.bytes_of_tape(k)),
                        put(work_, loop_.trips + (segments - blocks) * k),
                        ir::if_then(is(BinaryOp::Or, better, smaller), take, {}, loop_.where)});
    });
  }

  const LoopToDecide& loop_;
  const Expr share_;
  const Array taped_, blocks_, leaves_, leaf_;
  const Array cost_ = scalar("cost"), bytes_ = scalar("bytes"), b_ = scalar("blocks"), need_ = scalar("need"),
              work_ = scalar("work");
};

}  // namespace

Expr bytes_of_array(ScalarType type, const std::vector<Expr>& shape) {
  Expr bytes = number(static_cast<std::int64_t>(bytes_of(type)));
  for (const Expr& extent : shape) bytes = bytes * ir::binary(BinaryOp::Max, extent, number(0));
  return bytes;
}

Stmt decide_lengths(const std::vector<LoopToDecide>& loops, const Expr& fixed, std::int64_t most,
                    std::vector<Array>& outputs) {
  const Array needed = ir::make_array(needed_tape_bytes, ScalarType::I64, {}, ir::ArrayRole::Output, {});
  outputs.push_back(needed);
  std::vector<Stmt> all = {ir::assign(needed, {}, fixed)};
  const auto count = static_cast<std::int64_t>(loops.size());
  if (count == 0) return all.front();
  const Expr share = ir::binary(BinaryOp::FloorDiv, number(most) - fixed, number(count));
  for (const LoopToDecide& loop : loops) all.push_back(Decision(loop, share, outputs).code(needed));
  return ir::with_fresh_names(ir::block(std::move(all)));
}

}  // namespace loopgrad::tape
