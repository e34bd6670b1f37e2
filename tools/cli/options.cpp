#include "tools/cli/options.h"

#include "tools/cli/explanation.h"
#include "tools/cli/sweep.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <numeric>

namespace loopgrad::cli {
namespace {

struct Raw {  // as typed
  std::string program, stage = "program", target, variant = "restructured", only, json, schedule, backward_schedule,
                       facts = "verify", mode = "gradient", max_tape_bytes = "0";
  std::vector<std::string> sizes;
  std::string threads = "0", block = "0", elements = "64", seed = "1", seconds, count = "0", jobs = "0",
              compiled = "10", features;
  std::vector<std::string> without;
  bool keep_going = false, versioned = false;
  bool clear = false;
  std::string out, name, details, remarks, sweep, plot;
  bool measure = false;
};

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::int64_t whole_number(const std::string& text, const std::string& what, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    bad_input(fmt::format("{} is not a whole number: '{}'", what, text));
  if (value < least || value > most)
    bad_input(fmt::format("{} is {}, which is not in {}..{}", what, value, least, most));
  return value;
}

/// "512MiB", or a number of bytes.
std::int64_t size_in_bytes(const std::string& typed, const std::string& what) {
  std::string bytes = typed;
  bool is_right = typed.find('-') == std::string::npos;  // CLI11 reads numbers without a sign: "-5" is a large one
  try {
    is_right = is_right && CLI::AsSizeValue(false)(bytes).empty();
  } catch (const CLI::ValidationError&) {
    is_right = false;
  }
  if (!is_right)
    bad_input(fmt::format("{} is '{}', which is no number of bytes", what, typed), "write for example 512MiB");
  return whole_number(bytes, what, 0, std::int64_t{1} << 62);
}

/// The value that goes with a name, e.g. of a stage.
template <class T>
T named(const std::string& typed, const std::string& what, const std::vector<std::pair<std::string, T>>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    if (name == typed) return value;
    names.push_back(name);
  }
  bad_input(fmt::format("there is no {} '{}'", what, typed), suggest(typed, names));
}

/// The parts of "n=4,k=3", empty ones included.
std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

/// "all", or groups with commas between.
std::vector<std::string> parse_details(const std::string& typed) {
  if (typed.empty() || typed == "false") return {};
  if (typed == "all" || typed == "true") return detail_groups();
  std::vector<std::pair<std::string, std::string>> groups;
  for (const std::string& group : detail_groups()) groups.emplace_back(group, group);
  std::vector<std::string> chosen;
  for (const std::string& group : split_at_commas(typed)) chosen.push_back(named(group, "group of details", groups));
  return chosen;
}

Sizes parse_sizes(const std::vector<std::string>& typed, const ProgramEntry& program) {
  std::vector<std::string> names, items;
  for (const auto& size : program.sizes) names.push_back(size.first);
  for (const std::string& list : typed)
    for (std::string& item : split_at_commas(list)) items.push_back(std::move(item));
  Sizes sizes;
  for (const std::string& item : items) {
    auto equals = item.find('=');
    if (equals == std::string::npos) bad_input(fmt::format("'{}' is not a size", item), "write --size n=1000,k=16");
    std::string name = item.substr(0, equals);
    if (!program.sizes.contains(name))
      bad_input(fmt::format("program '{}' has no size '{}'", program.name, name), suggest(name, names));
    if (sizes.contains(name)) bad_input(fmt::format("size '{}' is given twice", name));
    sizes[name] = whole_number(item.substr(equals + 1), fmt::format("size '{}'", name), 0, std::int64_t{1} << 40);
  }
  return sizes;
}

FuzzOptions checked_fuzz(const Raw& raw) {
  FuzzOptions options;
  options.count = whole_number(raw.count, "--count", 0, 1'000'000'000);
  if (!raw.seconds.empty()) options.seconds = static_cast<double>(whole_number(raw.seconds, "--seconds", 1, 1'000'000));
  else if (options.count > 0) options.seconds = 0;
  options.jobs = static_cast<int>(whole_number(raw.jobs, "--jobs", 0, 256));
  options.compiled = static_cast<int>(whole_number(raw.compiled, "--compiled", 0, 100));
  options.keep_going = raw.keep_going;
  options.features = raw.features;
  for (const std::string& axis : raw.without)
    options.without.push_back(named<std::string>(axis, "axis",
                                                 {{"rounded-control", "rounded-control"},
                                                  {"same-bits", "same-bits"},
                                                  {"false-facts", "false-facts"},
                                                  {"left-out-passes", "left-out-passes"},
                                                  {"users-shapes", "users-shapes"},
                                                  {"changing-state", "changing-state"},
                                                  {"places", "places"},
                                                  {"expected-sizes", "expected-sizes"},
                                                  {"common-names", "common-names"}}));
  return options;
}

Options checked(Command command, const Raw& raw, const std::vector<ProgramEntry>& programs) {
  Options options;
  options.command = command;
  options.json = raw.json;
  options.clear = raw.clear;
  options.versioned = raw.versioned;
  options.out = raw.out;
  options.name = raw.name;
  options.remarks = raw.remarks;
  options.measure = raw.measure;
  options.plot = raw.plot;
  options.details = parse_details(raw.details);
  if (!raw.target.empty())
    options.target = named<Target>(raw.target, "target",
                                   {{name_of(Target::Interpreter), Target::Interpreter},
                                    {name_of(Target::OpenMP), Target::OpenMP},
                                    {name_of(Target::Cuda), Target::Cuda}});
  options.seed = static_cast<std::uint64_t>(whole_number(raw.seed, "--seed", 0, std::int64_t{1} << 62));
  if (command == Command::Fuzz) options.fuzz = checked_fuzz(raw);
  if (command == Command::List || command == Command::Fuzz || command == Command::Cache) return options;
  std::vector<std::pair<std::string, const ProgramEntry*>> entries;
  for (const ProgramEntry& entry : programs) entries.emplace_back(entry.name, &entry);
  options.program = named(raw.program, "program", entries);
  options.stage = named<Stage>(raw.stage, "stage",
                               {{"program", Stage::Program},
                                {"adjoint", Stage::Adjoint},
                                {"summation", Stage::Summation},
                                {"loops", Stage::Loops},
                                {"schedule", Stage::Schedule},
                                {"code", Stage::Code}});
  options.mode = named<Mode>(raw.mode, "mode",
                             {{"gradient", Mode::Gradient},
                              {"tangent", Mode::Tangent},
                              {"hessian-vector", Mode::HessianVector},
                              {"second-gradient", Mode::SecondGradient}});
  options.elements = whole_number(raw.elements, "--elements", 0, 1'000'000);
  std::vector<std::pair<std::string, Variant>> by_name;
  for (Variant variant : variants()) by_name.emplace_back(name_of(variant), variant);
  options.variant = named(raw.variant, "variant", by_name);
  if (!raw.only.empty()) options.only = named(raw.only, "variant", by_name);
  options.sizes = parse_sizes(raw.sizes, *options.program);
  if (!raw.sweep.empty()) options.sweep = parse_sweep(raw.sweep, *options.program);
  if (!raw.plot.empty() && options.sweep.values.empty())
    bad_input("--plot draws a sweep over sizes, and there is none", "add for example --sweep n=1e3..1e6");
  if (options.sizes.contains(options.sweep.size))
    bad_input(fmt::format("size '{}' is given and swept over", options.sweep.size), "leave out one of the two");
  options.threads = static_cast<int>(whole_number(raw.threads, "--threads", 0, 1024));
  options.schedule = Schedule::parse(raw.schedule);
  options.backward_schedule = Schedule::parse(raw.backward_schedule);
  if (!(options.schedule.empty() && options.backward_schedule.empty()) && options.target == Target::Cuda)
    bad_input("a schedule is shown for the targets interpreter and openmp", "leave out --target");
  options.facts = named<Facts>(raw.facts, "--facts",
                               {{name_of(Facts::Verify), Facts::Verify},
                                {name_of(Facts::Trust), Facts::Trust},
                                {name_of(Facts::CheckAccesses), Facts::CheckAccesses}});
  options.max_tape_bytes = size_in_bytes(raw.max_tape_bytes, "--max-tape-bytes");
  options.threads_per_block = static_cast<int>(whole_number(raw.block, "--threads-per-block", 0, 1024));
  return options;
}

void add_run_options(CLI::App& sub, Raw& raw) {
  sub.add_option("--size", raw.sizes, "sizes, e.g. --size n=1000,k=16")->allow_extra_args(false);
  sub.add_option("--threads", raw.threads, "OpenMP threads (0: as OMP_NUM_THREADS says)");
  sub.add_option("--seed", raw.seed, "seed of the inputs");
}

struct CommandRow {
  Command command;
  const char* name;
  const char* help;
};
constexpr CommandRow kCommands[] = {
    {Command::List, "list", "the programs, with a line each and their sizes"},
    {Command::Show, "show", "a program, its gradient at any stage, or the generated code"},
    {Command::Explain, "explain", "estimates of time, the tape, what is not parallel and why, what to change"},
    {Command::Report, "report", "a page for a browser: code, tape, sums, loops and their time, variants"},
    {Command::Emit, "emit", "sources with a C interface that need no loopgrad: a header and a C++ or CUDA file"},
    {Command::Check, "check", "gradients against forward mode and differences; exit status 1 on a mismatch"},
    {Command::Compare, "compare", "naive tape / direct tape with atomics / direct tape restructured"},
    {Command::Fuzz, "fuzz", "random loop programs, every variant against every other; exit status 1 on a mismatch"},
    {Command::Cache, "cache", "the kernel cache: its place, size, limit and entries; --clear empties it"}};

void refuse_unknown_command(int argc, char** argv) {
  if (argc < 2) bad_input("no command given", "loopgrad --help lists them");
  std::string typed = argv[1];
  std::vector<std::string> names;
  for (const CommandRow& row : kCommands) names.push_back(row.name);
  if (typed.starts_with("-") || std::find(names.begin(), names.end(), typed) != names.end()) return;
  bad_input(fmt::format("there is no command '{}'", typed), suggest(typed, names));
}

/// CLI11 takes the next word as the value of `--json=`, and an empty word as if the option were not there.
void refuse_options_without_value(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      bad_input(fmt::format("{} has no value", word.substr(0, word.size() - 1)));
  }
}

void refuse_empty_values(const CLI::App& sub) {
  for (const CLI::Option* option : sub.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) bad_input(fmt::format("{} is empty", option->get_name()), "give it a value, or leave it out");
}

}  // namespace

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {Variant::NaiveTape, Variant::Atomic, Variant::Restructured};
  return all;
}

void bad_input(const std::string& message, const std::string& hint) {
  ErrorInfo info;
  info.code = ErrorCode::BadInput;
  info.message = message;
  info.hint = hint;
  throw UsageError(info);
}

std::string suggest(const std::string& typed, const std::vector<std::string>& names) {
  std::vector<std::string> near;
  for (const std::string& name : names) {
    bool prefix = !typed.empty() && (name.starts_with(typed) || typed.starts_with(name));
    const std::size_t distance = edit_distance(typed, name);
    if (prefix || (distance < name.size() && distance <= 1 + name.size() / 4)) near.push_back("'" + name + "'");
  }
  if (near.empty()) return fmt::format("one of {}", fmt::join(names, ", "));
  return fmt::format("did you mean {}?", fmt::join(near, " or "));
}

Sizes sizes_of(const Options& options, const Sizes& defaults) {
  Sizes sizes = options.sizes;
  sizes.insert(defaults.begin(), defaults.end());
  return sizes;
}

std::optional<Options> parse(int argc, char** argv, const std::vector<ProgramEntry>& programs) {
  CLI::App app{"Gradients of loop programs without stack tapes and atomics"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "loopgrad " LOOPGRAD_VERSION);
  Raw raw;
  for (const CommandRow& row : kCommands) {
    CLI::App& sub = *app.add_subcommand(row.name, row.help);
    sub.add_option("--json", raw.json, "write JSON to this file ('-': standard output, instead of the text)");
    if (row.command == Command::Cache) sub.add_flag("--clear", raw.clear, "remove all of its files");
    if (row.command == Command::List || row.command == Command::Cache) continue;
    sub.add_option("--target", raw.target, "interpreter, openmp or cuda");
    if (row.command == Command::Fuzz) {
      sub.add_option("--seconds", raw.seconds, "how long to go on (30, or as long as --count takes)");
      sub.add_option("--count", raw.count, "how many programs (0: as many as time allows)");
      sub.add_option("--seed", raw.seed, "seed of the first program");
      sub.add_option("--jobs", raw.jobs, "processes (0: one for each core)");
      sub.add_option("--compiled", raw.compiled, "percent of the programs that are also compiled and run");
      sub.add_option(
             "--without", raw.without,
             "leave out: rounded-control, same-bits, false-facts, left-out-passes, users-shapes, changing-state, "
             "places, expected-sizes, common-names")
          ->delimiter(',');
      sub.add_option("--features", raw.features, "write a table of the features that were reached to this file");
      sub.add_flag("--keep-going", raw.keep_going, "go on after a mismatch");
      continue;
    }
    sub.add_option("program", raw.program, "a name that `list` prints")->required();
    if (row.command != Command::Explain && row.command != Command::Report)
      sub.add_option("--threads-per-block", raw.block,
                     "of the target cuda: a power of two from 32 (0: as fits the loops)");
    if (row.command == Command::Show) {
      sub.add_option("--size", raw.sizes, "sizes that plans are made for, e.g. --size n=1000,k=16")
          ->allow_extra_args(false);
      sub.add_option("--stage", raw.stage,
                     "program, adjoint, summation, loops (that a schedule sees), schedule or code");
      sub.add_option("--variant", raw.variant, "naive-tape, atomic or restructured");
      sub.add_option("--schedule", raw.schedule,
                     "steps for the forward program, e.g. \"tile(i, j, 32, 32); unroll(k, 4)\"");
      sub.add_option("--backward-schedule", raw.backward_schedule, "steps for the backward program");
    } else if (row.command == Command::Emit) {
      sub.add_option("--out", raw.out, "the folder that the two files go to")->required();
      sub.add_option("--name", raw.name, "of the files and functions (the program's)");
      sub.add_option("--size", raw.sizes, "sizes that plans are made for, e.g. --size n=1000,k=16")
          ->allow_extra_args(false);
    } else {
      add_run_options(sub, raw);
    }
    if (row.command != Command::Emit)
      sub.add_option("--max-tape-bytes", raw.max_tape_bytes,
                     "of the gradient, e.g. 512MiB: loops run again where their tape would take more (0: no limit)");
    if (row.command == Command::Check) {
      sub.add_option("--mode", raw.mode,
                     "gradient, tangent (forward mode), hessian-vector (forward mode of the gradient) or "
                     "second-gradient (the gradient's gradient)");
      sub.add_option("--elements", raw.elements, "so many elements of each array are directions of their own (64)");
    }
    if (row.command == Command::Explain) {
      sub.add_flag("--details{all}", raw.details, "tables of all decisions, or of --details=tape,sums,loops,remarks")
          ->expected(0, 1);
      sub.add_option("--remarks", raw.remarks,
                     "write remarks for editors (YAML, as LLVM does) to this file ('-': print)");
    }
    if (row.command == Command::Report) {
      sub.add_option("--out", raw.out, "the file, e.g. report.html")->required();
      sub.add_flag("--measure", raw.measure, "compile and run the variants, and time every loop (target openmp)");
    }
    if (row.command == Command::Explain || row.command == Command::Emit || row.command == Command::Report)
      sub.add_option("--variant", raw.variant, "naive-tape, atomic or restructured");
    if (row.command == Command::Compare || row.command == Command::Emit)
      sub.add_option("--facts", raw.facts, "verify, trust or check-accesses: facts and indices from data");
    if (row.command != Command::Compare) continue;
    sub.add_option("--only", raw.only, "measure no other variant than this one");
    sub.add_option("--sweep", raw.sweep, "several values of a size, e.g. --sweep n=1e3..1e6 or n=1e3..1e6:7 (points)");
    sub.add_option("--plot", raw.plot, "draw the sweep to this SVG file, with its data as JSON beside it");
    sub.add_flag("--versioned", raw.versioned, "integer inputs are passed as `versioned`: they stay as they are");
  }
  try {
    refuse_unknown_command(argc, argv);
    refuse_options_without_value(argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return std::nullopt;
  } catch (const CLI::CallForAllHelp& help) {
    app.exit(help);
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    app.exit(version);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    bad_input(error.what(), "--help lists commands and options");
  }
  for (const CommandRow& row : kCommands)
    if (app.got_subcommand(row.name)) {
      refuse_empty_values(*app.get_subcommand(row.name));
      return checked(row.command, raw, programs);
    }
  bad_input("no command given", "--help lists them");
}

}  // namespace loopgrad::cli
