// Running programs in the interpreter on arrays by name, in the forms that backends get them in.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "backends/lowering.h"
#include "tools/fuzz/case.h"

#include <loopgrad/autodiff.h>

#include <stdexcept>

namespace loopgrad::fuzz {

/// Two ways of computing one thing gave different results.
struct Disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A program that computes infinity or NaN: there is nothing to compare.
struct NotFinite : Disagreement {
  using Disagreement::Disagreement;
};

/// Arrays that share memory do so in the copy as well.
Arrays copy_of(const Arrays& arrays);
HostArray copy_of(const HostArray& array);
/// Random numbers in the shape of an array; a new one for every name and seed.
HostArray random_like(const HostArray& array, const std::string& name, std::uint64_t seed);
double dot(const HostArray& a, const HostArray& b);
backend::SizeValues values_of(const ir::Program& program, const Sizes& sizes);

struct Interpretation {
  bool f64 = true, checked = true;
  std::uint64_t seed = 1;  // order of parallel iterations
};

/// Runs a program on arrays by name; missing arrays are added among them, zero.
void run(const ir::Program& program, Arrays& arrays, const Sizes& sizes, const Interpretation& how,
         backend::ValueStack* stack = nullptr);

/// Runs a program that looks after indices and so has arrays that `written` has not, which notes what is wrong: nothing
/// must be.
void run_noting(const ir::Program& program, const ir::Program& written, Arrays& arrays, const Sizes& sizes,
                const Interpretation& how, backend::ValueStack* stack = nullptr);

/// `sizes` and those that the sizing program of a gradient computes.
Sizes all_sizes(const Gradient& gradient, const Arrays& inputs, const Sizes& sizes, const Interpretation& how);

/// What is executed: the program as the user or `differentiate` wrote it, or as a backend gets it.
enum class Form {
  AsWritten,
  Cpu,
  Gpu,      // that a few threads fill, so that small programs are mapped as large ones are
  WideGpu,  // that hardly anything fills, least of all by blocks, so that loops over steps are taken apart
};

/// " for a CPU" and the like.
const char* label(Form form);

/// `options` with the machine of a lowered form.
transforms::LowerOptions on_machine(Form form, const Sizes& sizes, transforms::LowerOptions options);

/// Of `options`, the machine is that of the form. Of a GPU's the CUDA text must be emitted, too.
ir::Program formed(const ir::Program& program, Form form, const Sizes& sizes, transforms::LowerOptions options);

/// The program under another name.
Program renamed(const Program& program, const std::string& name);

}  // namespace loopgrad::fuzz
