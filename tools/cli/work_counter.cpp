#include "tools/cli/work_counter.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/csr_rows.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::cli {

using ir::Array, ir::Assign, ir::Binary, ir::BinaryOp, ir::Block, ir::Cast, ir::Expr, ir::For, ir::If, ir::Load,
    ir::Reduce, ir::Select, ir::Stmt, ir::Unary, ir::Var, ir::While;
using Integer = std::optional<std::int64_t>;

namespace {

constexpr double kUnknownTrips = 16;  // of loops that nothing is known about, as plans have it
// Of a `while`: what bounds it is often the length of an array, which nobody expects it to reach.
constexpr double kMostLikelyTrips = 64;

double weight(ScalarType type) { return !is_float(type) ? 0 : type == ScalarType::F64 ? 2 : 1; }

double operations_of(const Expr& e) {
  if (!is_float(e.type())) return 0;
  if (const auto* n = e.as<Unary>()) return n->op == ir::UnaryOp::Neg || n->op == ir::UnaryOp::Abs ? 1 : 10;
  if (const auto* n = e.as<Binary>()) return n->op == BinaryOp::Pow ? 20 : 1;
  return e.as<ir::Fma>() ? 2 : 0;
}

Integer value_of_binary(const Binary& n, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  switch (n.op) {
    case BinaryOp::Add: return __builtin_add_overflow(a, b, &r) ? Integer() : r;
    case BinaryOp::Sub: return __builtin_sub_overflow(a, b, &r) ? Integer() : r;
    case BinaryOp::Mul: return __builtin_mul_overflow(a, b, &r) ? Integer() : r;
    case BinaryOp::Min: return std::min(a, b);
    case BinaryOp::Max: return std::max(a, b);
    case BinaryOp::Lt: return a < b;
    case BinaryOp::Le: return a <= b;
    case BinaryOp::Gt: return a > b;
    case BinaryOp::Ge: return a >= b;
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::And: return a && b;
    case BinaryOp::Or: return a || b;
    default:  // the factory folds constants by the IR's own rules (floor division)
      return ir::as_int(ir::binary(n.op, ir::int_const(a, n.a.type()), ir::int_const(b, n.b.type())));
  }
}

/// The arrays that a bound reads, from the outermost on.
std::vector<Array> arrays_in(const Expr& bound) {
  std::vector<Array> arrays;
  ir::walk(bound, [&](const Expr& e) {
    if (const auto* n = e.as<Load>()) arrays.push_back(n->array);
  });
  return arrays;
}

}  // namespace

bool differ(double a, double b) { return std::abs(a - b) > 1e-7 * std::max({std::abs(a), std::abs(b), 1.0}); }

bool differ(const std::map<std::int64_t, double>& a, const std::map<std::int64_t, double>& b) {
  const auto some = [](const auto& of, const auto& other) {
    return std::any_of(of.begin(), of.end(), [&](const auto& entry) {
      const auto match = other.find(entry.first);
      return differ(entry.second, match == other.end() ? 0 : match->second);
    });
  };
  return some(a, b) || some(b, a);
}

void Cost::add(const Cost& other, double times) {
  flops += times * other.flops;
  operations += times * other.operations;
  for (const auto& [array, count] : other.loads) loads[array] += times * count;
  for (const auto& [array, count] : other.stores) stores[array] += times * count;
}

bool Cost::differs_from(const Cost& other) const {
  return differ(flops, other.flops) || differ(operations, other.operations) || differ(loads, other.loads) ||
         differ(stores, other.stores);
}

double Cost::accesses() const {
  double sum = 0;
  for (const auto& [array, count] : loads) sum += count;
  for (const auto& [array, count] : stores) sum += count;
  return sum;
}

WorkCounter::WorkCounter(const ir::Program& program, const Sizes& sizes, const Arrays& inputs, Unknown unknown)
    : program_(program), inputs_(inputs), unknown_(unknown) {
  for (const ir::Symbol& s : program.sizes)
    if (const auto it = sizes.find(s.name); it != sizes.end()) values_[s] = it->second;
  for (const Array& a : program.arrays)
    if (a->role == ir::ArrayRole::Input) readable_.insert(a->id);
}

Cost WorkCounter::cost(const Stmt& s) {
  if (!s) return {};
  return ir::visit(s, ir::overloaded{[&](const Block& n) {
                                       Cost sum;
                                       for (const Stmt& child : n.body) sum.add(cost(child), 1);
                                       return sum;
                                     },
                                     [&](const For& n) { return cost_of_loop(n); },
                                     [&](const While& n) {
                                       exact_ = false;
                                       Cost sum;
                                       sum.add(cost(n.body), trips_of(n));
                                       return sum;
                                     },
                                     [&](const If& n) { return cost_of_branch(n); },
                                     [&](const ir::Allocate& n) { return cost(n.body); },
                                     [&](const ir::Contraction& n) { return cost(n.loops); },
                                     [&](const ir::CustomGradient& n) { return cost(n.body); },
                                     [&](const auto&) { return remembered(s); }});
}

Cost WorkCounter::cost_of_loop(const For& n) {
  Seen seen;
  Cost sum = cost_of(n.lower, seen);
  sum.add(cost_of(n.upper, seen), 1);
  sum.add(over<Cost>(n, [&] { return cost(n.body); }), 1);
  return sum;
}

/// Of a statement without others in it: the same each time.
const Cost& WorkCounter::remembered(const Stmt& s) {
  const auto known = leaves_.find(s.get());
  if (known != leaves_.end()) return known->second;
  Cost cost = ir::visit(
      s, ir::overloaded{
             [&](const Assign& n) { return cost_of_store(n.array, n.indices, n.value, 0); },
             [&](const Reduce& n) { return cost_of_store(n.array, n.indices, n.value, weight(n.value.type())); },
             [&](const ir::Push& n) {
               Seen seen;
               return cost_of(n.value, seen);
             },
             [&](const auto&) { return Cost{}; }});
  return leaves_.emplace(s.get(), std::move(cost)).first->second;
}

Cost WorkCounter::cost_of_store(const Array& array, const std::vector<Expr>& indices, const Expr& value, double flops) {
  Seen seen;
  Cost sum = cost_of(value, seen);
  for (const Expr& index : indices) sum.add(cost_of(index, seen), 1);
  sum.flops += flops;
  sum.operations += flops > 0 ? 1 : 0;
  sum.stores[array->id] += 1;
  return sum;
}

/// What a statement has in several places is computed once.
Cost WorkCounter::cost_of(const Expr& e, Seen& seen) {
  if (!seen.insert(e.get()).second) return {};
  if (const auto* n = e.as<Select>()) return cost_of_select(*n, seen);
  Cost sum;
  ir::for_each_child(e, [&](const Expr& child) { sum.add(cost_of(child, seen), 1); });
  if (const auto* n = e.as<Load>()) sum.loads[n->array->id] += 1;
  if (const auto* n = e.as<ir::Fma>()) sum.flops += 2 * weight(n->type);
  if (const auto* n = e.as<Binary>(); n && !ir::is_comparison(n->op)) sum.flops += weight(n->type);
  if (const auto* n = e.as<Unary>(); n && n->op != ir::UnaryOp::Neg) sum.flops += weight(n->type);
  sum.operations += operations_of(e);
  return sum;
}

Cost WorkCounter::cost_of_select(const Select& select, Seen& seen) {
  Cost sum = cost_of(select.condition, seen);
  Seen in_a = seen, in_b = seen;
  const Cost a = cost_of(select.a, in_a), b = cost_of(select.b, in_b);
  if (a.flops != b.flops) exact_ = false;
  if (unknown_ == Unknown::Likely) {
    sum.add(a, 0.5);
    sum.add(b, 0.5);
  } else {
    sum.add(a.flops <= b.flops ? a : b, 1);
  }
  seen.insert(in_a.begin(), in_a.end());
  seen.insert(in_b.begin(), in_b.end());
  return sum;
}

std::optional<std::pair<double, double>> WorkCounter::shares_of(const If& branch) {
  if (const Integer known = value_of(branch.condition)) return std::pair(*known ? 1.0 : 0.0, *known ? 0.0 : 1.0);
  exact_ = false;
  if (unknown_ == Unknown::Likely) return std::pair(0.5, 0.5);
  return std::nullopt;
}

Cost WorkCounter::cost_of_branch(const If& n) {
  Seen seen;
  Cost sum = cost_of(n.condition, seen);
  if (const auto shares = shares_of(n)) {
    if (shares->first > 0) sum.add(cost(n.then_body), shares->first);
    if (shares->second > 0) sum.add(cost(n.else_body), shares->second);
    return sum;
  }
  const Cost a = cost(n.then_body), b = cost(n.else_body);
  sum.add(a.flops <= b.flops ? a : b, 1);
  return sum;
}

// Values.

Integer WorkCounter::value_of(const Expr& e) const {
  if (const Integer constant = ir::as_int(e)) return constant;
  if (const auto* n = e.as<Var>()) {
    const auto it = values_.find(n->symbol);
    return it == values_.end() ? Integer{} : it->second;
  }
  if (const auto* n = e.as<Cast>()) return is_float(n->a.type()) ? Integer{} : value_of(n->a);
  if (const auto* n = e.as<Load>()) return element(*n);
  if (const auto* n = e.as<Select>()) {
    if (is_float(n->a.type())) return {};
    const Integer chosen = value_of(n->condition);
    return chosen ? value_of(*chosen ? n->a : n->b) : Integer{};
  }
  if (const auto* n = e.as<Binary>()) {
    if (is_float(n->a.type())) return {};
    const Integer a = value_of(n->a), b = a ? value_of(n->b) : a;
    return a && b ? value_of_binary(*n, *a, *b) : Integer{};
  }
  if (const auto* n = e.as<Unary>(); n && !is_float(n->a.type())) {
    const Integer a = value_of(n->a);
    if (a && n->op == ir::UnaryOp::Not) return *a == 0;
    if (a && n->op == ir::UnaryOp::Neg) return -*a;
  }
  return {};
}

Integer WorkCounter::element(const Load& n) const {
  if (inputs_.empty() || is_float(n.array->type) || !readable_.contains(n.array->id)) return {};
  const auto it = inputs_.find(n.array->name);
  if (it == inputs_.end() || it->second.shape().size() != n.indices.size()) return {};
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < n.indices.size(); ++d) {
    const Integer index = value_of(n.indices[d]);
    if (!index) return {};
    offset = offset * it->second.shape()[d] + *index;
  }
  if (offset < 0 || offset >= it->second.size()) return {};
  return static_cast<std::int64_t>(it->second.get(offset));
}

/// The middle of the range that facts promise.
double WorkCounter::element_on_average(const Load& load) const {
  for (const ir::Fact& fact : program_.facts)
    if (fact.kind == ir::FactKind::InRange && fact.array == load.array)
      return (estimate_of(fact.lower) + estimate_of(fact.upper) - 1) / 2;
  return kUnknownTrips;
}

double WorkCounter::estimate_of(const Expr& e) const {
  if (const Integer known = value_of(e)) return static_cast<double>(*known);
  if (const auto* n = e.as<Load>()) return element_on_average(*n);
  if (const auto* n = e.as<Cast>()) return estimate_of(n->a);
  if (const auto* n = e.as<Select>()) return (estimate_of(n->a) + estimate_of(n->b)) / 2;
  if (const auto* n = e.as<Unary>(); n && n->op == ir::UnaryOp::Neg) return -estimate_of(n->a);
  const auto* n = e.as<Binary>();
  if (!n) return kUnknownTrips;
  const double a = estimate_of(n->a), b = estimate_of(n->b);
  switch (n->op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return b == 0 ? 0 : std::floor(a / b);
    case BinaryOp::Mod: return b / 2;
    case BinaryOp::Min: return std::min(a, b);
    case BinaryOp::Max: return std::max(a, b);
    default: return 1;
  }
}

/// Rows of a CSR structure have the average length, whatever says which row it is, and which part of it.
std::optional<double> WorkCounter::row_length(const For& loop) const {
  const std::vector<Array> in_lower = arrays_in(loop.lower);
  for (const Array& pointer : arrays_in(loop.upper)) {
    const ir::Fact* const fact = ir::csr_fact(program_, pointer);
    if (!fact || std::find(in_lower.begin(), in_lower.end(), pointer) == in_lower.end()) continue;
    return estimate_of(fact->upper) / std::max(1.0, estimate_of(pointer->shape[0]) - 1);
  }
  return std::nullopt;
}

double WorkCounter::trips_of(const For& n) {
  if (const auto average = row_length(n)) return *average;
  const Integer lower = value_of(n.lower), upper = value_of(n.upper);
  if (lower && upper) return static_cast<double>(std::max<std::int64_t>(0, *upper - *lower));
  exact_ = false;
  if (unknown_ == Unknown::Cheapest) return 0;
  double at_most = n.at_most ? estimate_of(n.at_most) : HUGE_VAL;
  // How far it is from where data let a loop begin to where sizes let it end says nothing of its length.
  if (ir::has_load(n.lower)) at_most = std::min<double>(at_most, kUnknownTrips);
  return std::clamp(estimate_of(n.upper) - estimate_of(n.lower), std::min(1.0, at_most), at_most);
}

double WorkCounter::trips_of(const While& n) const {
  return unknown_ == Unknown::Likely ? std::min(estimate_of(n.max_trips), kMostLikelyTrips) : 0;
}

double WorkCounter::bytes_of(const Array& array) const {
  double bytes = static_cast<double>(loopgrad::bytes_of(array->type));
  for (const Expr& extent : array->shape) bytes *= std::max(0.0, estimate_of(extent));
  return bytes;
}

// What makes iterations differ.

/// Whether sizes, iterators and input arrays decide an integer or bool expression: what `value_of` can ever know.
bool WorkCounter::is_decided(const Expr& e) const {
  if (ir::as_int(e) || e.as<Var>()) return true;
  const auto all = [&](const auto&... parts) { return (is_decided(parts) && ...); };
  if (const auto* n = e.as<Cast>()) return !is_float(n->a.type()) && all(n->a);
  if (const auto* n = e.as<Load>())
    return !is_float(n->array->type) && readable_.contains(n->array->id) && inputs_.contains(n->array->name) &&
           std::all_of(n->indices.begin(), n->indices.end(), [&](const Expr& index) { return is_decided(index); });
  if (const auto* n = e.as<Select>()) return !is_float(n->a.type()) && all(n->condition, n->a, n->b);
  if (const auto* n = e.as<Binary>()) return !is_float(n->a.type()) && all(n->a, n->b);
  if (const auto* n = e.as<Unary>()) return !is_float(n->a.type()) && all(n->a);
  return false;
}

/// Whether some bound or condition below makes the cost of the body depend on the iterator. One that is never known
/// costs the same for all.
bool WorkCounter::varies(const For& loop) {
  const auto known = varies_.find(&loop);
  if (known != varies_.end()) return known->second;
  std::set<ir::Symbol> followers = {loop.iterator};  // iterators whose ranges depend on it
  bool varies = false;
  const auto depends = [&](const Expr& e) {
    return is_decided(e) && std::any_of(followers.begin(), followers.end(),
                                        [&](const ir::Symbol& symbol) { return ir::mentions(e, symbol); });
  };
  ir::walk_stmts(loop.body, [&](const Stmt& s) {
    if (const auto* n = s.as<For>(); n && !is_row(*n) && (depends(n->lower) || depends(n->upper))) {
      varies = true;
      followers.insert(n->iterator);
    }
    if (const auto* n = s.as<If>()) varies = varies || depends(n->condition);
    if (const auto* n = s.as<While>()) varies = varies || depends(n->max_trips);
  });
  return varies_[&loop] = varies;
}

/// What is compared in bounds and conditions of the body.
const std::vector<std::pair<Expr, Expr>>& WorkCounter::compared_in(const For& loop) {
  const auto known = compared_.find(&loop);
  if (known != compared_.end()) return known->second;
  std::vector<std::pair<Expr, Expr>> pairs;
  const auto look_into = [&](const Expr& e) {
    ir::walk(e, [&](const Expr& part) {
      const auto* n = part.as<Binary>();
      if (!n || is_float(n->a.type()) || !ir::mentions(part, loop.iterator)) return;
      if (ir::is_comparison(n->op) || n->op == BinaryOp::Min || n->op == BinaryOp::Max) pairs.emplace_back(n->a, n->b);
    });
  };
  ir::walk_stmts(loop.body, [&](const Stmt& s) {
    if (const auto* n = s.as<If>()) look_into(n->condition);
    const auto* n = s.as<For>();
    if (!n) return;
    look_into(n->lower);
    look_into(n->upper);
    if (ir::mentions(n->lower, loop.iterator) || ir::mentions(n->upper, loop.iterator))
      pairs.emplace_back(n->upper, n->lower);
  });
  return compared_[&loop] = std::move(pairs);
}

/// Where two of them change sides, if they are linear.
std::set<std::int64_t> WorkCounter::ends_of_pieces(const For& loop, std::int64_t lower, std::int64_t upper) {
  std::set<std::int64_t> ends;
  if (upper - lower < 8) return ends;
  for (const auto& [a, b] : compared_in(loop)) {
    const auto difference = [&](std::int64_t i) {
      values_[loop.iterator] = i;
      const Integer x = value_of(a), y = x ? value_of(b) : x;
      std::int64_t r = 0;
      return x && y && !__builtin_sub_overflow(*x, *y, &r) ? Integer{r} : Integer{};
    };
    const Integer first = difference(lower), second = difference(lower + 1);
    if (!first || !second || *first == *second) continue;
    const double root =
        static_cast<double>(lower) - static_cast<double>(*first) / static_cast<double>(*second - *first);
    if (root < static_cast<double>(lower) - 2 || root > static_cast<double>(upper) + 2) continue;
    for (std::int64_t end = static_cast<std::int64_t>(std::floor(root)), k = 0; k < 3; ++k) ends.insert(end + k);
  }
  values_.erase(loop.iterator);
  return ends;
}

}  // namespace loopgrad::cli
