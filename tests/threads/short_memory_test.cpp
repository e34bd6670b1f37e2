// Memory that runs out at any point of the pipeline: right numbers or the documented error, never the end of the
// process.
#include "dsl/poly/isl_memory.h"
#include "tests/error/expect_error.h"
#include "tests/threads/address_space.h"

#include <loopgrad/loopgrad.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace loopgrad::test {
namespace {

/// Stencils over time steps: much work for isl, in the forward and the backward program.
Program stencil() {
  ProgramBuilder p("stencil");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<double>("u", {n, n});
  auto v = p.local<double>("v", {n, n});
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 1, n - 1)) v(i, j) = u(i, j) * (u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1));
    for (auto i : p.loop("k", 1, n - 1))
      for (auto j : p.loop("l", 1, n - 1)) u(i, j) = v(i, j);
  }
  return p.build();
}

void limit_address_space(std::int64_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = static_cast<rlim_t>(bytes);
  ::setrlimit(RLIMIT_AS, &limit);
}

/// All that the heap has is taken, and there may be `room` bytes more.
void leave_room(std::int64_t room) {
  const std::int64_t now = address_space_bytes();
  limit_address_space(now);
  for (const std::size_t bytes : {1 << 20, 1 << 16, 1 << 12})
    while (void* volatile taken = std::malloc(bytes)) static_cast<void>(taken);
  limit_address_space(now + room);
}

/// Lets the stack grow now: later there may be no address space for it, which is a signal and no failed allocation.
[[gnu::noinline]] void grow_stack() {
  volatile char bytes[2 << 20];
  for (std::size_t i = 0; i < sizeof(bytes); i += 1024) bytes[i] = 1;
}

enum Outcome { Right = 0, OutOfMemory = 1, Wrong = 2 };

/// In a child that may have `room` bytes more: differentiates, lowers, and runs by the interpreter.
int with_room(std::int64_t room) {
  const Program program = stencil();
  const std::int64_t n = 12;
  HostArray u(ScalarType::F64, {n, n}), d(ScalarType::F64, {n, n});
  const Arguments arguments = {{"u", u.view()}}, with_gradient = {{"u", u.view()}, {"d_u", d.view()}};
  const Sizes sizes = {{"steps", 2}};
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(120);
    grow_stack();
    leave_room(room);
    int outcome = Wrong;
    try {
      const GradientExecutable g = compile_gradient(program, {}, {.target = Target::Interpreter});
      g.forward(arguments, sizes);
      g.backward(with_gradient);
      outcome = Right;
    } catch (const RuntimeError& e) {
      if (e.code() == ErrorCode::OutOfMemory && !e.hint().empty()) outcome = OutOfMemory;
    } catch (const std::exception& e) {
      const std::string what = std::string(e.what()) + "\n";
      if (::write(STDERR_FILENO, what.data(), what.size()) < 0) outcome = Wrong;
    }
    ::_exit(outcome);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(ShortMemory, IsTheDocumentedErrorWhereverItHappens) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer needs more address space than this test leaves";
#endif
  int right = 0, short_of = 0;
  std::int64_t room = 64 << 10;
  for (; right == 0 && room < (std::int64_t{1} << 30); room += room / 6) {
    const int outcome = with_room(room);
    ASSERT_TRUE(outcome == Right || outcome == OutOfMemory) << "outcome " << outcome << " with " << room << " bytes";
    (outcome == Right ? right : short_of) += 1;
  }
  EXPECT_EQ(right, 1);
  EXPECT_GT(short_of, 5);
}

/// GMP, which holds isl's numbers, ends the process when it gets no memory; here it gets none at some point.
TEST(ShortMemory, OfNumbersStopsTheAnalysis) {
  const Program program = stencil();
  int short_of = 0;
  for (const long after : {0L, 1L, 2L, 3L, 5L, 8L, 13L, 30L, 100L, 1000L}) {
    poly::fail_number_allocation_after(after);
    try {
      differentiate(program);
    } catch (const RuntimeError& e) {
      EXPECT_EQ(e.code(), ErrorCode::OutOfMemory);
      EXPECT_EQ(e.program(), "stencil");
      ++short_of;
    }
    poly::fail_number_allocation_after(-1);
  }
  EXPECT_GT(short_of, 2);
  EXPECT_FALSE(differentiate(program).backward.str().empty());  // the next one has memory again
}

}  // namespace
}  // namespace loopgrad::test
