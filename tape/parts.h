// A program in parts that run one after the other, each differentiated by itself.
//
// For a part, arrays from outside are arguments: what it writes is an in-out. Its backward sweep reads arrays of the
// program as they are when the part has run, and adds to the adjoints that the sweeps of later parts leave.
#pragma once

#include "tape/direct_tape.h"

#include <set>
#include <string>

namespace loopgrad::tape {

struct Parts {
  std::vector<ir::Array> locals;  // declared around all of them, outermost first
  std::vector<ir::Stmt> parts;
};

/// The statements of a program, with the locals between them declared around all.
Parts parts_of(const ir::Stmt& body);

/// Arrays that the statement uses and does not declare: read (also in order to add to them), written.
struct OuterArrays {
  std::set<ir::Array> read, written;
};
OuterArrays outer_arrays(const ir::Stmt& s);

/// `name`, with underscores where that is taken, which is taken from now on.
std::string unique_name(std::string name, std::set<std::string>& taken);

/// The gradient of `part`, a statement of `whole`, in arrays of the program and in their adjoints. `extra`: symbols in
/// it that are no sizes of the program. `taken`: names that tapes may not have; theirs are added.
DirectGradient gradient_of_part(const Prepared& whole, const ir::Stmt& part, const std::vector<ir::Symbol>& extra,
                                std::set<std::string>& taken, Report& report);

}  // namespace loopgrad::tape
