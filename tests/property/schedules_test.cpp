// Random steps on random programs: what a schedule allows leaves every result as it was, in the checked interpreter.
#include "backends/interpreter/interpreter.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "tools/fuzz/generator.h"
#include "tools/support/random.h"
#include "transforms/pass/pass.h"
#include "transforms/pipeline.h"
#include "transforms/schedule/apply_schedule.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace loopgrad::fuzz {
namespace {

constexpr std::uint64_t kTests = 4, kSeedsPerTest = 10;
constexpr int kTries = 12;  // of a step, per program

Arrays copy_of(const Arrays& arrays) {
  Arrays copy;
  for (const auto& [name, array] : arrays) {
    HostArray one(array.type(), array.shape());
    if (array.bytes() > 0) std::memcpy(one.data(), array.data(), static_cast<std::size_t>(array.bytes()));
    copy.emplace(name, std::move(one));
  }
  return copy;
}

/// Runs in f64, checked, with parallel loops shuffled; arrays that are missing are added.
void run(const ir::Program& program, Arrays& arrays, const Sizes& sizes, std::uint64_t seed) {
  backend::SizeValues values;
  for (const ir::Symbol& size : program.sizes) values[size] = sizes.at(size.name);
  Arguments arguments;
  for (const ir::Array& array : program.arrays) {
    ScalarType type = is_float(array->type) ? ScalarType::F64 : array->type;
    if (!arrays.contains(array->name)) arrays.emplace(array->name, HostArray(type, backend::shape_of(array, values)));
    arguments[array->name] = arrays.at(array->name).view();
  }
  const auto binding = backend::bind(program, arguments, sizes, {.ignore_unknown = false, .all_f64 = true});
  backend::interpret(program, binding, {.f64 = true, .checked = true, .seed = seed});
}

/// All loops, each by its name and number.
std::vector<LoopName> loops_of(const ir::Program& program) {
  std::map<std::string, int> count;
  std::vector<LoopName> result;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    auto* loop = s.as<ir::For>();
    if (loop) result.push_back(LoopName(loop->iterator.name).number(++count[loop->iterator.name]));
  });
  return result;
}

Schedule::Step random_step(const ir::Program& program, tools::Random& random) {
  std::vector<LoopName> loops = loops_of(program);
  auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(loops.size())));
  const LoopName& a = loops[at];
  const LoopName& b = loops[at + 1 < loops.size() ? at + 1 : 0];  // the next one is often inside or adjacent
  std::int64_t factor = 2 + random.below(2);
  switch (random.below(10)) {
    case 0: return {"split", {a}, {factor}};
    case 1: return {"tile", {a, b}, {factor, 3}};
    case 2: return {"interchange", {a, b}, {}};
    case 3: return {"fuse", {a, b}, {}};
    case 4: return {"fission", {a}, {}};
    case 5: return {"unroll", {a}, {factor}};
    case 6: return {"unroll_and_jam", {a}, {factor}};
    case 7: return {"parallelize", {a}, {}};
    case 8: return {"vectorize", {a}, {factor}};
    default: return {"reverse", {a}, {}};
  }
}

struct Counts {
  int done = 0, refused = 0;
};

/// The program with random steps that are legal.
ir::Program rescheduled(const ir::Program& program, std::uint64_t seed, std::string& steps, Counts& counts) {
  tools::Random random(seed);
  ir::Program result = program;
  for (int k = 0; k < kTries && !loops_of(result).empty(); ++k) {
    Schedule::Step step = random_step(result, random);
    try {
      Report report;
      result = transforms::apply_step(result, step, report);
      steps += step.str() + "; ";
      ++counts.done;
    } catch (const Error&) {
      ++counts.refused;
    }
  }
  return result;
}

void expect_equal(const ir::Program& program, const Arrays& actual, const Arrays& expected, const std::string& what) {
  for (const ir::Array& array : program.arrays) {
    if (array->role == ir::ArrayRole::Input) continue;
    const HostArray &a = actual.at(array->name), &e = expected.at(array->name);
    for (std::int64_t i = 0; i < e.size(); ++i) {
      ASSERT_NEAR(a.get(i), e.get(i), 1e-9 * (1 + std::abs(e.get(i)))) << array->name << "[" << i << "]\n" << what;
    }
  }
}

struct RandomSchedules : testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomSchedules, KeepTheResults) {
  Counts counts;
  for (std::uint64_t k = 0; k < kSeedsPerTest; ++k) {
    const Case c = generate(5000 + GetParam() * kSeedsPerTest + k);
    Gradient gradient = [&] {
      try {
        return differentiate(c.program);
      } catch (const DifferentiationError&) {
        return Gradient{c.program, c.program, c.program, {}, {}};  // only the program is tried
      }
    }();
    Arrays plain = make_arrays(c, true);
    std::vector<ir::Program> parts = {c.program.ir()};
    const bool sized = ir::is_empty(gradient.sizing.ir().body);
    if (sized) parts = {gradient.forward.ir(), gradient.backward.ir()};
    for (const ir::Program& part : parts) {
      for (const ir::Array& array : part.arrays) {
        if (array->name.rfind("d_", 0) != 0 || plain.contains(array->name)) continue;
        HostArray& incoming = plain[array->name] = HostArray(ScalarType::F64, plain.at(array->name.substr(2)).shape());
        for (std::int64_t i = 0; i < incoming.size(); ++i) incoming.set(i, 0.5 + 0.01 * static_cast<double>(i));
      }
      for (const bool restructured : {false, true}) {
        std::string steps = describe(c) + "\nsteps: ";
        ir::Program start = restructured ? transforms::before_schedule(part) : part;
        ir::Program after = rescheduled(start, c.seed * 2 + restructured, steps, counts);
        Arrays expected = copy_of(plain), actual = copy_of(plain);
        run(part, expected, c.sizes, 1);
        try {
          run(after, actual, c.sizes, 2);
        } catch (const Error& e) {
          FAIL() << e.what() << "\n" << steps << "\n" << ir::print(after);
        }
        expect_equal(part, actual, expected, steps + "\n" + ir::print(after));
        if (HasFatalFailure()) return;
      }
      run(part, plain, c.sizes, 1);  // fills the tape for the backward program
    }
  }
  EXPECT_GT(counts.done, 40);
  EXPECT_GT(counts.refused, 20);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, testing::Range<std::uint64_t>(0, kTests), [](const auto& test) {
  return fmt::format("{}_to_{}", 5000 + test.param * kSeedsPerTest, 5000 + (test.param + 1) * kSeedsPerTest - 1);
});

}  // namespace
}  // namespace loopgrad::fuzz
