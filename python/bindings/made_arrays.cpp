// Arrays that the package makes itself, and streams of those of a GPU.
#include "memory.h"

#include <fmt/format.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

namespace loopgrad::python {

namespace {

dlpack::DataType dlpack_type(ScalarType type) {
  const auto bits = static_cast<std::uint8_t>(8 * bytes_of(type));
  if (type == ScalarType::Bool) return {dlpack::boolean, bits, 1};
  if (type == ScalarType::BF16) return {dlpack::bfloat, bits, 1};
  return {is_float(type) ? dlpack::floating : dlpack::signed_integer, bits, 1};
}

nb::object allocated(const dlpack::ExchangeApi& api, nb::handle like, ScalarType type,
                     const std::vector<std::int64_t>& shape) {
  dlpack::Tensor prototype{};
  if (api.tensor_from_object(like.ptr(), &prototype) != 0) throw nb::python_error();
  prototype.dtype = dlpack_type(type);
  prototype.ndim = static_cast<std::int32_t>(shape.size());
  prototype.shape = const_cast<std::int64_t*>(shape.data());
  prototype.strides = nullptr;
  dlpack::ManagedVersioned* managed = nullptr;
  std::string message;
  const auto set_error = [](void* to, const char*, const char* text) { *static_cast<std::string*>(to) = text; };
  if (api.allocate(&prototype, &managed, &message, set_error) != 0)
    throw loopgrad::RuntimeError(
        {.code = ErrorCode::OutOfMemory, .message = "an output cannot be allocated: " + message});
  void* object = nullptr;
  if (api.object_from_managed(managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

const char* numpy_name(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return "bool";
    case ScalarType::I32: return "int32";
    case ScalarType::I64: return "int64";
    case ScalarType::F16: return "float16";
    case ScalarType::BF16: return "bfloat16";
    case ScalarType::F32: return "float32";
    case ScalarType::F64: return "float64";
  }
  return "?";
}

/// Throws ImportError where nobody has the type.
nb::object numpy_type(ScalarType type) {
  if (type == ScalarType::BF16) return nb::module_::import_("ml_dtypes").attr("bfloat16");
  return nb::str(numpy_name(type));
}

}  // namespace

nb::object make_array(nb::handle like, ScalarType type, const std::vector<std::int64_t>& shape,
                      const ArgumentInfo& info, const std::string& program) {
  const std::string library = like.is_valid() && !like.is_none() ? library_of(like) : "numpy";
  if (const auto* api = like.is_valid() && !like.is_none() ? exchange_api(like) : nullptr;
      api && api->tensor_from_object)
    return allocated(*api, like, type, shape);
  const nb::object extents = nb::cast(shape);
  if (library == "torch") {
    const nb::module_ torch = nb::module_::import_("torch");
    return torch.attr("empty")(extents, nb::arg("dtype") = torch.attr(numpy_name(type)),
                               nb::arg("device") = like.attr("device"));
  }
  if (library == "cupy") return nb::module_::import_("cupy").attr("empty")(extents, numpy_name(type));
  const bool on_host = library == "numpy" || !nb::hasattr(like, "__dlpack_device__") ||
                       nb::cast<int>(nb::cast<nb::tuple>(like.attr("__dlpack_device__")())[0]) == dlpack::cpu;
  const auto refuse = [&] {
    refuse_argument(ErrorCode::BadArgument, info, program,
                    "the output is not given, and there is no way to make one of its type and place",
                    "pass an array that it is written to");
  };
  if (!on_host) refuse();
  try {
    return nb::module_::import_("numpy").attr("empty")(extents, numpy_type(type));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    refuse();
    throw;
  }
}

/// Only what the array's type holds as it is: a number with a fraction is no index.
nb::object array_of_number(nb::handle number, const ArgumentInfo& info, const std::string& program) {
  const bool is_bool = PyBool_Check(number.ptr()), is_int = PyLong_Check(number.ptr()) && !is_bool;
  if (info.role != Role::Input || !info.shape.empty())
    refuse_argument(ErrorCode::BadArgument, info, program, "the argument is a number, which is no array of its shape",
                    "numbers are for inputs of rank 0");
  if (info.type == ScalarType::Bool ? !is_bool : is_bool || !(is_int || is_float(info.type)))
    refuse_argument(ErrorCode::BadType, info, program,
                    fmt::format("the argument is a {} of Python, expected {}",
                                is_bool  ? "bool"
                                : is_int ? "int"
                                         : "float",
                                name_of(info.type)),
                    "pass a number of the declared type");
  try {
    return nb::module_::import_("numpy").attr("array")(number, numpy_type(info.type));
  } catch (nb::python_error& error) {
    const auto text = nb::cast<std::string>(nb::str(error.value()));
    refuse_argument(ErrorCode::BadType, info, program, "the argument does not fit its type: " + text,
                    "pass a smaller number");
  }
}

namespace {

struct Token {
  dlpack::Managed managed = {};
  std::int64_t number = 0;
  nb::object owner;
};

void release(dlpack::Managed* managed) {
  nb::gil_scoped_acquire gil;  // the last reader may be a thread of another library
  delete static_cast<Token*>(managed->context);
}

}  // namespace

nb::object make_token(std::int64_t number, nb::object owner) {
  auto token = std::make_unique<Token>();
  token->number = number;
  token->owner = std::move(owner);
  token->managed.tensor = {&token->number, {dlpack::cpu, 0}, 0, dlpack_type(ScalarType::I64), nullptr, nullptr, 0};
  token->managed.context = token.get();
  token->managed.deleter = &release;
  PyObject* capsule = PyCapsule_New(&token->managed, "dltensor", [](PyObject* unused) {
    if (!PyCapsule_IsValid(unused, "dltensor")) return;  // somebody took it over
    release(static_cast<dlpack::Managed*>(PyCapsule_GetPointer(unused, "dltensor")));
  });
  if (!capsule) throw nb::python_error();
  token.release();
  return nb::steal(capsule);
}

void* stream_of(nb::handle object, std::int32_t device) {
  if (const dlpack::ExchangeApi* api = exchange_api(object)) {
    void* stream = nullptr;
    if (api->current_stream(dlpack::cuda, device, &stream) != 0) throw nb::python_error();
    return stream;
  }
  const std::string library = library_of(object);
  nb::object number;
  if (library == "torch")
    number = nb::module_::import_("torch").attr("cuda").attr("current_stream")(device).attr("cuda_stream");
  if (library == "cupy") number = nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")().attr("ptr");
  return number.is_valid() ? reinterpret_cast<void*>(nb::cast<std::uintptr_t>(number)) : nullptr;
}

}  // namespace loopgrad::python
