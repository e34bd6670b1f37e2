#include "transforms/loops/find_takers.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/deciding_leaves.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/legality.h"
#include "transforms/loops/search_loops.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

/// `array[indices] = 0`, and what reads the element before that.
struct Taker {
  Stmt cleared;
  std::vector<Stmt> readers = {};  // leaves
  std::vector<Stmt> loops = {};    // around it, in the loop at hand, outermost first

  const ir::Assign& element() const { return *cleared.as<ir::Assign>(); }
};

bool clears_where_data_say(const ir::Assign& assign) {
  return ir::is_const(assign.value, 0) && is_float(assign.array->type) &&
         std::any_of(assign.indices.begin(), assign.indices.end(), ir::has_load);
}

bool reads_only(const Stmt& leaf, const ir::Assign& element) {
  bool only = true;
  ir::walk(
      leaf, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        only &= !load || load->array != element.array || ir::equal(load->indices, element.indices);
      });
  return only;
}

/// All that a loop does with an array, unless that is more than to take what elements hold and to clear them.
class Takers {
 public:
  explicit Takers(const Array& array) : array_(array) {}

  bool find(const Stmt& loop) { return look_at(loop.as<ir::For>()->body) && waiting_.empty() && !all.empty(); }

  std::vector<Taker> all;  // in the order of the text

 private:
  /// Statements of one body: what reads an element comes before what clears it, in the same body.
  bool look_at(const Stmt& s) {
    if (!s) return true;
    if (!uses(s, array_)) return note_between(s), true;
    if (const auto* block = s.as<ir::Block>())
      return std::all_of(block->body.begin(), block->body.end(), [&](const Stmt& child) { return look_at(child); });
    if (const auto* local = s.as<ir::Allocate>()) return local->array != array_ && look_at(local->body);
    if (const auto* loop = s.as<ir::For>()) {
      if (!waiting_.empty() || ir::is_parallel(loop->mode) || uses(loop->lower, array_) || uses(loop->upper, array_))
        return false;
      loops_.push_back(s);
      const bool fits = look_at(loop->body) && waiting_.empty();
      loops_.pop_back();
      return fits;
    }
    if (const auto* branch = s.as<ir::If>()) {
      if (!waiting_.empty() || uses(branch->condition, array_)) return false;
      return look_at(branch->then_body) && waiting_.empty() && look_at(branch->else_body) && waiting_.empty();
    }
    return look_at_leaf(s);
  }

  bool look_at_leaf(const Stmt& s) {
    const auto* assign = s.as<ir::Assign>();
    const auto* sum = s.as<ir::Reduce>();
    if ((!assign && !sum) || (sum && (sum->array == array_ || sum->atomic))) return false;
    if (!assign || assign->array != array_) return waiting_.push_back(s), note_between(s), true;
    if (!clears_where_data_say(*assign) || reads(s, array_) || is_moved(*assign)) return false;
    for (const Stmt& reader : waiting_)
      if (!reads_only(reader, *assign)) return false;
    all.push_back({s, std::move(waiting_), loops_});
    waiting_.clear();
    between_.clear();
    return true;
  }

  /// What is stored to once an element has been read.
  void note_between(const Stmt& s) {
    if (waiting_.empty()) return;
    for (const Stmt& leaf : leaves(s))
      for_each_store(leaf, [&](const Array& stored, const std::vector<Expr>&) { between_.insert(stored); });
  }

  /// Whether the indices need not say the same to what clears the element as to a reader.
  bool is_moved(const ir::Assign& assign) const {
    return std::any_of(between_.begin(), between_.end(), [&](const Array& stored) {
      return std::any_of(assign.indices.begin(), assign.indices.end(), [&](const Expr& e) { return uses(e, stored); });
    });
  }

  const Array& array_;
  std::vector<Stmt> loops_, waiting_;
  std::set<Array> between_;
};

/// Counts the turns of what takes elements of an array in a loop: the first in the order of the run has the greatest.
class Turns {
 public:
  Turns(const ir::For& loop, const std::vector<Taker>& takers) : loop_(loop), takers_(takers) {
    shared_ = takers[0].loops.size();
    for (const Taker& taker : takers) {
      std::size_t alike = 0;
      while (alike < std::min(shared_, taker.loops.size()) && taker.loops[alike].same_as(takers[0].loops[alike]))
        ++alike;
      shared_ = alike;
    }
    for (const Taker& taker : takers) {
      trips_inside_.push_back(ir::int_const(1));
      for (std::size_t k = shared_; k < taker.loops.size(); ++k)
        if (!chooses(*taker.loops[k].as<ir::For>()))
          trips_inside_.back() =
              trips_inside_.back() * ir::larger(trips(*taker.loops[k].as<ir::For>()), ir::int_const(0));
    }
  }

  /// Whether the numbers of trips are the same in all iterations of the loop.
  bool can_be_counted() const {
    std::set<ir::Symbol> inside{loop_.iterator};
    for (const Taker& taker : takers_)
      for (const Stmt& s : taker.loops) inside.insert(s.as<ir::For>()->iterator);
    const auto is_fixed = [&](const ir::For& loop) {
      return chooses(loop) ||
             (host_knows(trips(loop)) && std::none_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) {
                return mentions(loop.lower, i) || mentions(loop.upper, i);
              }));
    };
    for (const Taker& a : takers_)
      for (const Taker& b : takers_)
        if (&a != &b && std::min(a.loops.size(), b.loops.size()) > shared_ &&
            a.loops[shared_].same_as(b.loops[shared_]))
          return false;  // these take turns in a loop that not all are in
    return is_fixed(loop_) && std::all_of(takers_.begin(), takers_.end(), [&](const Taker& taker) {
             return std::all_of(taker.loops.begin(), taker.loops.end(),
                                [&](const Stmt& s) { return is_fixed(*s.as<ir::For>()); });
           });
  }

  /// From 1.
  Expr of(std::size_t which) const {
    Expr turn = ir::int_const(0), all = ir::int_const(0);
    if (!chooses(loop_)) turn = left_after(loop_);
    for (std::size_t k = 0; k < shared_; ++k) turn = after(turn, *takers_[0].loops[k].as<ir::For>());
    for (const Expr& inside : trips_inside_) all = all + inside;
    turn = turn * all;
    for (std::size_t k = which + 1; k < takers_.size(); ++k) turn = turn + trips_inside_[k];
    Expr own = ir::int_const(0);
    const std::vector<Stmt>& loops = takers_[which].loops;
    for (std::size_t k = shared_; k < loops.size(); ++k) own = after(own, *loops[k].as<ir::For>());
    return turn + own + ir::int_const(1);
  }

 private:
  static Expr trips(const ir::For& loop) { return loop.upper - loop.lower; }
  static Expr left_after(const ir::For& loop) {
    const Expr i = ir::var(loop.iterator);
    return loop.mode == ir::LoopMode::Backward ? i - loop.lower : loop.upper - ir::int_const(1) - i;
  }
  Expr after(const Expr& turn, const ir::For& loop) const {
    return chooses(loop) ? turn : turn * trips(loop) + left_after(loop);
  }

  /// Whether its iterations have elements of their own, by one and the same index.
  bool chooses(const ir::For& loop) const {
    const auto is_own = [&](std::size_t d) {
      return std::all_of(takers_.begin(), takers_.end(), [&](const Taker& taker) {
        const auto* index = taker.element().indices[d].as<ir::Var>();
        return index && index->symbol == loop.iterator;
      });
    };
    for (std::size_t d = 0; d < takers_[0].element().indices.size(); ++d)
      if (is_own(d)) return true;
    return false;
  }

  const ir::For& loop_;
  const std::vector<Taker>& takers_;
  std::size_t shared_ = 0;          // loops around all of them
  std::vector<Expr> trips_inside_;  // of the loops around each that are not, together
};

class Finder {
 public:
  Finder(const ir::Program& program, PassContext& context)
      : program_(program), context_(context), aliased_(ir::aliased_arrays(program)) {}

  ir::Program run() {
    note_outermost(program_.body);
    const Stmt body = ir::rewrite(program_.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* loop = s.as<ir::For>();
      return loop && !ir::is_parallel(loop->mode) ? without_takers(s) : std::nullopt;
    });
    return ir::with_body(program_, body);
  }

 private:
  /// What is made of a loop, and around it.
  struct Apart {
    std::vector<Array> turns;
    std::vector<Stmt> before, after;
    std::map<const ir::StmtNode*, Stmt> in_place;
    double iterations = 0;  // of all takers, by estimate
  };

  /// The loop, if nothing but sums is carried besides.
  std::optional<Stmt> without_takers(const Stmt& loop) {
    const std::vector<Array> cleared = cleared_in(loop);
    if (cleared.empty() || ir::uses_stack(loop) || has_contraction(loop) || !bounds_stay(program_, loop).ok)
      return std::nullopt;
    if (carries_sums_only(program_, loop)) return std::nullopt;
    Apart apart;
    for (const Array& array : cleared)
      if (!take_apart(loop, array, apart)) return std::nullopt;
    const Stmt rest = with(loop, apart.in_place);
    std::vector<Stmt> all = apart.before;
    all.push_back(rest);
    all.insert(all.end(), apart.after.begin(), apart.after.end());
    Stmt result = ir::block(all);
    for (const Array& turn : apart.turns) result = ir::allocate(turn, result, loop->location);
    const ir::Program candidate = ir::with_body(program_, replace(program_.body, loop, result));
    if ((!outermost_.count(loop.get()) && !is_worth(apart)) || !carries_sums_only(candidate, rest)) return std::nullopt;
    note(loop, cleared);
    return result;
  }

  void note_outermost(const Stmt& s) {
    if (s && (s.as<ir::For>() || s.as<ir::While>())) outermost_.insert(s.get());
    else if (s)
      ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { note_outermost(child); }});
  }

  /// Of a loop in another one: whether one thread takes longer for the loop in order than all do for the turns of all
  /// elements.
  bool is_worth(const Apart& apart) const {
    constexpr double loops_for_turns = 3, us_of_one = 0.05;  // as in a recurrence: see Machine::least_scanned
    const Machine& machine = context_.options.machine;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double bytes = 0;
    for (const Array& turn : apart.turns) {
      double elements = 1;
      for (const Expr& extent : turn->shape) elements *= sizes.value_of(extent, {});
      bytes += 2 * elements * static_cast<double>(bytes_of(turn->type));
    }
    const double ns_of_turns = bytes * machine.ns_per_byte / static_cast<double>(machine.threads);
    return apart.iterations * us_of_one > loops_for_turns * machine.start_us + ns_of_turns / 1000;
  }

  double iterations_of(const Stmt& loop, const Taker& taker) const {
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double result = 1;
    const auto count = [&](const ir::For& one) { result *= std::max(1.0, sizes.trips_of(one.lower, one.upper, {})); };
    count(*loop.as<ir::For>());
    for (const Stmt& inner : taker.loops) count(*inner.as<ir::For>());
    return result;
  }

  /// In the order of the text, which is the same in every process.
  std::vector<Array> cleared_in(const Stmt& loop) const {
    std::set<Array> known = aliased_;
    for (const LocalArray& local : locals_of(loop)) known.insert(local.array);
    std::vector<Array> result;
    for (const Stmt& leaf : leaves(loop)) {
      const auto* assign = leaf.as<ir::Assign>();
      if (assign && clears_where_data_say(*assign) && known.insert(assign->array).second)
        result.push_back(assign->array);
    }
    return result;
  }

  static Stmt with(const Stmt& s, const std::map<const ir::StmtNode*, Stmt>& others) {
    return ir::rewrite(s, {}, [&](const Stmt& one) -> std::optional<Stmt> {
      const auto other = others.find(one.get());
      return other == others.end() ? std::nullopt : std::optional(other->second);
    });
  }

  /// What is done for one of the arrays. false: something is in the way.
  bool take_apart(const Stmt& loop, const Array& array, Apart& apart) {
    Takers takers(array);
    if (!takers.find(loop)) return false;
    const Turns turns(*loop.as<ir::For>(), takers.all);
    if (!turns.can_be_counted()) return false;
    std::vector<Stmt> sums;
    for (const Taker& taker : takers.all) sums.push_back(taker.cleared);
    auto finding = DecidingLeaves(program_, loop).of(sums);
    if (!finding) return false;
    finding->merge(set_of(sums));
    const SourceLocation where = sums[0]->location;
    std::vector<std::vector<Expr>> elements;
    for (const Taker& taker : takers.all) elements.push_back(taker.element().indices);
    const std::vector<Expr> fixed = fixed_indices(loop, elements);
    const auto own = [&](const std::vector<Expr>& all) {
      std::vector<Expr> result;
      for (std::size_t d = 0; d < all.size(); ++d)
        if (!fixed[d]) result.push_back(all[d]);
      return result;
    };
    const Array turn = ir::make_array("turn", ScalarType::I64, own(array->shape), ir::ArrayRole::Local, where);
    context_.introduced.insert(turn->id);
    apart.turns.push_back(turn);
    std::map<const ir::StmtNode*, Stmt> found;
    for (std::size_t k = 0; k < takers.all.size(); ++k) {
      const Taker& taker = takers.all[k];
      apart.iterations += iterations_of(loop, taker);
      const std::vector<Expr> at = own(taker.element().indices);
      found[taker.cleared.get()] = ir::reduce(turn, at, ir::ReduceOp::Max, turns.of(k), where, true);
      apart.in_place[taker.cleared.get()] = ir::block({});
      const Expr is_first = ir::binary(BinaryOp::Eq, ir::load(turn, at, where), turns.of(k));
      for (const Stmt& reader : taker.readers) {
        // It may read elements of several of the arrays.
        Stmt& now = apart.in_place.try_emplace(reader.get(), reader).first->second;
        now = of_first(now, taker.element(), is_first);
      }
    }
    const Stmt none = ir::over_elements(
        turn->shape, where, [&](const std::vector<Expr>& at) { return ir::assign(turn, at, ir::int_const(0), where); });
    apart.before.push_back(ir::block({none, ir::with_fresh_names(with(slice(loop, *finding), found))}));
    apart.after.push_back(ir::over_elements(turn->shape, where, [&](const std::vector<Expr>& at) {
      const Expr is_taken = ir::binary(BinaryOp::Ne, ir::load(turn, at, where), ir::int_const(0));
      std::vector<Expr> element = fixed;
      std::size_t next = 0;
      for (Expr& index : element)
        if (!index) index = at[next++];
      return ir::if_then(is_taken, ir::assign(array, element, ir::const_of(0, array->type), where));
    }));
    return true;
  }

  /// What a statement does that reads the element: nothing, where it would add a multiple of it.
  static Stmt of_first(const Stmt& reader, const ir::Assign& element, const Expr& is_first) {
    const auto* sum = reader.as<ir::Reduce>();
    if (sum && sum->op == ir::ReduceOp::Add && vanishes_with(sum->value, element))
      return ir::if_then(is_first, reader, {}, reader->location);
    return ir::rewrite(reader, [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!load || load->array != element.array) return std::nullopt;
      return ir::select(is_first, e, ir::const_of(0, e.type()));
    });
  }

  bool carries_sums_only(const ir::Program& program, const Stmt& loop) {
    try {
      const auto& conflicts = analyses(context_).carried_by(program, loop, poly::Search::UntilNotASum);
      return std::all_of(conflicts.begin(), conflicts.end(),
                         [](const poly::Conflict& conflict) { return conflict.sum; });
    } catch (const poly::BudgetError&) {
      return false;
    }
  }

  void note(const Stmt& loop, const std::vector<Array>& arrays) {
    std::string names;
    for (const Array& array : arrays) names += (names.empty() ? "" : ", ") + array->name;
    context_.report.remarks.push_back(
        {fmt::format(
             "loop '{}': what the first iteration takes from {}, at elements that data choose, goes to the one with "
             "the greatest turn: a maximum of whole numbers, by atomic operations whose order does not matter",
             loop.as<ir::For>()->iterator.name, names),
         loop->location});
  }

  const ir::Program& program_;
  PassContext& context_;
  const std::set<Array> aliased_;
  std::set<const ir::StmtNode*> outermost_;  // loops that run once
};

}  // namespace

ir::Program find_takers(const ir::Program& program, PassContext& context) { return Finder(program, context).run(); }

}  // namespace loopgrad::transforms
