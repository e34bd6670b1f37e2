#include "transforms/storage/accumulate_in_registers.h"

#include "transforms/storage/elements_in_scalars.h"

namespace loopgrad::transforms {
namespace {

std::string name_of(const Element& e) {
  static const char* const suffixes[] = {"_sum", "_product", "_min", "_max"};
  return e.array->name + (e.sums.size() == 1 ? suffixes[static_cast<int>(*e.sums.begin())] : "_now");
}

}  // namespace

ir::Program accumulate_in_registers(const ir::Program& program) {
  if (!program.body) return program;
  const auto pays = [](const Element& e) { return e.stored_in_loop && !e.in_parallel_loop; };
  const auto descends = [](const ir::For&) { return true; };
  const ScalarPolicy policy = {.pays = pays, .name = name_of, .descends = descends, .data_bounds = true};
  return ir::with_body(program, ScalarElements(program).in_scalars(program.body, policy));
}

}  // namespace loopgrad::transforms
