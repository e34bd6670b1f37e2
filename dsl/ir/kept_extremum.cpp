#include "dsl/ir/kept_extremum.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/target.h"

#include <algorithm>
#include <map>

namespace loopgrad::ir {
namespace {

constexpr int longest_kept_value = 64;  // operations and loads: it is computed twice

/// What is stored to halves is rounded.
bool keeps_all_bits(const Array& array) { return value_type(array->type) == array->type; }

bool reads_any(const Expr& e, const std::set<Array>& arrays) {
  bool found = false;
  walk(e, [&](const Expr& part) {
    const auto* n = part.as<Load>();
    found |= n && arrays.count(n->array);
  });
  return found;
}

bool reads_any(const Stmt& s, const std::set<Array>& arrays) {
  return std::any_of(arrays.begin(), arrays.end(), [&](const Array& array) { return reads(s, array); });
}

/// Whether the value may well be computed twice.
bool is_short(const Expr& e) {
  int work = 0;
  bool simple = true;
  walk(e, [&](const Expr& part) {
    const auto* one = part.as<Unary>();
    const auto* two = part.as<Binary>();
    simple &= !one || one->op <= UnaryOp::Sqrt || one->op >= UnaryOp::Floor;
    simple &= !two || (two->op != BinaryOp::Pow && two->op != BinaryOp::Atan2);
    work += part.kind() != Kind::Var && part.kind() != Kind::IntConst && part.kind() != Kind::FloatConst;
    return simple && work <= longest_kept_value;
  });
  return simple && work <= longest_kept_value;
}

/// Whether evaluating it does no harm where the program would not have done so.
bool is_harmless(const Expr& e) {
  bool result = true;
  walk(e, [&](const Expr& part) {
    const auto* n = part.as<Load>();
    const auto* two = part.as<Binary>();
    result &= !n || (n->indices.empty() && n->array->role == ArrayRole::Input);
    result &= !two || (two->op != BinaryOp::FloorDiv && two->op != BinaryOp::Mod) || as_int(two->b).value_or(0) != 0;
  });
  return result;
}

/// The comparison that says the same of the operands the other way round.
BinaryOp mirrored(BinaryOp op) {
  switch (op) {
    case BinaryOp::Lt: return BinaryOp::Gt;
    case BinaryOp::Le: return BinaryOp::Ge;
    case BinaryOp::Gt: return BinaryOp::Lt;
    default: return BinaryOp::Le;
  }
}

class Finder {
 public:
  Finder(const Stmt& nest, const std::set<Array>& aliased) : aliased_(aliased) {
    walk_stmts(nest, [&](const Stmt& s) {
      is_plain_ &= s.kind() != Kind::CustomGradient && s.kind() != Kind::Push && s.kind() != Kind::Pop &&
                   s.kind() != Kind::Contraction && s.kind() != Kind::Barrier && s.kind() != Kind::While;
      if (const auto* local = s.as<Allocate>()) inside_.insert(local->array);
    });
    walk_stmts(nest, [&](const Stmt& s) {
      if (const Array array = target_of(s); array && !inside_.count(array)) changed_.insert(array);
    });
  }

  std::optional<KeptExtremum> find(const Stmt& nest) {
    if (!is_plain_ || changed_.empty() || !descend(nest) || !found_.branch) return std::nullopt;
    return found_;
  }

 private:
  // What leads to the branch.
  bool descend(const Stmt& s);
  bool enter(const For& n);
  bool decide(const If& n);
  bool carries_locals(const Stmt& body) const;
  bool changes(const Stmt& s) const;
  bool do_own(const Stmt& s);
  void name(const Stmt& s);
  // The branch.
  bool compare(const Expr& condition, const Stmt& branch);
  bool sets_anew(const Stmt& s, bool is_repeated = false);
  bool reads_kept(const Stmt& s) const;
  Expr after_branch(const Expr& e) const;
  bool is_stable(const Expr& e) const { return !reads_any(e, changed_) && !reads_any(e, inside_); }

  /// With what an iteration names written out.
  Expr written_out(const Expr& e) const {
    return rewrite(e, [&](const Expr& part) -> std::optional<Expr> {
      const auto* n = part.as<Load>();
      const auto known = n && n->indices.empty() ? names_.find(n->array) : names_.end();
      return known == names_.end() ? std::nullopt : std::optional(known->second);
    });
  }

  const std::set<Array>& aliased_;
  bool is_plain_ = true;
  std::set<Array> inside_, changed_;
  std::map<Array, Expr> names_;  // short values of the scalars of an iteration
  struct Set {
    Expr element, value;
  };
  std::vector<Set> sets_;        // by the branch, outside of its loops
  std::map<Array, int> stores_;  // in the branch
  KeptExtremum found_;
};

bool Finder::descend(const Stmt& s) {
  if (const auto* n = s.as<Allocate>()) return descend(n->body);
  if (const auto* n = s.as<For>()) return enter(*n);
  if (const auto* n = s.as<If>()) return decide(*n);
  const auto* list = s.as<Block>();
  if (!list) return do_own(s);
  for (const Stmt& child : list->body) {
    if (found_.branch) return false;
    if (!(changes(child) ? descend(child) : do_own(child))) return false;
  }
  return true;
}

bool Finder::enter(const For& n) {
  if (is_parallel(n.mode) || !is_stable(n.lower) || !is_stable(n.upper)) return false;
  // A search through an inner loop may have no iteration of the loops around it.
  const bool moves = found_.mentions_iterators(n.lower) || found_.mentions_iterators(n.upper);
  const bool is_inner = !found_.loops.empty();
  if (is_inner && ((moves && n.at_most) || has_load(n.lower) || has_load(n.upper))) return false;
  if (carries_locals(n.body)) return false;
  found_.loops.push_back(&n);
  return descend(n.body);
}

/// Whether it changes locals of the iterations around it: the next iteration of its loop finds them so.
bool Finder::carries_locals(const Stmt& body) const {
  std::set<Array> own;
  walk_stmts(body, [&](const Stmt& s) {
    if (const auto* local = s.as<Allocate>()) own.insert(local->array);
  });
  bool any = false;
  walk_stmts(body, [&](const Stmt& s) {
    const Array array = target_of(s);
    any |= array && inside_.count(array) && !own.count(array);
  });
  return any;
}

/// Whether it stores to what outlives an iteration.
bool Finder::changes(const Stmt& s) const {
  bool any = false;
  walk_stmts(s, [&](const Stmt& part) { any |= changed_.count(target_of(part)) > 0; });
  return any;
}

/// What each iteration does for itself alone.
bool Finder::do_own(const Stmt& s) {
  if (changes(s) || reads_any(s, changed_)) return false;
  name(s);
  return true;
}

void Finder::name(const Stmt& s) {
  const auto* set = s.as<Assign>();
  const auto* sum = s.as<Reduce>();
  Expr value;
  if (set && set->indices.empty()) value = written_out(set->value);
  if (sum && sum->indices.empty() && names_.count(sum->array))
    value = combined(*reduce_like(*sum, sum->array, {}, written_out(sum->value)).as<Reduce>(), names_.at(sum->array));
  walk_stmts(s, [&](const Stmt& part) {
    if (const Array array = target_of(part)) names_.erase(array);
  });
  if (value && keeps_all_bits(target_of(s)) && is_stable(value) && is_short(value)) names_[target_of(s)] = value;
}

bool Finder::decide(const If& n) {
  if (!is_empty(n.else_body)) return false;
  const Expr condition = written_out(n.condition);
  if (reads_any(condition, changed_)) {
    found_.where = n.location;
    return compare(condition, n.then_body);
  }
  found_.others = both(found_.others, condition);
  return descend(n.then_body);
}

bool Finder::compare(const Expr& condition, const Stmt& branch) {
  std::vector<Expr> parts;
  collect_operands(condition, BinaryOp::And, parts);
  const Binary* comparison = nullptr;
  for (const Expr& part : parts) {
    if (!reads_any(part, changed_)) {
      if (comparison && !is_harmless(part)) return false;
      found_.others = both(found_.others, part);
      continue;
    }
    const auto* n = part.as<Binary>();
    if (comparison || !n || n->op < BinaryOp::Lt || n->op > BinaryOp::Ge) return false;
    comparison = n;
  }
  const bool kept_first = reads_any(comparison->a, changed_);
  found_.kept = kept_first ? comparison->a : comparison->b;
  found_.value = kept_first ? comparison->b : comparison->a;
  found_.comparison = kept_first ? mirrored(comparison->op) : comparison->op;
  if (!is_stable(found_.value) || !is_short(found_.value) || found_.value.type() == ScalarType::Bool ||
      !sets_anew(branch))
    return false;
  if (found_.others && (!is_stable(found_.others) || !is_short(found_.others))) return false;
  if (found_.mentions_iterators(found_.kept) || reads_any(found_.kept, inside_) ||
      (!found_.is_scalar() && (found_.others || !found_.trips())))
    return false;
  found_.branch = branch;
  return equal(after_branch(found_.kept), found_.value);
}

/// Whether each run of the statement stores to the same elements, from nothing that runs before it have stored.
bool Finder::sets_anew(const Stmt& s, bool is_repeated) {
  const auto is_fixed = [&](const Expr& e) { return is_stable(e) && !found_.mentions_iterators(e); };
  if (const auto* n = s.as<Block>())
    return std::all_of(n->body.begin(), n->body.end(),
                       [&](const Stmt& child) { return sets_anew(child, is_repeated); });
  if (const auto* n = s.as<Allocate>()) return sets_anew(n->body, is_repeated);
  if (const auto* n = s.as<For>())
    return !is_parallel(n->mode) && is_fixed(n->lower) && is_fixed(n->upper) && sets_anew(n->body, true);
  const Array array = target_of(s);
  if (!array || reads_kept(s)) return false;
  if (inside_.count(array)) {
    if (is_repeated) names_.erase(array);
    else name(s);
    return true;
  }
  const auto* n = s.as<Assign>();
  if (!n || aliased_.count(array) || array->on_tape != TapeChoice::Planned) return false;
  if (!std::all_of(n->indices.begin(), n->indices.end(), is_fixed)) return false;
  ++stores_[array];
  if (!is_repeated && keeps_all_bits(array)) sets_.push_back({load(array, n->indices), written_out(n->value)});
  return true;
}

/// Whether it reads of what the loops change anything but what the branch has just set.
bool Finder::reads_kept(const Stmt& s) const {
  bool found = false;
  walk(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* n = e.as<Load>();
        found |= n && changed_.count(n->array) &&
                 std::none_of(sets_.begin(), sets_.end(), [&](const Set& set) { return equal(set.element, e); });
      });
  return found;
}

/// The value when the branch has been done, as far as elements are those of arrays that it stores to once.
Expr Finder::after_branch(const Expr& e) const {
  return rewrite(e, [&](const Expr& part) -> std::optional<Expr> {
    for (const Set& set : sets_)
      if (equal(set.element, part) && stores_.at(part.as<Load>()->array) == 1) return after_branch(set.value);
    return std::nullopt;
  });
}

}  // namespace

bool KeptExtremum::is_scalar() const {
  const auto* n = kept.as<Load>();
  return n && n->indices.empty();
}

bool KeptExtremum::mentions_iterators(const Expr& e) const {
  return std::any_of(loops.begin(), loops.end(), [&](const For* n) { return mentions(e, n->iterator); });
}

Expr KeptExtremum::trips() const {
  Expr all = int_const(1);
  for (const For* n : loops) {
    if (mentions_iterators(n->lower) || mentions_iterators(n->upper)) return {};
    all = all * (n->upper - n->lower);
  }
  return all;
}

std::optional<KeptExtremum> kept_extremum(const Stmt& loop, const std::set<Array>& aliased) {
  return loop.kind() == Kind::For ? Finder(loop, aliased).find(loop) : std::nullopt;
}

}  // namespace loopgrad::ir
