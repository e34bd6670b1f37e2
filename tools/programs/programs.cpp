#include "tools/programs/programs.h"

namespace loopgrad::programs {

std::vector<ProgramEntry> all() {
  return {conv1d(), matmul(), mlp(), softmax(), heat2d(), histogram(), embedding(), gat(), cholesky(), recurrence()};
}

}  // namespace loopgrad::programs
