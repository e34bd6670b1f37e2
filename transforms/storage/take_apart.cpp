#include "transforms/storage/take_apart.h"

#include "transforms/analysis/analyses.h"
#include "transforms/loops/fission.h"
#include "transforms/storage/expand_locals.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Stmt;

namespace {

constexpr std::size_t most_parts = 8;

/// The loop with that iterator in `s`; null where it has none.
Stmt loop_over(const ir::Symbol& iterator, const Stmt& s) {
  Stmt result;
  ir::walk_stmts(s, [&](const Stmt& child) {
    const auto* loop = child.as<ir::For>();
    if (loop && loop->iterator == iterator) result = child;
  });
  return result;
}

/// Takes a nest apart until the loop over `iterator` carries nothing but sums in any part.
class Taker {
 public:
  Taker(const ir::Program& program, const Stmt& nest, const ir::Symbol& iterator, PassContext& context)
      : program_(program), nest_(nest), iterator_(iterator), context_(context) {}

  /// The parts, one after the other; null where there are none.
  Stmt run() {
    const Analyses::Model model = analyses(context_).model_of(program_, nest_);
    const LeafOrder order(*model, nest_);
    std::vector<StmtSet> apart;
    while (const auto parts = order.split(apart)) {
      if (parts->size() > most_parts) break;
      const auto conflict = conflict_within(*parts);
      if (!conflict) return in_parts(*model, *parts);
      const std::size_t before = apart.size();
      for (const Stmt& leaf : *conflict)
        if (std::none_of(apart.begin(), apart.end(), [&](const StmtSet& set) { return set.count(leaf.get()); }))
          apart.push_back({leaf.get()});
      if (apart.size() == before) break;
    }
    return {};
  }

 private:
  /// Two leaves that keep the loop in one of the parts in order; empty where it has conflicts of others.
  std::optional<std::vector<Stmt>> conflict_within(const std::vector<NestPart>& parts) const {
    for (const NestPart& part : parts) {
      const Stmt piece = slice(nest_, part.leaves), loop = loop_over(iterator_, piece);
      if (!loop) continue;
      const ir::Program program = ir::with_body(program_, replace(program_.body, nest_, piece));
      for (const Stmt& s : {loop, piece}) {
        const Analyses::Model model = analyses(context_).model_of(program, s);
        const auto& found = analyses(context_).carried_by(model, s, poly::Search::SkipSums);
        if (found.empty()) continue;
        std::vector<Stmt> both;
        for (const int k : {found.back().first, found.back().second}) {
          const Stmt& statement = model->statements[static_cast<std::size_t>(k)].stmt;
          if (part.leaves.count(statement.get())) both.push_back(statement);
        }
        return both;
      }
    }
    return std::nullopt;
  }

  Stmt in_parts(const poly::Model& model, const std::vector<NestPart>& parts) {
    const std::vector<Array> crossing = crossing_locals(nest_, parts);
    if (std::any_of(crossing.begin(), crossing.end(), [](const Array& local) { return !local->shape.empty(); }))
      return {};
    const auto expansion = expand_locals(program_, model, nest_, crossing);
    if (!expansion) return {};
    const std::vector<Stmt> before = leaves(nest_), after = leaves(expansion->nest);
    std::vector<StmtSet> sets(parts.size());
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (std::size_t k = 0; k < before.size(); ++k)
        if (parts[p].leaves.count(before[k].get())) sets[p].insert(after[k].get());
    Stmt result = ir::block(split(expansion->nest, sets));
    for (const Array& array : expansion->arrays) {
      context_.introduced.insert(array->id);
      result = ir::allocate(array, result, array->location);
    }
    return result;
  }

  const ir::Program& program_;
  const Stmt& nest_;
  const ir::Symbol& iterator_;
  PassContext& context_;
};

}  // namespace

Stmt take_apart(const ir::Program& program, const Stmt& nest, const ir::Symbol& iterator, PassContext& context) {
  return Taker(program, nest, iterator, context).run();
}

}  // namespace loopgrad::transforms
