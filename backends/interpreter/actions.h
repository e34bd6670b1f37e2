// The compiled statements: control flow, local arrays and writes.
#pragma once

#include "backends/interpreter/elements.h"
#include "backends/interpreter/expr_compiler.h"
#include "backends/interpreter/operations.h"

namespace loopgrad::backend::interpreter {

struct Sequence final : Action {
  std::vector<ActionPtr> body;
  void run() const override {
    for (const ActionPtr& action : body) action->run();
  }
};

struct IfAction final : Action {
  EvalPtr<bool> condition;
  ActionPtr then_body, else_body;  // else_body may be null
  void run() const override {
    if (condition->eval()) then_body->run();
    else if (else_body) else_body->run();
  }
};

/// A loop that runs in one of the two orders; parallel loops run forward.
struct ForAction : Action {
  LoopSlot* slot = nullptr;
  EvalPtr<std::int64_t> lower, upper;
  EvalPtr<std::int64_t> at_most;  // null when not promised or not checked
  const Site* site = nullptr;
  ActionPtr body;
  bool backward = false;
  void run() const override;

 protected:
  void check_trips(std::int64_t from, std::int64_t to) const;
};

/// A parallel loop in checked mode: shuffled, and known to the access logs while it runs.
struct ShuffledForAction final : ForAction {
  ParallelStack* parallel = nullptr;
  std::uint64_t seed = 0;
  bool is_block = false;  // each iteration is one block, whose threads wait for each other at barriers only
  void run() const override;
};

/// A loop over the threads of such a block, in checked mode: to the access logs it goes on where the last one ended.
struct ThreadsAction final : ForAction {
  ParallelStack* parallel = nullptr;
  std::uint64_t seed = 0;
  void run() const override;
};

struct BarrierAction final : Action {
  ParallelStack* parallel = nullptr;  // null where loops over threads end with a barrier
  void run() const override {
    if (parallel) parallel->frames[parallel->block].instance = ++parallel->entries;
  }
};

struct WhileAction final : Action {
  LoopSlot* slot = nullptr;
  EvalPtr<std::int64_t> max_trips;
  EvalPtr<bool> condition;
  ActionPtr body;
  void run() const override;
};

struct AllocateAction final : Action {
  ArraySlot* slot = nullptr;
  std::vector<EvalPtr<std::int64_t>> extents;
  ScalarType type = ScalarType::F32;
  const Site* site = nullptr;
  const ParallelStack* parallel = nullptr;
  bool of_block = false;  // shared by its threads
  ActionPtr body;
  void run() const override;
};

template <class Storage, bool checked>
struct AssignAction final : Action {
  const Place place;
  const EvalPtr<typename Storage::Value> value;
  AssignAction(Place p, EvalPtr<typename Storage::Value> v) : place(std::move(p)), value(std::move(v)) {}
  void run() const override {
    const auto result = value->eval();
    const std::int64_t offset = place.offset();
    if constexpr (checked) place.check_write(offset);
    place.template write<Storage>(offset, result);
  }
};

/// An Assign of an element, in checked mode.
template <class Storage>
struct CheckedCopyAction final : Action {
  const Place place, from;
  CheckedCopyAction(Place p, Place f) : place(std::move(p)), from(std::move(f)) {}
  void run() const override {
    const std::int64_t offset_from = from.offset(), offset = place.offset();
    if (!place.check_copy(from, offset_from, offset)) return;
    const auto value = from.template read<Storage>(offset_from);
    from.note_value(offset_from, value);
    place.template write<Storage>(offset, value);
  }
};

template <class Storage, class F>
struct ReduceAction final : Action {
  using Value = typename Storage::Value;
  const F f;
  const Place place;
  const EvalPtr<Value> value;
  ReduceAction(F f_in, Place p, EvalPtr<Value> v) : f(f_in), place(std::move(p)), value(std::move(v)) {}
  void run() const override {
    const Value operand = value->eval();
    const std::int64_t offset = place.offset();
    place.template write<Storage>(offset, f(place.template read<Storage>(offset), operand));
  }
};

/// A Reduce that adds a product without rounding it first.
template <class Storage, bool checked>
struct FusedReduceAction final : Action {
  using Value = typename Storage::Value;
  const Place place;
  const EvalPtr<Value> a, b;
  const bool atomic, traps;
  FusedReduceAction(Place p, EvalPtr<Value> a_in, EvalPtr<Value> b_in, const ir::Reduce& node, bool t)
      : place(std::move(p)), a(std::move(a_in)), b(std::move(b_in)), atomic(node.atomic), traps(t) {}
  void run() const override {
    const Value x = a->eval(), y = b->eval();
    const std::int64_t offset = place.offset();
    if constexpr (checked) place.check_reduce(offset, ir::ReduceOp::Add, atomic, false);
    const Value old = place.template read<Storage>(offset), result = std::fma(x, y, old);
    if constexpr (checked) {
      if (traps) trap_nan(place.site, "fma", result, {x, y, old});
    }
    place.template write<Storage>(offset, result);
  }
};

template <class Storage>
struct CheckedReduceAction final : Action {
  using Value = typename Storage::Value;
  Value (*const f)(Value, Value);
  const Place place;
  const EvalPtr<Value> value;
  const Value identity;
  const ir::ReduceOp op;
  const bool atomic, traps;
  CheckedReduceAction(Value (*f_in)(Value, Value), Place p, EvalPtr<Value> v, Value i, const ir::Reduce& node, bool t)
      : f(f_in), place(std::move(p)), value(std::move(v)), identity(i), op(node.op), atomic(node.atomic), traps(t) {}
  void run() const override {
    const Value operand = value->eval();
    const std::int64_t offset = place.offset();
    if (!place.check_reduce(offset, op, atomic, operand == identity)) return;
    const Value old = place.template read<Storage>(offset), result = f(old, operand);
    if constexpr (std::is_floating_point_v<Value>) {
      if (traps) trap_nan(place.site, name_of(binary_of(op)), result, {old, operand});
    }
    place.template write<Storage>(offset, result);
  }
};

template <class T>
struct PushAction final : Action {
  ValueStack& stack;
  const EvalPtr<T> value;
  const ScalarType type;
  PushAction(ValueStack& s, EvalPtr<T> v, ScalarType t) : stack(s), value(std::move(v)), type(t) {}
  void run() const override {
    const T result = value->eval();
    if constexpr (std::is_floating_point_v<T>) stack.entries.push_back({type, result, 0});
    else stack.entries.push_back({type, 0, result});
    stack.bytes += static_cast<std::int64_t>(bytes_of(type));
    if (stack.bytes > stack.peak_bytes) stack.peak_bytes = stack.bytes;
  }
};

template <class Storage, bool checked>
struct PopAction final : Action {
  ValueStack& stack;
  const Place place;
  PopAction(ValueStack& s, Place p) : stack(s), place(std::move(p)) {}
  void run() const override {
    using Value = typename Storage::Value;
    const ScalarType type = value_type(place.slot.decl->type);
    if (stack.entries.empty()) throw InternalError("pop into '" + place.slot.decl->name + "' from an empty stack");
    const ValueStack::Entry entry = stack.entries.back();
    if (entry.type != type) {
      throw InternalError(std::string("pop of a value of type ") + loopgrad::name_of(entry.type) + " into '" +
                          place.slot.decl->name + "' of type " + loopgrad::name_of(type));
    }
    stack.entries.pop_back();
    stack.bytes -= static_cast<std::int64_t>(bytes_of(type));
    const std::int64_t offset = place.offset();
    if constexpr (checked) place.check_write(offset);
    if constexpr (std::is_floating_point_v<Value>)
      place.template write<Storage>(offset, static_cast<Value>(entry.number));
    else place.template write<Storage>(offset, static_cast<Value>(entry.integer));
  }
};

/// Adds to the work counters whenever `action` runs.
struct CountedAction final : Action {
  ActionPtr action;
  WorkCount* work = nullptr;
  WorkCount each;
  void run() const override {
    work->flops += each.flops;
    work->loads += each.loads;
    work->stores += each.stores;
    action->run();
  }
};

}  // namespace loopgrad::backend::interpreter
