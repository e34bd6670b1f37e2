// Helpers of these tests: programs built from IR nodes, and expectations about errors.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "dsl/ir/program.h"
#include "dsl/ir/verifier.h"

#include <loopgrad/error.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace loopgrad::test {

using namespace ir;  // operators and factories of expressions

/// A line of the imaginary user's source.
inline SourceLocation line(std::uint32_t number) {
  SourceLocation location;
  location.file = "user.cpp";
  location.line = number;
  return location;
}

inline Array f32(const std::string& name, std::vector<Expr> shape, ArrayRole role, std::uint32_t number = 0) {
  return make_array(name, ScalarType::F32, std::move(shape), role, line(number));
}
inline Array i32(const std::string& name, std::vector<Expr> shape, ArrayRole role, std::uint32_t number = 0) {
  return make_array(name, ScalarType::I32, std::move(shape), role, line(number));
}
inline Expr f(double value) { return float_const(value, ScalarType::F32); }
inline Expr c(std::int64_t value) { return int_const(value); }

inline ir::Program make_program(std::vector<Symbol> sizes, std::vector<Array> arrays, Stmt body,
                                std::vector<Fact> facts = {}) {
  if (!body) body = block({});
  ir::Program program{"p", std::move(sizes), std::move(arrays), std::move(facts), std::move(body), line(1)};
  verify(program, "the test");
  return program;
}

/// Binds and interprets.
inline void run(const ir::Program& program, const Arguments& arguments, const backend::InterpreterOptions& options = {},
                const Sizes& sizes = {}) {
  const auto binding = backend::bind(program, arguments, sizes, {.ignore_unknown = false, .all_f64 = options.f64});
  backend::interpret(program, binding, options);
}

inline backend::InterpreterOptions checked(std::uint64_t seed = 1) {
  backend::InterpreterOptions options;
  options.checked = true;
  options.seed = seed;
  return options;
}

/// Runs `action` and returns the error of class `E` that it must throw.
template <class E, class Action>
ErrorInfo error_of(Action&& action) {
  try {
    action();
  } catch (const E& e) {
    return e.info();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace loopgrad::test
