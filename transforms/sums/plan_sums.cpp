#include "transforms/sums/plan_sums.h"

#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/sums/partial_results.h"
#include "transforms/sums/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

// How many times faster than the plan that the shape of a sum suggests another one has to be by estimate: estimates are
// rough, and rougher where sizes are not known.
constexpr double margin = 2, margin_of_assumed_sizes = 6;
// A sort takes as long whatever the keys, while sums into a few of many elements wait for each other.
constexpr double margin_of_sorting = 1.4;
// And once for all calls where the caller says that the indices stay, in place of loops that would run twice in each:
// of these estimates are rough (block_sparse_attention, estimated at 0.2, took 1.6 times as long on an H200).
constexpr double margin_of_lasting = 8;
// Copies never wait for each other either, and are what their estimate is for: a few of many elements.
constexpr double margin_of_copies = 4;

// Terms of an element that come one after the other; iterations of loops that are enough for the threads of a CPU.
constexpr double few_terms = 4, enough_iterations = 64;

class Planner {
 public:
  explicit Planner(SumNest& nest) : nest_(nest), groups_(nest.groups) {}

  void run() {
    nest_.forward_locals_into_sums();
    if (nest_.request.in_block) return gather_in_block();
    if (!nest_.by_partials) part_scatters();
    for (SumGroup& group : groups_) {
      choose_for(group);
      if (group.shared && group.stays()) try_with_copies(group);
    }
    look_again_at_those_that_stay();
    count_in_place_of_sorting();
    count_in_place_of_copies();
    join_families();
    if (runs_faster_as_written()) return keep_as_written();
    for (std::size_t k = 0; k < groups_.size(); ++k) part_sums(k);
    // Sums that stay in the nest get their locals back: what they hold need not be computed twice.
    const bool all = std::all_of(groups_.begin(), groups_.end(), [](const SumGroup& g) { return g.is_apart(); });
    if (!all) nest_.give_back_locals();
    nest_.keep_terms_of_segments();
  }

 private:
  SumCosts costs() const {
    const auto can_share_out = [this](const Stmt& loop, SumCosts::Shared sums) {
      Analyses& known = analyses(nest_.context);
      const auto& conflicts =
          known.carried_by(known.model_of(nest_.now.program, nest_.now.nest), loop, poly::Search::UntilNotASum);
      return std::all_of(conflicts.begin(), conflicts.end(), [&](const poly::Conflict& conflict) {
        return conflict.sum && (sums == SumCosts::Shared::AnySums || conflict.a->array->shape.empty());
      });
    };
    const LowerOptions& options = nest_.context.options;
    return {nest_.now.program, nest_.now.nest, options.expected_sizes, options.machine, can_share_out};
  }

  // Threads of a block that share a nest meet after it, and not in each iteration, where elements are gathered. What
  // all iterations add to one element they add up together in a nest of its own, where each of them makes it in loops.
  void gather_in_block() {
    for (SumGroup& group : groups_) {
      nest_.now.model.context->restart_budget();
      group.separators = separators_of(nest_.now.model, nest_.request.shared_by, group.sums);
      group.plan = {};
      group.plan.strategy = Strategy::Serial;
      std::vector<ir::Array> kept;
      if (!group.shared) continue;
      if (!group.separators.small && !gather_strategy.obstacle(nest_, group, kept) && kept.empty()) {
        group.plan.candidates = {costs().gather(group.sums, group.separators, {})};
        take(group, Strategy::Gather, "threads of a block share them", {});
      } else if (group.separators.dims.empty() && is_outside_of_loops(group) && can_be_kept(group, kept)) {
        group.plan.candidates = {costs().apart(group.sums, kept)};
        take(group, Strategy::Apart, "threads of a block add it up together", kept);
      } else {
        group.shared = false;
      }
    }
    nest_.give_back_locals();
  }

  /// Other statements of the nest have loops around them that the sums have not.
  bool is_outside_of_loops(const SumGroup& group) const {
    const auto around = surroundings(nest_.now.nest);
    const auto loops = [&](const Stmt& leaf) {
      const std::vector<Stmt>& all = around.at(leaf.get());
      return std::count_if(all.begin(), all.end(), [](const Stmt& s) { return s.kind() == ir::Kind::For; });
    };
    const std::vector<Stmt> all = leaves(nest_.now.nest);
    return std::all_of(group.sums.begin(), group.sums.end(), [&](const Stmt& sum) { return loops(sum) == 1; }) &&
           std::any_of(all.begin(), all.end(), [&](const Stmt& leaf) { return loops(leaf) > 1; });
  }

  bool can_be_kept(SumGroup& group, std::vector<ir::Array>& kept) {
    return !obstacle_to_splitting(nest_, group, kept) &&
           std::all_of(kept.begin(), kept.end(), [](const ir::Array& local) { return local->shape.empty(); });
  }

  // One group

  ir::Expr blocks_of(const SumGroup& group) const {
    const NestVersion& now = nest_.now;
    return partial_blocks(now.program, now.model, *now.nest.as<ir::For>(), {partial_of(now.model, group.sums)},
                          nest_.machine());
  }

  /// On a CPU without those that iterations meet in by steps, as 2*i + r with three or four r does: an element would
  /// have one or two terms at once, found by divisions. What the others separate must be enough for its threads.
  Separators separators_for(const SumGroup& group) const {
    const Separators all = separators_of(nest_.now.model, nest_.request.shared_by, group.sums);
    if (nest_.machine().is_gpu()) return all;
    SizeEstimator sizes(nest_.now.program, nest_.context.options.expected_sizes);
    Separators others = all;
    std::erase_if(others.dims, [&](int dim) {
      return std::any_of(group.sums.begin(), group.sums.end(),
                         [&](const Stmt& sum) { return meets_by_steps(sum, static_cast<std::size_t>(dim), sizes); });
    });
    double iterations = 1;
    for (const int dim : others.dims)
      iterations *= sizes.value_of(group.target->shape[static_cast<std::size_t>(dim)], {});
    return others.dims.empty() || iterations < enough_iterations ? all : others;
  }

  /// Whether the index goes on by steps of several in one loop, and another one makes few trips for each of these.
  bool meets_by_steps(const Stmt& sum, std::size_t dim, SizeEstimator& sizes) const {
    const ir::Expr& index = sum.as<ir::Reduce>()->indices[dim];
    std::int64_t step = 1;
    double trips = 0;  // of loops that go on by one
    const auto around = surroundings(nest_.now.nest);
    for (const Stmt& s : around.at(sum.get())) {
      const auto* loop = s.as<ir::For>();
      const auto coefficient = loop ? coefficient_of(index, loop->iterator) : 0;
      if (!coefficient || *coefficient == 0) continue;
      step = std::max(step, std::abs(*coefficient));
      if (std::abs(*coefficient) == 1) trips = std::max(trips, sizes.trips_of(loop->lower, loop->upper, {}));
    }
    return step > 1 && trips > 0 && trips < few_terms * static_cast<double>(step);
  }

  void choose_for(SumGroup& group) {
    nest_.now.model.context->restart_budget();  // or a nest would be too large by the number of its sums
    group.separators = separators_for(group);
    group.blocks = blocks_of(group);
    group.plan = {};
    std::map<Strategy, std::vector<ir::Array>> kept;
    const Strategy suggested = estimate(group, kept);
    take(group, suggested, group.plan.reason, kept[suggested]);
    if (!group.shared) return;
    for (const SumStrategy* row : sum_strategies()) {
      if (!row->claim || !is_possible(group, *row)) continue;
      group.kept = kept[row->strategy];
      if (const auto why = row->claim(nest_, group, suggested)) return take(group, row->strategy, *why, group.kept);
    }
    const PlanCandidate from = *group.plan.candidate(suggested);
    if (!from.possible) return;
    const double suggested_us = expected_us(group, from);
    const SumStrategy* best = nullptr;
    double least = 0;
    for (const SumStrategy* row : sum_strategies()) {
      if (!row->by_estimate || row->strategy == suggested || !is_possible(group, *row)) continue;
      const double microseconds = group.plan.candidate(row->strategy)->microseconds;
      group.kept = kept[suggested];
      if (microseconds * margin_against(group, kept[Strategy::Gather]) >= suggested_us) continue;
      if (!row->in_own_nest && row->obstacle(nest_, group, group.kept)) continue;
      if (best && microseconds >= least) continue;
      best = row;
      least = microseconds;
    }
    if (!best) return;
    const std::string other = suggested == Strategy::Gather ? "gathering" : name_of(suggested, from.level);
    take(group, best->strategy, fmt::format("estimated {:.3g} us against {:.3g} us of {}", least, suggested_us, other),
         kept[best->strategy]);
  }

  /// What threads would own of elements that data choose a GPU sorts by them in the end, nest and all.
  double expected_us(const SumGroup& group, const PlanCandidate& from) const {
    const PlanCandidate* sorted = group.plan.candidate(Strategy::Segments);
    const bool will_be = from.strategy == Strategy::Gather && nest_.machine().sorts_scatters && sorted;
    return will_be && has_targets_from_data(group) ? std::min(from.microseconds, sorted->microseconds)
                                                   : from.microseconds;
  }

  /// Makes the candidates; the strategy that the shape suggests. `reason` then says what speaks against others.
  Strategy estimate(SumGroup& group, std::map<Strategy, std::vector<ir::Array>>& kept) {
    SumPlan& plan = group.plan;
    SumCosts estimates = costs();
    std::optional<Strategy> suggested;
    for (const SumStrategy* row : sum_strategies()) {
      if (!row->cost || (row->suits && !row->suits(nest_, group))) continue;
      // What stays in the nest is asked for when it is taken.
      std::optional<std::string> obstacle;
      if (row->in_own_nest || !row->apply) obstacle = row->obstacle(nest_, group, kept[row->strategy]);
      std::erase_if(kept[row->strategy], [&](const ir::Array& local) { return kept_by_others_.count(local) > 0; });
      group.kept = kept[row->strategy];
      PlanCandidate candidate = row->cost(estimates, group);
      candidate.possible = !obstacle && candidate.possible;
      candidate.note = obstacle.value_or("");
      plan.candidates.push_back(std::move(candidate));
      plan.basis = estimates.basis();
      plan.assumed = estimates.assumed_sizes();
      if (suggested || !row->doubt) continue;
      const std::string against = obstacle ? *obstacle : row->doubt(nest_, group);
      if (against.empty()) suggested = row->strategy;
      else plan.reason = against;
    }
    return suggested.value();
  }

  static bool is_possible(const SumGroup& group, const SumStrategy& row) {
    const PlanCandidate* candidate = group.plan.candidate(row.strategy);
    return candidate && candidate->possible;
  }

  void take(SumGroup& group, Strategy strategy, std::string why, const std::vector<ir::Array>& kept) {
    group.plan.strategy = strategy;
    group.plan.level = group.plan.candidate(strategy)->level;
    group.plan.reason = std::move(why);
    group.kept = kept;
  }

  // The nest's outermost loop is parallel already, and its sums would have nests of their own for which locals are
  // kept: only where that is estimated to be no slower. (A GPU shares out what is in an iteration, or sorts it.)
  bool runs_faster_as_written() const {
    if (!nest_.request.all_or_none || nest_.machine().is_gpu()) return false;
    double apart = 0, written = 0;
    bool keeps = false, gains_threads = false;
    SumCosts estimates = costs();
    for (const SumGroup& group : groups_) {
      if (!group.shared || group.plan.strategy != Strategy::Gather) continue;
      const PlanCandidate gathered = *group.plan.candidate(Strategy::Gather), stays = estimates.as_written(group.sums);
      keeps = keeps || !group.kept.empty();
      gains_threads = gains_threads || gathered.parallel > stays.parallel;
      apart += gathered.microseconds;
      written += stays.microseconds;
    }
    return keeps && written * margin <= apart && !(gains_threads && estimates.assumed_sizes());
  }

  void keep_as_written() {
    for (SumGroup& group : groups_) {
      if (group.plan.strategy == Strategy::Gather) take(group, Strategy::Serial, "", {});
    }
    nest_.give_back_locals();
  }

  // Arrays of all pairs, say, for sums into particles: nothing to go for where it is no faster. On a GPU partial
  // results are of many blocks, and locals kept for all iterations are written and read side by side: the estimate
  // alone decides between two ways that move about the same.
  double margin_against(const SumGroup& group, const std::vector<ir::Array>& kept_by_gathering) const {
    const bool is_gpu = nest_.machine().is_gpu();
    if (!is_gpu && !group.kept.empty() && costs().keeps_more(group.kept, group.sums, group.blocks)) return 1;
    if (group.plan.assumed) return margin_of_assumed_sizes;
    return is_gpu && !kept_by_gathering.empty() ? 1 : margin;
  }

  // A nest of its own for a group that reads what the loop changes later: where it pays for copies of that.
  void try_with_copies(SumGroup& group) {
    if (nest_.leaf_order().split({set_of(group.sums)})) return;
    const SumGroup without = group;
    const NestVersion before = nest_.now;
    if (!nest_.keep_operands_of(group)) return;
    choose_for(group);
    if (!group.stays()) return;
    group = without;
    nest_.set(before);
  }

  // Sums that share elements which data choose need no plan in common: each may have a nest of its own.
  void part_scatters() {
    std::vector<SumGroup> groups;
    for (const SumGroup& group : groups_) {
      if (!group.shared || group.sums.size() < 2 || !has_targets_from_data(group) || !wants_parts(group)) {
        groups.push_back(group);
        continue;
      }
      ++families_;
      for (std::size_t l = 0; l < group.sums.size(); ++l) {
        groups.push_back({group.target, {group.sums[l]}, {group.written[l]}});
        groups.back().family = families_;
      }
    }
    groups_ = std::move(groups);
  }

  // A GPU sorts. On a CPU partial results must be known to leave the whole nest to one thread.
  bool wants_parts(const SumGroup& group) const {
    if (nest_.machine().sorts_scatters) return true;
    SumCosts estimates = costs();
    return estimates.partials(group.sums, blocks_of(group)).parallel <= 1 && !estimates.assumed();
  }

  // Sums that are sorted have an order in common, and sums into one array in whole numbers these: all of a nest are
  // done so where that is estimated to be faster.
  void count_in_place_of_sorting() {
    std::vector<std::size_t> can;
    std::vector<Stmt> all, others;
    std::vector<ir::Array> kept;
    std::vector<std::pair<ir::Array, std::vector<Stmt>>> by_target;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      const SumGroup& group = groups_[k];
      if (!group.shared || group.plan.strategy != Strategy::Segments) continue;
      all.insert(all.end(), group.sums.begin(), group.sums.end());
      for (const ir::Array& local : group.kept)
        if (std::find(kept.begin(), kept.end(), local) == kept.end()) kept.push_back(local);
      if (!is_possible(group, exact_strategy)) {
        others.insert(others.end(), group.sums.begin(), group.sums.end());
        continue;
      }
      can.push_back(k);
      auto own = std::find_if(by_target.begin(), by_target.end(),
                              [&](const auto& target) { return target.first == group.target; });
      if (own == by_target.end()) own = by_target.insert(own, {group.target, {}});
      own->second.insert(own->second.end(), group.sums.begin(), group.sums.end());
    }
    if (can.empty()) return;
    SumCosts estimates = costs();
    double sorted = estimates.segments(all, kept).microseconds, exact = 0;
    if (!others.empty()) sorted -= estimates.segments(others, kept).microseconds;
    std::map<ir::Array, ExactForm> forms;
    for (const auto& [target, sums] : by_target) {
      forms[target] = estimates.form_of_exact(sums);
      exact += estimates.exact(sums, forms[target]).microseconds;
    }
    std::vector<Stmt> counted;
    bool lasts = false;
    for (const std::size_t k : can) {
      counted.insert(counted.end(), groups_[k].sums.begin(), groups_[k].sums.end());
      lasts |= has_lasting_order(nest_, groups_[k]);
    }
    if (lasts && estimates.assumed_sizes() && !are_one_vector(nest_, counted)) return;
    const bool twice = lasts && finds_terms_in_loops(nest_, counted);
    if (exact * (twice ? margin_of_lasting : margin_of_sorting) > sorted) return;
    for (const std::size_t k : can) {
      take(groups_[k], Strategy::Exact, fmt::format("estimated {:.3g} us against {:.3g} us of sorting", exact, sorted),
           {});
      groups_[k].exact = forms.at(groups_[k].target);
    }
    join_exact();
  }

  // What cannot be sorted, as the sum alone would have to run in another loop, may still be counted where it stands:
  // all sums into a target, unless some of them have left.
  void count_in_place_of_copies() {
    if (nest_.by_partials) return;
    std::set<ir::Array> targets;
    for (const SumGroup& group : groups_)
      if (group.shared && has_targets_from_data(group)) targets.insert(group.target);
    bool any = false;
    for (const ir::Array& target : targets) any |= count_in_place_of_copies(target);
    if (any) join_exact();
  }

  bool count_in_place_of_copies(const ir::Array& target) {
    std::vector<std::size_t> own;
    std::vector<Stmt> sums;
    double now = 0;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      const SumGroup& group = groups_[k];
      if (group.target != target) continue;
      const bool stays = group.plan.strategy == Strategy::Partials || group.plan.strategy == Strategy::Serial;
      if (!group.shared || !stays || is_possible(group, segments_strategy) || !is_possible(group, exact_strategy))
        return false;
      own.push_back(k);
      sums.insert(sums.end(), group.sums.begin(), group.sums.end());
      now += group.plan.candidate(group.plan.strategy)->microseconds;
    }
    SumCosts estimates = costs();
    const ExactForm form = estimates.form_of_exact(sums);
    const double exact = estimates.exact(sums, form).microseconds;
    if (exact * margin_of_copies > now) return false;
    for (const std::size_t k : own) {
      take(groups_[k], Strategy::Exact, fmt::format("estimated {:.3g} us against {:.3g} us of copies", exact, now), {});
      groups_[k].exact = form;
    }
    return true;
  }

  void join_exact() {
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (groups_[k].plan.strategy != Strategy::Exact) continue;
      for (std::size_t l = groups_.size(); l-- > k + 1;) {
        const SumGroup& other = groups_[l];
        if (other.target != groups_[k].target || other.plan.strategy != Strategy::Exact) continue;
        groups_[k].sums.insert(groups_[k].sums.end(), other.sums.begin(), other.sums.end());
        groups_[k].written.insert(groups_[k].written.end(), other.written.begin(), other.written.end());
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(l));
      }
    }
  }

  bool meet(const Stmt& a, const Stmt& b) const {
    const std::set<SumPair>& meetings = nest_.request.meetings;
    return meetings.count({a.get(), b.get()}) || meetings.count({b.get(), a.get()});
  }

  // Sums of a family that stay in the nest share their partial results after all; they need none where only sums that
  // have left met them.
  void join_families() {
    for (int family = 1; family <= families_; ++family) {
      stay_where_others_left(family);
      std::vector<std::size_t> stay;
      for (std::size_t k = 0; k < groups_.size(); ++k)
        if (groups_[k].family == family && groups_[k].stays()) stay.push_back(k);
      if (stay.empty()) continue;
      const bool any = std::any_of(stay.begin(), stay.end(), [&](std::size_t k) {
        return std::any_of(stay.begin(), stay.end(),
                           [&](std::size_t l) { return meet(groups_[k].written[0], groups_[l].written[0]); });
      });
      SumGroup& first = groups_[stay[0]];
      for (std::size_t k = stay.size(); k-- > 1;) {
        first.sums.push_back(groups_[stay[k]].sums[0]);
        first.written.push_back(groups_[stay[k]].written[0]);
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(stay[k]));
      }
      first.plan.strategy = Strategy::Partials;
      first.shared = any;
    }
  }

  // Sums of a family that only meet others which have left need no nest of their own, for which what they add would be
  // kept: force[i] += f, where force[j] -= f is sorted by what j is.
  void stay_where_others_left(int family) {
    for (SumGroup& group : groups_) {
      if (group.family != family || !group.is_apart() || group.kept.empty() || has_targets_from_data(group)) continue;
      const bool is_met = std::any_of(groups_.begin(), groups_.end(), [&](const SumGroup& other) {
        const bool left = &other != &group && other.is_apart() && has_targets_from_data(other);
        return other.family == family && !left && meet(group.written[0], other.written[0]);
      });
      if (!is_met) group.plan.strategy = Strategy::Partials;
    }
  }

  // Sums that only meet each other, as neighbours on a ring do, need not share anything: each in a nest of its own adds
  // to every element once.
  void part_sums(std::size_t k) {
    const SumGroup whole = groups_[k];
    const PlanCandidate* taken = whole.plan.candidate(whole.plan.strategy);
    if (!whole.shared || whole.sums.size() < 2 || !taken) return;
    if (nest_.request.all_or_none) return;
    for (const Stmt& sum : whole.written)
      if (meet(sum, sum)) return;
    const std::vector<SumGroup> together = groups_;
    std::vector<ir::Array> kept;  // by all of the nests together, in the end
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(k));
    for (std::size_t l = 0; l < whole.sums.size(); ++l) {
      SumGroup part = whole;
      part.sums = {whole.sums[l]};
      part.written = {whole.written[l]};
      if (obstacle_to_splitting(nest_, part, kept)) {
        groups_ = together;
        return;
      }
      part.plan.strategy = Strategy::Apart;
      part.plan.level = Level::None;
      part.plan.reason = "alone it adds to each element in one iteration: a nest of its own";
      groups_.insert(groups_.begin() + static_cast<std::ptrdiff_t>(k + l), std::move(part));
    }
    const PlanCandidate apart = costs().apart(whole.sums, kept);
    const bool gains_threads = taken->strategy == Strategy::Partials || apart.parallel > taken->parallel;
    if (!gains_threads || apart.microseconds > taken->microseconds) {
      groups_ = together;
      return;
    }
    for (std::size_t l = 0; l < whole.sums.size(); ++l) groups_[k + l].plan.candidates.push_back(apart);
  }

  // What one sum would not be worth keeping for may be kept for others by now.
  void look_again_at_those_that_stay() {
    for (const SumGroup& group : groups_)
      if (group.shared && group.is_apart()) kept_by_others_.insert(group.kept.begin(), group.kept.end());
    if (kept_by_others_.empty()) return;
    for (SumGroup& group : groups_) {
      if (!group.shared || !group.stays()) continue;
      const SumGroup before = group;
      choose_for(group);
      const PlanCandidate *now = group.plan.candidate(group.plan.strategy),
                          *stays = before.plan.candidate(before.plan.strategy);
      if (now && stays && now->microseconds * margin > stays->microseconds) group = before;
    }
  }

  SumNest& nest_;
  std::vector<SumGroup>& groups_;
  std::set<ir::Array> kept_by_others_;
  int families_ = 0;
};

}  // namespace

void plan_sums(SumNest& nest) { Planner(nest).run(); }

}  // namespace loopgrad::transforms
