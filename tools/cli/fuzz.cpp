#include "tools/cli/commands.h"
#include "tools/fuzz/features.h"
#include "tools/fuzz/session.h"
#include "tools/fuzz/shrinker.h"
#include "tools/support/progress.h"

#include <loopgrad/device_array.h>

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double seconds_to_shrink = 60, seconds_of_a_check = 30;

fuzz::SessionOptions session_options(const Options& options, std::string& remark) {
  const FuzzOptions& given = options.fuzz;
  fuzz::SessionOptions session;
  session.seed = options.seed;
  session.count = static_cast<std::uint64_t>(given.count);
  session.seconds = given.seconds;
  session.jobs = given.jobs > 0 ? given.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  session.compiled_percent = options.target == Target::Interpreter ? 0 : given.compiled;
  session.keep_going = given.keep_going;
  for (const std::string& axis : given.with) {
    session.axes.rounded_control |= axis == "rounded-control";
    session.axes.same_bits |= axis == "same-bits";
    session.axes.false_facts_compiled |= axis == "false-facts";
  }
  if (options.target != Target::Cuda) return session;
  // Asked for by a process of its own: a process that has started the driver cannot share it with those it forks.
  std::string why;
  session.device = fuzz::has_device(why);
  if (!session.device) remark = "no GPU runs these programs (" + why + "): CUDA code is only generated\n";
  return session;
}

/// What repeats a failure.
std::string command_for(const fuzz::Finding& finding, const Options& options) {
  std::string text = fmt::format("loopgrad fuzz --seed {} --count 1 --jobs 1", finding.seed);
  if (finding.compiled) text += " --compiled 100";
  if (options.target) text += fmt::format(" --target {}", name_of(*options.target));
  for (const std::string& axis : options.fuzz.with) text += " --with " + axis;
  return text;
}

std::string shrunk(const fuzz::Finding& finding, const fuzz::SessionOptions& session) {
  const auto start = std::chrono::steady_clock::now();
  // A crash may be found at the stage at which it happened; apart, it is one of this process.
  const bool died = finding.failure.message.starts_with("the process died");
  const auto fails_alike = [&](const fuzz::Case& smaller) {
    const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
    if (past.count() > seconds_to_shrink) return false;
    const auto failure = fuzz::check_apart(smaller, session, finding.compiled, seconds_of_a_check);
    return failure && failure->stage == (died ? "crash" : finding.failure.stage);
  };
  return fuzz::describe(fuzz::shrink(fuzz::generate(finding.seed, session.axes), fails_alike));
}

std::string summary(const fuzz::SessionOptions& session, const fuzz::SessionResult& result) {
  const double minutes = std::max(result.seconds, 1e-3) / 60;
  return fmt::format(
      "{} random programs from seed {}: {} refused, {} without a derivative, {} compiled{}, {:.0f} a minute, {}\n",
      result.programs, session.seed, result.refused, result.flat, result.compiled,
      session.device ? " and on the GPU" : "", static_cast<double>(result.programs) / minutes,
      result.findings.empty() ? "no mismatch" : fmt::format("{} MISMATCH", result.findings.size()));
}

void write_features(const std::string& file, const std::string& page) {
  std::ofstream out(file);
  out << page;
  out.close();
  if (!out) bad_input(fmt::format("cannot write '{}'", file), "name a file in a folder that can be written");
}

}  // namespace

int fuzz_programs(const Options& options) {
  std::string text;
  const fuzz::SessionOptions session = session_options(options, text);
  fuzz::SessionResult result;
  std::string program, original;
  {
    const double total = session.count > 0 ? static_cast<double>(session.count) : session.seconds;
    tools::Progress progress(total);
    result = fuzz::run_session(session, [&](const fuzz::SessionResult& now) {
      progress.show(session.count > 0 ? static_cast<double>(now.programs) : now.seconds,
                    fmt::format("{} programs, {} compiled, {:.0f} s", now.programs, now.compiled, now.seconds));
    });
    if (!result.findings.empty()) {
      const fuzz::Finding& first = result.findings.front();
      progress.show(total, fmt::format("making the program of seed {} smaller", first.seed));
      original = fuzz::describe(fuzz::generate(first.seed, session.axes));
      program = shrunk(first, session);
    }
  }
  text += summary(session, result);
  Json mismatches = Json::array();
  for (const fuzz::Finding& f : result.findings) {
    text += fmt::format("seed {}: {}: {}\n  again: {}\n", f.seed, f.failure.stage, f.failure.message,
                        command_for(f, options));
    mismatches.push_back({{"seed", f.seed},
                          {"stage", f.failure.stage},
                          {"message", f.failure.message},
                          {"command", command_for(f, options)}});
  }
  if (!mismatches.empty()) {
    mismatches[0]["program"] = program;
    text += fmt::format("\nthe program:\n{}\nmade smaller:\n{}\n", original, program);
  }
  if (!options.fuzz.features.empty()) write_features(options.fuzz.features, fuzz::features_page(session, result));
  report(options, text,
         {{"seed", session.seed},
          {"programs", result.programs},
          {"refused", result.refused},
          {"without_derivative", result.flat},
          {"compiled", result.compiled},
          {"on_device", session.device},
          {"seconds", result.seconds},
          {"features", result.features},
          {"mismatch", mismatches.empty() ? Json(nullptr) : mismatches[0]},
          {"mismatches", mismatches}});
  return result.findings.empty() ? 0 : 1;
}

}  // namespace loopgrad::cli
