#include "tools/cli/work.h"

#include "backends/runtime/binding.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <optional>
#include <set>

namespace loopgrad::cli {
namespace {

using ir::Array, ir::ArrayRole, ir::Assign, ir::Binary, ir::Block, ir::Cast, ir::Expr, ir::For, ir::If, ir::Load,
    ir::Reduce, ir::Select, ir::Stmt, ir::Symbol, ir::Unary, ir::Var, ir::While;
using Integer = std::optional<std::int64_t>;

/// What one execution of a statement costs; `loads` counts elements read per program array.
struct Cost {
  double flops = 0;
  std::map<std::int64_t, double> loads;
  void add(const Cost& other, double times = 1) {
    flops += times * other.flops;
    for (const auto& [array, count] : other.loads) loads[array] += times * count;
  }
};

class Counter {
 public:
  Counter(const Sizes& sizes, const ir::Program& program, const Arrays& inputs) : inputs_(inputs) {
    for (const Symbol& s : program.sizes)
      if (auto it = sizes.find(s.name); it != sizes.end()) values_[s] = it->second;
    for (const Array& a : program.arrays)
      if (a->role == ArrayRole::Input) readable_.insert(a->id);
  }

  bool exact = true;

  Cost cost(const Stmt& s) {
    if (!s) return {};
    return ir::visit(
        s, ir::overloaded{[&](const Block& n) {
                            Cost sum;
                            for (const Stmt& child : n.body) sum.add(cost(child));
                            return sum;
                          },
                          [&](const For& n) { return cost_of_loop(n); },
                          [&](const While&) {
                            exact = false;
                            return Cost{};
                          },
                          [&](const If& n) { return cost_of_branch(n); },
                          [&](const Assign& n) { return cost_of_store(n.indices, n.value); },
                          [&](const Reduce& n) {
                            Cost c = cost_of_store(n.indices, n.value);
                            c.flops += weight(n.value.type());
                            return c;
                          },
                          [&](const ir::Allocate& n) { return cost(n.body); },
                          [&](const ir::Contraction& n) { return cost(n.loops); },
                          [&](const ir::Push& n) { return cost(n.value); }, [&](const ir::Pop&) { return Cost{}; },
                          [&](const ir::Barrier&) { return Cost{}; }});
  }

 private:
  static double weight(ScalarType type) { return !is_float(type) ? 0 : type == ScalarType::F64 ? 2 : 1; }

  Cost cost(const Expr& e) {
    Cost sum;
    if (const auto* n = e.as<Select>()) {
      sum = cost(n->condition);
      Cost a = cost(n->a), b = cost(n->b);
      if (a.flops != b.flops) exact = false;
      sum.add(a.flops <= b.flops ? a : b);
      return sum;
    }
    ir::visit(e, [&](const auto& node) { ir::for_each_child(node, [&](const Expr& child) { sum.add(cost(child)); }); });
    if (const auto* n = e.as<Load>()) sum.loads[n->array->id] += 1;
    if (const auto* n = e.as<ir::Fma>()) sum.flops += 2 * weight(n->type);
    if (const auto* n = e.as<Binary>(); n && !ir::is_comparison(n->op)) sum.flops += weight(n->type);
    if (const auto* n = e.as<Unary>(); n && n->op != ir::UnaryOp::Neg) sum.flops += weight(n->type);
    return sum;
  }

  Cost cost_of_store(const std::vector<Expr>& indices, const Expr& value) {
    Cost sum = cost(value);
    for (const Expr& index : indices) sum.add(cost(index));
    return sum;
  }

  Cost cost_of_branch(const If& n) {
    Cost sum = cost(n.condition);
    if (Integer known = evaluate(n.condition)) {
      sum.add(cost(*known ? n.then_body : n.else_body));
      return sum;
    }
    exact = false;
    Cost a = cost(n.then_body), b = cost(n.else_body);
    sum.add(a.flops <= b.flops ? a : b);
    return sum;
  }

  /// Whether sizes, iterators and input arrays decide an integer or bool expression: what `evaluate` can ever know.
  bool is_decided(const Expr& e) const {
    if (ir::as_int(e) || e.as<Var>()) return true;
    if (const auto* n = e.as<Cast>()) return !is_float(n->a.type()) && is_decided(n->a);
    if (const auto* n = e.as<Load>())
      return !is_float(n->array->type) && readable_.contains(n->array->id) && inputs_.contains(n->array->name) &&
             std::all_of(n->indices.begin(), n->indices.end(), [&](const Expr& index) { return is_decided(index); });
    if (const auto* n = e.as<Binary>()) return !is_float(n->a.type()) && is_decided(n->a) && is_decided(n->b);
    if (const auto* n = e.as<Unary>()) return n->op == ir::UnaryOp::Not && is_decided(n->a);
    return false;
  }

  /// True when some bound or condition below makes the cost of the body depend on the iterator. A condition that is
  /// never known costs the same for all.
  bool cost_varies(const For& loop) const {
    bool varies = false;
    ir::walk_stmts(loop.body, [&](const Stmt& s) {
      if (const auto* n = s.as<For>())
        varies = varies || mentions(n->lower, loop.iterator) || mentions(n->upper, loop.iterator);
      if (const auto* n = s.as<If>())
        varies = varies || (mentions(n->condition, loop.iterator) && is_decided(n->condition));
    });
    return varies;
  }

  Cost cost_of_loop(const For& n) {
    Cost sum = cost(n.lower);
    sum.add(cost(n.upper));
    Integer lower = evaluate(n.lower), upper = evaluate(n.upper);
    if (!lower || !upper) {
      exact = false;
      return sum;
    }
    if (*upper <= *lower) return sum;
    if (!cost_varies(n)) {
      sum.add(cost(n.body), static_cast<double>(*upper - *lower));
      return sum;
    }
    for (std::int64_t i = *lower; i < *upper; ++i) {
      values_[n.iterator] = i;
      sum.add(cost(n.body));
    }
    values_.erase(n.iterator);
    return sum;
  }

  /// The value of an integer or bool expression, when sizes, iterators being walked and input arrays decide it.
  Integer evaluate(const Expr& e) const {
    if (Integer constant = ir::as_int(e)) return constant;
    if (const auto* n = e.as<Var>()) {
      auto it = values_.find(n->symbol);
      return it == values_.end() ? Integer{} : it->second;
    }
    if (const auto* n = e.as<Cast>()) return is_float(n->a.type()) ? Integer{} : evaluate(n->a);
    if (const auto* n = e.as<Load>()) return evaluate_load(*n);
    if (const auto* n = e.as<Binary>()) return evaluate_binary(*n);
    if (const auto* n = e.as<Unary>(); n && n->op == ir::UnaryOp::Not) {
      Integer a = evaluate(n->a);
      return a ? Integer{*a == 0} : Integer{};
    }
    return {};
  }

  Integer evaluate_load(const Load& n) const {
    if (is_float(n.array->type) || !readable_.contains(n.array->id)) return {};
    auto it = inputs_.find(n.array->name);
    if (it == inputs_.end()) return {};
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < n.indices.size(); ++d) {
      Integer index = evaluate(n.indices[d]);
      if (!index) return {};
      offset = offset * it->second.shape()[d] + *index;
    }
    if (offset < 0 || offset >= it->second.size()) return {};
    return static_cast<std::int64_t>(it->second.get(offset));
  }

  Integer evaluate_binary(const Binary& n) const {
    if (is_float(n.a.type())) return {};
    Integer a = evaluate(n.a), b = evaluate(n.b);
    if (!a || !b) return {};
    // The factory folds constants by the IR's own rules (floor division, wrap-around).
    return ir::as_int(ir::binary(n.op, ir::int_const(*a, n.a.type()), ir::int_const(*b, n.b.type())));
  }

  const Arrays& inputs_;
  std::map<Symbol, std::int64_t> values_;
  std::set<std::int64_t> readable_;
};

double bytes_moved(const Array& array, const backend::SizeValues& sizes, const Cost& cost) {
  const auto shape = backend::shape_of(array, sizes);
  const auto size = static_cast<double>(bytes_of(array->type));
  const double all = static_cast<double>(element_count(shape, array->type, array->name)) * size;
  if (array->role == ArrayRole::InOut) return 2 * all;
  if (array->role != ArrayRole::Input) return all;
  auto it = cost.loads.find(array->id);
  return it == cost.loads.end() ? 0 : std::min(all, it->second * size);
}

bool sized_by(const Array& array, const backend::SizeValues& sizes) {
  bool known = true;
  for (const Expr& extent : array->shape)
    ir::walk(extent, [&](const Expr& e) {
      if (const auto* v = e.as<Var>()) known = known && sizes.contains(v->symbol);
    });
  return known;
}

}  // namespace

Work count_work(const Program& program, const Sizes& sizes, const Arrays& inputs) {
  const ir::Program& ir = program.ir();
  Counter counter(sizes, ir, inputs);
  Cost cost = counter.cost(ir.body);
  backend::SizeValues values;
  for (const Symbol& s : ir.sizes)
    if (auto it = sizes.find(s.name); it != sizes.end()) values[s] = it->second;
  Work work;
  work.flops = cost.flops;
  for (const Array& array : ir.arrays) {
    if (!sized_by(array, values)) {
      counter.exact = false;
      continue;
    }
    (array->role == ArrayRole::Tape ? work.tape_bytes : work.bytes) += bytes_moved(array, values, cost);
  }
  work.exact = counter.exact;
  return work;
}

}  // namespace loopgrad::cli
