#include "transforms/sums/contractions/recognize_contractions.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/loops/fission.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/sums/contractions/kept_locals.h"
#include "transforms/sums/contractions/match.h"

#include <fmt/format.h>
#include <loopgrad/schedule.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

constexpr double slower_by_loops = 8;  // than by the machine's operations
// Of parallel loops, that a call in an iteration which could run alone has to take.
constexpr double starts_of_call = 4;
constexpr int most_rounds = 4;  // in which locals are found that products in a nest need to be kept

struct Candidate {
  Stmt leaf;
  ContractionMatch match;
};

/// The loops of a perfect nest down to its only leaf; empty when something else is around that.
std::vector<const ir::For*> perfect_loops(Stmt nest) {
  std::vector<const ir::For*> loops;
  for (; nest.kind() == ir::Kind::For; nest = nest.as<ir::For>()->body) loops.push_back(nest.as<ir::For>());
  return nest.kind() == ir::Kind::Reduce ? loops : std::vector<const ir::For*>{};
}

class Recognizer {
 public:
  Recognizer(const ir::Program& program, PassContext& context) : program_(program), context_(context) {}

  Stmt visit(const Stmt& s) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      auto* loop = child.as<ir::For>();
      return loop ? std::optional(nest(child, *loop)) : std::nullopt;
    });
  }

 private:
  Stmt nest(const Stmt& s, const ir::For& loop) {
    if (!contains_loop(loop.body)) return s;
    const Stmt result = with_contractions(s);
    return result ? result : in_body(s);
  }

  Stmt in_body(const Stmt& s) {
    const ir::For& loop = *s.as<ir::For>();
    around_.push_back(s);
    const Stmt body = visit(loop.body);
    around_.pop_back();
    return with_body(loop, body);
  }

  /// The nest with its contractions on their own; null when none can be separated. Locals of the loops are kept for all
  /// iterations where that makes it possible: first those of the products; then what is used before and after them.
  Stmt with_contractions(const Stmt& s) {
    std::vector<ir::Array> locals = locals_of_products(program_, s, context_);
    const Said before = said();
    Said then = before;
    Stmt result;
    for (int round = 0; round < most_rounds; ++round) {
      std::vector<ir::Array> crossing;
      Stmt next = with_kept(s, locals, round == 0, crossing);
      if (!next && !result && !locals.empty()) {
        say(before);
        locals.clear();
        next = with_kept(s, locals, false, crossing);
      }
      if (next) result = next;
      if (next || locals.empty()) then = said();
      if (crossing.empty()) break;
      say(before);
      locals.insert(locals.end(), crossing.begin(), crossing.end());
    }
    say(then);
    return result;
  }

  /// The same with these locals, which have to help when they are `of_products`. `crossing`: gets further ones that
  /// pay.
  Stmt with_kept(const Stmt& s, const std::vector<ir::Array>& locals, bool of_products,
                 std::vector<ir::Array>& crossing) {
    if (locals.empty()) return alone(program_, s, {}, crossing);
    if (!may_help_products(s, locals)) return {};
    try {
      const auto expansion = expand_locals(program_, *analyses(context_).model_of(program_, s), s, locals);
      if (!expansion) return {};
      const ir::Program program = ir::with_body(program_, replace(program_.body, s, expansion->nest));
      const std::vector<ir::Array> needed = of_products ? expansion->arrays : std::vector<ir::Array>{};
      Stmt result = alone(program, expansion->nest, needed, crossing);
      if (!result) return {};
      for (const ir::Array& array : expansion->arrays) {
        context_.introduced.insert(array->id);
        result = ir::allocate(array, result, s->location);
      }
      const ir::Expr fits = fits_memory(program_, s, locals, expansion->arrays, context_);
      return fits ? ir::if_then(fits, result, ir::with_fresh_names(s), s->location) : result;
    } catch (const poly::BudgetError&) {
      return {};
    }
  }

  /// A nest of `program` with its contractions on their own, where one of them uses one of `needed`, if there are any.
  Stmt alone(const ir::Program& program, const Stmt& s, const std::vector<ir::Array>& needed,
             std::vector<ir::Array>& crossing) {
    const ir::For& loop = *s.as<ir::For>();
    const std::vector<Candidate> candidates = candidates_of(s, loop);
    const bool helps =
        needed.empty() || std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
          return std::any_of(needed.begin(), needed.end(),
                             [&](const auto& array) { return uses(candidate.leaf, array); });
        });
    return helps && !candidates.empty() ? distributed(program, s, loop, candidates, crossing) : Stmt();
  }

  /// Contractions that the loop is a part of.
  std::vector<Candidate> candidates_of(const Stmt& s, const ir::For& loop) {
    std::vector<Candidate> result;
    for (const Stmt& leaf : leaves(s)) {
      auto* sum = leaf.as<ir::Reduce>();
      if (!sum) continue;
      const Stmt alone = slice(s, {leaf.get()});
      const auto loops = perfect_loops(alone);
      if (loops.size() < 3) continue;
      Candidate candidate{leaf, match_contraction(program_, loops, *sum)};
      const auto& outside = candidate.match.outside;
      const bool part_of_it =
          std::none_of(outside.begin(), outside.end(), [&](const ir::For* f) { return f->iterator == loop.iterator; });
      if (!candidate.match.contraction) report(leaf, false, candidate.match.reason);
      else if (part_of_it && are_small_calls(s, leaf, candidate.match))
        report(leaf, false, "the loops outside of it add up products that are too small to be worth a call each");
      else if (part_of_it && keeps_iterations_apart(s, leaf))
        report(leaf, false,
               "iterations of a loop around it can run side by side, and it is too small to keep them from that");
      else if (part_of_it) result.push_back(own(std::move(candidate)));
    }
    return result;
  }

  /// Whether loops outside of the product add to the same elements, one call after the other, as where a band's width
  /// depends on them, and loops over all elements would be done sooner.
  bool are_small_calls(const Stmt& s, const Stmt& leaf, const ContractionMatch& match) const {
    const auto& indices = leaf.as<ir::Reduce>()->indices;
    const auto is_summed = [&](const ir::For* loop) {
      return std::none_of(indices.begin(), indices.end(),
                          [&](const ir::Expr& index) { return mentions(index, loop->iterator); });
    };
    if (std::none_of(match.outside.begin(), match.outside.end(), is_summed)) return false;
    SizeEstimator sizes(program_, context_.options.expected_sizes);
    double calls = 1;
    for (const ir::For* loop : match.outside) calls *= std::max(1.0, sizes.trips_of(loop->lower, loop->upper, {}));
    return us_by_loops(s, leaf) < calls * context_.options.machine.start_us;
  }

  /// By all threads.
  double us_by_loops(const Stmt& s, const Stmt& leaf) const {
    const Machine& machine = context_.options.machine;
    const double ns = slower_by_loops * (machine.ns_per_operation + 2 * machine.ns_per_access) /
                      static_cast<double>(machine.enough_threads);
    return instances_of(program_, s, leaf, context_) * ns / 1e3;
  }

  /// Whether a loop around the nest shares nothing, or nothing but sums, which may be restructured for its iterations
  /// to run side by side where there is no product in them that is done by all threads together.
  bool keeps_iterations_apart(const Stmt& s, const Stmt& leaf) const {
    if (us_by_loops(s, leaf) >= starts_of_call * context_.options.machine.start_us) return false;
    return std::any_of(around_.begin(), around_.end(), [&](const Stmt& loop) { return can_run_side_by_side(loop); });
  }

  bool can_run_side_by_side(const Stmt& loop) const {
    try {
      Analyses& known = analyses(context_);
      const auto& conflicts = known.carried_by(known.model_of(program_, loop), loop, poly::Search::UntilNotASum);
      return conflicts.empty() || conflicts.back().sum;
    } catch (const poly::BudgetError&) {
      return false;
    }
  }

  /// The loops outside belong to the slice, which does not outlive its caller otherwise.
  Candidate own(Candidate candidate) {
    Stmt around = candidate.match.contraction;
    if (candidate.match.zero_when) {
      const auto& n = *around.as<ir::Contraction>();
      around = ir::if_then(candidate.match.zero_when, ir::with_fresh_names(n.loops), around, n.location);
    }
    for (auto it = candidate.match.outside.rbegin(); it != candidate.match.outside.rend(); ++it)
      around = with_body(**it, around);
    candidate.match.outside.clear();
    candidate.match.contraction = around;
    return candidate;
  }

  /// The nest with each contraction on its own; null when none can be separated. `crossing`: gets the locals that keep
  /// one from it, where it pays to keep them.
  Stmt distributed(const ir::Program& program, const Stmt& s, const ir::For& loop,
                   const std::vector<Candidate>& candidates, std::vector<ir::Array>& crossing) {
    if (leaves(s).size() == 1) return accept(candidates.front());
    try {
      const LeafOrder order(*analyses(context_).model_of(program, s), s);
      std::vector<const Candidate*> chosen;
      std::vector<StmtSet> groups;
      for (const Candidate& candidate : candidates) {
        groups.push_back({candidate.leaf.get()});
        const auto parts = order.split(groups);
        const std::vector<ir::Array> shared = parts ? crossing_locals(s, *parts) : std::vector<ir::Array>{};
        if (parts && shared.empty()) {
          chosen.push_back(&candidate);
          continue;
        }
        groups.pop_back();
        const double multiplications = instances_of(program, s, candidate.leaf, context_);
        if (parts && pays_to_keep(program, s, shared, multiplications, context_))
          for (const ir::Array& array : shared)
            if (std::find(crossing.begin(), crossing.end(), array) == crossing.end()) crossing.push_back(array);
        report(candidate.leaf, false,
               parts ? "a local of the loop is shared with other statements" : "the loop also uses its result");
      }
      if (chosen.empty()) return {};
      std::vector<Stmt> code;
      const auto parts = order.split(groups);
      for (const NestPart& part : *parts) {
        Stmt piece =
            part.group >= 0 ? accept(*chosen[static_cast<std::size_t>(part.group)]) : in_body(slice(s, part.leaves));
        code.push_back(code.empty() ? piece : ir::with_fresh_names(piece));
      }
      return ir::block(std::move(code));
    } catch (const poly::BudgetError& e) {
      context_.report.remarks.push_back(
          {"loop '" + loop.iterator.name + "' is not searched for products of matrices: " + e.info().message,
           s->location});
      return {};
    }
  }

  Stmt accept(const Candidate& candidate) {
    const ir::Contraction* n = nullptr;
    ir::walk_stmts(candidate.match.contraction, [&](const Stmt& s) {
      if (auto* found = s.as<ir::Contraction>()) n = found;
    });
    std::string extents;
    for (std::size_t k = ir::as_int(n->extents[0]) == 1 ? 1 : 0; k < 4; ++k)
      extents += (extents.empty() ? "" : " x ") + ir::print(n->extents[k]);
    report(candidate.leaf, true,
           extents + " multiplications: where there is a library and they are many, else by loops");
    return candidate.match.contraction;
  }

  /// What the report and the plans have.
  struct Said {
    std::vector<ContractionDecision> contractions;
    std::vector<SumPlan> plans;
    std::map<const ir::StmtNode*, Stmt> reported;
  };
  Said said() const { return {context_.report.contractions, context_.plans, reported_}; }
  void say(const Said& said) {
    context_.report.contractions = said.contractions;
    context_.plans = said.plans;
    reported_ = said.reported;
  }

  /// The first word on a sum counts: it is about the most loops.
  void report(const Stmt& leaf, bool handed_over, const std::string& reason) {
    if (!reported_.emplace(leaf.get(), leaf).second) {
      if (!handed_over) return;
      std::erase_if(context_.report.contractions, [&](const ContractionDecision& d) {
        return !d.handed_over && d.where.str() == leaf->location.str() && d.sum == text_of(*leaf.as<ir::Reduce>());
      });
    }
    if (!handed_over && reason.empty()) return;
    if (handed_over)
      add_plan(context_, {.sums = {planned(*leaf.as<ir::Reduce>())},
                          .strategy = Strategy::Library,
                          .reason = reason,
                          .candidates = {{.strategy = Strategy::Library}}});
    context_.report.contractions.push_back({text_of(*leaf.as<ir::Reduce>()), leaf->location, handed_over, reason});
  }

  const ir::Program& program_;
  PassContext& context_;
  std::vector<Stmt> around_;                      // loops of the program, outermost first
  std::map<const ir::StmtNode*, Stmt> reported_;  // kept: other leaves must not get their addresses
};

}  // namespace

ir::Program recognize_contractions(const ir::Program& program, PassContext& context) {
  // Whoever schedules loops by hand means these loops.
  if (context.options.by_hand || !context.options.schedule.empty()) return program;
  const Stmt body = Recognizer(program, context).visit(program.body);
  return ir::with_body(program, body.same_as(program.body) ? body : absorb_fills(program, body));
}

}  // namespace loopgrad::transforms
