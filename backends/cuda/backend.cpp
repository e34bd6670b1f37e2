// The target `cuda`: kernels for NVRTC, loaded onto the device found.
#include "backends/interface/backend.h"
#include "backends/cuda/emitted_source.h"
#include "backends/cuda/emitter.h"
#include "backends/cuda/executor.h"
#include "backends/cuda/nvrtc.h"
#include "backends/emit/plan.h"
#include "backends/jit/cached_bytes.h"

#include <fmt/format.h>
#include <loopgrad/device_array.h>
#include <loopgrad/error.h>

#include <array>
#include <mutex>
#include <optional>

namespace loopgrad::backend {
namespace {

class DeviceMemory final : public Memory {
 public:
  Device device() const override { return Device::Cuda; }
  OwnedArray make_array(ScalarType type, const std::vector<std::int64_t>& shape) const override {
    auto array = std::make_shared<DeviceArray>(type, shape);
    return {array, array->view(), array->bytes()};
  }
  void copy_in(void* to, const void* from, std::int64_t bytes) const override {
    cuda::copy_to_device(to, from, bytes, nullptr);
    cuda::synchronize(nullptr, {});
  }
  void copy_out(void* to, const void* from, std::int64_t bytes, void* stream) const override {
    cuda::copy_to_host(to, from, bytes, stream);
  }
  void synchronize() const override { cuda::synchronize_device(); }
  bool is_capturing(void* stream) const override { return cuda::is_capturing(stream); }
  View on_host(const View& view, std::deque<HostArray>& copies) const override {
    const HostArray& copy = copies.emplace_back(view.type, view.shape);
    if (copy.bytes() > 0) cuda::copy_to_host(copy.data(), view.data, copy.bytes(), nullptr);
    return copy.view();
  }
  void check_pointer(const ir::ArrayDecl& array, const View& view, int device,
                     const std::string& program) const override {
    using Kind = cuda::Place::Kind;
    if (element_count(view.shape, view.type, array.name) == 0) return;
    const cuda::Place place = cuda::place_of(view.data);
    if (place.kind == Kind::Host)
      refuse_memory(array, program, "the pointer is not memory of a CUDA device", "copy the array into a DeviceArray");
    if (place.kind == Kind::OneDevice && place.device != device)
      refuse_memory(array, program,
                    fmt::format("this is memory of CUDA device {}, and the program was compiled for device {}",
                                place.device, device),
                    "copy it there, or compile the program while its device is current");
  }
};

/// The size and the peak are the host's to know, the data are in device memory.
class DeviceTapeStack final : public TapeStack {
 public:
  void clear() override { use = {}; }
  void mark() override { marked_ = use.size; }
  void rewind() override { use.size = marked_; }
  std::int64_t peak_bytes() const override { return use.peak; }

  cuda::StackUse use;
  cuda::DeviceStack device;

 private:
  std::int64_t marked_ = 0;
};

/// Device machine code of a unit, from the cache or compiled for the device found, when it is first asked for.
class DeviceCode {
 public:
  /// Throws RuntimeError(NoDevice).
  DeviceCode(std::shared_ptr<const CudaUnit> unit, const std::string& name)
      : unit_(std::move(unit)), name_(name), architecture_(cuda::device(name).architecture) {}

  cuda::Module module(KernelForm form) {
    std::lock_guard lock(mutex_);
    std::optional<cuda::Module>& module = modules_[static_cast<std::size_t>(form)];
    if (module) return *module;
    const auto start = std::chrono::steady_clock::now();
    const std::string source = unit_->source(form);
    const bool found = with_cached_bytes(
        CacheFolder(name_), CacheKey({source, architecture_, nvrtc_version(name_), nvrtc_flags()}, ".cubin"),
        [&] { return compile_cubin(source, architecture_, name_); },
        [&](const std::string& cubin) { module.emplace(cubin, name_); });
    report_time(found ? "load from the kernel cache" : "compile", name_, start);
    all_from_cache_ &= found;
    return *module;
  }
  bool all_from_cache() const { return all_from_cache_; }

 private:
  const std::shared_ptr<const CudaUnit> unit_;
  const std::string name_, architecture_;
  std::mutex mutex_;
  std::array<std::optional<cuda::Module>, kernel_forms> modules_;
  bool all_from_cache_ = true;
};

/// The kernels of one program. Runs only start work, and follow each other on the device.
class CudaCode final : public Code {
 public:
  CudaCode(Programs programs, std::shared_ptr<const CudaUnit> unit, std::size_t index,
           std::shared_ptr<cuda::Executor> executor)
      : programs_(std::move(programs)), unit_(std::move(unit)), index_(index), executor_(std::move(executor)) {}

  void run(const Binding& arrays, TapeStack* stack, void* stream) const override {
    auto* own = static_cast<DeviceTapeStack*>(stack);
    if (!own) return executor_->run(arrays, stream, nullptr, nullptr);
    executor_->run(arrays, stream, &own->device, &own->use);
  }
  std::shared_ptr<const Code> independent() const override {
    return std::make_shared<CudaCode>(programs_, unit_, index_, executor_->independent());
  }
  bool was_captured() const override { return executor_->was_captured(); }
  int kernel_count() const override { return static_cast<int>(unit_->kernels[index_].size()); }
  int device_index() const override { return executor_->device_index(); }

 private:
  const Programs programs_;  // the executor refers to both
  const std::shared_ptr<const CudaUnit> unit_;
  const std::size_t index_;
  const std::shared_ptr<cuda::Executor> executor_;
};

class CudaBackend final : public Backend {
 public:
  const char* name() const override { return "cuda"; }
  const Memory& memory() const override {
    static const DeviceMemory memory;
    return memory;
  }
  transforms::Machine machine(const CompileOptions&) const override { return transforms::gpu_machine(); }
  std::string source(const std::vector<ir::Program>& lowered, const KernelReasons& reasons) const override {
    return emit_cuda(lowered, reasons).source();
  }
  Compiled compile(const Programs& lowered, const CompileOptions&, const std::string& name,
                   const KernelReasons& reasons, bool) const override {
    const auto start = std::chrono::steady_clock::now();
    const auto unit = std::make_shared<const CudaUnit>(emit_cuda(*lowered, reasons));
    report_time("emit CUDA C++", name, start);
    const auto code = std::make_shared<DeviceCode>(unit, name);
    Compiled result;
    for (std::size_t i = 0; i < lowered->size(); ++i)
      result.codes.push_back(std::make_shared<CudaCode>(
          lowered, unit, i,
          std::make_shared<cuda::Executor>((*lowered)[i], unit->kernels[i],
                                           [code](KernelForm form) { return code->module(form); }, unit->any_form)));
    result.source = unit->source();
    result.from_cache = code->all_from_cache();
    return result;
  }
  EmittedFiles files(const EmitPlan& plan) const override {
    const InterfaceWords words = cuda_interface(plan);
    std::string source = cuda_source(plan);  // gives out the statuses that the header declares
    return {plan.name + ".h", header_text(plan, words), plan.name + ".cu", std::move(source), words.build};
  }
  std::unique_ptr<TapeStack> make_stack() const override { return std::make_unique<DeviceTapeStack>(); }
};

}  // namespace

const Backend& cuda_backend() {
  static const CudaBackend backend;
  return backend;
}

}  // namespace loopgrad::backend
