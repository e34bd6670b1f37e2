// Memory that runs out inside of loopgrad is an error like any other.
#pragma once

#include <loopgrad/error.h>

#include <new>
#include <stdexcept>
#include <string>

namespace loopgrad {

/// Does the work of a public function; where memory runs out, RuntimeError(OutOfMemory) names the program.
template <class Work>
decltype(auto) reporting_memory(const std::string& program, Work&& work) {
  auto refuse = [&] {
    throw RuntimeError({.code = ErrorCode::OutOfMemory,
                        .message = "memory has run out",
                        .program = program,
                        .hint = "use smaller sizes, or free memory"});
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    refuse();
  } catch (const std::length_error&) {  // more than any container can hold
    refuse();
  }
  throw InternalError("unreachable");
}

}  // namespace loopgrad
