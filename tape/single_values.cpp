#include "tape/single_values.h"

#include "dsl/ir/rewriter.h"
#include "tape/adjoint_rules.h"
#include "tape/stores.h"

#include <map>
#include <set>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

constexpr int most_values = 16;  // of one scalar
constexpr int most_new = 512;    // scalars in all: each is one more Allocate around a body

/// The scalar that holds the present value of one of the program's.
struct Current {
  Array scalar;
  bool written = false;
  bool read = false;  // since it was last written, by the program or its adjoint
};
using State = std::map<Array, Current>;  // of the program's scalars with several stores

/// Where a scalar is read for the last time in the text, and how many statements store to it.
struct Uses {
  int stores = 0, last_read = -1;
};

class Splitter {
 public:
  explicit Splitter(const Stmt& body) { count(body); }

  Stmt split(const Stmt& s, State& state) {
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) {
                              std::vector<Stmt> all;
                              bool changed = false;
                              for (const Stmt& child : n.body) {
                                all.push_back(split(child, state));
                                changed |= !all.back().same_as(child);
                              }
                              return changed ? ir::block(std::move(all)) : s;
                            },
                            [&](const ir::Allocate& n) { return of_allocate(n, s, state); },
                            [&](const ir::For& n) {
                              const Expr lower = read(n.lower, state), upper = read(n.upper, state);
                              return of_loop(s, n.body, state, [&](const Stmt& body) {
                                const bool same = lower.same_as(n.lower) && upper.same_as(n.upper);
                                if (same && body.same_as(n.body)) return s;
                                return ir::for_loop(n.iterator, lower, upper, body, n.mode, n.location, n.at_most);
                              });
                            },
                            [&](const ir::While& n) {
                              const Expr most = read(n.max_trips, state);
                              Expr condition = n.condition;
                              return of_loop(
                                  s, n.body, state,
                                  [&](const Stmt& body) {
                                    const bool same = most.same_as(n.max_trips) && condition.same_as(n.condition);
                                    if (same && body.same_as(n.body)) return s;
                                    return ir::while_loop(n.iterator, most, condition, body, n.location);
                                  },
                                  [&](State& inside) { condition = read(n.condition, inside); });
                            },
                            [&](const ir::If& n) { return of_if(n, s, state); },
                            [&](const ir::Assign& n) { return of_assign(n, s, state); },
                            [&](const ir::Reduce& n) { return of_reduce(n, s, state); },
                            [&](const auto&) { return s; },
                        });
  }

 private:
  /// A rule names arrays, and reads what they hold.
  void pin_all(const Stmt& region) {
    const auto& n = *region.as<ir::CustomGradient>();
    for (const auto* list : {&n.outputs, &n.inputs}) pinned_.insert(list->begin(), list->end());
    ir::walk(
        region, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) pinned_.insert(load->array);
        });
  }

  void count(const Stmt& s) {
    const int here = ++position_;
    if (const Array* array = stored_array(s)) {
      ++uses_[*array].stores;
      if (s.kind() == ir::Kind::Reduce) uses_[*array].last_read = here;
    }
    if (s.kind() == ir::Kind::CustomGradient) pin_all(s);
    if (const auto* local = s.as<ir::Allocate>())
      for (const Expr& extent : local->array->shape)
        ir::walk(extent, [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) pinned_.insert(load->array);
        });
    ir::for_each_child(s, ir::overloaded{[&](const Expr& e) {
                                           ir::walk(e, [&](const Expr& inner) {
                                             const auto* load = inner.as<ir::Load>();
                                             if (load && load->indices.empty()) uses_[load->array].last_read = here;
                                           });
                                         },
                                         [&](const Stmt& child) { count(child); }});
    last_position_[s.get()] = position_;
  }

  /// The expression in present values, which are read by it.
  static Expr read(const Expr& e, State& state) {
    if (state.empty()) return e;
    return ir::rewrite(e, [&](const Expr& inner) -> std::optional<Expr> {
      const auto* load = inner.as<ir::Load>();
      const auto found = load && load->indices.empty() ? state.find(load->array) : state.end();
      if (found == state.end()) return std::nullopt;
      found->second.read = true;
      return found->second.scalar == load->array ? inner : ir::load(found->second.scalar, {}, load->location);
    });
  }

  static std::vector<Expr> read(const std::vector<Expr>& list, State& state) {
    std::vector<Expr> result;
    for (const Expr& e : list) result.push_back(read(e, state));
    return result;
  }

  /// A scalar for another value; false: it stays where it is.
  bool renew(const Array& original, Current& current) {
    auto& all = made_[original];
    if (static_cast<int>(all.size()) >= most_values || made_in_all_ >= most_new) return false;
    ++made_in_all_;
    all.push_back(ir::make_array_in_place_of(original, {}));
    current = {all.back(), false, false};
    return true;
  }

  Stmt of_allocate(const ir::Allocate& n, const Stmt& s, State& state) {
    const bool concerns = n.array->shape.empty() && n.array->role == ir::ArrayRole::Local && uses_[n.array].stores > 1;
    if (concerns) state[n.array] = {n.array, false, false};
    Stmt body = split(n.body, state);
    if (concerns) state.erase(n.array);
    if (body.same_as(n.body)) return s;
    const auto made = made_.find(n.array);
    if (made != made_.end()) {
      for (auto scalar = made->second.rbegin(); scalar != made->second.rend(); ++scalar)
        body = ir::allocate(*scalar, body, n.location);
      made_.erase(made);
    }
    return ir::allocate(n.array, body, n.location, n.home);
  }

  Stmt of_assign(const ir::Assign& n, const Stmt& s, State& state) {
    const std::vector<Expr> indices = read(n.indices, state);
    const Expr value = read(n.value, state);
    const auto found = state.find(n.array);
    if (found == state.end()) {
      bool same = value.same_as(n.value);
      for (std::size_t k = 0; k < indices.size(); ++k) same &= indices[k].same_as(n.indices[k]);
      return same ? s : ir::assign(n.array, indices, value, n.location);
    }
    Current& current = found->second;
    if (current.read && current.written && !pinned_.count(n.array)) renew(n.array, current);
    current.written = true;
    current.read = reuses_result(value);  // by its own derivative
    return current.scalar == n.array && value.same_as(n.value) ? s : ir::assign(current.scalar, {}, value, n.location);
  }

  Stmt of_reduce(const ir::Reduce& n, const Stmt& s, State& state) {
    const std::vector<Expr> indices = read(n.indices, state);
    const Expr value = read(n.value, state);
    const auto found = state.find(n.array);
    if (found == state.end()) {
      bool same = value.same_as(n.value);
      for (std::size_t k = 0; k < indices.size(); ++k) same &= indices[k].same_as(n.indices[k]);
      return same ? s : ir::reduce_like(n, n.array, indices, value);
    }
    Current& current = found->second;
    const Array before = current.scalar;
    const bool new_value = current.read && current.written && !pinned_.count(n.array) && renew(n.array, current);
    current.written = true;
    current.read = false;
    const Stmt in_place = ir::reduce_like(n, current.scalar, {}, value);
    if (!new_value) return current.scalar == n.array && value.same_as(n.value) ? s : in_place;
    if (n.op == ir::ReduceOp::Add) {
      const Expr sum = ir::combined(*in_place.as<ir::Reduce>(), ir::load(before, {}, n.location));
      return ir::assign(current.scalar, {}, ir::rounded_to(current.scalar->type, sum), n.location);
    }
    return ir::block({ir::assign(current.scalar, {}, ir::load(before, {}, n.location), n.location), in_place});
  }

  /// Both sides leave the value in one scalar.
  Stmt of_if(const ir::If& n, const Stmt& s, State& state) {
    const Expr condition = read(n.condition, state);
    const int end = last_position_.at(s.get());
    State then_state = state, else_state = state;
    Stmt then_body = split(n.then_body, then_state);
    Stmt else_body = n.else_body ? split(n.else_body, else_state) : ir::block({});
    for (auto& [original, current] : state) {
      Current &after_then = then_state.at(original), &after_else = else_state.at(original);
      if (after_then.scalar == after_else.scalar) {
        const bool written = after_then.written && after_else.written;
        if (after_then.written != after_else.written) pinned_.insert(original);
        current = {after_then.scalar, written, after_then.read || after_else.read};
        continue;
      }
      const Current before = current;
      if (uses_.at(original).last_read <= end) continue;  // nobody asks
      const bool new_in_then = after_then.scalar != before.scalar, new_in_else = after_else.scalar != before.scalar;
      Array joint = new_in_then ? after_then.scalar : after_else.scalar;
      const auto end_with = [&](Stmt& body, bool is_new, const Current& after) {
        if (is_new) {
          if (after.scalar == joint) return;
          body = ir::replace_arrays(body, {{after.scalar, joint}});
          std::erase(made_[original], after.scalar);
        } else if (after.written) {
          body = ir::block({body, ir::assign(joint, {}, ir::load(after.scalar, {}, n.location), n.location)});
        }
      };
      end_with(then_body, new_in_then, after_then);
      end_with(else_body, new_in_else, after_else);
      if (after_then.written != after_else.written) pinned_.insert(original);
      current = {joint, after_then.written && after_else.written, true};
    }
    if (condition.same_as(n.condition) && then_body.same_as(n.then_body) &&
        (n.else_body ? else_body.same_as(n.else_body) : ir::is_empty(else_body)))
      return s;
    return ir::if_then(condition, then_body, ir::is_empty(else_body) ? Stmt{} : else_body, n.location);
  }

  /// What the loop stores to from outside is one scalar for all iterations: a new one, where the value from before was
  /// read.
  template <class Build, class Before = void (*)(State&)>
  Stmt of_loop(
      const Stmt& s, const Stmt& body, State& state, const Build& build, const Before& before = [](State&) {}) {
    std::vector<Stmt> all;
    std::set<Array> stored;
    ir::walk_stmts(body, [&](const Stmt& inner) {
      const Array* array = stored_array(inner);
      if (array && state.count(*array)) stored.insert(*array);
    });
    std::vector<Array> pinned_here;
    for (const Array& original : stored) {
      if (!pinned_.insert(original).second) continue;
      pinned_here.push_back(original);
      Current& current = state.at(original);
      const Current from = current;
      if (!from.read || !from.written || !renew(original, current)) continue;
      all.push_back(ir::assign(current.scalar, {}, ir::load(from.scalar, {}, s->location), s->location));
      current.written = true;
    }
    before(state);
    State before_loop = state;
    const Stmt inside = split(body, state);
    for (const Array& original : pinned_here) {
      if (before_loop.at(original).written) pinned_.erase(original);
      state.at(original) = {state.at(original).scalar, before_loop.at(original).written, true};
    }
    const Stmt loop = build(inside);
    if (all.empty()) return loop;
    all.push_back(loop);
    return ir::block(std::move(all));
  }

  std::map<Array, Uses> uses_;
  std::map<const ir::StmtNode*, int> last_position_;  // of what is in it
  int position_ = 0;
  std::map<Array, std::vector<Array>> made_;  // for scalars that are declared around here
  int made_in_all_ = 0;
  std::set<Array> pinned_;  // stay in the scalar where they are: in loops, and where it may have no value
};

}  // namespace

Stmt single_values(const Stmt& body) {
  Splitter splitter(body);
  State state;
  return splitter.split(body, state);
}

}  // namespace loopgrad::tape
