// Running another program, which ends with this process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace loopgrad::backend {

struct ProcessResult {
  int start_error = 0;  // an errno value when the program could not be started
  bool succeeded = false;
  std::string ending;  // "exit status 1", "signal 9", ...
  std::string output;  // standard output and standard error together
};

/// Runs `arguments[0]` (a path) with `arguments` and waits for it. No shell reads the arguments. Throws nothing.
///
/// The program ends when this process does, however that ends. With a `work_folder` so do the programs that it starts,
/// as a compiler does, and the folder is removed then; they put their temporary files there.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::filesystem::path& work_folder = {});

}  // namespace loopgrad::backend
