#include "transforms/pipeline.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "transforms/assign_first_sums.h"
#include "transforms/contract_levels.h"
#include "transforms/contractions/recognize_contractions.h"
#include "transforms/delay_sums.h"
#include "transforms/merge_copies.h"
#include "transforms/parallelize_loops.h"
#include "transforms/pass.h"
#include "transforms/read_levels.h"
#include "transforms/restructure_sums.h"
#include "transforms/schedule/apply_schedule.h"
#include "transforms/store_last_level.h"
#include "transforms/unread_stores.h"
#include "transforms/zero_fills.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

namespace loopgrad::transforms {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool verifies() {
#ifdef NDEBUG
  return environment("LOOPGRAD_VERIFY") == "1";
#else
  return true;
#endif
}

ir::Program run_pass(const Pass& pass, const ir::Program& program, PassContext& context) {
  auto start = std::chrono::steady_clock::now();
  ir::Program result = pass.run(program, context);
  if (environment("LOOPGRAD_TIME") == "1") {
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    fmt::print(stderr, "{:8.2f} ms  {} ({})\n", ms.count(), pass.name, program.name);
  }
  if (verifies()) ir::verify(result, pass.name);
  if (environment("LOOPGRAD_DUMP") == std::string("after:") + pass.name) {
    bool same = result.body.same_as(program.body);
    fmt::print(stderr, "{}\n", same ? program.name + ": unchanged by " + pass.name : ir::print(result));
  }
  return result;
}

}  // namespace

std::vector<Pass> passes(SumMode mode) {
  const bool restructures = mode == SumMode::Restructured;
  std::vector<Pass> list;
  if (restructures) {
    list.push_back({"unread_sums", drop_unread_sums, "first: cleared adjoints that nobody reads hide copies"});
    list.push_back({"recognize_contractions", recognize_contractions, "early: loops as written are perfect nests"});
    list.push_back({"assign_single_sums", assign_single_sums,
                    "before sums are cut into blocks, whose bounds are no longer affine"});
    list.push_back({"zero_fills", shrink_zero_fills, "zeros that no sum starts from any more"});
    list.push_back({"restructure_sums", restructure_sums, "early: works on the loops as written"});
    list.push_back({"delay_sums", delay_sums, "sums are gathered, and none is an assignment yet"});
  }
  list.push_back(
      {"apply_schedule", apply_schedule, "the user's steps: on the loops that do the sums, perfect nests yet"});
  if (restructures) {
    list.push_back({"assign_first_sums", assign_first_sums, "one gathered sum often writes all of its target"});
    list.push_back({"unread_elements", drop_unread_elements, "before zero_fills, which would keep their zeros"});
    list.push_back({"zero_fills", shrink_zero_fills, "zeros that no sum starts from any more"});
    list.push_back({"unread_stores", drop_unread_stores,
                    "again: also locals whose values were forwarded, zeros of the next step"});
    list.push_back({"merge_copies", merge_copies, "once every local has the writers that it keeps"});
    list.push_back({"read_levels", read_levels, "new states are on the tape before they are copied to their array"});
    list.push_back({"store_last_level", store_last_level, "what read_levels copies after the loop is one case"});
  }
  if (mode == SumMode::Serial) return list;
  list.push_back({"parallelize_loops", parallelize_loops, "late: loops are final, so what is proved stays true"});
  if (restructures)
    list.push_back({"contract_levels", contract_levels, "last: only loops that are not parallel give up levels"});
  return list;
}

ir::Program lower(const ir::Program& program, SumMode mode, Report& report, const LowerOptions& options) {
  PassContext context{mode, report};
  context.options = options;
  ir::Program result = program;
  for (const Pass& pass : passes(mode)) result = run_pass(pass, result, context);
  return result;
}

}  // namespace loopgrad::transforms
