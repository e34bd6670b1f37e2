#include "transforms/map/cpu/hoist_indices.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

bool has_select(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& part) { found = found || part.kind() == ir::Kind::Select; });
  return found;
}

/// A part of indices that is the same in all iterations of a loop.
struct Row {
  Expr value;
  Array of;  // the array whose element it is, or that it is an index of
};

/// The loads in indices that every iteration of a loop without loops inside makes, each of one and the same element;
/// and what the indices choose without asking the loop.
class Indices {
 public:
  Indices(const ir::For& loop, const std::set<Array>& aliased) : loop_(loop), aliased_(aliased) {
    ir::walk_stmts(loop.body, [&](const Stmt& s) {
      for_each_store(s, [&](const Array& array, const std::vector<Expr>&) { changed_.insert(array); });
      if (const auto* a = s.as<ir::Allocate>()) changed_.insert(a->array);
    });
    statement(loop.body);
  }
  const std::vector<Row>& found() const { return found_; }

 private:
  void statement(const Stmt& s) {
    if (const auto* b = s.as<ir::Block>())
      for (const Stmt& child : b->body) statement(child);
    if (const auto* a = s.as<ir::Allocate>()) statement(a->body);
    if (const auto* branch = s.as<ir::If>()) expression(branch->condition);
    if (const auto* a = s.as<ir::Assign>()) access(a->array, a->indices, a->value);
    if (const auto* r = s.as<ir::Reduce>()) access(r->array, r->indices, r->value);
  }
  void access(const Array& array, const std::vector<Expr>& indices, const Expr& value) {
    for (const Expr& index : indices) in_index(index, array);
    expression(value);
  }
  /// What is surely evaluated.
  void expression(const Expr& e) {
    if (const auto* load = e.as<ir::Load>())
      for (const Expr& index : load->indices) in_index(index, load->array);
    if (const auto* u = e.as<ir::Unary>()) expression(u->a);
    if (const auto* c = e.as<ir::Cast>()) expression(c->a);
    if (const auto* s = e.as<ir::Select>()) expression(s->condition);
    if (const auto* b = e.as<ir::Binary>()) {
      expression(b->a);
      if (b->op != BinaryOp::And && b->op != BinaryOp::Or) expression(b->b);
    }
  }
  void in_index(const Expr& e, const Array& array) {
    if (is_choice(e)) return add({e, array});
    if (e.kind() != ir::Kind::Load) {
      if (e.kind() == ir::Kind::Select) return;
      ir::for_each_child(e, ir::overloaded{[&](const Expr& child) { in_index(child, array); }, [](const Stmt&) {}});
    } else if (!is_constant(e)) {
      expression(e);
    } else {
      add({e, e.as<ir::Load>()->array});
    }
  }
  void add(const Row& row) {
    const auto is_same = [&](const Row& other) { return ir::equal(row.value, other.value); };
    if (std::none_of(found_.begin(), found_.end(), is_same)) found_.push_back(row);
  }
  bool is_choice(const Expr& e) const {
    return is_integer(e.type()) && !ir::has_load(e) && !mentions(e, loop_.iterator) && has_select(e);
  }
  bool is_constant(const Expr& e) const {
    bool constant = !mentions(e, loop_.iterator) && !is_scalar(e);
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      constant &= !load || (!changed_.count(load->array) && !aliased_.count(load->array));
    });
    return constant;
  }
  static bool is_scalar(const Expr& e) {
    const Array& array = e.as<ir::Load>()->array;
    return array->role == ir::ArrayRole::Local && array->shape.empty();
  }

  const ir::For& loop_;
  const std::set<Array>& aliased_;
  std::set<Array> changed_;
  std::vector<Row> found_;
};

class Hoister final : public ir::Rewriter {
 public:
  explicit Hoister(const ir::Program& program) : aliased_(ir::aliased_arrays(program)) {}
  using ir::Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    if (!loop) return rewrite_children(s);
    if (depth_ > 0 && !contains_loop(loop->body)) return hoisted(s, *loop);
    ++depth_;
    Stmt result = rewrite_children(s);
    --depth_;
    return result;
  }

 private:
  Stmt hoisted(const Stmt& s, const ir::For& loop) const {
    const std::vector<Row> indices = Indices(loop, aliased_).found();
    const Expr runs = ir::binary(BinaryOp::Lt, loop.lower, loop.upper);
    // Bounds keep reading the array: a row without entries has zeros here, which are no bounds.
    Stmt body = loop.body;
    std::vector<std::pair<Array, Expr>> rows;
    for (const auto& [index, of] : indices) {
      const bool reads = index.kind() == ir::Kind::Load;
      const SourceLocation location = reads ? index.as<ir::Load>()->location : s->location;
      const Array row = ir::make_array(of->name + "_row", index.type(), {}, ir::ArrayRole::Local, location);
      body = ir::rewrite(body, [&](const Expr& e) -> std::optional<Expr> {
        return ir::equal(e, index) ? std::optional(ir::load(row, {})) : std::nullopt;
      });
      rows.emplace_back(
          row, reads || !divisors_in(index).empty() ? ir::select(runs, index, ir::const_of(0, index.type())) : index);
    }
    if (rows.empty()) return s;
    Stmt result = ir::for_loop(loop.iterator, loop.lower, loop.upper, body, loop.mode, loop.location, loop.at_most);
    for (const auto& [row, read] : rows)
      result = ir::allocate(row, ir::block({ir::assign(row, {}, read, row->location), result}), row->location);
    return result;
  }

  std::set<Array> aliased_;
  int depth_ = 0;
};

}  // namespace

ir::Program hoist_indices(const ir::Program& program) {
  return program.body ? ir::with_body(program, Hoister(program).rewrite(program.body)) : program;
}

}  // namespace loopgrad::transforms
