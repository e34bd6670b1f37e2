#include "tools/cli/commands.h"
#include "tools/fuzz/features.h"
#include "tools/fuzz/interruption.h"
#include "tools/fuzz/session.h"
#include "tools/fuzz/shrink_finding.h"
#include "tools/support/progress.h"

#include <loopgrad/device_array.h>

#include <fmt/format.h>

#include <thread>

namespace loopgrad::cli {
namespace {

using Json = nlohmann::ordered_json;

fuzz::SessionOptions session_options(const Options& options, std::string& remark) {
  const FuzzOptions& given = options.fuzz;
  fuzz::SessionOptions session;
  session.seed = options.seed;
  session.count = static_cast<std::uint64_t>(given.count);
  session.seconds = given.seconds;
  session.seconds_of_a_step = fuzz::longest_step(given.seconds);
  session.jobs = given.jobs > 0 ? given.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  session.compiled_percent = options.target == Target::Interpreter ? 0 : given.compiled;
  session.keep_going = given.keep_going;
  for (const std::string& axis : given.without) {
    session.axes.rounded_control &= axis != "rounded-control";
    session.axes.same_bits &= axis != "same-bits";
    session.axes.false_facts_compiled &= axis != "false-facts";
    session.axes.left_out_passes &= axis != "left-out-passes";
    session.axes.users_shapes &= axis != "users-shapes";
    session.axes.changing_state &= axis != "changing-state";
    session.axes.places &= axis != "places";
    session.axes.expected_sizes &= axis != "expected-sizes";
    session.axes.common_names &= axis != "common-names";
  }
  session.interrupted = [] { return fuzz::Interruption::signal() != 0; };
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
  for (const std::string& axis : options.fuzz.without) text += " --without " + axis;
  return text;
}

std::string summary(const fuzz::SessionOptions& session, const fuzz::SessionResult& result) {
  const double minutes = std::max(result.seconds, 1e-3) / 60;
  std::string text = fmt::format(
      "{} random programs from seed {}: {} refused, {} not finite, {} without a derivative, {} given up, {} "
      "compiled{}, "
      "{:.0f} a minute, {}{}\n",
      result.programs, session.seed, result.refused, result.not_finite, result.flat, result.given_up.size(),
      result.compiled, session.device ? " and on the GPU" : "", static_cast<double>(result.programs) / minutes,
      result.findings.empty() ? "no mismatch" : fmt::format("{} MISMATCH", result.findings.size()),
      result.interrupted ? ", interrupted" : "");
  if (result.not_compiled > 0)
    text += fmt::format("{} more were to be compiled when the session ended\n", result.not_compiled);
  for (const fuzz::GivenUp& one : result.given_up)
    text += fmt::format("seed {}: gave up after {:.0f} s ({})\n", one.seed, one.seconds, one.what);
  return text;
}

Json given_up_json(const fuzz::SessionResult& result) {
  Json list = Json::array();
  for (const fuzz::GivenUp& one : result.given_up)
    list.push_back({{"seed", one.seed}, {"doing", one.what}, {"seconds", one.seconds}});
  return list;
}

}  // namespace

int fuzz_programs(const Options& options) {
  const fuzz::Interruption interruption;
  std::string text;
  const fuzz::SessionOptions session = session_options(options, text);
  fuzz::SessionResult result;
  std::vector<fuzz::SmallerProgram> smaller;
  {
    const double total = session.count > 0 ? static_cast<double>(session.count) : session.seconds;
    tools::Progress progress(total);
    result = fuzz::run_session(session, [&](const fuzz::SessionResult& now) {
      progress.show(session.count > 0 ? static_cast<double>(now.programs) : now.seconds,
                    fmt::format("{} programs, {} compiled, {:.0f} s", now.programs, now.compiled, now.seconds));
    });
    if (!result.findings.empty()) progress.show(total, "making programs smaller");
    smaller = fuzz::shrink_findings(result.findings, session, fuzz::shrink_limits(session, result.seconds));
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
  for (std::size_t i = 0; i < smaller.size(); ++i) {
    const std::string program = fuzz::describe(smaller[i].smaller);
    mismatches[i]["program"] = program;
    text += fmt::format("\nthe program:\n{}\nmade smaller:\n{}\n", fuzz::describe(smaller[i].original), program);
  }
  if (!options.fuzz.features.empty()) write_file(options.fuzz.features, fuzz::features_page(session, result));
  report(options, text,
         {{"seed", session.seed},
          {"programs", result.programs},
          {"refused", result.refused},
          {"not_finite", result.not_finite},
          {"without_derivative", result.flat},
          {"compiled", result.compiled},
          {"not_compiled", result.not_compiled},
          {"on_device", session.device},
          {"seconds", result.seconds},
          {"interrupted", result.interrupted},
          {"given_up", given_up_json(result)},
          {"features", result.features},
          {"mismatch", mismatches.empty() ? Json(nullptr) : mismatches[0]},
          {"mismatches", mismatches}});
  if (!result.findings.empty()) return 1;
  return result.interrupted ? 128 + fuzz::Interruption::signal() : 0;
}

}  // namespace loopgrad::cli
