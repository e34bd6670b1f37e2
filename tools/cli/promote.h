// The same program in double precision: the reference that errors are measured against.
#pragma once

#include <loopgrad/program.h>

namespace loopgrad::cli {

/// Every f16, bf16 and f32 array, constant and operation becomes f64; the rest stays.
Program promote_to_f64(const Program& program);

}  // namespace loopgrad::cli
