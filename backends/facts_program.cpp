#include "backends/facts_program.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/ranges.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/open_accesses.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace loopgrad::backend {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

Expr number(std::int64_t value) { return ir::int_const(value); }
Expr both(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::And, a, b); }
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

class Builder {
 public:
  explicit Builder(const ir::Program& program) : source_(program), scalars_(program) {
    count_ = ir::make_symbol("results");
    result_ = ir::make_array(free_name(), ScalarType::I64, {ir::var(count_)}, ir::ArrayRole::Output, program.location);
    for (const Array& array : program.arrays) {
      if (array->role == ir::ArrayRole::Tape) continue;
      inputs_[array] = ir::make_array(array->name, array->type, array->shape, ir::ArrayRole::Input, array->location);
      arrays_.push_back(inputs_[array]);
    }
  }

  FactsProgram build() {
    for (const ir::Fact& fact : source_.facts) add(fact);
    for (const transforms::OpenAccess& access : transforms::open_accesses(source_))
      if (access.only_sizes) add_of_sizes(access);
      else if (access.is_known) add(access);
    FactsProgram all;
    const Stmt body = finished();
    all.deciding = deciding(body);
    all.stated = {source_.name, used_sizes(body), arrays_, std::move(stated_), ir::block({}), source_.location};
    all.on_host = std::move(on_host_);
    all.sites = std::move(sites_);
    all.of_sizes = std::move(of_sizes_);
    all.result = result_;
    if (!ir::is_empty(body)) arrays_.push_back(result_);
    all.program = {source_.name + "_facts", all.stated.sizes, std::move(arrays_), std::move(parallel_), body,
                   source_.location};
    return all;
  }

 private:
  void add(ir::Fact fact) {
    const auto found = inputs_.find(fact.array);
    if (found == inputs_.end() || fact.kind == ir::FactKind::MayAlias || fact.kind == ir::FactKind::ReadUpTo) return;
    const Array array = fact.array = found->second;
    stated_.push_back(fact);
    switch (fact.kind) {
      case ir::FactKind::InRange: return count(Elements(array), fact, outside(fact));
      case ir::FactKind::Sorted: return sorted(array, fact);
      case ir::FactKind::CsrPointer: return csr_pointer(array, fact);
      case ir::FactKind::Injective: return injective(array, fact);
      case ir::FactKind::MayAlias: return;  // allows, promises nothing
      case ir::FactKind::ReadUpTo: return;  // about other programs
    }
  }

  /// The checks after results that say that nothing is wrong.
  Stmt finished() {
    if (checks_.empty()) return ir::block({});
    const Array open = result_;
    const auto count = static_cast<std::int64_t>(sites_.size() + 1);
    result_ = ir::make_array(open->name, open->type, {number(count)}, open->role, open->location);
    const ir::Symbol k = ir::make_symbol("k");
    std::vector<Stmt> all = {ir::assign(open, {number(0)}, number(0), source_.location)};
    if (count > 1)
      all.push_back(ir::for_loop(k, number(1), number(count),
                                 ir::assign(open, {ir::var(k)}, number(transforms::nothing_recorded)),
                                 ir::LoopMode::Forward, source_.location));
    for (Stmt& check : checks_) all.push_back(ir::with_fresh_names(check));
    std::map<Array, Array> renamed = inputs_;
    renamed[open] = result_;
    return ir::replace_arrays(ir::block(std::move(all)), renamed);
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

  using Condition = std::function<Expr(const Elements&)>;

  void count(const Elements& elements, const ir::Fact& fact, const Condition& broken) {
    checks_.push_back(elements.loop(counted(broken(elements), fact), fact.location));
  }
  Stmt counted(const Expr& broken, const ir::Fact& fact) const {
    return ir::reduce(result_, {number(0)}, ir::ReduceOp::Add, as_index(broken), fact.location);
  }

  static Condition outside(const ir::Fact& fact) {
    return [fact](const Elements& e) {
      return either(less(e.value(), fact.lower), ir::binary(BinaryOp::Ge, e.value(), fact.upper));
    };
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
    const Array owner =
        ir::make_array("owner", ScalarType::I64, {ir::larger(end, number(0))}, ir::ArrayRole::Local, fact.location);
    const auto if_inside = [&](const Elements& e, const Stmt& body) {
      const Expr inside = both(ir::binary(BinaryOp::Ge, e.value(), number(0)), less(e.value(), end));
      return e.loop(ir::if_then(inside, body, {}, fact.location), fact.location);
    };
    const Elements first(array);
    Elements again(array);
    again.backwards = true;  // so that no pass does both at once, where the fact says what is to be found out
    const Expr owned_by = ir::load(owner, {again.value()}, fact.location);
    const Stmt all = ir::block({if_inside(first, ir::assign(owner, {first.value()}, first.position(), fact.location)),
                                if_inside(again, counted(ir::binary(BinaryOp::Ne, owned_by, again.position()), fact))});
    checks_.push_back(ir::allocate(owner, all, fact.location));
    parallel_.push_back(fact);
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
      if (fact.kind == ir::FactKind::ReadUpTo) continue;
      note(fact.lower);
      note(fact.upper);
    }
    std::vector<ir::Symbol> sizes;
    for (const ir::Symbol& size : source_.sizes)
      if (used.count(size)) sizes.push_back(size);
    return sizes;
  }

  // Indices.

  static bool mentions(const Stmt& s, const ir::Symbol& symbol) {
    bool found = false;
    ir::walk(
        s, [](const Stmt&) {}, [&](const Expr& e) { found |= ir::mentions(e, symbol); });
    return found;
  }

  /// That reading what the index or condition is made of stays in range itself; null when nothing could not.
  static void add_readable(const Expr& e, Expr& all) {
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      if (!load) return true;
      for (std::size_t d = 0; d < load->indices.size(); ++d) {
        if (!ir::has_load(load->indices[d])) continue;
        add_readable(load->indices[d], all);
        const Expr inside =
            both(ir::binary(BinaryOp::Ge, load->indices[d], number(0)), less(load->indices[d], load->array->shape[d]));
        all = all ? both(all, inside) : inside;
      }
      return false;
    });
  }

  void add(const transforms::OpenAccess& access) {
    for (const transforms::OpenAccess& other : known_)
      if (same_index(access, other)) return;
    known_.push_back(access);
    const Expr extent = access.array->shape[access.dimension];
    const Expr bad = either(less(access.index, number(0)), ir::binary(BinaryOp::Ge, access.index, extent));
    Expr when;
    if (access.when) add_readable(access.when, when);
    if (access.when) when = when ? both(when, access.when) : access.when;
    add_readable(access.index, when);
    sites_.push_back({access.array, access.dimension, {}, {}, access.location});
    const Expr place = number(static_cast<std::int64_t>(sites_.size()));
    // Without a branch, so that it is a sum like any other.
    const Expr found =
        ir::select(when ? both(when, bad) : bad, ir::larger(access.index, number(transforms::nothing_recorded + 1)),
                   number(transforms::nothing_recorded));
    Stmt check = ir::reduce(result_, {place}, ir::ReduceOp::Max, found, access.location);
    checks_.push_back(in_loops(access, check));
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

  /// Only where it is sure that the access happens: in loops over ranges of sizes.
  void add_of_sizes(const transforms::OpenAccess& access) {
    const Expr extent = access.array->shape[access.dimension];
    if (!is_of_sizes(extent)) return;
    Expr broken = either(less(access.index, number(0)), ir::binary(BinaryOp::Ge, access.index, extent));
    for (const Stmt& s : access.around) {
      if (s.kind() == ir::Kind::If || s.kind() == ir::Kind::While) return;
      const auto* n = s.as<ir::For>();
      if (!n) continue;
      if (!is_of_sizes(n->lower) || !is_of_sizes(n->upper)) return;
      broken = both(less(n->lower, n->upper), broken);
    }
    of_sizes_.push_back({{access.array, access.dimension, {}, {}, access.location}, access.index, broken});
  }

  static bool same_index(const transforms::OpenAccess& a, const transforms::OpenAccess& b) {
    const bool same_conditions = a.when && b.when ? ir::equal(a.when, b.when) : !a.when && !b.when;
    const bool same_place =
        a.around.size() == b.around.size() && std::equal(a.around.begin(), a.around.end(), b.around.begin(),
                                                         [](const Stmt& x, const Stmt& y) { return x.same_as(y); });
    return same_conditions && same_place && ir::equal(a.index, b.index) &&
           ir::equal(a.array->shape[a.dimension], b.array->shape[b.dimension]);
  }

  /// Inside the loops that decide, and only if the others run at all.
  Stmt in_loops(const transforms::OpenAccess& access, Stmt check) const {
    Stmt inner = access.statement;
    for (auto it = access.around.rbegin(); it != access.around.rend(); inner = *it++) {
      if (const auto* n = it->as<ir::For>()) {
        const Expr lower = scalars_.look_through(n->lower), upper = scalars_.look_through(n->upper);
        check = mentions(check, n->iterator)
                    ? ir::for_loop(n->iterator, lower, upper, check, ir::LoopMode::Forward, access.location)
                    : ir::if_then(less(lower, upper), check, {}, access.location);
      } else if (const auto* branch = it->as<ir::If>()) {
        const Expr condition = scalars_.look_through(branch->condition);
        const bool in_then = branch->then_body.same_as(inner);
        check = ir::if_then(in_then ? condition : ir::unary(ir::UnaryOp::Not, condition), check, {}, access.location);
      }
    }
    return check;
  }

  const ir::Program& source_;
  const ir::KnownScalars scalars_;
  Array result_;
  ir::Symbol count_;
  std::vector<transforms::RecordedSite> sites_;
  std::vector<transforms::OpenAccess> known_;
  std::vector<FactsProgram::OfSizes> of_sizes_;
  std::map<Array, Array> inputs_;
  std::vector<Array> arrays_;
  std::vector<Stmt> checks_;
  std::vector<ir::Fact> stated_, parallel_, on_host_;
};

}  // namespace

FactsProgram facts_program(const ir::Program& program) { return Builder(program).build(); }

}  // namespace loopgrad::backend
