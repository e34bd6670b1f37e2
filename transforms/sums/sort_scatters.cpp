#include "transforms/sums/sort_scatters.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/keyed_loops.h"
#include "transforms/sums/own_scatters.h"
#include "transforms/sums/scatter_batches.h"
#include "transforms/sums/segment_sums.h"
#include "transforms/sums/settle_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t least_sorted = 64;  // iterations in each step, below which threads have looked through them
constexpr std::int64_t least_pieces = 8;   // of iterations in order, below which one thread has done them sooner

/// A body whose statements run one after another: what is sorted before one of them serves those that follow, as long
/// as nothing changes the targets.
struct Scope {
  struct Sort {
    std::unique_ptr<SortedIterations> sorted;
    std::set<Array> loads;  // what decides the targets
    bool is_live = true;
  };
  const ir::Symbol* iterator = nullptr;  // of the loop with this body; null for the program's
  std::set<Array> written;               // by the present statement
  std::vector<Stmt> before;              // sorts that it needs
  std::vector<Sort> sorts;
};

std::vector<std::string> texts_of(const std::vector<Expr>& list) {
  std::vector<std::string> result;
  for (const Expr& e : list) result.push_back(ir::print(e));
  return result;
}

/// Sorts once for all sums of a body that have iterations in common, and targets, up to their distance.
class Sorter {
 public:
  Sorter(const ir::Program& program, std::int64_t enough_threads, int threads_per_block)
      : program_(program), aliased_(ir::aliased_arrays(program)), ranges_(ranges_in(program)) {
    const auto at_most = [&](std::int64_t share, std::int64_t most) {
      return std::clamp(share, std::int64_t{2}, most);
    };
    piece_ = at_most(enough_threads / 512, 128);
    many_threads_ = std::max<std::int64_t>(enough_threads / 8, 2);
    shortest_row_ = std::max<std::int64_t>(enough_threads / 128, 2);  // one thread has done it before ten kernels start
    // The same tile and as many counts whatever the block.
    const auto power_of_two = [](std::int64_t share, std::int64_t least, std::int64_t most) {
      return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::clamp(share, least, most))));
    };
    shares_.threads = threads_per_block ? threads_per_block : power_of_two(enough_threads / 256, 4, 256);
    shares_.keys = power_of_two(std::min<std::int64_t>(enough_threads / 32, 2048) / shares_.threads, 2, 64);
    const std::int64_t most_values = std::min<std::int64_t>(shares_.threads, 32);  // counts of a value fill whole rows
    shares_.values = power_of_two(std::min<std::int64_t>(enough_threads / 16, 4096) / shares_.threads, 2, most_values);
    shares_.group = power_of_two(enough_threads / 4096, 2, 16);
    shares_.most_bits = at_most(enough_threads / 1024, 10);
    written_ = stored_in(program.body);
  }

  Stmt whole() { return scope(program_.body, nullptr); }

  std::vector<Remark> remarks;  // loops that go by their keys
  std::set<Array> asked;        // arrays that decide about targets of what is sorted
  MadeOrders made;

 private:
  Stmt scope(const Stmt& body, const ir::Symbol* iterator) {
    scopes_.emplace_back().iterator = iterator;
    Stmt result = statements(body);
    for (const Scope::Sort& sort : scopes_.back().sorts) result = with_arrays(*sort.sorted, result);
    scopes_.pop_back();
    return result;
  }

  Stmt statements(const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>())
      return ir::allocate(local->array, statements(local->body), local->location);
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (std::size_t k = 0; k < block->body.size();) {
        const Batch batch = batch_of(program_, block->body, k, shares_,
                                     [&](const Scatter& one) { return static_cast<bool>(length_in_each_step(one)); });
        body.push_back(batch.size() > 1 ? statement(ir::block(batch.nests()), [&] { return by_segments(batch); })
                                        : statements(block->body[k]));
        k += std::max<std::size_t>(batch.size(), 1);
      }
      return ir::block(std::move(body));
    }
    return statement(s, [&] { return inside(s); });
  }

  /// One of the present scope.
  Stmt statement(const Stmt& s, const std::function<Stmt()>& rewritten) {
    scopes_.back().written = stored_in(s);
    const Stmt result = rewritten();
    Scope& here = scopes_.back();
    for (Scope::Sort& sort : here.sorts)
      for (const Array& array : sort.loads) sort.is_live &= !here.written.count(array);
    std::vector<Stmt> all = std::move(here.before);
    here.before.clear();
    all.push_back(result);
    return ir::block(std::move(all));
  }

  /// Of the outermost body in which the scatter's targets stay the same while its present statement runs; null when
  /// there is none.
  Scope* scope_of(const Scatter& scatter, const std::set<Array>& loads) {
    std::set<ir::Symbol> known(program_.sizes.begin(), program_.sizes.end());
    for (const ir::For* loop : scatter.sequential) known.insert(loop->iterator);
    std::vector<Expr> deciders;
    for_each_decider(scatter, [&](const Expr& x) { deciders.push_back(x); });
    // Outside of a branch its condition need not hold, and a loop may have no trip: what decides the targets need not
    // exist.
    const std::size_t first = can_be_asked_for(program_, ranges_, deciders) ? 0 : entered_;
    for (std::size_t k = 0; k < scopes_.size(); ++k) {
      Scope& one = scopes_[k];
      if (one.iterator) known.insert(*one.iterator);
      if (k < first) continue;
      const bool changes = std::any_of(loads.begin(), loads.end(), [&](const Array& array) {
        return one.written.count(array) || (aliased_.count(array) && written_.count(array));
      });
      if (!changes && is_known(scatter, known)) return &one;
    }
    return nullptr;
  }

  static void for_each_decider(const Scatter& scatter, const std::function<void(const Expr&)>& f) {
    for (const Expr& decider : scatter.deciders()) ir::walk(decider, f);
    for (const ScatterFactor& factor : scatter.factors) ir::walk(factor.extent, f);
    ir::walk(scatter.targets(), f);
    for (const ir::For* loop : scatter.sequential) {
      ir::walk(loop->lower, f);
      ir::walk(loop->upper, f);
    }
  }

  static std::set<Array> loads_of(const Scatter& scatter) {
    std::set<Array> loads;
    for_each_decider(scatter, [&](const Expr& x) {
      if (const auto* load = x.as<ir::Load>()) loads.insert(load->array);
    });
    return loads;
  }

  /// The scatter with more instances, as far as an order of instances goes: without the conditions of what the program
  /// changes, which are looked at again when the sum is made. Some may have no target then. Nullopt where the order
  /// would not serve all that are summed up together, the first of `together` for one.
  std::optional<Scatter> with_more_instances(const std::vector<Scatter>& together) const {
    const Scatter& scatter = together[0];
    if (scatter.is_plain()) return std::nullopt;
    const ir::Reduce& sum = *scatter.sum;
    Scatter all = scatter;
    for (const std::size_t d : scatter.dims) {
      if (!can_be_asked_for(program_, ranges_, {sum.indices[d]})) return std::nullopt;
      all.may_miss |= !ranges_.stays_within(sum.indices[d], sum.array->shape[d]);
    }
    all.leaf = under_lasting_conditions(scatter.leaf, scatter.sum);
    const SortedIterations sorted(all, false, shares_);
    const bool serves = std::all_of(together.begin(), together.end(),
                                    [&](const Scatter& other) { return sorted.shift_to(other).has_value(); });
    return serves ? std::optional(all) : std::nullopt;
  }

  /// The sum under the outermost conditions around it that read nothing that the program writes.
  Stmt under_lasting_conditions(const Stmt& leaf, const ir::Reduce* sum) const {
    Stmt alone;
    ir::walk_stmts(leaf, [&](const Stmt& s) {
      if (s.as<ir::Reduce>() == sum) alone = s;
    });
    const auto* branch = leaf.as<ir::If>();
    const bool lasts = branch && !branch->else_body && std::none_of(written_.begin(), written_.end(), [&](auto& array) {
                         return uses(branch->condition, array);
                       });
    return lasts
               ? ir::if_then(branch->condition, under_lasting_conditions(branch->then_body, sum), {}, branch->location)
               : alone;
  }

  /// Whether `scope`, null for the innermost one, is in a loop that `further` is not in.
  bool is_loop_between(const Scope* further, const Scope* scope) const {
    const auto number = [&](const Scope* one) { return static_cast<std::size_t>(one - scopes_.data()); };
    for (std::size_t k = number(further) + 1; k <= (scope ? number(scope) : scopes_.size() - 1); ++k)
      if (scopes_[k].iterator) return true;
    return false;
  }

  /// Of a row that would be sorted anew in each iteration of a loop in order, as many times as it may be long, as the
  /// host does not know how long it is: how long rows are on average, 1 where nothing is known. Null for others.
  Expr length_in_each_step(const Scatter& scatter) {
    const auto is_by_data = [](const ScatterFactor& factor) {
      return factor.csr.empty() && (ir::has_load(factor.loop->lower) || ir::has_load(factor.loop->upper));
    };
    const auto& factors = scatter.factors;
    if (std::none_of(factors.begin(), factors.end(), is_by_data)) return {};
    if (!is_loop_between(&scopes_.front(), scope_of(scatter, loads_of(scatter)))) return {};
    Expr average = number(1);
    for (const ScatterFactor& factor : factors) {
      const Expr row = ir::average_row(program_, factor.loop->lower, factor.loop->upper);
      average = average * (row ? row : is_by_data(factor) ? number(1) : factor.extent);
    }
    return average;
  }

  static bool is_known(const Scatter& scatter, const std::set<ir::Symbol>& known) {
    bool all = true;
    for_each_decider(scatter, [&](const Expr& x) {
      if (const auto* variable = x.as<ir::Var>()) all &= known.count(variable->symbol) > 0;
    });
    return all;
  }

  enum class Targets { Same, AtADistance };

  /// A sort of that body: one that it has already and that serves all of them, or a new one by `scatter`.
  const SortedIterations& shared(const Scatter& scatter, const std::vector<Scatter>& together, Targets targets,
                                 Scope& scope, const std::set<Array>& loads) {
    const auto found = std::find_if(scope.sorts.begin(), scope.sorts.end(), [&](const Scope::Sort& one) {
      return one.is_live && std::all_of(together.begin(), together.end(), [&](const Scatter& other) {
               const auto shift = one.sorted->shift_to(other);
               return shift && (targets == Targets::AtADistance || ir::as_int(*shift) == 0);
             });
    });
    if (found != scope.sorts.end()) return *found->sorted;
    scope.sorts.push_back({std::make_unique<SortedIterations>(order_of(scatter, &scope)), loads});
    const SortedIterations& sorted = *scope.sorts.back().sorted;
    scope.before.push_back(ir::if_then(sorted.fits(), ir::with_fresh_names(sorted.code())));
    return sorted;
  }

  /// f(sorted, what has to run right before): by a sort of a body around the nest, or by one of its own. `targets`:
  /// what f makes of one that others share.
  Stmt with_sorted(const std::vector<Scatter>& together, Targets targets,
                   const std::function<Stmt(const SortedIterations&, const Stmt&)>& f) {
    const Scatter& scatter = together[0];
    const std::set<Array> loads = loads_of(scatter);
    asked.insert(loads.begin(), loads.end());
    Scope* const scope = scope_of(scatter, loads);
    const auto all = targets == Targets::AtADistance ? with_more_instances(together) : std::nullopt;
    if (all) {
      const std::set<Array> deciding = loads_of(*all);
      Scope* const further = scope_of(*all, deciding);
      if (further && is_loop_between(further, scope))
        return f(shared(*all, together, targets, *further, deciding), ir::block({}));
    }
    if (scope) return f(shared(scatter, together, targets, *scope, loads), ir::block({}));
    return with_own_sort(scatter, f);
  }

  /// That `scope` has, null: the nest itself.
  SortedIterations order_of(const Scatter& scatter, const Scope* scope) const {
    Expr when = when_asked_for(program_, ranges_, scatter);
    // In each of many steps a sort, ten kernels and more, takes longer than threads that go through few iterations.
    const std::int64_t least = std::min(shortest_row_, least_sorted);
    if (is_loop_between(&scopes_.front(), scope))
      when = ir::both(when, at_least(scatter.iterations_up_to(least), least));
    return {scatter, ascends(scatter), shares_, when};
  }

  Stmt with_own_sort(const Scatter& scatter, const std::function<Stmt(const SortedIterations&, const Stmt&)>& f) const {
    const SortedIterations sorted = order_of(scatter, nullptr);
    return ir::with_fresh_names(with_arrays(sorted, f(sorted, sorted.code())));
  }

  /// By sorted segments, where the numbers fit and the nest is not parallel enough as it is.
  Stmt where_it_fits(const Batch& batch, const Expr& fits, const Stmt& by_sort) const {
    std::vector<Stmt> owned;
    for (const Stmt& nest : batch.nests()) owned.push_back(owned_scatter(program_, nest).value_or(nest));
    const Run& first = batch.runs[0];
    const Stmt result = ir::if_then(fits, by_sort, ir::block(std::move(owned)), first.nests[0]->location);
    if (!first.scatters[0].is_shared_out) return ir::with_fresh_names(result);
    const auto& loop = *first.nests[0].as<ir::For>();
    return ir::if_then(at_least(loop.upper - loop.lower, many_threads_), first.nests[0], ir::with_fresh_names(result),
                       first.nests[0]->location);
  }

  Stmt inside(const Stmt& all) {
    return ir::rewrite(all, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Contraction) return s;
      if (const auto* branch = s.as<ir::If>()) return in_branch(*branch);
      if (s.kind() != ir::Kind::For) return std::nullopt;
      if (const auto scatter = scatter_in(program_, s)) return by_segments({{{{s}, {*scatter}}}});
      if (const auto owned = owned_scatter(program_, s)) {
        note_sums(s, DataOrder::Owned);
        return owned;
      }
      if (auto parts = keyed_parts(program_, s)) return by_keys_of(*parts);
      // Inside a parallel loop there are owners enough.
      if (is_parallel_loop(s)) return s;
      const ir::For& loop = *s.as<ir::For>();
      return with_body(loop, entered([&] { return scope(loop.body, &loop.iterator); }));
    });
  }

  Stmt in_branch(const ir::If& branch) {
    const Stmt then_body = entered([&] { return scope(branch.then_body, nullptr); });
    const Stmt else_body = branch.else_body ? entered([&] { return scope(branch.else_body, nullptr); }) : Stmt();
    return ir::if_then(branch.condition, then_body, else_body, branch.location);
  }

  Stmt entered(const std::function<Stmt()>& inner) {
    const std::size_t outside = std::exchange(entered_, scopes_.size());
    const Stmt result = inner();
    entered_ = outside;
    return result;
  }

  Stmt by_segments(const Batch& batch) {
    const Scatter& first = batch.runs[0].scatters[0];
    const Expr length = length_in_each_step(first);
    const Stmt as_it_is = ir::with_fresh_names(ir::block(batch.nests()));
    if (length && ir::as_int(length).value_or(shortest_row_) < shortest_row_) return as_it_is;
    if (!length) return by_orders(batch, {}, {}, {});
    const Stmt by_sort = with_own_sort(first, [&](const SortedIterations& sorted, const Stmt& before) {
      return by_orders(batch, {{&batch.runs[0].scatters, &sorted}}, {before}, sorted.fits());
    });
    return ir::if_then(at_least(length, shortest_row_), by_sort, as_it_is);
  }

  /// `found`: the orders of the first runs, `before` what has to run for them, `fits` whether their numbers do.
  Stmt by_orders(const Batch& batch, const std::vector<SortedSums>& found, const std::vector<Stmt>& before,
                 const Expr& fits) {
    if (found.size() == batch.runs.size()) {
      for (const Run& run : batch.runs)
        for (const Scatter& scatter : run.scatters) made.note(*scatter.sum, DataOrder::Made);
      std::vector<Stmt> all = before;
      all.push_back(segment_sums(found, piece_, ranges_));
      return where_it_fits(batch, fits, ir::block(std::move(all)));
    }
    const Run& run = batch.runs[found.size()];
    return with_sorted(run.scatters, Targets::AtADistance, [&](const SortedIterations& sorted, const Stmt& sort) {
      std::vector<SortedSums> orders = found;
      orders.push_back({&run.scatters, &sorted});
      std::vector<Stmt> all = before;
      all.push_back(sort);
      const Expr its = sorted.fits();
      return by_orders(batch, orders, all, !fits ? its : ir::equal(fits, its) ? fits : ir::both(fits, its));
    });
  }

  void note_sums(const Stmt& code, DataOrder order) {
    ir::walk_stmts(code, [&](const Stmt& s) {
      if (const auto* sum = s.as<ir::Reduce>()) made.note(*sum, order);
    });
  }

  /// Parts with keys by these, where the numbers fit, the sort pays, and the rows are not parallel enough.
  Stmt by_keys_of(std::vector<KeyedPart>& parts) {
    std::vector<Stmt> all;
    for (KeyedPart& part : parts) {
      const Stmt as_it_is = ir::with_fresh_names(part.nest());  // parts are copies of one loop
      if (!part.keys) {
        all.push_back(as_it_is);
        continue;
      }
      streams_.push_back(part.stream);
      note_sums(as_it_is, DataOrder::Made);
      remarks.push_back({fmt::format("loop '{}': iterations with one {} stay in order, others run side by side",
                                     part.loop->iterator.name, fmt::join(texts_of(part.key), ", ")),
                         part.loop->location});
      all.push_back(with_sorted({*part.keys}, Targets::Same, [&](const SortedIterations& sorted, const Stmt& before) {
        const Expr pays = ir::binary(BinaryOp::And, at_least(sorted.count, least_pieces * piece_),
                                     less(part.width(), number(many_threads_)));
        return ir::with_fresh_names(ir::if_then(ir::binary(BinaryOp::And, sorted.fits(), pays),
                                                ir::block({before, by_keys(part, sorted)}), as_it_is));
      }));
    }
    return ir::block(std::move(all));
  }

  static Stmt with_arrays(const SortedIterations& sorted, Stmt body) {
    for (const Array& array : sorted.arrays()) body = ir::allocate(array, body, array->location);
    return body;
  }

  /// Whether the targets ascend, since the user says so of the array that they are.
  bool ascends(const Scatter& scatter) const {
    if (scatter.may_miss) return false;
    Expr key = scatter.key();
    while (const auto* cast = key.as<ir::Cast>()) key = cast->a;
    const auto* load = key.as<ir::Load>();
    if (!load || written_.count(load->array) || scatter.factors.size() != 1 || !scatter.is_plain()) return false;
    if (!scatter.factors[0].csr.empty() || scatter.factors[0].is_ragged) return false;
    const ir::For& loop = *scatter.factors[0].loop;
    const bool by_loop = load->indices.size() == 1 && ir::equal(load->indices[0], ir::var(loop.iterator));
    return by_loop && std::any_of(program_.facts.begin(), program_.facts.end(), [&](const ir::Fact& fact) {
             return fact.array == load->array && fact.kind == ir::FactKind::Sorted;
           });
  }

  const ir::Program& program_;
  std::int64_t piece_, many_threads_, shortest_row_;
  SortShares shares_;
  const std::set<Array> aliased_;
  std::set<Array> written_;    // by the program
  std::vector<Stmt> streams_;  // that sorts refer to
  std::vector<Scope> scopes_;  // around the present statement, outermost first
  const IndexRanges ranges_;
  std::size_t entered_ = 0;  // the first of them inside of all branches and loops around it
};

}  // namespace

ir::Program sort_scatters(const ir::Program& program, std::int64_t enough_threads, int threads_per_block,
                          PassContext* context) {
  Sorter sorter(program, enough_threads, threads_per_block);
  ir::Program result = without_segments(ir::with_body(program, sorter.whole()));
  // Sorts look at what iterations that store nothing have in such an array, too.
  std::erase_if(result.facts, [&](const ir::Fact& fact) {
    return fact.kind == ir::FactKind::Distinct && sorter.asked.count(fact.array);
  });
  if (!context) return result;
  constexpr OrderTexts how = {"iterations are sorted by them, where there are enough",
                              "their order cannot be made here"};
  settle_segments(program, sorter.made, how, *context);
  std::vector<Remark>& remarks = context->report.remarks;
  remarks.insert(remarks.end(), sorter.remarks.begin(), sorter.remarks.end());
  return result;
}

}  // namespace loopgrad::transforms
