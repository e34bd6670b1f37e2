#include "transforms/storage/keep_last_elements.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/elements_in_scalars.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

class Keeper {
 public:
  explicit Keeper(const ir::Program& program) : elements_(program) {}

  /// The host's part.
  Stmt visit(const Stmt& s) const {
    if (!s || is_parallel_loop(s)) return s;
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (is_parallel_loop(child)) return child;
      const auto* local = child.as<ir::Allocate>();
      if (!local) return std::nullopt;
      return ir::allocate(local->array, in_last_nest(visit(local->body), local->array), local->location);
    });
  }

 private:
  Stmt in_last_nest(const Stmt& s, const ir::Array& array, const std::vector<const ir::For*>& loops = {}) const {
    if (is_parallel_loop(s)) {
      const ir::For& loop = *s.as<ir::For>();
      std::vector<const ir::For*> inside = loops;
      inside.push_back(&loop);
      return with_body(loop, in_last_nest(loop.body, array, inside));
    }
    if (!loops.empty()) return with_scalar(s, loops, array);
    if (const auto* local = s.as<ir::Allocate>())
      return ir::allocate(local->array, in_last_nest(local->body, array, loops), local->location);
    if (const auto* n = s.as<ir::If>())
      return ir::if_then(n->condition, in_last_nest(n->then_body, array, loops),
                         in_last_nest(n->else_body, array, loops), n->location);
    const auto* block = s.as<ir::Block>();
    if (!block || block->body.empty()) return s;
    std::vector<Stmt> list = block->body;
    list.back() = in_last_nest(list.back(), array, loops);
    return ir::block(std::move(list));
  }

  /// The body of the last nest in the array's scope with a scalar in place of the element that it assigns.
  Stmt with_scalar(const Stmt& body, const std::vector<const ir::For*>& loops, const ir::Array& array) const {
    if (ir::contains_loop(body)) return body;
    for (const Element& e : elements_.of({body}))
      if (e.array == array && e.certain && is_left_alone(e, body, loops))
        return elements_.without_store(body, e, array->name + "_kept");
    return body;
  }

  /// Whether nothing but the iteration itself touches the element, and that no other one.
  static bool is_left_alone(const Element& e, const Stmt& body, const std::vector<const ir::For*>& loops) {
    if (!is_own(e.indices, loops) || std::any_of(e.indices.begin(), e.indices.end(), ir::has_load)) return false;
    const auto all = accesses_of(body);
    return std::all_of(all.begin(), all.end(), [&](const Access& x) {
      if (x.array != e.array || e.is(x.array, x.indices)) return true;
      return !x.writes && are_apart({e.array, e.indices, true}, x, loops);
    });
  }

  const ScalarElements elements_;
};

}  // namespace

ir::Program keep_last_elements(const ir::Program& program) {
  return ir::with_body(program, Keeper(program).visit(program.body));
}

}  // namespace loopgrad::transforms
