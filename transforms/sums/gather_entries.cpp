#include "transforms/sums/gather_entries.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/poly/schedule.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_order.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

bool mentions_any(const Expr& e, const std::set<ir::Symbol>& symbols) {
  return std::any_of(symbols.begin(), symbols.end(), [&](const ir::Symbol& symbol) { return mentions(e, symbol); });
}

/// The loops around a sum: those over entries, and the affine ones.
struct EntryLoops {
  const poly::Statement& statement;
  std::vector<const ir::For*> over_entries;  // outermost first
  std::set<ir::Symbol> entries;              // their iterators
  std::vector<ir::Symbol> affine;            // those of the others

  const poly::CsrEntry* row_of(const ir::Symbol& entry) const {
    for (const poly::CsrEntry& one : statement.entries)
      if (statement.iterators[static_cast<std::size_t>(one.dim)] == entry) return &one;
    return nullptr;
  }
};

/// Nullopt where a loop is neither.
std::optional<EntryLoops> loops_of(const poly::Model& model, const poly::Statement& statement) {
  EntryLoops result{statement, {}, {}, {}};
  for (const Stmt& one : statement.loops) {
    const auto* loop = one.as<ir::For>();
    if (!loop) return std::nullopt;
    if (result.row_of(loop->iterator) && ir::pointer_bounds(loop->lower, loop->upper).whole) {
      result.over_entries.push_back(loop);
      result.entries.insert(loop->iterator);
      continue;
    }
    for (const Expr& bound : {loop->lower, loop->upper})
      if (ir::has_load(bound) || mentions_any(bound, result.entries)) return std::nullopt;
    const Expr iterator = ir::var(loop->iterator);
    const Expr trip = ir::binary(ir::BinaryOp::And, ir::binary(ir::BinaryOp::Le, loop->lower, iterator),
                                 ir::binary(ir::BinaryOp::Lt, iterator, loop->upper));
    if (!is_in_domain(model, statement, trip)) return std::nullopt;
    result.affine.push_back(loop->iterator);
  }
  return result;
}

/// Which values outermost loops have to go through, the row's digits first; and the entry that is an index of the sum,
/// and which one.
struct Separating {
  ir::Symbol entry;
  std::size_t dim = 0;
  std::vector<Expr> values;
};

std::optional<Separating> separating(const EntryLoops& loops, const ir::Reduce& sum, const Separators& separators) {
  Separating result;
  bool found = false;
  std::vector<Expr> others;
  const std::set<ir::Symbol> affine(loops.affine.begin(), loops.affine.end());
  for (const int dim : separators.dims) {
    const Expr index = simplify_indices(sum.indices[static_cast<std::size_t>(dim)]);
    const auto* iterator = index.as<ir::Var>();
    if (iterator && loops.entries.count(iterator->symbol)) {
      if (found) return std::nullopt;
      result.entry = iterator->symbol;
      result.dim = static_cast<std::size_t>(dim);
      found = true;
    } else if (!mentions_any(index, loops.entries) && mentions_any(index, affine)) {
      others.push_back(index);
    }
  }
  if (!found) return std::nullopt;
  for (const Expr& digit : loops.row_of(result.entry)->row) {
    if (ir::has_load(digit) || mentions_any(digit, loops.entries)) return std::nullopt;
    if (mentions_any(digit, affine)) result.values.push_back(simplify_indices(digit));
  }
  if (result.values.empty()) return std::nullopt;
  result.values.insert(result.values.end(), others.begin(), others.end());
  return result;
}

/// The statement as if the affine loops were the only ones, on their projected domain.
poly::Model of_affine_loops(const poly::Model& model, const EntryLoops& loops) {
  poly::Model result{model.context, {loops.statement}, model.assumptions, model.aliases, model.sizes};
  poly::Statement& statement = result.statements[0];
  isl_set* domain = statement.domain.copy();
  for (std::size_t k = statement.iterators.size(); k-- > 0;)
    if (loops.entries.count(statement.iterators[k]))
      domain = isl_set_project_out(domain, isl_dim_set, static_cast<unsigned>(k), 1);
  domain = isl_set_set_tuple_name(domain, statement.name.c_str());
  statement.domain = poly::checked(*model.context, domain);
  statement.iterators = loops.affine;
  statement.entries.clear();
  statement.accesses.clear();
  return result;
}

/// Loops over the entries that are an index of sums, moved out of those that do not choose their rows.
Stmt entries_outwards(const Stmt& s, std::size_t dim) {
  return ir::rewrite(s, {}, [&](const Stmt& one) -> std::optional<Stmt> {
    const auto* outer = one.as<ir::For>();
    if (!outer) return std::nullopt;
    const Stmt body = entries_outwards(outer->body, dim);
    const auto* inner = body.as<ir::For>();
    bool is_index = false;
    if (inner)
      ir::walk_stmts(inner->body, [&](const Stmt& leaf) {
        const auto* sum = leaf.as<ir::Reduce>();
        const auto* index = sum ? simplify_indices(sum->indices[dim]).as<ir::Var>() : nullptr;
        is_index |= index && index->symbol == inner->iterator;
      });
    if (!is_index || mentions(inner->lower, outer->iterator) || mentions(inner->upper, outer->iterator))
      return with_body(*outer, body);
    return with_body(*inner, with_body(*outer, inner->body));
  });
}

}  // namespace

Stmt gather_entries(const poly::Model& model, const Stmt& nest, const Stmt& sum, const Separators& separators) {
  const auto found = std::find_if(model.statements.begin(), model.statements.end(),
                                  [&](const poly::Statement& s) { return s.stmt.get() == sum.get(); });
  if (found == model.statements.end()) throw InternalError("a sum is missing in the model of its nest");
  const auto loops = loops_of(model, *found);
  if (!loops || loops->over_entries.empty()) return {};
  const auto outermost = separating(*loops, *sum.as<ir::Reduce>(), separators);
  if (!outermost) return {};

  Stmt body = guarded_sum(nest, sum, [&](const Expr& condition) {
    return is_in_domain(model, *found, condition) && !mentions_any(condition, loops->entries);
  });
  const ir::For* own = nullptr;
  for (auto loop = loops->over_entries.rbegin(); loop != loops->over_entries.rend(); ++loop) {
    if ((*loop)->iterator == outermost->entry) own = *loop;
    else body = with_body(**loop, body);
  }
  const LoopOrder order = best_order(sum, loops->affine, outermost->values, 0);
  const Stmt code =
      poly::code_in_order(of_affine_loops(model, *loops), {{0, order.time, with_body(*own, body)}}, order.names);
  return entries_outwards(simplify_indices(code), outermost->dim);
}

}  // namespace loopgrad::transforms
