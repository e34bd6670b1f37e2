// A visitor that forgets a node must not compile, and the compiler's message must name the node.
#include "dsl/ir/visit.h"

using namespace loopgrad::ir;

int count(const Expr& e) {
  return visit(e,
               overloaded{[](const IntConst&) { return 1; }, [](const FloatConst&) { return 2; },
                          [](const Var&) { return 3; }, [](const Load&) { return 4; }, [](const Unary&) { return 5; },
                          [](const Binary&) { return 6; }, [](const Fma&) { return 9; },
#ifdef GOOD
                          [](const Select&) { return 7; },
#endif
                          [](const Cast&) { return 8; }});
}
