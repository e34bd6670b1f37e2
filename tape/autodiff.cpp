#include <loopgrad/autodiff.h>

#include "dsl/ir/verifier.h"
#include "tape/direct_tape.h"
#include "tape/naive_tape.h"

namespace loopgrad {
namespace {

Program share(ir::Program program) { return Program(std::make_shared<const ir::Program>(std::move(program))); }

}  // namespace

const char* name_of(Variant variant) {
  switch (variant) {
    case Variant::NaiveTape: return "naive-tape";
    case Variant::Atomic: return "atomic";
    case Variant::Restructured: return "restructured";
  }
  return "?";
}

Gradient differentiate(const Program& program, const GradientOptions& options) {
  const tape::Prepared prepared = tape::prepare(program.ir(), options);
  Report report;
  ir::Program sizing{program.name() + "_sizing", program.ir().sizes, {}, {}, ir::block({}), program.ir().location};
  ir::Program forward = prepared.program;
  forward.name += "_forward";
  ir::Program backward;
  if (options.variant == Variant::NaiveTape) {
    const tape::Sweeps sweeps = tape::naive_sweeps(prepared, report);
    forward.body = sweeps.forward;
    backward = tape::backward_program(prepared, sweeps.backward, {}, {});
  } else {
    const tape::DirectGradient direct = tape::direct_gradient(prepared, report);
    sizing = direct.sizing;
    forward.body = direct.forward;
    forward.sizes.insert(forward.sizes.end(), direct.sizes.begin(), direct.sizes.end());
    forward.arrays.insert(forward.arrays.end(), direct.tape.begin(), direct.tape.end());
    backward = tape::backward_program(prepared, direct.backward, direct.tape, direct.sizes);
  }
  ir::verify(sizing, "differentiate");
  ir::verify(forward, "differentiate");
  ir::verify(backward, "differentiate");
  return {share(std::move(sizing)), share(std::move(forward)), share(std::move(backward)), options.variant,
          std::move(report)};
}

}  // namespace loopgrad
