// Locals that the backward sweep computes again: in place of each read, or once for all reads.
#include "tape/guarded_loads.h"
#include "tape/tape_plan.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

/// A copy of a body of the primal program with the statements only that give some of its locals their values, in terms
/// of the backward sweep.
class AgainStatements {
 public:
  AgainStatements(TapePlan& plan, const std::set<Array>& locals) : plan_(plan) {
    for (const Array& local : locals) {
      const Slice& slice = plan.values_.slice_of(local);
      twins_[local] = plan.twin(local);
      for (const Array& inner : slice.inner)
        twins_[inner] = ir::make_array(inner->name, inner->type, inner->shape, ArrayRole::Local, inner->location);
      for (const Stmt& s : slice.statements) wanted_.insert(s.get());
    }
    for (const Array& local : locals) own_.insert(local);
  }

  Stmt copy(const Stmt& s) {
    return ir::visit(
        s, ir::overloaded{
               [&](const ir::Block& n) {
                 std::vector<Stmt> all;
                 for (const Stmt& child : n.body)
                   if (const Stmt part = copy(child); !ir::is_empty(part)) all.push_back(part);
                 return ir::block(std::move(all));
               },
               [&](const ir::For& n) {
                 const Stmt body = copy(n.body);
                 if (ir::is_empty(body)) return body;
                 const Stmt loop = ir::for_loop(n.iterator, provide(n.lower, s), provide(n.upper, s), body, n.mode,
                                                n.location, n.at_most);
                 return plan_.extents().knows(s) ? with_lower_local(loop, plan_.extents().of(s)) : loop;
               },
               [&](const ir::If& n) {
                 const Stmt then_part = copy(n.then_body), else_part = n.else_body ? copy(n.else_body) : ir::block({});
                 if (ir::is_empty(then_part) && ir::is_empty(else_part)) return ir::block({});
                 return ir::if_then(condition(s), then_part, ir::is_empty(else_part) ? Stmt{} : else_part, n.location);
               },
               [&](const ir::Allocate& n) {
                 const Stmt body = copy(n.body);
                 const bool is_inner = twins_.count(n.array) && !own_.count(n.array);
                 return is_inner && !ir::is_empty(body) ? ir::allocate(twins_.at(n.array), body, n.location) : body;
               },
               [&](const ir::Assign& n) {
                 if (!wanted_.count(s.get())) return ir::block({});
                 return ir::assign(twins_.at(n.array), provide(n.indices, s), provide(n.value, s), n.location);
               },
               [&](const ir::Reduce& n) {
                 if (!wanted_.count(s.get())) return ir::block({});
                 return ir::reduce_like(n, twins_.at(n.array), provide(n.indices, s), provide(n.value, s));
               },
               [&](const auto&) { return ir::block({}); },
           });
  }

 private:
  Expr condition(const Stmt& branch) {
    if (is_computed_along(branch)) return provide(branch.as<ir::If>()->condition, branch);
    if (!plan_.values_.is_condition_computed_again(branch)) return plan_.provide_condition(branch);
    int budget = TapePlan::longest_recomputation;
    const Expr& condition = branch.as<ir::If>()->condition;
    const auto inlined = plan_.without_tape(condition, branch, budget);
    return inlined ? *inlined : provide(condition, branch);
  }

  /// No slice has it apart: see slices.h.
  bool is_computed_along(const Stmt& branch) const {
    return std::none_of(own_.begin(), own_.end(), [&](const Array& local) {
      const std::vector<Stmt>& apart = plan_.values_.slice_of(local).branches;
      return std::any_of(apart.begin(), apart.end(), [&](const Stmt& other) { return other.same_as(branch); });
    });
  }

  std::vector<Expr> provide(const std::vector<Expr>& list, const Stmt& site) {
    std::vector<Expr> result;
    for (const Expr& e : list) result.push_back(provide(e, site));
    return result;
  }

  /// Values that change in the copy are read there as they are at the time.
  Expr provide(const Expr& e, const Stmt& site) {
    return rewrite_loads(e, [&](const Expr& read, const Expr& when) -> std::optional<Expr> {
      const ir::Load& load = *read.as<ir::Load>();
      if (!plan_.primal_.count(load.array)) return std::nullopt;
      const auto twin = twins_.find(load.array);
      const bool changes =
          twin != twins_.end() && (!own_.count(load.array) || !plan_.sites_.is_final_at(load.array, site));
      if (changes) return ir::load(twin->second, provide(load.indices, site), load.location);
      return with_own_twins(plan_.supply(read, site, when));
    });
  }

  /// Indices of what is supplied may read locals of loops of the copy, which the sweep computes again as well: not
  /// here.
  Expr with_own_twins(const Expr& supplied) const {
    return ir::rewrite(supplied, [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!load) return std::nullopt;
      for (const auto& [local, twin] : twins_) {
        const auto in_sweep = plan_.twins_.find(local);
        if (own_.count(local) || in_sweep == plan_.twins_.end() || in_sweep->second != load->array) continue;
        std::vector<Expr> indices;
        for (const Expr& index : load->indices) indices.push_back(with_own_twins(index));
        return ir::load(twin, std::move(indices), load->location);
      }
      return std::nullopt;
    });
  }

  TapePlan& plan_;
  std::map<Array, Array> twins_;
  std::set<Array> own_;  // the others are inside of loops of the copy
  std::set<const ir::StmtNode*> wanted_;
};

/// Whether the only write comes earlier in a scope around the read: whatever the sizes, that is the write it sees. What
/// names a part of a statement is read where it was written, by construction.
bool TapePlan::holds_at(const Array& scalar, const Stmt& site) const {
  const Stmt* writer = sites_.only_writer(scalar);
  if (!writer) return false;
  if (site_of(*writer).position > site_of(site).position) return false;
  return prepared_.named.count(scalar) || sites_.executes_whenever(*writer, site);
}

const Array& TapePlan::twin(const Array& local) {
  Array& result = twins_[local];
  if (!result) result = ir::make_array(local->name, local->type, local->shape, ArrayRole::Local, local->location);
  return result;
}

std::optional<Expr> TapePlan::computed_again(const ir::Load& load, const Stmt& site, const Expr& guard) {
  // A part of a statement has got its name because terms of the adjoint would repeat it.
  const bool read_again = sites_.read_count(load.array) > 1 || prepared_.named.count(load.array);
  int budget = read_again ? short_recomputation : longest_recomputation;
  if (!values_.is_saved(load.array))
    if (const auto inlined = recomputed(load, site, budget)) return inlined;
  if (!values_.is_computed_again(load.array) || !values_.is_final_at(load, site)) return std::nullopt;
  return ir::load(twin(load.array), provide_all(load.indices, site, guard), load.location);
}

Stmt TapePlan::with_computed_again(const Stmt& body, const Stmt& sweep) {
  if (collecting_ || ir::is_empty(sweep)) return sweep;
  const std::vector<Array> candidates = values_.computed_again_in(body);
  if (candidates.empty()) return sweep;
  std::set<Array> needed, read;
  const auto note_reads = [&](const Stmt& s) {
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) read.insert(load->array);
        });
  };
  note_reads(sweep);
  Stmt again = ir::block({});
  for (bool grows = true; grows;) {
    grows = false;
    for (const Array& local : candidates) {
      const auto there = twins_.find(local);
      if (there != twins_.end() && read.count(there->second)) grows |= needed.insert(local).second;
    }
    if (!grows) break;
    again = AgainStatements(*this, needed).copy(body);
    note_reads(again);
  }
  if (needed.empty()) return sweep;
  Stmt result = ir::block({ir::with_fresh_names(again), sweep});
  for (auto local = candidates.rbegin(); local != candidates.rend(); ++local)
    if (needed.count(*local)) result = ir::allocate(twin(*local), result, (*local)->location);
  return result;
}

}  // namespace loopgrad::tape
