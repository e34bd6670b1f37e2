#include "transforms/map/cpu/join_regions.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

#include <fmt/format.h>

#include <utility>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// The statement as a loop on threads that may share a region with others; null for any other.
const For* joinable(const Stmt& s) {
  const auto* loop = s.as<For>();
  if (!loop || !loop->run.threads || has_load(loop->lower) || has_load(loop->upper)) return nullptr;
  bool can_fail = false;  // for want of memory
  walk_stmts(loop->body, [&](const Stmt& t) {
    const auto* a = t.as<Allocate>();
    can_fail |= a && a->home == Home::Iteration;
  });
  return can_fail ? nullptr : loop;
}

bool same_range(const For& a, const For& b) { return equal(a.lower, b.lower) && equal(a.upper, b.upper); }

class Joiner final : public Rewriter {
 public:
  explicit Joiner(Report& report) : report_(report) {}
  using Rewriter::rewrite;

  Expr rewrite(const Expr& e) override { return e; }

  Stmt rewrite(const Stmt& s) override {
    const auto* block = s.as<Block>();
    if (!block) return rewrite_children(s);
    std::vector<Stmt> body;
    const For* before = nullptr;  // whose region is open
    int joined = 1;
    for (const Stmt& child : block->body) {
      const For* const loop = joinable(child);
      const bool joins = loop && before && same_range(*loop, *before);
      if (joins) ++joined;
      else say(before, std::exchange(joined, 1));
      before = joins ? before : loop;
      body.push_back(loop ? with_joins(child, *loop, joins) : rewrite(child));
    }
    say(before, joined);
    return ir::block(std::move(body));
  }

 private:
  static Stmt with_joins(const Stmt& s, const For& n, bool joins) {
    LoopRun run = n.run;
    run.joins = joins;
    return with_run(s, run, n.work, n.streams);
  }
  void say(const For* first, int loops) {
    if (first && loops > 1)
      report_.runs.push_back({first->iterator.name, first->location, "one region",
                              fmt::format("{} loops over one range in a row, with barriers in between", loops)});
  }

  Report& report_;
};

}  // namespace

ir::Program join_regions(const ir::Program& program, PassContext& context) {
  return with_body(program, Joiner(context.report).rewrite(program.body));
}

}  // namespace loopgrad::transforms
