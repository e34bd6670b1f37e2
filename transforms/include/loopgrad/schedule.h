/// @file
/// Scheduling by hand: loop transformations that are checked before they are done.
///
/// A Schedule is a list of steps. It is applied to a program after the summation plan (which decides how shared sums
/// are done) and before loops are made parallel and mapped to the target, for a primal program and for both parts of a
/// gradient alike. A step that would break a dependence is refused with a TransformError that names the two accesses,
/// their array and lines, and a pair of iterations that would change their order; nothing is changed then. Sums
/// commute: exchanging two `+=` into one element is legal and changes only the rounding. Making a loop parallel that
/// carries a sum is not legal.
///
/// A step that names a loop or array that does not exist, or that is not unique, is a UsageError. Steps take effect in
/// order, so a later one sees the loops that an earlier one made. `loopgrad show P --stage summation` prints the
/// loops that the first step sees.
#pragma once

#include <loopgrad/program.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace loopgrad {
/// @addtogroup schedules
/// @{

/// Names a loop by its iterator. Where several loops have that name, `line` (of the user's source) or `number` (1 for
/// the first in textual order among those that fit) says which.
/// **Example:** `"i"`, `lg::LoopName("i").at_line(12)`, `lg::LoopName("i").number(2)`; as text `i@12`, `i#2`.
class LoopName {
 public:
  /// The iterator's name alone. Text with a line or number is read by `Schedule::parse` only.
  /// @{
  LoopName(const char* name) : name_(name) {}
  LoopName(std::string name) : name_(std::move(name)) {}
  /// @}
  LoopName at_line(int line) const;   ///< the same name, of a loop that was recorded on this line
  LoopName number(int number) const;  ///< the same name, of the loop with this number

  const std::string& name() const { return name_; }  ///< of the iterator
  int line() const { return line_; }                 ///< 0: any
  int number() const { return number_; }             ///< 0: it must be the only one
  std::string str() const;                           ///< as in the text of a step

 private:
  std::string name_;
  int line_ = 0, number_ = 0;
};

/// A list of loop transformations.
///
/// **Example**
/// ```
/// lg::Schedule s;
/// s.tile({"i", "j"}, {32, 32}).parallelize("i_tile");
/// auto e = lg::compile(program, {.schedule = s});
/// ```
class Schedule {
 public:
  /// Steps are collected, and checked when a program is compiled with them.
  Schedule() = default;
  /// Steps are also checked, and applied to a copy of the program, as they are added. For a part of a gradient give
  /// `gradient.forward` or `gradient.backward`, and the `expected_sizes` that it is compiled with: the loops depend on
  /// how sums are done.
  explicit Schedule(const Program& program, const std::map<std::string, std::int64_t>& expected_sizes = {});

  /// `for i` becomes `for i_tile` over blocks of `factor` iterations with `for i` inside. Always legal.
  Schedule& split(const LoopName& loop, std::int64_t factor);
  /// Splits perfectly nested loops and moves the block loops outside: `i_tile, j_tile, i, j`. Legal when no dependence
  /// points backwards in any of the loops.
  Schedule& tile(const std::vector<LoopName>& loops, const std::vector<std::int64_t>& sizes);
  /// Exchanges two loops of a perfect nest. Legal when no dependence is reversed.
  Schedule& interchange(const LoopName& a, const LoopName& b);
  /// Puts perfectly nested loops into this order, outermost first. Legal like interchange.
  Schedule& reorder(const std::vector<LoopName>& order);
  /// Makes one loop of two adjacent ones whose bounds are equal or a constant apart; it has the name of the first.
  /// Legal when no iteration of the second needs a later one of the first.
  Schedule& fuse(const LoopName& first, const LoopName& second);
  /// Splits a loop in two after its first `after` statements, or with 0 wherever that is legal. Locals must not cross
  /// the split: see expand. Legal when no statement needs an earlier iteration of a later one.
  Schedule& fission(const LoopName& loop, int after = 0);
  /// Repeats the body `factor` times (0: as often as a loop of constant bounds runs): `i_unrolled`, and `i` for what is
  /// left over. Always legal.
  Schedule& unroll(const LoopName& loop, std::int64_t factor = 0);
  /// Unrolls a loop and fuses the copies of the loops in it, so that one pass through an inner loop serves `factor`
  /// iterations of the outer one. Legal when no dependence is reversed.
  Schedule& unroll_and_jam(const LoopName& loop, std::int64_t factor);
  /// Marks a loop parallel. Legal when no iteration touches what another one changes; sums count.
  Schedule& parallelize(const LoopName& loop);
  /// Runs `lanes` iterations of an innermost loop side by side: `i_vector`, and `i` for what is left over. Legal like
  /// parallelize.
  Schedule& vectorize(const LoopName& loop, std::int64_t lanes);
  /// Runs the iterations from last to first. Legal when the loop carries no dependence.
  Schedule& reverse(const LoopName& loop);
  /// Makes a local an array over the iterations of `loop` and of the loops between them, so that `loop` can be split.
  /// Always legal, where its extents are known before `loop`.
  Schedule& expand(const std::string& local, const LoopName& loop);
  /// Moves a local array that one loop indexes by its iterator alone into that loop, without that dimension.
  /// Legal when no other loop uses it, and each iteration its own elements only.
  Schedule& contract(const std::string& local);

  /// One step as written by `str`: what a method of that name does. Throws UsageError for text that is no step.
  Schedule& add(const std::string& step);
  /// Several steps separated by `;`. **Example:** `Schedule::parse("tile(i, j, 32, 32); parallelize(i_tile)")`.
  static Schedule parse(const std::string& text);
  /// All steps as text that `parse` reads.
  std::string str() const;
  /// No step.
  bool empty() const { return steps_.empty(); }

  /// For a Schedule made with a program: the program after all steps. Throws UsageError for one without.
  Program program() const;

  /// One step: `op(loops..., numbers...)`.
  struct Step {
    std::string op;                     ///< a method of Schedule: "tile"
    std::vector<LoopName> names;        ///< loops, or one array
    std::vector<std::int64_t> numbers;  ///< factors, sizes, lanes
    std::string str() const;            ///< "tile(i, j, 32, 32)"
  };
  /// In the order in which they are taken.
  const std::vector<Step>& steps() const { return steps_; }

 private:
  Schedule& add(Step step);

  std::vector<Step> steps_;
  std::shared_ptr<const ir::Program> program_;  // null: not bound to one
};

/// @}
}  // namespace loopgrad
