#include "tools/cli/parts.h"

#include "backends/c_text/parts.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "tools/cli/critical_path.h"
#include "transforms/analysis/analyses.h"
#include "transforms/map/gpu/shared_sums.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace loopgrad::cli {
namespace {

using ir::Allocate, ir::Array, ir::Block, ir::Contraction, ir::For, ir::If, ir::LoopMode, ir::Stmt, ir::While;
using transforms::Machine;

const Arrays no_inputs;

constexpr double kMostLaunches = 4096;  // of small kernels in a row

/// What one part takes, of all runs so far.
struct PartCost {
  double runs = 0, flops = 0, operations = 0, bytes = 0, parallel = 0, microseconds = 0;  // parallel: sum over runs
};

struct PartCosts {
  std::map<const ir::StmtNode*, PartCost> parts;

  void add(const PartCosts& other, double times) {
    for (const auto& [part, cost] : other.parts) {
      PartCost& sum = parts[part];
      sum.runs += times * cost.runs;
      sum.flops += times * cost.flops;
      sum.operations += times * cost.operations;
      sum.bytes += times * cost.bytes;
      sum.parallel += times * cost.parallel;
      sum.microseconds += times * cost.microseconds;
    }
  }
  bool differs_from(const PartCosts& other) const {
    const auto some = [](const PartCosts& of, const PartCosts& there) {
      return std::any_of(of.parts.begin(), of.parts.end(), [&](const auto& entry) {
        const auto match = there.parts.find(entry.first);
        const PartCost own = entry.second, its = match == there.parts.end() ? PartCost{} : match->second;
        return differ(own.runs, its.runs) || differ(own.flops, its.flops) || differ(own.bytes, its.bytes) ||
               differ(own.microseconds, its.microseconds);
      });
    };
    return some(*this, other) || some(other, *this);
  }
};

class PartFinder {
 public:
  PartFinder(const ir::Program& program, const Sizes& sizes, const Machine& machine)
      : program_(program),
        machine_(machine),
        found_(program),
        counter_(program, sizes, no_inputs, WorkCounter::Unknown::Likely),
        path_(counter_, machine, [this](const Stmt& s) { return only_sums(s); }) {
    const PartCosts costs = costs_of(program.body);
    list(program.body, costs);
    result_.exact = counter_.exact();
  }

  ProgramParts result() && { return std::move(result_); }

 private:
  bool is_shared(const Stmt& s) { return found_.is_shared(s) || is_long_sum(s); }

  /// A loop in order that a GPU takes apart nevertheless, as all its iterations share are sums.
  bool is_long_sum(const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!machine_.is_gpu() || !loop || !found_.is_part(s) || found_.is_rest(s) || found_.is_shared(s)) return false;
    return only_sums(s);
  }

  /// Whether iterations of a loop in order share sums, and nothing else: threads of a block can share it.
  bool only_sums(const Stmt& s) {
    const auto* loop = s.as<For>();
    if (!loop || ir::is_parallel(loop->mode)) return false;
    const auto [known, is_new] = long_sums_.try_emplace(s.get());
    if (is_new) {
      const auto sums = transforms::shared_sums({program_, analyses_}, s);
      known->second = sums && !sums->empty();
    }
    return known->second;
  }

  PartCosts costs_of(const Stmt& s) {
    if (!s) return {};
    if (found_.is_part(s)) return {{{s.get(), cost_of_part(s)}}};
    PartCosts sum;
    if (rest_ && (s.as<ir::Assign>() || s.as<ir::Reduce>())) {
      PartCost cost = cost_of_part(s);
      cost.runs = cost.parallel = 0;
      return {{{rest_, cost}}};
    }
    if (found_.is_rest(s)) {
      rest_ = s.get();
      sum = costs_around_parts(s);
      rest_ = nullptr;
      return sum;
    }
    return costs_around_parts(s);
  }

  PartCosts costs_around_parts(const Stmt& s) {
    PartCosts sum;
    if (!rest_ && !found_.contains_part(s)) return sum;
    if (const auto* n = s.as<Block>()) return costs_of_block(*n);
    if (const auto* n = s.as<Allocate>()) return costs_of(n->body);
    if (const auto* n = s.as<For>()) return costs_of_steps(s, *n);
    if (const auto* n = s.as<While>()) sum.add(costs_of(n->body), counter_.trips_of(*n));
    if (const auto* n = s.as<If>()) {
      const auto shares = counter_.shares_of(*n).value_or(std::pair(1.0, 0.0));
      if (shares.first > 0) sum.add(costs_of(n->then_body), shares.first);
      if (shares.second > 0) sum.add(costs_of(n->else_body), shares.second);
    }
    return sum;
  }

  /// What the host of a GPU does not launch so often, a block does by itself (map_to_gpu.cpp).
  PartCosts costs_of_steps(const Stmt& s, const For& loop) {
    const double trips = std::max(1.0, counter_.trips_of(loop));
    const double around = std::exchange(trips_around_, trips_around_ * trips);
    PartCosts sum = counter_.over<PartCosts>(loop, [&] { return costs_of(loop.body); });
    trips_around_ = around;
    if (!machine_.is_gpu() || around * trips <= kMostLaunches) return sum;
    double all = 0, at_once = 1;
    for (const auto& [part, cost] : sum.parts) {
      all += cost.microseconds;
      at_once = std::max(at_once, cost.runs > 0 ? cost.parallel / cost.runs : 1);
    }
    if (at_once > machine_.threads / 16) return sum;
    const double most = 1e-3 * path_.ns_in_one_block(s) + machine_.start_us;
    if (all > most)
      for (auto& [part, cost] : sum.parts) cost.microseconds *= most / all;
    return sum;
  }

  /// A loop that joins the part before it counts as that one.
  PartCosts costs_of_block(const Block& block) {
    PartCosts sum;
    const ir::StmtNode* last = nullptr;
    for (const Stmt& child : block.body) {
      PartCosts own = costs_of(child);
      if (backend::Parts::joins(child) && last && own.parts.count(child.get())) {
        PartCost cost = own.parts.at(child.get());
        cost.runs = cost.parallel = 0;
        own.parts = {{last, cost}};
      } else if (found_.is_part(child)) {
        last = child.get();
      }
      sum.add(own, 1);
    }
    return sum;
  }

  PartCost cost_of_part(const Stmt& s) {
    const Cost cost = counter_.cost(s);
    PartCost part{1, cost.flops, cost.operations, 0, parallel_of(s), 0};
    const auto move = [&](const std::map<std::int64_t, double>& counts) {
      for (const Array& array : arrays_outside(s)) {
        const auto count = counts.find(array->id);
        if (count == counts.end()) continue;
        part.bytes += std::min(count->second * static_cast<double>(bytes_of(array->type)), counter_.bytes_of(array));
      }
    };
    move(cost.loads);
    move(cost.stores);
    const double threads = std::clamp(part.parallel, 1.0, machine_.threads);
    const double compute = cost.operations * machine_.ns_per_operation + cost.accesses() * machine_.ns_per_access;
    const double alone = 1e-3 * std::max(compute, part.bytes * machine_.ns_per_byte);
    part.microseconds = alone / threads + (is_shared(s) || s.as<Contraction>() ? machine_.start_us : 0);
    if (machine_.is_gpu() && is_shared(s)) wait_for_steps(s, part);
    if (!machine_.is_gpu()) part.microseconds = std::min(part.microseconds, alone);  // small loops start no threads
    return part;
  }

  /// A kernel takes no less than the steps of one of its blocks.
  void wait_for_steps(const Stmt& s, PartCost& part) {
    const double least = 1e-3 * path_.ns_of(s) + machine_.start_us;
    if (part.microseconds >= least) return;
    part.microseconds = least;
    const std::vector<BlockSteps> steps = path_.steps();
    if (!steps.empty()) waited_for_[s.get()] = steps.front();
  }

  /// Iterations that may run at once.
  double parallel_of(const Stmt& s) {
    if (!s) return 1;
    if (is_long_sum(s)) return std::max(1.0, counter_.trips_of(*s.as<For>()));
    if (const auto* n = s.as<For>()) {
      const bool counts = ir::is_parallel(n->mode) || (machine_.is_gpu() && only_sums(s));
      const double trips = counts ? std::max(1.0, counter_.trips_of(*n)) : 1;
      if (is_shared(s) && !machine_.is_gpu() && n->run.together <= 1) return trips;
      return trips * counter_.in_the_middle(*n, [&] { return parallel_of(n->body); });
    }
    double most = 1;
    ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {},
                                         [&](const Stmt& child) { most = std::max(most, parallel_of(child)); }});
    return most;
  }

  const std::vector<Array>& arrays_outside(const Stmt& s) {
    const auto known = outside_.find(s.get());
    if (known != outside_.end()) return known->second;
    std::map<std::int64_t, Array> arrays;
    std::set<std::int64_t> inside;
    ir::walk(
        s,
        [&](const Stmt& inner) {
          if (const auto* n = inner.as<Allocate>()) inside.insert(n->array->id);
          if (const auto* n = inner.as<ir::Assign>()) arrays[n->array->id] = n->array;
          if (const auto* n = inner.as<ir::Reduce>()) arrays[n->array->id] = n->array;
        },
        [&](const ir::Expr& e) {
          if (const auto* n = e.as<ir::Load>()) arrays[n->array->id] = n->array;
        });
    std::vector<Array>& result = outside_[s.get()];
    for (const auto& [id, array] : arrays)
      if (!inside.count(id) && !(array->shape.empty() && array->role == ir::ArrayRole::Local)) result.push_back(array);
    return result;
  }

  // What is found, in the order of the program.

  void list(const Stmt& s, const PartCosts& costs) {
    if (!s) return;
    const auto* loop = s.as<For>();
    const bool is_own_part = found_.is_part(s);
    if (is_own_part && backend::Parts::joins(s)) return;
    const auto cost = costs.parts.find(s.get());
    const bool is_rest = found_.is_rest(s);
    if (!is_own_part && !found_.contains_part(s)) return;
    const std::size_t before = result_.parts.size(), place = result_.ordered.size();
    const bool in_order = loop && !is_shared(s) && !ir::has_one_trip(*loop);
    if (in_order) result_.ordered.push_back({loop->iterator.name, location_of(s), counter_.trips_of(*loop), 0, false});
    if (is_own_part) {
      add_part(s, cost == costs.parts.end() ? PartCost{} : cost->second);  // none: of a branch that is not taken
    } else {
      if (is_rest) add_part(s, cost == costs.parts.end() ? PartCost{} : cost->second);
      const auto go_on = [&] {
        ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& c) { list(c, costs); }});
        return 0;
      };
      if (loop) counter_.in_the_middle(*loop, go_on);
      else go_on();
    }
    if (!in_order) return;
    OrderedLoop& own = result_.ordered[place];
    for (std::size_t k = before; k < result_.parts.size(); ++k) {
      own.microseconds += result_.parts[k].microseconds;
      own.has_shared |= result_.parts[k].is_shared;
    }
  }

  void add_part(const Stmt& s, const PartCost& cost) {
    PartWork part{names_of(s), location_of(s), is_shared(s), s.as<Contraction>() != nullptr};
    part.runs = found_.is_rest(s) ? 1 : cost.runs;
    part.flops = cost.flops;
    part.operations = cost.operations;
    part.bytes = cost.bytes;
    part.parallel = cost.runs > 0 ? cost.parallel / cost.runs : 1;
    part.microseconds = cost.microseconds;
    const auto steps = waited_for_.find(s.get());
    part.waits_for_steps = steps != waited_for_.end() && cost.runs > 0;
    result_.parts.push_back(part);
    if (!part.waits_for_steps) return;
    const BlockSteps& own = steps->second;
    const std::string name = own.loop ? own.loop->iterator.name : own.statement.as<While>()->iterator.name;
    result_.ordered.push_back({name, location_of(own.statement), own.trips, cost.microseconds, own.has_shared, true});
  }

  /// The first one known.
  static SourceLocation location_of(const Stmt& s) {
    SourceLocation found;
    ir::walk_stmts(s, [&](const Stmt& inner) {
      if (!found.known()) found = inner->location;
    });
    return found;
  }

  /// Iterators of the loops that are perfectly nested, as the user knows them.
  static std::string names_of(const Stmt& s) {
    if (const auto* n = s.as<Contraction>()) return n->c->name + " = " + n->a->name + "*" + n->b->name;
    std::vector<std::string> names;
    std::string first;
    Stmt at = s;
    while (at && names.size() < 3) {
      if (const auto* n = at.as<For>()) {
        if (first.empty()) first = n->iterator.name;
        const bool own = n->mode != LoopMode::Grid && n->mode != LoopMode::Threads && !ir::has_one_trip(*n);
        if (own) names.push_back(n->iterator.name);
        at = n->body;
      } else if (const auto* a = at.as<Allocate>()) {
        at = a->body;
      } else {
        break;
      }
    }
    if (const auto* n = at ? at.as<While>() : nullptr; n && first.empty()) return n->iterator.name;
    return names.empty() ? first : fmt::format("{}", fmt::join(names, ", "));
  }

  const ir::Program& program_;
  const Machine& machine_;
  transforms::Analyses analyses_;
  std::map<const ir::StmtNode*, bool> long_sums_;
  const backend::Parts found_;
  WorkCounter counter_;
  CriticalPath path_;
  std::map<const ir::StmtNode*, BlockSteps> waited_for_;  // by kernels that take as long as the steps of a block
  double trips_around_ = 1;                               // of the loops of steps around what is looked at
  const ir::StmtNode* rest_ = nullptr;                    // the loop whose statements count now
  std::map<const ir::StmtNode*, std::vector<Array>> outside_;
  ProgramParts result_;
};

}  // namespace

double ProgramParts::microseconds() const {
  double sum = 0;
  for (const PartWork& part : parts) sum += part.microseconds;
  return sum;
}

ProgramParts parts_of(const ir::Program& lowered, const Sizes& sizes, const Machine& machine) {
  return PartFinder(lowered, sizes, machine).result();
}

}  // namespace loopgrad::cli
