// Programs written by hand in C++: what generated code is measured against.
//
// Each program has two implementations with one interface:
//   hand  a good parallel primal and a good gradient in gather form: no atomics, the same bits every time
//   tape  the strongest fair use of a naive tape: every thread pushes the operands of its own iterations on a tape of
//         its own, pops them in reverse order into shadow arrays of its own, and the shadows are summed at the end
#pragma once

#include <loopgrad/arrays.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace loopgrad::bench {

/// The sizes and arrays of a run by name: inputs, outputs, and `d_` + name for gradients, all row-major.
struct Data {
  Sizes sizes;
  std::map<std::string, HostArray> arrays;

  std::int64_t size(const std::string& name) const { return sizes.at(name); }
  float* floats(const std::string& name) const { return arrays.at(name).as<float>(); }
  const std::int32_t* ints(const std::string& name) const { return arrays.at(name).as<std::int32_t>(); }
};

/// A program on fixed arrays. `backward` uses what the last `forward` saved; memory is reused from call to call.
struct Implementation {
  std::function<void()> forward, backward;
};

struct Reference {
  std::string program;  // a built-in program
  std::function<Implementation(const Data&)> hand, tape;
  /// Bytes that a naive tape of these sizes takes, so that what cannot fit is not tried.
  std::function<double(const Sizes&)> tape_bytes;
};

Reference burgers();
Reference conv1d();
Reference csr_sum();
Reference heat2d();
Reference layernorm();
Reference matmul();  // `hand` is empty without a BLAS
Reference tanh_chain();
Reference wave3d();
Reference window_attention();

}  // namespace loopgrad::bench
