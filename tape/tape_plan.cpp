#include "tape/tape_plan.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "tape/guarded_loads.h"
#include "tape/stores.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;
using poly::ask;

TapePlan::TapePlan(const Prepared& prepared, Report& report)
    : prepared_(prepared),
      report_(report),
      extents_(prepared.program, !prepared.is_part, prepared.taken),
      sites_(prepared.program.body),
      values_(
          sites_, extents_, prepared.named,
          [this](const ir::Load& load, const Stmt& site) { return is_overwritten(load, site); },
          [this](const ir::Load& load, const Stmt& site) { return storage_of(load, site); }) {
  primal_.insert(prepared.program.arrays.begin(), prepared.program.arrays.end());
  // Gradients have their names, too: of a gradient, `d_x_kept` may be the gradient of the array `x_kept`.
  for (const Array& array : prepared.program.arrays) names_.insert({array->name, "d_" + array->name});
  for (const auto& [array, allocation] : sites_.allocations()) {
    primal_.insert(array);
    names_.insert(array->name);
  }
  names_.insert(prepared.taken.begin(), prepared.taken.end());
  build_model();
}

void TapePlan::build_model() {
  try {
    model_ = poly::build_model(prepared_.program, prepared_.program.body, std::make_shared<poly::Context>());
  } catch (const poly::BudgetError&) {
    report_.remarks.push_back(
        {"the polyhedral model exceeds isl's operation budget: every value that is ever overwritten "
         "is saved where it is read",
         prepared_.program.location});
    return;
  }
  for (int i = 0; i < static_cast<int>(model_->statements.size()); ++i) {
    if (Site* site = sites_.find(model_->statements[i].stmt)) site->model_index = i;
  }
}

/// All reads of the element by the statement as one access: under a select the model knows each only where it happens.
std::optional<poly::Access> TapePlan::find_access(const ir::Load& load, const Site& site) const {
  if (!model_ || site.model_index < 0) return std::nullopt;
  const std::optional<poly::Access> unknown;
  return ask(*model_, unknown, [&] {
    std::optional<poly::Access> result;
    for (const poly::Access& access : model_->statements[site.model_index].accesses) {
      if (access.kind != poly::AccessKind::Read || access.array != load.array ||
          !ir::equal(access.indices, load.indices))
        continue;
      if (!result) {
        result = access;
        continue;
      }
      result->relation = result->relation.unite(access.relation);
      result->exact = result->exact && access.exact;
    }
    return result;
  });
}

const poly::Access* TapePlan::find_write(const Site& site) const {
  if (!model_ || site.model_index < 0) return nullptr;
  for (const poly::Access& access : model_->statements[site.model_index].accesses)
    if (access.kind != poly::AccessKind::Read) return &access;
  return nullptr;
}

TapePlan::Asked& TapePlan::asked(const ir::Load& load, const Stmt& site) {
  std::list<Asked>& known = asked_[site.get()];
  for (Asked& question : known)
    if (question.read.as<ir::Load>()->array == load.array &&
        ir::equal(question.read.as<ir::Load>()->indices, load.indices))
      return question;
  known.push_back({ir::load(load.array, load.indices), {}, {}});
  return known.back();
}

bool TapePlan::is_overwritten(const ir::Load& load, const Stmt& site) {
  if (!sites_.is_written(load.array)) return false;
  std::optional<bool>& known = asked(load, site).overwritten;
  if (known) return *known;
  const Site& where = site_of(site);
  const auto access = find_access(load, where);
  known = !access || ask(*model_, true, [&] { return poly::may_be_overwritten(*model_, where.model_index, *access); });
  return *known;
}

void TapePlan::decide_for(const std::function<void()>& ask_for_all) {
  collecting_ = true;
  ask_for_all();
  collecting_ = false;
  values_.decide();
}

Expr TapePlan::provide(const Expr& e, const Stmt& site, const Expr& guard) {
  if (collecting_) return values_.need(e, site, false), e;
  return rewrite_loads(
      e,
      [&](const Expr& load, const Expr& when) -> std::optional<Expr> {
        if (!primal_.count(load.as<ir::Load>()->array)) return std::nullopt;
        return supply(load, site, when);
      },
      guard);
}

Expr TapePlan::provide(const Expr& e, const Stmt& site) { return provide(e, site, {}); }

Stmt TapePlan::provide(const Stmt& adjoint, const Stmt& site, const Expr& guard) {
  if (collecting_) return values_.need(adjoint, site), adjoint;
  return rewrite_loads(
      adjoint,
      [&](const Expr& load, const Expr& when) -> std::optional<Expr> {
        if (!primal_.count(load.as<ir::Load>()->array)) return std::nullopt;
        return supply(load, site, when);
      },
      guard);
}

std::vector<Expr> TapePlan::provide_all(const std::vector<Expr>& list, const Stmt& site, const Expr& guard) {
  std::vector<Expr> result;
  for (const Expr& e : list) result.push_back(provide(e, site, guard));
  return result;
}

Expr TapePlan::provide_condition(const Stmt& site) {
  const Expr& condition = site.as<ir::If>()->condition;
  if (collecting_) return values_.need_condition(site), condition;
  int budget = longest_recomputation;
  if (auto direct = without_tape(condition, site, budget)) return *direct;
  if (values_.is_condition_computed_again(site)) return provide(condition, site);
  auto& saved = saved_controls_[site.get()];
  if (!saved)
    saved = from_reader(condition, "branch", site, {}, "the branch depends on values that are overwritten later");
  return saved;
}

Expr TapePlan::provide_taken(const Stmt& site) {
  const auto& n = *site.as<ir::Reduce>();
  if (collecting_) {
    if (keeps_intermediate_extrema_secret(n) && stored_value(site)) values_.need(n.value, site, true);
    return takes_operand(n);
  }
  auto& saved = saved_controls_[site.get()];
  if (saved) return saved;
  if (keeps_intermediate_extrema_secret(n)) {
    if (const auto final_value = stored_value(site)) {
      saved = ir::binary(ir::BinaryOp::Eq, provide(n.value, site), *final_value);
      return saved;
    }
  }
  saved = from_reader(takes_operand(n), n.array->name + "_taken", site, {}, "whether this line changed the extremum");
  return saved;
}

/// Every read of the array sees the final value, and nothing but the same operation follows: then `operand == final
/// value` tells which operand was taken.
bool TapePlan::keeps_intermediate_extrema_secret(const ir::Reduce& n) {
  if (!model_) return false;
  for (const Stmt& writer : sites_.writers(n.array)) {
    const auto* other = writer.as<ir::Reduce>();
    if (ir::are_in_different_planes(n.indices, stored_indices(writer))) continue;
    if (other && other->op == n.op) continue;
    const Site& where = site_of(writer);
    const poly::Access* write = find_write(where);
    // An Assign must not come after one of the Reduces.
    if (other || !write) return false;
    for (const Stmt& earlier : sites_.writers(n.array)) {
      if (earlier.kind() != ir::Kind::Reduce) continue;
      const Site& reducing = site_of(earlier);
      const bool resets = ask(*model_, true, [&] {
        return poly::may_follow(*model_, reducing.model_index, *find_write(reducing), where.model_index, *write);
      });
      if (resets) return false;
    }
  }
  for (int i = 0; i < static_cast<int>(model_->statements.size()); ++i) {
    for (const poly::Access& access : model_->statements[i].accesses) {
      if (access.kind != poly::AccessKind::Read || access.array != n.array) continue;
      if (ir::are_in_different_planes(n.indices, access.indices)) continue;
      if (ask(*model_, true, [&] { return poly::may_be_overwritten(*model_, i, access); })) return false;
    }
  }
  return true;
}

Expr TapePlan::provide_trips(const Stmt& site) {
  if (collecting_) return ir::int_const(0);
  auto& saved = saved_controls_[site.get()];
  if (saved) return saved;
  const auto& loop = *site.as<ir::While>();
  const std::vector<Stmt> loops = extents_.dimensions(site_of(site).loops);
  const Array tape = new_tape(loop.iterator.name + "_trips", ScalarType::I64, loops, {}, loop.location);
  const std::vector<Expr> index = tape_index(loops);
  additions_.before[site.get()].push_back(ir::assign(tape, index, ir::int_const(0), loop.location));
  additions_.at_body_start[site.get()].push_back(
      ir::assign(tape, index, ir::var(loop.iterator) + ir::int_const(1), loop.location));
  saved = ir::load(tape, index);
  note(ir::var(loop.iterator), loop.location, "tape (reader's index)", saved, tape, "trip count of a while loop");
  return saved;
}

std::optional<Expr> TapePlan::stored_value(const Stmt& site) {
  const Array& array = *stored_array(site);
  const Site& where = site_of(site);
  const poly::Access* write = find_write(where);
  if (!write) return std::nullopt;
  const bool extremum = site.kind() == ir::Kind::Reduce;  // then the caller has looked at later writes
  if (!extremum && ask(*model_, true, [&] { return poly::may_be_written_after(*model_, where.model_index, *write); }))
    return array->on_tape == ir::TapeChoice::Recomputed ? std::nullopt : from_own_tape(site);
  if (array->role == ArrayRole::Local) {
    const Expr result = ir::load(array, stored_indices(site));
    if (collecting_) {
      if (!values_.need_final(array, extremum)) return std::nullopt;
      for (const Expr& index : stored_indices(site)) values_.need(index, site, true);
      return result;
    }
    if (values_.is_computed_again(array)) return ir::load(twin(array), provide_all(stored_indices(site), site));
    const auto known = additions_.kept.find(array);
    // For the sake of a cheaper rule alone a large array is not worth keeping; an extremum costs a tape otherwise.
    const bool may_keep = array->on_tape != ir::TapeChoice::Recomputed;
    const bool worth = may_keep && (extremum || (array->shape.empty() && values_.is_saved(array)));
    const KeptArray* kept = known != additions_.kept.end() ? &known->second : worth ? keep(array) : nullptr;
    if (!kept) return std::nullopt;
    return ir::load(kept->tape, concatenate(kept->leading, provide_all(stored_indices(site), site)));
  }
  const Expr value = ir::load(array, provide_all(stored_indices(site), site));
  note(ir::load(array, stored_indices(site)), site->location, "direct", {}, {},
       "the result of this line is still in the array, so it is not computed again");
  return value;
}

/// A statement like `v = tanh(a*v + b)` needs the `v` it reads, to compute its result again or for the derivative by
/// `a`; when that comes from the tape of this very statement, one iteration earlier, its result is on that tape too.
std::optional<Expr> TapePlan::from_own_tape(const Stmt& site) {
  const auto* assign = site.as<ir::Assign>();
  if (!assign) return std::nullopt;
  bool guarded = false;  // a read under a select may be out of bounds
  std::vector<Expr> own_reads;
  ir::walk(assign->value, [&](const Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (load && load->array == assign->array) own_reads.push_back(e);
    guarded |= e.kind() == ir::Kind::Select;
  });
  if (guarded) return std::nullopt;
  for (const Expr& read : own_reads) provide(read, site);
  const auto tape = writer_tapes_.find(site.get());
  if (tape == writer_tapes_.end()) return std::nullopt;
  return ir::load(tape->second, writer_tape_index(site), site->location);
}

bool TapePlan::adjoint_is_read_later(const Stmt& site) {
  const Array& array = *stored_array(site);
  if (array->role == ArrayRole::InOut && prepared_.request.wants(array)) return true;
  const Site& where = site_of(site);
  const poly::Access* write = find_write(where);
  if (!write) return true;
  return ask(*model_, true, [&] { return poly::may_be_written_before(*model_, where.model_index, *write); });
}

}  // namespace loopgrad::tape
