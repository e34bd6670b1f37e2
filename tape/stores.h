// Small questions about statements that several files of the tape ask.
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::tape {

/// The array that an Assign or Reduce stores to; null for other statements.
inline const ir::Array* stored_array(const ir::Stmt& s) {
  if (const auto* a = s.as<ir::Assign>()) return &a->array;
  if (const auto* r = s.as<ir::Reduce>()) return &r->array;
  return nullptr;
}

inline const std::vector<ir::Expr>& stored_indices(const ir::Stmt& s) {
  if (const auto* a = s.as<ir::Assign>()) return a->indices;
  return s.as<ir::Reduce>()->indices;
}

/// The parts that Assign and Reduce share.
struct Store {
  ir::Array array;
  std::vector<ir::Expr> indices;
  ir::Expr value;
  SourceLocation location;
  bool overwrites = false;  // Assign
};

/// Of an Assign or a Reduce.
inline Store store_of(const ir::Stmt& s) {
  if (const auto* a = s.as<ir::Assign>()) return {a->array, a->indices, a->value, a->location, true};
  const auto* r = s.as<ir::Reduce>();
  return {r->array, r->indices, r->value, r->location, false};
}

inline std::vector<ir::Expr> concatenate(std::vector<ir::Expr> a, const std::vector<ir::Expr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline const ir::Symbol& iterator_of(const ir::Stmt& loop) {
  if (const auto* f = loop.as<ir::For>()) return f->iterator;
  return loop.as<ir::While>()->iterator;
}

inline bool is_loop(const ir::Stmt& s) { return s.kind() == ir::Kind::For || s.kind() == ir::Kind::While; }

}  // namespace loopgrad::tape
