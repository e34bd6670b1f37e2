// Memory that runs out inside of loopgrad is an error like any other.
#pragma once

#include <loopgrad/error.h>

#include <new>
#include <stdexcept>
#include <string>

namespace loopgrad {

/// Keeps a few kilobytes for the message of `throw_out_of_memory`, which gives them up.
void keep_spare_memory();
[[noreturn]] void throw_out_of_memory(const std::string& program);

/// Does the work of a public function; where memory runs out, RuntimeError(OutOfMemory) names the program.
template <class Work>
decltype(auto) reporting_memory(const std::string& program, Work&& work) {
  keep_spare_memory();
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(program);
  } catch (const std::length_error&) {  // more than any container can hold
    throw_out_of_memory(program);
  }
}

}  // namespace loopgrad
