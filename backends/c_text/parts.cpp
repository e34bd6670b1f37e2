#include "backends/c_text/parts.h"

#include "dsl/ir/visit.h"

namespace loopgrad::backend {

using ir::For, ir::LoopMode, ir::Stmt;

Parts::Parts(const ir::Program& emitted) {
  ir::walk_stmts(emitted.body, [&](const Stmt& s) {
    const auto* n = s.as<For>();
    any_threads_ |= n && n->run.threads;
  });
  const auto look = [&](const auto& self, const Stmt& s) -> bool {
    bool found = is_shared(s) || s.as<ir::Contraction>();
    ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& c) { found |= self(self, c); }});
    return has_shared_[s.get()] = found;
  };
  if (!emitted.body) return;
  look(look, emitted.body);
  find(emitted.body, false);
}

bool Parts::is_shared(const Stmt& s) const {
  const auto* n = s.as<For>();
  if (!n) return false;
  return n->mode == LoopMode::Grid || n->run.threads || (!any_threads_ && n->mode == LoopMode::Parallel);
}

bool Parts::is_part(const Stmt& s) const {
  if (is_shared(s) || s.as<ir::Contraction>()) return true;
  return (s.as<For>() || s.as<ir::While>()) && !has_shared_.at(s.get());
}

bool Parts::joins(const Stmt& s) {
  const auto* n = s.as<For>();
  return n && n->run.joins;
}

/// Stores outside of parts.
bool Parts::has_own_statements(const Stmt& s) const {
  if (s.as<ir::Assign>() || s.as<ir::Reduce>()) return true;
  if (is_part(s)) return false;
  bool found = false;
  ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& c) { found |= has_own_statements(c); }});
  return found;
}

/// Whether there is a part in it.
bool Parts::find(const Stmt& s, bool in_rest) {
  if (is_part(s)) {
    if (!joins(s)) all_.push_back(s);
    return true;
  }
  const bool is_rest = !in_rest && (s.as<For>() || s.as<ir::While>()) && has_own_statements(s);
  const std::size_t place = all_.size();
  if (is_rest) all_.push_back(s);
  bool found = false;
  ir::for_each_child(
      s, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& c) { found |= find(c, in_rest || is_rest); }});
  if (is_rest) rests_[s.get()] = all_.size() - place - 1;
  if (found) around_[s.get()] = true;
  return found;
}

}  // namespace loopgrad::backend
