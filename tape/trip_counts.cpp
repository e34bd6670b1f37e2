#include "tape/trip_counts.h"

#include "dsl/ir/rewriter.h"
#include "tape/stores.h"

#include <map>
#include <set>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

/// The expressions that say whether and how often what is inside of a statement runs.
std::vector<Expr> headers_of(const Stmt& s) {
  if (const auto* n = s.as<ir::For>()) return {n->lower, n->upper};
  if (const auto* n = s.as<ir::While>()) return {n->max_trips, n->condition};
  if (const auto* n = s.as<ir::If>()) return {n->condition};
  return {};
}

class Deciding {
 public:
  Deciding(const ir::Program& program, const Stmt& loop, const Array& most)
      : program_(program), loop_(loop), most_(most) {}

  /// Which arrays hold what decides; false where they may not be computed twice.
  bool find(const std::vector<Stmt>& around) {
    for (const Stmt& s : around) need_headers(s);
    need_headers(loop_);
    for (bool more = true; more && possible_;) {
      const std::size_t before = needed_.size();
      std::vector<Stmt> scopes;
      need_stores(program_.body, scopes);
      more = needed_.size() > before;
    }
    return possible_;
  }

  Stmt counting() const {
    Stmt result = kept(program_.body);
    std::map<Array, Array> own;  // what the program returns is nobody's here
    for (const Array& array : needed_) {
      if (array->role != ir::ArrayRole::Output) continue;
      own[array] = ir::make_array(array->name, array->type, array->shape, ir::ArrayRole::Local, array->location);
    }
    result = ir::replace_arrays(result, own);
    for (const auto& [array, local] : own) result = ir::allocate(local, result, array->location);
    return result;
  }

 private:
  void need_headers(const Stmt& s) {
    for (const Expr& e : headers_of(s)) need(e);
  }

  /// Inputs never change, nor do they share memory with what does (see prepare).
  void need(const Expr& e) {
    ir::walk(e, [&](const Expr& node) {
      const auto* load = node.as<ir::Load>();
      if (!load || load->array->role == ir::ArrayRole::Input) return;
      const Array& array = load->array;
      const bool is_own = array->role == ir::ArrayRole::Local || array->role == ir::ArrayRole::Output;
      possible_ &= is_own && !is_float(array->type);
      needed_.insert(array);
    });
  }

  /// What the stores to arrays that are needed need.
  void need_stores(const Stmt& s, std::vector<Stmt>& scopes) {
    if (!s || !possible_) return;
    if (is_whole(s)) {
      ir::walk_stmts(s, [&](const Stmt& inner) {
        const Array* stored = stored_array(inner);
        possible_ &= !inner.same_as(loop_) && !(stored && needed_.count(*stored));
      });
      return;
    }
    if (const auto* n = s.as<ir::Allocate>(); n && needed_.count(n->array))
      for (const Expr& extent : n->array->shape) need(extent);
    if (const Array* stored = stored_array(s)) {
      if (!needed_.count(*stored)) return;
      for (const Expr& index : stored_indices(s)) need(index);
      need(s.as<ir::Assign>() ? s.as<ir::Assign>()->value : s.as<ir::Reduce>()->value);
      for (const Stmt& scope : scopes) need_headers(scope);
      return;
    }
    scopes.push_back(s);
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { need_stores(child, scopes); }});
    scopes.pop_back();
  }

  /// Statements that are not looked into: they decide nothing.
  static bool is_whole(const Stmt& s) {
    return s.kind() == ir::Kind::CustomGradient || s.kind() == ir::Kind::Contraction || s.kind() == ir::Kind::Push ||
           s.kind() == ir::Kind::Pop;
  }

  /// Without what decides nothing.
  Stmt kept(const Stmt& s) const {
    return ir::rewrite(s, {}, [this](const Stmt& child) { return replaced(child); });
  }

  /// Nullopt: the statement with what is kept inside, or nothing where that is empty.
  std::optional<Stmt> replaced(const Stmt& s) const {
    if (is_whole(s)) return ir::block({});
    if (const Array* stored = stored_array(s)) return needed_.count(*stored) ? s : ir::block({});
    if (const auto* n = s.as<ir::Allocate>(); n && !needed_.count(n->array)) return kept(n->body);
    if (const auto* n = s.as<ir::While>()) {
      Stmt body = kept(n->body);
      if (s.same_as(loop_)) body = ir::block({seen(ir::var(n->iterator) + ir::int_const(1)), body});
      return ir::is_empty(body) ? body : ir::while_loop(n->iterator, n->max_trips, n->condition, body, n->location);
    }
    const auto* n = s.as<ir::For>();
    if (!n || !s.same_as(loop_)) return std::nullopt;
    const Stmt loop = ir::for_loop(n->iterator, n->lower, n->upper, kept(n->body), n->mode, n->location, n->at_most);
    return ir::block({seen(n->upper - n->lower), loop});
  }

  Stmt seen(const Expr& trips) const { return ir::reduce(most_, {}, ir::ReduceOp::Max, trips, loop_->location); }

  const ir::Program& program_;
  const Stmt& loop_;
  const Array& most_;
  std::set<Array> needed_;
  bool possible_ = true;
};

}  // namespace

std::optional<Stmt> counting_trips(const ir::Program& program, const Stmt& loop, const std::vector<Stmt>& around,
                                   const Array& most) {
  Deciding deciding(program, loop, most);
  if (!deciding.find(around)) return std::nullopt;
  return deciding.counting();
}

}  // namespace loopgrad::tape
