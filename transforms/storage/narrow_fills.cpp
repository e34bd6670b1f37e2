#include "transforms/storage/narrow_fills.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"
#include "transforms/bounds/open_accesses.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// Of one dimension: nothing is known yet, or the bounds that all accesses agree on, or they do not.
struct Used {
  Expr lower, upper;
  bool differs = false;

  void add(const ir::For* loop) {
    differs |= !loop || (lower && !(ir::equal(lower, loop->lower) && ir::equal(upper, loop->upper)));
    if (loop && !lower) {
      lower = loop->lower;
      upper = loop->upper;
    }
  }
};

/// The assignment of a constant that a nest of nothing but loops makes to the array, with these loops; null for others.
const ir::Assign* fill_in(const Stmt& s, const ir::Array& array, std::vector<const ir::For*>& loops) {
  const Stmt* at = &s;
  for (; at->kind() == ir::Kind::For; at = &loops.back()->body) loops.push_back(at->as<ir::For>());
  const auto* fill = at->as<ir::Assign>();
  return fill && fill->array == array && !ir::has_load(fill->value) && !loops.empty() ? fill : nullptr;
}

/// Which part of an array its accesses reach, fills left out.
class Uses {
 public:
  Uses(const ir::Array& array, const Stmt& body, const std::set<ir::Array>& aliases)
      : array_(array), aliases_(aliases), dims_(array->shape.size()) {
    visit(body);
  }

  const Used& operator[](std::size_t dim) const { return dims_[dim]; }
  /// Made before the array's scope is entered, and the same in all of it.
  bool is_fixed(const Expr& e) const {
    bool fixed = true;
    ir::walk(e, [&](const Expr& part) {
      if (const auto* variable = part.as<ir::Var>()) fixed &= !inside_.count(variable->symbol);
      if (const auto* load = part.as<ir::Load>()) fixed &= !stored_.count(load->array) && !aliases_.count(load->array);
    });
    return fixed;
  }

 private:
  void visit(const Stmt& s) {
    if (std::vector<const ir::For*> loops; s.kind() == ir::Kind::For && fill_in(s, array_, loops)) {
      stored_.insert(array_);
      return;
    }
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
      stored_.insert(array);
      if (array == array_) note(indices);
    });
    const auto* loop = s.as<ir::For>();
    if (loop) inside_.insert(loop->iterator);
    if (const auto* loop_while = s.as<ir::While>()) inside_.insert(loop_while->iterator);
    ir::for_each_child(s, ir::overloaded{[&](const Expr& e) { visit(e); },
                                         [&](const Stmt& child) {
                                           if (loop) around_.push_back(loop);
                                           visit(child);
                                           if (loop) around_.pop_back();
                                         }});
  }

  void visit(const Expr& e) {
    ir::walk(e, [&](const Expr& part) {
      if (const auto* load = part.as<ir::Load>(); load && load->array == array_) note(load->indices);
    });
  }

  void note(const std::vector<Expr>& indices) {
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      const auto* index = indices[d].as<ir::Var>();
      const auto found = std::find_if(around_.begin(), around_.end(),
                                      [&](const ir::For* loop) { return index && loop->iterator == index->symbol; });
      dims_[d].add(found == around_.end() ? nullptr : *found);
    }
  }

  const ir::Array& array_;
  const std::set<ir::Array>& aliases_;
  std::vector<Used> dims_;
  std::vector<const ir::For*> around_;
  std::set<ir::Symbol> inside_;
  std::set<ir::Array> stored_;
};

class Narrower : public ir::Rewriter {
 public:
  explicit Narrower(const ir::Program& program) : ranges_(program), aliases_(ir::aliased_arrays(program)) {}

  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (s.kind() == ir::Kind::For) ranges_.enter(s);
    const auto* local = s.as<ir::Allocate>();
    if (!local || local->array->shape.empty()) return rewrite_children(s);
    const Stmt body = narrowed(*local);
    return rewrite_children(body.same_as(local->body) ? s : ir::allocate(local->array, body, s->location, local->home));
  }

 private:
  Stmt narrowed(const ir::Allocate& local) {
    const Uses uses(local.array, local.body, aliases_);
    bool any = false;
    for (std::size_t d = 0; d < local.array->shape.size(); ++d) any |= can_narrow(uses, d);
    if (!any) return local.body;
    return ir::rewrite(local.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      std::vector<const ir::For*> loops;
      const ir::Assign* const fill = s.kind() == ir::Kind::For ? fill_in(s, local.array, loops) : nullptr;
      return fill ? std::optional(with_bounds(s, *fill, uses)) : std::nullopt;
    });
  }

  bool can_narrow(const Uses& uses, std::size_t dim) const {
    const Used& used = uses[dim];
    if (used.differs || !used.lower || !uses.is_fixed(used.lower) || !uses.is_fixed(used.upper)) return false;
    bool can_read = ir::has_load(used.lower) || ir::has_load(used.upper);
    for (const Expr& bound : {used.lower, used.upper})
      ir::walk(bound, [&](const Expr& part) {
        const auto* load = part.as<ir::Load>();
        for (std::size_t d = 0; load && d < load->indices.size(); ++d)
          can_read &= ranges_.stays_within(load->indices[d], load->array->shape[d]);
      });
    return can_read;
  }

  Stmt with_bounds(const Stmt& s, const ir::Assign& fill, const Uses& uses) const {
    const auto* loop = s.as<ir::For>();
    if (!loop) return s;
    const Stmt body = with_bounds(loop->body, fill, uses);
    for (std::size_t d = 0; d < fill.indices.size(); ++d) {
      const auto* index = fill.indices[d].as<ir::Var>();
      const bool is_own = index && index->symbol == loop->iterator;
      const bool is_whole = ir::as_int(loop->lower) == 0 && ir::equal(loop->upper, fill.array->shape[d]);
      if (is_own && is_whole && can_narrow(uses, d)) {
        const auto [lower, upper] = within(uses[d], fill.array->shape[d]);
        return ir::for_loop(loop->iterator, lower, upper, body, loop->mode, loop->location);
      }
    }
    return with_body(*loop, body);
  }

  // Uses may be under conditions that keep them inside of the array; the fill has to stay there by itself.
  std::pair<Expr, Expr> within(const Used& used, const Expr& extent) const {
    const auto is_end = [&](const Expr& bound) { return ranges_.stays_within(bound, extent + ir::int_const(1)); };
    return {is_end(used.lower) ? used.lower : ir::binary(ir::BinaryOp::Max, used.lower, ir::int_const(0)),
            is_end(used.upper) ? used.upper : ir::binary(ir::BinaryOp::Min, used.upper, extent)};
  }

  IndexRanges ranges_;
  const std::set<ir::Array> aliases_;
};

}  // namespace

ir::Program narrow_fills(const ir::Program& program) {
  return ir::with_body(program, Narrower(program).rewrite(program.body));
}

}  // namespace loopgrad::transforms
