// What tests of parts of passes share.
#pragma once

#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/model.h"
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {

/// The first statement of that kind in textual order, also inside others.
template <class Node>
ir::Stmt first(const ir::Stmt& s, std::size_t skip = 0) {
  ir::Stmt found;
  ir::walk_stmts(s, [&](const ir::Stmt& at) {
    if (!found && at.as<Node>() && skip-- == 0) found = at;
  });
  return found;
}

/// `body`, in place of the program's, prints as `text` does.
inline void expect_body(const ir::Program& program, const ir::Stmt& body, const std::string& declarations,
                        const std::string& text) {
  const ir::Program result = ir::with_body(program, body);
  ir::verify(result, "a part of a pass");
  EXPECT_EQ(ir::print(result), ir::print(program_of(declarations, text)));
}

inline poly::Model model_of(const ir::Program& program) {
  return poly::build_model(program, program.body, std::make_shared<poly::Context>());
}

}  // namespace loopgrad::transforms
