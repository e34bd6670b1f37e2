// Targets are rows of one table; nothing else knows how many there are.
#include "backends/interface/backend.h"
#include "backends/cuda/emitter.h"
#include "backends/openmp/stack.h"
#include "transforms/map/gpu/place_locals.h"

#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad::backend {
namespace {

Program doubled() {
  ProgramBuilder p("doubled");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * 2.0f;
  return p.build();
}

TEST(Backends, AreWhatTargetsSelect) {
  for (const Target target : {Target::Interpreter, Target::OpenMP, Target::Cuda}) {
    const Backend& backend = backend_of(target);
    EXPECT_STREQ(backend.name(), name_of(target));
    EXPECT_EQ(&backend, &backend_of(target));
    EXPECT_EQ(backend.interprets(), target == Target::Interpreter);
    EXPECT_EQ(backend.memory().device(), target == Target::Cuda ? Device::Cuda : Device::Host);
    EXPECT_EQ(backend.machine({}).is_gpu(), target == Target::Cuda);
    EXPECT_EQ(backend.make_stack()->peak_bytes(), 0);
  }
  EXPECT_TRUE(interpreter_backend().machine({.target = Target::Interpreter, .gpu_mapped = true}).is_gpu());
}

/// An enumeration of C++ holds any number: it must not run on whatever is the last case.
TEST(Backends, WhatIsNoTargetIsRefused) {
  CompileOptions options;
  options.target = static_cast<Target>(9);
  try {
    compile(doubled(), options);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no target 9"), std::string::npos) << error.what();
  }
}

/// Where a local lives is decided by a pass: the emitter prints it, and does not guess.
TEST(Backends, AnEmitterDoesNotGuessWhoSharesALocal) {
  ProgramBuilder p("with_local");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto t = p.scalar<float>("t");
    t = x(i);
    x(i) = t + 1.0f;
  }
  const ir::Program program = p.build().ir();
  EXPECT_THROW(emit_cuda({program}), InternalError);
  const std::string code = emit_cuda({transforms::place_locals(program)}).source();
  EXPECT_NE(code.find("float t_;"), std::string::npos) << code;
}

/// backward() pops, and may be called again.
TEST(Backends, AStackIsRewoundToWhatTheForwardRunHasPushed) {
  HostStack stack;
  stack.kernel.size = stack.kernel.peak = 24;
  stack.mark();
  stack.kernel.size = 0;
  stack.rewind();
  EXPECT_EQ(stack.kernel.size, 24);
  EXPECT_EQ(stack.peak_bytes(), 24);
  stack.clear();
  EXPECT_EQ(stack.kernel.size, 0);
  EXPECT_EQ(stack.peak_bytes(), 0);
}

}  // namespace
}  // namespace loopgrad::backend
