#include "transforms/sums/zero_fills.h"

#include "dsl/ir/queries.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/dependences.h"
#include "dsl/poly/schedule.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;
using poly::Model;
using poly::Statement;

namespace {

// isl operations for one question: a plain yes takes a few thousand.
constexpr unsigned long budget_per_question = 600'000;

// More disjoint pieces than this make loops with more overhead than stores saved: a frame of a box has two per
// dimension, of a rank-4 array eight.
constexpr int most_pieces = 12;

constexpr std::int64_t few_elements = 4;  // of a row

bool is_constant_assignment(const Stmt& s) {
  auto* node = s.as<ir::Assign>();
  return node && (node->value.as<ir::FloatConst>() || node->value.as<ir::IntConst>());
}

const Statement& at(const Model& model, int number) { return model.statements[static_cast<std::size_t>(number)]; }

const poly::Access& stored(const Statement& s) { return s.accesses.back(); }

// Answers for the zeros of one statement. Only what happens in the same iteration of the loops that it shares with a
// later assignment counts for this assignment: there, it comes wholly before.
class Fill {
 public:
  Fill(const Model& model, int number) : model_(model), number_(number) {}

  // The instances whose value may be needed: all but those whose element is assigned later and not read until then.
  isl::set needed() const {
    const Statement& fill = at(model_, number_);
    isl::set result = fill.domain.intersect_params(model_.assumptions);
    for (int k = number_ + 1; k < static_cast<int>(model_.statements.size()); ++k) {
      const Statement& s = at(model_, k);
      if (!s.stmt.as<ir::Assign>() || stored(s).array != stored(fill).array || !s.exact || !stored(s).exact) continue;
      const std::size_t shared = poly::common_loops(fill, s);
      isl::map again = related(fill, stored(fill), s, stored(s), shared);
      if (again.is_empty()) continue;
      again = again.intersect_range(unread_until(k, shared));
      result = result.subtract(again.domain().subtract(read_in_own_nest(shared)));
    }
    return poly::coalesced(result);
  }

 private:
  // Instances in the same iteration of the `shared` outer loops that may touch one element.
  isl::map related(const Statement& a, const poly::Access& access_a, const Statement& b, const poly::Access& access_b,
                   std::size_t shared) const {
    isl_map* pairs = poly::touching_pairs(model_, a, access_a, b, access_b).release();
    for (int k = 0; k < static_cast<int>(shared); ++k) pairs = isl_map_equate(pairs, isl_dim_in, k, isl_dim_out, k);
    isl::map result = poly::checked(*model_.context, pairs);
    return result.intersect_domain(a.domain).intersect_range(b.domain).intersect_params(model_.assumptions);
  }

  bool reads_the_array(const poly::Access& access) const {
    return access.kind != poly::AccessKind::Write && access.array == stored(at(model_, number_)).array;
  }

  // The instances of assignment `number` before which nobody reads their element, after the nest of the fill.
  isl::set unread_until(int number, std::size_t shared) const {
    const Statement& assign = at(model_, number);
    isl::set result = assign.domain;
    for (int k = number_ + 1; k < static_cast<int>(model_.statements.size()); ++k) {
      const Statement& s = at(model_, k);
      if (poly::common_loops(s, assign) < shared || poly::common_loops(s, at(model_, number_)) > shared) continue;
      for (const poly::Access& access : s.accesses) {
        if (!reads_the_array(access)) continue;
        isl::map reads = related(assign, stored(assign), s, access, shared);
        isl::map before = poly::executed_before(model_, k, number).reverse();
        if (k == number) before = before.unite(same_instance(before));
        result = result.subtract(reads.intersect(before).domain());
      }
    }
    return result;
  }

  // The instances of the fill whose element is read later in the nest that it stands in.
  isl::set read_in_own_nest(std::size_t shared) const {
    const Statement& fill = at(model_, number_);
    isl::set result = fill.domain.subtract(fill.domain);
    for (int k = 0; k < static_cast<int>(model_.statements.size()); ++k) {
      const Statement& s = at(model_, k);
      if (poly::common_loops(s, fill) <= shared) continue;
      for (const poly::Access& access : s.accesses) {
        if (!reads_the_array(access)) continue;
        isl::map reads = related(fill, stored(fill), s, access, shared);
        result = result.unite(reads.intersect(poly::executed_before(model_, number_, k)).domain());
      }
    }
    return result;
  }

  static isl::map same_instance(const isl::map& like) {
    return isl::manage(isl_map_identity(isl_map_get_space(like.get())));
  }

  const Model& model_;
  int number_;
};

// How many loops around the statement contain other statements too.
std::size_t shared_loops(const Statement& s) {
  std::size_t count = 0;
  while (count < s.loops.size() && leaves(s.loops[count]).size() > 1) ++count;
  return count;
}

// The loops around the statement alone, inside of `outer` others, on the instances in `needed` only.
Stmt shrunk(const Model& model, int number, std::size_t outer, const isl::set& needed) {
  Model part{model.context, {at(model, number)}, model.assumptions, model.aliases, model.sizes};
  Statement& s = part.statements[0];
  std::vector<ir::Expr> time;
  std::vector<std::string> names;
  for (std::size_t k = outer; k < s.iterators.size(); ++k) {
    time.push_back(ir::var(s.iterators[k]));
    names.push_back(s.iterators[k].name);
  }
  // Loops outside become parameters.
  isl_set* domain = needed.copy();
  for (std::size_t k = 0; k < outer; ++k) {
    unsigned position = static_cast<unsigned>(isl_set_dim(domain, isl_dim_param));
    domain = isl_set_move_dims(domain, isl_dim_param, position, isl_dim_set, 0, 1);
    domain = isl_set_set_dim_id(domain, isl_dim_param, position, model.context->id_of(s.iterators[k]).release());
  }
  domain = isl_set_set_tuple_name(domain, s.name.c_str());
  s.domain = poly::coalesced(poly::checked(*model.context, domain));
  s.iterators.erase(s.iterators.begin(), s.iterators.begin() + static_cast<std::ptrdiff_t>(outer));
  return poly::code_in_order(part, {{0, time, s.stmt}}, names);
}

// Whether only the rows of a nest got shorter, by a few elements: it is cheaper to fill these than to leave them out,
// as rows are then whole, which wide stores need.
bool saves_little(Stmt before, Stmt after, bool in_rows = false) {
  const auto *old = before.as<ir::For>(), *now = after.as<ir::For>();
  if (!old || !now) return false;
  if (in_rows && !ir::contains_loop(old->body) && !ir::contains_loop(now->body)) {
    const auto less = distance(old->upper - old->lower, now->upper - now->lower);
    return less && *less <= few_elements;
  }
  if (!same_value(old->lower, now->lower) || !same_value(old->upper, now->upper)) return false;
  return saves_little(old->body, ir::substitute(now->body, {{now->iterator, ir::var(old->iterator)}}), true);
}

struct Changes {
  StmtSet dead;                                 // leaves that go
  std::map<const ir::StmtNode*, Stmt> instead;  // loops that shrink
};

void decide(const Model& model, int number, Changes& changes) {
  const Statement& s = at(model, number);
  if (!s.exact || !stored(s).exact || !model.aliases.empty()) return;
  std::size_t outer = shared_loops(s);
  isl::set needed = Fill(model, number).needed();
  if (needed.is_empty()) {
    changes.dead.insert(s.stmt.get());
    return;
  }
  isl::set domain = s.domain.intersect_params(model.assumptions);
  if (outer == s.loops.size() || domain.is_subset(needed)) return;
  isl::set pieces = poly::coalesced(poly::checked(*model.context, isl_set_make_disjoint(needed.copy())));
  if (isl_set_n_basic_set(pieces.get()) > most_pieces) return;
  const Stmt less = shrunk(model, number, outer, pieces);
  if (!saves_little(s.loops[outer], less)) changes.instead[s.loops[outer].get()] = less;
}

Changes find_changes(const Model& model, const Stmt& body, const std::set<std::int64_t>& arrays) {
  Changes changes;
  const StmtSet fixed = leaves_of_contractions(body);
  for (int k = 0; k < static_cast<int>(model.statements.size()); ++k) {
    const Stmt& s = at(model, k).stmt;
    if (fixed.count(s.get()) || !is_constant_assignment(s) || !arrays.count(s.as<ir::Assign>()->array->id)) continue;
    try {
      model.context->restart_budget(budget_per_question);
      poly::guarded(*model.context, [&] { decide(model, k, changes); });
    } catch (const poly::BudgetError&) {
      continue;  // the statement stays
    }
  }
  return changes;
}

}  // namespace

ir::Program shrink_zero_fills(const ir::Program& program, PassContext& context) {
  if (context.started_sums.empty()) return program;
  try {
    const auto model = analyses(context).model_of(program, program.body);
    Changes changes = find_changes(*model, program.body, context.started_sums);
    if (changes.dead.empty() && changes.instead.empty()) return program;
    Stmt body = ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      auto found = changes.instead.find(s.get());
      if (found == changes.instead.end()) return std::nullopt;
      return found->second;
    });
    StmtSet keep;
    for (const Stmt& leaf : leaves(body)) {
      if (!changes.dead.count(leaf.get())) keep.insert(leaf.get());
    }
    body = slice(body, keep);
    return ir::with_body(program, body ? body : ir::block({}));
  } catch (const poly::BudgetError&) {
    return program;
  }
}

}  // namespace loopgrad::transforms
