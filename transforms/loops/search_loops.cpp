#include "transforms/loops/search_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/deciding_leaves.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

bool mentions_any(const std::vector<Expr>& indices, const ir::Symbol& symbol) {
  for (const Expr& index : indices)
    if (mentions(index, symbol)) return true;
  return false;
}

bool uses_any(const std::vector<Expr>& indices, const ir::Array& array) {
  for (const Expr& index : indices)
    if (uses(index, array)) return true;
  return false;
}

using IsZero = std::function<bool(const ir::Load&)>;

bool vanishes(const Expr& e, const IsZero& is_zero) {
  if (const auto* load = e.as<ir::Load>()) return is_zero(*load);
  if (const auto* negated = e.as<ir::Unary>()) return negated->op == ir::UnaryOp::Neg && vanishes(negated->a, is_zero);
  if (const auto* cast = e.as<ir::Cast>()) return vanishes(cast->a, is_zero);
  if (const auto* chosen = e.as<ir::Select>()) return vanishes(chosen->a, is_zero) && vanishes(chosen->b, is_zero);
  const auto* both = e.as<ir::Binary>();
  if (!both) return ir::is_const(e, 0);
  const bool a = vanishes(both->a, is_zero);
  if (both->op == BinaryOp::Mul) return a || vanishes(both->b, is_zero);
  if (both->op == BinaryOp::Div) return a;
  return (both->op == BinaryOp::Add || both->op == BinaryOp::Sub) && a && vanishes(both->b, is_zero);
}

bool is_element(const ir::Load& load, const ir::Assign& element) {
  return load.array == element.array && ir::equal(load.indices, element.indices);
}

/// A store of a value that vanishes, so that zeros stay zeros.
bool stores_zero(const Stmt& leaf, const IsZero& is_zero) {
  if (const auto* assign = leaf.as<ir::Assign>()) return vanishes(assign->value, is_zero);
  const auto* sum = leaf.as<ir::Reduce>();
  return sum && sum->op == ir::ReduceOp::Add && vanishes(sum->value, is_zero);
}

const ir::Array* stored(const Stmt& leaf) {
  const auto* assign = leaf.as<ir::Assign>();
  const auto* sum = leaf.as<ir::Reduce>();
  return assign ? &assign->array : sum ? &sum->array : nullptr;
}

}  // namespace

bool vanishes_with(const Expr& e, const ir::Assign& element) {
  return vanishes(e, [&](const ir::Load& load) { return is_element(load, element); });
}

namespace {

/// Whether all that outlives an iteration is made by what its `branch`, which clears `element` in the end, takes from
/// there: other statements add values that vanish with it, or with locals of the body that do, as far as they reach
/// beyond the iteration, and do not touch the element.
bool does_nothing_without(const Stmt& body, const Stmt& branch, const ir::Assign& element,
                          const std::set<ir::Array>& aliases) {
  if (uses(replace(body, branch, ir::block({})), element.array)) return false;
  const std::vector<Stmt> all = leaves(body);
  std::set<ir::Array> own, zero;  // locals of the body; those of them that hold nothing but zeros
  for (const LocalArray& local : locals_of(body)) {
    own.insert(local.array);
    if (is_float(local.array->type)) zero.insert(local.array);
  }
  const IsZero is_zero = [&](const ir::Load& load) { return zero.count(load.array) || is_element(load, element); };
  for (bool changes = true; changes;) {
    changes = false;
    for (const Stmt& leaf : all)
      if (const ir::Array* array = stored(leaf); array && !stores_zero(leaf, is_zero))
        changes |= zero.erase(*array) != 0;
  }
  return std::all_of(all.begin(), all.end(), [&](const Stmt& leaf) {
    const ir::Array* array = stored(leaf);
    if (!array || aliases.count(*array)) return false;
    if (own.count(*array) || *array == element.array) return true;
    const auto* sum = leaf.as<ir::Reduce>();
    return sum && !sum->atomic && stores_zero(leaf, is_zero);
  });
}

/// The statements of the body when all but the last add what vanishes with the element that the last one sets to zero.
const ir::Assign* taken_once(const ir::Program& program, const ir::For& loop, const ir::If& branch) {
  std::vector<Stmt> body = {branch.then_body};
  if (const auto* block = branch.then_body.as<ir::Block>()) body = block->body;
  const auto* taken = body.empty() ? nullptr : body.back().as<ir::Assign>();
  if (!taken || !ir::is_const(taken->value, 0) || !is_float(taken->array->type)) return nullptr;
  if (mentions_any(taken->indices, loop.iterator) || uses(branch.condition, taken->array)) return nullptr;
  if (ir::aliased_arrays(program).count(taken->array) || uses_any(taken->indices, taken->array)) return nullptr;
  for (std::size_t k = 0; k + 1 < body.size(); ++k) {
    const auto* sum = body[k].as<ir::Reduce>();
    if (!sum || sum->op != ir::ReduceOp::Add || sum->atomic || sum->array == taken->array) return nullptr;
    if (!vanishes_with(sum->value, *taken)) return nullptr;
    if (uses(branch.condition, sum->array) || uses_any(taken->indices, sum->array) ||
        ir::aliased_arrays(program).count(sum->array))
      return nullptr;
    for (std::size_t other = 0; other + 1 < body.size(); ++other) {
      const auto* reduce = body[other].as<ir::Reduce>();
      if (!reduce || uses_any(reduce->indices, sum->array) || uses_any(reduce->indices, taken->array)) return nullptr;
    }
  }
  return taken;
}

/// The statements that a loop's body executes in a row, inside the scopes of its locals.
std::vector<Stmt> statements_of(const Stmt& body) {
  if (const auto* local = body.as<ir::Allocate>()) return statements_of(local->body);
  const auto* block = body.as<ir::Block>();
  if (!block) return {body};
  std::vector<Stmt> all;
  for (const Stmt& child : block->body)
    for (const Stmt& s : statements_of(child)) all.push_back(s);
  return all;
}

/// The branch of the loop's body that takes what all of an iteration is a multiple of.
Stmt taking_branch(const ir::Program& program, const ir::For& loop) {
  for (const Stmt& s : statements_of(loop.body)) {
    const auto* branch = s.as<ir::If>();
    if (!branch || !ir::is_empty(branch->else_body) || ir::is_empty(branch->then_body)) continue;
    const ir::Assign* taken = taken_once(program, loop, *branch);
    if (!taken) continue;
    if (loop.body.same_as(s)) return s;
    bool moves = false;
    for (const Stmt& leaf : leaves(loop.body))
      for_each_store(
          leaf, [&](const ir::Array& array, const std::vector<Expr>&) { moves |= uses_any(taken->indices, array); });
    const bool is_all = does_nothing_without(loop.body, s, *taken, ir::aliased_arrays(program));
    return !moves && is_all ? s : Stmt();
  }
  return {};
}

/// `in_each`, with what the condition of the branch needs of other statements in the loop's body before it; nullopt
/// where that is changed by the loop.
std::optional<Stmt> in_place_of(const ir::Program& program, const Stmt& loop, const Stmt& branch, const Stmt& in_each) {
  const Stmt& body = loop.as<ir::For>()->body;
  if (body.same_as(branch)) return in_each;
  auto needed = DecidingLeaves(program, loop).of(std::vector<Expr>{branch.as<ir::If>()->condition});
  if (!needed) return std::nullopt;
  needed->insert(in_each.get());
  return ir::with_fresh_names(slice(replace(body, branch, in_each), *needed));
}

std::optional<Stmt> as_search(const ir::Program& program, const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  if (!loop || ir::is_parallel(loop->mode) || ir::uses_stack(loop->body) || has_contraction(loop->body))
    return std::nullopt;
  const Stmt taking = taking_branch(program, *loop);
  if (!taking) return std::nullopt;

  const auto& branch = *taking.as<ir::If>();
  const bool last = loop->mode == LoopMode::Backward;
  const ir::Array match = ir::make_array("match", ScalarType::I64, {}, ir::ArrayRole::Local, loop->location);
  const Expr found = ir::load(match, {});
  const Expr none = last ? loop->lower - ir::int_const(1) : loop->upper;
  const auto look =
      in_place_of(program, s, taking,
                  ir::reduce(match, {}, last ? ir::ReduceOp::Max : ir::ReduceOp::Min,
                             ir::select(branch.condition, ir::var(loop->iterator), none), branch.location));
  if (!look) return std::nullopt;
  const Stmt search =
      ir::for_loop(loop->iterator, loop->lower, loop->upper, *look, LoopMode::Forward, loop->location, loop->at_most);
  const Expr any = last ? ir::binary(BinaryOp::Ge, found, loop->lower) : ir::binary(BinaryOp::Lt, found, loop->upper);
  const Stmt once = ir::substitute(replace(loop->body, taking, branch.then_body), {{loop->iterator, found}});
  return ir::allocate(
      match,
      ir::block({ir::assign(match, {}, none, loop->location), search, ir::if_then(any, once, {}, branch.location)}),
      loop->location);
}

/// Whether `s` uses an array that is declared in `body`.
bool uses_locals_of(const Stmt& body, const Stmt& s) {
  bool found = false;
  ir::walk_stmts(body, [&](const Stmt& child) {
    if (const auto* local = child.as<ir::Allocate>()) found |= uses(s, local->array);
  });
  return found;
}

/// Whether one of the indices is the iterator, so that no two iterations have an element in common.
bool is_own_of(const std::vector<Expr>& indices, const ir::Symbol& iterator) {
  for (const Expr& index : indices)
    if (const auto* v = index.as<ir::Var>(); v && v->symbol == iterator) return true;
  return false;
}

/// Whether no other element of the array is read.
bool reads_only(const Stmt& s, const ir::Array& array, const std::vector<Expr>& indices) {
  bool only = true;
  ir::walk(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (load && load->array == array) only &= ir::equal(load->indices, indices);
      });
  return only;
}

/// Whether the `branch` of all iterations can come before the `others`, those of `after` behind it in the body.
bool can_come_first(const ir::Symbol& iterator, const Stmt& branch, const std::vector<Stmt>& others,
                    const StmtSet& after, const std::set<ir::Array>& aliases) {
  std::map<ir::Array, std::vector<Expr>> changed;
  bool can = true;
  ir::walk_stmts(branch, [&](const Stmt& s) {
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
      const auto [known, is_new] = changed.emplace(array, indices);
      can &= is_new || ir::equal(known->second, indices);
    });
  });
  // Of what the branch changes, statements behind it may use the iteration's own element.
  const auto is_own = [&](const Stmt& other, const ir::Array& array, const std::vector<Expr>& indices) {
    const auto known = changed.find(array);
    if (known == changed.end() || !after.count(other.get())) return false;
    return ir::equal(indices, known->second) && is_own_of(indices, iterator) && reads_only(branch, array, indices);
  };
  for (const Stmt& other : others) {
    ir::walk(
        other,
        [&](const Stmt& s) {
          can &= s.kind() != ir::Kind::Push && s.kind() != ir::Kind::Pop;
          for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
            can &= !aliases.count(array) && (is_own(other, array, indices) || !uses(branch, array));
          });
        },
        [&](const Expr& e) {
          const auto* load = e.as<ir::Load>();
          if (load && changed.count(load->array)) can &= is_own(other, load->array, load->indices);
        });
  }
  return can;
}

struct Found {
  Stmt search;
  Stmt rest;  // of the loop; null: nothing
};

/// Rewrites searches, those among other statements of a loop first.
class Searches final : public ir::Rewriter {
 public:
  enum class Which { All, Shared };
  Searches(const ir::Program& program, Which which)
      : program_(program), aliases_(ir::aliased_arrays(program)), which_(which) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (s.kind() == ir::Kind::Contraction) return s;
    // What is left of a loop may have another one.
    if (const auto found = find(s))
      return found->rest ? ir::block({found->search, rewrite(found->rest)}) : found->search;
    around_.push_back(s);
    Stmt result = rewrite_children(s);
    around_.pop_back();
    return result;
  }

 private:
  std::optional<Found> find(const Stmt& s) const {
    const auto* loop = s.as<ir::For>();
    if (!loop) return std::nullopt;
    if (const auto search = chosen(s)) return Found{*search, {}};
    const std::vector<Stmt> statements = statements_of(loop->body);
    if (ir::is_parallel(loop->mode) || statements.size() < 2 || !bounds_stay(program_, s).ok) return std::nullopt;
    for (std::size_t k = 0; k < statements.size(); ++k) {
      const auto search = chosen(with_body(*loop, statements[k]));
      if (!search) continue;
      std::vector<Stmt> others = statements;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
      const StmtSet after = set_of({others.begin() + static_cast<std::ptrdiff_t>(k), others.end()});
      if (uses_locals_of(loop->body, statements[k]) ||
          !can_come_first(loop->iterator, statements[k], others, after, aliases_))
        continue;
      return Found{ir::with_fresh_names(*search), with_body(*loop, replace(loop->body, statements[k], ir::block({})))};
    }
    return std::nullopt;
  }

  std::optional<Stmt> chosen(const Stmt& loop) const {
    if (which_ == Which::Shared && !are_shared(*loop.as<ir::For>())) return std::nullopt;
    return as_search(program_, loop);
  }

  // Whether some sum in the loop is into an element that does not depend on a loop around, which the array outlives.
  bool are_shared(const ir::For& loop) const {
    bool shared = false;
    ir::walk_stmts(loop.body, [&](const Stmt& s) {
      const auto* sum = s.as<ir::Reduce>();
      if (!sum || sum->array->shape.empty() || !mentions_any(sum->indices, loop.iterator)) return;
      for (auto outer = around_.rbegin(); outer != around_.rend() && !shared; ++outer) {
        if (const auto* scope = outer->as<ir::Allocate>(); scope && scope->array == sum->array) return;
        const auto* repeated = outer->as<ir::For>();
        shared = repeated && !mentions_any(sum->indices, repeated->iterator) &&
                 !mentions(loop.lower, repeated->iterator) && !mentions(loop.upper, repeated->iterator);
      }
    });
    return shared;
  }

  const ir::Program& program_;
  const std::set<ir::Array> aliases_;
  const Which which_;
  std::vector<Stmt> around_;
};

}  // namespace

bool is_search(const ir::Program& program, const Stmt& loop) { return as_search(program, loop).has_value(); }

ir::Program search_loops(const ir::Program& program) {
  return ir::with_body(program, Searches(program, Searches::Which::All).rewrite(program.body));
}

ir::Program search_shared_loops(const ir::Program& program) {
  return ir::with_body(program, Searches(program, Searches::Which::Shared).rewrite(program.body));
}

}  // namespace loopgrad::transforms
