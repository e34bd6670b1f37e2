#include "transforms/sums/invert_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/fuse.h"
#include "transforms/sums/keyed_loops.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/settle_plans.h"

#include <algorithm>

namespace loopgrad::transforms {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

// Below these the inverse takes longer than what it saves.
constexpr std::int64_t least_iterations = 2048;

/// The iterations of each target in their order, and the sums over them. Blocks of iterations are counted, and later
/// placed, side by side: what a block has for a target comes after what the blocks before it have.
class Inverse {
 public:
  explicit Inverse(const Scatter& scatter)
      : s_(scatter), targets_(scatter.targets()), iterations_(scatter.iterations()), where_(scatter.leaf->location) {
    const Expr one = ir::int_const(1), twice = ir::larger(targets_ * ir::int_const(2), one);
    const Expr affordable = ir::binary(BinaryOp::FloorDiv, iterations_, twice);
    blocks_ = ir::larger(ir::smaller(affordable, ir::int_const(most_inverted_blocks)), one);
    first_ = local("first", {targets_ + one});
    place_ = local("place", {blocks_, targets_});
    for (const ir::For* loop : s_.sequential) iterators_.push_back(local(loop->iterator.name + "_of", {iterations_}));
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
  Expr key() const { return s_.key(); }

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
    return for_blocks(b,
                      ir::block({ir::for_loop(t, zero, targets_, ir::assign(place_, {block, ir::var(t)}, zero, where_),
                                              ir::LoopMode::Parallel, where_),
                                 in_block(block, s_.for_each(ir::reduce(place_, {block, key()}, ir::ReduceOp::Add,
                                                                        ir::int_const(1), where_)))}));
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
    return for_blocks(b, in_block(ir::var(b), s_.for_each(ir::allocate(slot, ir::block(std::move(body)), where_))));
  }
  Stmt summed() const {
    const ir::Symbol slot = ir::make_symbol("slot");
    std::vector<Expr> iteration;
    for (const Array& iterator : iterators_) iteration.push_back(ir::load(iterator, {ir::var(slot)}, where_));
    return s_.over_targets([&](const std::vector<Expr>& places, const Expr& target) {
      const Stmt one = s_.sum_into(places, iteration);
      const auto over_slots = [&](const Stmt& body) {
        return ir::for_loop(slot, first(target), first(target + ir::int_const(1)), body, ir::LoopMode::Forward, where_);
      };
      Stmt row;
      if (s_.outer.size() == 1 && s_.inner.size() == 1) row = whole_loop(*s_.outer[0], *s_.inner[0], one);
      return row ? over_slots(row) : around(s_.outer, over_slots(around(s_.inner, one)));
    });
  }

  const Scatter& s_;
  const Expr targets_, iterations_;
  const SourceLocation where_;
  Expr blocks_;
  Array first_;                   // of each target's iterations, in their order by targets
  Array place_;                   // where the next iteration of a block for a target goes; before, how many it has
  std::vector<Array> iterators_;  // of the sequential loops, in the order of the targets
};

/// Whether threads or lanes can share rows, and what the blocks of instances are is known before the nest.
bool has_rows(const Scatter& scatter) {
  const ir::For& instances = *scatter.sequential.front();
  return !(scatter.outer.empty() && scatter.inner.empty()) && !scatter.is_shared_out &&
         !scatter.factors.front().is_ragged && !ir::has_load(instances.lower) && !ir::has_load(instances.upper);
}

/// An expression within the loops as it is in their first iteration: an inner loop may start where outer ones say.
Expr in_first_iteration(Expr e, const Loops& around) {
  for (auto loop = around.rbegin(); loop != around.rend(); ++loop)
    e = ir::substitute(e, {{(*loop)->iterator, (*loop)->lower}});
  return e;
}

/// What decides whether the inverse pays.
struct Extent {
  Expr iterations, width;

  explicit Extent(const Scatter& scatter) : iterations(scatter.iterations()) {
    const ir::For& widest = scatter.inner.empty() ? *scatter.outer.back() : *scatter.inner.back();
    width = simplify_indices(
        in_first_iteration(in_first_iteration(widest.upper - widest.lower, scatter.inner), scatter.outer));
  }
  Expr pays() const {
    return ir::binary(BinaryOp::And, ir::binary(BinaryOp::Ge, iterations, ir::int_const(least_iterations)),
                      ir::binary(BinaryOp::Ge, width, ir::int_const(least_inverted_width)));
  }
  bool is_expected_to_pay(SizeEstimator& sizes) const {
    return sizes.value_of(iterations, {}) >= static_cast<double>(least_iterations) &&
           sizes.value_of(width, {}) >= static_cast<double>(least_inverted_width);
  }
};

/// Nests that no inverse serves, one after the other: they were one nest, and read the same locals of each iteration.
class Joined {
 public:
  explicit Joined(const ir::Program& program) : program_(program) {}

  /// All blocks in it so.
  Stmt inside(const Stmt& s) const {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (child.kind() == ir::Kind::Contraction || is_parallel_loop(child)) return child;
      const auto* block = child.as<ir::Block>();
      if (!block) return std::nullopt;
      std::vector<Stmt> parts;
      for (const Stmt& part : block->body) parts.push_back(inside(part));
      const Stmt whole = ir::block(std::move(parts));
      const auto* flat = whole.as<ir::Block>();
      return flat ? neighbours(flat->body) : whole;
    });
  }

 private:
  Stmt neighbours(const std::vector<Stmt>& parts) const {
    std::vector<Stmt> result;
    std::vector<Scatter> together;  // in the last statement
    for (const Stmt& s : parts) {
      const auto scatter = in_order(s);
      const Stmt both = scatter && !together.empty() ? join(result.back(), s, together, *scatter) : Stmt();
      if (both) result.back() = both;
      else result.push_back(s), together.clear();
      if (scatter) together.push_back(*scatter);
    }
    return ir::block(std::move(result));
  }

  std::optional<Scatter> in_order(const Stmt& s) const {
    if (s.kind() != ir::Kind::For || is_parallel_loop(s)) return std::nullopt;
    auto scatter = scatter_in(program_, s);
    return scatter && !has_rows(*scatter) ? scatter : std::nullopt;
  }

  static Stmt join(const Stmt& first, const Stmt& second, const std::vector<Scatter>& together,
                   const Scatter& scatter) {
    const bool may = std::all_of(together.begin(), together.end(),
                                 [&](const Scatter& other) { return are_independent(other, scatter); });
    const auto fusion = may ? fusion_of(first, second, scatter.sequential.size()) : std::nullopt;
    if (!fusion || fusion->first.size() != scatter.sequential.size()) return {};
    for (std::size_t k = 0; k < fusion->first.size(); ++k)
      if (fusion->ahead[k] != 0 || fusion->first[k].as<ir::For>()->mode != fusion->second[k].as<ir::For>()->mode)
        return {};
    return fused(*fusion);
  }

  const ir::Program& program_;
};

}  // namespace

ir::Program invert_scatters(const ir::Program& before, PassContext& context) {
  const ir::Program program = ir::with_body(before, Joined(before).inside(before.body));
  const IndexRanges ranges = ranges_in(program);
  SizeEstimator sizes(program, context.options.expected_sizes);
  MadeOrders made;
  const Stmt body = ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    if (s.kind() == ir::Kind::Contraction) return s;
    if (s.kind() != ir::Kind::For) return std::nullopt;
    const auto scatter = scatter_in(program, s);
    if (scatter && has_rows(*scatter)) {
      const Extent extent(*scatter);
      made.note(*scatter->sum, extent.is_expected_to_pay(sizes) ? DataOrder::Made : DataOrder::MadeElsewhere);
      return ir::if_then(ir::both(when_asked_for(program, ranges, *scatter), extent.pays()), Inverse(*scatter).code(),
                         s, s->location);
    }
    return is_parallel_loop(s) ? std::optional(s) : std::nullopt;
  });
  constexpr OrderTexts how = {"by an inverse of the indices, where there are 2048 iterations and rows of 8",
                              "there are no rows for which an inverse of the indices pays"};
  settle_segments(program, made, how, context);
  return without_segments(ir::with_body(program, body));
}

}  // namespace loopgrad::transforms
