// Scalars that the backward sweep computes again: in place of each read, or once for all reads.
#include "tape/stores.h"
#include "tape/tape_plan.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

/// Whether the only write comes earlier in a scope around the read: whatever the sizes, that is the write it sees. What
/// names a part of a statement is read where it was written, by construction.
bool TapePlan::holds_at(const Array& scalar, const Stmt& site) const {
  const Stmt* writer = sites_.only_writer(scalar);
  if (!writer) return false;
  const Site &from = site_of(*writer), &to = site_of(site);
  if (from.position > to.position) return false;
  return prepared_.named.count(scalar) || sites_.executes_whenever(*writer, site);
}

std::optional<Expr> TapePlan::computed_again(const ir::Load& load, const Stmt& site) {
  if (!holds_at(load.array, site)) return std::nullopt;
  const Stmt& writer = *sites_.only_writer(load.array);
  compute_again_up_to(site_of(writer).position);
  ComputedAgain& again = computed_again_[load.array];
  // A part of a statement takes what the statement would take, from wherever that comes.
  if (!again.local && !again.final && prepared_.named.count(load.array))
    again = again_as(load.array, provide(writer.as<ir::Assign>()->value, writer));
  again.final = true;
  return again.local ? std::optional(ir::load(again.local, {}, load.location)) : std::nullopt;
}

/// Tries all scalars in the order in which they are assigned, so that each finds the earlier ones decided.
void TapePlan::compute_again_up_to(int position) {
  for (auto next = scalars_.upper_bound(tried_up_to_); next != scalars_.end() && next->first <= position; ++next) {
    const Array& scalar = next->second;
    tried_up_to_ = next->first;
    const Stmt& writer = *sites_.only_writer(scalar);
    int& work = work_in_body_[sites_.body_around(writer).get()];
    int budget = std::min(longest_assignment, most_in_body - work);
    const int before = budget;
    const auto again = from_computed_again(writer.as<ir::Assign>()->value, writer, budget);
    if (!again) continue;
    work += before - budget;
    computed_again_[scalar] = again_as(scalar, *again);
  }
}

TapePlan::ComputedAgain TapePlan::again_as(const Array& scalar, const Expr& value) {
  const Stmt& writer = *sites_.only_writer(scalar);
  const Site& from = site_of(writer);
  ComputedAgain result;
  result.local = ir::make_array(scalar->name, scalar->type, {}, ArrayRole::Local, scalar->location);
  result.assignment = ir::assign(result.local, {}, value, writer->location);
  result.position = from.position;
  // What names a part that is not always evaluated is assigned under a condition of its own.
  const bool guarded = prepared_.named.count(scalar) && !from.scopes.empty() &&
                       from.scopes.back().kind() == ir::Kind::If &&
                       site_of(sites_.allocation(scalar)).scopes.size() < from.scopes.size();
  if (guarded) {
    const Stmt& branch = from.scopes.back();
    result.assignment = ir::if_then(provide_condition(branch), result.assignment, {}, writer->location);
    result.body = sites_.body_around(branch).get();
  } else {
    result.body = sites_.body_around(writer).get();
  }
  return result;
}

/// Like without_tape(), with scalars that the sweep computes again.
std::optional<Expr> TapePlan::from_computed_again(const Expr& value, const Stmt& site, int& budget) {
  std::map<Array, Expr> scalars;  // stand-ins, and what they stand for in the backward sweep
  bool ok = true;
  const Expr with_stand_ins = ir::rewrite(value, [&](const Expr& e) -> std::optional<Expr> {
    const auto* load = e.as<ir::Load>();
    if (!load || !holds_at(load->array, site)) return std::nullopt;
    int small = std::min(budget, short_recomputation);
    const int before = small;
    std::optional<Expr> again = recomputed(*load, site, small);
    budget -= again ? before - small : 0;
    if (const auto known = computed_again_.find(load->array); !again && known != computed_again_.end())
      if (known->second.local) again = ir::load(known->second.local, {}, load->location);
    if (!again) return ok = false, e;
    const Array stand_in = ir::make_array(load->array->name, load->array->type, {}, ArrayRole::Local, load->location);
    scalars.emplace(stand_in, *again);
    return ir::load(stand_in, {}, load->location);
  });
  const auto result = ok ? without_tape(with_stand_ins, site, budget) : std::nullopt;
  if (!result) return std::nullopt;
  return ir::rewrite(*result, [&](const Expr& e) -> std::optional<Expr> {
    const auto* load = e.as<ir::Load>();
    const auto found = load ? scalars.find(load->array) : scalars.end();
    return found == scalars.end() ? std::nullopt : std::optional(found->second);
  });
}

Stmt TapePlan::with_computed_again(const Stmt& body, const Stmt& sweep) {
  if (ir::is_empty(sweep)) return sweep;
  std::map<int, const ComputedAgain*> by_position;
  for (const auto& [array, again] : computed_again_)
    if (again.local && again.body == body.get()) by_position[again.position] = &again;
  std::set<Array> read;
  const auto note_reads = [&](const Stmt& s) {
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) read.insert(load->array);
        });
  };
  note_reads(sweep);
  std::vector<const ComputedAgain*> here;
  for (auto next = by_position.rbegin(); next != by_position.rend(); ++next) {
    if (!read.count(next->second->local)) continue;
    note_reads(next->second->assignment);
    here.insert(here.begin(), next->second);
  }
  if (here.empty()) return sweep;
  std::vector<Stmt> all;
  for (const ComputedAgain* again : here) all.push_back(again->assignment);
  all.push_back(sweep);
  Stmt result = ir::block(std::move(all));
  for (auto again = here.rbegin(); again != here.rend(); ++again)
    result = ir::allocate((*again)->local, result, (*again)->local->location);
  return result;
}

}  // namespace loopgrad::tape
