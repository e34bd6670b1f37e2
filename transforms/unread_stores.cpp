#include "transforms/unread_stores.h"

#include "dsl/poly/dataflow.h"
#include "transforms/isl_context.h"
#include "transforms/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

std::set<ir::Array> read_arrays(const Stmt& body) {
  std::set<ir::Array> result;
  ir::walk(
      body,
      [&](const Stmt& s) {
        if (auto* sum = s.as<ir::Reduce>()) result.insert(sum->array);
      },
      [&](const ir::Expr& e) {
        if (auto* load = e.as<ir::Load>()) result.insert(load->array);
      });
  return result;
}

bool is_local_assignment(const Stmt& s) {
  auto* assign = s.as<ir::Assign>();
  return assign && assign->array->role == ir::ArrayRole::Local;
}

bool is_constant(const ir::Expr& e) { return e.as<ir::FloatConst>() || e.as<ir::IntConst>(); }

// Without the leaves for which `drop` holds.
template <class Drop>
Stmt without(const Stmt& body, const Drop& drop) {
  StmtSet keep = leaves_of_contractions(body);
  bool all = true;
  for (const Stmt& leaf : leaves(body)) {
    if (!keep.count(leaf.get()) && drop(leaf)) {
      all = false;
    } else {
      keep.insert(leaf.get());
    }
  }
  if (all) return body;
  Stmt rest = slice(body, keep);
  return rest ? rest : ir::block({});
}

// Assignments to local arrays that no statement reads; what these read may then be unread too.
Stmt drop_unread_arrays(const Stmt& body) {
  Stmt rest = body;
  for (;;) {
    std::set<ir::Array> read = read_arrays(rest);
    Stmt next = without(
        rest, [&](const Stmt& leaf) { return is_local_assignment(leaf) && !read.count(leaf.as<ir::Assign>()->array); });
    if (next.same_as(rest)) return rest;
    rest = next;
  }
}

bool may_be_read_later(const poly::Model& model, int writer) {
  const poly::Access& store = model.statements[static_cast<std::size_t>(writer)].accesses.back();
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    for (const poly::Access& access : model.statements[k].accesses) {
      if (access.kind == poly::AccessKind::Write) continue;
      if (access.array != store.array && model.aliases.empty()) continue;
      if (poly::may_follow(model, writer, store, static_cast<int>(k), access)) return true;
    }
  }
  return false;
}

Stmt drop_unread_constants(const ir::Program& program, const Stmt& body, const PassContext& context) {
  auto is_candidate = [](const Stmt& s) { return is_local_assignment(s) && is_constant(s.as<ir::Assign>()->value); };
  std::vector<Stmt> all = leaves(body);
  if (std::none_of(all.begin(), all.end(), is_candidate)) return body;
  poly::Model model = poly::build_model(program, body, isl_context(context));
  StmtSet unread;
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    const Stmt& s = model.statements[k].stmt;
    if (!is_candidate(s)) continue;
    if (!poly::ask(model, true, [&] { return may_be_read_later(model, static_cast<int>(k)); })) unread.insert(s.get());
  }
  return without(body, [&](const Stmt& leaf) { return unread.count(leaf.get()) > 0; });
}

}  // namespace

ir::Program drop_unread_stores(const ir::Program& program, PassContext& context) {
  Stmt body = drop_unread_arrays(program.body);
  try {
    body = drop_unread_constants(program, body, context);
  } catch (const poly::BudgetError&) {
    // They stay.
  }
  return ir::with_body(program, drop_unread_arrays(body));
}

}  // namespace loopgrad::transforms
