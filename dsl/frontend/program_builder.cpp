// The public face of the recorder: handles hold weak pointers to it, so that they cannot outlive their program.
#include <loopgrad/program.h>

#include "dsl/frontend/promotion.h"
#include "dsl/frontend/recorder.h"
#include "dsl/ir/printer.h"

#include <fmt/format.h>

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

}  // namespace

// ---- Program ----

const std::string& Program::name() const { return program_->name; }
std::string Program::str() const { return ir::print(*program_); }

// ---- ArrayHandle ----

Element ArrayHandle::element(const std::vector<Operand>& operands, const SourceLocation& where) const {
  std::vector<Value> indices;
  for (const ir::Expr& index : ir::recorder_of(recorder_, where)->indices(array_, operands, where))
    indices.emplace_back(index.ptr());
  return Element(array_, std::move(indices), where, recorder_);
}

Value ArrayHandle::extent(int dimension, std::source_location where) const {
  const int rank = static_cast<int>(array_->shape.size());
  if (dimension < 0 || dimension >= rank)
    ir::recorder_of(recorder_, where)
        ->fail(where, fmt::format("dimension {} of an array of rank {}", dimension, rank), "dimensions count from 0",
               array_->name);
  return Value(array_->shape[static_cast<std::size_t>(dimension)].ptr());
}

// ---- LoopRange ----

LoopRange::Iterator LoopRange::begin() {
  if (depth_ != 0 || !iterator_.empty())
    ir::recorder_of(recorder_, {})->fail({}, "a loop is iterated twice", "call p.loop() once for each loop");
  depth_ = open_();
  iterator_.emplace_back(ir::var(ir::recorder_of(recorder_, {})->iterator()).ptr());
  Iterator first;
  first.range_ = this;
  return first;
}

Value LoopRange::Iterator::operator*() const { return range_->iterator_.at(0); }

LoopRange::Iterator& LoopRange::Iterator::operator++() {
  ir::recorder_of(range_->recorder_, {})->close(range_->depth_);
  range_->depth_ = 0;
  range_ = nullptr;
  return *this;
}

LoopRange::~LoopRange() {
  const auto recorder = recorder_.lock();
  if (depth_ != 0 && recorder) recorder->abandon(depth_);
}

// ---- Branch ----

void Branch::otherwise(const std::function<void()>& body, std::source_location where) const {
  const auto recorder = ir::recorder_of(recorder_, where);
  record_body(recorder, recorder->open_else(branch_, where), body);
}

// ---- ProgramBuilder ----

ProgramBuilder::ProgramBuilder(std::string name, std::source_location where)
    : recorder_(std::make_shared<ProgramRecorder>(std::move(name), where)) {}

Value ProgramBuilder::size(const std::string& name, std::source_location where) {
  return Value(ir::var(recorder_->declare_size(name, where)).ptr());
}

ArrayHandle ProgramBuilder::input(ScalarType type, const std::string& name, std::vector<Value> shape,
                                  std::source_location where) {
  return {recorder_->declare(ArrayRole::Input, type, name, shape, where), recorder_};
}
ArrayHandle ProgramBuilder::output(ScalarType type, const std::string& name, std::vector<Value> shape,
                                   std::source_location where) {
  return {recorder_->declare(ArrayRole::Output, type, name, shape, where), recorder_};
}
ArrayHandle ProgramBuilder::inout(ScalarType type, const std::string& name, std::vector<Value> shape,
                                  std::source_location where) {
  return {recorder_->declare(ArrayRole::InOut, type, name, shape, where), recorder_};
}
ArrayHandle ProgramBuilder::local(ScalarType type, const std::string& name, std::vector<Value> shape,
                                  std::source_location where) {
  return {recorder_->declare(ArrayRole::Local, type, name, shape, where), recorder_};
}

LoopRange ProgramBuilder::loop(const std::string& name, const Value& lower, const Value& upper,
                               const LoopOptions& options, std::source_location where) {
  return LoopRange([=, recorder = recorder_.get(),
                    at_most = options.at_most] { return recorder->open_for(name, lower, upper, at_most, where); },
                   recorder_);
}

LoopRange ProgramBuilder::loop_while(const std::string& name, const Value& max_trips,
                                     const std::function<Value(const Value&)>& condition, std::source_location where) {
  return LoopRange([=, recorder = recorder_.get()] { return recorder->open_while(name, max_trips, condition, where); },
                   recorder_);
}

Branch ProgramBuilder::when(const Value& condition, const std::function<void()>& then, std::source_location where) {
  return {recorder_, record_body(recorder_, recorder_->open_if(condition, where), then)};
}

// ---- facts ----

void ProgramBuilder::in_range(const ArrayHandle& array, const Value& lower, const Value& upper,
                              std::source_location where) {
  recorder_->check_fact(ir::FactKind::InRange, array.array_, where);
  recorder_->state({ir::FactKind::InRange,
                    array.array_,
                    recorder_->size_expr(lower, "the lower bound", where),
                    recorder_->size_expr(upper, "the upper bound", where),
                    {},
                    where});
}
void ProgramBuilder::sorted(const ArrayHandle& array, std::source_location where) {
  recorder_->check_fact(ir::FactKind::Sorted, array.array_, where);
  recorder_->state({ir::FactKind::Sorted, array.array_, {}, {}, {}, where});
}
void ProgramBuilder::injective(const ArrayHandle& array, std::source_location where) {
  recorder_->check_fact(ir::FactKind::Injective, array.array_, where);
  recorder_->state({ir::FactKind::Injective, array.array_, {}, {}, {}, where});
}
void ProgramBuilder::csr(const ArrayHandle& ptr, const Value& total, std::source_location where) {
  recorder_->check_fact(ir::FactKind::CsrPointer, ptr.array_, where);
  recorder_->state(
      {ir::FactKind::CsrPointer, ptr.array_, {}, recorder_->size_expr(total, "the total", where), {}, where});
}
void ProgramBuilder::may_alias(const ArrayHandle& a, const ArrayHandle& b, std::source_location where) {
  recorder_->check_fact(ir::FactKind::MayAlias, a.array_, where);
  recorder_->check_fact(ir::FactKind::MayAlias, b.array_, where);
  if (a.array_ == b.array_ || a.array_->type != b.array_->type)
    recorder_->fail(where, "may_alias needs two arrays of one type", "name two different arrays", a.array_->name);
  recorder_->state({ir::FactKind::MayAlias, a.array_, {}, {}, b.array_, where});
}

Program ProgramBuilder::build(std::source_location where) { return Program(recorder_->build(where)); }

}  // namespace loopgrad
