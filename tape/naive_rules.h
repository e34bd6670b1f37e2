// Rules of custom gradients on a run-time stack.
#pragma once

#include "tape/naive_tape.h"
#include "tape/sites.h"

namespace loopgrad::tape {

/// The backward sweep runs a rule in its own order and pops each value where the rule reads it; so the forward sweep,
/// where the rule stands, goes through its statements from the last to the first and pushes what each of them reads.
///
///   rule                         forward sweep                 backward sweep
///   for j in 0..m:               for j in 0..m reversed:       for j in 0..m:
///     d_x[j] += d_y*w[j]           push(w[j])                    w_value = pop()
///                                                                d_x[j] += d_y*w_value
///
/// Inputs are read where they are. Loops and branches of which only the backward sweep knows how they run have copies
/// of all arrays that they read.
class RuleOnStack {
 public:
  explicit RuleOnStack(const Sites& sites) : sites_(sites) {}
  Sweeps generate(const ir::Stmt& rule) const;

 private:
  bool is_saved(const ir::Array& array) const;
  bool reads_known_values(const ir::Stmt& s) const;
  Sweeps of_loop(const ir::For& n) const;
  Sweeps of_branch(const ir::If& n) const;
  Sweeps with_values(const ir::Stmt& s) const;
  Sweeps with_copies(const ir::Stmt& s) const;

  const Sites& sites_;
};

}  // namespace loopgrad::tape
