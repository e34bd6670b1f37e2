#include "tools/fuzz/workers.h"

#include <loopgrad/device_array.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>

namespace loopgrad::fuzz {
namespace {

using Json = nlohmann::json;

constexpr double seconds_to_finish = 3;  // after the end of a session
constexpr int ends_for_another = 75;     // exit status of a process that another one must follow

/// Seconds of the steady clock, parts of them too: a session of a second would else be over at the next full one.
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Json to_json(const Failure& failure) { return {{"stage", failure.stage}, {"message", failure.message}}; }

std::string to_line(const SessionResult& part) {
  Json findings = Json::array();
  for (const Finding& f : part.findings)
    findings.push_back({{"seed", f.seed}, {"failure", to_json(f.failure)}, {"compiled", f.compiled}});
  const Json all = {{"programs", part.programs},         {"refused", part.refused}, {"compiled", part.compiled},
                    {"not_compiled", part.not_compiled}, {"flat", part.flat},       {"not_finite", part.not_finite},
                    {"features", part.features},         {"findings", findings}};
  return all.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

SessionResult from_line(const std::string& line) {
  const Json all = Json::parse(line);
  SessionResult part;
  part.programs = all["programs"];
  part.refused = all["refused"];
  part.compiled = all["compiled"];
  part.not_compiled = all["not_compiled"];
  part.flat = all["flat"];
  part.not_finite = all["not_finite"];
  part.features = all["features"];
  for (const Json& f : all["findings"])
    part.findings.push_back({f["seed"], {f["failure"]["stage"], f["failure"]["message"]}, f["compiled"]});
  return part;
}

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written <= 0) ::_exit(3);  // nobody listens
    done += static_cast<std::size_t>(written);
  }
}

struct Process {
  pid_t id = -1;
  int pipe = -1;
  std::string received = {};
};

/// Starts a process that runs `f` with the writing end of a pipe, and then ends with its result and without any
/// clean-up of ours. What interrupts this process it leaves to this process, with which it ends.
Process start_process(const std::function<int(int)>& f) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const pid_t parent = ::getpid(), id = ::fork();
  if (id < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (id == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(3);
    ::close(ends[0]);
    ::_exit(f(ends[1]));
  }
  ::close(ends[1]);
  return {id, ends[0]};
}

/// Reads what is there; false at the end.
bool receive(Process& process) {
  char buffer[65536];
  const ssize_t count = ::read(process.pipe, buffer, sizeof buffer);
  if (count > 0) process.received.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

std::string ending_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

/// What several processes share.
struct Board {
  SharedState state;
  WorkerSlot slots[256];
};

class Crew {
 public:
  Crew(const SessionOptions& options, const Worker& worker, const SendPart& report)
      : options_(options), worker_(worker), report_(report) {
    void* const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    board_ = new (memory) Board;
    board_->state.next = options.seed;
  }
  Crew(const Crew&) = delete;
  ~Crew() {
    for (const Process& process : processes_) {  // those that are left, after an exception
      if (process.id < 0) continue;
      ::kill(process.id, SIGKILL);
      ::waitpid(process.id, nullptr, 0);
    }
    ::munmap(board_, sizeof(Board));
  }

  void run() {
    const int jobs = std::min(options_.jobs, 256);
    for (int k = 0; k < jobs; ++k) processes_.push_back(start(k));
    while (std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.id >= 0; })) {
      turn();
      look_at_the_clock();
    }
  }

 private:
  Process start(int k) {
    return start_process([this, k](int out) {
      const auto send = [out](const SessionResult& part) { write_all(out, to_line(part)); };
      return worker_(board_->slots[k], board_->state, send) ? ends_for_another : 0;
    });
  }

  void turn() {
    std::vector<pollfd> files;
    for (const Process& process : processes_) files.push_back({process.pipe, POLLIN, 0});
    ::poll(files.data(), files.size(), 500);
    for (std::size_t k = 0; k < processes_.size(); ++k) {
      Process& process = processes_[k];
      if (process.id < 0) continue;
      if (files[k].revents != 0 && !receive(process)) finish(k);
      hand_on(process);
      if (process.id >= 0 && is_stuck(k)) ::kill(process.id, SIGKILL);
    }
    report_({});
  }

  bool is_stuck(std::size_t k) const {
    const double since = board_->slots[k].since;
    return since > 0 && now() - since > options_.seconds_of_a_step;
  }

  /// Ends the session when it is time, and those that do not end by themselves.
  void look_at_the_clock() {
    if (options_.interrupted && options_.interrupted()) board_->state.stop = true;
    if (options_.seconds > 0 && now() - start_ >= options_.seconds) board_->state.stop = true;
    if (!board_->state.stop) return;
    if (!over_since_) over_since_ = now();
    if (now() - *over_since_ < seconds_to_finish) return;
    for (std::size_t k = 0; k < processes_.size(); ++k) {
      if (processes_[k].id < 0) continue;
      end(k);
      const WorkerSlot& slot = board_->slots[k];
      SessionResult part;
      part.not_compiled = slot.pending;
      if (slot.since > 0) part.given_up.push_back({slot.seed, slot.what, now() - slot.since});
      report_(part);
    }
  }

  void end(std::size_t k) {
    Process& process = processes_[k];
    ::kill(process.id, SIGKILL);
    while (receive(process)) {
    }
    hand_on(process);
    ::waitpid(process.id, nullptr, 0);
    ::close(process.pipe);
    process = {};
  }

  void hand_on(Process& process) {
    for (std::size_t end; (end = process.received.find('\n')) != std::string::npos;) {
      report_(from_line(process.received.substr(0, end)));
      process.received.erase(0, end + 1);
    }
  }

  /// A process has ended. When it did not mean to, another one takes its place.
  void finish(std::size_t k) {
    Process& process = processes_[k];
    hand_on(process);
    int status = 0;
    ::waitpid(process.id, &status, 0);
    ::close(process.pipe);
    process = {};
    WorkerSlot& slot = board_->slots[k];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != ends_for_another) {
      const std::string what = slot.what;
      const std::string message = is_stuck(k) ? fmt::format("does not end within {} s", options_.seconds_of_a_step)
                                              : "the process died: " + ending_of(status);
      SessionResult part;
      part.programs = what == interpreting;  // else it has been counted
      part.not_compiled = slot.pending;
      part.findings.push_back({slot.seed, {what, message}, what != interpreting});
      report_(part);
      if (!options_.keep_going) board_->state.stop = true;
    }
    slot.since = 0;
    slot.pending = 0;
    if (!board_->state.stop) process = start(static_cast<int>(k));
  }

  const SessionOptions& options_;
  const Worker& worker_;
  const SendPart& report_;
  Board* board_ = nullptr;
  std::vector<Process> processes_;
  const double start_ = now();
  std::optional<double> over_since_;
};

}  // namespace

void WorkerSlot::busy(std::uint64_t on, const std::string& with) {
  seed = on;
  since = now();
  std::strncpy(what, with.c_str(), sizeof what - 1);
}

void run_workers(const SessionOptions& options, const Worker& worker, const SendPart& report) {
  Crew(options, worker, report).run();
}

std::optional<Failure> check_apart(const Case& c, const SessionOptions& options, bool compiled, double seconds) {
  Process process = start_process([&](int out) {
    const CompiledOptions how{.axes = options.axes, .device = options.device};
    const Outcome outcome = compiled ? options.checks.compiled({c}, how, {}).front()
                                     : options.checks.interpreted(c, {.axes = options.axes});
    if (outcome.failure) write_all(out, to_json(*outcome.failure).dump(-1, ' ', true, Json::error_handler_t::replace));
    return 0;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool late = false;
  for (pollfd file{process.pipe, POLLIN, 0}; !late;) {
    if (::poll(&file, 1, 200) > 0 && !receive(process)) break;
    late = std::chrono::steady_clock::now() > end || (options.interrupted && options.interrupted());
  }
  if (late) ::kill(process.id, SIGKILL);
  int status = 0;
  ::waitpid(process.id, &status, 0);
  ::close(process.pipe);
  if (late) return Failure{"time", "does not end in time"};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return Failure{"crash", "the process died: " + ending_of(status)};
  if (process.received.empty()) return std::nullopt;
  const Json failure = Json::parse(process.received);
  return Failure{failure["stage"], failure["message"]};
}

bool has_device(std::string& why) {
  Process process = start_process([](int out) {
    std::string missing;
    write_all(out, has_cuda(&missing) ? "yes" : "no: " + missing);
    return 0;
  });
  while (receive(process)) {
  }
  ::waitpid(process.id, nullptr, 0);
  ::close(process.pipe);
  if (process.received == "yes") return true;
  why = process.received.starts_with("no: ") ? process.received.substr(4) : "the driver cannot be asked";
  return false;
}

}  // namespace loopgrad::fuzz
