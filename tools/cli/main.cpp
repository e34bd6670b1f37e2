#include "tools/cli/commands.h"

#include <fmt/format.h>
#include <cstdio>
#include <new>
#include <set>

namespace loopgrad {
namespace cli {
namespace {

constexpr int kFinding = 1, kMistake = 2;

int run(const Options& options, const std::vector<ProgramEntry>& programs) {
  switch (options.command) {
    case Command::List: return list_programs(options, programs);
    case Command::Show: return show_program(options);
    case Command::Explain: return explain_program(options);
    case Command::Check: return check_program(options);
    case Command::Compare: return compare_variants(options);
    case Command::Fuzz: return fuzz_programs(options);
    case Command::Cache: return show_cache(options);
  }
  throw InternalError("unknown command");
}

void refuse_duplicates(const std::vector<ProgramEntry>& programs) {
  std::set<std::string> names;
  for (const ProgramEntry& entry : programs)
    if (!names.insert(entry.name).second) bad_input(fmt::format("two programs are registered as '{}'", entry.name));
}

}  // namespace

bool is_finding(const Error& error) {
  switch (error.code()) {
    case ErrorCode::BadIndex:
    case ErrorCode::BadFact:
    case ErrorCode::UninitialisedRead:
    case ErrorCode::Race:
    case ErrorCode::NotANumber: return true;
    default: return false;
  }
}

}  // namespace cli

int main_with(int argc, char** argv, const std::vector<ProgramEntry>& programs) {
  try {
    cli::refuse_duplicates(programs);
    auto options = cli::parse(argc, argv, programs);
    return options ? cli::run(*options, programs) : 0;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return cli::is_finding(error) ? cli::kFinding : cli::kMistake;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory. Hint: use smaller sizes\n");
    return cli::kMistake;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return cli::kFinding;
  }
}

}  // namespace loopgrad
