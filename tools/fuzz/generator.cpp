#include "tools/fuzz/generator.h"

#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

Case generate(std::uint64_t seed, const GeneratorOptions& options) { return Writer(seed, options).write(); }

}  // namespace loopgrad::fuzz
