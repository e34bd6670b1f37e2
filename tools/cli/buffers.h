// The arrays that a command runs programs on.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/compile.h>
#include <loopgrad/main.h>

namespace loopgrad::cli {

/// Arrays by name.
using Arrays = std::map<std::string, HostArray>;

/// An array with contents of its own.
HostArray copy_of(const HostArray& array);
/// The same numbers as far as the type has them.
HostArray converted(const HostArray& array, ScalarType type);
/// The same numbers as f64 when the array is of a float type; integers stay.
HostArray as_f64(const HostArray& array);

/// The inputs and in-outs of the program at these sizes, filled by the entry. Throws UsageError when a size is missing
/// or a name or shape is wrong.
Arrays make_inputs(const ProgramEntry& entry, const Program& program, const Sizes& sizes, std::uint64_t seed);

/// Which arrays are differentiated, and by which: the empty lists of GradientOptions filled in.
std::vector<std::string> resolve_wrt(const Program& program, const std::vector<std::string>& wrt);
std::vector<std::string> resolve_of(const Program& program);

/// A random incoming gradient `d_<y>`, uniform in [-1, 1), for each of the program's float outputs and in-outs.
Arrays make_incoming(const Program& program, const Sizes& sizes, std::uint64_t seed);

/// The same with version 1 for the inputs of integers: they stay as they are from run to run.
Arguments with_versions(Arguments arguments, const Program& program);

/// Arguments of runs of one or several programs that share arrays by name.
class Buffers {
 public:
  /// `initial` holds the contents of inputs and in-outs, of any type; with `f64` every float array is f64.
  Buffers(std::vector<Program> programs, Sizes sizes, Arrays initial, bool f64);
  /// Gives inputs and in-outs their initial contents again; outputs are left as they are.
  void reset();
  /// The arrays that program number `index` declares, tape arrays excepted: those belong to the executable.
  Arguments arguments(std::size_t index) const;
  const HostArray& at(const std::string& name) const { return arrays_.at(name); }
  const Sizes& sizes() const { return sizes_; }

 private:
  std::vector<Program> programs_;
  Sizes sizes_;
  Arrays initial_, arrays_;
};

/// A hash of the bits of the named arrays.
std::uint64_t hash_bits(const Buffers& buffers, const std::vector<std::string>& names);

/// max |a - b| / max |b| over the elements, or max |a - b| when b is zero; infinite when `a` is not finite. The error
/// is relative to `least_scale` where max |b| is smaller.
double relative_error(const HostArray& a, const HostArray& b, double least_scale = 0);

}  // namespace loopgrad::cli
