#include "transforms/cpu/fuse_rows.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/dependences.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;
using poly::Model;
using poly::Statement;

namespace {

constexpr std::int64_t most_rows = 4;  // that a dependence may reach up or down
constexpr std::size_t most_nests = 4;  // that are fused: what they touch has to stay in the cache together
constexpr std::int64_t strips = 64;    // at most, whatever the number of threads
constexpr unsigned long budget = 1'000'000;

// Sums and recurrences compute on what they have loaded, so that memory is not what they wait for.
bool has_sequential_loop(const Stmt& s) {
  bool found = false;
  ir::walk_stmts(s, [&](const Stmt& child) {
    found |= child.kind() == ir::Kind::While || (child.kind() == ir::Kind::For && !is_parallel_loop(child));
  });
  return found;
}

// Whether all the work of a row is in parallel loops, so that lanes run along the row.
bool is_row(const Stmt& s) {
  if (auto* block = s.as<ir::Block>()) return std::all_of(block->body.begin(), block->body.end(), is_row);
  if (auto* branch = s.as<ir::If>()) {
    return !ir::has_load(branch->condition) && is_row(branch->then_body) &&
           (!branch->else_body || is_row(branch->else_body));
  }
  return is_parallel_loop(s) && !has_sequential_loop(s);
}

// A parallel loop over rows, under conditions that are the same for all of them.
struct Nest {
  Stmt loop;
  std::vector<Expr> conditions;
  std::int64_t behind = 0;    // rows after the first nest's; so many at the end of a strip wait for the next one
  std::int64_t peel_low = 0;  // rows at the beginning of a strip that wait for the one before

  const ir::For& rows() const { return *loop.as<ir::For>(); }
};

std::optional<Nest> nest_of(Stmt s) {
  Nest nest;
  while (auto* branch = s.as<ir::If>()) {
    if (branch->else_body || ir::has_load(branch->condition)) return std::nullopt;
    nest.conditions.push_back(branch->condition);
    s = branch->then_body;
    if (auto* block = s.as<ir::Block>(); block && block->body.size() == 1) s = block->body[0];
  }
  if (!is_parallel_loop(s)) return std::nullopt;
  nest.loop = s;
  const ir::For& rows = nest.rows();
  if (ir::has_load(rows.lower) || ir::has_load(rows.upper) || !is_row(rows.body) || has_contraction(s))
    return std::nullopt;
  return nest;
}

// Legality

// How far apart in rows conflicting instances of two nests are: first - second is in [-up, down].
struct Reach {
  std::int64_t up = 0, down = 0;
  bool shares = false;  // an array
};

class Legality {
 public:
  explicit Legality(const Model& model) : model_(model) {}

  std::optional<Reach> between(const Nest& first, const Nest& second) const {
    Reach reach;
    for (const Statement& a : model_.statements) {
      if (!belongs(a, first)) continue;
      for (const Statement& b : model_.statements) {
        if (belongs(b, second) && !extend(reach, a, b)) return std::nullopt;
      }
    }
    return reach;
  }

 private:
  static bool belongs(const Statement& s, const Nest& nest) {
    return !s.loops.empty() && s.loops[0].same_as(nest.loop);
  }

  bool extend(Reach& reach, const Statement& a, const Statement& b) const {
    for (const poly::Access& x : a.accesses) {
      for (const poly::Access& y : b.accesses) {
        if (x.array == y.array && !x.array->shape.empty()) reach.shares = true;
        if (x.kind == poly::AccessKind::Read && y.kind == poly::AccessKind::Read) continue;
        if (x.array != y.array && model_.aliases.empty()) continue;
        if (!extend(reach, poly::touching_pairs(model_, a, x, b, y)
                               .intersect_domain(a.domain)
                               .intersect_range(b.domain)
                               .intersect_params(model_.assumptions)))
          return false;
      }
    }
    return true;
  }

  bool extend(Reach& reach, const isl::map& pairs) const {
    if (pairs.is_empty()) return true;
    isl_map* rows = pairs.copy();
    for (const auto side : {isl_dim_in, isl_dim_out}) {
      rows = isl_map_project_out(rows, side, 1, static_cast<unsigned>(isl_map_dim(rows, side)) - 1);
      rows = isl_map_reset_tuple_id(rows, side);
    }
    const isl::set ahead = poly::checked(*model_.context, isl_map_deltas(rows));  // second - first
    const auto least = integer(isl_set_dim_min_val(ahead.copy(), 0)),
               most = integer(isl_set_dim_max_val(ahead.copy(), 0));
    if (!least || !most) return false;
    reach.down = std::max(reach.down, -*least);
    reach.up = std::max(reach.up, *most);
    return reach.down <= most_rows && reach.up <= most_rows;
  }

  static std::optional<std::int64_t> integer(isl_val* value) {
    const isl::val owned = isl::manage(value);
    if (isl_val_is_int(owned.get()) != isl_bool_true) return std::nullopt;
    return isl_val_get_num_si(owned.get());
  }

  const Model& model_;
};

// As many of the nests, from the first on, as can run row by row; with their places in time.
std::vector<Nest> fusible(const Model& model, const std::vector<Nest>& nests) {
  const Legality legality(model);
  std::vector<Nest> result{nests[0]};
  for (std::size_t k = 1; k < nests.size() && k < most_nests; ++k) {
    Nest next = nests[k];
    bool shares = false;
    for (const Nest& earlier : result) {
      const auto reach = legality.between(earlier, next);
      if (!reach) return result;
      shares |= reach->shares;
      next.behind = std::max(next.behind, earlier.behind + reach->down);
      next.peel_low = std::max(next.peel_low, earlier.peel_low + reach->up);
    }
    if (!shares) return result;
    result.push_back(next);
  }
  return result;
}

// Code

Expr sum(const Expr& a, std::int64_t b) { return simplify_indices(a + ir::int_const(b)); }

class Fused {
 public:
  explicit Fused(const std::vector<Nest>& nests) : nests_(nests) {
    begin_ = nests[0].rows().lower;
    end_ = nests[0].rows().upper;
    std::int64_t peeled = 0;
    for (const Nest& nest : nests) {
      begin_ = ir::smaller(begin_, nest.rows().lower);
      end_ = ir::larger(end_, nest.rows().upper);
      peeled = std::max(peeled, nest.peel_low + nest.behind);
    }
    const Expr extent = end_ - begin_;
    const Expr share = ir::binary(BinaryOp::FloorDiv, sum(extent, strips - 1), ir::int_const(strips));
    rows_ = ir::larger(share, ir::int_const(std::max<std::int64_t>(4 * peeled, 1)));
    strips_ = ir::binary(BinaryOp::FloorDiv, simplify_indices(extent + rows_ - ir::int_const(1)), rows_);
  }

  Stmt build() const {
    std::vector<Stmt> code{together()};
    for (const Nest& nest : nests_) {
      if (nest.peel_low + nest.behind > 0) code.push_back(peeled(nest));
    }
    return ir::block(std::move(code));
  }

 private:
  const SourceLocation& location() const { return nests_[0].loop->location; }

  Expr start_of(const ir::Symbol& strip) const { return begin_ + ir::var(strip) * rows_; }

  static Stmt row(const Nest& nest, const Expr& index) {
    return ir::substitute(nest.rows().body, {{nest.rows().iterator, index}});
  }

  static Stmt under(const std::vector<Expr>& conditions, Stmt body) {
    Expr all;
    for (const Expr& condition : conditions) all = all ? ir::binary(BinaryOp::And, all, condition) : condition;
    return all ? ir::if_then(all, body, {}, body->location) : body;
  }

  Stmt together() const {
    const ir::Symbol strip = ir::make_symbol("strip"), row_at = ir::make_symbol(nests_[0].rows().iterator.name);
    std::vector<Stmt> rows;
    for (const Nest& nest : nests_) {
      const Expr index = sum(ir::var(row_at), -nest.behind);
      std::vector<Expr> conditions = nest.conditions;
      conditions.push_back(
          ir::binary(BinaryOp::Ge, index, ir::larger(nest.rows().lower, sum(start_of(strip), nest.peel_low))));
      conditions.push_back(ir::binary(BinaryOp::Lt, index, nest.rows().upper));
      rows.push_back(ir::with_fresh_names(under(conditions, row(nest, index))));
    }
    const Stmt loop = ir::for_loop(row_at, start_of(strip), start_of(strip) + rows_, ir::block(std::move(rows)),
                                   ir::LoopMode::Forward, location());
    return ir::for_loop(strip, ir::int_const(0), strips_, loop, ir::LoopMode::Parallel, location());
  }

  Stmt peeled(const Nest& nest) const {
    const ir::Symbol strip = ir::make_symbol("strip"), row_at = ir::make_symbol(nest.rows().iterator.name);
    const Expr first = ir::larger(nest.rows().lower, sum(start_of(strip), -nest.behind));
    const Expr last = ir::smaller(nest.rows().upper, sum(start_of(strip), nest.peel_low));
    const Stmt loop =
        ir::for_loop(row_at, first, last, row(nest, ir::var(row_at)), ir::LoopMode::Forward, nest.loop->location);
    const Stmt all =
        ir::for_loop(strip, ir::int_const(0), sum(strips_, 1), loop, ir::LoopMode::Parallel, nest.loop->location);
    return ir::with_fresh_names(under(nest.conditions, all));
  }

  const std::vector<Nest>& nests_;
  Expr begin_, end_;  // of the rows of all nests
  Expr rows_;         // of a strip
  Expr strips_;
};

class Fuser {
 public:
  explicit Fuser(const ir::Program& program) : program_(program), context_(std::make_shared<poly::Context>(budget)) {}

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
      const std::vector<Nest> fused = fusible_from(region, k);
      result.push_back(fused.size() > 1 ? Fused(fused).build() : visit(body[k]));
      k += std::max<std::size_t>(1, fused.size());
    }
    return ir::block(std::move(result));
  }

  std::vector<Nest> fusible_from(const Stmt& region, std::size_t first) {
    const std::vector<Stmt>& body = region.as<ir::Block>()->body;
    std::vector<Nest> nests;
    for (std::size_t k = first; k < body.size(); ++k) {
      const auto nest = nest_of(body[k]);
      if (!nest) break;
      nests.push_back(*nest);
    }
    if (nests.size() < 2) return {};
    try {
      context_->restart_budget();
      return poly::guarded([&] { return fusible(poly::build_model(program_, region, context_), nests); });
    } catch (const poly::BudgetError&) {
      return {};
    }
  }

  const ir::Program& program_;
  std::shared_ptr<poly::Context> context_;
};

}  // namespace

ir::Program fuse_rows(const ir::Program& program) { return ir::with_body(program, Fuser(program).visit(program.body)); }

}  // namespace loopgrad::transforms
