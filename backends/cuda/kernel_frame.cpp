#include "backends/cuda/kernel_frame.h"

#include "backends/cuda/private_arrays.h"
#include "dsl/ir/rewriter.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

namespace {

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
                            [](const Contraction&) {}, [](const Barrier&) {}, [](const CustomGradient&) {}});
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

/// Arguments in which threads may find after a barrier what others have written before it: those that are written and
/// touched in more than one place, in a kernel with barriers. `__restrict__` would promise the compiler that nobody
/// else changes them, so that it keeps what a thread has read, or delays what it has written, across a barrier.
std::set<Array> exchanged_arrays(const KernelFrame& frame) {
  std::map<Array, int> places;
  bool waits = false;
  walk(
      frame.root,
      [&](const Stmt& s) {
        waits |= s.kind() == Kind::Barrier;
        if (const auto* n = s.as<Assign>()) ++places[n->array];
        if (const auto* n = s.as<Reduce>()) places[n->array] += 2;  // reads as well
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<Load>()) ++places[load->array];
      });
  std::set<Array> result;
  for (const Array& array : frame.written)
    if (waits && places[array] > 1) result.insert(array);
  return result;
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
  if (!kernel.grid.empty()) kernel.threads = kernel.grid.front()->block;
  if (!kernel.grid.empty() && kernel.grid.front()->run.teams) {
    kernel.teams = kernel.threads.back();
    kernel.threads.pop_back();
  }
  frame.exchanged = exchanged_arrays(frame);
  return frame;
}

namespace {

/// Whether the kernel writes memory of which nobody promises that nothing else points to it, but for what its threads
/// exchange.
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
  // Loops of the host, outermost first.
  walk_stmts(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    if (loop && is_non_negative(loop->lower, state)) state.non_negative.insert(loop->iterator);
  });
}

std::string launch_bounds_text(const KernelFrame& frame, bool any_width) {
  if (frame.kernel.threads.empty()) return "";
  const LoopRun& run = frame.root.as<For>()->run;
  return fmt::format("__launch_bounds__({}{}) ", run.most_threads,
                     any_width && run.many_blocks ? ", column_blocks" : "");
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
    list.push_back(fmt::format("{}{}* {}{}", written ? "" : "const ", storage_cpp_type(array),
                               promised ? "__restrict__ " : "", scope.state.names.of(array)));
  }
  for (const KernelLocal& local : kernel.locals) {
    list.push_back(fmt::format("{}* {}", storage_cpp_type(local.array), local.memory));
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
