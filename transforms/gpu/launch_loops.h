// The loops that mapped programs are made of, and names for what the host computes.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/ir/visit.h"

namespace loopgrad::transforms {

/// Whether the host can compute it when it launches kernels: from sizes and iterators, in integers.
inline bool host_knows(const ir::Expr& e) {
  bool known = true;
  ir::walk(e, [&](const ir::Expr& part) { known &= part.kind() != ir::Kind::Load && !is_float(part.type()); });
  return known;
}

inline ir::Expr number(std::int64_t value) { return ir::int_const(value); }

inline ir::Expr ceil_div(const ir::Expr& a, const ir::Expr& b) {
  return ir::binary(ir::BinaryOp::FloorDiv, a + (b - number(1)), b);
}

inline ir::Expr at_least(const ir::Expr& a, std::int64_t b) { return ir::binary(ir::BinaryOp::Ge, a, number(b)); }

/// A power of two near `extent`, within bounds.
inline ir::Expr threads_for(const ir::Expr& extent, std::int64_t least, std::int64_t most) {
  ir::Expr result = number(least);
  for (std::int64_t t = 2 * least; t <= most; t *= 2)
    result = ir::select(ir::binary(ir::BinaryOp::Gt, extent, number(t / 2)), number(t), result);
  return result;
}

/// for symbol in value..value + 1: a name for a value that the host computes.
inline ir::Stmt let(const ir::Symbol& symbol, const ir::Expr& value, ir::Stmt body) {
  return ir::for_loop(symbol, value, value + number(1), std::move(body));
}

inline ir::Stmt grid_loop(const ir::Symbol& i, const ir::Expr& lower, const ir::Expr& upper, ir::Stmt body,
                          const SourceLocation& where) {
  return ir::for_loop(i, lower, upper, std::move(body), ir::LoopMode::Grid, where);
}

inline ir::Stmt threads_loop(const ir::Symbol& i, const ir::Expr& count, ir::Stmt body,
                             const SourceLocation& where = {}) {
  return ir::for_loop(i, number(0), count, std::move(body), ir::LoopMode::Threads, where);
}

}  // namespace loopgrad::transforms
