#include "transforms/map/gpu/shared_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// True when the loop or anything inside binds one of the symbols, or stores to an array, that `e` depends on.
bool varies_inside(const Stmt& loop, const Expr& e) {
  bool varies = false;
  ir::walk_stmts(loop, [&](const Stmt& s) {
    if (const auto* f = s.as<ir::For>()) varies |= mentions(e, f->iterator);
    if (const auto* w = s.as<ir::While>()) varies |= mentions(e, w->iterator);
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>&) { varies |= uses(e, array); });
  });
  return varies;
}

/// Whether every trip of a loop with this body executes a Reduce on the array.
bool always_sums(const Stmt& body, const ir::Array& array) {
  if (const auto* r = body.as<ir::Reduce>()) return r->array == array;
  if (const auto* a = body.as<ir::Allocate>()) return always_sums(a->body, array);
  if (const auto* b = body.as<ir::Block>())
    return std::any_of(b->body.begin(), b->body.end(), [&](const Stmt& s) { return always_sums(s, array); });
  return false;
}

/// Whether the loop may load the element that it sums into, by its value or in the index of another one.
bool may_load(const Stmt& loop, const SharedSum& sum) {
  std::vector<const ir::For*> loops;
  bool may = false;
  ir::walk(
      loop,
      [&](const Stmt& s) {
        if (const auto* inner = s.as<ir::For>()) loops.push_back(inner);
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || load->array != sum.array) return;
        may |= !surely_differ(load->indices, sum.indices) && !passes_by(load->indices, sum.indices, loops);
      });
  return may;
}

/// Whether there is such an element, which numbers choose of so many, or loops around that go through all of them, and
/// no iteration of a parallel one has another's.
bool exists_in_each_iteration(const Stmt& body, const Stmt& loop, const SharedSum& sum) {
  const auto around = loops_around(body, loop);
  if (!around) return false;
  std::set<ir::Symbol> chosen;
  for (std::size_t k = 0; k < sum.indices.size(); ++k) {
    const Expr& extent = sum.array->shape[k];
    if (const auto index = ir::as_int(sum.indices[k])) {
      if (*index < 0 || *index >= ir::as_int(extent).value_or(0)) return false;
      continue;
    }
    const auto* variable = sum.indices[k].as<ir::Var>();
    const bool goes_through_all = variable && std::any_of(around->begin(), around->end(), [&](const Stmt& s) {
                                    const auto* one = s.as<ir::For>();
                                    return one && one->iterator == variable->symbol && ir::as_int(one->lower) == 0 &&
                                           ir::equal(one->upper, extent);
                                  });
    if (!goes_through_all) return false;
    chosen.insert(variable->symbol);
  }
  return std::all_of(around->begin(), around->end(), [&](const Stmt& s) {
    return !is_parallel_loop(s) || chosen.count(s.as<ir::For>()->iterator) > 0;
  });
}

/// Whether data decide if a trip sums. What sizes decide is the same in all of a loop: such a sum is like one without a
/// condition, of which there may be better ways than to share it out.
bool data_decide(const Stmt& loop, const ir::Array& array) {
  bool decide = false;
  ir::walk_stmts(loop, [&](const Stmt& s) {
    const auto* branch = s.as<ir::If>();
    decide = decide || (branch && has_load(branch->condition) && uses(s, array));
  });
  return decide;
}

/// The one element that the loop sums into, if there is only one and it can be summed up apart. Where no trip need sum,
/// it must be one of `own`, or be there in any case.
std::optional<SharedSum> only_sum(const Stmt& body, const Stmt& loop, const ir::Array& array,
                                  const std::vector<OwnElement>& own) {
  std::optional<SharedSum> sum;
  bool fits = array->type == value_type(array->type) && array->type != ScalarType::Bool;
  ir::walk_stmts(loop, [&](const Stmt& s) {
    const auto* r = s.as<ir::Reduce>();
    for_each_store(s, [&](const ir::Array& stored, const std::vector<Expr>& indices) {
      if (stored != array) return;
      fits &= r && !r->atomic;
      if (fits && !sum) sum = SharedSum{array, indices, r->op, r->location};
      fits = fits && r->op == sum->op && ir::equal(indices, sum->indices);
    });
  });
  if (!fits || !sum || may_load(loop, *sum)) return std::nullopt;
  for (const Expr& index : sum->indices)
    if (varies_inside(loop, index)) return std::nullopt;
  const bool known = std::any_of(own.begin(), own.end(), [&](const OwnElement& e) { return e.is_target_of(*sum); });
  if (known || always_sums(loop.as<ir::For>()->body, array)) return sum;
  const bool is_one = std::all_of(sum->indices.begin(), sum->indices.end(),
                                  [](const Expr& index) { return ir::as_int(index).has_value(); });
  if ((!is_one && !data_decide(loop, array)) || !exists_in_each_iteration(body, loop, *sum)) return std::nullopt;
  return sum;
}

}  // namespace

bool OwnElement::is_target_of(const SharedSum& sum) const {
  return array == sum.array && ir::equal(indices, sum.indices);
}

std::optional<std::vector<SharedSum>> shared_sums(const Analysed& program, const Stmt& loop,
                                                  const std::vector<OwnElement>& own) {
  if (is_parallel_loop(loop)) return std::vector<SharedSum>{};
  if (ir::uses_stack(loop) || !bounds_stay(program, loop).ok) return std::nullopt;
  std::vector<SharedSum> sums;
  try {
    for (const poly::Conflict& conflict : program.analyses.carried_by(program, loop, poly::Search::UntilNotASum)) {
      if (!conflict.sum || conflict.a->array != conflict.b->array) return std::nullopt;
      const ir::Array& array = conflict.a->array;
      if (std::any_of(sums.begin(), sums.end(), [&](const SharedSum& s) { return s.array == array; })) continue;
      const auto sum = only_sum(program->body, loop, array, own);
      if (!sum) return std::nullopt;
      sums.push_back(*sum);
    }
  } catch (const poly::BudgetError&) {
    return std::nullopt;
  }
  return sums;
}

std::optional<std::vector<SharedSum>> shared_sums(const Analysed& program, const Stmt& loop) {
  std::vector<OwnElement> scalars;
  ir::walk_stmts(loop, [&](const Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    if (sum && sum->indices.empty()) scalars.push_back({sum->array, {}});
  });
  return shared_sums(program, loop, scalars);
}

PartialSums redirect_sums(const std::vector<SharedSum>& sums, const Stmt& body, const char* suffix) {
  PartialSums result;
  std::map<ir::Array, ir::Array> part_of;
  for (const SharedSum& sum : sums) {
    result.parts.push_back(
        ir::make_array(sum.array->name + suffix, sum.array->type, {}, ir::ArrayRole::Local, sum.location));
    part_of[sum.array] = result.parts.back();
  }
  result.body = ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* r = s.as<ir::Reduce>();
    if (!r || !part_of.count(r->array)) return std::nullopt;
    // Nobody else adds to the part.
    if (r->atomic) return ir::reduce(part_of[r->array], {}, r->op, r->value, r->location);
    return ir::reduce_like(*r, part_of[r->array], {}, r->value);
  });
  return result;
}

}  // namespace loopgrad::transforms
