#include "transforms/sums/scans/carried_value.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"

#include <algorithm>
#include <map>
#include <utility>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int longest_value = 96;  // nodes of an expression that is computed again

int nodes_of(const Expr& e) {
  int count = 0;
  ir::walk(e, [&](const Expr&) { ++count; });
  return count;
}

bool stores_to(const Stmt& s, const Array& array) {
  bool found = false;
  ir::walk_stmts(s, [&](const Stmt& child) {
    for_each_store(child, [&](const Array& stored, const std::vector<Expr>&) { found |= stored == array; });
  });
  return found;
}

/// One iteration, statement by statement.
class Iteration {
 public:
  Iteration(const CarriedValue& value, const KeptAt& at) : value_(value), at_(at), before_(value.before()) {
    const Stmt& body = value.loop.as<ir::For>()->body;
    count(body);
  }

  std::optional<Separated> run() {
    Stmt body = top(value_.loop.as<ir::For>()->body);
    if (failed_ || !update_) return std::nullopt;
    for (const Array& array : outlive_) body = ir::allocate(array, body, array->location);
    return Separated{body, update_};
  }

 private:
  // What is known of scalars: of the body's own, and of the carried value under its array. Loads of the element before
  // stand for themselves in it.
  using Known = std::map<Array, Expr>;

  Stmt fail() {
    failed_ = true;
    return ir::block({});
  }

  bool is_before(const Expr& e) const { return is_element(e, value_.array, before_); }

  void count(const Stmt& s) {
    if (const auto* n = s.as<ir::Allocate>()) return count(n->body);
    if (const auto* n = s.as<ir::Block>()) {
      for (const Stmt& child : n->body) count(child);
    } else {
      stores_left_ += stores_to(s, value_.array);
    }
  }

  /// Statements of the body itself.
  Stmt top(const Stmt& s) {
    if (const auto* n = s.as<ir::Allocate>()) {
      own_.push_back(n->array);
      return ir::allocate(n->array, top(n->body), n->location);
    }
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : n->body) body.push_back(top(child));
      return ir::block(std::move(body));
    }
    if (!stores_to(s, value_.array)) return visit(s);
    if (value_.moves) return set_moving(s);
    const Stmt rest = visit(s);
    if (--stores_left_ > 0 || failed_) return rest;
    final_ = known_.count(value_.array) ? known_[value_.array] : Expr();
    if (!final_ || nodes_of(final_) > longest_value) return fail();
    update_ = ir::assign(at_.array, at_.indices, placed(final_), s->location);
    return ir::block({rest, update_});
  }

  /// The one statement that sets an element that moves.
  Stmt set_moving(const Stmt& s) {
    const auto* assign = s.as<ir::Assign>();
    const auto* reduce = s.as<ir::Reduce>();
    if ((!assign && !reduce) || stores_left_ != 1 || (reduce && reduce->atomic)) return fail();
    const Expr value =
        reduce ? ir::combined(*reduce, ir::load(value_.array, value_.indices, s->location)) : assign->value;
    const Expr now = substituted(value);
    if (nodes_of(now) > longest_value) return fail();
    update_ = ir::assign(value_.array, value_.indices, now, s->location);
    forget(value_.array, value_.indices);
    return update_;
  }

  Stmt visit(const Stmt& s) {
    if (!s || failed_) return s;
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : n->body) body.push_back(visit(child));
      return ir::block(std::move(body));
    }
    if (const auto* n = s.as<ir::Allocate>()) {
      own_.push_back(n->array);
      const Stmt body = visit(n->body);
      if (!is_read_by_known(n->array)) return ir::allocate(n->array, body, n->location);
      outlive_.push_back(n->array);
      return body;
    }
    if (const auto* n = s.as<ir::If>()) return branches(*n);
    if (s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce) return leaf(s);
    // A loop, or what only loops have: in it the values from before have to hold.
    if (stores_to(s, value_.array)) return fail();
    ir::walk_stmts(s, [&](const Stmt& child) {
      for_each_store(child, [&](const Array& array, const std::vector<Expr>&) { forget(array, {}); });
    });
    return with_kept(s);
  }

  Stmt branches(const ir::If& n) {
    const Expr condition = substituted(n.condition), shown = with_kept(n.condition);
    const Known before = known_;
    const Stmt then_body = visit(n.then_body);
    const Known after_then = std::exchange(known_, before);
    const Stmt else_body = n.else_body ? visit(n.else_body) : Stmt();
    const Known after_else = known_;
    known_.clear();
    const bool still_holds = !changes(then_body, condition) && !changes(else_body, condition);
    std::set<Array> arrays;
    for (const Known* side : {&after_then, &after_else})
      for (const auto& entry : *side) arrays.insert(entry.first);
    for (const Array& array : arrays) {
      const Expr a = value_in(after_then, before, array), b = value_in(after_else, before, array);
      if (a && b && (still_holds || a.same_as(b))) known_[array] = a.same_as(b) ? a : ir::select(condition, a, b);
      else if (array == value_.array) lost_ = true;
    }
    return ir::if_then(shown, then_body, else_body, n.location);
  }

  /// Whether `s` may store what the condition of a branch around it has read. Stores to the carried value are left out
  /// of `s`, as the condition has its value before.
  static bool changes(const Stmt& s, const Expr& condition) {
    bool found = false;
    ir::walk_stmts(s, [&](const Stmt& child) {
      for_each_store(child, [&](const Array& array, const std::vector<Expr>& indices) {
        found |= ir::may_read(condition, array, indices);
      });
    });
    return found;
  }

  /// Null: not known there. The carried value is what it was where nothing has set it.
  Expr value_in(const Known& side, const Known& before, const Array& array) const {
    if (const auto found = side.find(array); found != side.end()) return found->second;
    if (array != value_.array || before.count(array) || lost_) return {};
    return ir::load(value_.array, before_);
  }

  Stmt leaf(const Stmt& s) {
    const auto* assign = s.as<ir::Assign>();
    const auto* reduce = s.as<ir::Reduce>();
    const Array& array = assign ? assign->array : reduce->array;
    const auto& indices = assign ? assign->indices : reduce->indices;
    const bool carried = array == value_.array;
    const bool own = indices.empty() && std::find(own_.begin(), own_.end(), array) != own_.end();
    const bool keeps = value_type(array->type) == array->type && !(reduce && reduce->atomic);
    Expr now;
    if ((carried || own) && keeps) {
      const Expr old = ir::load(array, indices, s->location);
      now = substituted(reduce ? ir::combined(*reduce, old) : assign->value);
    }
    if (carried && (!now || update_)) return fail();
    const Stmt shown = carried ? ir::block({}) : with_kept(s);
    forget(array, indices);
    if (now && nodes_of(now) <= longest_value && (carried || !ir::may_read(now, array, indices))) known_[array] = now;
    else if (carried) lost_ = true;
    return shown;
  }

  bool is_read_by_known(const Array& array) const {
    return std::any_of(known_.begin(), known_.end(), [&](const auto& entry) { return uses(entry.second, array); });
  }

  /// Known values that read what is stored now do not hold any more.
  void forget(const Array& array, const std::vector<Expr>& indices) {
    for (auto it = known_.begin(); it != known_.end();) {
      bool reads = it->first == array;
      ir::walk(it->second, [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || load->array != array) return;
        const bool itself = array == value_.array && !value_.moves;  // stands for the value before
        reads |= !itself && (indices.empty() || !ir::surely_differ(load->indices, indices));
      });
      if (reads && it->first == value_.array && array != value_.array) lost_ = true;
      it = reads ? known_.erase(it) : std::next(it);
    }
  }

  /// With known scalars replaced.
  Expr substituted(const Expr& e) {
    return ir::rewrite(e, [&](const Expr& child) -> std::optional<Expr> {
      const auto* load = child.as<ir::Load>();
      if (!load) return std::nullopt;
      if (load->array == value_.array && !value_.moves && lost_) failed_ = true;
      if (const auto found = known_.find(load->array); found != known_.end()) return found->second;
      return std::nullopt;
    });
  }

  /// Reads of the carried value go to where it is kept.
  Expr placed(const Expr& e) const {
    if (value_.moves) return e;
    return ir::rewrite(e, [&](const Expr& child) -> std::optional<Expr> {
      return is_before(child) ? std::optional(at_.previous) : std::nullopt;
    });
  }
  std::optional<Expr> kept(const Expr& child) {
    if (value_.moves || !is_before(child)) return std::nullopt;
    if (lost_) failed_ = true;
    const auto found = known_.find(value_.array);
    if (found == known_.end()) return at_.previous;
    if (update_ && found->second.same_as(final_)) return ir::load(at_.array, at_.indices);
    return placed(found->second);
  }
  Expr with_kept(const Expr& e) {
    return ir::rewrite(e, [&](const Expr& child) { return kept(child); });
  }
  Stmt with_kept(const Stmt& s) {
    return ir::rewrite(s, [&](const Expr& child) { return kept(child); });
  }

  const CarriedValue& value_;
  const KeptAt& at_;
  const std::vector<Expr> before_;
  std::vector<Array> own_;
  std::vector<Array> outlive_;  // of those, the ones of branches that known values read after them: the body's then
  Known known_;
  bool lost_ = false;  // what the carried value is by now is not known
  Expr final_;
  Stmt update_;
  int stores_left_ = 0;
  bool failed_ = false;
};

bool mentions_inner(const Expr& e, const Stmt& loop) {
  bool found = false;
  ir::walk_stmts(loop, [&](const Stmt& s) {
    if (const auto* n = s.as<ir::For>()) found |= mentions(e, n->iterator);
    if (const auto* n = s.as<ir::While>()) found |= mentions(e, n->iterator);
  });
  return found;
}

/// Whether all that a loop does with the array is about one element.
bool is_one_element(const Stmt& loop, const Array& array, const std::vector<Expr>& indices) {
  bool one = true;
  const auto look = [&](const Array& a, const std::vector<Expr>& at) {
    one &= a != array || is_element(ir::load(array, at), array, indices);
  };
  ir::walk(
      loop, [&](const Stmt& s) { for_each_store(s, look); },
      [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) look(load->array, load->indices);
      });
  return one;
}

/// A scalar that is only added to is a sum, which other passes do.
bool is_more_than_a_sum(const Stmt& loop, const Array& array) {
  bool more = false;
  ir::walk(
      loop,
      [&](const Stmt& s) {
        const auto* assign = s.as<ir::Assign>();
        more |= assign && assign->array == array;
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        more |= load && load->array == array;
      });
  return more;
}

/// Whether all that stores to an integer adds to what it holds: others are no scans, which nobody need be told.
bool is_only_added_to(const Stmt& loop, const Array& array) {
  bool only = true;
  const auto is_itself = [&](const Expr& e) {
    const auto* load = e.as<ir::Load>();
    return load && load->array == array;
  };
  ir::walk_stmts(loop, [&](const Stmt& s) {
    for_each_store(s, [&](const Array& stored, const std::vector<Expr>&) {
      if (stored != array) return;
      const auto* reduce = s.as<ir::Reduce>();
      const auto* assign = s.as<ir::Assign>();
      const auto update = assign ? update_of(assign->value, is_itself) : std::nullopt;
      const bool adds = update && update->kind == Update::Kind::Linear && !update->factor;
      only &= adds || (reduce && reduce->op == ir::ReduceOp::Add && !reduce->atomic);
    });
  });
  return only;
}

/// Whether it stores to the array whatever conditions are.
bool is_stored_in_each(const Stmt& s, const Array& array) {
  if (const auto* n = s.as<ir::Allocate>()) return is_stored_in_each(n->body, array);
  if (const auto* n = s.as<ir::If>())
    return n->else_body && is_stored_in_each(n->then_body, array) && is_stored_in_each(n->else_body, array);
  if (const auto* n = s.as<ir::Block>())
    return std::any_of(n->body.begin(), n->body.end(),
                       [&](const Stmt& child) { return is_stored_in_each(child, array); });
  const auto* assign = s.as<ir::Assign>();
  const auto* reduce = s.as<ir::Reduce>();
  return (assign && assign->array == array) || (reduce && reduce->array == array);
}

}  // namespace

std::vector<Expr> CarriedValue::before() const {
  return moves ? indices_before(*loop.as<ir::For>(), indices) : indices;
}

std::vector<CarriedValue> carried_values(const Stmt& s) {
  const auto& loop = *s.as<ir::For>();
  std::set<Array> inside, seen;
  for (const LocalArray& local : locals_of(s)) inside.insert(local.array);
  std::vector<CarriedValue> result;
  const auto consider = [&](const Stmt& leaf) {
    for_each_store(leaf, [&](const Array& array, const std::vector<Expr>& indices) {
      const bool fits =
          array->type != ScalarType::Bool && value_type(array->type) == array->type && !inside.count(array);
      if (!fits || seen.count(array) || std::any_of(indices.begin(), indices.end(), ir::has_load)) return;
      bool moves = false, plain = true;
      for (const Expr& e : indices) {
        const auto step = coefficient_of(e, loop.iterator);
        plain &= step.has_value() && !mentions_inner(e, loop.body);
        moves |= step.value_or(0) != 0;
      }
      if (!plain || (is_integer(array->type) && !is_only_added_to(loop.body, array))) return;
      CarriedValue value{s, array, indices, moves};
      if (moves) {
        const std::vector<Expr> before = value.before();
        bool reads = false;
        ir::walk(
            loop.body, [](const Stmt&) {}, [&](const Expr& e) { reads |= is_element(e, array, before); });
        if (!reads) return;
      } else if (!is_one_element(s, array, indices) || !is_more_than_a_sum(loop.body, array)) {
        return;
      }
      seen.insert(array);
      result.push_back(std::move(value));
    });
  };
  for (const Stmt& item : statements_of(loop.body)) {
    if (item.kind() == ir::Kind::If) ir::walk_stmts(item, consider);
    else consider(item);
  }
  return result;
}

bool is_set_first(const CarriedValue& value) {
  for (const Stmt& item : statements_of(value.loop.as<ir::For>()->body)) {
    if (!uses(item, value.array)) continue;
    const auto* assign = item.as<ir::Assign>();
    return assign && assign->array == value.array && !uses(assign->value, value.array);
  }
  return false;
}

bool is_set_in_each(const CarriedValue& value) {
  return is_stored_in_each(value.loop.as<ir::For>()->body, value.array);
}

Stmt with_own_scalar(const CarriedValue& value, const Expr& first) {
  const auto& loop = *value.loop.as<ir::For>();
  const Array own = ir::make_array(value.array->name, value.array->type, {}, ir::ArrayRole::Local, loop.location);
  const Stmt body = ir::move_elements(
      loop.body, [&](const Array& array, const std::vector<Expr>&) -> std::optional<ir::ElementPlace> {
        if (array != value.array) return std::nullopt;
        return ir::ElementPlace{own, {}};
      });
  const Stmt begin = first ? ir::assign(own, {}, first, loop.location) : Stmt();
  return with_body(loop, ir::allocate(own, ir::block({begin, body}), loop.location));
}

std::optional<Separated> separated(const CarriedValue& value, const KeptAt& at) { return Iteration(value, at).run(); }

}  // namespace loopgrad::transforms
