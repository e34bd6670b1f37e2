// Which elements statements of the host's part of a program touch, and which of them are surely different.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/symbolic/least_values.h"

#include <vector>

namespace loopgrad::transforms {

/// One access, or a sum as an access that writes.
struct Access {
  ir::Array array;
  std::vector<ir::Expr> indices;
  bool writes = false;
};

/// Those of a statement to arrays that it does not declare itself.
std::vector<Access> accesses_of(const ir::Stmt& s);

/// `s` with a scalar in place of one element, wherever that is accessed under the same indices.
ir::Stmt in_scalar(const ir::Stmt& s, const ir::Array& array, const std::vector<ir::Expr>& indices,
                   const ir::Array& scalar);

/// Whether each iteration of the loops has an element of its own under these indices.
bool is_own(const std::vector<ir::Expr>& indices, const std::vector<const ir::For*>& loops);

/// Whether an index of the load stays on one side of the element's while the loops run.
bool passes_by(const std::vector<ir::Expr>& load, const std::vector<ir::Expr>& element,
               const std::vector<const ir::For*>& loops);

/// Whether `x`, in whatever iteration of the loops, never touches the element of `y`, in whatever other one: an index
/// in which the loops have no part in `y` is another one, or out of the range of the loop that is that index of `x`.
bool are_apart(const Access& x, const Access& y, const std::vector<const ir::For*>& loops);

/// What can change places with what in a program.
class Passing {
 public:
  explicit Passing(const ir::Program& program);

  bool may_alias(const ir::Array& array) const { return aliased_.count(array) > 0; }

  /// Whether `s`, whatever its iterations, neither changes what the accesses touch nor touches what they change. The
  /// accesses are in no loop of `s`. `Same::MayRead`: other than to read an element under the same indices as they do.
  enum class Same { MayRead, Stays };
  bool can_pass(const ir::Stmt& s, const std::vector<Access>& accesses, Same same = Same::Stays) const;

 private:
  const std::set<ir::Array> aliased_;
  const ir::LeastValues least_;
};

}  // namespace loopgrad::transforms
