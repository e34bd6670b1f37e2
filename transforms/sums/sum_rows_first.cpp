#include "transforms/sums/sum_rows_first.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/known_scalars.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/abstraction.h"
#include "dsl/poly/model.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/storage/expand_locals.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// How often a key is repeated at least for totals of many keys to pay: they are set to zero, summed up and added.
constexpr double least_repeats = 4;

/// Sums into the elements that some of the loops inside a loop choose, or none of them.
struct Rows {
  Array target;
  std::vector<Expr> indices;
  // Around each of the sums, the outermost first; it is none that chooses. Those that choose are the same for all.
  std::vector<std::vector<const ir::For*>> loops_of_sums;
  std::set<ir::Symbol> choosing;  // iterators
  StmtSet sums;
  SourceLocation where;            // of the first of these
  Array total = {};                // where they go
  std::vector<Expr> element = {};  // of it

  const std::vector<const ir::For*>& loops() const { return loops_of_sums.front(); }
};

class RowFinder {
 public:
  RowFinder(const std::set<Array>& aliased, const ir::KnownScalars& scalars, const poly::Facts& facts, const Stmt& loop)
      : aliased_(aliased), scalars_(scalars), facts_(facts), loop_(loop) {
    ir::walk_stmts(loop, [&](const Stmt& s) {
      if (const auto* n = s.as<ir::For>()) changed_.insert(n->iterator);
      if (const auto* n = s.as<ir::While>()) changed_.insert(n->iterator);
      if (const auto* n = s.as<ir::Allocate>()) own_.insert(n->array);
    });
    stored_ = stored_in(loop);
    visit(loop);
  }
  std::vector<Rows> take() { return std::move(rows_); }

 private:
  /// What is executed in every iteration of the loops around.
  void visit(const Stmt& s) {
    if (const auto* n = s.as<ir::Block>())
      for (const Stmt& child : n->body) visit(child);
    if (const auto* n = s.as<ir::Allocate>()) visit(n->body);
    if (const auto* n = s.as<ir::For>()) {
      loops_.push_back(n);
      visit(n->body);
      loops_.pop_back();
    }
    if (const auto* n = s.as<ir::Reduce>()) note(s, *n);
  }

  /// Has the same value before the loop and in all of its iterations, but for the iterators that choose.
  bool stays(const Expr& e, const std::set<ir::Symbol>& choosing) const {
    bool result = true;
    ir::walk(e, [&](const Expr& part) {
      if (const auto* n = part.as<ir::Var>()) result &= !changed_.count(n->symbol) || choosing.count(n->symbol);
      if (const auto* n = part.as<ir::Load>())
        result &= !stored_.count(n->array) && !own_.count(n->array) && !aliased_.count(n->array);
    });
    return result;
  }

  void note(const Stmt& s, const ir::Reduce& sum) {
    const Array& target = sum.array;
    if (sum.op != ir::ReduceOp::Add || sum.atomic || own_.count(target) || aliased_.count(target)) return;
    if (value_type(target->type) != target->type) return;
    Rows rows = {target, {}, {loops_}, {}, {s.get()}, s->location};
    for (const Expr& index : sum.indices) rows.indices.push_back(scalars_.look_through(index));
    if (!choose(rows)) return;
    for (Rows& other : rows_)
      if (other.target == target && ir::equal(other.indices, rows.indices)) {
        other.sums.insert(s.get());
        other.loops_of_sums.push_back(loops_);
        return;
      }
    if (only_summed(target)) rows_.push_back(std::move(rows));
  }

  /// Finds the loops that choose the element; false where the outermost one does, or the keys cannot be told later.
  bool choose(Rows& rows) const {
    const auto add = [&](const Expr& e) {
      ir::walk(e, [&](const Expr& part) {
        if (const auto* n = part.as<ir::Var>(); n && changed_.count(n->symbol)) rows.choosing.insert(n->symbol);
      });
    };
    for (const Expr& index : rows.indices) add(index);
    for (auto loop = rows.loops().rbegin(); loop != rows.loops().rend(); ++loop)
      if (rows.choosing.count((*loop)->iterator)) {
        add((*loop)->lower);
        add((*loop)->upper);
      }
    if (rows.choosing.count(rows.loops().front()->iterator)) return false;
    const auto is_told = [&](const Expr& e) { return stays(e, rows.choosing); };
    const bool all_told = std::all_of(rows.indices.begin(), rows.indices.end(), is_told) &&
                          std::all_of(rows.loops().begin(), rows.loops().end(), [&](const ir::For* loop) {
                            return is_told(loop->lower) && is_told(loop->upper);
                          });
    return all_told && std::any_of(rows.indices.begin(), rows.indices.end(),
                                   [&](const Expr& e) { return ir::has_load(e) || !is_affine(e); });
  }

  bool is_affine(const Expr& index) const {
    poly::Abstraction abstraction(facts_);
    abstraction.value(index);
    return abstraction.exact();
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
  const ir::KnownScalars& scalars_;
  const poly::Facts& facts_;
  const Stmt& loop_;
  std::set<ir::Symbol> changed_;
  std::set<Array> own_, stored_;
  std::vector<const ir::For*> loops_;
  std::vector<Rows> rows_;
};

class RowSummer final : public ir::Rewriter {
 public:
  RowSummer(const ir::Program& program, const PassContext& context)
      : program_(program),
        context_(context),
        aliased_(ir::aliased_arrays(program)),
        scalars_(program),
        facts_(program) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (s.kind() == ir::Kind::Contraction) return s;
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode == ir::LoopMode::Parallel) return rewrite_children(s);
    std::vector<Rows> rows = RowFinder(aliased_, scalars_, facts_, s).take();
    std::vector<Stmt> added;
    std::erase_if(rows, [&](Rows& one) {
      const std::optional<Stmt> add = repeats(one) ? add_total(one) : std::nullopt;
      if (add) added.push_back(*add);
      return !add;
    });
    if (rows.empty()) return rewrite_children(s);
    return with_totals(s, rows, added);
  }

 private:
  /// Whether each key is met often enough.
  bool repeats(const Rows& rows) const {
    if (rows.choosing.empty()) return true;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    std::map<ir::Symbol, double> iterators;
    double repeats = 1;
    for (const ir::For* loop : rows.loops()) {
      const double lower = sizes.value_of(loop->lower, iterators), upper = sizes.value_of(loop->upper, iterators);
      if (!rows.choosing.count(loop->iterator)) repeats *= sizes.trips_of(loop->lower, loop->upper, iterators);
      iterators[loop->iterator] = (lower + upper) / 2;
    }
    return repeats >= least_repeats;
  }

  /// Whether all loops around one of the sums make a trip, but for those that choose.
  static Expr adds_anything(const Rows& rows) {
    Expr any;
    for (const auto& loops : rows.loops_of_sums) {
      Expr runs = ir::bool_const(true);
      for (const ir::For* n : loops)
        if (!rows.choosing.count(n->iterator))
          runs = ir::binary(ir::BinaryOp::And, runs, ir::binary(ir::BinaryOp::Lt, n->lower, n->upper));
      if (ir::as_int(runs).value_or(0) != 0) return runs;
      if (!any) any = runs;
      else if (!ir::equal(any, runs)) any = ir::binary(ir::BinaryOp::Or, any, runs);
    }
    return any;
  }

  /// target[key] += total, in the loops that choose, after all others; finds a place for the totals. Nullopt where
  /// their number is not known.
  std::optional<Stmt> add_total(Rows& rows) const {
    const SourceLocation& where = rows.where;
    const Array one = ir::make_array(rows.target->name + "_row", rows.target->type, {}, ir::ArrayRole::Local, where);
    const Expr runs = adds_anything(rows);
    Stmt add = ir::reduce(rows.target, rows.indices, ir::ReduceOp::Add, ir::load(one, {}), where);
    if (ir::as_int(runs).value_or(0) == 0) add = ir::if_then(runs, add, {}, where);
    if (rows.choosing.empty()) {
      rows.total = one;
      return add;
    }
    const Stmt nest = over_keys(rows, ir::allocate(one, add, where));
    const auto expansion = expanded(nest, one);
    if (!expansion) return std::nullopt;
    rows.total = expansion->arrays.front();
    ir::walk_stmts(expansion->nest, [&](const Stmt& s) {
      if (const auto* sum = s.as<ir::Reduce>()) rows.element = sum->value.as<ir::Load>()->indices;
    });
    return ir::with_fresh_names(expansion->nest);
  }

  std::optional<Expansion> expanded(const Stmt& nest, const Array& local) const {
    try {
      const ir::Program alone = ir::with_body(program_, nest);
      const poly::Model model = poly::build_model(alone, nest, std::make_shared<poly::Context>());
      return expand_locals(alone, model, nest, {local});
    } catch (const poly::BudgetError&) {
      return std::nullopt;
    }
  }

  /// The loops that choose around a body.
  static Stmt over_keys(const Rows& rows, Stmt body) {
    for (auto loop = rows.loops().rbegin(); loop != rows.loops().rend(); ++loop)
      if (rows.choosing.count((*loop)->iterator)) body = with_body(**loop, body);
    return body;
  }

  /// All elements: partial results of the sums may add to more of them than the loops that choose do.
  static Stmt cleared(const Array& total) {
    return ir::over_elements(total->shape, total->location, [&](const std::vector<Expr>& element) {
      return ir::assign(total, element, ir::const_of(0, total->type), total->location);
    });
  }

  static Stmt with_totals(const Stmt& loop, const std::vector<Rows>& rows, const std::vector<Stmt>& added) {
    std::vector<Stmt> body;
    for (const Rows& one : rows) {
      body.push_back(cleared(one.total));
    }
    body.push_back(ir::rewrite(loop, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* sum = s.as<ir::Reduce>();
      for (const Rows& one : rows)
        if (sum && one.sums.count(s.get())) return ir::reduce_like(*sum, one.total, one.element, sum->value);
      return std::nullopt;
    }));
    body.insert(body.end(), added.begin(), added.end());
    Stmt result = ir::block(std::move(body));
    for (auto one = rows.rbegin(); one != rows.rend(); ++one)
      result = ir::allocate(one->total, result, one->total->location);
    return result;
  }

  const ir::Program& program_;
  const PassContext& context_;
  const std::set<Array> aliased_;
  const ir::KnownScalars scalars_;
  const poly::Facts facts_;
};

}  // namespace

ir::Program sum_rows_first(const ir::Program& program, PassContext& context) {
  return ir::with_body(program, RowSummer(program, context).rewrite(program.body));
}

}  // namespace loopgrad::transforms
