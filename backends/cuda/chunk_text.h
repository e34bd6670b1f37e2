// Chunks of iterations that one thread does, as `transforms/gpu/contiguous.h` makes them.
//
//   one iteration           if (i < n) { .. }
//   four, wide accesses     if (start + 4 <= n && is_aligned(&x[start])) { four at once } else { one by one }
//   four of a stencil       if (start + 4 <= n) { without a loop } else { one by one }
//   strided over a range    for (i = first; i < n; i += stride) { one of the above }
#pragma once

#include "backends/cuda/places.h"
#include "transforms/gpu/contiguous.h"

#include <set>

namespace loopgrad::backend {

class ChunkWriter {
 public:
  using WriteStmt = std::function<void(const ir::Stmt&)>;

  /// `write_body` writes statements inside of chunks. The scope and the arrays must outlive it.
  ChunkWriter(KernelScope& scope, const std::set<ir::Array>& aliased, WriteStmt write_body)
      : scope_(scope), places_(scope), aliased_(aliased), write_body_(std::move(write_body)) {}

  /// Writes a loop inside of a thread if it is a chunk, or the loop over the chunks that a thread takes.
  bool write(const ir::For& n) { return write_strided(n) || write_single(n); }

  /// Whether something that was written needs the helpers for 16-byte accesses.
  bool uses_wide_accesses() const { return uses_wide_accesses_; }
  /// Whether threads take columns of a stencil with many loads.
  bool has_long_columns() const { return has_long_columns_; }

 private:
  struct ChunkLoop {
    const ir::For* loop;
    ir::Symbol start;
    transforms::Chunk chunk;
    std::int64_t width;
  };
  /// A wide access: the registers that stand for the array, and the elements that it moves.
  struct Wide {
    transforms::ContiguousAccess access;
    ir::Array registers;
    std::vector<ir::Expr> lanes;    // indices of `registers` inside the loops
    std::vector<std::string> rows;  // elements at which runs of neighbours start
  };

  bool write_single(const ir::For& n);
  void declare_start(const ir::Symbol& start, const transforms::Chunk& chunk);
  bool write_strided(const ir::For& n);
  ir::Symbol start_of(const ir::For& n, const transforms::Chunk& chunk, std::int64_t width);
  void write_at(const ir::For& n, const ir::Symbol& start, const transforms::Chunk& chunk, std::int64_t width);
  void write_wide(const std::vector<ChunkLoop>& loops);
  void write_wide_body(const std::vector<ChunkLoop>& loops, const ir::Stmt& body, const std::vector<Wide>& wides);
  void write_column(const ChunkLoop& l);
  void write_narrow(const std::vector<ChunkLoop>& loops, std::size_t level);
  void write_guarded(const ChunkLoop& l);
  void write_with_places(const ir::Stmt& body);
  Wide wide_of(const transforms::ContiguousAccess& access, const std::vector<ChunkLoop>& loops,
               const std::map<ir::Symbol, ir::Expr>& starts);
  static ir::Stmt in_registers(const ir::Stmt& body, const std::map<ir::Array, const Wide*>& wides);

  KernelScope& scope_;
  Places places_;
  const std::set<ir::Array>& aliased_;
  WriteStmt write_body_;
  bool uses_wide_accesses_ = false, has_long_columns_ = false;
};

}  // namespace loopgrad::backend
