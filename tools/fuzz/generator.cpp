#include "tools/fuzz/generator.h"

#include "tools/fuzz/writer.h"
#include "transforms/pass/pass.h"

namespace loopgrad::fuzz {

Case generate(std::uint64_t seed, const Axes& axes) {
  Case result = Writer(seed, axes).write();
  if (axes.left_out_passes) result.left_out = passes_to_leave_out(seed);
  if (axes.common_names) result.program = with_common_names(result.program, seed);
  if (axes.expected_sizes) result.expected = sizes_to_expect(seed, result.program.ir());
  return result;
}

Sizes sizes_to_expect(std::uint64_t seed, const ir::Program& program) {
  static constexpr std::int64_t values[] = {1, 2, 5, 20, 100, 3000, 100'000, 20'000'000};
  tools::Random random(seed * 43 + 9);
  Sizes result;
  if (random.below(3) > 0) return result;
  for (const ir::Symbol& size : program.sizes)
    if (random.below(3) > 0) result[size.name] = values[random.below(std::size(values))];
  return result;
}

std::set<std::string> passes_to_leave_out(std::uint64_t seed) {
  tools::Random random(seed * 11 + 3);
  const std::int64_t dice = random.below(100);
  const std::int64_t percent = dice < 70 ? 0 : dice < 85 ? 5 : 33;
  std::set<std::string> result;
  for (const transforms::Machine& machine : {transforms::cpu_machine(), transforms::gpu_machine()}) {
    for (const transforms::Pass& pass : transforms::passes({.machine = machine})) {
      std::uint64_t hash = seed;
      for (const char* letter = pass.name; *letter; ++letter) hash = hash * 131 + static_cast<unsigned char>(*letter);
      if (!pass.required && tools::Random(hash).below(100) < percent) result.insert(pass.name);
    }
  }
  return result;
}

}  // namespace loopgrad::fuzz
