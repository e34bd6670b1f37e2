#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/contractions/match.h"
#include "transforms/sums/contractions/recognize_contractions.h"

#include <map>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

/// Goes through statements in the order in which they run, with the fills that nothing has used yet.
class Absorber {
 public:
  explicit Absorber(const ir::Program& program) { aliased_ = ir::aliased_arrays(program); }

  Stmt run(const Stmt& body) {
    Pending pending;
    const Stmt result = visit(body, pending);
    if (absorbed_.empty()) return result;
    return ir::rewrite(result, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      return absorbed_.count(s.get()) ? std::optional(ir::block({})) : std::nullopt;
    });
  }

 private:
  using Pending = std::map<ir::Array, Stmt>;

  Stmt visit(const Stmt& s, Pending& pending) {
    if (!s) return s;
    if (auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : n->body) body.push_back(visit(child, pending));
      return ir::block(std::move(body));
    }
    if (auto* n = s.as<ir::Allocate>()) return ir::allocate(n->array, visit(n->body, pending), n->location);
    if (auto* n = s.as<ir::Contraction>()) return visit_contraction(s, *n, pending);
    if (const ir::Array filled = filled_array(s); filled && !aliased_.count(filled)) {
      pending[filled] = s;
      return s;
    }
    forget(s, pending);
    Pending inside;
    if (auto* n = s.as<ir::For>()) return has_contraction(s) ? with_body(*n, visit(n->body, inside)) : s;
    return s;
  }

  Stmt visit_contraction(const Stmt& s, const ir::Contraction& n, Pending& pending) {
    const auto fill = pending.find(n.c);
    Stmt result = s;
    if (fill != pending.end()) {
      if (const Stmt both = absorb_fill(n, ir::with_fresh_names(fill->second))) {
        absorbed_.insert(fill->second.get());
        result = both;
      }
    }
    forget(s, pending);
    return result;
  }

  static void forget(const Stmt& s, Pending& pending) {
    std::erase_if(pending, [&](const auto& entry) { return uses(s, entry.first); });
  }

  std::set<ir::Array> aliased_;
  StmtSet absorbed_;
};

}  // namespace

Stmt absorb_fills(const ir::Program& program, const Stmt& body) { return Absorber(program).run(body); }

}  // namespace loopgrad::transforms
