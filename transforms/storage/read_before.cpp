#include "transforms/storage/read_before.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/storage/copy_before.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/storage/take_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr int most_rounds = 64;                    // loops of one program
constexpr std::size_t most_leaves = 48;            // of a nest that is taken apart: quadratic in them
constexpr std::size_t most_leaves_of_copies = 16;  // where that is tried with copies that no iteration needs of another
constexpr unsigned long budget_per_read = 100'000;

/// Reads of a model, by the number of the statement and their place among its accesses.
using Reads = std::map<std::pair<int, const poly::Access*>, ReadOfNest>;

/// Whether each instance of the read sees what the element held before the region of the model.
bool sees_before(const poly::Model& model, int reader, const poly::Access& read) {
  for (int w = 0; w < static_cast<int>(model.statements.size()); ++w)
    for (const poly::Access& write : model.statements[static_cast<std::size_t>(w)].accesses) {
      if (write.kind == poly::AccessKind::Read || write.array != read.array) continue;
      model.context->restart_budget(budget_per_read);
      if (poly::may_follow(model, w, write, reader, read)) return false;
    }
  return true;
}

/// Arrays of which the nest reads other elements than it stores to, by the text of their indices.
std::set<Array> read_elsewhere(const Stmt& nest) {
  std::map<Array, std::vector<std::vector<Expr>>> stores;
  for (const Stmt& leaf : leaves(nest))
    for_each_store(leaf, [&](const Array& array, const std::vector<Expr>& at) { stores[array].push_back(at); });
  std::set<Array> result;
  ir::walk(
      nest, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        const auto found = load && !load->indices.empty() ? stores.find(load->array) : stores.end();
        if (found == stores.end()) return;
        for (const auto& at : found->second)
          if (!ir::equal(at, load->indices)) result.insert(load->array);
      });
  return result;
}

/// All reads of these arrays that see what was there before the nest.
Reads reads_before(const poly::Model& model, const std::set<Array>& arrays) {
  Reads result;
  for (std::size_t k = 0; k < model.statements.size(); ++k) {
    const poly::Statement& s = model.statements[k];
    if (s.stmt.kind() == ir::Kind::For || s.stmt.kind() == ir::Kind::While) continue;
    for (const poly::Access& access : s.accesses)
      if (access.load && arrays.count(access.array) && sees_before(model, static_cast<int>(k), access))
        result[{static_cast<int>(k), &access}] = {s.stmt, access.load, s.loops};
  }
  return result;
}

/// What keeps a loop in order, besides sums.
struct Obstacles {
  Reads overwritten;    // such reads that are in conflict with writes
  bool others = false;  // conflicts of others
  bool of_one = false;  // among them, one of a statement with itself, which no loops of their own remove
};

Obstacles obstacles(const std::vector<poly::Conflict>& conflicts, const Reads& reads) {
  Obstacles result;
  for (const poly::Conflict& conflict : conflicts) {
    if (conflict.sum) continue;
    auto read = reads.find({conflict.first, conflict.a});
    if (read == reads.end()) read = reads.find({conflict.second, conflict.b});
    const bool other = read == reads.end();
    if (!other) result.overwritten.insert(*read);
    result.others |= other;
    result.of_one |= other && conflict.first == conflict.second;
  }
  return result;
}

std::vector<Stmt> loops_in(const Stmt& nest) {
  std::vector<Stmt> result;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    if (s.kind() == ir::Kind::For) result.push_back(s);
  });
  return result;
}

bool are_same(const std::vector<Stmt>& a, const std::vector<Stmt>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Stmt& x, const Stmt& y) { return x.same_as(y); });
}

/// Scalars that only hold an element of one of the copies are that element: parts of the nest then share none.
Stmt without_names(const Stmt& nest, const std::set<Array>& copies) {
  std::map<Array, std::vector<Stmt>> stores;
  for (const Stmt& leaf : leaves(nest))
    for_each_store(leaf, [&](const Array& array, const std::vector<Expr>&) { stores[array].push_back(leaf); });
  const auto around = surroundings(nest);
  std::map<Array, Expr> values;
  for (const LocalArray& local : locals_of(nest)) {
    const auto found = stores.find(local.array);
    if (!local.array->shape.empty() || found == stores.end() || found->second.size() != 1) continue;
    const Stmt& store = found->second.front();
    const auto* assign = store.as<ir::Assign>();
    const auto* load = assign ? assign->value.as<ir::Load>() : nullptr;
    if (load && copies.count(load->array) && are_same(loops_of(around.at(store.get())), loops_of(local.around)))
      values[local.array] = assign->value;
  }
  const auto on_expr = [&](const Expr& e) -> std::optional<Expr> {
    const auto* load = e.as<ir::Load>();
    const auto found = load ? values.find(load->array) : values.end();
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  const std::function<std::optional<Stmt>(const Stmt&)> on_stmt = [&](const Stmt& s) -> std::optional<Stmt> {
    if (const auto* assign = s.as<ir::Assign>(); assign && values.count(assign->array)) return ir::block({});
    const auto* scope = s.as<ir::Allocate>();
    return scope && values.count(scope->array) ? std::optional(ir::rewrite(scope->body, on_expr, on_stmt))
                                               : std::nullopt;
  };
  return ir::rewrite(nest, on_expr, on_stmt);
}

class Freer {
 public:
  Freer(const ir::Program& program, PassContext& context)
      : program_(program), context_(context), aliased_(ir::aliased_arrays(program)) {}

  ir::Program run() {
    for (int round = 0; round < most_rounds; ++round) {
      around_.clear();
      if (!step(program_.body)) break;
    }
    return program_;
  }

 private:
  /// Whether the program has changed: the first nest that can be freed.
  bool step(const Stmt& s) {
    if (ir::is_empty(s) || is_parallel_loop(s) || s.kind() == ir::Kind::Contraction) return false;
    const bool is_loop = s.kind() == ir::Kind::For || s.kind() == ir::Kind::While;
    if (s.kind() == ir::Kind::For) {
      const auto [changed, goes_on] = consider(s);
      if (changed || !goes_on) return changed;
    }
    if (is_loop) around_.push_back(s);
    bool changed = false;
    ir::for_each_child(
        s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { changed = changed || step(child); }});
    if (is_loop) around_.pop_back();
    return changed;
  }

  struct Outcome {
    bool changed = false, goes_on = true;
  };

  /// Goes on inside of loops that are in order.
  Outcome consider(const Stmt& nest) {
    if (const auto known = tried_.find(nest.get()); known != tried_.end()) return known->second.second;
    Outcome outcome;
    try {
      outcome = freed(nest);
    } catch (const poly::BudgetError&) {
    }
    if (!outcome.changed) tried_.emplace(nest.get(), std::pair(nest, outcome));
    return outcome;
  }

  Outcome freed(const Stmt& nest) {
    const auto& loop = *nest.as<ir::For>();
    const std::set<Array> arrays = copyable(read_elsewhere(nest), nest);
    if (arrays.empty() || iterations_of(nest) < static_cast<double>(context_.options.machine.least_scanned))
      return {false, false};
    const Analyses::Model model = analyses(context_).model_of(program_, nest);
    const bool in_order = is_in_order(nest, model);
    if (has_contraction(nest) || ir::uses_stack(nest) || ir::has_load(loop.lower) || ir::has_load(loop.upper))
      return {false, in_order};
    if (in_order) return {!is_enough(width_of(nest, model)) && free(nest, nest, model, arrays), true};
    for (const Stmt& inner : loops_in_order(nest, model, 1))
      if (free(nest, inner, model, arrays)) return {true};
    return {false, false};
  }

  /// Those of which a copy can be made in front of the nest.
  std::set<Array> copyable(std::set<Array> arrays, const Stmt& nest) const {
    for (const LocalArray& local : locals_of(nest)) arrays.erase(local.array);
    std::erase_if(arrays, [&](const Array& array) { return array->shape.empty() || aliased_.count(array) > 0; });
    return arrays;
  }

  double trips_of(const ir::For& loop) const {
    return std::max(1.0, SizeEstimator(program_, context_.options.expected_sizes).trips_of(loop.lower, loop.upper, {}));
  }

  /// Iterations that run side by side in each iteration of loops in order, by estimate.
  double width_of(const Stmt& s, const Analyses::Model& model) {
    double most = 1;
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                         [&](const Stmt& child) {
                                           double width = width_of(child, model);
                                           const auto* loop = child.as<ir::For>();
                                           if (loop && !is_in_order(child, model)) width *= trips_of(*loop);
                                           most = std::max(most, width);
                                         }});
    return most;
  }

  bool is_in_order(const Stmt& loop, const Analyses::Model& model) {
    return !analyses(context_).carried_by(model, loop, poly::Search::SkipSums).empty();
  }

  bool is_enough(double iterations) const {
    return iterations >= static_cast<double>(context_.options.machine.enough_threads);
  }

  /// By estimate, of the largest nest in it.
  double iterations_of(const Stmt& nest) const {
    double most = 0;
    for (const auto& [leaf, around] : surroundings(nest)) {
      double all = 1;
      for (const Stmt& s : around)
        if (const auto* loop = s.as<ir::For>()) all *= trips_of(*loop);
      most = std::max(most, all);
    }
    return most;
  }

  /// Those in a parallel nest, where its iterations, times `rows`, are too few for the machine: the outermost.
  std::vector<Stmt> loops_in_order(const Stmt& nest, const Analyses::Model& model, double rows) {
    const auto& loop = *nest.as<ir::For>();
    rows *= trips_of(loop);
    if (is_enough(rows)) return {};
    std::vector<Stmt> result;
    const std::function<void(const Stmt&)> look = [&](const Stmt& s) {
      if (s.kind() == ir::Kind::For) {
        if (is_in_order(s, model)) {
          if (!is_enough(rows * width_of(s, model))) result.push_back(s);
          return;
        }
        const auto inner = loops_in_order(s, model, rows);
        result.insert(result.end(), inner.begin(), inner.end());
      } else if (s.kind() != ir::Kind::While) {
        ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, look});
      }
    };
    if (!ir::is_empty(loop.body)) look(loop.body);
    return result;
  }

  /// `loop` in `nest`, or all of it, by copies in front of the nest.
  bool free(const Stmt& nest, const Stmt& loop, const Analyses::Model& model, const std::set<Array>& arrays) {
    const Reads reads = reads_before(*model, arrays);
    const std::size_t statements = leaves(nest).size();
    const bool may_copy_more = statements <= most_leaves_of_copies;
    if (reads.empty() && !may_copy_more) return false;
    Obstacles found = obstacles(analyses(context_).carried_by(model, loop, poly::Search::All), reads);
    if (found.of_one || (found.others && statements > most_leaves)) return false;
    if (!found.overwritten.empty()) {
      for (const Stmt& inner : loops_in(nest))  // which the same copies may free
        found.overwritten.merge(
            obstacles(analyses(context_).carried_by(model, inner, poly::Search::All), reads).overwritten);
      if (free(nest, loop, found.overwritten, found.others)) return true;
    }
    if (!found.others || !may_copy_more) return false;
    // What an iteration overwrites itself keeps its statements together.
    const Reads all = reads_before(*model, copyable(stored_in(nest), nest));
    return all.size() > found.overwritten.size() && free(nest, loop, all, true);
  }

  bool free(const Stmt& nest, const Stmt& loop, const Reads& reads, bool apart) {
    std::vector<ReadOfNest> moved;
    for (const auto& [place, read] : reads) moved.push_back(read);
    const auto copies = copies_before(program_, nest, around_, moved);
    if (!copies) return false;
    Stmt result = reading_copies(nest, moved, *copies);
    if (apart && !(result = taken_apart(nest, loop, result, *copies))) return false;
    std::vector<Stmt> list;
    for (const CopyBefore& copy : *copies)
      if (copy.fill) list.push_back(copy.fill);
    list.push_back(result);
    result = ir::block(std::move(list));
    for (const CopyBefore& copy : *copies) {
      if (!copy.fill) continue;
      context_.introduced.insert(copy.array->id);
      result = ir::allocate(copy.array, result, copy.array->location);
    }
    note(*loop.as<ir::For>(), moved);
    program_ = ir::with_body(program_, replace(program_.body, nest, result));
    return true;
  }

  Stmt taken_apart(const Stmt& nest, const Stmt& loop, const Stmt& reading, const std::vector<CopyBefore>& copies) {
    std::set<Array> arrays;
    for (const CopyBefore& copy : copies) arrays.insert(copy.array);
    const Stmt now = without_names(reading, arrays);
    const ir::Program program = ir::with_body(program_, replace(program_.body, nest, now));
    return take_apart(program, now, loop.as<ir::For>()->iterator, context_);
  }

  void note(const ir::For& loop, const std::vector<ReadOfNest>& moved) {
    std::string names;
    std::set<Array> named;
    for (const ReadOfNest& read : moved) {
      const Array& array = read.load.as<ir::Load>()->array;
      if (named.insert(array).second) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", array->name);
    }
    context_.report.remarks.push_back(
        {fmt::format("loop '{}' overwrites elements of {} that its iterations read: they read a copy from before it, "
                     "and need not wait for each other",
                     loop.iterator.name, names),
         loop.location});
  }

  ir::Program program_;
  PassContext& context_;
  const std::set<Array> aliased_;
  std::vector<Stmt> around_;  // loops around where `step` is
  std::map<const ir::StmtNode*, std::pair<Stmt, Outcome>> tried_;
};

}  // namespace

ir::Program read_before(const ir::Program& program, PassContext& context) {
  const LowerOptions& options = context.options;
  if (!options.machine.least_scanned || options.by_hand || !options.schedule.empty()) return program;
  return Freer(program, context).run();
}

}  // namespace loopgrad::transforms
