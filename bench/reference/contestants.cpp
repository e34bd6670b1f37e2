#include "bench/reference/contestants.h"

#include "backends/runtime/binding.h"
#include "tools/cli/options.h"

#include <memory>

namespace loopgrad::bench {
namespace {

Arguments arguments_of(const Program& program, const Data& data) {
  Arguments arguments;
  for (const ir::Array& array : program.ir().arrays)
    if (array->role != ir::ArrayRole::Tape) arguments[array->name] = data.arrays.at(array->name).view();
  return arguments;
}

Implementation by_loopgrad(const cli::Problem& problem, Variant variant, const Data& data) {
  auto gradient = std::make_shared<GradientExecutable>(
      compile_gradient(problem.program, {.wrt = problem.wrt, .of = problem.of, .variant = variant}));
  return {[gradient, arguments = arguments_of(gradient->gradient().forward, data), sizes = problem.sizes] {
            gradient->forward(arguments, sizes);
          },
          [gradient, arguments = arguments_of(gradient->gradient().backward, data), sizes = problem.sizes] {
            gradient->backward(arguments, sizes);
          }};
}

}  // namespace

const std::vector<Reference>& references() {
  static const std::vector<Reference> all = {conv1d(),  window_attention(), layernorm(),  heat2d(), wave3d(),
                                             burgers(), matmul(),           tanh_chain(), csr_sum()};
  return all;
}

Data make_data(const cli::Problem& problem) {
  Data data{problem.sizes, problem.inputs};
  data.arrays.insert(problem.incoming.begin(), problem.incoming.end());
  backend::SizeValues sizes;
  for (const ir::Symbol& symbol : problem.program.ir().sizes) sizes[symbol] = problem.sizes.at(symbol.name);
  for (const ir::Array& array : problem.program.ir().arrays)
    if (array->role == ir::ArrayRole::Output)
      data.arrays[array->name] = HostArray(array->type, backend::shape_of(array, sizes));
  for (const std::string& name : problem.wrt) {
    const HostArray& input = problem.inputs.at(name);
    data.arrays["d_" + name] = HostArray(input.type(), input.shape());
  }
  return data;
}

std::vector<std::string> result_names(const cli::Problem& problem) {
  std::vector<std::string> names = problem.of;
  for (const std::string& name : problem.wrt) names.push_back("d_" + name);
  return names;
}

std::vector<Contestant> contestants(const cli::Problem& problem, const Data& data) {
  std::vector<Contestant> all;
  double tape_bytes = 0;
  for (const Reference& reference : references()) {
    if (reference.program != problem.program.name()) continue;
    tape_bytes = reference.tape_bytes(problem.sizes);
    if (reference.hand) all.push_back({"hand", [&] { return reference.hand(data); }});
    all.push_back({"tape per thread", [&] { return reference.tape(data); }, tape_bytes});
  }
  for (const Variant variant : {Variant::Restructured, Variant::Atomic, Variant::NaiveTape})
    all.push_back({name_of(variant), [&problem, &data, variant] { return by_loopgrad(problem, variant, data); },
                   variant == Variant::NaiveTape ? tape_bytes : 0});
  return all;
}

}  // namespace loopgrad::bench
