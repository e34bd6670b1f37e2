// The models of one run of a pipeline: each is built once, from pieces that are built once.
#pragma once

#include "dsl/poly/model.h"

namespace loopgrad::poly {

class Pieces;

/// Models by node: `of` gives the one that is there where a program has the same region at the same place, whatever
/// else has changed. All share one isl context; whoever asks several expensive questions restarts its budget between
/// them. One thread uses it at a time.
class Models {
 public:
  /// `budget`: isl operations for each question; 0: the default.
  explicit Models(unsigned long budget = 0);
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;
  ~Models();

  /// See `build_model`, also for BudgetError, which is thrown again at once when it was thrown before. The budget of
  /// the context starts anew.
  std::shared_ptr<const Model> of(const ir::Program& program, const ir::Stmt& region);

  /// For tests: how many there are, and of how many different statements.
  std::size_t count() const { return known_.size(); }
  std::size_t statements() const;

 private:
  using Key = std::vector<const void*>;
  struct Entry {
    ir::Stmt region;  // kept alive: its address is in the key
    std::shared_ptr<const Model> model;
  };

  unsigned long budget_;
  std::unique_ptr<Pieces> pieces_;
  std::map<Key, Entry> known_;
};

}  // namespace loopgrad::poly
