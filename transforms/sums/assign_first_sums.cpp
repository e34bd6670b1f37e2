#include "transforms/sums/assign_first_sums.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/dataflow.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/merge_updates.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;
using poly::Model;
using poly::Statement;

namespace {

// isl operations for one question: a plain yes takes a few thousand.
constexpr unsigned long budget_per_sum = 25'000;

bool is_neutral(const Stmt& s, ir::ReduceOp op) {
  auto* node = s.as<ir::Assign>();
  if (!node) return false;
  return (op == ir::ReduceOp::Add && ir::is_const(node->value, 0)) ||
         (op == ir::ReduceOp::Mul && ir::is_const(node->value, 1));
}

// Whether it clears an element for sums or for products.
bool clears(const Stmt& s) { return is_neutral(s, ir::ReduceOp::Add) || is_neutral(s, ir::ReduceOp::Mul); }

ir::Expr neutral(const ir::Reduce& sum) { return ir::const_of(sum.op == ir::ReduceOp::Mul ? 1 : 0, sum.value.type()); }

// A sum that may begin directly before a statement.
struct Beginning {
  Stmt sum;
  const ir::For* steps = nullptr;  // in the first iteration of this loop around it only; null: whenever it is executed
};

// Where sums begin.
using Beginnings = std::map<const ir::StmtNode*, std::vector<Beginning>>;

// Whether the loop is not in its first iteration.
ir::Expr is_later(const ir::For& loop) {
  const ir::Expr t = ir::var(loop.iterator);
  if (loop.mode != ir::LoopMode::Backward) return ir::binary(ir::BinaryOp::Lt, loop.lower, t);
  return ir::binary(ir::BinaryOp::Lt, t, simplify_indices(loop.upper - ir::int_const(1)));
}

enum class Which { All, Single };

bool are_plain(const std::vector<ir::Expr>& indices) {
  for (std::size_t k = 0; k < indices.size(); ++k) {
    if (ir::as_int(indices[k])) continue;
    if (indices[k].kind() != ir::Kind::Var) return false;
    for (std::size_t other = 0; other < k; ++other)
      if (ir::equal(indices[k], indices[other])) return false;
  }
  return true;
}

class BeginningFinder {
 public:
  BeginningFinder(const Stmt& body, Which which) : which_(which) {
    ir::walk_stmts(body, [&](const Stmt& s) {
      if (clears(s)) cleared_.insert(s.as<ir::Assign>()->array);
      for_each_store(s, [&](const ir::Array& array, const std::vector<ir::Expr>& indices) {
        if (array->shape.empty() || !are_plain(indices)) not_plain_.insert(array);
      });
    });
  }

  Beginnings find(const Stmt& body) {
    visit(body);
    return std::move(found_);
  }

 private:
  void visit(const Stmt& s) {
    if (auto* product = s.as<ir::Contraction>(); product && product->overwrites) return;
    path_.push_back(s);
    if (s.as<ir::Reduce>()) reduce(s);
    ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& child) { visit(child); }});
    path_.pop_back();
  }

  // The sum begins before the outermost loop inside of which its target stays the same.
  void reduce(const Stmt& s) {
    const ir::Reduce& sum = *s.as<ir::Reduce>();
    if (!cleared_.count(sum.array) || (sum.op != ir::ReduceOp::Add && sum.op != ir::ReduceOp::Mul)) return;
    Stmt begin = s;
    for (auto outer = path_.rbegin(); outer != path_.rend(); ++outer) {
      if (auto* loop = outer->as<ir::For>()) {
        if (is_in(sum.indices, loop->iterator)) break;
        begin = *outer;
      } else if (outer->kind() == ir::Kind::While) {
        break;
      } else if (auto* branch = outer->as<ir::If>(); branch && has_load(branch->condition)) {
        return;  // where data decides, the array has to be cleared anyway
      } else if (auto* scope = outer->as<ir::Allocate>()) {
        if (scope->array == sum.array) break;
      }
    }
    if (which_ == Which::Single && (!begin.same_as(s) || not_plain_.count(sum.array))) return;
    // Of several sums into one element in one loop body, only the first can be a beginning.
    const ir::StmtNode* loop = loop_around(begin);
    for (const ir::Reduce* earlier : sums_in_[loop]) {
      if (earlier->array == sum.array && ir::equal(earlier->indices, sum.indices)) return;
    }
    sums_in_[loop].push_back(&sum);
    const ir::For* continuing = loop_that_continues(sum, begin);
    if (!continuing) return found_[begin.get()].push_back({s});
    // A choice by step is no single assignment: it would tie to its steps a sum that still is to be gathered over them.
    if (which_ == Which::All && begin.same_as(s) && are_steps(*continuing, sum.array))
      found_[begin.get()].push_back({s, continuing});
  }

  // Whether iterations of a loop are steps, which need what earlier ones left in other arrays: such loops stay around
  // the sum, and others may change places with the loops inside, where the sum must be recognised as one.
  bool are_steps(const ir::For& loop, const ir::Array& target) const {
    if (loop.mode == ir::LoopMode::Parallel || inside_of_contraction()) return false;
    std::set<ir::Array> own, stored, loaded;
    ir::walk(
        loop.body,
        [&](const Stmt& s) {
          if (auto* scope = s.as<ir::Allocate>()) own.insert(scope->array);
          for_each_store(s, [&](const ir::Array& array, const auto&) { stored.insert(array); });
        },
        [&](const ir::Expr& e) {
          if (auto* load = e.as<ir::Load>()) loaded.insert(load->array);
        });
    return std::any_of(stored.begin(), stored.end(), [&](const ir::Array& array) {
      return array != target && !own.count(array) && loaded.count(array);
    });
  }

  bool inside_of_contraction() const {
    return std::any_of(path_.begin(), path_.end(),
                       [](const Stmt& outer) { return outer.kind() == ir::Kind::Contraction; });
  }

  // The loop around the beginning that surely goes on with the sums of its earlier iterations, if there is one: all of
  // them add to the same elements, and nothing in it clears them. Then only its first iteration may begin sums.
  const ir::For* loop_that_continues(const ir::Reduce& sum, const Stmt& begin) const {
    bool outside = false;
    std::vector<ir::Expr> deciding = sum.indices;  // what the elements added to depend on
    for (auto outer = path_.rbegin(); outer != path_.rend(); ++outer) {
      auto* scope = outer->as<ir::Allocate>();
      if (outer->kind() == ir::Kind::If || (scope && scope->array == sum.array)) return nullptr;
      if (auto* loop = outer->as<ir::For>()) {
        if (outside && !is_in(deciding, loop->iterator) && !is_cleared_in(*outer, sum.array)) return loop;
        deciding.insert(deciding.end(), {loop->lower, loop->upper});
        if (loop->at_most) deciding.push_back(loop->at_most);
      }
      outside |= outer->same_as(begin);
    }
    return nullptr;
  }

  static bool is_cleared_in(const Stmt& loop, const ir::Array& array) {
    bool cleared = false;
    ir::walk_stmts(loop, [&](const Stmt& s) {
      auto* assign = s.as<ir::Assign>();
      cleared |= assign && assign->array == array;
    });
    return cleared;
  }

  const ir::StmtNode* loop_around(const Stmt& inner) const {
    const ir::StmtNode* loop = nullptr;
    for (const Stmt& s : path_) {
      if (s.same_as(inner)) break;
      if (s.kind() == ir::Kind::For || s.kind() == ir::Kind::While) loop = s.get();
    }
    return loop;
  }

  static bool is_in(const std::vector<ir::Expr>& expressions, const ir::Symbol& iterator) {
    return std::any_of(expressions.begin(), expressions.end(),
                       [&](const ir::Expr& e) { return mentions(e, iterator); });
  }

  const Which which_;
  std::set<ir::Array> cleared_, not_plain_;
  std::vector<Stmt> path_;
  std::map<const ir::StmtNode*, std::vector<const ir::Reduce*>>
      sums_in_;  // by the innermost loop around their beginning
  Beginnings found_;
};

// `x += 0` where a sum may begin: array dataflow tells what x holds there.
struct Probes {
  StmtSet all;
  std::map<const ir::StmtNode*, std::pair<const ir::StmtNode*, ir::Expr>> of_first_step;  // of sums: probe, `is_later`
};

Stmt with_probes(const Stmt& body, const Beginnings& beginnings, Probes& probes) {
  class Inserter final : public ir::Rewriter {
   public:
    Inserter(const Beginnings& beginnings, Probes& probes) : beginnings_(beginnings), probes_(probes) {}
    using Rewriter::rewrite;
    Stmt rewrite(const Stmt& s) override {
      Stmt result = rewrite_children(s);
      auto found = beginnings_.find(s.get());
      if (found == beginnings_.end()) return result;
      std::vector<Stmt> block;
      for (const Beginning& beginning : found->second) {
        const ir::Reduce& node = *beginning.sum.as<ir::Reduce>();
        const Stmt probe = ir::reduce(node.array, node.indices, node.op, neutral(node), node.location);
        probes_.all.insert(probe.get());
        block.push_back(probe);
        if (!beginning.steps) continue;
        const ir::Expr later = is_later(*beginning.steps);
        block.back() = ir::if_then(ir::unary(ir::UnaryOp::Not, later), probe);
        probes_.of_first_step[result.get()] = {probe.get(), later};
      }
      block.push_back(result);
      return ir::block(std::move(block));
    }

   private:
    const Beginnings& beginnings_;
    Probes& probes_;
  };
  return Inserter(beginnings, probes).rewrite(body);
}

bool adds_to_neutral(const Model& model, int number) {
  const Statement& sum = model.statements[static_cast<std::size_t>(number)];
  poly::Dataflow flow = poly::last_writes(model, number, sum.accesses.back());
  return flow.exact && !flow.sources.empty() &&
         std::all_of(flow.sources.begin(), flow.sources.end(), [&](const poly::Source& source) {
           if (source.writer < 0) return false;
           return is_neutral(model.statements[static_cast<std::size_t>(source.writer)].stmt,
                             sum.stmt.as<ir::Reduce>()->op);
         });
}

// The probes that find the neutral element.
StmtSet successful(const Model& model, const StmtSet& probes) {
  StmtSet result;
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    const Statement& s = model.statements[k];
    if (!probes.count(s.stmt.get())) continue;
    try {
      model.context->restart_budget(budget_per_sum);
      if (!poly::guarded(*model.context, [&] { return adds_to_neutral(model, static_cast<int>(k)); })) continue;
      result.insert(s.stmt.get());
    } catch (const poly::BudgetError&) {
      continue;  // the sum stays
    }
  }
  return result;
}

// Whether anything but the sums reads what the array was cleared with: it has to be cleared all the same, and a choice
// in each step only costs.
bool is_read_as_cleared(const Model& model, const ir::Array& array, const StmtSet& probes) {
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    const Statement& s = model.statements[k];
    if (probes.count(s.stmt.get())) continue;
    for (const poly::Access& access : s.accesses) {
      if (access.array != array || access.kind != poly::AccessKind::Read) continue;
      const poly::Dataflow flow = poly::last_writes(model, static_cast<int>(k), access);
      for (const poly::Source& source : flow.sources) {
        if (source.writer >= 0 && clears(model.statements[static_cast<std::size_t>(source.writer)].stmt)) return true;
      }
    }
  }
  return false;
}

// Of sums that choose by step, those after which nothing needs the array cleared; all others.
StmtSet worth_it(const Model& model, const Probes& probes, StmtSet good) {
  std::map<std::int64_t, bool> known;
  for (const auto& [sum, probe] : probes.of_first_step) {
    if (!good.count(probe.first)) continue;
    const ir::Array& array = static_cast<const ir::Reduce*>(probe.first)->array;
    const auto [found, is_new] = known.try_emplace(array->id, true);
    if (is_new) {
      try {
        model.context->restart_budget(budget_per_sum);
        found->second = poly::guarded(*model.context, [&] { return is_read_as_cleared(model, array, probes.all); });
      } catch (const poly::BudgetError&) {
      }
    }
    if (found->second) good.erase(probe.first);
  }
  return good;
}

// A contraction whose loops set every element to zero first no longer needs its old result.
Stmt with_own_zeros(const ir::Contraction& n, Stmt loops) {
  bool clears = n.overwrites;
  ir::walk_stmts(loops, [&](const Stmt& s) {
    auto* assign = s.as<ir::Assign>();
    clears |= assign && assign->array == n.c && is_neutral(s, ir::ReduceOp::Add);
  });
  ir::Contraction copy = n;
  copy.overwrites = clears;
  copy.loops = std::move(loops);
  return {std::make_shared<ir::Contraction>(std::move(copy))};
}

// Successful probes become assignments, the others go. What is for a first step chooses
// between what was there and the constant.
Stmt resolve(const Stmt& body, const Probes& probes, const StmtSet& good) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    if (auto* node = s.as<ir::Contraction>()) return with_own_zeros(*node, resolve(node->loops, probes, good));
    if (auto* branch = s.as<ir::If>(); branch && probes.all.count(branch->then_body.get())) return ir::block({});
    if (probes.all.count(s.get())) {
      const ir::Reduce& probe = *s.as<ir::Reduce>();
      return good.count(s.get()) ? ir::assign(probe.array, probe.indices, probe.value, probe.location) : ir::block({});
    }
    const auto own = probes.of_first_step.find(s.get());
    if (own == probes.of_first_step.end() || !good.count(own->second.first)) return std::nullopt;
    const ir::Reduce& sum = *s.as<ir::Reduce>();
    const ir::Expr before = ir::select(own->second.second, ir::load(sum.array, sum.indices), neutral(sum));
    return ir::block({ir::assign(sum.array, sum.indices, before, sum.location), s});
  });
}

ir::Program assign_sums(const ir::Program& program, PassContext& context, Which which) {
  Beginnings beginnings = BeginningFinder(program.body, which).find(program.body);
  if (beginnings.empty()) return program;
  try {
    Probes probes;
    ir::Program probed = ir::with_body(program, with_probes(program.body, beginnings, probes));
    const auto model = analyses(context).model_of(probed, probed.body);
    const StmtSet good = worth_it(*model, probes, successful(*model, probes.all));
    for (const ir::StmtNode* probe : good)
      context.started_sums.insert(static_cast<const ir::Reduce*>(probe)->array->id);
    if (good.empty()) return program;
    const ir::Program assigned = ir::with_body(program, resolve(probed.body, probes, good));
    return merge_updates(assigned, Updates::OfConstants);
  } catch (const poly::BudgetError&) {
    return program;
  }
}

}  // namespace

ir::Program assign_first_sums(const ir::Program& program, PassContext& context) {
  return assign_sums(merge_updates(program, Updates::OfConstants), context, Which::All);
}

ir::Program assign_single_sums(const ir::Program& program, PassContext& context) {
  return assign_sums(program, context, Which::Single);
}

}  // namespace loopgrad::transforms
