// The part of XLA's foreign function interface (version 0.3) that a handler needs, declared as its specification says:
// a build should not need JAX. What is declared stays as it is in all versions 0.x.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loopgrad::python::xla {

constexpr int metadata_extension = 1, execute_stage = 3, string_attribute = 4;
constexpr int invalid_argument = 3, not_found = 5, resource_exhausted = 8, failed_precondition = 9, internal = 13;

struct Extension {
  std::size_t struct_size;
  int type;
  Extension* next;
};
struct Version {
  std::size_t struct_size;
  Extension* extensions;
  int major, minor;
};
struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;
struct ErrorArguments {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;
};
struct Api {
  std::size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal_api;
  Error* (*create_error)(ErrorArguments*);
};

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  int type;
  void* data;
  std::int64_t rank;
  std::int64_t* extents;
};
/// Of arguments, and of results.
struct Buffers {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  Buffer** buffers;
};
struct Text {
  const char* begin;
  std::size_t size;
};
struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  Text** names;
  void** values;
};
struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Buffers arguments, results;
  Attributes attributes;
};

}  // namespace loopgrad::python::xla
