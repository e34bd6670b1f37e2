// Locals with an element for each iteration, and back.
#include "transforms/storage/local_storage.h"
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"

#include <loopgrad/error.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* vectors_of_n = R"(
  program p(n)
    input  f32 x[n]
    output f32 y[n]
)";

constexpr const char* in_each = R"(
  for i in 0..n:
    local f32 s
    s = x[i]*2
    y[i] = s
)";

TEST(LocalStorage, HasAnElementForEachIterationAndBack) {
  const ir::Program program = program_of(vectors_of_n, in_each);
  Analyses known;
  const Scheduled expanded = expand_local({program, known}, "s", LoopName("i"));
  ASSERT_TRUE(expanded.legality.ok);
  expect_body(program, expanded.program.body, vectors_of_n, R"(
    local f32 s_all[n]
    for i in 0..n:
      s_all[i] = x[i]*2
      y[i] = s_all[i]
  )");
  const ir::Program& all = expanded.program;
  const Scheduled back = contract_local({all, known}, "s_all");
  ASSERT_TRUE(back.legality.ok);
  EXPECT_EQ(leaves(back.program.body).size(), 2u);
  EXPECT_TRUE(first<ir::Allocate>(back.program.body).as<ir::Allocate>()->array->shape.empty());
}

TEST(LocalStorage, IsNotContractedWhereIterationsShareIt) {
  const ir::Program program = program_of(vectors_of_n, R"(
    local f32 s[n + 1]
    s[0] = 0
    for i in 0..n:
      s[i + 1] = s[i] + x[i]
      y[i] = s[i]
  )");
  Analyses known;
  EXPECT_THROW(contract_local({program, known}, "s"), UsageError);
}

TEST(LocalStorage, NamesWhatItDoesNotFind) {
  const ir::Program program = program_of(vectors_of_n, in_each);
  Analyses known;
  EXPECT_THROW(expand_local({program, known}, "t", LoopName("i")), UsageError);
  EXPECT_THROW(expand_local({program, known}, "s", LoopName("j")), UsageError);
}

}  // namespace
}  // namespace loopgrad::transforms
