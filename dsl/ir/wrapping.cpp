#include "dsl/ir/wrapping.h"

#include <algorithm>
#include <bit>

namespace loopgrad::ir {

namespace {

constexpr int most_depth = 64;    // of an expression that is looked into
constexpr int many_digits = 128;  // of one that is not

/// Binary digits of an iterator, a size or an index from data.
int digits_of_index(ScalarType type) {
  switch (type) {
    case ScalarType::I64: return 31;
    case ScalarType::I32: return 26;
    default: return static_cast<int>(8 * bytes_of(type)) - 1;
  }
}

int digits_of_type(ScalarType type) { return static_cast<int>(8 * bytes_of(type)) - 1; }

/// Of the value, without its sign. Products of several sizes and iterators are those of elements that exist; a number
/// as a factor need not be.
int digits_of(const Expr& e, int depth) {
  if (const auto value = as_int(e))
    return static_cast<int>(
        std::bit_width(*value < 0 ? ~static_cast<std::uint64_t>(*value) + 1 : static_cast<std::uint64_t>(*value)));
  if (depth > most_depth) return many_digits;
  if (const auto* n = e.as<Cast>(); n && is_integer(n->a.type()))
    return std::min(digits_of(n->a, depth + 1), digits_of_type(n->type));
  if (const auto* n = e.as<Unary>()) return digits_of(n->a, depth + 1);
  if (const auto* n = e.as<Select>()) return std::max(digits_of(n->a, depth + 1), digits_of(n->b, depth + 1));
  const auto* n = e.as<Binary>();
  if (!n) return is_integer(e.type()) ? digits_of_index(e.type()) : digits_of_type(ScalarType::I64);
  const int a = digits_of(n->a, depth + 1), b = digits_of(n->b, depth + 1);
  switch (n->op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return std::max(a, b) + 1;
    case BinaryOp::Mul: return as_int(n->a) || as_int(n->b) ? a + b : std::max(a, b);
    case BinaryOp::Mod: return b;
    case BinaryOp::FloorDiv: return a;
    default: return std::max(a, b);
  }
}

}  // namespace

bool may_wrap(const Expr& e) { return is_integer(e.type()) && digits_of(e, 0) > digits_of_type(e.type()); }

}  // namespace loopgrad::ir
