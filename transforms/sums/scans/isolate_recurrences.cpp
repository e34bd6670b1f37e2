#include "transforms/sums/scans/isolate_recurrences.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/bounds/open_accesses.h"
#include "transforms/loops/fission.h"
#include "transforms/loops/loops.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/sums/scans/carried_value.h"
#include "transforms/sums/scans/counter_nests.h"
#include "transforms/sums/scans/counter_positions.h"
#include "transforms/sums/scans/scan_recurrences.h"
#include "transforms/sums/scans/step_uses.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// On a CPU, where lanes read them far apart: with two, one thread takes as long as for the loop in order, with three
// and more about twice as long (the gradient of an average with a learned decay).
constexpr int most_read = 2;
constexpr int most_rounds = 64;  // recurrences of one program

struct Place {
  Stmt loop;
  std::vector<Stmt> around;  // loops, outermost first
};

void collect(const Stmt& s, std::vector<Stmt>& around, std::vector<Place>& found) {
  if (!s) return;
  const bool is_loop = s.kind() == ir::Kind::For || s.kind() == ir::Kind::While;
  if (s.kind() == ir::Kind::For && !is_parallel_loop(s)) found.push_back({s, around});
  if (is_loop) around.push_back(s);
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { collect(child, around, found); }});
  if (is_loop) around.pop_back();
}

bool declares(const Stmt& s, const Array& array) {
  const auto locals = locals_of(s);
  return std::any_of(locals.begin(), locals.end(), [&](const LocalArray& local) { return local.array == array; });
}

bool is_constant(const Expr& e) { return e.kind() == ir::Kind::FloatConst || e.kind() == ir::Kind::IntConst; }

/// "s", "x[i]"
std::string name_of(const CarriedValue& value) { return ir::print(ir::load(value.array, value.indices)); }

class Isolator {
 public:
  Isolator(const ir::Program& program, PassContext& context)
      : program_(program), context_(context), aliased_(ir::aliased_arrays(program)) {}

  ir::Program run() {
    for (int round = 0; round < most_rounds && step(); ++round) continue;
    return program_;
  }

 private:
  bool step() {
    std::vector<Place> places;
    std::vector<Stmt> around;
    collect(program_.body, around, places);
    for (const Place& place : places) {
      const bool is_long_alone = is_long(place);
      if (!is_long_alone && (place.around.empty() || !context_.options.machine.is_gpu())) continue;
      for (const CarriedValue& value : carried_values(place.loop)) {
        if (!is_long_alone && !is_integer(value.array->type)) continue;
        if (aliased_.count(value.array) || !tried_.insert({place.loop->location.line, value.array->id}).second)
          continue;
        const auto result = isolated(place, value);
        if (!result) continue;
        program_ = *result;
        return true;
      }
    }
    return false;
  }

  /// Long enough, and in too few loops that run at once.
  bool is_long(const Place& place) const {
    const auto& loop = *place.loop.as<ir::For>();
    return !ir::has_load(loop.lower) && !ir::has_load(loop.upper) && !has_contraction(place.loop) && is_long({&loop});
  }
  bool is_long(const std::vector<const ir::For*>& nest) const {
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double trips = 1;
    for (const ir::For* loop : nest) trips *= sizes.trips_of(loop->lower, loop->upper, {});
    return trips >= static_cast<double>(context_.options.machine.least_scanned);
  }

  std::optional<ir::Program> refused(const CarriedValue& value, const std::string& why) {
    const auto& loop = *value.loop.as<ir::For>();
    context_.report.remarks.push_back(
        {fmt::format("loop '{}' carries {} and is no scan: {}", loop.iterator.name, name_of(value), why),
         loop.location});
    return std::nullopt;
  }

  std::optional<ir::Program> isolated(const Place& place, const CarriedValue& value) {
    try {
      return separated_and_split(place, value);
    } catch (const poly::BudgetError& e) {
      return refused(value, e.info().message);
    }
  }

  std::optional<ir::Program> separated_and_split(const Place& place, const CarriedValue& value) {
    const auto& loop = *place.loop.as<ir::For>();
    const bool is_exact = is_integer(value.array->type);
    if (is_exact && !context_.options.machine.is_gpu()) return std::nullopt;  // a processor adds as fast as it reads
    const std::vector<Stmt> outer = parallel_around(place);
    const Stmt root = outer.empty() ? place.loop : outer.front();
    if (recurrence_of(place.loop) && perfect_nest(root).size() == outer.size() + 1) return std::nullopt;
    if (const std::string busy = enough_at_once(place.loop, outer); !busy.empty()) return refused(value, busy);
    if (is_exact && outer.empty() && !place.around.empty()) return counted_in_nest(place, value);
    const auto at = value.moves ? std::optional(KeptAt{}) : room_for(value, outer);
    if (!at) return refused(value, "its bounds depend on loops around it");
    if (!value.moves && !is_set_in_each(value) && !surely_exists(place, value))
      return refused(value, "there may be no such element, where branches leave it out");
    if (!value.moves && value.array->role == ir::ArrayRole::Local && is_set_first(value) && !is_read_outside(value))
      return renewed(value, {});
    if (!value.moves && value.array->role != ir::ArrayRole::InOut && !is_set_before(value))
      return refused(value, "nothing gives it a value before the loop");
    CounterPositions positions{place.loop, {}};
    if (is_exact && place.around.empty()) positions = with_counter_positions(program_, place.loop, value.array);
    const auto body = separated({positions.loop, value.array, value.indices, value.moves}, *at);
    if (!body) return refused(value, "what it depends on changes within an iteration");
    const Array& array = value.moves ? value.array : at->array;
    if (const Expr& set = body->update.as<ir::Assign>()->value; is_constant(set) && !value.moves) {
      if (ir::equal(set, start_of(value, outer))) return renewed(value, set);
      return std::nullopt;
    }
    Stmt next = with_body(loop, body->body);
    if (!recurrence_of(with_body(loop, body->update)))
      return refused(value,
                     fmt::format("{} does not depend on it linearly", ir::print(body->update.as<ir::Assign>()->value)));
    const Update update = recurrence_of(with_body(loop, body->update))->update;
    if (only_resets(update)) return std::nullopt;
    if (!context_.options.machine.is_gpu() && update.factor && update.factor.kind() == ir::Kind::Select)
      return refused(value, "a branch sets it, which a processor foretells: lanes would wait for both sides");
    if (!context_.options.machine.is_gpu() && elements_read(loop, update) > most_read)
      return refused(value, fmt::format("its step reads more than {} elements, which pieces read twice", most_read));
    if (!is_exact && update.kind == Update::Kind::Linear && decides(next, array))
      return refused(value, "it decides about control, so it must be rounded in the same way everywhere");
    if (!value.moves) next = ir::block({next, last_value(value, *at, place)});
    Stmt nest = replace(root, place.loop, next);
    nest = split(nest, root, body->update);
    if (!nest) return refused(value, "other statements of the loop need it and make what it depends on");
    if (!value.moves) {
      context_.introduced.insert(at->array->id);
      nest = ir::allocate(at->array, nest, value.array->location);
    }
    const ir::Program result = with_positions(root, nest, positions);
    if (is_exact && !leaves_parallel(result, nest, loop, body->update)) return stays(value);
    return result;
  }

  /// Wherever the loop makes a trip: what is kept is loaded before it, and stored after it.
  bool surely_exists(const Place& place, const CarriedValue& value) const {
    IndexRanges ranges(program_);
    std::vector<Stmt> loops = place.around;
    loops.push_back(place.loop);
    for (const Stmt& around : loops) {
      ranges.enter(around);
      ranges.begin_trip(around);
    }
    bool within = true;
    for (std::size_t d = 0; d < value.indices.size(); ++d)
      within &= ranges.stays_within(value.indices[d], value.array->shape[d]);
    return within;
  }

  std::optional<ir::Program> stays(const CarriedValue& value) {
    return refused(value, "what is left would stay in order without it");
  }

  /// `nest` in place of `root`, with the positions that it keeps.
  ir::Program with_positions(const Stmt& root, Stmt nest, const CounterPositions& positions) {
    ir::Program result = program_;
    for (const Array& array : positions.arrays) {
      context_.introduced.insert(array->id);
      nest = ir::allocate(array, nest, array->location);
      result.facts.push_back({ir::FactKind::Distinct, array, {}, {}, {}, array->location});
    }
    result.body = replace(program_.body, root, nest);
    return result;
  }

  /// A counter that all loops around carry, too: a recurrence over the iterations of their nest.
  std::optional<ir::Program> counted_in_nest(const Place& place, const CarriedValue& value) {
    const Stmt& root = place.around.front();
    std::vector<const ir::For*> loops;
    for (const Stmt& s : perfect_nest(root)) loops.push_back(s.as<ir::For>());
    const bool is_nest = loops.size() == place.around.size() + 1 && !value.moves && CounterNest::is_box(loops);
    if (!is_nest || !is_long(loops) || value.array->role != ir::ArrayRole::Local) return std::nullopt;
    if (!is_set_before(value)) return refused(value, "nothing gives it a value before the loop");
    const CounterNest counter(program_, loops, value.array, start_of(value, program_.body, root));
    const CounterPositions positions = with_counter_positions(program_, root, value.array);
    const Stmt inner = perfect_nest(positions.loop).back();
    const auto body = separated({inner, value.array, {}, false}, counter.kept());
    if (!body) return refused(value, "what it depends on changes within an iteration");
    const Stmt whole = replace(positions.loop, inner, with_body(*inner.as<ir::For>(), body->body));
    Stmt nest = split(whole, root, body->update);
    if (!nest || !contains(nest, body->update))
      return refused(value, "other statements of the loop need it and make what it depends on");
    nest = counter.flattened(nest, body->update);
    Stmt last;
    if (is_read_outside({root, value.array, {}, false}))
      last =
          ir::if_then(counter.runs(), ir::assign(value.array, {}, counter.after(), root->location), {}, root->location);
    nest = ir::allocate(counter.flat(), ir::block({nest, last}), value.array->location);
    context_.introduced.insert(counter.flat()->id);
    const ir::Program result = with_positions(root, nest, positions);
    return leaves_parallel(result, nest, *loops.front(), body->update) ? std::optional(result) : stays(value);
  }

  /// Whether what has left copies of a loop lets the rest of them run at once.
  bool leaves_parallel(const ir::Program& program, const Stmt& nest, const ir::For& old, const Stmt& update) {
    bool parallel = true;
    ir::walk_stmts(nest, [&](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      const bool is_copy = loop && loop->iterator.name == old.iterator.name && !contains(s, update);
      if (parallel && is_copy) parallel = is_parallel_without_carried(program, s);
    });
    return parallel;
  }

  /// As if all that it carries were taken out, with the positions that other counters give out.
  bool is_parallel_without_carried(ir::Program program, Stmt loop) {
    std::set<Array> carried;
    for (const CarriedValue& other : carried_values(loop)) {
      carried.insert(other.array);
      if (!is_integer(other.array->type)) continue;
      const CounterPositions positions = with_counter_positions(program, loop, other.array);
      for (const Array& array : positions.arrays)
        program.facts.push_back({ir::FactKind::Distinct, array, {}, {}, {}, array->location});
      program.body = replace(program.body, loop, positions.loop);
      loop = positions.loop;
    }
    const auto search = carried.empty() ? poly::Search::SkipSums : poly::Search::All;
    const auto& conflicts = analyses(context_).carried_by(program, loop, search);
    return std::all_of(conflicts.begin(), conflicts.end(), [&](const poly::Conflict& conflict) {
      return conflict.sum || (conflict.a && carried.count(conflict.a->array) > 0);
    });
  }

  /// The scalar carries nothing: each iteration gets one of its own.
  ir::Program renewed(const CarriedValue& value, const Expr& first) {
    tried_.clear();
    return ir::with_body(program_, replace(program_.body, value.loop, with_own_scalar(value, first)));
  }

  bool is_read_outside(const CarriedValue& value) const {
    return ir::reads(replace(program_.body, value.loop, ir::block({})), value.array);
  }

  /// The loops around whose iterations share nothing but sums, as many as there are from the inside.
  std::vector<Stmt> parallel_around(const Place& place) {
    std::vector<Stmt> result;
    for (auto it = place.around.rbegin(); it != place.around.rend(); ++it) {
      const auto* loop = it->as<ir::For>();
      if (!loop || ir::has_load(loop->lower) || ir::has_load(loop->upper) || has_contraction(*it)) break;
      if (!is_parallel_loop(*it) && !analyses(context_).carried_by(program_, *it, poly::Search::SkipSums).empty())
        break;
      result.insert(result.begin(), *it);
    }
    return result;
  }

  /// Why the loops around keep the machine busy as they are; empty: they do not.
  std::string enough_at_once(const Stmt& loop, const std::vector<Stmt>& outer) const {
    const Machine& machine = context_.options.machine;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double rows = 1;
    std::vector<ir::Symbol> iterators;
    for (const Stmt& s : outer) {
      const auto& n = *s.as<ir::For>();
      rows *= sizes.trips_of(n.lower, n.upper, {});
      iterators.push_back(n.iterator);
    }
    if (machine.is_gpu() && runs_along(loop, iterators)) return {};
    const auto enough = static_cast<double>(machine.is_gpu() ? most_rows_in_pieces : machine.enough_threads);
    return rows < enough ? "" : fmt::format("the loops around it have {} iterations that run side by side", rows);
  }

  /// In the order of the text; a counter, whose scan reads what it starts from whatever conditions are, in no branch.
  bool is_set_before(const CarriedValue& value) const {
    bool reached = false, set = false;
    StmtSet in_branches;
    ir::walk_stmts(program_.body, [&](const Stmt& s) {
      reached |= s.same_as(value.loop);
      if (in_branches.count(s.get())) return;
      if (s.kind() == ir::Kind::If && is_integer(value.array->type) && !contains(s, value.loop))
        ir::walk_stmts(s, [&](const Stmt& inside) { in_branches.insert(inside.get()); });
      const auto* assign = s.as<ir::Assign>();
      const auto* reduce = s.as<ir::Reduce>();
      set |= !reached && ((assign && assign->array == value.array) || (reduce && reduce->array == value.array));
    });
    return set;
  }

  /// An element for each iteration; nullopt where loops depend on each other.
  std::optional<KeptAt> room_for(const CarriedValue& value, const std::vector<Stmt>& outer) const {
    std::vector<Stmt> loops = outer;
    loops.push_back(value.loop);
    std::vector<Expr> shape, indices;
    for (std::size_t k = 0; k < loops.size(); ++k) {
      const auto& n = *loops[k].as<ir::For>();
      for (std::size_t o = 0; o < k; ++o) {
        const ir::Symbol& i = loops[o].as<ir::For>()->iterator;
        if (mentions(n.lower, i) || mentions(n.upper, i)) return std::nullopt;
      }
      shape.push_back(extent_of(program_, n));
      indices.push_back(simplify_indices(ir::var(n.iterator) - n.lower));
    }
    const auto& loop = *value.loop.as<ir::For>();
    KeptAt at;
    at.array = ir::make_array(value.array->name + "_at", value.array->type, shape, ir::ArrayRole::Local,
                              value.array->location);
    at.indices = indices;
    const bool down = loop.mode == ir::LoopMode::Backward;
    const Expr first = down ? simplify_indices(loop.upper - ir::int_const(1)) : loop.lower;
    const Expr starts = ir::binary(BinaryOp::Eq, ir::var(loop.iterator), first);
    at.previous = ir::select(starts, start_of(value, outer),
                             ir::load(at.array, indices_before(loop, indices), value.array->location));
    return at;
  }

  /// What the scalar holds before the loop: a constant, where the statement before says so.
  Expr start_of(const CarriedValue& value, const std::vector<Stmt>& outer) const {
    return start_of(value, outer.empty() ? program_.body : outer.back().as<ir::For>()->body, value.loop);
  }
  static Expr start_of(const CarriedValue& value, const Stmt& scope, const Stmt& loop) {
    const Expr held = ir::load(value.array, value.indices, value.array->location);
    const std::vector<Stmt> items = statements_of(scope);
    auto it = std::find_if(items.begin(), items.end(), [&](const Stmt& s) { return s.same_as(loop); });
    while (it != items.begin() && it != items.end()) {
      if (!stored_in(*--it).count(value.array)) continue;
      const auto* assign = it->as<ir::Assign>();
      const bool constant = assign && is_constant(assign->value);
      return constant && is_element(held, assign->array, assign->indices) ? assign->value : held;
    }
    return held;
  }

  /// if l < u: s = s_at[u - 1]
  Stmt last_value(const CarriedValue& value, const KeptAt& at, const Place& place) const {
    // A loop around comes back to the scalar, unless it is declared in there.
    const bool is_new = place.around.empty() || declares(place.around.back(), value.array);
    if (is_new && !is_read_outside(value) && value.array->role == ir::ArrayRole::Local) return ir::block({});
    const auto& loop = *value.loop.as<ir::For>();
    const bool down = loop.mode == ir::LoopMode::Backward;
    const Expr last = down ? loop.lower : loop.upper - ir::int_const(1);
    std::vector<Expr> indices;
    for (const Expr& e : at.indices) indices.push_back(simplify_indices(ir::substitute(e, {{loop.iterator, last}})));
    const SourceLocation& where = loop.location;
    return ir::if_then(ir::binary(BinaryOp::Lt, loop.lower, loop.upper),
                       ir::assign(value.array, value.indices, ir::load(at.array, indices, where), where), {}, where);
  }

  /// The nest in parts, the update in one of its own; null where that is not possible.
  Stmt split(const Stmt& nest, const Stmt& root, const Stmt& update) {
    const ir::Program program = ir::with_body(program_, replace(program_.body, root, nest));
    const Analyses::Model model = analyses(context_).model_of(program, nest);
    auto parts = LeafOrder(*model, nest).split({{update.get()}});
    if (!parts) return {};
    const std::vector<Array> crossing = crossing_locals(nest, *parts);
    Stmt expanded = nest;
    std::vector<Array> arrays;
    if (!crossing.empty()) {
      const auto expansion = expand_locals(program, *model, nest, crossing);
      if (!expansion) return {};
      expanded = expansion->nest;
      arrays = expansion->arrays;
      const std::vector<Stmt> before = leaves(nest), after = leaves(expanded);
      for (NestPart& part : *parts) {
        StmtSet moved;
        for (std::size_t k = 0; k < before.size(); ++k)
          if (part.leaves.count(before[k].get())) moved.insert(after[k].get());
        part.leaves = std::move(moved);
      }
    }
    std::vector<StmtSet> sets;
    for (const NestPart& part : *parts) sets.push_back(part.leaves);
    Stmt result = ir::block(transforms::split(expanded, sets));
    for (const Array& array : arrays) {
      context_.introduced.insert(array->id);
      result = ir::allocate(array, result, array->location);
    }
    return result;
  }

  ir::Program program_;
  PassContext& context_;
  const std::set<Array> aliased_;
  std::set<std::pair<int, std::int64_t>> tried_;
};

}  // namespace

ir::Program isolate_recurrences(const ir::Program& program, PassContext& context) {
  const LowerOptions& options = context.options;
  if (!options.machine.least_scanned || options.by_hand || !options.schedule.empty()) return program;
  return Isolator(program, context).run();
}

}  // namespace loopgrad::transforms
