// Short ways to write loops, those of mapped programs among them, for passes that make code of their own.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

inline ir::Expr number(std::int64_t value) { return ir::int_const(value); }

inline ir::Expr ceil_div(const ir::Expr& a, const ir::Expr& b) {
  return ir::binary(ir::BinaryOp::FloorDiv, a + (b - number(1)), b);
}

inline ir::Expr less(const ir::Expr& a, const ir::Expr& b) { return ir::binary(ir::BinaryOp::Lt, a, b); }
inline ir::Expr at_least(const ir::Expr& a, std::int64_t b) { return ir::binary(ir::BinaryOp::Ge, a, number(b)); }
inline ir::Expr div(const ir::Expr& a, const ir::Expr& b) { return ir::binary(ir::BinaryOp::FloorDiv, a, b); }
inline ir::Expr mod(const ir::Expr& a, const ir::Expr& b) { return ir::binary(ir::BinaryOp::Mod, a, b); }

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

/// A loop of a mapped program with another body, and all that it says of how a machine runs it.
inline ir::Stmt with_mapped_body(const ir::Stmt& loop, const ir::Stmt& body) {
  return ir::with_mapping(loop, [&](ir::For& copy) { copy.body = body; });
}

/// What it makes has the user's line `where`.
class LoopBuilder {
 public:
  explicit LoopBuilder(const SourceLocation& where) : where_(where) {}

 protected:
  ir::Array local(const std::string& name, std::vector<ir::Expr> shape, ScalarType type = ScalarType::I64) const {
    return ir::make_array(name, type, std::move(shape), ir::ArrayRole::Local, where_);
  }
  ir::Expr get(const ir::Array& array, std::vector<ir::Expr> at) const {
    return ir::load(array, std::move(at), where_);
  }
  ir::Stmt set(const ir::Array& array, std::vector<ir::Expr> at, const ir::Expr& value) const {
    return ir::assign(array, std::move(at), value, where_);
  }
  /// body(iterator)
  template <class Body>
  ir::Stmt loop(const char* name, const ir::Expr& lower, const ir::Expr& upper, ir::LoopMode mode, Body body) const {
    const ir::Symbol i = ir::make_symbol(name);
    return ir::for_loop(i, lower, upper, body(ir::var(i)), mode, where_);
  }
  template <class Body>
  ir::Stmt parallel(const char* name, const ir::Expr& extent, Body body) const {
    return loop(name, number(0), extent, ir::LoopMode::Parallel, body);
  }
  template <class Body>
  ir::Stmt forward(const char* name, const ir::Expr& extent, Body body) const {
    return loop(name, number(0), extent, ir::LoopMode::Forward, body);
  }
  /// Code that finds the first of lower..upper for which is_before(..) is false, or upper, followed by finish(it).
  /// These are numbers of 32 bits that are not negative, 2^steps more than upper - lower.
  template <class Before, class Finish>
  ir::Stmt bisect(const ir::Expr& lower, const ir::Expr& upper, const ir::Expr& steps, Before is_before,
                  Finish finish) const {
    const auto scalar = [&](const char* name) { return local(name, {}, ScalarType::I32); };
    const auto small = [](std::int64_t value) { return ir::int_const(value, ScalarType::I32); };
    const ir::Array low = scalar("low"), high = scalar("high"), middle = scalar("middle");
    const ir::Expr l = ir::load(low, {}), h = ir::load(high, {}), m = ir::load(middle, {});
    const ir::Expr half = div(ir::binary(ir::BinaryOp::Max, h - l, small(0)), small(2));
    const ir::Stmt halve =
        ir::if_then(ir::binary(ir::BinaryOp::Lt, l, h),
                    ir::block({set(middle, {}, l + half),
                               ir::if_then(is_before(m), set(low, {}, m + small(1)), set(high, {}, m))}));
    const ir::Stmt all = forward("step", steps, [&](const ir::Expr&) { return halve; });
    ir::Stmt result = ir::block({set(low, {}, lower), set(high, {}, upper), all, finish(l)});
    for (const ir::Array& array : {low, high, middle}) result = ir::allocate(array, result, where_);
    return result;
  }

  const SourceLocation where_;
};

}  // namespace loopgrad::transforms
