#include "transforms/analysis/deciding_leaves.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/dataflow.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

DecidingLeaves::DecidingLeaves(const ir::Program& program, const Stmt& nest, const poly::Model* model)
    : program_(program), model_(model), around_(surroundings(nest)) {
  for (const LocalArray& local : locals_of(nest)) locals_.emplace(local.array, local.around);
  for (const Stmt& leaf : leaves(nest))
    for_each_store(leaf, [&](const Array& array, const std::vector<Expr>&) { writers_[array].push_back(leaf); });
}

/// Every read of the nest finds what an assignment of the nest has stored.
bool DecidingLeaves::is_set_anew(const Array& array) const {
  const auto [known, is_new] = set_anew_.try_emplace(array, false);
  if (is_new) known->second = find_whether_set_anew(array);
  return known->second;
}

bool DecidingLeaves::find_whether_set_anew(const Array& array) const {
  if (!model_ || !model_->aliases.empty()) return false;
  const std::vector<Stmt>& stores = writers_.at(array);
  if (!std::all_of(stores.begin(), stores.end(), [](const Stmt& s) { return s.kind() == ir::Kind::Assign; }))
    return false;
  for (std::size_t k = 0; k < model_->statements.size(); ++k)
    for (const poly::Access& access : model_->statements[k].accesses) {
      if (access.array != array || access.kind != poly::AccessKind::Read) continue;
      const auto flow =
          poly::ask(*model_, poly::Dataflow{}, [&] { return poly::last_writes(*model_, static_cast<int>(k), access); });
      if (!flow.exact || std::any_of(flow.sources.begin(), flow.sources.end(),
                                     [](const poly::Source& source) { return source.writer < 0; }))
        return false;
    }
  return true;
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
    const bool is_written = nest.writers_.count(array) != 0;
    const bool is_own = nest.locals_.count(array) || (is_written && nest.is_set_anew(array));
    if (!is_own) possible &= !is_written && !aliased.count(array);
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
