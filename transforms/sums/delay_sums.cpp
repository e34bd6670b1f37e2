#include "transforms/sums/delay_sums.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/level_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int most_loads = 2;  // loading the value's operands again must not cost more than what it saves

// A sum in a perfect nest: under no condition, once for each iteration of the loops.
struct NestSum {
  std::vector<const ir::For*> loops;
  Stmt statement;
  Expr value;  // without scalars of the nest

  const ir::Reduce& sum() const { return *statement.as<ir::Reduce>(); }
};

class SumFinder {
 public:
  std::vector<NestSum> found;

  void visit(const Stmt& s) {
    if (auto* loop = s.as<ir::For>()) {
      loops_.push_back(loop);
      visit(loop->body);
      loops_.pop_back();
    } else if (auto* local = s.as<ir::Allocate>()) {
      if (local->array->shape.empty() && stores_to(local->array, local->body) == 1) set_once_.insert(local->array);
      visit(local->body);
    } else if (auto* block = s.as<ir::Block>()) {
      for (const Stmt& child : block->body) visit(child);
    } else if (auto* assign = s.as<ir::Assign>(); assign && set_once_.count(assign->array)) {
      values_[assign->array] = {inlined(assign->value), loops_};
    } else if (auto* sum = s.as<ir::Reduce>()) {
      if (sum->op == ir::ReduceOp::Add && !sum->atomic) found.push_back({loops_, s, inlined(sum->value)});
    }
  }

 private:
  static int stores_to(const ir::Array& array, const Stmt& body) {
    int stores = 0;
    for (const Stmt& leaf : leaves(body))
      for_each_store(leaf, [&](const ir::Array& stored, const std::vector<Expr>&) { stores += stored == array; });
    return stores;
  }

  Expr inlined(const Expr& e) const {
    return ir::rewrite(e, [&](const Expr& x) -> std::optional<Expr> {
      auto* load = x.as<ir::Load>();
      if (!load || !load->indices.empty()) return std::nullopt;
      const auto value = values_.find(load->array);
      return value == values_.end() || !are_around(value->second.loops) ? std::nullopt
                                                                        : std::optional(value->second.value);
    });
  }

  bool are_around(const std::vector<const ir::For*>& loops) const {
    return loops.size() <= loops_.size() && std::equal(loops.begin(), loops.end(), loops_.begin());
  }

  struct Value {
    Expr value;
    std::vector<const ir::For*> loops;  // in whose iterations it is that
  };

  std::vector<const ir::For*> loops_;
  std::set<ir::Array> set_once_;
  std::map<ir::Array, Value> values_;
};

std::vector<NestSum> sums_of(const Stmt& nest) {
  SumFinder finder;
  finder.visit(nest);
  return std::move(finder.found);
}

// One loop over steps, and what its body consists of.
class Steps {
 public:
  Steps(const ir::Program& program, const ir::For& loop) : program_(program), loop_(loop), t_(ir::var(loop.iterator)) {
    auto* block = loop.body.as<ir::Block>();
    body_ = block ? block->body : std::vector<Stmt>{loop.body};
    step_ = loop.mode == ir::LoopMode::Backward ? -1 : 1;
  }

  // The loop and what comes after it with one sum delayed; null when there is none.
  Stmt build(Report& report) const {
    if (loop_.mode == ir::LoopMode::Parallel || ir::has_load(loop_.lower) || ir::has_load(loop_.upper)) return {};
    for (std::size_t p = 0; p < body_.size(); ++p) {
      if (!body_[p].as<ir::For>()) continue;
      for (const NestSum& moved : sums_of(body_[p])) {
        const auto level = is_movable(moved) ? level_of(moved) : std::nullopt;
        if (!level || !waits(moved, p, *level)) continue;
        for (std::size_t g = 0; g < body_.size(); ++g) {
          if (g == p || !body_[g].as<ir::For>()) continue;
          const auto sums = sums_of(body_[g]);
          const auto target = std::find_if(sums.begin(), sums.end(),
                                           [&](const NestSum& sum) { return is_same_place(moved, sum, *level); });
          if (target == sums.end() || !is_first(*target, body_[g]) || !arrives(moved, *target, g, *level)) continue;
          report.remarks.push_back({fmt::format("'{}' waits for the next step of '{}', which sums up the same elements",
                                                text_of(moved.sum()), loop_.iterator.name),
                                    moved.sum().location});
          return moved_to(moved, p, *target, g);
        }
      }
    }
    return {};
  }

 private:
  // The dimension that goes through the levels, and how far ahead of the step.
  struct Level {
    std::size_t dimension;
    std::int64_t offset;
  };

  bool is_movable(const NestSum& moved) const {
    if (moved.loops.empty() || ir::aliased_arrays(program_).count(moved.sum().array)) return false;
    for (const ir::For* loop : moved.loops)
      for (const Expr& bound : {loop->lower, loop->upper})
        if (ir::has_load(bound) || ir::mentions(bound, loop_.iterator)) return false;
    int loads = 0;
    bool known = true;
    ir::walk(moved.value, [&](const Expr& e) {
      if (!known || loads > most_loads) return false;  // what is shared in it counts each time: there may be many
      auto* load = e.as<ir::Load>();
      if (!load) return true;
      ++loads;
      known &= !load->indices.empty() && !is_local_of(body_, load->array) &&
               !ir::aliased_arrays(program_).count(load->array);
      for (const Expr& index : load->indices) known &= !ir::has_load(index);
      return true;
    });
    return known && loads <= most_loads;
  }

  static bool is_local_of(const std::vector<Stmt>& body, const ir::Array& array) {
    bool found = false;
    for (const Stmt& nest : body)
      for (const LocalArray& local : locals_of(nest)) found |= local.array == array;
    return found;
  }

  // Where one index is the step plus a constant and the others are the nest's iterators plus constants, one each.
  std::optional<Level> level_of(const NestSum& nest) const {
    std::optional<Level> level;
    const auto& indices = nest.sum().indices;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (const auto offset = distance(indices[d], t_); offset && !level) level = Level{d, *offset};
      else if (!iterator_of(nest, d)) return std::nullopt;
    }
    return level && nest.loops.size() + 1 == indices.size() ? level : std::nullopt;
  }

  // The loop whose iterator plus a constant is the index in this dimension, in no other.
  static const ir::For* iterator_of(const NestSum& nest, std::size_t dimension) {
    const auto& indices = nest.sum().indices;
    for (const ir::For* loop : nest.loops) {
      if (!distance(indices[dimension], ir::var(loop->iterator))) continue;
      for (std::size_t other = 0; other < indices.size(); ++other)
        if (other != dimension && ir::mentions(indices[other], loop->iterator)) return nullptr;
      for (const ir::For* bounded : nest.loops)
        if (ir::mentions(bounded->lower, loop->iterator) || ir::mentions(bounded->upper, loop->iterator))
          return nullptr;
      return loop;
    }
    return nullptr;
  }

  // Whether `sum` adds, in the next step, to the elements that `moved` added to, each once.
  bool is_same_place(const NestSum& moved, const NestSum& sum, const Level& level) const {
    if (sum.sum().array != moved.sum().array) return false;
    const auto own = level_of(sum);
    if (!own || own->dimension != level.dimension || own->offset != level.offset - step_) return false;
    for (std::size_t d = 0; d < moved.sum().indices.size(); ++d) {
      if (d == level.dimension) continue;
      const ir::For *a = iterator_of(moved, d), *b = iterator_of(sum, d);
      const Expr shift = offset_in(moved, d) - offset_in(sum, d);
      if (!same_value(a->lower + shift, b->lower) || !same_value(a->upper + shift, b->upper)) return false;
    }
    return true;
  }

  static bool is_first(const NestSum& sum, const Stmt& nest) {
    for (const Stmt& leaf : leaves(nest)) {
      bool stores = false;
      for_each_store(leaf,
                     [&](const ir::Array& stored, const std::vector<Expr>&) { stores |= stored == sum.sum().array; });
      if (stores) return leaf.same_as(sum.statement);
    }
    return false;
  }

  // index - iterator, a constant.
  static Expr offset_in(const NestSum& nest, std::size_t d) {
    const ir::For* loop = iterator_of(nest, d);
    return ir::int_const(*distance(nest.sum().indices[d], ir::var(loop->iterator)));
  }

  // Whether the rest of the step may run before the sum.
  bool waits(const NestSum& moved, std::size_t p, const Level& level) const {
    for (std::size_t at = p; at < body_.size(); ++at)
      if (!is_independent(moved, at, level, 0, {})) return false;
    return true;
  }

  // Whether the next step, up to `target`, may run before the sum; also whether elements exist without a step.
  bool arrives(const NestSum& moved, const NestSum& target, std::size_t g, const Level& level) const {
    for (std::size_t at = 0; at <= g; ++at)
      if (!is_independent(moved, at, level, step_, at == g ? target.sum().indices : std::vector<Expr>())) return false;
    const auto& sum = moved.sum();
    const auto& shape = sum.array->shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const ir::For* loop = d == level.dimension ? nullptr : iterator_of(moved, d);
      const Expr first = loop ? loop->lower + offset_in(moved, d) : last() + ir::int_const(level.offset);
      const Expr final = loop ? loop->upper + offset_in(moved, d) - ir::int_const(1) : first;
      if (!is_never_negative(program_, first) || !is_never_negative(program_, shape[d] - ir::int_const(1) - final))
        return false;
    }
    return true;
  }

  // Whether statement `at`, `later` steps after the sum's own, neither uses what the sum changes, other than to add to
  // the same element (`same`), nor changes what it loads.
  bool is_independent(const NestSum& moved, std::size_t at, const Level& level, std::int64_t later,
                      const std::vector<Expr>& same) const {
    if (has_contraction(body_[at]) || ir::uses_stack(body_[at])) return false;
    const auto uses = level_uses(body_[at], moved.sum().array, level.dimension);
    if (!uses) return false;
    for (const LevelUse& use : *uses) {
      const Stmt& leaf = use.path.back();
      if (leaf.same_as(moved.statement)) continue;
      const auto offset = distance(use.index, t_);
      if (!offset) return false;
      const bool adds = use.stores && leaf.as<ir::Reduce>() && ir::equal(use.indices, same);
      if (*offset + later == level.offset && !adds) return false;
    }
    bool independent = true;
    ir::walk(moved.value, [&](const Expr& e) {
      auto* load = e.as<ir::Load>();
      if (load) independent &= is_unchanged(*load, at, moved, level, later);
    });
    return independent;
  }

  bool is_unchanged(const ir::Load& load, std::size_t at, const NestSum& moved, const Level& level,
                    std::int64_t later) const {
    const bool same_array = load.array == moved.sum().array;
    const std::size_t dimension = same_array ? level.dimension : 0;
    const auto uses = level_uses(body_[at], load.array, dimension);
    return uses && std::all_of(uses->begin(), uses->end(), [&](const LevelUse& use) {
             if (!use.stores) return true;
             // Where both levels are known, their distance is.
             const auto ahead = same_array ? distance(use.index, load.indices[dimension]) : std::nullopt;
             const bool known = ahead && distance(use.index, t_);
             return known && *ahead + later != 0;
           });
  }

  Expr first() const { return step_ < 0 ? loop_.upper - ir::int_const(1) : loop_.lower; }
  Expr last() const { return step_ < 0 ? loop_.lower : loop_.upper - ir::int_const(1); }

  Stmt moved_to(const NestSum& moved, std::size_t p, const NestSum& target, std::size_t g) const {
    const ir::Reduce& old = moved.sum();
    ir::Substitution places = {{loop_.iterator, t_ - ir::int_const(step_)}};
    for (std::size_t d = 0; d < old.indices.size(); ++d) {
      const ir::For* from = iterator_of(moved, d);
      if (!from) continue;
      const ir::For* to = iterator_of(target, d);
      places[from->iterator] = ir::var(to->iterator) + offset_in(target, d) - offset_in(moved, d);
    }
    const Expr zero = ir::const_of(0, moved.value.type());
    const Expr is_later = step_ < 0 ? ir::binary(BinaryOp::Lt, t_, simplify_indices(first()))
                                    : ir::binary(BinaryOp::Gt, t_, simplify_indices(first()));
    const Expr before = ir::select(is_later, simplify_indices(ir::substitute(moved.value, places)), zero);
    const Stmt here = ir::reduce(old.array, target.sum().indices, old.op, before, old.location);

    std::vector<Stmt> body = body_;
    body[g] = replace(body[g], target.statement, ir::block({here, target.statement}));
    body[p] = without(body[p], moved.statement);
    const Expr any = ir::binary(BinaryOp::Lt, loop_.lower, loop_.upper);
    const Expr rest = ir::select(any, moved.value, zero);
    Stmt after = ir::reduce(old.array, old.indices, old.op, rest, old.location);
    for (auto loop = moved.loops.rbegin(); loop != moved.loops.rend(); ++loop) after = with_body(**loop, after);
    after = simplify_indices(ir::with_fresh_names(ir::substitute(after, {{loop_.iterator, last()}})));
    return ir::block({with_body(loop_, ir::block(std::move(body))), after});
  }

  static Stmt without(const Stmt& nest, const Stmt& leaf) {
    StmtSet others;
    for (const Stmt& s : leaves(nest))
      if (!s.same_as(leaf)) others.insert(s.get());
    return slice(nest, others);
  }

  const ir::Program& program_;
  const ir::For& loop_;
  const Expr t_;
  std::vector<Stmt> body_;
  std::int64_t step_;
};

}  // namespace

ir::Program delay_sums(const ir::Program& program, PassContext& context) {
  std::function<Stmt(const Stmt&)> visit = [&](const Stmt& body) {
    return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      auto* loop = s.as<ir::For>();
      if (!loop) return std::nullopt;
      const Stmt delayed = Steps(program, *loop).build(context.report);
      if (delayed) return visit(delayed);
      return std::nullopt;
    });
  };
  return ir::with_body(program, visit(program.body));
}

}  // namespace loopgrad::transforms
