#include <loopgrad/autodiff.h>

#include "dsl/frontend/out_of_memory.h"
#include "dsl/ir/extremum_searches.h"
#include "dsl/ir/known_scalars.h"
#include "dsl/ir/own_values.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/unflatten.h"
#include "dsl/symbolic/closed_counters.h"
#include "dsl/symbolic/growing_counters.h"
#include "dsl/symbolic/numbered_entries.h"
#include "tape/checkpoints.h"
#include "tape/custom_rules.h"
#include "tape/direct_tape.h"
#include "tape/directions.h"
#include "tape/loop_extents.h"
#include "tape/naive_tape.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad {
namespace {

/// base + constant
struct Offset {
  ir::Expr base;
  std::int64_t constant = 0;
};

Offset offset_of(const ir::Expr& e) {
  const auto* n = e.as<ir::Binary>();
  const auto constant = n ? ir::as_int(n->b) : std::nullopt;
  if (!constant || (n->op != ir::BinaryOp::Add && n->op != ir::BinaryOp::Sub)) return {e};
  const Offset inner = offset_of(n->a);
  return {inner.base, inner.constant + (n->op == ir::BinaryOp::Add ? *constant : -*constant)};
}

/// How far the backward sweep goes through the first dimension of each tape, where it leaves out some of it: the
/// forward sweep need not fill that.
std::vector<ir::Fact> read_up_to(const std::vector<ir::Array>& tape, const ir::Program& backward) {
  const tape::LoopExtents extents(backward, false);
  std::map<ir::Array, std::optional<Offset>> highest;
  std::set<ir::Array> unknown;
  ir::walk(
      backward.body, [](const ir::Stmt&) {},
      [&](const ir::Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || load->array->role != ir::ArrayRole::Tape || load->indices.empty()) return;
        const auto range = tape::range_of(load->indices.front(), extents.ranges(), backward);
        std::optional<Offset>& known = highest[load->array];
        const Offset here = range ? offset_of(range->highest) : Offset();
        if (!range || (known && !ir::equal(known->base, here.base))) unknown.insert(load->array);
        else known = {here.base, known ? std::max(known->constant, here.constant) : here.constant};
      });
  std::vector<ir::Fact> facts;
  for (const ir::Array& array : tape) {
    const std::optional<Offset>& last = highest[array];
    if (!last || unknown.count(array)) continue;
    const Offset end = offset_of(array->shape.front());
    if (ir::equal(end.base, last->base) && last->constant + 1 >= end.constant) continue;
    const ir::Expr upper = last->base + ir::int_const(last->constant);
    facts.push_back({ir::FactKind::ReadUpTo, array, {}, upper, {}, array->location});
  }
  return facts;
}

/// Tapes of positions that a counter gives out: no two elements of one are the same.
std::vector<ir::Fact> distinct_positions(const std::vector<ir::Array>& tape, const ir::Program& forward,
                                         const ir::Program& backward) {
  const ir::GrowingCounters counters(forward.body);
  if (counters.empty()) return {};
  std::map<ir::Array, int> stores, positions;
  const auto count = [&](const ir::Stmt& s) {
    const auto* assign = s.as<ir::Assign>();
    const auto* reduce = s.as<ir::Reduce>();
    if (assign || reduce) ++stores[assign ? assign->array : reduce->array];
    const auto* value = assign ? assign->value.as<ir::Load>() : nullptr;
    if (value && counters.moves_between(s, value->array) && assign->array->type == value->array->type)
      ++positions[assign->array];
  };
  ir::walk_stmts(forward.body, count);
  ir::walk_stmts(backward.body, count);
  std::vector<ir::Fact> facts;
  for (const ir::Array& array : tape)
    if (positions[array] == 1 && stores[array] == 1)
      facts.push_back({ir::FactKind::Distinct, array, {}, {}, {}, array->location});
  return facts;
}

/// What has been measured beforehand says more than the number of all entries.
void state_longest_rows(ir::Program& program, const std::map<ir::Array, ir::Symbol>& longest) {
  // The backward program has arrays of its own, of the same names.
  for (ir::Fact& fact : program.facts)
    for (const auto& [pointer, size] : longest)
      if (fact.kind == ir::FactKind::CsrPointer && fact.array->name == pointer->name) fact.longest = ir::var(size);
}

Program share(ir::Program program) { return Program(std::make_shared<const ir::Program>(std::move(program))); }

}  // namespace

const char* name_of(Variant variant) {
  switch (variant) {
    case Variant::NaiveTape: return "naive-tape";
    case Variant::Atomic: return "atomic";
    case Variant::Restructured: return "restructured";
  }
  return "?";
}

namespace {

void note_rules(const ir::Stmt& body, Report& report) {
  const auto list = [](const std::vector<ir::Array>& arrays) {
    std::string names;
    for (const ir::Array& array : arrays) names += (names.empty() ? "'" : ", '") + array->name + "'";
    return names;
  };
  ir::walk_stmts(body, [&](const ir::Stmt& s) {
    if (const auto* region = s.as<ir::CustomGradient>())
      report.remarks.push_back({"the gradient of " + list(region->outputs) + " by " + list(region->inputs) +
                                    " is the program's own: the custom gradient of this line",
                                region->location});
  });
}

/// What a tape would have to save of it, but for one that saves everything, follows from iterators and inputs.
ir::Program with_plain_scalars(const ir::Program& program, Variant variant) {
  if (variant == Variant::NaiveTape) return program;
  const ir::Program plain = ir::with_own_values(ir::with_closed_counters(program));
  constexpr std::int64_t least_searched = 9;  // iterations: of fewer, a tape takes less than to look twice
  return variant == Variant::Atomic ? plain
                                    : ir::with_extremum_searches(plain, least_searched, ir::GuardedSearch::InOrder);
}

Gradient differentiate_within_memory(const Program& program, const GradientOptions& options) {
  const ir::Program plain = with_plain_scalars(ir::with_known_bounds(program.ir()), options.variant);
  const tape::Prepared prepared = tape::prepare(poly::unflatten(ir::with_numbered_entries(plain)), options);
  if (options.variant == Variant::NaiveTape && !options.directions.empty())
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "a gradient with a run-time stack takes one incoming gradient at a time",
                      .program = program.name(),
                      .hint = "use Variant::Restructured, or leave out `directions`",
                      .location = program.ir().location});
  if (!options.directions.empty())
    tape::refuse_rules(prepared.program, "the adjoint of a custom gradient takes one incoming gradient at a time",
                       "leave out `directions`");
  if (options.max_tape_bytes > 0)
    tape::refuse_rules(prepared.program, "there is no tape within a budget for a program with a custom gradient",
                       "leave max_tape_bytes out");
  Report report;
  note_rules(prepared.program.body, report);
  ir::Program sizing{program.name() + "_sizing", program.ir().sizes, {}, {}, ir::block({}), program.ir().location};
  ir::Program forward = prepared.program;
  forward.name += "_forward";
  std::optional<Program> without_tape;
  if (options.max_tape_bytes > 0) without_tape = share(forward);
  ir::Program backward;
  if (options.variant == Variant::NaiveTape) {
    if (options.max_tape_bytes > 0)
      throw UsageError({.code = ErrorCode::BadArgument,
                        .message = "the naive tape has no budget: it is a stack of all values",
                        .program = program.name(),
                        .hint = "use another variant, or leave max_tape_bytes out"});
    const tape::Sweeps sweeps = tape::naive_sweeps(prepared, report);
    forward.body = sweeps.forward;
    backward = tape::backward_program(prepared, sweeps.backward, {}, {});
  } else {
    const tape::DirectGradient direct = options.max_tape_bytes > 0
                                            ? tape::checkpointed_gradient(prepared, options.max_tape_bytes, report)
                                            : tape::direct_gradient(prepared, report);
    sizing = direct.sizing;
    forward.body = direct.forward;
    forward.sizes.insert(forward.sizes.end(), direct.sizes.begin(), direct.sizes.end());
    forward.arrays.insert(forward.arrays.end(), direct.tape.begin(), direct.tape.end());
    backward = tape::backward_program(prepared, direct.backward, direct.tape, direct.sizes);
    for (const ir::Fact& fact : read_up_to(direct.tape, backward)) forward.facts.push_back(fact);
    for (const ir::Fact& fact : distinct_positions(direct.tape, forward, backward))
      for (ir::Program* part : {&forward, &backward})  // a tape that no derivative needs is not the backward program's
        if (std::find(part->arrays.begin(), part->arrays.end(), fact.array) != part->arrays.end())
          part->facts.push_back(fact);
    for (ir::Program* part : {&forward, &backward}) state_longest_rows(*part, direct.longest_rows);
  }
  if (!options.directions.empty())
    backward = tape::with_adjoints(backward, forward, tape::count_directions(backward, options.directions));
  forward.from_rule = backward.from_rule = tape::location_of_rule(prepared.program);
  ir::verify(sizing, "differentiate");
  ir::verify(forward, "differentiate");
  ir::verify(backward, "differentiate");
  return {share(std::move(sizing)), share(std::move(forward)), share(std::move(backward)), options.variant,
          std::move(report),        options.max_tape_bytes,    std::move(without_tape)};
}

}  // namespace

Gradient differentiate(const Program& program, const GradientOptions& options) {
  return reporting_memory(program.name(), [&] { return differentiate_within_memory(program, options); });
}

}  // namespace loopgrad
