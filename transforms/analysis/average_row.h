// How long rows that data choose are on average.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// For a loop from one element of an array to another one: the average length of the rows of a CSR structure that it
/// goes over the entries of, or of the rows of an array that it goes through from begin[row] to end[row], if these
/// share it out. Rounded up, of sizes; null for other loops.
ir::Expr average_row(const ir::Program& program, const ir::For& loop);

}  // namespace loopgrad::transforms
