#include "transforms/loops/hoist_steps.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/legality.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

// Iterations for each thread of a block in one step, from which on launches for each step are less than what a block
// takes: 3 to 6 us for one of 20,000 iterations, which takes a block 45 us (an H200).
constexpr double least_rounds = 8;

/// One loop, whose iterations are independent, and its steps.
class Batch {
 public:
  Batch(const ir::For& batch, const ir::Program& program, Analyses& analyses, SizeEstimator& sizes,
        const Machine& machine)
      : batch_(batch), program_(program), analyses_(analyses), sizes_(sizes), machine_(machine) {
    known_.non_negative = [&program](const ir::Symbol& symbol) {
      return std::find(program.sizes.begin(), program.sizes.end(), symbol) != program.sizes.end();
    };
    find_steps(batch.body);
  }

  /// The outermost loops over steps, in the order of the program.
  const std::vector<Stmt>& steps() const { return steps_; }

  /// The code in its place; null where one local cannot be had for all iterations.
  Stmt taken_apart() {
    Stmt result = ir::block(pieces_of(batch_.body));
    if (!possible_) return {};
    for (const Array& array : arrays_) result = ir::allocate(array, result, array->location);
    return result;
  }

  /// That `taken_apart` has introduced.
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  bool is_same_for_all(const Expr& e) const { return !ir::has_load(e) && !mentions(e, batch_.iterator); }

  /// Neither data nor loops inside have a say in it.
  bool is_known_outside(const Expr& e) const {
    bool known = is_same_for_all(e);
    ir::walk_stmts(batch_.body, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::For>()) known &= !mentions(e, loop->iterator);
      if (const auto* loop = s.as<ir::While>()) known &= !mentions(e, loop->iterator);
    });
    return known;
  }

  /// Iterations of the largest nest in one step.
  double iterations_inside(const ir::For& step) const {
    double most = 0;
    for (const auto& [leaf, around] : surroundings(step.body)) {
      double all = 1;
      for (const Stmt& s : around)
        if (const auto* loop = s.as<ir::For>()) all *= std::max(1.0, sizes_.trips_of(loop->lower, loop->upper, {}));
      most = std::max(most, all);
    }
    return most;
  }

  void find_steps(const Stmt& s) {
    if (ir::is_empty(s)) return;
    if (is_step(s)) steps_.push_back(s);
    if (s.kind() != ir::Kind::Block && s.kind() != ir::Kind::Allocate) return;
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { find_steps(child); }});
  }

  bool is_step(const Stmt& s) const {
    const auto* loop = s.as<ir::For>();
    if (!loop || !ir::contains_loop(loop->body)) return false;
    if (!is_same_for_all(loop->lower) || !is_same_for_all(loop->upper)) return false;
    if (iterations_inside(*loop) < least_rounds * machine_.block_threads) return false;
    const auto& carried = analyses_.carried_by(program_, s, poly::Search::UntilNotASum);
    return std::any_of(carried.begin(), carried.end(), [](const poly::Conflict& c) { return !c.sum; });
  }

  bool is_known_step(const Stmt& s) const {
    const auto* loop = s.as<ir::For>();
    return loop && std::any_of(steps_.begin(), steps_.end(),
                               [&](const Stmt& step) { return step.as<ir::For>()->iterator == loop->iterator; });
  }

  Stmt for_all(const Stmt& body) const {
    return ir::with_fresh_names(
        ir::for_loop(batch_.iterator, batch_.lower, batch_.upper, body, batch_.mode, batch_.location, batch_.at_most));
  }

  /// Of a body that each iteration runs: nests of the batch's loop, and steps with such nests inside.
  std::vector<Stmt> pieces_of(const Stmt& s) {
    if (ir::is_empty(s)) return {};
    if (const auto* local = s.as<ir::Allocate>()) return pieces_with(*local);
    if (const auto* list = s.as<ir::Block>()) {
      std::vector<Stmt> result, plain;
      const auto end_plain = [&] {
        if (!plain.empty()) result.push_back(for_all(ir::block(std::exchange(plain, {}))));
      };
      for (const Stmt& child : list->body) {
        if (!ir::contains_loop(child) && child.kind() != ir::Kind::Allocate) {
          plain.push_back(child);
          continue;
        }
        end_plain();
        for (Stmt& piece : pieces_of(child)) result.push_back(std::move(piece));
      }
      end_plain();
      return result;
    }
    if (!is_known_step(s)) return {for_all(s)};
    const auto& step = *s.as<ir::For>();
    return {ir::for_loop(step.iterator, step.lower, step.upper, ir::block(pieces_of(step.body)), step.mode,
                         step.location, step.at_most)};
  }

  /// Outside of the loops, which may have no trip, an extent may be less than none.
  Expr room(const Expr& extent) const {
    return ir::surely_non_negative(extent, known_) ? extent : ir::larger(extent, ir::int_const(0));
  }

  /// A local that lives in several pieces has one element for each iteration.
  std::vector<Stmt> pieces_with(const ir::Allocate& local) {
    if (!ir::contains_loop(local.body)) return {for_all(ir::allocate(local.array, local.body, local.location))};
    std::vector<Expr> shape = {room(batch_.upper - batch_.lower)};
    for (const Expr& extent : local.array->shape) {
      possible_ &= is_known_outside(extent);
      shape.push_back(room(extent));
    }
    const Array all =
        ir::make_array(local.array->name + "_all", local.array->type, shape, ir::ArrayRole::Local, local.location);
    arrays_.push_back(all);
    const Expr own = ir::var(batch_.iterator) - batch_.lower;
    return pieces_of(ir::move_elements(
        local.body, [&](const Array& array, const std::vector<Expr>& indices) -> std::optional<ir::ElementPlace> {
          if (array != local.array) return std::nullopt;
          ir::ElementPlace place{all, {own}};
          place.indices.insert(place.indices.end(), indices.begin(), indices.end());
          return place;
        }));
  }

  const ir::For& batch_;
  const ir::Program& program_;
  Analyses& analyses_;
  SizeEstimator& sizes_;
  const Machine& machine_;
  ir::RangeContext known_;
  std::vector<Stmt> steps_;
  std::vector<Array> arrays_;
  bool possible_ = true;
};

class Hoister {
 public:
  Hoister(const ir::Program& program, PassContext& context)
      : program_(program), context_(context), sizes_(program, context.options.expected_sizes) {}

  ir::Program run() { return ir::with_body(program_, in(program_.body)); }

 private:
  Stmt in(const Stmt& s) {
    if (ir::is_empty(s)) return s;
    if (const auto* list = s.as<ir::Block>()) {
      std::vector<Stmt> all;
      for (const Stmt& child : list->body) all.push_back(in(child));
      return ir::block(std::move(all));
    }
    if (const auto* local = s.as<ir::Allocate>()) return ir::allocate(local->array, in(local->body), local->location);
    const auto* loop = s.as<ir::For>();
    return loop ? taken_apart(s, *loop) : s;
  }

  Stmt taken_apart(const Stmt& s, const ir::For& loop) try {
    const Machine& machine = context_.options.machine;
    if (ir::has_load(loop.lower) || ir::has_load(loop.upper) || ir::uses_stack(s)) return s;
    const double trips = std::max(1.0, sizes_.trips_of(loop.lower, loop.upper, {}));
    if (trips * machine.block_threads >= static_cast<double>(machine.enough_threads)) return s;
    Analyses& known = analyses(context_);
    Batch batch(loop, program_, known, sizes_, machine);
    if (batch.steps().empty()) return s;
    const auto& carried = known.carried_by(program_, s, poly::Search::UntilNotASum);
    if (std::any_of(carried.begin(), carried.end(), [](const poly::Conflict& c) { return !c.sum; })) return s;
    const Stmt result = batch.taken_apart();
    if (!result) return s;
    for (const Array& array : batch.arrays()) context_.introduced.insert(array->id);
    context_.report.remarks.push_back(
        {fmt::format("the about {:.0f} iterations of '{}' do each step of '{}' together: too few for a block each",
                     trips, loop.iterator.name, batch.steps()[0].as<ir::For>()->iterator.name),
         loop.location});
    return result;
  } catch (const poly::BudgetError&) {
    return s;
  }

  const ir::Program& program_;
  PassContext& context_;
  SizeEstimator sizes_;
};

}  // namespace

ir::Program hoist_steps(const ir::Program& program, PassContext& context) { return Hoister(program, context).run(); }

}  // namespace loopgrad::transforms
