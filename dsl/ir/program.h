// A whole program: sizes, arrays, the user's facts and one body.
#pragma once

#include "dsl/ir/stmt.h"

#include <optional>

namespace loopgrad::ir {

/// A property of an array that the user states and checked execution verifies. The last two are found, not stated, of
/// arrays that programs fill.
enum class FactKind : std::uint8_t {
  InRange,     // every element e has lower <= e < upper
  Sorted,      // rank 1, never decreasing
  Injective,   // no value occurs twice
  CsrPointer,  // rank 1 of extent rows+1, never decreasing, first element 0, last element `upper`
  MayAlias,    // `array` and `other` may share memory
  ReadUpTo,    // of a tape: whoever comes after this program reads no element whose first index is above `upper`
  Distinct,    // of a tape or a local: nothing is ever read or written in two of its elements that is the same value
};
const char* name_of(FactKind kind);
/// Whether it is a promise about what an array holds before the program runs, which can be verified then.
bool is_about_data(FactKind kind);

struct Fact {
  FactKind kind;
  Array array;
  Expr lower, upper;  // in sizes; null where the kind has none
  Array other;        // MayAlias only
  SourceLocation location;
  Expr longest = {};  // CsrPointer only: no row has more entries, where something in sizes says so
};

/// Immutable once shared. `arrays` holds everything but locals, in declaration order; locals appear as Allocate.
struct Program {
  std::string name;
  std::vector<Symbol> sizes;
  std::vector<Array> arrays;
  std::vector<Fact> facts;
  Stmt body;
  SourceLocation location;
  /// Where a custom gradient has taken part in these derivatives: statements of its region are constants here, so that
  /// derivatives of this program would be silently incomplete.
  std::optional<SourceLocation> from_rule = {};
};

/// The array of that name among `arrays`, or null.
Array find_array(const Program& program, const std::string& name);
/// `wish`, with underscores where an argument or a size has that name.
std::string free_name(const Program& program, std::string wish);
/// The same program with another body.
Program with_body(const Program& program, Stmt body);

}  // namespace loopgrad::ir
