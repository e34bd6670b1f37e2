#include "tests/emit/emitted_library.h"

#include "backends/emit_files.h"
#include "backends/openmp/emitter.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace loopgrad::test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

/// "x_" as the user called it.
std::string users(std::string name) {
  name.pop_back();
  return name;
}

}  // namespace

EmittedLibrary::EmittedLibrary(const Gradient& gradient, const std::string& name, const CompileOptions& options,
                               bool products)
    : name_(name), on_device_(options.target == Target::Cuda) {
  const backend::EmittedFiles files = backend::emit_files(gradient, options, name);
  header = files.header;
  source = files.source;
  folder_ = fs::path(LOOPGRAD_EMIT_FOLDER) / fmt::format("{}.{}", name, getpid());
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  write(folder_ / files.header_name, header);
  write(folder_ / files.source_name, source);
  std::string driver = fmt::format("#include \"{}\"\n", files.header_name);
  for (const char* entry : {"memory", "sizes", "check", "forward", "backward"})
    if (header.find(fmt::format("int {}_{}(", name, entry)) != std::string::npos)
      functions_[entry] = parse(entry, driver);
  write(folder_ / "driver.c", driver);
  build(products);
  library_ = dlopen((folder_ / "library.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
  for (auto& [entry, function] : functions_) function.code = dlsym(library_, ("drive_" + entry).c_str());
}

void EmittedLibrary::build(bool products) const {
  std::string upper = name_;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  run(fmt::format("cd {} && {} -std=c99 -pedantic -fPIC -Wall -Wextra -Werror -c driver.c -o driver.o",
                  folder_.string(), LOOPGRAD_TEST_CC));
  if (on_device_)
    return run(fmt::format(
        "cd {} && nvcc -std=c++17 -O3 --fmad=false -arch=native -Werror all-warnings -Xcompiler "
        "-fPIC,-Wall,-Wextra,-Werror {} -shared driver.o {}.cu {} -o library.so",
        folder_.string(), products ? "" : fmt::format("-D{}_NO_CUBLAS", upper), name_, products ? "-lcublas" : ""));
  const bool link = products && fs::exists("/usr/lib/x86_64-linux-gnu/libopenblas.so.0");
  run(
      fmt::format("cd {0} && {1} -std=c++20 -fPIC -Wall -Wextra -Werror -fopenmp {2} {3} {4} -c {5}.cpp -o source.o && "
                  "{1} -shared -fopenmp driver.o source.o {6} -o library.so",
                  folder_.string(), LOOPGRAD_TEST_CXX, backend::required_flags, backend::speed_flags,
                  link ? "" : fmt::format("-D{}_NO_BLAS", upper), name_, link ? "-l:libopenblas.so.0" : ""));
}

EmittedLibrary::~EmittedLibrary() {
  fs::remove_all(folder_);  // the library stays open: threads of OpenMP may still be in it
}

/// What the header declares, and C that calls it with arrays of sizes and pointers.
EmittedLibrary::Function EmittedLibrary::parse(const std::string& entry, std::string& driver) const {
  const std::string start = fmt::format("int {}_{}(", name_, entry);
  const std::size_t from = header.find(start) + start.size();
  const std::string list = header.substr(from, header.find(')', from) - from);
  Function function;
  std::vector<std::string> arguments;
  const std::regex parameter("([^,]*[ *])([A-Za-z0-9_]+)\\s*(,|$)");
  for (std::sregex_iterator it(list.begin(), list.end(), parameter), end; it != end; ++it) {
    const std::string type = (*it)[1], name = (*it)[2];
    const bool is_pointer = type.find('*') != std::string::npos;
    if (name.back() != '_') {
      arguments.push_back(name);
    } else if (!is_pointer) {
      arguments.push_back(fmt::format("s[{}]", function.sizes.size()));
      function.sizes.push_back(users(name));
    } else if (entry == "sizes" && type.find("const") == std::string::npos) {
      arguments.push_back(fmt::format("r + {}", function.results.size()));
      function.results.push_back(users(name));
    } else {
      arguments.push_back(fmt::format("a[{}]", function.arrays.size()));
      function.arrays.push_back(users(name));
    }
  }
  driver += fmt::format(
      "int drive_{0}(const int64_t* s, void* const* a, int64_t* r, void* tape, void* workspace, size_t* bytes, int "
      "threads, unsigned flags);\n"
      "int drive_{0}(const int64_t* s, void* const* a, int64_t* r, void* tape, void* workspace, size_t* bytes, int "
      "threads, unsigned flags) {{\n"
      "  size_t {2}tape_bytes = {3}bytes[0], {2}workspace_bytes = {3}bytes[1];\n"
      "  (void)s; (void)a; (void)r; (void)tape; (void)workspace; (void)tape_bytes; (void)workspace_bytes; "
      "(void)threads; (void)flags;\n  void* const stream = 0;\n  (void)stream;\n"
      "  return {1}_{0}({4});\n}}\n",
      entry, name_, entry == "memory" ? "*" : "", entry == "memory" ? "&" : "", fmt::join(arguments, ", "));
  return function;
}

int EmittedLibrary::call(const std::string& entry, const Sizes& sizes, const Arguments& arrays,
                         std::vector<std::int64_t>* results, int threads, unsigned flags) {
  const Function& function = functions_.at(entry);
  std::vector<std::int64_t> values, computed(function.results.size());
  for (const std::string& size : function.sizes) values.push_back(sizes.at(size));
  std::vector<void*> pointers;
  for (const std::string& array : function.arrays) {
    const auto found = arrays.find(array);
    pointers.push_back(found == arrays.end() ? nullptr : found->second.data);
  }
  std::size_t bytes[2] = {tape_bytes, workspace_bytes};
  using Code = int (*)(const std::int64_t*, void* const*, std::int64_t*, void*, void*, std::size_t*, int, unsigned);
  const int status = reinterpret_cast<Code>(function.code)(
      values.data(), pointers.data(), computed.data(), room(tape_, device_tape_, tape_bytes),
      room(workspace_, device_workspace_, workspace_bytes), bytes, threads, flags);
  if (entry == "memory") tape_bytes = bytes[0], workspace_bytes = bytes[1];
  if (results) *results = computed;
  return status;
}

/// The same memory as long as its size is.
void* EmittedLibrary::room(std::vector<char>& host, DeviceArray& device, std::size_t bytes) const {
  if (bytes == 0) return nullptr;
  if (!on_device_) {
    host.resize(bytes);
    return host.data();
  }
  if (device.bytes() != static_cast<std::int64_t>(bytes))
    device = {ScalarType::Bool, {static_cast<std::int64_t>(bytes)}};
  return device.data();
}

int EmittedLibrary::memory(const Sizes& sizes, int threads) { return call("memory", sizes, {}, nullptr, threads, 0); }

int EmittedLibrary::sizes(Sizes& sizes, const Arguments& arrays, int threads) {
  std::vector<std::int64_t> computed;
  const int status = call("sizes", sizes, arrays, &computed, threads, 0);
  for (std::size_t k = 0; k < computed.size(); ++k) sizes[functions_.at("sizes").results[k]] = computed[k];
  return status;
}

int EmittedLibrary::check(const Sizes& sizes, const Arguments& arrays, int threads) {
  return call("check", sizes, arrays, nullptr, threads, 0);
}
int EmittedLibrary::forward(const Sizes& sizes, const Arguments& arrays, int threads, unsigned flags) {
  return call("forward", sizes, arrays, nullptr, threads, flags);
}
int EmittedLibrary::backward(const Sizes& sizes, const Arguments& arrays, int threads, unsigned flags) {
  return call("backward", sizes, arrays, nullptr, threads, flags);
}

std::string EmittedLibrary::error_text(int status) const {
  const auto code = reinterpret_cast<const char* (*)(int)>(dlsym(library_, (name_ + "_error_text").c_str()));
  return code(status);
}

}  // namespace loopgrad::test
