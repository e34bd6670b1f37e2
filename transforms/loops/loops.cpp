#include "transforms/loops/loops.h"

#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

[[noreturn]] void refuse(const ir::Program& program, const LoopName& name, const std::string& message,
                         const std::string& hint) {
  throw UsageError(
      {.code = ErrorCode::BadArgument, .message = message, .program = program.name, .loop = name.name(), .hint = hint});
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// "at f.cpp:12", or for a loop that the summation plan made the loops around it: "in l, j".
std::string place_of(const ir::Program& program, const Stmt& loop) {
  if (loop->location.known()) return "at " + loop->location.str();
  std::vector<std::string> around;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    auto* node = s.as<ir::For>();
    if (node && s.get() != loop.get() && contains(s, loop)) around.push_back(node->iterator.name);
  });
  return around.empty() ? "one in no other loop" : "one in " + list_of(around);
}

// A sum of sizes and non-negative constants.
bool is_surely_positive(const Expr& e, const std::set<ir::Symbol>& sizes) {
  ir::LinearForm form = linear_form(e);
  return form.constant >= 0 && std::all_of(form.terms.begin(), form.terms.end(), [&](const ir::LinearForm::Term& term) {
           auto* variable = term.atom.as<ir::Var>();
           return term.coefficient > 0 && variable && sizes.count(variable->symbol);
         });
}

}  // namespace

Stmt find_loop(const ir::Program& program, const LoopName& name) {
  std::vector<Stmt> found;
  std::set<std::string> names;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    auto* loop = s.as<ir::For>();
    if (!loop) return;
    names.insert(loop->iterator.name);
    bool on_line = name.line() == 0 || static_cast<int>(s->location.line) == name.line();
    if (loop->iterator.name == name.name() && on_line) found.push_back(s);
  });
  if (found.empty()) {
    refuse(program, name, fmt::format("there is no loop '{}'", name.str()),
           "the loops are " + list_of({names.begin(), names.end()}));
  }
  if (name.number() > static_cast<int>(found.size())) {
    refuse(program, name, fmt::format("there are only {} loops '{}'", found.size(), name.name()),
           "use a smaller number");
  }
  if (name.number() > 0) return found[static_cast<std::size_t>(name.number() - 1)];
  if (found.size() == 1) return found[0];
  std::vector<std::string> lines;
  for (const Stmt& s : found) lines.push_back(place_of(program, s));
  refuse(program, name, fmt::format("{} loops are called '{}': {}", found.size(), name.str(), list_of(lines)),
         fmt::format("say which: '{0}@LINE', or '{0}#1' to '{0}#{1}'", name.name(), found.size()));
}

Stmt find_local(const ir::Program& program, const std::string& name) {
  std::vector<Stmt> found;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    auto* node = s.as<ir::Allocate>();
    if (node && node->array->name == name) found.push_back(s);
  });
  if (found.size() == 1) return found[0];
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = found.empty() ? "there is no local array of this name"
                                             : fmt::format("{} local arrays have this name", found.size()),
                    .program = program.name,
                    .array = name,
                    .hint = "give the name of one local array of the program"});
}

std::vector<Stmt> perfect_nest(const Stmt& outermost) {
  std::vector<Stmt> result;
  for (Stmt s = outermost; s && s.kind() == ir::Kind::For; s = s.as<ir::For>()->body) result.push_back(s);
  return result;
}

std::vector<Stmt> statements_of(const Stmt& body) {
  if (auto* node = body.as<ir::Allocate>()) return statements_of(node->body);
  auto* node = body.as<ir::Block>();
  if (!node) return {body};
  std::vector<Stmt> result;
  for (const Stmt& child : node->body) {
    if (child.kind() != ir::Kind::Allocate) {
      result.push_back(child);
      continue;
    }
    for (Stmt& s : statements_of(child)) result.push_back(std::move(s));
  }
  return result;
}

bool contains(const Stmt& s, const Stmt& inner) {
  bool found = false;
  ir::walk_stmts(s, [&](const Stmt& child) { found |= child.get() == inner.get(); });
  return found;
}

ir::LoopMode unmarked(ir::LoopMode mode) { return ir::is_parallel(mode) ? ir::LoopMode::Forward : mode; }

ir::Program with_replaced(const ir::Program& program, const Stmt& old, const Stmt& by) {
  return ir::with_body(program, replace(program.body, old, by));
}

void misuse(const ir::Program& program, const Stmt& loop, const std::string& action, const std::string& why,
            const std::string& hint) {
  const ir::For* node = loop.as<ir::For>();
  throw UsageError({.code = ErrorCode::IllegalTransform,
                    .message = "cannot " + action + ": " + why,
                    .program = program.name,
                    .loop = node ? node->iterator.name : "",
                    .hint = hint,
                    .location = loop->location});
}

Groups groups_of(const ir::Program& program, const ir::For& loop, std::int64_t factor, const std::string& suffix) {
  Groups result;
  result.group = ir::make_symbol(loop.iterator.name + suffix);
  Expr trips = simplify_indices(loop.upper - loop.lower);
  auto constant = ir::as_int(trips);
  // A loop over all of a size never has a negative number of trips; others may.
  std::set<ir::Symbol> sizes(program.sizes.begin(), program.sizes.end());
  if (!constant && !is_surely_positive(trips, sizes)) trips = ir::binary(ir::BinaryOp::Max, trips, ir::int_const(0));
  if (constant) trips = ir::int_const(std::max<std::int64_t>(*constant, 0));
  Expr size = ir::int_const(factor);
  result.count = ir::binary(ir::BinaryOp::FloorDiv, trips, size);
  Expr covered = result.count * size;
  Expr start = ir::var(result.group) * size;
  if (loop.mode == ir::LoopMode::Backward) {
    result.direction = -1;
    result.first = simplify_indices(loop.upper - ir::int_const(1) - start);
    result.rest_lower = loop.lower;
    result.rest_upper = simplify_indices(loop.upper - covered);
  } else {
    result.first = simplify_indices(loop.lower + start);
    result.rest_lower = simplify_indices(loop.lower + covered);
    result.rest_upper = loop.upper;
  }
  return result;
}

}  // namespace loopgrad::transforms
