// How many threads a run gets. OpenMP is asked for no more than can be made: libgomp ends the process otherwise.
#pragma once

namespace loopgrad::backend {

/// The most that CompileOptions::threads, or OpenMP's own setting, may ask for.
inline constexpr int most_threads_of_a_run = 4096;

/// `wanted`, or fewer: as many as the calling thread can have with those that its last run left waiting. They are made
/// and ended once, before libgomp makes them, and if not all can be, there will be half of those that could. 1 in the
/// child of a fork() by a thread that had others: those stayed in the parent, and libgomp would wait for them for ever.
///
/// No result depends on the number, so that fewer threads are slower and nothing else.
int available_threads(int wanted);

}  // namespace loopgrad::backend
