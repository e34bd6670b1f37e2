// Arrays of NumPy, PyTorch, JAX, CuPy and others as views, without copies.
#pragma once

#include "dlpack.h"

#include <loopgrad/arrays.h>
#include <loopgrad/error.h>
#include <loopgrad/signature.h>

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace loopgrad::python {

namespace nb = nanobind;

/// An argument of a run. Holds on to the memory while it lives; made and destroyed with the GIL.
class Borrowed {
 public:
  /// `info` is what it is for: an array that is written must be writable. Throws UsageError naming program and array
  /// for what is no array. That type, shape and layout are right is checked by the run.
  /// A tensor that requires a gradient is refused unless the caller takes care of it.
  Borrowed(nb::handle object, const ArgumentInfo& info, const std::string& program, bool may_require_grad = false);
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;

  View view;
  std::int32_t device_index = 0;

 private:
  friend class Importer;
  Py_buffer buffer_ = {};
  nb::object capsule_;
};

/// The protocol without Python calls, where the type of the object has it; else null.
const dlpack::ExchangeApi* exchange_api(nb::handle object);

/// An uninitialised array of the library that `like` belongs to, where `like` is; of NumPy where there is nothing like
/// it.
nb::object make_array(nb::handle like, ScalarType type, const std::vector<std::int64_t>& shape,
                      const ArgumentInfo& info, const std::string& program);

/// A number of Python as an array of rank 0.
nb::object array_of_number(nb::handle number, const ArgumentInfo& info, const std::string& program);

/// The first part of the name of the module that the object's type is of.
std::string library_of(nb::handle object);

/// A DLPack capsule with one number, which holds on to `owner` until its last reader is gone.
nb::object make_token(std::int64_t number, nb::object owner);

/// The stream that the library of `object` works on, on the device of that number; null: the default stream.
void* stream_of(nb::handle object, std::int32_t device);

[[noreturn]] void refuse_argument(ErrorCode code, const ArgumentInfo& info, const std::string& program,
                                  std::string message, std::string hint);

}  // namespace loopgrad::python
