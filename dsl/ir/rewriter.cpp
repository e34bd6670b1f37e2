#include "dsl/ir/rewriter.h"

namespace loopgrad::ir {
namespace {

/// Rewrites one field; true when it changed.
template <class Field>
bool rewrite_field(Rewriter& rewriter, Field& field) {
  if constexpr (std::is_same_v<Field, Expr> || std::is_same_v<Field, Stmt>) {
    if (!field) return false;
    Field next = rewriter.rewrite(field);
    const bool changed = !next.same_as(field);
    field = std::move(next);
    return changed;
  } else if constexpr (std::is_same_v<Field, std::vector<Expr>> || std::is_same_v<Field, std::vector<Stmt>>) {
    bool changed = false;
    for (auto& child : field) changed |= rewrite_field(rewriter, child);
    return changed;
  } else if constexpr (std::is_same_v<Field, std::vector<WideAccess>>) {
    bool changed = false;
    for (auto& access : field) changed |= rewrite_field(rewriter, access.indices);
    return changed;
  } else {
    return false;
  }
}

/// A copy of the node with rewritten children, or nullopt when none changed.
template <class Node>
std::optional<Node> rewritten_copy(Rewriter& rewriter, const Node& node) {
  Node copy = node;
  bool changed = false;
  std::apply([&](auto... member) { ((changed |= rewrite_field(rewriter, copy.*member)), ...); }, Node::fields());
  return changed ? std::optional<Node>(std::move(copy)) : std::nullopt;
}

// Rebuilding goes through the factories, so that constants fold and empty statements vanish.
Expr rebuild(const IntConst& n) { return int_const(n.value, n.type); }
Expr rebuild(const FloatConst& n) { return float_const(n.value, n.type); }
Expr rebuild(const Var& n) { return var(n.symbol); }
Expr rebuild(const Load& n) { return load(n.array, n.indices, n.location); }
Expr rebuild(const Unary& n) { return unary(n.op, n.a); }
Expr rebuild(const Binary& n) { return binary(n.op, n.a, n.b); }
Expr rebuild(const Fma& n) { return fma(n.a, n.b, n.c); }
Expr rebuild(const Select& n) { return select(n.condition, n.a, n.b); }
Expr rebuild(const Cast& n) { return cast(n.type, n.a); }
Stmt rebuild(const Block& n) { return block(n.body); }
Stmt rebuild(const For& n) {
  return mapped_like(n, for_loop(n.iterator, n.lower, n.upper, n.body, n.mode, n.location, n.at_most, n.shape));
}
Stmt rebuild(const While& n) { return while_loop(n.iterator, n.max_trips, n.condition, n.body, n.location); }
Stmt rebuild(const If& n) { return if_then(n.condition, n.then_body, n.else_body, n.location); }
Stmt rebuild(const Assign& n) { return mapped_like(n, assign(n.array, n.indices, n.value, n.location)); }
Stmt rebuild(const Reduce& n) { return reduce_like(n, n.array, n.indices, n.value); }
Stmt rebuild(const Allocate& n) { return mapped_like(n, allocate(n.array, n.body, n.location)); }
Stmt rebuild(const Push& n) { return push(n.value, n.location); }
Stmt rebuild(const Pop& n) { return pop(n.array, n.indices, n.location); }
Stmt rebuild(const Contraction& n) { return with_loops(n, n.loops); }
Stmt rebuild(const Barrier& n) { return barrier(n.location); }
Stmt rebuild(const CustomGradient& n) { return with_parts(n, n.body, n.adjoint, n.tangent); }

class LambdaRewriter final : public Rewriter {
 public:
  LambdaRewriter(const ExprRewrite& on_expr, const StmtRewrite& on_stmt) : on_expr_(on_expr), on_stmt_(on_stmt) {}
  Expr rewrite(const Expr& e) override {
    if (on_expr_)
      if (auto replacement = on_expr_(e)) return *replacement;
    return rewrite_children(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (on_stmt_)
      if (auto replacement = on_stmt_(s)) return *replacement;
    return rewrite_children(s);
  }

 private:
  const ExprRewrite& on_expr_;
  const StmtRewrite& on_stmt_;
};

/// The contraction `s` on the arrays that `names` has for those of `n`.
template <class Names>
Stmt with_arrays(const Stmt& s, const Contraction& n, const Names& names) {
  const auto* now = s.as<Contraction>();
  if (!now) return s;
  Contraction copy = *now;
  copy.c = names.renamed(n.c);
  copy.a = names.renamed(n.a);
  copy.b = names.renamed(n.b);
  if (copy.c == now->c && copy.a == now->a && copy.b == now->b) return s;
  return {std::make_shared<Contraction>(std::move(copy))};
}

/// The region `s` on the arrays that `renamed` has for those of its lists.
template <class Renamed>
Stmt with_listed(const Stmt& s, const Renamed& renamed) {
  CustomGradient copy = *s.as<CustomGradient>();
  bool changed = false;
  for (auto* list : {&copy.outputs, &copy.inputs, &copy.seeds, &copy.gradients})
    for (Array& array : *list) {
      const Array other = renamed(array);
      changed |= other != array;
      array = other;
    }
  return changed ? Stmt{std::make_shared<CustomGradient>(std::move(copy))} : s;
}

/// Gives every bound iterator and local array below a statement a new identity.
class FreshNames final : public Rewriter {
 public:
  Expr rewrite(const Expr& e) override {
    if (const auto* v = e.as<Var>()) {
      const auto it = symbols_.find(v->symbol);
      return it == symbols_.end() ? e : var(it->second);
    }
    if (const auto* l = e.as<Load>()) {
      const auto it = arrays_.find(l->array);
      if (it != arrays_.end()) return load(it->second, indices(l->indices), l->location);
    }
    return rewrite_children(e);
  }

  Stmt rewrite(const Stmt& s) override {
    return visit(
        s, overloaded{
               [&](const For& n) {
                 Expr lower = rewrite(n.lower), upper = rewrite(n.upper);
                 Expr work = n.work ? rewrite(n.work) : n.work, streams = n.streams ? rewrite(n.streams) : n.streams;
                 const Expr at_most = n.at_most ? rewrite(n.at_most) : n.at_most;
                 const Symbol fresh = symbols_[n.iterator] = make_symbol(n.iterator.name);
                 const Stmt loop = for_loop(fresh, lower, upper, rewrite(n.body), n.mode, n.location, at_most, n.shape);
                 if (!loop.as<For>()) return loop;
                 return with_mapping(with_run(loop, n.run, work, streams), [&](For& copy) {
                   copy.block = indices(n.block);
                   for (const WideAccess& access : n.wide)
                     copy.wide.push_back({renamed(access.array), indices(access.indices), access.loads, access.stores,
                                          access.even_rows});
                 });
               },
               [&](const While& n) {
                 Expr max_trips = rewrite(n.max_trips);
                 const Symbol fresh = symbols_[n.iterator] = make_symbol(n.iterator.name);
                 return while_loop(fresh, max_trips, rewrite(n.condition), rewrite(n.body), n.location);
               },
               [&](const Allocate& n) {
                 const Array& old = n.array;
                 const Array fresh = arrays_[old] = make_array_in_place_of(old, indices(old->shape));
                 Allocate like = n;
                 like.largest = indices(n.largest);
                 return mapped_like(like, allocate(fresh, rewrite(n.body), n.location));
               },
               [&](const Assign& n) {
                 return mapped_like(n, assign(renamed(n.array), indices(n.indices), rewrite(n.value), n.location));
               },
               [&](const Reduce& n) { return reduce_like(n, renamed(n.array), indices(n.indices), rewrite(n.value)); },
               [&](const Pop& n) { return pop(renamed(n.array), indices(n.indices), n.location); },
               [&](const Contraction& n) { return with_arrays(rewrite_children(s), n, *this); },
               [&](const CustomGradient& n) {
                 for (const auto* list : {&n.seeds, &n.gradients})
                   for (const Array& old : *list) arrays_[old] = make_array_in_place_of(old, indices(old->shape));
                 return with_listed(rewrite_children(s), [this](const Array& array) { return renamed(array); });
               },
               [&](const auto&) { return rewrite_children(s); },
           });
  }

  Array renamed(const Array& array) const {
    const auto it = arrays_.find(array);
    return it == arrays_.end() ? array : it->second;
  }

 private:
  std::vector<Expr> indices(const std::vector<Expr>& list) {
    std::vector<Expr> out;
    for (const Expr& e : list) out.push_back(rewrite(e));
    return out;
  }
  std::map<Symbol, Symbol> symbols_;
  std::map<Array, Array> arrays_;
};

}  // namespace

Expr Rewriter::rewrite_children(const Expr& e) {
  return visit(e, [&](const auto& node) {
    const auto copy = rewritten_copy(*this, node);
    return copy ? rebuild(*copy) : e;
  });
}

Stmt Rewriter::rewrite_children(const Stmt& s) {
  return visit(s, [&](const auto& node) {
    const auto copy = rewritten_copy(*this, node);
    return copy ? rebuild(*copy) : s;
  });
}

Expr rewrite(const Expr& e, const ExprRewrite& f) {
  const StmtRewrite none;
  return LambdaRewriter(f, none).rewrite(e);
}

Stmt rewrite(const Stmt& s, const ExprRewrite& on_expr, const StmtRewrite& on_stmt) {
  return s ? LambdaRewriter(on_expr, on_stmt).rewrite(s) : s;
}

namespace {
ExprRewrite substitution(const Substitution& values) {
  return [&values](const Expr& e) -> std::optional<Expr> {
    const auto* v = e.as<Var>();
    if (!v) return std::nullopt;
    const auto it = values.find(v->symbol);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}
}  // namespace

Expr substitute(const Expr& e, const Substitution& values) { return rewrite(e, substitution(values)); }

Stmt substitute(const Stmt& s, const Substitution& values) {
  // Local arrays whose shape mentions a replaced symbol become new arrays, as declarations are immutable.
  std::map<Array, Array> reshaped;
  const auto note = [&](const Array& array) {
    std::vector<Expr> shape;
    bool changed = false;
    for (const Expr& extent : array->shape) {
      shape.push_back(substitute(extent, values));
      changed |= !shape.back().same_as(extent);
    }
    if (changed) reshaped[array] = make_array_in_place_of(array, shape);
  };
  walk_stmts(s, [&](const Stmt& t) {
    if (const auto* a = t.as<Allocate>()) note(a->array);
    const auto* region = t.as<CustomGradient>();
    if (!region) return;
    for (const auto* list : {&region->seeds, &region->gradients})
      for (const Array& array : *list) note(array);
  });
  Stmt result = rewrite(s, substitution(values));
  return reshaped.empty() ? result : replace_arrays(result, reshaped);
}

Stmt without_stops(const Stmt& s) {
  const ExprRewrite drop = [&](const Expr& e) -> std::optional<Expr> {
    const auto* n = e.as<Unary>();
    return n && n->op == UnaryOp::Stop ? std::optional(rewrite(n->a, drop)) : std::nullopt;
  };
  return rewrite(s, drop);
}

Stmt without_rules(const Stmt& s) {
  const StmtRewrite drop = [&](const Stmt& t) -> std::optional<Stmt> {
    const auto* region = t.as<CustomGradient>();
    return region ? std::optional(rewrite(region->body, {}, drop)) : std::nullopt;
  };
  return rewrite(s, {}, drop);
}

Stmt with_fresh_names(const Stmt& s) { return s ? FreshNames().rewrite(s) : s; }

Stmt move_elements(const Stmt& s, const ElementMove& move) {
  ExprRewrite on_expr;
  const auto moved = [&](const Array& array, const std::vector<Expr>& indices) {
    auto place = move(array, indices);
    if (place)
      for (Expr& index : place->indices) index = rewrite(index, on_expr);
    return place;
  };
  on_expr = [&](const Expr& e) -> std::optional<Expr> {
    const auto* l = e.as<Load>();
    const auto place = l ? moved(l->array, l->indices) : std::nullopt;
    return place ? std::optional(load(place->array, place->indices, l->location)) : std::nullopt;
  };
  return rewrite(s, on_expr, [&](const Stmt& t) -> std::optional<Stmt> {
    if (const auto* n = t.as<Assign>()) {
      const auto place = moved(n->array, n->indices);
      if (place) return assign(place->array, place->indices, rewrite(n->value, on_expr), n->location);
    }
    if (const auto* n = t.as<Reduce>()) {
      const auto place = moved(n->array, n->indices);
      if (place) return reduce_like(*n, place->array, place->indices, rewrite(n->value, on_expr));
    }
    if (const auto* n = t.as<Pop>()) {
      const auto place = moved(n->array, n->indices);
      if (place) return pop(place->array, place->indices, n->location);
    }
    return std::nullopt;
  });
}

Stmt replace_arrays(const Stmt& s, const std::map<Array, Array>& arrays) {
  auto renamed = [&](const Array& array) {
    const auto it = arrays.find(array);
    return it == arrays.end() ? array : it->second;
  };
  ExprRewrite on_expr;
  StmtRewrite on_stmt;
  auto list = [&](const std::vector<Expr>& es) {
    std::vector<Expr> out;
    for (const Expr& e : es) out.push_back(rewrite(e, on_expr));
    return out;
  };
  on_expr = [&](const Expr& e) -> std::optional<Expr> {
    const auto* l = e.as<Load>();
    if (!l || !arrays.count(l->array)) return std::nullopt;
    return load(renamed(l->array), list(l->indices), l->location);
  };
  on_stmt = [&](const Stmt& t) -> std::optional<Stmt> {
    if (const auto* n = t.as<Assign>(); n && arrays.count(n->array))
      return mapped_like(*n, assign(renamed(n->array), list(n->indices), rewrite(n->value, on_expr), n->location));
    if (const auto* n = t.as<Reduce>(); n && arrays.count(n->array))
      return reduce_like(*n, renamed(n->array), list(n->indices), rewrite(n->value, on_expr));
    if (const auto* n = t.as<Pop>(); n && arrays.count(n->array))
      return pop(renamed(n->array), list(n->indices), n->location);
    if (const auto* n = t.as<Allocate>(); n && arrays.count(n->array))
      return mapped_like(*n, allocate(renamed(n->array), rewrite(n->body, on_expr, on_stmt), n->location));
    if (const auto* n = t.as<For>(); n && !n->wide.empty()) {
      For like = *n;
      for (WideAccess& access : like.wide)
        access = {renamed(access.array), list(access.indices), access.loads, access.stores, access.even_rows};
      return mapped_like(like,
                         for_loop(n->iterator, rewrite(n->lower, on_expr), rewrite(n->upper, on_expr),
                                  rewrite(n->body, on_expr, on_stmt), n->mode, n->location, n->at_most, n->shape));
    }
    if (const auto* n = t.as<Contraction>(); n && (arrays.count(n->c) || arrays.count(n->a) || arrays.count(n->b))) {
      Contraction copy = *n;
      copy.c = renamed(n->c);
      copy.a = renamed(n->a);
      copy.b = renamed(n->b);
      return with_loops(copy, rewrite(n->loops, on_expr, on_stmt));
    }
    if (const auto* n = t.as<CustomGradient>()) {
      const auto part = [&](const Stmt& one) { return one ? rewrite(one, on_expr, on_stmt) : one; };
      return with_listed(with_parts(*n, part(n->body), part(n->adjoint), part(n->tangent)), renamed);
    }
    return std::nullopt;
  };
  return rewrite(s, on_expr, on_stmt);
}

}  // namespace loopgrad::ir
