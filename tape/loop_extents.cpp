#include "tape/loop_extents.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/csr_rows.h"
#include "tape/stores.h"
#include "tape/trip_counts.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

// Trips. A tape for so many costs less than to wait for a count before the program starts.
constexpr std::int64_t least_counted = 64;

std::optional<Range> range_of_load(const ir::Load& load, const ir::Program& program) {
  for (const ir::Fact& fact : program.facts) {
    if (fact.array != load.array) continue;
    if (fact.kind == ir::FactKind::InRange) return Range{fact.lower, fact.upper - ir::int_const(1)};
    if (fact.kind == ir::FactKind::CsrPointer) return Range{ir::int_const(0), fact.upper};
  }
  return std::nullopt;
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

LoopExtents::LoopExtents(const ir::Program& program, bool counts_whiles, std::set<std::string> taken)
    : program_(program), counts_whiles_(counts_whiles), taken_(std::move(taken)) {
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
    if (const auto bound = range_of(w->max_trips, ranges_, program_)) {
      ranges_[w->iterator] = {ir::int_const(0), bound->highest - ir::int_const(1)};
      const Expr most = not_negative(bound->highest);
      const auto constant = ir::as_int(most);
      const bool counts = counts_whiles_ && !(constant && *constant < least_counted);
      const std::optional<Expr> counted = counts ? measured_trips(s, around, most) : std::nullopt;
      extents_[s.get()] = {ir::int_const(0), counted ? *counted : most, {}, nullptr};
    }
  }
  around.push_back(s);
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { visit(child, around); }});
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
  if (const ir::Load* start = start_of_row(n); start && is_fixed(start->indices[0])) entries_[n.iterator] = start;
  // A promise about the trips of a loop says more than facts about where data let it start and end.
  const bool promised = n.at_most && (ir::has_load(n.lower) || ir::has_load(n.upper));
  if (lower && upper && !promised) {
    const Expr box = not_negative(upper->highest - lower->lowest);
    if (const auto most = most_by_longest(n.upper, n.location); most && !ir::has_load(n.lower))
      return {lower->lowest, ir::smaller(box, not_negative(*most - lower->lowest)), {}, nullptr};
    if (const auto width = width_of_band(n, around)) return {n.lower, ir::smaller(*width, box), {}, nullptr};
    const ir::StmtNode* replaced = replaced_by(n, around);
    const std::optional<Expr> longest = replaced ? std::nullopt : longest_row(n, box);
    if (!longest) return {lower->lowest, box, {}, replaced};
    return from_lower_bound(n, *longest);
  }
  std::optional<Expr> trips;
  if (!n.at_most) trips = measured_trips(loop, around, {});
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

bool LoopExtents::is_csr(const ir::Array& array) const {
  return !written_.count(array) && ir::csr_fact(program_, array);
}

/// The `ptr[r]` of a loop over entries of the row ptr[r]..ptr[r + 1] with a CSR fact: over all of them, from some or to
/// some, also from or to one that a loop around is at. Null for others.
const ir::Load* LoopExtents::start_of_row(const ir::For& n) const {
  const ir::Entry lower = ir::entry_of(n.lower), upper = ir::entry_of(n.upper);
  const auto row_at = [&](const ir::Entry& entry) {
    const auto* variable = entry.base.as<ir::Var>();
    const auto found = variable ? entries_.find(variable->symbol) : entries_.end();
    return found == entries_.end() ? nullptr : found->second;
  };
  const ir::Load* start = lower.base.as<ir::Load>();
  if (!start) start = row_at(lower);
  if (!start || lower.offset < 0 || start->indices.size() != 1 || !is_csr(start->array)) return nullptr;
  if (const auto* end = upper.base.as<ir::Load>()) {
    const bool ends = end->array == start->array && ir::is_next_row(start->indices[0], end->indices[0]);
    return ends && upper.offset <= 0 ? start : nullptr;
  }
  const ir::Load* row = row_at(upper);
  const bool ends = row && row->array == start->array && ir::equal(row->indices[0], start->indices[0]);
  return ends && upper.offset <= 1 ? start : nullptr;  // up to that entry itself
}

/// Whether the expression has one value wherever it stands.
bool LoopExtents::is_fixed(const Expr& e) const {
  bool fixed = true;
  ir::walk(e, [&](const Expr& child) {
    if (const auto* load = child.as<ir::Load>()) fixed &= !written_.count(load->array);
  });
  return fixed;
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
  return longest_row_of(start->array, all, n.location);
}

/// A bound of what has lengths of rows in it, as if they were the longest; nullopt where it has none.
std::optional<Expr> LoopExtents::most_by_longest(const Expr& bound, const SourceLocation& location) {
  bool found = false;
  ir::RangeContext context = range_context(program_, ranges_);
  context.row_length = [&](const ir::Load& first) -> std::optional<Range> {
    if (first.array->role != ir::ArrayRole::Input || !is_csr(first.array)) return std::nullopt;
    found = true;
    const Expr all = ir::cast(ScalarType::I64, ir::csr_fact(program_, first.array)->upper);
    return Range{ir::int_const(0), longest_row_of(first.array, all, location)};
  };
  const auto range = ir::range_of(bound, context);
  if (!found) return std::nullopt;
  return range ? std::optional(range->highest) : std::nullopt;
}

Expr LoopExtents::longest_row_of(const ir::Array& pointer, const Expr& all, const SourceLocation& location) {
  const auto known = longest_rows_.find(pointer);
  if (known != longest_rows_.end()) return ir::var(known->second);
  const ir::Symbol row = ir::make_symbol("row"), symbol = ir::make_symbol(free_name("longest_of_" + pointer->name));
  const auto at = [&](const Expr& index) { return ir::cast(ScalarType::I64, ir::load(pointer, {index})); };
  const ir::Array output = ir::make_array(symbol.name, ScalarType::I64, {}, ir::ArrayRole::Output, location);
  const Stmt one =
      ir::reduce(output, {}, ir::ReduceOp::Max, at(ir::var(row) + ir::int_const(1)) - at(ir::var(row)), location);
  const Expr rows = pointer->shape[0] - ir::int_const(1);
  const Stmt all_rows = ir::for_loop(row, ir::int_const(0), rows, one, ir::LoopMode::Forward, location);
  // No row is longer than all of them: who cannot measure beforehand takes that (see join_gradient.cpp).
  measure(symbol, output, ir::block({all_rows, ir::reduce(output, {}, ir::ReduceOp::Min, all, location)}));
  longest_rows_[pointer] = symbol;
  ranges_[symbol] = {ir::var(symbol), ir::var(symbol)};
  return ir::var(symbol);
}

/// Sizing passes trip counts on by name, so loops with iterators of one name need different ones.
std::string LoopExtents::free_name(const std::string& wish) const {
  auto named = [](const std::string& name) { return [&name](const auto& item) { return item.name == name; }; };
  auto taken = [&](const std::string& name) {
    return taken_.count(name) ||
           std::any_of(measured_.begin(), measured_.end(), [&](const Measured& m) { return m.symbol.name == name; }) ||
           std::any_of(program_.sizes.begin(), program_.sizes.end(), named(name)) || ir::find_array(program_, name);
  };
  std::string name = wish;
  for (int i = 1; taken(name); ++i) name = wish + "_" + std::to_string(i);
  return name;
}

/// Trip counts that data decide, counted beforehand. `most`, where known, is what they never exceed.
std::optional<Expr> LoopExtents::measured_trips(const Stmt& loop, const std::vector<Stmt>& around, const Expr& most) {
  const ir::Symbol symbol = ir::make_symbol(free_name("most_" + iterator_of(loop).name));
  const ir::Array output = ir::make_array(symbol.name, ScalarType::I64, {}, ir::ArrayRole::Output, loop->location);
  auto counting = counting_trips(program_, loop, around, output);
  if (!counting) return std::nullopt;
  if (most) counting = ir::block({*counting, ir::reduce(output, {}, ir::ReduceOp::Min, most, loop->location)});
  measure(symbol, output, *counting);
  return ir::var(symbol);
}

/// The symbol is what `taken`, a nest of maxima, finds in the output.
void LoopExtents::measure(const ir::Symbol& symbol, const ir::Array& output, const Stmt& taken) {
  const Stmt start = ir::assign(output, {}, ir::int_const(0), output->location);
  measured_.push_back({symbol, output, ir::block({start, ir::with_fresh_names(taken)})});
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

std::vector<ir::Symbol> LoopExtents::symbols(const std::set<ir::Symbol>& used) const {
  std::vector<ir::Symbol> result;
  for (const Measured& m : measured_)
    if (used.count(m.symbol)) result.push_back(m.symbol);
  return result;
}

ir::Program LoopExtents::sizing(const std::set<ir::Symbol>& used) const {
  std::vector<Stmt> body;
  std::vector<ir::Array> outputs;
  for (const Measured& m : measured_) {
    if (!used.count(m.symbol)) continue;
    body.push_back(m.taken);
    outputs.push_back(m.output);
  }
  ir::Program result{program_.name + "_sizing", program_.sizes, {}, {}, ir::block(body), program_.location};
  if (outputs.empty()) return result;
  for (const ir::Array& array : program_.arrays) {
    const bool is_read = ir::reads(result.body, array);  // floats, too: by branches around a measured loop
    if (array->role == ir::ArrayRole::Input && (is_integer(array->type) || is_read)) result.arrays.push_back(array);
  }
  result.arrays.insert(result.arrays.end(), outputs.begin(), outputs.end());
  return result;
}

Stmt with_lower_local(const Stmt& loop, const LoopExtent& extent, bool will_refer) {
  const auto* n = loop.as<ir::For>();
  if (!n || !extent.lower_local) return loop;
  bool refers = will_refer;
  ir::walk(
      n->body, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        refers |= load && load->array == extent.lower_local;
      });
  if (!refers) return loop;
  const Stmt from_local = ir::for_loop(n->iterator, extent.origin, n->upper, n->body, n->mode, n->location, n->at_most);
  return ir::allocate(extent.lower_local,
                      ir::block({ir::assign(extent.lower_local, {}, n->lower, n->location), from_local}), n->location);
}

}  // namespace loopgrad::tape
