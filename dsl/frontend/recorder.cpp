#include "dsl/frontend/recorder.h"

#include "dsl/frontend/expression_graph.h"
#include "dsl/frontend/promotion.h"
#include "dsl/frontend/shared_values.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace loopgrad::ir {
namespace {

bool is_identifier(const std::string& name) {
  const auto word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), word);
}

bool is_loop(Kind kind) { return kind == Kind::For || kind == Kind::While; }

}  // namespace

ProgramRecorder::ProgramRecorder(std::string name, SourceLocation location) {
  program_.name = std::move(name);
  program_.location = location;
  check_name(program_.name, "program", location);
  scopes_.emplace_back();
}

// ---- errors ----

void ProgramRecorder::fail(SourceLocation where, std::string message, std::string hint, std::string array) const {
  ErrorInfo info;
  info.code = ErrorCode::BadProgram;
  info.message = std::move(message);
  info.program = program_.name;
  info.loop = innermost_loop();
  info.array = std::move(array);
  info.hint = std::move(hint);
  info.location = where;
  throw UsageError(std::move(info));
}

std::string ProgramRecorder::innermost_loop() const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (is_loop(scope->header.kind)) return scope->header.iterator.name;
  }
  return {};
}

void ProgramRecorder::require_recording(SourceLocation where) const {
  if (finished_) fail(where, "the program is finished", "record everything before build()");
}

void ProgramRecorder::check_name(const std::string& name, const std::string& what, SourceLocation where) const {
  if (!is_identifier(name))
    fail(where, fmt::format("'{}' is not a name for a {}", name, what), "use letters, digits and '_'");
}

void ProgramRecorder::check_new_name(const std::string& name, const std::string& what, SourceLocation where) {
  require_recording(where);
  check_name(name, what, where);
  if (!names_.insert(name).second)
    fail(where, fmt::format("the name '{}' is taken by another size or array", name), "choose another name");
}

// ---- declarations ----

Symbol ProgramRecorder::declare_size(const std::string& name, SourceLocation where) {
  check_new_name(name, "size", where);
  program_.sizes.push_back(make_symbol(name));
  visible_.insert(program_.sizes.back().id);
  return program_.sizes.back();
}

Array ProgramRecorder::declare(ArrayRole role, ScalarType type, const std::string& name,
                               const std::vector<Value>& shape, SourceLocation where) {
  const bool local = role == ArrayRole::Local;
  if (local) {
    require_recording(where);
    check_name(name, "array", where);
  } else {
    check_new_name(name, "array", where);
  }
  std::vector<Expr> extents;
  for (const Value& extent : shape) extents.push_back(shape_expr(extent, name, local, where));
  Array array = make_array(name, type, std::move(extents), role, where);
  visible_.insert(array->id);
  if (local) {
    Item item;
    item.local = array;
    scopes_.back().items.push_back(std::move(item));
  } else {
    program_.arrays.push_back(array);
  }
  return array;
}

Expr ProgramRecorder::shape_expr(const Value& value, const std::string& array, bool local, SourceLocation where) const {
  if (!is_integer(value.type()))
    fail(where, fmt::format("an extent is {}, not an integer", name_of(value.type())), "use sizes and integers", array);
  const Expr extent = without_names(converted(value, ScalarType::I64), "an extent", where);
  if (as_int(extent).value_or(0) < 0) fail(where, "an extent is negative", "extents count elements", array);
  for_each_node(extent, [&](const Expr& e) {
    if (e.kind() == Kind::Load)
      fail(where, "the shape depends on data", "introduce a size for this extent and pass it with the arguments",
           array);
    const auto* variable = e.as<Var>();
    if (!variable) return true;
    if (!visible_.contains(variable->symbol.id))
      fail(where, fmt::format("the shape uses '{}', which is not in scope here", variable->symbol.name),
           "declare the array inside that loop", array);
    const bool size = std::find(program_.sizes.begin(), program_.sizes.end(), variable->symbol) != program_.sizes.end();
    if (!size && !local)
      fail(where, fmt::format("the shape depends on the iterator '{}'", variable->symbol.name),
           "inputs, outputs and in-outs have shapes in sizes only; a local array may use iterators", array);
    return true;
  });
  return extent;
}

Expr ProgramRecorder::size_expr(const Value& value, const std::string& what, SourceLocation where) const {
  require_recording(where);
  if (!is_integer(value.type()))
    fail(where, fmt::format("{} is {}, not an integer", what, name_of(value.type())), "use sizes and integers");
  const Expr result = without_names(converted(value, ScalarType::I64), what, where);
  for_each_node(result, [&](const Expr& e) {
    const auto* variable = e.as<Var>();
    const bool size =
        variable && std::find(program_.sizes.begin(), program_.sizes.end(), variable->symbol) != program_.sizes.end();
    if (e.kind() == Kind::Load || (variable && !size))
      fail(where, what + " depends on more than sizes", "use sizes and constants of this program only");
    return true;
  });
  return result;
}

void ProgramRecorder::state(Fact fact) {
  require_recording(fact.location);
  program_.facts.push_back(std::move(fact));
}

void ProgramRecorder::check_fact(FactKind kind, const Array& array, SourceLocation where) const {
  require_recording(where);
  const std::string fact = name_of(kind);
  if (find_array(program_, array->name) != array)
    fail(where, fmt::format("'{}' is stated about an array that is no argument of this program", fact),
         "facts are about inputs, outputs and in-outs", array->name);
  if (kind == FactKind::MayAlias) return;
  if (array->role != ArrayRole::Input || !is_integer(array->type))
    fail(where, fmt::format("'{}' is stated about an array that is no integer input", fact),
         "facts hold from start to end, so they are about inputs", array->name);
  if (kind != FactKind::InRange && kind != FactKind::Injective && array->shape.size() != 1)
    fail(where, fmt::format("'{}' is stated about an array of rank {}", fact, array->shape.size()),
         "the array must have rank 1", array->name);
}

// ---- reads and writes ----

Expr ProgramRecorder::read(const Array& array, std::vector<Expr> indices, SourceLocation where) {
  require_recording(where);
  Expr result = load(array, std::move(indices), where);
  load_times_[result.ptr()] = ++time_;
  check_use(result, where);
  return result;
}

std::vector<Expr> ProgramRecorder::indices(const Array& array, const std::vector<Operand>& operands,
                                           SourceLocation where) const {
  if (operands.size() != array->shape.size())
    fail(where, fmt::format("{} indices for an array of rank {}", operands.size(), array->shape.size()),
         "give one index per dimension", array->name);
  std::vector<Expr> result;
  for (const Operand& operand : operands) {
    if (!is_integer(operand.value.type()))
      fail(operand.location, fmt::format("an index is {}, not an integer", name_of(operand.value.type())),
           "convert it with cast<std::int64_t>(...)", array->name);
    result.push_back(converted(operand.value, ScalarType::I64));
  }
  return result;
}

void ProgramRecorder::check_write(const Array& array, SourceLocation where) const {
  require_recording(where);
  if (array->role == ArrayRole::Input)
    fail(where, "an input is written", "declare it with inout(), or write to a local or output", array->name);
  if (!visible_.contains(array->id))
    fail(where, "the array is not in scope here", "a local lives until the end of the body that declares it",
         array->name);
}

/// Everything that `e` refers to must be in scope and, where it was read earlier, still have the value it had.
void ProgramRecorder::check_use(const Expr& e, SourceLocation where) {
  for_each_node(e, [&](const Expr& node) {
    if (scopes_.back().named.contains(node.get())) return false;  // seen when it was named
    if (const auto* variable = node.as<Var>(); variable && !visible_.contains(variable->symbol.id))
      fail(where, fmt::format("'{}' is used outside its loop", variable->symbol.name),
           "an iterator has a value inside its own loop only, a size inside its own program");
    if (const auto* load = node.as<Load>()) check_load(*load, node.ptr(), where);
    return true;
  });
}

void ProgramRecorder::check_load(const Load& load, const std::shared_ptr<const ExprNode>& node, SourceLocation where) {
  if (!visible_.contains(load.array->id))
    fail(where, "the array is not in scope here", "a local lives until the end of the body that declares it",
         load.array->name);
  const auto made = load_times_.find(node);
  if (made == load_times_.end()) return;
  const auto written = last_writes_.find(load.array->id);
  if (written != last_writes_.end() && written->second.time > made->second)
    fail_stale(load, where, written->second.where);
  for (Scope& scope : scopes_) {
    if (is_loop(scope.header.kind) && scope.opened > made->second)
      scope.early_reads.emplace(load.array->id, Touch{made->second, load.location});
  }
}

void ProgramRecorder::fail_stale(const Load& load, SourceLocation where, SourceLocation written) const {
  fail(
      where,
      fmt::format("the value read at {} is used after the array was written at {}", load.location.str(), written.str()),
      "a Value is evaluated where it is used: keep the old value in a p.scalar<T>(), or read the element again",
      load.array->name);
}

void ProgramRecorder::note_write(const Array& array, SourceLocation where) {
  for (const Scope& scope : scopes_) {
    const auto early = scope.early_reads.find(array->id);
    if (early == scope.early_reads.end()) continue;
    fail(where,
         fmt::format("the value read at {}, before the loop '{}', is used inside it and its array written here",
                     early->second.where.str(), scope.header.iterator.name),
         "a Value is evaluated where it is used: keep the old value in a p.scalar<T>() declared before the loop",
         array->name);
  }
  last_writes_[array->id] = {++time_, where};
  for (Scope& scope : scopes_) {
    const auto readers = scope.readers.find(array->id);
    if (readers == scope.readers.end()) continue;
    for (const ExprNode* node : readers->second) scope.named.erase(node);
    scope.readers.erase(readers);
  }
}

Expr ProgramRecorder::stored(const Array& array, const Value& value, SourceLocation where) const {
  if (!converts_implicitly(value, array->type)) {
    const char* hint = array->type == ScalarType::Bool ? "compare it, for example with `!= 0`"
                                                       : "say so with cast<std::int64_t>(...), which truncates";
    fail(where,
         fmt::format("a value of type {} is stored into {} elements", name_of(value.type()), name_of(array->type)),
         hint, array->name);
  }
  return converted(value, value_type(array->type));
}

void ProgramRecorder::assign(const Array& array, std::vector<Expr> indices, const Value& value, SourceLocation where) {
  check_write(array, where);
  for (const Expr& index : indices) check_use(index, where);
  check_use(Expr(value.node()), where);
  Expr result = with_names(rounded_to(array->type, stored(array, value, where)), where);
  for (Expr& index : indices) index = with_names(index, where);
  note_write(array, where);
  append(ir::assign(array, std::move(indices), std::move(result), where));
}

void ProgramRecorder::reduce(const Array& array, std::vector<Expr> indices, ReduceOp op, const Value& value,
                             SourceLocation where) {
  check_write(array, where);
  if (array->type == ScalarType::Bool)
    fail(where, fmt::format("'{}' on bool elements", name_of(op)), "assign with = and use && and ||", array->name);
  for (const Expr& index : indices) check_use(index, where);
  check_use(Expr(value.node()), where);
  Expr result = stored(array, value, where);
  // What is compared with an element is rounded as the element is.
  if (op == ReduceOp::Min || op == ReduceOp::Max) result = rounded_to(array->type, result);
  result = with_names(result, where);
  for (Expr& index : indices) index = with_names(index, where);
  note_write(array, where);
  append(ir::reduce(array, std::move(indices), op, std::move(result), where));
}

Expr ProgramRecorder::with_names(const Expr& value, SourceLocation where) {
  const auto known = [this](const Expr& e) {
    const auto found = scopes_.back().named.find(e.get());
    return found == scopes_.back().named.end() ? Expr() : found->second.local;
  };
  SharedValues split = name_shared_values(value, where, known);
  constexpr double largest_statement = 100'000;
  if (split.largest > largest_statement)
    fail(where, fmt::format("more than {} operations in one statement", largest_statement),
         "a value that many operations share is computed only on a condition that depends on it: keep it in a "
         "p.scalar<T>()");
  for (const SharedValues::Local& local : split.locals) {
    Item declaration;
    declaration.local = local.array;
    scopes_.back().items.push_back(std::move(declaration));
    visible_.insert(local.array->id);
    const Stmt assignment = ir::assign(local.array, {}, local.value, where);
    append(local.guard ? if_then(local.guard, assignment, {}, where) : assignment);
    if (local.of) remember(local.of, load(local.array, {}, where));
  }
  return split.result;
}

/// From here to the end of the scope, or to a write to what it reads, the node's value is in the local.
void ProgramRecorder::remember(const Expr& value, const Expr& local) {
  NamedValue result{value, local, {}};
  auto& named = scopes_.back().named;
  for_each_node(value, [&](const Expr& e) {
    if (const auto known = named.find(e.get()); known != named.end()) {
      result.reads.insert(known->second.reads.begin(), known->second.reads.end());
      return false;
    }
    if (const auto* read = e.as<Load>()) result.reads.insert(read->array->id);
    return true;
  });
  constexpr std::size_t most_arrays = 16;  // or else lists of readers grow with the square of what is named
  if (result.reads.size() > most_arrays) return;
  for (const std::int64_t array : result.reads) scopes_.back().readers[array].push_back(value.get());
  named.emplace(value.get(), std::move(result));
}

/// `value`, which stands where no statement can come before it.
Expr ProgramRecorder::without_names(const Expr& value, const std::string& what, SourceLocation where) const {
  constexpr double largest_tree = 4096;
  const Expr result = collect_large_sums(value);
  if (tree_size(result) > largest_tree)
    fail(where, fmt::format("{} has more than {} operations", what, largest_tree),
         "values that are used more than once count each time: keep parts in scalars, or pass it as a size");
  return result;
}

void ProgramRecorder::append(Stmt s) {
  Item item;
  item.stmt = std::move(s);
  scopes_.back().items.push_back(std::move(item));
}

std::shared_ptr<ProgramRecorder> recorder_of(const std::weak_ptr<ProgramRecorder>& recorder, SourceLocation where) {
  if (auto alive = recorder.lock()) return alive;
  ErrorInfo info;
  info.message = "the program of this array is finished";
  info.hint = "record everything before its ProgramBuilder goes away";
  info.location = where;
  throw UsageError(std::move(info));
}

}  // namespace loopgrad::ir
