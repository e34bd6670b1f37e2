#include "transforms/sums/contractions/kept_locals.h"

#include "dsl/ir/queries.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

// On an H200 loops in a block do about one multiplication of a small product in a picosecond, a library seven and more,
// and an element takes two or three picoseconds to be written and read. Twice that, as estimates are rough.
constexpr double least_multiplications = 8;
// Memory that no user has asked for.
constexpr std::int64_t most_kept_bytes = 1 << 30;

/// The loops around an Allocate; false when something else decides how often it is entered.
bool only_loops(const LocalArray& local, std::vector<ir::Symbol>& iterators) {
  for (const Stmt& s : local.around) {
    if (auto* loop = s.as<ir::For>()) iterators.push_back(loop->iterator);
    else if (s.kind() == ir::Kind::While || s.kind() == ir::Kind::If) return false;
  }
  return true;
}

/// Each of the iterators is an index of its own.
bool has_element_for_each(const std::vector<Expr>& indices, const std::vector<ir::Symbol>& iterators) {
  return std::all_of(iterators.begin(), iterators.end(), [&](const ir::Symbol& iterator) {
    return std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
      auto* v = index.as<ir::Var>();
      return v && v->symbol == iterator;
    });
  });
}

bool is_as_large_as_another_array(const Stmt& nest, const std::vector<ir::Symbol>& iterators) {
  bool found = false;
  ir::walk(
      nest,
      [&](const Stmt& s) {
        for_each_store(s, [&](const Array& array, const std::vector<Expr>& indices) {
          found |= array->role != ir::ArrayRole::Local && has_element_for_each(indices, iterators);
        });
      },
      [&](const Expr& e) {
        auto* load = e.as<ir::Load>();
        found |= load && load->array->role != ir::ArrayRole::Local && has_element_for_each(load->indices, iterators);
      });
  return found;
}

bool takes_part_in_product(const Stmt& leaf, const Array& local) {
  auto* sum = leaf.as<ir::Reduce>();
  auto* product = sum && sum->op == ir::ReduceOp::Add ? sum->value.as<ir::Binary>() : nullptr;
  if (!product || product->op != ir::BinaryOp::Mul) return false;
  return sum->array == local || uses(sum->value, local);
}

/// The loops that move an index of an array: surely, and perhaps, as it is a local that is kept for all iterations.
struct MovedBy {
  std::vector<ir::Symbol> surely, perhaps;
  bool must(const ir::Symbol& iterator) const {
    return std::find(surely.begin(), surely.end(), iterator) != surely.end();
  }
  bool may(const ir::Symbol& iterator) const {
    return must(iterator) || std::find(perhaps.begin(), perhaps.end(), iterator) != perhaps.end();
  }
};

std::vector<Stmt> for_loops_around(const Stmt& nest, const Stmt& leaf) {
  std::vector<Stmt> around = loops_around(nest, leaf).value_or(std::vector<Stmt>());
  std::erase_if(around, [](const Stmt& s) { return s.kind() != ir::Kind::For; });
  return around;
}

MovedBy moved_by(const Array& array, const std::vector<Expr>& indices, const std::vector<Stmt>& loops,
                 const std::vector<LocalArray>& kept) {
  MovedBy result;
  for (const Stmt& s : loops) {
    const ir::Symbol& iterator = s.as<ir::For>()->iterator;
    const auto moves = [&](const Expr& index) { return ir::mentions(index, iterator); };
    if (std::any_of(indices.begin(), indices.end(), moves)) result.surely.push_back(iterator);
  }
  for (const LocalArray& local : kept)
    if (local.array == array) only_loops(local, result.perhaps);
  return result;
}

/// Whether three of the loops are each in two of the arrays, and not in the third one.
bool may_be_product(const MovedBy& c, const MovedBy& a, const MovedBy& b, const std::vector<Stmt>& loops) {
  const auto some = [&](const MovedBy& x, const MovedBy& y, const MovedBy& without) {
    return std::any_of(loops.begin(), loops.end(), [&](const Stmt& s) {
      const ir::Symbol& iterator = s.as<ir::For>()->iterator;
      return x.may(iterator) && y.may(iterator) && !without.must(iterator);
    });
  };
  return some(c, a, b) && some(c, b, a) && some(a, b, c);
}

/// How often these loops run together.
double trips_of(SizeEstimator& sizes, const std::vector<Stmt>& around) {
  std::map<ir::Symbol, double> middle;
  double trips = 1;
  for (const Stmt& s : around) {
    const auto* loop = s.as<ir::For>();
    if (!loop) continue;
    const double own = sizes.trips_of(loop->lower, loop->upper, middle);
    middle[loop->iterator] = sizes.value_of(loop->lower, middle) + own / 2;
    trips *= own;
  }
  return trips;
}

double bytes_of(SizeEstimator& sizes, const LocalArray& local) {
  double elements = trips_of(sizes, local.around);
  for (const Expr& extent : local.array->shape) elements *= sizes.value_of(extent, {});
  return elements * static_cast<double>(bytes_of(local.array->type));
}

}  // namespace

double instances_of(const ir::Program& program, const Stmt& nest, const Stmt& leaf, const PassContext& context) {
  SizeEstimator sizes(program, context.options.expected_sizes);
  return trips_of(sizes, for_loops_around(nest, leaf));
}

bool may_help_products(const Stmt& nest, const std::vector<Array>& locals) {
  std::vector<LocalArray> kept;
  for (const LocalArray& local : locals_of(nest))
    if (std::find(locals.begin(), locals.end(), local.array) != locals.end()) kept.push_back(local);
  for (const Stmt& leaf : leaves(nest)) {
    auto* sum = leaf.as<ir::Reduce>();
    if (!sum || sum->op != ir::ReduceOp::Add) continue;
    const std::vector<Stmt> loops = for_loops_around(nest, leaf);
    const MovedBy target = moved_by(sum->array, sum->indices, loops, kept);
    std::vector<MovedBy> factors;
    ir::walk(sum->value, [&](const Expr& e) {
      if (auto* load = e.as<ir::Load>()) factors.push_back(moved_by(load->array, load->indices, loops, kept));
    });
    for (std::size_t x = 0; x < factors.size(); ++x)
      for (std::size_t y = 0; y < x; ++y)
        if (may_be_product(target, factors[x], factors[y], loops)) return true;
  }
  return false;
}

bool pays_to_keep(const ir::Program& program, const Stmt& nest, const std::vector<Array>& locals,
                  double multiplications, const PassContext& context) {
  if (!context.options.machine.is_gpu()) return false;
  SizeEstimator sizes(program, context.options.expected_sizes);
  double bytes = 0;
  for (const LocalArray& local : locals_of(nest))
    if (std::find(locals.begin(), locals.end(), local.array) != locals.end()) bytes += bytes_of(sizes, local);
  const bool fits = sizes.assumed_sizes() || bytes <= static_cast<double>(most_kept_bytes);
  return fits && multiplications >= least_multiplications * bytes / sizeof(float);
}

Expr fits_memory(const ir::Program& program, const Stmt& nest, const std::vector<Array>& locals,
                 const std::vector<Array>& expanded, const PassContext& context) {
  SizeEstimator sizes(program, context.options.expected_sizes);
  Expr bytes = ir::int_const(0);
  for (const LocalArray& local : locals_of(nest)) {
    const auto at = std::find(locals.begin(), locals.end(), local.array);
    std::vector<ir::Symbol> iterators;
    if (at == locals.end() ||
        (local.array->shape.empty() && only_loops(local, iterators) && is_as_large_as_another_array(nest, iterators)))
      continue;
    bytes_of(sizes, local);
  }
  if (!sizes.assumed_sizes()) return {};
  for (const Array& array : expanded) bytes = bytes + ir::byte_count(array);
  return ir::binary(ir::BinaryOp::Le, simplify_indices(bytes), ir::int_const(most_kept_bytes));
}

std::vector<Array> locals_of_products(const ir::Program& program, const Stmt& nest, const PassContext& context) {
  std::vector<Array> result;
  const std::vector<Stmt> all = leaves(nest);
  for (const LocalArray& local : locals_of(nest)) {
    if (local.array->type != ScalarType::F32 && local.array->type != ScalarType::F64) continue;
    std::vector<ir::Symbol> iterators;
    if (!only_loops(local, iterators) || iterators.empty()) continue;
    double multiplications = 0;
    for (const Stmt& leaf : all)
      if (takes_part_in_product(leaf, local.array))
        multiplications = std::max(multiplications, instances_of(program, nest, leaf, context));
    if (multiplications == 0) continue;
    const bool is_scalar = local.array->shape.empty();
    if ((is_scalar && iterators.size() > 1 && is_as_large_as_another_array(nest, iterators)) ||
        pays_to_keep(program, nest, {local.array}, multiplications, context))
      result.push_back(local.array);
  }
  return result;
}

}  // namespace loopgrad::transforms
