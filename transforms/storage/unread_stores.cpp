#include "transforms/storage/unread_stores.h"

#include "dsl/poly/coalesced.h"
#include "dsl/poly/dataflow.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

// isl operations for one question: a plain answer takes a few thousand.
constexpr unsigned long budget_per_question = 200'000;

// Conditions with more alternatives than this cost more than the stores.
constexpr int most_pieces = 2;

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

const poly::Access& stored(const poly::Statement& s) { return s.accesses.back(); }

bool is_local_store(const Stmt& s) {
  auto* sum = s.as<ir::Reduce>();
  return is_local_assignment(s) || (sum && sum->array->role == ir::ArrayRole::Local);
}

// Otherwise whoever comes later finds what is stored. Scalars are hardly ever cleared in vain: not worth the question.
bool is_assigned_elsewhere(const poly::Model& model, int writer) {
  const ir::Array& array = stored(model.statements[static_cast<std::size_t>(writer)]).array;
  if (array->shape.empty()) return false;
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    auto* assign = model.statements[k].stmt.as<ir::Assign>();
    if (assign && assign->array == array && static_cast<int>(k) != writer) return true;
  }
  return false;
}

// A model, and what is known of it.
struct Known {
  Analyses& analyses;
  Analyses::Model model;
};

// Whether some instance of the access may find what the writer has stored.
bool may_see(const Known& known, int writer, int reader, const poly::Access& access) {
  const poly::Model& model = *known.model;
  const poly::Access& store = stored(model.statements[static_cast<std::size_t>(writer)]);
  if (access.array != store.array && model.aliases.empty()) return false;
  if (!poly::may_follow(model, writer, store, reader, access)) return false;
  if (!is_assigned_elsewhere(model, writer)) return true;
  const poly::Dataflow& flow = known.analyses.last_writes(known.model, reader, access, budget_per_question);
  return !flow.exact || std::any_of(flow.sources.begin(), flow.sources.end(), [&](const poly::Source& source) {
    return source.writer == writer && !source.domain.is_empty();
  });
}

bool is_seen(const Known& known, int writer) {
  const poly::Model& model = *known.model;
  // Sums first: what is cleared is most often cleared for them.
  for (const auto kind : {poly::AccessKind::Reduce, poly::AccessKind::Read}) {
    for (std::size_t k = 0; k < model.statements.size(); ++k) {
      for (const poly::Access& access : model.statements[k].accesses) {
        if (access.kind == kind && may_see(known, writer, static_cast<int>(k), access)) return true;
      }
    }
  }
  return false;
}

// Elements of an array that are read, other than to add to them.
class ReadElements {
 public:
  explicit ReadElements(const poly::Model& model) : model_(model) {}

  const isl::set& of(const poly::Access& like) {
    auto found = known_.find(like.array);
    if (found == known_.end()) found = known_.emplace(like.array, collect(like)).first;
    return found->second;
  }

 private:
  isl::set collect(const poly::Access& like) const {
    isl::set result = like.relation.range().subtract(like.relation.range());
    for (const poly::Statement& s : model_.statements) {
      for (const poly::Access& access : s.accesses) {
        if (access.array != like.array || access.kind != poly::AccessKind::Read) continue;
        result = result.unite(access.relation.intersect_domain(s.domain).range());
      }
    }
    return poly::coalesced(result);
  }

  const poly::Model& model_;
  std::map<ir::Array, isl::set> known_;
};

struct Narrowed {
  bool possible = true;
  Stmt instead;  // the store for those instances only whose element is read; null when these are all
};

// The instances that stay inside of the array, as those of a right program do.
isl::set inside(const poly::Model& model, const poly::Statement& s) {
  const isl::set domain = s.domain.intersect_params(model.assumptions);
  const poly::Access& store = stored(s);
  ir::Expr all = ir::bool_const(true);
  for (std::size_t d = 0; d < store.indices.size(); ++d) {
    const ir::Expr low = ir::binary(ir::BinaryOp::Ge, store.indices[d], ir::int_const(0));
    const ir::Expr high = ir::binary(ir::BinaryOp::Lt, store.indices[d], store.array->shape[d]);
    all = ir::binary(ir::BinaryOp::And, all, ir::binary(ir::BinaryOp::And, low, high));
  }
  const auto box = poly::to_set(all, {model.context, s.iterators, s.name});
  return box ? domain.intersect(*box) : domain;
}

// What is computed for a scalar, which is in a register, is not worth a condition that holds for nearly all iterations
// or for all of them: it keeps loops from lanes. One part of a domain may be a half of it, and bounds of its loops.
bool is_one_part(const isl::set& seen, const isl::set& domain) {
  const isl::set condition = seen.gist(domain);
  const auto loops = static_cast<unsigned>(isl_set_dim(condition.get(), isl_dim_set));
  return isl_set_n_basic_set(condition.get()) == 1 &&
         isl_set_involves_dims(condition.get(), isl_dim_set, 0, loops) == isl_bool_true;
}

Narrowed narrowed(const poly::Model& model, const poly::Statement& s, ReadElements& read) {
  const isl::set domain = inside(model, s);
  const isl::set seen =
      poly::coalesced(domain.intersect(stored(s).relation.intersect_range(read.of(stored(s))).domain()));
  if (seen.is_empty()) return {true, ir::block({})};
  if (domain.is_subset(seen)) return {};
  if (stored(s).array->shape.empty() && !is_one_part(seen, domain)) return {false, {}};
  if (isl_set_n_basic_set(seen.get()) > most_pieces) return {false, {}};
  std::vector<ir::Expr> dims;
  for (const ir::Symbol& iterator : s.iterators) dims.push_back(ir::var(iterator));
  return {true, ir::if_then(poly::to_condition(seen, dims, *model.context, domain), s.stmt, {}, s.stmt->location)};
}

bool stores_constant(const Stmt& s) { return is_local_assignment(s) && is_constant(s.as<ir::Assign>()->value); }

Stmt drop_unread_constants(const Known& known, const Stmt& body) {
  const poly::Model& model = *known.model;
  StmtSet unread;
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    const Stmt& s = model.statements[k].stmt;
    if (!stores_constant(s)) continue;
    model.context->restart_budget(budget_per_question);
    if (!poly::ask(model, true, [&] { return is_seen(known, static_cast<int>(k)); })) unread.insert(s.get());
  }
  return without(body, [&](const Stmt& leaf) { return unread.count(leaf.get()) > 0; });
}

enum class Stores { Sums, All };

// Assignments to an array are left alone unless all sums into it are narrowed: one of the others might find nothing to
// add to.
Stmt drop_unread_elements(const poly::Model& model, const Stmt& body, Stores which) {
  if (!model.aliases.empty()) return body;
  ReadElements read(model);
  const StmtSet fixed = leaves_of_contractions(body);
  std::map<ir::Array, std::map<const ir::StmtNode*, Stmt>> instead;
  std::set<ir::Array> left_alone;
  for (const poly::Statement& s : model.statements) {
    if (!is_local_store(s.stmt) || (which == Stores::Sums && !s.stmt.as<ir::Reduce>())) continue;
    Narrowed now{false, {}};
    if (stored(s).exact && !fixed.count(s.stmt.get())) {
      model.context->restart_budget(budget_per_question);
      now = poly::ask(model, now, [&] { return narrowed(model, s, read); });
    }
    if (now.instead) instead[stored(s).array][s.stmt.get()] = now.instead;
    if (!now.possible && s.stmt.as<ir::Reduce>()) left_alone.insert(stored(s).array);
  }
  if (which == Stores::All)
    std::erase_if(instead, [&](const auto& entry) { return left_alone.count(entry.first) > 0; });
  if (instead.empty()) return body;
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    for (const auto& [array, stores] : instead) {
      if (auto found = stores.find(s.get()); found != stores.end()) return found->second;
    }
    return std::nullopt;
  });
}

// The whole body with what `improve` makes of it, given a model of it.
template <class Improve>
ir::Program improved(const ir::Program& program, PassContext& context, const Improve& improve) {
  Stmt body = drop_unread_arrays(program.body);
  const auto all = leaves(body);
  if (std::none_of(all.begin(), all.end(), is_local_store)) return ir::with_body(program, body);
  try {
    const Known known = {analyses(context), analyses(context).model_of(ir::with_body(program, body), body)};
    body = improve(known, body);
  } catch (const poly::BudgetError&) {
    // They stay.
  }
  return ir::with_body(program, drop_unread_arrays(body));
}

}  // namespace

ir::Program drop_unread_sums(const ir::Program& program, PassContext& context) {
  return improved(program, context, [](const Known& known, const Stmt& body) {
    // A constant reads nothing, so that the model still tells what is read when some are gone.
    return drop_unread_elements(*known.model, drop_unread_constants(known, body), Stores::Sums);
  });
}

ir::Program drop_unread_elements(const ir::Program& program, PassContext& context) {
  return improved(program, context, [](const Known& known, const Stmt& body) {
    return drop_unread_elements(*known.model, body, Stores::All);
  });
}

ir::Program drop_unread_stores(const ir::Program& program, PassContext& context) {
  return improved(program, context, drop_unread_constants);
}

}  // namespace loopgrad::transforms
