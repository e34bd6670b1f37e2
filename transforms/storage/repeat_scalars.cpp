#include "transforms/storage/repeat_scalars.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/least_values.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/join_scalars.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t least_repeating = 64;     // blocks that may repeat a sum on any device
constexpr std::int64_t most_terms = 4096;        // of a sum that each block repeats
constexpr std::int64_t most_repeated = 1 << 20;  // terms in all blocks together: what a launch costs

/// A nest of parallel loops directly inside each other, with bounds that are known before it.
struct Nest {
  std::vector<const ir::For*> loops;
  Stmt body;

  Expr is_first() const {
    Expr first;
    for (const ir::For* loop : loops) {
      const Expr here = ir::binary(BinaryOp::Eq, ir::var(loop->iterator), loop->lower);
      first = ir::both(first, here);
    }
    return first;
  }
  Stmt with(Stmt inside) const {
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) inside = with_body(**loop, std::move(inside));
    return inside;
  }
};

std::optional<Nest> nest_of(const Stmt& s) {
  if (!is_parallel_loop(s) || ir::uses_stack(s)) return std::nullopt;
  Nest nest;
  nest.body = s;
  while (is_parallel_loop(nest.body)) {
    const auto* loop = nest.body.as<ir::For>();
    if (ir::has_load(loop->lower) || ir::has_load(loop->upper)) return std::nullopt;
    for (const ir::For* around : nest.loops)
      if (ir::mentions(loop->lower, around->iterator) || ir::mentions(loop->upper, around->iterator))
        return std::nullopt;
    nest.loops.push_back(loop);
    nest.body = loop->body;
  }
  return nest;
}

/// An element that the scalar work sets, and what stands for it.
struct Element {
  ir::Array array;
  std::vector<Expr> indices;
  bool needs_old = false;  // the work uses the value from before
  ir::Array own, before;   // of each block; kept by a nest before (null where not needed)

  bool is(const ir::Array& other, const std::vector<Expr>& at) const {
    return array == other && ir::equal(indices, at);
  }
};

/// Assignments of single elements and sums into them, in a row.
struct ScalarWork {
  std::vector<Stmt> list;
  std::vector<Element> elements;
  std::vector<Access> accesses;
  Expr terms;  // of the longest sum
  bool fits = true;

  explicit ScalarWork(std::vector<Stmt> statements) : list(std::move(statements)) {
    accesses = accesses_of(ir::block(list));
    for (const Stmt& s : list) {
      Stmt leaf = s;
      if (const auto* loop = s.as<ir::For>()) {
        fits &= !ir::contains_loop(loop->body) && leaves(loop->body).size() == 1 && loop->body.as<ir::Reduce>() &&
                !ir::has_load(loop->lower) && !ir::has_load(loop->upper);
        if (!fits) return;
        const Expr trips = loop->upper - loop->lower;
        terms = terms ? ir::binary(BinaryOp::Max, terms, trips) : trips;
        leaf = loop->body;
      }
      for_each_store(leaf,
                     [&](const ir::Array& array, const std::vector<Expr>& indices) { note(leaf, array, indices); });
    }
    // Two names for what may be one element.
    for (const Access& x : accesses)
      for (const Element& e : elements)
        fits &= x.array != e.array || e.is(x.array, x.indices) || surely_differ(x.indices, e.indices);
  }

 private:
  void note(const Stmt& leaf, const ir::Array& array, const std::vector<Expr>& indices) {
    fits &= !array->shape.empty() && array->type == value_type(array->type) &&
            std::none_of(indices.begin(), indices.end(), ir::has_load);
    if (std::any_of(elements.begin(), elements.end(), [&](const Element& e) { return e.is(array, indices); })) return;
    Element element{array, indices, true, {}, {}};
    if (const auto* assign = leaf.as<ir::Assign>()) element.needs_old = uses(assign->value, array);
    // What an earlier statement reads of it is its old value.
    for (const Stmt& s : list) {
      if (s.same_as(leaf)) break;
      for (const Access& x : accesses_of(s))
        element.needs_old |= x.array == array && !surely_differ(x.indices, indices);
    }
    element.own = ir::make_array(array->name + "_own", array->type, {}, ir::ArrayRole::Local, array->location);
    if (element.needs_old)
      element.before = ir::make_array(array->name + "_before", array->type, {ir::int_const(1)}, ir::ArrayRole::Local,
                                      array->location);
    elements.push_back(std::move(element));
  }
};

class Repeater {
 public:
  Repeater(const ir::Program& program, std::int64_t most_blocks)
      : passing_(program), least_(program), most_blocks_(ir::int_const(most_blocks)) {}

  Stmt visit(const Stmt& s) {
    return rewrite_host_blocks(s, [this](const ir::Block& n) { return block(n); });
  }

 private:
  Stmt block(const ir::Block& n) {
    std::vector<Stmt> list;
    for (const Stmt& child : n.body) list.push_back(visit(child));
    return arranged(std::move(list));
  }

  /// A block of what has been visited: visiting it again would double the work with each local around another.
  Stmt arranged(std::vector<Stmt> list) {
    widen(list);
    std::vector<ir::Array> kept;
    for (std::size_t begin = 0; begin < list.size(); ++begin) {
      std::size_t end = begin;
      bool sums = false;
      for (; end < list.size() && (is_assignment(list[end]) || is_lone_sum(list[end])); ++end)
        sums |= is_lone_sum(list[end]);
      if (sums) repeat(list, begin, end, kept);
      begin = end;
    }
    Stmt result = ir::block(std::move(list));
    for (const ir::Array& array : kept) result = ir::allocate(array, result, array->location);
    return result;
  }

  /// What follows on the scope of a local array goes into it, where that helps.
  void widen(std::vector<Stmt>& list) {
    for (std::size_t k = 0; k + 1 < list.size(); ++k) {
      const auto* local = list[k].as<ir::Allocate>();
      if (!local) continue;
      const int before = repeated_;
      const Stmt all =
          ir::block({local->body, ir::block({list.begin() + static_cast<std::ptrdiff_t>(k) + 1, list.end()})});
      const auto* joined = all.as<ir::Block>();
      if (!joined) continue;
      const Stmt inside = arranged({joined->body.begin(), joined->body.end()});
      if (repeated_ == before) return;  // nor do the locals that follow, which have been looked at in there
      list[k] = ir::allocate(local->array, inside, local->location);
      list.resize(k + 1);
    }
  }

  /// Rewrites the scalar work at [begin, end), the nest before and the nest that reads its result.
  void repeat(std::vector<Stmt>& list, std::size_t begin, std::size_t end, std::vector<ir::Array>& kept) {
    const ScalarWork work(
        {list.begin() + static_cast<std::ptrdiff_t>(begin), list.begin() + static_cast<std::ptrdiff_t>(end)});
    if (!work.fits) return;
    for (const Access& x : work.accesses)
      if (passing_.may_alias(x.array)) return;
    std::size_t at = end;
    while (at < list.size() && !reads_result(list[at], work) && passing_.can_pass(list[at], work.accesses)) ++at;
    const auto reader = at < list.size() ? nest_of(list[at]) : std::nullopt;
    if (!reader || !passing_.can_pass(list[at], work.accesses, Passing::Same::MayRead)) return;
    std::optional<Nest> keeper;
    const bool old =
        std::any_of(work.elements.begin(), work.elements.end(), [](const Element& e) { return e.needs_old; });
    if (old) {
      keeper = begin > 0 ? nest_of(list[begin - 1]) : std::nullopt;
      if (!keeper || !can_keep(*keeper, work)) return;
      list[begin - 1] = keeping(*keeper, work, kept);
    }
    const Expr few = is_few(*reader, work);
    list[at] = ir::if_then(few, repeating(*reader, work), ir::with_fresh_names(list[at]));
    list[begin] = ir::if_then(ir::unary(ir::UnaryOp::Not, few), ir::block(work.list));
    for (std::size_t k = begin + 1; k < end; ++k) list[k] = ir::block({});
    ++repeated_;
  }

  static bool reads_result(const Stmt& s, const ScalarWork& work) {
    const auto all = accesses_of(s);
    return std::any_of(all.begin(), all.end(), [&](const Access& x) {
      return !x.writes && std::any_of(work.elements.begin(), work.elements.end(),
                                      [&](const Element& e) { return e.is(x.array, x.indices); });
    });
  }

  /// Whether one iteration of the nest surely exists, and can keep what the elements are before the work.
  bool can_keep(const Nest& nest, const ScalarWork& work) const {
    for (const ir::For* loop : nest.loops)
      if (!least_.is_at_least(loop->upper - loop->lower, 1)) return false;
    for (const Access& x : accesses_of(nest.body)) {
      if (passing_.may_alias(x.array)) return false;
      for (const Element& e : work.elements)
        if (x.writes && x.array == e.array && !least_.are_apart(x.indices, e.indices)) return false;
    }
    return true;
  }

  /// Within the scope of locals: beside other statements of a single thread.
  static Stmt at_the_end(const Stmt& body, const Stmt& last) {
    if (const auto* local = body.as<ir::Allocate>())
      return ir::allocate(local->array, at_the_end(local->body, last), local->location);
    return ir::block({body, last});
  }

  static Stmt keeping(const Nest& nest, const ScalarWork& work, std::vector<ir::Array>& kept) {
    std::vector<Stmt> moves;
    for (const Element& e : work.elements) {
      if (!e.needs_old) continue;
      kept.push_back(e.before);
      moves.push_back(ir::assign(e.before, {ir::int_const(0)}, ir::load(e.array, e.indices), e.array->location));
    }
    return nest.with(at_the_end(nest.body, ir::if_then(nest.is_first(), ir::block(std::move(moves)))));
  }

  /// The host's condition, of sizes.
  Expr is_few(const Nest& nest, const ScalarWork& work) const {
    Expr total = ir::int_const(1), few;
    auto also = [&](const Expr& condition) { few = ir::both(few, condition); };
    for (const ir::For* loop : nest.loops) {
      also(ir::binary(BinaryOp::Lt, loop->lower, loop->upper));
      total = total * (loop->upper - loop->lower);
    }
    also(ir::binary(BinaryOp::Lt, total, most_blocks_));
    also(ir::binary(BinaryOp::Le, work.terms, ir::int_const(most_terms)));
    also(ir::binary(BinaryOp::Le, work.terms * total, ir::int_const(most_repeated)));
    return few;
  }

  static Stmt repeating(const Nest& nest, const ScalarWork& work) {
    auto in_own = [&](const Stmt& s) {
      return ir::move_elements(
          s, [&](const ir::Array& array, const std::vector<Expr>& at) -> std::optional<ir::ElementPlace> {
            for (const Element& e : work.elements)
              if (e.is(array, at)) return ir::ElementPlace{e.own, {}};
            return std::nullopt;
          });
    };
    std::vector<Stmt> all, last;
    for (const Element& e : work.elements) {
      if (e.needs_old) all.push_back(ir::assign(e.own, {}, ir::load(e.before, {ir::int_const(0)}), e.array->location));
      last.push_back(ir::assign(e.array, e.indices, ir::load(e.own, {}), e.array->location));
    }
    all.push_back(ir::with_fresh_names(in_own(ir::block(work.list))));
    all.push_back(in_own(nest.body));
    // At the end: other accesses to the array need not wait for it.
    all.push_back(ir::if_then(nest.is_first(), ir::block(std::move(last))));
    Stmt result = ir::block(std::move(all));
    for (const Element& e : work.elements) result = ir::allocate(e.own, result, e.array->location);
    return nest.with(std::move(result));
  }

  const Passing passing_;
  const ir::LeastValues least_;
  const Expr most_blocks_;
  int repeated_ = 0;
};

}  // namespace

std::int64_t most_repeating(const Machine& machine) { return std::max(machine.enough_threads / 8, least_repeating); }

ir::Program repeat_scalars(const ir::Program& program, std::int64_t most_blocks) {
  return ir::with_body(program, Repeater(program, most_blocks).visit(program.body));
}

}  // namespace loopgrad::transforms
