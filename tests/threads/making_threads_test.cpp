// Threads that OpenMP cannot make, and processes that were forked: an error or right numbers, never an end or a hang.
#include "backends/runtime/threads.h"
#include "tests/error/expect_error.h"
#include "tests/support/test_cache.h"
#include "tests/threads/address_space.h"

#include <loopgrad/loopgrad.h>

#include <fcntl.h>
#include <omp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <thread>

namespace loopgrad::test {
namespace {

Executable scaled(int threads) {
  ProgramBuilder p("scaled");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * 3.0;
  return compile(p.build(), {.threads = threads});
}

bool runs(const Executable& executable) {
  const std::int64_t n = 200000;
  std::vector<double> x(n, 2), y(n);
  executable.run({{"x", view(x.data(), {n})}, {"y", view(y.data(), {n})}});
  return y == std::vector<double>(n, 6);
}

/// The exit status of a child that does `work` within 30 seconds; -1 when it was ended by a signal.
int in_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    int status = 2;
    try {
      status = work() ? 0 : 1;
    } catch (const std::exception& e) {
      const std::string what = std::string("child: ") + e.what() + "\n";
      if (::write(STDERR_FILENO, what.data(), what.size()) < 0) status = 3;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(MakingThreads, MoreThanThereCanBeIsAnError) {
  expect_error<UsageError>(ErrorCode::BadArgument, {"scaled", "4097 threads", "4096"}, [] { scaled(4097); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"scaled"}, [] { scaled(2147483647); });
  const int before = omp_get_max_threads();
  omp_set_num_threads(2147483647);
  expect_error<UsageError>(ErrorCode::BadArgument, {"scaled", "OpenMP", "4096"}, [] { runs(scaled(0)); });
  omp_set_num_threads(before);
  EXPECT_TRUE(runs(scaled(0)));
}

/// libgomp ends a process in which it cannot make the threads that it is asked for.
TEST(MakingThreads, ThereAreFewerWhereTheSystemMakesNoMore) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer needs more address space than this test leaves";
#endif
  const Executable executable = scaled(256);
  EXPECT_EQ(in_child([&] {
              bool right = false;
              // On a thread without a team, in an address space with room for a few stacks of 8 MiB.
              std::thread caller([&] {
                const auto room = static_cast<rlim_t>(address_space_bytes() + (200 << 20));
                const rlimit limit{room, room};
                ::setrlimit(RLIMIT_AS, &limit);
                right = runs(executable) && runs(executable);
              });
              caller.join();
              return right;
            }),
            0);
}

TEST(MakingThreads, AForkedProcessRunsOnItsOwnThread) {
  const Executable executable = scaled(3);
  ASSERT_TRUE(runs(executable));
  EXPECT_EQ(in_child([&] { return runs(executable) && runs(executable); }), 0);
  // Another thread of the child has no team that it could wait for.
  EXPECT_EQ(in_child([&] {
              bool right = false;
              std::thread([&] { right = runs(executable); }).join();
              return right;
            }),
            0);
  EXPECT_TRUE(runs(executable));
}

TEST(MakingThreads, CountsThoseOfTheCallingThread) {
  std::thread([] {
    EXPECT_EQ(backend::available_threads(1), 1);
    EXPECT_EQ(backend::available_threads(5), 5);
    EXPECT_EQ(backend::available_threads(2), 2);
  }).join();
}

}  // namespace
}  // namespace loopgrad::test
