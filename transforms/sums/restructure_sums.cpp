#include "transforms/sums/restructure_sums.h"

#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/legality.h"
#include "transforms/sums/restructure_nest.h"
#include "transforms/sums/scatters.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

// Groups of sums connected by conflicts, members and groups in textual order.
SharedSums connected_sums(const poly::Model& model, const std::vector<poly::Conflict>& conflicts) {
  std::map<int, int> leader;  // statement -> the first statement of its group
  for (const poly::Conflict& conflict : conflicts) {
    int a = leader.emplace(conflict.first, conflict.first).first->second;
    int b = leader.emplace(conflict.second, conflict.second).first->second;
    for (auto& entry : leader) {
      if (entry.second == std::max(a, b)) entry.second = std::min(a, b);
    }
  }
  std::map<int, std::vector<Stmt>> groups;
  for (const auto& [statement, first] : leader) {
    groups[first].push_back(model.statements[static_cast<std::size_t>(statement)].stmt);
  }
  SharedSums result;
  for (auto& [first, sums] : groups) result.push_back(std::move(sums));
  return result;
}

std::set<SumPair> meetings_of(const poly::Model& model, const std::vector<poly::Conflict>& conflicts) {
  const auto number = [&](int statement) { return model.statements[static_cast<std::size_t>(statement)].stmt.get(); };
  std::set<SumPair> result;
  for (const poly::Conflict& conflict : conflicts) result.insert({number(conflict.first), number(conflict.second)});
  return result;
}

class Visitor {
 public:
  Visitor(const ir::Program& program, PassContext& context) : program_(program), context_(context) {}

  Stmt visit(const Stmt& s) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      auto* loop = child.as<ir::For>();
      if (!loop) return std::nullopt;
      Stmt result = loop_nest(child, *loop);
      if (model_root_.same_as(child)) model_root_ = {};
      return result;
    });
  }

 private:
  Stmt loop_nest(const Stmt& s, const ir::For& loop) {
    if (in_block_) return nest_in_block(s, loop);
    // What is around a contraction stays around it.
    if (has_contraction(s)) return with_body(loop, visit(loop.body));
    Carries carries = what_it_carries(s);
    if (carries == Carries::Nothing) return parallel_nest(s, loop);
    if (carries == Carries::SumsOnly) {
      const RestructuredNest result = restructure_nest(program_, s, {conflicts_, s, false, meetings_}, context_);
      if (!result.nest.same_as(s)) return with_freed_visited(s, result);
    }
    return with_body(loop, visit(loop.body));
  }

  // One parallel loop may be short (a batch, the heads of an attention): when the next one shares nothing but sums over
  // elements of its own, these are gathered too.
  Stmt parallel_nest(const Stmt& s, const ir::For& loop) {
    Stmt next = loop.body;
    while (auto* node = next.as<ir::Allocate>()) next = node->body;
    if (next.kind() == ir::Kind::For && what_it_carries(next) == Carries::SumsOnly) {
      const RestructuredNest result = restructure_nest(program_, s, {conflicts_, next, true, meetings_}, context_);
      if (!result.nest.same_as(s)) return result.nest;
    }
    const RestructuredNest gathered = restructure_nest(program_, s, {{}, s, false}, context_);
    const bool is_left = is_left_to_blocks(loop);
    if (!gathered.nest.same_as(s)) return is_left ? with_freed_visited(s, gathered) : gathered.nest;
    if (!is_left) return s;
    const Stmt apart = with_scatters_apart(s, loop);
    if (!apart.same_as(s)) return apart;
    in_block_ = true;
    const Stmt shared = with_body(loop, visit(loop.body));
    in_block_ = false;
    return shared;
  }

  // A GPU has more threads than the parallel loop, and those directly inside, have iterations.
  bool is_left_to_blocks(const ir::For& outermost) {
    const Machine& machine = context_.options.machine;
    if (!machine.is_gpu()) return false;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double iterations = 1;
    for (const ir::For* loop = &outermost; loop;) {
      iterations *= sizes.trips_of(loop->lower, loop->upper, {});
      const Stmt inner = loop->body;
      loop =
          inner.kind() == ir::Kind::For && what_it_carries(inner) == Carries::Nothing ? inner.as<ir::For>() : nullptr;
    }
    return iterations < static_cast<double>(machine.enough_threads);
  }

  // In one iteration of such loops: the steps of a recurrence, in each of which the threads of a block meet.
  Stmt nest_in_block(const Stmt& s, const ir::For& loop) {
    if (has_contraction(s)) return with_body(loop, visit(loop.body));
    const Carries carries = what_it_carries(s);
    if (carries == Carries::SumsOnly && steps_ > 0) {
      const RestructuredNest result = restructure_nest(program_, s, {conflicts_, s, false, meetings_, true}, context_);
      if (!result.nest.same_as(s)) return result.nest;
    }
    steps_ += carries == Carries::Other;
    const Stmt result = with_body(loop, visit(loop.body));
    steps_ -= carries == Carries::Other;
    return result;
  }

  // Few iterations keep a GPU waiting for what each adds up by itself to elements that data choose: all of these are
  // sorted together.
  Stmt with_scatters_apart(const Stmt& s, const ir::For& loop) {
    if (!context_.options.machine.sorts_scatters) return s;
    NestRequest request{{}, {}, true};
    std::set<ir::Array> in_steps;
    add_scatters(loop.body, request, in_steps);
    // A recurrence has its arrays at hand, in the memory of a block: few terms for these are added up there.
    std::erase_if(request.shared, [&](const std::vector<Stmt>& sums) {
      return in_steps.count(sums[0].as<ir::Reduce>()->array) > 0 && has_few_terms(loop.body, sums);
    });
    return request.shared.empty() ? s : restructure_nest(program_, s, request, context_).nest;
  }

  // What iterations of the loops in `body` share, if that is nothing but sums. `in_steps`: arrays that
  // recurrences go through.
  void add_scatters(const Stmt& body, NestRequest& request, std::set<ir::Array>& in_steps) {
    if (const auto* list = body.as<ir::Block>()) {
      for (const Stmt& one : list->body) add_scatters(one, request, in_steps);
    } else if (const auto* local = body.as<ir::Allocate>()) {
      add_scatters(local->body, request, in_steps);
    } else if (const auto* loop = body.as<ir::For>()) {
      const Carries carries = what_it_carries(body);
      if (carries == Carries::Nothing) add_scatters(loop->body, request, in_steps);
      if (carries == Carries::Other) add_what_moves(body, in_steps);
      if (carries != Carries::SumsOnly) return;
      for (const auto& sums : conflicts_)
        if (std::any_of(sums.begin(), sums.end(),
                        [](const Stmt& sum) { return has_index_from_data(*sum.as<ir::Reduce>()); })) {
          request.shared.push_back(sums);
          request.shared_by = body;
        }
      request.meetings.insert(meetings_.begin(), meetings_.end());
    }
  }

  // Arrays that a loop stores to and uses at several places.
  static void add_what_moves(const Stmt& loop, std::set<ir::Array>& arrays) {
    std::map<ir::Array, std::vector<ir::Expr>> place;
    std::set<ir::Array> moves, stored;
    for (const Access& access : accesses_of(loop)) {
      if (access.writes) stored.insert(access.array);
      if (!ir::equal(place.emplace(access.array, access.indices).first->second, access.indices))
        moves.insert(access.array);
    }
    std::set_intersection(moves.begin(), moves.end(), stored.begin(), stored.end(),
                          std::inserter(arrays, arrays.end()));
  }

  bool has_few_terms(const Stmt& body, const std::vector<Stmt>& sums) const {
    constexpr double least_sorted = 2048;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    const auto around = surroundings(body);
    double most = 0;
    for (const Stmt& sum : sums) {
      double terms = 1;
      for (const Stmt& s : around.at(sum.get()))
        if (const auto* loop = s.as<ir::For>()) terms *= sizes.trips_of(loop->lower, loop->upper, {});
      most = std::max(most, terms);
    }
    return most < least_sorted && !sizes.assumed_sizes();
  }

  // What has lost the sums that its outermost loop shared may have others: those of a few parallel iterations that data
  // choose, say, beside some that all iterations share.
  Stmt with_freed_visited(const Stmt& before, const RestructuredNest& now) {
    Stmt nest = now.nest;
    for (const Stmt& freed : now.freed) {
      ir::Program program = program_;
      program.body = replace(program_.body, before, nest);
      const Stmt after = Visitor(program, context_).loop_nest(freed, *freed.as<ir::For>());
      nest = replace(nest, freed, after);
    }
    return nest;
  }

  enum class Carries { Nothing, SumsOnly, Other };

  Carries what_it_carries(const Stmt& loop) {
    if (loop.as<ir::For>()->mode == ir::LoopMode::Parallel) return Carries::Nothing;
    if (!bounds_stay(program_, loop).ok) return Carries::Other;
    try {
      const Analyses::Model model = model_around(loop);
      const auto& conflicts = analyses(context_).carried_by(model, loop, poly::Search::UntilNotASum);
      if (conflicts.empty()) return Carries::Nothing;
      if (!conflicts.back().sum) return Carries::Other;
      conflicts_ = connected_sums(*model, conflicts);
      meetings_ = meetings_of(*model, conflicts);
      return Carries::SumsOnly;
    } catch (const poly::BudgetError& e) {
      context_.report.remarks.push_back(
          {"sums in loop '" + loop.as<ir::For>()->iterator.name + "' keep their order: " + e.info().message,
           loop->location});
      return Carries::Other;
    }
  }

  // The model of the outermost loop around `loop`, which serves all loops in it.
  Analyses::Model model_around(const Stmt& loop) {
    const Stmt root = model_root_ ? model_root_ : loop;
    const Analyses::Model result = analyses(context_).model_of(program_, root);
    model_root_ = root;
    return result;
  }

  const ir::Program& program_;
  PassContext& context_;
  SharedSums conflicts_;
  std::set<SumPair> meetings_;
  Stmt model_root_;        // the outermost loop around the current one
  bool in_block_ = false;  // in iterations of a parallel loop that blocks take
  int steps_ = 0;          // loops around, in these, whose iterations need each other
};

}  // namespace

ir::Program restructure_sums(const ir::Program& program, PassContext& context) {
  return ir::with_body(program, plan_segments(Visitor(program, context).visit(program.body), context.partials));
}

}  // namespace loopgrad::transforms
