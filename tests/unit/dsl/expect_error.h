// Expects an error of one class with its code and a part of its message.
#pragma once

#include <loopgrad/error.h>

#include <gtest/gtest.h>

#include <string>

namespace loopgrad::test {

template <class F>
ErrorInfo expect_usage_error(F&& f, const std::string& substring, ErrorCode code = ErrorCode::BadProgram) {
  try {
    f();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(substring), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty()) << error.what();
    return error.info();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not a UsageError: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error; expected one about: " << substring;
  return {};
}

}  // namespace loopgrad::test
