#include "transforms/sums/keep_operands.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// Copies that are made before the sum.
class Copies {
 public:
  explicit Copies(const ir::Reduce& sum) : sum_(sum) {}

  Expr copy_of(const Expr& e, const std::string& name) {
    for (std::size_t k = 0; k < values_.size(); ++k)
      if (ir::equal(values_[k], e)) return ir::load(arrays_[k], {});
    values_.push_back(e);
    arrays_.push_back(ir::make_array(name + "_then", e.type(), {}, ir::ArrayRole::Local, sum_.location));
    return ir::load(arrays_.back(), {});
  }

  bool empty() const { return values_.empty(); }

  /// The sum with the copies before it.
  Stmt around(const Stmt& sum) const {
    std::vector<Stmt> body;
    for (std::size_t k = 0; k < values_.size(); ++k)
      body.push_back(ir::assign(arrays_[k], {}, values_[k], sum_.location));
    body.push_back(sum);
    Stmt result = ir::block(std::move(body));
    for (const Array& array : arrays_) result = ir::allocate(array, result, sum_.location);
    return result;
  }

 private:
  const ir::Reduce& sum_;
  std::vector<Expr> values_;
  std::vector<Array> arrays_;
};

std::set<Array> stored_beside(const Stmt& nest, const Stmt& sum) {
  std::set<Array> result;
  for (const Stmt& leaf : leaves(nest))
    if (!leaf.same_as(sum)) for_each_store(leaf, [&](const Array& array, const auto&) { result.insert(array); });
  return result;
}

/// Different loads of arrays in the set, in the order of their first occurrence.
std::vector<Expr> loads_of(const Expr& e, const std::set<Array>& arrays) {
  std::vector<Expr> result;
  ir::walk(e, [&](const Expr& part) {
    const auto* load = part.as<ir::Load>();
    if (!load || !arrays.count(load->array)) return;
    if (std::none_of(result.begin(), result.end(), [&](const Expr& known) { return ir::equal(known, part); }))
      result.push_back(part);
  });
  return result;
}

}  // namespace

std::optional<KeptOperands> keep_operands(const Stmt& nest, const Stmt& sum) {
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  const std::set<Array> changed = stored_beside(nest, sum);
  Copies copies(node);
  const auto copied = [&](const Expr& e) {
    return ir::rewrite(e, [&](const Expr& part) -> std::optional<Expr> {
      const auto* load = part.as<ir::Load>();
      if (!load || !changed.count(load->array)) return std::nullopt;
      return copies.copy_of(part, load->array->name);
    });
  };
  const Expr value =
      loads_of(node.value, changed).size() > 1 ? copies.copy_of(node.value, node.array->name) : copied(node.value);
  std::vector<Expr> indices;
  for (const Expr& index : node.indices) indices.push_back(copied(index));
  if (copies.empty()) return std::nullopt;
  ir::Reduce next = node;
  next.indices = std::move(indices);
  next.value = value;
  const Stmt result(std::make_shared<ir::Reduce>(std::move(next)));
  return KeptOperands{replace(nest, sum, copies.around(result)), result};
}

}  // namespace loopgrad::transforms
