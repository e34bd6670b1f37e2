// Short ways to write loops over arrays of i64, for passes that make code of their own.
#pragma once

#include "transforms/gpu/launch_loops.h"

namespace loopgrad::transforms {

inline ir::Expr div(const ir::Expr& a, const ir::Expr& b) { return ir::binary(ir::BinaryOp::FloorDiv, a, b); }
inline ir::Expr mod(const ir::Expr& a, const ir::Expr& b) { return ir::binary(ir::BinaryOp::Mod, a, b); }

/// What it makes has the user's line `where`.
class LoopBuilder {
 public:
  explicit LoopBuilder(const SourceLocation& where) : where_(where) {}

 protected:
  ir::Array local(const std::string& name, std::vector<ir::Expr> shape) const {
    return ir::make_array(name, ScalarType::I64, std::move(shape), ir::ArrayRole::Local, where_);
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

  const SourceLocation where_;
};

}  // namespace loopgrad::transforms
