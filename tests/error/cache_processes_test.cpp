// Many processes, threads and containers on one kernel cache, and processes that are killed.
#include "tests/error/cache_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace loopgrad::test {
namespace {

using namespace std::chrono_literals;

/// Another process, with its standard output in a file.
class Job {
 public:
  Job(std::vector<std::string> words, const fs::path& output) : output_(output) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  pid_t pid() const { return pid_; }
  /// The exit status, or minus the number of the signal.
  int wait() const {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_) return -1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string output() const { return content_of(output_); }

 private:
  pid_t pid_ = -1;
  fs::path output_;
};

bool runs(const std::vector<std::string>& words) { return Job(words, "/dev/null").wait() == 0; }

/// False also for a process that has ended and that nobody has waited for.
bool is_alive(const std::string& pid) {
  const std::string status = content_of("/proc/" + pid + "/stat");
  const std::size_t name_end = status.rfind(')');
  return name_end != std::string::npos && status.substr(name_end + 2, 1) != "Z";
}

template <class Condition>
bool comes_true(Condition&& condition) {
  for (int k = 0; k < 1200; ++k) {
    if (condition()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

class CacheProcesses : public Cache {
 protected:
  Job start(std::vector<std::string> words, const std::string& name) const {
    return Job(std::move(words), folder / name);
  }
  /// A compiler that writes a line for each compilation.
  fs::path counting_compiler(const std::string& more = "") const {
    return script("[ \"$1\" = --version ] || { echo $$ >>'" + (folder / "compilations").string() + "'; " + more +
                  " true; }\nexec c++ \"$@\"");
  }
  std::vector<std::string> compilations() const {
    std::ifstream file(folder / "compilations");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(CacheProcesses, OneCompilesAndTheOthersWait) {
  const Variable compiler("LOOPGRAD_CXX", counting_compiler());
  std::vector<Job> jobs;
  for (int k = 0; k < 8; ++k) jobs.push_back(start({LOOPGRAD_CACHE_JOB, "5"}, std::to_string(k)));
  int compiled = 0;
  for (const Job& job : jobs) {
    EXPECT_EQ(job.wait(), 0) << job.output();
    compiled += job.output() == "compiled\n";
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(compilations().size(), 1u);
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(CacheProcesses, OneThreadCompilesAndTheOthersWait) {
  const Variable compiler("LOOPGRAD_CXX", counting_compiler());
  std::vector<std::thread> threads;
  std::atomic<int> compiled{0}, right{0};
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&] {
      const Executable executable = build(5);
      compiled += !executable.from_cache();
      right += works(executable, 5);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(right, 4);
  EXPECT_EQ(compilations().size(), 1u);
}

TEST_F(CacheProcesses, EqualProcessIdsInContainers) {
  if (!runs({"unshare", "--pid", "--fork", "--kill-child", "true"})) GTEST_SKIP() << "no namespaces here";
  for (int round = 0; round < 2; ++round) {
    fs::remove_all(kernels());
    std::vector<Job> jobs;
    for (int k = 0; k < 4; ++k) {
      jobs.push_back(
          start({"unshare", "--pid", "--fork", "--kill-child", LOOPGRAD_CACHE_JOB, "2", "3"}, std::to_string(k)));
    }
    for (const Job& job : jobs) EXPECT_EQ(job.wait(), 0) << job.output();
    const Job after = start({LOOPGRAD_CACHE_JOB, "2", "3"}, "after");
    EXPECT_EQ(after.wait(), 0);
    EXPECT_EQ(after.output(), "cached\ncached\n");
    EXPECT_EQ(leftovers(), 0);
  }
}

TEST_F(CacheProcesses, NoNameIsMadeOfTheProcessId) {
  // What a process of the same id left behind when it was killed is in nobody's way.
  if (!runs({"unshare", "--pid", "--fork", "--kill-child", "true"})) GTEST_SKIP() << "no namespaces here";
  const std::vector<std::string> contained = {"unshare", "--pid", "--fork", "--kill-child", LOOPGRAD_CACHE_JOB, "2"};
  ASSERT_EQ(start({LOOPGRAD_CACHE_JOB, "2"}, "out").wait(), 0);
  const fs::path entry = kernel();
  for (const char* kind : {".so", ".cpp"})
    for (int k = 0; k < 4; ++k)
      std::ofstream((kernels() / entry.stem()).string() + kind + ".1." + std::to_string(k) + ".tmp") << "torn";
  fs::remove(entry);
  for (const char* said : {"compiled\n", "cached\n"}) {
    const Job job = start(contained, "out");
    EXPECT_EQ(job.wait(), 0);
    EXPECT_EQ(job.output(), said);
  }
}

TEST_F(CacheProcesses, TheCompilerEndsWithItsParentAndAnotherTakesOver) {
  // The first compilation starts a program of its own and hangs.
  const fs::path hung = folder / "hung";
  const Variable compiler(
      "LOOPGRAD_CXX", counting_compiler("[ -e '" + hung.string() + "' ] || { sleep 600 & echo $! >'" + hung.string() +
                                        ".new'; mv '" + hung.string() + ".new' '" + hung.string() + "'; wait; };"));
  const Job first = start({LOOPGRAD_CACHE_JOB, "2"}, "first");
  ASSERT_TRUE(comes_true([&] { return fs::exists(hung); })) << first.output();
  const std::string child = content_of(hung).substr(0, content_of(hung).find('\n'));
  const Job second = start({LOOPGRAD_CACHE_JOB, "2"}, "second");
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(compilations().size(), 1u);  // the second waits
  EXPECT_TRUE(is_alive(compilations()[0]) && is_alive(child));
  ASSERT_EQ(::kill(first.pid(), SIGKILL), 0);
  EXPECT_EQ(first.wait(), -SIGKILL);
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(second.output(), "compiled\n");
  EXPECT_TRUE(comes_true([&] { return !is_alive(compilations()[0]) && !is_alive(child); }));
  EXPECT_TRUE(comes_true([&] { return leftovers() == 0; }));
}

TEST_F(CacheProcesses, CompilesInMemoryWhereNothingCanBeKept) {
  const Variable nowhere("LOOPGRAD_CACHE_DIR", "/proc/loopgrad"), told("LOOPGRAD_TIME", "1");
  const Job job = start({LOOPGRAD_CACHE_JOB, "2", "2"}, "out");
  EXPECT_EQ(job.wait(), 0) << job.output();
  const std::string said = "compiled code is not kept: the cache folder '/proc/loopgrad'", out = job.output();
  EXPECT_NE(out.find(said), std::string::npos) << out;
  EXPECT_EQ(out.find(said), out.rfind(said)) << "told twice: " << out;
  EXPECT_EQ(out.find("compiled\n"), out.rfind("compiled\n"));  // once: the second is in the memory of the process
  EXPECT_NE(out.find("cached\n"), std::string::npos) << out;
}

TEST_F(CacheProcesses, FullAndReadOnlyDisks) {
  const std::string disk = (folder / "kernels").string(), mount = "mkdir -p " + disk + " && mount -t tmpfs ";
  if (!runs({"unshare", "--mount", "sh", "-c", mount + "none " + disk})) GTEST_SKIP() << "no namespaces here";
  auto on_disk = [&](const std::string& options, const std::string& more) {
    const Job job = start({"unshare", "--mount", "sh", "-c",
                           mount + options + " none " + disk + " && " + more + " exec " LOOPGRAD_CACHE_JOB " 2 3"},
                          "out");
    EXPECT_EQ(job.wait(), 0) << job.output();
    EXPECT_EQ(job.output(), "compiled\ncompiled\n");
  };
  on_disk("-o size=16k,mode=700", "");
  on_disk("-o ro,mode=700", "");
  const Job job = start(
      {"unshare", "--mount", "sh", "-c",
       mount + "-o ro,mode=700 none " + disk + " && mount -t tmpfs -o ro none /tmp && exec " LOOPGRAD_CACHE_JOB " 2"},
      "out");
  EXPECT_EQ(job.wait(), 2);
  EXPECT_NE(job.output().find("program 'times': there is no place to compile in"), std::string::npos) << job.output();
  EXPECT_NE(job.output().find("TMPDIR"), std::string::npos) << job.output();
}

}  // namespace
}  // namespace loopgrad::test
