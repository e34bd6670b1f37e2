// A loop of which the backward run repeats the iterations, segment by segment.
//
//   for t in 0..n: u = step(u)                     forward run                     backward run
//                                                  for s in 0..blocks:             for s reversed in 0..blocks:
//                                                    checkpoint[s] = u               u_now = checkpoint[s]
//                                                    the block's iterations          for j in 0..segments - 1:
//                                                                                      state[j] = u_now
//                                                                                      the segment's iterations on
//                                                                                      u_now
//                                                                                    for j reversed in 0..segments:
//                                                                                      u_now = state[j], but for the
//                                                                                      last the same, filling a tape
//                                                                                      their sweep, reading it
//
// Where the tape of all iterations fits, both run as without checkpoints (see checkpoint_sizes.h). What runs again are
// the same statements on the same values. A loop is left as it is, with a remark, where control depends on sums or
// recurrences, which programs may round in different ways, and where extents of its tape depend on data that change or
// differ between segments.
#pragma once

#include "tape/checkpoint_sizes.h"
#include "tape/parts.h"

#include <functional>
#include <optional>

namespace loopgrad::tape {

class SegmentedLoop {
 public:
  /// nullopt where the loop has no tape that grows with its iterations, or must be left as it is. `set_before`: what
  /// earlier parts of the program write.
  static std::optional<SegmentedLoop> of(const Prepared& whole, const ir::Stmt& loop,
                                         const std::set<ir::Array>& set_before, std::set<std::string>& taken,
                                         Report& report);

  const OuterArrays& outer() const { return outer_; }
  const LoopLengths& lengths() const { return lengths_; }
  /// To be saved by the forward run: the tape of all iterations and the checkpoints of blocks.
  std::vector<ir::Array> tape() const;
  LoopToDecide to_decide() const;
  /// Sizes of tapes that data decide, and what finds them: see DirectGradient.
  const std::vector<ir::Symbol>& measured() const { return gradient_.sizes; }
  const ir::Program& sizing() const { return gradient_.sizing; }
  /// Whether checkpoints are copies of the array.
  bool saves(const ir::Array& array) const { return checkpoints_.count(array) != 0; }

  /// What an array of the program holds after the loop, at the time of the backward run.
  using After = std::function<ir::Array(const ir::Array&)>;
  ir::Stmt forward() const;
  ir::Stmt backward(const After& after) const;

 private:
  SegmentedLoop(const Prepared& whole, const ir::Stmt& loop, std::set<std::string>& taken);
  bool measures_inputs(const ir::Program& program) const;
  bool place_tapes(const ir::Program& program, std::set<std::string>& taken);
  void find_state(const ir::Program& program, std::set<std::string>& taken);
  ir::Stmt needed_of(const ir::Stmt& s) const;
  ir::Expr trips() const;
  ir::Expr block() const;
  ir::Stmt segment_of(const ir::Stmt& s, const ir::Expr& first, const ir::Expr& end) const;
  ir::Stmt save(const std::map<ir::Array, ir::Array>& to, const ir::Expr& at) const;
  ir::Stmt restore(const std::map<ir::Array, ir::Array>& from, const ir::Expr& at) const;
  ir::Stmt by_segments(const After& after) const;

  ir::Stmt loop_;              // as in the program
  ir::Symbol first_, length_;  // of `part_` and its gradient
  ir::Stmt part_;              // `length` iterations from number `first` on
  OuterArrays outer_;
  DirectGradient gradient_;  // of the part
  LoopLengths lengths_;
  std::map<ir::Array, ir::Array> whole_tapes_, segment_tapes_;  // of all iterations, and in the backward run
  std::map<ir::Array, ir::Array> now_;                          // of the needed arrays that the loop changes
  std::map<ir::Array, ir::Array> checkpoints_, states_;         // of those that it finds at the start of a segment
};

}  // namespace loopgrad::tape
