#include "transforms/map/gpu/fuse_nests.h"

#include "dsl/ir/notes.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/fuse.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int most_loads = 40;  // of one thread: their values and addresses have to fit into registers

struct Nest {
  std::vector<const ir::For*> loops;  // outermost first
  Stmt body;
  const ir::Reduce* sum = nullptr;  // all that the body does, in sequential loops

  std::size_t best_loop() const { return best_along_threads(body, loops); }
  /// Whether threads would take tiles of the best loop and another one.
  bool has_tiles() const {
    const ir::For& x = *loops[best_loop()];
    return std::any_of(loops.begin(), loops.end(), [&](const ir::For* loop) {
      return loop != &x && gains_from_tiles(body, loop->iterator, x.iterator);
    });
  }
};

bool is_plain(const Stmt& body) {
  bool plain = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    plain &= sum ? !sum->atomic || ir::is_note(s)
                 : s.kind() == ir::Kind::Block || s.kind() == ir::Kind::If || s.kind() == ir::Kind::Allocate ||
                       s.kind() == ir::Kind::Assign;
  });
  return plain;
}

/// The sum into one element that sequential loops of known bounds do, and nothing else; null for other statements.
const ir::Reduce* only_sum(const Stmt& body) {
  std::vector<ir::Symbol> iterators;
  Stmt inside = body;
  while (const auto* loop = inside.as<ir::For>()) {
    if (loop->mode == ir::LoopMode::Parallel || ir::has_load(loop->lower) || ir::has_load(loop->upper)) return nullptr;
    iterators.push_back(loop->iterator);
    inside = loop->body;
  }
  const auto* sum = inside.as<ir::Reduce>();
  if (iterators.empty() || !sum || sum->atomic) return nullptr;
  for (const Expr& index : sum->indices)
    for (const ir::Symbol& iterator : iterators)
      if (ir::mentions(index, iterator)) return nullptr;
  return sum;
}

std::optional<Nest> nest_of(const Stmt& s) {
  Nest nest;
  nest.body = s;
  while (is_parallel_loop(nest.body)) {
    const auto* loop = nest.body.as<ir::For>();
    if (ir::has_load(loop->lower) || ir::has_load(loop->upper)) return std::nullopt;
    nest.loops.push_back(loop);
    nest.body = loop->body;
  }
  nest.sum = only_sum(nest.body);
  if (nest.loops.empty() || (!nest.sum && !is_plain(nest.body))) return std::nullopt;
  return nest;
}

/// A sum is only joined by what changes the element that it adds to.
bool is_update_of(const Nest& plain, const ir::Reduce& sum) {
  const auto all = accesses_of(plain.body);
  return !plain.sum && std::any_of(all.begin(), all.end(), [&](const Access& x) {
    return x.writes && x.array == sum.array && ir::equal(x.indices, sum.indices);
  });
}

/// The arrays with dimensions of which a body reads elements; sums read what they add to.
std::set<ir::Array> read_in(const Stmt& body, const std::vector<Access>& all) {
  std::set<ir::Array> result;
  for (const Access& access : all)
    if (!access.writes && !access.indices.empty()) result.insert(access.array);
  ir::walk_stmts(body, [&](const Stmt& s) {
    const auto* sum = s.as<ir::Reduce>();
    if (sum && !sum->indices.empty()) result.insert(sum->array);
  });
  return result;
}

bool pays(const Nest& a, const Nest& b) {
  if (b.sum) return false;
  if (a.sum && !is_update_of(b, *a.sum)) return false;
  const auto in_a = accesses_of(a.body), in_b = accesses_of(b.body);
  const std::set<ir::Array> reads = read_in(b.body, in_b);
  const bool shares = std::any_of(reads.begin(), reads.end(), [&](const ir::Array& array) {
    return std::any_of(in_a.begin(), in_a.end(), [&](const Access& x) { return x.array == array; });
  });
  const auto loads = std::count_if(in_a.begin(), in_a.end(), [](const Access& x) { return !x.writes; }) +
                     std::count_if(in_b.begin(), in_b.end(), [](const Access& y) { return !y.writes; });
  return shares && loads <= most_loads && a.best_loop() == b.best_loop() && !a.has_tiles() && !b.has_tiles();
}

/// Two nests that follow each other, and the one to make of them if that is legal.
struct NestsToFuse {
  Stmt first, second;
  Fusion fusion;
  Stmt nest;
};

/// nullopt where fusing them would not pay.
std::optional<NestsToFuse> nests_to_fuse(const Stmt& first, const Stmt& second) {
  const auto a = nest_of(first), b = nest_of(second);
  if (!a || !b || a->loops.size() != b->loops.size()) return std::nullopt;
  const auto fusion = fusion_of(first, second, a->loops.size());
  if (!fusion) return std::nullopt;
  const Stmt nest = fused(*fusion);
  Nest renamed = *b;
  renamed.loops = a->loops;
  renamed.body = second_body(*fusion);
  if (!pays(*a, renamed)) return std::nullopt;
  return NestsToFuse{first, second, *fusion, nest};
}

class Fuser {
 public:
  Fuser(const ir::Program& program, Analyses& analyses) : program_(program), analyses_(analyses) {}

  ir::Program run() {
    // One change at a time: legality is asked of the program as it is then.
    while (step(program_.body)) {
    }
    return program_;
  }

 private:
  /// Fuses the first two nests that can be fused in the host's part at or below `s`, those inside first.
  bool step(const Stmt& s) {
    if (!s || is_parallel_loop(s)) return false;
    bool changed = false;
    ir::for_each_child(
        s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { changed = changed || step(child); }});
    const auto* block = s.as<ir::Block>();
    for (std::size_t k = 0; !changed && block && k + 1 < block->body.size(); ++k) {
      const std::optional<NestsToFuse> both = find(block->body[k], block->body[k + 1]);
      if (!both || !refused_.insert({both->first.get(), both->second.get()}).second) continue;
      std::vector<Stmt> body = block->body;
      if (both->second.same_as(body[k + 1])) {
        body[k] = replace(body[k], both->first, both->nest);
        body.erase(body.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      } else {
        body[k + 1] = replace(body[k + 1], both->second, both->nest);
        body.erase(body.begin() + static_cast<std::ptrdiff_t>(k));
      }
      const ir::Program candidate = ir::with_body(program_, replace(program_.body, s, ir::block(std::move(body))));
      changed = can_fuse_parallel({candidate, analyses_}, both->fusion, both->nest).ok;
      if (changed) program_ = candidate;
    }
    return changed;
  }

  /// `second` with `first`, or with what comes last in the scope of local arrays; or `first` with what comes first in
  /// such a scope.
  static std::optional<NestsToFuse> find(const Stmt& first, const Stmt& second) {
    const Stmt last = at_end_of_scope(first, [](const ir::Block& block) { return block.body.back(); });
    const Stmt next = at_end_of_scope(second, [](const ir::Block& block) { return block.body.front(); });
    return last.same_as(first) || next.same_as(second) ? nests_to_fuse(last, next) : std::nullopt;
  }

  template <class Choice>
  static Stmt at_end_of_scope(const Stmt& s, const Choice& choose) {
    if (const auto* local = s.as<ir::Allocate>()) return at_end_of_scope(local->body, choose);
    const auto* block = s.as<ir::Block>();
    return block && !block->body.empty() ? at_end_of_scope(choose(*block), choose) : s;
  }

  ir::Program program_;
  Analyses& analyses_;
  std::set<std::pair<const ir::StmtNode*, const ir::StmtNode*>> refused_;
};

}  // namespace

ir::Program fuse_nests(const ir::Program& program, PassContext& context) {
  return Fuser(program, analyses(context)).run();
}

}  // namespace loopgrad::transforms
