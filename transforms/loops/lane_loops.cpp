#include "transforms/loops/lane_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"
#include "transforms/loops/loop_order.h"

#include <algorithm>
#include <cstdlib>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t largest_private_bytes = 8192;  // of one local array after expansion by lanes
constexpr std::int64_t few_trips = 4;  // of inner loops that are unrolled, so that the outer one has lanes
/// Of a sum of all lanes, in units of access_cost: measured, less than one access to elements that are far apart.
constexpr int cost_of_adding_up = strided_cost - 2;

bool is_innermost(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  return loop && !contains_loop(loop->body);
}

bool has_at_most(const ir::For& loop, std::int64_t trips) {
  const auto lower = ir::as_int(loop.lower), upper = ir::as_int(loop.upper);
  return lower && upper && *upper - *lower <= trips;
}

/// Scalars of an iteration that are assigned once, whatever data decide, with what they are assigned; with no loop
/// between declaration and assignment, which could read what an earlier trip assigned.
class Scalars {
 public:
  explicit Scalars(const ir::For& loop) : lane_(loop.iterator) { scan(loop.body, true); }

  /// In textual order, so that what one is assigned needs those before it.
  std::vector<std::pair<Array, Expr>> assigned_once() const {
    std::vector<std::pair<Array, Expr>> result = assigned_;
    std::erase_if(result, [&](const auto& one) { return others_.count(one.first) > 0; });
    return result;
  }

 private:
  void scan(const Stmt& s, bool always) {
    const auto store = [&](const Array& array, const Expr& value) {
      if (!array->shape.empty()) return;
      const auto declared = declared_in_.find(array);
      const bool afresh = declared != declared_in_.end() && declared->second == loops_;
      if (!value || !always || !afresh || !seen_.insert(array).second) others_.insert(array);
      else assigned_.push_back({array, value});
    };
    ir::visit(s, ir::overloaded{
                     [&](const ir::Block& n) {
                       for (const Stmt& t : n.body) scan(t, always);
                     },
                     [&](const ir::Allocate& n) {
                       declared_in_[n.array] = loops_;
                       scan(n.body, always);
                     },
                     [&](const ir::For& n) {
                       ++loops_;
                       scan(n.body, always && !mentions(n.lower, lane_) && !mentions(n.upper, lane_));
                       --loops_;
                     },
                     [&](const ir::If& n) {
                       scan(n.then_body, false);
                       if (n.else_body) scan(n.else_body, false);
                     },
                     [&](const ir::Assign& n) { store(n.array, n.value); },
                     [&](const ir::Reduce& n) { store(n.array, {}); },
                     [&](const auto&) {
                       for_each_store(s, [&](const Array& array, const std::vector<Expr>&) { store(array, {}); });
                     },
                 });
  }

  ir::Symbol lane_;
  int loops_ = 0;
  std::map<Array, int> declared_in_;
  std::vector<std::pair<Array, Expr>> assigned_;
  std::set<Array> seen_, others_;
};

/// Accesses of code, each element once.
std::vector<Access> elements_in(const Stmt& body) {
  std::vector<Access> result;
  for (Access& access : accesses_of(body)) {
    const auto is_same = [&](const Access& other) {
      return other.array == access.array && ir::equal(other.indices, access.indices);
    };
    if (std::none_of(result.begin(), result.end(), is_same)) result.push_back(std::move(access));
  }
  return result;
}

/// Whether the body can be run in lanes, and whether that pays.
class Eligibility {
 public:
  explicit Eligibility(const ir::For& loop) : loop_(loop), depends_(loop) {}

  bool check() {
    if (!contains_loop(loop_.body) || !legal(loop_.body)) return false;
    bool all_pay = true, some_contiguous = false;
    for_each_innermost(loop_.body, [&](const ir::For& around, const Stmt& s) {
      all_pay &= pays(s, loop_.iterator, some_contiguous);
      bool ignored = false;
      vectorises_ &= pays(s, around.iterator, ignored);
      has_long_loops_ |= !has_at_most(around, few_trips);
    });
    return all_pay && some_contiguous;
  }
  /// Whether it gains where there is another way: innermost loops that have lanes already, or few trips, need none of
  /// this one's, unless they have nothing but sums that all lanes share: these are then added up once a tile, where
  /// they are loaded and stored each time. A loop further in may be the one that all statements move with.
  bool gains() {
    if (!has_long_loops_ || has_at_most(loop_, least_lanes - 1)) return false;
    if (vectorises_ ? !has_shared_sums_only() : !saves()) return false;
    bool all_pay = true, ignored = false;
    for (const Stmt& leaf : leaves(loop_.body)) all_pay &= pays(leaf, loop_.iterator, ignored);
    return all_pay || !another_inside();
  }
  std::int64_t widest() const { return widest_; }
  bool vectorises_by_itself() const { return vectorises_; }
  bool has_parallel_inside() const { return has_parallel_; }

 private:
  bool legal(const Stmt& s) {
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) {
                              return std::all_of(n.body.begin(), n.body.end(), [&](const Stmt& t) { return legal(t); });
                            },
                            [&](const ir::For& n) { return legal_loop(s, n); },
                            [&](const ir::If& n) {
                              if (is_of_one_lane(s)) return true;
                              if (depends_.any(n.condition) && bounds_load(n)) return false;
                              return !depends_.on_data(n.condition) && legal(n.then_body) &&
                                     (!n.else_body || legal(n.else_body));
                            },
                            [&](const ir::Allocate& n) { return constant_bytes(n.array) >= 0 && legal(n.body); },
                            [&](const ir::Assign&) { return true; },
                            [&](const ir::Reduce& n) { return !n.atomic; },
                            [&](const auto&) { return false; },
                        });
  }

  /// Bounds below a branch, and conditions around loops, are evaluated for all lanes, also for those that would not get
  /// there: they must not fail.
  static bool bounds_load(const ir::If& branch) {
    bool found = false;
    for (const Stmt& side : {branch.then_body, branch.else_body}) {
      if (!side) continue;
      ir::walk_stmts(side, [&](const Stmt& t) {
        const auto* loop = t.as<ir::For>();
        const auto* inner = t.as<ir::If>();
        found |= loop && (ir::has_load(loop->lower) || ir::has_load(loop->upper));
        found |= inner && !is_of_one_lane(t) && ir::has_load(inner->condition);
      });
    }
    return found;
  }

  bool legal_loop(const Stmt& s, const ir::For& n) {
    if (ir::is_parallel(n.mode)) {
      has_parallel_ = true;
      if (!is_innermost(s) && ir::is_parallel(loop_.mode)) return false;
    }
    if (depends_.on_data(n.lower) || depends_.on_data(n.upper)) return false;
    const bool ragged = depends_.on_iterator(n.lower) || depends_.on_iterator(n.upper);
    if (!ragged) return legal(n.body);
    return !contains_loop(n.body) && bounds_over_lanes(n.lower) && bounds_over_lanes(n.upper) && legal(n.body);
  }
  bool bounds_over_lanes(const Expr& e) const {
    const Expr somewhere = ir::var(loop_.iterator);
    return over_lanes(e, loop_.iterator, somewhere, ir::int_const(2)).has_value();
  }

  static std::int64_t constant_bytes(const Array& array) {
    std::int64_t bytes = static_cast<std::int64_t>(bytes_of(array->type)) * 64;
    for (const Expr& extent : array->shape) {
      const auto c = ir::as_int(extent);
      if (!c || *c < 0 || *c > largest_private_bytes) return -1;
      bytes *= *c;
      if (bytes > largest_private_bytes) return -1;
    }
    return bytes;
  }

  template <class F>
  void for_each_innermost(const Stmt& s, const F& f) const {
    ir::walk_stmts(s, [&](const Stmt& t) {
      if (!is_innermost(t)) return;
      ir::walk_stmts(t.as<ir::For>()->body, [&](const Stmt& leaf) {
        if (leaf.kind() == ir::Kind::Assign || leaf.kind() == ir::Kind::Reduce) f(*t.as<ir::For>(), leaf);
      });
    });
  }

  /// Every access stays in place or moves to the neighbour from one value of the iterator to the next.
  bool pays(const Stmt& s, const ir::Symbol& iterator, bool& some_contiguous) {
    bool ok = true;
    auto access = [&](const Array& array, const std::vector<Expr>& indices, bool differs = true) {
      bool in_lanes = indices.empty() && !depends_.is_uniform(array);  // each lane has its own
      for (std::size_t d = 0; d < indices.size(); ++d) {
        const auto stride = coefficient_of(indices[d], iterator);
        in_lanes |= stride != 0;
        const bool last = d + 1 == indices.size();
        if (!stride || (*stride != 0 && !(last && std::abs(*stride) == 1)) || depends_.on_data(indices[d])) ok = false;
        else some_contiguous |= *stride == 1;
      }
      in_lanes &= iterator == loop_.iterator && differs;
      if (in_lanes) widest_ = std::max<std::int64_t>(widest_, bytes_of(value_type(array->type)));
    };
    if (const auto* a = s.as<ir::Assign>()) access(a->array, a->indices);
    if (const auto* r = s.as<ir::Reduce>()) access(r->array, r->indices, !depends_.is_shared(*r));
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* l = e.as<ir::Load>()) access(l->array, l->indices);
        });
    return ok;
  }

  /// Whether lanes access memory better than the innermost loops do, with what it takes to add up what they share.
  bool saves() const {
    int now = 0, in_lanes = 0;
    ir::walk_stmts(loop_.body, [&](const Stmt& t) {
      if (!is_innermost(t)) return;
      const auto& innermost = *t.as<ir::For>();
      for (const Access& element : elements_in(innermost.body)) {
        now += access_cost(element.indices, {innermost.iterator}, {1});
        in_lanes += access_cost(element.indices, {loop_.iterator}, {1});
      }
      for (const Stmt& leaf : leaves(innermost.body))
        if (const auto* sum = leaf.as<ir::Reduce>())
          in_lanes += depends_.is_shared(*sum) && !depends_.is_had_once(*sum) ? cost_of_adding_up : 0;
    });
    return in_lanes < now;
  }

  bool has_shared_sums_only() const {
    bool all = true;
    for_each_innermost(loop_.body, [&](const ir::For&, const Stmt& s) {
      const auto* sum = s.as<ir::Reduce>();
      all &= sum && depends_.is_shared(*sum) && !depends_.is_had_once(*sum);
    });
    return all;
  }

  bool another_inside() const {
    bool found = false;
    ir::walk_stmts(loop_.body, [&](const Stmt& t) {
      const auto* inner = t.as<ir::For>();
      found = found || (inner && contains_loop(inner->body) && wants_lanes(*inner));
    });
    return found;
  }

  const ir::For& loop_;
  LaneDependence depends_;
  std::int64_t widest_ = 1;
  bool vectorises_ = true, has_parallel_ = false, has_long_loops_ = false;
};

/// Whether iterations of a sequential loop share nothing but sums, each into an element of all of them.
bool shares_sums_only(const ir::Program& program, const Stmt& loop, Analyses& analyses) {
  const LaneDependence depends(*loop.as<ir::For>());
  try {
    const Analyses::Model model = analyses.model_of(program, loop);
    const auto& conflicts = analyses.carried_by(model, loop, poly::Search::UntilNotASum);
    const auto is_shared_sum = [&](int number) {
      const auto* sum = model->statements[static_cast<std::size_t>(number)].stmt.as<ir::Reduce>();
      return sum && depends.is_shared(*sum);
    };
    return std::all_of(conflicts.begin(), conflicts.end(), [&](const poly::Conflict& conflict) {
      return conflict.sum && is_shared_sum(conflict.first) && is_shared_sum(conflict.second);
    });
  } catch (const poly::BudgetError&) {
    return false;
  }
}

}  // namespace

bool is_of_one_lane(const Stmt& s) {
  bool result = true;
  ir::walk_stmts(s, [&](const Stmt& t) {
    const auto* local = t.as<ir::Allocate>();
    result &= t.kind() != ir::Kind::For && (!local || local->array->shape.empty());
  });
  return result;
}

LaneDependence::LaneDependence(const ir::For& loop)
    : lane_(loop.iterator), is_sequential_(!ir::is_parallel(loop.mode)) {
  ir::walk_stmts(loop.body, [&](const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) private_.insert(local->array);
  });
  for (const auto& [array, value] : Scalars(loop).assigned_once())
    if (!any(value) && private_.erase(array)) uniform_.insert(array);
}

bool LaneDependence::on_iterator(const Expr& e) const { return mentions(e, lane_); }

bool LaneDependence::on_data(const Expr& e) const {
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* l = x.as<ir::Load>();
    if (!l) return;
    found |= private_.count(l->array) != 0;
    for (const Expr& index : l->indices) found |= on_iterator(index);
  });
  return found;
}

bool LaneDependence::is_shared(const ir::Reduce& sum) const {
  return is_sequential_ && !private_.count(sum.array) &&
         std::none_of(sum.indices.begin(), sum.indices.end(), [&](const Expr& index) { return any(index); });
}

bool LaneDependence::is_had_once(const ir::Reduce& sum) const {
  return (sum.op == ir::ReduceOp::Max || sum.op == ir::ReduceOp::Min) && is_shared(sum) && !any(sum.value);
}

std::optional<ir::Range> over_lanes(const Expr& e, const ir::Symbol& lane, const Expr& first, const Expr& count) {
  ir::RangeContext context;
  context.variables[lane] = {first, first + count - ir::int_const(1)};
  context.leaf = [](const Expr& leaf) { return std::optional(ir::Range{leaf, leaf}); };
  return ir::range_of(e, context);
}

bool wants_lanes(const ir::For& loop) {
  Eligibility eligibility(loop);
  return eligibility.check() && eligibility.gains();
}

std::optional<LaneLoop> lane_loop(const ir::Program& program, const Stmt& loop, Analyses& analyses) {
  const auto& node = *loop.as<ir::For>();
  Eligibility eligibility(node);
  if (ir::uses_stack(loop) || !eligibility.check() || !bounds_stay(program, loop).ok) return std::nullopt;
  LaneLoop result{eligibility.widest(), eligibility.vectorises_by_itself(), !ir::is_parallel(node.mode),
                  eligibility.has_parallel_inside()};
  if (!result.shares_sums && !result.parallel_inside) return result;
  if (!eligibility.gains()) return std::nullopt;
  if (result.shares_sums && !shares_sums_only(program, loop, analyses)) return std::nullopt;
  return result;
}

}  // namespace loopgrad::transforms
