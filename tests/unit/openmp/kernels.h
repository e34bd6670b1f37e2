// Helpers of these tests: programs written in the language, their loops marked by hand, built and run.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "backends/openmp/emitter.h"
#include "backends/stage.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"
#include "tests/support/test_cache.h"
#include "tests/unit/transforms/passes.h"

#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace loopgrad::test {

namespace lg = loopgrad;

/// The program with all loops of these names in the given mode.
inline ir::Program with_mode(const ir::Program& program, const std::set<std::string>& loops, ir::LoopMode mode) {
  ir::StmtRewrite mark;
  mark = [&](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    const auto* loop = s.as<ir::For>();
    if (!loop || !loops.count(loop->iterator.name)) return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, ir::rewrite(loop->body, {}, mark), mode,
                        loop->location, loop->at_most);
  };
  ir::Program result = ir::with_body(program, ir::rewrite(program.body, {}, mark));
  ir::verify(result, "marking loops");
  return result;
}
inline ir::Program parallel(const lg::Program& program, const std::set<std::string>& loops) {
  return with_mode(program.ir(), loops, ir::LoopMode::Parallel);
}

/// Every Reduce made atomic.
inline ir::Program atomic(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
                         const auto* r = s.as<ir::Reduce>();
                         if (!r) return std::nullopt;
                         return ir::reduce(r->array, r->indices, r->op, r->value, r->location, true);
                       }));
}

/// The C++ of programs whose loops are as they should be.
inline backend::EmittedUnit emitted(std::vector<ir::Program> programs, const std::string& header_name = {}) {
  for (ir::Program& program : programs) program = transforms::run_by_cpu(program);
  return backend::emit_openmp(programs, header_name);
}

inline void run(const ir::Program& program, const Arguments& arguments, const Sizes& sizes = {}, int threads = 2,
                backend::TapeStack* stack = nullptr) {
  CompileOptions options;
  options.threads = threads;
  const backend::Build build = backend::build_stages({transforms::run_by_cpu(program)}, options);
  const backend::Stage& stage = build.stages.front();
  stage.run(stage.bind(arguments, sizes), {}, stack);
}

/// Compares with tests/golden/openmp/NAME; LOOPGRAD_UPDATE_GOLDEN=1 writes the file instead.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LOOPGRAD_GOLDEN_DIR) + "/openmp/" + name;
  if (std::getenv("LOOPGRAD_UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << "missing " << path << "; run with LOOPGRAD_UPDATE_GOLDEN=1 to write it";
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "differs from " << path << "; LOOPGRAD_UPDATE_GOLDEN=1 accepts the change";
}

/// Numbers in [-1, 1) that look random and are the same everywhere.
inline std::vector<float> numbers(std::int64_t count, std::uint32_t seed = 1) {
  std::vector<float> out;
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0f);
  }
  return out;
}

}  // namespace loopgrad::test
