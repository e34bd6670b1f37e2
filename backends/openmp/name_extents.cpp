#include "backends/openmp/name_extents.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <map>
#include <set>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// One expression that occurs in the program, by its text.
struct Occurrences {
  Expr expr;
  int count = 0;
  int order = 0;
  std::string name;
};

class Counter {
 public:
  /// Counts in the program and in the values that have a name already.
  explicit Counter(const NamedExtents& named) : sizes_(named.program.sizes.begin(), named.program.sizes.end()) {
    for (const NamedExtent& extent : named.extents) {
      sizes_.insert(extent.symbol);
      count(extent.value);
    }
    count(named.program.body);
  }

  /// The largest that is worth a name.
  std::optional<Occurrences> largest() {
    std::optional<Occurrences> best;
    for (const auto& [key, found] : found_) {
      if (found.count < 2) continue;
      auto rank = [](const Occurrences& o) { return std::pair(weight(o.expr), -o.order); };
      if (!best || rank(*best) < rank(found)) best = found;
    }
    if (best) {
      const auto end = loop_ends_.find(text(best->expr));
      best->name = end == loop_ends_.end() ? "extent" : end->second;
    }
    return best;
  }

 private:
  /// Estimates of what loops cost are used as they are, but are no reason for a name.
  void count(const Stmt& s) {
    const auto* loop = s.as<For>();
    if (loop) loop_ends_.emplace(text(loop->upper), loop->iterator.name + "_end");
    if (const auto* a = s.as<Allocate>())
      for (const Expr& extent : a->array->shape) count(extent);
    for_each_child(s, overloaded{[&](const Expr& e) {
                                   if (!loop || (!e.same_as(loop->work) && !e.same_as(loop->streams))) count(e);
                                 },
                                 [&](const Stmt& child) { count(child); }});
  }
  void count(const Expr& root) {
    walk(root, [&](const Expr& e) { count_one(e); });
  }
  void count_one(const Expr& e) {
    if (e.type() != ScalarType::I64 || e.kind() != Kind::Binary || weight(e) < 2 || !of_sizes(e)) return;
    const std::string key = text(e);
    Occurrences& found = found_[key];
    if (found.count++ == 0) {
      found.expr = e;
      found.order = static_cast<int>(found_.size());
    }
  }
  bool of_sizes(const Expr& e) const {
    bool fits = true;
    walk(e, [&](const Expr& x) {
      const auto* v = x.as<Var>();
      fits &= x.kind() != Kind::Load && (!v || sizes_.count(v->symbol));
    });
    return fits;
  }
  static int weight(const Expr& e) {
    int weight = 0;
    walk(e, [&](const Expr& x) {
      const auto* b = x.as<Binary>();
      weight += b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max || b->op == BinaryOp::FloorDiv ||
                      b->op == BinaryOp::Mod);
    });
    return weight;
  }
  /// One table of names, so that equal texts are equal expressions.
  std::string text(const Expr& e) { return print(e, names_); }

  std::set<Symbol> sizes_;
  NameTable names_;
  std::map<std::string, std::string> loop_ends_;
  std::map<std::string, Occurrences> found_;
};

/// Rewrites expressions everywhere, in the shapes of local arrays too.
Stmt replace(const Stmt& s, const ExprRewrite& on_expr) {
  std::map<Array, Array> reshaped;
  walk_stmts(s, [&](const Stmt& t) {
    const auto* a = t.as<Allocate>();
    if (!a) return;
    std::vector<Expr> shape;
    for (const Expr& extent : a->array->shape) shape.push_back(rewrite(extent, on_expr));
    if (!equal(shape, a->array->shape))
      reshaped[a->array] = make_array(a->array->name, a->array->type, shape, a->array->role, a->array->location);
  });
  const Stmt result = rewrite(s, on_expr);
  return reshaped.empty() ? result : replace_arrays(result, reshaped);
}

}  // namespace

NamedExtents name_extents(const Program& program) {
  NamedExtents result{program, {}};
  if (!program.body) return result;
  // A large expression often holds another one, which is then counted once more in the value of the first.
  for (int round = 0; round < 16; ++round) {
    const auto next = Counter(result).largest();
    if (!next) break;
    const Symbol symbol = make_symbol(next->name);
    const ExprRewrite on_expr = [&](const Expr& e) -> std::optional<Expr> {
      return equal(e, next->expr) ? std::optional(var(symbol)) : std::nullopt;
    };
    result.program.body = replace(result.program.body, on_expr);
    for (NamedExtent& extent : result.extents) extent.value = rewrite(extent.value, on_expr);
    result.extents.insert(result.extents.begin(), {symbol, next->expr});
  }
  return result;
}

}  // namespace loopgrad::backend
