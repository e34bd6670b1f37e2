#include "transforms/map/gpu/register_tile.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/lockstep.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int most_sums_in_trip = 2;  // in a trip: more take too many registers
constexpr double worth_it = 0.55;     // cost of the loads that are left, of those without a tile
constexpr double cost_along_x = 1.5;  // of a load that neighbouring threads do at neighbouring places, not all at one

/// What the innermost loops of a body load, each element once.
class InnerLoads {
 public:
  struct Access {
    ir::Array array;
    std::vector<Expr> indices;
    std::set<ir::Symbol> moved_by;
    bool by_data = false;
  };

  explicit InnerLoads(const Stmt& body) {
    visit(body, 0);
    for (Access& access : accesses) follow_bounds(access);
  }

  std::vector<Access> accesses;
  bool stores = false;  // to memory, in the innermost loops
  int scalars = 0;      // that the innermost loops sum into

 private:
  void visit(const Stmt& s, int depth) {
    if (!s) return;
    const auto* loop = s.as<ir::For>();
    if (loop) loops_.push_back(loop);
    const auto trips = loop ? ir::as_int(loop->upper - loop->lower) : std::nullopt;
    const int inside = depth + (loop && trips != 1);
    if (inside > deepest_) {
      deepest_ = inside;
      accesses.clear();
      stores = false;
      scalars = 0;
    }
    if (inside == deepest_ && depth == inside) {
      for_each_store(s, [&](const ir::Array&, const std::vector<Expr>& indices) { stores |= !indices.empty(); });
      scalars += s.kind() == ir::Kind::Reduce;
    }
    ir::for_each_child(s, ir::overloaded{[&](const Expr& e) {
                                           if (depth == deepest_ && inside == depth) note(e);
                                         },
                                         [&](const Stmt& child) { visit(child, inside); }});
  }

  void note(const Expr& e) {
    ir::walk(e, [&](const Expr& x) {
      const auto* load = x.as<ir::Load>();
      if (!load || load->indices.empty()) return;
      const bool known = std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) {
        return a.array == load->array && ir::equal(a.indices, load->indices);
      });
      if (!known) accesses.push_back({load->array, load->indices, {}, false});
    });
  }

  /// Iterators that an access depends on, also by the bounds of loops.
  void follow_bounds(Access& access) const {
    std::vector<Expr> left = access.indices;
    while (!left.empty()) {
      const Expr e = left.back();
      left.pop_back();
      ir::walk(e, [&](const Expr& x) {
        access.by_data |= x.as<ir::Load>() != nullptr;
        const auto* v = x.as<ir::Var>();
        if (!v || !access.moved_by.insert(v->symbol).second) return;
        for (const ir::For* loop : loops_) {
          if (loop->iterator != v->symbol) continue;
          left.push_back(loop->lower);
          left.push_back(loop->upper);
        }
      });
    }
  }

  int deepest_ = 1;
  std::vector<const ir::For*> loops_;
};

/// Of the loads for one iteration of the nest and one of the loops inside.
double cost_of_loads(const InnerLoads& inner, const std::vector<TiledLoop>& tile, const ir::For* x) {
  double cost = 0;
  for (const auto& access : inner.accesses) {
    double own = x && access.moved_by.count(x->iterator) ? cost_along_x : 1;
    for (const TiledLoop& t : tile)
      if (!access.moved_by.count(t.loop->iterator)) own /= static_cast<double>(t.width);
    cost += own;
  }
  return cost;
}

/// Tiles along one or two of the loops.
std::vector<std::vector<TiledLoop>> tiles_of(const std::vector<const ir::For*>& free, const TileCandidates& loops) {
  std::vector<std::vector<TiledLoop>> tiles;
  const std::int64_t most = loops.most / (loops.wide_x ? chunk_width : 1);
  for (const ir::For* a : free)
    for (const std::int64_t width : {4, 8}) {
      if (width > most) continue;
      tiles.push_back({{a, width}});
      for (const ir::For* b : free)
        for (const std::int64_t second : {4, 8})
          if (a != b && width * second <= most) tiles.push_back({{a, width}, {b, second}});
    }
  return tiles;
}

}  // namespace

std::vector<TiledLoop> register_tile(const Stmt& body, const TileCandidates& loops) {
  const InnerLoads inner(body);
  if (inner.stores || inner.scalars == 0 || inner.scalars > most_sums_in_trip || inner.accesses.size() < 2) return {};
  for (const auto& access : inner.accesses) {
    // An element that only one iteration of the nest loads comes from memory.
    const bool shared = std::any_of(loops.all.begin(), loops.all.end(),
                                    [&](const ir::For* loop) { return !access.moved_by.count(loop->iterator); });
    if (!shared || access.by_data) return {};
  }
  std::vector<const ir::For*> free;
  for (const ir::For* loop : loops.free)
    if (loop != loops.x && can_be_copied(body, loop->iterator)) free.push_back(loop);
  const std::vector<TiledLoop> along_x =
      loops.wide_x ? std::vector<TiledLoop>{{loops.x, chunk_width}} : std::vector<TiledLoop>();
  std::vector<TiledLoop> best;
  double least = worth_it * cost_of_loads(inner, {}, loops.x);
  for (const auto& tile : tiles_of(free, loops)) {
    std::vector<TiledLoop> all = tile;
    all.insert(all.end(), along_x.begin(), along_x.end());
    const double cost = cost_of_loads(inner, all, loops.x);
    if (cost >= least) continue;
    least = cost;
    best = tile;
  }
  return best;
}

Expr fill_device(const std::vector<TiledLoop>& tile, const Expr& total, std::int64_t enough) {
  Expr result = at_least(total, enough * iterations_of(tile));
  for (const TiledLoop& t : tile)
    result = ir::binary(ir::BinaryOp::And, result, at_least(t.loop->upper - t.loop->lower, t.width));
  return result;
}

Expr most_trips(const Expr& least_start, const Expr& most_end, const std::vector<ir::Symbol>& around) {
  std::vector<Expr> lowers, uppers;
  ir::collect_operands(least_start, ir::BinaryOp::Max, lowers);
  ir::collect_operands(most_end, ir::BinaryOp::Min, uppers);
  std::vector<Expr> found;
  for (const Expr& lower : lowers)
    for (const Expr& upper : uppers) {
      const Expr trips = to_expr(linear_form(upper - lower));
      const bool known = ir::is_fixed(trips, around);
      const bool is_new = std::none_of(found.begin(), found.end(), [&](const Expr& e) { return ir::equal(e, trips); });
      if (known && is_new) found.push_back(trips);
    }
  Expr least;
  for (const Expr& trips : found) least = least ? ir::binary(ir::BinaryOp::Min, least, trips) : trips;
  return least;
}

std::int64_t iterations_of(const std::vector<TiledLoop>& tile) {
  std::int64_t all = 1;
  for (const TiledLoop& t : tile) all *= t.width;
  return all;
}

}  // namespace loopgrad::transforms
