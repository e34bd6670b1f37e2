#include "transforms/storage/merge_copies.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/poly/dependences.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"

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
    if (source && earlier && earlier->array == source->array && ir::equal(earlier->indices, source->indices))
      source = earlier->value.as<ir::Load>();
    if (!source || source->array->role != ir::ArrayRole::Local || source->array->shape.empty()) return;
    if (assign->array == source->array || assign->array->type != source->array->type) return;
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

class Legality {
 public:
  Legality(const Model& model, const Copy& copy) : model_(model), copy_(copy), local_(copy.source->array) {}

  bool holds() {
    return model_.aliases.empty() && find_parties() && copies_by_iterators() && only_the_copy_touches_the_target() &&
           covers(*writer_, stored(*writer_), *copier_, element_copied()) && readers_find_what_was_written() &&
           target_elements_are_written_once();
  }

 private:
  bool find_parties() {
    for (const Statement& s : model_.statements) {
      if (s.stmt.same_as(copy_.stmt)) copier_ = &s;
      if (s.accesses.empty() || stored(s).array != local_ || stored(s).kind == poly::AccessKind::Read) continue;
      if (writer_ || !s.stmt.as<ir::Assign>()) return false;
      writer_ = &s;
    }
    if (!copier_ || !writer_ || !copier_->exact || !stored(*copier_).exact) return false;
    shared_ = poly::common_loops(*writer_, *copier_);
    return writer_ < copier_ && writer_->exact && stored(*writer_).exact && writer_->loops.size() > shared_;
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

  // The local element that each instance of the copy copies: also where it reads it by way of another array.
  poly::Access element_copied() const {
    for (const Statement& s : model_.statements) {
      for (const poly::Access& access : s.accesses) {
        if (access.load && access.load.as<ir::Load>() == copy_.source) {
          poly::Access result = access;
          result.relation = isl::manage(
              isl_map_set_tuple_id(access.relation.copy(), isl_dim_in, isl_set_get_tuple_id(copier_->domain.get())));
          return result;
        }
      }
    }
    return {};
  }

  // Every instance of `a` meets one of `b` at its element, in the same iteration of the shared loops.
  bool covers(const Statement& a, const poly::Access& access_a, const Statement& b,
              const poly::Access& access_b) const {
    if (access_b.relation.is_null()) return false;
    isl_map* pairs = access_a.relation.intersect_domain(a.domain)
                         .apply_range(access_b.relation.intersect_domain(b.domain).reverse())
                         .release();
    for (int k = 0; k < static_cast<int>(shared_); ++k) pairs = isl_map_equate(pairs, isl_dim_in, k, isl_dim_out, k);
    const isl::map met = poly::checked(*model_.context, pairs);
    return a.domain.intersect_params(model_.assumptions).is_subset(met.domain());
  }

  bool readers_find_what_was_written() const {
    for (const Statement& s : model_.statements) {
      for (const poly::Access& access : s.accesses) {
        if (access.array != local_ || access.kind != poly::AccessKind::Read) continue;
        if (&s < writer_ || poly::common_loops(s, *writer_) != shared_ || !access.load) return false;
        if (!covers(s, access, *writer_, stored(*writer_))) return false;
      }
    }
    return true;
  }

  bool target_elements_are_written_once() const {
    return stored(*copier_).relation.intersect_domain(copier_->domain).is_injective();
  }

  const Model& model_;
  const Copy& copy_;
  const ir::Array& local_;
  const Statement *copier_ = nullptr, *writer_ = nullptr;
  std::size_t shared_ = 0;
};

// The program with the target in place of the local array, and without the copy.
Stmt merged(const Stmt& body, const Copy& copy) {
  class Merger final : public ir::Rewriter {
   public:
    explicit Merger(const Copy& copy) : copy_(copy) {}
    using Rewriter::rewrite;
    Expr rewrite(const Expr& e) override {
      auto* load = e.as<ir::Load>();
      if (!load || load->array != copy_.source->array) return rewrite_children(e);
      return ir::load(copy_.assign().array, in_target(load->indices), load->location);
    }
    Stmt rewrite(const Stmt& s) override {
      if (s.same_as(copy_.stmt)) return ir::block({});
      if (auto* scope = s.as<ir::Allocate>(); scope && scope->array == copy_.source->array) return rewrite(scope->body);
      auto* assign = s.as<ir::Assign>();
      if (!assign || assign->array != copy_.source->array) return rewrite_children(s);
      return ir::assign(copy_.assign().array, in_target(assign->indices), rewrite(assign->value), assign->location);
    }

   private:
    std::vector<Expr> in_target(const std::vector<Expr>& indices) {
      ir::Substitution values;
      for (std::size_t k = 0; k < indices.size(); ++k)
        values[copy_.source->indices[k].as<ir::Var>()->symbol] = rewrite(indices[k]);
      std::vector<Expr> result;
      for (const Expr& index : copy_.assign().indices) result.push_back(ir::substitute(index, values));
      return result;
    }

    const Copy& copy_;
  };
  return Merger(copy).rewrite(body);
}

// The nest that copies all of a local array, element by element, or null: for i in 0..n: .. target[i, ..] = local[i,
// ..]
const ir::Assign* whole_copy(const Stmt& nest) {
  std::vector<Expr> extents, indices;
  Stmt at = nest;
  for (; at.as<ir::For>(); at = at.as<ir::For>()->body) {
    const ir::For& loop = *at.as<ir::For>();
    if (ir::as_int(loop.lower) != 0 || loop.at_most) return nullptr;
    extents.push_back(loop.upper);
    indices.push_back(ir::var(loop.iterator));
  }
  auto* copy = at.as<ir::Assign>();
  auto* source = copy ? copy->value.as<ir::Load>() : nullptr;
  if (!source || indices.empty() || source->array->role != ir::ArrayRole::Local) return nullptr;
  const bool whole = ir::equal(copy->indices, indices) && ir::equal(source->indices, indices) &&
                     ir::equal(copy->array->shape, extents) && ir::equal(source->array->shape, extents);
  return whole && copy->array->type == source->array->type ? copy : nullptr;
}

// Lets one local array that is copied to another one in the end be that one from the beginning.
std::optional<ir::Program> with_result_in_place(const ir::Program& program) {
  const std::vector<Stmt> statements = top_level(program.body);
  for (std::size_t k = 0; k < statements.size(); ++k) {
    auto* copy = whole_copy(statements[k]);
    if (!copy) continue;
    const ir::Array target = copy->array, local = copy->value.as<ir::Load>()->array;
    bool legal = true;
    for (const ir::Fact& fact : program.facts) legal &= fact.array != target && fact.other != target;
    for (std::size_t l = 0; l < statements.size(); ++l) {
      legal &= l == k || !uses(statements[l], target);
      legal &= l <= k || !uses(statements[l], local);
    }
    if (!legal) continue;
    class Renamer final : public ir::Rewriter {
     public:
      Renamer(const Stmt& copy, const ir::Array& local) : copy_(copy), local_(local) {}
      using Rewriter::rewrite;
      Stmt rewrite(const Stmt& s) override {
        if (s.same_as(copy_)) return ir::block({});
        auto* scope = s.as<ir::Allocate>();
        return scope && scope->array == local_ ? rewrite(scope->body) : rewrite_children(s);
      }

     private:
      const Stmt& copy_;
      const ir::Array& local_;
    };
    const Stmt body = Renamer(statements[k], local).rewrite(program.body);
    return ir::with_body(program, ir::replace_arrays(body, {{local, target}}));
  }
  return std::nullopt;
}

}  // namespace

ir::Program merge_copies(const ir::Program& program, PassContext& context) {
  ir::Program result = program;
  while (auto merged_once = with_result_in_place(result)) result = *merged_once;
  const StmtSet fixed = leaves_of_contractions(result.body);
  for (const Copy& copy : copies_in(result.body)) {
    if (fixed.count(copy.stmt.get())) continue;
    try {
      const auto model = analyses(context).model_of(result, result.body);
      model->context->restart_budget(budget_per_question);
      if (poly::guarded(*model->context, [&] { return Legality(*model, copy).holds(); }))
        return ir::with_body(result, merged(result.body, copy));
    } catch (const poly::BudgetError&) {
      continue;
    }
  }
  return result;
}

}  // namespace loopgrad::transforms
