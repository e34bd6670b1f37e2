#include "transforms/sums/tree_sums.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/dependences.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/legality.h"
#include "transforms/pass/machine.h"
#include "transforms/sums/partial_results.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t group_blocks = 32;  // combined first where there may be many
// Iterations of a loop from which on partial results pay where nothing about its length is known beforehand: of it, and
// for each element that a block clears, adds to the others and combines.
constexpr std::int64_t least_iterations = 1024, least_per_element = 8;
// Partial results that are combined at once: so few are read sooner than another kernel starts.
constexpr std::int64_t few_partials = 1 << 17;
// Elements of the partial results of pieces of rows in all: clearing and combining them takes some microseconds.
constexpr std::int64_t most_elements = 1 << 20;

Expr ceiling(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::FloorDiv, a + b - ir::int_const(1), b); }

/// What the sums may add to, by the indices in which they move.
isl::set touched_by(const poly::Model& model, const Partial& partial) {
  isl_set* all = nullptr;
  for (const poly::Statement& s : model.statements) {
    if (!partial.sums.count(s.stmt.get())) continue;
    isl_set* own = s.accesses.back().relation.intersect_domain(s.domain).range().release();
    for (auto dim = static_cast<unsigned>(partial.fixed.size()); dim-- > 0;)
      if (partial.fixed[dim]) own = isl_set_project_out(own, isl_dim_set, dim, 1);
    own = isl_set_reset_tuple_id(own);
    all = all ? isl_set_union(all, own) : own;
  }
  return poly::checked(*model.context, all);
}

/// Whether the nest may add to an element of the target: another one may have no value yet, and nobody may have to give
/// it one. True where the sums reach all of them, or all have a value from the start.
Expr is_touched(const poly::Model& model, const Partial& partial, const std::vector<ir::Symbol>& moving) {
  const Expr always = ir::bool_const(true);
  const ir::ArrayRole role = partial.target->role;
  if (role == ir::ArrayRole::Input || role == ir::ArrayRole::InOut || moving.empty()) return always;
  return poly::guarded(*model.context, [&] {
    std::vector<Expr> dims;
    Expr inside = always;
    for (std::size_t k = 0; k < moving.size(); ++k) {
      dims.push_back(ir::var(moving[k]));
      inside = both(inside, both(ir::binary(BinaryOp::Le, ir::int_const(0), dims[k]),
                                 ir::binary(BinaryOp::Lt, dims[k], partial.shape[k])));
    }
    const auto all = poly::to_set(inside, {model.context, moving, ""});
    if (!all) return always;
    const isl::set touched = touched_by(model, partial);
    const isl::set reached = all->intersect_params(model.assumptions.intersect(touched.params()));
    return reached.is_subset(touched) ? always
                                      : poly::to_condition(poly::coalesced(touched), dims, *model.context, reached);
  });
}

/// How the rows that the outermost loop goes over are cut: each block has a piece of each of its rows.
struct RowCut {
  const ir::For* row = nullptr;  // the loop over a row
  Expr pieces;                   // of sizes; 1: as without a cut
  Expr longest;                  // row that there may be, of sizes
};

class Tree {
 public:
  Tree(const ir::Program& program, const poly::Model& model, const Stmt& nest,
       const std::vector<std::vector<Stmt>>& groups, const Machine& machine, const RowCut& cut = {})
      : program_(program),
        model_(model),
        cut_(cut),
        root_(*nest.as<ir::For>()),
        nest_(nest),
        block_(ir::make_symbol("block")),
        many_(machine.is_gpu()),
        in_lanes_(in_lanes(root_, machine)) {
    for (const auto& group : groups) partials_.push_back(partial_of(model, group));
    blocks_ = partial_blocks(program, model, root_, partials_, machine);
    if (cut_.row) {
      row_blocks_ = rows_for(blocks_, simplify_indices(root_.upper - root_.lower));
      blocks_ = row_blocks_ * cut_.pieces;
    }
    for (Partial& partial : partials_) make_arrays(partial);
  }

  /// Where data decide how long rows are, a few of them may be all there is: blocks of whole rows would then be few.
  /// Null where there are no such rows, or something else in the nest stores to what outlives an iteration, or to what
  /// their bounds are read from: each piece asks for these.
  RowCut cut(const Machine& machine) const {
    const auto* row = root_.body.as<ir::For>();
    if (!row || ir::has_load(root_.lower) || ir::has_load(root_.upper)) return {};
    if (!ir::has_load(row->lower) && !ir::has_load(row->upper)) return {};
    const Expr longest = longest_row(*row);
    if (!longest || !only_sums_in(*row) || !bounds_stay(program_, root_.body).ok) return {};
    const Expr trips = simplify_indices(root_.upper - root_.lower), rows = larger(trips, ir::int_const(1));
    if (ir::as_int(trips).value_or(0) >= machine.most_partials) return {};
    Expr elements = ir::int_const(1);
    for (const Partial& partial : partials_) elements = larger(elements, product(partial.shape));
    // Of a CSR structure the entries are known, and with them how many blocks their partial results are worth (on a
    // GPU, which wants many, no more than there are rows).
    const bool are_counted = !many_ && entries_in(*row);
    const Expr most = are_counted ? blocks_ : ir::int_const(machine.most_partials);
    Expr wanted = ir::binary(BinaryOp::FloorDiv, most, rows);
    if (ir::as_int(elements) != 1)
      wanted = smaller(wanted, ir::binary(BinaryOp::FloorDiv, ir::int_const(most_elements), rows * elements));
    const Expr worth = ir::binary(BinaryOp::FloorDiv, longest, ir::int_const(machine.least_piece));
    return {row, larger(smaller(wanted, worth), ir::int_const(1)), longest};
  }

  Stmt build() {
    if (many_ && is_lone_sum()) return nest_;
    Stmt result = ir::block({block_loop(), combinations()});
    for (auto partial = partials_.rbegin(); partial != partials_.rend(); ++partial) {
      result = ir::allocate(partial->parts, result, root_.location);
    }
    if (const Expr enough = enough_iterations()) result = ir::if_then(enough, result, ir::with_fresh_names(nest_));
    return with_bounds_kept(result);
  }

 private:
  /// Blocks of whole rows: no more than there are rows, which on a GPU they are not anyway.
  Expr rows_for(const Expr& blocks, const Expr& trips) const {
    return many_ ? blocks : larger(smaller(blocks, trips), ir::int_const(1));
  }

  /// A bound of the trips that the host knows on entry, or null.
  Expr longest_row(const ir::For& row) const {
    if (row.at_most && !ir::has_load(row.at_most) && !mentions(row.at_most, root_.iterator)) return row.at_most;
    return entries_in(row);
  }

  /// Of all rows of the CSR structure, if it is one.
  Expr entries_in(const ir::For& row) const {
    const ir::PointerBounds bounds = ir::pointer_bounds(row.lower, row.upper);
    const ir::Fact* const fact = bounds.end ? ir::csr_fact(program_, bounds.end->array) : nullptr;
    return fact && !ir::has_load(fact->upper) ? ir::cast(ScalarType::I64, fact->upper) : Expr();
  }

  /// Iterations of the row depend on each other by the sums alone. None of the elements is chosen by the row's own
  /// iterator, so that each piece needs them all.
  bool only_sums_in(const ir::For& row) const {
    std::set<ir::Array> own;
    for (const LocalArray& local : locals_of(row.body)) own.insert(local.array);
    bool fits = true, others = false;
    ir::walk_stmts(row.body, [&](const Stmt& s) {
      fits &= s.kind() != ir::Kind::Push && s.kind() != ir::Kind::Pop && s.kind() != ir::Kind::While;
      for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
        others |= !is_sum(s) && !own.count(array);
        for (const Expr& index : indices) fits &= !is_sum(s) || !mentions(index, row.iterator) || ir::has_load(index);
      });
    });
    return fits && (!others || only_sums_meet_in(root_.body));
  }

  /// The same as far as it takes dependence analysis.
  bool only_sums_meet_in(const Stmt& row) const {
    const auto statement = [&](int number) { return model_.statements[static_cast<std::size_t>(number)].stmt; };
    const std::vector<poly::Conflict> conflicts = poly::carried_by(model_, row);
    return std::all_of(conflicts.begin(), conflicts.end(), [&](const poly::Conflict& c) {
      return c.sum && is_sum(statement(c.first)) && is_sum(statement(c.second));
    });
  }

  bool is_sum(const Stmt& s) const {
    return std::any_of(partials_.begin(), partials_.end(), [&](const Partial& p) { return p.sums.count(s.get()) > 0; });
  }

  // Data or loops around decide how long the loop is, so nothing about it was known when its plan was made: rows of a
  // sparse matrix or a triangle that depend on each other, say, one after the other. Partial results of a short one
  // would take more than the sums do, which for a large target changes the order of the whole program's work.
  Expr enough_iterations() const {
    Expr trips = root_.upper - root_.lower;
    if (many_ || !(ir::has_load(trips) || varying_trips(program_, root_))) return {};
    if (!ir::has_load(trips)) trips = trips * trips_inside();
    Expr least = ir::int_const(least_iterations);
    for (const Partial& partial : partials_) {
      if (partial.is_small()) continue;
      Expr elements = ir::int_const(least_per_element);
      for (const Expr& extent : partial.shape) elements = elements * extent;
      least = larger(least, elements);
    }
    return ir::binary(BinaryOp::Le, least, trips);
  }

  /// Of loops that are all there is in the loop, for all of its iterations the same.
  Expr trips_inside() const {
    Expr result = ir::int_const(1);
    std::vector<ir::Symbol> inside = {root_.iterator};
    for (const auto* loop = root_.body.as<ir::For>(); loop; loop = loop->body.as<ir::For>()) {
      const Expr extent = loop->upper - loop->lower;
      const bool varies =
          std::any_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) { return mentions(extent, i); });
      if (ir::has_load(extent) || varies) break;
      result = result * extent;
      inside.push_back(loop->iterator);
    }
    return result;
  }

  // One loop that does nothing but to sum into single elements: the mapping to a GPU shares it out, knowing its length.
  // Not where a condition may leave all terms out of an array's element, which then need not exist.
  bool is_lone_sum() const {
    const auto all = leaves(root_.body);
    const auto around = surroundings(root_.body);
    const bool sums_only = std::all_of(all.begin(), all.end(), [&](const Stmt& s) {
      const std::vector<Stmt>& scopes = around.at(s.get());
      const bool is_sure =
          std::none_of(scopes.begin(), scopes.end(), [](const Stmt& t) { return t.kind() == ir::Kind::If; });
      return std::any_of(partials_.begin(), partials_.end(), [&](const Partial& p) {
        return p.sums.count(s.get()) && (is_sure || p.target->shape.empty()) &&
               std::all_of(p.fixed.begin(), p.fixed.end(), [](const Expr& e) { return bool(e); });
      });
    });
    return sums_only && !ir::contains_loop(root_.body) && !ir::has_load(root_.lower) && !ir::has_load(root_.upper);
  }

  void make_arrays(Partial& partial) const {
    ScalarType type = value_type(partial.target->type);
    auto array = [&](const char* suffix, const std::vector<Expr>& shape) {
      return ir::make_array(partial.target->name + suffix, type, shape, ir::ArrayRole::Local, root_.location);
    };
    if (partial.is_small()) partial.own = array("_own", partial.shape);
    // Of the target's extents: memory of a size that varies with the loops around would be taken many times.
    std::vector<Expr> shape = partial.room;
    shape.insert(shape.begin(), blocks_);
    partial.parts = array("_part", shape);
  }

  std::vector<Expr> in_block(std::vector<Expr> indices) const {
    indices.insert(indices.begin(), ir::var(block_));
    return indices;
  }

  // for block: partial results = identity; the block's iterations; store what was accumulated locally.
  Stmt block_loop() {
    std::vector<Stmt> body;
    for (const Partial& partial : partials_) body.push_back(initialisation(partial));
    body.push_back(iterations_of_block());
    for (const Partial& partial : partials_) {
      if (!partial.own) continue;
      body.push_back(ir::over_elements(partial.shape, {}, [&](const std::vector<Expr>& element) {
        return ir::assign(partial.parts, in_block(element), ir::load(partial.own, element), root_.location);
      }));
    }
    Stmt result = ir::block(std::move(body));
    for (const Partial& partial : partials_) {
      if (partial.own) result = ir::allocate(partial.own, result, root_.location);
    }
    return ir::for_loop(block_, ir::int_const(0), blocks_, result, ir::LoopMode::Parallel, root_.location);
  }

  Stmt initialisation(const Partial& partial) const {
    Expr identity = ir::identity_of(partial.op, value_type(partial.target->type));
    return ir::over_elements(partial.shape, {}, [&](const std::vector<Expr>& element) {
      return partial.own ? ir::assign(partial.own, element, identity, root_.location)
                         : ir::assign(partial.parts, in_block(element), identity, root_.location);
    });
  }

  Stmt iterations_of_block() {
    Expr lower = bound(root_.lower, "first"), upper = bound(root_.upper, "end"), block = ir::var(block_);
    Expr length = ceiling(simplify_indices(upper - lower), cut_.row ? row_blocks_ : blocks_);
    if (cut_.row) block = ir::binary(BinaryOp::FloorDiv, block, cut_.pieces);
    if (in_lanes_) length = ceiling(length, ir::int_const(lanes_of_block)) * ir::int_const(lanes_of_block);
    Expr first = lower + block * length;
    // Only sums are carried, so the direction is free.
    return ir::for_loop(root_.iterator, first, smaller(first + length, upper),
                        cut_.row ? piece_of_row() : accumulate(root_.body), ir::LoopMode::Forward, root_.location);
  }

  Stmt piece_of_row() const {
    const ir::For& row = *cut_.row;
    const Expr length = ceiling(row.upper - row.lower, cut_.pieces);
    const Expr first = row.lower + ir::binary(BinaryOp::Mod, ir::var(block_), cut_.pieces) * length;
    return ir::for_loop(row.iterator, first, smaller(first + length, row.upper), accumulate(row.body),
                        ir::LoopMode::Forward, row.location, ceiling(cut_.longest, cut_.pieces));
  }

  Stmt accumulate(const Stmt& body) const {
    return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      auto* sum = s.as<ir::Reduce>();
      if (!sum) return std::nullopt;
      for (const Partial& partial : partials_) {
        if (!partial.sums.count(s.get())) continue;
        std::vector<Expr> element = partial.moving(sum->indices);
        if (partial.own) return ir::reduce_like(*sum, partial.own, element, sum->value);
        return ir::reduce_like(*sum, partial.parts, in_block(element), sum->value);
      }
      return std::nullopt;
    });
  }

  Stmt combinations() const {
    std::vector<Stmt> result;
    for (const Partial& partial : partials_) {
      const Expr elements = product(partial.shape);
      if (!many_ || ir::as_int(elements)) {
        result.push_back(combination(partial, blocks_, ir::int_const(1)));
        continue;
      }
      // Of many partial results, groups are combined first: for all elements of all groups at once.
      const Expr is_many = ir::binary(BinaryOp::Gt, blocks_ * elements, ir::int_const(few_partials));
      const Expr group = ir::select(is_many, ir::int_const(group_blocks), ir::int_const(1));
      result.push_back(ir::if_then(is_many, combination_of_groups(partial)));
      result.push_back(combination(partial, ceiling(blocks_, group), group));
    }
    return ir::block(std::move(result));
  }

  // parts[32*group, z...] op= parts[32*group + k, z...] for k = 1, 2, ... in each group, by way of a scalar.
  Stmt combination_of_groups(const Partial& partial) const {
    const ir::Symbol group = ir::make_symbol("group"), k = ir::make_symbol("k");
    const Expr first = ir::var(group) * ir::int_const(group_blocks);
    const Stmt elements = ir::over_elements(partial.shape, {}, [&](const std::vector<Expr>& element) {
      std::vector<Expr> into = element, from = element;
      into.insert(into.begin(), first);
      from.insert(from.begin(), first + ir::var(k));
      const ir::Array sum = ir::make_array(partial.target->name + "_group", partial.parts->type, {},
                                           ir::ArrayRole::Local, root_.location);
      const Stmt add = ir::reduce(sum, {}, partial.op, ir::load(partial.parts, from), root_.location);
      return ir::allocate(
          sum,
          ir::block({ir::assign(sum, {}, ir::load(partial.parts, into), root_.location),
                     ir::for_loop(k, ir::int_const(1), smaller(ir::int_const(group_blocks), blocks_ - first), add,
                                  ir::LoopMode::Forward, root_.location),
                     ir::assign(partial.parts, into, ir::load(sum, {}), root_.location)}),
          root_.location);
    });
    return ir::for_loop(group, ir::int_const(0), ceiling(blocks_, ir::int_const(group_blocks)), elements,
                        ir::LoopMode::Forward, root_.location);
  }

  // target[z...] op= parts[stride*block, z...], block by block; the last of several dimensions is innermost.
  Stmt combination(const Partial& partial, const Expr& blocks, const Expr& stride) const {
    ir::Symbol block = ir::make_symbol("block");
    std::size_t rank = partial.shape.size();
    std::vector<ir::Symbol> iterators;
    std::vector<Expr> indices;
    for (std::size_t k = 0; k < rank; ++k) {
      iterators.push_back(ir::make_symbol("z" + std::to_string(k)));
      indices.push_back(ir::var(iterators.back()));
    }
    std::vector<Expr> part = indices;
    part.insert(part.begin(), ir::var(block) * stride);
    const std::vector<Expr> element = partial.element(indices);
    Stmt result = ir::reduce(partial.target, element, partial.op, ir::load(partial.parts, part), root_.location);
    // Where no iteration added anything, the element need not exist.
    const Expr exists =
        both(element_exists(model_, partial.target, element, iterators), is_touched(model_, partial, iterators));
    const bool varies = std::any_of(iterators.begin(), iterators.end(), [&](auto& z) { return mentions(exists, z); });
    const std::size_t inside = rank >= 2 ? 1 : 0;
    const bool in_blocks = inside && mentions(exists, iterators[rank - 1]);
    if (varies && in_blocks) result = ir::if_then(exists, result);
    auto over = [&](const ir::Symbol& iterator, const Expr& extent) {
      result = ir::for_loop(iterator, ir::int_const(0), extent, result, ir::LoopMode::Forward, root_.location);
    };
    if (inside) over(iterators[rank - 1], partial.shape[rank - 1]);
    over(block, blocks);
    if (varies && !in_blocks)
      result = ir::if_then(exists, result);  // a loop without branches: the sum stays in a register
    for (std::size_t k = rank - inside; k-- > 0;) over(iterators[k], partial.shape[k]);
    return varies ? result : ir::if_then(exists, result);
  }

  // Bounds are evaluated once, on entry: those that read data are kept in locals.
  Expr bound(const Expr& e, const std::string& name) {
    if (!ir::has_load(e)) return e;
    kept_.push_back(
        {ir::make_array(root_.iterator.name + "_" + name, ScalarType::I64, {}, ir::ArrayRole::Local, root_.location),
         e});
    return ir::load(kept_.back().first, {});
  }

  Stmt with_bounds_kept(Stmt result) const {
    for (const auto& [array, value] : kept_) {
      result = ir::allocate(array, ir::block({ir::assign(array, {}, value, root_.location), result}), root_.location);
    }
    return result;
  }

  const ir::Program& program_;
  const poly::Model& model_;
  const RowCut cut_;
  const ir::For& root_;
  const Stmt nest_;
  ir::Symbol block_;
  Expr blocks_;
  Expr row_blocks_;  // of rows, where these are cut
  bool many_;        // blocks may be wanted
  bool in_lanes_;    // iterations of a block
  std::vector<Partial> partials_;
  std::vector<std::pair<ir::Array, Expr>> kept_;
};

}  // namespace

Expr varying_trips(const ir::Program& program, const ir::For& loop) {
  const Expr trips = simplify_indices(loop.upper - loop.lower);
  bool varies = false;
  ir::walk(trips, [&](const Expr& e) {
    const auto* v = e.as<ir::Var>();
    varies |= v && std::find(program.sizes.begin(), program.sizes.end(), v->symbol) == program.sizes.end();
  });
  return varies && !ir::has_load(trips) ? trips : Expr();
}

bool can_be_held_back(const poly::Model& model, const std::vector<Stmt>& sums) {
  return poly::guarded(*model.context, [&] {
    StmtSet group;
    for (const Stmt& sum : sums) group.insert(sum.get());
    const ir::Reduce& first = *sums[0].as<ir::Reduce>();
    for (const poly::Statement& s : model.statements) {
      if (!group.count(s.stmt.get())) continue;
      for (const poly::Statement& other : model.statements) {
        for (const poly::Access& access : other.accesses) {
          bool same_sum =
              access.kind == poly::AccessKind::Reduce && access.array == first.array && access.op == first.op;
          if (same_sum) continue;
          isl::map touching = poly::touching_pairs(model, s, s.accesses.back(), other, access);
          if (!touching.intersect_params(model.assumptions).is_empty()) return false;
        }
      }
    }
    return true;
  });
}

Stmt tree_sums(const ir::Program& program, const poly::Model& model, const Stmt& nest,
               const std::vector<std::vector<Stmt>>& groups, const Machine& machine) {
  Tree whole(program, model, nest, groups, machine);
  const RowCut cut = whole.cut(machine);
  const Stmt code = whole.build();
  if (!cut.row) return code;
  const Stmt by_pieces = Tree(program, model, nest, groups, machine, cut).build();
  return ir::if_then(ir::binary(BinaryOp::Gt, cut.pieces, ir::int_const(1)), ir::with_fresh_names(by_pieces), code);
}

}  // namespace loopgrad::transforms
