#include "transforms/storage/forward_elements.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/elements_in_scalars.h"

namespace loopgrad::transforms {

using ir::Stmt;

ir::Program forward_elements(const ir::Program& program) {
  const auto pays = [](const Element& e) { return e.read_in_loop && !e.stored_in_loop; };
  const auto name = [](const Element& e) { return e.array->name + "_now"; };
  // What all threads of a block execute: down to loops that they may share.
  const auto descends = [](const ir::For& loop) { return ir::contains_loop(loop.body); };
  const ScalarElements elements(program);
  const auto in_nest = [&](const Stmt& s) -> std::optional<Stmt> {
    if (s.kind() == ir::Kind::Contraction) return s;
    if (!is_parallel_loop(s)) return std::nullopt;
    const auto& loop = *s.as<ir::For>();
    return with_body(loop, elements.in_scalars(loop.body, {.pays = pays, .name = name, .descends = descends}));
  };
  return ir::with_body(program, ir::rewrite(program.body, {}, in_nest));
}

}  // namespace loopgrad::transforms
