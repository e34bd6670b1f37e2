// A recorded condition is no C++ condition: `if` on one must not compile.
#include <loopgrad/program.h>

namespace lg = loopgrad;

void record(lg::ProgramBuilder& p, lg::ArrayHandle x) {
#ifdef GOOD
  p.when(x(0) > 0, [&] { x(0) = 1; });
#else
  if (x(0) > 0) x(0) = 1;
  (void)p;
#endif
}
