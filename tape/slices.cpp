#include "tape/slices.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <unordered_set>

namespace loopgrad::tape {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_elements = 64;  // of an array that is computed again: registers, or the nearest cache

/// In operations. An element at a place that data tell comes with its neighbours in a sector of memory, of which
/// something is often in a cache.
double price_of(const Expr& e) {
  constexpr double division = 6, function = 16, gathered = 8;
  if (e.kind() == ir::Kind::Unary) return operations_of(e) > 1 ? function : operations_of(e);
  if (const auto* n = e.as<ir::Binary>())
    return n->op == ir::BinaryOp::Pow ? function : n->op == ir::BinaryOp::Div ? division : 1;
  const auto* load = e.as<ir::Load>();
  return load && std::any_of(load->indices.begin(), load->indices.end(), ir::has_load) ? gathered : operations_of(e);
}

class Reads {
 public:
  explicit Reads(const OnRead& f) : f_(f) {}

  void look(const Expr& e, bool decides) {
    if (!seen_[decides ? 1 : 0].insert(e.get()).second) return;
    if (e.kind() == ir::Kind::Load && !f_(e, decides)) return;
    ir::for_each_child(e, [&](const Expr& child) { look(child, decides || decides_by(e, child)); });
  }

 private:
  /// Whether `e` makes a decision out of its operand.
  static bool decides_by(const Expr& e, const Expr& operand) {
    if (const auto* choice = e.as<ir::Select>()) return choice->condition.same_as(operand);
    if (const auto* n = e.as<ir::Unary>())
      if (n->op == ir::UnaryOp::Floor || n->op == ir::UnaryOp::Ceil) return true;
    return e.kind() == ir::Kind::Load || !is_float(e.type());
  }

  const OnRead& f_;
  std::unordered_set<const ir::ExprNode*> seen_[2];
};

class Slicer {
 public:
  Slicer(const Array& local, const Sites& sites, const Trips& trips)
      : local_(local), sites_(sites), trips_(trips), declared_(sites.of(sites.allocation(local))) {}

  std::optional<Slice> find() {
    pending_.push_back(local_);
    while (!pending_.empty() && possible_) {
      const Array array = pending_.back();
      pending_.pop_back();
      possible_ = has_few_elements(array);
      for (const Stmt& writer : sites_.writers(array)) add(writer);
    }
    return possible_ && !slice_.statements.empty() ? std::optional(slice_) : std::nullopt;
  }

 private:
  void add(const Stmt& writer) {
    if (!possible_) return;
    const auto* sum = writer.as<ir::Reduce>();
    if (!sum && !writer.as<ir::Assign>()) return void(possible_ = false);
    if (sum && is_float(sum->array->type) && (sum->op == ir::ReduceOp::Add || sum->op == ir::ReduceOp::Mul))
      slice_.exact = false;
    slice_.statements.push_back(writer);
    const double times = scopes_of(writer);
    const Expr& value = sum ? sum->value : writer.as<ir::Assign>()->value;
    double operations = sum ? 1 : 0;
    ir::walk(value, [&](const Expr& e) {
      operations += price_of(e);
      return operations < too_many;
    });
    slice_.operations += times * operations;
    read(value, !is_float(value.type()), writer);
    for (const Expr& index : stored_indices(writer)) read(index, true, writer);
  }

  /// The loops and branches between the declaration and the statement; how often the loops make it run.
  double scopes_of(const Stmt& writer) {
    double times = 1;
    const std::vector<Stmt>& scopes = sites_.of(writer).scopes;
    for (std::size_t k = declared_.scopes.size(); k < scopes.size(); ++k) {
      const Stmt& scope = scopes[k];
      possible_ &= scope.kind() != ir::Kind::While;
      const auto* loop = scope.as<ir::For>();
      if (loop) times *= trips_(scope);
      if (!entered_.insert(scope.get()).second) continue;
      if (scope.kind() == ir::Kind::If) slice_.branches.push_back(scope);
      if (loop)
        for (const Expr& bound : {loop->lower, loop->upper}) read(bound, true, scope);
    }
    return times;
  }

  void read(const Expr& e, bool decides, const Stmt& site) {
    for_each_read(e, decides, [&](const Expr& load, bool for_control) {
      const Array& array = load.as<ir::Load>()->array;
      if (array == local_ || slice_.inner.count(array)) return true;
      const auto declared = sites_.allocations().find(array);
      const bool inside =
          declared != sites_.allocations().end() && sites_.of(declared->second).loops.size() > declared_.loops.size();
      if (inside) {
        slice_.inner.insert(array);
        pending_.push_back(array);
      } else {
        slice_.reads.push_back({load, site, for_control});
      }
      return true;
    });
  }

  static constexpr double too_many = 1 << 20;

  const Array& local_;
  const Sites& sites_;
  const Trips& trips_;
  const Site& declared_;
  std::vector<Array> pending_;
  std::set<const ir::StmtNode*> entered_;
  bool possible_ = true;
  Slice slice_;
};

}  // namespace

bool has_few_elements(const Array& array) {
  std::int64_t elements = 1;
  for (const Expr& extent : array->shape) {
    const auto constant = ir::as_int(extent);
    if (!constant || *constant > most_elements) return false;
    elements *= *constant;
  }
  return elements <= most_elements;
}

void for_each_read(const Expr& e, bool decides, const OnRead& f) { Reads(f).look(e, decides); }

void for_each_read(const Stmt& s, const OnRead& f) {
  if (!s) return;
  const Array* stored = stored_array(s);
  const auto* assign = s.as<ir::Assign>();
  const auto* sum = s.as<ir::Reduce>();
  if (stored) {
    for (const Expr& index : stored_indices(s)) for_each_read(index, true, f);
    const Expr& value = assign ? assign->value : sum->value;
    return for_each_read(value, !is_float(value.type()), f);
  }
  ir::for_each_child(s, ir::overloaded{[&](const Expr& e) { for_each_read(e, true, f); },
                                       [&](const Stmt& child) { for_each_read(child, f); }});
}

std::optional<Slice> slice_of(const Array& local, const Sites& sites, const Trips& trips) {
  return Slicer(local, sites, trips).find();
}

}  // namespace loopgrad::tape
