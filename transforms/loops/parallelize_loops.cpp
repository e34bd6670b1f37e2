#include "transforms/loops/parallelize_loops.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"

#include <fmt/format.h>

#include <set>

namespace loopgrad::transforms {

using ir::LoopMode;
using ir::Stmt;
using poly::Conflict;

namespace {

/// "s += sin(x[i])" for `s = s + sin(x[i])`, a sum that is written as an assignment and so keeps its order; nullopt for
/// other statements.
std::optional<std::string> as_sum(const Stmt& s) {
  const auto* assign = s.as<ir::Assign>();
  const auto* value = assign ? assign->value.as<ir::Binary>() : nullptr;
  if (!value) return std::nullopt;
  const auto is_old = [&](const ir::Expr& e) {
    const auto* load = e.as<ir::Load>();
    return load && load->array == assign->array && ir::equal(load->indices, assign->indices);
  };
  const bool commutes = value->op == ir::BinaryOp::Add || value->op == ir::BinaryOp::Mul;
  if (!commutes && value->op != ir::BinaryOp::Sub) return std::nullopt;
  const bool first = is_old(value->a);
  if (!first && !(commutes && is_old(value->b))) return std::nullopt;
  const ir::Expr& term = first ? value->b : value->a;
  if (uses(term, assign->array)) return std::nullopt;
  const char* sign = value->op == ir::BinaryOp::Add ? "+=" : value->op == ir::BinaryOp::Sub ? "-=" : "*=";
  return fmt::format("{} {} {}", ir::print(ir::load(assign->array, assign->indices)), sign, ir::print(term));
}

class Parallelizer {
 public:
  Parallelizer(const ir::Program& program, PassContext& context) : program_(program), context_(context) {}

  Stmt run() {
    Stmt body = visit(program_.body, false);
    return atomic_.empty() ? body : make_atomic(body);
  }

 private:
  // `inside`: within a loop that was just marked or was marked before.
  Stmt visit(const Stmt& s, bool inside) {
    if (!s) return s;
    if (auto* node = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : node->body) body.push_back(visit(child, inside));
      return ir::block(std::move(body));
    }
    if (auto* node = s.as<ir::Allocate>()) return ir::allocate(node->array, visit(node->body, inside), node->location);
    if (auto* node = s.as<ir::If>()) {
      return ir::if_then(node->condition, visit(node->then_body, inside), visit(node->else_body, inside),
                         node->location);
    }
    if (auto* node = s.as<ir::Contraction>()) return ir::with_loops(*node, visit(node->loops, inside));
    if (auto* node = s.as<ir::While>()) {
      decide(node->iterator.name, s, false, "the number of trips is known only by running them");
      return ir::while_loop(node->iterator, node->max_trips, node->condition, visit(node->body, inside),
                            node->location);
    }
    if (auto* node = s.as<ir::For>()) {
      bool parallel =
          node->mode == LoopMode::Parallel
              ? decide(node->iterator.name, s, true, "blocks of iterations with partial results of their own")
              : can_run_in_parallel(s, *node, inside);
      if (parallel && !inside) note_sums_without_plan(s, node->iterator.name);
      Stmt body = visit(node->body, inside || parallel);
      if (model_root_.same_as(s)) model_root_ = {};
      return ir::for_loop(node->iterator, node->lower, node->upper, body, parallel ? LoopMode::Parallel : node->mode,
                          node->location, node->at_most);
    }
    return s;
  }

  bool can_run_in_parallel(const Stmt& loop, const ir::For& node, bool inside) {
    if (const Legality stay = bounds_stay(program_, loop); !stay.ok)
      return decide(node.iterator.name, loop, false, stay.why());
    try {
      const Analyses::Model model = model_around(loop);
      bool atomics = context_.options.mode == SumMode::Atomic && !inside;
      auto search = atomics ? poly::Search::UntilNotASum : poly::Search::UntilAny;
      const std::vector<Conflict>& conflicts = analyses(context_).carried_by(model, loop, search);
      if (conflicts.empty()) {
        return decide(node.iterator.name, loop, true, "no iteration touches what another one changes");
      }
      const Conflict& last = conflicts.back();
      if (atomics && last.sum) {
        note_atomic_sums(*model, conflicts);
        return decide(node.iterator.name, loop, true, "iterations share sums only, which are atomic");
      }
      note_sums_in_order(*model, last);
      return decide(node.iterator.name, loop, false,
                    std::string(last.sum ? "a sum is shared: " : "") + describe(*model, last));
    } catch (const poly::BudgetError& e) {
      context_.report.remarks.push_back({"loop '" + node.iterator.name + "': " + e.info().message, loop->location});
      return decide(node.iterator.name, loop, false, e.info().message);
    }
  }

  // The model of the outermost loop around `loop`, which serves all loops in it.
  Analyses::Model model_around(const Stmt& loop) {
    const Stmt root = model_root_ ? model_root_ : loop;
    const Analyses::Model result = analyses(context_).model_of(program_, root);
    model_root_ = root;
    return result;
  }

  bool decide(const std::string& name, const Stmt& loop, bool parallel, const std::string& reason) {
    context_.report.loops.push_back({name, loop->location, parallel, reason});
    return parallel;
  }

  // Whether there is a plan for some sum of that line.
  bool is_planned(const SourceLocation& line) const {
    return std::any_of(context_.plans.begin(), context_.plans.end(), [&](const SumPlan& plan) {
      return std::any_of(plan.sums.begin(), plan.sums.end(),
                         [&](const PlannedSum& sum) { return sum.where.str() == line.str(); });
    });
  }

  // What the plan for another sum does in the end.
  bool combines_partials(const ir::Reduce& sum) const {
    bool found = false;
    ir::walk(sum.value, [&](const ir::Expr& e) {
      const auto* load = e.as<ir::Load>();
      found |= load && context_.partials.count(load->array->id);
    });
    return found;
  }

  // Whether a sum into a local of an iteration has several terms: some loop inside of its scope, which is within
  // `outside` loops and conditions, goes on with the same element.
  static bool has_several_terms(const ir::Reduce& sum, const std::vector<Stmt>& around, std::size_t outside) {
    return std::any_of(around.begin() + static_cast<std::ptrdiff_t>(outside), around.end(), [&](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      return s.kind() == ir::Kind::While ||
             (loop && std::none_of(sum.indices.begin(), sum.indices.end(),
                                   [&](const ir::Expr& index) { return mentions(index, loop->iterator); }));
    });
  }

  // Sums in a parallel loop that no plan was needed for.
  void note_sums_without_plan(const Stmt& loop, const std::string& name) {
    std::map<ir::Array, std::size_t> own;  // how many loops and conditions are around a local
    for (const LocalArray& local : locals_of(loop)) own[local.array] = local.around.size();
    const auto around = surroundings(loop);
    for (const Stmt& leaf : leaves(loop)) {
      auto* sum = leaf.as<ir::Reduce>();
      if (!sum || atomic_.count(leaf.get())) continue;
      const bool is_own = own.count(sum->array) > 0;
      if (is_own && !has_several_terms(*sum, around.at(leaf.get()), own.at(sum->array))) continue;
      // Copies of nests have copies of the program's locals; partial results are of sums on the same line.
      const bool is_new = context_.introduced.count(sum->array->id) > 0;
      if (is_new && (!is_own || is_planned(sum->location))) continue;
      if (combines_partials(*sum)) continue;
      if (has_plan(context_, *sum)) continue;
      add_plan(context_, {{planned(*sum)},
                          Strategy::None,
                          Level::None,
                          is_own ? "each iteration of the parallel loop '" + name + "' has its own"
                                 : "each element is summed in one iteration of the parallel loop '" + name + "'"});
    }
  }

  // Sums that the user has written as assignments, which nothing may reorder.
  void note_sums_in_order(const poly::Model& model, const Conflict& conflict) {
    for (const int index : {conflict.first, conflict.second}) {
      const Stmt& s = model.statements[static_cast<std::size_t>(index)].stmt;
      const auto sum = as_sum(s);
      if (!sum || !noted_.insert({s->location.file, s->location.line}).second) continue;
      context_.report.remarks.push_back(
          {fmt::format("an assignment keeps the order of its terms: written '{}', they may be shared out", *sum),
           s->location});
    }
  }

  void note_atomic_sums(const poly::Model& model, const std::vector<Conflict>& conflicts) {
    for (const Conflict& conflict : conflicts) {
      for (int index : {conflict.first, conflict.second}) {
        const Stmt& s = model.statements[static_cast<std::size_t>(index)].stmt;
        if (!atomic_.insert(s.get()).second) continue;
        add_plan(context_, {{planned(*s.as<ir::Reduce>())},
                            Strategy::Atomic,
                            Level::None,
                            "several iterations of a parallel loop add to one element"});
      }
    }
  }

  Stmt make_atomic(const Stmt& body) const {
    return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (!atomic_.count(s.get())) return std::nullopt;
      const ir::Reduce& node = *s.as<ir::Reduce>();
      return ir::reduce(node.array, node.indices, node.op, node.value, node.location, true);
    });
  }

  const ir::Program& program_;
  PassContext& context_;
  std::set<const ir::StmtNode*> atomic_;
  std::set<std::pair<std::string, std::uint32_t>> noted_;  // lines
  Stmt model_root_;                                        // the outermost loop around the current one
};

}  // namespace

ir::Program parallelize_loops(const ir::Program& program, PassContext& context) {
  return ir::with_body(program, Parallelizer(program, context).run());
}

}  // namespace loopgrad::transforms
