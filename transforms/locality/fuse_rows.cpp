#include "transforms/locality/fuse_rows.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/locality/row_nests.h"
#include "transforms/locality/row_windows.h"
#include "transforms/storage/storage_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int most_row_nests = 4;      // that are fused: what they touch has to stay in the cache together
constexpr std::size_t most_aside = 4;  // loops among them that are done before or afterwards
constexpr std::int64_t strips = 64;    // at most, whatever the number of threads
constexpr unsigned long budget = 1'000'000;

// Nests that run row by row, with their places in time, and the loops among them that do so before or afterwards.
struct Plan {
  std::vector<RowNest> nests;
  RowWindows windows;
  std::vector<Stmt> before, after;
  std::size_t statements = 0;  // that all of these were

  bool pays() const { return nests.size() > 1 && row_nests() > 0; }
  int row_nests() const {
    return static_cast<int>(std::count_if(nests.begin(), nests.end(), [](auto& n) { return n.kind == RowKind::Rows; }));
  }
};

class Planner {
 public:
  Planner(const ir::Program& program, const poly::Model& model) : program_(program), distances_(model) {}

  // As many of the nests, from the first on, as can run row by row.
  Plan plan(const std::vector<RowNest>& nests) {
    Plan best, next;
    next.nests.push_back(nests[0]);
    for (std::size_t k = 1; k < nests.size(); ++k) {
      if (nests[k].kind == RowKind::Other) {
        if (!step_aside(next, nests[k])) break;
        continue;
      }
      if (!append(next, nests[k])) break;
      next.statements = k + 1;
      best = next;
    }
    if (!best.pays()) return best;
    best.windows = row_windows(program_, distances_, best.nests);
    join_rows_within(best.nests);
    return best;
  }

 private:
  void join_rows_within(std::vector<RowNest>& nests) const {
    std::size_t first = 0;  // of those that join each other
    for (std::size_t k = 1; k < nests.size(); ++k) {
      nests[k].joins = true;
      for (std::size_t l = first; l < k; ++l) nests[k].joins &= distances_.rows_within_match(nests[l], nests[k]);
      if (!nests[k].joins) first = k;
    }
  }

  bool append(Plan& plan, RowNest next) {
    if (next.kind == RowKind::Rows && plan.row_nests() == most_row_nests) return false;
    for (const RowNest& later : after_)
      if (!distances_.independent(later, next)) return false;
    bool shares = false;
    for (const RowNest& earlier : plan.nests) {
      const auto reach = distances_.between(earlier, next);
      if (!reach) return false;
      shares |= reach->shares;
      next.behind = std::max(next.behind, earlier.behind + reach->down);
      next.peel_low = std::max(next.peel_low, earlier.peel_low + reach->up);
    }
    if (shares) plan.nests.push_back(next);
    return shares;
  }

  bool step_aside(Plan& plan, const RowNest& nest) {
    if (plan.before.size() + plan.after.size() == most_aside) return false;
    auto independent = [&](const RowNest& other) { return distances_.independent(other, nest); };
    if (std::all_of(plan.nests.begin(), plan.nests.end(), independent) &&
        std::all_of(after_.begin(), after_.end(), independent)) {
      plan.before.push_back(nest.statement);
    } else {
      plan.after.push_back(nest.statement);
      after_.push_back(nest);
    }
    return true;
  }

  const ir::Program& program_;
  RowDistances distances_;
  std::vector<RowNest> after_;
};

// Code

Expr sum(const Expr& a, std::int64_t b) { return simplify_indices(a + ir::int_const(b)); }

class Fused {
 public:
  explicit Fused(const Plan& plan) : nests_(plan.nests), windows_(plan.windows) {
    const std::vector<RowNest>& nests = nests_;
    begin_ = nests[0].rows().lower;
    end_ = nests[0].rows().upper;
    std::int64_t peeled = 0;
    for (const RowNest& nest : nests) {
      begin_ = ir::smaller(begin_, nest.rows().lower);
      end_ = ir::larger(end_, nest.rows().upper);
      peeled = std::max(peeled, nest.peel_low + nest.behind);
    }
    const Expr extent = end_ - begin_;
    const Expr share = ir::binary(BinaryOp::FloorDiv, sum(extent, strips - 1), ir::int_const(strips));
    std::int64_t least = std::max<std::int64_t>(4 * peeled, 1);
    for (const auto& [array, window] : windows_) least = std::max(least, window.rows());
    rows_ = ir::larger(share, ir::int_const(least));
    const Expr full = ir::binary(BinaryOp::FloorDiv, simplify_indices(extent + rows_ - ir::int_const(1)), rows_);
    strips_ = ir::larger(full, ir::int_const(0));  // none, not fewer, where the rows end before they begin
    for (auto& [array, window] : windows_) {
      std::vector<Expr> shape = array->shape;
      shape[0] = strips_ * ir::int_const(window.rows());
      window.array = ir::make_array(array->name, array->type, shape, ir::ArrayRole::Local, array->location);
    }
  }

  Stmt build() const {
    std::vector<Stmt> code{together()};
    for (const RowNest& nest : nests_) {
      if (nest.peel_low + nest.behind > 0) code.push_back(peeled(nest));
    }
    Stmt result = ir::block(std::move(code));
    for (const auto& [array, window] : windows_) result = ir::allocate(window.array, result, array->location);
    return result;
  }

 private:
  const SourceLocation& location() const { return nests_[0].loop->location; }

  Expr start_of(const ir::Symbol& strip) const { return begin_ + ir::var(strip) * rows_; }

  Stmt row(const RowNest& nest, const ir::Symbol& strip, const Expr& index, bool peeled) const {
    return row(ir::substitute(nest.rows().body, {{nest.rows().iterator, index}}), strip, peeled);
  }
  Stmt row(const Stmt& code, const ir::Symbol& strip, bool peeled) const {
    return windows_.empty() ? code : in_windows(code, windows_, ir::var(strip), start_of(strip), rows_, peeled);
  }

  static Stmt under(const std::vector<Expr>& conditions, Stmt body) {
    Expr all;
    for (const Expr& condition : conditions) all = all ? ir::binary(BinaryOp::And, all, condition) : condition;
    return all ? ir::if_then(all, body, {}, body->location) : body;
  }

  // A row of the nests first, ..., end - 1.
  Stmt joined(std::size_t first, std::size_t end, const Expr& index) const {
    auto in_row = [&](const RowNest& nest, const Stmt& s) {
      return ir::substitute(s, {{nest.rows().iterator, index}});
    };
    if (end == first + 1) return in_row(nests_[first], nests_[first].rows().body);
    const ir::For& loop = *rows_within(nests_[first]);
    std::vector<Stmt> bodies;
    for (std::size_t k = first; k < end; ++k) {
      const ir::For& own = *rows_within(nests_[k]);
      const Stmt body = ir::substitute(own.body, {{own.iterator, ir::var(loop.iterator)}});
      bodies.push_back(ir::with_fresh_names(in_row(nests_[k], body)));
    }
    return in_row(nests_[first], with_body(loop, ir::block(std::move(bodies))));
  }

  Stmt together() const {
    const ir::Symbol strip = ir::make_symbol("strip"), row_at = ir::make_symbol(nests_[0].rows().iterator.name);
    std::vector<Stmt> rows;
    for (std::size_t k = 0, next = 0; k < nests_.size(); k = next) {
      const RowNest& nest = nests_[k];
      next = k + 1;
      while (next < nests_.size() && nests_[next].joins) ++next;
      const Expr index = sum(ir::var(row_at), -nest.behind);
      std::vector<Expr> conditions = nest.conditions;
      conditions.push_back(
          ir::binary(BinaryOp::Ge, index, ir::larger(nest.rows().lower, sum(start_of(strip), nest.peel_low))));
      conditions.push_back(ir::binary(BinaryOp::Lt, index, nest.rows().upper));
      rows.push_back(ir::with_fresh_names(under(conditions, row(joined(k, next, index), strip, false))));
    }
    const Stmt loop = ir::for_loop(row_at, start_of(strip), start_of(strip) + rows_, ir::block(std::move(rows)),
                                   ir::LoopMode::Forward, location());
    return ir::for_loop(strip, ir::int_const(0), strips_, loop, ir::LoopMode::Parallel, location());
  }

  Stmt peeled(const RowNest& nest) const {
    const ir::Symbol strip = ir::make_symbol("strip"), row_at = ir::make_symbol(nest.rows().iterator.name);
    const Expr first = ir::larger(nest.rows().lower, sum(start_of(strip), -nest.behind));
    const Expr last = ir::smaller(nest.rows().upper, sum(start_of(strip), nest.peel_low));
    const Stmt loop = ir::for_loop(row_at, first, last, row(nest, strip, ir::var(row_at), true), ir::LoopMode::Forward,
                                   nest.loop->location);
    const Stmt all =
        ir::for_loop(strip, ir::int_const(0), sum(strips_, 1), loop, ir::LoopMode::Parallel, nest.loop->location);
    return ir::with_fresh_names(under(nest.conditions, all));
  }

  const std::vector<RowNest>& nests_;
  RowWindows windows_;
  Expr begin_, end_;  // of the rows of all nests
  Expr rows_;         // of a strip
  Expr strips_;
};

class Fuser {
 public:
  Fuser(const ir::Program& program, PassContext& context)
      : program_(program), analyses_(analyses(context)), context_(context) {}

  Stmt visit(const Stmt& s) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (is_parallel_loop(child) || child.kind() == ir::Kind::Contraction) return child;
      if (child.kind() == ir::Kind::Block) return block(child);
      return std::nullopt;
    });
  }

 private:
  Stmt block(const Stmt& region) {
    const std::vector<Stmt>& body = region.as<ir::Block>()->body;
    std::vector<Stmt> result;
    for (std::size_t k = 0; k < body.size();) {
      const Plan plan = plan_from(region, k);
      if (!plan.pays()) {
        result.push_back(visit(body[k++]));
        continue;
      }
      for (const auto& [array, window] : plan.windows)
        note_storage(context_, array, Storage::Windowed, fmt::format("{} rows of each strip", window.rows()),
                     "nests run row by row, and no more are still to be read", array->location);
      result.insert(result.end(), plan.before.begin(), plan.before.end());
      result.push_back(Fused(plan).build());
      result.insert(result.end(), plan.after.begin(), plan.after.end());
      k += plan.statements;
    }
    return ir::block(std::move(result));
  }

  Plan plan_from(const Stmt& region, std::size_t first) {
    const std::vector<Stmt>& body = region.as<ir::Block>()->body;
    std::vector<RowNest> nests;
    for (std::size_t k = first; k < body.size(); ++k) {
      const auto nest = row_nest_of(body[k]);
      if (!nest || (k == first && nest->kind == RowKind::Other)) break;
      nests.push_back(*nest);
    }
    while (!nests.empty() && nests.back().kind == RowKind::Other) nests.pop_back();
    if (nests.size() < 2) return {};
    try {
      const Analyses::Model model = analyses_.model_of(program_, region);
      model->context->restart_budget(budget);
      return poly::guarded(*model->context, [&] { return Planner(program_, *model).plan(nests); });
    } catch (const poly::BudgetError&) {
      return {};
    }
  }

  const ir::Program& program_;
  Analyses& analyses_;
  PassContext& context_;
};

// Arrays that windows have replaced are allocated in vain.
Stmt without_unused(const Stmt& s) {
  return ir::rewrite(s, {}, [](const Stmt& child) -> std::optional<Stmt> {
    auto* node = child.as<ir::Allocate>();
    return node && !uses(node->body, node->array) ? std::optional(without_unused(node->body)) : std::nullopt;
  });
}

}  // namespace

ir::Program fuse_rows(const ir::Program& program, PassContext& context) {
  return ir::with_body(program, without_unused(Fuser(program, context).visit(program.body)));
}

}  // namespace loopgrad::transforms
