#include "transforms/bounds/bound_accesses.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/abstraction.h"
#include "dsl/symbolic/growing_counters.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/bounds/leaving_accesses.h"
#include "transforms/bounds/open_accesses.h"

#include <algorithm>
#include <functional>
#include <map>

namespace loopgrad::transforms {
namespace {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

Expr number(std::int64_t value) { return ir::int_const(value); }

/// Makes the record while its sites are found: the array must be known before its extent is.
class Recorder {
 public:
  Recorder(const ir::Program& program, const char* name, Record& record, Notes notes) : record_(record), notes_(notes) {
    extent_ = ir::make_symbol("sites");
    record_.array = ir::make_array(ir::free_name(program, name), ScalarType::I64, {ir::var(extent_)},
                                   ir::ArrayRole::InOut, program.location);
  }
  Stmt note(const RecordedSite& site, const Expr& value) {
    const Expr place = number(static_cast<std::int64_t>(record_.sites.size()));
    record_.sites.push_back(site);
    return ir::reduce(record_.array, {place}, ir::ReduceOp::Max, value, site.location, notes_ == Notes::Atomic);
  }
  /// The program with the record among its arrays.
  ir::Program finish(ir::Program program, Stmt body) {
    if (record_.sites.empty()) {
      record_.array = nullptr;
      return program;
    }
    const Array open = record_.array;
    record_.array = ir::make_array(open->name, open->type, {number(static_cast<std::int64_t>(record_.sites.size()))},
                                   open->role, open->location);
    program.body = ir::replace_arrays(body, {{open, record_.array}});
    program.arrays.push_back(record_.array);
    return program;
  }

 private:
  Record& record_;
  const Notes notes_;
  ir::Symbol extent_;
};

Expr outside(const Expr& index, const Expr& extent) {
  return ir::binary(BinaryOp::Or, ir::binary(BinaryOp::Lt, index, number(0)), ir::binary(BinaryOp::Ge, index, extent));
}

class Bounder {
 public:
  Bounder(const ir::Program& program, bool reads, Record& record, const std::set<Array>& computed, Notes notes)
      : aliased_(ir::aliased_arrays(program)),
        scalars_(program, computed),
        counters_(program.body),
        facts_(program),
        recorder_(program, "indices", record, notes) {
    LeavingAccesses leaving(program);
    std::vector<OpenAccess> open = open_accesses(program, computed);
    std::erase_if(open, [&](const OpenAccess& access) {
      return access.is_known || (access.only_sizes && !is_possible(access, leaving.leaving(access)));
    });
    const std::set<Array> doubtful = doubtful_integers(program, open);
    for (OpenAccess& access : open) {
      const bool is_looked_at = reads || has_range(program, access.array) || relies_on(doubtful, access);
      if (!access.is_read || is_looked_at) open_[access.statement.get()].push_back(std::move(access));
    }
  }
  bool is_needed() const { return !open_.empty(); }
  ir::Program run(const ir::Program& program) { return recorder_.finish(program, bounded(program.body)); }

 private:
  using Statements = std::vector<Stmt>;

  /// Whether what is read there is trusted to be in a range, which facts say of the array's elements only.
  static bool has_range(const ir::Program& program, const Array& array) {
    return std::any_of(program.facts.begin(), program.facts.end(), [&](const ir::Fact& fact) {
      return fact.array == array && (fact.kind == ir::FactKind::InRange || fact.kind == ir::FactKind::CsrPointer);
    });
  }

  /// Arrays of integers that the program itself fills, and may miss: nobody knows what such an array holds after that,
  /// as with a stack that is too short.
  static std::set<Array> doubtful_integers(const ir::Program& program, const std::vector<OpenAccess>& open) {
    const std::set<Array> written = stored_in(program.body);
    std::set<Array> result;
    for (const OpenAccess& access : open)
      if (is_integer(access.array->type) && access.array->role != ir::ArrayRole::Tape && written.count(access.array))
        result.insert(access.array);
    return result;
  }
  /// Whether it is an access to one of these arrays, or to a place that they name.
  static bool relies_on(const std::set<Array>& arrays, const OpenAccess& access) {
    return arrays.count(access.array) > 0 ||
           std::any_of(arrays.begin(), arrays.end(), [&](const Array& array) { return uses(access.index, array); });
  }

  /// What sizes alone decide is refused before the run, for the adjoint as well: it goes through the same loops and
  /// branches as the statements that it belongs to, to the same elements.
  static bool is_possible(const OpenAccess& access, const Leaving& leaving) {
    const bool is_place = access.array->role == ir::ArrayRole::Tape;  // made to fit, unless isl says otherwise
    return !leaving.is_sure && !leaving.never() && (leaving.sizes || !is_place);
  }

  Stmt bounded(const Stmt& root) {
    return ir::rewrite(root, {}, [&](const Stmt& s) { return bounded_one(s); });
  }
  std::optional<Stmt> bounded_one(const Stmt& s) {
    if (s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Allocate) return std::nullopt;
    // What one trip has noted, or a branch, nobody else has.
    const bool is_loop = s.kind() == ir::Kind::For || s.kind() == ir::Kind::While;
    const bool has_parts = is_loop || s.kind() == ir::Kind::If;
    if (is_loop) forget_changed_by(s);
    const std::vector<Noted> before = noted_;
    std::optional<Stmt> result;
    if (open_.count(s.get()) || has_parts) result = bounded_alone(s);
    if (has_parts) noted_ = before;
    if (!is_loop) forget_changed_by(s);
    return result;
  }
  Stmt bounded_alone(const Stmt& s) {
    if (const auto* loop = s.as<ir::For>())
      if (const Stmt around = around_loop(s, *loop)) return around;
    Statements notes;
    const Stmt own = with_own_expressions(s, notes);
    if (notes.empty()) return own;
    notes.push_back(own);
    return ir::block(std::move(notes));
  }
  void forget_changed_by(const Stmt& s) {
    if (noted_.empty()) return;
    std::set<Array> stored = stored_in(s);
    if (std::any_of(stored.begin(), stored.end(), [&](const Array& array) { return aliased_.count(array) > 0; }))
      stored.insert(aliased_.begin(), aliased_.end());  // under another name
    std::erase_if(noted_, [&](const Noted& n) {
      return std::any_of(stored.begin(), stored.end(), [&](const Array& array) {
        return uses(n.index, array) || uses(n.extent, array) || (n.when && uses(n.when, array));
      });
    });
  }

  Stmt with_own_expressions(const Stmt& s, Statements& notes) {
    const auto read = [&](const Expr& e) { return in_range(s, e, {}, notes); };
    Expr inside;
    const auto write = [&](const Array& array, const std::vector<Expr>& indices, Expr* condition) {
      return in_range(s, array, indices, {}, false, s->location, notes, condition);
    };
    const auto if_inside = [&](const Stmt& own) { return inside ? ir::if_then(inside, own, {}, s->location) : own; };
    if (const auto* n = s.as<ir::Assign>()) {
      const Expr value = read(n->value);
      return if_inside(ir::assign(n->array, write(n->array, n->indices, &inside), value, n->location));
    }
    if (const auto* n = s.as<ir::Reduce>()) {
      const Expr value = read(n->value);
      const std::vector<Expr> indices = write(n->array, n->indices, &inside);
      return if_inside(ir::reduce(n->array, indices, n->op, value, n->location, n->atomic));
    }
    if (const auto* n = s.as<ir::Pop>()) return ir::pop(n->array, write(n->array, n->indices, nullptr), n->location);
    if (const auto* n = s.as<ir::Push>()) return ir::push(read(n->value), n->location);
    if (const auto* n = s.as<ir::If>()) {
      const Expr condition = read(n->condition);
      const std::vector<Noted> before = noted_;
      const Stmt then_body = bounded(n->then_body);
      noted_ = before;
      return ir::if_then(condition, then_body, n->else_body ? bounded(n->else_body) : Stmt(), n->location);
    }
    if (const auto* n = s.as<ir::For>()) {
      const Expr lower = read(n->lower), upper = read(n->upper);
      forget_changed_by(s);  // bounds are looked at once, and what they read may be other values in the body
      return ir::for_loop(n->iterator, lower, upper, bounded(n->body), n->mode, n->location, n->at_most);
    }
    if (const auto* n = s.as<ir::While>()) return bounded_while(s, *n, notes);
    return s;
  }

  /// What the condition reads is noted where it will be asked next: before the loop, and at the end of each trip. Where
  /// a trip changes how many there may be, nothing tells there whether it will: at the start of the trips that it
  /// allows.
  Stmt bounded_while(const Stmt& s, const ir::While& n, Statements& notes) {
    Statements read;
    const Expr condition = in_range(s, n.condition, {}, read);
    std::vector<Stmt> body{bounded(n.body)};
    const std::set<Array> stored = stored_in(n.body);
    if (std::any_of(stored.begin(), stored.end(), [&](const Array& array) { return uses(n.max_trips, array); })) {
      read.push_back(ir::block(body));
      return ir::while_loop(n.iterator, n.max_trips, condition, ir::block(read), n.location);
    }
    const auto before_trip = [&](const Expr& trip) {
      const Stmt all = ir::substitute(ir::block(read), {{n.iterator, trip}});
      return ir::with_fresh_names(ir::if_then(ir::binary(BinaryOp::Lt, trip, n.max_trips), all, {}, n.location));
    };
    if (!read.empty()) {
      notes.push_back(before_trip(number(0)));
      body.push_back(before_trip(ir::var(n.iterator) + number(1)));
    }
    return ir::while_loop(n.iterator, n.max_trips, condition, ir::block(body), n.location);
  }

  /// `e` with all indices of its loads in range; notes come in the order of evaluation.
  Expr in_range(const Stmt& s, const Expr& e, const Expr& when, Statements& notes) {
    if (const auto* load = e.as<ir::Load>())
      return ir::load(load->array, in_range(s, load->array, load->indices, when, true, load->location, notes),
                      load->location);
    const auto unless = [](const Expr& c) { return ir::unary(ir::UnaryOp::Not, c); };
    if (const auto* n = e.as<ir::Select>()) {
      const Expr c = in_range(s, n->condition, when, notes);
      const Expr a = in_range(s, n->a, both(when, c), notes);
      return ir::select(c, a, in_range(s, n->b, both(when, unless(c)), notes));
    }
    const auto* n = e.as<ir::Binary>();
    if (n && (n->op == BinaryOp::And || n->op == BinaryOp::Or)) {
      const Expr a = in_range(s, n->a, when, notes);
      return ir::binary(n->op, a, in_range(s, n->b, both(when, n->op == BinaryOp::And ? a : unless(a)), notes));
    }
    return ir::rewrite(e, [&](const Expr& part) -> std::optional<Expr> {
      const bool branches = part.kind() == ir::Kind::Select || part.kind() == ir::Kind::Binary;
      if (part.same_as(e) || (part.kind() != ir::Kind::Load && !branches)) return std::nullopt;
      return in_range(s, part, when, notes);
    });
  }

  std::vector<Expr> in_range(const Stmt& s, const Array& array, const std::vector<Expr>& indices, const Expr& when,
                             bool is_read, const SourceLocation& where, Statements& notes, Expr* inside = nullptr) {
    std::vector<Expr> result;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const Expr index = in_range(s, indices[d], when, notes), extent = array->shape[d];
      result.push_back(index);
      const OpenAccess* open = open_access(s, array, d, indices[d], is_read);
      if (!open) continue;
      if (!is_noted(index, extent, when))
        notes.push_back(note({array, d, {}, {}, where.known() ? where : s->location}, index, when, scatters(s)));
      if (inside && (open->only_sizes || is_own_element(s, index))) {
        *inside = both(*inside, ir::unary(ir::UnaryOp::Not, outside(index, extent)));
        continue;
      }
      result.back() = ir::larger(ir::smaller(index, extent - number(1)), number(0));
    }
    return result;
  }
  /// Whether different iterations have different ones there, as long as the index is not clamped.
  bool is_own_element(const Stmt& s, const Expr& index) const {
    const ir::Load* const load = poly::as_indirect(index);
    if (!load) return false;
    return load->indices.empty() ? counters_.moves_around(s, load->array) : facts_.is_distinct(load->array);
  }
  /// Whether the same index and extent are noted already, by what has surely run before; if not, they are from now on.
  bool is_noted(const Expr& index, const Expr& extent, const Expr& when) {
    const auto covers = [&](const Noted& other) {
      return ir::equal(other.index, index) && ir::equal(other.extent, extent) &&
             (!other.when || (when && ir::equal(other.when, when)));
    };
    if (std::any_of(noted_.begin(), noted_.end(), covers)) return true;
    noted_.push_back({index, extent, when});
    return false;
  }
  /// `scatters`: the statement writes where data say, and is executed instance by instance anyway.
  Stmt note(const RecordedSite& site, const Expr& index, const Expr& when, bool scatters) {
    const Expr extent = site.array->shape[site.dimension], none = number(nothing_recorded);
    const Expr seen = ir::larger(index, number(nothing_recorded + 1));
    if (scatters) return recorder_.note(site, ir::select(both(when, outside(index, extent)), seen, none));
    // Values rather than a branch, and one comparison in each: what is vectorised stays so.
    const Expr above = ir::select(ir::binary(BinaryOp::Ge, index, extent), index, none);
    const Expr bad = ir::select(ir::binary(BinaryOp::Lt, index, number(0)), seen, above);
    return recorder_.note(site, when ? ir::select(when, bad, none) : bad);
  }
  bool scatters(const Stmt& s) const {
    const auto& all = open_.at(s.get());
    return std::any_of(all.begin(), all.end(), [](const OpenAccess& a) { return !a.is_read && !a.only_sizes; });
  }
  /// Null where the access is none.
  const OpenAccess* open_access(const Stmt& s, const Array& array, std::size_t dimension, const Expr& index,
                                bool is_read) const {
    const auto found = open_.find(s.get());
    if (found == open_.end()) return nullptr;
    const Expr known = scalars_.look_through(index);
    for (const OpenAccess& access : found->second)
      if (access.array == array && access.dimension == dimension && access.is_read == is_read &&
          ir::equal(access.index, known))
        return &access;
    return nullptr;
  }

  /// Notes of what is the same in all iterations come before an inner loop, which then stays a perfect nest, and so do
  /// those of indices that move evenly: their first and last values are noted. Null where there is nothing of the kind.
  Stmt around_loop(const Stmt& s, const ir::For& loop) {
    Stmt leaf = s;
    std::vector<const ir::For*> loops;
    for (const auto* n = leaf.as<ir::For>(); n; n = leaf.as<ir::For>()) {
      if (open_.count(leaf.get())) return {};
      loops.push_back(n);
      leaf = n->body;
    }
    const bool simple = leaf.kind() == ir::Kind::Assign || leaf.kind() == ir::Kind::Reduce;
    const auto open = open_.find(leaf.get());
    if (!simple || open == open_.end()) return {};
    for (const OpenAccess& access : open->second) {
      if (!moves_evenly_in(access.index, loops, leaf)) return {};
      for (const Expr& e : {access.when, access.array->shape[access.dimension]})
        if (e && (mentions_any(e, loops) || is_stored_by(leaf, e))) return {};
    }
    Statements notes;
    noted_.clear();  // as iterators of these loops are in what is noted; the caller has what was noted before
    Stmt own = with_own_expressions(leaf, notes);
    for (const ir::For* n : loops) notes = at_both_ends(notes, *n);
    Expr runs = ir::bool_const(true);
    for (const ir::For* n : loops) runs = ir::binary(BinaryOp::And, runs, ir::binary(BinaryOp::Lt, n->lower, n->upper));
    for (auto it = loops.rbegin(); it != loops.rend(); ++it) own = with_body(**it, own);
    return ir::block({ir::if_then(runs, ir::block(std::move(notes)), {}, loop.location), own});
  }
  static bool mentions_any(const Expr& e, const std::vector<const ir::For*>& loops) {
    return std::any_of(loops.begin(), loops.end(), [&](const ir::For* n) { return ir::mentions(e, n->iterator); });
  }
  /// By a constant distance in each loop, if at all.
  static bool moves_evenly_in(const Expr& e, const std::vector<const ir::For*>& loops, const Stmt& leaf) {
    constexpr int most_loops = 2;  // each doubles the notes
    bool even = true;
    int moving = 0;
    for (const ir::For* n : loops) {
      even = even && !mentions_any(n->lower, loops) && !mentions_any(n->upper, loops);
      if (!ir::mentions(e, n->iterator)) continue;
      even = even && e.type() == ScalarType::I64 && coefficient_of(e, n->iterator);
      ++moving;
    }
    return even && moving <= most_loops && !is_stored_by(leaf, e);
  }
  static bool is_stored_by(const Stmt& leaf, const Expr& e) {
    bool stored = false;
    for_each_store(leaf, [&](const Array& array, const std::vector<Expr>&) { stored |= uses(e, array); });
    return stored;
  }
  static Statements at_both_ends(const Statements& notes, const ir::For& loop) {
    Statements result;
    for (const Stmt& note : notes) {
      const Stmt first = ir::substitute(note, {{loop.iterator, loop.lower}});
      result.push_back(first);
      if (!first.same_as(note)) result.push_back(ir::substitute(note, {{loop.iterator, loop.upper - number(1)}}));
    }
    return result;
  }

  const std::set<Array> aliased_;
  const ir::KnownScalars scalars_;
  const ir::GrowingCounters counters_;
  const poly::Facts facts_;
  Recorder recorder_;
  std::map<const ir::StmtNode*, std::vector<OpenAccess>> open_;
  struct Noted {
    Expr index, extent, when;
  };
  std::vector<Noted> noted_;  // where the statement at hand is, of values that nothing has changed since
};

}  // namespace

ir::Program bound_accesses(const ir::Program& program, bool reads, Record& record, const std::set<Array>& computed,
                           Notes notes) {
  record = {};
  if (!program.body) return program;
  Bounder bounder(program, reads, record, computed, notes);
  if (bounder.is_needed()) return bounder.run(program);
  record = {};
  return program;
}

ir::Program bound_trips(const ir::Program& program, Record* record, Notes notes) {
  bool promises = false;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    promises |= loop && loop->at_most;
  });
  if (!promises) return program;
  Record own;
  Recorder recorder(program, "trips", record ? *record : own, notes);
  const std::function<Stmt(const Stmt&)> bounded = [&](const Stmt& root) {
    return ir::rewrite(root, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* n = s.as<ir::For>();
      if (!n || !n->at_most) return std::nullopt;
      const Stmt loop = ir::for_loop(n->iterator, n->lower, ir::smaller(n->upper, n->lower + n->at_most),
                                     bounded(n->body), n->mode, n->location, n->at_most);
      if (!record) return loop;
      const Expr trips = n->upper - n->lower;
      const Expr broken = ir::select(ir::binary(BinaryOp::Gt, trips, n->at_most), trips, number(nothing_recorded));
      const Stmt note = recorder.note({{}, 0, n->iterator.name, n->at_most, n->location}, broken);
      return ir::block({note, loop});
    });
  };
  const Stmt body = bounded(program.body);
  return record ? recorder.finish(program, body) : ir::with_body(program, body);
}

}  // namespace loopgrad::transforms
