// Which memory the threads of a block share, and where they have to wait for each other because of it.
#pragma once

#include "backends/cuda/kernel_frame.h"
#include "dsl/symbolic/least_values.h"

namespace loopgrad::backend {

/// Arrays that are declared outside of loops over threads.
struct BlockMemory {
  std::set<ir::Array> shared;  // by the threads
  std::set<ir::Array> copies;  // of which every thread has its own
};

BlockMemory block_memory(const KernelFrame& frame);

/// Puts barriers before statements that touch what other threads of the block have touched since the last one: elements
/// of the same array, unless an index keeps them apart whatever the threads (d[i, j] and d[i, k] with k in 0..j).
class Barriers {
 public:
  /// All three must outlive it.
  Barriers(const KernelFrame& frame, const BlockMemory& memory, CodeText& code)
      : frame_(frame), memory_(memory), code_(code), least_(frame.root) {}

  /// Before something that all threads of the block do, each its part of it.
  void before(const ir::Stmt& s) { before(touched_by(s)); }
  /// Before control flow that they take together.
  void before_control(std::initializer_list<ir::Expr> decided_by);
  /// At the end of a body that they may enter again, or leave.
  void after_body();
  /// Between two trips of a loop whose condition they read together.
  void after_trip() { wait(); }
  /// The block's next iteration is independent of this one but for the memory that it uses again.
  void after_block();

  /// Arguments in which threads may find after a barrier what others have written before it: those that are written and
  /// touched in more than one place, in a kernel with barriers. `__restrict__` would promise the compiler that nobody
  /// else changes them, so that it keeps what a thread has read, or delays what it has written, across a barrier.
  std::set<ir::Array> exchanged() const;

 private:
  /// One access, to memory that threads share.
  struct Touch {
    ir::Array array;  // one for all that may alias
    std::vector<ir::Expr> indices;
    bool writes = false;
    std::set<ir::Symbol> own;  // iterators inside the statement, of which threads have different values at once
  };

  void note(const ir::Array& array, const std::vector<ir::Expr>& indices, bool write,
            std::vector<Touch>& touched) const;
  std::vector<Touch> touched_by(const ir::Expr& e) const;
  std::vector<Touch> touched_by(const ir::Stmt& s) const;
  bool are_apart(const Touch& a, const Touch& b) const;
  void before(const std::vector<Touch>& next);
  void wait();

  const KernelFrame& frame_;
  const BlockMemory& memory_;
  CodeText& code_;
  const ir::LeastValues least_;
  std::vector<Touch> pending_;  // since the last barrier
  bool waits_ = false;
};

}  // namespace loopgrad::backend
