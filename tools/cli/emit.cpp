#include "backends/emit_files.h"
#include "tools/cli/commands.h"
#include "tools/cli/lowered.h"

#include <loopgrad/autodiff.h>

#include <fmt/format.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace loopgrad::cli {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Leaves a file alone that is the same already, so that nobody builds it again.
void write(const fs::path& path, const std::string& text) {
  if (fs::exists(path) && text_of(path) == text) return;
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!file) bad_input(fmt::format("cannot write '{}': {}", path.string(), strerror(errno)), "give --out a folder");
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("error: cannot write '{}': {}", path.string(), strerror(errno)));
}

}  // namespace

int emit_program(const Options& options) {
  const ProgramEntry& entry = *options.program;
  const std::string spelled = backend::generated_name(options.name);
  if (!options.name.empty() && spelled != options.name + "_")
    bad_input(fmt::format("'{}' is no name in C that can be continued", options.name),
              fmt::format("for example {}", spelled.substr(0, spelled.size() - 1)));
  const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt, .variant = options.variant});
  const CompileOptions compiling = compile_options(options, Target::OpenMP, sizes_of(options, entry.sizes));
  const backend::EmittedFiles files =
      backend::emit_files(gradient, compiling, options.name.empty() ? entry.name : options.name);
  const fs::path folder = options.out;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) bad_input(fmt::format("cannot make the folder '{}': {}", folder.string(), failed.message()));
  const fs::path source = folder / files.source_name, header = folder / files.header_name;
  write(header, files.header);
  write(source, files.source);
  report(options, fmt::format("{}\n{}\n{}\n", header.string(), source.string(), files.build),
         {{"program", entry.name},
          {"target", name_of(compiling.target)},
          {"header", header.string()},
          {"source", source.string()},
          {"build", files.build}});
  return 0;
}

}  // namespace loopgrad::cli
