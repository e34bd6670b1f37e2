#include "tools/cli/commands.h"
#include "tools/fuzz/check.h"
#include "tools/fuzz/generator.h"
#include "tools/fuzz/shrinker.h"
#include "tools/support/progress.h"

#include <fmt/format.h>
#include <chrono>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Tally {
  int programs = 0, refused = 0, flat = 0;  // flat: no derivative was other than zero, so that little was compared
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int fuzz_programs(const Options& options) {
  const fuzz::CheckOptions check{.openmp = options.target == Target::OpenMP};
  const fuzz::GeneratorOptions generator{.double_only = check.openmp};
  const auto start = std::chrono::steady_clock::now();
  Tally tally;
  std::optional<fuzz::Failure> failure;
  std::string program;
  std::uint64_t seed = options.seed;
  {
    tools::Progress progress(options.seconds);
    for (; !failure && seconds_since(start) < options.seconds; ++seed) {
      progress.show(seconds_since(start), fmt::format("{} programs, seed {}", tally.programs, seed));
      const fuzz::Case c = fuzz::generate(seed, generator);
      const fuzz::Outcome outcome = fuzz::check(c, check);
      ++tally.programs;
      tally.refused += !outcome.refusal.empty();
      tally.flat += outcome.refusal.empty() && outcome.largest_derivative == 0;
      failure = outcome.failure;
      if (failure) {
        progress.show(seconds_since(start), fmt::format("shrinking seed {}", seed));
        program = fuzz::describe(fuzz::shrink(c, [&](const fuzz::Case& smaller) {
          const fuzz::Outcome same = fuzz::check(smaller, check);
          return same.failure && same.failure->stage == failure->stage;
        }));
      }
    }
  }
  std::string text =
      fmt::format("{} random programs from seed {}: {} refused, {} without a derivative, {}\n", tally.programs,
                  options.seed, tally.refused, tally.flat, failure ? "1 MISMATCH" : "no mismatch");
  if (failure)
    text += fmt::format("{}: {}\nthe program, made smaller:\n{}\n", failure->stage, failure->message, program);
  Json mismatch = nullptr;
  if (failure)
    mismatch = {{"seed", seed - 1}, {"stage", failure->stage}, {"message", failure->message}, {"program", program}};
  report(options, text,
         {{"seed", options.seed},
          {"programs", tally.programs},
          {"refused", tally.refused},
          {"without_derivative", tally.flat},
          {"mismatch", mismatch}});
  return failure ? 1 : 0;
}

}  // namespace loopgrad::cli
