#include "dsl/ir/own_values.h"

#include "dsl/ir/known_scalars.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/target.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <set>

namespace loopgrad::ir {
namespace {

constexpr int longest_own_value = 24;  // nodes: it is computed again by the next iteration

bool reads_itself(const Stmt& s, const Array& scalar) {
  const auto* sum = s.as<Reduce>();
  bool found = sum && sum->array == scalar;
  for_each_child(s, overloaded{[&](const Expr& e) {
                                 walk(e, [&](const Expr& part) {
                                   const auto* n = part.as<Load>();
                                   found |= n && n->array == scalar;
                                 });
                               },
                               [](const Stmt&) {}});
  return found;
}

enum class Access { None, Sets, Reads };

/// The first one of a run of the statement, where that is sure: `Sets`; `Reads` where it may be.
Access first_access(const Stmt& s, const Array& scalar) {
  if (reads_itself(s, scalar)) return Access::Reads;
  if (const auto* region = s.as<CustomGradient>()) {  // its rule is about what it names, read or not
    for (const auto* list : {&region->inputs, &region->outputs})
      if (std::count(list->begin(), list->end(), scalar)) return Access::Reads;
  }
  if (target_of(s) == scalar) return Access::Sets;
  if (const auto* n = s.as<If>()) {
    const Access a = first_access(n->then_body, scalar);
    const Access b = n->else_body ? first_access(n->else_body, scalar) : Access::None;
    if (a == Access::Reads || b == Access::Reads) return Access::Reads;
    return a == b ? a : Access::None;
  }
  Access found = Access::None;
  for_each_child(s, overloaded{[](const Expr&) {},
                               [&](const Stmt& child) {
                                 if (found == Access::None) found = first_access(child, scalar);
                               }});
  const bool may_not_run = s.kind() == Kind::For || s.kind() == Kind::While || s.kind() == Kind::CustomGradient;
  return may_not_run && found == Access::Sets ? Access::None : found;
}

bool is_cheap(const Expr& e) {
  int nodes = 0;
  bool cheap = true;
  walk(e, [&](const Expr& part) {
    ++nodes;
    const auto* one = part.as<Unary>();
    const auto* two = part.as<Binary>();
    cheap &= !one || one->op <= UnaryOp::Abs || one->op >= UnaryOp::Floor;
    cheap &= !two || (two->op != BinaryOp::Div && two->op != BinaryOp::Pow && two->op != BinaryOp::Atan2);
    return cheap && nodes <= longest_own_value;
  });
  return cheap && nodes <= longest_own_value;
}

/// What a loop does, as far as it is asked here.
struct Loop {
  explicit Loop(const For& n) {
    const Expr i = var(n.iterator), one = int_const(1), end = n.upper - one;
    const bool forward = n.mode == LoopMode::Forward;
    is_first = binary(BinaryOp::Eq, i, forward ? n.lower : end);
    is_last = binary(BinaryOp::Eq, i, forward ? end : n.lower);
    has_trips = binary(BinaryOp::Lt, n.lower, n.upper);
    before = forward ? i - one : i + one;
    last = forward ? end : n.lower;
    walk_stmts(n.body, [&](const Stmt& s) {
      if (const Array array = target_of(s)) ++writes[array];
      if (const auto* local = s.as<Allocate>()) inside.insert(local->array);
      is_plain &= s.kind() != Kind::CustomGradient && s.kind() != Kind::Push && s.kind() != Kind::Pop &&
                  s.kind() != Kind::Contraction && s.kind() != Kind::Barrier;
    });
    list(n.body);
  }

  /// Whether the value is the same whenever the loop asks for it.
  bool is_stable(const Expr& e, const std::set<Array>& aliased) const {
    bool result = true;
    walk(e, [&](const Expr& part) {
      if (const auto* n = part.as<Load>())
        result &= !writes.count(n->array) && !inside.count(n->array) && !aliased.count(n->array);
    });
    return result;
  }

  Expr is_first, is_last, has_trips, before, last;  // conditions, and iterators
  std::map<Array, int> writes;                      // how many statements
  std::set<Array> inside;                           // what it declares
  std::vector<Stmt> straight;                       // what each iteration does, one after the other
  bool is_plain = true;

 private:
  void list(const Stmt& s) {
    if (const auto* n = s.as<Block>()) {
      for (const Stmt& child : n->body) list(child);
    } else if (const auto* local = s.as<Allocate>()) {
      list(local->body);
    } else {
      straight.push_back(s);
    }
  }
};

/// Gives what is read of a scalar before a statement another value, and a local what is written and read from there on.
class Replacement : public Rewriter {
 public:
  Replacement(const Stmt& set, const Expr& found, const Array& own)
      : set_(set), scalar_(target_of(set)), found_(found), own_(own) {}

  Expr rewrite(const Expr& e) override {
    const auto* n = e.as<Load>();
    if (!n || n->array != scalar_) return rewrite_children(e);
    reads_own_ |= is_set_;
    return is_set_ ? load(own_, {}, n->location) : found_;
  }
  Stmt rewrite(const Stmt& s) override {
    if (!s.same_as(set_)) return rewrite_children(s);
    is_set_ = true;
    return assign(own_, {}, s.as<Assign>()->value, s->location);
  }
  bool reads_own() const { return reads_own_; }

 private:
  const Stmt set_;
  const Array scalar_;
  const Expr found_;
  const Array own_;
  bool is_set_ = false, reads_own_ = false;
};

class OwnValues {
 public:
  explicit OwnValues(const Program& program) : scalars_(program), aliased_(aliased_arrays(program)) {}

  Stmt visit(const Stmt& s) {
    if (const auto* n = s.as<Block>()) return visit_block(s, *n);
    if (s.kind() == Kind::CustomGradient) return s;
    const bool is_loop = s.kind() == Kind::For || s.kind() == Kind::While;
    const Stmt result = rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      if (child.same_as(s)) return std::nullopt;
      if (!is_loop) return visit(child);
      std::vector<Stmt> outside;
      outside.swap(earlier_);
      later_.push_back({{s.kind() == Kind::While ? s : child}, true});  // a while asks its condition again
      const Stmt inside = visit(child);
      later_.pop_back();
      earlier_ = std::move(outside);
      return inside;
    });
    const auto* loop = result.as<For>();
    return loop && !is_parallel(loop->mode) ? with_own(result) : result;
  }

 private:
  /// What comes after a statement.
  struct Later {
    std::vector<Stmt> body;
    bool is_again = false;  // the loop around, if it makes another trip
  };

  Stmt visit_block(const Stmt& s, const Block& n) {
    std::vector<Stmt> body;
    const std::size_t outside = earlier_.size();
    bool same = true;
    for (auto child = n.body.begin(); child != n.body.end(); ++child) {
      later_.push_back({{child + 1, n.body.end()}, false});
      body.push_back(visit(*child));
      later_.pop_back();
      earlier_.push_back(body.back());
      same &= body.back().same_as(*child);
    }
    earlier_.resize(outside);
    return same ? s : block(std::move(body));
  }

  bool is_read_later(const Array& scalar) const {
    for (auto later = later_.rbegin(); later != later_.rend(); ++later)
      for (const Stmt& s : later->body) {
        const Access access = first_access(s, scalar);
        if (access == Access::Reads) return true;
        if (access == Access::Sets && !later->is_again) return false;
      }
    return false;
  }

  /// What the scalar holds here: its own element, or what has just been stored there, if it can be computed anywhere.
  Expr value_here(const Array& scalar, SourceLocation location) const {
    for (auto s = earlier_.rbegin(); s != earlier_.rend(); ++s) {
      bool writes_it = false;
      walk_stmts(*s, [&](const Stmt& child) {
        writes_it |= target_of(child) == scalar || child.kind() == Kind::CustomGradient || child.kind() == Kind::Pop;
      });
      if (!writes_it) continue;
      const auto* one = s->as<Assign>();
      if (one && is_cheap(one->value) && scalars_.is_known(one->value)) return one->value;
      break;
    }
    return load(scalar, {}, location);
  }

  Stmt with_own(const Stmt& s) const {
    Stmt loop = s;
    std::vector<Stmt> after;
    std::set<Array> stored;  // by the last iteration
    for (bool changed = true; changed;) {
      changed = false;
      const auto* n = loop.as<For>();
      const Loop parts(*n);
      if (!parts.is_plain || !parts.is_stable(n->lower, aliased_) || !parts.is_stable(n->upper, aliased_)) break;
      for (const Stmt& set : parts.straight) {
        const auto* one = set.as<Assign>();
        if (!one || !can_be_own(one->array, parts)) continue;
        Stmt last;
        const Stmt next =
            parts.writes.at(one->array) == 1 && parts.is_stable(one->value, aliased_) && is_cheap(one->value)
                ? from_before(*n, set, parts, last)
                : with_last(*n, set, parts, stored);
        if (!next) continue;
        // What was found later may be made of the old values of others.
        after.insert(after.begin(), last);
        loop = next;
        changed = true;
        break;
      }
      if (!loop.as<For>()) break;
    }
    const auto* n = loop.as<For>();
    if (loop.same_as(s) || (n && !has_own_elements(*n, stored))) return s;
    after.insert(after.begin(), loop);
    return block(std::move(after));
  }

  static bool can_be_own(const Array& array, const Loop& parts) {
    return array->role == ArrayRole::Local && array->shape.empty() && array->on_tape == TapeChoice::Planned &&
           !parts.inside.count(array);
  }

  /// The loop where each iteration knows what the one before has set; null where that leads nowhere. `last`: what is to
  /// be done after the loop.
  Stmt from_before(const For& n, const Stmt& set, const Loop& parts, Stmt& last) const {
    const auto* one = set.as<Assign>();
    const Array& scalar = one->array;
    const auto value_at = [&](const Expr& i) { return substitute(one->value, {{n.iterator, i}}); };
    const Expr found = select(parts.is_first, value_here(scalar, one->location), value_at(parts.before));
    const bool live = is_read_later(scalar);
    if (first_access(n.body, scalar) == Access::Sets && !live) return {};
    const Array own = make_array_like(scalar, scalar->name, scalar->type, ArrayRole::Local);
    Replacement replacement(set, found, own);
    Stmt body = replacement.rewrite(n.body);
    if (replacement.reads_own()) {
      body = allocate(own, body, one->location);
    } else {
      body =
          rewrite(body, {}, [&](const Stmt& s) { return target_of(s) == own ? std::optional(Stmt()) : std::nullopt; });
    }
    if (live)
      last = if_then(parts.has_trips, assign(scalar, {}, value_at(parts.last), one->location), {}, one->location);
    return like(n, body);
  }

  /// The loop of which the last iteration stores what it leaves; null where that is not possible, or for nobody.
  Stmt with_last(const For& n, const Stmt& set, const Loop& parts, std::set<Array>& stored) const {
    const Array& scalar = set.as<Assign>()->array;
    if (has_load(parts.is_last) || !is_read_later(scalar)) return {};
    if (reads_itself(set, scalar) || !sets_first(scalar, set, parts)) return {};
    stored.insert(scalar);
    const Array own = make_array_like(scalar, scalar->name, scalar->type, ArrayRole::Local);
    const Stmt store = if_then(parts.is_last, assign(scalar, {}, load(own, {}), set->location), {}, set->location);
    return like(n, allocate(own, block({replace_arrays(n.body, {{scalar, own}}), store}), set->location));
  }

  static bool sets_first(const Array& scalar, const Stmt& set, const Loop& parts) {
    for (const Stmt& s : parts.straight) {
      if (s.same_as(set)) return true;
      bool mentions_it = reads(s, scalar);
      walk_stmts(s, [&](const Stmt& child) { mentions_it |= target_of(child) == scalar; });
      if (mentions_it) return false;
    }
    return false;
  }

  /// Whether all elements that the loop assigns are those of one iteration, besides what the last one stores.
  static bool has_own_elements(const For& n, const std::set<Array>& stored) {
    const Loop parts(n);
    bool result = true;
    walk_stmts(n.body, [&](const Stmt& s) {
      const auto* one = s.as<Assign>();
      if (!one || stored.count(one->array) || parts.inside.count(one->array)) return;
      result &= std::any_of(one->indices.begin(), one->indices.end(),
                            [&](const Expr& index) { return mentions(index, n.iterator); });
    });
    return result;
  }

  static Stmt like(const For& n, const Stmt& body) {
    return mapped_like(n, for_loop(n.iterator, n.lower, n.upper, body, n.mode, n.location, n.at_most, n.shape));
  }

  const KnownScalars scalars_;
  const std::set<Array> aliased_;
  std::vector<Stmt> earlier_;  // what the iteration, or the program, has done before
  std::vector<Later> later_;   // outermost first
};

}  // namespace

Program with_own_values(const Program& program) {
  return program.body ? with_body(program, OwnValues(program).visit(program.body)) : program;
}

}  // namespace loopgrad::ir
