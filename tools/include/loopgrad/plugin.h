/// @file
/// Programs in a shared library, for hosts that load them by name, such as the Python package.
///
/// The library is linked without loopgrad, whose functions the host has: g++ -std=c++20 -shared -fPIC programs.cpp with
/// the include paths of loopgrad. Host and library must be built from one version of loopgrad.
#pragma once

#include <loopgrad/main.h>

#include <vector>

namespace loopgrad {
/// @addtogroup command_line
/// @{

/// What the host looks for: a function that gives the entries.
inline constexpr char plugin_symbol[] = "loopgrad_plugin_1";

/// @}
}  // namespace loopgrad

/// @ingroup command_line
/// Names the programs of a library, once in one of its files, outside of any namespace.
/// **Example:** `LOOPGRAD_PLUGIN({"damped", "a damped spring", damped_spring, {{"n", 1000}}})`
#define LOOPGRAD_PLUGIN(...)                                                           \
  extern "C" const std::vector<loopgrad::ProgramEntry>* loopgrad_plugin_1() {          \
    static const auto* entries = new std::vector<loopgrad::ProgramEntry>{__VA_ARGS__}; \
    return entries;                                                                    \
  }
