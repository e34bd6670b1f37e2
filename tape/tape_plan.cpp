#include "tape/tape_plan.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

constexpr int longest_recomputation = 24;  // operations; a load costs about as much as a few of them
constexpr int longest_copy = 3;            // what replaces a writer's tape: little more than a load
constexpr int operation_cost_of_function = 6;

/// Stores to f16 and bf16 round.
bool stores_as_computed(const Array& array) { return value_type(array->type) == array->type; }

int cost_of(const Expr& e) {
  return ir::visit(e,
                   ir::overloaded{
                       [](const ir::Unary& n) { return n.op == ir::UnaryOp::Neg ? 1 : operation_cost_of_function; },
                       [](const ir::Binary& n) { return n.op == ir::BinaryOp::Pow ? operation_cost_of_function : 1; },
                       [](const ir::Load&) { return 1; },
                       [](const auto&) { return 0; },
                   });
}

/// Number of dimensions whose extent is not a constant: the degree by which an array grows with the sizes.
int growing_dimensions(const Array& array) {
  return static_cast<int>(
      std::count_if(array->shape.begin(), array->shape.end(), [](const Expr& e) { return !ir::as_int(e); }));
}

const Array* stored_array(const Stmt& s) {
  if (const auto* a = s.as<ir::Assign>()) return &a->array;
  if (const auto* r = s.as<ir::Reduce>()) return &r->array;
  return nullptr;
}

const std::vector<Expr>& stored_indices(const Stmt& s) {
  if (const auto* a = s.as<ir::Assign>()) return a->indices;
  return s.as<ir::Reduce>()->indices;
}

const ir::Symbol& iterator_of(const Stmt& loop) {
  if (const auto* f = loop.as<ir::For>()) return f->iterator;
  return loop.as<ir::While>()->iterator;
}

bool is_loop(const Stmt& s) { return s.kind() == ir::Kind::For || s.kind() == ir::Kind::While; }

/// Asks isl; beyond its budget the answer is the one that is always right.
template <class Result, class Question>
Result ask(poly::Model& model, const Result& when_over_budget, const Question& question) {
  try {
    model.context->restart_budget();
    return question();
  } catch (const poly::BudgetError&) {
    return when_over_budget;
  }
}

/// The side of each branch around a statement: (branch, true for then).
std::vector<std::pair<Stmt, bool>> branches_around(const Stmt& s, const std::vector<Stmt>& scopes) {
  std::vector<std::pair<Stmt, bool>> result;
  for (std::size_t k = 0; k < scopes.size(); ++k) {
    const auto* branch = scopes[k].as<ir::If>();
    if (!branch) continue;
    const Stmt& inside = k + 1 < scopes.size() ? scopes[k + 1] : s;
    result.emplace_back(scopes[k], branch->then_body.same_as(inside));
  }
  return result;
}

/// Every branch that decides whether `a` runs is also around `b`, on the same side.
bool executes_whenever(const Stmt& a, const std::vector<Stmt>& scopes_a, const Stmt& b,
                       const std::vector<Stmt>& scopes_b) {
  const auto around_a = branches_around(a, scopes_a), around_b = branches_around(b, scopes_b);
  if (around_a.size() > around_b.size()) return false;
  for (std::size_t k = 0; k < around_a.size(); ++k)
    if (!around_a[k].first.same_as(around_b[k].first) || around_a[k].second != around_b[k].second) return false;
  return true;
}

}  // namespace

TapePlan::TapePlan(const Prepared& prepared, Report& report)
    : prepared_(prepared), report_(report), extents_(prepared.program) {
  primal_.insert(prepared.program.arrays.begin(), prepared.program.arrays.end());
  for (const Array& array : prepared.program.arrays) names_.insert(array->name);
  std::vector<Stmt> scopes;
  collect_sites(prepared.program.body, scopes);
  build_model();
}

void TapePlan::collect_sites(const Stmt& s, std::vector<Stmt>& scopes) {
  Site& site = sites_[s.get()];
  site.scopes = scopes;
  site.position = static_cast<int>(sites_.size());
  std::copy_if(scopes.begin(), scopes.end(), std::back_inserter(site.loops), is_loop);
  if (const Array* array = stored_array(s)) {
    written_.insert(*array);
    writers_[*array].push_back(s);
  }
  if (const auto* local = s.as<ir::Allocate>()) {
    primal_.insert(local->array);
    allocations_[local->array] = s;
    names_.insert(local->array->name);
  }
  scopes.push_back(s);
  ir::visit(s, [&](const auto& node) {
    ir::for_each_child(node, ir::overloaded{[&](const Expr& e) {
                                              ir::walk(e, [&](const Expr& inner) {
                                                if (const auto* l = inner.as<ir::Load>()) ++read_count_[l->array];
                                              });
                                            },
                                            [&](const Stmt& child) { collect_sites(child, scopes); }});
  });
  scopes.pop_back();
}

void TapePlan::build_model() {
  try {
    model_ = poly::build_model(prepared_.program, prepared_.program.body, std::make_shared<poly::Context>());
  } catch (const poly::BudgetError&) {
    report_.remarks.push_back(
        {"the polyhedral model exceeds isl's operation budget: every value that is ever overwritten "
         "is saved where it is read",
         prepared_.program.location});
    return;
  }
  for (int i = 0; i < static_cast<int>(model_->statements.size()); ++i) {
    const auto it = sites_.find(model_->statements[i].stmt.get());
    if (it != sites_.end()) it->second.model_index = i;
  }
}

const poly::Access* TapePlan::find_access(const ir::Load& load, const Site& site) const {
  if (!model_ || site.model_index < 0) return nullptr;
  for (const poly::Access& access : model_->statements[site.model_index].accesses) {
    if (access.kind == poly::AccessKind::Read && access.array == load.array && ir::equal(access.indices, load.indices))
      return &access;
  }
  return nullptr;
}

const poly::Access* TapePlan::find_write(const Site& site) const {
  if (!model_ || site.model_index < 0) return nullptr;
  for (const poly::Access& access : model_->statements[site.model_index].accesses)
    if (access.kind != poly::AccessKind::Read) return &access;
  return nullptr;
}

bool TapePlan::is_overwritten(const ir::Load& load, const Site& site) {
  if (!written_.count(load.array)) return false;
  const poly::Access* access = find_access(load, site);
  if (!access) return true;
  return ask(*model_, true, [&] { return poly::may_be_overwritten(*model_, site.model_index, *access); });
}

// What the generator asks for
// -------------------------------------------------------------------------------------------

Expr TapePlan::provide(const Expr& e, const Stmt& site) {
  return ir::rewrite(e, [&](const Expr& node) -> std::optional<Expr> {
    const auto* load = node.as<ir::Load>();
    if (!load || !primal_.count(load->array)) return std::nullopt;
    return supply(node, site);
  });
}

Stmt TapePlan::provide(const Stmt& adjoint, const Stmt& site) {
  return ir::rewrite(adjoint, [&](const Expr& e) -> std::optional<Expr> { return provide(e, site); });
}

Expr TapePlan::provide_condition(const Stmt& site) {
  const Expr& condition = site.as<ir::If>()->condition;
  int budget = longest_recomputation;
  if (auto direct = without_tape(condition, site, budget)) return *direct;
  auto& saved = saved_controls_[site.get()];
  if (!saved) saved = from_reader(condition, "branch", site, "the branch depends on values that are overwritten later");
  return saved;
}

Expr TapePlan::provide_taken(const Stmt& site) {
  auto& saved = saved_controls_[site.get()];
  if (saved) return saved;
  const auto& n = *site.as<ir::Reduce>();
  if (keeps_intermediate_extrema_secret(n)) {
    if (const auto final_value = stored_value(site)) {
      saved = ir::binary(ir::BinaryOp::Eq, provide(n.value, site), *final_value);
      return saved;
    }
  }
  const Expr old_value = ir::load(n.array, n.indices, n.location);
  const Expr taken = n.op == ir::ReduceOp::Min ? ir::binary(ir::BinaryOp::Lt, n.value, old_value)
                                               : ir::binary(ir::BinaryOp::Lt, old_value, n.value);
  saved = from_reader(taken, n.array->name + "_taken", site, "whether this line changed the extremum");
  return saved;
}

/// Every read of the array sees the final value, and nothing but the same operation follows: then `operand == final
/// value` tells which operand was taken.
bool TapePlan::keeps_intermediate_extrema_secret(const ir::Reduce& n) {
  if (!model_) return false;
  for (const Stmt& writer : writers_.at(n.array)) {
    const auto* other = writer.as<ir::Reduce>();
    if (other && other->op == n.op) continue;
    const Site& where = site_of(writer);
    const poly::Access* write = find_write(where);
    // An Assign must not come after one of the Reduces.
    if (other || !write) return false;
    for (const Stmt& earlier : writers_.at(n.array)) {
      if (earlier.kind() != ir::Kind::Reduce) continue;
      const Site& reducing = site_of(earlier);
      const bool resets = ask(*model_, true, [&] {
        return poly::may_follow(*model_, reducing.model_index, *find_write(reducing), where.model_index, *write);
      });
      if (resets) return false;
    }
  }
  for (int i = 0; i < static_cast<int>(model_->statements.size()); ++i) {
    for (const poly::Access& access : model_->statements[i].accesses) {
      if (access.kind != poly::AccessKind::Read || access.array != n.array) continue;
      if (ask(*model_, true, [&] { return poly::may_be_overwritten(*model_, i, access); })) return false;
    }
  }
  return true;
}

Expr TapePlan::provide_trips(const Stmt& site) {
  auto& saved = saved_controls_[site.get()];
  if (saved) return saved;
  const auto& loop = *site.as<ir::While>();
  const std::vector<Stmt> loops = extents_.dimensions(site_of(site).loops);
  const Array tape = new_tape(loop.iterator.name + "_trips", ScalarType::I64, loops, {}, loop.location);
  const std::vector<Expr> index = tape_index(loops);
  additions_.before[site.get()].push_back(ir::assign(tape, index, ir::int_const(0), loop.location));
  additions_.at_body_start[site.get()].push_back(
      ir::assign(tape, index, ir::var(loop.iterator) + ir::int_const(1), loop.location));
  saved = ir::load(tape, index);
  note(ir::var(loop.iterator), loop.location, "tape (reader's index)", saved, tape, "trip count of a while loop");
  return saved;
}

std::optional<Expr> TapePlan::stored_value(const Stmt& site) {
  const Array& array = *stored_array(site);
  const Site& where = site_of(site);
  const poly::Access* write = find_write(where);
  if (!write) return std::nullopt;
  const bool extremum = site.kind() == ir::Kind::Reduce;  // then the caller has looked at later writes
  if (!extremum && ask(*model_, true, [&] { return poly::may_be_written_after(*model_, where.model_index, *write); }))
    return std::nullopt;
  if (array->role == ArrayRole::Local) {
    const auto known = additions_.kept.find(array);
    // For the sake of a cheaper rule alone it is not worth keeping; an extremum costs a tape otherwise.
    const KeptArray* kept = known != additions_.kept.end() ? &known->second : extremum ? keep(array) : nullptr;
    if (!kept) return std::nullopt;
    std::vector<Expr> index = kept->leading;
    for (const Expr& e : stored_indices(site)) index.push_back(provide(e, site));
    return ir::load(kept->tape, std::move(index));
  }
  std::vector<Expr> index;
  for (const Expr& e : stored_indices(site)) index.push_back(provide(e, site));
  const Expr value = ir::load(array, std::move(index));
  note(ir::load(array, stored_indices(site)), site->location, "direct", {}, {},
       "the result of this line is still in the array, so it is not computed again");
  return value;
}

bool TapePlan::adjoint_is_read_later(const Stmt& site) {
  const Array& array = *stored_array(site);
  if (array->role == ArrayRole::InOut && prepared_.request.wants(array)) return true;
  const Site& where = site_of(site);
  const poly::Access* write = find_write(where);
  if (!write) return true;
  return ask(*model_, true, [&] { return poly::may_be_written_before(*model_, where.model_index, *write); });
}

// One value
// ---------------------------------------------------------------------------------------------------------------

Expr TapePlan::supply(const Expr& value, const Stmt& site) {
  for (const Supplied& known : supplied_[site.get()])
    if (ir::equal(known.load, value)) return known.value;
  const ir::Load& load = *value.as<ir::Load>();
  const Site& where = site_of(site);

  auto decide = [&]() -> Expr {
    if (load.array->role != ArrayRole::Local && !is_overwritten(load, where)) {
      std::vector<Expr> index;
      for (const Expr& e : load.indices) index.push_back(provide(e, site));
      note(value, site->location, "direct", {}, {},
           written_.count(load.array) ? "not overwritten after this read" : "never written");
      return ir::load(load.array, std::move(index), load.location);
    }
    int budget = longest_recomputation;
    if (auto again = recomputed(load, site, budget)) {
      note(value, site->location, "recomputed", {}, {},
           "assigned once, from values that are still there: " + ir::print(*again));
      return *again;
    }
    if (load.array->role == ArrayRole::Local && !is_overwritten(load, where))
      if (auto kept = from_kept(load, site)) return *kept;
    if (auto from_writer = from_writers(load, site)) return *from_writer;
    return from_reader(
        value, load.array->name, site,
        "overwritten later, by writes that are not an exact function of the iterators or that cost more to save");
  };
  const Expr result = decide();
  supplied_[site.get()].push_back({value, result});
  return result;
}

/// The expression from arrays that still hold their values and short recomputations only.
std::optional<Expr> TapePlan::without_tape(const Expr& e, const Stmt& site, int& budget) {
  bool ok = true;
  const Expr result = ir::rewrite(e, [&](const Expr& node) -> std::optional<Expr> {
    budget -= cost_of(node);
    if (budget < 0) ok = false;
    if (!ok) return node;
    const auto* load = node.as<ir::Load>();
    if (!load || !primal_.count(load->array)) return std::nullopt;
    if (load->array->role != ArrayRole::Local && !is_overwritten(*load, site_of(site))) {
      std::vector<Expr> index;
      for (const Expr& i : load->indices) {
        const auto provided = without_tape(i, site, budget);
        if (!provided) return ok = false, node;
        index.push_back(*provided);
      }
      return ir::load(load->array, std::move(index), load->location);
    }
    const auto again = recomputed(*load, site, budget);
    if (!again) ok = false;
    return again ? *again : node;
  });
  return ok ? std::optional(result) : std::nullopt;
}

/// A local scalar with a single Assign that comes earlier in a scope around the read, with no loop between declaration
/// and Assign: whatever the sizes, that is the write the read sees.
std::optional<Expr> TapePlan::recomputed(const ir::Load& load, const Stmt& site, int& budget) {
  if (load.array->role != ArrayRole::Local || !load.array->shape.empty()) return std::nullopt;
  const auto writers = writers_.find(load.array);
  if (writers == writers_.end() || writers->second.size() != 1) return std::nullopt;
  const Stmt& writer = writers->second.front();
  const auto* assign = writer.as<ir::Assign>();
  if (!assign || !stores_as_computed(load.array)) return std::nullopt;
  const Site &from = site_of(writer), &to = site_of(site);
  const Site& declared = site_of(allocations_.at(load.array));
  if (from.loops.size() != declared.loops.size() || from.position >= to.position) return std::nullopt;
  if (!executes_whenever(writer, from.scopes, site, to.scopes)) return std::nullopt;
  return without_tape(assign->value, writer, budget);
}

const KeptArray* TapePlan::keep(const Array& array) {
  const auto known = additions_.kept.find(array);
  if (known != additions_.kept.end()) return &known->second;
  const Stmt& allocation = allocations_.at(array);
  const std::vector<Stmt> loops = extents_.dimensions(site_of(allocation).loops);
  if (!can_index(loops)) return nullptr;
  std::vector<Expr> inner_shape;
  for (const Expr& extent : array->shape) {
    const auto range = range_of(extent, extents_.ranges(), prepared_.program);
    if (!range) return nullptr;
    inner_shape.push_back(range->highest);
  }
  const Array tape = new_tape(array->name + "_kept", array->type, loops, inner_shape, array->location);
  // A scalar that is surely assigned stays a scalar in the forward sweep and is copied once.
  const Stmt& scope = allocation.as<ir::Allocate>()->body;
  bool surely_assigned = false;
  auto assigns = [&](const Stmt& s) {
    const auto* a = s.as<ir::Assign>();
    return a && a->array == array;
  };
  surely_assigned |= assigns(scope);
  const Stmt* inner = &scope;
  while (const auto* nested = inner->as<ir::Allocate>()) inner = &nested->body;
  if (const auto* b = inner->as<ir::Block>())
    for (const Stmt& s : b->body) surely_assigned |= assigns(s);
  const bool at_scope_end = array->shape.empty() && surely_assigned;
  return &(additions_.kept[array] = {tape, tape_index(loops), at_scope_end});
}

std::optional<Expr> TapePlan::from_kept(const ir::Load& load, const Stmt& site) {
  const std::size_t declared = extents_.dimensions(site_of(allocations_.at(load.array)).loops).size();
  const std::size_t reading = extents_.dimensions(site_of(site).loops).size();
  if (declared + growing_dimensions(load.array) > reading && !additions_.kept.count(load.array)) return std::nullopt;
  const KeptArray* kept = keep(load.array);
  if (!kept) return std::nullopt;
  std::vector<Expr> index = kept->leading;
  for (const Expr& e : load.indices) index.push_back(provide(e, site));
  const Expr result = ir::load(kept->tape, std::move(index), load.location);
  note(ir::load(load.array, load.indices), site->location, "kept", result, kept->tape,
       "local to an iteration and not overwritten within it: one copy per iteration is kept");
  return result;
}

std::optional<Expr> TapePlan::from_writers(const ir::Load& load, const Stmt& site) {
  const Site& where = site_of(site);
  const poly::Access* access = find_access(load, where);
  if (!access) return std::nullopt;
  const poly::Dataflow flow =
      ask(*model_, poly::Dataflow{}, [&] { return poly::last_writes(*model_, where.model_index, *access); });
  constexpr std::size_t most_sources = 4;  // more would cost more to select than to save at the reader
  if (!flow.exact || flow.sources.empty() || flow.sources.size() > most_sources) return std::nullopt;
  const std::size_t reading = extents_.dimensions(where.loops).size();
  std::size_t writing = 0;
  for (const poly::Source& source : flow.sources) {
    if (source.writer < 0) {
      if (load.array->role != ArrayRole::InOut) return std::nullopt;
      writing = std::max<std::size_t>(writing, growing_dimensions(load.array));
      continue;
    }
    const auto& loops = model_->statements[source.writer].loops;
    if (!can_index(loops)) return std::nullopt;
    writing = std::max(writing, loops.size());
  }
  const bool selection_pays = flow.sources.size() == 1 || read_count_[load.array] > 1;
  if (writing > reading || (writing == reading && !selection_pays)) return std::nullopt;

  try {
    model_->context->restart_budget();
    const poly::Statement& reader = model_->statements[where.model_index];
    std::vector<Expr> dims;
    for (const ir::Symbol& i : reader.iterators) dims.push_back(ir::var(i));
    Expr result;
    for (auto source = flow.sources.rbegin(); source != flow.sources.rend(); ++source) {
      const auto value = value_from(*source, load, site);
      if (!value) return std::nullopt;
      if (!result) result = *value;
      else
        result = ir::select(poly::to_condition(source->domain, dims, *model_->context, reader.domain), *value, result);
    }
    return result;
  } catch (const poly::BudgetError&) {
    return std::nullopt;
  }
}

/// The value of one piece of a read's dataflow, and the forward statement that saves it.
std::optional<Expr> TapePlan::value_from(const poly::Source& source, const ir::Load& load, const Stmt& site) {
  const Expr read = ir::load(load.array, load.indices);
  if (source.writer < 0) {
    Array& tape = initial_tapes_[load.array];
    if (!tape) {
      tape = new_tape(load.array->name + "_initial", load.array->type, {}, load.array->shape, load.array->location);
      additions_.prologue.push_back(copy_all(tape, load.array));
    }
    std::vector<Expr> index;
    for (const Expr& e : load.indices) index.push_back(provide(e, site));
    const Expr value = ir::load(tape, std::move(index), load.location);
    note(read, site->location, "tape (initial contents)", value, tape,
         "overwritten later; some reads see the initial contents");
    return value;
  }
  const poly::Statement& writer = model_->statements[source.writer];
  const poly::Statement& reader = model_->statements[site_of(site).model_index];
  std::vector<Expr> dims;
  for (const ir::Symbol& i : reader.iterators) dims.push_back(ir::var(i));
  const std::vector<Expr> instance = poly::guarded([&] {
    const isl::multi_pw_aff function(source.instance.as_pw_multi_aff());
    return poly::to_exprs(function, dims, *model_->context, source.domain);
  });
  ir::Substitution at;
  for (std::size_t k = 0; k < writer.iterators.size(); ++k) at[writer.iterators[k]] = instance[k];
  int budget = longest_copy;
  const auto* assign = writer.stmt.as<ir::Assign>();
  if (assign && stores_as_computed(assign->array)) {
    if (const auto same = without_tape(assign->value, writer.stmt, budget)) {
      note(read, site->location, "recomputed", {}, {},
           "some instances read what line " + writer.stmt->location.str() + " copied: " + ir::print(*same));
      return ir::substitute(*same, at);
    }
  }
  Array& tape = writer_tapes_[writer.stmt.get()];
  if (!tape) {
    const Array& array = *stored_array(writer.stmt);
    tape = new_tape(array->name + "_tape", array->type, writer.loops, {}, writer.stmt->location);
    additions_.after[writer.stmt.get()].push_back(ir::assign(
        tape, tape_index(writer.loops), ir::load(array, stored_indices(writer.stmt)), writer.stmt->location));
  }
  const Expr value = ir::load(tape, tape_index(writer.loops, at), load.location);
  note(read, site->location, "tape (writer's index)", value, tape,
       "overwritten later; written by line " + writer.stmt->location.str());
  return value;
}

/// The outermost loop that the read can be moved in front of: on the way there are only loops and declarations, and
/// nothing that the value depends on changes. `site` itself when there is none.
Stmt TapePlan::hoisted(const Expr& value, const Stmt& site) const {
  std::set<Array> arrays;
  std::set<ir::Symbol> symbols;
  ir::walk(value, [&](const Expr& e) {
    if (const auto* l = e.as<ir::Load>()) arrays.insert(l->array);
    if (const auto* v = e.as<ir::Var>()) symbols.insert(v->symbol);
  });
  auto changes_inside = [&](const Stmt& loop) {
    bool changes = false;
    ir::walk_stmts(loop, [&](const Stmt& s) {
      if (const Array* stored = stored_array(s)) changes |= arrays.count(*stored) != 0;
      if (const auto* local = s.as<ir::Allocate>()) changes |= arrays.count(local->array) != 0;
    });
    return changes;
  };
  Stmt best = site;
  const Site& where = site_of(site);
  for (auto scope = where.scopes.rbegin(); scope != where.scopes.rend(); ++scope) {
    if (scope->kind() == ir::Kind::If || scope->kind() == ir::Kind::While) break;
    const auto* loop = scope->as<ir::For>();
    if (!loop) continue;
    if (symbols.count(loop->iterator) || changes_inside(*scope)) break;
    best = *scope;
    // The loops left behind decide, in front of this one, whether the value is read at all.
    bool bounds_are_plain = true;
    for (const Expr& bound : {loop->lower, loop->upper}) {
      ir::walk(bound, [&](const Expr& e) {
        bounds_are_plain &= e.kind() != ir::Kind::Load;
        if (const auto* v = e.as<ir::Var>()) symbols.insert(v->symbol);
      });
    }
    if (!bounds_are_plain) break;
  }
  return best;
}

Expr TapePlan::from_reader(const Expr& value, const std::string& name, const Stmt& reader, const std::string& why) {
  const Stmt site = hoisted(value, reader);
  for (const Supplied& known : supplied_[site.get()])
    if (!site.same_as(reader) && ir::equal(known.load, value)) return known.value;
  const std::vector<Stmt> loops = extents_.dimensions(site_of(site).loops);
  const ScalarType type = value.as<ir::Load>() ? value.as<ir::Load>()->array->type : value.type();
  const Array tape = new_tape(name + "_tape", type, loops, {}, site->location);
  const std::vector<Expr> index = tape_index(loops);
  Stmt save = ir::assign(tape, index, value, site->location);
  // In front of loops the value is only read when it would have been: all loops it was moved out of run.
  for (const Stmt& around : site_of(reader).loops) {
    const auto* loop = around.as<ir::For>();
    if (!site.same_as(reader) && loop && site_of(around).position >= site_of(site).position)
      save = ir::if_then(ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper), save);
  }
  additions_.before[site.get()].push_back(save);
  const Expr result = ir::load(tape, index);
  if (!site.same_as(reader)) supplied_[site.get()].push_back({value, result});
  note(value, reader->location, "tape (reader's index)", result, tape, why);
  return result;
}

// Tape arrays
// -------------------------------------------------------------------------------------------------------------

bool TapePlan::can_index(const std::vector<Stmt>& loops) const {
  return std::all_of(loops.begin(), loops.end(), [&](const Stmt& loop) { return extents_.knows(loop); });
}

std::vector<Expr> TapePlan::tape_index(const std::vector<Stmt>& loops, const ir::Substitution& at) const {
  std::vector<Expr> index;
  for (const Stmt& loop : loops)
    index.push_back(ir::substitute(ir::var(iterator_of(loop)), at) - extents_.of(loop).origin);
  return index;
}

Array TapePlan::new_tape(const std::string& name, ScalarType type, const std::vector<Stmt>& loops,
                         const std::vector<Expr>& inner_shape, SourceLocation where) {
  std::vector<Expr> shape;
  for (const Stmt& loop : loops) shape.push_back(extents_.of(loop).extent);
  shape.insert(shape.end(), inner_shape.begin(), inner_shape.end());
  std::string unique = name;
  for (int k = 1; !names_.insert(unique).second; ++k) unique = name + "_" + std::to_string(k);
  tape_.push_back(ir::make_array(unique, type, std::move(shape), ArrayRole::Tape, where));
  return tape_.back();
}

void TapePlan::note(const Expr& value, SourceLocation where, const std::string& decision, const Expr& storage,
                    const Array& tape, const std::string& reason) {
  std::string elements;
  if (tape) {
    Expr count = ir::int_const(1);
    for (const Expr& extent : tape->shape) count = count * extent;
    elements = ir::print(count);
  }
  report_.tape.push_back({ir::print(value), where, decision, storage ? ir::print(storage) : "", elements, reason});
}

}  // namespace loopgrad::tape
