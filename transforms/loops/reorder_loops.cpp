#include "transforms/loops/reorder_loops.h"

#include "dsl/ir/visit.h"
#include "dsl/poly/schedule.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// One loop of the new nest: a loop of the old one, its blocks (factor > 0, tile), or the iterations of a block.
struct NewLoop {
  std::size_t of = 0;       // number in the band
  bool tile = false;        // enumerates blocks
  std::int64_t factor = 0;  // of the split, 0: none
};

// A perfect nest and the loops to make of it, outermost first.
struct Reordering {
  std::vector<Stmt> band;
  std::vector<NewLoop> order;

  const ir::For& loop(std::size_t k) const { return *band[k].as<ir::For>(); }
  const Stmt& body() const { return band.back().as<ir::For>()->body; }
};

// A larger block is taken as one of this size: any size is right, no loop has more iterations, and bounds that add it
// to a size do not overflow.
constexpr std::int64_t largest_block = std::int64_t{1} << 40;

Expr tile_of(const ir::For& loop, std::int64_t factor) { return block_number(loop, factor); }

std::vector<Expr> times_of(const Reordering& r) {
  std::vector<Expr> times;
  for (const NewLoop& next : r.order) {
    const ir::For& loop = r.loop(next.of);
    times.push_back(next.tile ? tile_of(loop, next.factor) : rising(loop));
  }
  return times;
}

std::string name_of(const Reordering& r, const NewLoop& next) {
  return r.loop(next.of).iterator.name + (next.tile ? "_tile" : "");
}

// Whether the bounds of each new loop use iterators of loops outside of it only.
bool is_rectangular(const Reordering& r) {
  std::vector<bool> open(r.band.size(), false);
  for (const NewLoop& next : r.order) {
    for (std::size_t k = 0; k < r.band.size(); ++k) {
      const ir::For& loop = r.loop(next.of);
      const ir::Symbol& other = r.loop(k).iterator;
      if (!open[k] && k != next.of && (mentions(loop.lower, other) || mentions(loop.upper, other))) return false;
    }
    if (!next.tile) open[next.of] = true;
  }
  return true;
}

Stmt rebuilt(const Reordering& r) {
  // Blocks are counted in the order of the loop, so block loops run forward.
  std::vector<ir::Symbol> tiles;
  for (std::size_t k = 0; k < r.band.size(); ++k) tiles.push_back(ir::make_symbol(r.loop(k).iterator.name + "_tile"));
  Stmt result = r.body();
  for (auto next = r.order.rbegin(); next != r.order.rend(); ++next) {
    const ir::For& loop = r.loop(next->of);
    Expr lower = loop.lower, upper = loop.upper, size = ir::int_const(next->factor);
    ir::LoopMode mode = r.band.size() > 1 ? unmarked(loop.mode) : loop.mode;
    ir::Symbol iterator = loop.iterator;
    bool backward = mode == ir::LoopMode::Backward;
    if (next->tile) {
      iterator = tiles[next->of];
      lower = ir::int_const(0);
      Expr trips = simplify_indices(loop.upper - loop.lower + size - ir::int_const(1));
      upper = ir::binary(ir::BinaryOp::FloorDiv, trips, size);
      if (backward) mode = ir::LoopMode::Forward;
    } else if (next->factor > 0) {
      Expr start = ir::var(tiles[next->of]) * size;
      if (backward) {
        Expr end = simplify_indices(loop.upper - start);
        lower = ir::binary(ir::BinaryOp::Max, loop.lower, simplify_indices(end - size));
        upper = end;
      } else {
        lower = simplify_indices(loop.lower + start);
        upper = ir::binary(ir::BinaryOp::Min, loop.upper, simplify_indices(lower + size));
      }
    }
    result =
        ir::for_loop(iterator, lower, upper, result, mode, loop.location, next->factor > 0 ? Expr() : loop.at_most);
  }
  return result;
}

// isl makes the loops: the body stands in the model as one statement.
Stmt regenerated(const ir::Program& program, const Reordering& r) {
  ir::Array stand_in = ir::make_array("body", ScalarType::F32, {}, ir::ArrayRole::Local, {});
  Stmt nest = ir::assign(stand_in, {}, ir::float_const(0, ScalarType::F32), r.band[0]->location);
  for (auto loop = r.band.rbegin(); loop != r.band.rend(); ++loop) nest = with_body(*loop->as<ir::For>(), nest);
  ir::Program skeleton = with_replaced(program, r.band[0], nest);
  poly::Model model = poly::build_model(skeleton, nest, std::make_shared<poly::Context>());
  if (model.statements.size() != 1 || !model.statements[0].exact_bounds) return {};
  std::vector<std::string> names;
  for (const NewLoop& next : r.order) names.push_back(name_of(r, next));
  Stmt code = poly::code_in_order(model, {{0, times_of(r), r.body()}}, names);
  return simplify_indices(code);
}

Legality can_reorder_nest(const Analysed& program, const Reordering& r) {
  for (std::size_t k = 0; k < r.band.size(); ++k) {
    if (!bounds_are_plain(r.loop(k))) {
      return Legality::refused(fmt::format("the bounds of '{}' read data or divide by sizes", r.loop(k).iterator.name));
    }
  }
  std::vector<Expr> times = times_of(r);
  return can_reorder(program, r.band[0], [&](const poly::Statement&) { return std::optional(times); });
}

Scheduled apply(const Analysed& program, const Reordering& r, const std::string& action) {
  Legality legality = can_reorder_nest(program, r);
  require(legality, program, r.band[0], action);
  Stmt result;
  try {
    result = is_rectangular(r) ? rebuilt(r) : regenerated(program, r);
  } catch (const poly::BudgetError& e) {
    require(Legality::refused(e.info().message), program, r.band[0], action);
  }
  if (!result) require(Legality::refused("the bounds are not affine"), program, r.band[0], action);
  return {with_replaced(program, r.band[0], result), legality};
}

// The perfect nest that reaches from the outermost of some loops to the innermost of them.
std::vector<Stmt> band_of(const ir::Program& program, const std::vector<Stmt>& loops, const std::string& action) {
  for (const Stmt& start : loops) {
    std::vector<Stmt> nest = perfect_nest(start);
    std::size_t last = 0, found = 0;
    for (const Stmt& loop : loops) {
      auto it = std::find_if(nest.begin(), nest.end(), [&](const Stmt& s) { return s.get() == loop.get(); });
      if (it == nest.end()) continue;
      ++found;
      last = std::max(last, static_cast<std::size_t>(it - nest.begin()));
    }
    if (found != loops.size()) continue;
    nest.resize(last + 1);
    return nest;
  }
  misuse(program, loops[0], action, "the loops are not perfectly nested",
         "split the outer loop with fission, or move what lies between the loops");
}

std::size_t number_in(const std::vector<Stmt>& band, const Stmt& loop) {
  auto it = std::find_if(band.begin(), band.end(), [&](const Stmt& s) { return s.get() == loop.get(); });
  return static_cast<std::size_t>(it - band.begin());
}

std::vector<Stmt> find_all(const ir::Program& program, const std::vector<LoopName>& names, const std::string& action) {
  std::vector<Stmt> loops;
  for (const LoopName& name : names) {
    loops.push_back(find_loop(program, name));
    for (std::size_t k = 0; k + 1 < loops.size(); ++k) {
      if (loops[k].get() == loops.back().get()) misuse(program, loops[k], action, "a loop is named twice");
    }
  }
  return loops;
}

std::string names_of(const std::vector<LoopName>& names) {
  std::string text;
  for (std::size_t k = 0; k < names.size(); ++k) {
    text += (k == 0 ? "'" : k + 1 < names.size() ? ", '" : " and '") + names[k].name() + "'";
  }
  return text;
}

}  // namespace

const ir::For* only_parallel_loop(const Stmt& body) {
  if (!body) return nullptr;
  if (const auto* branch = body.as<ir::If>())
    return branch->else_body ? nullptr : only_parallel_loop(branch->then_body);
  return is_parallel_loop(body) ? body.as<ir::For>() : nullptr;
}

Stmt with_parallel_outermost(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  const ir::For* inner = loop && !ir::is_parallel(loop->mode) ? only_parallel_loop(loop->body) : nullptr;
  if (!inner) return {};
  for (const Expr& bound : {inner->lower, inner->upper})
    if (mentions(bound, loop->iterator) || ir::has_load(bound)) return {};
  const Stmt body = ir::rewrite(loop->body, {}, [&](const Stmt& t) -> std::optional<Stmt> {
    return t.as<ir::For>() == inner ? std::optional(inner->body) : std::nullopt;
  });
  return with_body(*inner, with_body(*loop, body));
}

Scheduled split_loop(const Analysed& program, const LoopName& name, std::int64_t factor) {
  Stmt loop = find_loop(program, name);
  if (factor < 1) misuse(program, loop, "split '" + name.name() + "'", "the factor is not positive");
  require(bounds_stay(program, loop), program, loop, "split '" + name.name() + "'");
  factor = std::min(factor, largest_block);
  return {with_replaced(program, loop, rebuilt({{loop}, {{0, true, factor}, {0, false, factor}}})), {}};
}

Scheduled tile_loops(const Analysed& program, const std::vector<LoopName>& names,
                     const std::vector<std::int64_t>& sizes) {
  std::string action = "tile " + names_of(names);
  std::vector<Stmt> loops = find_all(program, names, action);
  if (names.size() != sizes.size()) misuse(program, loops[0], action, "there must be one size for each loop");
  Reordering r{band_of(program, loops, action), {}};
  std::vector<NewLoop> inner;
  for (std::size_t k = 0; k < loops.size(); ++k) {
    if (sizes[k] < 1) misuse(program, loops[k], action, "a size is not positive");
    const std::int64_t size = std::min(sizes[k], largest_block);
    r.order.push_back({number_in(r.band, loops[k]), true, size});
    inner.push_back({number_in(r.band, loops[k]), false, size});
  }
  if (r.band.size() != loops.size()) misuse(program, loops[0], action, "a loop between them is not named", "name all");
  r.order.insert(r.order.end(), inner.begin(), inner.end());
  return apply(program, r, action);
}

Scheduled reorder_loops(const Analysed& program, const std::vector<LoopName>& order) {
  std::string action = "reorder " + names_of(order);
  std::vector<Stmt> loops = find_all(program, order, action);
  Reordering r{band_of(program, loops, action), {}};
  if (r.band.size() != loops.size()) misuse(program, loops[0], action, "a loop between them is not named", "name all");
  for (const Stmt& loop : loops) r.order.push_back({number_in(r.band, loop), false, 0});
  return apply(program, r, action);
}

Scheduled interchange_loops(const Analysed& program, const LoopName& a, const LoopName& b) {
  std::string action = "interchange " + names_of({a, b});
  std::vector<Stmt> loops = find_all(program, {a, b}, action);
  Reordering r{band_of(program, loops, action), {}};
  for (std::size_t k = 0; k < r.band.size(); ++k) r.order.push_back({k, false, 0});
  std::swap(r.order.front(), r.order.back());
  return apply(program, r, action);
}

Scheduled reverse_loop(const Analysed& program, const LoopName& name) {
  Stmt s = find_loop(program, name);
  const ir::For& loop = *s.as<ir::For>();
  if (ir::is_parallel(loop.mode)) return {program, {}};
  Expr back = -rising(loop);
  Legality legality =
      can_reorder(program, s, [&](const poly::Statement&) { return std::optional(std::vector<Expr>{back}); });
  require(legality, program, s, "reverse '" + name.name() + "'");
  bool backward = loop.mode == ir::LoopMode::Backward;
  Stmt result = with_mode(loop, backward ? ir::LoopMode::Forward : ir::LoopMode::Backward);
  return {with_replaced(program, s, result), legality};
}

}  // namespace loopgrad::transforms
