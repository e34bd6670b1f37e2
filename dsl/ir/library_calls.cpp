#include "dsl/ir/library_calls.h"

namespace loopgrad::ir {

bool is_library_call(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg:
    case UnaryOp::Not:
    case UnaryOp::Abs:
    case UnaryOp::Sqrt:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::RoundF16:
    case UnaryOp::RoundBF16:
    case UnaryOp::Stop: return false;
    default: return true;
  }
}

bool is_library_call(BinaryOp op) { return op == BinaryOp::Pow || op == BinaryOp::Atan2; }

bool is_library_call(const Expr& e) {
  if (const auto* n = e.as<Unary>()) return is_library_call(n->op);
  const auto* n = e.as<Binary>();
  return n && is_library_call(n->op);
}

}  // namespace loopgrad::ir
