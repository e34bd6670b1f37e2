#include "transforms/analysis/nest.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

bool is_leaf(const Stmt& s) {
  switch (s.kind()) {
    case ir::Kind::Block:
    case ir::Kind::For:
    case ir::Kind::While:
    case ir::Kind::If:
    case ir::Kind::Contraction:
    case ir::Kind::Allocate: return false;
    default: return true;
  }
}

/// Calls f(statement, the loops and conditions around it) for all statements at and below `s`.
template <class F>
void walk_with_surroundings(const Stmt& s, std::vector<Stmt>& around, const F& f) {
  if (!s) return;
  f(s, around);
  const bool decides = s.kind() == ir::Kind::For || s.kind() == ir::Kind::While || s.kind() == ir::Kind::If;
  if (decides) around.push_back(s);
  ir::for_each_child(
      s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { walk_with_surroundings(child, around, f); }});
  if (decides) around.pop_back();
}

}  // namespace

std::vector<Stmt> leaves(const Stmt& s) {
  std::vector<Stmt> result;
  ir::walk_stmts(s, [&](const Stmt& child) {
    if (is_leaf(child)) result.push_back(child);
  });
  return result;
}

std::set<ir::Array> stored_in(const Stmt& s) {
  std::set<ir::Array> result;
  ir::walk_stmts(s, [&](const Stmt& child) {
    for_each_store(child, [&](const ir::Array& array, const auto&) { result.insert(array); });
  });
  return result;
}

std::vector<Stmt> top_level(const Stmt& s) {
  if (auto* scope = s.as<ir::Allocate>()) return top_level(scope->body);
  auto* block = s.as<ir::Block>();
  if (!block) return {s};
  std::vector<Stmt> result;
  for (const Stmt& child : block->body) {
    const std::vector<Stmt> part = top_level(child);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

bool is_parallel_loop(const Stmt& s) {
  const auto* loop = s ? s.as<ir::For>() : nullptr;
  return loop && loop->mode == ir::LoopMode::Parallel;
}

bool contains_parallel_loop(const Stmt& s) {
  bool found = false;
  if (s) ir::walk_stmts(s, [&](const Stmt& child) { found |= is_parallel_loop(child); });
  return found;
}

namespace {

/// Notes the arrays that what is left uses, from the inside out: asking for each Allocate again would walk nests of
/// locals many times.
class Slicer {
 public:
  explicit Slicer(const StmtSet& keep) : keep_(keep) {}

  Stmt slice(const Stmt& s) {
    if (!s) return s;
    if (is_leaf(s)) return keep_.count(s.get()) ? noted(s) : Stmt();
    if (auto* node = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : node->body) body.push_back(slice(child));
      return ir::block(std::move(body));
    }
    if (auto* node = s.as<ir::If>()) return branch(*node);
    if (auto* node = s.as<ir::Allocate>()) {
      Stmt body = slice(node->body);
      if (ir::is_empty(body)) return {};
      return used_.count(node->array) ? noted(ir::allocate(node->array, body, node->location)) : body;
    }
    if (auto* node = s.as<ir::While>()) {
      Stmt body = slice(node->body);
      if (ir::is_empty(body)) return {};
      return noted(ir::while_loop(node->iterator, node->max_trips, node->condition, body, node->location));
    }
    if (auto* node = s.as<ir::Contraction>()) {
      Stmt loops = slice(node->loops);
      return leaves(loops).size() == leaves(node->loops).size() ? ir::with_loops(*node, loops) : loops;
    }
    const ir::For& node = *s.as<ir::For>();
    Stmt body = slice(node.body);
    return ir::is_empty(body) ? Stmt() : noted(with_body(node, body));
  }

 private:
  Stmt branch(const ir::If& node) {
    Stmt then_body = slice(node.then_body), else_body = slice(node.else_body);
    if (ir::is_empty(then_body) && ir::is_empty(else_body)) return {};
    if (ir::is_empty(else_body)) else_body = {};
    if (ir::is_empty(then_body)) {
      return noted(ir::if_then(ir::unary(ir::UnaryOp::Not, node.condition), else_body, {}, node.location));
    }
    return noted(ir::if_then(node.condition, then_body, else_body, node.location));
  }

  /// `s` itself, whose own expressions and stores are part of what is left.
  Stmt noted(Stmt s) {
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>&) { used_.insert(array); });
    const auto note = [&](const Expr& e) {
      ir::walk(e, [&](const Expr& part) {
        if (const auto* load = part.as<ir::Load>()) used_.insert(load->array);
      });
    };
    ir::for_each_child(s, ir::overloaded{note, [](const Stmt&) {}});
    return s;
  }

  const StmtSet& keep_;
  std::set<ir::Array> used_;
};

}  // namespace

Stmt slice(const Stmt& s, const StmtSet& keep) { return Slicer(keep).slice(s); }

Stmt replace(const Stmt& s, const Stmt& old, const Stmt& by) {
  return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
    return child.get() == old.get() ? std::optional(by) : std::nullopt;
  });
}

Stmt without_contractions(const Stmt& s) {
  return ir::rewrite(s, {}, [](const Stmt& child) -> std::optional<Stmt> {
    auto* node = child.as<ir::Contraction>();
    return node ? std::optional(without_contractions(node->loops)) : std::nullopt;
  });
}

bool has_contraction(const Stmt& s) {
  bool found = false;
  ir::walk_stmts(s, [&](const Stmt& child) { found |= child.kind() == ir::Kind::Contraction; });
  return found;
}

StmtSet leaves_of_contractions(const Stmt& s) {
  StmtSet result;
  ir::walk_stmts(s, [&](const Stmt& child) {
    if (auto* node = child.as<ir::Contraction>())
      for (const Stmt& leaf : leaves(node->loops)) result.insert(leaf.get());
  });
  return result;
}

std::vector<LocalArray> locals_of(const Stmt& s) {
  std::vector<Stmt> around;
  std::vector<LocalArray> result;
  walk_with_surroundings(s, around, [&](const Stmt& child, const std::vector<Stmt>& now) {
    if (auto* node = child.as<ir::Allocate>()) result.push_back({node->array, now});
  });
  return result;
}

std::map<const ir::StmtNode*, std::vector<Stmt>> surroundings(const Stmt& s) {
  std::vector<Stmt> around;
  std::map<const ir::StmtNode*, std::vector<Stmt>> result;
  walk_with_surroundings(s, around, [&](const Stmt& child, const std::vector<Stmt>& now) {
    if (is_leaf(child)) result.emplace(child.get(), now);
  });
  return result;
}

static void add_to(const Stmt& s, Scope& to) {
  if (const auto* block = s.as<ir::Block>()) {
    for (const Stmt& child : block->body) add_to(child, to);
  } else if (const auto* local = s.as<ir::Allocate>()) {
    to.locals.push_back(s);
    add_to(local->body, to);
  } else if (s) {
    to.list.push_back(s);
  }
}

Scope scope_of(const Stmt& s) {
  Scope result;
  add_to(s, result);
  return result;
}

Stmt with_locals(const Scope& s, Stmt body) {
  for (auto it = s.locals.rbegin(); it != s.locals.rend(); ++it)
    body = ir::allocate((*it).as<ir::Allocate>()->array, std::move(body), (*it)->location);
  return body;
}

bool uses(const Expr& e, const ir::Array& array) {
  bool found = false;
  ir::walk(e, [&](const Expr& child) {
    auto* load = child.as<ir::Load>();
    found = found || (load && load->array == array);
  });
  return found;
}

bool uses(const Stmt& s, const ir::Array& array) {
  bool found = false;
  ir::walk(
      s,
      [&](const Stmt& child) {
        for_each_store(child, [&](const ir::Array& stored, const std::vector<Expr>&) { found |= stored == array; });
      },
      [&](const Expr& e) {
        auto* load = e.as<ir::Load>();
        found = found || (load && load->array == array);
      });
  return found;
}

bool host_knows(const ir::Expr& e) {
  bool known = true;
  ir::walk(e, [&](const ir::Expr& part) { known &= part.kind() != ir::Kind::Load && !is_float(part.type()); });
  return known;
}

Stmt with_body(const ir::For& loop, Stmt body) {
  return ir::for_loop(loop.iterator, loop.lower, loop.upper, std::move(body), loop.mode, loop.location, loop.at_most,
                      loop.shape);
}

std::optional<std::vector<Stmt>> loops_around(const Stmt& body, const Stmt& s) {
  std::vector<Stmt> path;
  const std::function<bool(const Stmt&)> leads_there = [&](const Stmt& one) {
    if (one.same_as(s)) return true;
    const bool is_loop = one.kind() == ir::Kind::For || one.kind() == ir::Kind::While;
    if (is_loop) path.push_back(one);
    bool is_here = false;
    ir::for_each_child(one,
                       ir::overloaded{[](const Expr&) {},
                                      [&](const Stmt& child) { is_here = is_here || (child && leads_there(child)); }});
    if (is_loop && !is_here) path.pop_back();
    return is_here;
  };
  return leads_there(body) ? std::optional(path) : std::nullopt;
}

std::vector<Expr> fixed_indices(const Stmt& nest, const std::vector<std::vector<Expr>>& elements) {
  std::set<ir::Symbol> inside;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    if (const auto* loop = s.as<ir::For>()) inside.insert(loop->iterator);
    if (const auto* loop = s.as<ir::While>()) inside.insert(loop->iterator);
  });
  std::vector<Expr> result = elements[0];
  for (std::size_t d = 0; d < result.size(); ++d) {
    const Expr first = result[d];
    const bool is_fixed = !ir::has_load(first) && std::none_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) {
      return mentions(first, i);
    }) && std::all_of(elements.begin(), elements.end(), [&](const std::vector<Expr>& element) {
      return ir::equal(element[d], first);
    });
    if (!is_fixed) result[d] = {};
  }
  return result;
}

std::vector<Expr> divisors_in(const Expr& e) {
  std::vector<Expr> result;
  if (e.kind() == ir::Kind::Load) return result;
  ir::for_each_child(e, [&](const Expr& child) {
    for (const Expr& divisor : divisors_in(child)) result.push_back(divisor);
  });
  const auto* n = e.as<ir::Binary>();
  const bool divides = n && is_integer(e.type()) && (n->op == ir::BinaryOp::FloorDiv || n->op == ir::BinaryOp::Mod);
  if (divides && ir::as_int(n->b).value_or(0) == 0) result.push_back(n->b);
  return result;
}

Stmt around(const std::vector<const ir::For*>& loops, Stmt body) {
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) body = with_body(**loop, body);
  return body;
}

Stmt with_mode(const ir::For& loop, ir::LoopMode mode) {
  return ir::for_loop(loop.iterator, loop.lower, loop.upper, loop.body, mode, loop.location, loop.at_most);
}

std::string text_of(const ir::Reduce& sum) {
  std::string text = sum.array->name;
  for (std::size_t k = 0; k < sum.indices.size(); ++k) text += (k ? ", " : "[") + ir::print(sum.indices[k]);
  if (!sum.indices.empty()) text += "]";
  return text + " " + ir::name_of(sum.op) + " " + ir::print(sum.value);
}

PlannedSum planned(const ir::Reduce& sum) { return {text_of(sum), sum.location, sum.array->id}; }

StmtSet set_of(const std::vector<Stmt>& list) {
  StmtSet result;
  for (const Stmt& s : list) result.insert(s.get());
  return result;
}

Stmt without_allocations(const Stmt& s) {
  return ir::rewrite(s, {}, [](const Stmt& child) -> std::optional<Stmt> {
    const auto* local = child.as<ir::Allocate>();
    return local ? std::optional(without_allocations(local->body)) : std::nullopt;
  });
}

Stmt rewrite_host_blocks(const Stmt& s, const std::function<Stmt(const ir::Block&)>& f) {
  if (!s || is_parallel_loop(s)) return s;
  const auto inside = [&](const Stmt& child) { return rewrite_host_blocks(child, f); };
  if (const auto* n = s.as<ir::Block>()) return f(*n);
  if (const auto* n = s.as<ir::Allocate>()) return ir::allocate(n->array, inside(n->body), n->location);
  if (const auto* n = s.as<ir::If>())
    return ir::if_then(n->condition, inside(n->then_body), inside(n->else_body), n->location);
  if (const auto* n = s.as<ir::For>()) return with_body(*n, inside(n->body));
  return s;
}

}  // namespace loopgrad::transforms
