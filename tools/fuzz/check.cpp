#include "tools/fuzz/check.h"

#include "backends/cuda/emitter.h"
#include "backends/cuda/index_width.h"
#include "backends/interpreter/interpreter.h"
#include "tools/support/random.h"
#include "transforms/cpu/map_to_cpu.h"
#include "transforms/gpu/map_to_gpu.h"
#include "transforms/pipeline.h"

#include <loopgrad/compile.h>
#include <loopgrad/error.h>

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace loopgrad::fuzz {
namespace {

constexpr double kTolerance = 1e-8;  // of f64, relative to the largest number of its kind
constexpr int kDirections = 24;

struct Disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool is_active(const ir::Array& array) { return is_float(array->type); }

HostArray copy_of(const HostArray& array) {
  HostArray copy(array.type(), array.shape());
  if (array.bytes() > 0) std::memcpy(copy.data(), array.data(), static_cast<std::size_t>(array.bytes()));
  return copy;
}

Arrays copy_of(const Arrays& arrays) {
  Arrays copy;
  for (const auto& [name, array] : arrays) copy.emplace(name, copy_of(array));
  return copy;
}

/// Random numbers in the shape of an array; a new one for every name and seed.
HostArray random_like(const HostArray& array, const std::string& name, std::uint64_t seed) {
  for (char letter : name) seed = seed * 131 + static_cast<unsigned char>(letter);
  tools::Random random(seed);
  HostArray result(array.type(), array.shape());
  for (std::int64_t i = 0; i < result.size(); ++i) result.set(i, random.uniform(-1, 1));
  return result;
}

double dot(const HostArray& a, const HostArray& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

backend::SizeValues values_of(const ir::Program& program, const Sizes& sizes) {
  backend::SizeValues values;
  for (const ir::Symbol& size : program.sizes) values[size] = sizes.at(size.name);
  return values;
}

/// Runs a program in the checked interpreter on arrays by name; results and missing arrays are put among them.
void run(const ir::Program& program, Arrays& arrays, const Sizes& sizes, std::uint64_t seed,
         backend::ValueStack* stack = nullptr) {
  const backend::SizeValues values = values_of(program, sizes);
  Arguments arguments;
  for (const ir::Array& array : program.arrays) {
    if (!arrays.contains(array->name)) {
      const ScalarType type = is_active(array) ? ScalarType::F64 : array->type;
      arrays.emplace(array->name, HostArray(type, backend::shape_of(array, values)));
    }
    arguments[array->name] = arrays.at(array->name).view();
  }
  const auto binding = backend::bind(program, arguments, sizes, {.ignore_unknown = false, .all_f64 = true});
  backend::interpret(program, binding, {.f64 = true, .checked = true, .seed = seed}, stack);
}

/// What is executed: the program as the user or `differentiate` wrote it, or as a backend gets it.
enum class Form { AsWritten, Cpu, Gpu };

ir::Program formed(const ir::Program& program, Form form, transforms::SumMode mode, const Sizes& sizes) {
  Report report;
  if (form == Form::AsWritten) return program;
  if (form == Form::Cpu) return transforms::map_to_cpu(transforms::lower(program, mode, report));
  const ir::Program lowered = transforms::lower(program, mode, report, {{}, {}, transforms::gpu_tree_blocks});
  // A few threads fill the device that this is for: small programs are mapped as large ones are.
  const ir::Program mapped = transforms::map_to_gpu(lowered, {.threads_per_block = 32, .enough_threads = 4});
  // What a GPU needs beyond the program must not fail, but for what is refused at the user's line.
  try {
    backend::emit_cuda({mapped});
  } catch (const CompileError&) {
    return mapped;
  }
  if (backend::may_have_narrow_indices(mapped)) backend::has_narrow_indices(mapped, values_of(mapped, sizes));
  return mapped;
}

struct Direction {
  Arrays tangents;        // t_<x> for every float input and in-out
  double derivative = 0;  // of <incoming, outputs>, by forward mode
  std::string name;
};

class Checker {
 public:
  Checker(const Case& c, const CheckOptions& options) : case_(c), options_(options), program_(c.program.ir()) {}

  Outcome run_all() {
    Outcome outcome;
    try {
      primal();
      lowered_primal();
      forward_mode();
      for (const Variant variant : {Variant::NaiveTape, Variant::Atomic, Variant::Restructured}) gradient(variant);
      if (options_.openmp) openmp();
    } catch (const DifferentiationError& error) {
      outcome.refusal = error.what();
    } catch (const std::exception& error) {
      outcome.failure = Failure{stage_, error.what()};
    }
    outcome.largest_derivative = largest_;
    return outcome;
  }

 private:
  // ---- references ----

  void primal() {
    stage_ = "primal";
    inputs_ = make_arrays(case_, true);
    outputs_ = copy_of(inputs_);
    run(program_, outputs_, case_.sizes, 1);
    for (const auto& [name, array] : outputs_) {
      for (std::int64_t i = 0; i < array.size(); ++i) {
        if (!std::isfinite(array.get(i))) throw Disagreement("'" + name + "' is not finite");
      }
    }
    for (const ir::Array& array : program_.arrays) {
      if (!is_active(array) || array->role == ir::ArrayRole::Input) continue;
      incoming_["d_" + array->name] = random_like(outputs_.at(array->name), array->name, case_.seed + 1);
    }
  }

  void lowered_primal() {
    using transforms::SumMode;
    const std::pair<SumMode, const char*> modes[] = {
        {SumMode::Serial, "serial"}, {SumMode::Atomic, "atomic"}, {SumMode::Restructured, "restructured"}};
    for (const auto& [mode, name] : modes) {
      stage_ = fmt::format("primal, lowered ({})", name);
      for (const Form form : {Form::Cpu, Form::Gpu}) {
        if (form == Form::Gpu && mode == SumMode::Serial) continue;
        Arrays arrays = copy_of(inputs_);
        run(formed(program_, form, mode, case_.sizes), arrays, case_.sizes, case_.seed + 7);
        expect_outputs(arrays);
      }
    }
  }

  void forward_mode() {
    stage_ = "tangent";
    const Program program = tangent(case_.program);
    std::vector<std::pair<std::string, std::int64_t>> elements;
    for (const ir::Array& array : program_.arrays) {
      if (!is_active(array) || array->role == ir::ArrayRole::Output) continue;
      for (std::int64_t i = 0; i < inputs_.at(array->name).size(); ++i) elements.emplace_back(array->name, i);
    }
    tools::Random random(case_.seed + 3);
    for (std::size_t i = elements.size(); i > 1; --i)
      std::swap(elements[i - 1], elements[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    if (elements.size() > kDirections) elements.resize(kDirections);
    for (int i = 0; i < 2; ++i) add_direction(program.ir(), "a random direction", {}, static_cast<std::uint64_t>(i));
    for (const auto& element : elements)
      add_direction(program.ir(), fmt::format("{}[{}]", element.first, element.second), element, 0);
  }

  /// The direction of one element, or a random one when `element` names no array.
  void add_direction(const ir::Program& program, std::string name, const std::pair<std::string, std::int64_t>& element,
                     std::uint64_t seed) {
    Direction direction;
    direction.name = std::move(name);
    for (const ir::Array& array : program_.arrays) {
      if (!is_active(array) || array->role == ir::ArrayRole::Output) continue;
      const HostArray& input = inputs_.at(array->name);
      HostArray t = element.first.empty() ? random_like(input, array->name, case_.seed + 11 + seed)
                                          : HostArray(input.type(), input.shape());
      if (element.first == array->name) t.set(element.second, 1);
      direction.tangents["t_" + array->name] = std::move(t);
    }
    Arrays arrays = copy_of(inputs_);
    for (const auto& [t, array] : direction.tangents) arrays["t_" + t.substr(2)] = copy_of(array);
    run(program, arrays, case_.sizes, 1);
    expect_outputs(arrays);
    for (const auto& [d, array] : incoming_) direction.derivative += dot(array, arrays.at("t_" + d.substr(2)));
    if (!std::isfinite(direction.derivative))
      throw Disagreement("the derivative along " + direction.name + " is not finite");
    largest_ = std::max(largest_, std::abs(direction.derivative));
    directions_.push_back(std::move(direction));
  }

  // ---- gradients ----

  void gradient(Variant variant) {
    using transforms::SumMode;
    stage_ = fmt::format("{}: differentiate", name_of(variant));
    const Gradient gradient = differentiate(case_.program, {.variant = variant});
    const SumMode mode = variant == Variant::NaiveTape ? SumMode::Serial
                         : variant == Variant::Atomic  ? SumMode::Atomic
                                                       : SumMode::Restructured;
    const Sizes sizes = sizes_of(gradient, variant);
    const std::pair<Form, const char*> forms[] = {
        {Form::AsWritten, ""}, {Form::Cpu, ", for a CPU"}, {Form::Gpu, ", for a GPU"}};
    for (const auto& [form, label] : forms) {
      const Form own = form;
      if (form == Form::Gpu && mode == SumMode::Serial) continue;  // a stack is one thread's
      const auto program_of = [&](const Program& program) { return formed(program.ir(), own, mode, sizes); };
      backend::ValueStack stack;
      Arrays arrays = copy_of(inputs_);
      stage_ = fmt::format("{}: forward{}", name_of(variant), label);
      run(program_of(gradient.forward), arrays, sizes, case_.seed + 13, &stack);
      expect_outputs(arrays);
      stage_ = fmt::format("{}: backward{}", name_of(variant), label);
      for (const auto& [name, array] : incoming_) arrays[name] = copy_of(array);
      run(program_of(gradient.backward), arrays, sizes, case_.seed + 17, &stack);
      if (!stack.entries.empty()) throw Disagreement("values are left on the stack");
      expect_gradient(arrays);
    }
  }

  Sizes sizes_of(const Gradient& gradient, Variant variant) {
    Sizes sizes = case_.sizes;
    if (ir::is_empty(gradient.sizing.ir().body)) return sizes;
    stage_ = fmt::format("{}: sizing", name_of(variant));
    Arrays arrays = copy_of(inputs_);
    run(gradient.sizing.ir(), arrays, sizes, 1);
    for (const ir::Array& array : gradient.sizing.ir().arrays) {
      if (array->role == ir::ArrayRole::Output)
        sizes[array->name] = static_cast<std::int64_t>(arrays.at(array->name).get(0));
    }
    return sizes;
  }

  // ---- compiled ----

  Arrays run_compiled(Variant variant, int threads) {
    stage_ = fmt::format("{}: openmp, {} threads", name_of(variant), threads);
    const auto executable =
        compile_gradient(case_.program, {.variant = variant}, {.target = Target::OpenMP, .threads = threads});
    Arrays arrays = make_arrays(case_, false);
    for (const auto& [name, array] : incoming_) arrays[name] = copy_of(array);
    const auto arguments = [&](const ir::Program& program) {
      Arguments result;
      backend::SizeValues values;
      for (const ir::Symbol& size : program.sizes) {
        if (case_.sizes.contains(size.name)) values[size] = case_.sizes.at(size.name);
      }
      for (const ir::Array& array : program.arrays) {
        if (array->role == ir::ArrayRole::Tape) continue;
        if (!arrays.contains(array->name))
          arrays.emplace(array->name, HostArray(array->type, backend::shape_of(array, values)));
        result[array->name] = arrays.at(array->name).view();
      }
      return result;
    };
    executable.forward(arguments(executable.gradient().forward.ir()), case_.sizes);
    expect_outputs(arrays);
    executable.backward(arguments(executable.gradient().backward.ir()), case_.sizes);
    expect_gradient(arrays);
    return arrays;
  }

  void openmp() {
    run_compiled(Variant::Atomic, 2);
    const Arrays one = run_compiled(Variant::Restructured, 1);
    const Arrays two = run_compiled(Variant::Restructured, 2);
    for (const auto& [name, array] : one) {
      const HostArray& other = two.at(name);
      if (array.bytes() > 0 && std::memcmp(array.data(), other.data(), static_cast<std::size_t>(array.bytes())) != 0)
        throw Disagreement("'" + name + "' depends on the number of threads");
    }
  }

  // ---- comparisons ----

  void expect_outputs(const Arrays& arrays) const {
    for (const auto& [name, expected] : outputs_) {
      double scale = 1e-3;
      for (std::int64_t i = 0; i < expected.size(); ++i) scale = std::max(scale, std::abs(expected.get(i)));
      for (std::int64_t i = 0; i < expected.size(); ++i) {
        const double value = arrays.at(name).get(i);
        if (!(std::abs(value - expected.get(i)) <= kTolerance * scale))
          throw Disagreement(fmt::format("'{}' element {} is {}, not {}", name, i, value, expected.get(i)));
      }
    }
  }

  void expect_gradient(const Arrays& arrays) const {
    for (const Direction& direction : directions_) {
      double value = 0;
      for (const auto& [t, array] : direction.tangents) value += dot(arrays.at("d_" + t.substr(2)), array);
      if (!(std::abs(value - direction.derivative) <= kTolerance * (1e-3 + largest_)))
        throw Disagreement(
            fmt::format("the derivative along {} is {}, not {}", direction.name, value, direction.derivative));
    }
  }

  const Case& case_;
  CheckOptions options_;
  const ir::Program& program_;
  std::string stage_;
  Arrays inputs_, outputs_, incoming_;
  std::vector<Direction> directions_;
  double largest_ = 0;  // derivative
};

}  // namespace

Outcome check(const Case& c, const CheckOptions& options) { return Checker(c, options).run_all(); }

}  // namespace loopgrad::fuzz
