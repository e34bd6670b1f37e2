#include "dsl/poly/flat_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/flat_index.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;
using ir::Stride;

namespace {

bool is_variable(const Expr& e, const ir::Symbol& symbol) {
  const auto* v = e.as<ir::Var>();
  return v && v->symbol == symbol;
}

const ir::Binary* as_quotient_or_rest(const Expr& e) {
  const auto* node = e.as<ir::Binary>();
  return node && (node->op == BinaryOp::FloorDiv || node->op == BinaryOp::Mod) ? node : nullptr;
}

/// The iterator of a loop as `row`*`columns` + `column`, in what the loop repeats.
class Splitter final : public ir::Rewriter {
 public:
  Splitter(ir::FlatIndices& flat, const ir::Symbol& whole, const ir::Symbol& row, const ir::Symbol& column,
           const Stride& columns)
      : flat_(flat),
        whole_(whole),
        row_(ir::var(row)),
        column_(ir::var(column)),
        columns_(columns),
        width_(flat.product(columns)) {}

  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override {
    if (is_variable(e, whole_)) return position(row_);
    const auto* node = as_quotient_or_rest(e);
    if (!node) return rewrite_children(e);
    if (is_variable(node->a, whole_)) {
      const auto by = ir::quotient(flat_.factors(node->b), columns_);
      if (by && node->op == BinaryOp::FloorDiv) return by->empty() ? row_ : quotient(row_, *by);
      if (by) return by->empty() ? column_ : position(ir::binary(BinaryOp::Mod, row_, flat_.product(*by)));
      return rewrite_children(e);
    }
    return of_position(rewrite_children(e));
  }

 private:
  Expr position(const Expr& row) const { return row * width_ + column_; }
  Expr quotient(const Expr& e, const Stride& by) const { return ir::binary(BinaryOp::FloorDiv, e, flat_.product(by)); }
  /// (a*columns + column)//columns and its rest.
  Expr of_position(const Expr& e) const {
    const auto* node = as_quotient_or_rest(e);
    const auto* sum = node ? node->a.as<ir::Binary>() : nullptr;
    if (!sum || sum->op != BinaryOp::Add || !ir::equal(sum->b, column_)) return e;
    const auto* product = sum->a.as<ir::Binary>();
    if (!product || product->op != BinaryOp::Mul || !ir::equal(product->b, width_)) return e;
    const auto by = ir::quotient(flat_.factors(node->b), columns_);
    if (!by || !by->empty()) return e;
    return node->op == BinaryOp::FloorDiv ? product->a : column_;
  }

  ir::FlatIndices& flat_;
  const ir::Symbol whole_;
  const Expr row_, column_;
  const Stride columns_;
  const Expr width_;
};

class Nester final : public ir::Rewriter {
 public:
  explicit Nester(const ir::Program& program)
      : sizes_(program.sizes.begin(), program.sizes.end()), flat_(program.sizes, true) {}

  std::set<ir::Symbol> rows;

  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    const auto columns = loop ? columns_of(*loop) : std::nullopt;
    if (!columns) return rewrite_children(s);
    const Expr height = flat_.product(*ir::quotient(flat_.factors(loop->upper), *columns));
    const ir::Symbol row = ir::make_symbol(loop->iterator.name), column = ir::make_symbol(loop->iterator.name + "_1");
    rows.insert(row);
    const Stmt body = Splitter(flat_, loop->iterator, row, column, *columns).rewrite(loop->body);
    const Stmt inner = ir::for_loop(column, ir::int_const(0), flat_.product(*columns), body, loop->mode, s->location);
    return rewrite(ir::for_loop(row, ir::int_const(0), height, inner, loop->mode, s->location));
  }

 private:
  /// Sizes are never negative, so a product of them with numbers is none only where there are no iterations at all.
  bool is_product_of_sizes(const Expr& e) const {
    if (const auto* v = e.as<ir::Var>()) return sizes_.count(v->symbol) > 0;
    if (const auto number = ir::as_int(e)) return *number > 0;
    const auto* node = e.as<ir::Binary>();
    return node && node->op == BinaryOp::Mul && is_product_of_sizes(node->a) && is_product_of_sizes(node->b);
  }

  /// What the iterator is divided by, where it divides the trips: of several the product of the fewest factors.
  std::optional<Stride> columns_of(const ir::For& loop) {
    if (ir::as_int(loop.lower) != 0 || loop.at_most || !is_product_of_sizes(loop.upper)) return std::nullopt;
    const Stride trips = flat_.factors(loop.upper);
    std::optional<Stride> result;
    ir::walk(
        loop.body, [](const Stmt&) {},
        [&](const Expr& e) {
          const auto* node = as_quotient_or_rest(e);
          if (!node || !is_variable(node->a, loop.iterator) || ir::as_int(node->b) || !is_product_of_sizes(node->b))
            return;
          const Stride by = flat_.factors(node->b);
          const auto left = ir::quotient(trips, by);
          if (left && !left->empty() && (!result || by.size() < result->size())) result = by;
        });
    return result;
  }

  const std::set<ir::Symbol> sizes_;
  ir::FlatIndices flat_;
};

/// Looks for products in what is an integer.
class Products final : public ir::Rewriter {
 public:
  explicit Products(const std::set<ir::Symbol>& iterators) : iterators_(iterators) {}
  bool found = false;

  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override {
    if (e.as<ir::Cast>() && is_float(e.type())) return e;
    if (const auto* node = e.as<ir::Binary>(); node && node->op == BinaryOp::Mul && !is_float(e.type()))
      found = found || (has_one(node->a) && !ir::as_int(node->b)) || (has_one(node->b) && !ir::as_int(node->a));
    return rewrite_children(e);
  }

 private:
  bool has_one(const Expr& e) const {
    return std::any_of(iterators_.begin(), iterators_.end(), [&](const ir::Symbol& i) { return mentions(e, i); });
  }

  const std::set<ir::Symbol>& iterators_;
};

}  // namespace

NestedLoops with_flat_loops_nested(const ir::Program& program) {
  Nester nester(program);
  const Stmt body = nester.rewrite(program.body);
  return {ir::with_body(program, body), std::move(nester.rows)};
}

bool has_products_of(const ir::Program& program, const std::set<ir::Symbol>& iterators) {
  Products products(iterators);
  (void)products.rewrite(program.body);
  return products.found;
}

}  // namespace loopgrad::poly
