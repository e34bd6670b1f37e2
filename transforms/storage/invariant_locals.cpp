#include "transforms/storage/invariant_locals.h"

#include "dsl/ir/rewriter.h"
#include "transforms/analysis/deciding_leaves.h"

#include <algorithm>
#include <map>
#include <optional>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

class Finder {
 public:
  Finder(const ir::Program& program, const Stmt& nest) : nest_(nest), deciding_(program, nest) {}

  std::vector<InvariantNest> run(const std::vector<Array>& wanted) {
    std::map<std::set<ir::Symbol>, std::pair<StmtSet, std::vector<Array>>> by_loops;
    for (const Array& local : wanted) {
      StmtSet deciding;
      const std::set<ir::Symbol> loops = loops_without_say(local, deciding);
      if (loops.empty() || loops.size() == count_loops(deciding_.locals().at(local))) continue;
      auto& [all, locals] = by_loops[loops];
      all.insert(deciding.begin(), deciding.end());
      locals.push_back(local);
    }
    std::vector<InvariantNest> result;
    for (const auto& [loops, found] : by_loops)
      result.push_back({without_loops(slice(nest_, found.first), loops), found.second});
    return result;
  }

  /// Loops around the local in all iterations of which `deciding`, the leaves that decide about it, do the same, to
  /// locals of one iteration.
  std::set<ir::Symbol> loops_without_say(const Array& local, StmtSet& deciding) const {
    const auto found = deciding_.of(local);
    if (!found) return {};
    deciding = *found;
    const Stmt all = slice(nest_, deciding);
    std::set<ir::Symbol> result;
    for (const Stmt& s : deciding_.locals().at(local)) {
      const auto* loop = s.as<ir::For>();
      if (!loop) continue;
      bool has_say = false;
      ir::walk(
          all, [](const Stmt&) {},
          [&](const Expr& e) {
            const auto* at = e.as<ir::Var>();
            has_say |= at && at->symbol == loop->iterator;
          });
      for (const auto& [array, writers] : deciding_.writers()) {
        const auto outlives = deciding_.locals().find(array);  // an iteration, where it is declared around the loop
        if (outlives == deciding_.locals().end() || contains(outlives->second, s)) continue;
        for (const Stmt& leaf : writers)
          has_say |= deciding.count(leaf.get()) && contains(deciding_.around().at(leaf.get()), s);
      }
      if (!has_say) result.insert(loop->iterator);
    }
    return result;
  }

 private:
  static std::size_t count_loops(const std::vector<Stmt>& around) {
    return static_cast<std::size_t>(
        std::count_if(around.begin(), around.end(), [](const Stmt& s) { return s.kind() != ir::Kind::If; }));
  }

  static bool contains(const std::vector<Stmt>& list, const Stmt& s) {
    return std::any_of(list.begin(), list.end(), [&](const Stmt& one) { return one.same_as(s); });
  }

  /// Each of these loops once, if at all.
  static Stmt without_loops(const Stmt& s, const std::set<ir::Symbol>& loops) {
    return ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      const auto* loop = child.as<ir::For>();
      if (!loop || !loops.count(loop->iterator)) return std::nullopt;
      const Expr some = ir::binary(ir::BinaryOp::Lt, loop->lower, loop->upper);
      return ir::if_then(some, without_loops(loop->body, loops), {}, loop->location);
    });
  }

  const Stmt& nest_;
  const DecidingLeaves deciding_;
};

}  // namespace

std::vector<InvariantNest> invariant_nests(const ir::Program& program, const Stmt& nest,
                                           const std::vector<Array>& locals) {
  if (locals.empty() || has_contraction(nest)) return {};
  return Finder(program, nest).run(locals);
}

std::set<ir::Symbol> loops_without_say(const ir::Program& program, const Stmt& nest, const Array& local) {
  StmtSet deciding;
  return Finder(program, nest).loops_without_say(local, deciding);
}

}  // namespace loopgrad::transforms
