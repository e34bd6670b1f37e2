// Bounds of loops over entries of CSR rows, `pointer[row]..pointer[row + 1]` or a part of that.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// That the array points to the rows of a CSR structure; null where the program does not say so.
const Fact* csr_fact(const Program& program, const Array& pointer);

/// `base` + `offset`, in i64 or, as it comes from an i32 array, widened from i32: entries that exist do not wrap.
struct Entry {
  Expr base;  // no sum with a constant, nor a cast from i32
  std::int64_t offset = 0;
};
Entry entry_of(const Expr& bound);

/// Whether `next` is row + 1, in i64 or, as it comes from an i32 array, in i32: rows that exist do not wrap.
bool is_next_row(const Expr& row, const Expr& next);

/// Elements of one pointer that a loop runs between, or within: from `start + c` to `end - d`, where c and d are not
/// negative.
struct PointerBounds {
  const Load* start = nullptr;
  const Load* end = nullptr;
  bool whole = false;  // c and d are 0
};
/// With null pointers for other bounds. Whether `end` follows `start`, and what facts there are, is for callers to ask.
PointerBounds pointer_bounds(const Expr& lower, const Expr& upper);

/// How many entries rows have on average, in sizes and at least 1, of a structure between elements of whose pointer a
/// loop runs; null for other bounds.
Expr average_row(const Program& program, const Expr& lower, const Expr& upper);

/// The loads of `pointer[row + 1] - pointer[row]`, in i64 or, as they come from an i32 array, in i32.
struct RowLength {
  const Load* first = nullptr;
  const Load* next = nullptr;
};
/// With null pointers for other expressions. What facts there are is for callers to ask.
RowLength row_length(const Expr& e);

}  // namespace loopgrad::ir
