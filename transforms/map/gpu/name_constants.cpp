#include "transforms/map/gpu/name_constants.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

#include <algorithm>
#include <set>
#include <vector>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

bool is_worth_a_name(const Expr& e) {
  if (e.type() != ScalarType::I64 || has_load(e)) return false;
  bool costly = false, uses_variables = false, integral = true, small = true;
  ir::walk(e, [&](const Expr& part) {
    integral &= !is_float(part.type());  // the host computes with integers only
    const auto* n = part.as<ir::Binary>();
    // What is divided by a constant is multiplied.
    const bool divides = n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::Mod) && !ir::as_int(n->b);
    const bool chooses = part.kind() == ir::Kind::Select || (n && (n->op == BinaryOp::Min || n->op == BinaryOp::Max));
    costly |= divides || chooses;
    uses_variables |= part.kind() == ir::Kind::Var;
    const auto number = ir::as_int(part);
    small &= !number || *number == static_cast<std::int32_t>(*number);
  });
  return integral && costly && uses_variables && small;
}

bool is_positive(const Expr& e) {
  const auto* n = e.as<ir::Binary>();
  return ir::as_int(e).value_or(0) > 0 || (n && n->op == BinaryOp::Max && (is_positive(n->a) || is_positive(n->b)));
}

/// The same where no divisor is zero, and some value elsewhere: the host computes it although no thread may want it.
Expr total(const Expr& e) {
  return ir::rewrite(e, [](const Expr& part) -> std::optional<Expr> {
    const auto* n = part.as<ir::Binary>();
    if (!n || (n->op != BinaryOp::FloorDiv && n->op != BinaryOp::Mod) || is_positive(n->b)) return std::nullopt;
    const Expr divisor = total(n->b), zero = ir::int_const(0);
    return ir::select(ir::binary(BinaryOp::Eq, divisor, zero), zero, ir::binary(n->op, total(n->a), divisor));
  });
}

/// The constants of one kernel.
class Namer {
 public:
  explicit Namer(const Stmt& kernel) {
    ir::walk_stmts(kernel, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::For>()) inside_.insert(loop->iterator);
      if (const auto* loop = s.as<ir::While>()) inside_.insert(loop->iterator);
    });
  }

  Stmt name(const Stmt& kernel) {
    Stmt result = with_names(kernel);
    for (const Constant& c : constants_) {
      const Expr value = total(c.value);
      result = ir::for_loop(c.symbol, value, value + ir::int_const(1), std::move(result));
    }
    return result;
  }

 private:
  struct Constant {
    Expr value;
    ir::Symbol symbol;
  };

  Stmt with_names(const Stmt& s) {
    return ir::rewrite(
        s, [&](const Expr& e) { return named(e); },
        [&](const Stmt& child) -> std::optional<Stmt> {
          const auto* loop = child.as<ir::For>();
          if (!loop || !ir::has_one_trip(*loop)) return std::nullopt;
          const auto known = named(loop->lower);
          if (!known) return std::nullopt;
          // Still one trip: a name for the constant.
          return ir::with_mapping(child, [&](ir::For& copy) {
            copy.lower = *known;
            copy.upper = *known + ir::int_const(1);
            copy.body = with_names(loop->body);
          });
        });
  }

  std::optional<Expr> named(const Expr& e) {
    if (!is_worth_a_name(e) || !is_from_outside(e)) return std::nullopt;
    auto known =
        std::find_if(constants_.begin(), constants_.end(), [&](const Constant& c) { return ir::equal(c.value, e); });
    if (known == constants_.end()) known = constants_.insert(known, {e, ir::make_symbol("known")});
    return ir::var(known->symbol);
  }

  bool is_from_outside(const Expr& e) const {
    bool outside = true;
    ir::walk(e, [&](const Expr& part) {
      const auto* v = part.as<ir::Var>();
      outside &= !v || inside_.count(v->symbol) == 0;
    });
    return outside;
  }

  std::set<ir::Symbol> inside_;  // iterators of the kernel's loops
  std::vector<Constant> constants_;
};

}  // namespace

Stmt name_constants(const Stmt& mapped) {
  return ir::rewrite(mapped, {}, [](const Stmt& s) -> std::optional<Stmt> {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode != ir::LoopMode::Grid) return std::nullopt;
    return Namer(s).name(s);
  });
}

}  // namespace loopgrad::transforms
