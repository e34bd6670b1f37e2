#include "transforms/sums/keep_operands.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// Copies that are made before the sum.
class Copies {
 public:
  explicit Copies(const SourceLocation& where) : where_(where) {}

  Expr copy_of(const Expr& e, const std::string& name) {
    for (std::size_t k = 0; k < values_.size(); ++k)
      if (ir::equal(values_[k], e)) return ir::load(arrays_[k], {});
    values_.push_back(e);
    arrays_.push_back(ir::make_array(name + "_then", e.type(), {}, ir::ArrayRole::Local, where_));
    return ir::load(arrays_.back(), {});
  }

  std::size_t size() const { return values_.size(); }

  /// The sum with the copies before it.
  Stmt around(const Stmt& sum) const {
    std::vector<Stmt> body;
    for (std::size_t k = 0; k < values_.size(); ++k) body.push_back(ir::assign(arrays_[k], {}, values_[k], where_));
    body.push_back(sum);
    Stmt result = ir::block(std::move(body));
    for (const Array& array : arrays_) result = ir::allocate(array, result, where_);
    return result;
  }

 private:
  SourceLocation where_;
  std::vector<Expr> values_;
  std::vector<Array> arrays_;
};

}  // namespace

std::optional<KeptOperands> keep_operands(const Stmt& nest, const Stmt& sum) {
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  const std::set<Array> changed = stored_in(replace(nest, sum, ir::block({})));
  Copies copies(node.location);
  const auto copied = [&](const Expr& e) {
    return ir::rewrite(e, [&](const Expr& part) -> std::optional<Expr> {
      const auto* load = part.as<ir::Load>();
      if (!load || !changed.count(load->array)) return std::nullopt;
      return copies.copy_of(part, load->array->name);
    });
  };
  Expr value = copied(node.value);
  if (copies.size() > 1) {  // the value takes less
    copies = Copies(node.location);
    value = copies.copy_of(node.value, node.array->name);
  }
  std::vector<Expr> indices;
  for (const Expr& index : node.indices) indices.push_back(copied(index));
  if (copies.size() == 0) return std::nullopt;
  const Stmt result = ir::reduce_like(node, node.array, std::move(indices), value);
  return KeptOperands{replace(nest, sum, copies.around(result)), result};
}

NamedTerm with_named_term(const Stmt& sum) {
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  const Array term =
      ir::make_array(node.array->name + "_term", node.value.type(), {}, ir::ArrayRole::Local, node.location);
  ir::Reduce next = node;
  next.value = ir::load(term, {});
  next.fused = false;
  const Stmt named(std::make_shared<ir::Reduce>(std::move(next)));
  const Stmt set = ir::assign(term, {}, node.value, node.location);
  return {ir::allocate(term, ir::block({set, named}), node.location), named, term};
}

}  // namespace loopgrad::transforms
