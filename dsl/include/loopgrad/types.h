/// @file
/// Scalar types and source locations: the vocabulary shared by every other public header.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <type_traits>

namespace loopgrad {
/// @addtogroup values
/// @{

/// Element types of arrays. `F16` and `BF16` are storage types only: loading one gives an `F32` value
/// and storing rounds to nearest even, so arithmetic never happens in 16 bits.
enum class ScalarType : std::uint8_t { Bool, I32, I64, F16, BF16, F32, F64 };

/// Tag type that names the IEEE 16-bit storage format, as in `input<half>("x", ...)`.
struct half {};
/// Tag type for the 16-bit storage format with the exponents of f32.
struct bfloat16 {};

/// "f32", "i64", ... as printed in programs, errors and JSON.
const char* name_of(ScalarType type);

/// Bytes of one element as stored in memory.
std::size_t bytes_of(ScalarType type);

/// False for a number that is no ScalarType, as a cast may make one.
bool is_known(ScalarType type);

/// True for f16, bf16, f32 and f64.
bool is_float(ScalarType type);

/// True for i32 and i64 (not bool).
bool is_integer(ScalarType type);

/// The type of a value loaded from an array of `storage`: f16 and bf16 become f32, the rest stay.
ScalarType value_type(ScalarType storage);

/// The C++ types that elements may have: bool, signed integers of 32 and 64 bits, half, bfloat16, float and double. No
/// unsigned ones: their large values would be read as negative ones.
template <class T>
concept ElementType = std::same_as<T, bool> || std::same_as<T, half> || std::same_as<T, bfloat16> ||
    std::same_as<T, float> || std::same_as<T, double> ||(std::signed_integral<T> && (sizeof(T) == 4 || sizeof(T) == 8));

/// The ScalarType of a C++ type. **Example:** `scalar_type<float>() == ScalarType::F32`.
template <ElementType T>
constexpr ScalarType scalar_type() {
  if constexpr (std::is_same_v<T, bool>) return ScalarType::Bool;
  else if constexpr (std::is_same_v<T, half>) return ScalarType::F16;
  else if constexpr (std::is_same_v<T, bfloat16>) return ScalarType::BF16;
  else if constexpr (std::is_same_v<T, float>) return ScalarType::F32;
  else if constexpr (std::is_same_v<T, double>) return ScalarType::F64;
  else return sizeof(T) == 4 ? ScalarType::I32 : ScalarType::I64;
}

/// The line of the user's source that made a node: where a function that takes one as its last argument was called,
/// unless the caller says another one, as a binding to another language does. `file` points at a string that is never
/// freed, such as a literal.
struct SourceLocation {
  const char* file = "";   ///< as the compiler was given it, with folders
  std::uint32_t line = 0;  ///< counts from 1; 0: unknown

  /// Unknown.
  SourceLocation() = default;
  /// Another place than the C++ line that calls: `file` is kept as a pointer.
  SourceLocation(const char* file, std::uint32_t line) : file(file), line(line) {}
  /// What default arguments are made of.
  SourceLocation(const std::source_location& where) : file(where.file_name()), line(where.line()) {}

  /// False for a default-constructed one.
  bool known() const { return line != 0; }

  /// "conv1d.cpp:31", without folders; empty when unknown.
  std::string str() const;
};

/// @}
}  // namespace loopgrad
