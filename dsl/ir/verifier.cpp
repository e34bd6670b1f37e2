#include "dsl/ir/verifier.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace loopgrad::ir {
namespace {

class Verifier {
 public:
  Verifier(const Program& program, const std::string& after) : program_(program), after_(after) {}

  void run() {
    for (const Symbol& size : program_.sizes) declare(size.id, size.name);
    for (const Array& array : program_.arrays) {
      if (array->role == ArrayRole::Local) fail("a local among the arguments", array->name);
      check_shape(array);
      declare(array->id, array->name);
    }
    for (const Fact& fact : program_.facts) check_fact(fact);
    if (!program_.body) fail("no body", program_.name);
    check(program_.body);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& node) const {
    throw InternalError(fmt::format("after {}: program '{}': {} in `{}`", after_, program_.name, what, node));
  }

  void declare(std::int64_t id, const std::string& name) {
    if (!declared_.insert(id).second) fail("declared twice", name);
    visible_.insert(id);
  }

  void require_type(const Expr& e, ScalarType type, const Expr& parent) const {
    if (!e) fail("a missing operand", print(parent));
    if (e.type() != type)
      fail(fmt::format("an operand of type {}, not {}", name_of(e.type()), name_of(type)), print(parent));
  }

  // ---- expressions ----

  /// `place` is the text of what contains the expression.
  void check(const Expr& e, ScalarType type, const std::string& place) const {
    if (!e) fail("a missing expression", place);
    if (e.type() != type)
      fail(fmt::format("`{}` has type {}, not {}", print(e), name_of(e.type()), name_of(type)), place);
    check(e);
  }

  void check(const Expr& e) const {
    if (value_type(e.type()) != e.type()) fail("a value of a storage type", print(e));
    visit(e, overloaded{[&](const IntConst& c) {
                          if (is_float(c.type)) fail("an integer constant of float type", print(e));
                        },
                        [&](const FloatConst& c) {
                          if (!is_float(c.type)) fail("a float constant of integer type", print(e));
                        },
                        [&](const Var& v) {
                          if (!visible_.contains(v.symbol.id)) fail("a variable out of scope", print(e));
                        },
                        [&](const Load& load) { check_access(load.array, load.indices, print(e)); },
                        [&](const Unary& u) { check_unary(u, e); }, [&](const Binary& b) { check_binary(b, e); },
                        [&](const Fma& f) {
                          if (!is_float(e.type())) fail("an fma of integers", print(e));
                          for (const Expr* operand : {&f.a, &f.b, &f.c}) require_type(*operand, e.type(), e);
                        },
                        [&](const Select& s) {
                          require_type(s.condition, ScalarType::Bool, e);
                          require_type(s.a, e.type(), e);
                          require_type(s.b, e.type(), e);
                        },
                        [&](const Cast& c) {
                          if (!c.a) fail("a missing operand", print(e));
                        }});
    for_each_child(e, [&](const Expr& child) { check(child); });
  }

  void check_unary(const Unary& u, const Expr& e) const {
    require_type(u.a, e.type(), e);
    const bool fits = u.op == UnaryOp::Not                           ? e.type() == ScalarType::Bool
                      : u.op == UnaryOp::Neg || u.op == UnaryOp::Abs ? e.type() != ScalarType::Bool
                                                                     : is_float(e.type());
    if (!fits) fail(fmt::format("'{}' on {}", name_of(u.op), name_of(e.type())), print(e));
  }

  void check_binary(const Binary& b, const Expr& e) const {
    if (!b.a) fail("a missing operand", print(e));
    const ScalarType type = b.a.type();
    require_type(b.b, type, e);
    const bool logical = b.op == BinaryOp::And || b.op == BinaryOp::Or;
    bool fits = logical || is_comparison(b.op) ? e.type() == ScalarType::Bool : e.type() == type;
    switch (b.op) {
      case BinaryOp::Div:
      case BinaryOp::Pow:
      case BinaryOp::Atan2: fits &= is_float(type); break;
      case BinaryOp::FloorDiv:
      case BinaryOp::Mod: fits &= is_integer(type); break;
      default: fits &= is_comparison(b.op) || logical == (type == ScalarType::Bool); break;
    }
    if (!fits) fail(fmt::format("'{}' on {}", name_of(b.op), name_of(type)), print(e));
  }

  void check_access(const Array& array, const std::vector<Expr>& indices, const std::string& place) const {
    if (array && !indices.empty() && copied_.contains(array->id)) {
      const auto* first = threads_.size() == 1 ? indices[0].as<Var>() : nullptr;
      if (!first || first->symbol != threads_.front()) fail("an element of another thread", place);
    }
    if (!array || !visible_.contains(array->id)) fail("an array out of scope", place);
    if (indices.size() != array->shape.size()) fail("a wrong number of indices", place);
    for (const Expr& index : indices) {
      if (!index || index.type() != ScalarType::I64) fail("an index that is no i64", place);
    }
  }

  /// An expression of variables in scope, without loads.
  void check_without_loads(const Expr& e, const std::string& place) const {
    check(e, ScalarType::I64, place);
    walk(e, [&](const Expr& node) {
      if (node.kind() == Kind::Load) fail("a load", place);
    });
  }

  void check_shape(const Array& array) const {
    for (const Expr& extent : array->shape) check_without_loads(extent, "the shape of " + array->name);
  }

  void check_fact(const Fact& fact) const {
    const std::string place = fmt::format("a fact '{}'", name_of(fact.kind));
    const bool alias = fact.kind == FactKind::MayAlias, range = fact.kind == FactKind::InRange;
    // Locals are declared below, if they are still there.
    const bool is_local = fact.kind == FactKind::Distinct && fact.array && fact.array->role == ArrayRole::Local;
    if (!is_local && (!fact.array || !visible_.contains(fact.array->id))) fail("an unknown array", place);
    if (alias && (!fact.other || !visible_.contains(fact.other->id))) fail("an unknown array", place);
    if (range) check_without_loads(fact.lower, place);
    const bool bounded = range || fact.kind == FactKind::CsrPointer || fact.kind == FactKind::ReadUpTo;
    if (bounded) check_without_loads(fact.upper, place);
    if (fact.longest) check_without_loads(fact.longest, place);
  }

  // ---- statements ----

  void check(const Stmt& s) {
    visit(s, [&](const auto& node) { check_node(node, s); });
  }

  /// Only the first line of the statement: a message about a loop does not quote its body, nor is that printed here.
  static std::string headline(const Stmt& s) {
    const auto without_body = [](auto copy, auto... bodies) -> Stmt {
      ((copy.*bodies = copy.*bodies ? block({}) : Stmt()), ...);
      return {std::make_shared<decltype(copy)>(std::move(copy))};
    };
    const std::string text =
        print(visit(s, overloaded{[&](const For& n) { return without_body(n, &For::body); },
                                  [&](const While& n) { return without_body(n, &While::body); },
                                  [&](const If& n) { return without_body(n, &If::then_body, &If::else_body); },
                                  [&](const Allocate& n) { return without_body(n, &Allocate::body); },
                                  [&](const CustomGradient& n) {
                                    return without_body(n, &CustomGradient::body, &CustomGradient::adjoint,
                                                        &CustomGradient::tangent);
                                  },
                                  [&](const auto&) { return s; }}));
    return text.substr(0, text.find('\n'));
  }

  void check_node(const Block& b, const Stmt&) {
    const For* before = nullptr;
    for (const Stmt& s : b.body) {
      if (!s) fail("a missing statement", "a block");
      const For* const loop = s.as<For>();
      before_ = loop ? before : nullptr;
      check(s);
      before = loop;
    }
  }
  void check_node(const For& f, const Stmt& s) {
    check(f.lower, ScalarType::I64, headline(s));
    check(f.upper, ScalarType::I64, headline(s));
    if (f.at_most) check_without_loads(f.at_most, headline(s));
    if (!f.body) fail("a missing body", headline(s));
    if (f.shape.chunk < 0 || (f.shape.chunk > 0 && !chunk_of(f)))
      fail("bounds that are not those of a chunk", headline(s));
    if (f.shape.strided && !stride_of(f)) fail("a strided loop over no equally spaced chunks", headline(s));
    check_run(f, std::exchange(before_, nullptr), headline(s));
    check_kernel(f, headline(s));
    declare(f.iterator.id, f.iterator.name);
    check_wide(f, headline(s));
    const int outer_shared = shared_at_, outer_lanes = lane_loops_;
    if (f.run.threads) shared_at_ = static_cast<int>(loops_.size());
    lane_loops_ += f.run.lanes != 1 && !is_parallel(f.mode);
    const bool outer_in_lanes = std::exchange(in_lanes_, in_lanes_ || f.run.lanes != 1);
    const bool outer_streams = std::exchange(streams_, bool(f.streams));
    loops_.push_back(f.iterator);
    const bool outer = in_parallel_, outer_kernel = in_kernel_, outer_branch = in_branch_;
    in_parallel_ |= is_parallel(f.mode);
    in_kernel_ |= f.mode == LoopMode::Grid;
    in_branch_ |= f.mode != LoopMode::Threads && (decides_for_thread(f.lower) || decides_for_thread(f.upper));
    if (f.mode == LoopMode::Threads) threads_.push_back(f.iterator);
    check(f.body);
    if (f.mode == LoopMode::Threads) threads_.pop_back();
    loops_.pop_back();
    streams_ = outer_streams;
    shared_at_ = outer_shared;
    lane_loops_ = outer_lanes;
    in_lanes_ = outer_in_lanes;
    in_parallel_ = outer;
    in_kernel_ = outer_kernel;
    in_branch_ = outer_branch;
    visible_.erase(f.iterator.id);
  }
  /// How a CPU runs the loop; `before` is the loop before it in its block, if there is one.
  void check_run(const For& f, const For* before, const std::string& place) const {
    const LoopRun& run = f.run;
    if (f.work) check_without_loads(f.work, place);
    if (f.streams) check_without_loads(f.streams, place);
    if (run.threads && (f.mode != LoopMode::Parallel || shared_at_ >= 0 || in_lanes_))
      fail("threads for what is not parallel, or already on threads or in lanes", place);
    const bool asks = run.together != 1 || run.uneven || run.joins || run.or_alone || run.least_work != 0 || f.work;
    if (asks && !run.threads) fail("what only loops on threads have", place);
    if ((run.least_work > 0) != bool(f.work)) fail("an amount of work without a limit, or a limit without one", place);
    const For* inner = &f;
    for (int k = 1; k < run.together; ++k) {
      inner = inner->body.as<For>();
      if (!inner || inner->mode != LoopMode::Parallel) fail("a nest of fewer parallel loops", place);
    }
    const bool fixed = !has_load(f.lower) && !has_load(f.upper);
    const bool joins = before && before->run.threads && equal(before->lower, f.lower) && equal(before->upper, f.upper);
    if (run.together < 1 || (run.joins && !(fixed && joins))) fail("a region of loops over different ranges", place);
    const bool in_lanes = run.lanes != 1;
    if (run.lanes < 0 || (in_lanes && run.together > 1)) fail("lanes of a nest of loops", place);
    if ((run.lane_sums || f.streams) && (!in_lanes || run.threads)) fail("what only loops in lanes have", place);
    if (run.lane_sums) check_lane_sums(f, place);
  }
  /// What a kernel is launched with, and where its threads wait.
  void check_kernel(const For& f, const std::string& place) const {
    const bool outermost = f.mode == LoopMode::Grid && !in_kernel_;
    for (const Expr& extent : f.block) check_without_loads(extent, place);
    if ((!f.block.empty() || f.run.barriers) && !outermost) fail("a block of what is no kernel", place);
    if (f.block.size() > 3 || f.block.empty() != (f.run.most_threads == 0) || (f.run.many_blocks && f.block.empty()))
      fail("a block of threads without a number of them", place);
    if (f.run.teams && (f.block.size() != 2 || !are_warps(f.block.front(), f.block.back())))
      fail("teams that are no warps", place);
  }
  /// `teams` of so many threads: each of a warp, or select(threads == 32, teams, 1), or with `threads == 32 && ..`.
  static bool are_warps(const Expr& threads, const Expr& teams) {
    if (as_int(threads) == 32) return true;
    const auto* choice = teams.as<Select>();
    if (!choice || as_int(choice->b) != 1) return false;
    const auto* both = choice->condition.as<Binary>();
    const Expr first = both && both->op == BinaryOp::And ? both->a : choice->condition;
    return equal(first, binary(BinaryOp::Eq, threads, int_const(32)));
  }
  /// The iterator is in scope.
  void check_wide(const For& f, const std::string& place) const {
    const auto* inner = f.body.as<For>();
    if (f.run.unroll < 0 || (f.run.unroll > 0 && is_parallel(f.mode) && f.mode != LoopMode::Parallel))
      fail("iterations of blocks or threads in a row", place);
    if (f.run.wide_trips && (!inner || inner->wide.empty())) fail("wide accesses in no chunk", place);
    if (!f.wide.empty() && (f.shape.chunk < 2 || threads_.empty()))
      fail("wide accesses of no chunk of a thread", place);
    for (const WideAccess& access : f.wide) {
      check_access(access.array, access.indices, place);
      for (const Expr& index : access.indices) check(index);
      if (!access.loads && !access.stores) fail("an access that does nothing", place);
    }
  }
  void check_lane_sums(const For& f, const std::string& place) const {
    const auto* body = f.body.as<Block>();
    bool fits = body && body->body.size() == 8;
    std::set<Array> sums;
    for (std::size_t k = 0; fits && k < 8; ++k) {
      const auto* sum = body->body[k].as<Reduce>();
      fits = sum && sum->of_lanes && sum->op == ReduceOp::Add && is_float(sum->array->type) &&
             sums.insert(sum->array).second && (*sums.begin())->type == sum->array->type;
    }
    if (!fits) fail("lanes added up at once of no eight sums of one type", place);
  }
  /// Where a local of a program for a CPU lives.
  void check_home(const Allocate& a, const std::string& place) const {
    const bool of_cpu = a.home >= Home::Stack, reserved = a.home == Home::Call || a.home == Home::PerThread;
    if (of_cpu && a.array->shape.empty()) fail("memory for a variable", place);
    if (a.home == Home::Stack && !constant_bytes(a.array)) fail("an array of no constant extents on the stack", place);
    if (of_cpu && a.home != Home::Stack && (a.home == Home::Call) != (shared_at_ < 0))
      fail("memory of the call inside of a loop on threads, or of a thread outside", place);
    const int around = static_cast<int>(loops_.size()), level = around - a.reserved_out;
    if (a.reserved_out < 0 || level < 0 || (a.reserved_out > 0 && !reserved))
      fail("memory that is reserved nowhere", place);
    if (a.home == Home::PerThread && level > shared_at_)
      fail("memory of threads that is reserved in the loop they share", place);
    for (const Expr& extent : a.largest) check_without_loads(extent, place);
    const bool of_launch =
        (a.home == Home::Block || a.home == Home::Thread) && a.largest.size() == a.array->shape.size();
    if (!a.largest.empty() && !of_launch) fail("memory of the launch of no array of a kernel", place);
    for (const Expr& extent : a.array->shape)
      for (int k = level; k < around; ++k)
        if (mentions(extent, loops_[static_cast<std::size_t>(k)])) fail("memory reserved before its extent", place);
  }
  /// Whether threads of a block may see different values.
  bool decides_for_thread(const Expr& e) const {
    bool found = false;
    walk(e, [&](const Expr& x) {
      const auto* v = x.as<Var>();
      for (const Symbol& thread : threads_) found |= v && v->symbol == thread;
      found |= x.kind() == Kind::Load && !threads_.empty();
    });
    return found;
  }
  void check_node(const While& w, const Stmt& s) {
    check_without_loads(w.max_trips, headline(s));
    if (!w.body) fail("a missing body", headline(s));
    declare(w.iterator.id, w.iterator.name);
    check(w.condition, ScalarType::Bool, headline(s));
    const bool outer = std::exchange(in_branch_, in_branch_ || decides_for_thread(w.condition));
    loops_.push_back(w.iterator);
    check(w.body);
    loops_.pop_back();
    in_branch_ = outer;
    visible_.erase(w.iterator.id);
  }
  void check_node(const If& branch, const Stmt& s) {
    check(branch.condition, ScalarType::Bool, headline(s));
    if (!branch.then_body) fail("a missing body", headline(s));
    const bool outer = std::exchange(in_branch_, in_branch_ || decides_for_thread(branch.condition));
    check(branch.then_body);
    if (branch.else_body) check(branch.else_body);
    in_branch_ = outer;
  }
  void check_node(const Assign& a, const Stmt& s) {
    check_write(a.array, a.indices, a.value, s);
    if (a.streamed && (!streams_ || a.indices.empty()))
      fail("a row past the caches of no loop that streams", headline(s));
  }
  void check_node(const Reduce& r, const Stmt& s) {
    check_write(r.array, r.indices, r.value, s);
    if (r.array->type == ScalarType::Bool) fail("a sum of bool elements", headline(s));
    if (r.fused && (r.atomic || r.op != ReduceOp::Add || !product_of(r.value)))
      fail("a fused sum of what is no product", headline(s));
    const auto scalar = scalars_.find(r.array->id);
    const bool shared = scalar != scalars_.end() && scalar->second.lane_loops < lane_loops_;
    if (r.of_lanes ? r.atomic || !shared : shared) fail("a sum of lanes that is of none, or of several", headline(s));
    if (r.of_lanes && shared_at_ >= 0 && scalar->second.loops <= shared_at_)
      fail("a sum of lanes that threads share", headline(s));
    if (r.by_segments && (r.atomic || std::none_of(r.indices.begin(), r.indices.end(), has_load)))
      fail("a sum by segments whose elements no data choose", headline(s));
    if (!r.of_block) return;
    if (!r.atomic || !copied_.contains(r.array->id) || !r.array->shape.empty())
      fail("a sum of all threads into what is no scalar that each of them keeps", headline(s));
    if (threads_.empty() || in_branch_) fail("a sum of all threads that some of them may leave out", headline(s));
  }
  void check_node(const Allocate& a, const Stmt& s) {
    if (a.array->role != ArrayRole::Local) fail("an allocation of an argument", headline(s));
    if (!a.body) fail("a missing body", headline(s));
    if (a.home == Home::Grid && in_kernel_) fail("memory of the grid inside a kernel", headline(s));
    if (a.home == Home::Block && (!in_kernel_ || !threads_.empty()))
      fail("memory of a block that is not inside its grid and outside of its threads", headline(s));
    check_shape(a.array);
    check_home(a, headline(s));
    declare(a.array->id, a.array->name);
    if (a.array->shape.empty()) scalars_[a.array->id] = {static_cast<int>(loops_.size()), lane_loops_};
    if (a.home == Home::Thread && in_kernel_ && threads_.empty()) copied_.insert(a.array->id);
    check(a.body);
    copied_.erase(a.array->id);
    visible_.erase(a.array->id);
  }
  void check_node(const Push& p, const Stmt& s) {
    if (!p.value) fail("a missing value", headline(s));
    check(p.value);
    if (in_parallel_) fail("a push inside a parallel loop", headline(s));
  }
  void check_node(const Pop& p, const Stmt& s) {
    check_write(p.array, p.indices, {}, s);
    if (in_parallel_) fail("a pop inside a parallel loop", headline(s));
  }

  void check_node(const Barrier&, const Stmt& s) {
    if (!in_kernel_ || !threads_.empty() || in_branch_) fail("a barrier that some threads may not get to", headline(s));
  }

  void check_node(const CustomGradient& n, const Stmt& s) {
    const std::string place = headline(s);
    if (in_rule_) fail("a custom gradient in a rule", place);
    if (n.outputs.size() != n.seeds.size() || n.inputs.size() != n.gradients.size() || !n.body || !n.adjoint)
      fail("a custom gradient with missing parts", place);
    check_derivatives(n.outputs, n.seeds, place);
    check_derivatives(n.inputs, n.gradients, place);
    check(n.body);
    in_rule_ = true;
    for (const auto* list : {&n.seeds, &n.gradients})
      for (const Array& array : *list) declare(array->id, array->name);
    check(n.adjoint);
    if (n.tangent) check(n.tangent);
    for (const auto* list : {&n.seeds, &n.gradients})
      for (const Array& array : *list) visible_.erase(array->id);
    in_rule_ = false;
  }
  void check_derivatives(const std::vector<Array>& arrays, const std::vector<Array>& derivatives,
                         const std::string& place) const {
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      if (!arrays[k] || !visible_.contains(arrays[k]->id)) fail("an array out of scope", place);
      const Array& derivative = derivatives[k];
      if (!is_float(arrays[k]->type) || derivative->role != ArrayRole::Local ||
          derivative->type != value_type(arrays[k]->type) || derivative->shape.size() != arrays[k]->shape.size())
        fail("a derivative that is not like its array", place);
    }
  }

  void check_node(const Contraction& n, const Stmt& s) {
    const std::string place = headline(s);
    const bool whole = n.extents.size() == 4 && n.c_place.size() == 4 && n.a_place.size() == 4 && n.b_place.size() == 4;
    if (!whole) fail("a contraction with missing numbers", place);
    for (const auto* list : {&n.extents, &n.c_place, &n.a_place, &n.b_place})
      for (const Expr& e : *list) check_without_loads(e, place);
    if (!n.loops) fail("a missing body", place);
    check(n.loops);
    // A pass that gave the loops other arrays must not have left the library the old ones.
    bool writes_c = false, reads_a = false, reads_b = false;
    walk(
        n.loops,
        [&](const Stmt& t) {
          if (const auto* a = t.as<Assign>()) writes_c |= a->array == n.c;
          if (const auto* r = t.as<Reduce>()) writes_c |= r->array == n.c;
        },
        [&](const Expr& e) {
          const auto* load = e.as<Load>();
          reads_a |= load && load->array == n.a;
          reads_b |= load && load->array == n.b;
        });
    if (!writes_c || !reads_a || !reads_b) fail("a contraction of other arrays than its loops use", place);
    if (n.c == n.a || n.c == n.b) fail("a contraction that reads its result", place);
  }

  /// `value` is null for a Pop.
  void check_write(const Array& array, const std::vector<Expr>& indices, const Expr& value, const Stmt& s) const {
    check_access(array, indices, headline(s));
    if (array->role == ArrayRole::Input) fail("an input is written", headline(s));
    const auto* sum = s.as<Reduce>();
    if (indices.empty() && !threads_.empty() && copied_.contains(array->id) && !(sum && sum->of_block))
      fail("a thread changes its copy of a scalar that all compute alike", headline(s));
    for (const Expr& index : indices) check(index);
    if (s.kind() != Kind::Pop) check(value, value_type(array->type), headline(s));
  }

  const Program& program_;
  const std::string& after_;
  std::set<std::int64_t> declared_;  // every symbol and array ever seen
  std::set<std::int64_t> visible_;   // those in scope
  std::set<std::int64_t> copied_;    // arrays of which each thread has its own, declared outside of loops over threads
  std::vector<Symbol> threads_;      // iterators of the loops over threads around
  bool in_parallel_ = false, in_kernel_ = false;
  bool in_rule_ = false;    // of a custom gradient
  bool in_branch_ = false;  // that some threads of the block may not take
  // Of a program for a CPU.
  const For* before_ = nullptr;  // the loop before the one that comes next
  std::vector<Symbol> loops_;    // iterators of all loops around
  int shared_at_ = -1;           // position among them of the loop on threads
  bool in_lanes_ = false;        // a loop in lanes is around
  int lane_loops_ = 0;           // sequential ones: iterations of a parallel one share no sums
  struct Around {
    int loops = 0, lane_loops = 0;
  };
  std::map<std::int64_t, Around> scalars_;  // what is around their declarations
  bool streams_ = false;                    // the loop right around streams rows
};

}  // namespace

void verify(const Program& program, const std::string& after) { Verifier(program, after).run(); }

}  // namespace loopgrad::ir
