#include "tools/fuzz/schedules.h"

#include "dsl/ir/program.h"
#include "dsl/ir/visit.h"
#include "tools/support/random.h"
#include "transforms/pipeline.h"
#include "transforms/schedule/apply_schedule.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <map>

namespace loopgrad::fuzz {
namespace {

/// All loops, each by its name and number, as they are written in steps.
std::vector<std::string> loops_of(const ir::Program& program) {
  std::map<std::string, int> count;
  std::vector<std::string> result;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (loop) result.push_back(LoopName(loop->iterator.name).number(++count[loop->iterator.name]).str());
  });
  return result;
}

std::vector<std::string> locals_of(const ir::Program& program) {
  std::vector<std::string> result;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) result.push_back(local->array->name);
  });
  return result;
}

std::string random_step(const ir::Program& program, tools::Random& random) {
  const std::vector<std::string> loops = loops_of(program), locals = locals_of(program);
  const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(loops.size())));
  const std::string& a = loops[at];
  const std::string& b = loops[at + 1 < loops.size() ? at + 1 : 0];  // the next one is often inside or adjacent
  const std::int64_t factor = 2 + random.below(3);
  const auto local = [&] {
    return locals[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(locals.size())))];
  };
  switch (random.below(13)) {
    case 0: return fmt::format("split({}, {})", a, factor);
    case 1: return fmt::format("tile({}, {}, {}, 3)", a, b, factor);
    case 2: return fmt::format("interchange({}, {})", a, b);
    case 3: return fmt::format("fuse({}, {})", a, b);
    case 4: return fmt::format("fission({})", a);
    case 5: return fmt::format("unroll({}, {})", a, factor);
    case 6: return fmt::format("unroll_and_jam({}, {})", a, factor);
    case 7: return fmt::format("parallelize({})", a);
    case 8: return fmt::format("vectorize({}, {})", a, 4 * random.below(2) + 4);
    case 9: return fmt::format("reorder({}, {})", b, a);
    case 10: return locals.empty() ? fmt::format("reverse({})", a) : fmt::format("expand({}, {})", local(), a);
    case 11: return locals.empty() ? fmt::format("reverse({})", a) : fmt::format("contract({})", local());
    default: return fmt::format("reverse({})", a);
  }
}

}  // namespace

RandomSchedule random_schedule(const Program& program, std::uint64_t seed, int tries,
                               const transforms::LowerOptions& options) {
  tools::Random random(seed * 2 + 1);
  RandomSchedule result;
  transforms::LowerOptions all = options;
  all.skip.clear();  // see `formed`
  ir::Program current = transforms::before_schedule(program.ir(), all);
  Report ignored;
  for (int k = 0; k < tries && !loops_of(current).empty(); ++k) {
    try {
      const std::string step = random_step(current, random);
      current = transforms::apply_step(current, Schedule::parse(step).steps().front(), ignored);
      result.schedule.add(step);
    } catch (const Error&) {
      ++result.refused;
    }
  }
  return result;
}

}  // namespace loopgrad::fuzz
