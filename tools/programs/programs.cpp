#include "tools/programs/programs.h"

#include <stdexcept>

namespace loopgrad::programs {

std::vector<ProgramEntry> all() {
  std::vector<ProgramEntry> entries = {
      conv1d(),   matmul(),     mlp(),        softmax(),   heat2d(),  histogram(), embedding(),  gat(),
      cholesky(), recurrence(), conv2d(),     layernorm(), wave3d(),  burgers(),   tanh_chain(), window_attention(),
      lstm(),     csr_sum(),    longformer(), subdivnet(), softras(), march(),     splat(),      gmm(),
      ba(),       xsbench(),    lbm(),        dg(),        lulesh(),  rsbench(),   hand(),       softras_render()};
  for (ProgramEntry& op : ops()) entries.push_back(std::move(op));
  return entries;
}

ProgramEntry named(const std::string& name) {
  for (ProgramEntry& entry : all())
    if (entry.name == name) return entry;
  throw std::out_of_range("there is no program '" + name + "'");
}

}  // namespace loopgrad::programs
