#include "backends/cuda/kernel_text.h"

#include "backends/cuda/private_arrays.h"
#include "backends/openmp/expr_text.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/gpu/contiguous.h"
#include "transforms/gpu/strides.h"
#include "transforms/linear_form.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend {
namespace {

using namespace ir;

constexpr std::int64_t most_static_shared_bytes = 8 * 1024;
constexpr std::int64_t most_thread_bytes = 1024;
constexpr std::int64_t most_block_threads = 1024;
constexpr std::int64_t most_unrolled_trips = 16;

bool is_threads_loop(const Stmt& s) {
  const auto* loop = s ? s.as<For>() : nullptr;
  return loop && loop->mode == LoopMode::Threads;
}

/// Arrays that a statement reads and writes, by what they share memory with.
struct Touched {
  std::set<Array> reads, writes;
};

/// What a kernel refers to.
struct References {
  std::set<Symbol> free, bound;
  std::set<Array> used, allocated, written;
  bool stack = false, atomics = false;
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

class KernelWriter {
 public:
  KernelWriter(const Program& program, const Stmt& s, const std::string& name) : program_(program), state_(program) {
    text_.kernel.name = name;
    text_.kernel.node = s.get();
    aliases_ = ir::aliased_arrays(program);
    prepare(s);
    state_.position = [this](const Array& array, const std::vector<Expr>& indices) {
      return position_from_places(array, indices);
    };
  }

  KernelText write() {
    if (text_.kernel.uses_stack) line("Stack stack(stack_bytes, stack_capacity, stack_state);");
    if (text_.kernel.grid.empty()) {
      in_thread_ = true;
      emit(root_);
    } else {
      emit_grid(root_, 0);
    }
    if (text_.kernel.uses_stack) line("stack.finish();");
    const std::string body = std::move(out_);
    text_.definition = fmt::format("\nextern \"C\" __global__ void {}{}({}) {{\n{}{}}}\n", bounds_text(),
                                   text_.kernel.name, parameters(), preamble_, body);
    text_.helpers = std::move(state_.helpers);
    return std::move(text_);
  }

 private:
  // Preparation.

  void prepare(const Stmt& s) {
    const References r = references_of(s);
    CudaKernel& kernel = text_.kernel;
    kernel.uses_stack = r.stack;
    written_ = r.written;
    // Sizes and arguments come first and in the program's order, so that they keep their names.
    for (const Symbol& size : program_.sizes)
      if (r.free.count(size)) kernel.symbols.push_back(size);
    for (const Symbol& symbol : r.free)
      if (std::find(kernel.symbols.begin(), kernel.symbols.end(), symbol) == kernel.symbols.end())
        kernel.symbols.push_back(symbol);
    for (const Symbol& symbol : kernel.symbols) state_.names.of(symbol);
    for (const Array& array : program_.arrays)
      if (r.used.count(array)) kernel.arrays.push_back(array);
    std::vector<Array> host_locals;
    for (const Array& array : r.used)
      if (array->role == ArrayRole::Local && !r.allocated.count(array)) host_locals.push_back(array);
    std::sort(host_locals.begin(), host_locals.end(), [](const Array& a, const Array& b) { return a->id < b->id; });
    kernel.arrays.insert(kernel.arrays.end(), host_locals.begin(), host_locals.end());

    // To the kernel a local of the host is an argument: one element of it is `s[0]`, not the variable `s`.
    std::map<Array, Array> as_argument;
    for (const Array& array : host_locals)
      as_argument[array] = make_array(array->name, array->type, array->shape, ArrayRole::Tape, array->location);
    root_ = with_private_arrays(as_argument.empty() ? s : replace_arrays(s, as_argument), private_arrays_);
    for (const Array& array : kernel.arrays) {
      const auto found = as_argument.find(array);
      parameters_.push_back(found == as_argument.end() ? array : found->second);
      if (r.written.count(array)) written_.insert(parameters_.back());
      state_.names.of(parameters_.back());
    }
    for (Stmt inner = root_; inner.as<For>() && inner.as<For>()->mode == LoopMode::Grid;
         inner = inner.as<For>()->body) {
      kernel.grid.push_back(inner.as<For>());
      grid_body_ = inner.as<For>()->body;
    }
    // The host evaluates these: they must be those of the program, not of the copy.
    host_grid(s);
    note_host_symbols();
    find_threads(root_);
    find_shared_scalars();
  }

  void host_grid(const Stmt& s) {
    std::size_t k = 0;
    for (Stmt inner = s; k < text_.kernel.grid.size(); inner = inner.as<For>()->body)
      text_.kernel.grid[k++] = inner.as<For>();
  }

  void find_threads(const Stmt& s) {
    std::vector<Expr> found;
    walk_stmts(s, [&](const Stmt& t) {
      if (!found.empty() || !is_threads_loop(t) || as_int(t.as<For>()->upper) == 1) return;
      for (Stmt inner = t; is_threads_loop(inner); inner = inner.as<For>()->body)
        found.insert(found.begin(), inner.as<For>()->upper);
    });
    text_.kernel.threads = found;
  }

  /// Scalars of the block that single threads set live in shared memory; of the others every thread keeps a copy.
  void find_shared_scalars() {
    collect_block_memory(grid_body_);
    walk_stmts(root_, [&](const Stmt& t) {
      if (!is_threads_loop(t)) return;
      walk_stmts(t, [&](const Stmt& leaf) {
        if (const auto* a = leaf.as<Assign>(); a && block_scalars_.count(a->array)) shared_scalars_.insert(a->array);
        const auto* r = leaf.as<Reduce>();
        if (r && !r->atomic && block_scalars_.count(r->array)) shared_scalars_.insert(r->array);
      });
    });
    block_memory_.insert(shared_scalars_.begin(), shared_scalars_.end());
  }

  void collect_block_memory(const Stmt& s) {
    if (!s || is_threads_loop(s)) return;
    if (const auto* a = s.as<Allocate>(); a && !private_arrays_.count(a->array))
      (a->array->shape.empty() ? block_scalars_ : block_memory_).insert(a->array);
    visit(s, [&](const auto& node) {
      for_each_child(node, overloaded{[](const Expr&) {}, [&](const Stmt& child) { collect_block_memory(child); }});
    });
  }

  // The frame.

  std::string bounds_text() const {
    if (text_.kernel.threads.empty()) return "";
    return fmt::format("__launch_bounds__({}) ", most_threads());
  }

  /// The most threads that a block can have, as far as the loops of one trip around the kernel tell.
  std::int64_t most_threads() const {
    std::map<Symbol, Expr> values;
    walk_stmts(program_.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      if (loop && equal(loop->upper, loop->lower + int_const(1))) values[loop->iterator] = loop->lower;
    });
    std::int64_t most = 1;
    for (const Expr& extent : text_.kernel.threads) {
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

  /// Of constants and choices between them.
  static std::optional<std::int64_t> largest(const Expr& e) {
    if (const auto* n = e.as<Binary>(); n && n->op == BinaryOp::FloorDiv) return largest(n->a);
    const auto* choice = e.as<Select>();
    if (!choice) return as_int(e);
    const auto a = largest(choice->a), b = largest(choice->b);
    return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
  }

  std::string parameters() {
    std::vector<std::string> list;
    for (const Symbol& symbol : text_.kernel.symbols) list.push_back("int64_t " + state_.names.of(symbol));
    for (const Array& array : parameters_) {
      list.push_back(fmt::format("{}{}* {}{}", written_.count(array) ? "" : "const ", storage_cpp_type(array->type),
                                 aliases_.count(array) ? "" : "__restrict__ ", state_.names.of(array)));
    }
    for (const KernelLocal& local : text_.kernel.locals) {
      list.push_back(fmt::format("{}* {}_memory", storage_cpp_type(local.type), local.name));
      list.push_back(fmt::format("int64_t {}_part", local.name));
    }
    if (text_.kernel.uses_stack) {
      list.push_back("unsigned char* stack_bytes");
      list.push_back("int64_t stack_capacity");
      list.push_back("int64_t* stack_state");
    }
    std::string out;
    std::size_t column = 40;
    for (const std::string& item : list) {
      const bool wrap = column + item.size() > 110;
      out += (out.empty() ? "" : wrap ? ",\n    " : ", ") + item;
      column = wrap ? 4 + item.size() : column + item.size() + 2;
    }
    return out;
  }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_.append(static_cast<std::size_t>(2 * depth_), ' ');
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  template <class F>
  void indented(F&& f) {
    ++depth_;
    f();
    --depth_;
  }
  void comment(const SourceLocation& where) {
    if (!where.known() || where.str() == last_comment_) return;
    last_comment_ = where.str();
    line("// {}", last_comment_);
  }
  std::string text(const Expr& e, Level surrounding = Level::Any) { return text_of(e, state_, surrounding); }
  void note_sign(const For& n) {
    if (is_non_negative(n.lower, state_)) state_.non_negative.insert(n.iterator);
    const auto lower = range_of(n.lower, ranges_), upper = range_of(n.upper, ranges_);
    if (lower && upper) ranges_.variables[n.iterator] = {lower->lowest, upper->highest - int_const(1)};
  }

  /// Symbols that the host knows stand for themselves.
  void note_host_symbols() {
    for (const Symbol& symbol : text_.kernel.symbols) ranges_.variables[symbol] = {var(symbol), var(symbol)};
    ranges_.non_negative = [this](const Symbol& symbol) { return state_.non_negative.count(symbol) > 0; };
    ranges_.leaf = [](const Expr&) { return std::optional<Range>(); };
    // Loops of the host, outermost first.
    walk_stmts(program_.body, [&](const Stmt& s) {
      const auto* loop = s.as<For>();
      if (loop && is_non_negative(loop->lower, state_)) state_.non_negative.insert(loop->iterator);
    });
  }

  // The grid.

  void emit_grid(const Stmt& s, std::size_t level) {
    if (level == text_.kernel.grid.size()) {
      emit(s);
      // The block's next iteration is independent of this one but for the memory that it uses again.
      barrier_if(overlap(pending_.writes, block_memory_) || overlap(pending_.reads, block_memory_));
      pending_ = {};
      return;
    }
    const For& n = *s.as<For>();
    note_sign(n);
    const std::string name = state_.names.of(n.iterator);
    const std::size_t from_last = text_.kernel.grid.size() - 1 - level;
    if (from_last > 2) {  // more loops than a grid has dimensions
      line("for (int64_t {0} = {1}; {0} < {2}; ++{0}) {{", name, text(n.lower), text(n.upper, Level::Sum));
    } else {
      const char axis = "xyz"[from_last];
      const std::string first = as_int(n.lower) == 0 ? fmt::format("blockIdx.{}", axis)
                                                     : fmt::format("{} + blockIdx.{}", text(n.lower, Level::Sum), axis);
      line("for (int64_t {0} = {1}; {0} < {2}; {0} += gridDim.{3}) {{", name, first, text(n.upper, Level::Sum), axis);
    }
    indented([&] { emit_grid(n.body, level + 1); });
    line("}}");
  }

  // Barriers: before a statement that touches what other threads of the block have touched since the last one.

  void add_access(const Array& array, bool write, Touched& touched) const {
    if (private_arrays_.count(array) || (block_scalars_.count(array) && !shared_scalars_.count(array))) return;
    (write ? touched.writes : touched.reads).insert(aliases_.count(array) ? *aliases_.begin() : array);
  }

  Touched touched_by(const Expr& e) const {
    Touched touched;
    walk(e, [&](const Expr& x) {
      if (const auto* l = x.as<Load>()) add_access(l->array, false, touched);
    });
    return touched;
  }

  Touched touched_by(const Stmt& s) const {
    Touched touched;
    walk(
        s,
        [&](const Stmt& t) {
          if (const auto* n = t.as<Assign>()) add_access(n->array, true, touched);
          if (const auto* n = t.as<Reduce>()) add_access(n->array, true, touched);
        },
        [&](const Expr& x) {
          if (const auto* l = x.as<Load>()) add_access(l->array, false, touched);
        });
    return touched;
  }

  static bool overlap(const std::set<Array>& a, const std::set<Array>& b) {
    return std::any_of(a.begin(), a.end(), [&](const Array& x) { return b.count(x) > 0; });
  }

  void barrier_if(bool needed) {
    if (!needed || text_.kernel.threads.empty()) {
      if (needed) pending_ = {};
      return;
    }
    line("__syncthreads();");
    pending_ = {};
  }

  void before(const Touched& next) {
    barrier_if(overlap(next.reads, pending_.writes) || overlap(next.writes, pending_.writes) ||
               overlap(next.writes, pending_.reads));
    pending_.reads.insert(next.reads.begin(), next.reads.end());
    pending_.writes.insert(next.writes.begin(), next.writes.end());
  }
  void flush() { barrier_if(!pending_.writes.empty()); }

  // Statements.

  void emit(const Stmt& s) {
    if (!s) return;
    visit(s,
          overloaded{[&](const Block& n) {
                       for (const Stmt& child : n.body) emit(child);
                     },
                     [&](const For& n) { emit_loop(s, n); }, [&](const While& n) { emit_while(n); },
                     [&](const If& n) { emit_if(n); },
                     [&](const Assign& n) {
                       at_block_level(s);
                       comment(n.location);
                       line("{} = {};", element_text(n.array, n.indices, state_),
                            stored(n.array->type, text(n.value), state_));
                     },
                     [&](const Reduce& n) { emit_reduce(s, n); }, [&](const Allocate& n) { emit_allocate(n); },
                     [&](const Push& n) { line("stack.push<{}>({});", value_cpp_type(n.value.type()), text(n.value)); },
                     [&](const Pop& n) { emit_pop(n); }, [&](const Contraction& n) { emit(n.loops); }});
  }

  /// A statement that all threads execute on their copies of the block's scalars.
  void at_block_level(const Stmt& s) {
    if (!in_thread_) before(touched_by(s));
  }

  void emit_threads(const Stmt& s) {
    before(touched_by(s));
    const bool single = as_int(s.as<For>()->upper) == 1;
    in_thread_ = true;
    line("{}{{", single && !text_.kernel.threads.empty() ? "if (threadIdx.x == 0) " : "");
    indented([&] {
      Stmt body = s;
      const char* axis = "xyz";
      std::size_t left = single ? 1 : text_.kernel.threads.size();
      for (; is_threads_loop(body) && left > 0; body = body.as<For>()->body) {
        const For& n = *body.as<For>();
        note_sign(n);
        if (!single) line("const int64_t {} = threadIdx.{};", state_.names.of(n.iterator), axis[--left]);
        else left = 0;
      }
      emit(body);
    });
    line("}}");
    in_thread_ = false;
  }

  void emit_loop(const Stmt& s, const For& n) {
    if (n.mode == LoopMode::Threads) return emit_threads(s);
    comment(n.location);
    note_sign(n);
    if (emit_strided(n) || emit_chunk(n)) return;
    enter(n.lower, n.upper);
    if (const auto trips = as_int(n.upper - n.lower); in_thread_ && trips && *trips <= most_unrolled_trips)
      line("#pragma unroll");
    const std::string name = state_.names.of(n.iterator);
    if (n.mode == LoopMode::Backward) {
      const std::string lower = bound(n.lower, name + "_begin");
      line("for (int64_t {0} = {1}; {0} >= {2}; --{0}) {{", name, text(n.upper - int_const(1)), lower);
    } else {
      const std::string upper = bound(n.upper, name + "_end");
      line("for (int64_t {0} = {1}; {0} < {2}; ++{0}) {{", name, text(n.lower), upper);
    }
    emit_body(n.body);
    line("}}");
  }

  /// Bounds are evaluated once: those that read data get a constant of their own.
  std::string bound(const Expr& e, const std::string& wish) {
    if (!has_load(e)) return text(e, Level::Sum);
    const std::string name = state_.names.fresh(wish);
    line("const int64_t {} = {};", name, text(e));
    return name;
  }

  /// Before control flow that all threads of the block take together.
  template <class... Exprs>
  void enter(const Exprs&... exprs) {
    if (in_thread_) return;
    flush();
    for (const Expr& e : {exprs...}) before(touched_by(e));
  }

  void emit_body(const Stmt& body) {
    indented([&] {
      emit(body);
      if (!in_thread_) barrier_if(!pending_.writes.empty() || !pending_.reads.empty());
    });
  }

  // Chunks: what `transforms/gpu/contiguous.h` makes.

  static std::optional<std::pair<transforms::Chunk, std::int64_t>> any_chunk_of(const For& n) {
    for (const std::int64_t width : {std::int64_t{1}, transforms::chunk_width})
      if (const auto chunk = transforms::chunk_of(n, width)) return std::pair{*chunk, width};
    return std::nullopt;
  }

  /// for i in e..min(e + 1, n): `i = e, if (i < n)`; for wider ones see `emit_wide`.
  bool emit_chunk(const For& n) {
    const auto found = in_thread_ ? any_chunk_of(n) : std::nullopt;
    if (!found) return false;
    const auto& [chunk, width] = *found;
    const Symbol start = start_of(n, chunk, width);
    line("const int64_t {} = {};", state_.names.of(start), text(chunk.start));
    emit_chunk_at(n, start, chunk, width);
    return true;
  }

  /// The name of the first iteration: that of the only one, or one of its own.
  Symbol start_of(const For& n, const transforms::Chunk& chunk, std::int64_t width) {
    if (width == 1 && !chunk.lowest) return n.iterator;
    const Symbol start = make_symbol(n.iterator.name + "_start");
    if (is_non_negative(chunk.start, state_)) state_.non_negative.insert(start);
    return start;
  }

  void emit_chunk_at(const For& n, const Symbol& start, const transforms::Chunk& chunk, std::int64_t width) {
    if (start == n.iterator) {
      line("if ({} < {}) {{", state_.names.of(start), text(chunk.upper, Level::Sum));
      const std::size_t places = places_.size();
      indented([&] { declare_places(n.body); });
      emit_body(n.body);
      places_.resize(places);
      return line("}}");
    }
    std::vector<ChunkLoop> loops = {{&n, start, chunk}};
    const auto* inner = n.body.as<For>();
    const auto below = inner ? transforms::chunk_of(*inner, width) : std::nullopt;
    if (below) {
      note_sign(*inner);
      const Symbol inner_start = start_of(*inner, *below, width);
      line("const int64_t {} = {};", state_.names.of(inner_start), text(below->start));
      loops.push_back({inner, inner_start, *below});
    }
    emit_wide(loops);
  }

  /// The position of one element in its array, as a variable of the emitted code.
  struct Place {
    Array array;
    std::vector<Expr> indices;
    Symbol position;
  };

  /// How far from a place an element is, in sizes; null when that varies.
  static Expr distance_from(const Place& place, const std::vector<Expr>& indices) {
    Expr distance = int_const(0);
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const transforms::LinearForm step = transforms::linear_form(indices[d] - place.indices[d]);
      if (!step.terms.empty()) return {};
      Expr elements = int_const(step.constant);
      for (std::size_t inner = d + 1; inner < indices.size(); ++inner) elements = elements * place.array->shape[inner];
      distance = distance + elements;
    }
    return distance;
  }

  std::string position_from_places(const Array& array, const std::vector<Expr>& indices) {
    for (const Place& place : places_) {
      const Expr distance = place.array == array ? distance_from(place, indices) : Expr();
      if (distance) return text(var(place.position) + distance);
    }
    return "";
  }

  /// Neighbouring elements, as stencils touch them, are addressed from one of them: the compiler does not find by
  /// itself that their positions differ by constants.
  void declare_places(const Stmt& body) {
    std::vector<Place> found;
    std::vector<int> used;  // how many different elements are addressed from each
    auto note = [&](const Array& array, const std::vector<Expr>& indices) {
      if (indices.size() < 2 || std::any_of(indices.begin(), indices.end(), has_load)) return;
      for (std::size_t k = 0; k < found.size(); ++k) {
        if (found[k].array != array || !distance_from(found[k], indices)) continue;
        used[k] += !equal(found[k].indices, indices);
        return;
      }
      found.push_back({array, indices, make_symbol(array->name + "_at")});
      used.push_back(0);
    };
    for_each_access_outside_loops(body, note);
    for (std::size_t k = 0; k < found.size(); ++k) {
      if (used[k] == 0) continue;
      const std::string element = element_text(found[k].array, found[k].indices, state_);
      const std::size_t bracket = element.find('[') + 1;
      line("const int64_t {} = {};", state_.names.of(found[k].position),
           element.substr(bracket, element.size() - bracket - 1));
      places_.push_back(found[k]);
    }
  }

  template <class F>
  static void for_each_access_outside_loops(const Stmt& s, F&& note) {
    if (!s || s.kind() == Kind::For || s.kind() == Kind::While) return;
    if (const auto* n = s.as<Assign>()) note(n->array, n->indices);
    if (const auto* n = s.as<Reduce>()) note(n->array, n->indices);
    visit(s, [&](const auto& node) {
      for_each_child(node, overloaded{[&](const Expr& e) {
                                        walk(e, [&](const Expr& x) {
                                          if (const auto* l = x.as<Load>()) note(l->array, l->indices);
                                        });
                                      },
                                      [&](const Stmt& child) { for_each_access_outside_loops(child, note); }});
    });
  }

  struct ChunkLoop {
    const For* loop;
    Symbol start;
    transforms::Chunk chunk;
  };

  /// All iterations at once with wide accesses if all of them exist and the accesses are aligned, else one by one.
  void emit_wide(const std::vector<ChunkLoop>& loops) {
    const Stmt& body = loops.back().loop->body;
    std::vector<Symbol> iterators;
    for (const ChunkLoop& l : loops) iterators.push_back(l.loop->iterator);
    const auto accesses = transforms::contiguous_accesses(body, iterators, aliases_);
    if (accesses.empty()) return loops.size() == 1 ? emit_column(loops[0]) : emit_narrow(loops, 0);
    text_.uses_wide_accesses = true;

    std::string condition;
    std::map<Symbol, Expr> starts;
    for (const ChunkLoop& l : loops) {
      starts[l.loop->iterator] = var(l.start);
      const std::string& start = state_.names.of(l.start);
      if (l.chunk.lowest) condition += fmt::format("{} >= {} && ", start, text(l.chunk.lowest, Level::Sum));
      condition += fmt::format("{} + {} <= {} && ", start, transforms::chunk_width, text(l.chunk.upper, Level::Sum));
    }
    std::vector<Wide> wides;
    for (const auto& access : accesses) wides.push_back(wide_of(access, loops, starts));
    // When two rows are aligned, so are all: they are equally far apart.
    std::string separator;
    for (const Wide& wide : wides) {
      for (std::size_t row = 0; row < std::min<std::size_t>(wide.rows.size(), 2); ++row) {
        condition += fmt::format("{}is_aligned(&{})", separator, wide.rows[row]);
        separator = " && ";
      }
    }
    line("if ({}) {{", condition);
    indented([&] { emit_wide_body(loops, body, wides); });
    line("}} else {{");
    indented([&] { emit_narrow(loops, 0); });
    line("}}");
  }

  /// A wide access: the registers that stand for the array, and the elements that it moves.
  struct Wide {
    transforms::ContiguousAccess access;
    Array registers;
    std::vector<Expr> lanes;        // indices of `registers` inside the loops
    std::vector<std::string> rows;  // elements at which runs of neighbours start
  };

  Wide wide_of(const transforms::ContiguousAccess& access, const std::vector<ChunkLoop>& loops,
               const std::map<Symbol, Expr>& starts) {
    Wide wide{access, {}, {}, {}};
    const std::size_t along = static_cast<std::size_t>(access.along);
    auto element = [&](std::int64_t row) {
      std::map<Symbol, Expr> at = starts;
      if (loops.size() > 1) {
        Expr& other = at[loops[1 - along].loop->iterator];
        other = other + int_const(row);
      }
      std::vector<Expr> indices;
      for (const Expr& index : access.indices) indices.push_back(substitute(index, at));
      return element_text(access.array, indices, state_);
    };
    const std::int64_t rows = loops.size() > 1 ? transforms::chunk_width : 1;
    for (std::int64_t row = 0; row < rows; ++row) wide.rows.push_back(element(row));
    std::vector<Expr> shape(loops.size(), int_const(transforms::chunk_width));
    wide.registers = make_array(access.array->name + "_wide", access.array->type, shape, ArrayRole::Local, {});
    if (loops.size() > 1) wide.lanes.push_back(lane_of(loops[1 - along], starts));
    wide.lanes.push_back(lane_of(loops[along], starts));
    return wide;
  }

  static Expr lane_of(const ChunkLoop& l, const std::map<Symbol, Expr>& starts) {
    return var(l.loop->iterator) - starts.at(l.loop->iterator);
  }

  void emit_wide_body(const std::vector<ChunkLoop>& loops, const Stmt& body, const std::vector<Wide>& wides) {
    const std::int64_t width = transforms::chunk_width;
    std::map<Array, const Wide*> wide_of_array;
    for (const Wide& wide : wides) {
      wide_of_array[wide.access.array] = &wide;
      const std::string name = state_.names.of(wide.registers);
      line("alignas(16) {} {}[{}];", storage_cpp_type(wide.registers->type), name,
           width * static_cast<std::int64_t>(wide.rows.size()));
      if (!wide.access.reads) continue;
      for (std::size_t row = 0; row < wide.rows.size(); ++row)
        line("copy_four({} + {}, &{});", name, width * static_cast<std::int64_t>(row), wide.rows[row]);
    }
    for (const ChunkLoop& l : loops) {
      line("#pragma unroll");
      line("for (int64_t {0} = {1}; {0} < {1} + {2}; ++{0}) {{", state_.names.of(l.loop->iterator),
           state_.names.of(l.start), width);
      ++depth_;
    }
    emit(in_registers(body, wide_of_array));
    for (std::size_t k = 0; k < loops.size(); ++k) {
      --depth_;
      line("}}");
    }
    for (const Wide& wide : wides) {
      if (!wide.access.writes) continue;
      for (std::size_t row = 0; row < wide.rows.size(); ++row)
        line("copy_four(&{}, {} + {});", wide.rows[row], state_.names.of(wide.registers),
             width * static_cast<std::int64_t>(row));
    }
  }

  static Stmt in_registers(const Stmt& body, const std::map<Array, const Wide*>& wides) {
    ExprRewrite on_expr = [&](const Expr& e) -> std::optional<Expr> {
      const auto* l = e.as<Load>();
      const auto found = l ? wides.find(l->array) : wides.end();
      if (found == wides.end()) return std::nullopt;
      return load(found->second->registers, found->second->lanes, l->location);
    };
    return rewrite(body, on_expr, [&](const Stmt& s) -> std::optional<Stmt> {
      if (const auto* n = s.as<Assign>(); n && wides.count(n->array)) {
        const Wide& wide = *wides.at(n->array);
        return assign(wide.registers, wide.lanes, rewrite(n->value, on_expr), n->location);
      }
      if (const auto* n = s.as<Reduce>(); n && wides.count(n->array)) {
        const Wide& wide = *wides.at(n->array);
        return reduce(wide.registers, wide.lanes, n->op, rewrite(n->value, on_expr), n->location);
      }
      return std::nullopt;
    });
  }

  /// All iterations in a row if they exist: without loops around them, what one computes for its addresses helps the
  /// next.
  void emit_column(const ChunkLoop& l) {
    const std::string& start = state_.names.of(l.start);
    std::string condition =
        fmt::format("{} + {} <= {}", start, transforms::chunk_width, text(l.chunk.upper, Level::Sum));
    if (l.chunk.lowest) condition += fmt::format(" && {} >= {}", start, text(l.chunk.lowest, Level::Sum));
    line("if ({}) {{", condition);
    indented([&] {
      line("#pragma unroll");
      line("for (int64_t {0} = {1}; {0} < {1} + {2}; ++{0}) {{", state_.names.of(l.loop->iterator), start,
           transforms::chunk_width);
      indented([&] { emit_with_places(l.loop->body); });
      line("}}");
    });
    line("}} else {{");
    indented([&] { emit_narrow({l}, 0); });
    line("}}");
  }

  void emit_with_places(const Stmt& body) {
    const std::size_t places = places_.size();
    declare_places(body);
    emit(body);
    places_.resize(places);
  }

  void emit_narrow(const std::vector<ChunkLoop>& loops, std::size_t level) {
    if (level == loops.size()) return emit_with_places(loops.back().loop->body);
    const ChunkLoop& l = loops[level];
    const std::string upper = text(l.chunk.upper, Level::Sum), &start = state_.names.of(l.start);
    const std::string first =
        l.chunk.lowest ? fmt::format("{0} < {1} ? {1} : {0}", start, text(l.chunk.lowest, Level::Sum)) : start;
    line("for (int64_t {0} = {1}; {0} < {2} + {3} && {0} < {4}; ++{0}) {{", state_.names.of(l.loop->iterator), first,
         start, transforms::chunk_width, upper);
    indented([&] { emit_narrow(loops, level + 1); });
    line("}}");
  }

  /// for step in 0..trips: for i in start + step*stride..min(.. + width, upper)
  bool emit_strided(const For& n) {
    const auto* inner = n.body.as<For>();
    if (!in_thread_ || n.mode != LoopMode::Forward || as_int(n.lower) != 0 || !inner) return false;
    const auto found = any_chunk_of(*inner);
    if (!found) return false;
    const auto& [chunk, width] = *found;
    const auto* sum = chunk.start.as<Binary>();
    if (!sum || sum->op != BinaryOp::Add) return false;
    const auto* step = sum->b.as<Binary>();
    if (!step || step->op != BinaryOp::Mul || !step->a.as<Var>() || step->a.as<Var>()->symbol != n.iterator)
      return false;
    const Expr& stride = step->b;
    const Expr trips = binary(BinaryOp::FloorDiv, chunk.upper - sum->a + (stride - int_const(1)), stride);
    if (!equal(trips, n.upper)) return false;
    note_sign(*inner);
    const bool single = width == 1 && !chunk.lowest;
    const Symbol start = start_of(*inner, chunk, width);
    const std::string& name = state_.names.of(start);
    line("for (int64_t {0} = {1}; {0} < {2}; {0} += {3}) {{", name, text(sum->a), text(chunk.upper, Level::Sum),
         text(stride));
    if (single) emit_body(inner->body);
    else indented([&] { emit_chunk_at(*inner, start, chunk, width); });
    line("}}");
    return true;
  }

  void emit_while(const While& n) {
    enter(n.max_trips, n.condition);
    comment(n.location);
    state_.non_negative.insert(n.iterator);
    line("for (int64_t {0} = 0; {0} < {1} && {2}; ++{0}) {{", state_.names.of(n.iterator),
         text(n.max_trips, Level::Sum), text(n.condition, Level::Equality));
    indented([&] {
      emit(n.body);
      // All threads have evaluated the condition before any changes what it reads, and the other way round.
      if (!in_thread_) barrier_if(true);
    });
    line("}}");
  }

  void emit_if(const If& n) {
    enter(n.condition);
    comment(n.location);
    line("if ({}) {{", text(n.condition));
    emit_body(n.then_body);
    if (n.else_body) {
      line("}} else {{");
      emit_body(n.else_body);
    }
    line("}}");
  }

  void emit_reduce(const Stmt& s, const Reduce& n) {
    comment(n.location);
    if (n.atomic && block_scalars_.count(n.array)) return emit_block_reduce(n);
    at_block_level(s);
    const std::string target = element_text(n.array, n.indices, state_);
    const bool plain_storage = value_type(n.array->type) == n.array->type;
    const bool arithmetic = n.op == ReduceOp::Add || n.op == ReduceOp::Mul;
    text_.kernel.uses_atomics |= n.atomic;
    if (n.atomic && n.op == ReduceOp::Add && plain_storage && n.array->type != ScalarType::I64) {
      line("atomicAdd(&{}, {});", target, text(n.value));
    } else if (n.atomic) {
      state_.helpers.insert(Helper::AtomicUpdate);
      const char* const type = storage_cpp_type(n.array->type);
      line("atomic_update({}, [&]({} before) -> {} {{ return {}; }});", target, type, type,
           updated_text(n, "before", state_));
    } else if (plain_storage && arithmetic) {
      line("{} {} {};", target, name_of(n.op), text(n.value));
    } else {
      line("{} = {};", target, updated_text(n, target, state_));
    }
  }

  void emit_block_reduce(const Reduce& n) {
    text_.uses_block_reduce = true;
    const std::string name = state_.names.of(n.array);
    const char* const type = storage_cpp_type(n.array->type);
    const bool arithmetic = n.op == ReduceOp::Add || n.op == ReduceOp::Mul;
    const char symbol = n.op == ReduceOp::Add ? '+' : '*';
    const char* const helper = n.op == ReduceOp::Min ? "min_of" : "max_of";
    if (!arithmetic) state_.helpers.insert(n.op == ReduceOp::Min ? Helper::MinOf : Helper::MaxOf);
    const std::string combined = arithmetic ? fmt::format("a {} b", symbol) : fmt::format("{}(a, b)", helper);
    const std::string sum =
        fmt::format("block_reduce<{0}>({1}, []({0} a, {0} b) {{ return {2}; }})", type, text(n.value), combined);
    if (arithmetic) line("{} {}= {};", name, symbol, sum);
    else line("{0} = {1}({0}, {2});", name, helper, sum);
  }

  void emit_pop(const Pop& n) {
    const std::string popped = state_.names.fresh("popped");
    line("{} {};", value_cpp_type(value_type(n.array->type)), popped);
    line("stack.pop({});", popped);
    line("{} = {};", element_text(n.array, n.indices, state_), stored(n.array->type, popped, state_));
  }

  // Local arrays.

  void emit_allocate(const Allocate& n) {
    const Array& array = n.array;
    const char* const type = storage_cpp_type(array->type);
    const std::string name = state_.names.of(array);
    const auto bytes = constant_bytes(array);
    if (array->shape.empty()) {
      line("{}{} {};", shared_scalars_.count(array) ? "__shared__ " : "", type, name);
    } else if (private_arrays_.count(array)) {
      line("{} {}[{}];", type, name, *bytes / static_cast<std::int64_t>(bytes_of(array->type)));
    } else if (bytes && *bytes <= (in_thread_ ? most_thread_bytes : most_static_shared_bytes)) {
      const auto count = std::max<std::int64_t>(*bytes / static_cast<std::int64_t>(bytes_of(array->type)), 1);
      line("{}{} {}[{}];", in_thread_ ? "" : "__shared__ ", type, name, count);
    } else {
      declare_memory(array, name, type);
    }
    emit(n.body);
  }

  /// An upper bound that the host can evaluate. Of a minimum one operand is enough.
  std::optional<Expr> highest(const Expr& e) const {
    const auto* n = e.as<Binary>();
    if (!n || (n->op != BinaryOp::Min && n->op != BinaryOp::Max)) {
      const auto range = range_of(e, ranges_);
      return range ? std::optional(range->highest) : std::nullopt;
    }
    const auto a = highest(n->a), b = highest(n->b);
    if (a && b) return n->op == BinaryOp::Min ? smaller(*a, *b) : larger(*a, *b);
    return n->op == BinaryOp::Max ? std::nullopt : a ? a : b;
  }

  void declare_memory(const Array& array, const std::string& name, const char* type) {
    // Where an extent is known only inside the kernel, the largest that it can have.
    std::vector<Expr> shape;
    for (const Expr& extent : array->shape) {
      const auto bound = highest(extent);
      if (!bound)
        throw CompileError({.code = ErrorCode::CompileFailed,
                            .message = "the extent of this local array depends on data",
                            .program = program_.name,
                            .array = array->name,
                            .hint = "declare the array with its largest extent, or use Target::OpenMP",
                            .location = array->location});
      shape.push_back(*bound);
    }
    text_.kernel.locals.push_back({name, array->type, std::move(shape), in_thread_});
    need_block_number();
    if (in_thread_) {
      line("{0}* const {1} = {1}_memory + thread_number * {1}_part;", type, name);
      return;
    }
    need_dynamic_shared();
    line("{0}* const {1} = {1}_memory ? {1}_memory + block_number * {1}_part", type, name);
    line("    : reinterpret_cast<{}*>(dynamic_shared + {}_part);", type, name);
  }

  void need_block_number() {
    if (has_block_number_) return;
    has_block_number_ = true;
    preamble_ +=
        "  const int64_t block_number = blockIdx.x + int64_t(gridDim.x) * (blockIdx.y + int64_t(gridDim.y) * "
        "blockIdx.z);\n"
        "  const int64_t thread_number = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (threadIdx.z + "
        "blockDim.z * block_number));\n";
  }
  void need_dynamic_shared() {
    if (has_dynamic_shared_) return;
    has_dynamic_shared_ = true;
    preamble_ += "  extern __shared__ __align__(16) unsigned char dynamic_shared[];\n";
  }

  const Program& program_;
  EmitState state_;
  RangeContext ranges_;  // of the iterators in scope
  KernelText text_;
  Stmt root_, grid_body_;
  std::vector<Place> places_;      // in scope
  std::vector<Array> parameters_;  // as the kernel's text names them
  std::set<Array> written_, aliases_;
  std::set<Array> private_arrays_;                  // of the threads, declared outside of their loops
  std::set<Array> block_scalars_, shared_scalars_;  // of rank 0; those that are in shared memory
  std::set<Array> block_memory_;                    // all arrays of the block that its threads share
  Touched pending_;
  std::string out_, preamble_, last_comment_;
  int depth_ = 1;
  bool in_thread_ = false, has_block_number_ = false, has_dynamic_shared_ = false;
};

}  // namespace

KernelText kernel_text(const Program& program, const Stmt& s, const std::string& name) {
  return KernelWriter(program, s, name).write();
}

}  // namespace loopgrad::backend
