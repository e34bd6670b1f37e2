#include "transforms/storage/update_once.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/least_values.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// An element that a block stores to.
struct Element {
  ir::Array array;
  std::vector<Expr> indices;
  int stores = 0;
  bool fits = true;         // nothing else in the block may be the same element
  bool certain = false;     // one of the stores runs whenever the block does
  bool needs_value = true;  // from before the loop around its changes
  Expr needed_if = {};      // null: in any case
  bool starts_new = false;  // the first access is an assignment that runs whenever the block does

  bool is(const ir::Array& other, const std::vector<Expr>& at) const {
    return array == other && ir::equal(indices, at);
  }
  bool is_used_in(const Stmt& s) const {
    const auto all = accesses_of(s);
    return std::any_of(all.begin(), all.end(), [&](const Access& x) { return is(x.array, x.indices); });
  }
};

class Updater {
 public:
  explicit Updater(const ir::Program& program) : aliases_(ir::aliased_arrays(program)), least_(program) {}

  Stmt visit(const Stmt& s) {
    if (!s) return s;
    if (const auto* n = s.as<ir::Block>()) return block(s, *n);
    if (const auto* n = s.as<ir::Allocate>()) return ir::allocate(n->array, visit(n->body), n->location);
    if (const auto* n = s.as<ir::If>())
      return ir::if_then(n->condition, visit(n->then_body), visit(n->else_body), n->location);
    if (const auto* n = s.as<ir::For>()) return loop(s, *n);
    return s;
  }

 private:
  Stmt block(const Stmt& s, const ir::Block& n) {
    std::vector<Element> elements = elements_of(n.body);
    elements.erase(std::remove_if(elements.begin(), elements.end(),
                                  [](const Element& e) { return !e.fits || !e.certain || e.stores < 2; }),
                   elements.end());
    if (!elements.empty()) return in_scalars(s, n.body, elements);
    std::vector<Stmt> children;
    for (const Stmt& child : n.body) children.push_back(visit(child));
    return ir::block(std::move(children));
  }

  /// A loop, and loops directly inside it, that change an element in each trip: if they make one, it exists.
  Stmt loop(const Stmt& s, const ir::For& n) const {
    Expr runs = ir::bool_const(true);
    std::vector<ir::Symbol> iterators;
    ir::Substitution first_trip;
    Stmt inside = s;
    for (const auto* loop = &n; loop; inside = loop->body, loop = inside.as<ir::For>()) {
      for (const Expr& bound : {loop->lower, loop->upper}) {
        if (ir::has_load(bound)) return s;
        for (const ir::Symbol& outer : iterators)
          if (mentions(bound, outer)) return s;
      }
      iterators.push_back(loop->iterator);
      const bool backward = loop->mode == ir::LoopMode::Backward;
      first_trip[loop->iterator] = backward ? loop->upper - ir::int_const(1) : loop->lower;
      runs = ir::binary(ir::BinaryOp::And, runs, ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper));
    }
    std::vector<Element> elements = elements_of({s});
    elements.erase(std::remove_if(elements.begin(), elements.end(),
                                  [&](const Element& e) { return !e.fits || !always_stores(inside, e); }),
                   elements.end());
    for (Element& e : elements) {
      const Stmt any = ir::assign(e.array, e.indices, ir::load(e.array, e.indices));
      e.needs_value &= loaded_before(inside, e, any, any).get() != nullptr;
      const Expr choice = choice_of_old_value(inside, e);
      if (choice) e.needed_if = ir::substitute(choice, first_trip);
    }
    return elements.empty() ? s : ir::if_then(runs, in_scalars(s, {s}, elements));
  }

  static bool always_stores(const Stmt& s, const Element& e) {
    bool found = false;
    ir::walk_stmts(s, [&](const Stmt& leaf) {
      for_each_store(leaf, [&](const ir::Array& array, const std::vector<Expr>& at) {
        found |= e.is(array, at) && always_runs(s, leaf);
      });
    });
    return found;
  }

  /// `s`, which executes `children`, with these elements in scalars.
  Stmt in_scalars(const Stmt& s, const std::vector<Stmt>& children, const std::vector<Element>& elements) const {
    Stmt body = s;
    std::vector<Stmt> before, after;
    std::vector<ir::Array> scalars;
    for (const Element& e : elements) {
      const SourceLocation& where = e.array->location;
      const ir::Array now = ir::make_array(e.array->name + "_now", e.array->type, {}, ir::ArrayRole::Local, where);
      scalars.push_back(now);
      body = in_scalar(body, e, now);
      const Stmt old = e.starts_new || !e.needs_value ? Stmt() : first_value(children, e, now);
      if (old) before.push_back(old);
      after.push_back(ir::assign(e.array, e.indices, ir::load(now, {}), where));
    }
    before.push_back(body);
    before.insert(before.end(), after.begin(), after.end());
    Stmt all = ir::block(std::move(before));
    for (const ir::Array& now : scalars) all = ir::allocate(now, all, now->location);
    return all;
  }

  /// Loads the element where `children` use what it was before them: on a path that assigns it first, it may have no
  /// value yet. Null: nowhere.
  Stmt first_value(const std::vector<Stmt>& children, const Element& e, const ir::Array& now) const {
    const Expr old = ir::load(e.array, e.indices), none = ir::identity_of(ir::ReduceOp::Add, e.array->type);
    if (e.needed_if) return ir::assign(now, {}, ir::select(e.needed_if, old, none), e.array->location);
    const Stmt load = ir::assign(now, {}, old, e.array->location);
    return loaded_before(ir::block(children), e, load, load);
  }

  /// What must happen before `s` so that the old value is there where it is used: `load`, some of it under conditions,
  /// or null for nothing; `after` is the same for what follows `s`. It does not grow with the branches in a row.
  Stmt loaded_before(const Stmt& s, const Element& e, const Stmt& after, const Stmt& load) const {
    if (!s) return after;
    if (const auto* block = s.as<ir::Block>()) {
      Stmt needed = after;
      for (auto child = block->body.rbegin(); child != block->body.rend(); ++child)
        needed = loaded_before(*child, e, needed, load);
      return needed;
    }
    if (const auto* local = s.as<ir::Allocate>()) {
      const Stmt needed = loaded_before(local->body, e, after, load);
      return decided_by(needed, {local->array}) ? load : needed;
    }
    if (!e.is_used_in(s)) {
      std::set<ir::Array> changed;
      ir::walk_stmts(s, [&](const Stmt& leaf) {
        for_each_store(leaf, [&](const ir::Array& array, const std::vector<Expr>&) { changed.insert(array); });
      });
      return decided_by(after, changed) ? load : after;
    }
    if (const auto* assign = s.as<ir::Assign>()) return assigns_new(*assign, e) ? Stmt() : load;
    const auto* branch = s.as<ir::If>();
    if (!branch || may_read(branch->condition, e.array, e.indices)) return load;
    const Stmt yes = loaded_before(branch->then_body, e, after, load),
               no = loaded_before(branch->else_body, e, after, load);
    if (!yes && !no) return {};
    if (!yes) return ir::if_then(ir::unary(ir::UnaryOp::Not, branch->condition), no);
    return no ? load : ir::if_then(branch->condition, yes);
  }

  /// Whether a condition in `s` reads one of these arrays.
  bool decided_by(const Stmt& s, const std::set<ir::Array>& arrays) const {
    const bool any_alias =
        std::any_of(arrays.begin(), arrays.end(), [&](const ir::Array& array) { return aliases_.count(array) > 0; });
    bool found = false;
    if (s)
      ir::walk_stmts(s, [&](const Stmt& t) {
        const auto* branch = t.as<ir::If>();
        if (!branch) return;
        ir::walk(branch->condition, [&](const Expr& x) {
          const auto* load = x.as<ir::Load>();
          found |= load && (arrays.count(load->array) || (any_alias && aliases_.count(load->array)));
        });
      });
    return found;
  }

  static bool assigns_new(const ir::Assign& assign, const Element& e) {
    return e.is(assign.array, assign.indices) && !may_read(assign.value, e.array, e.indices);
  }

  /// The first statement that uses the element, if that assigns it whenever `s` runs; else null.
  static const ir::Assign* first_assignment(const Stmt& s, const Element& e) {
    if (const auto* local = s.as<ir::Allocate>()) return first_assignment(local->body, e);
    if (const auto* block = s.as<ir::Block>()) {
      const auto first =
          std::find_if(block->body.begin(), block->body.end(), [&](const Stmt& child) { return e.is_used_in(child); });
      return first == block->body.end() ? nullptr : first_assignment(*first, e);
    }
    const auto* assign = s.as<ir::Assign>();
    return assign && e.is(assign->array, assign->indices) ? assign : nullptr;
  }

  /// `e = select(choice, e, ..)` comes first: whether the old value, which need not exist, is read. Null: other forms.
  static Expr choice_of_old_value(const Stmt& s, const Element& e) {
    const auto* assign = first_assignment(s, e);
    const auto* select = assign ? assign->value.as<ir::Select>() : nullptr;
    if (!select || has_load(select->condition) || may_read(select->b, e.array, e.indices)) return {};
    return select->condition;
  }

  /// Whether `leaf` stands in `s` under nothing but scopes of locals.
  static bool always_runs(const Stmt& s, const Stmt& leaf) {
    if (const auto* local = s.as<ir::Allocate>()) return always_runs(local->body, leaf);
    const auto* block = s.as<ir::Block>();
    return s.same_as(leaf) || (block && std::any_of(block->body.begin(), block->body.end(),
                                                    [&](const Stmt& child) { return always_runs(child, leaf); }));
  }

  std::vector<Element> elements_of(const std::vector<Stmt>& children) const {
    std::vector<Element> elements;
    std::set<ir::Array> locals, loaded;
    std::set<ir::Symbol> inner;  // iterators of loops in the block
    for (const Stmt& child : children) {
      ir::walk(
          child,
          [&](const Stmt& s) {
            if (const auto* local = s.as<ir::Allocate>()) locals.insert(local->array);
            if (const auto* loop = s.as<ir::For>()) inner.insert(loop->iterator);
            for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
              note_store(elements, s, always_runs(child, s), array, indices, loaded);
            });
          },
          [&](const Expr& e) {
            if (const auto* load = e.as<ir::Load>()) loaded.insert(load->array);
          });
    }
    for (Element& e : elements) {
      e.fits &= !locals.count(e.array) && !aliases_.count(e.array);
      for (const ir::Symbol& iterator : inner)
        for (const Expr& index : e.indices) e.fits &= !mentions(index, iterator);
    }
    for (const Stmt& child : children) check_loads(elements, child);
    return elements;
  }

  bool are_apart(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
    return surely_differ(a, b) || least_.are_apart(a, b);
  }

  void note_store(std::vector<Element>& elements, const Stmt& s, bool certain, const ir::Array& array,
                  const std::vector<Expr>& indices, const std::set<ir::Array>& loaded) const {
    if (indices.empty()) return;
    auto e = std::find_if(elements.begin(), elements.end(), [&](const Element& x) { return x.is(array, indices); });
    const auto* sum = s.as<ir::Reduce>();
    if (e == elements.end()) {
      elements.push_back({array, indices});
      e = elements.end() - 1;
      e->starts_new = certain && s.as<ir::Assign>() && !loaded.count(array);
      e->fits = array->type == value_type(array->type);
      for (const Expr& index : indices) e->fits &= !has_load(index);
      for (Element& other : elements) {
        if (&other == &*e || other.array != array || are_apart(indices, other.indices)) continue;
        e->fits = other.fits = false;
      }
    }
    e->fits &= !(sum && sum->atomic);
    e->certain |= certain;
    ++e->stores;
  }

  void check_loads(std::vector<Element>& elements, const Stmt& s) const {
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& x) {
          const auto* load = x.as<ir::Load>();
          if (!load) return;
          for (Element& e : elements)
            if (e.array == load->array)
              e.fits &= ir::equal(load->indices, e.indices) || are_apart(load->indices, e.indices);
        });
  }

  static Stmt in_scalar(const Stmt& s, const Element& e, const ir::Array& now) {
    // What is assigned first may need the old value, or have none yet: it reads memory, if anything.
    const ir::Array first = ir::make_array(now->name, now->type, {}, ir::ArrayRole::Local, now->location);
    Expr first_value;
    Stmt body = ir::rewrite(s, {}, [&](const Stmt& x) -> std::optional<Stmt> {
      const auto* assign = x.as<ir::Assign>();
      if (!e.starts_new || first_value || !assign || !e.is(assign->array, assign->indices)) return std::nullopt;
      first_value = assign->value;
      return ir::assign(now, {}, ir::load(first, {}), assign->location);
    });
    body = transforms::in_scalar(body, e.array, e.indices, now);
    return ir::rewrite(body, [&](const Expr& x) -> std::optional<Expr> {
      const auto* load = x.as<ir::Load>();
      return load && load->array == first ? std::optional(first_value) : std::nullopt;
    });
  }

  const std::set<ir::Array> aliases_;
  const ir::LeastValues least_;
};

bool is_plain(const Stmt& body) {
  bool plain = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    plain &= s.kind() == ir::Kind::Block || s.kind() == ir::Kind::If || s.kind() == ir::Kind::Allocate ||
             s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce || s.kind() == ir::Kind::For;
  });
  return plain;
}

}  // namespace

Stmt update_once(const ir::Program& program, const Stmt& body) {
  return is_plain(body) ? Updater(program).visit(body) : body;
}

}  // namespace loopgrad::transforms
