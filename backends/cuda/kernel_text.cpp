#include "backends/cuda/kernel_text.h"

#include "backends/cuda/chunk_text.h"
#include "backends/cuda/index_width.h"
#include "backends/cuda/local_arrays.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

namespace loopgrad::backend {
namespace {

using namespace ir;

/// Writes the statements; what needs state of its own is done by the members.
class KernelWriter {
 public:
  KernelWriter(const Program& program, KernelFrame& frame, KernelScope& scope)
      : frame_(frame),
        scope_(scope),
        locals_(program, frame, scope),
        chunks_(scope, [this](const Stmt& s) { emit(s); }) {}

  /// The text between the braces of the kernel.
  std::string write() {
    if (frame_.kernel.uses_stack) line("Stack stack(stack_bytes, stack_capacity, stack_state);");
    in_thread_ = frame_.kernel.grid.empty();
    if (in_thread_) emit(frame_.root);
    else emit_grid(frame_.root, 0);
    if (frame_.kernel.uses_stack) line("stack.finish();");
    return locals_.preamble() + scope_.code.take();
  }

  bool uses_block_reduce() const { return uses_block_reduce_; }
  bool uses_wide_accesses() const { return chunks_.uses_wide_accesses(); }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    scope_.code.line(format, std::forward<Args>(args)...);
  }
  template <class F>
  void indented(F&& f) {
    scope_.code.indented(std::forward<F>(f));
  }
  std::string text(const Expr& e, Level surrounding = Level::Any) { return scope_.text(e, surrounding); }

  void emit(const Stmt& s) {
    if (!s) return;
    visit(s,
          overloaded{[&](const Block& n) {
                       for (const Stmt& child : n.body) emit(child);
                     },
                     [&](const For& n) { emit_loop(s, n); }, [&](const While& n) { emit_while(n); },
                     [&](const If& n) { emit_if(n); }, [&](const Assign& n) { emit_assign(n); },
                     [&](const Reduce& n) { emit_reduce(n); },
                     [&](const Allocate& n) {
                       locals_.declare(n, in_thread_);
                       emit(n.body);
                     },
                     [&](const Push& n) { line("stack.push<{}>({});", value_cpp_type(n.value.type()), text(n.value)); },
                     [&](const Pop& n) { emit_pop(n); }, [&](const Contraction& n) { emit(n.loops); },
                     [&](const Barrier&) { emit_barrier(); }, [&](const CustomGradient& n) { emit(n.body); }});
  }

  /// Teams are warps. Where sizes decide whether there are some, a block that is no team may have several.
  void emit_barrier() {
    if (!frame_.kernel.teams) return line("__syncthreads();");
    if (as_int(frame_.kernel.threads.front())) return line("__syncwarp();");
    line("if (blockDim.y > 1) __syncwarp();");
    line("else __syncthreads();");
  }

  // Loops over blocks and threads.

  void emit_grid(const Stmt& s, std::size_t level) {
    if (level == frame_.kernel.grid.size()) return emit(s);
    const std::size_t left = frame_.kernel.grid.size() - level;
    if (left > 3) return emit_grid_z(s, level + left - 2);
    const For& n = *s.as<For>();
    scope_.enter(n);
    const char axis = "xyz"[left - 1];
    const bool teams = axis == 'x' && frame_.kernel.teams;
    const std::string block = teams
                                  ? fmt::format("({0}(blockIdx.x) * {0}(blockDim.y) + {0}(threadIdx.y))", index_type())
                                  : fmt::format("{}(blockIdx.{})", index_type(), axis);
    const std::string first = as_int(n.lower) == 0 ? block : text(n.lower, Level::Sum) + " + " + block;
    line("for ({4} {0} = {1}; {0} < {2}; {0} += gridDim.{3}{5}) {{", scope_.name_of(n.iterator), first,
         text(n.upper, Level::Sum), axis, index_type(), teams ? " * blockDim.y" : "");
    indented([&] {
      emit_grid(n.body, level + 1);
      end_turn();
    });
    line("}}");
  }

  /// Loops that are executed once cost no registers. Blocks that have memory of their own take turns.
  void end_turn() {
    if (frame_.kernel.locals.empty() && index_type() == either_width) line("if (one_turn) break;");
  }

  /// More loops than a grid has dimensions: the blocks along z share all the outer ones, up to `end`.
  void emit_grid_z(Stmt s, std::size_t end) {
    Expr all = int_const(1);
    for (std::size_t k = 0; k < end; ++k) all = all * extent_of(*frame_.kernel.grid[k]);
    const Symbol z = make_symbol("block_z");
    scope_.state.non_negative.insert(z);
    line("for ({2} {0} = blockIdx.z; {0} < {1}; {0} += gridDim.z) {{", scope_.name_of(z), text(all, Level::Sum),
         index_type());
    indented([&] {
      Expr inner = all;
      for (std::size_t k = 0; k < end; ++k, s = s.as<For>()->body) {
        const For& n = *s.as<For>();
        inner = int_const(1);
        for (std::size_t j = k + 1; j < end; ++j) inner = inner * extent_of(*frame_.kernel.grid[j]);
        Expr turn = binary(BinaryOp::FloorDiv, var(z), inner);
        if (k > 0) turn = binary(BinaryOp::Mod, turn, extent_of(n));
        scope_.enter(n);
        line("const {} {} = {};", index_type(), scope_.name_of(n.iterator), text(n.lower + turn));
      }
      emit_grid(s, end);
      end_turn();
    });
    line("}}");
  }

  static Expr extent_of(const For& n) { return n.upper - n.lower; }
  const std::string& index_type() const { return scope_.state.index_type; }

  void emit_threads(const Stmt& s) {
    const auto& extents = frame_.kernel.threads;
    const bool single = as_int(s.as<For>()->upper) == 1;
    in_thread_ = true;
    line("{}{{", single && !extents.empty() ? "if (threadIdx.x == 0) " : "");
    indented([&] {
      Stmt body = s;
      const char* axis = "xyz";
      std::size_t left = single ? 1 : extents.size();
      for (; has_mode(body, LoopMode::Threads) && left > 0; body = body.as<For>()->body) {
        const For& n = *body.as<For>();
        scope_.enter(n);
        if (!single) line("const {} {} = threadIdx.{};", index_type(), scope_.name_of(n.iterator), axis[--left]);
        else left = 0;
      }
      emit(body);
    });
    line("}}");
    in_thread_ = false;
  }

  // Other loops and branches.

  void emit_loop(const Stmt& s, const For& n) {
    if (n.mode == LoopMode::Threads) return emit_threads(s);
    scope_.code.comment(n.location);
    scope_.enter(n);
    if (in_thread_ && chunks_.write(n)) return;
    if (is_name(n)) return emit_name(n);
    if (in_thread_ && chunks_.write_for_all_trips(n, [&] { emit_trips(n); })) return;
    emit_trips(n);
  }

  void emit_trips(const For& n) {
    const bool all = n.run.unroll > 0 && as_int(n.upper - n.lower) == n.run.unroll;
    if (all) line("#pragma unroll");
    else if (n.run.unroll > 0 && !chunks_.is_narrow_form_of(n)) line("#pragma unroll {}", n.run.unroll);
    const std::string& name = scope_.name_of(n.iterator);
    if (n.mode == LoopMode::Backward) {
      const std::string lower = bound(n.lower, name + "_begin");
      line("for ({3} {0} = {1}; {0} >= {2}; --{0}) {{", name, text(n.upper - int_const(1)), lower,
           scope_.type_of(n.iterator));
    } else {
      const std::string upper = bound(n.upper, name + "_end");
      line("for ({3} {0} = {1}; {0} < {2}; ++{0}) {{", name, text(n.lower), upper, scope_.type_of(n.iterator));
    }
    emit_body(n.body);
    line("}}");
  }

  /// A loop of one trip: a name for its lower bound.
  void emit_name(const For& n) {
    line("{{");
    indented([&] { emit_names(n); });
    line("}}");
  }

  void emit_names(const For& n) {
    line("const {} {} = {};", scope_.type_of(n.iterator), scope_.name_of(n.iterator), text(n.lower));
    const auto* next = n.body.as<For>();
    if (!next || !is_name(*next)) return emit(n.body);
    scope_.enter(*next);
    emit_names(*next);
  }

  /// A loop of one trip. Where all threads read its bound together, it stays a loop, which they enter together.
  bool is_name(const For& n) const { return has_one_trip(n) && (in_thread_ || !has_load(n.lower)); }

  /// Bounds are evaluated once: those that read data get a constant of their own.
  std::string bound(const Expr& e, const std::string& wish) {
    if (!has_load(e)) return text(e, Level::Sum);
    const std::string name = scope_.state.names.fresh(wish);
    line("const int64_t {} = {};", name, text(e));
    return name;
  }

  void emit_body(const Stmt& body) {
    indented([&] { emit(body); });
  }

  void emit_while(const While& n) {
    scope_.code.comment(n.location);
    scope_.state.non_negative.insert(n.iterator);
    scope_.note_width(n.iterator, {n.max_trips});
    line("for ({3} {0} = 0; {0} < {1} && {2}; ++{0}) {{", scope_.name_of(n.iterator), text(n.max_trips, Level::Sum),
         text(n.condition, Level::Equality), scope_.type_of(n.iterator));
    emit_body(n.body);
    line("}}");
  }

  void emit_if(const If& n) {
    scope_.code.comment(n.location);
    line("if ({}) {{", text(n.condition));
    emit_body(n.then_body);
    if (n.else_body) {
      line("}} else {{");
      emit_body(n.else_body);
    }
    line("}}");
  }

  // Stores.

  void emit_assign(const Assign& n) {
    scope_.code.comment(n.location);
    line("{} = {};", scope_.element(n.array, n.indices), stored(n.array->type, n.value, scope_.state));
  }

  /// Null for what has no function of its own.
  static const char* order_free_function(const Reduce& n) {
    if (!n.atomic) return nullptr;
    if (n.op == ReduceOp::Add && n.array->type == ScalarType::I64) return "add_whole";
    const bool is_real = n.array->type == ScalarType::F32 || n.array->type == ScalarType::F64;
    return n.op == ReduceOp::Max && is_real ? "raise_to" : nullptr;
  }

  void emit_reduce(const Reduce& n) {
    scope_.code.comment(n.location);
    if (n.of_block) return emit_block_reduce(n);
    const std::string target = scope_.element(n.array, n.indices);
    const bool plain_storage = value_type(n.array->type) == n.array->type;
    const bool arithmetic = is_float(n.array->type) && (n.op == ReduceOp::Add || n.op == ReduceOp::Mul);
    if (n.atomic && n.op == ReduceOp::Add && plain_storage && n.array->type != ScalarType::I64) {
      line("atomicAdd(&{}, {});", target, text(n.value));
    } else if (const char* const function = order_free_function(n)) {
      scope_.state.helpers.insert(Helper::OrderFree);
      line("{}({}, {});", function, target, text(n.value));
    } else if (n.atomic) {
      scope_.state.helpers.insert(Helper::AtomicUpdate);
      const char* const type = storage_cpp_type(n.array);
      const bool extremum = n.op == ReduceOp::Max || n.op == ReduceOp::Min;
      // An index that is inside of its array notes nothing: then no thread looks at the element that all would share.
      if (extremum && is_integer(n.array->type))
        line("if ({} != {})", text(n.value), text(identity_of(n.op, n.array->type)));
      line("atomic_update({}, [&]({} before) -> {} {{ return {}; }});", target, type, type,
           updated_text(n, "before", scope_.state));
    } else if (plain_storage && arithmetic && !n.fused) {
      line("{} {} {};", target, name_of(n.op), text(n.value));
    } else {
      line("{} = {};", target, updated_text(n, target, scope_.state));
    }
  }

  /// A sum of all threads into a scalar of the block.
  void emit_block_reduce(const Reduce& n) {
    uses_block_reduce_ = true;
    const std::string& name = scope_.state.names.of(n.array);
    const char* const type = storage_cpp_type(n.array);
    const bool arithmetic = n.op == ReduceOp::Add || n.op == ReduceOp::Mul;
    const char symbol = n.op == ReduceOp::Add ? '+' : '*';
    const char* const helper = n.op == ReduceOp::Min ? "min_of" : "max_of";
    if (!arithmetic) scope_.state.helpers.insert(n.op == ReduceOp::Min ? Helper::MinOf : Helper::MaxOf);
    const std::string combined = arithmetic ? fmt::format("a {} b", symbol) : fmt::format("{}(a, b)", helper);
    const std::string sum =
        fmt::format("block_reduce<{0}>({1}, []({0} a, {0} b) {{ return {2}; }})", type, text(n.value), combined);
    if (arithmetic) line("{} {}= {};", name, symbol, sum);
    else line("{0} = {1}({0}, {2});", name, helper, sum);
  }

  void emit_pop(const Pop& n) {
    const std::string popped = scope_.state.names.fresh("popped");
    line("{} {};", value_cpp_type(value_type(n.array->type)), popped);
    line("stack.pop({});", popped);
    line("{} = {};", scope_.element(n.array, n.indices), stored(n.array->type, popped, scope_.state));
  }

  KernelFrame& frame_;
  KernelScope& scope_;
  LocalArrays locals_;
  ChunkWriter chunks_;
  bool in_thread_ = false;
  bool uses_block_reduce_ = false;
};

}  // namespace

KernelText kernel_text(const Program& program, const Stmt& s, const std::string& name, bool any_width) {
  KernelFrame frame = kernel_frame(program, s, name);
  KernelScope scope(program);
  if (any_width) scope.state.index_type = either_width;
  declare_arguments(program, frame, scope);
  KernelWriter writer(program, frame, scope);
  const std::string body = writer.write();
  const std::string definition =
      fmt::format("extern \"C\" __global__ void {}{}({}) {{\n{}}}\n", launch_bounds_text(frame, any_width), name,
                  parameters_text(frame, scope), body);
  return {std::move(frame.kernel), definition, std::move(scope.state.helpers), writer.uses_block_reduce(),
          writer.uses_wide_accesses()};
}

}  // namespace loopgrad::backend
