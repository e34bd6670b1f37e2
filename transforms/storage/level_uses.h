// Arrays with a dimension that a loop over steps goes through: levels of time. Where they are used.
#pragma once

#include "dsl/ir/program.h"

#include <optional>
#include <vector>

namespace loopgrad::transforms {

/// One use of the array.
struct LevelUse {
  std::vector<ir::Stmt> path;  // what is around it inside the array's scope, its own statement last
  std::vector<ir::Expr> indices;
  ir::Expr index;  // in the dimension concerned
  bool stores = false;

  // The outermost loop around it.
  ir::Stmt outermost() const {
    for (const ir::Stmt& s : path)
      if (s.kind() == ir::Kind::For) return s;
    return {};
  }
};

/// All uses in textual order; nullopt when one of them is of a kind that this does not follow (while loops, stacks,
/// contractions).
std::optional<std::vector<LevelUse>> level_uses(const ir::Stmt& scope, const ir::Array& array, std::size_t dimension);

/// Inclusive, exclusive.
struct IndexRange {
  ir::Expr lower, upper;
};
/// The values of an index: of the iterator of a loop of the path plus a constant, or of one that no loop changes.
std::optional<IndexRange> values_of(const ir::Expr& index, const std::vector<ir::Stmt>& path);

/// A perfect nest with one assignment inside.
struct ElementNest {
  std::vector<const ir::For*> loops;
  const ir::Assign* assign = nullptr;

  const ir::Load* source() const { return assign->value.as<ir::Load>(); }  // null: it is no copy
};
std::optional<ElementNest> element_nest(const ir::Stmt& s);

/// The ranges of the dimensions when each index is the iterator of a loop of its own, and no loop is left over.
std::optional<std::vector<IndexRange>> range_of(const std::vector<const ir::For*>& loops,
                                                const std::vector<ir::Expr>& indices);
/// Whether these are all elements.
bool is_whole(const std::vector<IndexRange>& range, const std::vector<ir::Expr>& shape);

/// The loop that goes through the levels, and those that one step of it uses: t + least ... t + most.
struct LevelWindow {
  ir::Stmt loop;
  std::int64_t least = 0, most = 0;

  const ir::For& steps() const { return *loop.as<ir::For>(); }
  bool backward() const { return steps().mode == ir::LoopMode::Backward; }
  std::int64_t levels() const { return most - least + 1; }
  ir::Expr first() const { return backward() ? steps().upper - ir::int_const(1) : steps().lower; }
  ir::Expr last() const { return backward() ? steps().lower : steps().upper - ir::int_const(1); }
  // The level that a step uses and no step before it does.
  std::int64_t entering() const { return backward() ? least : most; }
  std::int64_t leaving() const { return backward() ? most : least; }
};

/// Of the one sequential loop whose steps, plus constants, are indices in the uses; nullopt where there are several.
std::optional<LevelWindow> level_window(const std::vector<LevelUse>& uses);

}  // namespace loopgrad::transforms
