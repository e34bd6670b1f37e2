#include "tools/cli/sides.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace loopgrad::cli {
namespace {

using ir::BinaryOp, ir::Expr, ir::Stmt, ir::UnaryOp;

constexpr std::int64_t kFactor = 1000003;  // of a hash of the sides in their order

bool reads_memory(const Expr& e) {
  bool reads = false;
  ir::walk(e, [&](const Expr& part) {
    reads = reads || part.kind() == ir::Kind::Load;
    return !reads;
  });
  return reads;
}

/// Puts before each statement what notes the sides that it is about to take.
class Noter final : public ir::Rewriter {
 public:
  Noter(ir::Array noted, std::vector<Side>& places) : noted_(std::move(noted)), places_(places) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    notes_.clear();
    if (const auto* n = s.as<ir::Assign>()) return noting(s, n->indices, n->value, n->location);
    if (const auto* n = s.as<ir::Reduce>()) {
      where_ = n->location;
      if (n->op == ir::ReduceOp::Max || n->op == ir::ReduceOp::Min)
        note_condition(n->op == ir::ReduceOp::Max ? "max_with" : "min_with",
                       ir::binary(BinaryOp::Le, ir::load(n->array, n->indices), n->value));
      return noting(s, n->indices, n->value, n->location);
    }
    if (const auto* n = s.as<ir::If>()) {
      where_ = n->location;
      find(n->condition);
      note_condition("the branch", n->condition);
      std::vector<Stmt> body = std::move(notes_);
      body.push_back(rewrite_children(s));
      return ir::block(std::move(body));
    }
    if (const auto* n = s.as<ir::While>()) {
      where_ = n->location;
      note("the number of trips", ir::int_const(1));
      const Stmt trip = ir::block(std::move(notes_));
      return ir::while_loop(n->iterator, n->max_trips, n->condition, ir::block({trip, rewrite(n->body)}), n->location);
    }
    return rewrite_children(s);
  }

 private:
  Stmt noting(const Stmt& s, const std::vector<Expr>& indices, const Expr& value, SourceLocation where) {
    where_ = where;
    find(value);
    for (const Expr& index : indices) find(index);
    std::vector<Stmt> body = std::move(notes_);
    body.push_back(s);
    return ir::block(std::move(body));
  }

  void find(const Expr& value) {
    ir::walk(value, [&](const Expr& e) {
      if (const auto* n = e.as<ir::Select>()) {
        find(n->condition);
        note_condition("select", n->condition);
        guarded(n->condition, n->a);
        guarded(ir::unary(UnaryOp::Not, n->condition), n->b);
        return false;
      }
      if (const auto* n = e.as<ir::Binary>(); n && (n->op == BinaryOp::And || n->op == BinaryOp::Or)) {
        find(n->a);
        guarded(n->op == BinaryOp::And ? n->a : ir::unary(UnaryOp::Not, n->a), n->b);
        return false;
      }
      note_operation(e);
      return true;
    });
  }

  void note_operation(const Expr& e) {
    if (const auto* n = e.as<ir::Binary>(); n && is_float(n->type)) {
      if (n->op == BinaryOp::Max) note_condition("max", ir::binary(BinaryOp::Le, n->a, n->b));
      if (n->op == BinaryOp::Min) note_condition("min", ir::binary(BinaryOp::Le, n->b, n->a));
    }
    if (const auto* n = e.as<ir::Unary>(); n && is_float(e.type())) {
      if (n->op == UnaryOp::Abs) note_condition("abs", ir::binary(BinaryOp::Lt, ir::const_of(0, n->a.type()), n->a));
      if (n->op == UnaryOp::Floor) note("floor", ir::cast(ScalarType::I64, e));
      if (n->op == UnaryOp::Ceil) note("ceil", ir::cast(ScalarType::I64, e));
    }
    if (const auto* n = e.as<ir::Cast>(); n && is_float(n->a.type()) && !is_float(n->type))
      note("the cast to an integer", ir::cast(ScalarType::I64, e));
  }

  void guarded(const Expr& condition, const Expr& e) {
    const Expr before = guard_;
    guard_ = guard_ ? ir::select(guard_, condition, ir::bool_const(false)) : condition;
    find(e);
    guard_ = before;
  }

  /// Conditions on sizes and iterators alone are the same in every run.
  void note_condition(const char* what, const Expr& condition) {
    if (reads_memory(condition)) note(what, ir::select(condition, ir::int_const(2), ir::int_const(1)));
  }

  void note(const char* what, const Expr& number) {
    const auto place = static_cast<std::int64_t>(places_.size());
    places_.push_back({what, where_});
    const Expr index = ir::int_const(place), before = ir::load(noted_, {index});
    const Expr value = guard_ ? ir::select(guard_, number, ir::int_const(0)) : number;
    notes_.push_back(ir::assign(noted_, {index}, before * ir::int_const(kFactor) + value, where_));
  }

  ir::Array noted_;
  std::vector<Side>& places_;
  std::vector<Stmt> notes_;
  SourceLocation where_;
  Expr guard_;
};

Program with_notes(const Program& program, const std::string& name, std::vector<Side>& places) {
  // In-out, for a caller that has zeros there. The extent is that of the places, known when all have been found.
  ir::Array noted = ir::make_array(name, ScalarType::I64, {ir::int_const(0)}, ir::ArrayRole::InOut, {});
  ir::Program result = program.ir();
  result.body = Noter(noted, places).rewrite(result.body);
  const auto count = static_cast<std::int64_t>(places.size());
  const ir::Array all = ir::make_array(name, ScalarType::I64, {ir::int_const(count)}, ir::ArrayRole::InOut, {});
  result.body = ir::replace_arrays(result.body, {{noted, all}});
  result.arrays.push_back(all);
  return Program(std::make_shared<const ir::Program>(std::move(result)));
}

std::string free_name(const Program& program) {
  std::string name = "sides";
  while (ir::find_array(program.ir(), name)) name += "_";
  return name;
}

}  // namespace

Sides::Sides(const Program& program)
    : noted_(free_name(program)),
      program_(with_notes(program, noted_, places_)),
      run_(compile(program_, {.target = Target::Interpreter, .f64 = true})) {}

std::vector<std::int64_t> Sides::taken(const Arrays& inputs, const Sizes& sizes) const {
  Arrays initial = inputs;
  initial[noted_] = HostArray(ScalarType::I64, {static_cast<std::int64_t>(places_.size())});
  const Buffers buffers({program_}, sizes, initial, true);
  run_.run(buffers.arguments(0), sizes);
  const HostArray& noted = buffers.at(noted_);
  return {noted.as<std::int64_t>(), noted.as<std::int64_t>() + noted.size()};
}

std::vector<Side> sides_across(const Sides& sides, const Problem& problem, const Direction& direction) {
  const Line line(problem, direction);
  std::vector<std::vector<std::int64_t>> taken;
  for (const double step : {0.0, kWidestStep, -kWidestStep})
    taken.push_back(sides.taken(line.inputs_at(step), problem.sizes));
  std::vector<Side> places;
  for (std::size_t k = 0; k < sides.places().size(); ++k)
    if (taken[0][k] != taken[1][k] || taken[0][k] != taken[2][k]) places.push_back(sides.places()[k]);
  return places;
}

std::string text_of(const std::vector<Side>& sides) {
  std::vector<std::string> places;
  for (const Side& side : sides) {
    std::string place = fmt::format("{} at {}:{}", side.what, side.where.file, side.where.line);
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(std::move(place));
  }
  return fmt::format("{}", fmt::join(places, ", "));
}

}  // namespace loopgrad::cli
