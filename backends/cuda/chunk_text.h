// Chunks of iterations that one thread does, as the shapes of loops say (see ir::chunk_of).
//
//   one iteration           if (i < n) { .. }
//   four, wide accesses     if (start + 4 <= n && is_aligned(&x[start])) { four at once } else { one by one }
//   four of a stencil       if (start + 4 <= n) { without a loop } else { one by one }
//   strided over a range    for (i = first; i < n; i += stride) { one of the above }
#pragma once

#include "backends/cuda/places.h"
#include "dsl/ir/rewriter.h"

namespace loopgrad::backend {

class ChunkWriter {
 public:
  using WriteStmt = std::function<void(const ir::Stmt&)>;

  /// `write_body` writes statements inside of chunks. The scope must outlive it.
  ChunkWriter(KernelScope& scope, WriteStmt write_body)
      : scope_(scope), places_(scope), write_body_(std::move(write_body)) {}

  /// Writes a loop inside of a thread if it is a chunk, or the loop over the chunks that a thread takes.
  bool write(const ir::For& n) { return write_strided(n) || write_single(n); }

  /// Writes a sequential loop whose chunk has wide accesses in all trips or in none, with `write_loop` once for each:
  /// the compiler unrolls a loop without branches, and has more loads under way.
  bool write_for_all_trips(const ir::For& n, const std::function<void()>& write_loop);

  /// Whether it is writing the loop without wide accesses, which have been decided for all trips.
  bool is_narrow_form_of(const ir::For& n) const {
    return decided_ && !decided_wide_ && decided_ == n.body.as<ir::For>();
  }

  /// Whether something that was written needs the helpers for 16-byte accesses.
  bool uses_wide_accesses() const { return uses_wide_accesses_; }

 private:
  struct ChunkLoop {
    const ir::For* loop;
    ir::Symbol start;
    ir::Chunk chunk;
  };
  /// A wide access: the registers that stand for the array, and the elements that it moves.
  struct Wide {
    ir::WideAccess access;
    ir::Array registers;
    std::vector<ir::Expr> lanes;    // indices of `registers` inside the loops
    std::vector<std::string> rows;  // elements at which runs of neighbours start
  };

  bool write_single(const ir::For& n);
  void declare_start(const ir::Symbol& start, const ir::Chunk& chunk);
  bool write_strided(const ir::For& n);
  ir::Symbol start_of(const ir::For& n, const ir::Chunk& chunk);
  void write_at(const ir::For& n, const ir::Symbol& start, const ir::Chunk& chunk);
  void write_wide(const std::vector<ChunkLoop>& loops);
  std::string all_exist(const std::vector<ChunkLoop>& loops) const;
  std::vector<Wide> wides_of(const std::vector<ChunkLoop>& loops, const ir::Substitution& outside);
  static std::string all_aligned(const std::vector<Wide>& wides);
  void write_wide_body(const std::vector<ChunkLoop>& loops, const ir::Stmt& body, const std::vector<Wide>& wides);
  void write_column(const ChunkLoop& l);
  void write_narrow(const std::vector<ChunkLoop>& loops, std::size_t level);
  void write_guarded(const ChunkLoop& l);
  void write_with_places(const ir::Stmt& body);
  Wide wide_of(const ir::WideAccess& access, const std::vector<ChunkLoop>& loops, const ir::Substitution& starts);
  static ir::Stmt in_registers(const ir::Stmt& body, const std::vector<Wide>& wides);

  KernelScope& scope_;
  Places places_;
  WriteStmt write_body_;
  const ir::For* decided_ = nullptr;  // a chunk of which all accesses are wide, or none
  bool decided_wide_ = false;
  bool uses_wide_accesses_ = false;
};

}  // namespace loopgrad::backend
