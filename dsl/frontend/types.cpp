#include <loopgrad/types.h>

#include <fmt/format.h>

#include <string_view>

namespace loopgrad {

const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return "bool";
    case ScalarType::I32: return "i32";
    case ScalarType::I64: return "i64";
    case ScalarType::F16: return "f16";
    case ScalarType::BF16: return "bf16";
    case ScalarType::F32: return "f32";
    case ScalarType::F64: return "f64";
  }
  return "?";
}

std::size_t bytes_of(ScalarType type) {
  switch (type) {
    case ScalarType::Bool: return 1;
    case ScalarType::F16:
    case ScalarType::BF16: return 2;
    case ScalarType::I32:
    case ScalarType::F32: return 4;
    case ScalarType::I64:
    case ScalarType::F64: return 8;
  }
  return 0;
}

bool is_known(ScalarType type) { return type <= ScalarType::F64; }

bool is_float(ScalarType type) { return type >= ScalarType::F16; }

bool is_integer(ScalarType type) { return type == ScalarType::I32 || type == ScalarType::I64; }

ScalarType value_type(ScalarType storage) {
  return storage == ScalarType::F16 || storage == ScalarType::BF16 ? ScalarType::F32 : storage;
}

std::string SourceLocation::str() const {
  if (!known()) return {};
  const std::string_view path = file;
  const std::size_t slash = path.find_last_of('/');
  return fmt::format("{}:{}", slash == std::string_view::npos ? path : path.substr(slash + 1), line);
}

}  // namespace loopgrad
