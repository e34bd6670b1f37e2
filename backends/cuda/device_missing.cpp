// The device of a build without the CUDA toolkit: there is none, and every call says so.
#include "backends/cuda/device.h"

#include <loopgrad/error.h>

namespace loopgrad::backend::cuda {
namespace {

[[noreturn]] void missing(const std::string& program) {
  throw RuntimeError({.code = ErrorCode::NoDevice,
                      .message = "this build of loopgrad has no CUDA runtime",
                      .program = program,
                      .hint = "build it where the CUDA toolkit (12.8 or later) is installed, or use Target::OpenMP"});
}

}  // namespace

const DeviceInfo& device(const std::string& program) { missing(program); }
std::shared_ptr<void> allocate(std::int64_t, const std::string& program) { missing(program); }
void copy_to_device(void*, const void*, std::int64_t, Stream) { missing(""); }
void copy_to_host(void*, const void*, std::int64_t, Stream) { missing(""); }
void synchronize(Stream, const Context& context) { missing(context.program); }
void synchronize_device() { missing(""); }
int current_device() { return 0; }
bool in_use() { return false; }
MemoryUse memory_use() { return {}; }
void forget_memory_peak() {}
Place place_of(const void*) { return {}; }
void check_stream(Stream, int, const std::string& program) { missing(program); }
void note_started(const std::string&) {}
int most_threads(const void*, const Context& context) { missing(context.program); }
Module::Module(const std::string&, const std::string& program) { missing(program); }
const void* Module::function(const std::string&, const std::string& program) const { missing(program); }
void allow_shared_memory(const void*, std::int64_t, const Context& context) { missing(context.program); }
void launch(const Launch&, Stream, const std::string& program) { missing(program); }
void record_launches(const std::vector<Launch>&, const LaunchOrder&, Stream, const std::string& program) {
  missing(program);
}
Graph::Graph(const std::vector<Launch>&, const LaunchOrder&, const std::string& program) { missing(program); }
void Order::note(Stream, const std::string& program) { missing(program); }
void Order::follow(Stream, const std::string& program) const { missing(program); }
void Graph::launch(Stream, const std::string& program) const { missing(program); }
bool is_capturing(Stream) { return false; }
Timer::Timer() { missing(""); }
void Timer::start(Stream) { missing(""); }
double Timer::stop(Stream) { missing(""); }

}  // namespace loopgrad::backend::cuda
