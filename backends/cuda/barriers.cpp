#include "backends/cuda/barriers.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

namespace {

void collect(const Stmt& s, BlockMemory& memory) {
  if (!s || has_mode(s, LoopMode::Threads)) return;
  if (const auto* a = s.as<Allocate>()) (a->home == Home::Block ? memory.shared : memory.copies).insert(a->array);
  visit(s, [&](const auto& node) {
    for_each_child(node, overloaded{[](const Expr&) {}, [&](const Stmt& child) { collect(child, memory); }});
  });
}

bool any_mentions(const std::vector<Expr>& indices, const std::set<Symbol>& symbols) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
    return std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& s) { return mentions(index, s); });
  });
}

}  // namespace

BlockMemory block_memory(const KernelFrame& frame) {
  BlockMemory memory;
  collect(frame.in_block, memory);
  return memory;
}

void Barriers::note(const Array& array, const std::vector<Expr>& indices, bool write,
                    std::vector<Touch>& touched) const {
  if (memory_.copies.count(array)) return;
  if (frame_.aliased.count(array)) touched.push_back({*frame_.aliased.begin(), {}, write, {}});
  else touched.push_back({array, indices, write, {}});
}

std::vector<Barriers::Touch> Barriers::touched_by(const Expr& e) const {
  std::vector<Touch> touched;
  walk(e, [&](const Expr& x) {
    if (const auto* l = x.as<Load>()) note(l->array, l->indices, false, touched);
  });
  return touched;
}

std::vector<Barriers::Touch> Barriers::touched_by(const Stmt& s) const {
  std::vector<Touch> touched;
  std::set<Symbol> own;
  walk(
      s,
      [&](const Stmt& t) {
        if (const auto* n = t.as<Assign>()) note(n->array, n->indices, true, touched);
        if (const auto* n = t.as<Reduce>()) note(n->array, n->indices, true, touched);
        if (const auto* n = t.as<For>()) own.insert(n->iterator);
        if (const auto* n = t.as<While>()) own.insert(n->iterator);
      },
      [&](const Expr& x) {
        if (const auto* l = x.as<Load>()) note(l->array, l->indices, false, touched);
      });
  for (Touch& touch : touched) touch.own = own;
  return touched;
}

bool Barriers::are_apart(const Touch& a, const Touch& b) const {
  if (std::any_of(a.indices.begin(), a.indices.end(), has_load)) return false;
  if (std::any_of(b.indices.begin(), b.indices.end(), has_load)) return false;
  // A symbol in both must be one value, the same for all threads.
  if (any_mentions(a.indices, b.own) || any_mentions(b.indices, a.own)) return false;
  return a.indices.size() == b.indices.size() && least_.are_apart(a.indices, b.indices);
}

void Barriers::before(const std::vector<Touch>& next) {
  const bool meet = std::any_of(next.begin(), next.end(), [&](const Touch& a) {
    return std::any_of(pending_.begin(), pending_.end(), [&](const Touch& b) {
      return a.array == b.array && (a.writes || b.writes) && !are_apart(a, b);
    });
  });
  if (meet) wait();
  pending_.insert(pending_.end(), next.begin(), next.end());
}

void Barriers::before_control(std::initializer_list<Expr> decided_by) {
  if (std::any_of(pending_.begin(), pending_.end(), [](const Touch& touch) { return touch.writes; })) wait();
  for (const Expr& e : decided_by) before(touched_by(e));
}

void Barriers::after_body() {
  if (!pending_.empty()) wait();
}

void Barriers::after_block() {
  const bool shared = std::any_of(pending_.begin(), pending_.end(),
                                  [&](const Touch& touch) { return memory_.shared.count(touch.array) > 0; });
  if (shared) wait();
  pending_.clear();
}

void Barriers::wait() {
  if (!frame_.kernel.threads.empty()) {
    code_.line("__syncthreads();");
    waits_ = true;
  }
  pending_.clear();
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
