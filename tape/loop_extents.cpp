#include "tape/loop_extents.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "tape/stores.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

std::optional<Range> range_of_load(const ir::Load& load, const ir::Program& program) {
  for (const ir::Fact& fact : program.facts) {
    if (fact.array != load.array) continue;
    if (fact.kind == ir::FactKind::InRange) return Range{fact.lower, fact.upper - ir::int_const(1)};
    if (fact.kind == ir::FactKind::CsrPointer) return Range{ir::int_const(0), fact.upper};
  }
  return std::nullopt;
}

/// Whether `next` is row + 1, in i64 or, as it comes from an i32 array, in i32: rows that exist do not wrap.
bool is_next_row(const Expr& row, const Expr& next) {
  const auto narrow = [](const Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    return cast && cast->a.type() == ScalarType::I32 ? cast->a : e;
  };
  if (ir::equal(next, row + ir::int_const(1))) return true;
  const Expr from = narrow(row), to = narrow(next);
  return from.type() == ScalarType::I32 && to.type() == ScalarType::I32 &&
         ir::equal(to, from + ir::int_const(1, ScalarType::I32));
}

}  // namespace

ir::RangeContext range_context(const ir::Program& program, Ranges iterators) {
  ir::RangeContext context;
  context.variables = std::move(iterators);
  context.non_negative = [](const ir::Symbol&) { return true; };  // bounds are made of sizes
  context.leaf = [&program](const Expr& leaf) -> std::optional<Range> {
    if (const auto* load = leaf.as<ir::Load>()) return range_of_load(*load, program);
    for (const ir::Symbol& size : program.sizes)
      if (size == leaf.as<ir::Var>()->symbol) return Range{leaf, leaf};
    return std::nullopt;
  };
  return context;
}

std::optional<Range> range_of(const Expr& e, const Ranges& iterators, const ir::Program& program) {
  return ir::range_of(e, range_context(program, iterators));
}

LoopExtents::LoopExtents(const ir::Program& program) : program_(program) {
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* a = s.as<ir::Assign>()) written_.insert(a->array);
    if (const auto* r = s.as<ir::Reduce>()) written_.insert(r->array);
  });
  std::vector<Stmt> around;
  visit(program.body, around);
}

void LoopExtents::visit(const Stmt& s, std::vector<Stmt>& around) {
  if (s.kind() == ir::Kind::For) {
    extents_[s.get()] = extent_of_for(s, around);
  } else if (const auto* w = s.as<ir::While>()) {
    if (const auto trips = range_of(w->max_trips, ranges_, program_)) {
      ranges_[w->iterator] = {ir::int_const(0), trips->highest - ir::int_const(1)};
      extents_[s.get()] = {ir::int_const(0), not_negative(trips->highest), {}, nullptr};
    }
  }
  around.push_back(s);
  ir::visit(s, [&](const auto& node) {
    ir::for_each_child(node, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { visit(child, around); }});
  });
  around.pop_back();
}

/// Loops may make no trip for some sizes.
Expr LoopExtents::not_negative(const Expr& extent) const {
  return ir::surely_non_negative(extent, range_context(program_, {})) ? extent : ir::larger(extent, ir::int_const(0));
}

LoopExtent LoopExtents::extent_of_for(const Stmt& loop, const std::vector<Stmt>& around) {
  const ir::For& n = *loop.as<ir::For>();
  const auto lower = range_of(n.lower, ranges_, program_), upper = range_of(n.upper, ranges_, program_);
  if (lower && upper) {
    ranges_[n.iterator] = {lower->lowest, upper->highest - ir::int_const(1)};
  }
  // A promise about the trips of a loop says more than facts about where data let it start and end.
  const bool promised = n.at_most && (ir::has_load(n.lower) || ir::has_load(n.upper));
  if (lower && upper && !promised) {
    const Expr box = not_negative(upper->highest - lower->lowest);
    if (const auto width = width_of_band(n, around)) return {n.lower, ir::smaller(*width, box), {}, nullptr};
    const ir::StmtNode* replaced = replaced_by(n, around);
    const std::optional<Expr> longest = replaced ? std::nullopt : longest_row(n, box);
    if (!longest) return {lower->lowest, box, {}, replaced};
    return from_lower_bound(n, *longest);
  }
  std::optional<Expr> trips;
  if (!n.at_most) trips = measured_trips(loop, around);
  else if (const auto promise = range_of(n.at_most, ranges_, program_)) trips = not_negative(promise->highest);
  if (!trips) return {};
  return from_lower_bound(n, *trips);
}

/// Of a loop of so many trips at most that starts where data say.
LoopExtent LoopExtents::from_lower_bound(const ir::For& n, const Expr& trips) {
  LoopExtent result{n.lower, trips, {}, nullptr};
  if (ir::has_load(n.lower)) {
    result.lower_local =
        ir::make_array(n.iterator.name + "_first", ScalarType::I64, {}, ir::ArrayRole::Local, n.location);
    result.origin = ir::load(result.lower_local, {});
  }
  return result;
}

/// Of a loop that starts where loops around it say, in a band of a width that sizes tell.
std::optional<Expr> LoopExtents::width_of_band(const ir::For& n, const std::vector<Stmt>& around) const {
  return ir::band_width(n.lower, n.upper, [&](const Expr& e) {
    return std::none_of(around.begin(), around.end(),
                        [&](const Stmt& outer) { return is_loop(outer) && mentions(e, iterator_of(outer)); });
  });
}

/// The `ptr[r]` of a loop over ptr[r]..ptr[r + 1] with a CSR fact; null for others.
const ir::Load* LoopExtents::start_of_row(const ir::For& n) const {
  const auto *first = n.lower.as<ir::Load>(), *last = n.upper.as<ir::Load>();
  // i32 pointers are widened to i64.
  if (const auto* c = n.lower.as<ir::Cast>()) first = c->a.as<ir::Load>();
  if (const auto* c = n.upper.as<ir::Cast>()) last = c->a.as<ir::Load>();
  if (!first || !last || first->array != last->array || first->indices.size() != 1) return nullptr;
  bool is_csr = false;
  for (const ir::Fact& fact : program_.facts)
    is_csr |= fact.kind == ir::FactKind::CsrPointer && fact.array == first->array && !written_.count(fact.array);
  return is_csr && is_next_row(first->indices[0], last->indices[0]) ? first : nullptr;
}

/// In `for r: for e in ptr[r]..ptr[r + 1]` with a CSR fact, e alone tells all (r, e) apart. Of two loops over one row
/// within each other, the outer one does.
const ir::StmtNode* LoopExtents::replaced_by(const ir::For& n, const std::vector<Stmt>& around) const {
  const ir::Load* start = start_of_row(n);
  const auto* row = start ? start->indices[0].as<ir::Var>() : nullptr;
  if (!row) return nullptr;
  const ir::StmtNode* found = nullptr;
  for (const Stmt& outer : around) {
    const auto* f = outer.as<ir::For>();
    if (f && f->iterator == row->symbol) found = outer.get();
    const auto known = extents_.find(outer.get());
    if (found && known != extents_.end() && known->second.replaces == found) return nullptr;
  }
  return found;
}

/// Trips of a loop over a row of a CSR structure, whichever one: the pointer is looked through beforehand.
std::optional<Expr> LoopExtents::longest_row(const ir::For& n, const Expr& all) {
  const ir::Load* start = start_of_row(n);
  if (!start || start->array->role != ir::ArrayRole::Input) return std::nullopt;
  const ir::Array& pointer = start->array;
  const auto known = longest_rows_.find(pointer);
  if (known != longest_rows_.end()) return ir::var(known->second);
  const ir::Symbol row = ir::make_symbol("row"), symbol = ir::make_symbol(free_name("longest_of_" + pointer->name));
  const auto at = [&](const Expr& index) { return ir::cast(ScalarType::I64, ir::load(pointer, {index})); };
  const ir::Array output = ir::make_array(symbol.name, ScalarType::I64, {}, ir::ArrayRole::Output, n.location);
  const Stmt one =
      ir::reduce(output, {}, ir::ReduceOp::Max, at(ir::var(row) + ir::int_const(1)) - at(ir::var(row)), n.location);
  const Expr rows = pointer->shape[0] - ir::int_const(1);
  const Stmt all_rows = ir::for_loop(row, ir::int_const(0), rows, one, ir::LoopMode::Forward, n.location);
  // No row is longer than all of them: who cannot measure beforehand takes that (see join_gradient.cpp).
  measure(symbol, output, ir::block({all_rows, ir::reduce(output, {}, ir::ReduceOp::Min, all, n.location)}));
  longest_rows_[pointer] = symbol;
  return ir::var(symbol);
}

/// Sizing passes trip counts on by name, so loops with iterators of one name need different ones.
std::string LoopExtents::free_name(const std::string& wish) const {
  auto named = [](const std::string& name) { return [&name](const auto& item) { return item.name == name; }; };
  auto taken = [&](const std::string& name) {
    return std::any_of(symbols_.begin(), symbols_.end(), named(name)) ||
           std::any_of(program_.sizes.begin(), program_.sizes.end(), named(name)) || ir::find_array(program_, name);
  };
  std::string name = wish;
  for (int i = 1; taken(name); ++i) name = wish + "_" + std::to_string(i);
  return name;
}

/// Trip counts that depend on inputs that are never written: a loop nest that takes their maximum, run beforehand.
std::optional<Expr> LoopExtents::measured_trips(const Stmt& loop, const std::vector<Stmt>& around) {
  const ir::For& n = *loop.as<ir::For>();
  auto known_beforehand = [&](const Expr& e) {
    bool ok = true;
    ir::walk(e, [&](const Expr& node) {
      if (const auto* l = node.as<ir::Load>())
        ok &= l->array->role == ir::ArrayRole::Input && !written_.count(l->array);
    });
    return ok;
  };
  if (!known_beforehand(n.lower) || !known_beforehand(n.upper)) return std::nullopt;
  const ir::Symbol symbol = ir::make_symbol(free_name("most_" + n.iterator.name));
  const ir::Array output = ir::make_array(symbol.name, ScalarType::I64, {}, ir::ArrayRole::Output, n.location);
  Stmt s = ir::reduce(output, {}, ir::ReduceOp::Max, n.upper - n.lower, n.location);
  Stmt inner = loop;
  for (auto it = around.rbegin(); it != around.rend(); inner = *it++) {
    if (const auto* f = it->as<ir::For>()) {
      if (!known_beforehand(f->lower) || !known_beforehand(f->upper)) return std::nullopt;
      s = ir::for_loop(f->iterator, f->lower, f->upper, s, f->mode, f->location);
    } else if (const auto* branch = it->as<ir::If>()) {
      if (!known_beforehand(branch->condition)) return std::nullopt;
      const bool in_then = branch->then_body.same_as(inner);
      s = ir::if_then(in_then ? branch->condition : ir::unary(ir::UnaryOp::Not, branch->condition), s);
    } else if (it->kind() == ir::Kind::While) {
      return std::nullopt;
    }
  }
  measure(symbol, output, s);
  return ir::var(symbol);
}

/// The symbol is what `taken`, a nest of maxima, finds in the output.
void LoopExtents::measure(const ir::Symbol& symbol, const ir::Array& output, const Stmt& taken) {
  symbols_.push_back(symbol);
  outputs_.push_back(output);
  measurements_.push_back(ir::assign(output, {}, ir::int_const(0), taken->location));
  measurements_.push_back(ir::with_fresh_names(taken));
}

const LoopExtent& LoopExtents::of(const Stmt& loop) const {
  const auto it = extents_.find(loop.get());
  if (it != extents_.end() && it->second.extent) return it->second;
  const auto* f = loop.as<ir::For>();
  throw DifferentiationError(
      {.code = ErrorCode::NotDifferentiable,
       .message =
           "values computed inside this loop must be saved, but how often it runs is computed by the program itself",
       .program = program_.name,
       .loop = f ? f->iterator.name : loop.as<ir::While>()->iterator.name,
       .hint = "state a bound: p.loop(name, lower, upper, {.at_most = {n}})",
       .location = loop->location});
}

bool LoopExtents::knows(const Stmt& loop) const {
  const auto it = extents_.find(loop.get());
  return it != extents_.end() && it->second.extent;
}

std::vector<Stmt> LoopExtents::dimensions(const std::vector<Stmt>& around) const {
  std::set<const ir::StmtNode*> replaced;
  for (const Stmt& loop : around) {
    const auto it = extents_.find(loop.get());
    if (it != extents_.end() && it->second.replaces) replaced.insert(it->second.replaces);
  }
  std::vector<Stmt> result;
  for (const Stmt& loop : around) {
    if (!replaced.count(loop.get())) result.push_back(loop);
  }
  return result;
}

ir::Program LoopExtents::sizing() const {
  ir::Program result{program_.name + "_sizing", program_.sizes, {}, {}, ir::block(measurements_), program_.location};
  if (measurements_.empty()) return result;
  for (const ir::Array& array : program_.arrays) {
    const bool is_read = ir::reads(result.body, array);  // floats, too: by branches around a measured loop
    if (array->role == ir::ArrayRole::Input && (is_integer(array->type) || is_read)) result.arrays.push_back(array);
  }
  result.arrays.insert(result.arrays.end(), outputs_.begin(), outputs_.end());
  return result;
}

}  // namespace loopgrad::tape
