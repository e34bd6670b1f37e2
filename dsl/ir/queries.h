// Small questions about expressions, statements and programs that every part asks.
#pragma once

#include "dsl/ir/program.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace loopgrad::ir {

/// Whether the value depends on data: something in it is read from an array.
bool has_load(const Expr& e);
bool mentions(const Expr& e, const Symbol& symbol);
/// Whether the value is the same for all values of these variables: it reads nothing, and mentions none of them.
bool is_fixed(const Expr& e, const std::vector<Symbol>& variables);
/// Whether it is the same in the whole run: it reads nothing, and mentions sizes of the program only.
bool is_of_sizes(const Expr& e, const Program& program);
/// Whether indices are those of one element that data choose, not of one in a row: besides what is read from arrays
/// they have constants only.
bool chooses_element(const std::vector<Expr>& indices);

/// The operands of nested operations of this kind, left to right, appended to `found`: of min(a, min(b, c)), a, b and
/// c.
void collect_operands(const Expr& e, BinaryOp op, std::vector<Expr>& found);

/// Whether `s` is or contains a For or While (false for a null statement).
bool contains_loop(const Stmt& s);
/// Whether the loop makes one trip, whatever sizes and data are: it is a name for its lower bound.
bool has_one_trip(const For& loop);
/// Whether a statement is a loop of this mode (false for a null statement).
bool has_mode(const Stmt& s, LoopMode mode);
/// Whether `s` is or contains a Push or Pop.
bool uses_stack(const Stmt& s);
/// Whether an expression at or below `s` loads from the array; that a Reduce reads its target does not count.
bool reads(const Stmt& s, const Array& array);

/// Whether a size, an array or a loop may have this name: letters, digits and '_', no digit first.
bool is_identifier(const std::string& name);

/// How far from zero bounds and steps of loops may be: passes add steps, tiles and bounds to each other in 64 bits.
inline constexpr std::int64_t furthest_bound = std::int64_t{1} << 61;

/// How many elements, and bytes, an array has, in sizes.
Expr element_count(const Array& array);
Expr byte_count(const Array& array);

/// Bytes of an array of constant extents; nullopt for others, and where they do not fit into an i64.
std::optional<std::int64_t> constant_bytes(const Array& array);

/// Arrays that may share memory with another one, as stated by the user.
std::set<Array> aliased_arrays(const Program& program);

}  // namespace loopgrad::ir
