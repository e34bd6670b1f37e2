#include "transforms/cpu/invert_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"

#include <algorithm>

namespace loopgrad::transforms {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

// Below these the inverse takes longer than what it saves.
constexpr std::int64_t least_iterations = 2048, least_width = 8;

// Of iterations that are looked at side by side. They need room for each target, of which there should be fewer than
// iterations.
constexpr std::int64_t most_blocks = 16;

using Loops = std::vector<const ir::For*>;

bool mentions_any(const Expr& e, const Loops& loops) {
  return std::any_of(loops.begin(), loops.end(), [&](const ir::For* loop) { return mentions(e, loop->iterator); });
}

bool bounds_mention(const ir::For& loop, const Loops& loops) {
  return mentions_any(loop.lower, loops) || mentions_any(loop.upper, loops);
}

bool bounds_load(const ir::For& loop) { return ir::has_load(loop.lower) || ir::has_load(loop.upper); }

/// One sum that is all there is in a nest: parallel loops around sequential ones around parallel ones.
struct Scatter {
  Loops outer, sequential, inner;
  Stmt leaf;
  const ir::Reduce* sum = nullptr;
  std::size_t dimension = 0;  // of the index that is read from data
  Expr iterations;            // all that the sequential loops have: a bound

  const Expr& key() const { return sum->indices[dimension]; }
};

/// The total of a CSR structure whose rows the loop runs over, one for each iteration of `rows`; null for other loops.
Expr entries_of(const ir::Program& program, const ir::For& loop, const ir::For& rows) {
  const auto entry = [](const Expr& bound) {
    const auto* cast = bound.as<ir::Cast>();
    return (cast ? cast->a : bound).as<ir::Load>();
  };
  const auto *first = entry(loop.lower), *last = entry(loop.upper);
  if (!first || !last || first->array != last->array || first->array->role != ir::ArrayRole::Input) return {};
  if (first->indices.size() != 1 || last->indices.size() != 1) return {};
  const Expr row = ir::var(rows.iterator);
  if (!same_value(first->indices[0], row) || !same_value(last->indices[0], row + ir::int_const(1))) return {};
  for (const ir::Fact& fact : program.facts)
    if (fact.kind == ir::FactKind::CsrPointer && fact.array == first->array)
      return ir::cast(ScalarType::I64, fact.upper);
  return {};
}

/// How many iterations the sequential loops have at most; null where only data tells.
Expr iterations_of(const ir::Program& program, const Loops& loops) {
  std::vector<Expr> factors;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    const ir::For& loop = *loops[k];
    if (const Expr entries = k > 0 ? entries_of(program, loop, *loops[k - 1]) : Expr{}) {
      factors.back() = entries;
    } else if (bounds_load(loop) || bounds_mention(loop, loops)) {
      return {};
    } else {
      factors.push_back(ir::larger(simplify_indices(loop.upper - loop.lower), ir::int_const(0)));
    }
  }
  Expr product = ir::int_const(1);
  for (const Expr& factor : factors) product = product * factor;
  return product;
}

/// The loops of a perfect nest by what they are; false where they come in another order.
bool take_loops(const Stmt& nest, Scatter& scatter) {
  Stmt at = nest;
  for (const auto* loop = at.as<ir::For>(); loop; loop = at.as<ir::For>()) {
    const bool parallel = ir::is_parallel(loop->mode);
    if (!parallel && !scatter.inner.empty()) return false;
    if (!parallel) scatter.sequential.push_back(loop);
    else (scatter.sequential.empty() ? scatter.outer : scatter.inner).push_back(loop);
    at = loop->body;
  }
  scatter.leaf = at;
  scatter.sum = at.as<ir::Reduce>();
  return scatter.sum && !scatter.sequential.empty() && !(scatter.outer.empty() && scatter.inner.empty());
}

/// Whether the targets are the same for all iterations of the parallel loops, and nothing but the sum depends on it.
bool is_separable(const ir::Program& program, const Scatter& s) {
  const ir::Reduce& sum = *s.sum;
  if (sum.atomic || uses(sum.value, sum.array) || ir::aliased_arrays(program).count(sum.array)) return false;
  for (const Expr& index : sum.indices)
    if (uses(index, sum.array) || (ir::has_load(index) && !index.same_as(s.key()))) return false;
  if (mentions_any(s.key(), s.outer) || mentions_any(s.key(), s.inner)) return false;
  for (const ir::For* loop : s.sequential)
    if (bounds_mention(*loop, s.outer) || uses(loop->lower, sum.array) || uses(loop->upper, sum.array)) return false;
  for (const Loops* row : {&s.outer, &s.inner})
    for (const ir::For* loop : *row)
      if (bounds_load(*loop) || bounds_mention(*loop, s.sequential)) return false;
  return true;
}

std::optional<Scatter> scatter_in(const ir::Program& program, const Stmt& nest) {
  Scatter result;
  if (!take_loops(nest, result)) return std::nullopt;
  const auto& indices = result.sum->indices;
  const auto from_data = std::find_if(indices.begin(), indices.end(), ir::has_load);
  if (from_data == indices.end()) return std::nullopt;
  result.dimension = static_cast<std::size_t>(from_data - indices.begin());
  if (!is_separable(program, result)) return std::nullopt;
  result.iterations = iterations_of(program, result.sequential);
  return result.iterations ? std::optional(result) : std::nullopt;
}

Stmt around(const ir::For& loop, const Stmt& body) { return with_body(loop, body); }
Stmt around(const Loops& loops, Stmt body) {
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) body = around(**loop, body);
  return body;
}

/// A loop over columns that was cut into blocks for several threads, as one loop again; null for others.
Stmt whole(const ir::For& blocks, const ir::For& columns, const Stmt& body) {
  const auto width = coefficient_of(columns.lower, blocks.iterator);
  const auto* end = columns.upper.as<ir::Binary>();
  const auto* count = blocks.upper.as<ir::Binary>();
  if (!width || *width < 1 || !end || end->op != BinaryOp::Min || !count || count->op != BinaryOp::FloorDiv) return {};
  const Expr size = ir::int_const(*width), first = ir::substitute(columns.lower, {{blocks.iterator, ir::int_const(0)}});
  const bool a_is_last = !mentions(end->a, blocks.iterator);
  const Expr &last = a_is_last ? end->a : end->b, &block_end = a_is_last ? end->b : end->a;
  const bool covers = !mentions(last, blocks.iterator) && same_value(block_end, columns.lower + size) &&
                      ir::as_int(blocks.lower) == 0 && ir::as_int(count->b) == *width &&
                      same_value(count->a, last - first + size - ir::int_const(1));
  bool elsewhere = false;
  ir::walk(
      body, [](const Stmt&) {}, [&](const Expr& e) { elsewhere |= mentions(e, blocks.iterator); });
  if (!covers || elsewhere) return {};
  return ir::for_loop(columns.iterator, simplify_indices(first), last, body, ir::LoopMode::Parallel, columns.location);
}

/// The iterations of each target in their order, and the sums over them. Blocks of iterations are counted, and later
/// placed, side by side: what a block has for a target comes after what the blocks before it have.
class Inverse {
 public:
  explicit Inverse(const Scatter& scatter)
      : s_(scatter), targets_(scatter.sum->array->shape[scatter.dimension]), where_(scatter.leaf->location) {
    const Expr one = ir::int_const(1), twice = ir::larger(targets_ * ir::int_const(2), one);
    const Expr affordable = ir::binary(BinaryOp::FloorDiv, s_.iterations, twice);
    blocks_ = ir::larger(ir::smaller(affordable, ir::int_const(most_blocks)), one);
    first_ = local("first", {targets_ + one});
    place_ = local("place", {blocks_, targets_});
    for (const ir::For* loop : s_.sequential) iterators_.push_back(local(loop->iterator.name + "_of", {s_.iterations}));
  }

  Stmt code() const {
    Stmt all = ir::block({counted(), added_up(), placed(), summed()});
    for (const Array& iterator : iterators_) all = ir::allocate(iterator, all, where_);
    return ir::with_fresh_names(ir::allocate(first_, ir::allocate(place_, all, where_), where_));
  }

 private:
  Array local(const std::string& name, std::vector<Expr> shape) const {
    return ir::make_array(name, ScalarType::I64, std::move(shape), ir::ArrayRole::Local, where_);
  }
  Expr first(const Expr& target) const { return ir::load(first_, {target}, where_); }
  Expr key() const { return ir::cast(ScalarType::I64, s_.key()); }

  /// The body for the iterations of one block.
  Stmt in_block(const Expr& block, const Stmt& body) const {
    const ir::For& loop = *s_.sequential.front();
    const Expr one = ir::int_const(1), trips = loop.upper - loop.lower;
    const Expr share = ir::binary(BinaryOp::FloorDiv, trips + blocks_ - one, blocks_);
    const Expr begin = block * share, end = ir::smaller(begin + share, trips);
    const bool backward = loop.mode == ir::LoopMode::Backward;
    const Expr lower = backward ? loop.upper - end : loop.lower + begin;
    const Expr upper = backward ? loop.upper - begin : loop.lower + end;
    const Loops inside(s_.sequential.begin() + 1, s_.sequential.end());
    return ir::for_loop(loop.iterator, lower, upper, around(inside, body), loop.mode, loop.location, share);
  }
  Stmt for_blocks(const ir::Symbol& block, const Stmt& body) const {
    return ir::for_loop(block, ir::int_const(0), blocks_, body, ir::LoopMode::Parallel, where_);
  }

  Stmt counted() const {
    const ir::Symbol b = ir::make_symbol("block"), t = ir::make_symbol("target");
    const Expr block = ir::var(b), zero = ir::int_const(0);
    return for_blocks(
        b,
        ir::block({ir::for_loop(t, zero, targets_, ir::assign(place_, {block, ir::var(t)}, zero, where_),
                                ir::LoopMode::Parallel, where_),
                   in_block(block, ir::reduce(place_, {block, key()}, ir::ReduceOp::Add, ir::int_const(1), where_))}));
  }
  Stmt added_up() const {
    const ir::Symbol b = ir::make_symbol("block"), t = ir::make_symbol("target");
    const Array next = local("next", {}), count = local("count", {});
    const Expr target = ir::var(t), now = ir::load(next, {});
    const std::vector<Expr> here = {ir::var(b), target};
    const Stmt one = ir::allocate(
        count, ir::block({ir::assign(count, {}, ir::load(place_, here), where_), ir::assign(place_, here, now, where_),
                          ir::assign(next, {}, now + ir::load(count, {}), where_)}));
    const Stmt all =
        ir::for_loop(t, ir::int_const(0), targets_,
                     ir::block({ir::assign(first_, {target}, now, where_),
                                ir::for_loop(b, ir::int_const(0), blocks_, one, ir::LoopMode::Forward, where_)}),
                     ir::LoopMode::Forward, where_);
    return ir::allocate(next, ir::block({ir::assign(next, {}, ir::int_const(0), where_), all,
                                         ir::assign(first_, {targets_}, now, where_)}));
  }
  Stmt placed() const {
    const ir::Symbol b = ir::make_symbol("block");
    const Array slot = local("slot", {});
    const std::vector<Expr> here = {ir::var(b), key()};
    std::vector<Stmt> body = {ir::assign(slot, {}, ir::load(place_, here), where_)};
    for (std::size_t k = 0; k < iterators_.size(); ++k)
      body.push_back(ir::assign(iterators_[k], {ir::load(slot, {})}, ir::var(s_.sequential[k]->iterator), where_));
    body.push_back(ir::assign(place_, here, ir::load(slot, {}) + ir::int_const(1), where_));
    return for_blocks(b, in_block(ir::var(b), ir::allocate(slot, ir::block(std::move(body)), where_)));
  }
  Stmt summed() const {
    const ir::Symbol t = ir::make_symbol("target"), slot = ir::make_symbol("slot");
    const Stmt one = ir::rewrite(s_.leaf, [&](const Expr& e) -> std::optional<Expr> {
      return ir::equal(e, s_.key()) ? std::optional(ir::cast(e.type(), ir::var(t))) : std::nullopt;
    });
    ir::Substitution iteration;
    for (std::size_t k = 0; k < iterators_.size(); ++k)
      iteration[s_.sequential[k]->iterator] = ir::load(iterators_[k], {ir::var(slot)}, where_);
    const auto over_slots = [&](const Stmt& body) {
      return ir::for_loop(slot, first(ir::var(t)), first(ir::var(t) + ir::int_const(1)),
                          ir::substitute(body, iteration), ir::LoopMode::Forward, where_);
    };
    Stmt row;
    if (s_.outer.size() == 1 && s_.inner.size() == 1) row = whole(*s_.outer[0], *s_.inner[0], one);
    const Stmt body = row ? over_slots(row) : around(s_.outer, over_slots(around(s_.inner, one)));
    return ir::for_loop(t, ir::int_const(0), targets_, body, ir::LoopMode::Parallel, where_);
  }

  const Scatter& s_;
  const Expr targets_;
  const SourceLocation where_;
  Expr blocks_;
  Array first_;                   // of each target's iterations, in their order by targets
  Array place_;                   // where the next iteration of a block for a target goes; before, how many it has
  std::vector<Array> iterators_;  // of the sequential loops, in the order of the targets
};

/// By the inverse where the iterations are many and the rows wide.
Stmt inverted(const Stmt& nest, const Scatter& scatter) {
  const ir::For& widest = scatter.inner.empty() ? *scatter.outer.back() : *scatter.inner.back();
  Expr width = widest.upper - widest.lower;
  for (const ir::For* loop : scatter.outer) width = ir::substitute(width, {{loop->iterator, loop->lower}});
  for (const ir::For* loop : scatter.inner) width = ir::substitute(width, {{loop->iterator, loop->lower}});
  const Expr pays =
      ir::binary(BinaryOp::And, ir::binary(BinaryOp::Ge, scatter.iterations, ir::int_const(least_iterations)),
                 ir::binary(BinaryOp::Ge, simplify_indices(width), ir::int_const(least_width)));
  return ir::if_then(pays, Inverse(scatter).code(), nest, nest->location);
}

}  // namespace

ir::Program invert_scatters(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                         if (s.kind() == ir::Kind::Contraction) return s;
                         if (s.kind() != ir::Kind::For) return std::nullopt;
                         if (const auto scatter = scatter_in(program, s)) return inverted(s, *scatter);
                         return is_parallel_loop(s) ? std::optional(s) : std::nullopt;
                       }));
}

}  // namespace loopgrad::transforms
