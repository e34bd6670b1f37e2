#include "transforms/storage/level_uses.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <functional>
#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

std::optional<std::vector<LevelUse>> level_uses(const Stmt& scope, const ir::Array& array, std::size_t dimension) {
  std::vector<LevelUse> result;
  std::vector<Stmt> path;
  bool strange = false;
  std::function<void(const Stmt&)> look = [&](const Stmt& s) {
    if (!s) return;
    path.push_back(s);
    auto* product = s.as<ir::Contraction>();
    strange |= s.kind() == ir::Kind::While || s.kind() == ir::Kind::Push || s.kind() == ir::Kind::Pop ||
               (product && (product->a == array || product->b == array || product->c == array));
    for_each_store(s, [&](const ir::Array& stored, const std::vector<Expr>& indices) {
      if (stored == array) result.push_back({path, indices, indices[dimension], true});
    });
    ir::for_each_child(s, ir::overloaded{[&](const Expr& e) {
                                           ir::walk(e, [&](const Expr& child) {
                                             auto* load = child.as<ir::Load>();
                                             if (load && load->array == array)
                                               result.push_back({path, load->indices, load->indices[dimension]});
                                           });
                                         },
                                         [&](const Stmt& child) { look(child); }});
    path.pop_back();
  };
  look(scope);
  if (strange) return std::nullopt;
  return result;
}

std::optional<IndexRange> values_of(const Expr& index, const std::vector<Stmt>& path) {
  if (ir::has_load(index)) return std::nullopt;
  for (const Stmt& s : path) {
    auto* loop = s.as<ir::For>();
    if (!loop || !ir::mentions(index, loop->iterator)) continue;
    const auto offset = distance(index, ir::var(loop->iterator));
    if (!offset || ir::has_load(loop->lower) || ir::has_load(loop->upper)) return std::nullopt;
    return IndexRange{loop->lower + ir::int_const(*offset), loop->upper + ir::int_const(*offset)};
  }
  return IndexRange{index, index + ir::int_const(1)};
}

std::optional<ElementNest> element_nest(const Stmt& s) {
  ElementNest nest;
  Stmt at = s;
  for (; at.as<ir::For>(); at = at.as<ir::For>()->body) nest.loops.push_back(at.as<ir::For>());
  nest.assign = at.as<ir::Assign>();
  return nest.assign ? std::optional(nest) : std::nullopt;
}

std::optional<std::vector<IndexRange>> range_of(const std::vector<const ir::For*>& loops,
                                                const std::vector<Expr>& indices) {
  if (loops.size() != indices.size()) return std::nullopt;
  std::vector<IndexRange> range;
  std::set<const ir::For*> taken;
  for (const Expr& index : indices) {
    auto* var = index.as<ir::Var>();
    const auto loop = std::find_if(loops.begin(), loops.end(),
                                   [&](const ir::For* l) { return var && l->iterator == var->symbol && !l->at_most; });
    if (loop == loops.end() || !taken.insert(*loop).second) return std::nullopt;
    range.push_back({(*loop)->lower, (*loop)->upper});
  }
  return range;
}

bool is_whole(const std::vector<IndexRange>& range, const std::vector<Expr>& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (ir::as_int(range[d].lower) != 0 || !ir::equal(range[d].upper, shape[d])) return false;
  return true;
}

std::optional<LevelWindow> level_window(const std::vector<LevelUse>& uses) {
  LevelWindow window;
  for (const LevelUse& use : uses) {
    const Stmt loop = use.outermost();
    if (!loop || loop.as<ir::For>()->mode == ir::LoopMode::Parallel) continue;
    const auto offset = distance(use.index, ir::var(loop.as<ir::For>()->iterator));
    if (!offset) continue;
    if (!window.loop) window = {loop, *offset, *offset};
    if (!window.loop.same_as(loop)) return std::nullopt;
    window.least = std::min(window.least, *offset);
    window.most = std::max(window.most, *offset);
  }
  if (!window.loop || ir::has_load(window.steps().lower) || ir::has_load(window.steps().upper)) return std::nullopt;
  return window;
}

}  // namespace loopgrad::transforms
