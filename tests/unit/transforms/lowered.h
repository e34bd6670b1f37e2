// Lowering a program in a test, and running it before and after in the checked interpreter.
#pragma once

#include "backends/interpreter/interpreter.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "dsl/ir/visit.h"
#include "tests/unit/transforms/passes.h"
#include "transforms/pass/pass.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace loopgrad::transforms {

struct LoweredProgram {
  ir::Program before, after;
  Report report;
  std::string text;  // of the body after lowering
};

inline LoweredProgram lowered(const loopgrad::Program& program, SumMode mode = SumMode::Restructured) {
  LoweredProgram result;
  result.before = program.ir();
  result.after = shared_passes(program.ir(), mode, result.report);
  ir::verify(result.after, "lower_for");
  result.text = ir::print(result.after.body);
  return result;
}

/// What `pass` makes of a lowered program.
inline LoweredProgram passed(const loopgrad::Program& program, ir::Program (*pass)(const ir::Program&)) {
  LoweredProgram result = lowered(program);
  result.after = pass(result.after);
  ir::verify(result.after, "pass");
  result.text = ir::print(result.after.body);
  return result;
}

inline LoweredProgram passed(const loopgrad::Program& program, PassFunction pass) {
  LoweredProgram result = lowered(program);
  Report report;
  const LowerOptions options;
  PassContext context{options, report};
  result.after = pass(result.after, context);
  ir::verify(result.after, "pass");
  result.text = ir::print(result.after.body);
  return result;
}

/// Names of the loops that are parallel and in no other parallel loop.
inline std::vector<std::string> outer_parallel_loops(const ir::Stmt& s) {
  std::vector<std::string> names;
  auto visit = [&](const ir::Stmt& at, const auto& self) -> void {
    auto* loop = at.as<ir::For>();
    if (loop && loop->mode == ir::LoopMode::Parallel) return names.push_back(loop->iterator.name);
    ir::for_each_child(at, ir::overloaded{[](const ir::Expr&) {}, [&](const ir::Stmt& c) { self(c, self); }});
  };
  visit(s, visit);
  return names;
}

/// Loops that are sequential and in no parallel loop.
inline std::vector<std::string> outer_sequential_loops(const ir::Stmt& s) {
  std::vector<std::string> names;
  auto visit = [&](const ir::Stmt& at, const auto& self) -> void {
    if (auto* loop = at.as<ir::For>()) {
      if (loop->mode == ir::LoopMode::Parallel) return;
      names.push_back(loop->iterator.name);
    }
    ir::for_each_child(at, ir::overloaded{[](const ir::Expr&) {}, [&](const ir::Stmt& c) { self(c, self); }});
  };
  visit(s, visit);
  return names;
}

/// for i: y[i] = sum over j of x[i + j]*w[j]
inline loopgrad::Program smoothing() {
  ProgramBuilder p("smoothing");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<double>("x", {n + k - 1}), w = p.input<double>("w", {k});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  return p.build();
}

/// The plan reported for sums into an array; "" when there is none.
inline std::string plan_of(const Report& report, const std::string& array) {
  for (const SumDecision& sum : report.sums) {
    if (sum.sum.rfind(array + "[", 0) == 0 || sum.sum.rfind(array + " ", 0) == 0) return sum.plan;
  }
  return "";
}

using Buffers = std::map<std::string, HostArray>;

/// Random contents that respect the facts of the program; the same for every call with the same sizes.
inline Buffers inputs_for(const ir::Program& program, const backend::SizeValues& sizes) {
  std::mt19937 random(7);
  Buffers buffers;
  for (const ir::Array& array : program.arrays) {
    ScalarType type = is_float(array->type) ? ScalarType::F64 : array->type;
    HostArray& buffer = buffers[array->name] = HostArray(type, backend::shape_of(array, sizes));
    std::vector<double> values;
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (std::int64_t k = 0; k < buffer.size(); ++k) values.push_back(is_float(type) ? uniform(random) : 0);
    for (const ir::Fact& fact : program.facts) {
      if (fact.array != array) continue;
      if (fact.kind == ir::FactKind::InRange) {
        auto lower = backend::evaluate(fact.lower, sizes), upper = backend::evaluate(fact.upper, sizes);
        std::uniform_int_distribution<std::int64_t> in_range(lower, std::max(lower, upper - 1));
        for (double& value : values) value = static_cast<double>(in_range(random));
      }
      if (fact.kind == ir::FactKind::Sorted) std::sort(values.begin(), values.end());
      if (fact.kind == ir::FactKind::Injective) {
        for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k);
        std::shuffle(values.begin(), values.end(), random);
      }
      if (fact.kind == ir::FactKind::CsrPointer) {
        auto total = backend::evaluate(fact.upper, sizes);
        std::uniform_int_distribution<std::int64_t> entry(0, total);
        for (double& value : values) value = static_cast<double>(entry(random));
        std::sort(values.begin(), values.end());
        values.front() = 0;
        values.back() = static_cast<double>(total);
      }
    }
    for (std::int64_t k = 0; k < buffer.size(); ++k) buffer.set(k, values[static_cast<std::size_t>(k)]);
  }
  return buffers;
}

/// Runs in f64, checked for races, bad indices and uninitialised reads.
inline Buffers run_checked(const ir::Program& program, const Sizes& sizes) {
  backend::SizeValues values;
  for (const ir::Symbol& size : program.sizes) values[size] = sizes.at(size.name);
  Buffers buffers = inputs_for(program, values);
  Arguments arguments;
  for (auto& [name, buffer] : buffers) arguments[name] = buffer.view();
  backend::InterpreterOptions options;
  options.checked = options.f64 = true;
  backend::BindOptions bind;
  bind.all_f64 = true;
  backend::interpret(program, backend::bind(program, arguments, sizes, bind), options);
  return buffers;
}

/// The lowered program computes the same, up to the rounding of reordered sums, and has no races.
inline void expect_same_results(const LoweredProgram& lowered, const Sizes& sizes) {
  Buffers before = run_checked(lowered.before, sizes), after = run_checked(lowered.after, sizes);
  for (const auto& [name, expected] : before) {
    const HostArray& actual = after.at(name);
    for (std::int64_t k = 0; k < expected.size(); ++k) {
      double e = expected.get(k), a = actual.get(k);
      ASSERT_NEAR(a, e, 1e-11 * (1 + std::abs(e))) << name << "[" << k << "]\n" << ir::print(lowered.after);
    }
  }
}

}  // namespace loopgrad::transforms
