#include "dsl/ir/interner.h"

#include "dsl/ir/structural_equal.h"

#include <algorithm>

namespace loopgrad::ir {
namespace {

/// Of the node itself and the identity of its operands, which are interned.
std::size_t hash_of(const Expr& e) {
  std::size_t hash = 0;
  const auto mix = [&](std::size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL + (hash >> 29); };
  mix(static_cast<std::size_t>(e.kind()));
  mix(static_cast<std::size_t>(e.type()));
  visit(e, overloaded{
               [&](const IntConst& n) { mix(std::hash<std::int64_t>()(n.value)); },
               [&](const FloatConst& n) { mix(std::hash<double>()(n.value)); },
               [&](const Var& n) { mix(std::hash<std::int64_t>()(n.symbol.id)); },
               [&](const Load& n) { mix(std::hash<std::int64_t>()(n.array->id)); },
               [&](const Unary& n) { mix(static_cast<std::size_t>(n.op)); },
               [&](const Binary& n) { mix(static_cast<std::size_t>(n.op)); },
               [](const auto&) {},
           });
  for_each_child(e, [&](const Expr& child) { mix(std::hash<const void*>()(child.get())); });
  return hash;
}

}  // namespace

Expr Interner::rewrite(const Expr& e) {
  if (const auto found = known_.find(e.get()); found != known_.end()) return found->second;
  Expr result = rewrite_children(e);
  const std::size_t hash = hash_of(result);
  const auto [first, last] = by_hash_.equal_range(hash);
  const auto same = std::find_if(first, last, [&](const auto& entry) { return equal(entry.second, result); });
  if (same != last) result = same->second;
  else by_hash_.emplace(hash, result);
  known_.emplace(e.get(), result);
  known_.emplace(result.get(), result);
  kept_.push_back(e);
  return result;
}

}  // namespace loopgrad::ir
