// The commands. Each prints a text report to standard output, writes JSON where it was asked for, and returns the exit
// status; mistakes are thrown as Error.
#pragma once

#include "tools/cli/options.h"

#include <loopgrad/error.h>

#include <nlohmann/json.hpp>

namespace loopgrad::cli {

int list_programs(const Options& options, const std::vector<ProgramEntry>& programs);
int show_program(const Options& options);
int explain_program(const Options& options);
int report_program(const Options& options);
int emit_program(const Options& options);
int check_program(const Options& options);
int compare_variants(const Options& options);
int compare_sweep(const Options& options);
int fuzz_programs(const Options& options);
int show_cache(const Options& options);

/// True for what checked execution finds in a program, as opposed to a mistake in the request.
bool is_finding(const Error& error);

/// Writes `text` to standard output and `json` to the file that --json names; with `--json -` only the JSON is written.
/// Throws UsageError(BadInput) when the file cannot be opened, and std::runtime_error when it cannot be written.
void report(const Options& options, const std::string& text, const nlohmann::ordered_json& json);

/// The same for any file.
void write_file(const std::string& path, const std::string& text);

}  // namespace loopgrad::cli
