#include "transforms/storage/update_once.h"

#include "transforms/analysis/nest.h"
#include "transforms/storage/elements_in_scalars.h"

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

bool is_plain(const Stmt& body) {
  bool plain = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    plain &= s.kind() == ir::Kind::Block || s.kind() == ir::Kind::If || s.kind() == ir::Kind::Allocate ||
             s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce || s.kind() == ir::Kind::For;
  });
  return plain;
}

}  // namespace

Stmt update_once(const ir::Program& program, const Stmt& body) {
  if (!is_plain(body)) return body;
  const auto pays = [](const Element& e) { return e.stores > 1 || e.stored_in_loop; };
  const auto name = [](const Element& e) { return e.array->name + "_now"; };
  const auto descends = [](const ir::For&) { return false; };
  const ScalarPolicy policy = {.pays = pays, .name = name, .descends = descends, .whole_blocks = true};
  return ScalarElements(program).in_scalars(body, policy);
}

}  // namespace loopgrad::transforms
