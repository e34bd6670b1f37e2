#include "backends/openmp/local_memory.h"

namespace loopgrad::backend {

const std::string& LocalMemory::name_of(const ir::Array& array) {
  std::string& name = names_[array];
  if (name.empty()) name = state_.names.fresh(state_.names.of(array) + "_memory");
  return name;
}

void LocalMemory::reserve(const ir::Array& array, bool per_thread) {
  state_.helpers.insert(Helper::Scratch);
  const std::string& memory = name_of(array);
  code_.line("Scratch<{}> {}(workspace, {});", storage_cpp_type(array), memory, blocks_.size());
  blocks_.push_back({array, per_thread});
  code_.line("if (!{}.reserve({}, {{{}}})) return loopgrad_out_of_memory;", memory, per_thread ? "threads" : "1",
             extents(array));
}

void LocalMemory::declare_pointer(const ir::Array& array, const char* part) {
  const char* const type = storage_cpp_type(array);
  code_.line("{}* const {} = {}.part({});", type, state_.names.of(array), name_of(array), part);
}

std::string LocalMemory::extents(const ir::Array& array) {
  std::string out;
  for (const ir::Expr& extent : array->shape) {
    const bool is_plain = ir::as_int(extent) || extent.kind() == ir::Kind::Var;
    out += (out.empty() ? "" : ", ") + (is_plain ? argument_text(extent, state_) : checked_text(extent));
  }
  return out;
}

/// The sums and products at the top as operations on `Extent`, which notice when they wrap around.
std::string LocalMemory::checked_text(const ir::Expr& e) {
  const auto* n = e.as<ir::Binary>();
  const bool wraps = n && (n->op == ir::BinaryOp::Add || n->op == ir::BinaryOp::Sub || n->op == ir::BinaryOp::Mul);
  if (!wraps || ir::as_int(e)) return text_of(e, state_);
  const char* const op = n->op == ir::BinaryOp::Add ? "+" : n->op == ir::BinaryOp::Sub ? "-" : "*";
  const std::string right = checked_text(n->b);
  const bool is_word = right.find(' ') == std::string::npos;
  return fmt::format("Extent({}) {} {}", checked_text(n->a), op, is_word ? right : "(" + right + ")");
}

}  // namespace loopgrad::backend
