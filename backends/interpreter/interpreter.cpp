#include "backends/interpreter/interpreter.h"

#include "backends/interpreter/machine.h"
#include "backends/interpreter/stmt_compiler.h"

namespace loopgrad::backend {

void interpret(const ir::Program& program, const Binding& binding, const InterpreterOptions& options,
               ValueStack* stack) {
  interpreter::Machine machine(program, binding, options, stack);
  if (options.checked) interpreter::verify_facts(machine);
  interpreter::compile_body(machine)->run();
}

void verify_facts(const ir::Program& program, const Binding& binding) {
  interpreter::Machine machine(program, binding, {}, nullptr);
  interpreter::verify_facts(machine);
}

}  // namespace loopgrad::backend
