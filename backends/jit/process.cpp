#include "backends/jit/process.h"

#include "backends/jit/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace loopgrad::backend {
namespace {

/// A compiler starts programs of its own and leaves them running when it is ended. This script stands between: it runs
/// the program, and when it is told that this process has ended it ends the whole group and removes the folder, which
/// is its $0. The program and its arguments are its "$@", which the shell passes on unread.
constexpr const char* supervise =
    "trap 'trap \"\" TERM; kill -TERM 0; wait; rm -rf -- \"$0\"; exit 143' TERM\n\"$@\" &\nwait $!";
constexpr const char* shell = "/bin/sh";

/// All that the child needs, made before it exists: it may allocate nothing.
struct Start {
  std::vector<char*> arguments, environment;  // each ends in a null pointer
  int input, output, error;                   // descriptors; `error` takes an errno value and closes on success
  pid_t parent;
};

/// The child from vfork to exec. It shares the memory of the parent, whose thread stands still meanwhile.
[[noreturn]] void become(const Start& start) {
  // Nothing that the host does with signals holds for a compiler, and what it blocks must reach the script.
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  // Sent when the thread that called vfork ends. It waits for the child, so it ends with the process only.
  const bool bound = ::prctl(PR_SET_PDEATHSIG, SIGTERM) == 0;
  ::setpgid(0, 0);
  ::umask(077);
  int failure = 0;
  if (bound && ::getppid() != start.parent) failure = ESRCH;  // the parent has ended before it was bound
  if (::dup2(start.input, STDIN_FILENO) < 0 || ::dup2(start.output, STDOUT_FILENO) < 0 ||
      ::dup2(start.output, STDERR_FILENO) < 0)
    failure = errno;
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (failure == 0) {
    ::execve(start.arguments[0], start.arguments.data(), start.environment.data());
    failure = errno;
  }
  [[maybe_unused]] const ssize_t told = ::write(start.error, &failure, sizeof failure);
  ::_exit(127);
}

/// Returns the child, or -1 with errno.
pid_t start_child(const Start& start) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of the host runs in the child
  const pid_t child = ::vfork();
  if (child == 0) become(start);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return child;
}

/// Both ends of a pipe, none of them a standard descriptor, which the child would overwrite.
bool open_pipe(Descriptor& from, Descriptor& into) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  const Descriptor first(ends[0]), second(ends[1]);
  from = Descriptor(::fcntl(first.value(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  into = Descriptor(::fcntl(second.value(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  return from && into;
}

void wait_for(pid_t child, bool supervised, ProcessResult& result) {
  int status = 0;
  pid_t waited;
  do waited = ::waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  if (waited < 0) {
    // The host ignores SIGCHLD, so the status is lost; the caller judges by what the program left behind.
    result.succeeded = errno == ECHILD;
    result.ending = "unknown exit status";
  } else if (WIFEXITED(status) && !(supervised && WEXITSTATUS(status) > 128)) {
    result.succeeded = WEXITSTATUS(status) == 0;
    result.ending = "exit status " + std::to_string(WEXITSTATUS(status));
  } else {
    result.ending = "signal " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) - 128 : WTERMSIG(status));
  }
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::filesystem::path& work_folder) {
  ProcessResult result;
  const bool supervised = !work_folder.empty() && ::access(shell, X_OK) == 0;
  std::vector<std::string> words, variables;
  if (supervised) words = {shell, "-c", supervise, work_folder.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (char** variable = environ; variable && *variable; ++variable)
    if (work_folder.empty() || std::strncmp(*variable, "TMPDIR=", 7) != 0) variables.push_back(*variable);
  if (!work_folder.empty()) variables.push_back("TMPDIR=" + work_folder.string());

  Descriptor from_output, output, from_error, error;
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!open_pipe(from_output, output) || !open_pipe(from_error, error)) {
    result.start_error = errno;
    return result;
  }
  const pid_t child = start_child({pointers(words), pointers(variables), null ? null.value() : from_output.value(),
                                   output.value(), error.value(), ::getpid()});
  if (child < 0) {
    result.start_error = errno;
    return result;
  }
  output = Descriptor();
  error = Descriptor();
  if (const auto told = read_all(from_error); told && told->size() == sizeof result.start_error)
    std::memcpy(&result.start_error, told->data(), sizeof result.start_error);
  result.output = read_all(from_output).value_or("");
  wait_for(child, supervised, result);
  return result;
}

}  // namespace loopgrad::backend
