#include "tape/activity.h"

#include "dsl/ir/visit.h"

namespace loopgrad::tape {
namespace {

struct Flow {
  ir::Array target;
  std::set<ir::Array> sources;
};

std::vector<Flow> flows_of(const ir::Stmt& body) {
  std::vector<Flow> flows;
  auto add = [&](const ir::Array& target, const ir::Expr& value) {
    if (!is_float(target->type)) return;
    Flow flow{target, {}};
    differentiable_reads(value, flow.sources);
    flows.push_back(std::move(flow));
  };
  ir::walk_stmts(body, [&](const ir::Stmt& s) {
    if (const auto* a = s.as<ir::Assign>()) add(a->array, a->value);
    if (const auto* r = s.as<ir::Reduce>()) add(r->array, r->value);
    const auto* region = s.as<ir::CustomGradient>();
    if (!region) return;
    for (const ir::Array& output : region->outputs)
      flows.push_back({output, {region->inputs.begin(), region->inputs.end()}});
  });
  return flows;
}

}  // namespace

void differentiable_reads(const ir::Expr& value, std::set<ir::Array>& reads) {
  ir::visit(value, ir::overloaded{
                       [&](const ir::Load& n) {
                         if (is_float(n.array->type)) reads.insert(n.array);
                       },
                       [&](const ir::Unary& n) {
                         const bool constant =
                             n.op == ir::UnaryOp::Floor || n.op == ir::UnaryOp::Ceil || n.op == ir::UnaryOp::Stop;
                         if (!constant) differentiable_reads(n.a, reads);
                       },
                       [&](const ir::Binary& n) {
                         if (!is_float(n.type) || n.op == ir::BinaryOp::FloorDiv) return;
                         differentiable_reads(n.a, reads);
                         differentiable_reads(n.b, reads);
                       },
                       [&](const ir::Fma& n) {
                         for (const ir::Expr* operand : {&n.a, &n.b, &n.c}) differentiable_reads(*operand, reads);
                       },
                       [&](const ir::Select& n) {
                         differentiable_reads(n.a, reads);
                         differentiable_reads(n.b, reads);
                       },
                       [&](const ir::Cast& n) {
                         if (is_float(n.type) && is_float(n.a.type())) differentiable_reads(n.a, reads);
                       },
                       // By name, so that a new node cannot be forgotten.
                       [](const ir::IntConst&) {},
                       [](const ir::FloatConst&) {},
                       [](const ir::Var&) {},
                   });
}

Activity analyze_activity(const ir::Program& program, const std::vector<ir::Array>& wrt,
                          const std::vector<ir::Array>& of) {
  Activity result;
  result.varied.insert(wrt.begin(), wrt.end());
  result.useful.insert(of.begin(), of.end());
  const std::vector<Flow> flows = flows_of(program.body);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Flow& flow : flows) {
      for (const ir::Array& source : flow.sources) {
        if (result.varied.count(source)) changed |= result.varied.insert(flow.target).second;
        if (result.useful.count(flow.target)) changed |= result.useful.insert(source).second;
      }
    }
  }
  return result;
}

}  // namespace loopgrad::tape
