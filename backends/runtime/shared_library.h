// Libraries that are opened at run time, so that building needs none of them.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace loopgrad::backend {

/// Sets `function` to what the library has under that name; false, and null, when it has nothing.
template <class F>
bool find_symbol(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

/// Where a library of the CUDA toolkit may be: at the path that the environment variable `chosen` names and nowhere
/// else, if it is set; else below CUDA_HOME and CUDA_PATH, where the system looks, and in /usr/local/cuda.
std::vector<std::string> toolkit_paths(const char* chosen, const std::vector<std::string>& names);

}  // namespace loopgrad::backend
