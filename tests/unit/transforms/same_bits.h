// Running a program before and after a pass that promises the same bits.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace loopgrad::transforms {

/// Marks the loops with this iterator name parallel, as parallelize_loops would.
inline ir::Program with_parallel(const ir::Program& program, const std::string& name) {
  const auto mark = [&](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    const auto* n = s.as<ir::For>();
    if (!n || n->iterator.name != name) return std::nullopt;
    return ir::for_loop(n->iterator, n->lower, n->upper, n->body, ir::LoopMode::Parallel, n->location, n->at_most);
  };
  return ir::with_body(program, ir::rewrite(program.body, {}, mark));
}
inline ir::Program with_parallel(const loopgrad::Program& program, const std::string& name) {
  return with_parallel(program.ir(), name);
}

using Buffers = std::map<std::string, HostArray>;

/// Runs in f32, checked for races and bad indices, on inputs that are the same for every call with the same sizes.
inline Buffers run(const ir::Program& program, const Sizes& sizes) {
  backend::SizeValues values;
  for (const ir::Symbol& s : program.sizes) values[s] = sizes.at(s.name);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Buffers buffers;
  Arguments arguments;
  for (const ir::Array& a : program.arrays) {
    HostArray& b = buffers[a->name] = HostArray(a->type, backend::shape_of(a, values));
    for (std::int64_t i = 0; i < b.size(); ++i) b.set(i, uniform(random));
    arguments[a->name] = b.view();
  }
  for (const ir::Fact& fact : program.facts) {
    if (fact.kind != ir::FactKind::CsrPointer) continue;
    HostArray& b = buffers.at(fact.array->name);  // rows of different lengths, some of them empty
    const auto total = static_cast<double>(backend::evaluate(fact.upper, values)), last = b.size() - 1.0;
    for (std::int64_t i = 0; i < b.size(); ++i)
      b.set(i, last > 0 ? std::floor(total * std::pow(static_cast<double>(i) / last, 2)) : total);
  }
  backend::InterpreterOptions options;
  options.checked = true;
  backend::interpret(program, backend::bind(program, arguments, sizes), options);
  return buffers;
}

/// The passes for the CPU promise the same operations on every element in the same order.
inline void expect_same_bits(const ir::Program& before, const ir::Program& after, const Sizes& sizes) {
  const Buffers a = run(before, sizes), b = run(after, sizes);
  for (const auto& [name, buffer] : a)
    EXPECT_EQ(std::memcmp(buffer.data(), b.at(name).data(), buffer.bytes()), 0) << name << "\n" << ir::print(after);
}

}  // namespace loopgrad::transforms
