#include "transforms/map/gpu/flatten_rows.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// Parallel loops over rows directly inside of each other, the loop over the entries of a row, and the loops directly
/// inside that data have no part in.
struct RaggedRows {
  std::vector<const ir::For*> rows;
  const ir::For* entries = nullptr;
  std::vector<const ir::For*> inside;
  Stmt body;
  Array pointer;
  Expr count;  // of entries
};

bool mentions_any(const Expr& e, const std::vector<const ir::For*>& loops) {
  return std::any_of(loops.begin(), loops.end(), [&](const ir::For* loop) { return mentions(e, loop->iterator); });
}

/// Whether the loops, from 0 each, go through all rows in order, as digits do: row is a*g + b of a in 0..n, b in 0..g.
bool visit_all(const std::vector<const ir::For*>& loops, const Expr& row, const Expr& row_count) {
  Expr position, all;
  for (const ir::For* loop : loops) {
    if (ir::as_int(loop->lower) != 0 || !host_knows(loop->upper) || mentions_any(loop->upper, loops)) return false;
    const Expr i = ir::var(loop->iterator);
    position = position ? position * loop->upper + i : i;
    all = all ? all * loop->upper : loop->upper;
  }
  const ir::Entry entry = ir::entry_of(row);  // as the pointer's elements are found, in i64
  return entry.offset == 0 && same_value(entry.base, position) && same_value(all, row_count);
}

/// Whether data decide how long an iteration takes: of pairs of entries of a row, say, where a row of twice the length
/// is four times the work.
bool takes_as_long_as_data_say(const RaggedRows& rows) {
  bool found = false;
  ir::walk_stmts(rows.body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (!loop) return;
    for (const Expr& bound : {loop->lower, loop->upper})
      found = found || ir::has_load(bound) || mentions(bound, rows.entries->iterator);
  });
  return found;
}

std::optional<RaggedRows> rows_at(const ir::Program& program, const Stmt& s) {
  RaggedRows found;
  Stmt at = s;
  for (; is_parallel_loop(at); at = at.as<ir::For>()->body) {
    const auto& loop = *at.as<ir::For>();
    const ir::PointerBounds bounds = ir::pointer_bounds(loop.lower, loop.upper);
    if (bounds.start) {
      const ir::Load &start = *bounds.start, &end = *bounds.end;
      const ir::Fact* const fact = ir::csr_fact(program, start.array);
      if (found.rows.empty() || !bounds.whole || !fact || start.array->role != ir::ArrayRole::Input)
        return std::nullopt;
      if (!ir::is_next_row(start.indices[0], end.indices[0])) return std::nullopt;
      if (!visit_all(found.rows, start.indices[0], start.array->shape[0] - number(1))) return std::nullopt;
      found.entries = &loop;
      found.pointer = start.array;
      found.count = ir::cast(ScalarType::I64, fact->upper);
      at = loop.body;
      break;
    }
    found.rows.push_back(&loop);
  }
  if (!found.entries || !host_knows(found.count)) return std::nullopt;
  for (; is_parallel_loop(at); at = at.as<ir::For>()->body) {
    const auto& loop = *at.as<ir::For>();
    if (!host_knows(loop.lower) || !host_knows(loop.upper)) break;
    if (mentions_any(loop.lower, found.rows) || mentions_any(loop.upper, found.rows)) break;
    found.inside.push_back(&loop);
  }
  found.body = at;
  return takes_as_long_as_data_say(found) ? std::optional(found) : std::nullopt;
}

class Flattener {
 public:
  explicit Flattener(const ir::Program& program) : program_(program) {}

  ir::Program run() {
    Stmt body = ir::rewrite(program_.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Contraction) return s;
      if (!is_parallel_loop(s)) return std::nullopt;
      const auto rows = rows_at(program_, s);
      return rows ? flattened(*rows) : s;
    });
    if (known_.empty()) return program_;
    std::vector<Stmt> all;
    for (const Known& known : known_) all.push_back(known.fill);
    all.push_back(std::move(body));
    Stmt result = ir::block(std::move(all));
    for (const Known& known : known_)
      for (const Array& array : known.row_of) result = ir::allocate(array, result, array->location);
    return ir::with_body(program_, result);
  }

 private:
  /// For each loop over rows of a structure the iteration that an entry is in.
  struct Known {
    Array pointer;
    std::vector<Expr> extents;
    std::vector<Array> row_of;
    Stmt fill;
  };

  const Known& known_for(const RaggedRows& rows) {
    const auto same = [&](const Known& known) {
      return known.pointer == rows.pointer &&
             std::equal(known.extents.begin(), known.extents.end(), rows.rows.begin(), rows.rows.end(),
                        [](const Expr& extent, const ir::For* loop) { return same_value(extent, loop->upper); });
    };
    const auto found = std::find_if(known_.begin(), known_.end(), same);
    if (found != known_.end()) return *found;
    Known known{rows.pointer, {}, {}, {}};
    std::vector<Stmt> all;
    for (const ir::For* loop : rows.rows) {
      known.extents.push_back(loop->upper);
      const std::string name = fmt::format("{}_of_{}", loop->iterator.name, rows.entries->iterator.name);
      known.row_of.push_back(
          ir::make_array(unused(name), ScalarType::I64, {rows.count}, ir::ArrayRole::Local, loop->location));
      all.push_back(
          ir::assign(known.row_of.back(), {ir::var(rows.entries->iterator)}, ir::var(loop->iterator), loop->location));
    }
    known.fill = with_body(*rows.entries, ir::block(std::move(all)));
    for (auto loop = rows.rows.rbegin(); loop != rows.rows.rend(); ++loop) known.fill = with_body(**loop, known.fill);
    known.fill = ir::with_fresh_names(known.fill);
    known_.push_back(std::move(known));
    return known_.back();
  }

  std::string unused(const std::string& wish) {
    std::string name = ir::free_name(program_, wish);
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  Stmt flattened(const RaggedRows& rows) {
    const std::vector<Array> row_of = known_for(rows).row_of;
    ir::Substitution now;
    std::vector<Stmt> all;
    std::vector<Array> locals;
    for (std::size_t k = 0; k < rows.rows.size(); ++k) {
      const ir::For& loop = *rows.rows[k];
      locals.push_back(
          ir::make_array(loop.iterator.name + "_now", ScalarType::I64, {}, ir::ArrayRole::Local, loop.location));
      now[loop.iterator] = ir::load(locals.back(), {}, loop.location);
      const Expr row = ir::load(row_of[k], {ir::var(rows.entries->iterator)}, loop.location);
      all.push_back(ir::assign(locals.back(), {}, row, loop.location));
    }
    all.push_back(ir::substitute(rows.body, now));
    Stmt result = ir::block(std::move(all));
    for (const Array& local : locals) result = ir::allocate(local, result, local->location);
    for (auto loop = rows.inside.rbegin(); loop != rows.inside.rend(); ++loop) result = with_body(**loop, result);
    return ir::for_loop(rows.entries->iterator, number(0), rows.count, result, ir::LoopMode::Parallel,
                        rows.entries->location);
  }

  const ir::Program& program_;
  std::vector<Known> known_;
  std::set<std::string> names_;
};

}  // namespace

ir::Program flatten_rows(const ir::Program& program) { return Flattener(program).run(); }

}  // namespace loopgrad::transforms
