#include "transforms/map/cpu/share_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/map/cpu/loop_work.h"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <utility>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// Whether iterations of a parallel loop may differ much in work: inner trip counts or branches that depend on data, or
/// triangles. A trip count cut off by min and max (a gather near a border) does not count.
bool is_uneven(const For& loop) {
  bool uneven = false;
  int depth = 0;
  std::function<void(const Stmt&)> look = [&](const Stmt& s) {
    if (!s) return;
    visit(s, overloaded{
                 [&](const Block& n) {
                   for (const Stmt& child : n.body) look(child);
                 },
                 [&](const For& n) {
                   const Expr trips = simplify_indices(n.upper - n.lower);
                   bool cut_off = false;
                   walk(trips, [&](const Expr& e) {
                     if (const auto* b = e.as<Binary>()) cut_off |= b->op == BinaryOp::Min || b->op == BinaryOp::Max;
                   });
                   uneven |= has_load(trips) || (!cut_off && mentions(trips, loop.iterator));
                   ++depth;
                   look(n.body);
                   --depth;
                 },
                 [&](const While&) { uneven = true; },
                 [&](const If& n) {
                   uneven |=
                       has_load(n.condition) && (depth > 0 || contains_loop(n.then_body) || contains_loop(n.else_body));
                   look(n.then_body);
                   look(n.else_body);
                 },
                 [&](const Allocate& n) { look(n.body); },
                 [&](const Contraction& n) { look(n.loops); },
                 [](const auto&) {},
             });
  };
  look(loop.body);
  return uneven;
}

/// How many perfectly nested parallel loops have bounds of their own, as long as some loop is left inside for one
/// thread to do.
int collapsible(const For& outer) {
  std::set<Symbol> iterators = {outer.iterator};
  int count = 1;
  for (Stmt inner = outer.body; const auto* loop = inner.as<For>(); inner = loop->body) {
    if (!is_parallel(loop->mode) || !contains_loop(loop->body)) break;
    if (has_load(loop->lower) || has_load(loop->upper)) break;
    bool rectangular = true;
    for (const Expr& bound : {loop->lower, loop->upper})
      for (const Symbol& s : iterators) rectangular &= !mentions(bound, s);
    if (!rectangular) break;
    iterators.insert(loop->iterator);
    ++count;
  }
  return count;
}

bool has_one_trip_at_most(const For& n) {
  const auto lower = as_int(n.lower), upper = as_int(n.upper);
  return lower && upper && *upper - *lower <= 1;
}

/// Operations of one trip, where it must be asked at run time whether threads pay; null where they surely do.
Expr work_to_ask_for(const ir::Program& program, const For& n, int together) {
  Expr work = work_of_trip(program, n, together);
  if (has_load(n.lower) || has_load(n.upper)) return work;
  const auto known = as_int((n.upper - n.lower) * work);
  return known && *known >= least_parallel_work ? Expr() : work;
}

/// Whether a text for one thread beside that for many is worth having: many statements take longer than to enter a
/// region, and compilers more than twice as long for two of them.
bool is_written_twice(const For& n) {
  constexpr int most_statements = 64;
  int statements = 0;
  walk_stmts(n.body, [&](const Stmt& s) { statements += s.kind() == Kind::Assign || s.kind() == Kind::Reduce; });
  return statements <= most_statements;
}

class Sharer final : public Rewriter {
 public:
  Sharer(const ir::Program& program, Report& report) : program_(program), report_(report) {}
  using Rewriter::rewrite;

  Expr rewrite(const Expr& e) override { return e; }

  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<For>()) return loop(s, *n);
    if (s.kind() != Kind::While) return rewrite_children(s);
    ++steps_;
    Stmt result = rewrite_children(s);
    --steps_;
    return result;
  }

 private:
  Stmt loop(const Stmt& s, const For& n) {
    LoopRun run{.lanes = n.run.lanes, .lane_sums = n.run.lane_sums, .unroll = n.run.unroll};
    Expr work;
    const bool takes = is_parallel(n.mode) && !in_threads_ && !in_lanes_ && !has_one_trip_at_most(n);
    if (takes) {
      run.threads = true;
      run.uneven = is_uneven(n);
      run.together = left_together_ = collapsible(n);
      work = work_to_ask_for(program_, n, run.together);
      if (work) run.least_work = least_parallel_work;
      run.or_alone = work && steps_ > 0 && is_written_twice(n);
      say(n, run);
    }
    // Loops that are shared out together are one loop, which is in no lanes.
    if (left_together_ > 1 || (left_together_ == 1 && !takes)) run.lanes = 1, run.lane_sums = false;
    if (left_together_ > 0) --left_together_;
    const bool lanes_around = std::exchange(in_lanes_, in_lanes_ || run.lanes != 1);
    const bool threads_around = std::exchange(in_threads_, in_threads_ || takes);
    steps_ += !takes;
    const Stmt result = rewrite_children(s);
    steps_ -= !takes;
    in_threads_ = threads_around;
    in_lanes_ = lanes_around;
    return with_run(result, run, work);
  }

  void say(const For& n, const LoopRun& run) {
    std::string names = n.iterator.name, reason = "the outermost parallel loop";
    const For* inner = &n;
    for (int k = 1; k < run.together; ++k) names += ", " + (inner = inner->body.as<For>())->iterator.name;
    if (run.together > 1) reason = "parallel and perfectly nested: shared out together";
    reason += run.uneven ? "; iterations may differ in work: threads fetch small shares" : "; equal shares";
    if (run.least_work > 0)
      reason += fmt::format("; where there are {} operations or more{}", run.least_work,
                            run.or_alone ? ", else without a region" : "");
    report_.runs.push_back({names, n.location, "threads", reason});
  }

  const ir::Program& program_;
  Report& report_;
  bool in_threads_ = false, in_lanes_ = false;
  int left_together_ = 0;  // loops of the nest being shared out, from the current one on
  int steps_ = 0;          // loops in order around
};

}  // namespace

ir::Program share_loops(const ir::Program& program, PassContext& context) {
  return with_body(program, Sharer(program, context.report).rewrite(program.body));
}

}  // namespace loopgrad::transforms
