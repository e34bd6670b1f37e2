#include "tools/fuzz/generator.h"

#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

Case generate(std::uint64_t seed, const Axes& axes) { return Writer(seed, axes).write(); }

}  // namespace loopgrad::fuzz
