#include "tape/trip_counts.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tape/stores.h"

#include <algorithm>
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
      : program_(program), loop_(loop), most_(most), aliased_(ir::aliased_arrays(program)) {
    ir::walk_stmts(program.body, [&](const Stmt& s) {
      if (const Array* stored = stored_array(s)) stored_.insert(*stored);
    });
  }

  /// Which arrays hold what decides.
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

  void need(const Expr& e) {
    ir::walk(e, [&](const Expr& node) {
      const auto* load = node.as<ir::Load>();
      if (!load) return;
      const Array& array = load->array;
      if (array->role == ir::ArrayRole::Input && !stored_.count(array) && !aliased_.count(array)) return;
      const bool is_own = array->role == ir::ArrayRole::Local || array->role == ir::ArrayRole::Output;
      possible_ &= is_own && !is_float(array->type);
      needed_.insert(array);
    });
  }

  /// What the stores to arrays that are needed need.
  void need_stores(const Stmt& s, std::vector<Stmt>& scopes) {
    if (!s || !possible_) return;
    const bool is_plain = s.kind() != ir::Kind::CustomGradient && s.kind() != ir::Kind::Contraction;
    if (!is_plain || s.kind() == ir::Kind::Push || s.kind() == ir::Kind::Pop) {
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
    ir::visit(s, [&](const auto& node) {
      ir::for_each_child(node,
                         ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { need_stores(child, scopes); }});
    });
    scopes.pop_back();
  }

  /// The program without what decides nothing.
  Stmt kept(const Stmt& s) const {
    if (!s) return {};
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> parts;
      for (const Stmt& child : n->body) parts.push_back(kept(child));
      return ir::block(parts);
    }
    if (const auto* n = s.as<ir::For>()) {
      const Stmt body = kept(n->body);
      Stmt loop;
      if (!ir::is_empty(body))
        loop = ir::for_loop(n->iterator, n->lower, n->upper, body, n->mode, n->location, n->at_most);
      return s.same_as(loop_) ? ir::block({seen(n->upper - n->lower), loop}) : loop;
    }
    if (const auto* n = s.as<ir::While>()) {
      Stmt body = kept(n->body);
      if (s.same_as(loop_)) body = ir::block({seen(ir::var(n->iterator) + ir::int_const(1)), body});
      if (ir::is_empty(body)) return {};
      return ir::while_loop(n->iterator, n->max_trips, n->condition, body, n->location);
    }
    if (const auto* n = s.as<ir::If>()) {
      const Stmt then_body = kept(n->then_body), else_body = kept(n->else_body);
      if (ir::is_empty(then_body) && ir::is_empty(else_body)) return {};
      if (!ir::is_empty(then_body)) return ir::if_then(n->condition, then_body, else_body, n->location);
      return ir::if_then(ir::unary(ir::UnaryOp::Not, n->condition), else_body, {}, n->location);
    }
    if (const auto* n = s.as<ir::Allocate>()) {
      const Stmt body = kept(n->body);
      return needed_.count(n->array) && !ir::is_empty(body) ? ir::allocate(n->array, body, n->location) : body;
    }
    const Array* stored = stored_array(s);
    return stored && needed_.count(*stored) ? s : Stmt{};
  }

  Stmt seen(const Expr& trips) const { return ir::reduce(most_, {}, ir::ReduceOp::Max, trips, loop_->location); }

  const ir::Program& program_;
  const Stmt& loop_;
  const Array& most_;
  const std::set<Array> aliased_;
  std::set<Array> stored_, needed_;
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
