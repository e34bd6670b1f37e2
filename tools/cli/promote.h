// The same program in another precision: in double, the reference that errors are measured against; in single, what
// shows how large rounding errors are.
#pragma once

#include <loopgrad/program.h>

namespace loopgrad::cli {

/// Every f16, bf16 and f32 array, constant and operation becomes f64; the rest stays.
Program promote_to_f64(const Program& program);
/// Every float array, constant and operation becomes f32; the rest stays.
Program demote_to_f32(const Program& program);

}  // namespace loopgrad::cli
