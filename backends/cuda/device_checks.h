// What can be said about a device without calling it: refusals with their reasons, which tests can ask for any device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace loopgrad::backend::cuda {

/// Throws RuntimeError(NoDevice) when the compute capability is below what generated code needs.
void check_capability(const std::string& name, int major, int minor, const std::string& program);

/// Throws CompileError(NoCompiler) when the toolkit's compiler makes no code for the device; `known` are its
/// architectures (80, 90, ...), `toolkit` is its version.
void check_architecture(const std::string& architecture, const std::vector<int>& known, const std::string& toolkit,
                        const std::string& program);

/// Throws UsageError(BadArgument) when the kernel cannot run with so many threads in a block: because of the device, or
/// because of the registers that it uses.
void check_block(std::int64_t threads, int most, const std::string& kernel, const std::string& program);

/// Throws UsageError(BadArgument) when a call comes while another device is current than the one that the program was
/// compiled for.
void check_current_device(int compiled_for, int current, const std::string& program);

}  // namespace loopgrad::backend::cuda
