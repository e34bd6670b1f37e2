#include "tape/invariant_values.h"

#include "dsl/frontend/nest_locals.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "tape/stores.h"

#include <algorithm>
#include <unordered_map>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

/// What a loop changes from one iteration to the next.
struct Changes {
  std::set<ir::Symbol> iterators;
  std::set<Array> arrays;

  explicit Changes(const Stmt& loop) {
    ir::walk_stmts(loop, [&](const Stmt& s) {
      if (is_loop(s)) iterators.insert(iterator_of(s));
      if (const auto* local = s.as<ir::Allocate>()) arrays.insert(local->array);
      if (const Array* array = stored_array(s)) arrays.insert(*array);
      if (const auto* pop = s.as<ir::Pop>()) arrays.insert(pop->array);
    });
  }
};

bool is_over_all(const ir::For& loop, const Expr& extent) {
  return ir::as_int(loop.lower) == 0 && ir::equal(loop.upper, extent);
}

/// What is stored outside of branches, whatever iterations of which loops there are.
class AlwaysSet {
 public:
  explicit AlwaysSet(const ir::Program& program) { look_at(program.body); }

  /// Whether something is stored to the element in no other loops than these: a loop may make no trip. Each index is a
  /// number or an iterator over all of its dimension, as a store's may be.
  bool has(const ir::Load& load, const std::set<ir::Symbol>& around) const {
    const auto found = stores_of_.find(load.array);
    return found != stores_of_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                    [&](const Store& store) { return sets(store, load, around); });
  }

 private:
  struct Store {
    std::vector<const ir::For*> loops;
    std::vector<Expr> indices;
  };

  static bool sets(const Store& store, const ir::Load& load, const std::set<ir::Symbol>& around) {
    std::set<ir::Symbol> covering;
    const auto covers = [&](std::size_t d) {
      const auto* v = store.indices[d].as<ir::Var>();
      return v && std::any_of(store.loops.begin(), store.loops.end(), [&](const ir::For* loop) {
               return loop->iterator == v->symbol && is_over_all(*loop, load.array->shape[d]) &&
                      covering.insert(v->symbol).second;
             });
    };
    for (std::size_t d = 0; d < store.indices.size(); ++d)
      if (!ir::equal(store.indices[d], load.indices[d]) && !covers(d)) return false;
    return std::all_of(store.loops.begin(), store.loops.end(), [&](const ir::For* loop) {
      return covering.count(loop->iterator) || around.count(loop->iterator);
    });
  }

  void look_at(const Stmt& s) {
    if (!s || s.kind() == ir::Kind::If || s.kind() == ir::Kind::While) return;
    if (const Array* array = stored_array(s)) stores_of_[*array].push_back({loops_, stored_indices(s)});
    const auto* loop = s.as<ir::For>();
    if (loop) loops_.push_back(loop);
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { look_at(child); }});
    if (loop) loops_.pop_back();
  }

  std::vector<const ir::For*> loops_;
  std::map<Array, std::vector<Store>> stores_of_;
};

class Invariants final : public ir::Rewriter {
 public:
  Invariants(const ir::Program& program, const IsActive& active, std::set<Array>& named)
      : active_(active), named_(named), program_(program), set_(program) {
    for (const Array& array : program.arrays)
      if (array->role == ir::ArrayRole::Input || array->role == ir::ArrayRole::InOut) given_.insert(array);
  }
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (s.kind() == ir::Kind::CustomGradient) return s;  // a rule stays as the user wrote it
    const auto* loop = s.as<ir::For>();
    if (!loop) return rewrite_children(s);
    std::vector<Stmt> statements;
    std::vector<ir::DeclaredLocal> locals;
    const Stmt left = runs_by_sizes(*loop) ? without_invariants(s, statements, locals) : s;
    around_.push_back(left.as<ir::For>());
    const Stmt inner = rewrite_children(left);
    around_.pop_back();
    if (locals.empty()) return inner;
    statements.push_back(inner);
    return ir::nest_locals(statements, locals);
  }

 private:
  bool runs_by_sizes(const ir::For& loop) const {
    return !loop.at_most && ir::is_of_sizes(loop.lower, program_) && ir::is_of_sizes(loop.upper, program_);
  }

  /// The loop with names for its invariants, and the statements that compute these.
  Stmt without_invariants(const Stmt& loop, std::vector<Stmt>& statements, std::vector<ir::DeclaredLocal>& locals) {
    const Changes changes(loop);
    std::vector<std::pair<Expr, Array>> known;
    const auto name_of = [&](const Expr& e, const SourceLocation& where) {
      for (const auto& [value, name] : known)
        if (ir::equal(value, e)) return ir::load(name, {}, where);
      const Array name = ir::make_array("value" + std::to_string(count_++), e.type(), {}, ir::ArrayRole::Local, where);
      known.emplace_back(e, name);
      named_.insert(name);
      locals.push_back({name, statements.size()});
      statements.push_back(ir::assign(name, {}, e, where));
      return ir::load(name, {}, where);
    };
    return in_every_iteration(loop, [&](const Stmt& store) { return with_names(store, changes, name_of); });
  }

  /// f(store) for the stores of the loop, and of loops inside, that no branch leaves out.
  Stmt in_every_iteration(const Stmt& s, const std::function<Stmt(const Stmt&)>& f) const {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (child.kind() == ir::Kind::If || child.kind() == ir::Kind::While) return child;
      const auto* loop = child.as<ir::For>();
      if (loop && !child.same_as(s) && !runs_by_sizes(*loop)) return child;
      return stored_array(child) ? std::optional(f(child)) : std::nullopt;
    });
  }

  template <class Name>
  Stmt with_names(const Stmt& store, const Changes& changes, const Name& name_of) const {
    const auto* assign = store.as<ir::Assign>();
    const auto* sum = store.as<ir::Reduce>();
    const Expr& value = assign ? assign->value : sum->value;
    // The whole value, and the product that a fused sum adds, stay with the statement.
    const auto* negated = sum && sum->fused ? value.as<ir::Unary>() : nullptr;
    const auto is_whole = [&](const Expr& e) { return e.same_as(value) || (negated && e.same_as(negated->a)); };
    Parts parts;
    const Expr named = ir::rewrite(value, [&](const Expr& e) -> std::optional<Expr> {
      if (e.kind() == ir::Kind::Load || e.kind() == ir::Kind::Select) return e;
      if (is_whole(e) || !is_operation(e)) return std::nullopt;
      const Part& part = part_of(e, changes, parts);
      if (!part.stays || !part.reads_active || part.chooses) return std::nullopt;
      return name_of(e, store->location);
    });
    if (named.same_as(value)) return store;
    if (assign) return ir::assign(assign->array, assign->indices, named, store->location);
    return ir::reduce_like(*sum, sum->array, sum->indices, named);
  }

  /// What an expression has in it.
  struct Part {
    bool stays = true, reads_active = false, chooses = false;
  };
  using Parts = std::unordered_map<const ir::ExprNode*, Part>;

  const Part& part_of(const Expr& e, const Changes& changes, Parts& parts) const {
    if (const auto known = parts.find(e.get()); known != parts.end()) return known->second;
    Part part;
    part.chooses = e.kind() == ir::Kind::Select;
    const auto add = [&](const Expr& operand) {
      const Part& own = part_of(operand, changes, parts);
      part.stays &= own.stays;
      part.reads_active |= own.reads_active;
      part.chooses |= own.chooses;
    };
    ir::for_each_child(e, add);
    if (const auto* v = e.as<ir::Var>()) part.stays = !changes.iterators.count(v->symbol);
    if (const auto* load = e.as<ir::Load>()) {
      part.stays = part.stays && !changes.arrays.count(load->array) && is_set(*load) && plainly_stays_within(*load);
      part.reads_active = is_float(e.type()) && active_(load->array);
    }
    return parts.emplace(e.get(), part).first->second;
  }

  /// Whether it holds something in front of a loop in those around.
  bool is_set(const ir::Load& load) const {
    if (given_.count(load.array)) return true;
    std::set<ir::Symbol> around;
    for (const ir::For* loop : around_) around.insert(loop->iterator);
    return set_.has(load, around);
  }

  static bool is_operation(const Expr& e) {
    if (!is_float(e.type())) return false;
    if (const auto* one = e.as<ir::Unary>()) return one->op != ir::UnaryOp::Neg;
    return e.kind() == ir::Kind::Binary || e.kind() == ir::Kind::Fma;
  }

  /// Each index is a number or the iterator of a loop over all of the dimension.
  bool plainly_stays_within(const ir::Load& load) const {
    for (std::size_t d = 0; d < load.indices.size(); ++d) {
      const Expr &index = load.indices[d], &extent = load.array->shape[d];
      if (const auto number = ir::as_int(index)) {
        const auto most = ir::as_int(extent);
        if (*number < 0 || !most || *number >= *most) return false;
        continue;
      }
      const auto* v = index.as<ir::Var>();
      const bool within = v && std::any_of(around_.begin(), around_.end(), [&](const ir::For* loop) {
                            return loop->iterator == v->symbol && ir::as_int(loop->lower).value_or(-1) >= 0 &&
                                   ir::equal(loop->upper, extent);
                          });
      if (!within) return false;
    }
    return true;
  }

  const IsActive& active_;
  std::set<Array>& named_;
  const ir::Program& program_;
  const AlwaysSet set_;
  std::set<Array> given_;               // by the caller
  std::vector<const ir::For*> around_;  // the present statement
  int count_ = 0;
};

}  // namespace

Stmt name_invariants(const ir::Program& program, const IsActive& active, std::set<Array>& named) {
  return Invariants(program, active, named).rewrite(program.body);
}

}  // namespace loopgrad::tape
