#include "transforms/loops/unroll.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"

#include <fmt/format.h>

#include <functional>
#include <map>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

std::string act(const char* verb, const LoopName& loop) { return fmt::format("{} '{}'", verb, loop.name()); }

void check_factor(const ir::Program& program, const Stmt& loop, std::int64_t factor, const std::string& action) {
  if (factor < 1) misuse(program, loop, action, "the factor is not positive");
  if (factor > most_copies) misuse(program, loop, action, fmt::format("more than {} copies", most_copies));
}

Stmt copy_at(const Stmt& s, const ir::Symbol& iterator, const Expr& value) {
  return ir::with_fresh_names(simplify_indices(ir::substitute(s, {{iterator, value}})));
}

// The loop over full groups with that body, and the original loop for what is left over.
Stmt groups_and_rest(const ir::For& loop, const Groups& groups, const Stmt& body) {
  ir::LoopMode mode = ir::is_parallel(loop.mode) ? loop.mode : ir::LoopMode::Forward;
  Stmt main = ir::for_loop(groups.group, ir::int_const(0), groups.count, body, mode, loop.location);
  Stmt rest = ir::for_loop(loop.iterator, groups.rest_lower, groups.rest_upper, loop.body, loop.mode, loop.location);
  return ir::block({main, rest});
}

// Whether the copies of an inner loop for different iterations of the outer one can share its iterations.
bool can_be_jammed(const ir::For& inner, const ir::Symbol& outer) {
  return bounds_are_plain(inner) && !mentions(inner.lower, outer) && !mentions(inner.upper, outer);
}

// `factor` copies of a body, statement by statement.
class Jammer {
 public:
  Jammer(const ir::Symbol& iterator, const Groups& groups, std::int64_t factor)
      : iterator_(iterator), groups_(groups), locals_(static_cast<std::size_t>(factor)) {}

  Stmt jam(const Stmt& s) {
    if (auto* node = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : node->body) body.push_back(jam(child));
      return ir::block(std::move(body));
    }
    if (auto* node = s.as<ir::Allocate>()) return allocate_all(*node);
    auto* loop = s.as<ir::For>();
    if (loop && can_be_jammed(*loop, iterator_)) {
      return ir::for_loop(loop->iterator, loop->lower, loop->upper, jam(loop->body), unmarked(loop->mode),
                          loop->location, loop->at_most);
    }
    std::vector<Stmt> copies;
    for (std::size_t k = 0; k < locals_.size(); ++k) {
      copies.push_back(ir::replace_arrays(copy_at(s, iterator_, iteration(k)), locals_[k]));
    }
    return ir::block(std::move(copies));
  }

 private:
  Expr iteration(std::size_t k) const { return simplify_indices(groups_.iteration(static_cast<std::int64_t>(k))); }

  // One local for each copy.
  Stmt allocate_all(const ir::Allocate& node) {
    const ir::ArrayDecl& old = *node.array;
    std::vector<ir::Array> arrays;
    for (std::size_t k = 0; k < locals_.size(); ++k) {
      std::vector<Expr> shape;
      for (const Expr& extent : old.shape) shape.push_back(ir::substitute(extent, {{iterator_, iteration(k)}}));
      arrays.push_back(ir::make_array(old.name, old.type, shape, old.role, old.location));
      locals_[k][node.array] = arrays.back();
    }
    Stmt result = jam(node.body);
    for (auto array = arrays.rbegin(); array != arrays.rend(); ++array) {
      result = ir::allocate(*array, result, node.location);
    }
    return result;
  }

  const ir::Symbol& iterator_;
  const Groups& groups_;
  std::vector<std::map<ir::Array, ir::Array>> locals_;  // per copy
};

// When everything in the loop runs after jamming: group, then places and jammed loops from outside in, then iteration.
class JammedTimes {
 public:
  JammedTimes(const ir::For& loop, std::int64_t factor) : loop_(loop) {
    prefix_ = {block_number(loop, factor)};
    place(loop.body);
  }

  std::optional<std::vector<Expr>> operator()(const poly::Statement& s) const {
    auto it = times_.find(s.stmt.get());
    return it == times_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  void place(const Stmt& s) {
    if (auto* node = s.as<ir::Allocate>()) return place(node->body);
    if (auto* node = s.as<ir::Block>()) {
      prefix_.push_back(ir::int_const(0));
      for (std::size_t k = 0; k < node->body.size(); ++k) {
        prefix_.back() = ir::int_const(static_cast<std::int64_t>(k));
        place(node->body[k]);
      }
      prefix_.pop_back();
      return;
    }
    auto* inner = s.as<ir::For>();
    if (inner && can_be_jammed(*inner, loop_.iterator)) {
      prefix_.push_back(rising(*inner));
      place(inner->body);
      prefix_.pop_back();
      return;
    }
    std::vector<Expr> time = prefix_;
    time.push_back(rising(loop_));
    ir::walk_stmts(s, [&](const Stmt& child) { times_[child.get()] = time; });
  }

  const ir::For& loop_;
  std::vector<Expr> prefix_;
  std::map<const ir::StmtNode*, std::vector<Expr>> times_;
};

}  // namespace

std::optional<std::vector<Stmt>> iterations_of(const ir::For& loop, const Stmt& body) {
  const auto trips = distance(loop.upper, loop.lower);
  if (!trips || *trips > most_copies) return std::nullopt;
  const bool backward = loop.mode == ir::LoopMode::Backward;
  std::vector<Stmt> copies;
  for (std::int64_t k = 0; k < *trips; ++k) {
    const Expr value = simplify_indices(loop.lower + ir::int_const(backward ? *trips - 1 - k : k));
    copies.push_back(copy_at(body, loop.iterator, value));
  }
  return copies;
}

Legality can_jam(const Analysed& program, const Stmt& s, std::int64_t factor) {
  const ir::For& loop = *s.as<ir::For>();
  if (Legality stay = bounds_stay(program, s); !stay.ok || ir::is_parallel(loop.mode)) return stay;
  return can_reorder(program, s, JammedTimes(loop, factor));
}

Stmt jammed(const ir::Program& program, const ir::For& loop, std::int64_t factor) {
  Groups groups = groups_of(program, loop, factor, "_unrolled");
  Stmt body = Jammer(loop.iterator, groups, factor).jam(loop.body);
  Stmt result = groups_and_rest(loop, groups, body);
  // The rest shares iterators and locals of inner loops with the groups.
  const std::vector<Stmt>& two = result.as<ir::Block>()->body;
  return ir::block({two[0], ir::with_fresh_names(two[1])});
}

Scheduled unroll_loop(const Analysed& program, const LoopName& name, std::int64_t factor) {
  Stmt s = find_loop(program, name);
  const ir::For& loop = *s.as<ir::For>();
  std::string action = act("unroll", name);
  require(bounds_stay(program, s), program, s, action);
  if (factor != 0) {
    check_factor(program, s, factor, action);
    Groups groups = groups_of(program, loop, factor, "_unrolled");
    std::vector<Stmt> copies;
    for (std::int64_t k = 0; k < factor; ++k) copies.push_back(copy_at(loop.body, loop.iterator, groups.iteration(k)));
    return {with_replaced(program, s, groups_and_rest(loop, groups, ir::block(std::move(copies)))), {}};
  }
  const auto trips = distance(loop.upper, loop.lower);
  if (!trips) misuse(program, s, action, "the number of iterations is not a constant", "give a factor");
  if (*trips > 0) check_factor(program, s, *trips, action);
  return {with_replaced(program, s, ir::block(*iterations_of(loop, loop.body))), {}};
}

Scheduled unroll_and_jam(const Analysed& program, const LoopName& name, std::int64_t factor) {
  Stmt s = find_loop(program, name);
  const ir::For& loop = *s.as<ir::For>();
  std::string action = act("unroll and jam", name);
  check_factor(program, s, factor, action);
  if (!bounds_are_plain(loop)) require(Legality::refused("its bounds read data"), program, s, action);
  Legality legality = can_jam(program, s, factor);
  require(legality, program, s, action);
  return {with_replaced(program, s, jammed(program, loop, factor)), legality};
}

Scheduled parallelize_loop(const Analysed& program, const LoopName& name) {
  Stmt s = find_loop(program, name);
  const ir::For& loop = *s.as<ir::For>();
  if (ir::is_parallel(loop.mode)) return {program, {}};
  require(can_run_in_parallel(program, s), program, s, "run '" + name.name() + "' in parallel");
  return {with_replaced(program, s, with_mode(loop, ir::LoopMode::Parallel)), {}};
}

Scheduled vectorize_loop(const Analysed& program, const LoopName& name, std::int64_t lanes) {
  Stmt s = find_loop(program, name);
  const ir::For& loop = *s.as<ir::For>();
  std::string action = act("vectorize", name);
  check_factor(program, s, lanes, action);
  bool innermost = true;
  ir::walk_stmts(loop.body, [&](const Stmt& child) {
    innermost = innermost && child.kind() != ir::Kind::For && child.kind() != ir::Kind::While;
  });
  if (!innermost) misuse(program, s, action, "there are loops in it", "interchange it inwards, or unroll them");
  require(bounds_stay(program, s), program, s, action);
  if (!ir::is_parallel(loop.mode)) require(can_run_in_parallel(program, s), program, s, action);
  Groups groups = groups_of(program, loop, lanes, "_vector");
  Expr first = groups.direction > 0 ? groups.first : simplify_indices(groups.iteration(lanes - 1));
  ir::Symbol lane = ir::make_symbol(loop.iterator.name);
  Stmt body = ir::for_loop(lane, first, simplify_indices(first + ir::int_const(lanes)),
                           copy_at(loop.body, loop.iterator, ir::var(lane)), ir::LoopMode::Parallel, loop.location);
  return {with_replaced(program, s, groups_and_rest(loop, groups, body)), {}};
}

}  // namespace loopgrad::transforms
