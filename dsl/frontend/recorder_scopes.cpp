// Loops, branches and the end of recording.
#include "dsl/frontend/nest_locals.h"
#include "dsl/frontend/promotion.h"
#include "dsl/frontend/recorder.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

namespace loopgrad::ir {
namespace {

bool is_near(std::int64_t bound) { return bound >= -furthest_bound && bound <= furthest_bound; }

}  // namespace

Expr ProgramRecorder::bound(const Value& value, const std::string& what, SourceLocation where) {
  require_recording(where);
  value.node(where);  // refuses one that holds nothing
  if (!is_integer(value.type()))
    fail(where, fmt::format("{} is {}, not an integer", what, name_of(value.type())),
         "convert it with cast<std::int64_t>(...)");
  check_use(Expr(value.node()), where);
  return converted(value, ScalarType::I64);
}

Expr ProgramRecorder::condition(const Value& value, const std::string& what, SourceLocation where) {
  require_recording(where);
  value.node(where);
  if (value.type() != ScalarType::Bool)
    fail(where, fmt::format("{} is {}, not bool", what, name_of(value.type())), "compare it, for example with `!= 0`");
  check_use(Expr(value.node()), where);
  return Expr(value.node());
}

std::size_t ProgramRecorder::open(ScopeHeader header) {
  constexpr std::size_t most_scopes = 1000;
  if (scopes_.size() > most_scopes)
    fail(header.location, fmt::format("loops and branches nest more than {} deep", most_scopes),
         "join conditions with &&, and loops that run once with what is around them");
  if (header.is_loop()) visible_.insert(header.iterator.id);
  Scope scope;
  scope.header = std::move(header);
  scope.opened = ++time_;
  scopes_.push_back(std::move(scope));
  return scopes_.size();
}

std::size_t ProgramRecorder::open_for(const std::string& name, const Value& lower, const Value& upper,
                                      const LoopOptions& options, SourceLocation where) {
  check_identifier(name, "loop", where);
  if (options.step < 1)
    fail(where, fmt::format("loop '{}' has the step {}", name, options.step),
         "state at least 1, and .descending = true for the other direction");
  if (!is_near(options.step))
    fail(where, fmt::format("loop '{}' has the step {}, more than {}", name, options.step, furthest_bound),
         "a loop of one trip needs no step");
  ScopeHeader header;
  header.kind = Kind::For;
  header.location = where;
  header.lower = with_names(bound(lower, fmt::format("the lower bound of loop '{}'", name), where), where);
  header.upper = with_names(bound(upper, fmt::format("the upper bound of loop '{}'", name), where), where);
  for (const Expr& end : {header.lower, header.upper})
    if (const auto number = as_int(end); number && !is_near(*number))
      fail(where, fmt::format("the bound {} of loop '{}' is further from zero than {}", *number, name, furthest_bound),
           "let the loop start at 0, and add to its iterator in the body");
  const std::vector<Value>& at_most = options.at_most;
  if (at_most.size() > 1) fail(where, fmt::format("loop '{}' states at_most twice", name), "state one bound");
  if (!at_most.empty()) header.at_most = size_expr(at_most[0], fmt::format("at_most of loop '{}'", name), where);
  header.iterator = make_symbol(name);
  header.descending = options.descending;
  header.value = var(header.iterator);
  if (options.step > 1) {  // the iterator counts the steps
    const Expr step = int_const(options.step), first = header.lower;
    header.upper = binary(BinaryOp::FloorDiv, header.upper - first + int_const(options.step - 1), step);
    header.lower = int_const(0);
    header.value = step * var(header.iterator) + first;
  }
  return open(std::move(header));
}

std::size_t ProgramRecorder::open_while(const std::string& name, const Value& max_trips,
                                        const std::function<Value(const Value&)>& condition_of, SourceLocation where) {
  if (!condition_of) fail(where, fmt::format("loop '{}' has no condition", name), "pass a function that gives one");
  check_identifier(name, "loop", where);
  ScopeHeader header;
  header.kind = Kind::While;
  header.location = where;
  const std::string most = fmt::format("max_trips of loop '{}'", name);
  header.upper = without_names(bound(max_trips, most, where), most, where);
  if (has_load(header.upper))
    fail(where, fmt::format("max_trips of loop '{}' depends on data", name),
         "put data into the condition; or loop over the row, p.loop(name, begin, end), with p.when(condition) inside");
  header.iterator = make_symbol(name);
  header.value = var(header.iterator);
  const Value iterator_value(header.value.ptr());
  const std::size_t depth = open(std::move(header));
  try {
    const Value value = condition_of(iterator_value);
    if (scopes_.size() != depth || !scopes_.back().items.empty())
      fail(where, fmt::format("the condition of loop '{}' records statements", name), "put them into the body");
    const std::string what = fmt::format("the condition of loop '{}'", name);
    scopes_.back().header.condition = without_names(condition(value, what, where), what, where);
  } catch (...) {
    abandon(depth);
    throw;
  }
  return depth;
}

std::size_t ProgramRecorder::open_if(const Value& value, SourceLocation where) {
  ScopeHeader header;
  header.kind = Kind::If;
  header.location = where;
  header.condition = with_names(condition(value, "the condition", where), where);
  const std::size_t depth = open(std::move(header));
  scopes_.back().branch = next_id();
  return depth;
}

std::size_t ProgramRecorder::open_else(std::int64_t branch, SourceLocation where) {
  require_recording(where);
  std::vector<Item>& items = scopes_.back().items;
  const Item* found = items.empty() ? nullptr : &items.back();
  while (found && found->branch != branch) found = found->else_items.empty() ? nullptr : &found->else_items.back();
  if (!found) fail(where, "otherwise() does not follow its when()", "write p.when(c, ...).otherwise(...)");
  if (found->has_else) fail(where, "this when() already has an otherwise()", "put everything into one otherwise()");
  const Item item = items.back();
  items.pop_back();
  const std::size_t depth = open(item.header);
  scopes_.back().branch = item.branch;
  scopes_.back().in_else = true;
  scopes_.back().is_else_if = item.is_else_if;
  scopes_.back().then_body = item.then_body;
  if (item.branch == branch) return depth;
  scopes_.back().items = item.else_items;
  return open_else(branch, where);
}

std::size_t ProgramRecorder::open_else_if(std::int64_t branch, const Value& value, SourceLocation where) {
  condition(value, "the condition", where);  // refused before anything is opened
  const std::size_t outer = open_else(branch, where);
  try {
    const std::size_t depth = open_if(value, where);
    scopes_.back().is_else_if = true;
    return depth;
  } catch (...) {
    abandon(outer);
    throw;
  }
}

Stmt ProgramRecorder::fold(const std::vector<Item>& items) {
  std::vector<Stmt> statements;
  std::vector<DeclaredLocal> locals;
  for (const Item& item : items) {
    if (item.stmt) statements.push_back(item.stmt);
    else locals.push_back({item.local, statements.size()});
  }
  return nest_locals(statements, locals);
}

std::int64_t ProgramRecorder::close(std::size_t depth) {
  if (scopes_.size() != depth)
    fail(scopes_.back().header.location, "loops and branches are closed in another order than opened",
         "use p.loop() in a range-based for only");
  const Scope scope = std::move(scopes_.back());
  forget_names(scope);
  scopes_.pop_back();
  Stmt body = fold(scope.items);
  const ScopeHeader& header = scope.header;
  Item item;
  switch (header.kind) {
    case Kind::For:
      item.stmt = for_loop(header.iterator, header.lower, header.upper, body,
                           header.descending ? LoopMode::Backward : LoopMode::Forward, header.location, header.at_most);
      break;
    case Kind::While:
      item.stmt = while_loop(header.iterator, header.upper, header.condition, body, header.location);
      break;
    case Kind::If:
      item.branch = scope.branch;
      item.has_else = scope.in_else;
      item.is_else_if = scope.is_else_if;
      if (scope.in_else && !scope.items.empty() && scope.items.back().is_else_if) item.else_items = scope.items;
      item.header = header;
      item.then_body = scope.in_else ? scope.then_body : body;
      item.stmt = if_then(header.condition, item.then_body, scope.in_else ? body : Stmt(), header.location);
      break;
    case Kind::CustomGradient: part_ = body; return 0;
    default: throw InternalError("a scope of no known kind");
  }
  scopes_.back().items.push_back(item);
  if (scope.is_else_if) close(scopes_.size());
  return item.branch;
}

/// What the scope declared is not visible any more.
void ProgramRecorder::forget_names(const Scope& scope) {
  for (const Item& item : scope.items) {
    if (item.local) visible_.erase(item.local->id);
  }
  visible_.erase(scope.header.iterator.id);
}

void ProgramRecorder::abandon(std::size_t depth) {
  while (depth > 1 && depth <= scopes_.size() && scopes_[depth - 1].is_else_if) --depth;
  while (scopes_.size() >= depth && scopes_.size() > 1) {
    forget_names(scopes_.back());
    if (!abandoned_) abandoned_ = scopes_.back().header.location;
    scopes_.pop_back();
  }
}

/// Facts hold from start to end: of what no statement may change under another name.
void ProgramRecorder::refuse_facts_that_may_not_last() const {
  for (const Fact& alias : program_.facts) {
    if (alias.kind != FactKind::MayAlias) continue;
    for (const auto& [array, other] : {std::pair(alias.array, alias.other), std::pair(alias.other, alias.array)}) {
      if (other->role == ArrayRole::Input) continue;
      for (const Fact& fact : program_.facts)
        if (fact.kind != FactKind::MayAlias && fact.array == array)
          fail(fact.location,
               fmt::format("'{}' is stated about an array that may be in the memory of '{}', which the program writes",
                           name_of(fact.kind), other->name),
               "facts hold from start to end: state it about a copy, or drop may_alias", array->name);
    }
  }
}

std::shared_ptr<const Program> ProgramRecorder::build(SourceLocation where) {
  if (finished_) fail(where, "build() was called before", "keep the Program that it returned");
  if (scopes_.size() > 1) fail(where, "build() inside a loop or branch", "call it after the last statement");
  if (abandoned_)
    fail(where, fmt::format("the body at {} was left before its end", abandoned_->str()),
         "leave bodies neither by break or return nor by an exception; use p.when() for conditions on data");
  program_.body = fold(scopes_.back().items);
  verify(program_, "build");
  refuse_facts_that_may_not_last();
  finished_ = true;
  return std::make_shared<const Program>(program_);
}

}  // namespace loopgrad::ir
