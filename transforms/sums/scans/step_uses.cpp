#include "transforms/sums/scans/step_uses.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

bool decides(const Stmt& s, const Array& array) {
  std::set<Array> inexact = {array};
  const auto is_inexact = [&](const Expr& e) {
    bool found = false;
    ir::walk(e, [&](const Expr& child) {
      const auto* load = child.as<ir::Load>();
      found |= load && inexact.count(load->array);
    });
    return found;
  };
  std::set<Array> own;
  for (const LocalArray& local : locals_of(s)) own.insert(local.array);
  for (bool more = true; more;) {
    more = false;
    ir::walk_stmts(s, [&](const Stmt& child) {
      const auto* assign = child.as<ir::Assign>();
      const auto* reduce = child.as<ir::Reduce>();
      if (!assign && !reduce) return;
      const Array& to = assign ? assign->array : reduce->array;
      if (own.count(to) && is_inexact(assign ? assign->value : reduce->value)) more |= inexact.insert(to).second;
    });
  }
  bool found = false;
  ir::walk(
      s,
      [&](const Stmt& child) {
        const auto* reduce = child.as<ir::Reduce>();
        const bool extremum = reduce && (reduce->op == ir::ReduceOp::Min || reduce->op == ir::ReduceOp::Max);
        found |= extremum && is_inexact(reduce->value);
      },
      [&](const Expr& e) {
        if (const auto* n = e.as<ir::Binary>())
          found |= (is_comparison(n->op) || n->op == BinaryOp::Min || n->op == BinaryOp::Max) && is_inexact(e);
        if (const auto* n = e.as<ir::Unary>())
          found |= (n->op == ir::UnaryOp::Floor || n->op == ir::UnaryOp::Ceil) && is_inexact(e);
        if (e.kind() == ir::Kind::Cast) found |= !is_float(e.type()) && is_inexact(e);
      });
  return found;
}

int elements_read(const ir::For& loop, const Update& update) {
  std::vector<Expr> found;
  for (const Expr& part : {update.factor, update.term}) {
    if (!part) continue;
    ir::walk(part, [&](const Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (!load || !mentions(e, loop.iterator)) return;
      if (std::none_of(found.begin(), found.end(), [&](const Expr& other) { return ir::equal(e, other); }))
        found.push_back(e);
    });
  }
  return static_cast<int>(found.size());
}

bool only_resets(const Update& update) {
  const auto* n = update.factor ? update.factor.as<ir::Select>() : nullptr;
  const auto is_plain = [](const Expr& e) { return is_const(e, 0) || is_const(e, 1); };
  return n && !update.term && is_plain(n->a) && is_plain(n->b);
}

}  // namespace loopgrad::transforms
