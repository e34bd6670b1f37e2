// What of a nest decides about values in it: for code that computes them again apart from the nest.
#pragma once

#include "dsl/poly/model.h"
#include "transforms/analysis/nest.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace loopgrad::transforms {

class DecidingLeaves {
 public:
  /// All must outlive the object; `nest` is a part of the program, `model` its own. With one, an array that the nest
  /// itself assigns before it reads any element counts as a local: setting it twice leaves the same in it.
  DecidingLeaves(const ir::Program& program, const ir::Stmt& nest, const poly::Model* model = nullptr);

  /// The leaves that set a local, and all that these need; nullopt where one does anything else, or needs what the nest
  /// changes or may change under another name.
  std::optional<StmtSet> of(const ir::Array& local) const;
  /// All that expressions in these leaves need, and the loops and branches around: without the leaves themselves.
  std::optional<StmtSet> of(const std::vector<ir::Stmt>& leaves) const;
  /// All that these expressions need.
  std::optional<StmtSet> of(const std::vector<ir::Expr>& values) const;

  /// The loops and branches around each leaf.
  const std::map<const ir::StmtNode*, std::vector<ir::Stmt>>& around() const { return around_; }
  /// Locals of the nest, with what is around each.
  const std::map<ir::Array, std::vector<ir::Stmt>>& locals() const { return locals_; }
  /// The leaves that store to an array.
  const std::map<ir::Array, std::vector<ir::Stmt>>& writers() const { return writers_; }

 private:
  struct Search;

  bool is_set_anew(const ir::Array& array) const;
  bool find_whether_set_anew(const ir::Array& array) const;

  const ir::Program& program_;
  const poly::Model* model_;
  const std::map<const ir::StmtNode*, std::vector<ir::Stmt>> around_;
  std::map<ir::Array, std::vector<ir::Stmt>> locals_, writers_;
  mutable std::map<ir::Array, bool> set_anew_;
};

}  // namespace loopgrad::transforms
