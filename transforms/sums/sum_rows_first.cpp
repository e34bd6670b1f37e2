#include "transforms/sums/sum_rows_first.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// Sums into one element that the outermost of some loops, which are inside of each other, does not choose.
struct Row {
  Array target;
  std::vector<Expr> indices;
  std::vector<const ir::For*> loops;  // around the first of the sums, the outermost first
  StmtSet sums;
  Array total;  // where they go
};

class RowFinder {
 public:
  RowFinder(const std::set<Array>& aliased, const Stmt& loop) : aliased_(aliased), loop_(loop) {
    ir::walk_stmts(loop, [&](const Stmt& s) {
      if (const auto* n = s.as<ir::For>()) changed_.insert(n->iterator);
      if (const auto* n = s.as<ir::While>()) changed_.insert(n->iterator);
      if (const auto* n = s.as<ir::Allocate>()) own_.insert(n->array);
    });
    stored_ = stored_in(loop);
    visit(loop);
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  /// What is executed in every iteration of the loops around.
  void visit(const Stmt& s) {
    if (const auto* n = s.as<ir::Block>())
      for (const Stmt& child : n->body) visit(child);
    if (const auto* n = s.as<ir::Allocate>()) visit(n->body);
    if (const auto* n = s.as<ir::For>()) {
      const bool known = loops_.empty() || (stays(n->lower) && stays(n->upper));
      loops_.push_back(n);
      if (known) visit(n->body);
      loops_.pop_back();
    }
    if (const auto* n = s.as<ir::Reduce>()) note(s, *n);
  }

  /// Has the same value before the loop and in all of its iterations.
  bool stays(const Expr& e) const {
    bool result = true;
    ir::walk(e, [&](const Expr& part) {
      if (const auto* n = part.as<ir::Var>()) result &= !changed_.count(n->symbol);
      if (const auto* n = part.as<ir::Load>()) result &= !stored_.count(n->array) && !own_.count(n->array);
    });
    return result;
  }

  void note(const Stmt& s, const ir::Reduce& sum) {
    const Array& target = sum.array;
    if (sum.op != ir::ReduceOp::Add || sum.atomic || own_.count(target) || aliased_.count(target)) return;
    if (value_type(target->type) != target->type) return;
    if (std::none_of(sum.indices.begin(), sum.indices.end(), ir::has_load)) return;
    if (!std::all_of(sum.indices.begin(), sum.indices.end(), [&](const Expr& e) { return stays(e); })) return;
    for (Row& row : rows_)
      if (row.target == target && ir::equal(row.indices, sum.indices)) {
        row.sums.insert(s.get());
        return;
      }
    if (only_summed(target)) rows_.push_back({target, sum.indices, loops_, {s.get()}, {}});
  }

  /// The loop does nothing else to the array.
  bool only_summed(const Array& array) const {
    bool only = !ir::reads(loop_, array);
    ir::walk_stmts(loop_, [&](const Stmt& s) {
      const auto* sum = s.as<ir::Reduce>();
      for_each_store(s, [&](const Array& stored, const std::vector<Expr>&) {
        only &= stored != array || (sum && sum->op == ir::ReduceOp::Add && !sum->atomic);
      });
    });
    return only;
  }

  const std::set<Array>& aliased_;
  const Stmt& loop_;
  std::set<ir::Symbol> changed_;
  std::set<Array> own_, stored_;
  std::vector<const ir::For*> loops_;
  std::vector<Row> rows_;
};

class RowSummer final : public ir::Rewriter {
 public:
  explicit RowSummer(const ir::Program& program) : aliased_(ir::aliased_arrays(program)) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (s.kind() == ir::Kind::Contraction) return s;
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode == ir::LoopMode::Parallel) return rewrite_children(s);
    std::vector<Row> rows = RowFinder(aliased_, s).take();
    if (rows.empty()) return rewrite_children(s);
    return with_totals(s, std::move(rows));
  }

 private:
  Stmt with_totals(const Stmt& loop, std::vector<Row> rows) {
    std::vector<Stmt> body, after;
    for (Row& row : rows) {
      const SourceLocation& where = (*row.sums.begin())->location;
      row.total = ir::make_array(row.target->name + "_row", row.target->type, {}, ir::ArrayRole::Local, where);
      body.push_back(ir::assign(row.total, {}, ir::const_of(0, row.target->type), where));
      Expr runs;
      for (const ir::For* n : row.loops) {
        const Expr one = ir::binary(ir::BinaryOp::Lt, n->lower, n->upper);
        runs = runs ? ir::binary(ir::BinaryOp::And, runs, one) : one;
      }
      const Stmt add = ir::reduce(row.target, row.indices, ir::ReduceOp::Add, ir::load(row.total, {}), where);
      after.push_back(ir::as_int(runs).value_or(0) != 0 ? add : ir::if_then(runs, add, {}, where));
    }
    body.push_back(ir::rewrite(loop, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* sum = s.as<ir::Reduce>();
      for (const Row& row : rows)
        if (sum && row.sums.count(s.get())) return ir::reduce_like(*sum, row.total, {}, sum->value);
      return std::nullopt;
    }));
    body.insert(body.end(), after.begin(), after.end());
    Stmt result = ir::block(std::move(body));
    for (auto row = rows.rbegin(); row != rows.rend(); ++row)
      result = ir::allocate(row->total, result, row->total->location);
    return result;
  }

  const std::set<Array> aliased_;
};

}  // namespace

ir::Program sum_rows_first(const ir::Program& program, PassContext&) {
  return ir::with_body(program, RowSummer(program).rewrite(program.body));
}

}  // namespace loopgrad::transforms
