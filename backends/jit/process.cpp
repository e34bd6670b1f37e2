#include "backends/jit/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

extern char** environ;

namespace loopgrad::backend {
namespace {

std::string read_all(int descriptor) {
  std::string out;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got > 0) out.append(buffer.data(), static_cast<std::size_t>(got));
    else if (got == 0 || errno != EINTR) return out;
  }
}

void wait_for(pid_t child, ProcessResult& result) {
  int status = 0;
  pid_t waited;
  do waited = ::waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  if (waited < 0) {
    // The host ignores SIGCHLD, so the status is lost; the caller judges by what the program left behind.
    result.succeeded = errno == ECHILD;
    result.ending = "unknown exit status";
  } else if (WIFEXITED(status)) {
    result.succeeded = WEXITSTATUS(status) == 0;
    result.ending = "exit status " + std::to_string(WEXITSTATUS(status));
  } else {
    result.ending = "signal " + std::to_string(WTERMSIG(status));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments) {
  ProcessResult result;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    result.start_error = errno;
    return result;
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  result.start_error = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (result.start_error == 0) {
    result.output = read_all(ends[0]);
    wait_for(child, result);
  }
  ::close(ends[0]);
  return result;
}

}  // namespace loopgrad::backend
