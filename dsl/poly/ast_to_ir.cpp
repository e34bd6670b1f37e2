// From isl's AST to the IR: see schedule.h.
#include "dsl/ir/rewriter.h"
#include "dsl/poly/schedule.h"

#include <utility>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

class Converter {
 public:
  Converter(const UserCode& user, const std::vector<std::string>& wishes, const Context& context)
      : user_(user), wishes_(wishes), context_(context) {}

  Stmt convert(const isl::ast_node& node) {
    switch (isl_ast_node_get_type(node.get())) {
      case isl_ast_node_for: return loop(node.as<isl::ast_node_for>());
      case isl_ast_node_if: return branch(node.as<isl::ast_node_if>());
      case isl_ast_node_block: return sequence(node.as<isl::ast_node_block>().children());
      case isl_ast_node_mark: return convert(node.as<isl::ast_node_mark>().node());
      case isl_ast_node_user: return call(node.as<isl::ast_node_user>().expr());
      default: throw InternalError("isl built an AST node of unknown kind");
    }
  }

 private:
  Expr expr(const isl::ast_expr& e) const { return to_expr(e, names_, context_); }

  Stmt sequence(const isl::ast_node_list& list) {
    std::vector<Stmt> body;
    for (int k = 0; k < static_cast<int>(list.size()); ++k) body.push_back(convert(list.at(k)));
    return ir::block(std::move(body));
  }

  Stmt branch(const isl::ast_node_if& node) {
    Expr condition = expr(node.cond());
    if (condition.type() != ScalarType::Bool) condition = ir::binary(BinaryOp::Ne, condition, ir::int_const(0));
    Stmt then_body = convert(node.then_node());
    return ir::if_then(condition, then_body, node.has_else_node() ? convert(node.else_node()) : Stmt());
  }

  Stmt loop(const isl::ast_node_for& node) {
    std::string name = node.iterator().as<isl::ast_expr_id>().id().name();
    Expr first = expr(node.init());
    if (node.is_degenerate()) {  // one value
      names_[name] = first;
      return convert(node.body());
    }
    // for (c = first; c <= last; c += step)
    auto condition = node.cond().as<isl::ast_expr_op>();
    Expr upper = expr(condition.arg(1));
    auto type = isl_ast_expr_get_op_type(condition.get());
    if (type == isl_ast_expr_op_le) upper = upper + ir::int_const(1);
    else if (type != isl_ast_expr_op_lt) throw InternalError("isl built a loop with an unknown condition");
    std::int64_t step = node.inc().as<isl::ast_expr_int>().val().num_si();
    ir::Symbol iterator = ir::make_symbol(wish(name));
    if (step == 1) {
      names_[name] = ir::var(iterator);
      const Expr outer = std::exchange(loop_at(name), ir::var(iterator));
      const Stmt body = convert(node.body());
      loop_at(name) = outer;
      return ir::for_loop(iterator, first, upper, body);
    }
    // Trips are counted instead: c = first + step * trip. Such loops isl may have moved, one statement by more than
    // another.
    names_[name] = first + ir::int_const(step) * ir::var(iterator);
    Expr trips = ir::binary(BinaryOp::FloorDiv, upper - first + ir::int_const(step - 1), ir::int_const(step));
    return ir::for_loop(iterator, ir::int_const(0), trips, convert(node.body()));
  }

  // isl's name is "c" and the number of the schedule dimension.
  static std::size_t dimension(const std::string& name) { return std::stoul(name.substr(1)); }

  Expr& loop_at(const std::string& name) {
    if (loops_.size() <= dimension(name)) loops_.resize(dimension(name) + 1);
    return loops_[dimension(name)];
  }

  std::string wish(const std::string& name) const {
    const std::size_t dim = dimension(name);
    return dim < wishes_.size() && !wishes_[dim].empty() ? wishes_[dim] : name;
  }

  Stmt call(const isl::ast_expr& e) const {
    auto op = e.as<isl::ast_expr_op>();
    std::string statement = op.arg(0).as<isl::ast_expr_id>().id().name();
    std::vector<Expr> arguments;
    int n = static_cast<int>(isl_ast_expr_get_op_n_arg(op.get()));
    for (int k = 1; k < n; ++k) arguments.push_back(expr(op.arg(k)));
    return user_(statement, arguments, loops_);
  }

  const UserCode& user_;
  const std::vector<std::string>& wishes_;
  const Context& context_;
  Names names_;
  std::vector<Expr> loops_;
};

}  // namespace

Stmt to_stmt(const isl::ast_node& node, const UserCode& user, const std::vector<std::string>& names,
             const Context& context) {
  return guarded(context, [&] { return Converter(user, names, context).convert(node); });
}

}  // namespace loopgrad::poly
