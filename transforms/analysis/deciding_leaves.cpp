#include "transforms/analysis/deciding_leaves.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

DecidingLeaves::DecidingLeaves(const ir::Program& program, const Stmt& nest)
    : program_(program), around_(surroundings(nest)) {
  for (const LocalArray& local : locals_of(nest)) locals_.emplace(local.array, local.around);
  for (const Stmt& leaf : leaves(nest))
    for_each_store(leaf, [&](const Array& array, const std::vector<Expr>&) { writers_[array].push_back(leaf); });
}

struct DecidingLeaves::Search {
  explicit Search(const DecidingLeaves& nest) : nest(nest), aliased(ir::aliased_arrays(nest.program_)) {}

  void need(const Expr& e) {
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      if (load) need(load->array);
    });
  }

  void need(const Array& array) {
    if (!nest.locals_.count(array)) possible &= !nest.writers_.count(array) && !aliased.count(array);
    else if (seen.insert(array).second) open.push_back(array);
  }

  void need_all_of(const Stmt& leaf) {
    ir::walk(
        leaf, [](const Stmt&) {}, [&](const Expr& e) { need(e); });
    for (const Stmt& header : nest.around_.at(leaf.get()))
      ir::for_each_child(header, ir::overloaded{[&](const Expr& e) { need(e); }, [](const Stmt&) {}});
  }

  std::optional<StmtSet> run() {
    StmtSet result;
    while (possible && !open.empty()) {
      const Array array = open.back();
      open.pop_back();
      const auto found = nest.writers_.find(array);
      if (found == nest.writers_.end()) return std::nullopt;
      for (const Stmt& leaf : found->second) {
        possible &= leaf.kind() == ir::Kind::Assign || leaf.kind() == ir::Kind::Reduce;
        if (possible && result.insert(leaf.get()).second) need_all_of(leaf);
      }
    }
    return possible ? std::optional(result) : std::nullopt;
  }

  const DecidingLeaves& nest;
  const std::set<Array> aliased;
  std::vector<Array> open;
  std::set<Array> seen;
  bool possible = true;
};

std::optional<StmtSet> DecidingLeaves::of(const Array& local) const {
  Search search(*this);
  search.need(local);
  return search.run();
}

std::optional<StmtSet> DecidingLeaves::of(const std::vector<Stmt>& leaves) const {
  Search search(*this);
  for (const Stmt& leaf : leaves) search.need_all_of(leaf);
  return search.run();
}

std::optional<StmtSet> DecidingLeaves::of(const std::vector<Expr>& values) const {
  Search search(*this);
  for (const Expr& value : values) search.need(value);
  return search.run();
}

}  // namespace loopgrad::transforms
