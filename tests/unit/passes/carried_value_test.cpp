// Values that loops carry from iteration to iteration.
#include "transforms/sums/scans/carried_value.h"
#include "tests/unit/passes/parts.h"

namespace loopgrad::transforms {
namespace {

constexpr const char* sequence = R"(
  program p(n)
    input  f32 x[n]
    inout  f32 y[n]
    inout  f32 s
    inout  f32 t
)";

std::string carried_in(const std::string& body) {
  const ir::Program program = program_of(sequence, body);
  std::string result;
  for (const CarriedValue& value : carried_values(program.body))
    result += (result.empty() ? "" : " ") + value.array->name + (value.moves ? " moves" : "");
  return result;
}

TEST(CarriedValues, AreScalarsAndElementsThatFollowEachOther) {
  EXPECT_EQ(carried_in("for i in 0..n:\n  s = 0.5*s + x[i]\n"), "s");
  EXPECT_EQ(carried_in("for i in 1..n:\n  y[i] = 0.5*y[i - 1] + x[i]\n"), "y moves");
  EXPECT_EQ(carried_in("for i in 0..n:\n  s = 0.5*s + x[i]\n  t = max(t, s)\n"), "s t");
  EXPECT_EQ(carried_in("for i in 0..n:\n  y[i] = x[i]\n"), "");
}

TEST(CarriedValues, CarryNothingWhereEachIterationSetsThemFirst) {
  const auto set_first = [](const std::string& body) {
    const ir::Program program = program_of(sequence, body);
    const auto values = carried_values(program.body);
    return values.size() == 1 && is_set_first(values[0]);
  };
  EXPECT_TRUE(set_first("for i in 0..n:\n  s = x[i]\n  y[i] = s*s\n  s = s + 1\n"));
  EXPECT_FALSE(set_first("for i in 0..n:\n  y[i] = s*s\n  s = x[i] + s\n"));
}

TEST(CarriedValues, BecomeOneUpdateOfWhatWasBefore) {
  const ir::Program program = program_of(sequence, R"(
    for i in 0..n:
      s = s*0.5
      s = s + x[i]
      y[i] = s
  )");
  const auto values = carried_values(program.body);
  ASSERT_EQ(values.size(), 1u);
  const ir::Array kept = ir::make_array("s_kept", ScalarType::F32, {ir::int_const(8)}, ir::ArrayRole::Local, {});
  const ir::Expr previous = ir::load(values[0].array, {});
  const auto apart = separated(values[0], {kept, {ir::var(program.body.as<ir::For>()->iterator)}, previous});
  ASSERT_TRUE(apart);
  EXPECT_EQ(ir::print(apart->update), "s_kept[i] = s*0.5 + x[i]\n");
}

}  // namespace
}  // namespace loopgrad::transforms
