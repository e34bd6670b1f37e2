#include "backends/stage.h"

#include "backends/runtime/threads.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <mutex>

namespace loopgrad::backend {
namespace {

ir::Program without_tape(ir::Program program) {
  std::erase_if(program.arrays, [](const ir::Array& array) { return array->role == ir::ArrayRole::Tape; });
  return program;
}

void check_options(const CompileOptions& options, const std::string& program) {
  auto refuse = [&](const std::string& message, const char* hint) {
    throw UsageError({.code = ErrorCode::BadArgument, .message = message, .program = program, .hint = hint});
  };
  const Backend& backend = backend_of(options.target);
  if (!backend.interprets() && (options.checked || options.f64 || options.gpu_mapped || options.trap_nan))
    refuse("'checked', 'f64', 'gpu_mapped' and 'trap_nan' are options of the interpreter", "use Target::Interpreter");
  if (options.trap_nan && !options.checked) refuse("'trap_nan' is a part of 'checked'", "set `checked`, too");
  const int block = options.threads_per_block;
  if (block != 0 && !backend.machine(options).is_gpu())
    refuse("'threads_per_block' is an option of the target cuda", "use Target::Cuda, or leave it out");
  if (block != 0 && (block < 32 || block > 1024 || (block & (block - 1)) != 0))
    refuse(fmt::format("a block of {} threads is not possible", block), "use a power of two from 32 to 1024");
  for (const auto& [name, size] : options.expected_sizes)
    if (size < 0) refuse(fmt::format("the expected size '{}' is {}", name, size), "sizes are 0 or more");
  if (options.threads < 0) refuse("the number of threads is negative", "use 0 for the OpenMP default");
  if (options.threads > most_threads_of_a_run)
    refuse(fmt::format("{} threads are more than the {} that a run can have", options.threads, most_threads_of_a_run),
           "use 0 for the OpenMP default");
}

/// What the caller says of the memory.
void check_device(const ir::ArrayDecl& array, const View& view, Device due, const std::string& program) {
  if (view.device == due) return;
  refuse_memory(array, program,
                fmt::format("this is {} memory, and the target works on {} memory", name_of(view.device), name_of(due)),
                due == Device::Cuda ? "copy it into a DeviceArray, or use device_view() for memory of the device"
                                    : "use Target::Cuda, or copy it to the host");
}

}  // namespace

Stage::Stage(std::shared_ptr<const ir::Program> program, const CompileOptions& options,
             std::shared_ptr<const Code> code)
    : program_(std::move(program)),
      without_tape_(without_tape(*program_)),
      bind_plan_(std::make_shared<const BindPlan>(without_tape_)),
      backend_(&backend_of(options.target)),
      f64_(options.f64),
      code_(std::move(code)) {}

Stage Stage::independent() const {
  Stage copy = *this;
  if (const auto own = code_ ? code_->independent() : nullptr) copy.code_ = own;
  if (records_) copy.records_ = records_->independent();
  if (orders_) copy.orders_ = orders_->independent();
  return copy;
}

void Stage::keep(std::vector<transforms::Record> records, transforms::KeptOrders orders) {
  if (!orders.arrays.empty()) {
    for (const ir::Array& array : orders.arrays) std::erase(without_tape_.arrays, array);
    std::erase(without_tape_.sizes, orders.stale);
    orders_ = std::make_shared<Orders>(std::move(orders), backend_->memory(), program_->name);
  }
  std::erase_if(records, [](const transforms::Record& record) { return record.array == nullptr; });
  for (const transforms::Record& record : records) std::erase(without_tape_.arrays, record.array);
  bind_plan_ = std::make_shared<const BindPlan>(without_tape_);
  if (records.empty()) return;
  records_ = std::make_shared<Records>(std::move(records), backend_->memory(), program_->name);
}

Binding Stage::bind(const Arguments& arguments, const Sizes& sizes, bool ignore_unknown) const {
  const Memory& memory = backend_->memory();
  for (const auto& [name, view] : arguments) {
    if (view.device == memory.device()) continue;
    const ir::Array array = ir::find_array(without_tape_, name);
    if (array) check_device(*array, view, memory.device(), program_->name);
  }
  Binding binding = backend::bind(without_tape_, arguments, sizes,
                                  {.ignore_unknown = ignore_unknown, .all_f64 = f64_, .plan = bind_plan_.get()});
  const int device = code_ ? code_->device_index() : 0;
  for (std::size_t i = 0; i < binding.arrays.size(); ++i)
    memory.check_pointer(*without_tape_.arrays[i], binding.arrays[i], device, program_->name);
  return binding;
}

void Stage::run(const Binding& bound, const std::map<std::string, View>& tape, TapeStack* stack, void* stream) const {
  if (!code_) throw InternalError("program '" + program_->name + "' was not compiled");
  Binding all{bound.sizes, {}};
  auto next = bound.arrays.begin();
  // Runs of one stage that may record something follow each other.
  std::unique_lock<std::mutex> turn;
  if (records_) turn = records_->turn();
  std::optional<Orders::Turn> orders;
  if (orders_) orders.emplace(orders_->begin(without_tape_, bound, stream));
  if (orders) all.sizes[orders_->kept().stale] = orders->stale();
  for (const ir::Array& array : program_->arrays) {
    if (array->role == ir::ArrayRole::Tape) all.arrays.push_back(tape.at(array->name));
    else if (records_ && records_->holds(array)) all.arrays.push_back(records_->view_of(array));
    else if (orders && orders->holds(array)) all.arrays.push_back(orders->view_of(array));
    else all.arrays.push_back(*next++);
  }
  if (records_) records_->give_elements(all.arrays);
  try {
    code_->run(all, stack, stream);
  } catch (...) {
    if (records_) records_->forget();
    throw;
  }
  if (records_) records_->check(bound.sizes, stream);
  if (orders) orders->succeed();
}

Build build_stages(const std::vector<ir::Program>& lowered, const CompileOptions& options, const std::string& given,
                   const KernelReasons& reasons, bool timed) {
  const std::string& name = given.empty() ? lowered.back().name : given;
  check_options(options, name);
  const auto programs = std::make_shared<const std::vector<ir::Program>>(lowered);
  Compiled compiled = backend_of(options.target).compile(programs, options, name, reasons, timed);
  Build build;
  for (std::size_t i = 0; i < programs->size(); ++i)
    build.stages.emplace_back(std::shared_ptr<const ir::Program>(programs, &(*programs)[i]), options,
                              std::move(compiled.codes[i]));
  build.source = std::move(compiled.source);
  build.from_cache = compiled.from_cache;
  return build;
}

}  // namespace loopgrad::backend
