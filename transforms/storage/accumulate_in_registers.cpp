#include "transforms/storage/accumulate_in_registers.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <map>
#include <set>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// All accesses to one array below a loop.
struct Uses {
  std::vector<const Reduce*> sums;
  bool other = false;
};

struct LoopFacts {
  std::map<Array, Uses> uses;
  std::set<Symbol> bound;   // iterators of the loop and of loops inside
  std::set<Array> written;  // and allocated
};

LoopFacts facts_of(const Stmt& loop) {
  LoopFacts facts;
  auto on_stmt = [&](const Stmt& s) {
    visit(s, overloaded{
                 [&](const For& n) { facts.bound.insert(n.iterator); },
                 [&](const While& n) { facts.bound.insert(n.iterator); },
                 [&](const Assign& n) {
                   facts.uses[n.array].other = true;
                   facts.written.insert(n.array);
                 },
                 [&](const Reduce& n) {
                   facts.uses[n.array].sums.push_back(&n);
                   facts.written.insert(n.array);
                 },
                 [&](const Pop& n) {
                   facts.uses[n.array].other = true;
                   facts.written.insert(n.array);
                 },
                 [&](const Allocate& n) {
                   facts.uses[n.array].other = true;
                   facts.written.insert(n.array);
                 },
                 [](const Block&) {},
                 [](const If&) {},
                 [](const Push&) {},
                 [](const Contraction&) {},
             });
  };
  walk(loop, on_stmt, [&](const Expr& e) {
    if (const auto* l = e.as<Load>()) facts.uses[l->array].other = true;
  });
  return facts;
}

bool is_invariant(const Expr& e, const LoopFacts& facts) {
  bool invariant = true;
  walk(e, [&](const Expr& x) {
    if (const auto* v = x.as<Var>()) invariant &= !facts.bound.count(v->symbol);
    if (const auto* l = x.as<Load>()) invariant &= !facts.written.count(l->array);
  });
  return invariant;
}

/// The Reduce statements that every iteration of a loop with this body executes (nested loops may be empty, so no).
void unconditional_sums(const Stmt& body, std::vector<const Reduce*>& out) {
  if (const auto* r = body.as<Reduce>()) out.push_back(r);
  if (const auto* a = body.as<Allocate>()) unconditional_sums(a->body, out);
  if (const auto* b = body.as<Block>())
    for (const Stmt& s : b->body) unconditional_sums(s, out);
}

bool writes_element(const Stmt& s, const Array& array, const std::vector<Expr>& indices) {
  if (const auto* a = s.as<Assign>()) return a->array == array && equal(a->indices, indices);
  if (const auto* r = s.as<Reduce>()) return r->array == array && equal(r->indices, indices);
  return false;
}

bool are_plain(const std::vector<Expr>& indices) { return std::none_of(indices.begin(), indices.end(), has_load); }

const char* suffix_of(ReduceOp op) {
  static const char* const suffixes[] = {"_sum", "_product", "_min", "_max"};
  return suffixes[static_cast<int>(op)];
}

/// The sums over one loop that go into a scalar: one Reduce for each array, and whether its element surely exists.
struct Candidate {
  const Reduce* sum;
  bool exists;
  const Assign* start = nullptr;  // the statement that gives the element its first value and nothing else needs
};

/// The last of the assignments right before the loop that gives the element its value. Those after it do not touch the
/// array, nor change what the value is computed from.
const Assign* first_value(const std::vector<Stmt>& before, const Reduce& sum, const std::set<Array>& aliased) {
  std::set<Array> changed;
  for (auto s = before.rbegin(); s != before.rend(); ++s) {
    const auto* a = s->as<Assign>();
    if (!a || reads(*s, sum.array)) return nullptr;
    if (a->array == sum.array) {
      bool same = equal(a->indices, sum.indices) && are_plain(a->indices);
      walk(a->value, [&](const Expr& e) {
        if (const auto* l = e.as<Load>()) same &= !changed.count(l->array) && !aliased.count(l->array);
      });
      return same ? a : nullptr;
    }
    changed.insert(a->array);
  }
  return nullptr;
}

class Accumulator final : public Rewriter {
 public:
  explicit Accumulator(const Program& program) { aliased_ = ir::aliased_arrays(program); }

  Stmt rewrite(const Stmt& s) override {
    if (const auto* b = s.as<Block>()) return rewrite_block(s, *b);
    if (is_sequential_loop(s)) return rewrite_loop(s, {});
    return rewrite_children(s);
  }

 private:
  static bool is_sequential_loop(const Stmt& s) {
    const auto* loop = s.as<For>();
    return loop && !is_parallel(loop->mode);
  }

  Stmt rewrite_block(const Stmt& s, const Block& n) {
    std::vector<Stmt> body, before;
    bool changed = false;
    for (const Stmt& child : n.body) {
      std::set<const Assign*> starts;
      const Stmt now = is_sequential_loop(child) ? rewrite_loop(child, before, &starts) : rewrite(child);
      changed |= !now.same_as(child);
      body.erase(std::remove_if(body.begin(), body.end(),
                                [&](const Stmt& t) { return starts.count(t.as<Assign>()) && t.as<Assign>(); }),
                 body.end());
      body.push_back(now);
      before.push_back(child);
    }
    return changed ? block(std::move(body)) : s;
  }

  /// Adds to `starts` the statements before the loop that are not needed any more.
  Stmt rewrite_loop(const Stmt& s, const std::vector<Stmt>& before, std::set<const Assign*>* starts = nullptr) {
    const std::vector<Candidate> candidates = candidates_of(s, before);
    if (candidates.empty()) return rewrite_children(s);
    const bool exist = std::all_of(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.exists; });

    const auto& loop = *s.as<For>();
    std::map<Array, Array> scalars;
    std::vector<Stmt> all, epilogue;
    for (const auto& [r, exists, first] : candidates) {
      // Under a condition the element would not get its value when the loop is empty.
      const Assign* const start = exist ? first : nullptr;
      const Array scalar =
          make_array(r->array->name + suffix_of(r->op), r->array->type, {}, ArrayRole::Local, r->location);
      scalars[r->array] = scalar;
      all.push_back(assign(scalar, {}, start ? start->value : load(r->array, r->indices, r->location), r->location));
      if (start) starts->insert(start);
      epilogue.push_back(assign(r->array, r->indices, load(scalar, {}), r->location));
    }
    const Stmt body = ir::rewrite(loop.body, {}, [&](const Stmt& t) -> std::optional<Stmt> {
      const auto* r = t.as<Reduce>();
      if (!r || !scalars.count(r->array)) return std::nullopt;
      return reduce_like(*r, scalars[r->array], {}, r->value);
    });
    all.push_back(rewrite_children(
        for_loop(loop.iterator, loop.lower, loop.upper, body, loop.mode, loop.location, loop.at_most, loop.shape)));
    all.insert(all.end(), epilogue.begin(), epilogue.end());
    Stmt result = block(std::move(all));
    for (const Candidate& c : candidates) result = allocate(scalars[c.sum->array], result, c.sum->location);
    // An empty loop must not touch the element, which may not even exist then.
    return exist ? result : if_then(binary(BinaryOp::Lt, loop.lower, loop.upper), result, {}, loop.location);
  }

  std::vector<Candidate> candidates_of(const Stmt& loop, const std::vector<Stmt>& before) const {
    const LoopFacts facts = facts_of(loop);
    std::vector<const Reduce*> always;
    unconditional_sums(loop.as<For>()->body, always);
    std::vector<Candidate> out;
    for (const auto& [array, uses] : facts.uses) {
      if (!fits(array, uses, facts)) continue;
      const Reduce* r = uses.sums.front();
      const bool exists = std::any_of(before.begin(), before.end(), [&](const Stmt& s) {
        return writes_element(s, array, r->indices) && are_plain(r->indices);
      });
      const bool every_trip =
          std::any_of(always.begin(), always.end(), [&](const Reduce* x) { return x->array == array; });
      if (exists || every_trip) out.push_back({r, exists, exists ? first_value(before, *r, aliased_) : nullptr});
    }
    std::sort(out.begin(), out.end(),
              [](const Candidate& a, const Candidate& b) { return a.sum->array->id < b.sum->array->id; });
    return out;
  }

  bool fits(const Array& array, const Uses& uses, const LoopFacts& facts) const {
    if (uses.other || uses.sums.empty() || array->type != value_type(array->type) || aliased_.count(array))
      return false;
    if (array->role == ArrayRole::Local && array->shape.empty()) return false;  // is a scalar already
    const Reduce& first = *uses.sums.front();
    for (const Reduce* r : uses.sums)
      if (r->atomic || r->op != first.op || !equal(r->indices, first.indices)) return false;
    return std::all_of(first.indices.begin(), first.indices.end(),
                       [&](const Expr& index) { return is_invariant(index, facts); });
  }

  std::set<Array> aliased_;
};

}  // namespace

Program accumulate_in_registers(const Program& program) {
  return program.body ? with_body(program, Accumulator(program).rewrite(program.body)) : program;
}

}  // namespace loopgrad::transforms
