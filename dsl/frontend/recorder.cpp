#include "dsl/frontend/recorder.h"

#include "dsl/frontend/expression_graph.h"
#include "dsl/frontend/promotion.h"
#include "dsl/frontend/shared_values.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::ir {

ProgramRecorder::ProgramRecorder(std::string name, SourceLocation location) {
  program_.name = std::move(name);
  program_.location = location;
  check_identifier(program_.name, "program", location);
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
    if (scope->header.is_loop()) return scope->header.iterator.name;
  }
  return {};
}

void ProgramRecorder::require_recording(SourceLocation where) const {
  if (finished_) fail(where, "the program is finished", "record everything before build()");
}

void ProgramRecorder::check_identifier(const std::string& name, const std::string& what, SourceLocation where) const {
  if (!is_identifier(name))
    fail(where, fmt::format("'{}' is not a name for a {}", name, what), "use letters, digits and '_'");
}

void ProgramRecorder::check_new_name(const std::string& name, const std::string& what, SourceLocation where) {
  require_recording(where);
  check_identifier(name, what, where);
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
  if (!is_known(type)) fail(where, "an array of no known type", "use a value of ScalarType", name);
  if (local) {
    require_recording(where);
    check_identifier(name, "array", where);
  } else {
    check_new_name(name, "array", where);
  }
  std::vector<Expr> extents;
  for (const Value& extent : shape) extents.push_back(shape_expr(extent, name, local, where));
  const auto declared = std::make_shared<ArrayDecl>(*make_array(name, type, std::move(extents), role, where));
  const Array array = declared;
  visible_.insert(array->id);
  if (local) {
    locals_[array->id] = declared;
    Item item;
    item.local = array;
    scopes_.back().items.push_back(std::move(item));
  } else {
    program_.arrays.push_back(array);
  }
  return array;
}

Expr ProgramRecorder::shape_expr(const Value& value, const std::string& array, bool local, SourceLocation where) const {
  value.node(where);  // refuses one that holds nothing
  if (!is_integer(value.type()))
    fail(where, fmt::format("an extent is {}, not an integer", name_of(value.type())), "use sizes and integers", array);
  const Expr extent = without_names(converted(value, ScalarType::I64), "an extent", where);
  if (as_int(extent).value_or(0) < 0) fail(where, "an extent is negative", "extents count elements", array);
  for_each_node(extent, [&](const Expr& e) {
    if (e.kind() == Kind::Load)
      fail(
          where, "the shape depends on data",
          local
              ? "declare the array with the largest extent that it can have, a size that is passed with the arguments: "
                "auto longest = p.size(\"longest\"); and {longest} as the shape"
              : "introduce a size for this extent and pass it with the arguments",
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
  value.node(where);
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
  if (!array) fail_empty("ArrayHandle", where);
  if (find_array(program_, array->name) != array)
    fail(where, fmt::format("'{}' is stated about an array that is no argument of this program", fact),
         "facts are about arrays of the program", array->name);
  if (kind == FactKind::MayAlias) return;
  if (array->role != ArrayRole::Input || !is_integer(array->type))
    fail(where,
         fmt::format("'{}' is stated about an array that is no integer input: it is {} of type {}", fact,
                     array->role == ArrayRole::Input    ? "an input"
                     : array->role == ArrayRole::InOut  ? "an in-out"
                     : array->role == ArrayRole::Output ? "an output"
                                                        : "a local",
                     name_of(array->type)),
         "facts hold from start to end, so they are about what the program does not write", array->name);
  if (kind != FactKind::InRange && kind != FactKind::Injective && array->shape.size() != 1)
    fail(where, fmt::format("'{}' is stated about an array of rank {}", fact, array->shape.size()),
         "the array must have rank 1", array->name);
}

void ProgramRecorder::choose_tape(const Array& array, TapeChoice choice, SourceLocation where) {
  require_recording(where);
  if (!array) fail_empty("ArrayHandle", where);
  const char* const wish = choice == TapeChoice::Saved ? "save" : "recompute";
  const auto local = locals_.find(array->id);
  if (local == locals_.end())
    fail(where, fmt::format("'{}' is said of an array that is no local of this program", wish),
         "it is about scalars and local arrays: what an argument holds is where it is", array->name);
  if (!visible_.contains(array->id))
    fail(where, fmt::format("'{}' is said of a local that is not in scope here", wish), "say it where it is declared",
         array->name);
  TapeChoice& now = local->second->on_tape;
  if (now != TapeChoice::Planned && now != choice)
    fail(where, "a gradient cannot save a value and compute it again", "say one of the two", array->name);
  now = choice;
}

void ProgramRecorder::choose_tape(const Expr& value, TapeChoice choice, SourceLocation where) {
  const auto* load = value.as<Load>();
  if (!load)
    fail(where,
         fmt::format("'{}' is said of a value that has no name", choice == TapeChoice::Saved ? "save" : "recompute"),
         "give it one: auto v = p.let(\"v\", ...)");
  choose_tape(load->array, choice, where);
}

// ---- reads and writes ----

Expr ProgramRecorder::read(const ElementName& name, SourceLocation where) {
  require_recording(where);
  check_name_read(name, where);
  Expr result = load(name.array, name.indices, where);
  load_times_[result.ptr()] = ++time_;
  check_use(result, where);
  return result;
}

ScalarType ProgramRecorder::type_of(const Value& value, SourceLocation where) const {
  require_recording(where);
  return value.node(where)->type;
}

std::shared_ptr<ElementName> ProgramRecorder::element(const Array& array, const std::vector<Operand>& operands,
                                                      const std::weak_ptr<ProgramRecorder>& self,
                                                      SourceLocation where) {
  if (operands.size() != array->shape.size())
    fail(
        where,
        fmt::format("{} for an array of rank {}",
                    operands.size() == 1 ? "1 index" : fmt::format("{} indices", operands.size()), array->shape.size()),
        "give one index per dimension", array->name);
  std::vector<Expr> indices;
  for (const Operand& operand : operands) {
    if (!is_integer(operand.value.type()))
      fail(operand.location, fmt::format("an index is {}, not an integer", name_of(operand.value.type())),
           "convert it with cast<std::int64_t>(...)", array->name);
    indices.push_back(converted(operand.value, ScalarType::I64));
  }
  auto name = std::make_shared<ElementName>();
  name->array = array;
  name->indices = std::move(indices);
  name->location = where;
  name->recorder = self;
  name->id = next_id();
  name->formed = ++time_;
  names_in_use_.add(name);
  return name;
}

std::shared_ptr<ElementName> ProgramRecorder::copy(const ElementName& name) {
  auto result = std::make_shared<ElementName>(name);
  result->id = next_id();
  result->copied_from.insert(name.id);
  result->formed = ++time_;
  result->wrote_last = false;
  names_in_use_.add(result);
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
  note_early_read(made->second, load.array, {load.location, 0, {}});
}

void ProgramRecorder::note_early_read(std::int64_t made, const Array& array, const EarlyRead& read) {
  for (Scope& scope : scopes_) {
    if (!scope.header.is_loop() || scope.opened < made) continue;
    std::vector<EarlyRead>& reads = scope.early_reads[array->id];
    const bool known =
        std::any_of(reads.begin(), reads.end(), [&](const EarlyRead& other) { return other.name == read.name; });
    if (!known) reads.push_back(read);
  }
}

/// See element_names.h for the two rules.
void ProgramRecorder::check_name_read(const ElementName& name, SourceLocation where) {
  const char* copies_nothing = "`auto t = x(i)` names the element and copies nothing";
  if (name.written_elsewhere)
    fail(where,
         fmt::format("the element named at {} is read by that name after the array was written without it at {}",
                     name.location.str(), name.written_elsewhere->str()),
         fmt::format("{}: keep the old value in a p.scalar<T>(), or read the element again", copies_nothing),
         name.array->name);
  if (const auto hidden_by = names_in_use_.hides(name))
    fail(where,
         fmt::format("the element is read while a name given to it at {} is in use that wrote it last",
                     hidden_by->location.str()),
         fmt::format("{}: read it by that name, too, or compute in a p.scalar<T>()", copies_nothing), name.array->name);
  note_early_read(name.formed, name.array, {name.location, name.id, name.indices});
}

void ProgramRecorder::fail_stale(const Load& load, SourceLocation where, SourceLocation written) const {
  fail(
      where,
      fmt::format("the value read at {} is used after the array was written at {}", load.location.str(), written.str()),
      "a Value is evaluated where it is used: keep the old value in a p.scalar<T>(), or read the element again",
      load.array->name);
}

void ProgramRecorder::note_write(const ElementName& by, SourceLocation where) {
  for (const Scope& scope : scopes_) {
    const auto early = scope.early_reads.find(by.array->id);
    if (early == scope.early_reads.end()) continue;
    for (const EarlyRead& read : early->second) {
      if (read.name != 0) {
        const bool by_reader = read.name == by.id || (by.copied_from.contains(read.name) && by.formed > scope.opened);
        if (by_reader || differ_at_any_time(read.indices, by.indices)) continue;
      }
      fail(where,
           fmt::format("the {} {}, before the loop '{}', is used inside it and its array written here",
                       read.name ? "element named at" : "value read at", read.where.str(), scope.header.iterator.name),
           read.name ? "`auto t = x(i)` names the element and copies nothing: keep the old value in a p.scalar<T>() "
                       "declared before the loop, or write by that name"
                     : "a Value is evaluated where it is used: keep the old value in a p.scalar<T>() declared before "
                       "the loop",
           by.array->name);
    }
  }
  last_writes_[by.array->id] = {++time_, where};
  names_in_use_.note_write(by, where);
  for (Scope& scope : scopes_) {
    const auto readers = scope.readers.find(by.array->id);
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
  const auto constant = as_int(Expr(value.node(where)));
  if (array->type == ScalarType::I32 && constant && *constant != static_cast<std::int32_t>(*constant))
    fail(where, fmt::format("the constant {} is stored into i32 elements, which cannot hold it", *constant),
         "use an array of i64, or a constant that fits", array->name);
  return converted(value, value_type(array->type));
}

namespace {

bool loads(const Expr& e, const Array& array) {
  bool found = false;
  walk(e, [&](const Expr& part) {
    const auto* load = part.as<Load>();
    found |= load && load->array == array;
  });
  return found;
}

/// `max(y, v)` or `min(y, v)` of the element that it is assigned to: the update `y max= v`, which has the same value
/// and the same rule for ties. f16 and bf16 are rounded at another place. Null for other values.
const Binary* extremum_with(const ElementName& target, const Expr& value) {
  const auto* extremum = value.as<Binary>();
  if (!extremum || (extremum->op != BinaryOp::Max && extremum->op != BinaryOp::Min)) return nullptr;
  const auto* old = extremum->a.as<Load>();
  const bool updates = old && old->array == target.array && equal(old->indices, target.indices) &&
                       value_type(target.array->type) == target.array->type && value.type() == target.array->type;
  return updates && !loads(extremum->b, target.array) ? extremum : nullptr;
}

}  // namespace

void ProgramRecorder::assign(const ElementName& target, const Value& value, SourceLocation where) {
  check_write(target.array, where);
  for (const Expr& index : target.indices) check_use(index, where);
  check_use(Expr(value.node(where)), where);
  const Expr whole = stored(target.array, value, where);
  if (const Binary* extremum = extremum_with(target, whole))
    return update(target, extremum->op == BinaryOp::Max ? ReduceOp::Max : ReduceOp::Min, extremum->b, where);
  const Expr result = with_names(rounded_to(target.array->type, whole), where);
  std::vector<Expr> indices = target.indices;
  for (Expr& index : indices) index = with_names(index, where);
  note_write(target, where);
  append(ir::assign(target.array, std::move(indices), result, where));
}

void ProgramRecorder::reduce(const ElementName& target, ReduceOp op, const Value& value, SourceLocation where) {
  const Array& array = target.array;
  check_write(array, where);
  if (array->type == ScalarType::Bool)
    fail(where, fmt::format("'{}' on bool elements", name_of(op)), "assign with = and use && and ||", array->name);
  for (const Expr& index : target.indices) check_use(index, where);
  check_use(Expr(value.node(where)), where);
  Expr result = stored(array, value, where);
  // What is compared with an element is rounded as the element is.
  if (op == ReduceOp::Min || op == ReduceOp::Max) result = rounded_to(array->type, result);
  update(target, op, result, where);
}

void ProgramRecorder::update(const ElementName& target, ReduceOp op, const Expr& value, SourceLocation where) {
  const Expr result = with_names(value, where);
  std::vector<Expr> indices = target.indices;
  for (Expr& index : indices) index = with_names(index, where);
  note_write(target, where);
  append(ir::reduce(target.array, std::move(indices), op, result, where));
}

Expr ProgramRecorder::with_names(const Expr& value, SourceLocation where) {
  // A sum adds a small value as it was written, even if it has a name: the product at its top is not rounded.
  const auto* negated = value.as<Unary>();
  const auto is_top = [&](const Expr& e) {
    return e.same_as(value) || (negated && negated->op == UnaryOp::Neg && e.same_as(negated->a));
  };
  const auto known = [&](const Expr& e) {
    const auto found = scopes_.back().named.find(e.get());
    const bool stands = found != scopes_.back().named.end() && (found->second.is_large || !is_top(e));
    return stands ? found->second.local : Expr();
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
    if (local.of) remember(local.of, load(local.array, {}, where), local.is_large);
  }
  return split.result;
}

/// From here to the end of the scope, or to a write to what it reads, the node's value is in the local.
void ProgramRecorder::remember(const Expr& value, const Expr& local, bool is_large) {
  NamedValue result{value, local, {}, is_large};
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

void fail_empty(const std::string& handle, SourceLocation where) {
  ErrorInfo info;
  info.message = fmt::format("this {} holds nothing", handle);
  info.hint = "it was moved from, or made from a null pointer: use the one that it was moved to";
  info.location = where;
  throw UsageError(std::move(info));
}

}  // namespace loopgrad::ir
