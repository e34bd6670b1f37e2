#include "backends/runtime/binding.h"
#include "bench/fields/fields.h"
#include "tools/cli/buffers.h"
#include "tools/programs/programs.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <algorithm>
#include <set>

namespace loopgrad::fields {
namespace {

struct TapeSize {
  double bytes = 0;
  std::size_t arrays = 0;
};

/// Of the tape of a program's gradient at its own sizes; runs no more than what counts trips that depend on data.
TapeSize tape_of(const ProgramEntry& entry) {
  const Program program = entry.build();
  const Gradient gradient = differentiate(program, {.wrt = entry.wrt});
  Sizes sizes = entry.sizes;
  if (!gradient.sizing.ir().arrays.empty()) {
    cli::Buffers buffers({gradient.sizing}, entry.sizes, cli::make_inputs(entry, program, entry.sizes, 1), false);
    compile(gradient.sizing, {.target = Target::Interpreter}).run(buffers.arguments(0), entry.sizes);
    for (const ir::Array& array : gradient.sizing.ir().arrays)
      if (array->role == ir::ArrayRole::Output)
        sizes[array->name] = static_cast<std::int64_t>(buffers.at(array->name).get(0));
  }
  backend::SizeValues values;
  for (const ir::Symbol& symbol : gradient.forward.ir().sizes) values[symbol] = sizes.at(symbol.name);
  TapeSize size;
  for (const ir::Array& array : gradient.forward.ir().arrays) {
    if (array->role != ir::ArrayRole::Tape) continue;
    double bytes = static_cast<double>(bytes_of(array->type));
    for (std::int64_t extent : backend::shape_of(array, values)) bytes *= static_cast<double>(extent);
    size.bytes += bytes;
    ++size.arrays;
  }
  return size;
}

}  // namespace

int print_tapes(const std::vector<std::string>& only) {
  std::vector<ProgramEntry> entries = programs::all();
  for (const Field& field : all_fields()) entries.push_back(field.entry);
  for (const ProgramEntry& entry : entries) {
    if (!only.empty() && std::find(only.begin(), only.end(), entry.name) == only.end()) continue;
    const TapeSize size = tape_of(entry);
    fmt::print("{:24} {:12.3f} MiB {:4}\n", entry.name, size.bytes / (1 << 20), size.arrays);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace loopgrad::fields
