// A Jacobian is a derivative along as many directions as there are elements, each of them a unit vector.
#include "tape/directions.h"
#include "tape/gradient_program.h"

#include "dsl/frontend/out_of_memory.h"
#include "dsl/ir/element_loops.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"

#include <loopgrad/error.h>

namespace loopgrad {
namespace {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

/// seeds[i, j, ..., q] = 1 where element (i, j, ...) is number q, else 0.
Stmt unit_vectors(const Array& seeds) {
  return ir::over_elements(seeds->shape, seeds->location, [&](const std::vector<Expr>& indices) {
    Expr number = ir::int_const(0);
    for (std::size_t d = 0; d + 1 < indices.size(); ++d) number = number * seeds->shape[d] + indices[d];
    const Expr is_it = ir::binary(ir::BinaryOp::Eq, number, indices.back());
    return ir::assign(seeds, indices, ir::select(is_it, ir::const_of(1, seeds->type), ir::const_of(0, seeds->type)),
                      seeds->location);
  });
}

/// A derivative that takes `seeds` and gives `derivative`, made to take unit vectors, which no caller passes.
Program along_unit_vectors(ir::Program program, const std::string& seeds, const std::string& derivative,
                           const std::string& name) {
  const Array taken = ir::find_array(program, seeds), given = ir::find_array(program, derivative);
  const Array result = ir::make_array_like(given, name, given->type, ArrayRole::Output);
  std::map<Array, Array> replaced = {{given, result}};
  if (taken != given) replaced[taken] = ir::make_array_like(taken, seeds, taken->type, ArrayRole::Local);
  const Array units = replaced.at(taken);
  std::erase(program.arrays, taken);
  std::erase(program.arrays, given);
  program.arrays.push_back(result);
  program.body = ir::block({unit_vectors(units), ir::replace_arrays(program.body, replaced)});
  if (units->role == ArrayRole::Local) program.body = ir::allocate(units, program.body, units->location);
  tape::refuse_equal_names(program);
  ir::verify(program, "jacobian");
  return Program(std::make_shared<const ir::Program>(std::move(program)));
}

}  // namespace

Program jacobian(const Program& program, const std::string& of, const std::string& wrt, JacobianMode mode) {
  const GradientOptions options{.wrt = {wrt}, .of = {of}};
  const tape::Request request = tape::resolve_request(program.ir(), options);
  const std::string name = "j_" + of + "_" + wrt;
  return reporting_memory(program.name(), [&] {
    if (mode == JacobianMode::Forward) {
      const ir::Program derivative = tape::tangent_along(program.ir(), options, ir::element_count(request.wrt.front()));
      return along_unit_vectors(derivative, "t_" + wrt, "t_" + of, name);
    }
    tape::refuse_rules(program.ir(), "the adjoint of a custom gradient takes one incoming gradient at a time",
                       "use JacobianMode::Forward");
    Gradient gradient = differentiate(program, options);
    gradient.backward = Program(std::make_shared<const ir::Program>(
        tape::with_adjoints(gradient.backward.ir(), gradient.forward.ir(), ir::element_count(request.of.front()))));
    return along_unit_vectors(joined(gradient).ir(), "g_" + of, "g_" + wrt, name);
  });
}

}  // namespace loopgrad
