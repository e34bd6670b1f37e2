#include "backends/runtime/size_checks.h"

#include "backends/runtime/solve_sizes.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <set>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// Whether `try_evaluate` can fail on it for one reason only: that it overflows. Constants need no check.
bool can_overflow(const Expr& e, const std::set<Symbol>& sizes) {
  bool of_sizes = true, varies = false;
  walk(e, [&](const Expr& x) {
    if (const auto* v = x.as<Var>()) {
      of_sizes &= sizes.count(v->symbol) > 0;
      varies = true;
    } else if (const auto* u = x.as<Unary>()) {
      of_sizes &= u->op == UnaryOp::Neg || u->op == UnaryOp::Abs || u->op == UnaryOp::Not;
    } else if (const auto* b = x.as<Binary>()) {
      const bool divides = b->op == BinaryOp::FloorDiv || b->op == BinaryOp::Mod;
      const auto divisor = as_int(b->b);
      of_sizes &= !divides || (divisor && *divisor > 0);
      of_sizes &= b->op != BinaryOp::Div && b->op != BinaryOp::Pow && b->op != BinaryOp::Atan2;
      varies = true;
    } else {
      of_sizes &= x.kind() == Kind::IntConst || x.kind() == Kind::Select || x.kind() == Kind::Cast;
    }
    of_sizes &= !is_float(x.type());
  });
  return of_sizes && varies;
}

}  // namespace

SizeChecks::SizeChecks(const Program& program) : program_(program.name) {
  const std::set<Symbol> sizes(program.sizes.begin(), program.sizes.end());
  walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* loop = s.as<For>()) {
      for (const Expr& bound : {loop->lower, loop->upper})
        if (bound.kind() != Kind::Var && can_overflow(bound, sizes))
          bounds_.push_back({bound, loop->iterator.name, loop->location});
    } else if (const auto* a = s.as<Allocate>()) {
      Local local{a->array, {}};
      for (const Expr& extent : a->array->shape)
        if (as_int(extent) || can_overflow(extent, sizes)) local.extents.push_back(extent);
      if (!local.extents.empty()) locals_.push_back(std::move(local));
    }
  });
}

void SizeChecks::refuse(const std::string& message, const std::string& loop, const std::string& array,
                        const SourceLocation& location) const {
  throw UsageError({.code = ErrorCode::BadSize,
                    .message = message,
                    .program = program_,
                    .loop = loop,
                    .array = array,
                    .hint = "use smaller sizes",
                    .location = location});
}

WrittenBounds::WrittenBounds(const Program& program) {
  const std::set<Symbol> sizes(program.sizes.begin(), program.sizes.end());
  std::set<Symbol> extents;  // arrays in memory are never that long
  for (const Array& array : program.arrays)
    for (const Expr& extent : array->callers_shape())
      if (const auto* v = extent.as<Var>()) extents.insert(v->symbol);
  const auto add = [&](const Bound& bound) {
    const auto* v = bound.value.as<Var>();
    if (v && (extents.count(v->symbol) || !bound.is_counted)) return;
    const bool known = std::any_of(bounds_.begin(), bounds_.end(), [&](const Bound& other) {
      return other.is_counted == bound.is_counted && equal(other.value, bound.value);
    });
    if (!known && can_overflow(bound.value, sizes)) bounds_.push_back(bound);
  };
  walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* loop = s.as<For>()) {
      for (const Expr& bound : {loop->lower, loop->upper}) add({bound, loop->iterator.name, loop->location});
    } else if (const auto* repeated = s.as<While>()) {
      add({repeated->max_trips, repeated->iterator.name, repeated->location, false});
    }
  });
}

void WrittenBounds::check(const SizeValues& sizes, const std::string& name) const {
  for (const Bound& bound : bounds_) {
    const auto value = try_evaluate(bound.value, sizes);
    if (value && (!bound.is_counted || (*value >= -furthest_bound && *value <= furthest_bound))) continue;
    const std::string what = value ? fmt::format("is {}, further from zero than {}", *value, furthest_bound)
                                   : std::string("does not fit in 64 bits");
    throw UsageError({.code = ErrorCode::BadSize,
                      .message = fmt::format("the bound {} {}", print(bound.value), what),
                      .program = name,
                      .loop = bound.loop,
                      .hint = "use smaller sizes",
                      .location = bound.location});
  }
}

void SizeChecks::check(const SizeValues& sizes) const {
  for (const Bound& bound : bounds_)
    if (!try_evaluate(bound.value, sizes))
      refuse(fmt::format("the bound {} does not fit in 64 bits", print(bound.value)), bound.loop, "", bound.location);
  for (const Local& local : locals_) {
    auto bytes = static_cast<std::int64_t>(bytes_of(local.array->type));
    bool fits = true, empty = false;
    for (const Expr& extent : local.extents) {
      const auto value = try_evaluate(extent, sizes);
      if (!value)
        refuse(fmt::format("the extent {} does not fit in 64 bits", print(extent)), "", local.array->name,
               local.array->location);
      empty |= *value <= 0;
      fits &= !__builtin_mul_overflow(bytes, *value, &bytes);
    }
    if (!fits && !empty)
      refuse("the bytes of this local array do not fit in 64 bits", "", local.array->name, local.array->location);
  }
}

}  // namespace loopgrad::backend
