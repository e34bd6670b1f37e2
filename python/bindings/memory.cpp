#include "memory.h"

#include <fmt/format.h>

#include <nanobind/stl/string.h>

#include <map>
#include <optional>
#include <string_view>

namespace loopgrad::python {

void refuse_argument(ErrorCode code, const ArgumentInfo& info, const std::string& program, std::string message,
                     std::string hint) {
  throw UsageError({.code = code,
                    .message = std::move(message),
                    .program = program,
                    .array = info.name,
                    .hint = std::move(hint),
                    .location = info.where});
}

std::string library_of(nb::handle object) {
  const auto module = nb::cast<std::string>(nb::str(object.type().attr("__module__")));
  return module.substr(0, module.find('.'));
}

namespace {

std::optional<ScalarType> type_of(const dlpack::DataType& type) {
  if (type.lanes != 1) return std::nullopt;
  switch (type.code) {
    case dlpack::signed_integer:
      if (type.bits == 32) return ScalarType::I32;
      if (type.bits == 64) return ScalarType::I64;
      break;
    case dlpack::floating:
      if (type.bits == 16) return ScalarType::F16;
      if (type.bits == 32) return ScalarType::F32;
      if (type.bits == 64) return ScalarType::F64;
      break;
    case dlpack::bfloat:
      if (type.bits == 16) return ScalarType::BF16;
      break;
    case dlpack::boolean:
      if (type.bits == 8) return ScalarType::Bool;
      break;
    default: break;
  }
  return std::nullopt;
}

/// The type that a format of the buffer protocol names; big-endian ones are none.
std::optional<ScalarType> type_of(const Py_buffer& buffer) {
  std::string_view format = buffer.format ? buffer.format : "B";
  if (format.starts_with('@') || format.starts_with('=') || format.starts_with('<')) format.remove_prefix(1);
  if (format == "?") return ScalarType::Bool;
  if (format == "e") return ScalarType::F16;
  if (format == "f") return ScalarType::F32;
  if (format == "d") return ScalarType::F64;
  const bool is_integer = format == "i" || format == "l" || format == "q";
  if (is_integer && buffer.itemsize == 4) return ScalarType::I32;
  if (is_integer && buffer.itemsize == 8) return ScalarType::I64;
  return std::nullopt;
}

const char* const types_hint = "use bool, int32, int64, float16, bfloat16, float32 or float64";

}  // namespace

class Importer {
 public:
  Importer(Borrowed& to, nb::handle object, const ArgumentInfo& info, const std::string& program)
      : to_(to), object_(object), info_(info), program_(program) {}

  void run(bool may_require_grad) {
    if (const dlpack::ExchangeApi* api = exchange_api(object_); api && api->tensor_from_object) {
      dlpack::Tensor tensor{};
      if (api->tensor_from_object(object_.ptr(), &tensor) != 0) refuse_thrown();
      if (!may_require_grad) refuse_grad();
      return take(tensor);
    }
    if (PyObject_CheckBuffer(object_.ptr())) return take_buffer();
    if (nb::hasattr(object_, "__dlpack__")) return take_capsule();
    fail(ErrorCode::BadArgument, fmt::format("the argument is a {}, which is no array", type_name()),
         "pass an array of NumPy, PyTorch, JAX or CuPy, or anything with __dlpack__");
  }

 private:
  [[noreturn]] void fail(ErrorCode code, std::string message, std::string hint) const {
    refuse_argument(code, info_, program_, std::move(message), std::move(hint));
  }
  std::string type_name() const { return nb::cast<std::string>(nb::str(object_.type().attr("__name__"))); }

  /// With the words of the library that the array belongs to.
  [[noreturn]] void refuse_thrown() const {
    const nb::python_error error;
    const auto text = nb::cast<std::string>(nb::str(error.value()));  // of PyTorch with the calls in C++ that led there
    fail(ErrorCode::BadArgument,
         fmt::format("its library does not hand out the argument's memory: {}", text.substr(0, text.find('\n'))),
         "pass a plain array; a tensor that requires a gradient is for loopgrad.torch.op, or call .detach()");
  }

  /// What is written behind autograd's back, or read without a gradient, would be silently wrong.
  void refuse_grad() const {
    static PyObject* name = PyUnicode_InternFromString("requires_grad");
    const nb::object flag = nb::steal(PyObject_GetAttr(object_.ptr(), name));
    if (!flag.is_valid()) return PyErr_Clear();
    refuse_tangent();
    refuse_minus();
    if (flag.ptr() != Py_True) return;
    fail(ErrorCode::BadArgument, "the argument requires a gradient, which this call does not record",
         "use loopgrad.torch.op(program), or pass .detach()");
  }

  /// Of PyTorch's forward mode, which is off unless a program has it on.
  void refuse_tangent() const {
    static PyObject* modules = PySys_GetObject("modules");
    static PyObject* name = PyUnicode_InternFromString("torch.autograd.forward_ad");
    PyObject* module = PyDict_GetItem(modules, name);
    if (!module) return;
    static PyObject* level_name = PyUnicode_InternFromString("_current_level");
    const nb::object level = nb::steal(PyObject_GetAttr(module, level_name));
    if (!level.is_valid()) return PyErr_Clear();
    if (PyLong_AsLong(level.ptr()) < 0) return;
    if (nb::handle(module).attr("unpack_dual")(object_).attr("tangent").is_none()) return;
    fail(ErrorCode::BadArgument, "the argument has a tangent of forward mode, which this call does not push forward",
         "use loopgrad.torch.op(program)");
  }

  /// That PyTorch has put off: the memory holds the numbers without it.
  void refuse_minus() const {
    static PyObject* method = PyUnicode_InternFromString("is_neg");
    const nb::object is_negative = nb::steal(PyObject_CallMethodNoArgs(object_.ptr(), method));
    if (!is_negative.is_valid()) return PyErr_Clear();
    if (is_negative.ptr() != Py_True) return;
    fail(ErrorCode::BadArgument,
         "the argument has its negative bit set, so its memory holds other numbers than it does",
         "pass .resolve_neg()");
  }

  void refuse_read_only(bool is_read_only) const {
    if (!is_read_only || info_.role == Role::Input) return;
    fail(ErrorCode::BadArgument,
         fmt::format("the argument is read-only, and the program writes this {}", name_of(info_.role)),
         "pass writable memory, or leave an output out to get a new array");
  }

  void take(const dlpack::Tensor& tensor) {
    const auto type = type_of(tensor.dtype);
    if (!type) fail(ErrorCode::BadType, "the argument has a type that programs do not have", types_hint);
    const std::int32_t device = tensor.device.type;
    const bool is_host = device == dlpack::cpu || device == dlpack::cuda_host;
    if (!is_host && device != dlpack::cuda && device != dlpack::cuda_managed)
      fail(ErrorCode::BadArgument, fmt::format("the argument is on a device of DLPack's type {}", device),
           "move it to the CPU or to an NVIDIA GPU");
    View& view = to_.view;
    view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
    view.type = *type;
    view.device = is_host ? Device::Host : Device::Cuda;
    view.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    if (tensor.strides && !is_contiguous(tensor)) view.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    to_.device_index = tensor.device.index;
  }

  static bool is_contiguous(const dlpack::Tensor& tensor) {
    std::int64_t expected = 1;
    for (std::int32_t d = tensor.ndim; d-- > 0;) {
      if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
      expected *= tensor.shape[d];
    }
    return true;
  }

  void take_buffer() {
    if (PyObject_GetBuffer(object_.ptr(), &to_.buffer_, PyBUF_RECORDS_RO) == 0)
      return take_filled(type_of(to_.buffer_));
    if (!is_bfloat16()) refuse_thrown();
    PyErr_Clear();  // the protocol has no name for the type
    if (library_of(object_) != "numpy") return take_capsule();
    const nb::object bits = object_.attr("view")("uint16");
    if (PyObject_GetBuffer(bits.ptr(), &to_.buffer_, PyBUF_RECORDS_RO) != 0) refuse_thrown();
    take_filled(ScalarType::BF16);
  }

  /// Of a package that NumPy and JAX share. Leaves the error alone that is set.
  bool is_bfloat16() const {
    PyObject *kind = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&kind, &value, &trace);
    const nb::object type = nb::getattr(object_, "dtype", nb::none());
    const bool found = nb::cast<std::string>(nb::str(type)) == "bfloat16";
    PyErr_Restore(kind, value, trace);
    return found;
  }

  void take_filled(std::optional<ScalarType> type) {
    const Py_buffer& buffer = to_.buffer_;
    refuse_read_only(buffer.readonly != 0);
    if (!type)
      fail(ErrorCode::BadType,
           fmt::format("the argument has the format '{}', which programs do not have",
                       buffer.format ? buffer.format : "B"),
           types_hint);
    View& view = to_.view;
    view.data = buffer.buf;
    view.type = *type;
    view.shape.assign(buffer.shape, buffer.shape + buffer.ndim);
    if (PyBuffer_IsContiguous(&buffer, 'C')) return;
    for (int d = 0; d < buffer.ndim; ++d) {
      if (buffer.strides[d] % buffer.itemsize != 0)
        fail(ErrorCode::BadLayout, "the argument's elements are no whole number of elements apart", "copy it");
      view.strides.push_back(buffer.strides[d] / buffer.itemsize);
    }
  }

  /// The protocol by Python calls. The memory is ready on the default stream then.
  void take_capsule() {
    const auto device = nb::cast<nb::tuple>(object_.attr("__dlpack_device__")());
    nb::dict arguments;
    if (nb::cast<int>(device[0]) == dlpack::cuda) arguments["stream"] = 1;
    nb::object capsule;
    try {
      nb::dict versioned = nb::cast<nb::dict>(arguments.attr("copy")());
      versioned["max_version"] = nb::make_tuple(1, 0);
      capsule = object_.attr("__dlpack__")(**versioned);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) error.restore(), refuse_thrown();
    }
    if (!capsule.is_valid()) {
      try {
        capsule = object_.attr("__dlpack__")(**arguments);
      } catch (nb::python_error& error) {
        error.restore();
        refuse_thrown();
      }
    }
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
      const auto* managed =
          static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
      refuse_read_only((managed->flags & dlpack::read_only) != 0);
      take(managed->tensor);
    } else {
      const auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
      if (!managed) throw nb::python_error();
      refuse_read_only(library_of(object_) == "jaxlib");  // immutable, which this protocol cannot say
      take(managed->tensor);
    }
    to_.capsule_ = std::move(capsule);  // which frees the tensor when it goes, as nobody has renamed it
  }

  Borrowed& to_;
  nb::handle object_;
  const ArgumentInfo& info_;
  const std::string& program_;
};

Borrowed::Borrowed(nb::handle object, const ArgumentInfo& info, const std::string& program, bool may_require_grad) {
  try {
    Importer(*this, object, info, program).run(may_require_grad);
  } catch (...) {
    if (buffer_.obj) PyBuffer_Release(&buffer_);
    throw;
  }
}

Borrowed::~Borrowed() {
  if (buffer_.obj) PyBuffer_Release(&buffer_);
}

const dlpack::ExchangeApi* exchange_api(nb::handle object) {
  static auto* known = new std::map<PyTypeObject*, const dlpack::ExchangeApi*>();  // types are kept by their modules
  PyTypeObject* type = Py_TYPE(object.ptr());
  const auto found = known->find(type);
  if (found != known->end()) return found->second;
  const dlpack::ExchangeApi* api = nullptr;
  if (nb::hasattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__dlpack_c_exchange_api__")) {
    const nb::object capsule = nb::handle(reinterpret_cast<PyObject*>(type)).attr("__dlpack_c_exchange_api__");
    if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api"))
      api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api && api->version.major > 1) api = api->previous;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(type));  // so that no other type gets its address
  known->emplace(type, api);
  return api;
}

}  // namespace loopgrad::python
