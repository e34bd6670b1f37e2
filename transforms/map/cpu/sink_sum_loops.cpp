#include "transforms/map/cpu/sink_sum_loops.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/reorder_loops.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace loopgrad::transforms {
namespace {

using ir::Expr;
using ir::Stmt;

/// Whether a sequential loop sums up rows that the parallel loop in it runs along, and does nothing else.
class Rows {
 public:
  Rows(const ir::For& outer, const ir::For& inner) : outer_(outer), inner_(inner) {}

  bool check(const Stmt& whole) {
    ir::walk(
        whole, [&](const Stmt& s) { read(s); },
        [&](const Expr& e) {
          const auto* load = e.as<ir::Load>();
          if (!load) return;
          access(load->indices);
          read_.insert(load->array);
        });
    // What the loop also reads does not stay in registers.
    const bool stays = std::none_of(summed_.begin(), summed_.end(), [&](const auto& a) { return read_.count(a) > 0; });
    return simple_ && sums_a_row_ && stays;
  }

 private:
  void read(const Stmt& s) {
    ir::visit(
        s, ir::overloaded{
               [](const ir::Block&) {},
               [](const ir::If&) {},
               [](const ir::Allocate&) {},
               [&](const ir::For& n) { simple_ &= &n == &outer_ || &n == &inner_; },
               [&](const ir::Assign& n) { access(n.indices); },
               [&](const ir::Reduce& n) {
                 simple_ &= !n.atomic;
                 access(n.indices);
                 summed_.insert(n.array);
                 const bool stays = std::none_of(n.indices.begin(), n.indices.end(),
                                                 [&](const Expr& index) { return mentions(index, outer_.iterator); });
                 sums_a_row_ |= stays && !n.indices.empty() && coefficient_of(n.indices.back(), inner_.iterator) == 1;
               },
               [&](const auto&) { simple_ = false; },
           });
  }

  void access(const std::vector<Expr>& indices) {
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const auto stride = coefficient_of(indices[d], inner_.iterator);
      const bool last = d + 1 == indices.size();
      simple_ &= stride && (*stride == 0 || (last && std::abs(*stride) == 1));
    }
  }

  const ir::For& outer_;
  const ir::For& inner_;
  std::set<ir::Array> summed_, read_;
  bool simple_ = true, sums_a_row_ = false;
};

class Sinker final : public ir::Rewriter {
 public:
  Sinker(const ir::Program& program, Analyses& analyses) : program_(program), analyses_(analyses) {}
  using ir::Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    if (!loop) return rewrite_children(s);
    if (ir::is_parallel(loop->mode)) {
      ++parallel_depth_;
      Stmt result = rewrite_children(s);
      --parallel_depth_;
      return result;
    }
    const Stmt sunk = parallel_depth_ > 0 ? with_parallel_outermost(s) : Stmt();
    if (!sunk || !Rows(*loop, *only_parallel_loop(loop->body)).check(s)) return rewrite_children(s);
    const ir::Program candidate = ir::with_body(program_, replace(program_.body, s, sunk));
    return can_run_in_parallel({candidate, analyses_}, sunk).ok ? sunk : rewrite_children(s);
  }

 private:
  const ir::Program& program_;
  Analyses& analyses_;
  int parallel_depth_ = 0;
};

}  // namespace

ir::Program sink_sum_loops(const ir::Program& program, PassContext& context) {
  return program.body ? ir::with_body(program, Sinker(program, analyses(context)).rewrite(program.body)) : program;
}

}  // namespace loopgrad::transforms
