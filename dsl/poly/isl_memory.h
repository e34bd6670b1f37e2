// What isl does when memory runs out: it fails with an error, where GMP, which holds its numbers, would end the
// process.
//
// GMP cannot report a failed allocation. Instead it is given memory from a small reserve, and all isl contexts of the
// thread are told to stop: they do so at their next operation, as they do when their budget is spent, and free what
// they hold. Only when the reserve is used up before that does GMP end the process.
#pragma once

#include <isl/ctx.h>

namespace loopgrad::poly {

/// A new context whose work ends when memory does, for use by the calling thread. Throws std::bad_alloc.
isl_ctx* allocate_context();
void free_context(isl_ctx* context);

/// The latest error of a context of the calling thread that has one: what lies behind an error that follows from it.
isl_error error_of_this_thread();

/// For tests: the next `count` allocations of numbers succeed, the one after fails as if memory had run out. Negative:
/// none fails.
void fail_number_allocation_after(long count);

}  // namespace loopgrad::poly
