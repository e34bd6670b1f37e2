#include "transforms/map/cpu/stream_rows.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// Arrays of the caller that the program assigns elements of and does nothing else with.
std::set<Array> unread_arrays(const ir::Program& program) {
  std::set<Array> found, used;
  walk(
      program.body,
      [&](const Stmt& s) {
        if (const auto* n = s.as<Assign>()) found.insert(n->array);
        if (const auto* n = s.as<Reduce>()) used.insert(n->array);
        if (const auto* n = s.as<Pop>()) used.insert(n->array);
        if (const auto* n = s.as<Allocate>()) used.insert(n->array);
        if (const auto* n = s.as<Contraction>()) used.insert({n->a, n->b, n->c});
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<Load>()) used.insert(load->array);
      });
  for (const Array& array : aliased_arrays(program)) used.insert(array);
  for (const Array& array : used) found.erase(array);
  return found;
}

/// Whether the time to compute it is more than that to store it: then the two should overlap, which single stores do.
bool is_dear(const Expr& value) {
  bool dear = false;
  walk(value, [&](const Expr& e) {
    const auto* b = e.as<Binary>();
    const auto* u = e.as<Unary>();
    dear |= b && (b->op == BinaryOp::Pow || b->op == BinaryOp::Atan2);
    dear |= u && u->op != UnaryOp::Neg && u->op != UnaryOp::Not && u->op != UnaryOp::Abs && u->op != UnaryOp::Sqrt &&
            u->op != UnaryOp::Floor && u->op != UnaryOp::Ceil;
  });
  return dear;
}

/// Of all arrays that the loop uses.
Expr bytes_used(const For& loop) {
  std::vector<Array> arrays;
  auto use = [&](const Array& array) {
    if (!array->shape.empty() && std::find(arrays.begin(), arrays.end(), array) == arrays.end())
      arrays.push_back(array);
  };
  walk(
      loop.body,
      [&](const Stmt& s) {
        if (const auto* assign = s.as<Assign>()) use(assign->array);
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<Load>()) use(load->array);
      });
  Expr bytes = int_const(0);
  for (const Array& array : arrays) bytes = bytes + ir::byte_count(array);
  return bytes;
}

/// The assignments of a loop without loops, locals or sums inside whose elements are next to each other, of arrays that
/// are among `unread`: one for each array, which every iteration does. Empty where the loop is short, or computes more
/// than it stores.
std::set<const StmtNode*> streamed_rows(const For& loop, const std::set<Array>& unread) {
  constexpr std::int64_t least_trips = 256;
  constexpr std::size_t most_rows = 16;  // each has a buffer of up to 2 KiB on the stack
  const auto trips = as_int(loop.upper - loop.lower);
  if ((trips && *trips < least_trips) || has_load(loop.lower) || has_load(loop.upper)) return {};
  std::vector<Stmt> body = {loop.body};
  if (const auto* block = loop.body.as<Block>()) body = block->body;
  std::set<const StmtNode*> rows;
  std::set<Array> assigned;
  for (const Stmt& s : body) {
    const auto* n = s.as<Assign>();
    if (!n || is_dear(n->value)) return {};
    if (!unread.count(n->array)) continue;
    bool is_row = !n->indices.empty() && assigned.insert(n->array).second;
    for (std::size_t d = 0; is_row && d < n->indices.size(); ++d) {
      const auto stride = coefficient_of(n->indices[d], loop.iterator);
      is_row = !has_load(n->indices[d]) && stride == (d + 1 == n->indices.size() ? 1 : 0);
    }
    if (!is_row) return {};
    rows.insert(s.get());
  }
  if (rows.size() > most_rows) return {};
  return rows;
}

class Streamer final : public Rewriter {
 public:
  Streamer(const ir::Program& program, Report& report) : unread_(unread_arrays(program)), report_(report) {}
  using Rewriter::rewrite;

  Expr rewrite(const Expr& e) override { return e; }

  Stmt rewrite(const Stmt& s) override {
    const auto* n = s.as<For>();
    if (!n || n->run.lanes == 1 || n->run.threads || n->run.lane_sums) return rewrite_children(s);
    const auto rows = streamed_rows(*n, unread_);
    if (rows.empty()) return rewrite_children(s);
    For copy = *n;
    copy.body = ir::rewrite(n->body, {}, [&](const Stmt& t) -> std::optional<Stmt> {
      if (!rows.count(t.get())) return std::nullopt;
      Assign streamed = *t.as<Assign>();
      streamed.id = next_id();
      streamed.streamed = true;
      return Stmt{std::make_shared<Assign>(std::move(streamed))};
    });
    const Expr bytes = bytes_used(*n);
    report_.runs.push_back(
        {n->iterator.name, n->location, "past the caches",
         fmt::format("stores of rows that nobody reads, where {} bytes are more than a cache holds", print(bytes))});
    return with_run({std::make_shared<For>(std::move(copy))}, n->run, n->work, bytes);
  }

 private:
  const std::set<Array> unread_;
  Report& report_;
};

}  // namespace

ir::Program stream_rows(const ir::Program& program, PassContext& context) {
  return with_body(program, Streamer(program, context.report).rewrite(program.body));
}

}  // namespace loopgrad::transforms
