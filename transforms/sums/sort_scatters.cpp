#include "transforms/sums/sort_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/own_scatters.h"
#include "transforms/sums/segment_sums.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

/// Sorts once for all sums of the program's outermost statements that have iterations and targets in common.
class Sorter {
 public:
  Sorter(const ir::Program& program, std::int64_t enough_threads, int threads_per_block) : program_(program) {
    const auto at_most = [&](std::int64_t share, std::int64_t most) {
      return std::clamp(share, std::int64_t{2}, most);
    };
    piece_ = at_most(enough_threads / 512, 128);
    many_threads_ = std::max<std::int64_t>(enough_threads / 8, 2);
    // The same tile and as many counts whatever the block.
    const auto power_of_two = [](std::int64_t share, std::int64_t least, std::int64_t most) {
      return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::clamp(share, least, most))));
    };
    shares_.threads = threads_per_block ? threads_per_block : power_of_two(enough_threads / 256, 4, 256);
    shares_.keys = power_of_two(std::min<std::int64_t>(enough_threads / 32, 2048) / shares_.threads, 2, 64);
    shares_.values = power_of_two(std::min<std::int64_t>(enough_threads / 16, 4096) / shares_.threads, 2, 32);
    shares_.group = power_of_two(enough_threads / 4096, 2, 16);
    shares_.most_bits = at_most(enough_threads / 1024, 10);
    ir::walk_stmts(program.body, [&](const Stmt& s) {
      for_each_store(s, [&](const Array& array, const auto&) { written_.insert(array); });
    });
  }

  Stmt whole() {
    Stmt body = outermost(program_.body);
    for (const auto& sorted : shared_) body = with_arrays(*sorted, body);
    return body;
  }

 private:
  /// Statements that run once: what is sorted before one of them is sorted for all that follow.
  Stmt outermost(const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>())
      return ir::allocate(local->array, outermost(local->body), local->location);
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : block->body) body.push_back(outermost(child));
      return ir::block(std::move(body));
    }
    const Stmt result = inside(s);
    std::vector<Stmt> all = std::move(before_);
    before_.clear();
    all.push_back(result);
    return ir::block(std::move(all));
  }

  /// Sorts that depend on nothing that changes are shared by all nests with the same iterations and targets.
  Stmt with_shared(const Stmt& nest, const Scatter& scatter) {
    const auto found =
        std::find_if(shared_.begin(), shared_.end(), [&](const auto& one) { return one->serves(scatter); });
    const SortedIterations* sorted = found == shared_.end() ? nullptr : found->get();
    if (!sorted) {
      shared_.push_back(std::make_unique<SortedIterations>(scatter, ascends(scatter), shares_));
      sorted = shared_.back().get();
      before_.push_back(ir::if_then(sorted->fits(), ir::with_fresh_names(sorted->code())));
    }
    return where_it_fits(nest, scatter, *sorted, segment_sums(scatter, *sorted, piece_));
  }

  /// By sorted segments, where the numbers fit and the nest is not parallel enough as it is.
  Stmt where_it_fits(const Stmt& nest, const Scatter& scatter, const SortedIterations& sorted,
                     const Stmt& by_sort) const {
    const Stmt result =
        ir::if_then(sorted.fits(), by_sort, owned_scatter(program_, nest).value_or(nest), nest->location);
    if (!scatter.is_shared_out) return ir::with_fresh_names(result);
    const auto& loop = *nest.as<ir::For>();
    return ir::if_then(at_least(loop.upper - loop.lower, many_threads_), nest, ir::with_fresh_names(result),
                       nest->location);
  }

  Stmt inside(const Stmt& all) {
    return ir::rewrite(all, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Contraction) return s;
      if (s.kind() != ir::Kind::For) return std::nullopt;
      if (const auto scatter = scatter_in(program_, s)) {
        if (is_constant(*scatter)) return with_shared(s, *scatter);
        const SortedIterations sorted(*scatter, ascends(*scatter), shares_);
        const Stmt body = ir::block({sorted.code(), segment_sums(*scatter, sorted, piece_)});
        return ir::with_fresh_names(with_arrays(sorted, where_it_fits(s, *scatter, sorted, body)));
      }
      if (const auto owned = owned_scatter(program_, s)) return owned;
      // Inside a parallel loop there are owners enough.
      return is_parallel_loop(s) ? std::optional(s) : std::nullopt;
    });
  }

  static Stmt with_arrays(const SortedIterations& sorted, Stmt body) {
    for (const Array& array : sorted.arrays()) body = ir::allocate(array, body, array->location);
    return body;
  }

  /// Whether the targets ascend, since the user says so of the array that they are.
  bool ascends(const Scatter& scatter) const {
    Expr key = scatter.key();
    while (const auto* cast = key.as<ir::Cast>()) key = cast->a;
    const auto* load = key.as<ir::Load>();
    if (!load || written_.count(load->array) || scatter.factors.size() != 1 || !scatter.is_plain()) return false;
    if (scatter.factors[0].rows || scatter.factors[0].is_ragged) return false;
    const ir::For& loop = *scatter.factors[0].loop;
    const bool by_loop = load->indices.size() == 1 && ir::equal(load->indices[0], ir::var(loop.iterator));
    return by_loop && std::any_of(program_.facts.begin(), program_.facts.end(), [&](const ir::Fact& fact) {
             return fact.array == load->array && fact.kind == ir::FactKind::Sorted;
           });
  }

  /// The targets are the same wherever they are asked for.
  bool is_constant(const Scatter& scatter) const {
    bool constant = true;
    const auto is_known = [&](const ir::Symbol& symbol) {
      return std::find(program_.sizes.begin(), program_.sizes.end(), symbol) != program_.sizes.end() ||
             std::any_of(scatter.sequential.begin(), scatter.sequential.end(),
                         [&](const ir::For* loop) { return loop->iterator == symbol; });
    };
    const auto look = [&](const Expr& x) {
      if (const auto* load = x.as<ir::Load>()) constant &= !written_.count(load->array);
      if (const auto* variable = x.as<ir::Var>()) constant &= is_known(variable->symbol);
    };
    for (const Expr& decider : scatter.deciders()) ir::walk(decider, look);
    for (const ScatterFactor& factor : scatter.factors) ir::walk(factor.extent, look);
    ir::walk(scatter.targets(), look);
    for (const ir::For* loop : scatter.sequential) {
      ir::walk(loop->lower, look);
      ir::walk(loop->upper, look);
    }
    return constant;
  }

  const ir::Program& program_;
  std::int64_t piece_, many_threads_;
  SortShares shares_;
  std::set<Array> written_;
  std::vector<Stmt> before_;  // sorts that the next outermost statement needs
  std::vector<std::unique_ptr<SortedIterations>> shared_;
};

}  // namespace

ir::Program sort_scatters(const ir::Program& program, std::int64_t enough_threads, int threads_per_block) {
  return ir::with_body(program, Sorter(program, enough_threads, threads_per_block).whole());
}

}  // namespace loopgrad::transforms
