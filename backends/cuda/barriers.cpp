#include "backends/cuda/barriers.h"

#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

namespace {

void collect(const Stmt& s, const KernelFrame& frame, BlockMemory& memory) {
  if (!s || has_mode(s, LoopMode::Threads)) return;
  if (const auto* a = s.as<Allocate>(); a && !frame.private_arrays.count(a->array))
    (a->array->shape.empty() ? memory.scalars : memory.shared).insert(a->array);
  visit(s, [&](const auto& node) {
    for_each_child(node, overloaded{[](const Expr&) {}, [&](const Stmt& child) { collect(child, frame, memory); }});
  });
}

bool overlap(const std::set<Array>& a, const std::set<Array>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Array& x) { return b.count(x) > 0; });
}

}  // namespace

BlockMemory block_memory(const KernelFrame& frame) {
  BlockMemory memory;
  collect(frame.in_block, frame, memory);
  walk_stmts(frame.root, [&](const Stmt& t) {
    if (!has_mode(t, LoopMode::Threads)) return;
    walk_stmts(t, [&](const Stmt& leaf) {
      if (const auto* a = leaf.as<Assign>(); a && memory.scalars.count(a->array))
        memory.shared_scalars.insert(a->array);
      const auto* r = leaf.as<Reduce>();
      if (r && !r->atomic && memory.scalars.count(r->array)) memory.shared_scalars.insert(r->array);
    });
  });
  memory.shared.insert(memory.shared_scalars.begin(), memory.shared_scalars.end());
  return memory;
}

void Barriers::note(const Array& array, bool write, Touched& touched) const {
  if (frame_.private_arrays.count(array) || (memory_.scalars.count(array) && !memory_.shared_scalars.count(array)))
    return;
  (write ? touched.writes : touched.reads).insert(frame_.aliased.count(array) ? *frame_.aliased.begin() : array);
}

Barriers::Touched Barriers::touched_by(const Expr& e) const {
  Touched touched;
  walk(e, [&](const Expr& x) {
    if (const auto* l = x.as<Load>()) note(l->array, false, touched);
  });
  return touched;
}

Barriers::Touched Barriers::touched_by(const Stmt& s) const {
  Touched touched;
  walk(
      s,
      [&](const Stmt& t) {
        if (const auto* n = t.as<Assign>()) note(n->array, true, touched);
        if (const auto* n = t.as<Reduce>()) note(n->array, true, touched);
      },
      [&](const Expr& x) {
        if (const auto* l = x.as<Load>()) note(l->array, false, touched);
      });
  return touched;
}

void Barriers::before(const Touched& next) {
  if (overlap(next.reads, pending_.writes) || overlap(next.writes, pending_.writes) ||
      overlap(next.writes, pending_.reads))
    wait();
  pending_.reads.insert(next.reads.begin(), next.reads.end());
  pending_.writes.insert(next.writes.begin(), next.writes.end());
}

void Barriers::before_control(std::initializer_list<Expr> decided_by) {
  if (!pending_.writes.empty()) wait();
  for (const Expr& e : decided_by) before(touched_by(e));
}

void Barriers::after_body() {
  if (!pending_.writes.empty() || !pending_.reads.empty()) wait();
}

void Barriers::after_block() {
  if (overlap(pending_.writes, memory_.shared) || overlap(pending_.reads, memory_.shared)) wait();
  pending_ = {};
}

void Barriers::wait() {
  if (!frame_.kernel.threads.empty()) {
    code_.line("__syncthreads();");
    waits_ = true;
  }
  pending_ = {};
}

std::set<Array> Barriers::exchanged() const {
  if (!waits_) return {};
  std::map<Array, int> places;
  walk(
      frame_.root,
      [&](const Stmt& s) {
        if (const auto* n = s.as<Assign>()) ++places[n->array];
        if (const auto* n = s.as<Reduce>()) places[n->array] += 2;  // reads as well
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<Load>()) ++places[load->array];
      });
  std::set<Array> result;
  for (const Array& array : frame_.written)
    if (places[array] > 1) result.insert(array);
  return result;
}

}  // namespace loopgrad::backend
