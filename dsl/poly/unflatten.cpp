#include "dsl/poly/unflatten.h"

#include "dsl/ir/known_scalars.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/flat_loops.h"
#include "dsl/poly/relations.h"
#include "dsl/symbolic/flat_index.h"

#include <algorithm>
#include <functional>

namespace loopgrad::poly {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;
using ir::Stride;

namespace {

/// How one dimension of an array is indexed.
struct FlatDimension {
  std::vector<Expr> indices;  // as written, with known scalars looked through
  std::set<Stride> strides;
  std::vector<Stride> chain = {};  // decided: the stride of each dimension that it becomes; empty where it stays
  std::vector<Expr> extents = {};  // of these
  bool is_planes = false;          // numbers choose the first of these
};

/// An array with all of its dimensions.
struct FlatArray {
  std::vector<FlatDimension> dimensions;
  Array matrix;
};

struct ById {
  bool operator()(const Array& a, const Array& b) const { return a->id < b->id; }
};

bool is_number(const std::string& factor) { return factor.find_first_not_of("0123456789") == factor.npos; }

using FlatArrays = std::map<Array, FlatArray, ById>;

bool can_have_rows(const ir::Program& program, const Array& array) {
  return std::none_of(program.facts.begin(), program.facts.end(), [&](const ir::Fact& fact) {
    const bool fits = fact.kind == ir::FactKind::InRange || fact.kind == ir::FactKind::Injective;
    return (fact.array == array && !fits) || fact.other == array;
  });
}

/// Loops over all elements of a matrix become a nest over its rows and columns.
class LoopSplitter final : public ir::Rewriter {
 public:
  LoopSplitter(const FlatArrays& arrays, ir::FlatIndices& flat) : arrays_(arrays), flat_(flat) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    if (!loop || ir::as_int(loop->lower) != 0 || loop->at_most) return rewrite_children(s);
    const FlatDimension* const flat = indexed_by(*loop);
    if (!flat) return rewrite_children(s);
    Expr position;
    std::vector<ir::Symbol> iterators;
    for (std::size_t k = 0; k < flat->chain.size(); ++k) {
      iterators.push_back(ir::make_symbol(loop->iterator.name + (k == 0 ? "" : "_" + std::to_string(k))));
      const Expr part = ir::var(iterators.back()) * flat_.product(flat->chain[k]);
      position = position ? position + part : part;
    }
    Stmt result = ir::substitute(rewrite(loop->body), {{loop->iterator, position}});
    for (std::size_t k = flat->chain.size(); k-- > 0;)
      result = ir::for_loop(iterators[k], ir::int_const(0), flat->extents[k], result, loop->mode, s->location);
    return result;
  }

 private:
  /// A dimension that the loop's iterator alone is an index of, and all of whose places it visits. (Not one of planes:
  /// that would be two loops wherever others of the loop's arrays have one dimension.)
  const FlatDimension* indexed_by(const ir::For& loop) {
    const Stride trips = flat_.factors(loop.upper);
    for (const auto& [array, flat] : arrays_)
      for (std::size_t dim = 0; dim < flat.dimensions.size(); ++dim) {
        const FlatDimension& one = flat.dimensions[dim];
        if (one.chain.empty() || one.is_planes || flat_.factors(array->shape[dim]) != trips) continue;
        for (const Expr& index : one.indices)
          if (const auto* v = index.as<ir::Var>(); v && v->symbol == loop.iterator) return &one;
      }
    return nullptr;
  }

  const FlatArrays& arrays_;
  ir::FlatIndices& flat_;
};

class Unflattener {
 public:
  Unflattener(const ir::Program& program, bool numbers)
      : program_(program), scalars_(program), flat_(program.sizes, numbers), numbers_(numbers) {}

  ir::Program run() {
    find();
    while (!arrays_.empty()) {
      const Stmt split = LoopSplitter(arrays_, flat_).rewrite(program_.body);
      const ir::Program result = rewritten(ir::with_body(program_, split));
      const std::set<Array> unproved = not_proved(result);
      if (unproved.empty()) return result;
      std::erase_if(arrays_, [&](const auto& entry) { return unproved.count(entry.second.matrix) > 0; });
    }
    return program_;
  }

 private:
  void find() {
    std::set<Array> rejected;
    const auto note = [&](const Array& array, const std::vector<Expr>& indices) {
      auto& dimensions = arrays_[array].dimensions;
      dimensions.resize(indices.size());
      for (std::size_t dim = 0; dim < indices.size(); ++dim)
        dimensions[dim].indices.push_back(scalars_.look_through(indices[dim]));
    };
    const auto in_stmt = [&](const Stmt& s) {
      if (const auto* n = s.as<ir::Assign>()) note(n->array, n->indices);
      if (const auto* n = s.as<ir::Reduce>()) note(n->array, n->indices);
      if (const auto* n = s.as<ir::Pop>()) rejected.insert(n->array);
      if (const auto* n = s.as<ir::Contraction>()) rejected.insert({n->a, n->b, n->c});
      if (const auto* n = s.as<ir::CustomGradient>())  // its derivatives have the shapes of these
        for (const auto* list : {&n->outputs, &n->inputs}) rejected.insert(list->begin(), list->end());
    };
    ir::walk(program_.body, in_stmt, [&](const Expr& e) {
      if (const auto* n = e.as<ir::Load>()) note(n->array, n->indices);
    });
    for (auto entry = arrays_.begin(); entry != arrays_.end();) {
      const bool possible = !rejected.count(entry->first) && can_have_rows(program_, entry->first);
      entry = possible && decide(entry->first, entry->second) ? std::next(entry) : arrays_.erase(entry);
    }
  }

  /// The dimensions of the matrix; false when they are those of the array.
  bool decide(const Array& array, FlatArray& flat) {
    bool any = false;
    std::vector<Expr> shape;
    for (std::size_t dim = 0; dim < flat.dimensions.size(); ++dim) {
      FlatDimension& one = flat.dimensions[dim];
      if (decide(array->shape[dim], one)) any = true;
      else one.extents = {array->shape[dim]};
      shape.insert(shape.end(), one.extents.begin(), one.extents.end());
    }
    if (!any) return false;
    const bool is_argument = array->role != ir::ArrayRole::Local;
    flat.matrix = ir::make_array(array->name, array->type, shape, array->role, array->location,
                                 is_argument ? array->callers_shape() : std::vector<Expr>());
    return true;
  }

  /// How far apart the planes of an array of 19*n elements are, of which numbers may choose one each: 3*n + i.
  std::optional<Stride> plane_of(const Expr& extent) {
    const Stride factors = flat_.factors(extent);
    Stride plane;
    std::copy_if(factors.begin(), factors.end(), std::inserter(plane, plane.end()), std::not_fn(is_number));
    return plane.empty() || plane.size() == factors.size() ? std::nullopt : std::optional(plane);
  }

  bool decide(const Expr& extent, FlatDimension& flat) {
    if (ir::as_int(extent)) return false;
    const std::optional<Stride> plane = numbers_ ? plane_of(extent) : std::nullopt;
    bool names_planes = false;
    for (const Expr& index : flat.indices) {
      const ir::StridedTerms terms = flat_.terms(index);
      for (const auto& [stride, rest] : terms.rests) flat.strides.insert(stride);
      for (const Expr& term : terms.of_sizes.added)
        names_planes = names_planes || (plane && ir::quotient(flat_.factors(term), *plane));
    }
    if (names_planes) flat.is_planes = flat.strides.insert(*plane).second;
    const auto chain = ir::as_chain(flat.strides);
    if (!chain || chain->size() < 2) return false;
    if (std::all_of(chain->front().begin(), chain->front().end(), is_number)) return false;  // isl understands it
    Stride larger = flat_.factors(extent);
    std::vector<Expr> extents;
    for (const Stride& stride : *chain) {
      const auto part = ir::quotient(larger, stride);
      if (!part) return false;
      extents.push_back(flat_.product(*part));
      larger = stride;
    }
    flat.chain = *chain;
    flat.extents = std::move(extents);
    return true;
  }

  ir::Program rewritten(const ir::Program& program) {
    const ir::KnownScalars scalars(program);  // whose loops may be others than those of `program_`
    const ir::ElementMove move = [&](const Array& array,
                                     const std::vector<Expr>& indices) -> std::optional<ir::ElementPlace> {
      const auto found = arrays_.find(array);
      if (found == arrays_.end()) return std::nullopt;
      ir::ElementPlace place{found->second.matrix, {}};
      for (std::size_t dim = 0; dim < indices.size(); ++dim) {
        const FlatDimension& flat = found->second.dimensions[dim];
        if (flat.chain.empty()) {
          place.indices.push_back(indices[dim]);
          continue;
        }
        const auto parts = flat_.indices(flat_.terms(scalars.look_through(indices[dim])), flat.chain);
        place.indices.insert(place.indices.end(), parts.begin(), parts.end());
      }
      return place;
    };
    ir::Program result = ir::with_body(program, ir::move_elements(program.body, move));
    std::map<Array, Array> matrices;
    for (const auto& [array, flat] : arrays_) matrices[array] = flat.matrix;
    result.body = ir::replace_arrays(result.body, matrices);  // where they are allocated
    const auto replace = [&](Array& array) {
      if (const auto found = matrices.find(array); found != matrices.end()) array = found->second;
    };
    for (Array& array : result.arrays) replace(array);
    for (ir::Fact& fact : result.facts) replace(fact.array);
    return result;
  }

  /// The matrices of which an index other than the first may leave its extent: there an element would be another one.
  std::set<Array> not_proved(const ir::Program& program) const {
    std::set<Array> result;
    std::map<Array, std::set<std::size_t>> matrices;  // with the dimensions that are rests
    for (const auto& [array, flat] : arrays_) {
      std::size_t at = 0;
      for (const FlatDimension& one : flat.dimensions)
        for (std::size_t k = 0; k < one.extents.size(); ++k, ++at)
          if (k > 0) matrices[flat.matrix].insert(at);
    }
    try {
      const Model model = build_model(program, program.body, std::make_shared<Context>());
      const Facts facts(program);
      for (const Statement& s : model.statements)
        for (const Access& access : s.accesses)
          if (const auto found = matrices.find(access.array); found != matrices.end() && !result.count(access.array) &&
                                                              !stays_in_row(model, facts, s, access, found->second))
            result.insert(access.array);
    } catch (const BudgetError&) {
      for (const auto& [matrix, dimensions] : matrices) result.insert(matrix);
    }
    return result;
  }

  static bool stays_in_row(const Model& model, const Facts& facts, const Statement& s, const Access& access,
                           const std::set<std::size_t>& dimensions) {
    for (const std::size_t k : dimensions) {
      Abstraction abstraction(facts);
      const Expr guard = access.guard ? abstraction.condition(access.guard, true) : ir::bool_const(true);
      const Expr index = abstraction.value(access.indices[k]), extent = abstraction.value(access.array->shape[k]);
      const Expr leaves = ir::binary(BinaryOp::Or, ir::binary(BinaryOp::Lt, index, ir::int_const(0)),
                                     ir::binary(BinaryOp::Ge, index, extent));
      const bool stays = guarded(*model.context, [&] {
        const Scope scope{model.context, s.iterators, s.name};
        const isl::set points = points_of(scope, both(guard, leaves), abstraction);
        isl_set* named = isl_set_set_tuple_name(points.copy(), s.name.c_str());
        const isl::set domain = s.domain.intersect_params(model.assumptions);
        return checked(*model.context, named).intersect(domain).is_empty();
      });
      if (!stays) return false;
    }
    return true;
  }

  const ir::Program& program_;
  const ir::KnownScalars scalars_;
  ir::FlatIndices flat_;
  const bool numbers_;
  FlatArrays arrays_;
};

}  // namespace

namespace {

ir::Program with_matrices(const ir::Program& program) {
  const ir::Program result = Unflattener(program, false).run();
  return Unflattener(result, true).run();
}

}  // namespace

ir::Program unflatten(const ir::Program& program) {
  const NestedLoops nested = with_flat_loops_nested(program);
  if (!nested.rows.empty()) {
    // All or nothing: an array that stays flat would be worse off with positions of two iterators.
    const ir::Program result = with_matrices(nested.program);
    if (!has_products_of(result, nested.rows)) return result;
  }
  return with_matrices(program);
}

}  // namespace loopgrad::poly
