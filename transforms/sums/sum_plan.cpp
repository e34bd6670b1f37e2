#include "transforms/sums/sum_plan.h"

#include "dsl/ir/printer.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/loops/fission.h"
#include "transforms/loops/loop_order.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/storage/forward_locals.h"
#include "transforms/sums/gather_sums.h"
#include "transforms/sums/improvable_sums.h"
#include "transforms/sums/keep_operands.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/sum_cost.h"
#include "transforms/sums/tree_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

// How many times faster than the plan that the shape of a sum suggests another one has to be by estimate: estimates are
// rough, and rougher where sizes are not known.
constexpr double margin = 2, margin_of_assumed_sizes = 6;
constexpr std::size_t most_leaves_of_two_plans = 8;  // statements of a nest of which there are two versions
constexpr double few_targets = 256;  // elements of which each of 32 threads has a copy: 48 KiB, see lane_copies.h

enum class Plan { Gather, Inverse, Apart, Tree, Serial };

// Sums of a nest that may meet in elements of one target.
struct Group {
  ir::Array target;
  std::vector<Stmt> sums;  // in the current version of the nest
  bool shared = true;      // iterations share it; otherwise it is only to be improved
  int family = 0;          // groups of one family may share elements
  Separators separators = {};
  Plan plan = Plan::Tree;
  std::string reason = {};
  std::string by_cost = {};  // the estimate that was decisive for gathering, if one was
  std::vector<SumCandidate> candidates = {};
  std::string basis = {};

  bool gathered() const { return plan == Plan::Gather; }
  bool apart() const { return gathered() || plan == Plan::Inverse || plan == Plan::Apart; }  // in a nest of its own
};

// A nest within its program, with its model: what every step looks at.
struct Version {
  ir::Program program;
  Stmt nest;
  poly::Model model;
};

Version version_of(const ir::Program& program, const Stmt& old, const Stmt& nest, PassContext& context) {
  Version result{program, nest, {}};
  if (!(old.get() == nest.get())) result.program.body = replace(program.body, old, nest);
  result.model = *analyses(context).model_of(result.program, nest);
  return result;
}

class Planner {
 public:
  /// `by_partials`: sums into elements that data choose get partial results, for targets of few elements.
  Planner(const ir::Program& program, const Stmt& nest, const NestRequest& request, PassContext& context,
          bool by_partials = false)
      : original_(program), original_nest_(nest), request_(request), context_(context), by_partials_(by_partials) {
    for (const auto& sums : request.shared) groups_.push_back({sums[0].as<ir::Reduce>()->array, sums});
    for (const Stmt& sum : improvable_sums(nest, request.shared)) {
      groups_.push_back({sum.as<ir::Reduce>()->array, {sum}});
      groups_.back().shared = false;
    }
    written_ = groups_;
  }

  Stmt run() {
    if (groups_.empty()) return original_nest_;
    now_ = version_of(original_, original_nest_, original_nest_, context_);
    choose();
    auto apart = [](const Group& g) { return g.apart(); };
    auto unshared = [](const Group& g) { return !g.shared; };
    bool none = std::none_of(groups_.begin(), groups_.end(), apart);
    if (none && std::all_of(groups_.begin(), groups_.end(), unshared)) return original_nest_;
    if (request_.all_or_none &&
        !std::all_of(groups_.begin(), groups_.end(), [&](const Group& g) { return apart(g) || unshared(g); })) {
      return original_nest_;
    }
    Stmt result = generate();
    for (std::size_t k = 0; k < groups_.size(); ++k) report(groups_[k], written_[k]);
    bool serial = std::all_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.plan == Plan::Serial; });
    return serial ? original_nest_ : result;
  }

  /// When the nest has nothing but sums into one vector, whose length nobody has stated, by segments: whether it is so
  /// short that partial results are better. Null for others.
  ir::Expr has_few_elements() const {
    if (groups_.empty() || groups_[0].target->shape.size() != 1) return {};
    const ir::Array& target = groups_[0].target;
    if (leaves(original_nest_).size() > most_leaves_of_two_plans || ir::as_int(target->shape[0])) return {};
    for (const Group& group : groups_)
      if (group.plan != Plan::Inverse || group.target != target) return {};
    SizeEstimator estimator(original_, context_.options.expected_sizes);
    estimator.value_of(target->shape[0], {});
    if (!estimator.assumed()) return {};
    return ir::binary(ir::BinaryOp::Le, target->shape[0], ir::int_const(static_cast<std::int64_t>(few_targets)));
  }

 private:
  // Which groups are gathered

  void choose() {
    forward();
    if (!by_partials_) part_scatters();
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      groups_[k].separators = separators_of(now_.model, request_.shared_by, groups_[k].sums);
      choose_for(groups_[k], leaf_order());
      if (groups_[k].shared && !groups_[k].apart()) try_with_copies(k);
    }
    join_families();
    for (std::size_t k = 0; k < groups_.size(); ++k) part_sums(k);
    // Sums that stay in the nest get their locals back: what they hold need not be computed twice.
    bool all = std::all_of(groups_.begin(), groups_.end(), [](const Group& g) { return g.apart(); });
    if (!all) unforward();
  }

  // A nest of its own for a group that reads what the loop changes later: where it pays for copies of that.
  void try_with_copies(std::size_t k) {
    if (leaf_order().split({set_of(groups_[k].sums)})) return;
    const std::vector<Group> groups = groups_;
    const Version before = now_;
    for (std::size_t l = 0; l < groups_[k].sums.size(); ++l) {
      Stmt& sum = groups_[k].sums[l];
      // As it was: what has been forwarded to it may be out of reach where the copies are made.
      const auto written = before_forwarding_.find(sum.get());
      const Stmt before_sum = written == before_forwarding_.end() ? sum : written->second;
      const auto kept = keep_operands(replace(now_.nest, sum, before_sum), before_sum);
      if (!kept) continue;
      sum = kept->sum;
      now_ = version_of(original_, original_nest_, kept->nest, context_);
    }
    order_.reset();
    Group& group = groups_[k];
    group.separators = separators_of(now_.model, request_.shared_by, group.sums);
    choose_for(group, leaf_order());
    if (group.apart()) return;
    groups_ = groups;
    now_ = before;
    order_.reset();
  }

  // Sums that share elements which data choose need no plan in common: each may have a nest of its own.
  void part_scatters() {
    std::vector<Group> groups, written;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      const Group& group = groups_[k];
      if (!group.shared || group.sums.size() < 2 || !any_from_data(group) || !wants_parts(group)) {
        groups.push_back(group);
        written.push_back(written_[k]);
        continue;
      }
      ++families_;
      for (std::size_t l = 0; l < group.sums.size(); ++l) {
        groups.push_back({group.target, {group.sums[l]}});
        written.push_back({group.target, {written_[k].sums[l]}});
        groups.back().family = families_;
      }
    }
    groups_ = std::move(groups);
    written_ = std::move(written);
  }

  // Sums that only meet each other, as neighbours on a ring do, need not share anything: each in a nest of its own adds
  // to every element once.
  void part_sums(std::size_t k) {
    const Group whole = groups_[k], written = written_[k];
    if (!whole.shared || whole.plan != Plan::Tree || whole.sums.size() < 2 || request_.all_or_none) return;
    for (const Stmt& sum : written.sums)
      if (meet(sum, sum)) return;
    const std::vector<Group> groups = groups_, all_written = written_;
    const auto stay_together = [&] {
      groups_ = groups;
      written_ = all_written;
    };
    std::vector<ir::Array> kept;  // by all of the nests together, in the end
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(k));
    written_.erase(written_.begin() + static_cast<std::ptrdiff_t>(k));
    for (std::size_t l = 0; l < whole.sums.size(); ++l) {
      Group part = whole;
      part.sums = {whole.sums[l]};
      if (obstacle_to_splitting(part, leaf_order(), kept)) return stay_together();
      part.plan = Plan::Apart;
      part.reason = "alone it adds to each element in one iteration: a nest of its own";
      groups_.insert(groups_.begin() + static_cast<std::ptrdiff_t>(k + l), part);
      written_.insert(written_.begin() + static_cast<std::ptrdiff_t>(k + l), {written.target, {written.sums[l]}});
    }
    SumCosts costs = costs_now();
    const SumCandidate apart = costs.apart(whole.sums, kept);
    if (apart.microseconds > whole.candidates[1].microseconds) return stay_together();
    for (std::size_t l = 0; l < whole.sums.size(); ++l) groups_[k + l].candidates.push_back(apart);
  }

  // A GPU sorts. On a CPU partial results must be known to leave the whole nest to one thread.
  bool wants_parts(const Group& group) const {
    if (context_.options.machine.sorts_scatters) return true;
    SumCosts costs = costs_now();
    return costs.partials(group.sums).parallel <= 1 && !costs.assumed();
  }

  static bool any_from_data(const Group& group) {
    return std::any_of(group.sums.begin(), group.sums.end(), [](const Stmt& sum) {
      const auto& indices = sum.as<ir::Reduce>()->indices;
      return std::any_of(indices.begin(), indices.end(), ir::has_load);
    });
  }

  bool meet(const Stmt& a, const Stmt& b) const {
    return request_.meetings.count({a.get(), b.get()}) || request_.meetings.count({b.get(), a.get()});
  }

  // Sums of a family that stay in the nest share their partial results after all; they need none where only sums that
  // have left met them.
  void join_families() {
    for (int family = 1; family <= families_; ++family) {
      std::vector<std::size_t> stay;
      for (std::size_t k = 0; k < groups_.size(); ++k)
        if (groups_[k].family == family && !groups_[k].apart()) stay.push_back(k);
      if (stay.empty()) continue;
      const bool any = std::any_of(stay.begin(), stay.end(), [&](std::size_t k) {
        return std::any_of(stay.begin(), stay.end(),
                           [&](std::size_t l) { return meet(written_[k].sums[0], written_[l].sums[0]); });
      });
      for (std::size_t k = stay.size(); k-- > 1;) {
        groups_[stay[0]].sums.push_back(groups_[stay[k]].sums[0]);
        written_[stay[0]].sums.push_back(written_[stay[k]].sums[0]);
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(stay[k]));
        written_.erase(written_.begin() + static_cast<std::ptrdiff_t>(stay[k]));
      }
      groups_[stay[0]].plan = Plan::Tree;
      groups_[stay[0]].shared = any;
    }
  }

  // Gathers, unless something stands in the way or the shape of the sum speaks against it; a shared sum goes the other
  // way where that is estimated to be much faster.
  void choose_for(Group& group, const LeafOrder& order) {
    std::vector<ir::Array> kept;
    std::string against = group.shared ? shape_against_gathering(group.separators) : "";
    auto obstacle = obstacle_to_gathering(group, order, kept);
    if (!obstacle && against.empty() && !kept.empty() && !group.separators.follows) {
      against = fmt::format("all iterations add to every element, and '{}' would have to be kept for all of them",
                            kept[0]->name);
    }
    estimate(group, obstacle, kept);
    if (obstacle || !against.empty()) group.reason = obstacle ? *obstacle : against;
    else group.plan = Plan::Gather;
    if (group.shared && wants_inverse(group) && !obstacle_to_splitting(group, order, kept) && is_scatter(group)) {
      group.plan = Plan::Inverse;
      group.reason =
          "the elements it adds to are known only at run time: a nest of its own, by an inverse of the indices";
      return;
    }
    if (obstacle || !group.shared) return;
    const SumCandidate &gather = group.candidates[0], &partials = group.candidates[1];
    // Kept locals are written and read side by side on a GPU: the estimate alone decides between two ways that move
    // about the same.
    const bool is_known = group.basis.find("assumed") == std::string::npos;
    const bool is_close = context_.options.machine.is_gpu() && !kept.empty();
    const double factor = !is_known ? margin_of_assumed_sizes : is_close ? 1 : margin;
    std::string compared = fmt::format("estimated {:.3g} us against {:.3g} us of {}", gather.microseconds,
                                       partials.microseconds, partials.plan);
    if (!group.gathered() && gather.microseconds * factor < partials.microseconds) {
      group.plan = Plan::Gather;
      group.by_cost = compared;
    } else if (!group.gathered() && kept.empty() && !group.separators.small && is_small_step()) {
      group.plan = Plan::Gather;
      group.by_cost = "partial results would take a kernel more in each of many small steps";
    } else if (group.gathered() && !request_.all_or_none &&
               partials.microseconds * (keeps_too_much(group, kept) ? 1 : factor) < gather.microseconds &&
               can_be_held_back(now_.model, group.sums)) {
      group.plan = Plan::Tree;
      group.reason =
          fmt::format("estimated {:.3g} us against {:.3g} us of gathering", partials.microseconds, gather.microseconds);
    }
  }

  // Arrays of all pairs, say, for sums into particles: nothing to go for where it is no faster. On a GPU partial
  // results are of many blocks, and locals kept for all iterations are read side by side.
  bool keeps_too_much(const Group& group, const std::vector<ir::Array>& kept) const {
    if (kept.empty() || context_.options.machine.is_gpu()) return false;
    SumCosts costs = costs_now();
    return costs.keeps_more(kept, group.sums);
  }

  void estimate(Group& group, const std::optional<std::string>& obstacle, const std::vector<ir::Array>& kept) {
    SumCosts costs = costs_now();
    SumCandidate gather{"gather"};
    if (group.separators.dims.empty()) gather.possible = false;
    else gather = costs.gather(group.sums, group.separators, kept);
    if (obstacle) {
      gather.possible = false;
      gather.note = *obstacle;
    }
    group.candidates = {gather, costs.partials(group.sums), costs.atomic(group.sums), costs.serial(group.sums)};
    group.candidates[2].note = "not repeatable: only in the variant 'atomic'";
    group.basis = costs.basis();
  }

  SumCosts costs_now() const {
    const auto can_share_out = [this](const Stmt& loop) {
      const auto& conflicts = analyses(context_).carried_by(analyses(context_).model_of(now_.program, now_.nest), loop,
                                                            poly::Search::UntilNotASum);
      return std::all_of(conflicts.begin(), conflicts.end(), [](const poly::Conflict& conflict) {
        return conflict.sum && conflict.a->array->shape.empty();
      });
    };
    return SumCosts(now_.program, now_.nest, context_.options.expected_sizes, context_.options.machine, can_share_out);
  }

  // What the target's shape says against giving each element to a thread: empty when nothing does.
  static std::string shape_against_gathering(const Separators& separators) {
    if (separators.small) return "the target has too few elements to give each to a thread";
    bool vector = !separators.follows && separators.dims.size() == 1;
    return vector ? "all iterations add to every element of a vector" : "";
  }

  // Why the group cannot be gathered, or else the locals that have to be kept for it.
  std::optional<std::string> obstacle_to_gathering(const Group& group, const LeafOrder& order,
                                                   std::vector<ir::Array>& kept) const {
    const Separators& separators = group.separators;
    if (separators.dims.empty()) {
      return separators.follows ? "the elements it adds to are known only at run time"
                                : "all iterations add to one element";
    }
    if (!group.shared && separators.small) return "the target has too few elements to give each to a thread";
    if (auto obstacle = obstacle_to_splitting(group, order, kept)) return obstacle;
    if (!separators.exact_bounds && (!group.shared || !can_gather_alone(group))) {
      return "needs an inverted index: the elements it adds to and the loop bounds are known only at run time";
    }
    return std::nullopt;
  }

  // Why the group cannot have a nest of its own, or else the locals that have to be kept for it.
  std::optional<std::string> obstacle_to_splitting(const Group& group, const LeafOrder& order,
                                                   std::vector<ir::Array>& kept) const {
    if (order.ordered_within(set_of(group.sums))) return "the sum reads elements that it changes";
    std::vector<StmtSet> separate;
    for (const Group& other : groups_) {
      if (other.apart()) separate.push_back(set_of(other.sums));
    }
    separate.push_back(set_of(group.sums));
    auto parts = order.split(separate);
    if (!parts) return "the loop also uses its result";
    auto crossing = crossing_locals(now_.nest, *parts);
    if (!crossing.empty() && !group.shared) {
      return fmt::format("'{}' would have to be kept for all iterations", crossing[0]->name);
    }
    if (!crossing.empty() && !expand_locals(now_.program, now_.model, now_.nest, crossing)) {
      return "a local of the loop has an extent that is not known before the loop";
    }
    kept = crossing;
    return std::nullopt;
  }

  // A GPU sorts the iterations by their targets; a CPU makes the inverse in one thread, which only pays where partial
  // results are known to leave the whole nest to one thread.
  bool wants_inverse(const Group& group) const {
    if (!group.separators.follows || request_.all_or_none) return false;
    if (context_.options.machine.sorts_scatters)
      return !by_partials_ && any_from_data(group) && !has_few_targets(group);
    const bool is_alone = leaves(now_.nest).size() == group.sums.size();
    return any_from_data(group) && (group.separators.dims.empty() || group.family > 0) && !is_alone &&
           group.candidates[1].parallel <= 1 && group.basis.find("assumed") == std::string::npos;
  }

  // So few that each thread of a block can have a copy of all of them.
  bool has_few_targets(const Group& group) const {
    SizeEstimator estimator(now_.program, context_.options.expected_sizes);
    double elements = 1;
    for (const ir::Expr& extent : group.target->shape) elements *= estimator.value_of(extent, {});
    return elements <= few_targets;
  }

  // One of many on a GPU, such as a column of a factorisation, where the number of kernels decides.
  bool is_small_step() const {
    return context_.options.machine.counts_kernels && varying_trips(original_, *original_nest_.as<ir::For>());
  }

  bool is_scatter(const Group& group) const {
    // Its locals will be arrays around the nest.
    const Stmt alone = without_allocations(slice(now_.nest, set_of(group.sums)));
    return scatter_in(now_.program, alone).has_value();
  }

  bool can_gather_alone(const Group& group) const {
    Stmt alone = slice(now_.nest, set_of(group.sums));
    Version version = version_of(now_.program, now_.nest, alone, context_);
    return static_cast<bool>(gather_sums(version.model, alone, group.sums, group.separators));
  }

  // Versions of the nest

  // Gives the nest other sums; `changed` maps old ones to new ones.
  void adopt(const std::map<const ir::StmtNode*, Stmt>& changed) {
    Stmt nest = ir::rewrite(now_.nest, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      auto found = changed.find(s.get());
      return found == changed.end() ? std::nullopt : std::optional(found->second);
    });
    for (Group& group : groups_) {
      for (Stmt& sum : group.sums) {
        if (auto found = changed.find(sum.get()); found != changed.end()) sum = found->second;
      }
    }
    now_ = version_of(original_, original_nest_, nest, context_);
    order_.reset();
  }

  const LeafOrder& leaf_order() {
    if (!order_) order_.emplace(now_.model, now_.nest);
    return *order_;
  }

  void forward() {
    std::map<const ir::StmtNode*, Stmt> changed;
    for (const Group& group : groups_) {
      for (const Stmt& sum : group.sums) {
        Stmt next = forward_locals(now_.model, now_.nest, sum);
        if (next.same_as(sum)) continue;
        changed[sum.get()] = next;
        before_forwarding_[next.get()] = sum;
      }
    }
    if (!changed.empty()) adopt(changed);
  }

  void unforward() {
    std::map<const ir::StmtNode*, Stmt> changed;
    for (const Group& group : groups_) {
      if (group.apart()) continue;
      for (const Stmt& sum : group.sums) {
        if (auto found = before_forwarding_.find(sum.get()); found != before_forwarding_.end()) {
          changed[sum.get()] = found->second;
        }
      }
    }
    if (!changed.empty()) adopt(changed);
  }

  // Code

  Stmt generate() {
    std::vector<std::size_t> numbers;
    std::vector<StmtSet> separate;
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (!groups_[k].apart()) continue;
      numbers.push_back(k);
      separate.push_back(set_of(groups_[k].sums));
    }
    if (separate.empty()) return rest(now_.nest);
    auto parts = leaf_order().split(separate);
    auto expansion = parts ? expand(*parts) : std::nullopt;
    if (!parts || !expansion) {  // putting locals back has closed a circle
      for (Group& group : groups_) {
        if (group.apart()) group.reason = "the rest of the loop needs what it needs";
        group.plan = Plan::Tree;
      }
      return rest(now_.nest);
    }
    std::vector<Stmt> code;
    for (const NestPart& part : *parts) {
      Stmt piece = slice(now_.nest, part.leaves);
      Group* const group = part.group < 0 ? nullptr : &groups_[numbers[static_cast<std::size_t>(part.group)]];
      code.push_back(!group ? rest(piece) : group->gathered() ? gathered(piece, *group) : piece);
      if (code.size() > 1) code.back() = ir::with_fresh_names(code.back());
    }
    Stmt result = ir::block(std::move(code));
    for (const ir::Array& array : expansion->arrays) result = ir::allocate(array, result, original_nest_->location);
    return result;
  }

  // Makes room for the locals that cross between parts, and follows the leaves into the new version of the nest.
  std::optional<Expansion> expand(std::vector<NestPart>& parts) {
    auto crossing = crossing_locals(now_.nest, parts);
    if (crossing.empty()) return Expansion{now_.nest, {}};
    auto expansion = expand_locals(now_.program, now_.model, now_.nest, crossing);
    if (!expansion) return std::nullopt;
    std::vector<Stmt> before = leaves(now_.nest), after = leaves(expansion->nest);
    std::map<const ir::StmtNode*, Stmt> moved;
    for (std::size_t k = 0; k < before.size(); ++k) moved[before[k].get()] = after[k];
    for (NestPart& part : parts) {
      StmtSet next;
      for (auto* leaf : part.leaves) next.insert(moved.at(leaf).get());
      part.leaves = std::move(next);
    }
    for (Group& group : groups_) {
      for (Stmt& sum : group.sums) sum = moved.at(sum.get());
    }
    for (const ir::Array& array : crossing) kept_ += (kept_.empty() ? "" : ", ") + array->name;
    for (const ir::Array& array : expansion->arrays) context_.introduced.insert(array->id);
    now_.nest = expansion->nest;
    return expansion;
  }

  Stmt gathered(const Stmt& piece, Group& group) {
    Version version = version_of(original_, original_nest_, piece, context_);
    Stmt code = gather_sums(version.model, piece, group.sums, group.separators);
    if (!code) throw InternalError("a sum that was found to be gatherable is not");
    std::string indices;
    const ir::Reduce& sum = *group.sums[0].as<ir::Reduce>();
    for (int dim : group.separators.dims) {
      indices += (indices.empty() ? "" : ", ") + ir::print(sum.indices[static_cast<std::size_t>(dim)]);
    }
    group.reason = fmt::format("the outermost loops enumerate {} of the target, one thread owns each element", indices);
    if (!group.by_cost.empty()) group.reason += ": " + group.by_cost;
    return code;
  }

  // A nest with the sums that were not gathered.
  Stmt rest(const Stmt& piece) {
    std::vector<Group*> left;
    StmtSet here = set_of(leaves(piece));
    for (Group& group : groups_) {
      if (group.shared && !group.apart() && here.count(group.sums[0].get())) left.push_back(&group);
    }
    if (left.empty()) return piece;
    Version version = version_of(original_, original_nest_, piece, context_);
    std::vector<std::vector<Stmt>> trees;
    for (const Group* group : left) {
      if (can_be_held_back(version.model, group->sums)) trees.push_back(group->sums);
    }
    if (trees.size() == left.size())
      return tree_sums(version.program, version.model, piece, trees, context_.options.machine);
    for (Group* group : left) {
      group->plan = Plan::Serial;
      group->reason += ", and the loop uses it before it is complete";
    }
    return piece;
  }

  void report(const Group& group, const Group& written) {
    if (!group.shared && !group.gathered()) return;
    for (const Stmt& sum : written.sums) {
      std::string reason = group.reason;
      if (group.apart() && !kept_.empty()) reason += "; kept for all iterations: " + kept_;
      if (group.plan == Plan::Tree) reason += ": partial results of blocks of iterations, combined in a fixed order";
      const std::string plan = group.gathered()              ? "gather"
                               : group.plan == Plan::Inverse ? "inverse"
                               : group.plan == Plan::Apart   ? "apart"
                               : group.plan == Plan::Tree    ? group.candidates[1].plan
                                                             : "serial";
      context_.report.sums.push_back(
          {text_of(*sum.as<ir::Reduce>()), sum->location, plan, reason, group.candidates, group.basis});
      context_.planned.insert({group.target->id, sum->location.line});
    }
  }

  const ir::Program& original_;
  const Stmt& original_nest_;
  const NestRequest& request_;
  PassContext& context_;
  Version now_;
  std::optional<LeafOrder> order_;  // of `now_`
  std::vector<Group> groups_;
  std::vector<Group> written_;  // as in the program, for the report
  std::map<const ir::StmtNode*, Stmt> before_forwarding_;
  std::string kept_;
  int families_ = 0;
  const bool by_partials_;
};

}  // namespace

Stmt restructure_nest(const ir::Program& program, const Stmt& nest, const NestRequest& request, PassContext& context) {
  try {
    Planner planner(program, nest, request, context);
    const Stmt result = planner.run();
    const ir::Expr few = planner.has_few_elements();
    if (!few || result.same_as(nest)) return result;
    Report ignored;  // the host chooses: the report has what is done where it matters
    PassContext other{context.options, ignored};
    other.planned = context.planned;
    other.introduced = context.introduced;
    other.analyses = context.analyses;
    const Stmt partials = Planner(program, nest, request, other, true).run();
    context.introduced = other.introduced;
    return ir::if_then(few, partials, ir::with_fresh_names(result), nest->location);
  } catch (const poly::BudgetError& e) {
    const ir::For& loop = *nest.as<ir::For>();
    context.report.remarks.push_back(
        {"sums in loop '" + loop.iterator.name + "' keep their order: " + e.info().message, nest->location});
    return nest;
  }
}

}  // namespace loopgrad::transforms
