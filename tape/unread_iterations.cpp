#include "tape/unread_iterations.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "tape/stores.h"

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

/// A dimension of a tape of which all reads name one place.
struct Dropped {
  Array now;  // without the dimension
  std::size_t dim = 0;
  Stmt store;  // the only one, of the forward sweep
  Expr place;  // in its iterators
};

std::vector<Expr> without(std::vector<Expr> indices, std::size_t dim) {
  indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(dim));
  return indices;
}

struct TapeUses {
  std::vector<Expr> reads;
  std::vector<Stmt> stores;
};

std::map<Array, TapeUses> uses_of_tapes(const DirectGradient& gradient) {
  std::map<Array, TapeUses> result;
  std::set<Array> read_forward;
  const auto add_read = [&](const Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (load && load->array->role == ir::ArrayRole::Tape) result[load->array].reads.push_back(e);
  };
  ir::walk(
      gradient.backward, [](const Stmt&) {}, add_read);
  ir::walk(
      gradient.forward,
      [&](const Stmt& s) {
        const Array* array = stored_array(s);
        if (array && (*array)->role == ir::ArrayRole::Tape) result[*array].stores.push_back(s);
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) read_forward.insert(load->array);
      });
  for (const Array& array : read_forward) result.erase(array);
  return result;
}

std::set<ir::Symbol> iterators_of(const Stmt& sweep) {
  std::set<ir::Symbol> result;
  ir::walk_stmts(sweep, [&](const Stmt& s) {
    if (is_loop(s)) result.insert(iterator_of(s));
  });
  return result;
}

class Finder {
 public:
  explicit Finder(const DirectGradient& gradient)
      : uses_(uses_of_tapes(gradient)), backward_(iterators_of(gradient.backward)) {}

  std::optional<Dropped> find(const Array& tape) const {
    const auto uses = uses_.find(tape);
    if (uses == uses_.end() || uses->second.reads.empty() || uses->second.stores.size() != 1) return std::nullopt;
    const Stmt& store = uses->second.stores[0];
    if (store.kind() != ir::Kind::Assign) return std::nullopt;
    for (std::size_t dim = tape->shape.size(); dim-- > 0;) {
      if (ir::as_int(tape->shape[dim])) continue;
      const Expr place = place_of_reads(uses->second.reads, store, dim);
      if (!place || ir::equal(place, stored_indices(store)[dim])) continue;
      const Array now = ir::make_array(tape->name, tape->type, without(tape->shape, dim), tape->role, tape->location);
      return Dropped{now, dim, store, place};
    }
    return std::nullopt;
  }

 private:
  /// In the iterators of the store; null where reads differ, or depend on more than their other places.
  Expr place_of_reads(const std::vector<Expr>& reads, const Stmt& store, std::size_t dim) const {
    Expr result;
    for (const Expr& read : reads) {
      const std::vector<Expr>& indices = read.as<ir::Load>()->indices;
      if (ir::has_load(indices[dim])) return {};
      ir::Substitution at;
      for (std::size_t other = 0; other < indices.size(); ++other)
        if (const auto* var = indices[other].as<ir::Var>(); var && other != dim)
          at[var->symbol] = stored_indices(store)[other];
      bool is_known = true;
      ir::walk(indices[dim], [&](const Expr& e) {
        const auto* var = e.as<ir::Var>();
        is_known = is_known && (!var || !backward_.count(var->symbol) || at.count(var->symbol));
      });
      if (!is_known) return {};
      const Expr place = ir::substitute(indices[dim], at);
      if (result && !same_value(result, place)) return {};
      result = place;
    }
    return result;
  }

  std::map<Array, TapeUses> uses_;
  std::set<ir::Symbol> backward_;
};

class Forward final : public ir::Rewriter {
 public:
  explicit Forward(const Dropped& dropped) : dropped_(dropped) {}

  Stmt rewrite(const Stmt& s) override {
    if (const auto* loop = s.as<ir::For>())
      if (const Stmt after = behind(*loop)) return after;
    if (!s.same_as(dropped_.store)) return rewrite_children(s);
    const Expr& own = stored_indices(s)[dropped_.dim];
    return ir::if_then(ir::binary(ir::BinaryOp::Eq, own, dropped_.place), smaller(s), {}, s->location);
  }

 private:
  Stmt smaller(const Stmt& s) const {
    const Store store = store_of(s);
    return ir::assign(dropped_.now, without(store.indices, dropped_.dim), store.value, store.location);
  }

  /// What its last iteration saves is saved behind the loop, where nothing in it changes that before. Null: not so.
  Stmt behind(const ir::For& loop) const {
    const auto* list = loop.body.as<ir::Block>();
    if (!list || loop.mode != ir::LoopMode::Forward || ir::has_load(loop.lower)) return {};
    const auto at =
        std::find_if(list->body.begin(), list->body.end(), [&](const Stmt& s) { return s.same_as(dropped_.store); });
    if (at == list->body.end()) return {};
    const ir::Substitution last = {{loop.iterator, loop.upper - ir::int_const(1)}};
    const Expr own = ir::substitute(stored_indices(*at)[dropped_.dim], last);
    if (!same_value(own, dropped_.place) || mentions(dropped_.place, loop.iterator)) return {};
    std::set<Array> read;
    ir::walk(
        *at, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) read.insert(load->array);
        });
    for (auto later = at + 1; later != list->body.end(); ++later) {
      bool changes = false;
      ir::walk_stmts(*later,
                     [&](const Stmt& s) { changes = changes || !stored_array(s) || read.count(*stored_array(s)); });
      if (changes) return {};
    }
    std::vector<Stmt> rest(list->body.begin(), at);
    rest.insert(rest.end(), at + 1, list->body.end());
    const Stmt all =
        ir::for_loop(loop.iterator, loop.lower, loop.upper, ir::block(rest), loop.mode, loop.location, loop.at_most);
    const Expr any = ir::binary(ir::BinaryOp::Lt, loop.lower, loop.upper);
    return ir::block({all, ir::if_then(any, ir::substitute(smaller(*at), last), {}, (*at)->location)});
  }

  const Dropped& dropped_;
};

}  // namespace

DirectGradient without_unread_iterations(DirectGradient gradient, Report& report) {
  Finder finder(gradient);
  for (std::size_t k = 0; k < gradient.tape.size();) {
    const Array tape = gradient.tape[k];
    const auto dropped = finder.find(tape);
    if (!dropped) {
      ++k;
      continue;
    }
    std::map<std::string, std::string> renamed;  // in the report
    gradient.backward = ir::rewrite(gradient.backward, [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!load || load->array != tape) return std::nullopt;
      const Expr now = ir::load(dropped->now, without(load->indices, dropped->dim), load->location);
      renamed[ir::print(e)] = ir::print(now);
      return now;
    });
    gradient.forward = Forward(*dropped).rewrite(gradient.forward);
    gradient.tape[k] = dropped->now;
    finder = Finder(gradient);
    for (TapeDecision& decision : report.tape)
      if (const auto at = renamed.find(decision.storage); at != renamed.end()) {
        decision.storage = at->second;
        decision.elements = ir::print(ir::element_count(dropped->now));
      }
  }
  return gradient;
}

}  // namespace loopgrad::tape
