#include "backends/runtime/shared_library.h"

#include <cstdlib>

namespace loopgrad::backend {

std::vector<std::string> toolkit_paths(const char* chosen, const std::vector<std::string>& names) {
  if (const char* const path = std::getenv(chosen); path && *path) return {path};
  std::vector<std::string> paths;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const home = std::getenv(variable); home && *home)
      for (const std::string& name : names) paths.push_back(std::string(home) + "/lib64/" + name);
  paths.insert(paths.end(), names.begin(), names.end());
  for (const std::string& name : names) paths.push_back("/usr/local/cuda/lib64/" + name);
  return paths;
}

}  // namespace loopgrad::backend
