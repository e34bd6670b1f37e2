#include "tape/segment_state.h"

#include "dsl/ir/rewriter.h"
#include "dsl/poly/dataflow.h"
#include "tape/parts.h"
#include "tape/slices.h"
#include "tape/stores.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

void add_reads(const Expr& e, std::set<Array>& to) {
  ir::walk(e, [&](const Expr& inner) {
    if (const auto* load = inner.as<ir::Load>()) to.insert(load->array);
  });
}

/// Which arrays each array is computed from, element by element or not.
class Flows {
 public:
  explicit Flows(const Stmt& s) {
    ir::walk_stmts(s, [&](const Stmt& child) {
      const Array* to = stored_array(child);
      if (!to) return;
      std::set<Array>& from = sources_[*to];
      const auto* assign = child.as<ir::Assign>();
      add_reads(assign ? assign->value : child.as<ir::Reduce>()->value, from);
      for (const Expr& index : stored_indices(child)) add_reads(index, from);
    });
  }

  /// `arrays` and all that is computed from them.
  std::set<Array> reached_from(std::set<Array> arrays) const {
    for (bool more = true; more;) {
      more = false;
      for (const auto& [to, from] : sources_)
        if (std::any_of(from.begin(), from.end(), [&](const Array& a) { return arrays.count(a) != 0; }))
          more |= arrays.insert(to).second;
    }
    return arrays;
  }

  /// Whether the array is computed from itself through scalars alone, or at once.
  bool is_carried(const Array& array) const {
    std::set<Array> seen;
    std::vector<Array> pending = {array};
    while (!pending.empty()) {
      const auto from = sources_.find(pending.back());
      pending.pop_back();
      if (from == sources_.end()) continue;
      for (const Array& source : from->second) {
        if (source == array) return true;
        if (source->shape.empty() && seen.insert(source).second) pending.push_back(source);
      }
    }
    return false;
  }

  const std::map<Array, std::set<Array>>& sources() const { return sources_; }

 private:
  std::map<Array, std::set<Array>> sources_;
};

}  // namespace

std::set<Array> needed_arrays(const Stmt& forward, const Stmt& backward, const std::set<Array>& written) {
  std::set<Array> needed = outer_arrays(backward).read;
  const auto is_left_out = [&](const Array& array) { return written.count(array) && !needed.count(array); };
  for (std::size_t before = 0; before != needed.size();) {
    before = needed.size();
    ir::walk_stmts(forward, [&](const Stmt& s) {
      const Array* to = stored_array(s);
      if (to && is_left_out(*to)) return;
      ir::for_each_child(s, ir::overloaded{[&](const Expr& e) { add_reads(e, needed); }, [](const Stmt&) {}});
    });
  }
  std::set<Array> result;
  std::set_intersection(needed.begin(), needed.end(), written.begin(), written.end(),
                        std::inserter(result, result.end()));
  return result;
}

Stmt without_stores(const Stmt& s, const std::set<Array>& to) {
  return ir::rewrite(
      s, [](const Expr& e) -> std::optional<Expr> { return e; },
      [&](const Stmt& child) -> std::optional<Stmt> {
        const Array* stored = stored_array(child);
        if (stored && to.count(*stored)) return ir::block({});
        return std::nullopt;
      });
}

std::set<Array> found_at_start(const ir::Program& program, const std::vector<ir::Symbol>& sizes, const Stmt& s,
                               const std::set<Array>& candidates) {
  ir::Program around = program;
  around.sizes.insert(around.sizes.end(), sizes.begin(), sizes.end());
  around.body = s;
  std::set<Array> result;
  try {
    const poly::Model model = poly::build_model(around, s, std::make_shared<poly::Context>());
    for (int k = 0; k < static_cast<int>(model.statements.size()); ++k) {
      for (const poly::Access& access : model.statements[static_cast<std::size_t>(k)].accesses) {
        if (access.kind == poly::AccessKind::Write || !candidates.count(access.array)) continue;
        if (result.count(access.array)) continue;
        const auto flow = poly::ask(model, poly::Dataflow{}, [&] { return poly::last_writes(model, k, access); });
        const bool own = flow.exact && std::all_of(flow.sources.begin(), flow.sources.end(),
                                                   [](const poly::Source& source) { return source.writer >= 0; });
        if (!own) result.insert(access.array);
      }
    }
  } catch (const poly::BudgetError&) {
    return candidates;
  }
  return result;
}

Array inexact_control(const Stmt& s) {
  const Flows flows(s);
  std::set<Array> inexact;
  ir::walk_stmts(s, [&](const Stmt& child) {
    const auto* sum = child.as<ir::Reduce>();
    const bool rounds = sum && (sum->op == ir::ReduceOp::Add || sum->op == ir::ReduceOp::Mul);
    if (rounds && is_float(sum->array->type)) inexact.insert(sum->array);
  });
  for (const auto& [array, from] : flows.sources())
    if (is_float(array->type) && flows.is_carried(array)) inexact.insert(array);
  inexact = flows.reached_from(std::move(inexact));

  Array found;
  const auto look = [&](const Expr& e, bool decides) {
    for_each_read(e, decides, [&](const Expr& read, bool for_control) {
      const Array& array = read.as<ir::Load>()->array;
      if (for_control && !found && inexact.count(array)) found = array;
      return true;
    });
    ir::walk(e, [&](const Expr& inner) {
      const auto* extremum = inner.as<ir::Binary>();
      if (!extremum || (extremum->op != ir::BinaryOp::Min && extremum->op != ir::BinaryOp::Max)) return;
      std::set<Array> operands;
      add_reads(inner, operands);
      for (const Array& array : operands)
        if (!found && inexact.count(array)) found = array;
    });
  };
  ir::walk_stmts(s, [&](const Stmt& child) {
    const auto* reduce = child.as<ir::Reduce>();
    const bool extremum = reduce && (reduce->op == ir::ReduceOp::Min || reduce->op == ir::ReduceOp::Max);
    const bool stores = stored_array(child) != nullptr;
    ir::for_each_child(child,
                       ir::overloaded{[&](const Expr& e) { look(e, !stores || extremum || !is_float(e.type())); },
                                      [](const Stmt&) {}});
  });
  return found;
}

}  // namespace loopgrad::tape
