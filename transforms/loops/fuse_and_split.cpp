#include "transforms/loops/fuse_and_split.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"

#include <fmt/format.h>

#include <map>

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

Legality can_fuse(const ir::Program& program, const Stmt& block, const Stmt& first, const Stmt& second) {
  const ir::For &a = *first.as<ir::For>(), &b = *second.as<ir::For>();
  if (!same_value(a.lower, b.lower) || !same_value(a.upper, b.upper)) {
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
      return std::vector<Expr>{backward ? -iteration : iteration, ir::int_const(second_loop ? 1 : 0)};
    }
    return std::nullopt;
  });
}

// The statements of a body up to, and from, a position.
struct Parts {
  StmtSet first, second;  // leaves
};

Parts parts_of(const std::vector<Stmt>& statements, std::size_t after) {
  Parts parts;
  for (std::size_t k = 0; k < statements.size(); ++k) {
    for (const Stmt& leaf : leaves(statements[k])) (k < after ? parts.first : parts.second).insert(leaf.get());
  }
  return parts;
}

Legality can_split(const ir::Program& program, const Stmt& s, const std::vector<Stmt>& statements, std::size_t after) {
  const ir::For& loop = *s.as<ir::For>();
  if (Legality stay = bounds_stay(program, s); !stay.ok) return stay;
  Parts parts = parts_of(statements, after);
  Stmt first = slice(s, parts.first), second = slice(s, parts.second);
  for (const LocalArray& local : locals_of(s)) {
    if (!uses(first, local.array) || !uses(second, local.array)) continue;
    const std::string& name = local.array->name;
    Legality result =
        Legality::refused("the local '" + name + "' is used in both parts",
                          fmt::format("expand({}, {}) gives each iteration its own", name, loop.iterator.name));
    result.array = name;
    result.where = local.array->location;
    return result;
  }
  std::map<const ir::StmtNode*, int> part;  // of everything in the body
  for (std::size_t k = 0; k < statements.size(); ++k) {
    ir::walk_stmts(statements[k], [&](const Stmt& child) { part[child.get()] = k < after ? 0 : 1; });
  }
  return can_reorder(program, s, [&](const poly::Statement& statement) -> std::optional<std::vector<Expr>> {
    auto it = part.find(statement.stmt.get());
    if (it == part.end()) return std::nullopt;
    return std::vector<Expr>{ir::int_const(it->second), rising(loop)};
  });
}

}  // namespace

Scheduled fuse_two_loops(const ir::Program& program, const LoopName& a, const LoopName& b) {
  Stmt first = find_loop(program, a), second = find_loop(program, b);
  std::string action = fmt::format("fuse '{}' and '{}'", a.name(), b.name());
  Stmt block = block_with(program, first, second);
  if (!block) {
    misuse(program, first, action, "the second loop does not follow right after the first",
           "move what is between them, or fuse loops around them first");
  }
  Legality legality = can_fuse(program, block, first, second);
  require(legality, program, first, action);
  const ir::For &one = *first.as<ir::For>(), &two = *second.as<ir::For>();
  Stmt body = ir::block({one.body, ir::substitute(two.body, {{two.iterator, ir::var(one.iterator)}})});
  Stmt fused = ir::for_loop(one.iterator, one.lower, one.upper, body, unmarked(one.mode), one.location, one.at_most);
  std::vector<Stmt> statements;
  for (const Stmt& s : block.as<ir::Block>()->body) {
    if (s.get() == first.get()) statements.push_back(fused);
    else if (s.get() != second.get()) statements.push_back(s);
  }
  return {with_replaced(program, block, ir::block(std::move(statements))), legality};
}

Scheduled split_body(const ir::Program& program, const LoopName& name, int after) {
  Stmt loop = find_loop(program, name);
  std::string action = fmt::format("split the body of '{}'", name.name());
  std::vector<Stmt> statements = statements_of(loop.as<ir::For>()->body);
  auto count = static_cast<int>(statements.size());
  if (after < 0 || after >= count) {
    misuse(program, loop, action, fmt::format("it has {} statement{}", count, count == 1 ? "" : "s"),
           "split after at least one statement and before the last");
  }
  std::vector<Stmt> parts;
  Legality all, last;
  Stmt rest = loop;
  int done = 0;
  for (int k = 1; k < count; ++k) {
    if (after && k != after) continue;
    std::vector<Stmt> left = statements_of(rest.as<ir::For>()->body);
    auto position = static_cast<std::size_t>(k - done);
    // Parts that were split off before stand before the rest and do not change what holds in it.
    ir::Program now = with_replaced(program, loop, rest);
    last = can_split(now, rest, left, position);
    if (!last.ok) continue;
    if (all.sum.empty()) all.sum = last.sum;
    Parts split = parts_of(left, position);
    parts.push_back(slice(rest, split.first));
    rest = ir::with_fresh_names(slice(rest, split.second));
    done = k;
  }
  if (parts.empty()) require(last, program, loop, action);
  parts.push_back(rest);
  return {with_replaced(program, loop, ir::block(std::move(parts))), all};
}

}  // namespace loopgrad::transforms
