// The public face of the recorder: handles hold weak pointers to it, so that they cannot outlive their program.
#include <loopgrad/program.h>

#include "dsl/frontend/promotion.h"
#include "dsl/frontend/recorder.h"
#include "dsl/ir/printer.h"
#include "dsl/symbolic/flat_index.h"
#include "dsl/symbolic/linear_form.h"

#include <fmt/format.h>
#include <optional>

namespace loopgrad {
namespace {

using ir::ArrayRole;
using ir::ProgramRecorder;

/// Drops the scope unless it was closed: its body threw.
class ScopeGuard {
 public:
  ScopeGuard(std::shared_ptr<ProgramRecorder> recorder, std::size_t depth)
      : recorder_(std::move(recorder)), depth_(depth) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() {
    if (depth_ != 0) recorder_->abandon(depth_);
  }
  std::int64_t close() {
    const std::int64_t branch = recorder_->close(depth_);
    depth_ = 0;
    return branch;
  }

 private:
  std::shared_ptr<ProgramRecorder> recorder_;
  std::size_t depth_;
};

std::int64_t record_body(const std::shared_ptr<ProgramRecorder>& recorder, std::size_t depth,
                         const std::function<void()>& body) {
  ScopeGuard guard(recorder, depth);
  body();
  return guard.close();
}

void require_body(const ProgramRecorder& recorder, const std::function<void()>& body, SourceLocation where) {
  if (!body) recorder.fail(where, "a branch has no body", "pass a function that records one");
}

}  // namespace

// ---- Program ----

const ir::Program& Program::ir() const {
  if (!program_) ir::fail_empty("Program", {});
  return *program_;
}
const std::string& Program::name() const { return ir().name; }
std::string Program::str() const { return ir::print(ir()); }

// ---- ArrayHandle ----

Element ArrayHandle::operator()(SourceLocation where) const { return element({}, where); }
Element ArrayHandle::operator()(const Operand& i) const { return element({i}, i.location); }
Element ArrayHandle::operator()(const Operand& i, const Operand& j) const { return element({i, j}, i.location); }
Element ArrayHandle::operator()(const Operand& i, const Operand& j, const Operand& k) const {
  return element({i, j, k}, i.location);
}
Element ArrayHandle::operator()(const Operand& i, const Operand& j, const Operand& k, const Operand& l) const {
  return element({i, j, k, l}, i.location);
}

Element ArrayHandle::element(const std::vector<Operand>& operands, const SourceLocation& where) const {
  if (!array_) ir::fail_empty("ArrayHandle", where);
  return Element(ir::recorder_of(recorder_, where)->element(array_, operands, recorder_, where));
}

Value ArrayHandle::extent(int dimension, SourceLocation where) const {
  if (!array_) ir::fail_empty("ArrayHandle", where);
  const int rank = static_cast<int>(array_->shape.size());
  if (dimension < 0 || dimension >= rank)
    ir::recorder_of(recorder_, where)
        ->fail(where, fmt::format("dimension {} of an array of rank {}", dimension, rank), "dimensions count from 0",
               array_->name);
  return Value(array_->shape[static_cast<std::size_t>(dimension)].ptr());
}

int ArrayHandle::rank() const {
  if (!array_) ir::fail_empty("ArrayHandle", {});
  return static_cast<int>(array_->shape.size());
}

// ---- ArrayView ----

ArrayView ArrayHandle::row(const Operand& i) const { return ArrayView(*this).row(i); }
ArrayView ArrayHandle::row(const Operand& i, const Operand& j) const { return ArrayView(*this).row(i).row(j); }

ArrayView ArrayHandle::reshaped(std::vector<Value> shape, SourceLocation where) const {
  if (!array_) ir::fail_empty("ArrayHandle", where);
  const auto recorder = ir::recorder_of(recorder_, where);
  if (array_->shape.size() != 1)
    recorder->fail(where, fmt::format("reshaped() of an array of rank {}", array_->shape.size()),
                   "declare it with one dimension", array_->name);
  if (shape.empty()) recorder->fail(where, "reshaped() to no dimensions", "give the new extents", array_->name);
  ir::Expr product = ir::int_const(1);
  for (const Value& extent : shape) product = product * recorder->size_expr(extent, "an extent", where);
  if (!ir::same_value(product, array_->shape[0]) && !ir::same_product(product, array_->shape[0]))
    recorder->fail(
        where,
        fmt::format("reshaped() to {} elements of an array of {}", ir::print(product), ir::print(array_->shape[0])),
        "the product of the new extents has to be the declared one", array_->name);
  ArrayView view(*this);
  view.shape_ = std::move(shape);
  return view;
}

Value ArrayView::extent(int dimension, SourceLocation where) const {
  const int left = rank(where), taken = static_cast<int>(leading_.size());
  if (dimension < 0 || dimension >= left)
    ir::recorder_of(array_.recorder_, where)
        ->fail(where, fmt::format("dimension {} of a view of rank {}", dimension, left), "dimensions count from 0",
               array_.array_->name);
  return shape_.empty() ? array_.extent(taken + dimension, where) : shape_[static_cast<std::size_t>(taken + dimension)];
}

int ArrayView::rank(SourceLocation where) const {
  if (!array_.array_) ir::fail_empty("ArrayHandle", where);
  const int whole = shape_.empty() ? array_.rank() : static_cast<int>(shape_.size());
  const int taken = static_cast<int>(leading_.size());
  if (taken > whole)
    ir::recorder_of(array_.recorder_, where)
        ->fail(where, fmt::format("rows of {} dimensions of a view of rank {}", taken, whole),
               "take as many rows as there are dimensions", array_.array_->name);
  return whole - taken;
}

ArrayView ArrayView::row(const Operand& i) const {
  ArrayView result = *this;
  result.leading_.push_back(i);
  return result;
}

Element ArrayView::operator()(SourceLocation where) const { return element({}, where); }
Element ArrayView::operator()(const Operand& i) const { return element({i}, i.location); }
Element ArrayView::operator()(const Operand& i, const Operand& j) const { return element({i, j}, i.location); }
Element ArrayView::operator()(const Operand& i, const Operand& j, const Operand& k) const {
  return element({i, j, k}, i.location);
}
Element ArrayView::operator()(const Operand& i, const Operand& j, const Operand& k, const Operand& l) const {
  return element({i, j, k, l}, i.location);
}

Element ArrayView::element(const std::vector<Operand>& indices, const SourceLocation& where) const {
  std::vector<Operand> all = leading_;
  all.insert(all.end(), indices.begin(), indices.end());
  if (turns_ > 0 && !all.empty()) all[0] = Operand(all[0] % Operand(turns_, where), where);
  if (shape_.empty()) return array_.element(all, where);
  if (all.size() != shape_.size())
    ir::recorder_of(array_.recorder_, where)
        ->fail(where, fmt::format("{} indices for {} dimensions", all.size(), shape_.size()),
               "give one index for each extent of reshaped()", array_.array_->name);
  Value place = all[0].value;
  for (std::size_t k = 1; k < all.size(); ++k)
    place = Operand(Operand(place, where) * Operand(shape_[k], where), where) + all[k];
  return array_.element({Operand(place, where)}, where);
}

// ---- LoopRange ----

struct LoopRange::State {
  std::weak_ptr<ProgramRecorder> recorder;
  std::function<std::size_t(ProgramRecorder&)> open;
  SourceLocation where;
  std::optional<Value> iterator;  // once the loop was opened
  std::size_t depth = 0;          // while the loop is open, else 0
};

LoopRange::LoopRange(std::weak_ptr<ProgramRecorder> recorder, std::function<std::size_t(ProgramRecorder&)> open,
                     const SourceLocation& where)
    : state_(std::make_shared<State>(State{std::move(recorder), std::move(open), where, {}})) {}

LoopRange::Iterator LoopRange::begin() {
  const auto recorder = ir::recorder_of(state_->recorder, state_->where);
  if (state_->iterator) recorder->fail(state_->where, "a loop is iterated twice", "call p.loop() once for each loop");
  state_->depth = state_->open(*recorder);
  state_->iterator.emplace(recorder->iterator().ptr());
  Iterator first;
  first.state_ = state_;
  first.at_end_ = false;
  return first;
}

Value LoopRange::Iterator::operator*() const {
  const auto state = state_.lock();
  if (!state || at_end_) ir::fail_empty("iterator of a loop", state ? state->where : SourceLocation());
  return *state->iterator;
}

LoopRange::Iterator& LoopRange::Iterator::operator++() {
  const auto state = state_.lock();
  if (!state || at_end_ || state->depth == 0)
    ir::fail_empty("iterator of a loop", state ? state->where : SourceLocation());
  ir::recorder_of(state->recorder, state->where)->close(state->depth);
  state->depth = 0;
  at_end_ = true;
  return *this;
}

LoopRange::~LoopRange() {
  const auto recorder = state_->recorder.lock();
  if (state_->depth != 0 && recorder) recorder->abandon(state_->depth);
}

// ---- Branch ----

void Branch::otherwise(const std::function<void()>& body, SourceLocation where) const {
  const auto recorder = ir::recorder_of(recorder_, where);
  require_body(*recorder, body, where);
  record_body(recorder, recorder->open_else(branch_, where), body);
}

Branch Branch::otherwise(const Value& condition, const std::function<void()>& body, SourceLocation where) const {
  const auto recorder = ir::recorder_of(recorder_, where);
  require_body(*recorder, body, where);
  return {recorder_, record_body(recorder, recorder->open_else_if(branch_, condition, where), body)};
}

OpenBody Branch::open_otherwise(SourceLocation where) const {
  return {recorder_, ir::recorder_of(recorder_, where)->open_else(branch_, where)};
}

OpenBody Branch::open_otherwise(const Value& condition, SourceLocation where) const {
  return {recorder_, ir::recorder_of(recorder_, where)->open_else_if(branch_, condition, where)};
}

// ---- OpenBody ----

OpenBody::~OpenBody() {
  const auto recorder = recorder_.lock();
  if (depth_ != 0 && recorder) recorder->abandon(depth_);
}

Branch OpenBody::close(SourceLocation where) {
  const auto recorder = ir::recorder_of(recorder_, where);
  if (depth_ == 0) recorder->fail(where, "the body of a branch is closed twice", "call close() once, at its end");
  const std::int64_t branch = recorder->close(depth_);
  depth_ = 0;
  return {recorder_, branch};
}

// ---- ProgramBuilder ----

ProgramBuilder::ProgramBuilder(std::string name, SourceLocation where)
    : recorder_(std::make_shared<ProgramRecorder>(std::move(name), where)) {}

ProgramRecorder& ProgramBuilder::recorder(const SourceLocation& where) const {
  if (!recorder_) ir::fail_empty("ProgramBuilder", where);
  return *recorder_;
}

Value ProgramBuilder::size(const std::string& name, SourceLocation where) {
  return Value(ir::var(recorder(where).declare_size(name, where)).ptr());
}

ArrayHandle ProgramBuilder::input(ScalarType type, const std::string& name, std::vector<Value> shape,
                                  SourceLocation where) {
  return {recorder(where).declare(ArrayRole::Input, type, name, shape, where), recorder_};
}
ArrayHandle ProgramBuilder::output(ScalarType type, const std::string& name, std::vector<Value> shape,
                                   SourceLocation where) {
  return {recorder(where).declare(ArrayRole::Output, type, name, shape, where), recorder_};
}
ArrayHandle ProgramBuilder::inout(ScalarType type, const std::string& name, std::vector<Value> shape,
                                  SourceLocation where) {
  return {recorder(where).declare(ArrayRole::InOut, type, name, shape, where), recorder_};
}
ArrayHandle ProgramBuilder::local(ScalarType type, const std::string& name, std::vector<Value> shape,
                                  SourceLocation where) {
  return {recorder(where).declare(ArrayRole::Local, type, name, shape, where), recorder_};
}

Value ProgramBuilder::let_as(ScalarType type, const std::string& name, const Operand& value) {
  const SourceLocation& where = value.location;
  const ArrayHandle made = local(type, name, {}, where);
  made(where) = value;
  return Value(made(where), where);
}

Value ProgramBuilder::let(const std::string& name, const Operand& value) {
  return let_as(recorder(value.location).type_of(value.value, value.location), name, value);
}

std::vector<Value> ProgramBuilder::let(const std::vector<std::string>& names, const std::vector<Value>& values,
                                       SourceLocation where) {
  const ProgramRecorder& r = recorder(where);
  if (names.size() != values.size())
    r.fail(where, fmt::format("{} names for {} values", names.size(), values.size()), "give each value a name");
  if (values.empty()) return {};
  Value sum = values[0];
  for (std::size_t k = 1; k < values.size(); ++k) sum = Operand(sum, where) + Operand(values[k], where);
  const ScalarType type = r.type_of(sum, where);
  std::vector<Value> made;
  for (std::size_t k = 0; k < values.size(); ++k) made.push_back(let_as(type, names[k], Operand(values[k], where)));
  return made;
}

ArrayView ProgramBuilder::in_turns(ArrayHandle array, std::int64_t count, const SourceLocation& where) const {
  if (count < 1) recorder(where).fail(where, fmt::format("a ring of {} buffers", count), "state at least one");
  ArrayView view(std::move(array));
  view.turns_ = count;
  return view;
}

LoopRange ProgramBuilder::loop(const std::string& name, const Value& lower, const Value& upper,
                               const LoopOptions& options, SourceLocation where) {
  recorder(where);
  return {recorder_, [=](ProgramRecorder& r) { return r.open_for(name, lower, upper, options, where); }, where};
}

LoopRange ProgramBuilder::loop(const std::string& name, const Value& upper, const LoopOptions& options,
                               SourceLocation where) {
  return loop(name, 0, upper, options, where);
}
LoopNest<2> ProgramBuilder::loop(const Axis& a, const Axis& b, std::source_location where) {
  return {{loop(a.name, a.lower, a.upper, {}, where), loop(b.name, b.lower, b.upper, {}, where)}};
}
LoopNest<3> ProgramBuilder::loop(const Axis& a, const Axis& b, const Axis& c, std::source_location where) {
  return {{loop(a.name, a.lower, a.upper, {}, where), loop(b.name, b.lower, b.upper, {}, where),
           loop(c.name, c.lower, c.upper, {}, where)}};
}
LoopNest<4> ProgramBuilder::loop(const Axis& a, const Axis& b, const Axis& c, const Axis& d,
                                 std::source_location where) {
  return {{loop(a.name, a.lower, a.upper, {}, where), loop(b.name, b.lower, b.upper, {}, where),
           loop(c.name, c.lower, c.upper, {}, where), loop(d.name, d.lower, d.upper, {}, where)}};
}

LoopRange ProgramBuilder::loop_while(const std::string& name, const Value& max_trips,
                                     const std::function<Value(const Value&)>& condition, SourceLocation where) {
  recorder(where);
  return {recorder_, [=](ProgramRecorder& r) { return r.open_while(name, max_trips, condition, where); }, where};
}

Branch ProgramBuilder::when(const Value& condition, const std::function<void()>& then, SourceLocation where) {
  require_body(recorder(where), then, where);
  return {recorder_, record_body(recorder_, recorder_->open_if(condition, where), then)};
}

OpenBody ProgramBuilder::open_when(const Value& condition, SourceLocation where) {
  return {recorder_, recorder(where).open_if(condition, where)};
}

// ---- custom gradients ----

const ArrayHandle& Derivatives::operator()(const ArrayHandle& array, SourceLocation where) const {
  if (!array.array_) ir::fail_empty("ArrayHandle", where);
  for (const auto& [of, derivative] : of_)
    if (of.array_ == array.array_) return derivative;
  ir::recorder_of(array.recorder_, where)
      ->fail(where, "the derivative of an array that the custom gradient does not name",
             "name it among the outputs or the inputs", array.array_->name);
}

void ProgramBuilder::custom_gradient(const std::vector<ArrayHandle>& outputs, const std::vector<ArrayHandle>& inputs,
                                     const CustomRule& rule, SourceLocation where) {
  ProgramRecorder& r = recorder(where);
  if (!rule.forward || !rule.adjoint)
    r.fail(where, "a custom gradient without `forward` or `adjoint`", "pass functions that record them");
  const auto arrays_of = [&](const std::vector<ArrayHandle>& handles) {
    std::vector<ir::Array> arrays;
    for (const ArrayHandle& handle : handles) {
      if (!handle.array_) ir::fail_empty("ArrayHandle", where);
      arrays.push_back(handle.array_);
    }
    return arrays;
  };
  ir::CustomGradient region = r.new_region(arrays_of(outputs), arrays_of(inputs), where);
  Derivatives derivatives;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    derivatives.of_.emplace_back(outputs[k], ArrayHandle(region.seeds[k], recorder_));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    derivatives.of_.emplace_back(inputs[k], ArrayHandle(region.gradients[k], recorder_));
  const auto part = [&](bool is_rule, const std::function<void()>& body) {
    record_body(recorder_, r.open_part(region, is_rule), body);
    return r.take_part(region);
  };
  region.body = part(false, rule.forward);
  region.adjoint = part(true, [&] { rule.adjoint(derivatives); });
  if (rule.tangent) region.tangent = part(true, [&] { rule.tangent(derivatives); });
  r.append_region(region);
}

// ---- facts ----

void ProgramBuilder::in_range(const ArrayHandle& array, const Value& lower, const Value& upper, SourceLocation where) {
  recorder(where).check_fact(ir::FactKind::InRange, array.array_, where);
  recorder(where).state({ir::FactKind::InRange,
                         array.array_,
                         recorder(where).size_expr(lower, "the lower bound", where),
                         recorder(where).size_expr(upper, "the upper bound", where),
                         {},
                         where});
}
void ProgramBuilder::sorted(const ArrayHandle& array, SourceLocation where) {
  recorder(where).check_fact(ir::FactKind::Sorted, array.array_, where);
  recorder(where).state({ir::FactKind::Sorted, array.array_, {}, {}, {}, where});
}
void ProgramBuilder::injective(const ArrayHandle& array, SourceLocation where) {
  recorder(where).check_fact(ir::FactKind::Injective, array.array_, where);
  recorder(where).state({ir::FactKind::Injective, array.array_, {}, {}, {}, where});
}
void ProgramBuilder::csr(const ArrayHandle& ptr, const Value& total, SourceLocation where) {
  recorder(where).check_fact(ir::FactKind::CsrPointer, ptr.array_, where);
  recorder(where).state(
      {ir::FactKind::CsrPointer, ptr.array_, {}, recorder(where).size_expr(total, "the total", where), {}, where});
}
void ProgramBuilder::save(const ArrayHandle& local, SourceLocation where) {
  recorder(where).choose_tape(local.array_, ir::TapeChoice::Saved, where);
}
void ProgramBuilder::save(const Operand& value) {
  recorder(value.location).choose_tape(ir::Expr(value.value.node()), ir::TapeChoice::Saved, value.location);
}
void ProgramBuilder::recompute(const ArrayHandle& local, SourceLocation where) {
  recorder(where).choose_tape(local.array_, ir::TapeChoice::Recomputed, where);
}
void ProgramBuilder::recompute(const Operand& value) {
  recorder(value.location).choose_tape(ir::Expr(value.value.node()), ir::TapeChoice::Recomputed, value.location);
}
void ProgramBuilder::may_alias(const ArrayHandle& a, const ArrayHandle& b, SourceLocation where) {
  recorder(where).check_fact(ir::FactKind::MayAlias, a.array_, where);
  recorder(where).check_fact(ir::FactKind::MayAlias, b.array_, where);
  if (a.array_ == b.array_ || a.array_->type != b.array_->type)
    recorder(where).fail(where, "may_alias needs two arrays of one type", "name two different arrays", a.array_->name);
  recorder(where).state({ir::FactKind::MayAlias, a.array_, {}, {}, b.array_, where});
}

Program ProgramBuilder::build(SourceLocation where) { return Program(recorder(where).build(where)); }

}  // namespace loopgrad
