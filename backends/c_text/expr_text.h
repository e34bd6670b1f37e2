// Expressions of the IR as C++ text.
#pragma once

#include "backends/c_text/prelude.h"
#include "dsl/ir/printer.h"

#include <functional>

namespace loopgrad::backend {

/// What the emission of one function knows and collects.
struct EmitState {
  explicit EmitState(const ir::Program& program);

  ir::NameTable names;
  std::set<Helper> helpers;
  bool device = false;                    // CUDA: powers of our own, and no flag that makes integers wrap around
  bool in_index = false;                  // in the position of an element, which does not overflow
  bool vector_math = false;               // f32 functions from vector_math.h instead of the standard library's
  std::string index_type = "int64_t";     // of sizes, iterators and what is computed from them, but for
  std::set<ir::Symbol> wide;              // iterators whose bounds are data
  std::set<ir::Symbol> non_negative;      // sizes and the iterators in scope that start at zero or above
  std::set<ir::Array> non_negative_data;  // integer arrays whose elements are stated to be non-negative
  std::set<ir::Array> index_data;         // of these, those whose elements are no larger than indices are
  std::set<ir::Symbol> large;             // sizes and iterators that may be any numbers
  std::set<ir::Array> constant;           // CUDA: arrays whose loads have to be marked as of memory that never changes
  /// A shorter position for an element than its row-major formula, or "".
  std::function<std::string(const ir::Array&, const std::vector<ir::Expr>&)> position;
};

/// How tightly a C++ operator binds; a text is wrapped in parentheses where its surroundings bind tighter.
enum class Level { Any, Ternary, Or, And, Equality, Relation, Sum, Product, Prefix, Postfix };

/// The expression as C++ that has the same value and the C++ type `cpp_type(e.type())` (an i64 constant may be an int).
std::string text_of(const ir::Expr& e, EmitState& state, Level surrounding = Level::Any);

/// Whether the text of an i64 expression is an `int64_t` because data has a part in it, or because all are.
bool is_wide(const ir::Expr& e, const EmitState& state);

/// The same, of exactly the C++ type, for template arguments that are deduced.
std::string argument_text(const ir::Expr& e, EmitState& state);

/// `x[i * m + j]`, or the variable itself for a local of rank 0. Has the storage type.
std::string element_text(const ir::Array& array, const std::vector<ir::Expr>& indices, EmitState& state);

/// The text of a value on its way into an array of type `storage`, given the text of the value.
std::string stored(ScalarType storage, const std::string& value, EmitState& state);
std::string stored(ScalarType storage, const ir::Expr& value, EmitState& state);
/// And back: the text of the value of an element.
std::string loaded(ScalarType storage, const std::string& element, EmitState& state);
std::string loaded(const ir::Array& array, const std::string& element, EmitState& state);

/// The new stored value of an element after a Reduce, given the text of the old one.
std::string updated_text(const ir::Reduce& n, const std::string& before, EmitState& state);

const char* value_cpp_type(ScalarType type);           // of values: f16 and bf16 are float
const char* storage_cpp_type(ScalarType type);         // of array elements: f16 and bf16 are uint16_t,
const char* storage_cpp_type(const ir::Array& array);  // and bool is uint8_t in arrays of the program's own

/// A comma-separated list that starts at `column` of a line and continues on lines indented by `indent`.
std::string joined(const std::vector<std::string>& list, std::size_t column, std::size_t indent);

/// True when the expression can be shown to be zero or above.
bool is_non_negative(const ir::Expr& e, const EmitState& state);

}  // namespace loopgrad::backend
