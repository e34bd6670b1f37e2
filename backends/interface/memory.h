// The memory that a target's programs work on: the host's, or that of a device.
#pragma once

#include <loopgrad/arrays.h>

#include <deque>
#include <memory>

namespace loopgrad::ir {
struct ArrayDecl;
}

namespace loopgrad::backend {

/// An array of the library's own, such as a tape.
struct OwnedArray {
  std::shared_ptr<void> owner;
  View view;
  std::int64_t bytes = 0;
};

class Memory {
 public:
  virtual ~Memory() = default;

  /// What views of it say.
  virtual Device device() const = 0;
  /// An array with an address of its own, also where it has no elements. Throws RuntimeError(OutOfMemory).
  virtual OwnedArray make_array(ScalarType type, const std::vector<std::int64_t>& shape) const = 0;
  /// Both copy at once; `copy_out` after what was started on the stream.
  virtual void copy_in(void* to, const void* from, std::int64_t bytes) const = 0;
  virtual void copy_out(void* to, const void* from, std::int64_t bytes, void* stream) const = 0;
  /// Waits for everything that may still compute elements, on whatever stream.
  virtual void synchronize() const = 0;
  /// Whether the caller is recording what is started on the stream, so that nothing can be waited for.
  virtual bool is_capturing(void* stream) const = 0;
  /// The same elements on the host; what had to be copied is kept in `copies`.
  virtual View on_host(const View& view, std::deque<HostArray>& copies) const = 0;
  /// Throws UsageError for a pointer to memory of another kind, as far as somebody knows; `device`: the number of the
  /// device that the program was compiled for.
  virtual void check_pointer(const ir::ArrayDecl& array, const View& view, int device,
                             const std::string& program) const = 0;
};

const Memory& host_memory();

/// The error that an argument is in the wrong memory.
[[noreturn]] void refuse_memory(const ir::ArrayDecl& array, const std::string& program, const std::string& message,
                                const std::string& hint);

}  // namespace loopgrad::backend
