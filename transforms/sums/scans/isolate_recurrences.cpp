#include "transforms/sums/scans/isolate_recurrences.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/fission.h"
#include "transforms/loops/loops.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/sums/scans/carried_value.h"
#include "transforms/sums/scans/scan_recurrences.h"

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

/// Whether something in `s` that decides (a branch, an index, an extremum, what is rounded to an integer) depends on
/// elements of `array`, through scalars of the body as well.
bool decides(const Stmt& s, const Array& array) {
  std::set<Array> inexact = {array};
  const auto is_inexact = [&](const Expr& e) {
    bool found = false;
    ir::walk(e, [&](const Expr& child) {
      const auto* load = child.as<ir::Load>();
      found |= load && inexact.count(load->array);
    });
    return found;
  };
  std::set<Array> own;
  for (const LocalArray& local : locals_of(s)) own.insert(local.array);
  for (bool more = true; more;) {
    more = false;
    ir::walk_stmts(s, [&](const Stmt& child) {
      const auto* assign = child.as<ir::Assign>();
      const auto* reduce = child.as<ir::Reduce>();
      if (!assign && !reduce) return;
      const Array& to = assign ? assign->array : reduce->array;
      if (own.count(to) && is_inexact(assign ? assign->value : reduce->value)) more |= inexact.insert(to).second;
    });
  }
  bool found = false;
  ir::walk(
      s,
      [&](const Stmt& child) {
        const auto* reduce = child.as<ir::Reduce>();
        const bool extremum = reduce && (reduce->op == ir::ReduceOp::Min || reduce->op == ir::ReduceOp::Max);
        found |= extremum && is_inexact(reduce->value);
      },
      [&](const Expr& e) {
        if (const auto* n = e.as<ir::Binary>())
          found |= (is_comparison(n->op) || n->op == BinaryOp::Min || n->op == BinaryOp::Max) && is_inexact(e);
        if (const auto* n = e.as<ir::Unary>())
          found |= (n->op == ir::UnaryOp::Floor || n->op == ir::UnaryOp::Ceil) && is_inexact(e);
        if (e.kind() == ir::Kind::Cast) found |= !is_float(e.type()) && is_inexact(e);
      });
  return found;
}

bool declares(const Stmt& s, const Array& array) {
  const auto locals = locals_of(s);
  return std::any_of(locals.begin(), locals.end(), [&](const LocalArray& local) { return local.array == array; });
}

/// Different elements that a step reads, other than the value before.
int elements_read(const ir::For& loop, const Update& update) {
  std::vector<Expr> found;
  for (const Expr& part : {update.factor, update.term}) {
    if (!part) continue;
    ir::walk(part, [&](const Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (!load || !mentions(e, loop.iterator)) return;
      if (std::none_of(found.begin(), found.end(), [&](const Expr& other) { return ir::equal(e, other); }))
        found.push_back(e);
    });
  }
  return static_cast<int>(found.size());
}

/// What is kept until some iteration takes it is a search (search_loops.h).
bool only_resets(const Update& update) {
  const auto* n = update.factor ? update.factor.as<ir::Select>() : nullptr;
  const auto is_plain = [](const Expr& e) { return is_const(e, 0) || is_const(e, 1); };
  return n && !update.term && is_plain(n->a) && is_plain(n->b);
}

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
      if (!is_long(place)) continue;
      for (const CarriedValue& value : carried_values(place.loop)) {
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
    if (ir::has_load(loop.lower) || ir::has_load(loop.upper) || has_contraction(place.loop)) return false;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    return sizes.trips_of(loop.lower, loop.upper, {}) >= static_cast<double>(context_.options.machine.least_scanned);
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
    const std::vector<Stmt> outer = parallel_around(place);
    const Stmt root = outer.empty() ? place.loop : outer.front();
    if (recurrence_of(place.loop) && perfect_nest(root).size() == outer.size() + 1) return std::nullopt;
    if (const std::string busy = enough_at_once(place.loop, outer); !busy.empty()) return refused(value, busy);
    const auto at = value.moves ? std::optional(KeptAt{}) : room_for(value, outer);
    if (!at) return refused(value, "its bounds depend on loops around it");
    if (!value.moves && value.array->role == ir::ArrayRole::Local && is_set_first(value) && !is_read_outside(value))
      return renewed(value, {});
    if (!value.moves && value.array->role != ir::ArrayRole::InOut && !is_set_before(value))
      return refused(value, "nothing gives it a value before the loop");
    const auto body = separated(value, *at);
    if (!body) return refused(value, "what it depends on changes within an iteration");
    const Array& array = value.moves ? value.array : at->array;
    if (const Expr& set = body->update.as<ir::Assign>()->value; set.kind() == ir::Kind::FloatConst && !value.moves) {
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
    if (update.kind == Update::Kind::Linear && decides(next, array))
      return refused(value, "it decides about control, so it must be rounded in the same way everywhere");
    if (!value.moves) next = ir::block({next, last_value(value, *at, place)});
    Stmt nest = replace(root, place.loop, next);
    nest = split(nest, root, body->update);
    if (!nest) return refused(value, "other statements of the loop need it and make what it depends on");
    if (!value.moves) {
      context_.introduced.insert(at->array->id);
      nest = ir::allocate(at->array, nest, value.array->location);
    }
    return ir::with_body(program_, replace(program_.body, root, nest));
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

  /// In the order of the text.
  bool is_set_before(const CarriedValue& value) const {
    bool reached = false, set = false;
    ir::walk_stmts(program_.body, [&](const Stmt& s) {
      reached |= s.same_as(value.loop);
      const auto* assign = s.as<ir::Assign>();
      const auto* reduce = s.as<ir::Reduce>();
      set |= !reached && ((assign && assign->array == value.array) || (reduce && reduce->array == value.array));
    });
    return set;
  }

  Expr extent_of(const ir::For& loop) const {
    const Expr extent = simplify_indices(loop.upper - loop.lower);
    return is_never_negative(program_, extent) ? extent : ir::binary(BinaryOp::Max, extent, ir::int_const(0));
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
      shape.push_back(extent_of(n));
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
    const Expr held = ir::load(value.array, value.indices, value.array->location);
    const Stmt scope = outer.empty() ? program_.body : outer.back().as<ir::For>()->body;
    const std::vector<Stmt> items = statements_of(scope);
    auto it = std::find_if(items.begin(), items.end(), [&](const Stmt& s) { return s.same_as(value.loop); });
    while (it != items.begin() && it != items.end()) {
      if (!stored_in(*--it).count(value.array)) continue;
      const auto* assign = it->as<ir::Assign>();
      const bool constant = assign && assign->value.kind() == ir::Kind::FloatConst;
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
