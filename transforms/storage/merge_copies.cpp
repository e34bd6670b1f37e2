#include "transforms/storage/merge_copies.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/dependences.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/level_uses.h"
#include "transforms/storage/storage_plan.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;
using poly::Model;
using poly::Statement;

namespace {

constexpr unsigned long budget_per_question = 100'000;

const poly::Access& stored(const Statement& s) { return s.accesses.back(); }

// `target[...] = local[...]`, directly or by way of an element that was assigned just before.
struct Copy {
  Stmt stmt;
  const ir::Load* source = nullptr;

  const ir::Assign& assign() const { return *stmt.as<ir::Assign>(); }
};

std::vector<Copy> copies_in(const Stmt& body) {
  std::vector<Copy> result;
  auto consider = [&](const Stmt& s, const Stmt& before) {
    auto* assign = s.as<ir::Assign>();
    auto* source = assign ? assign->value.as<ir::Load>() : nullptr;
    auto* earlier = before ? before.as<ir::Assign>() : nullptr;
    const auto is_moved = [&](const Expr& index) { return uses(index, earlier->array); };  // by the assignment
    if (source && earlier && earlier->array == source->array && ir::equal(earlier->indices, source->indices) &&
        std::none_of(source->indices.begin(), source->indices.end(), is_moved))
      source = earlier->value.as<ir::Load>();
    if (!source || source->array->role != ir::ArrayRole::Local || source->array->shape.empty()) return;
    if (assign->array->role == ir::ArrayRole::Local || assign->array->type != source->array->type) return;
    result.push_back({s, source});
  };
  ir::walk_stmts(body, [&](const Stmt& s) {
    if (auto* block = s.as<ir::Block>()) {
      for (std::size_t k = 0; k < block->body.size(); ++k) consider(block->body[k], k ? block->body[k - 1] : Stmt());
    } else if (auto* loop = s.as<ir::For>()) {
      consider(loop->body, {});
    }
  });
  return result;
}

// Whether the copy is `for i in 0..n: .. target[i, ..] = local[i, ..]`, of all elements of both, in no other loop and
// under no condition.
bool is_of_all(const Copy& copy, const Statement& copier, const Stmt& body) {
  const ir::Array &from = copy.source->array, &to = copy.assign().array;
  std::vector<const ir::For*> loops;
  for (const Stmt& loop : copier.loops)
    if (loop.as<ir::For>()) loops.push_back(loop.as<ir::For>());
  const auto range = range_of(loops, copy.source->indices);
  if (!range || loops.size() != copier.loops.size() || !is_whole(*range, from->shape) ||
      !ir::equal(copy.assign().indices, copy.source->indices) || !ir::equal(to->shape, from->shape))
    return false;
  bool decides = false;
  ir::walk_stmts(copier.loops[0], [&](const Stmt& s) { decides |= s.kind() == ir::Kind::If; });
  const auto parts = top_level(body);
  return !decides && std::any_of(parts.begin(), parts.end(), [&](const Stmt& s) { return s.same_as(copier.loops[0]); });
}

class Legality {
 public:
  Legality(const ir::Program& program, const Model& model, const Copy& copy)
      : program_(program), model_(model), copy_(copy), local_(copy.source->array) {}

  bool holds() {
    return model_.aliases.empty() && find_parties() && copies_by_iterators() && only_the_copy_touches_the_target() &&
           no_facts_or_products() && what_is_written_is_copied() && readers_find_what_was_written() &&
           (of_all_ || target_elements_are_written_once());
  }

 private:
  bool find_parties() {
    for (const Statement& s : model_.statements) {
      if (s.stmt.same_as(copy_.stmt)) copier_ = &s;
      if (s.accesses.empty() || stored(s).array != local_ || stored(s).kind == poly::AccessKind::Read) continue;
      if (s.stmt.kind() == ir::Kind::Pop) return false;
      writers_.push_back(&s);
    }
    if (!copier_ || writers_.empty() || !copier_->exact || !stored(*copier_).exact) return false;
    shared_ = poly::common_loops(*writers_[0], *copier_);
    of_all_ = is_of_all(copy_, *copier_, program_.body);
    return std::all_of(writers_.begin(), writers_.end(), [&](const Statement* writer) {
      return writer < copier_ && poly::common_loops(*writer, *copier_) == shared_;
    });
  }

  // The indices of the local array are the iterators of the copy's own loops.
  bool copies_by_iterators() const {
    const auto& indices = copy_.source->indices;
    const auto& iterators = copier_->iterators;
    if (indices.size() != iterators.size() - shared_) return false;
    return std::all_of(iterators.begin() + static_cast<std::ptrdiff_t>(shared_), iterators.end(),
                       [&](const ir::Symbol& iterator) {
                         return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
                           auto* var = index.as<ir::Var>();
                           return var && var->symbol == iterator;
                         });
                       });
  }

  bool only_the_copy_touches_the_target() const {
    return std::all_of(model_.statements.begin(), model_.statements.end(), [&](const Statement& s) {
      return &s == copier_ || std::none_of(s.accesses.begin(), s.accesses.end(), [&](const poly::Access& access) {
        return access.array == copy_.assign().array;
      });
    });
  }

  // What a library is handed lies in the array that it names.
  bool no_facts_or_products() const {
    const ir::Array& target = copy_.assign().array;
    bool none = true;
    for (const ir::Fact& fact : program_.facts)
      none &= fact.kind == ir::FactKind::ReadUpTo || (fact.array != target && fact.array != local_);
    ir::walk_stmts(program_.body, [&](const Stmt& s) {
      auto* product = s.as<ir::Contraction>();
      none &= of_all_ || !product || (product->a != local_ && product->b != local_ && product->c != local_);
    });
    return none;
  }

  bool what_is_written_is_copied() const {
    if (of_all_) return true;
    const auto copied = element_copied();
    return copied && std::all_of(writers_.begin(), writers_.end(), [&](const Statement* writer) {
             return stored(*writer).exact && is_covered(*writer, met(*writer, stored(*writer), *copier_, *copied));
           });
  }

  // The local element that each instance of the copy copies: also where it reads it by way of another array.
  std::optional<poly::Access> element_copied() const {
    for (const Statement& s : model_.statements) {
      for (const poly::Access& access : s.accesses) {
        if (!access.load || access.load.as<ir::Load>() != copy_.source || s.iterators != copier_->iterators) continue;
        poly::Access result = access;
        isl_id* copier = isl_set_get_tuple_id(copier_->domain.get());
        result.relation = isl::manage(isl_map_set_tuple_id(access.relation.copy(), isl_dim_in, copier));
        return result;
      }
    }
    return std::nullopt;
  }

  // Instances of `a` that meet one of `b` at their element, in the same iteration of the shared loops.
  isl::set met(const Statement& a, const poly::Access& access_a, const Statement& b,
               const poly::Access& access_b) const {
    isl_map* pairs = access_a.relation.intersect_domain(a.domain)
                         .apply_range(access_b.relation.intersect_domain(b.domain).reverse())
                         .release();
    for (int k = 0; k < static_cast<int>(shared_); ++k) pairs = isl_map_equate(pairs, isl_dim_in, k, isl_dim_out, k);
    return poly::checked(*model_.context, pairs).domain();
  }

  bool is_covered(const Statement& s, const isl::set& instances) const {
    return s.domain.intersect_params(model_.assumptions).is_subset(instances);
  }

  // The elements that instances of `writer` wrote, for the instances of `reader` in the same iteration of the shared
  // loops.
  isl::map written_before(const Statement& reader, const Statement& writer) const {
    isl_map* pairs = isl_map_from_domain_and_range(reader.domain.copy(), writer.domain.copy());
    for (int k = 0; k < static_cast<int>(shared_); ++k) pairs = isl_map_equate(pairs, isl_dim_in, k, isl_dim_out, k);
    return poly::checked(*model_.context, pairs).apply_range(stored(writer).relation);
  }

  // All that a reader may read, in the same iteration of the shared loops; without such loops a right program leaves no
  // other choice. (Where data choose the element, that is any: one that was written is not enough.)
  bool readers_find_what_was_written() const {
    for (const Statement& s : model_.statements) {
      for (const poly::Access& access : s.accesses) {
        if (shared_ == 0 || access.array != local_ || access.kind == poly::AccessKind::Write) continue;
        const isl::map read = access.relation.intersect_domain(s.domain).intersect_params(model_.assumptions);
        isl::map written = read.subtract(read);
        for (const Statement* writer : writers_) {
          const bool earlier = writer < &s && poly::common_loops(s, *writer) == shared_;
          if (earlier && writer->exact && stored(*writer).exact) written = written.unite(written_before(s, *writer));
        }
        if (!read.is_subset(written)) return false;
      }
    }
    return true;
  }

  bool target_elements_are_written_once() const {
    return stored(*copier_).relation.intersect_domain(copier_->domain).is_injective();
  }

  const ir::Program& program_;
  const Model& model_;
  const Copy& copy_;
  const ir::Array& local_;
  const Statement* copier_ = nullptr;
  std::vector<const Statement*> writers_;
  std::size_t shared_ = 0;  // loops around all of them
  bool of_all_ = false;
};

// The program with the target in place of the local array, and without the copy.
Stmt merged(const Stmt& body, const Copy& copy) {
  const ir::Array &local = copy.source->array, &target = copy.assign().array;
  const Stmt rest = ir::rewrite(replace(body, copy.stmt, {}), {}, [&](const Stmt& s) -> std::optional<Stmt> {
    auto* scope = s.as<ir::Allocate>();
    return scope && scope->array == local ? std::optional(scope->body) : std::nullopt;
  });
  if (ir::equal(copy.source->indices, copy.assign().indices)) return ir::replace_arrays(rest, {{local, target}});
  return ir::move_elements(
      rest, [&](const ir::Array& array, const std::vector<Expr>& indices) -> std::optional<ir::ElementPlace> {
        if (array != local) return std::nullopt;
        ir::Substitution values;
        for (std::size_t k = 0; k < indices.size(); ++k)
          values[copy.source->indices[k].as<ir::Var>()->symbol] = indices[k];
        ir::ElementPlace place{target, {}};
        for (const Expr& index : copy.assign().indices) place.indices.push_back(ir::substitute(index, values));
        return place;
      });
}

bool is_legal(const ir::Program& program, const Copy& copy, PassContext& context) {
  try {
    const auto model = analyses(context).model_of(program, program.body);
    model->context->restart_budget(budget_per_question);
    return poly::guarded(*model->context, [&] { return Legality(program, *model, copy).holds(); });
  } catch (const poly::BudgetError&) {
    return false;
  }
}

/// Sums into the copied array are sums into the other one from now on.
void follow(const ir::Array& copied, const ir::Array& target, std::vector<SumPlan>& plans) {
  for (SumPlan& plan : plans)
    for (PlannedSum& sum : plan.sums)
      if (sum.array == copied->id) sum.array = target->id;
}

}  // namespace

ir::Program merge_copies(const ir::Program& program, PassContext& context) {
  ir::Program result = program;
  const StmtSet fixed = leaves_of_contractions(result.body);
  std::vector<Stmt> refused;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Copy& copy : copies_in(result.body)) {
      if (fixed.count(copy.stmt.get()) || set_of(refused).count(copy.stmt.get())) continue;
      changed = is_legal(result, copy, context);
      if (!changed) {
        refused.push_back(copy.stmt);
        continue;
      }
      const Expr target = ir::load(copy.assign().array, copy.assign().indices);
      note_storage(context, copy.source->array, Storage::Alias, ir::print(target), "it is only on its way there",
                   copy.stmt->location);
      follow(copy.source->array, copy.assign().array, context.plans);
      result = ir::with_body(result, merged(result.body, copy));
      break;
    }
  }
  return result;
}

}  // namespace loopgrad::transforms
