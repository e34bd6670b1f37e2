#include "transforms/sums/scans/scan_recurrences.h"

#include "dsl/ir/printer.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/scans/piece_scan.h"
#include "transforms/sums/scans/team_scan.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// Rows that keep a GPU busy with a block each: about twice as many as an H200 has multiprocessors.
constexpr std::int64_t enough_per_row = 256;

constexpr std::int64_t groups = 16, lanes = 8;  // of pieces on a CPU: for its threads, and in each
constexpr std::int64_t piece = 32;  // iterations that a thread does in a row, where neighbours are other rows

class Scanner {
 public:
  Scanner(const ir::Program& program, PassContext& context) : program_(program), context_(context) {}

  Stmt visit(const Stmt& s) {
    if (!s) return s;
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      for (const Stmt& child : n->body) body.push_back(visit(child));
      return ir::block(std::move(body));
    }
    if (const auto* n = s.as<ir::Allocate>()) return ir::allocate(n->array, visit(n->body), n->location, n->home);
    if (const auto* n = s.as<ir::If>())
      return ir::if_then(n->condition, visit(n->then_body), visit(n->else_body), n->location);
    const auto* n = s.as<ir::For>();
    if (!n) return s;
    if (const Stmt scan = scanned(s)) return scan;
    return is_parallel_loop(s) ? s : with_body(*n, visit(n->body));
  }

 private:
  /// The nest as a scan; null where it is none.
  Stmt scanned(const Stmt& nest) {
    LoopsAround around;
    Stmt s = nest;
    for (; is_parallel_loop(s); s = s.as<ir::For>()->body) {
      around.push_back(s.as<ir::For>());
      if (ir::has_load(around.back()->lower) || ir::has_load(around.back()->upper)) return {};
    }
    const auto r = recurrence_of(s);
    if (!r || !is_rectangular(*r, around) || ir::aliased_arrays(program_).count(r->array)) return {};
    // Lanes wait for sums of floats; a processor adds integers as fast as it reads them, and pieces read them twice.
    if (is_integer(r->array->type) && !machine().is_gpu()) return {};
    const Expr trips = trips_of(*r);
    if (const auto known = ir::as_int(trips); known && *known < least()) return {};
    Expr rows = number(1);
    for (const ir::For* loop : around) rows = rows * (loop->upper - loop->lower);
    const auto [pays, pieces] = in_pieces(*r, around, trips, rows);
    return ir::if_then(pays, pieces, ir::with_fresh_names(nest), r->loop->location);
  }

  struct Choice {
    Expr pays;  // as sizes are
    Stmt pieces;
  };
  Choice in_pieces(const Recurrence& r, const LoopsAround& around, const Expr& trips, const Expr& rows) {
    const Expr is_long = at_least(trips, least());
    if (!machine().is_gpu()) {
      note(r, fmt::format("{} pieces", groups * lanes));
      return {both(is_long, less(rows, machine().enough_threads)), scan_by_lanes(r, around, groups, lanes)};
    }
    std::vector<ir::Symbol> iterators;
    for (const ir::For* loop : around) iterators.push_back(loop->iterator);
    if (!runs_along(r.statement, iterators)) {
      note(r, fmt::format("pieces of {} iterations", piece));
      return {both(is_long, less(rows, most_rows_in_pieces)), scan_by_pieces(r, around, number(piece))};
    }
    const TeamShape shape = team_shape(context_.options.threads_per_block, machine().scan_tile);
    note(r, fmt::format("tiles of {} iterations", shape.tile()));
    const Expr few_tiles = ir::binary(BinaryOp::Le, trips, number(shape.tile()));
    const Expr by_rows = ir::binary(BinaryOp::Or, at_least(rows, machine().enough_threads / enough_per_row), few_tiles);
    return {is_long,
            ir::if_then(by_rows, rows_by_teams(r, around, shape), tiles_by_teams(r, around, shape), r.loop->location)};
  }

  static Expr less(const Expr& a, std::int64_t b) { return ir::binary(BinaryOp::Lt, a, number(b)); }
  const Machine& machine() const { return context_.options.machine; }
  std::int64_t least() const { return context_.options.machine.least_scanned; }

  static bool is_rectangular(const Recurrence& r, const LoopsAround& around) {
    LoopsAround loops = around;
    loops.push_back(r.loop);
    for (const ir::For* outer : around)
      for (const ir::For* loop : loops)
        if (mentions(loop->lower, outer->iterator) || mentions(loop->upper, outer->iterator)) return false;
    return true;
  }

  void note(const Recurrence& r, const std::string& shares) {
    const char* what = r.update.kind != Update::Kind::Linear ? "an extremum"
                       : r.update.factor                     ? "a linear step"
                                                             : "a sum";
    const std::string reason =
        fmt::format("a scan: {} = {} of the one before, composed in a fixed order, in {}, from {} iterations on",
                    ir::print(ir::load(r.array, r.indices)), what, shares, least());
    for (LoopDecision& decision : context_.report.loops) {
      if (decision.parallel || decision.loop != r.loop->iterator.name || decision.where.line != r.loop->location.line)
        continue;
      decision.parallel = true;
      decision.reason = reason;
      return;
    }
    context_.report.remarks.push_back({fmt::format("loop '{}': {}", r.loop->iterator.name, reason), r.loop->location});
  }

  const ir::Program& program_;
  PassContext& context_;
};

}  // namespace

ir::Program scan_recurrences(const ir::Program& program, PassContext& context) {
  const LowerOptions& options = context.options;
  if (!options.machine.least_scanned || options.by_hand || !options.schedule.empty()) return program;
  return ir::with_body(program, Scanner(program, context).visit(program.body));
}

}  // namespace loopgrad::transforms
