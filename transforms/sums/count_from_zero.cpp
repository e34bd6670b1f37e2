#include "transforms/sums/count_from_zero.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"
#include "transforms/sums/scatters.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// Whether a sum inside adds to the element that the iterator is, and nothing else from data chooses it.
bool chooses_element(const ir::For& loop) {
  bool chooses = false;
  ir::walk_stmts(loop.body, [&](const Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    if (!sum || has_index_from_data(*sum)) return;
    for (const Expr& index : sum->indices) chooses |= distance(index, ir::var(loop.iterator)).has_value();
  });
  return chooses;
}

class Counter : public ir::Rewriter {
 public:
  explicit Counter(const ir::Program& program) : program_(program) {}

  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    if (!loop) return rewrite_children(s);
    const Expr most = ir::has_load(loop->lower) && !is_row(*loop) && chooses_element(*loop)
                          ? most_trips_of(program_, *loop, around_)
                          : Expr();
    around_.push_back(loop);
    const Stmt inside = rewrite_children(s);
    around_.pop_back();
    // The body would find another start where it changes what that is read from.
    return most && bounds_stay(program_, s).ok ? from_zero(*inside.as<ir::For>(), most) : inside;
  }

 private:
  bool is_row(const ir::For& loop) const {
    const ir::Load* const start = ir::pointer_bounds(loop.lower, loop.upper).start;
    const bool by_loops = start && std::none_of(start->indices.begin(), start->indices.end(), ir::has_load);
    return by_loops && ir::csr_fact(program_, start->array);
  }

  static Stmt from_zero(const ir::For& loop, const Expr& most) {
    const Stmt body = ir::substitute(loop.body, {{loop.iterator, loop.lower + ir::var(loop.iterator)}});
    return ir::for_loop(loop.iterator, ir::int_const(0), simplify_indices(loop.upper - loop.lower), body, loop.mode,
                        loop.location, most);
  }

  const ir::Program& program_;
  Loops around_;
};

}  // namespace

ir::Program count_from_zero(const ir::Program& program) {
  return ir::with_body(program, Counter(program).rewrite(program.body));
}

}  // namespace loopgrad::transforms
