#include "transforms/storage/copy_before.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/set_elements.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/bounds/open_accesses.h"
#include "transforms/loops/loops.h"
#include "transforms/storage/level_uses.h"

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_apart = 16;  // indices in one box: few more elements than a loop goes through
constexpr std::int64_t widest_step = 8;  // of an index: a box then has as many elements for each that is read

const ir::Load& load_of(const ReadOfNest& read) { return *read.load.as<ir::Load>(); }

bool mentions_any(const Expr& e, const std::vector<Stmt>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Stmt& loop) { return mentions(e, loop.as<ir::For>()->iterator); });
}

/// Whether a loop goes through about as many values as there are between the least and the greatest one: in a triangle
/// it does, in a band it does not.
bool is_wide(const ir::For& loop, const std::vector<Stmt>& loops) {
  if (loop.at_most || ir::has_load(loop.lower) || ir::has_load(loop.upper)) return false;
  return !mentions_any(loop.lower, loops) || !mentions_any(loop.upper, loops);
}

/// Whether a box around the elements of a read is about as large as what its loops touch.
bool fills_box(const ReadOfNest& read) {
  std::set<ir::Symbol> used;
  for (const Expr& index : load_of(read).indices) {
    if (ir::has_load(index)) return false;
    for (const auto& term : ir::linear_form(index).terms) {
      if (!mentions_any(term.atom, read.loops)) continue;
      const auto* var = term.atom.as<ir::Var>();
      if (!var || std::abs(term.coefficient) > widest_step || !used.insert(var->symbol).second) return false;
    }
  }
  return std::all_of(read.loops.begin(), read.loops.end(), [&](const Stmt& s) {
    const auto& loop = *s.as<ir::For>();
    return !used.count(loop.iterator) || is_wide(loop, read.loops);
  });
}

using Box = std::vector<ir::Range>;

/// In what does not change while the nest runs.
std::optional<Box> box_of(const ReadOfNest& read) {
  if (!std::all_of(read.loops.begin(), read.loops.end(), [](const Stmt& s) { return s.kind() == ir::Kind::For; }))
    return std::nullopt;
  if (!fills_box(read)) return std::nullopt;
  ir::RangeContext context = ir::ranges_in_variables();
  for (const Stmt& s : read.loops) {
    const auto& loop = *s.as<ir::For>();
    const auto lower = ir::range_of(loop.lower, context), upper = ir::range_of(loop.upper, context);
    if (lower && upper)
      context.variables[loop.iterator] = {lower->lowest, simplify_indices(upper->highest - ir::int_const(1))};
  }
  Box box;
  for (const Expr& index : load_of(read).indices) {
    const auto range = ir::range_of(index, context);
    if (!range || mentions_any(range->lowest, read.loops) || mentions_any(range->highest, read.loops))
      return std::nullopt;
    box.push_back({simplify_indices(range->lowest), simplify_indices(range->highest)});
  }
  return box;
}

/// The box around both, where they are no more than a few elements apart.
std::optional<Box> joined(const Box& a, const Box& b) {
  Box result;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const auto low = ir::distance(b[d].lowest, a[d].lowest), high = ir::distance(b[d].highest, a[d].highest);
    if (!low || !high || std::abs(*low) > most_apart || std::abs(*high) > most_apart) return std::nullopt;
    result.push_back({*low < 0 ? b[d].lowest : a[d].lowest, *high > 0 ? b[d].highest : a[d].highest});
  }
  return result;
}

/// What runs in front of the nest in the iteration that it belongs to, in order. Whether the nest is in `s`.
bool find_preceding(const Stmt& s, const Stmt& nest, std::vector<Stmt>& found) {
  if (ir::is_empty(s)) return false;
  if (s.same_as(nest)) return true;
  const bool is_list = s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Allocate;
  if (!is_list && !contains(s, nest)) {
    found.push_back(s);
    return false;
  }
  bool is_in = false;
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                       [&](const Stmt& child) {
                                         if (!is_list && !is_in) found.clear();
                                         is_in = is_in || find_preceding(child, nest, found);
                                       }});
  return is_in;
}

class Copier {
 public:
  Copier(const ir::Program& program, const Stmt& nest, const std::vector<Stmt>& around,
         const std::vector<ReadOfNest>& reads)
      : program_(program), nest_(nest), around_(around), reads_(reads), outside_(program) {
    for (const Stmt& loop : around) outside_.enter(loop);
  }

  std::optional<std::vector<CopyBefore>> run() {
    std::vector<CopyBefore> result;
    for (std::size_t k = 0; k < reads_.size(); ++k) {
      const Array& array = load_of(reads_[k]).array;
      if (const Array tape = tape_of_all(array)) result.push_back({tape, {}, {}, {k}});
      else if (!add(k, array)) return std::nullopt;
    }
    for (const Boxed& boxed : boxes_) {
      auto copy = copy_of(boxed);
      if (!copy) return std::nullopt;
      result.push_back(std::move(*copy));
    }
    return result;
  }

 private:
  struct Boxed {
    Array array;
    Box box;
    std::vector<std::size_t> reads;
  };

  /// Whether the read has a box, of its own or with others.
  bool add(std::size_t k, const Array& array) {
    const auto box = box_of(reads_[k]);
    if (!box) return false;
    for (Boxed& other : boxes_) {
      const auto both = other.array == array ? joined(other.box, *box) : std::nullopt;
      if (!both) continue;
      other.box = *both;
      other.reads.push_back(k);
      return true;
    }
    boxes_.push_back({array, *box, {k}});
    return true;
  }

  std::optional<CopyBefore> copy_of(const Boxed& boxed) const {
    const auto& [array, box, reads] = boxed;
    std::vector<Expr> origin, extents, shape;
    for (std::size_t d = 0; d < box.size(); ++d) {
      Expr first = box[d].lowest, last = box[d].highest;
      if (!stay_within(reads, d)) {
        first = ir::larger(first, ir::int_const(0));
        last = ir::smaller(last, array->shape[d] - ir::int_const(1));
      }
      origin.push_back(first);
      extents.push_back(simplify_indices(last - first + ir::int_const(1)));
      const auto most = room_for(extents.back());
      if (!most) return std::nullopt;
      shape.push_back(*most);
    }
    const Array copy =
        ir::make_array(array->name + "_before", array->type, shape, ir::ArrayRole::Local, array->location);
    const Stmt fill = ir::over_elements(extents, nest_->location, [&](const std::vector<Expr>& at) {
      std::vector<Expr> from;
      for (std::size_t d = 0; d < at.size(); ++d) from.push_back(simplify_indices(at[d] + origin[d]));
      return ir::assign(copy, at, ir::load(array, from), nest_->location);
    });
    if (!has_values(array, fill)) return std::nullopt;
    return CopyBefore{copy, origin, fill, reads};
  }

  /// As far as bounds of all loops tell.
  bool stay_within(const std::vector<std::size_t>& reads, std::size_t d) const {
    return std::all_of(reads.begin(), reads.end(), [&](std::size_t k) {
      IndexRanges ranges(program_);
      for (const Stmt& loop : around_) ranges.enter(loop);
      for (const Stmt& loop : reads_[k].loops) ranges.enter(loop);
      const ir::Load& load = load_of(reads_[k]);
      return ranges.stays_within(load.indices[d], load.array->shape[d]);
    });
  }

  /// In sizes: loops around the nest may have a part in how much of the copy one run of it needs.
  std::optional<Expr> room_for(const Expr& extent) const {
    Expr most = extent;
    if (!ir::is_of_sizes(extent, program_)) {
      const auto range = outside_.range_of(extent);
      if (!range || !ir::is_of_sizes(range->highest, program_)) return std::nullopt;
      most = simplify_indices(range->highest);
    }
    return is_never_negative(program_, most) ? most : ir::larger(most, ir::int_const(0));
  }

  bool has_values(const Array& array, const Stmt& fill) const {
    if (array->role == ir::ArrayRole::InOut || array->role == ir::ArrayRole::Input) return true;
    const Stmt body = replace(program_.body, nest_, ir::block({fill, nest_}));
    return ir::read_before_set_in_text(body, {array}).empty();
  }

  /// A tape that has just been filled with the whole array.
  Array tape_of_all(const Array& array) const {
    const std::set<Array> stored = stored_in(nest_);
    std::set<Array> since;
    std::vector<Stmt> preceding;
    find_preceding(program_.body, nest_, preceding);
    for (auto s = preceding.rbegin(); s != preceding.rend(); ++s) {
      const auto copier = element_nest(*s);
      const auto* from = copier ? copier->source() : nullptr;
      if (from && from->array == array) {
        const ir::Assign& to = *copier->assign;
        const auto range = range_of(copier->loops, from->indices);
        if (range && to.array->role == ir::ArrayRole::Tape && to.array->type == array->type &&
            ir::equal(to.indices, from->indices) && ir::equal(to.array->shape, array->shape) &&
            is_whole(*range, array->shape) && !stored.count(to.array) && !since.count(to.array))
          return to.array;
      }
      since.merge(stored_in(*s));
      if (since.count(array)) break;
    }
    return {};
  }

  const ir::Program& program_;
  const Stmt& nest_;
  const std::vector<Stmt>& around_;
  const std::vector<ReadOfNest>& reads_;
  IndexRanges outside_;
  std::vector<Boxed> boxes_;
};

}  // namespace

std::vector<Expr> CopyBefore::place_of(const std::vector<Expr>& indices) const {
  if (origin.empty()) return indices;
  std::vector<Expr> result;
  for (std::size_t d = 0; d < indices.size(); ++d) result.push_back(simplify_indices(indices[d] - origin[d]));
  return result;
}

std::optional<std::vector<CopyBefore>> copies_before(const ir::Program& program, const Stmt& nest,
                                                     const std::vector<Stmt>& around,
                                                     const std::vector<ReadOfNest>& reads) {
  return Copier(program, nest, around, reads).run();
}

Stmt reading_copies(const Stmt& nest, const std::vector<ReadOfNest>& reads, const std::vector<CopyBefore>& copies) {
  std::map<const ir::StmtNode*, std::map<const ir::ExprNode*, Expr>> moved;
  for (const CopyBefore& copy : copies)
    for (const std::size_t k : copy.reads) {
      const ir::Load& load = load_of(reads[k]);
      moved[reads[k].statement.get()][reads[k].load.get()] =
          ir::load(copy.array, copy.place_of(load.indices), load.location);
    }
  const std::function<std::optional<Stmt>(const Stmt&)> on_stmt = [&](const Stmt& s) -> std::optional<Stmt> {
    const auto found = moved.find(s.get());
    if (found == moved.end()) return std::nullopt;
    const auto on_expr = [&](const Expr& e) -> std::optional<Expr> {
      const auto to = found->second.find(e.get());
      return to == found->second.end() ? std::nullopt : std::optional(to->second);
    };
    const auto* branch = s.as<ir::If>();
    if (!branch) return ir::rewrite(s, on_expr);
    const auto inside = [&](const Stmt& body) { return body ? ir::rewrite(body, {}, on_stmt) : body; };
    return ir::if_then(ir::rewrite(branch->condition, on_expr), inside(branch->then_body), inside(branch->else_body),
                       branch->location);
  };
  return ir::rewrite(nest, {}, on_stmt);
}

}  // namespace loopgrad::transforms
