// Readable, self-contained CUDA C++ from programs that transforms::map_to_gpu has mapped.
#pragma once

#include "backends/cuda/index_width.h"
#include "dsl/ir/program.h"

#include <loopgrad/report.h>

#include <string>
#include <vector>

namespace loopgrad::backend {

/// A local array of a kernel whose memory comes with the launch: one part for each block, or for each thread.
///
/// Its two parameters are a pointer and an int64_t. Pointer not null: part k begins at `pointer + k * number`
/// (elements). Pointer null (blocks only): the array begins at byte `number` of the block's dynamic shared memory.
struct KernelLocal {
  ir::Array array;
  std::string memory, part;     // the two parameters
  std::vector<ir::Expr> shape;  // of symbols around the kernel
  bool per_thread = false;
};

/// One __global__ function. Its parameters, in this order: the symbols (index_t), the arrays (pointers), the locals
/// (two each), and for a program that pushes or pops the stack: bytes (unsigned char*), capacity (int64_t) and state
/// (int64_t[2]: size and peak; on return the size that was wanted may exceed the capacity, or be negative when more was
/// popped than pushed; what was computed then is void).
struct CudaKernel {
  std::string name;
  const ir::StmtNode* node = nullptr;  // the statement that it executes
  std::vector<ir::Symbol> symbols;
  std::vector<ir::Array> arrays;     // arguments, tapes and locals of the host
  std::vector<std::size_t> written;  // those of `arrays` that it changes, by number
  std::vector<KernelLocal> locals;
  std::vector<const ir::For*> grid;  // outermost first; the last two are blockIdx.y and x, the others share z
  std::vector<ir::Expr> threads;     // extents of the block, x first; empty: one thread
  ir::Expr teams;                    // so many of these share a block, along y; null: one
  bool uses_stack = false;
};

struct CudaUnit {
  bool any_form = false;  // else there is only KernelForm::Wide
  std::string prelude, definitions;
  std::vector<std::vector<CudaKernel>> kernels;  // of each program; what the host does around them is in its IR

  /// The forms with 32 bits are for sizes that `has_narrow_indices`.
  std::string source(KernelForm form = KernelForm::Wide) const;
};

/// `programs` must outlive the result, which points into their IR. `reasons`: why the kernels of each program look as
/// they do; those of a kernel's line stand above it as a comment. Throws CompileError for a local array whose extents
/// are known inside a kernel only.
CudaUnit emit_cuda(const std::vector<ir::Program>& programs,
                   const std::vector<std::vector<KernelDecision>>& reasons = {});

}  // namespace loopgrad::backend
