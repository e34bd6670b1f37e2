#include "transforms/map/cpu/vectorize_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/searches.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/map/cpu/vector_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// How many lanes: 0 leaves it to the compiler.
int lanes_for(const std::vector<Array>& sums) {
  constexpr std::size_t many = 4, register_bytes = 32;
  std::size_t widest = 4;
  for (const Array& sum : sums) widest = std::max(widest, bytes_of(sum->type));
  return sums.size() < many ? 0 : static_cast<int>(register_bytes / widest);
}

/// The Reduces into these scalars as sums of lanes.
Stmt with_lane_sums(const Stmt& body, const std::vector<Array>& sums) {
  if (sums.empty()) return body;
  return rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* n = s.as<Reduce>();
    if (!n || std::find(sums.begin(), sums.end(), n->array) == sums.end()) return std::nullopt;
    Reduce of_lanes = *n;
    of_lanes.id = next_id();
    of_lanes.of_lanes = true;
    return Stmt{std::make_shared<Reduce>(std::move(of_lanes))};
  });
}

/// Loops inside of lanes have few trips. A compiler that does not write these in a row by itself finds no lanes. Those
/// with lanes of their own stay loops, and so do loops around them.
Stmt in_a_row(const Stmt& body) {
  return rewrite(body, {}, [](const Stmt& s) -> std::optional<Stmt> {
    const auto* n = s.as<For>();
    if (!n) return std::nullopt;
    bool has_lanes = false;
    walk_stmts(s, [&](const Stmt& inner) { has_lanes |= inner.as<For>() && inner.as<For>()->run.lanes != 1; });
    if (has_lanes) return s;
    const auto trips = distance(n->upper, n->lower);
    return with_mapping(s, [&](For& copy) {
      copy.body = in_a_row(n->body);
      copy.run.unroll = std::max<std::int64_t>(trips.value_or(0), 0);
    });
  });
}

/// Whether it has one trip at most, as the shares of blocks have that are as many as iterations.
bool has_single_trip(const For& loop) {
  const auto trips = distance(loop.upper, loop.lower);
  const auto width = band_width(loop.lower, loop.upper, [](const Expr& e) { return as_int(e).has_value(); });
  const auto most = trips || !width ? trips : as_int(*width);
  return most && *most <= 1;
}

class Vectorizer final : public Rewriter {
 public:
  Vectorizer(const ir::Program& program, Report& report) : aliased_(aliased_arrays(program)), report_(report) {}
  using Rewriter::rewrite;

  Expr rewrite(const Expr& e) override { return e; }

  Stmt rewrite(const Stmt& s) override {
    const Stmt result = rewrite_inside(s);
    const auto* n = result.as<For>();
    if (!n) return result;
    const auto lower = as_int(n->lower), upper = as_int(n->upper);
    if (lower && upper && *upper - *lower <= 1) return with_run(result, {});
    if (const auto search = as_search(*n); search && is_of_branches(*search)) {
      say(*n, "one by one", "a search through what branches have decided: from the end, until one is found");
      return with_run(result, {});
    }
    const LanePlan plan = plan_lanes(*n, aliased_, shared_);
    if (!plan.fits) {
      if (!contains_loop(n->body)) say(*n, "one by one", plan.why_not);
      return with_run(result, {});
    }
    LoopRun run{.lanes = lanes_for(plan.sums)};
    run.lane_sums = !plan.sums.empty() && is_eight_sums(*n);
    say(*n, run.lanes ? fmt::format("{} lanes", run.lanes) : "lanes", reason(*n, plan, run));
    For copy = *n;
    copy.body = with_lane_sums(in_a_row(n->body), plan.sums);
    return with_run({std::make_shared<For>(std::move(copy))}, run);
  }

 private:
  Stmt rewrite_inside(const Stmt& s) {
    if (const auto* local = s.as<Allocate>(); local && local->array->shape.empty()) scalars_.insert(local->array);
    const auto* loop = s.as<For>();
    if (!loop || !is_parallel(loop->mode) || has_single_trip(*loop)) return rewrite_children(s);
    const std::set<Array> outer = std::exchange(shared_, scalars_);
    Stmt result = rewrite_children(s);
    shared_ = outer;
    return result;
  }

  static std::string reason(const For& n, const LanePlan& plan, const LoopRun& run) {
    if (run.lane_sums) return "eight sums, whose lanes are added up all at once";
    if (!plan.sums.empty())
      return fmt::format("iterations share nothing but {} they sum into",
                         plan.sums.size() == 1 ? "a scalar that" : fmt::format("{} scalars that", plan.sums.size()));
    return is_parallel(n.mode) ? "any order is right, and neighbours touch neighbouring elements"
                               : "each iteration keeps to elements of its own";
  }
  void say(const For& n, std::string decision, std::string reason) {
    report_.runs.push_back({n.iterator.name, n.location, std::move(decision), std::move(reason)});
  }

  const std::set<Array> aliased_;
  std::set<Array> scalars_, shared_;  // declared so far; those of them outside of the parallel loop around
  Report& report_;
};

}  // namespace

ir::Program vectorize_loops(const ir::Program& program, PassContext& context) {
  return with_body(program, Vectorizer(program, context.report).rewrite(program.body));
}

}  // namespace loopgrad::transforms
