// Elements have the types of the language: unsigned ones would be read as signed.
#include <loopgrad/program.h>

namespace lg = loopgrad;

void record(lg::ProgramBuilder& p) {
#ifdef GOOD
  p.input<int>("x", {3});
#else
  p.input<unsigned>("x", {3});
#endif
}
