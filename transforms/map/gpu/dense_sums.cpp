#include "transforms/map/gpu/dense_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::size_t most_dense_sums = 2;     // at once: a thread has 32 of each in registers
constexpr std::size_t most_elements = 4;       // for a step: of f64 they take 35 KiB
constexpr double most_trips_that_count = 128;  // of rows and columns: no block takes more

bool uses_any(const Stmt& s, const std::vector<ir::Array>& arrays) {
  return std::any_of(arrays.begin(), arrays.end(), [&](const ir::Array& array) { return s && uses(s, array); });
}

/// The body of one iteration, taken apart. False: it is something else than one sum.
class Parts {
 public:
  Parts(const ParallelNest& nest, DenseSum& out) : nest_(nest), out_(out) {}

  const char* take_apart() {
    if (const char* why = outside(nest_.body)) return why;
    if (loops.empty()) return "it has no loop that only sums";
    if (const char* why = locals()) return why;
    return nullptr;
  }

  std::vector<const ir::For*> loops;  // that are summed over

 private:
  bool is_uniform(const Expr& e) const {
    return host_knows(e) && std::none_of(nest_.loops.begin(), nest_.loops.end(),
                                         [&](const ir::For* loop) { return ir::mentions(e, loop->iterator); });
  }

  const char* outside(const Stmt& s) {
    if (const auto* branch = s.as<ir::If>()) {
      if (!ir::is_empty(branch->else_body) || !is_uniform(branch->condition)) return "a condition stands around it";
      out_.when = out_.when ? ir::binary(BinaryOp::And, out_.when, branch->condition) : branch->condition;
      return outside(branch->then_body);
    }
    if (const auto* local = s.as<ir::Allocate>()) {
      if (!local->array->shape.empty()) return "it has a local array";
      locals_.push_back(local->array);
      return outside(local->body);
    }
    const auto* block = s.as<ir::Block>();
    const std::vector<Stmt> all = block ? block->body : std::vector<Stmt>{s};
    std::vector<Stmt> before, after;
    for (const Stmt& child : all) {
      if (!ir::contains_loop(child)) {
        (loops.empty() ? before : after).push_back(child);
        continue;
      }
      if (!loops.empty()) return "it has several sums, one after the other";
      if (const char* why = inside(child)) return why;
    }
    out_.before = ir::block(before);
    out_.after = ir::block(after);
    return nullptr;
  }

  const char* inside(const Stmt& s) {
    if (const auto* loop = s.as<ir::For>()) {
      if (loop->mode == ir::LoopMode::Parallel || has_load(loop->lower) || has_load(loop->upper) || loop->at_most)
        return "data decide about its loops";
      loops.push_back(loop);
      return inside(loop->body);
    }
    const auto* branch = s.as<ir::If>();
    if (branch && ir::is_empty(branch->else_body) && !has_load(branch->condition)) {
      ir::collect_operands(branch->condition, BinaryOp::And, out_.conditions);
      return inside(branch->then_body);
    }
    if (ir::contains_loop(s)) return "its loops are not perfectly nested";
    out_.inside = s;
    std::set<ir::Array> own;
    const char* why = nullptr;
    ir::walk_stmts(s, [&](const Stmt& t) {
      const auto* local = t.as<ir::Allocate>();
      const auto* sum = t.as<ir::Reduce>();
      if (local) own.insert(local->array);
      if (sum && sum->atomic) why = "it sums by data";
      for_each_store(t, [&](const ir::Array& array, const std::vector<Expr>& indices) {
        if (!indices.empty() || t.kind() == ir::Kind::Pop) why = "its loops store";
        else if (own.count(array)) return;
        else if (!sum) why = "its loops carry values";
        else if (std::find(out_.sums.begin(), out_.sums.end(), array) == out_.sums.end()) out_.sums.push_back(array);
      });
    });
    return why;
  }

  const char* locals() {
    for (const ir::Array& sum : out_.sums) {
      const auto found = std::find(locals_.begin(), locals_.end(), sum);
      if (found == locals_.end()) return "it sums into memory";
      locals_.erase(found);
      bool loaded = false;
      ir::walk(
          out_.inside, [](const Stmt&) {},
          [&](const Expr& e) { loaded |= e.as<ir::Load>() && e.as<ir::Load>()->array == sum; });
      if (loaded) return "its loops carry values";
    }
    for (const ir::Array& local : locals_) {
      if (uses(out_.inside, local) || (uses_any(out_.before, {local}) && uses_any(out_.after, {local})))
        return "values are kept beside the sum";
      (uses_any(out_.before, {local}) ? out_.before_locals : out_.after_locals).push_back(local);
    }
    bool stores = false;
    ir::walk_stmts(out_.before, [&](const Stmt& t) {
      for_each_store(t, [&](const ir::Array&, const auto& indices) { stores |= !indices.empty(); });
    });
    return stores ? "it stores before it sums" : nullptr;
  }

  const ParallelNest& nest_;
  DenseSum& out_;
  std::vector<ir::Array> locals_;
};

/// Rows, columns and steps for a sum that is taken apart.
class Chooser {
 public:
  Chooser(const ir::Program& program, const ParallelNest& nest, const std::vector<const ir::For*>& loops,
          const DenseSum& parts, const SizeEstimates& sizes)
      : nest_(nest), loops_(loops), parts_(parts), estimator_(program, sizes) {}

  DenseSum choose() {
    DenseSum best = parts_;
    best.refused = "no two of its loops have what they load apart";
    std::pair<double, double> most;
    const ir::For* x = nest_.loops[best_along_threads(nest_.body, nest_.loops)];
    for (const ir::For* rows : nest_.loops)
      for (const ir::For* columns : nest_.loops) {
        if (rows == columns || rows == x) continue;
        DenseSum one = parts_;
        one.rows = rows;
        one.columns = columns;
        if (!complete(one)) continue;
        const double size =
            std::min(trips(*rows), most_trips_that_count) * std::min(trips(*columns), most_trips_that_count);
        const std::pair value{-work(one), size * (columns == x ? 2 : 1)};
        if (!best.refused.empty() || value > most) {
          most = value;
          best = one;
          best.refused.clear();
        }
      }
    return best;
  }

 private:
  double trips(const ir::For& loop) { return estimator_.trips_of(loop.lower, loop.upper, {}); }

  /// Trips of the loops summed over.
  double work(const DenseSum& s) {
    double all = estimator_.trips_of(s.step.lower, s.step.upper, {});
    for (const DenseSum::Sum& loop : s.outer) {
      all *= estimator_.trips_of(loop.lower, loop.upper, {});
      // Where nobody has stated sizes: a band is narrower than the loop that it goes along with.
      const bool whole = same_value(loop.upper - loop.lower, s.rows->upper - s.rows->lower) ||
                         same_value(loop.upper - loop.lower, s.columns->upper - s.columns->lower);
      if (whole && loop.rebased) all *= 2;
    }
    return all;
  }

  static bool moves(const Expr& e, const ir::For& loop) { return ir::mentions(e, loop.iterator); }
  static bool in_tile(const Expr& e, const DenseSum& s) { return moves(e, *s.rows) || moves(e, *s.columns); }

  /// What moves together is gone from differences.
  static Stmt with_plain_indices(const Stmt& s) {
    return ir::rewrite(s, [](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!load || load->indices.empty()) return std::nullopt;
      std::vector<Expr> indices;
      for (const Expr& index : load->indices) indices.push_back(ir::to_expr(ir::linear_form(index)));
      return ir::load(load->array, indices, load->location);
    });
  }

  bool in_nest(const Expr& e) const {
    return std::any_of(nest_.loops.begin(), nest_.loops.end(), [&](const ir::For* loop) { return moves(e, *loop); }) ||
           std::any_of(loops_.begin(), loops_.end(), [&](const ir::For* loop) { return moves(e, *loop); });
  }

  /// The loop that begins where one of its bounds does, with its other bounds as conditions, by each pair of bounds.
  std::vector<DenseSum> begun(const DenseSum& s, const ir::For& loop) const {
    if (!in_tile(loop.lower, s) && !in_tile(loop.upper, s)) {
      DenseSum plain = s;
      plain.outer.push_back({loop.iterator, loop.lower, loop.upper, loop.location});
      return {plain};
    }
    std::vector<Expr> lowers, uppers;
    ir::collect_operands(loop.lower, BinaryOp::Max, lowers);
    ir::collect_operands(loop.upper, BinaryOp::Min, uppers);
    std::vector<DenseSum> result;
    for (const Expr& lower : lowers)
      for (const Expr& upper : uppers) {
        const Expr width = ir::to_expr(ir::linear_form(upper - lower));
        if (!host_knows(width) || in_nest(width)) continue;
        DenseSum one = s;
        const ir::Symbol own = ir::make_symbol(loop.iterator.name);
        const Expr value = ir::to_expr(ir::linear_form(lower + ir::var(own)));
        const ir::Substitution begins = {{loop.iterator, value}};
        for (DenseSum::Sum& outer : one.outer)
          outer.lower = ir::substitute(outer.lower, begins), outer.upper = ir::substitute(outer.upper, begins);
        for (Expr& condition : one.conditions) condition = ir::substitute(condition, begins);
        one.inside = with_plain_indices(ir::substitute(one.inside, begins));
        one.outer.push_back({own, number(0), width, loop.location, true});
        for (const Expr& low : lowers)
          for (const Expr& high : uppers) {
            const Expr other = ir::to_expr(ir::linear_form(high - low));
            if (!host_knows(other) || in_nest(other) || ir::equal(other, width)) continue;
            const Expr narrower = ir::binary(BinaryOp::Le, width, other);
            one.fits = one.fits ? ir::binary(BinaryOp::And, one.fits, narrower) : narrower;
          }
        for (const Expr& other : lowers)
          if (!ir::equal(other, lower)) one.conditions.push_back(ir::binary(BinaryOp::Ge, value, other));
        for (const Expr& other : uppers)
          if (!ir::equal(other, upper)) one.conditions.push_back(ir::binary(BinaryOp::Lt, value, other));
        result.push_back(one);
      }
    return result;
  }

  bool complete(DenseSum& s) {
    std::vector<DenseSum> forms = {s};
    for (const ir::For* loop : loops_) {
      std::vector<DenseSum> next;
      for (const DenseSum& form : forms)
        for (DenseSum& one : begun(form, *loop)) next.push_back(std::move(one));
      forms = std::move(next);
      if (forms.empty() || forms.size() > 16) return false;
    }
    bool found = false;
    for (DenseSum& form : forms) {
      if (!has_parts(form) || !has_steps(form) || (found && work(form) >= work(s))) continue;
      s = form;
      found = true;
    }
    return found;
  }

  static std::vector<Expr> loads_of(const Stmt& s) {
    std::vector<Expr> found;
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& e) {
          const auto* load = e.as<ir::Load>();
          if (load && !load->indices.empty()) found.push_back(e);
        });
    return found;
  }

  /// Loads and conditions belong to rows or to columns, and not to both.
  static bool has_parts(const DenseSum& s) {
    for (const Expr& load : loads_of(s.inside)) {
      for (const Expr& index : load.as<ir::Load>()->indices)
        if (has_load(index)) return false;
      if (moves(load, *s.rows) && moves(load, *s.columns)) return false;
    }
    return std::none_of(s.conditions.begin(), s.conditions.end(), [&](const Expr& condition) {
      return moves(condition, *s.rows) && moves(condition, *s.columns);
    });
  }

  static int along(const DenseSum& s, const ir::Symbol& step) {
    int count = 0;
    for (const DenseSum::Element& e : elements_of(s, step)) count += e.along_step;
    return count;
  }

  static std::vector<DenseSum::Element> elements_of(const DenseSum& s, const ir::Symbol& step) {
    std::vector<DenseSum::Element> result;
    for (const Expr& load : loads_of(s.inside)) {
      if (!in_tile(load, s) || !ir::mentions(load, step)) continue;
      const bool known = std::any_of(result.begin(), result.end(),
                                     [&](const DenseSum::Element& e) { return ir::equal(e.load, load); });
      if (known) continue;
      const std::vector<Expr>& indices = load.as<ir::Load>()->indices;
      bool alone = ir::coefficient_of(indices.back(), step) == 1;
      for (std::size_t d = 0; d + 1 < indices.size(); ++d) alone &= !ir::mentions(indices[d], step);
      result.push_back({load, moves(load, *s.rows), alone});
    }
    return result;
  }

  bool has_steps(DenseSum& s) {
    std::optional<std::size_t> best;
    std::tuple<std::size_t, int, double, int> most;
    for (std::size_t k = 0; k < s.outer.size(); ++k) {
      const DenseSum::Sum& loop = s.outer[k];
      const auto depends = [&](const Expr& e) { return ir::mentions(e, loop.iterator); };
      bool can = std::none_of(s.conditions.begin(), s.conditions.end(), depends);
      for (const DenseSum::Sum& other : s.outer) can &= !depends(other.lower) && !depends(other.upper);
      for (const DenseSum::Sum& other : s.outer)
        can &= !ir::mentions(loop.lower, other.iterator) && !ir::mentions(loop.upper, other.iterator);
      if (!can) continue;
      const std::tuple value{elements_of(s, loop.iterator).size(), along(s, loop.iterator),
                             estimator_.trips_of(loop.lower, loop.upper, {}), static_cast<int>(k)};
      if (best && value <= most) continue;
      best = k;
      most = value;
    }
    if (!best) return false;
    s.step = s.outer[*best];
    s.outer.erase(s.outer.begin() + static_cast<std::ptrdiff_t>(*best));
    s.elements = elements_of(s, s.step.iterator);
    const auto of_rows = [](const DenseSum::Element& e) { return e.of_rows; };
    return std::any_of(s.elements.begin(), s.elements.end(), of_rows) &&
           !std::all_of(s.elements.begin(), s.elements.end(), of_rows) && s.elements.size() <= most_elements;
  }

  const ParallelNest& nest_;
  const std::vector<const ir::For*>& loops_;
  const DenseSum& parts_;
  SizeEstimator estimator_;
};

}  // namespace

DenseSum dense_sum(const ir::Program& program, const ParallelNest& nest, const SizeEstimates& sizes) {
  DenseSum result;
  const auto refused = [](const char* why) {
    DenseSum none;
    none.refused = why;
    return none;
  };
  Parts parts(nest, result);
  if (const char* why = parts.take_apart()) return refused(why);
  const std::set<ir::Array> stored = stored_in(nest.body), aliased = ir::aliased_arrays(program);
  bool changes = false;
  ir::walk(
      result.inside, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        changes |= load && !load->indices.empty() && (stored.count(load->array) > 0 || aliased.count(load->array) > 0);
      });
  if (changes) return refused("it may change what it loads");
  if (result.sums.size() > most_dense_sums) return refused("it has more sums than registers");
  return Chooser(program, nest, parts.loops, result, sizes).choose();
}

}  // namespace loopgrad::transforms
