#include "tape/directions.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "tape/activity.h"
#include "tape/stores.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <charconv>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

/// Statements without loops and branches, so that all of them run once for each time that the first one does.
bool is_straight(const Stmt& s) {
  bool straight = true;
  ir::walk_stmts(s, [&](const Stmt& part) {
    const ir::Kind kind = part.kind();
    straight = straight && (kind == ir::Kind::Block || kind == ir::Kind::Allocate || kind == ir::Kind::Assign ||
                            kind == ir::Kind::Reduce);
  });
  return straight;
}

/// Straight statements whose derivatives share one loop over directions, after the statements.
class Segment {
 public:
  explicit Segment(const Directions& directions)
      : directions_(directions), direction_(ir::make_symbol("direction")), derivatives_(directions.derivatives) {}

  /// False where an index or a condition of a derivative reads what is written here: it would read the new value.
  bool add(const Stmt& s) {
    if (const auto* block = s.as<ir::Block>())
      return std::all_of(block->body.begin(), block->body.end(), [&](const Stmt& part) { return add(part); });
    if (const auto* local = s.as<ir::Allocate>()) {
      const bool active = directions_.derivatives.count(local->array) != 0;
      if (active) {
        const Array wide = directions_.derivatives.at(local->array);
        derivatives_[local->array] = ir::make_array_like(local->array, wide->name, wide->type, ArrayRole::Local);
        narrow_.push_back(local->array);
      }
      if (!active || directions_.with_values) locals_.push_back(local->array);
      return add(local->body);
    }
    differentiate(s);
    const Array& written = s.as<ir::Assign>() ? s.as<ir::Assign>()->array : s.as<ir::Reduce>()->array;
    if (!directions_.with_values && directions_.derivatives.count(written)) return true;
    statements_.push_back(s);
    return read_later_.count(written) == 0;
  }

  /// The derivative of an Assign or a Reduce, if it has one, without the statement itself.
  void differentiate(const Stmt& s) {
    const Store store = store_of(s);
    if (!directions_.derivatives.count(store.array)) return;
    const ScalarType type = store.value.type();
    const std::vector<Contribution> terms = contributions(
        store.value, ir::float_const(1, type), [&](const Array& a) { return directions_.derivatives.count(a) != 0; });
    if (terms.empty() && !store.overwrites) return;
    Expr sum;
    for (const Contribution& term : terms) {
      const Expr value = ir::cast(type, term_of(term, store.location));
      sum = sum ? sum + value : value;
    }
    if (!sum) sum = ir::const_of(0, type);
    const Array& target = derivatives_.at(store.array);
    if (derived_.empty()) where_ = store.location;
    const std::vector<Expr> indices = along(store.array, store.indices);
    for (const Expr& index : store.indices) note_reads(index);
    derived_.push_back(
        store.overwrites ? ir::assign(target, indices, ir::cast(target->type, sum), store.location)
                         : ir::reduce(target, indices, ir::ReduceOp::Add, ir::cast(target->type, sum), store.location));
  }

  Stmt finish() const {
    std::vector<Stmt> body = statements_;
    if (!derived_.empty()) {
      Stmt derived = ir::block(derived_);
      for (const Array& local : narrow_) derived = ir::allocate(derivatives_.at(local), derived, local->location);
      body.push_back(
          ir::for_loop(direction_, ir::int_const(0), directions_.count, derived, ir::LoopMode::Forward, where_));
    }
    Stmt result = ir::block(std::move(body));
    for (auto local = locals_.rbegin(); local != locals_.rend(); ++local)
      result = ir::allocate(*local, result, (*local)->location);
    return result;
  }

 private:
  bool is_narrow(const Array& array) const { return std::find(narrow_.begin(), narrow_.end(), array) != narrow_.end(); }

  std::vector<Expr> along(const Array& array, std::vector<Expr> indices) const {
    if (!is_narrow(array)) indices.push_back(ir::var(direction_));
    return indices;
  }

  Expr term_of(const Contribution& term, const SourceLocation& where) {
    const Array& array = term.target->array;
    const Expr read = ir::load(derivatives_.at(array), along(array, term.target->indices), term.target->location);
    for (const Expr& index : term.target->indices) note_reads(index);
    Expr guard;
    for (const Expr& condition : term.guards) {
      note_reads(condition);
      guard = ir::both(guard, condition);
    }
    const Expr value = times(term.value, guard, read, where);
    return guard ? ir::select(guard, value, ir::const_of(0, value.type())) : value;
  }

  /// slope * read; the slope is computed before the loop.
  Expr times(const Expr& slope, const Expr& guard, const Expr& read, const SourceLocation& where) {
    if (const auto* number = slope.as<ir::FloatConst>()) {
      if (number->value == 1) return read;
      if (number->value == -1) return -read;
      return slope * read;
    }
    const Array named = ir::make_array("slope", slope.type(), {}, ArrayRole::Local, where);
    locals_.push_back(named);
    const Expr value = guard ? ir::select(guard, slope, ir::const_of(0, slope.type())) : slope;
    statements_.push_back(ir::assign(named, {}, value, where));
    return ir::load(named, {}, where) * read;
  }

  void note_reads(const Expr& e) {
    ir::walk(e, [&](const Expr& part) {
      if (const auto* load = part.as<ir::Load>()) read_later_.insert(load->array);
      return true;
    });
  }

  const Directions& directions_;
  ir::Symbol direction_;
  ArrayMap derivatives_;          // those of locals of the segment are as large as the locals
  std::vector<Array> narrow_;     // these locals
  std::vector<Array> locals_;     // allocated around all of it
  std::vector<Stmt> statements_;  // slopes, and what is differentiated
  std::vector<Stmt> derived_;     // the body of the loop
  SourceLocation where_;          // of the first of them
  std::set<Array> read_later_;    // by indices and conditions of `derived_`
};

class DirectionRewriter final : public ir::Rewriter {
 public:
  explicit DirectionRewriter(const Directions& directions) : directions_(directions) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (is_straight(s)) return straight({s});
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> body, group;
      const auto close = [&] {
        if (!group.empty()) body.push_back(straight(group));
        group.clear();
      };
      for (const Stmt& part : block->body) {
        if (is_straight(part)) {
          group.push_back(part);
          continue;
        }
        close();
        body.push_back(rewrite(part));
      }
      close();
      return ir::block(std::move(body));
    }
    if (const auto* local = s.as<ir::Allocate>(); local && directions_.derivatives.count(local->array))
      return allocated(*local, rewrite(local->body));
    return rewrite_children(s);
  }

 private:
  Stmt straight(const std::vector<Stmt>& statements) const {
    Segment segment(directions_);
    if (std::all_of(statements.begin(), statements.end(), [&](const Stmt& s) { return segment.add(s); }))
      return segment.finish();
    std::vector<Stmt> body;
    for (const Stmt& s : statements) body.push_back(one_by_one(s));
    return ir::block(std::move(body));
  }

  /// Every derivative in a loop of its own, before the statement.
  Stmt one_by_one(const Stmt& s) const {
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& part : block->body) body.push_back(one_by_one(part));
      return ir::block(std::move(body));
    }
    if (const auto* local = s.as<ir::Allocate>()) {
      const Stmt body = one_by_one(local->body);
      return directions_.derivatives.count(local->array) ? allocated(*local, body)
                                                         : ir::allocate(local->array, body, local->location);
    }
    Segment segment(directions_);
    segment.differentiate(s);
    const bool gone = !directions_.with_values && directions_.derivatives.count(store_of(s).array);
    return gone ? segment.finish() : ir::block({segment.finish(), s});
  }

  Stmt allocated(const ir::Allocate& local, const Stmt& body) const {
    const Stmt inner = directions_.with_values ? ir::allocate(local.array, body, local.location) : body;
    return ir::allocate(directions_.derivatives.at(local.array), inner, local.location);
  }

  const Directions& directions_;
};

}  // namespace

Array array_of_directions(const Array& like, std::string name, ScalarType type, ArrayRole role, const Expr& count) {
  std::vector<Expr> shape = like->shape, given = like->given;
  shape.push_back(count);
  if (!given.empty()) given.push_back(count);
  return ir::make_array(std::move(name), type, std::move(shape), role, like->location, std::move(given));
}

Stmt along_directions(const Stmt& body, const Directions& directions) {
  return DirectionRewriter(directions).rewrite(body);
}

Expr count_directions(ir::Program& program, const std::string& directions) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (std::all_of(directions.begin(), directions.end(), is_digit)) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(directions.data(), directions.data() + directions.size(), number);
    if (error == std::errc{} && number > 0) return ir::int_const(number);
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "there cannot be " + directions + " directions",
                      .program = program.name,
                      .hint = "`directions` is a number from 1 on, or the name of a size",
                      .location = program.location});
  }
  if (!ir::is_identifier(directions))
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "`directions` is '" + directions + "', which is neither a number nor a name",
                      .program = program.name,
                      .hint = "`directions` is a number from 1 on, or the name of a size: letters, digits and '_'",
                      .location = program.location});
  const auto is_it = [&](const ir::Symbol& size) { return size.name == directions; };
  if (std::any_of(program.sizes.begin(), program.sizes.end(), is_it) || ir::find_array(program, directions))
    throw UsageError(
        {.code = ErrorCode::BadArgument,
         .message = "the number of directions cannot be called '" + directions + "': the program has that name",
         .program = program.name,
         .array = directions,
         .hint = "give `directions` another name",
         .location = program.location});
  program.sizes.push_back(ir::make_symbol(directions));
  return ir::var(program.sizes.back());
}

ir::Program with_adjoints(const ir::Program& backward, const ir::Program& primal, const Expr& count) {
  Directions directions{count, {}, false};
  ir::Program result = backward;
  std::vector<Array> incoming;
  const auto widened = [&](const Array& array) {
    return array_of_directions(array, array->name, array->type, array->role, directions.count);
  };
  for (Array& array : result.arrays) {
    if (array->role == ArrayRole::Tape || ir::find_array(primal, array->name)) continue;
    if (array->role != ArrayRole::Output) incoming.push_back(array);
    const Array wide = widened(array);
    directions.derivatives[array] = wide;
    array = wide;
  }
  const Activity activity = analyze_activity(backward, incoming, {});
  for (const Array& array : activity.varied)
    if (!directions.derivatives.count(array)) directions.derivatives[array] = widened(array);
  result.body = along_directions(backward.body, directions);
  return result;
}

}  // namespace loopgrad::tape
