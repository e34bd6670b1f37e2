#include "transforms/map/cpu/jam_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"
#include "transforms/loops/unroll.h"

#include <algorithm>
#include <cstdlib>

namespace loopgrad::transforms {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr std::int64_t most_sums = 8;  // at once: each needs a vector register, and so do the operands
constexpr std::size_t most_statements = 12;

bool is_wide(ScalarType type) { return type == ScalarType::F32 || type == ScalarType::F64; }

/// Whether the iterations of a parallel loop pay when jammed; counts what they have.
class Candidate {
 public:
  explicit Candidate(const ir::For& loop) : loop_(loop) {}

  bool check() { return fits(loop_.body) && sums_ > 0 && statements_ <= most_statements; }
  /// Copies with which all sums stay in registers.
  std::int64_t factor() const { return most_sums / sums_; }

 private:
  bool fits(const Stmt& s) {
    ++statements_;
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) {
                              return std::all_of(n.body.begin(), n.body.end(), [&](const Stmt& t) { return fits(t); });
                            },
                            [&](const ir::Allocate& n) { return n.array->shape.empty() && fits(n.body); },
                            [](const ir::Assign&) { return true; },
                            [](const ir::Reduce& n) { return !n.atomic; },
                            [&](const ir::If&) { return !contains_loop(s); },
                            [&](const ir::For& n) { return fits_loop(n); },
                            [](const auto&) { return false; },
                        });
  }

  bool fits_loop(const ir::For& n) {
    for (const Expr& bound : {n.lower, n.upper})
      if (mentions(bound, loop_.iterator)) return false;
    std::int64_t sums = 0;
    const bool only_sums = bounds_are_plain(n) && !ir::is_parallel(n.mode) && sums_of(n.body, n, sums);
    sums_ = std::max(sums_, sums);
    return only_sums;
  }

  /// Counts sums in scalars whose terms are read from one element after the other.
  bool sums_of(const Stmt& s, const ir::For& over, std::int64_t& count) const {
    if (const auto* block = s.as<ir::Block>())
      return std::all_of(block->body.begin(), block->body.end(),
                         [&](const Stmt& t) { return sums_of(t, over, count); });
    const auto* sum = s.as<ir::Reduce>();
    if (!sum || sum->atomic || !sum->array->shape.empty() || !is_wide(sum->array->type)) return false;
    ++count;
    bool in_order = true;
    ir::walk(sum->value, [&](const Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (!load) return;
      for (std::size_t d = 0; d < load->indices.size(); ++d) {
        const auto stride = coefficient_of(load->indices[d], over.iterator);
        const bool last = d + 1 == load->indices.size();
        in_order &= stride && (*stride == 0 || (last && std::abs(*stride) == 1));
      }
    });
    return in_order && count <= most_sums / 2;
  }

  const ir::For& loop_;
  std::int64_t sums_ = 0;
  std::size_t statements_ = 0;
};

class Jam final : public ir::Rewriter {
 public:
  Jam(const ir::Program& program, Analyses& analyses) : program_(program), analyses_(analyses) {}
  using ir::Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    if (!loop || !ir::is_parallel(loop->mode)) {
      const bool was_shared = shared_;
      // What follows in the same parallel iteration is no perfect nest, so one thread runs it.
      if (inside_) shared_ = false;
      Stmt result = rewrite_children(s);
      shared_ = was_shared;
      return result;
    }
    // Threads share out no loop whose bounds are data together with those around it.
    const bool is_shared = shared_ && !ir::has_load(loop->lower) && !ir::has_load(loop->upper);
    if (inside_ && !is_shared) {
      Candidate candidate(*loop);
      if (candidate.check() && can_jam({program_, analyses_}, s, candidate.factor()).ok)
        return jammed(program_, *loop, candidate.factor());
    }
    const bool was_inside = inside_, was_shared = shared_;
    shared_ = inside_ ? is_shared : true;
    inside_ = true;
    Stmt result = rewrite_children(s);
    inside_ = was_inside;
    shared_ = was_shared;
    return result;
  }

 private:
  const ir::Program& program_;
  Analyses& analyses_;
  bool inside_ = false;  // of a parallel loop
  bool shared_ = false;  // all loops around are parallel and perfectly nested, so that threads may share them out
};

}  // namespace

ir::Program jam_sums(const ir::Program& program, PassContext& context) {
  return program.body ? ir::with_body(program, Jam(program, analyses(context)).rewrite(program.body)) : program;
}

}  // namespace loopgrad::transforms
