#include "transforms/sums/sum_groups.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/analyses.h"
#include "transforms/storage/expand_locals.h"
#include "transforms/storage/forward_locals.h"
#include "transforms/sums/improvable_sums.h"
#include "transforms/sums/keep_operands.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/strategies.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

bool SumGroup::is_apart() const { return strategy(plan.strategy).in_own_nest; }

bool SumGroup::stays() const { return !is_apart() && !strategy(plan.strategy).in_place; }

SumNest::SumNest(const ir::Program& program, const Stmt& nest, const NestRequest& request, PassContext& context,
                 bool by_partials)
    : original(program), original_nest(nest), request(request), context(context), by_partials(by_partials) {
  for (const auto& sums : request.shared) groups.push_back({sums[0].as<ir::Reduce>()->array, sums, sums});
  for (const Stmt& sum : improvable_sums(nest, request.shared, machine())) {
    groups.push_back({sum.as<ir::Reduce>()->array, {sum}, {sum}});
    groups.back().shared = false;
  }
  if (!groups.empty()) now = version_of(nest);
}

const LeafOrder& SumNest::leaf_order() {
  if (!order_) order_.emplace(now.model, now.nest);
  return *order_;
}

NestVersion SumNest::version_of(const Stmt& nest) const {
  NestVersion result{original, nest, {}};
  if (nest.get() != original_nest.get()) result.program.body = replace(original.body, original_nest, nest);
  result.model = *analyses(context).model_of(result.program, nest);
  return result;
}

Stmt SumNest::replaced(const std::map<const ir::StmtNode*, Stmt>& changed) const {
  return ir::rewrite(now.nest, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    auto found = changed.find(s.get());
    return found == changed.end() ? std::nullopt : std::optional(found->second);
  });
}

void SumNest::follow(const std::map<const ir::StmtNode*, Stmt>& changed) {
  for (SumGroup& group : groups) {
    for (Stmt& sum : group.sums) {
      if (auto found = changed.find(sum.get()); found != changed.end()) sum = found->second;
    }
  }
}

void SumNest::replace_leaves(const std::map<const ir::StmtNode*, Stmt>& changed) {
  if (changed.empty()) return;
  const Stmt nest = replaced(changed);
  follow(changed);
  set(version_of(nest));
}

void SumNest::set(NestVersion version) {
  now = std::move(version);
  order_.reset();
  can_be_expanded_.clear();
}

bool SumNest::keep_operands_of(SumGroup& group) {
  bool any = false;
  for (Stmt& sum : group.sums) {
    // As it was: what has been forwarded to it may be out of reach where the copies are made.
    const auto forwarded = before_forwarding_.find(sum.get());
    const Stmt before = forwarded == before_forwarding_.end() ? sum : forwarded->second;
    const auto kept = keep_operands(replace(now.nest, sum, before), before);
    if (!kept) continue;
    sum = kept->sum;
    set(version_of(kept->nest));
    any = true;
  }
  return any;
}

void SumNest::forward_locals_into_sums() {
  std::map<const ir::StmtNode*, Stmt> changed;
  for (const SumGroup& group : groups) {
    for (const Stmt& sum : group.sums) {
      Stmt next = forward_locals(now.model, now.nest, sum);
      if (next.same_as(sum)) continue;
      changed[sum.get()] = next;
      before_forwarding_[next.get()] = sum;
    }
  }
  replace_leaves(changed);
}

void SumNest::give_back_locals() {
  std::map<const ir::StmtNode*, Stmt> changed;
  for (const SumGroup& group : groups) {
    if (group.is_apart()) continue;
    for (const Stmt& sum : group.sums) {
      if (auto found = before_forwarding_.find(sum.get()); found != before_forwarding_.end())
        changed[sum.get()] = found->second;
    }
  }
  replace_leaves(changed);
}

namespace {

/// What an instance of a sum reads for its term, in a nest of its own.
struct TermReads {
  std::size_t elements = 0;  // different ones
  bool of_nest = false;      // some belong to locals of the nest, which have to be kept for it
};

TermReads reads_of(const Stmt& sum, const std::set<ir::Array>& locals) {
  TermReads result;
  std::vector<ir::Expr> seen;
  ir::walk(sum.as<ir::Reduce>()->value, [&](const ir::Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (!load || std::any_of(seen.begin(), seen.end(), [&](const ir::Expr& other) { return ir::equal(other, e); }))
      return;
    seen.push_back(e);
    result.of_nest |= locals.count(load->array) > 0;
  });
  result.elements = seen.size();
  return result;
}

/// Iterators of loops around the sum that choose one of its indices, and have no say in the others.
std::set<ir::Symbol> rows_of(const NestVersion& now, const Stmt& sum) {
  const std::vector<ir::Expr>& indices = sum.as<ir::Reduce>()->indices;
  if (ir::chooses_element(indices)) return {};
  std::map<ir::Array, std::set<ir::Symbol>> without_say;  // in the locals that choose
  for (const LocalArray& local : locals_of(now.nest))
    if (std::any_of(indices.begin(), indices.end(), [&](const ir::Expr& index) { return uses(index, local.array); }))
      without_say[local.array] = loops_without_say(now.program, now.nest, local.array);
  const auto decides = [&](const ir::Symbol& iterator, const ir::Expr& index) {
    return mentions(index, iterator) || std::any_of(without_say.begin(), without_say.end(), [&](const auto& local) {
             return uses(index, local.first) && !local.second.count(iterator);
           });
  };
  std::set<ir::Symbol> rows;
  const std::vector<Stmt> around = surroundings(now.nest).at(sum.get());
  for (const Stmt& s : around) {
    const auto* loop = s.as<ir::For>();
    const auto chooses = [&](const ir::Expr& index) { return !ir::has_load(index) && mentions(index, loop->iterator); };
    const auto has_say = [&](const ir::Expr& index) { return ir::has_load(index) && decides(loop->iterator, index); };
    if (loop && std::any_of(indices.begin(), indices.end(), chooses) &&
        std::none_of(indices.begin(), indices.end(), has_say))
      rows.insert(loop->iterator);
  }
  return rows;
}

/// Of what sums by segments read, the dimensions that are rows: each of these is read as a whole.
InnermostDimensions rows_read_by_segments(const NestVersion& now, const std::vector<SumGroup>& groups) {
  InnermostDimensions result;
  for (const SumGroup& group : groups) {
    if (group.plan.strategy != Strategy::Segments) continue;
    for (const Stmt& sum : group.sums) {
      const std::set<ir::Symbol> rows = rows_of(now, sum);
      ir::walk(sum.as<ir::Reduce>()->value, [&](const ir::Expr& e) {
        if (const auto* load = e.as<ir::Load>()) result[load->array].insert(rows.begin(), rows.end());
      });
    }
  }
  return result;
}

// Instances are read in the order of their targets, so that each element is a sector of memory: a term costs one, and a
// store beside others.
constexpr std::size_t few_reads = 2, many_reads = 5;

}  // namespace

void SumNest::keep_terms_of_segments() {
  std::set<ir::Array> locals;
  for (const LocalArray& local : locals_of(now.nest)) locals.insert(local.array);
  std::map<const ir::StmtNode*, Stmt> statements, sums;
  std::vector<ir::Array> terms;
  for (const SumGroup& group : groups) {
    if (group.plan.strategy != Strategy::Segments) continue;
    for (const Stmt& sum : group.sums) {
      if (!rows_of(now, sum).empty()) continue;  // these are read side by side
      const auto forwarded = before_forwarding_.find(sum.get());
      // The term as it was; what has been forwarded to the indices is where others may share their order.
      const auto& node = *sum.as<ir::Reduce>();
      const Stmt before =
          forwarded == before_forwarding_.end()
              ? sum
              : ir::reduce_like(node, node.array, node.indices, forwarded->second.as<ir::Reduce>()->value);
      const TermReads now_read = reads_of(sum, locals), then = reads_of(before, locals);
      if ((!now_read.of_nest && now_read.elements <= many_reads) || now_read.elements <= few_reads) continue;
      if (then.elements <= few_reads && then.elements < now_read.elements) {
        statements[sum.get()] = sums[sum.get()] = before;
        for (const ir::Array& local : locals)
          if (uses(before, local)) terms.push_back(local);
        continue;
      }
      const NamedTerm named = with_named_term(before);
      statements[sum.get()] = named.statement;
      sums[sum.get()] = named.sum;
      terms.push_back(named.term);
    }
  }
  if (statements.empty()) return;
  const NestVersion version = now;
  const std::vector<SumGroup> before = groups;
  const Stmt nest = replaced(statements);
  follow(sums);
  set(version_of(nest));
  if (expand_locals(now.program, now.model, now.nest, terms)) return;
  groups = before;
  set(version);
}

namespace {

/// The leaves of `before`, and what each has become in `after`.
std::map<const ir::StmtNode*, Stmt> leaf_by_leaf(const Stmt& before, const Stmt& after) {
  const std::vector<Stmt> from = leaves(before), to = leaves(after);
  std::map<const ir::StmtNode*, Stmt> result;
  for (std::size_t k = 0; k < from.size(); ++k) result[from[k].get()] = to[k];
  return result;
}

}  // namespace

/// Locals that do not depend on all loops are set before the nest, for those that they do depend on.
void SumNest::keep_before(const InvariantNest& invariant, KeptLocals& kept) const {
  const NestVersion version = version_of(invariant.nest);
  const auto expansion = expand_locals(version.program, version.model, version.nest, invariant.locals);
  if (!expansion) return;
  const std::vector<Stmt> before = leaves(version.nest), after = leaves(expansion->nest);
  for (std::size_t k = 0; k < before.size(); ++k) {
    for_each_store(before[k], [&](const ir::Array& local, const std::vector<ir::Expr>& own) {
      if (std::find(invariant.locals.begin(), invariant.locals.end(), local) == invariant.locals.end()) return;
      for_each_store(after[k], [&](const ir::Array& array, const std::vector<ir::Expr>& indices) {
        const auto rank = static_cast<std::ptrdiff_t>(indices.size() - own.size());
        kept.places[local] = {array, {indices.begin(), indices.begin() + rank}};
      });
    });
  }
  for (const ir::Array& array : expansion->arrays) {
    context.introduced.insert(array->id);
    kept.arrays.push_back(array);
  }
  kept.before.push_back(expansion->nest);
}

std::optional<KeptLocals> SumNest::expand(std::vector<NestPart>& parts, std::vector<ir::Array>& crossing) {
  crossing = crossing_locals(now.nest, parts);
  KeptLocals result;
  for (const InvariantNest& invariant : invariant_nests(now.program, now.nest, crossing))
    keep_before(invariant, result);
  std::vector<ir::Array> others;
  for (const ir::Array& local : crossing)
    if (!result.places.count(local)) others.push_back(local);
  if (others.empty()) return result;
  // Threads of a GPU that store them are side by side in other ways: what is best there has not been measured.
  const auto rows = machine().is_gpu() ? InnermostDimensions() : rows_read_by_segments(now, groups);
  const auto expansion = expand_locals(now.program, now.model, now.nest, others, rows);
  if (!expansion) return std::nullopt;
  const std::map<const ir::StmtNode*, Stmt> moved = leaf_by_leaf(now.nest, expansion->nest);
  for (NestPart& part : parts) {
    StmtSet next;
    for (auto* leaf : part.leaves) next.insert(moved.at(leaf).get());
    part.leaves = std::move(next);
  }
  follow(moved);
  for (const ir::Array& array : expansion->arrays) {
    context.introduced.insert(array->id);
    result.arrays.push_back(array);
  }
  now.nest = expansion->nest;
  can_be_expanded_.clear();
  return result;
}

Stmt SumNest::piece_of(const StmtSet& own, const KeptLocals& kept) {
  const Stmt piece = slice(now.nest, own);
  const std::set<ir::Array> stored = stored_in(piece);
  const auto is_read = [&](const ir::Array& array) { return kept.places.count(array) && !stored.count(array); };
  const Stmt reading = ir::move_elements(
      piece, [&](const ir::Array& array, const std::vector<ir::Expr>& indices) -> std::optional<ir::ElementPlace> {
        if (!is_read(array)) return std::nullopt;
        ir::ElementPlace place = kept.places.at(array);
        place.indices.insert(place.indices.end(), indices.begin(), indices.end());
        return place;
      });
  if (reading.same_as(piece)) return piece;
  follow(leaf_by_leaf(piece, reading));
  return slice(reading, set_of(leaves(reading)));  // without the locals
}

void SumNest::note_new_arrays(const Stmt& piece, const Stmt& code) {
  std::set<ir::Array> known;
  for (const LocalArray& local : locals_of(piece)) known.insert(local.array);
  for (const LocalArray& local : locals_of(code))
    if (!known.count(local.array)) note_partials(context, local.array);
}

bool SumNest::can_expand(const ir::Array& local) {
  const auto [known, is_new] = can_be_expanded_.try_emplace(local, false);
  if (is_new) known->second = expand_locals(now.program, now.model, now.nest, {local}).has_value();
  return known->second;
}

std::optional<std::string> obstacle_to_splitting(SumNest& nest, const SumGroup& group, std::vector<ir::Array>& kept) {
  const LeafOrder& order = nest.leaf_order();
  if (order.ordered_within(set_of(group.sums))) return "the sum reads elements that it changes";
  std::vector<StmtSet> separate;
  for (const SumGroup& other : nest.groups) {
    if (other.is_apart()) separate.push_back(set_of(other.sums));
  }
  separate.push_back(set_of(group.sums));
  const auto parts = order.split(separate);
  if (!parts) return "the loop also uses its result";
  auto crossing = crossing_locals(nest.now.nest, *parts);
  if (!crossing.empty() && !group.shared)
    return fmt::format("'{}' would have to be kept for all iterations", crossing[0]->name);
  if (!std::all_of(crossing.begin(), crossing.end(), [&](const ir::Array& local) { return nest.can_expand(local); }))
    return "a local of the loop has an extent that is not known before the loop";
  kept = std::move(crossing);
  return std::nullopt;
}

bool has_targets_from_data(const SumGroup& group) {
  return std::any_of(group.sums.begin(), group.sums.end(),
                     [](const Stmt& sum) { return has_index_from_data(*sum.as<ir::Reduce>()); });
}

bool has_few_targets(const SumNest& nest, const SumGroup& group) {
  SizeEstimator estimator(nest.now.program, nest.context.options.expected_sizes);
  double elements = 1;
  for (const ir::Expr& extent : group.target->shape) elements *= estimator.value_of(extent, {});
  return elements <= few_targets;
}

}  // namespace loopgrad::transforms
