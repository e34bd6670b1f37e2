#include "backends/cuda/kernel_frame.h"

#include "backends/cuda/private_arrays.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

namespace {

constexpr std::int64_t most_block_threads = 1024;

/// What a kernel refers to.
struct References {
  std::set<Symbol> free, bound;
  std::set<Array> used, allocated, written;
  bool stack = false;
};

References references_of(const Stmt& s) {
  References r;
  auto on_expr = [&](const Expr& e) {
    if (const auto* v = e.as<Var>()) r.free.insert(v->symbol);
    if (const auto* l = e.as<Load>()) r.used.insert(l->array);
  };
  auto store = [&](const Array& array) {
    r.used.insert(array);
    r.written.insert(array);
  };
  walk(
      s,
      [&](const Stmt& t) {
        visit(t, overloaded{[&](const For& n) { r.bound.insert(n.iterator); },
                            [&](const While& n) { r.bound.insert(n.iterator); },
                            [&](const Allocate& n) {
                              r.allocated.insert(n.array);
                              for (const Expr& extent : n.array->shape) walk(extent, on_expr);
                            },
                            [&](const Assign& n) { store(n.array); }, [&](const Reduce& n) { store(n.array); },
                            [&](const Pop& n) {
                              store(n.array);
                              r.stack = true;
                            },
                            [&](const Push&) { r.stack = true; }, [](const Block&) {}, [](const If&) {},
                            [](const Contraction&) {}});
      },
      on_expr);
  for (const Array& array : r.used)
    for (std::size_t d = 1; d < array->shape.size(); ++d) walk(array->shape[d], on_expr);
  for (const Symbol& symbol : r.bound) r.free.erase(symbol);
  return r;
}

/// Sizes and arguments come first and in the program's order, so that they keep their names.
std::vector<Symbol> symbols_of(const Program& program, const References& r) {
  std::vector<Symbol> symbols;
  for (const Symbol& size : program.sizes)
    if (r.free.count(size)) symbols.push_back(size);
  for (const Symbol& symbol : r.free)
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) symbols.push_back(symbol);
  return symbols;
}

std::vector<Array> host_locals_of(const References& r) {
  std::vector<Array> locals;
  for (const Array& array : r.used)
    if (array->role == ArrayRole::Local && !r.allocated.count(array)) locals.push_back(array);
  std::sort(locals.begin(), locals.end(), [](const Array& a, const Array& b) { return a->id < b->id; });
  return locals;
}

/// Extents of the first loops over threads that are more than one, x first.
std::vector<Expr> threads_of(const Stmt& root) {
  std::vector<Expr> found;
  walk_stmts(root, [&](const Stmt& t) {
    if (!found.empty() || !has_mode(t, LoopMode::Threads) || as_int(t.as<For>()->upper) == 1) return;
    for (Stmt inner = t; has_mode(inner, LoopMode::Threads); inner = inner.as<For>()->body)
      found.insert(found.begin(), inner.as<For>()->upper);
  });
  return found;
}

/// Of constants and choices between them.
std::optional<std::int64_t> largest(const Expr& e) {
  if (const auto* n = e.as<Binary>(); n && n->op == BinaryOp::FloorDiv) return largest(n->a);
  const auto* choice = e.as<Select>();
  if (!choice) return as_int(e);
  const auto a = largest(choice->a), b = largest(choice->b);
  return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
}

/// The most threads that a block can have, as far as the loops of one trip around the kernel tell.
std::int64_t most_threads(const Program& program, const std::vector<Expr>& extents) {
  std::map<Symbol, Expr> values;
  walk_stmts(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (loop && equal(loop->upper, loop->lower + int_const(1))) values[loop->iterator] = loop->lower;
  });
  std::int64_t most = 1;
  for (const Expr& extent : extents) {
    const auto* v = extent.as<Var>();
    const auto value = v ? values.find(v->symbol) : values.end();
    const auto bound = largest(value == values.end() ? extent : value->second);
    if (!bound) return most_block_threads;
    // y = all / x: then x and y together are all threads.
    const auto* quotient = value == values.end() ? nullptr : value->second.as<Binary>();
    most = quotient && quotient->op == BinaryOp::FloorDiv ? *bound : most * *bound;
  }
  return std::min(most, most_block_threads);
}

}  // namespace

KernelFrame kernel_frame(const Program& program, const Stmt& s, const std::string& name) {
  const References r = references_of(s);
  KernelFrame frame;
  CudaKernel& kernel = frame.kernel;
  kernel.name = name;
  kernel.node = s.get();
  kernel.uses_stack = r.stack;
  kernel.symbols = symbols_of(program, r);
  for (const Array& array : program.arrays)
    if (r.used.count(array)) kernel.arrays.push_back(array);
  const std::vector<Array> host_locals = host_locals_of(r);
  kernel.arrays.insert(kernel.arrays.end(), host_locals.begin(), host_locals.end());
  frame.aliased = aliased_arrays(program);

  // To the kernel a local of the host is an argument: one element of it is `s[0]`, not the variable `s`.
  std::map<Array, Array> as_argument;
  for (const Array& array : host_locals)
    as_argument[array] = make_array(array->name, array->type, array->shape, ArrayRole::Tape, array->location);
  frame.root = as_argument.empty() ? s : replace_arrays(s, as_argument);
  if (has_mode(s, LoopMode::Grid)) frame.root = with_private_arrays(frame.root);
  for (const Array& array : kernel.arrays) {
    const auto found = as_argument.find(array);
    frame.arguments.push_back(found == as_argument.end() ? array : found->second);
    if (r.written.count(array)) frame.written.insert(frame.arguments.back());
  }

  // The host evaluates the bounds: the loops must be those of the program, not of the copy.
  for (Stmt inner = s; has_mode(inner, LoopMode::Grid); inner = inner.as<For>()->body)
    kernel.grid.push_back(inner.as<For>());
  for (Stmt inner = frame.root; has_mode(inner, LoopMode::Grid); inner = frame.in_block)
    frame.in_block = inner.as<For>()->body;
  kernel.threads = threads_of(frame.root);
  return frame;
}

namespace {

/// Whether the kernel writes memory of which nobody promises that nothing else points to it. (What its threads exchange
/// is not known yet, before its statements are written.)
bool writes_unrestricted_memory(const KernelFrame& frame) {
  bool result = false;
  for (const Array& array : frame.arguments) result |= frame.written.count(array) && frame.aliased.count(array);
  walk_stmts(frame.root, [&](const Stmt& s) {
    const auto* n = s.as<Allocate>();
    if (!n) return;
    for (const Expr& extent : n->array->shape) result |= !as_int(extent);
  });
  return result;
}

/// Loads of arguments that the kernel only reads are marked as such where the compiler cannot see it.
void mark_constant_loads(const KernelFrame& frame, KernelScope& scope) {
  if (!writes_unrestricted_memory(frame)) return;
  for (const Array& array : frame.arguments)
    if (!frame.written.count(array) && !frame.aliased.count(array) && array->type != ScalarType::Bool)
      scope.state.constant.insert(array);
}

}  // namespace

void declare_arguments(const Program& program, const KernelFrame& frame, KernelScope& scope) {
  EmitState& state = scope.state;
  mark_constant_loads(frame, scope);
  for (const Symbol& symbol : frame.kernel.symbols) state.names.of(symbol);
  for (const Array& array : frame.arguments) state.names.of(array);
  // Symbols that the host knows stand for themselves.
  for (const Symbol& symbol : frame.kernel.symbols) scope.ranges.variables[symbol] = {var(symbol), var(symbol)};
  scope.ranges.non_negative = [&state](const Symbol& symbol) { return state.non_negative.count(symbol) > 0; };
  scope.ranges.leaf = [](const Expr&) { return std::optional<Range>(); };
  // Loops of the host, outermost first.
  walk_stmts(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (loop && is_non_negative(loop->lower, state)) state.non_negative.insert(loop->iterator);
  });
}

std::string launch_bounds_text(const Program& program, const CudaKernel& kernel, bool has_long_columns) {
  if (kernel.threads.empty()) return "";
  const std::int64_t threads = most_threads(program, kernel.threads);
  const bool usual = threads == 256;  // what `column_blocks` is meant for
  return fmt::format("__launch_bounds__({}{}) ", threads, has_long_columns && usual ? ", column_blocks" : "");
}

std::string parameters_text(const KernelFrame& frame, KernelScope& scope) {
  const CudaKernel& kernel = frame.kernel;
  std::vector<std::string> list;
  for (const Symbol& symbol : kernel.symbols) list.push_back(scope.state.index_type + " " + scope.name_of(symbol));
  for (const Array& array : frame.arguments) {
    const bool shared = frame.aliased.count(array) || frame.exchanged.count(array);
    // Without the promise for arrays that are only read, what they are promised by the others is enough, and the
    // compiler marks as constant only loads that are. With it, NVRTC 13.0 merges `c ? only_read[i] : written[j]` into
    // one load of memory that never changes, which then misses what the kernel has written
    // (tests/unit/cuda/constant_loads_test.cpp); but for loads that are marked already, which it does not merge with
    // others.
    const bool written = frame.written.count(array) > 0;
    const bool promised = written ? !shared : scope.state.constant.count(array) > 0;
    list.push_back(fmt::format("{}{}* {}{}", written ? "" : "const ", storage_cpp_type(array->type),
                               promised ? "__restrict__ " : "", scope.state.names.of(array)));
  }
  for (const KernelLocal& local : kernel.locals) {
    list.push_back(fmt::format("{}* {}", storage_cpp_type(local.type), local.memory));
    list.push_back("int64_t " + local.part);
  }
  if (kernel.uses_stack) {
    list.push_back("unsigned char* stack_bytes");
    list.push_back("int64_t stack_capacity");
    list.push_back("int64_t* stack_state");
  }
  return joined(list, 40, 4);
}

}  // namespace loopgrad::backend
