#include "transforms/map/gpu/lockstep.h"

#include "dsl/ir/notes.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// Whether all iterations of a chunk along `iterator` execute the loop the same number of times.
bool is_uniform(const ir::For& loop, const ir::Symbol& iterator) {
  return !mentions(loop.lower, iterator) && !mentions(loop.upper, iterator) && !has_load(loop.lower) &&
         !has_load(loop.upper);
}

/// Whether all iterations of a chunk along `iterator` take the same branch.
bool is_uniform(const ir::If& branch, const ir::Symbol& iterator) {
  return !mentions(branch.condition, iterator) && !has_load(branch.condition);
}

/// Blocks, scalars, assignments and sums, and uniform loops and branches around such.
bool can_run_in_lockstep(const Stmt& body, const ir::Symbol& iterator) {
  bool can = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    const auto* local = s.as<ir::Allocate>();
    const auto* sum = s.as<ir::Reduce>();
    const auto* branch = s.as<ir::If>();
    can &= loop     ? is_uniform(*loop, iterator)
           : local  ? local->array->shape.empty()
           : sum    ? !sum->atomic || ir::is_note(s)
           : branch ? !contains_loop(s) || is_uniform(*branch, iterator)
                    : s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Assign;
  });
  return can;
}

/// Calls f(statements in a row without loops, iterators of the loops around them).
template <class F>
void for_each_run(const Stmt& s, std::vector<ir::Symbol>& around, F&& f) {
  if (!contains_loop(s)) return f(s, around);
  if (const auto* n = s.as<ir::Block>()) {
    for (const Stmt& child : n->body) for_each_run(child, around, f);
  } else if (const auto* local = s.as<ir::Allocate>()) {
    for_each_run(local->body, around, f);
  } else if (const auto* branch = s.as<ir::If>()) {
    for (const Stmt& body : {branch->then_body, branch->else_body})
      if (body) for_each_run(body, around, f);
  } else if (const auto* loop = s.as<ir::For>()) {
    around.push_back(loop->iterator);
    for_each_run(loop->body, around, f);
    around.pop_back();
  }
}

/// Whether the last index of an access that moves with `iterator` moves with a loop inside too: its alignment changes.
bool alignment_changes(const Stmt& run, const ir::Symbol& iterator, const std::vector<ir::Symbol>& around) {
  bool changes = false;
  ir::walk(
      run, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || load->indices.empty() || !mentions(load->indices.back(), iterator)) return;
        for (const ir::Symbol& inner : around) changes |= mentions(load->indices.back(), inner);
      });
  return changes;
}

template <class Visitor>
Stmt branches(const ir::If& n, Visitor& visitor) {
  const Stmt otherwise = n.else_body ? visitor.visit(n.else_body) : Stmt();
  return ir::if_then(n.condition, visitor.visit(n.then_body), otherwise, n.location);
}

class Distributor {
 public:
  Distributor(const ir::Symbol& iterator, const Chunk& chunk, std::int64_t width, const SourceLocation& location)
      : iterator_(iterator), chunk_(chunk), width_(width), location_(location) {}

  Stmt visit(const Stmt& s) {
    if (const auto* n = s.as<ir::Block>()) return block(*n);
    if (const auto* local = s.as<ir::Allocate>(); local && (contains_loop(local->body) || has_late_stores(local->body)))
      return lanes_of(*local);
    if (const auto* loop = s.as<ir::For>())
      return ir::for_loop(loop->iterator, loop->lower, loop->upper, visit(loop->body), loop->mode, loop->location, {},
                          loop->shape);
    if (const auto* branch = s.as<ir::If>(); branch && contains_loop(s)) return branches(*branch, *this);
    return over_chunk(s);
  }

 private:
  Stmt block(const ir::Block& n) {
    std::vector<Stmt> result, run;
    auto finish = [&] {
      if (!run.empty()) result.push_back(over_chunk(ir::block(run)));
      run.clear();
    };
    for (const Stmt& child : n.body) {
      if (!run.empty() && stores_what(run, child)) finish();
      const bool apart = contains_loop(child) || child.kind() == ir::Kind::Allocate;
      if (!apart) {
        run.push_back(child);
        continue;
      }
      finish();
      result.push_back(visit(child));
    }
    finish();
    return ir::block(std::move(result));
  }

  /// A store to an array, not a scalar, that one of the statements loads.
  static bool stores_what(const std::vector<Stmt>& loading, const Stmt& storing) {
    bool found = false;
    ir::walk_stmts(storing, [&](const Stmt& s) {
      for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
        for (const Stmt& before : loading) found |= !indices.empty() && reads(before, array);
      });
    });
    return found;
  }

  static bool has_late_stores(const Stmt& s) {
    const auto* n = s.as<ir::Block>();
    if (!n) return false;
    std::vector<Stmt> before;
    for (const Stmt& child : n->body) {
      if (stores_what(before, child)) return true;
      before.push_back(child);
    }
    return false;
  }

  /// One element of a local array for each iteration, in place of a scalar.
  Stmt lanes_of(const ir::Allocate& local) {
    const ir::Array& scalar = local.array;
    const ir::Array lanes =
        ir::make_array(scalar->name, scalar->type, {ir::int_const(width_)}, scalar->role, scalar->location);
    const std::vector<Expr> lane = {ir::var(iterator_) - chunk_.start};
    const Stmt body =
        ir::move_elements(local.body, [&](const ir::Array& array, const auto&) -> std::optional<ir::ElementPlace> {
          return array == scalar ? std::optional(ir::ElementPlace{lanes, lane}) : std::nullopt;
        });
    return ir::allocate(lanes, visit(body), local.location);
  }

  Stmt over_chunk(const Stmt& run) const {
    const ir::Symbol own = ir::make_symbol(iterator_.name);
    return chunk_loop(own, chunk_, width_, ir::substitute(run, {{iterator_, ir::var(own)}}), location_);
  }

  const ir::Symbol iterator_;
  const Chunk chunk_;
  const std::int64_t width_;
  const SourceLocation location_;
};

/// What is stored to an array that its statement loads too gets its value first, but for atomic sums: others may add
/// between a load and a store.
Stmt with_values_first(const Stmt& body) {
  return ir::rewrite(body, {}, [](const Stmt& s) -> std::optional<Stmt> {
    const auto* assign = s.as<ir::Assign>();
    const auto* sum = s.as<ir::Reduce>();
    const bool loads = assign ? uses(assign->value, assign->array) : sum && !sum->atomic;
    const ir::Array array = assign ? assign->array : sum ? sum->array : ir::Array();
    const std::vector<Expr> indices = assign ? assign->indices : sum ? sum->indices : std::vector<Expr>();
    if (!loads || indices.empty()) return std::nullopt;
    const ir::Array value =
        ir::make_array(array->name + "_new", value_type(array->type), {}, ir::ArrayRole::Local, s->location);
    std::vector<Stmt> own;
    own.push_back(ir::assign(value, {}, assign ? assign->value : ir::load(array, indices), s->location));
    if (sum) own.push_back(ir::reduce_like(*sum, value, {}, sum->value));
    own.push_back(ir::assign(array, indices, ir::load(value, {}), s->location));
    return ir::allocate(value, ir::block(std::move(own)), s->location);
  });
}

/// Copies of the statements of a body, one for each of a few iterations.
class Copier {
 public:
  Copier(const ir::Symbol& iterator, Expr upper, std::int64_t width)
      : iterator_(iterator), upper_(std::move(upper)), lanes_{iterator} {
    for (std::int64_t lane = 1; lane < width; ++lane) lanes_.push_back(ir::make_symbol(iterator.name));
  }

  Stmt copies(const Stmt& body) {
    Stmt result = visit(body);
    for (std::size_t lane = lanes_.size(); lane-- > 1;) {
      const Expr last = upper_ - number(1);
      result = let(lanes_[lane], ir::binary(ir::BinaryOp::Min, nth(lane), last), result);
    }
    return result;
  }

  Stmt visit(const Stmt& s) {
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> result;
      for (const Stmt& child : n->body) result.push_back(visit(child));
      return ir::block(std::move(result));
    }
    if (const auto* local = s.as<ir::Allocate>()) return scalars_of(*local);
    if (const auto* loop = s.as<ir::For>()) return with_body(*loop, visit(loop->body));
    if (const auto* branch = s.as<ir::If>(); branch && contains_loop(s)) return branches(*branch, *this);
    std::vector<Stmt> result;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) result.push_back(copy(s, lane));
    return ir::block(std::move(result));
  }

 private:
  Stmt scalars_of(const ir::Allocate& local) {
    const ir::Array& scalar = local.array;
    std::vector<ir::Array>& own = scalars_[scalar];
    own = {scalar};
    while (own.size() < lanes_.size())
      own.push_back(ir::make_array(scalar->name, scalar->type, {}, scalar->role, scalar->location));
    const std::vector<ir::Array> declared = own;
    Stmt result = visit(local.body);
    for (auto array = declared.rbegin(); array != declared.rend(); ++array)
      result = ir::allocate(*array, result, local.location);
    return result;
  }

  Stmt copy(const Stmt& s, std::size_t lane) const {
    if (lane == 0) return s;
    std::map<ir::Array, ir::Array> own;
    for (const auto& [scalar, arrays] : scalars_) own[scalar] = arrays[lane];
    const Stmt result = ir::substitute(ir::replace_arrays(s, own), {{iterator_, ir::var(lanes_[lane])}});
    const Expr exists = ir::binary(ir::BinaryOp::Lt, nth(lane), upper_);
    const Stmt guarded = ir::rewrite(result, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      bool to_memory = false;
      for_each_store(child, [&](const ir::Array&, const std::vector<Expr>& indices) { to_memory = !indices.empty(); });
      return to_memory ? std::optional(ir::if_then(exists, child, {}, child->location)) : std::nullopt;
    });
    return ir::with_fresh_names(guarded);  // locals of branches are declared by each copy
  }

  Expr nth(std::size_t lane) const { return ir::var(iterator_) + number(static_cast<std::int64_t>(lane)); }

  const ir::Symbol iterator_;
  const Expr upper_;
  std::vector<ir::Symbol> lanes_;                        // the iterations, the first one's own iterator first
  std::map<ir::Array, std::vector<ir::Array>> scalars_;  // for each scalar: its copies
};

/// Whether an index, a bound or a condition is loaded from something that the body stores.
bool decides_by_own_values(const Stmt& body) {
  const std::set<ir::Array> stored = stored_in(body);
  bool found = false;
  auto check = [&](const Expr& e) {
    for (const ir::Array& array : stored) found |= e && uses(e, array);
  };
  ir::walk(
      body,
      [&](const Stmt& s) {
        if (const auto* loop = s.as<ir::For>()) check(loop->lower), check(loop->upper);
        if (const auto* branch = s.as<ir::If>()) check(branch->condition);
        for_each_store(s, [&](const ir::Array&, const std::vector<Expr>& indices) {
          for (const Expr& index : indices) check(index);
        });
      },
      [&](const Expr& e) {
        if (const auto* choice = e.as<ir::Select>()) check(choice->condition);
        if (const auto* n = e.as<ir::Binary>(); n && (n->op == ir::BinaryOp::And || n->op == ir::BinaryOp::Or))
          check(n->a);
        if (const auto* load = e.as<ir::Load>())
          for (const Expr& index : load->indices) check(index);
      });
  return found;
}

}  // namespace

bool can_be_copied(const Stmt& body, const ir::Symbol& iterator) {
  bool updates_scalars_of_all = false;  // those that are not the iteration's own
  std::set<ir::Array> own;
  ir::walk_stmts(body, [&](const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) own.insert(local->array);
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
      updates_scalars_of_all |= indices.empty() && !own.count(array);
    });
  });
  return can_run_in_lockstep(body, iterator) && !updates_scalars_of_all && !decides_by_own_values(body);
}

Stmt lockstep_copies(const ir::Symbol& iterator, const Expr& upper, std::int64_t width, const Stmt& body) {
  return Copier(iterator, upper, width).copies(body);
}

std::optional<std::int64_t> shift_for_lockstep(const Stmt& body, const ir::Symbol& iterator, const Expr& lower) {
  if (!contains_loop(body) || !can_run_in_lockstep(body, iterator)) return std::nullopt;
  std::optional<std::int64_t> shift;
  bool all = true;
  std::vector<ir::Symbol> around;
  for_each_run(body, around, [&](const Stmt& run, const std::vector<ir::Symbol>& loops) {
    if (loops.empty()) return;
    const auto own = shift_for_chunks(run, iterator, lower);
    all &= own && own == shift.value_or(*own) && !alignment_changes(run, iterator, loops);
    if (own) shift = own;
  });
  return all ? shift : std::nullopt;
}

bool gains_from_more_loads(const Stmt& body) {
  bool plain = true;
  std::size_t stores = 0;
  std::vector<const ir::Load*> loads;  // of different elements
  ir::walk(
      body,
      [&](const Stmt& s) {
        const auto* local = s.as<ir::Allocate>();
        const auto* sum = s.as<ir::Reduce>();
        const auto* branch = s.as<ir::If>();
        plain &= local    ? local->array->shape.empty()
                 : sum    ? !sum->atomic || ir::is_note(s)
                 : branch ? !has_load(branch->condition)
                          : s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Assign;
        for_each_store(s, [&](const ir::Array&, const std::vector<Expr>& indices) { stores += !indices.empty(); });
      },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        const bool known = !load || std::any_of(loads.begin(), loads.end(), [&](const ir::Load* other) {
          return other->array == load->array && ir::equal(other->indices, load->indices);
        });
        if (!known && !load->indices.empty()) loads.push_back(load);
      });
  return plain && !loads.empty() && loads.size() >= stores;
}

Stmt lockstep(const ir::Symbol& iterator, const Chunk& chunk, std::int64_t width, const Stmt& body,
              const SourceLocation& location) {
  const ir::Symbol start = ir::make_symbol(iterator.name + "_start");
  const Chunk own = {ir::var(start), chunk.lowest, chunk.upper};
  const Stmt lanes = Distributor(iterator, own, width, location).visit(with_values_first(body));
  return ir::for_loop(start, chunk.start, chunk.start + ir::int_const(1), lanes);
}

}  // namespace loopgrad::transforms
