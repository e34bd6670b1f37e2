#include "transforms/map/gpu/data_control.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// The trips of a loop that starts at `lower` and ends before `upper`, at most, as the host can compute them; or null.
Expr trips_of_host(const For& loop) {
  if (!host_knows(loop.lower)) return {};
  if (loop.at_most && host_knows(loop.at_most)) return loop.at_most;
  const auto* least = loop.upper.as<Binary>();
  if (!least || least->op != BinaryOp::Min) return {};
  for (const Expr& limit : {least->a, least->b})
    if (host_knows(limit)) return limit - loop.lower;
  return {};
}

class Steps : LoopBuilder {
 public:
  explicit Steps(const Stmt& s) : LoopBuilder(s->location) {}

  HostSteps of(const While& n) const {
    if (!host_knows(n.max_trips)) return {};
    const Array go = local("go", {larger(n.max_trips, number(0)) + number(1)}, ScalarType::Bool);
    const Expr it = var(n.iterator), next = it + number(1);
    const Stmt ask = set(go, {next}, binary(BinaryOp::And, get(go, {it}), n.condition));
    const Scope all = scope_of(without_contractions(n.body));
    const auto is_single = [](const Stmt& s) { return s.kind() == Kind::Assign || s.kind() == Kind::Reduce; };
    const auto rest = std::find_if_not(all.list.begin(), all.list.end(), is_single);
    const auto guarded = [&](auto from, auto to) {
      return from == to ? Stmt() : if_then(get(go, {next}), block({from, to}), {}, n.location);
    };
    const Stmt steps = block({ask, guarded(all.list.begin(), rest), guarded(rest, all.list.end())});
    const Stmt loop =
        for_loop(n.iterator, number(0), n.max_trips, with_locals(all, steps), LoopMode::Forward, n.location);
    return {allocate(go, block({set(go, {number(0)}, bool_const(true)), loop}), n.location), n.max_trips, n.iterator};
  }

  HostSteps of(const For& n) const {
    const Expr trips = trips_of_host(n);
    if (!trips) return {};
    const Array last = local("last", {});
    const Expr exists = binary(BinaryOp::Lt, var(n.iterator), get(last, {}));
    const bool parallel = n.mode == LoopMode::Parallel;
    const Stmt body = without_contractions(n.body);
    const Stmt guarded = parallel ? inside_nest(body, exists) : if_then(exists, body, {}, n.location);
    const Stmt loop = for_loop(n.iterator, n.lower, n.lower + trips, guarded, n.mode, n.location);
    return {allocate(last, block({set(last, {}, n.upper), loop}), n.location), parallel ? Expr() : trips, n.iterator};
  }

  HostSteps of(const If& n) const {
    const Array taken = local("taken", {}, ScalarType::Bool);
    const Stmt branch = if_then(get(taken, {}), without_contractions(n.then_body),
                                n.else_body ? without_contractions(n.else_body) : Stmt(), n.location);
    return {allocate(taken, block({set(taken, {}, n.condition), branch}), n.location), {}, {}};
  }

 private:
  /// The condition around what the innermost loop of a nest does, so that it stays a nest.
  static Stmt inside_nest(const Stmt& s, const Expr& condition) {
    const auto* inner = s.as<For>();
    if (!inner || inner->mode != LoopMode::Parallel || !host_knows(inner->lower) || !host_knows(inner->upper))
      return if_then(condition, s, {}, s->location);
    return with_body(*inner, inside_nest(inner->body, condition));
  }
};

}  // namespace

HostSteps host_steps(const Stmt& s) {
  const Steps steps(s);
  if (const auto* n = s.as<While>()) return steps.of(*n);
  if (const auto* n = s.as<For>()) return steps.of(*n);
  if (const auto* n = s.as<If>()) return steps.of(*n);
  return {};
}

bool is_guard(const If& branch) {
  std::set<Array> read;
  bool of_locals = true;
  walk(branch.condition, [&](const Expr& e) {
    const auto* n = e.as<Load>();
    if (!n) return;
    read.insert(n->array);
    of_locals &= n->array->role == ArrayRole::Local;
  });
  if (!of_locals || has_contraction(branch.then_body) || (branch.else_body && has_contraction(branch.else_body)))
    return false;
  for (const Stmt& body : {branch.then_body, branch.else_body})
    for (const Array& array : body ? stored_in(body) : std::set<Array>())
      if (read.contains(array)) return false;
  return true;
}

Stmt guard_kernels(const Stmt& launches, const Expr& condition) {
  return rewrite(launches, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* loop = s.as<For>();
    if (!loop || loop->mode != LoopMode::Grid) return std::nullopt;
    const auto* inner = loop->body.as<For>();
    const bool is_nest = inner && inner->mode == LoopMode::Grid;
    return with_mapped_body(
        s, is_nest ? guard_kernels(loop->body, condition) : if_then(condition, loop->body, {}, s->location));
  });
}

}  // namespace loopgrad::transforms
