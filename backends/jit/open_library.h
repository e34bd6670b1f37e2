// Shared libraries from memory.
#pragma once

#include <string>

namespace loopgrad::backend {

/// Opens the shared library with this content from memory that nobody can change, so that what was verified is what is
/// loaded, whatever becomes of the file that it was read from. Where the system refuses that, from a private temporary
/// file that is removed at once. Returns the handle of dlopen; null, with the reason in `why`, when it is refused.
void* open_library(const std::string& content, std::string& why);

}  // namespace loopgrad::backend
