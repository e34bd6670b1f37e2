#include "tape/slices.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <map>
#include <set>
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
  /// `follows`: conditions by locals of loops in the slice are computed along with it, too.
  Slicer(const Array& local, const Sites& sites, const Trips& trips, bool follows)
      : local_(local), sites_(sites), trips_(trips), follows_(follows), declared_(sites.of(sites.allocation(local))) {}

  std::optional<Slice> find() {
    pending_.push_back(local_);
    while (!pending_.empty() && possible_) {
      by_ = pending_.back();
      pending_.pop_back();
      possible_ = has_few_elements(by_);
      for (const Stmt& writer : sites_.writers(by_)) add(writer);
    }
    note_recurrences();
    if (!possible_ || slice_.statements.empty() || !note_what_decides()) return std::nullopt;
    return slice_;
  }

 private:
  void add(const Stmt& writer) {
    if (!possible_) return;
    const auto* sum = writer.as<ir::Reduce>();
    if (!sum && !writer.as<ir::Assign>()) return void(possible_ = false);
    if (sum && is_float(sum->array->type) && (sum->op == ir::ReduceOp::Add || sum->op == ir::ReduceOp::Mul))
      inexact_.insert(by_), slice_.exact = false;
    slice_.statements.push_back(writer);
    if (is_inexact_step(writer)) stepped_.insert(by_);
    const double times = scopes_of(writer);
    const Expr& value = sum ? sum->value : writer.as<ir::Assign>()->value;
    slice_.operations += times * ((sum ? 1 : 0) + operations_of_all(value));
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
      if (const auto* branch = scope.as<ir::If>()) {
        if (follows_ && reads_inner(branch->condition))
          slice_.operations += times * operations_of_all(branch->condition), read(branch->condition, true, scope);
        else slice_.branches.push_back(scope);
      }
      if (loop)
        for (const Expr& bound : {loop->lower, loop->upper}) read(bound, true, scope);
    }
    return times;
  }

  /// An assignment that rounds, in a loop which may be done in pieces where it carries a step that is linear.
  bool is_inexact_step(const Stmt& writer) const {
    const auto* assign = writer.as<ir::Assign>();
    if (!assign || !is_float(by_->type)) return false;
    bool rounds = false;
    ir::walk(assign->value, [&](const Expr& e) {
      const auto* n = e.as<ir::Binary>();
      rounds |= n && is_float(e.type()) && n->op != ir::BinaryOp::Max && n->op != ir::BinaryOp::Min;
      return !e.as<ir::Load>();
    });
    return rounds && is_in_long_loop(writer);
  }

  bool is_in_long_loop(const Stmt& writer) const {
    constexpr double least_in_pieces = 256;  // of any machine: see transforms/pass/machine.cpp
    const std::vector<Stmt>& scopes = sites_.of(writer).scopes;
    return std::any_of(scopes.begin() + static_cast<std::ptrdiff_t>(declared_.scopes.size()), scopes.end(),
                       [&](const Stmt& scope) {
                         const auto* loop = scope.as<ir::For>();
                         if (!loop) return false;
                         const auto lower = ir::as_int(loop->lower), upper = ir::as_int(loop->upper);
                         return !lower || !upper || static_cast<double>(*upper - *lower) >= least_in_pieces;
                       });
  }

  /// What such a loop carries from one iteration to the next: pieces of it round in another way.
  void note_recurrences() {
    for (const Array& array : stepped_) {
      std::set<Array> seen;
      std::vector<Array> pending = {array};
      while (!pending.empty()) {
        const Array from = pending.back();
        pending.pop_back();
        for (const Array& operand : operands_[from])
          if (seen.insert(operand).second) pending.push_back(operand);
      }
      if (seen.count(array)) inexact_.insert(array), slice_.exact = false;
    }
  }

  static double operations_of_all(const Expr& value) {
    constexpr double too_many = 1 << 20;
    double operations = 0;
    ir::walk(value, [&](const Expr& e) {
      operations += price_of(e);
      return operations < too_many;
    });
    return operations;
  }

  /// Whether it is declared in a loop of the slice.
  bool is_inner(const Array& array) const {
    const auto declared = sites_.allocations().find(array);
    return declared != sites_.allocations().end() && sites_.of(declared->second).loops.size() > declared_.loops.size();
  }

  bool reads_inner(const Expr& e) const {
    bool result = false;
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      result |= load && is_inner(load->array);
      return !result;
    });
    return result;
  }

  void read(const Expr& e, bool decides, const Stmt& site) {
    for_each_read(e, decides, [&](const Expr& load, bool for_control) {
      const Array& array = load.as<ir::Load>()->array;
      if (array != local_ && !is_inner(array)) {
        slice_.reads.push_back({load, site, for_control});
        readers_.push_back(by_);
        return true;
      }
      operands_[by_].insert(array);
      if (for_control) deciding_.insert(array);
      if (array != local_ && slice_.inner.insert(array).second) pending_.push_back(array);
      return true;
    });
  }

  /// What decides control within the slice is computed from what decides, too. false: it would not have the same bits
  /// each time.
  bool note_what_decides() {
    std::vector<Array> pending(deciding_.begin(), deciding_.end());
    while (!pending.empty()) {
      const Array array = pending.back();
      pending.pop_back();
      if (inexact_.count(array)) return false;
      for (const Array& operand : operands_[array])
        if (deciding_.insert(operand).second) pending.push_back(operand);
    }
    for (std::size_t k = 0; k < slice_.reads.size(); ++k) slice_.reads[k].decides |= deciding_.count(readers_[k]) != 0;
    return true;
  }

  const Array& local_;
  const Sites& sites_;
  const Trips& trips_;
  const bool follows_;
  const Site& declared_;
  std::vector<Array> pending_;
  Array by_;                                   // what is being computed
  std::vector<Array> readers_;                 // of each of the slice's reads
  std::map<Array, std::set<Array>> operands_;  // of arrays of the slice, among these
  std::set<Array> deciding_, inexact_;         // of these
  std::set<Array> stepped_;                    // assigned in long loops
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
  auto whole = Slicer(local, sites, trips, true).find();
  return whole ? whole : Slicer(local, sites, trips, false).find();
}

}  // namespace loopgrad::tape
