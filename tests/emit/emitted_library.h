// Emitted sources as a user builds them: a C++ file, and C code that calls it, in a library that the test opens.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/compile.h>
#include <loopgrad/device_array.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace loopgrad::test {

class EmittedLibrary {
 public:
  /// Emits, compiles with warnings as errors and opens. `products`: links the BLAS that is installed, if there is one,
  /// or cuBLAS. For the target cuda arrays are memory of the device.
  EmittedLibrary(const Gradient& gradient, const std::string& name, const CompileOptions& options = {},
                 bool products = false);
  ~EmittedLibrary();
  EmittedLibrary(const EmittedLibrary&) = delete;

  /// The functions, called from C. Sizes and arrays are found by their names; a missing array is null.
  int memory(const Sizes& sizes, int threads);  // sets the bytes that `forward` and `backward` get
  int sizes(Sizes& sizes, const Arguments& arrays, int threads);
  int check(const Sizes& sizes, const Arguments& arrays, int threads);
  int forward(const Sizes& sizes, const Arguments& arrays, int threads, unsigned flags = 0);
  int backward(const Sizes& sizes, const Arguments& arrays, int threads, unsigned flags = 0);
  std::string error_text(int status) const;

  std::size_t tape_bytes = 0, workspace_bytes = 0;
  std::string header, source;

 private:
  struct Function {
    std::vector<std::string> sizes, arrays, results;
    void* code = nullptr;
  };
  void build(bool products) const;
  void* room(std::vector<char>& host, DeviceArray& device, std::size_t bytes) const;
  Function parse(const std::string& entry, std::string& driver) const;
  int call(const std::string& entry, const Sizes& sizes, const Arguments& arrays, std::vector<std::int64_t>* results,
           int threads, unsigned flags);

  std::string name_;
  std::filesystem::path folder_;
  void* library_ = nullptr;
  std::map<std::string, Function> functions_;
  bool on_device_ = false;
  std::vector<char> tape_, workspace_;
  DeviceArray device_tape_, device_workspace_;
};

}  // namespace loopgrad::test
