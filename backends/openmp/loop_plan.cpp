#include "backends/openmp/loop_plan.h"

#include "backends/openmp/region.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// Of one array, and of all that are alive at once: threads may have little stack.
constexpr std::int64_t max_stack_bytes = 16 * 1024, max_stack_bytes_in_all = 64 * 1024;

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
                   const Expr trips = ir::simplify_indices(n.upper - n.lower);
                   bool cut_off = false;
                   walk(trips, [&](const Expr& e) {
                     if (const auto* b = e.as<Binary>()) cut_off |= b->op == BinaryOp::Min || b->op == BinaryOp::Max;
                   });
                   uneven |= has_load(trips) || (!cut_off && symbols_in(trips).count(loop.iterator));
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

/// Perfectly nested parallel loops with bounds of their own, as long as some loop is left inside for one thread to do.
int collapsible(const For& outer) {
  std::set<Symbol> iterators = {outer.iterator};
  int count = 1;
  for (Stmt inner = outer.body; const auto* loop = inner.as<For>(); inner = loop->body) {
    if (!is_parallel(loop->mode) || !contains_loop(loop->body)) break;
    if (has_load(loop->lower) || has_load(loop->upper)) break;
    bool rectangular = true;
    for (const Expr& bound : {loop->lower, loop->upper})
      for (const Symbol& s : symbols_in(bound)) rectangular &= !iterators.count(s);
    if (!rectangular) break;
    iterators.insert(loop->iterator);
    ++count;
  }
  return count;
}

class Planner {
 public:
  Planner(const ir::Program& program, FunctionPlan& plan) : plan_(plan), aliased_(aliased_arrays(program)) {}

  void visit_stmt(const Stmt& s) {
    if (!s) return;
    visit(s, overloaded{
                 [&](const Block& n) {
                   for (const Stmt& child : n.body) visit_stmt(child);
                 },
                 [&](const For& n) { visit_loop(s, n); },
                 [&](const While& n) {
                   loops_.push_back({s, n.iterator});
                   visit_braces(n.body);
                   loops_.pop_back();
                 },
                 [&](const If& n) {
                   visit_braces(n.then_body);
                   visit_braces(n.else_body);
                 },
                 [&](const Allocate& n) {
                   place(s, n);
                   visit_stmt(n.body);
                 },
                 [&](const Contraction& n) {
                   plan_.has_contractions = true;
                   visit_stmt(n.loops);
                 },
                 [&](const Push&) { plan_.has_stack = true; },
                 [&](const Pop&) { plan_.has_stack = true; },
                 [](const Assign&) {},
                 [](const Reduce&) {},
             });
  }

 private:
  struct OpenLoop {
    Stmt stmt;
    Symbol iterator;
  };

  /// What stands in braces of its own leaves the stack as it was; an array outside of any lives to the end.
  void visit_braces(const Stmt& body) {
    const std::int64_t before = stack_bytes_;
    visit_stmt(body);
    stack_bytes_ = before;
  }

  void visit_loop(const Stmt& s, const For& n) {
    LoopPlan& loop = plan_.loops[s.get()];
    const auto lower = as_int(n.lower), upper = as_int(n.upper);
    const bool one_trip = lower && upper && *upper - *lower <= 1;
    if (is_parallel(n.mode) && parallel_ < 0 && !in_simd_ && !one_trip) {
      loop.threads = plan_.has_threads = true;
      loop.uneven = is_uneven(n);
      loop.collapse = collapsible(n);
      parallel_ = static_cast<int>(loops_.size());
    }
    // A single trip fills no lanes, and would keep the loops inside from threads: OpenMP has none in a loop over lanes.
    if (loop.collapse == 1 && !one_trip)
      if (auto simd = plan_simd(n, aliased_)) {
        loop.simd = true;
        loop.simd_reductions = std::move(*simd);
      }
    const bool in_simd_before = std::exchange(in_simd_, in_simd_ || loop.simd);
    loops_.push_back({s, n.iterator});
    visit_braces(n.body);
    loops_.pop_back();
    in_simd_ = in_simd_before;
    if (parallel_ == static_cast<int>(loops_.size())) parallel_ = -1;
  }

  void place(const Stmt& s, const Allocate& n) {
    LocalPlan& local = plan_.locals[s.get()];
    if (n.array->shape.empty()) return;
    const auto bytes = constant_bytes(n.array);
    if (bytes && *bytes <= max_stack_bytes && stack_bytes_ + *bytes <= max_stack_bytes_in_all) {
      local.storage = Storage::Stack;
      stack_bytes_ += std::max<std::int64_t>(*bytes, 64);
      return;
    }
    // The outermost position at which the extents are known.
    std::size_t level = 0;
    for (const Expr& extent : n.array->shape)
      for (const Symbol& symbol : symbols_in(extent))
        for (std::size_t i = 0; i < loops_.size(); ++i)
          if (loops_[i].iterator == symbol) level = std::max(level, i + 1);
    const bool known_outside = parallel_ < 0 || level <= static_cast<std::size_t>(parallel_);
    local.storage = parallel_ < 0 ? Storage::Shared : known_outside ? Storage::PerThread : Storage::InIteration;
    plan_.has_heap |= known_outside;
    if (known_outside && level < loops_.size()) {
      local.before = loops_[level].stmt.get();
      plan_.reserved_before[local.before].push_back(s);
    }
  }

  FunctionPlan& plan_;
  std::set<Array> aliased_;
  std::vector<OpenLoop> loops_;
  bool in_simd_ = false;
  std::int64_t stack_bytes_ = 0;  // of the arrays around
  int parallel_ = -1;             // position in loops_ of the loop that runs on threads
};

// Work estimates.

constexpr std::int64_t unknown_trips = 8;

std::int64_t operations(const Expr& e) {
  std::int64_t count = 0;
  walk(e, [&](const Expr& x) {
    if (x.kind() == Kind::Load || x.kind() == Kind::Binary || x.kind() == Kind::Select) count += 1;
    if (x.kind() == Kind::Fma) count += 2;
    if (const auto* u = x.as<Unary>()) {
      const bool cheap = u->op == UnaryOp::Neg || u->op == UnaryOp::Not || u->op == UnaryOp::Abs ||
                         u->op == UnaryOp::RoundF16 || u->op == UnaryOp::RoundBF16;
      count += cheap ? 1 : 10;
    }
  });
  return count;
}

Expr work_below(const Stmt& s, std::set<Symbol>& inner);

bool is_known(const Expr& e, const std::set<Symbol>& inner) {
  const std::set<Symbol> symbols = symbols_in(e);
  return !has_load(e) && std::none_of(symbols.begin(), symbols.end(), [&](const Symbol& s) { return inner.count(s); });
}

/// Trips of a loop as an expression that iterators of the loops around do not occur in. Of a block of all iterations,
/// block * size .. min(block * size + size, n), this is the size.
Expr trips_of(const Expr& lower, const Expr& upper, const Expr& at_most, const std::set<Symbol>& inner) {
  if (is_known(lower, inner) && is_known(upper, inner)) return upper - lower;
  if (const auto* least = upper.as<Binary>(); least && least->op == BinaryOp::Min)
    for (const Expr& end : {least->a, least->b})
      if (const Expr trips = ir::simplify_indices(end - lower); is_known(trips, inner)) return trips;
  return at_most ? at_most : int_const(unknown_trips);
}

Expr trips_work(const Expr& lower, const Expr& upper, const Expr& at_most, const Symbol& iterator, const Stmt& body,
                std::set<Symbol>& inner) {
  const Expr trips = trips_of(lower, upper, at_most, inner);
  inner.insert(iterator);
  return trips * (work_below(body, inner) + int_const(2));
}

Expr work_below(const Stmt& s, std::set<Symbol>& inner) {
  if (!s) return int_const(0);
  return visit(s, overloaded{
                      [&](const Block& n) {
                        // Constants are summed apart, so that the expression stays short.
                        std::int64_t constant = 0;
                        Expr sum = int_const(0);
                        for (const Stmt& child : n.body) {
                          const Expr work = work_below(child, inner);
                          if (const auto c = as_int(work)) constant += *c;
                          else sum = sum + work;
                        }
                        return sum + int_const(constant);
                      },
                      [&](const For& n) { return trips_work(n.lower, n.upper, n.at_most, n.iterator, n.body, inner); },
                      [&](const While& n) {
                        return trips_work(int_const(0), int_const(unknown_trips), {}, n.iterator, n.body, inner);
                      },
                      [&](const If& n) {
                        return int_const(operations(n.condition)) + work_below(n.then_body, inner) +
                               work_below(n.else_body, inner);
                      },
                      [&](const Allocate& n) { return work_below(n.body, inner); },
                      [&](const Contraction& n) { return work_below(n.loops, inner); },
                      [](const Assign& n) { return int_const(1 + operations(n.value)); },
                      [](const Reduce& n) { return int_const((n.atomic ? 8 : 2) + operations(n.value)); },
                      [](const Push&) { return int_const(2); },
                      [](const Pop&) { return int_const(2); },
                  });
}

}  // namespace

FunctionPlan plan_function(const Program& program) {
  FunctionPlan plan;
  Planner(program, plan).visit_stmt(program.body);
  return plan;
}

std::size_t end_of_region(const std::vector<Stmt>& body, std::size_t first, const FunctionPlan& plan) {
  const auto loop_at = [&](std::size_t k) -> const For* {
    const auto* loop = body[k].as<For>();
    if (!loop || !plan.loops.at(body[k].get()).threads || has_load(loop->lower) || has_load(loop->upper))
      return nullptr;
    bool can_fail = false;  // for want of memory, which is told after the region
    walk_stmts(loop->body, [&](const Stmt& s) {
      if (s.kind() == Kind::Allocate) can_fail |= plan.locals.at(s.get()).storage == Storage::InIteration;
    });
    return can_fail ? nullptr : loop;
  };
  const For* start = loop_at(first);
  std::size_t end = first + 1;
  for (; start && end < body.size(); ++end) {
    const For* next = loop_at(end);
    if (!next || !equal(next->lower, start->lower) || !equal(next->upper, start->upper)) break;
  }
  return end;
}

Expr work_of_trip(const For& loop) {
  std::set<Symbol> inner = {loop.iterator};
  return work_below(loop.body, inner);
}

}  // namespace loopgrad::backend
