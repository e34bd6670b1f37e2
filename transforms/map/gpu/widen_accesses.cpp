#include "transforms/map/gpu/widen_accesses.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/place_locals.h"

#include <algorithm>
#include <utility>

namespace loopgrad::transforms {
namespace {

using namespace ir;
using ir::Program;

constexpr std::int64_t most_unrolled_trips = 16;
constexpr std::size_t many_sums = 4;
constexpr std::int64_t trips_of_many_sums = 8;  // the compiler stops at two, whose loads are too few to wait for

/// Small local arrays of one thread. What is declared outside of loops over threads has a first index for these.
void find_registers(const Stmt& s, bool in_thread, std::set<Array>& registers) {
  if (!s) return;
  in_thread |= has_mode(s, LoopMode::Threads);
  if (const auto* n = s.as<Allocate>()) {
    Array own = n->array;
    if (!in_thread && n->home == Home::Thread && !own->shape.empty())
      own = make_array(own->name, own->type, {own->shape.begin() + 1, own->shape.end()}, own->role, own->location);
    if (is_in_registers(own)) registers.insert(n->array);
  }
  for_each_child(
      s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { find_registers(child, in_thread, registers); }});
}

/// What is done in one trip of `n` has the same alignment in the next one, by what distance whichever trip it is.
bool is_alike_in_all_trips(const For& n, const For& chunk, const std::vector<WideAccess>& wide) {
  const Chunk parts = *chunk_of(chunk);
  const auto* named = parts.start.as<Var>();
  if (!named || named->symbol == n.iterator || has_load(n.lower) || mentions(parts.upper, n.iterator)) return false;
  if (parts.lowest && mentions(parts.lowest, n.iterator)) return false;
  for (const WideAccess& access : wide) {
    if (std::any_of(access.indices.begin(), access.indices.end(), has_load)) return false;
    if (!are_evenly_apart(access.indices, n.iterator)) return false;
  }
  return true;
}

class Widener final : public Rewriter {
 public:
  explicit Widener(const Program& program)
      : aliased_(aliased_arrays(program)), stack_(uses_stack(program.body)), in_thread_(!has_kernels(program)) {
    find_registers(program.body, in_thread_, registers_);
  }
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* n = s.as<For>();
    if (has_mode(s, LoopMode::Threads)) {
      const bool outside = std::exchange(in_thread_, true);
      Stmt result = rewrite_children(s);
      in_thread_ = outside;
      return result;
    }
    if (!n || !in_thread_) return rewrite_children(s);
    if (stride_of(*n)) return with_mapped_body(s, rewrite(n->body));
    if (chunk_of(*n)) return widened_chunk(s, *n);
    return has_one_trip(*n) ? rewrite_children(s) : widened_loop(s, *n);
  }

 private:
  Stmt widened_chunk(const Stmt& s, const For& n) {
    const auto* inner = n.body.as<For>();
    if (inner && inner->shape == n.shape && chunk_of(*inner)) {
      const Stmt body = rewrite(inner->body);
      return with_mapped_body(s, with_mapping(n.body, [&](For& copy) {
                                copy.body = body;
                                copy.wide = wide_of({n.iterator, inner->iterator}, *inner);
                              }));
    }
    const Stmt body = rewrite(n.body);
    return with_mapping(s, [&](For& copy) {
      copy.body = body;
      copy.wide = wide_of({n.iterator}, n);
      const bool single = n.shape.chunk == 1 && !chunk_of(n)->lowest;
      if (!single && uses_registers(n.body)) copy.run.unroll = n.shape.chunk;
    });
  }

  /// A sequential loop.
  Stmt widened_loop(const Stmt& s, const For& n) {
    const Stmt body = rewrite(n.body);
    const auto* inner = n.body.as<For>();
    const auto* chunk = body.as<For>();
    const bool wide =
        chunk && !chunk->wide.empty() && !inner->body.as<For>() && is_alike_in_all_trips(n, *inner, chunk->wide);
    const auto* sums = wide ? inner->body.as<Block>() : nullptr;
    const auto trips = as_int(n.upper - n.lower);
    return with_mapping(s, [&](For& copy) {
      copy.body = body;
      copy.run.wide_trips = wide;
      if (stack_) copy.run.unroll = 1;
      else if (trips && *trips <= most_unrolled_trips) copy.run.unroll = std::max<std::int64_t>(*trips, 0);
      else if (sums && sums->body.size() >= many_sums) copy.run.unroll = trips_of_many_sums;
    });
  }

  std::vector<WideAccess> wide_of(const std::vector<Symbol>& iterators, const For& innermost) const {
    std::vector<WideAccess> wide;
    if (innermost.shape.chunk != chunk_width) return wide;
    const auto in_registers = [&](const Array& array) { return registers_.count(array) > 0; };
    for (const auto& access : contiguous_accesses(innermost.body, iterators, aliased_, in_registers)) {
      const auto other = static_cast<std::size_t>(1 - access.along);
      const bool even = iterators.size() < 2 || are_evenly_apart(access.indices, iterators[other]);
      wide.push_back({access.array, access.indices, access.reads, access.writes, even});
    }
    return wide;
  }

  bool uses_registers(const Stmt& s) const {
    bool found = false;
    const auto note = [&](const Array& array) { found |= registers_.count(array) > 0; };
    walk(
        s,
        [&](const Stmt& t) {
          if (const auto* a = t.as<Assign>()) note(a->array);
          if (const auto* r = t.as<Reduce>()) note(r->array);
        },
        [&](const Expr& e) {
          if (const auto* l = e.as<Load>()) note(l->array);
        });
    return found;
  }

  const std::set<Array> aliased_;
  const bool stack_;
  bool in_thread_;
  std::set<Array> registers_;
};

}  // namespace

Program widen_accesses(const Program& program) { return with_body(program, Widener(program).rewrite(program.body)); }

}  // namespace loopgrad::transforms
