#include "tape/value_plan.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "tape/min_cut.h"
#include "tape/slices.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::tape {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr double operations_per_byte = 8;
constexpr double price_of_choice = 32;  // between two places where an element may have been saved
// Of an element that was saved, each time that a slice reads it: from a cache, where others have read it before (the
// products of 4 by 4 matrices of a Kalman filter, computed again for 64 of such reads each, took three times as long).
constexpr double price_of_saved_read = 12;
constexpr double times_moved = 2;  // written by the forward sweep, read by the backward one
// Of a copy of an array, which is read to be copied. A tape of what a statement reads is written along with it; a copy
// has a loop of its own, which two tapes of its size are not worth (a forward sweep took half as long again). Where
// data choose the elements, there are more reads than elements as a rule: edges of nodes.
constexpr double times_moved_by_copy = 3;
constexpr double reads_by_sizes = 2;
constexpr double usual_size = 1000;
constexpr int operations_of_function = 6;
constexpr int operations_of_atan2 = 200;  // a call for each element on a CPU, 40 ns: any time longer than to save one
constexpr double never = MinCut::uncuttable;

double price_of_moving(ScalarType type, double elements) {
  return static_cast<double>(bytes_of(type)) * operations_per_byte * elements;
}

double price_of_saving(ScalarType type, double elements) { return times_moved * price_of_moving(type, elements); }

/// About how much a bound or an extent is.
double estimate(const Expr& e) {
  if (const auto constant = ir::as_int(e)) return static_cast<double>(*constant);
  const auto* n = e.as<ir::Binary>();
  if (!n) return usual_size;
  const double a = estimate(n->a), b = estimate(n->b);
  switch (n->op) {
    case ir::BinaryOp::Add: return a + b;
    case ir::BinaryOp::Sub: return a - b;
    case ir::BinaryOp::Mul: return a * b;
    case ir::BinaryOp::Min: return std::min(a, b);
    case ir::BinaryOp::Max: return std::max(a, b);
    case ir::BinaryOp::Div: return b > 0 ? a / b : usual_size;
    default: return usual_size;
  }
}

double elements_of(const Array& array) {
  double elements = 1;
  for (const Expr& extent : array->shape) elements *= std::max(1.0, estimate(extent));
  return elements;
}

}  // namespace

int operations_of(const Expr& e) {
  return ir::visit(e, ir::overloaded{
                          [](const ir::Unary& n) {
                            if (n.op == ir::UnaryOp::Stop) return 0;
                            return n.op == ir::UnaryOp::Neg ? 1 : operations_of_function;
                          },
                          [](const ir::Binary& n) {
                            if (n.op == ir::BinaryOp::Atan2) return operations_of_atan2;
                            return n.op == ir::BinaryOp::Pow ? operations_of_function : 1;
                          },
                          [](const ir::Fma&) { return 2; },
                          [](const ir::Load&) { return 1; },
                          [](const auto&) { return 0; },
                      });
}

ValuePlan::ValuePlan(const Sites& sites, const LoopExtents& extents, const std::set<Array>& named,
                     IsOverwritten is_overwritten, StorageOf storage_of)
    : sites_(sites),
      extents_(extents),
      named_(named),
      is_overwritten_(std::move(is_overwritten)),
      storage_of_(std::move(storage_of)) {}

double ValuePlan::trips(const Stmt& loop) const {
  return std::max(1.0, extents_.knows(loop) ? estimate(extents_.of(loop).extent) : usual_size);
}

double ValuePlan::instances(const std::vector<Stmt>& loops) const {
  double result = 1;
  for (const Stmt& loop : extents_.dimensions(loops)) result *= trips(loop);
  return result;
}

bool ValuePlan::is_final_at(const ir::Load& load, const Stmt& site) const {
  return sites_.is_final_at(load.array, site) || !is_overwritten_(load, site);
}

/// Whether the place of the read matters to the sweep, so that its indices are needed as well.
bool ValuePlan::mark_needed(const ValueRead& read) {
  const std::vector<int> all = values_of(read);
  for (const int value : all) values_[static_cast<std::size_t>(value)].needed = true;
  return is_placed(all);
}

bool ValuePlan::is_placed(const std::vector<int>& values) const {
  return std::all_of(values.begin(), values.end(),
                     [&](int value) { return static_cast<bool>(values_[static_cast<std::size_t>(value)].local); });
}

void ValuePlan::need(const Expr& e, const Stmt& site, bool decides) {
  for_each_read(e, decides || !is_float(e.type()), [&](const Expr& load, bool for_control) {
    return mark_needed({load, site, for_control});
  });
  expand();
}

void ValuePlan::need(const Stmt& adjoint, const Stmt& site) {
  for_each_read(adjoint, [&](const Expr& load, bool for_control) { return mark_needed({load, site, for_control}); });
  expand();
}

bool ValuePlan::need_final(const Array& local, bool decides) {
  if (!decides && !locals_.count(local) && !find_slice(local)) return false;
  values_[static_cast<std::size_t>(local_value(local, decides))].needed = true;
  expand();
  return true;
}

void ValuePlan::need_condition(const Stmt& branch) {
  values_[static_cast<std::size_t>(condition_value(branch))].needed = true;
  expand();
}

int ValuePlan::add(Value value, bool decides) {
  value.decides = decides;
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

int ValuePlan::condition_value(const Stmt& branch) {
  const auto known = conditions_.find(branch.get());
  if (known != conditions_.end()) return known->second;
  Value value;
  value.branch = branch;
  value.price_saved = price_of_saving(ScalarType::Bool, instances(sites_.of(branch).loops));
  return conditions_[branch.get()] = add(std::move(value), true);
}

int ValuePlan::local_value(const Array& local, bool decides) {
  const auto known = locals_.find(local);
  if (known != locals_.end()) {
    values_[static_cast<std::size_t>(known->second)].decides |= decides;
    return known->second;
  }
  Value value;
  value.local = local;
  value.copies = instances(sites_.of(sites_.allocation(local)).loops);
  value.price_saved = price_of_saving(local->type, value.copies * elements_of(local)) * weight_of(local);
  return locals_[local] = add(std::move(value), decides);
}

int ValuePlan::saved_value(const ir::Load& load, const Storage& storage, bool decides) {
  const auto make = [&](double elements) {
    Value value;
    value.price_saved = price_of_saving(load.array->type, elements);
    return add(std::move(value), decides);
  };
  if (storage.initial) {
    const auto known = initial_.find(storage.initial);
    return known != initial_.end() ? known->second : initial_[storage.initial] = make(elements_of(storage.initial));
  }
  const Stmt& where = storage.writer ? storage.writer : storage.reader;
  const double runs = instances(storage.writer ? sites_.of(where).loops : storage.loops);
  if (storage.writer) {
    const auto known = written_.find(where.get());
    return known != written_.end() ? known->second : written_[where.get()] = make(runs);
  }
  auto& here = reads_[where.get()];
  for (const auto& [known, value] : here)
    if (ir::equal(known, storage.read)) return value;
  const int value = make(runs);
  here.emplace_back(storage.read, value);
  if (!storage.whole) return value;
  std::vector<int> operands = {whole_value(load.array, storage.whole)};
  for (const Expr& index : storage.read.as<ir::Load>()->indices)
    for_each_read(index, true, [&](const Expr& chosen, bool) {
      const std::vector<int> where_to_look = values_of({chosen, where, true});
      operands.insert(operands.end(), where_to_look.begin(), where_to_look.end());
      return is_placed(where_to_look);
    });
  Value& self = values_[static_cast<std::size_t>(value)];
  self.operands = std::move(operands);
  const bool by_data = std::any_of(load.indices.begin(), load.indices.end(), ir::has_load);
  self.price_again = price_of_saved_read * (by_data ? 1 : reads_by_sizes) * runs;
  return value;
}

/// A copy of all elements, from which every read of that version of the array can be had.
int ValuePlan::whole_value(const Array& array, const Stmt& at) {
  const auto [known, is_new] = wholes_.try_emplace({at.get(), array}, 0);
  if (!is_new) return known->second;
  Value value;
  const double elements = instances(sites_.of(at).loops) * elements_of(array);
  value.price_saved = times_moved_by_copy * price_of_moving(array->type, elements);
  return known->second = add(std::move(value), false);
}

/// Empty where the value is still there when the sweep runs, or is none of the primal program.
std::vector<int> ValuePlan::values_of(const ValueRead& read, double* price) {
  const ir::Load& load = *read.load.as<ir::Load>();
  const bool local = sites_.allocations().count(load.array) != 0;
  if (!local && (!sites_.is_written(load.array) || !is_overwritten_(load, read.site))) return {};
  if (local && is_final_at(load, read.site)) return {local_value(load.array, read.decides)};
  std::vector<int> result;
  const std::vector<Storage> places = storage_of_(load, read.site);
  for (const Storage& place : places)
    if (place.writer || place.reader || place.initial) result.push_back(saved_value(load, place, read.decides));
  if (!price) return result;
  if (!result.empty()) *price += price_of_saved_read * instances(sites_.of(read.site).loops);
  // A choice that only outer loops decide is made in front of those inside.
  for (std::size_t k = 0; k + 1 < places.size(); ++k) *price += price_of_choice * instances(places[k].choosing);
  return result;
}

std::vector<int> ValuePlan::values_of(const std::vector<ValueRead>& reads) {
  std::vector<int> result;
  for (const ValueRead& read : reads)
    for (const int value : values_of(read)) result.push_back(value);
  return result;
}

void ValuePlan::expand() {
  for (; expanded_ < values_.size(); ++expanded_) expand(static_cast<int>(expanded_));
}

void ValuePlan::expand(int index) {
  const Value self = values_[static_cast<std::size_t>(index)];
  if (!self.branch && !self.local) return;  // reads have theirs
  std::vector<int> operands;
  double price = never;
  bool exact = true;
  if (self.branch) {
    const Expr& condition = self.branch.as<ir::If>()->condition;
    double operations = 0;
    std::vector<ValueRead> reads;
    ir::walk(condition, [&](const Expr& e) { operations += operations_of(e); });
    for_each_read(condition, true, [&](const Expr& load, bool) {
      reads.push_back({load, self.branch, true});
      return true;
    });
    if (are_in_order(reads)) {
      operands = values_of(reads);
      price = operations * instances(sites_.of(self.branch).loops);
    }
  } else if (const Slice* slice = self.local ? find_slice(self.local) : nullptr) {
    double of_reads = 0;
    for (const ValueRead& read : slice->reads) {
      const std::vector<int> values = values_of(read, &of_reads);
      operands.insert(operands.end(), values.begin(), values.end());
    }
    for (const Stmt& branch : slice->branches) operands.push_back(condition_value(branch));
    price = slice->operations * instances(sites_.of(sites_.allocation(self.local)).loops) + of_reads;
    exact = slice->exact;
  }
  Value& value = values_[static_cast<std::size_t>(index)];
  if (self.local && self.local->on_tape == ir::TapeChoice::Saved) {
    operands.clear();
    price = never;
  }
  value.operands = std::move(operands);
  value.price_again = price;
  value.exact = exact;
}

/// Whether the locals among them that can be computed again are final by the program's text where they are read, or not
/// at all: otherwise they could be computed from what is computed from these reads.
bool ValuePlan::are_in_order(const std::vector<ValueRead>& reads) const {
  return std::all_of(reads.begin(), reads.end(), [&](const ValueRead& read) {
    const ir::Load& load = *read.load.as<ir::Load>();
    return !sites_.allocations().count(load.array) || !has_few_elements(load.array) ||
           sites_.is_final_at(load.array, read.site) || is_overwritten_(load, read.site);
  });
}

const Slice* ValuePlan::find_slice(const Array& local) {
  const auto known = slices_.find(local);
  if (known != slices_.end()) return known->second ? &*known->second : nullptr;
  std::optional<Slice>& slice = slices_[local];
  slice = tape::slice_of(local, sites_, [this](const Stmt& loop) { return trips(loop); });
  if (!slice) return nullptr;
  if (!are_in_order(slice->reads)) slice.reset();
  return slice ? &*slice : nullptr;
}

/// What decides control is only computed again from what has the same bits as before, all the way.
void ValuePlan::spread_decisions() {
  std::vector<int> pending;
  for (std::size_t k = 0; k < values_.size(); ++k)
    if (values_[k].decides) pending.push_back(static_cast<int>(k));
  while (!pending.empty()) {
    Value& value = values_[static_cast<std::size_t>(pending.back())];
    pending.pop_back();
    if (!value.exact) {
      value.price_again = never;
      value.operands.clear();
    }
    for (const int operand : value.operands) {
      Value& from = values_[static_cast<std::size_t>(operand)];
      if (!from.decides) pending.push_back(operand);
      from.decides = true;
    }
  }
}

void ValuePlan::cut() {
  MinCut graph;
  // Node 2 k + 2: cut off where value k is computed again; node 2 k + 3: where the sweep has it.
  for (std::size_t k = 0; k < 2 * values_.size(); ++k) graph.add_node();
  const auto computed = [](int k) { return 2 * k + 2; };
  const auto there = [](int k) { return 2 * k + 3; };
  for (int k = 0; k < static_cast<int>(values_.size()); ++k) {
    const Value& value = values_[static_cast<std::size_t>(k)];
    graph.add_edge(MinCut::source, computed(k), value.price_again);
    // What cannot be computed again is refused when it is asked for.
    const bool is_fixed =
        value.local && value.local->on_tape == ir::TapeChoice::Recomputed && value.price_again < never;
    graph.add_edge(computed(k), there(k), is_fixed ? never : value.price_saved);
    if (value.needed) graph.add_edge(there(k), MinCut::sink, never);
    for (const int operand : value.operands) graph.add_edge(there(operand), computed(k), never);
  }
  graph.solve();
  for (int k = 0; k < static_cast<int>(values_.size()); ++k) {
    Value& value = values_[static_cast<std::size_t>(k)];
    value.again = value.price_again < never && graph.is_cut_off(computed(k));
  }
}

/// A condition in a loop of a slice that is had apart from it, by locals of that loop: the sweep has these one
/// iteration at a time, and the slice goes through all of them before.
void ValuePlan::save_inner_conditions() {
  for (const Value& value : values_) {
    if (!value.local || !value.again) continue;
    const std::size_t depth = sites_.of(sites_.allocation(value.local)).loops.size();
    for (const Stmt& branch : slice_of(value.local).branches) {
      if (!is_condition_computed_again(branch)) continue;
      ir::walk(branch.as<ir::If>()->condition, [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        const auto operand = load ? locals_.find(load->array) : locals_.end();
        if (operand != locals_.end() && values_[static_cast<std::size_t>(operand->second)].again &&
            sites_.of(sites_.allocation(load->array)).loops.size() > depth)
          values_[static_cast<std::size_t>(conditions_.at(branch.get()))].again = false;
      });
    }
  }
}

/// Where each is computed: at the start of the sweep of the body that declares it, or further out in the same loops
/// where something that is computed there is computed from it. Consumers come later in the text than what they read.
void ValuePlan::place() {
  std::vector<Array> order;
  for (const Value& value : values_) {
    if (!value.local || !value.again) continue;
    bodies_[value.local] = sites_.body_around(sites_.allocation(value.local));
    order.push_back(value.local);
  }
  const auto last = [&](const Array& local) { return sites_.of(sites_.writers(local).back()).position; };
  std::sort(order.begin(), order.end(), [&](const Array& a, const Array& b) { return last(a) > last(b); });
  for (const Array& local : order) {
    const Stmt body = bodies_.at(local);
    const auto move_out = [&](const Expr& load, const Stmt&) {
      const auto operand = bodies_.find(load.as<ir::Load>()->array);
      if (operand != bodies_.end() && sites_.of(body).position < sites_.of(operand->second).position)
        operand->second = body;
    };
    const Slice& slice = slice_of(local);
    for (const ValueRead& read : slice.reads) move_out(read.load, read.site);
    for (const Stmt& branch : slice.branches)
      if (is_condition_computed_again(branch))
        ir::walk(branch.as<ir::If>()->condition, [&](const Expr& e) {
          if (e.kind() == ir::Kind::Load) move_out(e, branch);
        });
  }
}

void ValuePlan::decide() {
  spread_decisions();
  cut();
  save_inner_conditions();
  place();
}

bool ValuePlan::is_condition_computed_again(const Stmt& branch) const {
  const auto known = conditions_.find(branch.get());
  return known != conditions_.end() && values_[static_cast<std::size_t>(known->second)].again;
}

bool ValuePlan::is_had_from_whole(const Stmt& reader, const Expr& read) const {
  const auto here = reads_.find(reader.get());
  if (here == reads_.end()) return false;
  for (const auto& [known, value] : here->second)
    if (ir::equal(known, read)) return values_[static_cast<std::size_t>(value)].again;
  return false;
}

bool ValuePlan::is_saved(const Array& local) const {
  const auto known = locals_.find(local);
  return known != locals_.end() && !values_[static_cast<std::size_t>(known->second)].again;
}

std::string ValuePlan::reason(const Array& local) const {
  const auto known = locals_.find(local);
  if (known == locals_.end()) return "";
  const Value& value = values_[static_cast<std::size_t>(known->second)];
  const auto whole = [](double number) { return std::to_string(std::llround(number)); };
  const std::string bytes =
      whole(value.price_saved / value.copies / operations_per_byte / weight_of(local)) + " bytes moved";
  if (local->on_tape == ir::TapeChoice::Saved) return "the program asks to save it: " + bytes + " each time";
  if (value.price_again == never) return bytes + "; it cannot be computed again";
  const std::string work = whole(value.price_again / value.copies) + " operations";
  if (local->on_tape == ir::TapeChoice::Recomputed)
    return "the program asks for it: " + work + " in place of " + bytes + " each time";
  if (value.again) return work + " in place of " + bytes + " each time";
  return bytes + " in place of " + work + " each time, or of saving what it is computed from";
}

std::string ValuePlan::why_not_again(const Array& local) const {
  if (!has_few_elements(local)) return "it has more than a few elements";
  const auto slice = slices_.find(local);
  if (slice == slices_.end() || !slice->second)
    return "a loop with a condition writes it, or it is computed from a value that is not known again in that order";
  if (!slice->second->exact) return "control depends on it, and its terms may be added in another order";
  return "what it is computed from is not known again";
}

std::vector<Array> ValuePlan::computed_again_in(const Stmt& body) const {
  std::vector<Array> result;
  for (const auto& [local, where] : bodies_)
    if (where.same_as(body)) result.push_back(local);
  std::sort(result.begin(), result.end(), [&](const Array& a, const Array& b) {
    return sites_.of(sites_.writers(a).front()).position < sites_.of(sites_.writers(b).front()).position;
  });
  return result;
}

}  // namespace loopgrad::tape
