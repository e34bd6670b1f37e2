#include "transforms/loops/fuse.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"

#include <fmt/format.h>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// The Block that holds both statements, one right after the other; null when there is none.
Stmt block_with(const ir::Program& program, const Stmt& first, const Stmt& second) {
  Stmt result;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    auto* node = s.as<ir::Block>();
    for (std::size_t k = 0; node && k + 1 < node->body.size(); ++k) {
      if (node->body[k].get() == first.get() && node->body[k + 1].get() == second.get()) result = s;
    }
  });
  return result;
}

Legality can_fuse(const Analysed& program, const Stmt& block, const Stmt& first, const Stmt& second) {
  const ir::For &a = *first.as<ir::For>(), &b = *second.as<ir::For>();
  const std::optional<Fusion> fusion = fusion_of(first, second);
  if (!fusion) {
    return Legality::refused("the bounds of the loops differ",
                             "split one of them, so that two loops have equal bounds");
  }
  bool backward = a.mode == ir::LoopMode::Backward;
  if (backward != (b.mode == ir::LoopMode::Backward)) {
    return Legality::refused("the loops run in opposite directions", "reverse one of them");
  }
  for (const Stmt& loop : {first, second}) {
    Stmt both = with_body(*loop.as<ir::For>(), ir::block({a.body, b.body}));
    if (Legality stay = bounds_stay(program, both); !stay.ok) return stay;
  }
  return can_reorder(program, block, [&](const poly::Statement& s) -> std::optional<std::vector<Expr>> {
    for (std::size_t k = 0; k < s.loops.size(); ++k) {
      bool second_loop = s.loops[k].get() == second.get();
      if (!second_loop && s.loops[k].get() != first.get()) continue;
      Expr iteration = ir::var(s.iterators[k]);
      if (second_loop) iteration = iteration - ir::int_const(fusion->ahead[0]);
      return std::vector<Expr>{backward ? -iteration : iteration, ir::int_const(second_loop ? 1 : 0)};
    }
    return std::nullopt;
  });
}

// The body of a nest in terms of another one's iterators, whose iterations are `ahead` (times a sign) of its own.
Stmt body_in(const std::vector<Stmt>& nest, const std::vector<Stmt>& other, const std::vector<std::int64_t>& ahead,
             std::int64_t sign) {
  ir::Substitution renamed;
  bool is_shifted = false;
  for (std::size_t k = 0; k < nest.size(); ++k) {
    is_shifted |= ahead[k] != 0;
    renamed[nest[k].as<ir::For>()->iterator] =
        simplify_indices(ir::var(other[k].as<ir::For>()->iterator) + ir::int_const(sign * ahead[k]));
  }
  const Stmt body = ir::substitute(nest.back().as<ir::For>()->body, renamed);
  return is_shifted ? simplify_indices(body) : body;
}

}  // namespace

std::optional<Fusion> fusion_of(const Stmt& first, const Stmt& second, std::size_t depth) {
  Fusion result;
  ir::Substitution renamed;
  Stmt a = first, b = second;
  for (; result.first.size() < depth; a = a.as<ir::For>()->body, b = b.as<ir::For>()->body) {
    const auto *x = a ? a.as<ir::For>() : nullptr, *y = b ? b.as<ir::For>() : nullptr;
    if (!x || !y) break;
    const auto ahead = distance(ir::substitute(y->lower, renamed), x->lower);
    if (!ahead || distance(ir::substitute(y->upper, renamed), x->upper) != ahead) return std::nullopt;
    renamed[y->iterator] = simplify_indices(ir::var(x->iterator) + ir::int_const(*ahead));
    result.first.push_back(a);
    result.second.push_back(b);
    result.ahead.push_back(*ahead);
  }
  return result.first.empty() ? std::nullopt : std::optional(std::move(result));
}

Legality can_fuse_parallel(const Analysed& program, const Fusion& fusion, const Stmt& fused) {
  Stmt loop = fused;
  for (std::size_t k = 0; k < fusion.first.size(); ++k, loop = loop.as<ir::For>()->body) {
    if (Legality parallel = can_run_in_parallel(program, loop); !parallel.ok) return parallel;
  }
  return {};
}

Stmt second_body(const Fusion& fusion) { return body_in(fusion.second, fusion.first, fusion.ahead, 1); }

Stmt fused(const Fusion& fusion, Named as) {
  const bool by_first = as == Named::First;
  const auto body = [](const std::vector<Stmt>& nest) { return nest.back().as<ir::For>()->body; };
  Stmt result = by_first ? ir::block({body(fusion.first), second_body(fusion)})
                         : ir::block({body_in(fusion.first, fusion.second, fusion.ahead, -1), body(fusion.second)});
  const std::vector<Stmt>& loops = by_first ? fusion.first : fusion.second;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) result = with_body(*loop->as<ir::For>(), result);
  return result;
}

Scheduled fuse_two_loops(const Analysed& program, const LoopName& a, const LoopName& b) {
  Stmt first = find_loop(program, a), second = find_loop(program, b);
  std::string action = fmt::format("fuse '{}' and '{}'", a.name(), b.name());
  Stmt block = block_with(program, first, second);
  if (!block) {
    misuse(program, first, action, "the second loop does not follow right after the first",
           "move what is between them, or fuse loops around them first");
  }
  Legality legality = can_fuse(program, block, first, second);
  require(legality, program, first, action);
  const ir::For& one = *first.as<ir::For>();
  const Stmt both = with_mode(*fused(*fusion_of(first, second)).as<ir::For>(), unmarked(one.mode));
  std::vector<Stmt> statements;
  for (const Stmt& s : block.as<ir::Block>()->body) {
    if (s.get() == first.get()) statements.push_back(both);
    else if (s.get() != second.get()) statements.push_back(s);
  }
  return {with_replaced(program, block, ir::block(std::move(statements))), legality};
}

}  // namespace loopgrad::transforms
