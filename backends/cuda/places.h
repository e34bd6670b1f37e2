// Neighbouring elements, as stencils touch them, are addressed from one of them: the compiler does not find by itself
// that their positions differ by constants.
//
//   const int64_t u_at = i * m + j;
//   ... u[u_at] + u[u_at - m] + u[u_at + 1] ...
#pragma once

#include "backends/cuda/kernel_scope.h"

namespace loopgrad::backend {

class Places {
 public:
  /// From now on the scope asks here for shorter positions. The scope must outlive it.
  explicit Places(KernelScope& scope);
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  /// Declares the places that help the accesses of `body` outside of its loops, writes it, and forgets them again.
  template <class WriteBody>
  void around(const ir::Stmt& body, WriteBody&& write_body) {
    const std::size_t outside = in_scope_.size();
    declare(body);
    write_body();
    in_scope_.resize(outside);
  }

 private:
  /// The position of one element in its array, as a variable of the emitted code.
  struct Place {
    ir::Array array;
    std::vector<ir::Expr> indices;
    ir::Symbol position;
  };

  static ir::Expr distance(const Place& from, const std::vector<ir::Expr>& indices);
  std::string position(const ir::Array& array, const std::vector<ir::Expr>& indices);
  void declare(const ir::Stmt& body);

  KernelScope& scope_;
  std::vector<Place> in_scope_;
};

}  // namespace loopgrad::backend
