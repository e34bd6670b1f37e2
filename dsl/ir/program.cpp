#include "dsl/ir/program.h"

#include <algorithm>

namespace loopgrad::ir {

const char* name_of(FactKind kind) {
  switch (kind) {
    case FactKind::InRange: return "in_range";
    case FactKind::Sorted: return "sorted";
    case FactKind::Injective: return "injective";
    case FactKind::CsrPointer: return "csr";
    case FactKind::MayAlias: return "may_alias";
    case FactKind::ReadUpTo: return "read_up_to";
    case FactKind::Distinct: return "distinct";
  }
  return "?";
}

bool is_about_data(FactKind kind) {
  return kind != FactKind::MayAlias && kind != FactKind::ReadUpTo && kind != FactKind::Distinct;
}

Array find_array(const Program& program, const std::string& name) {
  for (const Array& array : program.arrays) {
    if (array->name == name) return array;
  }
  return nullptr;
}

std::string free_name(const Program& program, std::string wish) {
  const auto taken = [&] {
    return find_array(program, wish) || std::any_of(program.sizes.begin(), program.sizes.end(),
                                                    [&](const Symbol& size) { return size.name == wish; });
  };
  while (taken()) wish += "_";
  return wish;
}

Program with_body(const Program& program, Stmt body) {
  Program result = program;
  result.body = std::move(body);
  return result;
}

}  // namespace loopgrad::ir
