#include "transforms/storage/join_scalars.h"

#include "dsl/ir/queries.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

class Joiner {
 public:
  explicit Joiner(const ir::Program& program) : passing_(program) {}

  Stmt visit(const Stmt& s) const {
    return rewrite_host_blocks(s, [this](const ir::Block& n) { return block(n); });
  }

 private:
  Stmt block(const ir::Block& n) const {
    std::vector<Stmt> result;
    for (const Stmt& child : n.body) {
      if (!is_assignment(child) || !join(result, child)) result.push_back(visit(child));
    }
    return ir::block(std::move(result));
  }

  /// Puts the assignment behind the last one of `list`, or into the scope of a local array in which that is.
  bool join(std::vector<Stmt>& list, const Stmt& assignment) const {
    for (std::size_t k = list.size(); k-- > 0;) {
      if (is_assignment(list[k]) || is_lone_sum(list[k])) {
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(k) + 1, assignment);
        return true;
      }
      if (const auto* local = list[k].as<ir::Allocate>()) {
        const auto* block = local->body.as<ir::Block>();
        std::vector<Stmt> inside = block ? block->body : std::vector<Stmt>{local->body};
        if (join(inside, assignment)) {
          list[k] = ir::allocate(local->array, ir::block(std::move(inside)), local->location);
          return true;
        }
      }
      if (!passing_.can_pass(list[k], accesses_of(assignment))) return false;
    }
    return false;
  }

  const Passing passing_;
};

}  // namespace

bool is_assignment(const Stmt& s) {
  const auto* sum = s.as<ir::Reduce>();
  return sum ? !sum->atomic : s.kind() == ir::Kind::Assign;
}

bool is_lone_sum(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  if (!loop || contains_parallel_loop(s) || has_contraction(s)) return false;
  const auto all = leaves(loop->body);
  return !all.empty() && std::all_of(all.begin(), all.end(), [&](const Stmt& leaf) {
    const auto* sum = leaf.as<ir::Reduce>();
    return sum && std::none_of(sum->indices.begin(), sum->indices.end(),
                               [&](const Expr& index) { return ir::mentions(index, loop->iterator); });
  });
}

ir::Program join_scalars(const ir::Program& program) {
  return ir::with_body(program, Joiner(program).visit(program.body));
}

}  // namespace loopgrad::transforms
