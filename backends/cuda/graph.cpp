// Launches recorded into CUDA graphs, with independent ones side by side.
#include "backends/cuda/native.h"

namespace loopgrad::backend::cuda {
namespace {

/// Streams and events that live while launches are being recorded.
class Recording {
 public:
  Recording(Stream stream, const std::string& program) : context_{program, ""} { lanes_.push_back(native(stream)); }
  Recording(const Recording&) = delete;
  ~Recording() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) cudaStreamDestroy(lanes_[lane]);
  }

  cudaStream_t lane(std::size_t number) {
    while (lanes_.size() <= number) {
      cudaStream_t stream = nullptr;
      require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", context_);
      lanes_.push_back(stream);
      if (!start_) start_ = record(lanes_[0]);
      wait(stream, start_);  // it joins the recording
    }
    return lanes_[number];
  }
  cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", context_);
    events_.push_back(event);
    require(cudaEventRecord(event, stream), "cudaEventRecord", context_);
    return event;
  }
  void wait(cudaStream_t stream, cudaEvent_t event) {
    require(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent", context_);
  }

 private:
  Context context_;
  std::vector<cudaStream_t> lanes_;
  std::vector<cudaEvent_t> events_;
  cudaEvent_t start_ = nullptr;
};

}  // namespace

void record_launches(const std::vector<Launch>& launches, const LaunchOrder& order, Stream stream,
                     const std::string& program) {
  Recording recording(stream, program);
  // Everything that was on the stream before comes before all lanes.
  for (const std::size_t end : order.ends()) recording.lane(order.steps()[end].lane);
  std::vector<cudaEvent_t> done(launches.size());
  const std::vector<LaunchOrder::Step>& steps = order.steps();
  for (std::size_t k = 0; k < launches.size(); ++k) {
    const cudaStream_t lane = recording.lane(steps[k].lane);
    for (const std::size_t before : steps[k].after) recording.wait(lane, done[before]);
    launch(launches[k], lane, program);
    if (steps[k].awaited) done[k] = recording.record(lane);
  }
  for (const std::size_t end : order.ends())
    recording.wait(native(stream), recording.record(recording.lane(steps[end].lane)));
}

Graph::Graph(const std::vector<Launch>& launches, const LaunchOrder& order, const std::string& program) {
  const Context context{program, ""};
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", context);
  const std::shared_ptr<void> owner(stream, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); });
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", context);
  cudaGraph_t graph = nullptr;
  try {
    record_launches(launches, order, stream, program);
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture", context);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  require(status, "cudaGraphInstantiate", context);
  const int device = current_device();
  executable_ = std::shared_ptr<void>(executable, [device](void* e) {
    const DeviceScope scope(device);
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e));
  });
}

void Graph::launch(Stream stream, const std::string& program) const {
  require(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_.get()), native(stream)), "cudaGraphLaunch",
          {program, ""});
}

}  // namespace loopgrad::backend::cuda
