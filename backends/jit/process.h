// Running another program without a shell.
#pragma once

#include <string>
#include <vector>

namespace loopgrad::backend {

struct ProcessResult {
  int start_error = 0;  // an errno value when the program could not be started
  bool succeeded = false;
  std::string ending;  // "exit status 1", "signal 9", ...
  std::string output;  // standard output and standard error together
};

/// Runs `arguments[0]` (a path) with `arguments` and waits for it. Throws nothing.
ProcessResult run_process(const std::vector<std::string>& arguments);

}  // namespace loopgrad::backend
