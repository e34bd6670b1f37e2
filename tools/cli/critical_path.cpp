#include "tools/cli/critical_path.h"

#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::cli {

using ir::For, ir::LoopMode, ir::Stmt;

namespace {

// An H200: a step that the threads of a block share and meet after, as what one has stored others load (ctc: 200 steps
// of 81 iterations in 0.3 ms), and one that a thread does by itself (least_scanned of Machine).
constexpr double ns_of_meeting = 1000, ns_of_own_step = 50;

}  // namespace

double CriticalPath::ns_of(const Stmt& part) {
  steps_.clear();
  inside_ = 0;
  Stmt body = part;
  const auto is_shared = [](const For* n) { return n && is_parallel(n->mode); };
  // What the grid shares.
  std::vector<const For*> around;
  for (; is_shared(body.as<For>()); body = body.as<For>()->body) around.push_back(body.as<For>());
  const auto inside = [&](const auto& self, std::size_t k) -> double {
    if (k == around.size()) return path(body, machine_.block_threads);
    return counter_.in_the_middle(*around[k], [&] { return self(self, k + 1); });
  };
  return inside(inside, 0);
}

double CriticalPath::ns_in_one_block(const Stmt& s) {
  steps_.clear();
  inside_ = 0;
  return path(s, machine_.block_threads);
}

std::vector<BlockSteps> CriticalPath::steps() const {
  std::vector<BlockSteps> sorted = steps_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const BlockSteps& a, const BlockSteps& b) { return a.ns > b.ns; });
  return sorted;
}

double CriticalPath::path(const Stmt& s, double threads) {
  if (!s) return 0;
  if (const auto* loop = s.as<For>()) return path_of_loop(s, *loop, threads);
  if (const auto* loop = s.as<ir::While>())
    return path_of_steps(s, nullptr, loop->body, counter_.trips_of(*loop), threads);
  if (const auto* branch = s.as<ir::If>()) {
    const auto shares = counter_.shares_of(*branch).value_or(std::pair(1.0, 1.0));
    // Some block takes the longer side.
    const double then_ns = shares.first > 0 ? path(branch->then_body, threads) : 0;
    return std::max(then_ns, shares.second > 0 ? path(branch->else_body, threads) : 0);
  }
  if (s.as<ir::Assign>() || s.as<ir::Reduce>()) {
    const Cost cost = counter_.cost(s);
    return cost.operations * machine_.ns_per_operation + cost.accesses() * machine_.ns_per_access;
  }
  double sum = 0;
  ir::for_each_child(s,
                     ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& child) { sum += path(child, threads); }});
  return sum;
}

/// Whether threads share the iterations.
bool CriticalPath::shares(const Stmt& s) {
  const auto [known, is_new] = known_.try_emplace(s.get(), false);
  if (is_new) known->second = is_parallel(s.as<For>()->mode) || only_sums_(s);
  return known->second;
}

double CriticalPath::path_of_loop(const Stmt& s, const For& loop, double threads) {
  const double trips = counter_.trips_of(loop);
  if (trips <= 0) return 0;
  if (!shares(s)) return path_of_steps(s, &loop, loop.body, trips, threads);
  const double rounds = std::max(1.0, trips / threads), left = std::max(1.0, threads / std::max(1.0, trips));
  return rounds * counter_.in_the_middle(loop, [&] { return path(loop.body, left); });
}

double CriticalPath::path_of_steps(const Stmt& s, const For* loop, const Stmt& body, double trips, double threads) {
  bool has_shared = false;
  ir::walk_stmts(body, [&](const Stmt& inner) {
    has_shared = has_shared || (inner.as<For>() && counter_.trips_of(*inner.as<For>()) > 1 && shares(inner));
  });
  has_shared = has_shared && threads > 1;
  ++inside_;
  const auto one = [&] { return path(body, threads); };
  const double step = loop ? counter_.in_the_middle(*loop, one) : one();
  --inside_;
  const double ns = trips * std::max(step, has_shared ? ns_of_meeting : ns_of_own_step);
  if (inside_ == 0 && trips >= 2) steps_.push_back({loop, s, trips, ns, has_shared});
  return ns;
}

}  // namespace loopgrad::cli
