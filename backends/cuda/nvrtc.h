// NVIDIA's run-time compiler, found when it is first needed: this binary also runs where there is none.
#pragma once

#include <string>
#include <vector>

namespace loopgrad::backend {

/// "13.0" of the NVRTC that will be used. Throws CompileError(NoCompiler) naming `program` when there is none.
std::string nvrtc_version(const std::string& program);

/// Whether NVRTC can be opened.
bool has_nvrtc();

/// Machine code for an architecture such as "sm_90". Needs no GPU. Throws CompileError: NoCompiler (none, or it does
/// not know the architecture), or CompileFailed with the compiler's log.
std::string compile_cubin(const std::string& source, const std::string& architecture, const std::string& program);

/// The same in half the time, for whoever only asks whether it compiles: slow code, not looked through.
std::string compile_quickly(const std::string& source, const std::string& architecture, const std::string& program);

/// The assembly that the machine code is made from, as a person reads it. Throws as `compile_cubin`.
std::string compile_ptx(const std::string& source, const std::string& architecture, const std::string& program);

/// Whether the assembler would get the source wrong without `separate_extrema` before it (see assembler.h): for whoever
/// compiles it in other ways. Throws as `compile_cubin`.
bool needs_separate_extrema(const std::string& source, const std::string& architecture, const std::string& program);

/// The flags, as one line for hashing.
std::string nvrtc_flags();

}  // namespace loopgrad::backend
