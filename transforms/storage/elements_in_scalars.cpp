#include "transforms/storage/elements_in_scalars.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/old_value.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

bool Element::is(const ir::Array& other, const std::vector<Expr>& at) const {
  return array == other && ir::equal(indices, at);
}

bool Element::is_used_in(const Stmt& s) const {
  const auto all = accesses_of(s);
  return std::any_of(all.begin(), all.end(), [&](const Access& x) { return is(x.array, x.indices); });
}

namespace {

/// Where a statement stands among those that are looked at.
struct Place {
  bool certain = true, in_loop = false, in_parallel_loop = false;
};

/// Looks at statements in a row.
class Collector {
  struct Load {
    const ir::Load* node;
    Place place;
    std::size_t stored;  // elements stored to before
  };

 public:
  Collector(const std::set<ir::Array>& aliases, const ir::LeastValues& least) : aliases_(aliases), least_(least) {}

  std::vector<Element> look_at(const std::vector<Stmt>& statements) {
    for (const Stmt& s : statements) look(s, {});
    for (Element& e : elements_) {
      e.fits &= !changed_.count(e.array) && !aliases_.count(e.array) && e.array->type == value_type(e.array->type);
      for (const Expr& index : e.indices) e.fits &= stays(index);
    }
    for (std::size_t k = 0; k < elements_.size(); ++k)
      for (std::size_t other = 0; other < k; ++other) keep_apart(elements_[k], elements_[other]);
    for (const Load& load : loads_) note_load(load);
    return std::move(elements_);
  }

 private:
  void look(const Stmt& s, Place place) {
    if (!s) return;
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& at) { note_store(s, place, array, at); });
    if (const auto* local = s.as<ir::Allocate>()) changed_.insert(local->array);
    if (const auto* n = s.as<ir::Contraction>()) changed_.insert({n->a, n->b, n->c});
    if (const auto* loop = s.as<ir::For>()) {
      inner_.insert(loop->iterator);
      loops_.push_back(loop);
    }
    if (const auto* loop = s.as<ir::While>()) inner_.insert(loop->iterator);
    Place inside = place;
    inside.in_loop |= s.kind() == ir::Kind::For || s.kind() == ir::Kind::While;
    inside.in_parallel_loop |= is_parallel_loop(s);
    inside.certain &= s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Allocate;
    ir::for_each_child(s, ir::overloaded{[&](const Expr& e) {
                                           ir::walk(e, [&](const Expr& x) {
                                             if (const auto* load = x.as<ir::Load>())
                                               loads_.push_back({load, place, elements_.size()});
                                           });
                                         },
                                         [&](const Stmt& child) { look(child, inside); }});
  }

  void note_store(const Stmt& s, Place place, const ir::Array& array, const std::vector<Expr>& indices) {
    stored_.insert(array);
    if (indices.empty() && array->role == ir::ArrayRole::Local) return;  // is a scalar already
    auto e = std::find_if(elements_.begin(), elements_.end(), [&](const Element& x) { return x.is(array, indices); });
    if (e == elements_.end()) {
      e = elements_.emplace(e);
      e->array = array, e->indices = indices, e->location = s->location;
      const bool loaded = std::any_of(loads_.begin(), loads_.end(), [&](const Load& load) {
        return load.node->array == array && ir::equal(load.node->indices, indices);  // or apart, or it does not fit
      });
      e->starts_new = place.certain && s.as<ir::Assign>() && !loaded;
    }
    const auto* sum = s.as<ir::Reduce>();
    e->assigns |= !sum;
    if (sum && e->sums.empty()) e->location = s->location;
    if (sum) e->sums.insert(sum->op);
    e->fits &= s.kind() != ir::Kind::Pop && !(sum && sum->atomic);
    e->certain |= place.certain;
    e->stored_in_loop |= place.in_loop;
    e->in_parallel_loop |= place.in_parallel_loop;
    ++e->stores;
  }

  void note_load(const Load& load) {
    for (std::size_t k = 0; k < elements_.size(); ++k) {
      Element& e = elements_[k];
      if (e.array != load.node->array) continue;
      const bool same = ir::equal(load.node->indices, e.indices);
      e.read_in_loop |= same && load.place.in_loop && k < load.stored;
      e.in_parallel_loop |= same && load.place.in_parallel_loop;
      e.fits = e.fits && (same || are_apart(load.node->indices, e.indices, e.array));
    }
  }

  /// Whether the index is the same wherever the statements ask for it.
  bool stays(const Expr& index) const {
    bool same = true;
    ir::walk(index, [&](const Expr& x) {
      if (const auto* var = x.as<ir::Var>()) same &= !inner_.count(var->symbol);
      if (const auto* load = x.as<ir::Load>())
        same &= !stored_.count(load->array) && !changed_.count(load->array) && !aliases_.count(load->array);
    });
    return same;
  }

  void keep_apart(Element& a, Element& b) const {
    if (a.array != b.array || !(a.fits || b.fits)) return;
    if (a.fits && !are_apart(b.indices, a.indices, a.array)) a.fits = false;
    if (b.fits && !are_apart(a.indices, b.indices, a.array)) b.fits = false;
  }

  /// Whether an access under `indices` is never the element.
  bool are_apart(const std::vector<Expr>& indices, const std::vector<Expr>& element, const ir::Array& array) const {
    return surely_differ(indices, element) || least_.are_apart(indices, element) ||
           transforms::are_apart({array, indices}, {array, element}, loops_);
  }

  const std::set<ir::Array>& aliases_;
  const ir::LeastValues& least_;
  std::vector<Element> elements_;
  std::vector<Load> loads_;
  std::set<ir::Array> stored_;
  std::set<ir::Array> changed_;  // in other ways than by stores to elements
  std::set<ir::Symbol> inner_;   // iterators
  std::vector<const ir::For*> loops_;
};

/// Whether statements that may need the old value of the element may yet be the first to give it one.
bool may_have_no_value(const Element& e, const OldValue& old) {
  return e.array->role != ir::ArrayRole::InOut && e.assigns && !old.is_exact;
}

/// `s` with the scalar in place of the element.
Stmt moved(const Stmt& s, const Element& e, const ir::Array& scalar) {
  // What is assigned first may need the old value, or have none yet: it reads memory, if anything.
  const ir::Array first = ir::make_array(scalar->name, scalar->type, {}, ir::ArrayRole::Local, scalar->location);
  Expr first_value;
  Stmt body = ir::rewrite(s, {}, [&](const Stmt& x) -> std::optional<Stmt> {
    const auto* assign = x.as<ir::Assign>();
    if (!e.starts_new || first_value || !assign || !e.is(assign->array, assign->indices)) return std::nullopt;
    first_value = assign->value;
    return ir::assign(scalar, {}, ir::load(first, {}), assign->location);
  });
  body = transforms::in_scalar(body, e.array, e.indices, scalar);
  return ir::rewrite(body, [&](const Expr& x) -> std::optional<Expr> {
    const auto* load = x.as<ir::Load>();
    return load && load->array == first ? std::optional(first_value) : std::nullopt;
  });
}

struct InScalar {
  Element element;
  ir::Array scalar;
  Stmt before;  // null: nothing
  bool wanted = true;
};

Stmt with_scalars(Stmt body, const std::vector<InScalar>& elements) {
  std::vector<Stmt> all, after;
  for (const auto& [e, scalar, before, wanted] : elements) {
    body = moved(body, e, scalar);
    if (before) all.push_back(before);
    if (wanted) after.push_back(ir::assign(e.array, e.indices, ir::load(scalar, {}), scalar->location));
  }
  all.push_back(body);
  all.insert(all.end(), after.begin(), after.end());
  Stmt result = ir::block(std::move(all));
  for (const InScalar& e : elements) result = ir::allocate(e.scalar, result, e.scalar->location);
  return result;
}

ir::Array scalar_for(const Element& e, const std::string& name) {
  return ir::make_array(name, e.array->type, {}, ir::ArrayRole::Local, e.location);
}

/// Statements of a block, and what is in scalars over them.
struct Range {
  std::ptrdiff_t begin, end;
  std::vector<Element> elements;
};

Range range_of(const std::vector<Stmt>& list, const Element& e) {
  const auto uses_it = [&](const Stmt& s) { return e.is_used_in(s); };
  const auto first = std::find_if(list.begin(), list.end(), uses_it);
  const auto last = std::find_if(list.rbegin(), list.rend(), uses_it);
  return {first - list.begin(), last.base() - list.begin(), {e}};
}

/// Keeps them in order, and those that overlap as one.
void add(std::vector<Range>& ranges, Range range) {
  const auto first = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) { return r.end > range.begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin < range.end; ++last) {
    range.begin = std::min(range.begin, last->begin), range.end = std::max(range.end, last->end);
    range.elements.insert(range.elements.begin(), last->elements.begin(), last->elements.end());
  }
  ranges.insert(ranges.erase(first, last), std::move(range));
}

bool always_stores(const Stmt& s, const Element& e) {
  if (const auto* local = s.as<ir::Allocate>()) return always_stores(local->body, e);
  if (const auto* block = s.as<ir::Block>())
    return std::any_of(block->body.begin(), block->body.end(),
                       [&](const Stmt& child) { return always_stores(child, e); });
  bool found = false;
  for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& at) { found = e.is(array, at); });
  return found;
}

/// A loop, and loops directly inside it: whether there is a trip, and which is the first.
struct Trips {
  Expr exist = ir::bool_const(true);
  ir::Substitution first;
  Stmt body;  // of the innermost

  Trips(const Stmt& s, bool data_bounds) : body(s) {
    for (const auto* loop = s.as<ir::For>(); loop && (is_known(*loop) || (data_bounds && first.empty()));
         loop = body.as<ir::For>()) {
      const bool backward = loop->mode == ir::LoopMode::Backward;
      exist = ir::binary(ir::BinaryOp::And, exist, ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper));
      first[loop->iterator] = backward ? loop->upper - ir::int_const(1) : loop->lower;
      body = loop->body;
    }
  }

 private:
  bool is_known(const ir::For& loop) const {
    const auto depends = [&](const Expr& bound) {
      return std::any_of(first.begin(), first.end(), [&](const auto& outer) { return mentions(bound, outer.first); });
    };
    return !ir::has_load(loop.lower) && !ir::has_load(loop.upper) && !depends(loop.lower) && !depends(loop.upper);
  }
};

}  // namespace

ScalarElements::ScalarElements(const ir::Program& program) : aliases_(ir::aliased_arrays(program)), least_(program) {}

std::vector<Element> ScalarElements::of(const std::vector<Stmt>& statements) const {
  auto all = Collector(aliases_, least_).look_at(statements);
  std::erase_if(all, [](const Element& e) { return !e.fits; });
  return all;
}

Stmt ScalarElements::before(const Stmt& s, const Element& e, const ir::Array& scalar) const {
  if (e.starts_new) return {};
  const Expr when = old_value(s, e, aliases_).when;
  if (!when) return {};
  return ir::if_then(when, ir::assign(scalar, {}, ir::load(e.array, e.indices), e.location));
}

Stmt ScalarElements::over_loop(const Stmt& s, const ScalarPolicy& policy) const {
  const Trips trips(s, policy.data_bounds);
  const auto* const outermost = s.as<ir::For>();
  std::vector<InScalar> list;
  for (const Element& e : of({s})) {
    // Bounds are evaluated before there is a scalar.
    if (outermost && (uses(outermost->lower, e.array) || uses(outermost->upper, e.array))) continue;
    if (!policy.pays(e) || !always_stores(trips.body, e)) continue;
    const OldValue old = old_value(trips.body, e, aliases_);
    if (may_have_no_value(e, old)) continue;
    const ir::Array scalar = scalar_for(e, policy.name(e));
    Stmt before;
    if (old.when) {
      const Expr none = ir::identity_of(ir::ReduceOp::Add, e.array->type), first = ir::load(e.array, e.indices);
      before = ir::assign(scalar, {}, ir::select(ir::substitute(old.when, trips.first), first, none), e.location);
    }
    list.push_back({e, scalar, before});
  }
  if (list.empty()) return {};
  return ir::if_then(trips.exist, with_scalars(s, list));
}

Stmt ScalarElements::over_block(const Stmt& s, const ScalarPolicy& policy) const {
  const std::vector<Stmt>& list = s.as<ir::Block>()->body;
  std::vector<Range> ranges;
  for (const Element& e : of(list)) {
    if (!e.certain || !policy.pays(e)) continue;
    const Range range = policy.whole_blocks ? Range{0, std::ssize(list), {e}} : range_of(list, e);
    if (!e.starts_new && may_have_no_value(e, old_value(s, e, aliases_))) continue;
    if (range.end - range.begin > 1) add(ranges, range);  // or it is in the scope of a local, and found there
  }
  if (ranges.empty()) return {};
  std::vector<Stmt> result;
  std::ptrdiff_t done = 0;
  for (const Range& range : ranges) {
    result.insert(result.end(), list.begin() + done, list.begin() + range.begin);
    const Stmt part = ir::block({list.begin() + range.begin, list.begin() + range.end});
    std::vector<InScalar> elements;
    for (const Element& e : range.elements) {
      const ir::Array scalar = scalar_for(e, policy.name(e));
      elements.push_back({e, scalar, before(part, e, scalar)});
    }
    result.push_back(with_scalars(part, elements));
    done = range.end;
  }
  result.insert(result.end(), list.begin() + done, list.end());
  return ir::block(std::move(result));
}

Stmt ScalarElements::in_scalars(const Stmt& body, const ScalarPolicy& policy) const {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* loop = s.as<ir::For>();
    if (!loop && s.kind() != ir::Kind::Block) return std::nullopt;
    if (const Stmt now = loop ? over_loop(s, policy) : over_block(s, policy)) return in_scalars(now, policy);
    if (!loop) return std::nullopt;
    return policy.descends(*loop) ? with_body(*loop, in_scalars(loop->body, policy)) : s;
  });
}

Stmt ScalarElements::without_store(const Stmt& s, const Element& e, const std::string& name) const {
  if (!e.starts_new && may_have_no_value(e, old_value(s, e, aliases_))) return s;
  const ir::Array scalar = scalar_for(e, name);
  return with_scalars(s, {{e, scalar, before(s, e, scalar), false}});
}

}  // namespace loopgrad::transforms
