// Expects an error of one class, with its code, a hint, and parts of its message.
#pragma once

#include <loopgrad/error.h>

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace loopgrad::test {

template <class E, class Action>
ErrorInfo expect_error(ErrorCode code, std::initializer_list<std::string> parts, Action&& action) {
  try {
    action();
  } catch (const E& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_FALSE(e.hint().empty()) << e.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << part << "\n" << e.what();
    return e.info();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "an error of another class: " << e.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace loopgrad::test
