// The target `interpreter`: the IR as it is, or as it is mapped to a GPU.
#include "backends/interface/backend.h"
#include "backends/emit/plan.h"
#include "backends/interpreter/interpreter.h"
#include "backends/runtime/size_checks.h"

#include <loopgrad/error.h>

namespace loopgrad::backend {
namespace {

class InterpreterStack final : public TapeStack {
 public:
  void clear() override { values = {}; }
  void mark() override { marked_ = values; }
  void rewind() override { values = marked_; }
  std::int64_t peak_bytes() const override { return values.peak_bytes; }

  ValueStack values;

 private:
  ValueStack marked_;
};

class InterpretedCode final : public Code {
 public:
  InterpretedCode(std::shared_ptr<const ir::Program> program, const InterpreterOptions& options)
      : program_(std::move(program)), options_(options), sizes_(*program_) {}

  void run(const Binding& arrays, TapeStack* stack, void*) const override {
    sizes_.check(arrays.sizes);
    interpret(*program_, arrays, options_, stack ? &static_cast<InterpreterStack*>(stack)->values : nullptr);
  }

 private:
  const std::shared_ptr<const ir::Program> program_;
  const InterpreterOptions options_;
  const SizeChecks sizes_;
};

class InterpreterBackend final : public Backend {
 public:
  const char* name() const override { return "interpreter"; }
  const Memory& memory() const override { return host_memory(); }
  transforms::Machine machine(const CompileOptions& options) const override {
    transforms::Machine machine = options.gpu_mapped ? transforms::gpu_machine() : transforms::cpu_machine();
    machine.wide_floats = options.f64;
    return machine;
  }
  bool interprets() const override { return true; }
  std::string source(const std::vector<ir::Program>& lowered, const KernelReasons&) const override {
    throw UsageError({.code = ErrorCode::BadInput,
                      .message = "the interpreter has no generated code",
                      .program = lowered.empty() ? "" : lowered.back().name,
                      .hint = "choose the target openmp or cuda"});
  }
  EmittedFiles files(const EmitPlan& plan) const override {
    source({plan.backward.program}, {});  // which says that there are none
    throw InternalError("the interpreter has got generated code");
  }
  Compiled compile(const Programs& lowered, const CompileOptions& options, const std::string&, const KernelReasons&,
                   bool) const override {
    Compiled result;
    for (const ir::Program& program : *lowered)
      result.codes.push_back(std::make_shared<InterpretedCode>(
          std::shared_ptr<const ir::Program>(lowered, &program),
          InterpreterOptions{.f64 = options.f64, .checked = options.checked, .trap_nan = options.trap_nan}));
    return result;
  }
  std::unique_ptr<TapeStack> make_stack() const override { return std::make_unique<InterpreterStack>(); }
};

}  // namespace

const Backend& interpreter_backend() {
  static const InterpreterBackend backend;
  return backend;
}

}  // namespace loopgrad::backend
