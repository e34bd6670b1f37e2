#include "tools/fuzz/execution.h"

#include "backends/cuda/emitter.h"
#include "backends/cuda/index_width.h"
#include "tools/support/random.h"
#include "transforms/pass/pass.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <cstring>

namespace loopgrad::fuzz {

HostArray copy_of(const HostArray& array) {
  HostArray copy(array.type(), array.shape());
  if (array.bytes() > 0) std::memcpy(copy.data(), array.data(), static_cast<std::size_t>(array.bytes()));
  return copy;
}

Arrays copy_of(const Arrays& arrays) {
  Arrays copy;
  std::map<const void*, HostArray> copied;
  for (const auto& [name, array] : arrays) {
    const auto [known, is_new] = copied.try_emplace(array.data());
    if (is_new) known->second = copy_of(array);
    copy.emplace(name, known->second);
  }
  return copy;
}

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

void run(const ir::Program& program, Arrays& arrays, const Sizes& sizes, const Interpretation& how,
         backend::ValueStack* stack) {
  const backend::SizeValues values = values_of(program, sizes);
  Arguments arguments;
  for (const ir::Array& array : program.arrays) {
    if (!arrays.contains(array->name)) {
      const ScalarType type = how.f64 && is_float(array->type) ? ScalarType::F64 : array->type;
      arrays.emplace(array->name, HostArray(type, backend::shape_of(array, values)));
    }
    arguments[array->name] = arrays.at(array->name).view();
  }
  const auto binding = backend::bind(program, arguments, sizes, {.ignore_unknown = false, .all_f64 = how.f64});
  backend::interpret(program, binding, {.f64 = how.f64, .checked = how.checked, .seed = how.seed}, stack);
}

void run_noting(const ir::Program& program, const ir::Program& written, Arrays& arrays, const Sizes& sizes,
                const Interpretation& how, backend::ValueStack* stack) {
  std::vector<std::string> records;
  for (const ir::Array& array : program.arrays) {
    if (ir::find_array(written, array->name)) continue;
    records.push_back(array->name);
    HostArray& record =
        arrays.emplace(array->name, HostArray(ScalarType::I64, backend::shape_of(array, {}))).first->second;
    for (std::int64_t i = 0; i < record.size(); ++i) record.set(i, double(transforms::nothing_recorded));
  }
  run(program, arrays, sizes, how, stack);
  for (const std::string& name : records) {
    const HostArray record = arrays.at(name);
    arrays.erase(name);  // another program has its own of that name
    for (std::int64_t i = 0; name.starts_with("indices") && i < record.size(); ++i)
      if (record.get(i) != double(transforms::nothing_recorded))
        throw Disagreement(fmt::format("'{}[{}]' notes an index that is inside of its array", name, i));
  }
}

Sizes all_sizes(const Gradient& gradient, const Arrays& inputs, const Sizes& sizes, const Interpretation& how) {
  Sizes all = sizes;
  const ir::Program& sizing = gradient.sizing.ir();
  if (ir::is_empty(sizing.body)) return all;
  Arrays arrays = copy_of(inputs);
  run(sizing, arrays, sizes, how);
  for (const ir::Array& array : sizing.arrays)
    if (array->role == ir::ArrayRole::Output)
      all[array->name] = static_cast<std::int64_t>(arrays.at(array->name).get(0));
  return all;
}

const char* label(Form form) {
  switch (form) {
    case Form::AsWritten: return ", not lowered";
    case Form::Cpu: return " for a CPU";
    case Form::Gpu: return " for a GPU";
    case Form::WideGpu: return " for a wide GPU";
  }
  return "";
}

transforms::LowerOptions on_machine(Form form, const Sizes& sizes, transforms::LowerOptions options) {
  if (form != Form::Cpu) options.machine = transforms::gpu_machine();
  transforms::Machine& machine = options.machine;
  machine.least_scanned = machine.least_piece = 2;
  if (form == Form::Cpu) return options;
  machine.enough_threads = 4;
  machine.scan_tile = 32;
  options.threads_per_block = 32;
  if (form == Form::WideGpu) {
    machine.enough_threads = 2 * 1024;  // more than a size that nobody states
    machine.block_threads = 1;
  }
  // Half of them sort slowly, where sums are in whole numbers wherever they can be.
  std::int64_t all_sizes = 0;
  for (const auto& [name, size] : sizes) all_sizes += size;
  if (all_sizes % 2 != 0) machine.ns_per_sorted_key = 1e12;
  return options;
}

ir::Program formed(const ir::Program& program, Form form, const Sizes& sizes, transforms::LowerOptions options) {
  Report report;
  if (form == Form::AsWritten) return program;
  options = on_machine(form, sizes, std::move(options));
  // A schedule names the loops that the passes before it make.
  for (const transforms::Pass& pass : transforms::passes(options)) {
    if (options.schedule.empty() || pass.name == std::string("apply_schedule")) break;
    options.skip.erase(pass.name);
  }
  const ir::Program mapped = transforms::lower_for(program, options, report).program;
  if (form == Form::Cpu) return mapped;
  // What a GPU needs beyond the program must not fail, but for what is refused at the user's line.
  try {
    backend::emit_cuda({mapped});
  } catch (const CompileError&) {
    return mapped;
  }
  if (backend::may_have_narrow_indices(mapped)) backend::has_narrow_indices(mapped, values_of(mapped, sizes));
  return mapped;
}

Program renamed(const Program& program, const std::string& name) {
  ir::Program copy = program.ir();
  copy.name = name;
  return Program(std::make_shared<const ir::Program>(std::move(copy)));
}

}  // namespace loopgrad::fuzz
