#include "backends/cuda/local_arrays.h"

#include "dsl/ir/queries.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

void LocalArrays::declare(const Allocate& n, bool in_thread) {
  const Array& array = n.array;
  if (n.home != Home::Block && n.home != Home::Thread)
    throw InternalError("local array '" + array->name + "' of a kernel has no place in it");
  const bool of_thread = n.home == Home::Thread;
  CodeText& code = scope_.code;
  const char* const type = storage_cpp_type(array);
  const std::string& name = scope_.state.names.of(array);
  const auto element_bytes = static_cast<std::int64_t>(bytes_of(array->type));
  const auto bytes = constant_bytes(array);
  if (!of_thread && frame_.kernel.teams) {
    declare_of_team(array);
  } else if (array->shape.empty()) {
    code.line("{}{} {};", of_thread ? "" : "__shared__ ", type, name);
  } else if (of_thread && !in_thread) {
    code.line("{} {}[{}];", type, name, *bytes / element_bytes);
  } else if (!n.largest.empty()) {
    declare_memory(n);
  } else if (bytes) {
    // Where rows are whole accesses of 16 bytes, the compiler may read several elements in one.
    const auto row = array->shape.size() > 1 ? as_int(array->shape.back()) : std::nullopt;
    const char* const shared = row && *row * element_bytes % 16 == 0 ? "__shared__ __align__(16) " : "__shared__ ";
    code.line("{}{} {}[{}];", of_thread ? "" : shared, type, name, std::max<std::int64_t>(*bytes / element_bytes, 1));
  } else {
    throw CompileError({.code = ErrorCode::CompileFailed,
                        .message = "the extent of this local array depends on data",
                        .program = program_.name,
                        .array = array->name,
                        .hint = "declare the array with its largest extent, or use Target::OpenMP",
                        .location = array->location});
  }
}

/// Each team has its own.
void LocalArrays::declare_of_team(const Array& array) {
  const char* const type = storage_cpp_type(array);
  const std::string& name = scope_.state.names.of(array);
  const std::string all = scope_.state.names.fresh(array->name + "_of_teams");
  const std::int64_t elements =
      std::max<std::int64_t>(*constant_bytes(array) / static_cast<std::int64_t>(bytes_of(array->type)), 1);
  const char* const kind = array->shape.empty() ? "&" : "* const";
  scope_.code.line("__shared__ {} {}[{}];", type, all, most_teams() * elements);
  scope_.code.line("{}{} {} = {}[threadIdx.y * {}];", type, kind, name, array->shape.empty() ? all : "&" + all,
                   elements);
}

std::int64_t LocalArrays::most_teams() const {
  const Expr& teams = frame_.kernel.teams;
  const auto* choice = teams.as<Select>();  // where sizes decide
  return choice ? std::max(as_int(choice->a).value(), as_int(choice->b).value()) : as_int(teams).value();
}

void LocalArrays::declare_memory(const Allocate& n) {
  const Array& array = n.array;
  const bool of_thread = n.home == Home::Thread;
  const char* const type = storage_cpp_type(array);
  NameTable& names = scope_.state.names;
  const std::string name = names.of(array), memory = names.fresh(array->name + "_memory"),
                    part = names.fresh(array->name + "_part");
  frame_.kernel.locals.push_back({array, memory, part, n.largest, of_thread});
  need_block_number();
  if (of_thread) {
    scope_.code.line("{}* const {} = {} + thread_number * {};", type, name, memory, part);
    return;
  }
  need_dynamic_shared();
  scope_.code.line("{0}* const {1} = {2} ? {2} + block_number * {3}", type, name, memory, part);
  scope_.code.line("    : reinterpret_cast<{}*>(dynamic_shared + {});", type, part);
}

void LocalArrays::need_block_number() {
  if (has_block_number_) return;
  has_block_number_ = true;
  preamble_ +=
      "  const int64_t block_number = blockIdx.x + int64_t(gridDim.x) * (blockIdx.y + int64_t(gridDim.y) * "
      "blockIdx.z);\n"
      "  const int64_t thread_number = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (threadIdx.z + "
      "blockDim.z * block_number));\n";
}

void LocalArrays::need_dynamic_shared() {
  if (has_dynamic_shared_) return;
  has_dynamic_shared_ = true;
  preamble_ += "  extern __shared__ __align__(16) unsigned char dynamic_shared[];\n";
}

}  // namespace loopgrad::backend
