#include "ffi.h"

#include "running.h"
#include "xla_ffi.h"

#include <loopgrad/error.h>
#include <loopgrad/signature.h>

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

namespace nb = nanobind;

namespace loopgrad::python {
namespace {

using Names = std::vector<std::string>;

/// What XLA calls the type of an element.
int type_of(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return 1;
    case ScalarType::I32: return 4;
    case ScalarType::I64: return 5;
    case ScalarType::F16: return 10;
    case ScalarType::F32: return 11;
    case ScalarType::F64: return 12;
    case ScalarType::BF16: return 16;
  }
  return 0;
}

std::size_t bytes_of(const View& view) {
  return static_cast<std::size_t>(element_count(view.shape, view.type, "")) * bytes_of(view.type);
}

/// Arrays of one call: what XLA has given, and what it has made room for.
class Arrays {
 public:
  Arrays(const xla::Buffers& given, const Names& names, const xla::Buffers& made, const Names& results) {
    collect(given, names, given_);
    collect(made, results, made_);
  }

  /// The array of an argument: a result's where it is written and there is such a result, else of this call alone.
  /// `shape` is asked for then. An in-out has the shape that is passed: the run sees whether that fits.
  template <class Shape>
  View of(const ArgumentInfo& info, const Shape& shape) {
    const auto given = given_.find(info.name), made = made_.find(info.name);
    if (info.role != Role::Output && given == given_.end())
      throw InternalError(fmt::format("XLA does not pass '{}'", info.name));
    if (info.role == Role::Output)
      return made != made_.end() ? typed(*made->second, info) : own(info, shape(info.name));
    const View from = typed(*given->second, info);
    if (info.role == Role::Input) return from;
    View view = made != made_.end() ? typed(*made->second, info) : View();
    if (!view.data || view.shape != from.shape) view = own(info, from.shape);
    if (const std::size_t bytes = bytes_of(view); bytes != 0) std::memcpy(view.data, from.data, bytes);
    return view;
  }
  Shapes shapes() const {
    Shapes all;
    for (const auto& [name, buffer] : given_) all[name].assign(buffer->extents, buffer->extents + buffer->rank);
    return all;
  }

 private:
  using ByName = std::map<std::string, const xla::Buffer*>;
  static void collect(const xla::Buffers& buffers, const Names& names, ByName& by_name) {
    if (buffers.size != static_cast<std::int64_t>(names.size()))
      throw InternalError(fmt::format("XLA passes {} buffers for {}", buffers.size, names.size()));
    for (std::size_t k = 0; k < names.size(); ++k) by_name[names[k]] = buffers.buffers[k];
  }
  View own(const ArgumentInfo& info, const std::vector<std::int64_t>& shape) {
    own_.emplace_back(info.type, shape);
    return own_.back().view();
  }
  static View typed(const xla::Buffer& buffer, const ArgumentInfo& info) {
    if (buffer.type != type_of(info.type))
      throw InternalError(fmt::format("XLA passes '{}' with another type than {}", info.name, name_of(info.type)));
    View view;
    view.data = buffer.data;
    view.type = info.type;
    view.shape.assign(buffer.extents, buffer.extents + buffer.rank);
    return view;
  }

  ByName given_, made_;
  std::vector<HostArray> own_;
};

/// What a call of JAX runs: a program, or the forward and the backward program of a gradient. Any threads may run it.
class Operation {
 public:
  Operation(const Program& program, Executable executable, Names arguments, Names results, Sizes sizes)
      : Operation(program, std::move(arguments), std::move(results), std::move(sizes)) {
    executable_.emplace(std::move(executable));
  }
  Operation(const Gradient& gradient, GradientExecutable executable, Names arguments, Names results, Sizes sizes)
      : Operation(gradient.forward, std::move(arguments), std::move(results), std::move(sizes)) {
    backward_infos_ = arguments_of(gradient.backward);
    first_.emplace(std::move(executable));
    free_.push_back(*first_);
  }

  void run(const xla::Buffers& given, const xla::Buffers& made) {
    Arrays arrays(given, arguments_, made, results_);
    std::optional<Extents> extents;
    const auto shape = [&](const std::string& name) {
      if (!extents) extents = extents_of(program_, arrays.shapes(), sizes_);
      const auto found = extents->shapes.find(name);
      return found != extents->shapes.end() ? found->second : extents->shapes.at(name.substr(2));  // d_y is as y
    };
    Arguments forward, backward;
    for (const ArgumentInfo& info : infos_) forward[info.name] = arrays.of(info, shape);
    if (executable_) return executable_->run(forward, sizes_);
    for (const ArgumentInfo& info : backward_infos_) {
      const auto known = forward.find(info.name);
      backward[info.name] = known != forward.end() ? known->second : arrays.of(info, shape);
    }
    const Lease gradient(*this);
    gradient->forward(forward, sizes_);
    gradient->backward(backward, sizes_);
  }

 private:
  Operation(Program program, Names arguments, Names results, Sizes sizes)
      : program_(std::move(program)),
        infos_(arguments_of(program_)),
        arguments_(std::move(arguments)),
        results_(std::move(results)),
        sizes_(std::move(sizes)) {}

  /// A gradient with a tape of its own for the time of a call.
  class Lease {
   public:
    explicit Lease(Operation& operation) : operation_(operation) {
      const std::lock_guard lock(operation_.mutex_);
      if (operation_.free_.empty()) operation_.free_.push_back(*operation_.first_);
      mine_.emplace(std::move(operation_.free_.back()));
      operation_.free_.pop_back();
    }
    Lease(const Lease&) = delete;
    ~Lease() {
      const std::lock_guard lock(operation_.mutex_);
      operation_.free_.push_back(std::move(*mine_));
    }
    const GradientExecutable* operator->() const { return &*mine_; }

   private:
    Operation& operation_;
    std::optional<GradientExecutable> mine_;
  };

  Program program_;
  std::vector<ArgumentInfo> infos_, backward_infos_;
  Names arguments_, results_;
  Sizes sizes_;
  std::optional<Executable> executable_;     // or
  std::optional<GradientExecutable> first_;  // which others are copies of
  std::vector<GradientExecutable> free_;
  std::mutex mutex_;
};

/// Operations by the name that compiled code of XLA knows them by. Never destroyed: XLA's threads may outlive it.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Operation>, std::less<>> operations;
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

std::shared_ptr<Operation> operation_of(const xla::Attributes& attributes) {
  for (std::int64_t k = 0; k < attributes.size; ++k) {
    if (attributes.types[k] != xla::string_attribute) continue;
    const auto* const text = static_cast<const xla::Text*>(attributes.values[k]);
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().operations.find(std::string_view(text->begin, text->size));
    if (found != registry().operations.end()) return found->second.lock();
  }
  return nullptr;
}

/// What XLA calls. No exception may leave it.
xla::Error* call(xla::CallFrame* frame) {
  for (xla::Extension* e = frame->extensions; e; e = e->next) {
    if (e->type != xla::metadata_extension) continue;
    xla::Version& version = reinterpret_cast<xla::MetadataExtension*>(e)->metadata->version;
    version.major = frame->api->version.major;
    version.minor = frame->api->version.minor;
    return nullptr;
  }
  if (frame->stage != xla::execute_stage) return nullptr;
  const auto failed = [&](int code, const char* message) {
    xla::ErrorArguments error{sizeof(xla::ErrorArguments), nullptr, message, code};
    return frame->api->create_error(&error);
  };
  try {
    const auto operation = operation_of(frame->attributes);
    if (!operation) return failed(xla::not_found, "the operation of loopgrad.jax.op that this calls is gone");
    operation->run(frame->arguments, frame->results);
    return nullptr;
  } catch (const UsageError& error) {
    return failed(xla::invalid_argument, error.what());
  } catch (const Error& error) {
    return failed(error.code() == ErrorCode::OutOfMemory ? xla::resource_exhausted : xla::failed_precondition,
                  error.what());
  } catch (const std::bad_alloc&) {
    return failed(xla::resource_exhausted, "out of memory");
  } catch (const std::exception& error) {
    return failed(xla::internal, error.what());
  }
}

/// Holds the name in the registry for as long as it lives.
std::shared_ptr<Operation> registered(const std::string& name, std::shared_ptr<Operation> operation) {
  const std::lock_guard lock(registry().mutex);
  registry().operations[name] = operation;
  return operation;
}

template <class Made>
std::shared_ptr<Operation> make_operation(const std::string& name, const Made& made, const Names& arguments,
                                          const Names& results, const Sizes& sizes, const nb::kwargs& options) {
  const CompileOptions compiling = options_of(options);
  nb::gil_scoped_release others_may_run;
  return registered(name, std::make_shared<Operation>(made, compile(made, compiling), arguments, results, sizes));
}

}  // namespace

void bind_ffi(nb::module_& m) {
  nb::class_<Operation>(m, "FfiOperation", "What XLA runs while this lives, by its name.");
  const auto bind = [&](auto make) {
    m.def(
        "ffi_operation", make, nb::arg("name"), nb::arg("program"), nb::arg("arguments"), nb::arg("results"),
        nb::arg("sizes"), nb::arg("options"),
        "Compiles what the target `ffi_target` runs where its attribute says this name: a program, or both programs of "
        "a gradient, on arguments and results with these names.");
  };
  bind(&make_operation<Program>);
  bind(&make_operation<Gradient>);
  m.def(
      "ffi_target", [] { return nb::capsule(reinterpret_cast<void*>(&call), "xla._CUSTOM_CALL_TARGET"); },
      "The handler for `jax.ffi.register_ffi_target`.");
}

}  // namespace loopgrad::python
