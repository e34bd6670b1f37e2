// Runs the command line in this process and keeps what it said.
#pragma once

#include <loopgrad/main.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace loopgrad::test {

struct CliResult {
  int status = 0;
  std::string out, err;
};

inline CliResult run_cli(const std::vector<ProgramEntry>& programs, std::vector<std::string> words) {
  words.insert(words.begin(), "loopgrad");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CliResult result;
  result.status = main_with(static_cast<int>(words.size()), argv.data(), programs);
  std::fflush(stdout);
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

/// The keys of an object, in order.
inline std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

}  // namespace loopgrad::test
