// The tape as a table of values: what the gradient needs, and how it has it.
#pragma once

#include "tools/cli/buffers.h"

#include <optional>
#include <set>

namespace loopgrad::cli {

/// A value of the program that the backward sweep needs. Reads of one value that are had alike are one row.
struct TapeRow {
  std::string value;                    // "u[i, j]"
  SourceLocation where;                 // the first line that needs it
  std::set<std::string> lines;          // all of them
  std::string how;                      // "read" (it is still in its array), "saved", "computed again"
  std::string decision;                 // as in TapeDecision
  std::string storage;                  // of what is saved: the tape and the index, "u_tape[t - 1, i, j]"
  std::string array;                    // the tape, or what is read
  std::string elements;                 // of the tape, in sizes
  std::string formula;                  // its bytes, in sizes
  std::optional<double> bytes;          // its bytes; nothing where data decide
  std::optional<double> written, read;  // bytes, by the forward and the backward program; once for each array
  std::string alternative;              // what it would have cost to have it otherwise
  std::string reason;
};

/// What is saved comes first, the largest first.
std::vector<TapeRow> tape_table(const Gradient& gradient, const Sizes& sizes);

/// Of all tapes whose sizes are known.
double tape_bytes(const std::vector<TapeRow>& rows);

}  // namespace loopgrad::cli
