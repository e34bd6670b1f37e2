#include "tools/fuzz/false_facts.h"

#include "backends/runtime/binding.h"
#include "dsl/ir/rewriter.h"
#include "tools/fuzz/execution.h"
#include "tools/support/random.h"

#include <fmt/format.h>

#include <vector>

namespace loopgrad::fuzz {
namespace {

bool can_break(const ir::Fact& fact, const Arrays& arrays) {
  if (fact.array->role != ir::ArrayRole::Input || is_float(fact.array->type)) return false;
  const std::int64_t count = arrays.at(fact.array->name).size();
  switch (fact.kind) {
    case ir::FactKind::InRange: return count >= 1;
    case ir::FactKind::Sorted:
    case ir::FactKind::Injective: return count >= 2;
    case ir::FactKind::CsrPointer: return count >= 1;
    case ir::FactKind::MayAlias:
    case ir::FactKind::ReadUpTo:
    case ir::FactKind::Distinct: return false;
  }
  return false;
}

/// The loop with another promise; null: none.
ir::Stmt promising(const ir::For& loop, const ir::Expr& at_most) {
  return ir::for_loop(loop.iterator, loop.lower, loop.upper, loop.body, loop.mode, loop.location, at_most, loop.shape);
}

ir::Program with_loop(ir::Program program, const ir::For* loop, const ir::Stmt& other) {
  const auto nothing = [](const ir::Expr&) -> std::optional<ir::Expr> { return std::nullopt; };
  program.body = ir::rewrite(program.body, nothing, [&](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    return s.as<ir::For>() == loop ? std::optional(other) : std::nullopt;
  });
  return program;
}

/// How many trips the loop makes at most in a run.
std::int64_t most_trips(const Case& c, const ir::For& loop, const Arrays& inputs, bool f64) {
  const ir::Array most = ir::make_array("most_trips", ScalarType::I64, {}, ir::ArrayRole::Output, {});
  const ir::Stmt noted = ir::block(
      {ir::reduce(most, {}, ir::ReduceOp::Max, loop.upper - loop.lower, loop.location), promising(loop, loop.at_most)});
  ir::Program program = with_loop(c.program.ir(), &loop, noted);
  program.arrays.push_back(most);
  program.body = ir::block({ir::assign(most, {}, ir::int_const(0)), program.body});
  Arrays arrays = copy_of(inputs);
  run(program, arrays, c.sizes, {.f64 = f64});
  return static_cast<std::int64_t>(arrays.at("most_trips").get(0));
}

}  // namespace

std::optional<BrokenPromise> break_a_promise(const Case& c, const Arrays& inputs, bool f64) {
  std::vector<const ir::For*> loops;
  ir::walk_stmts(c.program.ir().body, [&](const ir::Stmt& s) {
    if (const auto* loop = s.as<ir::For>(); loop && loop->at_most) loops.push_back(loop);
  });
  if (loops.empty()) return std::nullopt;
  tools::Random random(c.seed + 31);
  const ir::For& loop = *loops[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(loops.size())))];
  const std::int64_t trips = most_trips(c, loop, inputs, f64);
  if (trips < 1) return std::nullopt;
  const ir::Program broken = with_loop(c.program.ir(), &loop, promising(loop, ir::int_const(trips - 1)));
  return BrokenPromise{Program(std::make_shared<const ir::Program>(broken)), loop.iterator.name};
}

void expect_broken(const BrokenPromise& promise, const Error& error) {
  if (error.code() != ErrorCode::BadIndex || error.info().loop != promise.loop)
    throw Disagreement(fmt::format("the broken promise of '{}' gives: {}", promise.loop, error.what()));
}

std::optional<std::string> break_a_fact(const Case& c, Arrays& arrays) {
  std::vector<const ir::Fact*> candidates;
  for (const ir::Fact& fact : c.program.ir().facts)
    if (can_break(fact, arrays)) candidates.push_back(&fact);
  if (candidates.empty()) return std::nullopt;
  tools::Random random(c.seed + 29);
  const ir::Fact& fact =
      *candidates[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(candidates.size())))];
  HostArray& array = arrays.at(fact.array->name);
  backend::SizeValues sizes;
  for (const ir::Symbol& size : c.program.ir().sizes) sizes[size] = c.sizes.at(size.name);
  const std::int64_t last = array.size() - 1, some = random.below(array.size());
  switch (fact.kind) {
    case ir::FactKind::InRange: {
      const std::int64_t outside = random.below(2) == 0 ? backend::evaluate(fact.upper, sizes) + random.below(1000)
                                                        : backend::evaluate(fact.lower, sizes) - 1 - random.below(1000);
      array.set(some, static_cast<double>(outside));
      break;
    }
    case ir::FactKind::Sorted: array.set(0, array.get(last) + 1); break;
    case ir::FactKind::Injective: array.set(some == 0 ? 1 : some, array.get(0)); break;
    case ir::FactKind::CsrPointer: array.set(last, array.get(last) + (random.below(2) == 0 ? 1 : -1)); break;
    default: return std::nullopt;
  }
  return fact.array->name;
}

}  // namespace loopgrad::fuzz
