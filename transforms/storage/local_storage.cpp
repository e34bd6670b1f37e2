#include "transforms/storage/local_storage.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"
#include "transforms/storage/expand_locals.h"

#include <fmt/format.h>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// The loop below the Allocate that has all uses of the array, or null.
Stmt only_user(const ir::Allocate& node) {
  Stmt result;
  int users = 0;
  for (const Stmt& s : statements_of(node.body)) {
    if (!uses(s, node.array)) continue;
    ++users;
    result = s;
  }
  return users == 1 && result.kind() == ir::Kind::For ? result : Stmt();
}

// The dimension in which all accesses are at the iterator plus the same constant, or -1.
int own_dimension(const ir::Array& array, const ir::For& loop) {
  for (std::size_t dim = 0; dim < array->shape.size(); ++dim) {
    Expr common;
    bool own = true;
    for (const Access& access : accesses_of(loop.body)) {
      if (access.array != array) continue;
      Expr index = simplify_indices(access.indices[dim]);
      if (!common) common = index;
      ir::LinearForm offset = linear_form(index - ir::var(loop.iterator));
      own = own && ir::equal(index, common) && offset.terms.empty();
    }
    if (own && common) return static_cast<int>(dim);
  }
  return -1;
}

}  // namespace

Scheduled expand_local(const Analysed& program, const std::string& local, const LoopName& name) {
  Stmt loop = find_loop(program, name), allocation = find_local(program, local);
  std::string action = fmt::format("expand '{}' over '{}'", local, name.name());
  if (!contains(loop, allocation)) misuse(program, loop, action, "the local is not in the loop");
  std::optional<Expansion> expansion;
  try {
    expansion =
        expand_locals(program, *program.analyses.model_of(program, loop), loop, {allocation.as<ir::Allocate>()->array});
  } catch (const poly::BudgetError& e) {
    require(Legality::refused(e.info().message), program, loop, action);
  }
  if (!expansion) {
    require(Legality::refused("its extent or the number of iterations is not known before the loop"), program, loop,
            action);
  }
  Stmt result = expansion->nest;
  for (const ir::Array& array : expansion->arrays) result = ir::allocate(array, result, allocation->location);
  return {with_replaced(program, loop, result), {}};
}

Scheduled contract_local(const Analysed& program, const std::string& local) {
  Stmt allocation = find_local(program, local);
  const ir::Allocate& node = *allocation.as<ir::Allocate>();
  std::string action = fmt::format("contract '{}'", local);
  Stmt loop = only_user(node);
  if (!loop) misuse(program, allocation, action, "it is used outside of one loop", "fuse the loops that use it");
  const ir::For& user = *loop.as<ir::For>();
  int dim = own_dimension(node.array, user);
  if (dim < 0) {
    misuse(program, allocation, action,
           fmt::format("iterations of '{}' use elements other than their own", user.iterator.name));
  }
  std::vector<Expr> shape = node.array->shape;
  shape.erase(shape.begin() + dim);
  ir::Array smaller = ir::make_array(local, node.array->type, shape, ir::ArrayRole::Local, node.array->location);
  Stmt body = ir::move_elements(
      user.body, [&](const ir::Array& array, std::vector<Expr> indices) -> std::optional<ir::ElementPlace> {
        if (array != node.array) return std::nullopt;
        indices.erase(indices.begin() + dim);
        return ir::ElementPlace{smaller, std::move(indices)};
      });
  Stmt inside = with_body(user, ir::allocate(smaller, body, allocation->location));
  return {with_replaced(program, allocation, replace(node.body, loop, inside)), {}};
}

}  // namespace loopgrad::transforms
