#include "tools/cli/commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
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
    case Command::Report: return report_program(options);
    case Command::Emit: return emit_program(options);
    case Command::Check: return check_program(options);
    case Command::Compare: return compare_variants(options);
    case Command::Fuzz: return fuzz_programs(options);
    case Command::Cache: return show_cache(options);
  }
  throw InternalError("unknown command");
}

void check_entries(const std::vector<ProgramEntry>& programs) {
  std::set<std::string> names;
  for (const ProgramEntry& entry : programs) {
    if (!names.insert(entry.name).second) bad_input(fmt::format("two programs are registered as '{}'", entry.name));
    if (!entry.build) bad_input(fmt::format("program '{}' has no function that records it", entry.name));
  }
}

/// A standard descriptor that the caller closed would go to the next file that is opened, which would then get what we
/// print. It is taken here, by something that cannot be written.
void occupy_standard_descriptors() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDONLY);
  if (descriptor >= 0) close(descriptor);
}

/// Standard error may be closed or full, and then there is nobody to tell.
void complain(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

/// The exit status of a command that came to its end: what it printed must have got out as well.
int finished(int status) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return status;
  complain(fmt::format("error: cannot write to standard output{}{}", errno ? ": " : "", errno ? strerror(errno) : ""));
  return kFinding;
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

namespace {

/// Says what is wrong. An index that is out of range at sizes of the user's own is no finding: few programs are written
/// for all sizes.
int failed(const Error& error, const Sizes& given) {
  const bool about_indices = error.code() == ErrorCode::BadIndex || error.code() == ErrorCode::BadFact;
  const bool at_own_sizes = about_indices && !given.empty();
  complain(fmt::format("error: {}{}", error.what(),
                       at_own_sizes ? ". The program may not be written for the sizes that --size gives" : ""));
  return is_finding(error) && !at_own_sizes ? kFinding : kMistake;
}

}  // namespace
}  // namespace cli

CommandOutput run_command(const std::vector<std::string>& arguments, const std::vector<ProgramEntry>& programs) {
  std::vector<std::string> words = {"loopgrad"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  cli::check_entries(programs);
  CommandOutput output;
  auto options = cli::parse(static_cast<int>(argv.size()), argv.data(), programs);
  if (!options) return output;  // help was printed
  options->output = &output;
  output.status = cli::run(*options, programs);
  return output;
}

int main_with(int argc, char** argv, const std::vector<ProgramEntry>& programs) {
  cli::occupy_standard_descriptors();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is output that cannot be written
  std::optional<cli::Options> options;
  try {
    cli::check_entries(programs);
    options = cli::parse(argc, argv, programs);
    return cli::finished(options ? cli::run(*options, programs) : 0);
  } catch (const Error& error) {
    return cli::failed(error, options ? options->sizes : Sizes());
  } catch (const std::bad_alloc&) {
    cli::complain("error: out of memory. Hint: use smaller sizes");
    return cli::kMistake;
  } catch (const std::exception& error) {
    cli::complain(error.what());
    return cli::kFinding;
  } catch (...) {  // from the user's code that records a program or fills its arrays
    cli::complain("error: something that is no std::exception was thrown");
    return cli::kFinding;
  }
}

}  // namespace loopgrad
