#include "transforms/storage/level_uses.h"

#include "dsl/ir/queries.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <functional>

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
    ir::visit(s, [&](const auto& node) {
      ir::for_each_child(node, ir::overloaded{[&](const Expr& e) {
                                                ir::walk(e, [&](const Expr& child) {
                                                  auto* load = child.as<ir::Load>();
                                                  if (load && load->array == array)
                                                    result.push_back({path, load->indices, load->indices[dimension]});
                                                });
                                              },
                                              [&](const Stmt& child) { look(child); }});
    });
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
