#include "backends/openmp/local_memory.h"

namespace loopgrad::backend {

const std::string& LocalMemory::name_of(const ir::Array& array) {
  std::string& name = names_[array];
  if (name.empty()) name = state_.names.fresh(state_.names.of(array) + "_memory");
  return name;
}

void LocalMemory::reserve(const ir::Array& array, const char* parts) {
  state_.helpers.insert(Helper::Scratch);
  const std::string& memory = name_of(array);
  code_.line("Scratch<{}> {}(workspace, {});", storage_cpp_type(array->type), memory, blocks_++);
  code_.line("if (!{}.reserve({}, {{{}}})) return loopgrad_out_of_memory;", memory, parts, extents(array));
}

void LocalMemory::declare_pointer(const ir::Array& array, const char* part) {
  const char* const type = storage_cpp_type(array->type);
  code_.line("{}* const {} = {}.part({});", type, state_.names.of(array), name_of(array), part);
}

std::string LocalMemory::extents(const ir::Array& array) {
  std::string out;
  for (const ir::Expr& extent : array->shape) out += (out.empty() ? "" : ", ") + argument_text(extent, state_);
  return out;
}

}  // namespace loopgrad::backend
