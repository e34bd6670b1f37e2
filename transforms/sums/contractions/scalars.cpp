#include "transforms/sums/contractions/scalars.h"

#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

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
        for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>& indices) {
          found |= array->role != ir::ArrayRole::Local && has_element_for_each(indices, iterators);
        });
      },
      [&](const Expr& e) {
        auto* load = e.as<ir::Load>();
        found |= load && load->array->role != ir::ArrayRole::Local && has_element_for_each(load->indices, iterators);
      });
  return found;
}

bool takes_part_in_product(const Stmt& leaf, const ir::Array& scalar) {
  auto* sum = leaf.as<ir::Reduce>();
  auto* product = sum && sum->op == ir::ReduceOp::Add ? sum->value.as<ir::Binary>() : nullptr;
  if (!product || product->op != ir::BinaryOp::Mul) return false;
  return sum->array == scalar || uses(sum->value, scalar);
}

}  // namespace

std::vector<ir::Array> scalars_of_products(const Stmt& nest) {
  std::vector<ir::Array> result;
  for (const LocalArray& local : locals_of(nest)) {
    const bool fits =
        local.array->shape.empty() && (local.array->type == ScalarType::F32 || local.array->type == ScalarType::F64);
    if (!fits) continue;
    std::vector<ir::Symbol> iterators;
    if (!only_loops(local, iterators) || iterators.size() < 2) continue;
    const auto all = leaves(nest);
    if (std::none_of(all.begin(), all.end(), [&](const Stmt& s) { return takes_part_in_product(s, local.array); }))
      continue;
    if (is_as_large_as_another_array(nest, iterators)) result.push_back(local.array);
  }
  return result;
}

}  // namespace loopgrad::transforms
