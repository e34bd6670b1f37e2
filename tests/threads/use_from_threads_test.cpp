// One executable used by many threads at once: right numbers, or a refusal. Built a second time with ThreadSanitizer.
#include "tests/error/expect_error.h"
#include "tests/support/print.h"
#include "tests/support/test_cache.h"

#include <loopgrad/loopgrad.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <thread>

namespace loopgrad::test {
namespace {

#ifdef LOOPGRAD_TEST_COMPILER
const int use_test_compiler = ::setenv("LOOPGRAD_CXX", LOOPGRAD_TEST_COMPILER, 1);
#endif

using Numbers = std::vector<double>;

constexpr int repeats = LOOPGRAD_TEST_REPEATS;

/// A local array on the heap, carried along: two runs that share its memory give wrong numbers.
Program with_local() {
  ProgramBuilder p("with_local");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto t = p.local<double>("t", {n});
  t(0) = x(0);
  for (auto i : p.loop("i", 1, n)) t(i) = t(i - 1) * 0.5 + x(i);
  for (auto i : p.loop("j", 1, n)) t(i) = t(i) + t(i - 1) * 0.25;
  for (auto i : p.loop("k", 0, n)) y(i) = t(n - 1 - i);
  return p.build();
}

Numbers expected_of(const Numbers& x) {
  const std::size_t n = x.size();
  Numbers t(n), y(n);
  t[0] = x[0];
  for (std::size_t i = 1; i < n; ++i) t[i] = t[i - 1] * 0.5 + x[i];
  for (std::size_t i = 1; i < n; ++i) t[i] = t[i] + t[i - 1] * 0.25;
  for (std::size_t i = 0; i < n; ++i) y[i] = t[n - 1 - i];
  return y;
}

double largest_difference(const Numbers& a, const Numbers& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const double d = std::fabs(a[i] - b[i]); !(d <= most)) most = d;
  return most;
}

/// x is overwritten twice: both values are on the tape.
Program overwritten() {
  ProgramBuilder p("overwritten");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n});
  for (auto i : p.loop("i", 0, n)) {
    x(i) = loopgrad::sin(x(i)) * x(i);
    x(i) = x(i) * x(i) + loopgrad::cos(x(i));
  }
  return p.build();
}

Numbers start_of(int which, std::int64_t size) {
  Numbers x(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.3 + 0.05 * which + 1e-4 * static_cast<double>(i);
  return x;
}

Numbers expected_gradient(const Numbers& x) {
  Numbers d;
  for (const double q : x) {
    const double u = std::sin(q) * q;
    d.push_back((2 * u - std::sin(u)) * (std::cos(q) * q + std::sin(q)));
  }
  return d;
}

void forward(const GradientExecutable& g, Numbers& x) {
  g.forward({{"x", view(x.data(), {static_cast<std::int64_t>(x.size())})}});
}

Numbers backward(const GradientExecutable& g, Numbers& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  Numbers d(x.size(), 1);
  g.backward({{"x", view(x.data(), {n})}, {"d_x", view(d.data(), {n})}});
  return d;
}

/// Calls `work(k)` on `count` threads at once; what they throw or return is an error of the test.
void on_threads(int count, const std::function<std::string(int)>& work) {
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (int k = 0; k < count; ++k) {
    threads.emplace_back([&, k] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      try {
        said[static_cast<std::size_t>(k)] = work(k);
      } catch (const std::exception& e) {
        said[static_cast<std::size_t>(k)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int k = 0; k < count; ++k) EXPECT_EQ(said[static_cast<std::size_t>(k)], "") << "thread " << k;
}

std::string run_local(const Executable& executable, int k, std::int64_t size) {
  for (int r = 0; r < repeats; ++r) {
    const std::int64_t n = size + 13 * k;
    const Numbers x = start_of(k, n);
    Numbers y(x.size());
    executable.run({{"x", view(x.data(), {n})}, {"y", view(y.data(), {n})}});
    if (largest_difference(y, expected_of(x)) > 1e-9) return "wrong numbers";
  }
  return "";
}

std::string run_gradient(const GradientExecutable& gradient, int k, std::int64_t size) {
  for (int r = 0; r < repeats; ++r) {
    Numbers x = start_of(k, size + 11 * k);
    const Numbers expected = expected_gradient(x);
    forward(gradient, x);
    if (largest_difference(backward(gradient, x), expected) > 1e-9) return "a wrong gradient";
  }
  return "";
}

class Threads : public testing::TestWithParam<Target> {
 protected:
  /// One thread in generated code: what is tested is the callers' threads, and ThreadSanitizer does not know libgomp.
  CompileOptions options() const { return {.target = GetParam(), .threads = GetParam() == Target::OpenMP ? 1 : 0}; }
  std::int64_t size() const { return GetParam() == Target::OpenMP ? 5000 : 200; }
};

TEST_P(Threads, ShareAnExecutable) {
  const Executable executable = compile(with_local(), options());
  on_threads(8, [&](int k) { return run_local(executable, k, size()); });
}

TEST_P(Threads, CopyAnExecutable) {
  const Executable executable = compile(with_local(), options());
  on_threads(8, [&](int k) {
    const Executable mine = executable;
    return run_local(mine, k, size());
  });
}

TEST_P(Threads, CopyAGradient) {
  for (const Variant variant : {Variant::Restructured, Variant::NaiveTape}) {
    const GradientExecutable gradient = compile_gradient(overwritten(), {.variant = variant}, options());
    on_threads(8, [&](int k) {
      const GradientExecutable mine = gradient;
      return run_gradient(mine, k, size());
    });
  }
}

TEST_P(Threads, CompileTheSameAtOnce) {
  const Program program = overwritten();
  on_threads(4, [&](int k) { return run_gradient(compile_gradient(program, {}, options()), k, 50); });
}

TEST_P(Threads, GetErrorsAtOnce) {
  const Executable executable = compile(with_local(), options());
  on_threads(8, [&](int) {
    for (int r = 0; r < repeats; ++r) {
      try {
        executable.run({});
        return "no error";
      } catch (const UsageError& e) {
        if (std::string(e.what()).find("with_local") == std::string::npos) return "no program in the error";
      }
    }
    return "";
  });
}

/// While one thread is inside a call, another one is refused at once, and the first one's numbers are right.
TEST_P(Threads, AreRefusedAGradientThatIsInUse) {
  const GradientExecutable gradient = compile_gradient(overwritten(), {}, options());
  std::atomic<bool> refused{false};
  std::atomic<int> rounds{0};
  std::thread other([&] {
    Numbers x = start_of(1, 100 * size());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!refused && std::chrono::steady_clock::now() < end) {
      try {
        forward(gradient, x);
      } catch (const UsageError&) {
        // The turn was the main thread's.
      }
      ++rounds;
    }
  });
  ErrorInfo info;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!refused && std::chrono::steady_clock::now() < end) {
    Numbers x = start_of(0, 10);
    try {
      forward(gradient, x);
    } catch (const UsageError& e) {
      info = e.info();
      refused = true;
    }
  }
  other.join();
  ASSERT_TRUE(refused);
  EXPECT_EQ(info.code, ErrorCode::BadArgument);
  EXPECT_EQ(info.program, "overwritten_forward");
  EXPECT_NE(info.message.find("another thread"), std::string::npos) << info.message;
  EXPECT_NE(info.hint.find("copy"), std::string::npos) << info.hint;
  EXPECT_EQ(run_gradient(gradient, 3, size()), "");
}

TEST_P(Threads, KeepTheirTapeOrAreTold) {
  const GradientExecutable gradient = compile_gradient(overwritten(), {}, options());
  Numbers mine = start_of(0, 20), theirs = start_of(5, 20);
  const Numbers expected = expected_gradient(mine), expected_of_theirs = expected_gradient(theirs);
  // backward() may be on another thread than forward().
  forward(gradient, mine);
  std::thread([&] { EXPECT_LT(largest_difference(backward(gradient, mine), expected), 1e-9); }).join();
  // But not when that one's own forward() has been overtaken.
  mine = start_of(0, 20);
  forward(gradient, mine);
  std::thread([&] { forward(gradient, theirs); }).join();
  expect_error<UsageError>(ErrorCode::BadArgument, {"overwritten", "another thread has called forward()"},
                           [&] { backward(gradient, mine); });
  std::thread([&] { EXPECT_LT(largest_difference(backward(gradient, theirs), expected_of_theirs), 1e-9); }).join();
  mine = start_of(0, 20);
  forward(gradient, mine);
  EXPECT_LT(largest_difference(backward(gradient, mine), expected), 1e-9);
}

TEST_P(Threads, CopiesOfAGradientHaveTheirOwnTape) {
  const GradientExecutable first = compile_gradient(overwritten(), {}, options());
  Numbers a = start_of(0, 30), b = start_of(4, 40);
  const Numbers expected_a = expected_gradient(a), expected_b = expected_gradient(b);
  forward(first, a);
  GradientExecutable second = first;
  EXPECT_GT(first.tape_bytes(), 0);
  EXPECT_EQ(second.tape_bytes(), 0);
  EXPECT_EQ(second.source(), first.source());
  expect_error<UsageError>(ErrorCode::BadArgument, {"before forward()"}, [&] { backward(second, a); });
  forward(second, b);
  EXPECT_LT(largest_difference(backward(first, a), expected_a), 1e-9);
  EXPECT_LT(largest_difference(backward(second, b), expected_b), 1e-9);
  second = first;
  expect_error<UsageError>(ErrorCode::BadArgument, {"before forward()"}, [&] { backward(second, a); });
  const GradientExecutable moved = std::move(second);
  b = start_of(4, 40);
  forward(moved, b);
  EXPECT_LT(largest_difference(backward(moved, b), expected_b), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Targets, Threads, testing::Values(Target::OpenMP, Target::Interpreter),
                         [](const auto& which) { return std::string(name_of(which.param)); });

}  // namespace
}  // namespace loopgrad::test
