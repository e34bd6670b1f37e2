#include "backends/facts_program.h"

#include "dsl/ir/known_scalars.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/closed_counters.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/bounds/open_accesses.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace loopgrad::backend {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

/// A table that is at most so many times as long as the array of indices is passed through as a whole, a byte per
/// value.
constexpr std::int64_t table_share = 16;

Expr number(std::int64_t value) { return ir::int_const(value); }
Expr either(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Or, a, b); }
Expr less(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Lt, a, b); }
Expr as_index(const Expr& e) { return ir::cast(ScalarType::I64, e); }

/// A loop over all elements of an array.
struct Elements {
  explicit Elements(const Array& array_in) : array(array_in) {
    for (std::size_t d = 0; d < array->shape.size(); ++d) iterators.push_back(ir::make_symbol("i"));
  }
  Expr value() const { return as_index(ir::load(array, indices(), array->location)); }
  std::vector<Expr> indices() const {
    std::vector<Expr> all;
    for (std::size_t d = 0; d < iterators.size(); ++d)
      all.push_back(backwards ? array->shape[d] - number(1) - ir::var(iterators[d]) : ir::var(iterators[d]));
    return all;
  }
  /// Number of the element in row-major order.
  Expr position() const {
    const std::vector<Expr> all = indices();
    Expr result = number(0);
    for (std::size_t d = 0; d < all.size(); ++d) result = result * array->shape[d] + all[d];
    return result;
  }
  Stmt loop(Stmt body, const SourceLocation& where) const {
    for (std::size_t d = iterators.size(); d-- > 0;)
      body = ir::for_loop(iterators[d], number(0), array->shape[d], body, ir::LoopMode::Forward, where);
    return body;
  }

  Array array;
  std::vector<ir::Symbol> iterators;
  bool backwards = false;  // the last element first
};

/// A loop, or a condition where `iterator` is null.
struct Link {
  std::optional<ir::Symbol> iterator;
  Expr lower, upper, condition;
  SourceLocation location;
};

/// Conditions that must not hold anywhere in a nest: one loop reads what they have in common once.
struct Nest {
  std::vector<Link> links;  // outermost first; iterators are the same symbols in all nests
  struct Check {
    Expr broken, index;
    std::size_t site = 0;
    bool is_index = false;
  };
  std::vector<Check> checks;
  SourceLocation location;
  Expr gate;  // the first link where that is a condition on sizes

  Stmt around(Stmt body) const {
    for (auto link = links.rbegin(); link != links.rend(); ++link)
      body = link->iterator
                 ? ir::for_loop(*link->iterator, link->lower, link->upper, body, ir::LoopMode::Forward, link->location)
                 : ir::if_then(link->condition, body, {}, link->location);
    return body;
  }
};

bool same(const Link& a, const Link& b) {
  if (a.iterator || b.iterator)
    return a.iterator == b.iterator && ir::equal(a.lower, b.lower) && ir::equal(a.upper, b.upper);
  return ir::equal(a.condition, b.condition);
}

class Builder {
 public:
  explicit Builder(const ir::Program& program) : source_(program), scalars_(program) {
    result_ = make_result(1);
    note_given_sizes();
    for (const Array& array : program.arrays) {
      if (array->role == ir::ArrayRole::Tape) continue;
      inputs_[array] = ir::make_array_like(array, array->name, array->type, ir::ArrayRole::Input);
      arrays_.push_back(inputs_[array]);
    }
  }

  FactsProgram build() {
    for (const ir::Fact& fact : source_.facts) add(fact);
    transforms::LeavingAccesses leaving(source_);
    for (const transforms::OpenAccess& access : transforms::open_accesses(source_))
      if (access.only_sizes) add_of_sizes(access, leaving.leaving(access));
      else if (access.is_known) add(access, {});
    FactsProgram all;
    all.source = source_;
    all.needed = needed();
    const Stmt body = finished();
    all.seen = make_result(static_cast<std::int64_t>(sites_.size()));
    const Stmt seen = recording(all.seen);
    all.deciding = deciding(body);
    all.stated = {source_.name, used_sizes(body), arrays_, std::move(stated_), ir::block({}), source_.location};
    all.on_host = std::move(on_host_);
    all.sites = std::move(sites_);
    all.of_sizes = std::move(of_sizes_);
    all.result = result_;
    all.recording = ir::with_body(all.stated, seen);
    all.recording.arrays.push_back(all.seen);
    if (!ir::is_empty(body)) arrays_.push_back(result_);
    all.program = {source_.name + "_facts", all.stated.sizes, std::move(arrays_), std::move(parallel_), body,
                   source_.location};
    return all;
  }

 private:
  /// Those that extents of arguments, bounds of loops or conditions are made of.
  void note_given_sizes() {
    const auto note = [&](const Expr& e) {
      ir::walk(e, [&](const Expr& part) {
        if (const auto* v = part.as<ir::Var>()) given_.insert(v->symbol);
        return part.kind() != ir::Kind::Load;
      });
    };
    for (const Array& array : source_.arrays)
      for (const Expr& extent : array->shape)
        if (array->role != ir::ArrayRole::Tape) note(extent);
    ir::walk_stmts(source_.body, [&](const Stmt& s) {
      if (const auto* n = s.as<ir::For>()) note(n->lower), note(n->upper);
      if (const auto* n = s.as<ir::If>()) note(n->condition);
    });
  }

  void add(ir::Fact fact) {
    const auto found = inputs_.find(fact.array);
    if (found == inputs_.end() || !ir::is_about_data(fact.kind)) return;
    const Array array = fact.array = found->second;
    stated_.push_back(fact);
    switch (fact.kind) {
      case ir::FactKind::InRange: return in_range(Elements(array), fact);
      case ir::FactKind::Sorted: return sorted(array, fact);
      case ir::FactKind::CsrPointer: return csr_pointer(array, fact);
      case ir::FactKind::Injective: return injective(array, fact);
      case ir::FactKind::MayAlias: return;  // allows, promises nothing
      case ir::FactKind::ReadUpTo: return;  // about other programs
      case ir::FactKind::Distinct: return;  // about what the program computes
    }
  }

  Array make_result(std::int64_t count) const {
    return ir::make_array(free_name(), ScalarType::I64, {number(count)}, ir::ArrayRole::Output, source_.location);
  }

  /// The checks after a result that says that nothing is wrong.
  Stmt finished() const {
    if (checks_.empty() && nests_.empty()) return ir::block({});
    std::vector<Stmt> all = {ir::assign(result_, {number(0)}, number(0), source_.location)};
    for (const Stmt& check : checks_) all.push_back(ir::with_fresh_names(check));
    for (const Nest& nest : nests_) {
      Expr broken;  // a sum, not a disjunction: without branches
      for (const Nest::Check& check : nest.checks)
        broken = broken ? broken + as_index(check.broken) : as_index(check.broken);
      const Stmt count = ir::reduce(result_, {number(0)}, ir::ReduceOp::Add, broken, nest.location);
      all.push_back(ir::with_fresh_names(nest.around(count)));
    }
    return ir::replace_arrays(ir::block(std::move(all)), inputs_);
  }

  /// What index was wrong, for each site.
  Stmt recording(const Array& seen) const {
    const ir::Symbol k = ir::make_symbol("k");
    std::vector<Stmt> all = {ir::for_loop(k, number(0), seen->shape[0],
                                          ir::assign(seen, {ir::var(k)}, number(transforms::nothing_recorded)),
                                          ir::LoopMode::Forward, source_.location)};
    for (const Nest& nest : nests_)
      for (const Nest::Check& check : nest.checks) {
        if (!check.is_index) continue;
        const Expr value = ir::larger(check.index, number(transforms::nothing_recorded + 1));
        const Stmt note = ir::reduce(seen, {number(static_cast<std::int64_t>(check.site))}, ir::ReduceOp::Max, value,
                                     sites_[check.site].location);
        all.push_back(ir::with_fresh_names(nest.around(ir::if_then(check.broken, note, {}, nest.location))));
      }
    return ir::replace_arrays(ir::block(std::move(all)), inputs_);
  }

  std::set<Array> deciding(const Stmt& body) const {
    std::set<Array> all;
    for (const ir::Fact& fact : stated_) all.insert(fact.array);
    ir::walk(
        body, [](const Stmt&) {},
        [&](const Expr& e) {
          const auto* load = e.as<ir::Load>();
          if (load && load->array->role == ir::ArrayRole::Input) all.insert(load->array);
        });
    return all;
  }

  std::string free_name() const {
    std::string name = "results";
    while (ir::find_array(source_, name)) name += "_";
    return name;
  }

  Stmt counted(const Expr& broken, const ir::Fact& fact) const {
    return ir::reduce(result_, {number(0)}, ir::ReduceOp::Add, as_index(broken), fact.location);
  }

  void in_range(const Elements& elements, const ir::Fact& fact) {
    const Expr value = elements.value();
    const Expr broken = either(less(value, fact.lower), ir::binary(BinaryOp::Ge, value, fact.upper));
    std::vector<Link> links;
    for (std::size_t d = 0; d < elements.iterators.size(); ++d)
      links.push_back({elements.iterators[d], number(0), elements.array->shape[d], {}, fact.location});
    add(std::move(links), {broken, {}, 0, false}, fact.location);
  }

  void sorted(const Array& array, const ir::Fact& fact) {
    const ir::Symbol i = ir::make_symbol("i");
    const auto at = [&](const Expr& place) { return ir::load(array, {place}, fact.location); };
    checks_.push_back(ir::for_loop(i, number(1), array->shape[0],
                                   counted(less(at(ir::var(i)), at(ir::var(i) - number(1))), fact),
                                   ir::LoopMode::Forward, fact.location));
  }

  void csr_pointer(const Array& array, const ir::Fact& fact) {
    const Expr& extent = array->shape[0];
    const auto at = [&](const Expr& place) { return as_index(ir::load(array, {place}, fact.location)); };
    const Expr ends = either(ir::binary(BinaryOp::Ne, at(number(0)), number(0)),
                             ir::binary(BinaryOp::Ne, at(extent - number(1)), fact.upper));
    // Of an array without elements nothing may be read.
    checks_.push_back(ir::if_then(less(number(0), extent), counted(ends, fact), counted(ir::bool_const(true), fact)));
    sorted(array, fact);
  }

  void injective(const Array& array, const ir::Fact& fact) {
    const Expr end = table_end(fact);
    if (!end) return on_host_.push_back(fact);
    const Expr count = ir::element_count(array);
    const Expr is_short = ir::binary(BinaryOp::Le, end, number(table_share) * count);
    checks_.push_back(ir::if_then(is_short, marked(array, fact, end, count), owned(array, fact, end), fact.location));
    parallel_.push_back(fact);
  }

  /// `body` for each element that is a place in a table of `end` ones.
  static Stmt for_places(const Elements& e, const Expr& end, const Stmt& body, const SourceLocation& where) {
    const Expr inside = both(ir::binary(BinaryOp::Ge, e.value(), number(0)), less(e.value(), end));
    return e.loop(ir::if_then(inside, body, {}, where), where);
  }

  /// As many values as elements.
  Stmt marked(const Array& array, const ir::Fact& fact, const Expr& end, const Expr& count) const {
    const Array marks =
        ir::make_array("marks", ScalarType::Bool, {ir::larger(end, number(0))}, ir::ArrayRole::Local, fact.location);
    const ir::Symbol k = ir::make_symbol("k"), l = ir::make_symbol("k");
    const auto for_all = [&](const ir::Symbol& iterator, const Stmt& body) {
      return ir::for_loop(iterator, number(0), end, body, ir::LoopMode::Forward, fact.location);
    };
    const Elements elements(array);
    const Expr mark = ir::load(marks, {ir::var(l)}, fact.location);
    return ir::allocate(
        marks,
        ir::block({for_all(k, ir::assign(marks, {ir::var(k)}, ir::bool_const(false), fact.location)),
                   for_places(elements, end, ir::assign(marks, {elements.value()}, ir::bool_const(true), fact.location),
                              fact.location),
                   ir::reduce(result_, {number(0)}, ir::ReduceOp::Add, count, fact.location),
                   for_all(l, ir::reduce(result_, {number(0)}, ir::ReduceOp::Add, -as_index(mark), fact.location))}),
        fact.location);
  }

  /// Each element finds its own number at its value.
  Stmt owned(const Array& array, const ir::Fact& fact, const Expr& end) const {
    const Array owner =
        ir::make_array("owner", ScalarType::I64, {ir::larger(end, number(0))}, ir::ArrayRole::Local, fact.location);
    const Elements first(array);
    Elements again(array);
    again.backwards = true;  // so that no pass does both at once, where the fact says what is to be found out
    const Expr owned_by = ir::load(owner, {again.value()}, fact.location);
    const Stmt note = ir::assign(owner, {first.value()}, first.position(), fact.location);
    const Stmt look = counted(ir::binary(BinaryOp::Ne, owned_by, again.position()), fact);
    return ir::allocate(
        owner, ir::block({for_places(first, end, note, fact.location), for_places(again, end, look, fact.location)}),
        fact.location);
  }

  /// The upper bound that is stated for the elements, where the lower one is 0.
  Expr table_end(const ir::Fact& injective) const {
    for (const ir::Fact& fact : source_.facts)
      if (fact.kind == ir::FactKind::InRange && inputs_.at(fact.array) == injective.array &&
          ir::as_int(fact.lower) == 0)
        return fact.upper;
    return {};
  }

  /// All but those that the runtime computes for tapes.
  std::vector<ir::Symbol> used_sizes(const Stmt& body) const {
    std::set<ir::Symbol> used;
    auto note = [&](const Expr& e) {
      if (!e) return;
      ir::walk(e, [&](const Expr& part) {
        if (const auto* v = part.as<ir::Var>()) used.insert(v->symbol);
      });
    };
    for (const auto& [array, input] : inputs_)
      for (const Expr& extent : input->shape) note(extent);
    ir::walk(
        body, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* v = e.as<ir::Var>()) used.insert(v->symbol);
        });
    for (const FactsProgram::OfSizes& one : of_sizes_) note(one.broken);
    for (const ir::Fact& fact : source_.facts) {
      if (fact.kind == ir::FactKind::ReadUpTo || fact.kind == ir::FactKind::Distinct) continue;
      note(fact.lower);
      note(fact.upper);
    }
    std::vector<ir::Symbol> sizes;
    for (const ir::Symbol& size : source_.sizes)
      if (used.count(size)) sizes.push_back(size);
    return sizes;
  }

  // Indices.

  using Symbols = std::set<ir::Symbol>;

  /// Iterators of loops with bounds that data decide: no fact may say how far they go.
  static Symbols from_data(const std::vector<Stmt>& around) {
    Symbols all;
    for (const Stmt& s : around)
      if (const auto* n = s.as<ir::For>(); n && (is_from_data(n->lower, all) || is_from_data(n->upper, all)))
        all.insert(n->iterator);
    return all;
  }
  static bool is_from_data(const Expr& e, const Symbols& iterators) {
    bool data = ir::has_load(e);
    ir::walk(e, [&](const Expr& part) {
      const auto* v = part.as<ir::Var>();
      data |= v && iterators.count(v->symbol) > 0;
    });
    return data;
  }

  /// That reading what the index or condition is made of stays in range itself; null when nothing could not.
  static void add_readable(const Expr& e, const Symbols& iterators, Expr& all) {
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      if (!load) return true;
      for (std::size_t d = 0; d < load->indices.size(); ++d) {
        if (!is_from_data(load->indices[d], iterators)) continue;
        add_readable(load->indices[d], iterators, all);
        const Expr inside =
            both(ir::binary(BinaryOp::Ge, load->indices[d], number(0)), less(load->indices[d], load->array->shape[d]));
        all = both(all, inside);
      }
      return false;
    });
  }

  /// `gate`: of sizes; nothing is to be looked at where it does not hold. Null: always.
  void add(const transforms::OpenAccess& access, const Expr& gate) {
    const Expr extent = access.array->shape[access.dimension];
    const Expr bad = either(less(access.index, number(0)), ir::binary(BinaryOp::Ge, access.index, extent));
    const Symbols iterators = from_data(access.around);
    Expr when;
    if (access.when) add_readable(access.when, iterators, when);
    when = both(when, access.when);
    add_readable(access.index, iterators, when);
    sites_.push_back({access.array, access.dimension, {}, {}, access.location});
    if (!add(links_around(access, gate), {both(when, bad), access.index, sites_.size() - 1, true}, access.location))
      sites_.pop_back();
  }

  bool is_of_sizes(const Expr& e) const {
    bool sizes = true;
    ir::walk(e, [&](const Expr& part) {
      const auto* v = part.as<ir::Var>();
      const auto is = [&](const ir::Symbol& size) { return v && size == v->symbol; };
      sizes &= part.kind() != ir::Kind::Load && (!v || std::any_of(source_.sizes.begin(), source_.sizes.end(), is));
    });
    return sizes;
  }

  /// Joins a nest over the same iterations. False when the condition is there already.
  bool add(std::vector<Link> links, Nest::Check check, const SourceLocation& where) {
    without_idle_loops(links, check);
    ir::Substitution names;
    std::size_t depth = 0;
    for (Link& link : links) {
      for (Expr* e : {&link.lower, &link.upper, &link.condition})
        if (*e) *e = ir::substitute(*e, names);
      if (!link.iterator) continue;
      if (depth == iterators_.size()) iterators_.push_back(ir::make_symbol("i"));
      names[*link.iterator] = ir::var(iterators_[depth]);
      link.iterator = iterators_[depth++];
    }
    check.broken = ir::substitute(check.broken, names);
    if (check.index) check.index = ir::substitute(check.index, names);
    for (Nest& nest : nests_) {
      if (!std::equal(links.begin(), links.end(), nest.links.begin(), nest.links.end(), same)) continue;
      for (const Nest::Check& other : nest.checks)
        if (other.is_index == check.is_index && ir::equal(other.broken, check.broken)) return false;
      nest.checks.push_back(std::move(check));
      return true;
    }
    const bool is_gated = !links.empty() && !links.front().iterator && is_of_sizes(links.front().condition);
    const Expr gate = is_gated ? links.front().condition : Expr();
    nests_.push_back({std::move(links), {std::move(check)}, where, gate});
    return true;
  }

  /// Loops that decide nothing matter only in so far as they run at all.
  static void without_idle_loops(std::vector<Link>& links, const Nest::Check& check) {
    for (std::size_t k = links.size(); k-- > 0;) {
      if (!links[k].iterator) continue;
      const auto in = [&](const Expr& e) { return e && ir::mentions(e, *links[k].iterator); };
      const bool decides = in(check.broken) || in(check.index) ||
                           std::any_of(links.begin() + static_cast<std::ptrdiff_t>(k) + 1, links.end(),
                                       [&](const Link& l) { return in(l.lower) || in(l.upper) || in(l.condition); });
      if (!decides) links[k] = {std::nullopt, {}, {}, less(links[k].lower, links[k].upper), links[k].location};
    }
  }

  /// Refused before the run where an access surely happens outside of the array; where inputs decide that, they are
  /// looked at. Where the program itself does, see bound_accesses.
  void add_of_sizes(const transforms::OpenAccess& access, const transforms::Leaving& leaving) {
    const bool is_tape = access.array->role == ir::ArrayRole::Tape;
    if (leaving.never() || (is_tape && !(leaving.is_sure && is_of_given_sizes(leaving.sizes)))) return;
    if (!leaving.is_sure) {
      if (access.is_known) add(access, leaving.sizes ? leaving.sizes : access.beyond);
      return;
    }
    const auto is_there = [&](const FactsProgram::OfSizes& one) { return ir::equal(one.broken, leaving.sizes); };
    if (std::none_of(of_sizes_.begin(), of_sizes_.end(), is_there)) of_sizes_.push_back({access, leaving.sizes});
  }

  /// Whether nothing in it is computed for the tape.
  bool is_of_given_sizes(const Expr& e) const {
    bool given = true;
    ir::walk(e, [&](const Expr& part) {
      const auto* v = part.as<ir::Var>();
      given &= !v || given_.count(v->symbol) > 0;
    });
    return given;
  }

  /// What `all.needed` says: null unless every check stands under a condition of sizes.
  Expr needed() const {
    if (!checks_.empty()) return {};
    Expr any = ir::bool_const(false);
    for (const Nest& nest : nests_) {
      if (!nest.gate) return {};
      any = either(any, nest.gate);
    }
    return any;
  }

  std::vector<Link> links_around(const transforms::OpenAccess& access, const Expr& gate) const {
    std::vector<Link> links;
    const auto add_condition = [&](const Expr& e) {
      if (e) links.push_back({std::nullopt, {}, {}, e, access.location});
    };
    const Symbols iterators = from_data(access.around);
    add_condition(gate);
    for (std::size_t k = 0; k < access.around.size(); ++k) {
      // What cannot be read to find out whether an access happens is an access of its own, which is looked at.
      Expr readable;
      if (const auto* n = access.around[k].as<ir::For>()) {
        const Expr lower = as_stated(scalars_.look_through(n->lower)),
                   upper = as_stated(scalars_.look_through(n->upper));
        add_readable(lower, iterators, readable);
        add_readable(upper, iterators, readable);
        add_condition(readable);
        links.push_back({n->iterator, lower, upper, {}, access.location});
      } else if (const auto* branch = access.around[k].as<ir::If>()) {
        const Stmt& inner = k + 1 < access.around.size() ? access.around[k + 1] : access.statement;
        const Expr condition = scalars_.look_through(branch->condition);
        const bool in_then = branch->then_body.same_as(inner);
        add_readable(condition, iterators, readable);
        add_condition(both(readable, in_then ? condition : ir::unary(ir::UnaryOp::Not, condition)));
      }
    }
    return links;
  }

  /// Brings what is read into the range that is stated for it, which is looked at as well: a false fact about a bound
  /// is no loop that goes on for hours.
  Expr as_stated(const Expr& bound) const {
    return ir::rewrite(bound, [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      if (!load) return std::nullopt;
      for (const ir::Fact& fact : source_.facts)
        if (fact.kind == ir::FactKind::InRange && fact.array == load->array)
          return ir::cast(e.type(), ir::larger(ir::smaller(as_index(e), fact.upper - number(1)), fact.lower));
      return std::nullopt;
    });
  }

  const ir::Program& source_;
  const ir::KnownScalars scalars_;
  Array result_;
  std::vector<transforms::RecordedSite> sites_;
  std::vector<Nest> nests_;
  std::vector<ir::Symbol> iterators_;  // of nests, by depth
  std::vector<FactsProgram::OfSizes> of_sizes_;
  std::set<ir::Symbol> given_;
  std::map<Array, Array> inputs_;
  std::vector<Array> arrays_;
  std::vector<Stmt> checks_;
  std::vector<ir::Fact> stated_, parallel_, on_host_;
};

}  // namespace

FactsProgram facts_program(const ir::Program& program) {
  // As the passes see it: an index that counts is no index that the program computes, of which its own code takes care.
  const ir::Program without_rules = ir::with_body(program, ir::without_rules(program.body));
  const ir::Program plain = ir::with_closed_counters(ir::with_known_bounds(without_rules));
  return Builder(plain).build();
}

}  // namespace loopgrad::backend
