#include "transforms/map/gpu/map_to_gpu.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/data_control.h"
#include "transforms/map/gpu/inner_work.h"
#include "transforms/map/gpu/long_sums.h"
#include "transforms/map/gpu/map_nest.h"
#include "transforms/map/gpu/spread_loops.h"
#include "transforms/sums/settle_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t most_host_trips = 4096;  // more launches in a row cost more than one block working alone
                                                // where little is to be done in each (see most_block_work()),
constexpr std::size_t most_block_leaves = 100;  // and few enough statements for one kernel
constexpr std::int64_t short_sum = 4096;        // trips that one block has done before two kernels have started

/// Iterations at once that one block does as fast as a kernel of its own would be started for them.
std::int64_t most_block_work(std::int64_t enough_threads) { return std::max<std::int64_t>(enough_threads / 16, 1); }
/// The same in steps of which data decide how many there are. One block takes 220 us for a step of conjugate gradients
/// with 2,003 rows on an H100, where its launches take 15.
std::int64_t most_step_work(std::int64_t enough_threads) { return std::max<std::int64_t>(enough_threads / 256, 1); }

class Mapper {
 public:
  Mapper(const Analysed& program, PassContext& context)
      : program_(program),
        context_(context),
        sums_(program),
        enough_threads_(context.options.machine.enough_threads),
        flat_threads_(flat_threads(context)) {}

  /// Code that the host runs: a sequence of launches.
  Stmt host(const Stmt& s) {
    if (ir::is_empty(s)) return s;
    if (s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Allocate) return host_block(s);
    if (const auto* n = s.as<ir::If>(); n && host_knows(n->condition)) return host_branch(*n);
    if (const auto* n = s.as<ir::Contraction>()) return ir::with_loops(*n, host(n->loops));
    if (const Stmt steps = data_control(s)) return steps;
    const auto* loop = s.as<ir::For>();
    if (!loop) return one_block(s, "no loop that could be shared out");
    if (!host_knows(loop->lower) || !host_knows(loop->upper))
      return one_block(s, "its bounds are data, which the host does not know when it launches");
    if (loop->mode == LoopMode::Parallel) return nest(without_contractions(s));
    return host_loop(s, *loop);
  }

 private:
  Stmt nest(const Stmt& s) { return map_nest(program_, s, context_, below_); }
  void note(const Stmt& s, const char* shape, const std::string& reason) { note_kernel(context_, s, shape, reason); }

  /// An assignment of a single element, or some that data choose.
  static bool is_scalar_work(const Stmt& s) {
    if (const auto* branch = s.as<ir::If>(); branch && !host_knows(branch->condition))
      return is_scalar_work(branch->then_body) && (!branch->else_body || is_scalar_work(branch->else_body));
    if (const auto* list = s.as<ir::Block>())
      return std::all_of(list->body.begin(), list->body.end(), [](const Stmt& one) { return is_scalar_work(one); });
    return s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce;
  }

  /// A sequential loop that only sums into one element or a few.
  bool is_lone_sum(const Stmt& s) const {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode == LoopMode::Parallel || !host_knows(loop->lower) || !host_knows(loop->upper)) return false;
    if (contains_parallel_loop(loop->body) || has_contraction(s)) return false;
    const auto& sums = sums_.of(s);
    return sums && !sums->empty();
  }

  Stmt host_branch(const ir::If& n) {
    const std::size_t before = below_.size();
    note_below(n.condition);
    const Stmt taken = host(n.then_body);
    below_.resize(before);
    return ir::if_then(n.condition, taken, host(n.else_body), n.location);
  }

  /// A loop or a branch that data decide, with parallel loops inside: launches for all that there may be, where these
  /// have enough to do. Null for others.
  Stmt data_control(const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (!contains_parallel_loop(s) || (loop && host_knows(loop->lower) && host_knows(loop->upper))) return {};
    if (const auto* branch = s.as<ir::If>(); branch && is_guard(*branch)) {
      const Expr otherwise = ir::unary(ir::UnaryOp::Not, branch->condition);
      const Stmt launches = guard_kernels(host(branch->then_body), branch->condition);
      return branch->else_body ? ir::block({launches, guard_kernels(host(branch->else_body), otherwise)}) : launches;
    }
    const HostSteps steps = host_steps(s);
    if (!steps.code) return {};
    const ir::Program candidate = ir::with_body(program_, replace(program_->body, s, steps.code));
    Mapper own({candidate, program_.analyses}, context_);
    own.below_ = below_;
    own.trips_around_ = trips_around_;
    if (loop && !steps.trips) return own.host(steps.code);
    const Expr all = steps.trips ? trips_around_ * steps.trips : number(1);
    const auto most = ir::as_int(all);
    const std::string too_many = fmt::format("there may be more than {} steps to launch", most_host_trips);
    if (most && *most > most_host_trips) return one_block(s, too_many);
    if (steps.trips) own.few_trips_.insert(steps.loop);
    note(s, "launches", "what data decide, kernels look up: where steps are few, and enough iterations are in each");
    const Stmt launches = own.host(steps.code);
    const Expr work = known_iterations_at_once(s);
    Expr pays = ir::binary(BinaryOp::Gt, work, number(most_step_work(enough_threads_)));
    if (!most) pays = ir::binary(BinaryOp::And, pays, ir::binary(BinaryOp::Le, all, number(most_host_trips)));
    const std::string otherwise = (most ? "" : too_many + ", or ") + "too little is inside to be launched";
    return ir::if_then(pays, launches, ir::with_fresh_names(one_block(s, otherwise)), s->location);
  }

  void note_below(const Expr& condition) {
    const auto* n = condition.as<ir::Binary>();
    if (!n) return;
    if (n->op == BinaryOp::And) {
      note_below(n->a);
      note_below(n->b);
    } else if (const auto limit = ir::as_int(n->b); limit && n->op == BinaryOp::Lt) {
      below_.emplace_back(n->a, *limit);
    }
  }

  /// Single assignments in a row share a kernel, with short sums among them too.
  Stmt host_block(const Stmt& s) {
    const Scope all = scope_of(s);
    std::vector<Stmt> result;
    for (std::size_t i = 0; i < all.list.size();) {
      std::vector<Stmt> run;
      bool sums = false;
      for (; i < all.list.size() && (is_scalar_work(all.list[i]) || is_lone_sum(all.list[i])); ++i) {
        run.push_back(all.list[i]);
        sums |= !is_scalar_work(all.list[i]);
      }
      if (sums) result.push_back(summed(run));
      else if (!run.empty()) result.push_back(one_block(ir::block(run), "single statements in a row"));
      if (i < all.list.size() && run.empty()) result.push_back(host(all.list[i++]));
    }
    return with_locals(all, ir::block(std::move(result)));
  }

  /// Single assignments and sums in a row: by one block while all the sums are short, else each sum by many.
  Stmt summed(const std::vector<Stmt>& run) {
    Expr is_short;
    std::vector<Stmt> apart, single;
    const auto end_single = [&] {
      if (!single.empty())
        apart.push_back(one_block(ir::block(std::exchange(single, {})), "single statements in a row"));
    };
    for (const Stmt& s : run) {
      const auto trips = is_scalar_work(s) ? 1 : distance(s.as<ir::For>()->upper, s.as<ir::For>()->lower);
      if (trips && *trips <= short_sum) {
        single.push_back(s);
        continue;
      }
      end_single();
      const auto& loop = *s.as<ir::For>();
      const Expr own = ir::binary(BinaryOp::Le, loop.upper - loop.lower, number(short_sum));
      is_short = is_short ? ir::binary(BinaryOp::And, is_short, own) : own;
      apart.push_back(long_sum(loop, *sums_.of(s), flat_threads_));
    }
    end_single();
    if (!is_short) return ir::block(std::move(apart));
    note(run.front(), "long sum", fmt::format("partial results of many blocks, above {} terms", short_sum));
    const Stmt together = one_block(ir::block(run), fmt::format("sums of at most {} terms", short_sum));
    return ir::if_then(is_short, together, ir::with_fresh_names(ir::block(std::move(apart))));
  }

  /// for i: if c: body, where c is known before the loop: the host asks once. Null where it is not that.
  Stmt unswitched(const Stmt& s, const ir::For& loop) const {
    const auto* branch = loop.body.as<ir::If>();
    if (!branch || branch->else_body || !host_knows(branch->condition) || mentions(branch->condition, loop.iterator))
      return {};
    const Stmt once = ir::if_then(branch->condition, with_body(loop, branch->then_body), {}, branch->location);
    const ir::Program candidate = ir::with_body(program_, replace(program_->body, s, once));
    return Mapper({candidate, program_.analyses}, context_).host(once);
  }

  Stmt host_loop(const Stmt& s, const ir::For& loop) {
    if (const Stmt once = unswitched(s, loop)) return once;
    if (!contains_parallel_loop(loop.body)) {
      if (has_contraction(s)) return host(without_contractions(s));
      if (const auto& sums = sums_.of(s)) return sums->empty() ? nest(s) : summed({s});
      return one_block(s, "its iterations depend on each other");
    }
    const Expr trips = loop.upper - loop.lower, outer = std::exchange(trips_around_, trips_around_ * trips);
    const Stmt launches =
        ir::for_loop(loop.iterator, loop.lower, loop.upper, host(loop.body), loop.mode, loop.location);
    trips_around_ = outer;
    if (few_trips_.contains(loop.iterator)) return launches;
    const auto known = loop.at_most ? ir::as_int(loop.at_most) : distance(loop.upper, loop.lower);
    if ((known && *known <= most_host_trips) || leaves(loop.body).size() > most_block_leaves) return launches;
    const Expr work = iterations_at_once(program_.program, s);
    const Expr few = ir::binary(BinaryOp::Le, outer * trips, number(most_host_trips));
    const Expr large = ir::binary(BinaryOp::Gt, work, number(most_block_work(enough_threads_)));
    const std::string many = fmt::format(
        "more than {} steps in a row, of no more than {} iterations at once: launching each would take longer",
        most_host_trips, most_block_work(enough_threads_));
    return ir::if_then(ir::binary(BinaryOp::Or, few, large), launches, ir::with_fresh_names(one_block(s, many)),
                       loop.location);
  }

  /// Everything at or below `s` by the threads of one block.
  Stmt one_block(const Stmt& s, const std::string& reason) {
    const Stmt own = without_contractions(s);
    const bool shares = can_spread(program_, own);
    note(s, shares || !ir::contains_loop(s) ? "one block" : "one thread",
         shares || !ir::contains_loop(s) ? reason
                                         : reason + ", and no loop in it has iterations that threads could share");
    const Expr threads = number(shares ? flat_threads_ : 1);
    return grid_loop(ir::make_symbol("b"), number(0), number(1), spread_in_one_block(program_, own, threads),
                     s->location);
  }

  const Analysed program_;
  PassContext& context_;
  const KnownSums sums_;
  KnownLimits below_;
  Expr trips_around_ = number(1);   // of all loops that the host goes through
  std::set<ir::Symbol> few_trips_;  // loops around launches, whatever is inside
  const std::int64_t enough_threads_;
  const std::int64_t flat_threads_;
};

}  // namespace

ir::Program map_to_gpu(const ir::Program& program, PassContext& context) {
  if (ir::uses_stack(program.body)) return program;
  const ir::Program result = ir::with_body(program, Mapper({program, analyses(context)}, context).host(program.body));
  settle_products(program, result, context);
  return result;
}

}  // namespace loopgrad::transforms
