#include "tools/fuzz/workers.h"

#include "tools/fuzz/compiled.h"

#include <loopgrad/device_array.h>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

namespace loopgrad::fuzz {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t longest_silence = 600;  // seconds of work on one thing

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Json to_json(const Failure& failure) { return {{"stage", failure.stage}, {"message", failure.message}}; }

std::string to_line(const SessionResult& part) {
  Json findings = Json::array();
  for (const Finding& f : part.findings)
    findings.push_back({{"seed", f.seed}, {"failure", to_json(f.failure)}, {"compiled", f.compiled}});
  const Json all = {{"programs", part.programs}, {"refused", part.refused},   {"compiled", part.compiled},
                    {"flat", part.flat},         {"features", part.features}, {"findings", findings}};
  return all.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

SessionResult from_line(const std::string& line) {
  const Json all = Json::parse(line);
  SessionResult part;
  part.programs = all["programs"];
  part.refused = all["refused"];
  part.compiled = all["compiled"];
  part.flat = all["flat"];
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

/// Starts a process that runs `f` with the writing end of a pipe, and then ends without any clean-up of ours.
Process start_process(const std::function<void(int)>& f) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t id = ::fork();
  if (id < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (id == 0) {
    ::close(ends[0]);
    f(ends[1]);
    ::_exit(0);
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
    while (std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.id >= 0; })) turn();
  }

 private:
  Process start(int k) {
    return start_process([this, k](int out) {
      worker_(board_->slots[k], board_->state, [out](const SessionResult& part) { write_all(out, to_line(part)); });
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
      const std::int64_t since = board_->slots[k].since;
      if (process.id >= 0 && since > 0 && now() - since > longest_silence) ::kill(process.id, SIGKILL);
    }
    report_({});
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
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    WorkerSlot& slot = board_->slots[k];
    const bool hung = now() - slot.since > longest_silence;
    SessionResult part;
    part.programs = 1;
    const std::string what = slot.what;
    part.findings.push_back({slot.seed,
                             {what, hung ? fmt::format("does not end within {} s", longest_silence)
                                         : "the process died: " + ending_of(status)},
                             what != "interpreted"});
    report_(part);
    slot.since = 0;
    if (options_.keep_going) process = start(static_cast<int>(k));
    else board_->state.stop = true;
  }

  const SessionOptions& options_;
  const Worker& worker_;
  const SendPart& report_;
  Board* board_ = nullptr;
  std::vector<Process> processes_;
};

}  // namespace

void WorkerSlot::busy(std::uint64_t on, const std::string& with) {
  seed = on;
  since = now();
  std::strncpy(what, with.c_str(), sizeof what - 1);
}

void run_workers(const SessionOptions& options, const Worker& worker, const SendPart& report) {
  if (options.jobs > 1) return Crew(options, worker, report).run();
  SharedState state;
  state.next = options.seed;
  WorkerSlot slot;
  worker(slot, state, report);
}

std::optional<Failure> check_apart(const Case& c, const SessionOptions& options, bool compiled, double seconds) {
  Process process = start_process([&](int out) {
    const CompiledOptions how{.axes = options.axes, .device = options.device};
    const Outcome outcome = compiled ? check_compiled({c}, how, [](std::size_t, const std::string&) {}).front()
                                     : check(c, {.axes = options.axes});
    if (outcome.failure) write_all(out, to_json(*outcome.failure).dump(-1, ' ', true, Json::error_handler_t::replace));
  });
  const std::int64_t end = now() + static_cast<std::int64_t>(seconds) + 1;
  bool late = false;
  for (pollfd file{process.pipe, POLLIN, 0};;) {
    const int ready = ::poll(&file, 1, 200);
    if (ready > 0 && !receive(process)) break;
    late = now() > end;
    if (late) ::kill(process.id, SIGKILL);
    if (late) break;
  }
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
