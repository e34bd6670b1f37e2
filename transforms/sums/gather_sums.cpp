#include "transforms/sums/gather_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/poly/abstraction.h"
#include "dsl/poly/schedule.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_order.h"
#include "transforms/sums/gather_entries.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// Fewer elements than this give too few threads something to do.
constexpr std::int64_t few_elements = 16;

int index_of(const poly::Model& model, const Stmt& s) {
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    if (model.statements[k].stmt.get() == s.get()) return static_cast<int>(k);
  }
  throw InternalError("a sum is missing in the model of its nest");
}

bool varies(const Expr& index, const std::vector<ir::Symbol>& iterators) {
  Expr e = simplify_indices(index);
  return std::any_of(iterators.begin(), iterators.end(), [&](const ir::Symbol& i) { return mentions(e, i); });
}

bool is_affine(const Expr& e, const poly::Model& model, const std::vector<ir::Symbol>& iterators) {
  return !ir::has_load(e) && poly::to_pw_aff(e, {model.context, iterators, ""}).has_value();
}

// The conditions around `target` below `s`, but those that are `seen_to`, joined; nullopt where it is not there.
std::optional<Expr> guard_of(const Stmt& s, const Stmt& target, const ConditionTest& seen_to, const Expr& so_far) {
  if (!s) return std::nullopt;
  if (s.get() == target.get()) return so_far;
  if (auto* node = s.as<ir::If>()) {
    Expr otherwise = ir::unary(ir::UnaryOp::Not, node->condition);
    auto joined = [&](const Expr& e) { return seen_to(e) ? so_far : ir::binary(ir::BinaryOp::And, so_far, e); };
    if (auto found = guard_of(node->then_body, target, seen_to, joined(node->condition))) return found;
    return guard_of(node->else_body, target, seen_to, joined(otherwise));
  }
  std::optional<Expr> result;
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                       [&](const Stmt& child) {
                                         if (!result) result = guard_of(child, target, seen_to, so_far);
                                       }});
  return result;
}

// Too few elements for a thread of a GPU each.
bool has_few_elements(const Stmt& sum, const Separators& separators) {
  constexpr std::int64_t most = 1024;
  std::int64_t elements = 1;
  for (const int dim : separators.dims) {
    const auto extent = ir::as_int(sum.as<ir::Reduce>()->array->shape[static_cast<std::size_t>(dim)]);
    if (!extent || *extent > most) return false;
    elements *= *extent;
  }
  return elements <= most;
}

// Whether the element exists in all iterations, also in those that conditions of data leave out.
bool surely_exists(const poly::Model& model, const Stmt& sum) {
  const poly::Statement& statement = model.statements[static_cast<std::size_t>(index_of(model, sum))];
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  for (std::size_t d = 0; d < node.indices.size(); ++d) {
    const Expr outside = ir::binary(ir::BinaryOp::Or, ir::binary(ir::BinaryOp::Lt, node.indices[d], ir::int_const(0)),
                                    ir::binary(ir::BinaryOp::Ge, node.indices[d], node.array->shape[d]));
    const auto points = ir::has_load(outside)
                            ? std::nullopt
                            : poly::to_set(outside, {model.context, statement.iterators, statement.name});
    if (!points || !points->intersect(statement.domain).intersect_params(model.assumptions.params()).is_empty())
      return false;
  }
  return true;
}

// Threads of a block share a loop that adds to one element in each of its iterations: zero where a condition of data
// leaves one out.
Stmt without_condition(const Stmt& guarded) {
  const auto* branch = guarded.as<ir::If>();
  const auto* node = branch ? branch->then_body.as<ir::Reduce>() : nullptr;
  if (!node || node->op != ir::ReduceOp::Add) return guarded;
  const Expr nothing = ir::identity_of(node->op, node->value.type());
  return ir::reduce_like(*node, node->array, node->indices, ir::select(branch->condition, node->value, nothing));
}

Stmt guarded_body(const Stmt& nest, const Stmt& sum, const poly::Model& model) {
  const poly::Statement& statement = model.statements[static_cast<std::size_t>(index_of(model, sum))];
  return guarded_sum(nest, sum, [&](const Expr& condition) { return is_in_domain(model, statement, condition); });
}

std::vector<Expr> separating_indices(const Stmt& sum, const Separators& separators) {
  std::vector<Expr> result;
  for (int dim : separators.dims) result.push_back(sum.as<ir::Reduce>()->indices[static_cast<std::size_t>(dim)]);
  return result;
}

Stmt gather_one(const poly::Model& model, const Stmt& nest, const Stmt& sum, const Separators& separators,
                const Machine& machine) {
  int index = index_of(model, sum);
  const auto& iterators = model.statements[static_cast<std::size_t>(index)].iterators;
  std::vector<Expr> varying;
  for (const Expr& e : separating_indices(sum, separators)) {
    if (varies(e, iterators)) varying.push_back(simplify_indices(e));
  }
  if (varying.empty()) return slice(nest, {sum.get()});  // one of several sums, into one element
  LoopOrder order = best_order(sum, iterators, varying, machine.elements_at_once);
  const Stmt guarded = guarded_body(nest, sum, model);
  const bool adds_always =
      machine.is_gpu() && order.summed > 0 && has_few_elements(sum, separators) && surely_exists(model, sum);
  poly::TimedStatement timed{index, order.time, adds_always ? without_condition(guarded) : guarded};
  return poly::code_in_order(model, {timed}, order.names);
}

// Sums whose target index determines every iterator (shifted stencils) run in one sweep over the target.
std::optional<Stmt> gather_in_one_sweep(const poly::Model& model, const Stmt& nest, const std::vector<Stmt>& sums,
                                        const Separators& separators) {
  std::vector<poly::TimedStatement> timed;
  for (const Stmt& sum : sums) {
    int index = index_of(model, sum);
    const auto& iterators = model.statements[static_cast<std::size_t>(index)].iterators;
    if (iterators.size() != separators.dims.size()) return std::nullopt;
    timed.push_back({index, separating_indices(sum, separators), guarded_body(nest, sum, model)});
  }
  // The last index moves fastest, so the order of dimensions is that of the array.
  return poly::code_in_order(model, timed, std::vector<std::string>(separators.dims.size()));
}

// For loops over data: keeps the nest and runs it once per block of one separating loop,
// `for b: for v: for e in ptr[v]..ptr[v + 1]: for j in block b: d_h[src[e], j] += ...`.
Stmt block_a_loop(const Stmt& nest, const std::vector<Stmt>& sums, const Separators& separators) {
  if (sums.size() != 1) return {};
  Stmt inner;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    auto* node = s.as<ir::For>();
    if (!node || s.get() == nest.get()) return;
    for (const Expr& index : separating_indices(sums[0], separators)) {
      auto* separator = index.as<ir::Var>();
      if (separator && separator->symbol == node->iterator) inner = s;
    }
  });
  if (!inner) return {};
  const ir::For& loop = *inner.as<ir::For>();
  bool fixed = !ir::has_load(loop.lower) && !ir::has_load(loop.upper);
  ir::walk_stmts(nest, [&](const Stmt& s) {
    auto* node = s.as<ir::For>();
    if (node) fixed = fixed && !mentions(loop.lower, node->iterator) && !mentions(loop.upper, node->iterator);
  });
  if (!fixed) return {};
  ir::Symbol block = ir::make_symbol(loop.iterator.name + "_block");
  Expr size = ir::int_const(elements_per_block);
  Expr first = loop.lower + size * ir::var(block);
  Stmt shorter = ir::for_loop(loop.iterator, first, ir::binary(ir::BinaryOp::Min, loop.upper, first + size), loop.body,
                              loop.mode, loop.location);
  Expr blocks = ir::binary(ir::BinaryOp::FloorDiv, loop.upper - loop.lower + size - ir::int_const(1), size);
  return ir::for_loop(block, ir::int_const(0), blocks, replace(nest, inner, shorter), ir::LoopMode::Forward,
                      nest->location);
}

// Loops with a constant extent after others: the outermost loop should have many iterations. The last index stays last
// where there is another one for that: neighbours along it are neighbours in memory.
void prefer_long_loops(std::vector<int>& dims, const ir::Array& target) {
  const auto is_long = [&](int dim) { return !ir::as_int(target->shape[static_cast<std::size_t>(dim)]); };
  const bool others = std::count_if(dims.begin(), dims.end(), is_long) > 1;
  std::stable_partition(dims.begin(), others && is_long(dims.back()) ? std::prev(dims.end()) : dims.end(), is_long);
}

// Loops over the entries of rows among the others.
Stmt gather_over_rows(const poly::Model& model, const Stmt& nest, const std::vector<Stmt>& sums,
                      const Separators& separators) {
  std::vector<Stmt> parts;
  for (const Stmt& sum : sums) {
    const Stmt one = gather_entries(model, nest, sum, separators);
    if (!one) return {};
    parts.push_back(parts.empty() ? one : ir::with_fresh_names(one));  // slices of one nest have its iterators
  }
  return ir::block(std::move(parts));
}

}  // namespace

bool is_in_domain(const poly::Model& model, const poly::Statement& statement, const Expr& condition) {
  const Expr otherwise = ir::unary(ir::UnaryOp::Not, condition);
  if (ir::has_load(condition)) return false;
  const auto left_out = poly::to_set(otherwise, {model.context, statement.iterators, statement.name});
  return left_out && left_out->intersect(statement.domain).is_empty();
}

Stmt guarded_sum(const Stmt& nest, const Stmt& sum, const ConditionTest& seen_to) {
  auto guard = guard_of(nest, sum, seen_to, ir::bool_const(true));
  bool always = guard && ir::as_int(*guard) == 1;
  return always || !guard ? sum : ir::if_then(*guard, sum, {}, sum->location);
}

Separators separators_of(const poly::Model& model, const Stmt& shared_by, const std::vector<Stmt>& sums) {
  Separators result;
  const ir::Array& target = sums[0].as<ir::Reduce>()->array;
  const ir::Symbol& shared = shared_by.as<ir::For>()->iterator;
  for (const Stmt& sum : sums) {
    result.exact_bounds &= model.statements[static_cast<std::size_t>(index_of(model, sum))].exact_bounds;
  }
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < target->shape.size(); ++dim) {
    bool separates = true, moves = false;
    for (const Stmt& sum : sums) {
      const auto& iterators = model.statements[static_cast<std::size_t>(index_of(model, sum))].iterators;
      const Expr& index = sum.as<ir::Reduce>()->indices[dim];
      separates = separates && is_affine(index, model, iterators);
      moves = moves || varies(index, iterators);
      result.follows = result.follows || ir::has_load(index) || mentions(index, shared);
    }
    if (!separates || !moves) continue;
    result.dims.push_back(static_cast<int>(dim));
    auto extent = ir::as_int(target->shape[dim]);
    elements = extent && elements != 0 ? elements * *extent : 0;  // 0: not a constant
  }
  result.small = elements > 0 && elements < few_elements;
  if (sums.size() == 1) prefer_long_loops(result.dims, target);
  return result;
}

Stmt gather_sums(const poly::Model& model, const Stmt& nest, const std::vector<Stmt>& sums,
                 const Separators& separators, const Machine& machine) {
  if (!separators.exact_bounds) {
    const Stmt rows = gather_over_rows(model, nest, sums, separators);
    return rows ? rows : block_a_loop(nest, sums, separators);
  }
  if (sums.size() == 1) return simplify_indices(gather_one(model, nest, sums[0], separators, machine));
  if (auto together = gather_in_one_sweep(model, nest, sums, separators)) return simplify_indices(*together);
  std::vector<Stmt> parts;
  for (const Stmt& sum : sums) {
    const Stmt one = gather_one(model, nest, sum, separators, machine);
    parts.push_back(parts.empty() ? one : ir::with_fresh_names(one));  // slices of one nest have its iterators
  }
  return simplify_indices(ir::block(std::move(parts)));
}

}  // namespace loopgrad::transforms
