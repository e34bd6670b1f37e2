#include "dsl/ir/wrapping.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <bit>
#include <set>

namespace loopgrad::ir {

namespace {

constexpr int most_depth = 64;    // of an expression that is looked into
constexpr int many_digits = 128;  // of one that is not

constexpr int digits_of_size = 31;
constexpr int digits_of_factor = 16;  // a number of components, of columns, of neighbours

/// Binary digits of an iterator, a size or an index from data.
int digits_of_index(ScalarType type) {
  switch (type) {
    case ScalarType::I64: return digits_of_size;
    case ScalarType::I32: return 26;
    default: return static_cast<int>(8 * bytes_of(type)) - 1;
  }
}

int digits_of_type(ScalarType type) { return static_cast<int>(8 * bytes_of(type)) - 1; }

/// Of the value, without its sign.
class Digits {
 public:
  /// By the rule of `may_wrap`: products of several sizes and iterators are those of elements that exist; a number as a
  /// factor need not be.
  Digits() = default;
  /// By that of `surely_fits`.
  Digits(const std::function<bool(const Array&)>& is_index, const std::set<Symbol>& large)
      : is_index_(&is_index), large_(&large) {}

  int of(const Expr& e, int depth = 0, bool strict = false) const {
    if (const auto value = as_int(e))
      return static_cast<int>(
          std::bit_width(*value < 0 ? ~static_cast<std::uint64_t>(*value) + 1 : static_cast<std::uint64_t>(*value)));
    if (depth > most_depth) return many_digits;
    const auto digits = [&](const Expr& part) { return of(part, depth + 1, strict); };
    if (const auto* n = e.as<Cast>(); n && is_integer(n->a.type()))
      return std::min(digits(n->a), digits_of_type(n->type));
    if (const auto* n = e.as<Unary>()) return digits(n->a);
    if (const auto* n = e.as<Select>()) return std::max(digits(n->a), digits(n->b));
    const auto* n = e.as<Binary>();
    if (!n) return is_integer(e.type()) ? of_value(e) : digits_of_type(ScalarType::I64);
    if (n->op == BinaryOp::Mul) return of_product(*n, depth, strict);
    const int a = digits(n->a), b = digits(n->b);
    switch (n->op) {
      case BinaryOp::Add:
      case BinaryOp::Sub: return std::max(a, b) + 1;
      case BinaryOp::Mod: return b;
      case BinaryOp::FloorDiv: return a;
      default: return std::max(a, b);
    }
  }

 private:
  /// By the strict rule, what is multiplied by itself, by a large number or by data of any size has no place in an
  /// array, so that all digits count.
  int of_product(const Binary& n, int depth, bool strict) const {
    const bool by_number = as_int(n.a) || as_int(n.b);
    if (is_index_ && by_number) strict |= of(as_int(n.a) ? n.a : n.b) > digits_of_factor;
    const int a = of(n.a, depth + 1, strict), b = of(n.b, depth + 1, strict);
    if (by_number || strict) return a + b;
    return is_index_ && !counts_elements(n.a, n.b) ? a + b : std::max(a, b);
  }

  /// Neither is data or a size of any size, not both are data, and they have nothing in common.
  bool counts_elements(const Expr& a, const Expr& b) const {
    if (has_load(a) && has_load(b)) return false;
    std::set<Symbol> of_a;
    bool result = true;
    const auto look = [&](const Expr& part) {
      const auto* load = part.as<Load>();
      const auto* variable = part.as<Var>();
      result &= (!load || (*is_index_)(load->array)) && !(variable && large_->count(variable->symbol));
      return variable;
    };
    walk(a, [&](const Expr& part) {
      if (const auto* v = look(part)) of_a.insert(v->symbol);
    });
    walk(b, [&](const Expr& part) {
      if (const auto* v = look(part)) result &= !of_a.count(v->symbol);
    });
    return result;
  }

  int of_value(const Expr& e) const {
    const auto* load = e.as<Load>();
    if (!is_index_) return digits_of_index(e.type());
    const int all = digits_of_type(e.type());
    const auto* variable = e.as<Var>();
    const bool counts = variable ? !large_->count(variable->symbol) : load && (*is_index_)(load->array);
    return counts ? std::min(all, digits_of_size) : all;
  }

  const std::function<bool(const Array&)>* is_index_ = nullptr;
  const std::set<Symbol>* large_ = nullptr;
};

}  // namespace

bool may_wrap(const Expr& e) { return is_integer(e.type()) && Digits().of(e) > digits_of_type(e.type()); }

std::set<Symbol> large_symbols(const Program& program, const std::function<bool(const Array&)>& is_index) {
  std::set<Symbol> large(program.sizes.begin(), program.sizes.end());
  // Products of what is moderate are places of elements.
  const auto is_moderate = [&](const Expr& e) {
    bool result = true;
    walk(e, [&](const Expr& part) {
      const bool is_leaf = as_int(part) || part.kind() == Kind::Var || part.kind() == Kind::Load;
      if (is_leaf) result &= !is_integer(part.type()) || Digits(is_index, large).of(part) <= digits_of_size + 1;
    });
    return result;
  };
  // Of `min(n, s)`, where neither is more than a name, one is as large as it likes.
  const auto counts = [&](const Expr& e) {
    walk(e, [&](const Expr& part) {
      const auto* n = part.as<Binary>();
      if (n && n->op == BinaryOp::Min && n->a.as<Var>() && n->b.as<Var>()) return false;
      if (const auto* variable = part.as<Var>()) large.erase(variable->symbol);
      return !n || n->op != BinaryOp::Mod;
    });
  };
  for (const Array& array : program.arrays)
    for (const Expr& extent : array->shape) counts(extent);
  // Loops end: what they count up to is no further than that from where they begin.
  walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* local = s.as<Allocate>())
      for (const Expr& extent : local->array->shape) counts(extent);
    const auto* loop = s.as<For>();
    if (loop && is_moderate(loop->lower)) counts(loop->upper);
  });
  walk_stmts(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (loop && !is_moderate(loop->lower)) large.insert(loop->iterator);
  });
  return large;
}

bool bounds_indices(const Expr& upper, const std::set<Symbol>& large) {
  const std::function<bool(const Array&)> none = [](const Array&) { return false; };
  return Digits(none, large).of(upper) <= digits_of_size + 1;
}

bool surely_fits(const Expr& e, const std::function<bool(const Array&)>& is_index, const std::set<Symbol>& large) {
  return Digits(is_index, large).of(e) <= digits_of_type(e.type());
}

}  // namespace loopgrad::ir
