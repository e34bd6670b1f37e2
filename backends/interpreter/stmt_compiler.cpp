#include "backends/interpreter/stmt_compiler.h"

#include "backends/interpreter/actions.h"
#include "dsl/ir/visit.h"

#include <utility>

namespace loopgrad::backend::interpreter {
namespace {

class StmtCompiler {
 public:
  explicit StmtCompiler(Machine& machine) : machine_(machine), exprs_(machine) {}

  ActionPtr compile(const ir::Stmt& s) {
    if (!s) return std::make_unique<Sequence>();
    return ir::visit(s, [this](const auto& node) { return make(node); });
  }

 private:
  ActionPtr make(const ir::Block& node) {
    auto sequence = std::make_unique<Sequence>();
    for (const ir::Stmt& s : node.body) sequence->body.push_back(compile(s));
    return sequence;
  }

  ActionPtr make(const ir::If& node) {
    auto action = std::make_unique<IfAction>();
    action->condition = exprs_.compile<bool>(node.condition, scope(node));
    action->then_body = compile(node.then_body);
    if (node.else_body) action->else_body = compile(node.else_body);
    return action;
  }

  ActionPtr make(const ir::For& node) {
    const bool parallel = is_parallel(node.mode);
    if (!parallel || !machine_.options.checked) return loop(node, std::make_unique<ForAction>());
    const bool outside = std::exchange(has_barriers_, has_barriers_ || node.run.barriers);
    ActionPtr result;
    if (has_barriers_ && node.mode == ir::LoopMode::Threads) {
      result = shuffled(node, std::make_unique<ThreadsAction>());
    } else {
      const auto* inner = node.body.as<ir::For>();
      const bool innermost = !inner || inner->mode != ir::LoopMode::Grid;
      auto action = std::make_unique<ShuffledForAction>();
      action->is_block = has_barriers_ && node.mode == ir::LoopMode::Grid && innermost;
      result = shuffled(node, std::move(action));
    }
    has_barriers_ = outside;
    return result;
  }

  template <class Loop>
  ActionPtr shuffled(const ir::For& node, std::unique_ptr<Loop> action) {
    action->parallel = &machine_.parallel;
    action->seed = machine_.options.seed;
    return loop(node, std::move(action));
  }

  ActionPtr loop(const ir::For& node, std::unique_ptr<ForAction> action) {
    action->lower = exprs_.compile<std::int64_t>(node.lower, scope(node));
    action->upper = exprs_.compile<std::int64_t>(node.upper, scope(node));
    if (node.at_most && machine_.options.checked) {
      action->at_most = exprs_.compile<std::int64_t>(node.at_most, scope(node));
    }
    action->site = &machine_.add_site(loop_, node.location);
    action->backward = node.mode == ir::LoopMode::Backward;
    action->slot = &enter(node.iterator, node.location);
    action->body = compile(node.body);
    leave(node.iterator);
    return action;
  }

  ActionPtr make(const ir::While& node) {
    auto action = std::make_unique<WhileAction>();
    action->max_trips = exprs_.compile<std::int64_t>(node.max_trips, scope(node));
    action->slot = &enter(node.iterator, node.location);
    action->condition = exprs_.compile<bool>(node.condition, scope(node));
    action->body = compile(node.body);
    leave(node.iterator);
    return action;
  }

  ActionPtr make(const ir::Allocate& node) {
    auto action = std::make_unique<AllocateAction>();
    for (const ir::Expr& extent : node.array->shape) {
      action->extents.push_back(exprs_.compile<std::int64_t>(extent, scope(node)));
    }
    action->slot = &machine_.add_local(node.array);
    action->type = machine_.run_type(node.array->type);
    action->site = &machine_.add_site(loop_, node.location.known() ? node.location : node.array->location, node.array);
    action->parallel = &machine_.parallel;
    action->of_block = has_barriers_ && node.home == ir::Home::Block;
    action->body = compile(node.body);
    return action;
  }

  ActionPtr make(const ir::Assign& node) {
    Place place = exprs_.place(node.array, node.indices, scope(node));
    const auto* const from = node.value.as<ir::Load>();
    const bool is_copy = machine_.options.checked && from && from->array->type == node.array->type;
    auto action = with_storage(machine_.run_type(node.array->type), [&]<class Storage>() -> ActionPtr {
      if (is_copy)
        return std::make_unique<CheckedCopyAction<Storage>>(std::move(place), exprs_.place_of(*from, scope(node)));
      auto value = exprs_.compile<typename Storage::Value>(node.value, scope(node));
      if (machine_.options.checked) {
        return std::make_unique<AssignAction<Storage, true>>(std::move(place), std::move(value));
      }
      return std::make_unique<AssignAction<Storage, false>>(std::move(place), std::move(value));
    });
    return counted(std::move(action), {.loads = is_copy && is_counted(from->array), .stores = is_counted(node.array)});
  }

  template <class Storage>
  ActionPtr make_fused(const ir::Reduce& node, Place place) {
    using Value = typename Storage::Value;
    const auto factors = *ir::product_of(node.value);
    auto a = exprs_.compile<Value>(factors.a, scope(node)), b = exprs_.compile<Value>(factors.b, scope(node));
    const bool traps = machine_.options.trap_nan;
    if (machine_.options.checked)
      return std::make_unique<FusedReduceAction<Storage, true>>(std::move(place), std::move(a), std::move(b), node,
                                                                traps);
    return std::make_unique<FusedReduceAction<Storage, false>>(std::move(place), std::move(a), std::move(b), node,
                                                               traps);
  }

  ActionPtr make(const ir::Reduce& node) {
    Place place = exprs_.place(node.array, node.indices, scope(node));
    auto action = with_storage(machine_.run_type(node.array->type), [&]<class Storage>() -> ActionPtr {
      using Value = typename Storage::Value;
      if constexpr (std::is_floating_point_v<Value>)
        if (node.fused) return make_fused<Storage>(node, std::move(place));
      auto value = exprs_.compile<Value>(node.value, scope(node));
      return with_binary<Value>(binary_of(node.op), [&](auto f) -> ActionPtr {
        if (!machine_.options.checked) {
          return std::make_unique<ReduceAction<Storage, decltype(f)>>(f, std::move(place), std::move(value));
        }
        const auto identity = exprs_.compile<Value>(ir::identity_of(node.op, node.array->type), scope(node));
        return std::make_unique<CheckedReduceAction<Storage>>(f, std::move(place), std::move(value), identity->eval(),
                                                              node, machine_.options.trap_nan);
      });
    });
    const std::int64_t memory = is_counted(node.array);
    return counted(std::move(action),
                   {.flops = is_float(node.array->type) + node.fused, .loads = memory, .stores = memory});
  }

  ActionPtr make(const ir::Push& node) {
    const ScalarType type = node.value.type();
    auto action = with_value_type(machine_.run_type(type), [&]<class T>() -> ActionPtr {
      return std::make_unique<PushAction<T>>(machine_.stack, exprs_.compile<T>(node.value, scope(node)), type);
    });
    return counted(std::move(action), {.stores = 1});
  }

  ActionPtr make(const ir::Pop& node) {
    Place place = exprs_.place(node.array, node.indices, scope(node));
    auto action = with_storage(machine_.run_type(node.array->type), [&]<class Storage>() -> ActionPtr {
      if (machine_.options.checked) return std::make_unique<PopAction<Storage, true>>(machine_.stack, std::move(place));
      return std::make_unique<PopAction<Storage, false>>(machine_.stack, std::move(place));
    });
    return counted(std::move(action), {.loads = 1, .stores = is_counted(node.array)});
  }

  ActionPtr make(const ir::Contraction& node) { return compile(node.loops); }

  ActionPtr make(const ir::CustomGradient& node) { return compile(node.body); }

  ActionPtr make(const ir::Barrier&) {
    auto action = std::make_unique<BarrierAction>();
    if (has_barriers_) action->parallel = &machine_.parallel;
    return action;
  }

  static bool is_counted(const ir::Array& array) { return array->role != ir::ArrayRole::Local; }

  ActionPtr counted(ActionPtr action, WorkCount each) const {
    if (!machine_.options.work) return action;
    auto result = std::make_unique<CountedAction>();
    result->action = std::move(action);
    result->work = machine_.options.work;
    result->each = each;
    return result;
  }

  Scope scope(const ir::StmtNode& node) const { return {loop_, node.location}; }

  LoopSlot& enter(const ir::Symbol& iterator, SourceLocation location) {
    LoopSlot& slot = machine_.add_loop(iterator, location, loop_);
    exprs_.bind(iterator, slot);
    loop_ = &slot;
    return slot;
  }
  void leave(const ir::Symbol& iterator) {
    exprs_.unbind(iterator);
    loop_ = loop_->outer;
  }

  Machine& machine_;
  ExprCompiler exprs_;
  const LoopSlot* loop_ = nullptr;  // the innermost enclosing one
  bool has_barriers_ = false;       // in checked mode: in a kernel whose threads wait at its barriers only
};

}  // namespace

ActionPtr compile_body(Machine& machine) { return StmtCompiler(machine).compile(machine.program.body); }

}  // namespace loopgrad::backend::interpreter
