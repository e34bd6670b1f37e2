// Programs from the form in which `ir::print` shows them, so that a test of a pass reads like the "before" and "after"
// of its header: parse_program(ir::print(p)) is p, up to names that were numbered and lines of the user.
//
// What the printer leaves out is what a reader knows:
//   - A constant has the type of its place: of the element that it is stored to, of an index, of the operand beside
//     it. Where nothing says a type it is i64, or f64 if it has a point, an exponent or is no number; others have
//     their type as a suffix (`push(1f32)`).
//   - An element of an i32 array is converted where an i64 is wanted, also where integers are compared and none of them
//     says i32; all other conversions are printed.
//   - A sum of a product is fused, unless it is atomic or says `(rounded product)`.
//   - A local lives to the end of the body in which it stands; with a colon, `local f32 t:`, in what is indented below.
// Every statement gets the line of the text as its location ("text:12").
#pragma once

#include "dsl/ir/program.h"
#include "tests/support/ir_tokens.h"

namespace loopgrad::ir {

/// The program. Throws TextError with the line and what was expected there.
Program parse_program(const std::string& text);

}  // namespace loopgrad::ir
