#include "backends/openmp/stmt_text.h"

#include "backends/c_text/parts.h"
#include "backends/openmp/clauses.h"
#include "backends/openmp/lane_sums.h"
#include "backends/openmp/local_memory.h"
#include "backends/openmp/multiply_text.h"
#include "backends/openmp/region.h"
#include "backends/openmp/streams.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/searches.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <set>

namespace loopgrad::backend {
namespace {

using namespace ir;

class StmtWriter {
 public:
  StmtWriter(const Program& program, const FunctionUses& uses, EmitState& state, const std::string& seconds)
      : uses_(uses), state_(state), memory_(state, code_), aliased_(aliased_arrays(program)), seconds_(seconds) {
    if (seconds.empty()) return;
    const Parts parts(program);
    for (const Stmt& part : parts.all()) timed_.emplace(part.get(), static_cast<int>(timed_.size()));
  }

  BodyText write(const Program& program) {
    if (uses_.can_fail) line("int status = loopgrad_ok;");
    if (uses_.stack) line("Stack stack(home);");
    emit(program.body);
    return {code_.take(), memory_.blocks(), static_cast<int>(timed_.size())};
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    code_.line(format, std::forward<Args>(args)...);
  }
  template <class F>
  void indented(F&& f) {
    code_.indented(std::forward<F>(f));
  }
  void pragma(const std::string& text) { line("#pragma {}", text); }

  std::string text(const Expr& e, Level surrounding = Level::Any) { return text_of(e, state_, surrounding); }
  std::string element(const Array& array, const std::vector<Expr>& indices) {
    return element_text(array, indices, state_);
  }

  void comment(const SourceLocation& where) { code_.comment(where); }

  void emit(const Stmt& s) {
    if (!s) return;
    timed(s, [&] { emit_untimed(s); });
  }

  /// What `f` emits, with its time added up where `s` is a part.
  template <class F>
  void timed(const Stmt& s, F&& f) {
    const auto part = timed_.find(s.get());
    if (part == timed_.end()) return f();
    const std::string begin = state_.names.fresh("begin");
    line("const double {} = omp_get_wtime();", begin);
    f();
    line("{}[{}] += omp_get_wtime() - {};", seconds_, part->second, begin);
  }

  void emit_untimed(const Stmt& s) {
    visit(s, overloaded{
                 [&](const Block& n) { emit_block(n); },
                 [&](const For& n) { emit_loop(s, n); },
                 [&](const While& n) { emit_while(s, n); },
                 [&](const If& n) { emit_if(n); },
                 [&](const Assign& n) {
                   comment(n.location);
                   line("{} = {};", element(n.array, n.indices), stored(n.array->type, n.value, state_));
                 },
                 [&](const Reduce& n) { emit_reduce(n); },
                 [&](const Allocate& n) { emit_allocate(n); },
                 [&](const Push& n) {
                   comment(n.location);
                   line("if (!stack.push<{}>({})) return loopgrad_out_of_memory;", value_cpp_type(n.value.type()),
                        text(n.value));
                 },
                 [&](const Pop& n) { emit_pop(n); },
                 [&](const Contraction& n) { emit_contraction(n); },
                 // Of a block of threads, which a CPU does not have.
                 [](const Barrier&) {},
                 [&](const CustomGradient& n) { emit_untimed(n.body); },
             });
  }

  void emit_block(const Block& n) {
    const auto joins = [](const Stmt& s) { return s.as<For>() && s.as<For>()->run.joins; };
    for (auto first = n.body.begin(); first != n.body.end();) {
      const auto end = std::find_if_not(first + 1, n.body.end(), joins);
      if (end == first + 1) emit(*first);
      else timed(*first, [&] { emit_region({first, end}); });
      first = end;
    }
  }

  void emit_body(const Stmt& body) {
    indented([&] { emit(body); });
  }

  // Loops.

  // Loop bounds are evaluated once. Those that read data or are long get a constant of their own.

  static constexpr std::size_t long_bound = 48;

  std::string bound(const Expr& e, const Symbol& iterator, const char* which) {
    const std::string inline_text = text(e, Level::Sum);
    if (!has_load(e) && inline_text.size() <= long_bound) return inline_text;
    const std::string name = state_.names.fresh(state_.names.of(iterator) + which);
    line("const int64_t {} = {};", name, text(e));
    return name;
  }

  LoopHeader forward_header(const For& n, std::string lower, std::string upper) {
    const std::string name = state_.names.of(n.iterator);
    const std::string open = fmt::format("for (int64_t {0} = {1}; {0} < {2}; ++{0})", name, lower, upper);
    return {open, std::move(lower), std::move(upper)};
  }

  /// Of a loop in a nest that is shared out as a whole: nothing may stand between its loops.
  LoopHeader inner_header(const For& n) { return forward_header(n, text(n.lower), text(n.upper, Level::Sum)); }

  LoopHeader forward_loop_header(const For& n) {
    return forward_header(n, bound(n.lower, n.iterator, "_begin"), bound(n.upper, n.iterator, "_end"));
  }

  LoopHeader loop_header(const For& n) {
    if (n.mode != LoopMode::Backward) return forward_loop_header(n);
    const std::string name = state_.names.of(n.iterator), lower = bound(n.lower, n.iterator, "_begin");
    const bool is_short = text(n.upper).size() <= long_bound;
    const std::string last = is_short ? text(n.upper - int_const(1)) : bound(n.upper, n.iterator, "_end") + " - 1";
    return {fmt::format("for (int64_t {0} = {1}; {0} >= {2}; --{0})", name, last, lower), lower, ""};
  }

  void emit_loop(const Stmt& s, const For& n) {
    if (n.run.threads) return emit_region({s});
    begin_loop(s, n);
    if (const auto search = as_search(n);
        search && !in_lanes(n) && is_of_branches(*search) && is_above_others(n, *search))
      return emit_search(n, *search);
    const LoopHeader header = in_lanes(n) ? forward_loop_header(n) : loop_header(n);
    if (n.run.lane_sums) return emit_lane_sums(n, header, code_, state_);
    if (!n.streams) return emit_loop_text(n, header);
    emit_streamed(n, header, code_, state_, [&](const Stmt& body) { emit(body); });
    indented([&] { emit_loop_text(n, header); });
    line("}}");
    streams_ = true;
    if (!in_region_) line("stream_fence();");
  }

  /// What fits is no less than what iterations that do not fit have: whether there is one of these does not matter.
  bool is_above_others(const For& n, const Search& search) const {
    if (const auto lower = as_int(n.lower)) return search.otherwise <= *lower;
    return search.otherwise <= 0 && is_non_negative(n.lower, state_);
  }

  /// The last iteration that fits is the first one from the end.
  void emit_search(const For& n, const Search& search) {
    const Expr match = load(search.sum->array, {});
    const auto larger = [&](const Expr& e) { return text(binary(BinaryOp::Max, match, e)); };
    const std::string name = state_.names.of(n.iterator), found = text(match);
    const std::string lower = bound(n.lower, n.iterator, "_begin"), upper = bound(n.upper, n.iterator, "_end");
    line("if ({} < {}) {} = {};", lower, upper, found, larger(int_const(search.otherwise)));
    line("for (int64_t {0} = {1} - 1; {0} >= {2}; --{0}) {{", name, upper, lower);
    indented([&] {
      line("if (!({})) continue;", text(search.condition));
      line("{} = {};", found, larger(var(n.iterator)));
      line("break;");
    });
    line("}}");
  }

  static bool in_lanes(const For& n) { return n.run.lanes != 1; }

  void emit_loop_text(const For& n, const LoopHeader& header) {
    if (in_lanes(n)) pragma("omp simd" + lane_clauses(n, state_));
    else if (n.run.unroll > 1) pragma(fmt::format("GCC unroll {}", n.run.unroll));
    line("{} {{", header.open);
    emit_body(n.body);
    line("}}");
  }

  void begin_loop(const Stmt& s, const For& n) {
    reserve_before(s);
    comment(n.location);
    if (is_non_negative(n.lower, state_)) state_.non_negative.insert(n.iterator);
  }

  void emit_while(const Stmt& s, const While& n) {
    reserve_before(s);
    comment(n.location);
    state_.non_negative.insert(n.iterator);
    const std::string limit = bound(n.max_trips, n.iterator, "_limit");
    line("for (int64_t {0} = 0; {0} < {1} && {2}; ++{0}) {{", state_.names.of(n.iterator), limit,
         text(n.condition, Level::Equality));
    emit_body(n.body);
    line("}}");
  }

  /// Loops that threads do one after the other without parting. Memory and constants for bounds must precede the
  /// pragma, and inner bounds of collapsed loops read no data.
  void emit_region(const std::vector<Stmt>& body) {
    std::vector<ThreadLoop> loops;
    for (const Stmt& s : body) {
      begin_loop(s, *s.as<For>());
      loops.push_back({s.as<For>(), loop_header(*s.as<For>())});
    }
    const std::string pays = pays_text(loops, state_);
    if (pays.empty() || !loops.front().loop->run.or_alone) {
      pragma("omp parallel num_threads(threads)" + (pays.empty() ? "" : fmt::format(" if (parallel : {})", pays)));
      return emit_shares(body, loops);
    }
    line("if (threads > 1 && ({})) {{", pays);
    indented([&] {
      pragma("omp parallel num_threads(threads)");
      emit_shares(body, loops);
    });
    line("}} else {{");
    indented([&] {
      alone_ = true;
      emit_shares(body, loops);
      alone_ = false;
    });
    line("}}");
  }

  /// What every thread of a region does, or one alone.
  void emit_shares(const std::vector<Stmt>& body, const std::vector<ThreadLoop>& loops) {
    if (loops.size() == 1) return emit_threads(body[0], loops[0].header, true);
    line("{{");
    indented([&] {
      for (std::size_t k = 0; k < loops.size(); ++k) {
        comment(loops[k].loop->location);
        emit_threads(body[k], loops[k].header, k + 1 == loops.size());
      }
    });
    line("}}");
  }

  /// The body is a lambda, because g++ minds `restrict` on parameters only, and forgets those of the function around a
  /// parallel region. The last loop of a region needs no barrier of its own.
  void emit_threads(const Stmt& s, const LoopHeader& header, bool last) {
    const For& n = *s.as<For>();
    const RegionText region = region_text(n);
    line("{} __attribute__((always_inline)) {{", region.opening);
    indented([&] {
      for (const Stmt& t : region.in_iteration) {
        const Array& array = t.as<Allocate>()->array;
        state_.helpers.insert(Helper::Scratch);
        line("Scratch<{}> {};", storage_cpp_type(array), memory_.name_of(array));
      }
      if (!alone_) pragma((in_lanes(n) ? "omp for simd" : "omp for") + schedule(n, header) + (last ? " nowait" : ""));
      else if (in_lanes(n)) pragma("omp simd");
      line("{} {{", header.open);
      streams_ = false;
      in_region_ = true;
      emit_collapsed(n.body, n.run.together - 1);
      in_region_ = false;
      line("}}");
      if (streams_) line("stream_fence();");
    });
    line("}}({});", region.arguments);
    if (!region.in_iteration.empty()) line("if (status != loopgrad_ok) return status;");
  }

  /// Equal shares go to the same thread from loop to loop, so that data stays in its cache; uneven work is fetched.
  std::string schedule(const For& n, const LoopHeader& header) {
    const std::string collapse = n.run.together > 1 ? fmt::format(" collapse({})", n.run.together) : "";
    if (!n.run.uneven) return " schedule(static)" + collapse;
    const std::string share = state_.names.fresh(state_.names.of(n.iterator) + "_share");
    line("const int64_t {} = {};", share, share_text(n, header, state_));
    return fmt::format(" schedule(dynamic, {}){}", share, collapse);
  }

  struct RegionText {
    std::string opening, arguments;
    std::vector<Stmt> in_iteration;  // Allocates that each thread reserves as it goes; they set `status`
  };

  RegionText region_text(const For& n) {
    RegionText out;
    std::set<Array> in_place, per_thread;
    walk_stmts(n.body, [&](const Stmt& t) {
      const auto* a = t.as<Allocate>();
      if (!a) return;
      (a->home == Home::PerThread ? per_thread : in_place).insert(a->array);
      if (a->home == Home::Iteration) out.in_iteration.push_back(t);
    });
    const Region region = region_of(n, in_place);
    std::vector<std::string> parameters, arguments;
    const char* const own_part = alone_ ? ".part(0)" : ".part(omp_get_thread_num())";
    for (const auto& [array, written] : region.arrays) {
      const std::string& name = state_.names.of(array);
      parameters.push_back(fmt::format("{}{}* {}{}", written ? "" : "const ", storage_cpp_type(array),
                                       aliased_.count(array) ? "" : "__restrict ", name));
      arguments.push_back(per_thread.count(array) ? memory_.name_of(array) + own_part : name);
    }
    std::string captures = "=";
    for (const Array& array : region.shared) captures += ", &" + state_.names.of(array);
    if (!out.in_iteration.empty()) captures += ", &status";
    const auto indent = code_.indent() + 4;
    out.opening = fmt::format("[{}]({})", captures, joined(parameters, indent, indent));
    out.arguments = joined(arguments, indent, indent);
    return out;
  }

  /// The loops that share one pragma, then the body of the innermost.
  void emit_collapsed(const Stmt& body, int count) {
    if (count == 0) return emit_body(body);
    const auto& n = *body.as<For>();
    indented([&] {
      if (is_non_negative(n.lower, state_)) state_.non_negative.insert(n.iterator);
      line("{} {{", inner_header(n).open);
      emit_collapsed(n.body, count - 1);
      line("}}");
    });
  }

  // Branches and stores.

  void emit_if(const If& n) {
    comment(n.location);
    line("if ({}) {{", text(n.condition));
    emit_body(n.then_body);
    if (n.else_body) {
      line("}} else {{");
      emit_body(n.else_body);
    }
    line("}}");
  }

  void emit_reduce(const Reduce& n) {
    comment(n.location);
    const std::string target = element(n.array, n.indices);
    const bool plain_storage = value_type(n.array->type) == n.array->type;
    const bool arithmetic = (n.op == ReduceOp::Add || n.op == ReduceOp::Mul) && n.array->type != ScalarType::Bool;
    if (plain_storage && arithmetic && !n.fused) {
      if (n.atomic) pragma("omp atomic");
      line("{} {} {};", target, name_of(n.op), text(n.value));
    } else if (n.atomic) {
      state_.helpers.insert(Helper::AtomicUpdate);
      const char* const type = storage_cpp_type(n.array);
      line("atomic_update({}, [&]({} before) -> {} {{ return {}; }});", target, type, type, combined(n, "before"));
    } else {
      line("{} = {};", target, combined(n, target));
    }
  }

  std::string combined(const Reduce& n, const std::string& before) { return updated_text(n, before, state_); }

  void emit_pop(const Pop& n) {
    comment(n.location);
    const std::string target = element(n.array, n.indices);
    if (value_type(n.array->type) == n.array->type) {
      line("if (!stack.pop({})) return loopgrad_bad_stack;", target);
      return;
    }
    const std::string popped = state_.names.fresh("popped");
    line("{} {};", value_cpp_type(value_type(n.array->type)), popped);
    line("if (!stack.pop({})) return loopgrad_bad_stack;", popped);
    line("{} = {};", target, stored(n.array->type, popped, state_));
  }

  /// By the library, or by the loops when there is none or it would not pay.
  void emit_contraction(const Contraction& n) {
    comment(n.location);
    state_.helpers.insert(Helper::Multiply);
    const auto indent = code_.indent() + 4;
    line("if (!multiply<{}>({})) {{", storage_cpp_type(n.c),
         joined(multiply_arguments(n, state_), indent + 12, indent));
    emit_body(n.loops);
    line("}}");
  }

  // Local arrays.

  void reserve_before(const Stmt& loop) {
    const auto it = uses_.reserved_before.find(loop.get());
    if (it == uses_.reserved_before.end()) return;
    for (const Stmt& s : it->second) {
      const auto& n = *s.as<Allocate>();
      comment(n.location);
      const bool per_thread = n.home == Home::PerThread;
      memory_.reserve(n.array, per_thread);
      if (!per_thread) memory_.declare_pointer(n.array, "0");
    }
  }

  void emit_allocate(const Allocate& n) {
    if (n.array->shape.empty()) return emit_variable(n);
    const char* const type = storage_cpp_type(n.array);
    switch (n.home) {
      case Home::Stack: {
        comment(n.location);
        std::int64_t count = 1;
        for (const Expr& extent : n.array->shape) count *= *as_int(extent);
        line("alignas(64) {} {}[{}];", type, state_.names.of(n.array), std::max<std::int64_t>(count, 1));
        break;
      }
      case Home::Call:
        if (n.reserved_out == 0) {
          comment(n.location);
          memory_.reserve(n.array, false);
          memory_.declare_pointer(n.array, "0");
        }
        break;
      case Home::PerThread: break;
      case Home::Iteration: return emit_in_iteration(n);
      default: throw InternalError("no place on a CPU for '" + n.array->name + "'");
    }
    emit(n.body);
  }

  /// `float s = 0.0f;` where the first statement is the first value, else `float s;`.
  void emit_variable(const Allocate& n) {
    comment(n.location);
    const char* const type = storage_cpp_type(n.array);
    const auto* statements = n.body.as<Block>();
    const Stmt& first = statements ? statements->body.front() : n.body;
    const auto* value = first.as<Assign>();
    if (!value || value->array != n.array) {
      line("{} {};", type, state_.names.of(n.array));
      return emit(n.body);
    }
    line("{} {} = {};", type, state_.names.of(n.array), stored(n.array->type, value->value, state_));
    for (std::size_t i = 1; statements && i < statements->body.size(); ++i) emit(statements->body[i]);
  }

  /// No exception and no return may leave a parallel region: a failure is noted and the body skipped.
  void emit_in_iteration(const Allocate& n) {
    comment(n.location);
    line("if (!{}.reserve(1, {{{}}})) {{", memory_.name_of(n.array), memory_.extents(n.array));
    indented([&] {
      pragma("omp atomic write");
      line("status = loopgrad_out_of_memory;");
    });
    line("}} else {{");
    indented([&] {
      memory_.declare_pointer(n.array, "0");
      emit(n.body);
    });
    line("}}");
  }

  const FunctionUses& uses_;
  EmitState& state_;
  CodeText code_;
  LocalMemory memory_;
  bool in_region_ = false, streams_ = false;  // what threads do; something in it stores past the caches
  bool alone_ = false;                        // what threads would do, done by one without a region
  std::set<Array> aliased_;
  const std::string seconds_;
  std::map<const StmtNode*, int> timed_;  // parts, and their numbers
};

}  // namespace

BodyText body_text(const Program& program, const FunctionUses& uses, EmitState& state, const std::string& seconds) {
  return StmtWriter(program, uses, state, seconds).write(program);
}

}  // namespace loopgrad::backend
