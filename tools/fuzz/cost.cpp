#include "tools/fuzz/cost.h"

#include "dsl/ir/visit.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

class Estimate {
 public:
  Estimate(const ir::Program& program, const Sizes& sizes, const std::map<std::string, IndexContents>& contents)
      : contents_(contents) {
    for (const Symbol& size : program.sizes) {
      const auto given = sizes.find(size.name);
      values_[size] = given == sizes.end() ? 8 : static_cast<double>(given->second);
    }
  }

  double elements(const Array& array) const {
    double count = 1;
    for (const Expr& extent : array->shape) count *= std::max(0.0, value(extent).value_or(1));
    return count;
  }

  double work(const Stmt& s) {
    if (!s) return 0;
    if (const auto* loop = s.as<For>()) {
      const double lower = value(loop->lower).value_or(0), count = trips(*loop);
      values_[loop->iterator] = lower + std::floor(count / 2);
      return count * (1 + work(loop->body));
    }
    if (const auto* loop = s.as<While>()) {
      const double count = std::max(0.0, value(loop->max_trips).value_or(8));
      values_[loop->iterator] = std::floor(count / 2);
      return count * (1 + work(loop->body));
    }
    double total = 1;
    for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { total += work(child); }});
    return total;
  }

 private:
  double trips(const For& loop) const {
    const auto lower = value(loop.lower), upper = value(loop.upper);
    if (lower && upper) return std::max(0.0, *upper - *lower);
    double most = 8;
    if (loop.at_most) most = value(loop.at_most).value_or(8) / 2 + 1;
    if (const auto* load = loop.upper.as<Load>() ? loop.upper.as<Load>() : cast_load(loop.upper)) {
      const auto found = contents_.find(load->array->name);
      if (found == contents_.end() || !found->second.bound) return most;
      const double bound = value(found->second.bound).value_or(8);
      if (found->second.kind != IndexContents::Kind::CsrPointer) return bound / 2 + 1;
      return bound / std::max(1.0, elements(load->array) - 1) + 1;
    }
    return most;
  }

  static const Load* cast_load(const Expr& e) {
    const auto* cast = e.as<Cast>();
    return cast ? cast->a.as<Load>() : nullptr;
  }

  /// Nothing for what depends on data.
  std::optional<double> value(const Expr& e) const {
    if (const auto constant = as_int(e)) return static_cast<double>(*constant);
    if (const auto* n = e.as<Var>()) {
      const auto known = values_.find(n->symbol);
      return known == values_.end() ? std::nullopt : std::optional(known->second);
    }
    const auto* n = e.as<Binary>();
    if (!n) return std::nullopt;
    const auto a = value(n->a), b = value(n->b);
    if (!a || !b) return std::nullopt;
    switch (n->op) {
      case BinaryOp::Add: return *a + *b;
      case BinaryOp::Sub: return *a - *b;
      case BinaryOp::Mul: return *a * *b;
      case BinaryOp::FloorDiv: return *b == 0 ? 0 : std::floor(*a / *b);
      case BinaryOp::Mod: return *b == 0 ? 0 : *a - *b * std::floor(*a / *b);
      case BinaryOp::Min: return std::min(*a, *b);
      case BinaryOp::Max: return std::max(*a, *b);
      default: return std::nullopt;
    }
  }

  const std::map<std::string, IndexContents>& contents_;
  std::map<Symbol, double> values_;
};

}  // namespace

double estimated_work(const ir::Program& program, const Sizes& sizes,
                      const std::map<std::string, IndexContents>& contents) {
  Estimate estimate(program, sizes, contents);
  double total = estimate.work(program.body);
  for (const Array& array : program.arrays) total += estimate.elements(array);
  return total;
}

}  // namespace loopgrad::fuzz
