#include "transforms/map/gpu/unroll_short_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"
#include "transforms/loops/unroll.h"
#include "transforms/sums/scatters.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_trips = 4;
constexpr std::size_t most_copies = 8;  // of the copies together

const ir::For* parallel_loop(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  return loop && loop->mode == ir::LoopMode::Parallel ? loop : nullptr;
}

bool mention(const std::vector<Expr>& indices, const ir::Symbol& iterator) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return ir::mentions(e, iterator); });
}

/// Whether some load is the same in all iterations, and no access moves along its array's rows with them.
bool shares_loads(const Stmt& body, const ir::Symbol& iterator) {
  bool shares = false, along_rows = false;
  auto visit_access = [&](const std::vector<Expr>& indices) {
    along_rows |= !indices.empty() && ir::mentions(indices.back(), iterator);
  };
  ir::walk(
      body, [&](const Stmt& s) { for_each_store(s, [&](const auto&, const auto& indices) { visit_access(indices); }); },
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || load->indices.empty()) return;
        visit_access(load->indices);
        shares |= !mention(load->indices, iterator);
      });
  return shares && !along_rows;
}

bool is_plain(const Stmt& body) {
  bool plain = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    plain &= s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce ||
             s.kind() == ir::Kind::If;
  });
  return plain;
}

/// The body of the loops inside of `s`, perfectly nested parallel ones, of which none has bounds with `iterator`.
Stmt innermost(const Stmt& s, const ir::Symbol& iterator) {
  const ir::For* loop = parallel_loop(s);
  if (!loop) return s;
  if (ir::mentions(loop->lower, iterator) || ir::mentions(loop->upper, iterator)) return {};
  return innermost(loop->body, iterator);
}

Stmt with_innermost(const Stmt& s, const Stmt& body) {
  const ir::For* loop = parallel_loop(s);
  return loop ? with_body(*loop, with_innermost(loop->body, body)) : body;
}

/// The iterations of a loop around `body` as statements in a row; null where they are too many, or change the bounds.
Stmt in_a_row(const ir::Program& program, const Stmt& s, const Stmt& body) {
  const ir::For& loop = *s.as<ir::For>();
  const auto trips = distance(loop.upper, loop.lower);
  if (!trips || *trips < 2 || *trips > most_trips || !body || !is_plain(body)) return {};
  if (leaves(body).size() * static_cast<std::size_t>(*trips) > most_copies) return {};
  return bounds_stay(program, s).ok ? ir::block(*iterations_of(loop, body)) : Stmt();
}

/// A body of parallel loops without its sequential loops of few iterations.
Stmt without_short_loops(const ir::Program& program, const Stmt& body) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* loop = s.as<ir::For>();
    const Stmt row = loop && !parallel_loop(s) ? in_a_row(program, s, loop->body) : Stmt();
    return row ? std::optional(row) : std::nullopt;
  });
}

/// The loops at and inside of `s` less the first parallel one that is short.
Stmt unrolled(const ir::Program& program, const Stmt& s) {
  const ir::For* loop = parallel_loop(s);
  if (!loop) return without_short_loops(program, s);
  const Stmt body = parallel_loop(loop->body) ? innermost(loop->body, loop->iterator) : Stmt();
  if (body && shares_loads(body, loop->iterator))
    if (const Stmt row = in_a_row(program, s, body)) return with_innermost(loop->body, row);
  return with_body(*loop, unrolled(program, loop->body));
}

}  // namespace

ir::Program unroll_short_loops(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                         if (s.kind() == ir::Kind::Contraction) return s;
                         // Instances of one sum are sorted together.
                         if (s.kind() == ir::Kind::For && scatter_in(program, s)) return s;
                         if (!parallel_loop(s)) return std::nullopt;
                         return unrolled(program, s);
                       }));
}

}  // namespace loopgrad::transforms
