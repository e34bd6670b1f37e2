// Where values are saved that a statement reads: in front of it, or of loops around it.
#include "tape/stores.h"
#include "tape/tape_plan.h"

namespace loopgrad::tape {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// What a value is made of.
struct Needs {
  std::set<Array> arrays;
  std::set<ir::Symbol> symbols;

  void add(const Expr& value) {
    ir::walk(value, [&](const Expr& e) {
      if (const auto* l = e.as<ir::Load>()) arrays.insert(l->array);
      if (const auto* v = e.as<ir::Var>()) symbols.insert(v->symbol);
    });
  }
  /// Some of the arrays have other values, or are declared, in the loop.
  bool change_in(const Stmt& loop) const {
    bool changes = false;
    ir::walk_stmts(loop, [&](const Stmt& s) {
      if (const Array* stored = stored_array(s)) changes |= arrays.count(*stored) != 0;
      if (const auto* local = s.as<ir::Allocate>()) changes |= arrays.count(local->array) != 0;
    });
    return changes;
  }
};

}  // namespace

/// The outermost loop that the read can be moved in front of: on the way there are only loops and declarations, and
/// nothing that the value depends on changes. `site` itself when there is none.
Stmt TapePlan::hoisted(const Expr& value, const Stmt& site) const {
  Needs needs;
  needs.add(value);
  Stmt best = site;
  const Site& where = site_of(site);
  for (auto scope = where.scopes.rbegin(); scope != where.scopes.rend(); ++scope) {
    if (scope->kind() == ir::Kind::If || scope->kind() == ir::Kind::While) break;
    const auto* loop = scope->as<ir::For>();
    if (!loop) continue;
    if (needs.symbols.count(loop->iterator) || needs.change_in(*scope)) break;
    best = *scope;
    // The loops left behind decide, in front of this one, whether the value is read at all.
    bool bounds_are_plain = true;
    for (const Expr& bound : {loop->lower, loop->upper}) {
      ir::walk(bound, [&](const Expr& e) {
        bounds_are_plain &= e.kind() != ir::Kind::Load;
        if (const auto* v = e.as<ir::Var>()) needs.symbols.insert(v->symbol);
      });
    }
    if (!bounds_are_plain) break;
  }
  return best;
}

/// In front of the outermost loop that has no say in the value, as far as nothing on the way changes it: loops inside
/// of that which choose it are gone through there once more, to save each value once. A score that a loop over `j`
/// takes from all `h[l]` saves these in front of it, not in each of its iterations.
TapePlan::SavePlace TapePlan::place_to_save(const Expr& value, const Stmt& reader) const {
  Needs needs;
  needs.add(value);
  SavePlace best{reader, {}, site_of(reader).loops};
  std::vector<LoopInside> inside;  // innermost first
  std::vector<Stmt> choosing;      // likewise
  const Site& where = site_of(reader);
  for (auto scope = where.scopes.rbegin(); scope != where.scopes.rend(); ++scope) {
    if (scope->kind() == ir::Kind::Block || scope->kind() == ir::Kind::Allocate) continue;
    const auto* loop = scope->as<ir::For>();
    if (!loop || needs.change_in(*scope)) break;
    const bool chooses = needs.symbols.count(loop->iterator) > 0;
    if (chooses && (!extents_.knows(*scope) || extents_.of(*scope).lower_local)) break;
    inside.push_back({*scope, chooses});
    if (chooses) choosing.push_back(*scope);
    needs.add(loop->lower);
    needs.add(loop->upper);
    if (chooses) continue;
    best = {*scope, {inside.rbegin(), inside.rend()}, site_of(*scope).loops};
    best.loops.insert(best.loops.end(), choosing.rbegin(), choosing.rend());
  }
  return best;
}

/// Where the loops that the value is moved out of would not have read it, it is not read in front of them either.
Expr TapePlan::save_at(const SavePlace& place, const Expr& value, const std::string& name, const Expr& guard) {
  const std::vector<Stmt> loops = in_layout(extents_.dimensions(place.loops));
  const ScalarType type = value.as<ir::Load>() ? value.as<ir::Load>()->array->type : value.type();
  const Array tape = new_tape(name + "_tape", type, loops, {}, place.at->location);
  const std::vector<Expr> index = tape_index(loops);
  Stmt save = ir::assign(tape, index, value, place.at->location);
  if (guard) save = ir::if_then(guard, save);
  bool chosen = false;
  for (auto inside = place.inside.rbegin(); inside != place.inside.rend(); ++inside) {
    const auto& loop = *inside->loop.as<ir::For>();
    chosen |= inside->chooses;
    save = inside->chooses ? ir::for_loop(loop.iterator, loop.lower, loop.upper, save, ir::LoopMode::Forward,
                                          loop.location, loop.at_most)
                           : ir::if_then(ir::binary(ir::BinaryOp::Lt, loop.lower, loop.upper), save);
  }
  additions_.before[place.at.get()].push_back(chosen ? ir::with_fresh_names(save) : save);
  return ir::load(tape, index);
}

}  // namespace loopgrad::tape
