#include "transforms/map/gpu/fuse_nests.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"

#include <algorithm>

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
    plain &= sum ? !sum->atomic
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

class Fuser {
 public:
  explicit Fuser(const ir::Program& program) : aliased_(ir::aliased_arrays(program)) {}

  Stmt visit(const Stmt& s) const {
    return rewrite_host_blocks(s, [this](const ir::Block& n) { return block(n); });
  }

  /// Both as one nest, or null.
  Stmt fuse(const Stmt& first, const Stmt& second) const {
    const auto a = nest_of(first);
    auto b = nest_of(second);
    if (!a || !b || a->loops.size() != b->loops.size()) return {};
    ir::Substitution renamed;
    bool is_shifted = false;
    for (std::size_t k = 0; k < a->loops.size(); ++k) {
      const ir::For &x = *a->loops[k], &y = *b->loops[k];
      const auto shift = distance(x.lower, ir::substitute(y.lower, renamed));
      if (!shift || distance(x.upper, ir::substitute(y.upper, renamed)) != shift) return {};
      is_shifted |= *shift != 0;
      renamed[y.iterator] = simplify_indices(ir::var(x.iterator) - ir::int_const(*shift));
    }
    b->body = ir::substitute(b->body, renamed);
    if (is_shifted) b->body = simplify_indices(b->body);
    b->loops = a->loops;
    if (!pays(*a, *b) || !is_legal(*a, *b)) return {};
    Stmt fused = ir::block({a->body, b->body});
    for (auto loop = a->loops.rbegin(); loop != a->loops.rend(); ++loop) fused = with_body(**loop, fused);
    return fused;
  }

 private:
  Stmt block(const ir::Block& n) const {
    std::vector<Stmt> result;
    for (const Stmt& child : n.body) {
      const Stmt fused = result.empty() ? Stmt() : fuse_with_last(result.back(), child);
      if (fused) result.back() = fused;
      else result.push_back(visit(child));
    }
    return ir::block(std::move(result));
  }

  /// `second` fused with `first`, or with what comes last in the scope of local arrays; null where that cannot be.
  Stmt fuse_with_last(const Stmt& first, const Stmt& second) const {
    if (const auto* local = first.as<ir::Allocate>()) {
      const Stmt fused = fuse_with_last(local->body, second);
      return fused ? ir::allocate(local->array, fused, local->location) : Stmt();
    }
    const auto* block = first.as<ir::Block>();
    if (!block || block->body.empty()) return fuse(first, second);
    std::vector<Stmt> list = block->body;
    list.back() = fuse_with_last(list.back(), second);
    return list.back() ? ir::block(std::move(list)) : Stmt();
  }

  /// A sum is only joined by what changes the element that it adds to.
  static bool is_update_of(const Nest& plain, const ir::Reduce& sum) {
    const auto all = accesses_of(plain.body);
    return !plain.sum && std::any_of(all.begin(), all.end(), [&](const Access& x) {
      return x.writes && x.array == sum.array && ir::equal(x.indices, sum.indices);
    });
  }

  static bool pays(const Nest& a, const Nest& b) {
    if (b.sum) return false;
    if (a.sum && !is_update_of(b, *a.sum)) return false;
    const auto in_a = accesses_of(a.body), in_b = accesses_of(b.body);
    const bool shares = std::any_of(in_b.begin(), in_b.end(), [&](const Access& y) {
      return !y.writes && !y.indices.empty() &&
             std::any_of(in_a.begin(), in_a.end(), [&](const Access& x) { return x.array == y.array; });
    });
    const auto loads = std::count_if(in_a.begin(), in_a.end(), [](const Access& x) { return !x.writes; }) +
                       std::count_if(in_b.begin(), in_b.end(), [](const Access& y) { return !y.writes; });
    return shares && loads <= most_loads && a.best_loop() == b.best_loop() && !a.has_tiles() && !b.has_tiles();
  }

  bool is_legal(const Nest& a, const Nest& b) const {
    const auto in_a = accesses_of(a.body), in_b = accesses_of(b.body);
    std::vector<const ir::For*> loops = a.loops;
    ir::walk_stmts(a.body, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::For>()) loops.push_back(loop);
    });
    for (const Access& x : in_a) {
      if (aliased_.count(x.array)) return false;
      for (const Access& y : in_b) {
        if (aliased_.count(y.array)) return false;
        if (x.array != y.array || (!x.writes && !y.writes)) continue;
        if (!is_same_place(x, y, a.loops) && !are_apart(x, y, loops) && !are_apart(y, x, loops)) return false;
      }
    }
    return true;
  }

  /// Both use the same element, and every iteration another one.
  static bool is_same_place(const Access& x, const Access& y, const std::vector<const ir::For*>& loops) {
    return ir::equal(x.indices, y.indices) && is_own(x.indices, loops);
  }

  const std::set<ir::Array> aliased_;
};

}  // namespace

ir::Program fuse_nests(const ir::Program& program) {
  return ir::with_body(program, Fuser(program).visit(program.body));
}

Stmt fused_nests(const ir::Program& program, const Stmt& first, const Stmt& second) {
  return Fuser(program).fuse(first, second);
}

}  // namespace loopgrad::transforms
