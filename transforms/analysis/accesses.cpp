#include "transforms/analysis/accesses.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <utility>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

std::vector<Access> accesses_of(const Stmt& s) {
  std::set<ir::Array> own;
  for (const LocalArray& local : locals_of(s)) own.insert(local.array);
  std::vector<Access> result;
  ir::walk(
      s,
      [&](const Stmt& child) {
        for_each_store(child, [&](const ir::Array& array, const std::vector<Expr>& indices) {
          if (!own.count(array)) result.push_back({array, indices, true});
        });
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (load && !own.count(load->array)) result.push_back({load->array, load->indices, false});
      });
  return result;
}

Stmt in_scalar(const Stmt& s, const ir::Array& array, const std::vector<Expr>& indices, const ir::Array& scalar) {
  return ir::move_elements(s, [&](const ir::Array& other, const auto& at) -> std::optional<ir::ElementPlace> {
    if (other != array || !ir::equal(at, indices)) return std::nullopt;
    return ir::ElementPlace{scalar, {}};
  });
}

bool is_own(const std::vector<Expr>& indices, const std::vector<const ir::For*>& loops) {
  return std::all_of(loops.begin(), loops.end(), [&](const ir::For* loop) {
    return std::any_of(indices.begin(), indices.end(),
                       [&](const Expr& index) { return distance(index, ir::var(loop->iterator)).has_value(); });
  });
}

bool passes_by(const std::vector<Expr>& load, const std::vector<Expr>& element,
               const std::vector<const ir::For*>& loops) {
  for (std::size_t d = 0; d < element.size(); ++d) {
    for (const ir::For* loop : loops) {
      const std::int64_t step = coefficient_of(load[d], loop->iterator).value_or(0);
      if (step == 0) continue;
      Expr low = ir::substitute(load[d], {{loop->iterator, loop->lower}});
      Expr high = ir::substitute(load[d], {{loop->iterator, loop->upper - ir::int_const(1)}});
      if (step < 0) std::swap(low, high);
      if (distance(high, element[d]).value_or(0) < 0 || distance(low, element[d]).value_or(0) > 0) return true;
    }
  }
  return false;
}

bool are_apart(const Access& x, const Access& y, const std::vector<const ir::For*>& loops) {
  // What varies, or may be changed in between, has no part in the comparison.
  auto is_fixed = [&](const Expr& e) {
    return !ir::has_load(e) && std::none_of(loops.begin(), loops.end(),
                                            [&](const ir::For* loop) { return ir::mentions(e, loop->iterator); });
  };
  std::vector<const ir::For*> ranges;
  for (const ir::For* loop : loops)
    if (is_fixed(loop->lower) && is_fixed(loop->upper)) ranges.push_back(loop);
  for (std::size_t d = 0; d < x.indices.size(); ++d) {
    const std::vector<Expr> a = {x.indices[d]}, b = {y.indices[d]};
    if (!is_fixed(b[0]) || ir::has_load(a[0])) continue;
    if (is_fixed(a[0]) ? surely_differ(a, b) : passes_by(a, b, ranges)) return true;
  }
  return false;
}

Passing::Passing(const ir::Program& program) : aliased_(ir::aliased_arrays(program)), least_(program) {}

bool Passing::can_pass(const Stmt& s, const std::vector<Access>& accesses, Same same) const {
  if (ir::uses_stack(s)) return false;
  std::vector<const ir::For*> loops;
  ir::walk_stmts(s, [&](const Stmt& child) {
    if (const auto* loop = child.as<ir::For>()) loops.push_back(loop);
  });
  const auto all = accesses_of(s);
  return std::all_of(all.begin(), all.end(), [&](const Access& x) {
    const auto is_x = [&](const Access& y) {
      return y.array == x.array && y.writes && ir::equal(y.indices, x.indices);
    };
    if (same == Same::MayRead && !x.writes && std::any_of(accesses.begin(), accesses.end(), is_x)) return true;
    return std::all_of(accesses.begin(), accesses.end(), [&](const Access& y) {
      if (!x.writes && !y.writes) return true;
      if (may_alias(x.array) && may_alias(y.array)) return false;
      return x.array != y.array || are_apart(x, y, loops) || least_.are_apart(x.indices, y.indices);
    });
  });
}

}  // namespace loopgrad::transforms
