#include "transforms/storage/forward_elements.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

class Forwarder {
 public:
  explicit Forwarder(const ir::Program& program) : passing_(program) {}

  /// The host's part.
  Stmt visit(const Stmt& s) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (child.kind() == ir::Kind::Contraction) return child;
      if (!is_parallel_loop(child)) return std::nullopt;
      const auto& loop = *child.as<ir::For>();
      return with_body(loop, inside(loop.body));
    });
  }

 private:
  /// What all threads of a block execute: down to loops that they may share.
  Stmt inside(const Stmt& s) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (child.kind() == ir::Kind::While) return child;
      if (const auto* loop = child.as<ir::For>(); loop && !contains_loop(loop->body)) return child;
      const auto* block = child.as<ir::Block>();
      if (!block) return std::nullopt;
      std::vector<Stmt> list;
      for (const Stmt& statement : block->body) list.push_back(inside(statement));
      return in_row(std::move(list));
    });
  }

  Stmt in_row(std::vector<Stmt> list) {
    for (std::size_t k = 0; k < list.size(); ++k) {
      forward(list, k);
      const auto* local = list[k].as<ir::Allocate>();
      const auto next = list.begin() + static_cast<std::ptrdiff_t>(k) + 1;
      // What follows on the scope of a local goes into it, where that helps: elements are forwarded to loops.
      if (!local || std::none_of(next, list.end(), ir::contains_loop)) continue;
      const auto* block = local->body.as<ir::Block>();
      std::vector<Stmt> all = block ? block->body : std::vector<Stmt>{local->body};
      all.insert(all.end(), next, list.end());
      const int before = forwarded_;
      const Stmt wide = in_row(std::move(all));
      if (forwarded_ == before) continue;
      list[k] = ir::allocate(local->array, wide, local->location);
      list.resize(k + 1);
    }
    return ir::block(std::move(list));
  }

  /// Rewrites what follows on an assignment, if that is one to forward.
  void forward(std::vector<Stmt>& list, std::size_t k) {
    const auto* assign = list[k].as<ir::Assign>();
    if (!assign || assign->indices.empty() || passing_.may_alias(assign->array)) return;
    if (assign->array->type != value_type(assign->array->type)) return;
    if (std::any_of(assign->indices.begin(), assign->indices.end(), ir::has_load)) return;
    std::size_t end = k + 1;  // behind the last loop that reads the element
    for (std::size_t at = k + 1; at < list.size() && leaves_alone(list[at], *assign); ++at)
      if (ir::contains_loop(list[at]) && reads(list[at], *assign)) end = at + 1;
    if (end == k + 1) return;
    ++forwarded_;
    const Stmt stored = list[k];
    const ir::Assign& element = *stored.as<ir::Assign>();
    const ir::Array now =
        ir::make_array(element.array->name + "_now", element.array->type, {}, ir::ArrayRole::Local, element.location);
    std::vector<Stmt> scope = {ir::assign(now, {}, element.value, element.location)};
    for (std::size_t at = k + 1; at < end; ++at)
      scope.push_back(in_scalar(list[at], element.array, element.indices, now));
    scope.push_back(ir::assign(element.array, element.indices, ir::load(now, {}), element.location));
    list[k] = ir::allocate(now, ir::block(std::move(scope)), element.location);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(k) + 1, list.begin() + static_cast<std::ptrdiff_t>(end));
  }

  /// Whether a statement only reads the element, if anything.
  bool leaves_alone(const Stmt& s, const ir::Assign& element) const {
    return passing_.can_pass(s, {{element.array, element.indices, true}}, Passing::Same::MayRead);
  }

  static bool reads(const Stmt& s, const ir::Assign& element) {
    const auto all = accesses_of(s);
    return std::any_of(all.begin(), all.end(), [&](const Access& x) {
      return x.array == element.array && !x.writes && ir::equal(x.indices, element.indices);
    });
  }

  const Passing passing_;
  int forwarded_ = 0;
};

}  // namespace

ir::Program forward_elements(const ir::Program& program) {
  return ir::with_body(program, Forwarder(program).visit(program.body));
}

}  // namespace loopgrad::transforms
