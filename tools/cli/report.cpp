#include "tools/cli/commands.h"

#include <fmt/format.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace loopgrad::cli {
namespace {

/// Texts from outside (file names in locations) may be no UTF-8.
std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// Whether it got out is seen when standard output is flushed, at the end of `main_with`.
void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!file) bad_input(fmt::format("cannot write '{}': {}", path, strerror(errno)));
  file << text;
  errno = 0;
  file.close();
  if (!file)
    throw std::runtime_error(
        fmt::format("error: cannot write '{}'{}{}", path, errno ? ": " : "", errno ? strerror(errno) : ""));
}

void report(const Options& options, const std::string& text, const nlohmann::ordered_json& json) {
  if (options.output) {
    options.output->text += text;
    options.output->json += dumped(json);
    return;
  }
  if (options.json == "-") return print(dumped(json));
  if (!options.json.empty()) write_file(options.json, dumped(json));
  print(text);
}

}  // namespace loopgrad::cli
