// cache_job FACTOR...: a process that compiles one program per factor and runs it. Exit status 0 when all numbers are
// right, 1 when some are wrong, 2 on an Error, whose text it prints.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace lg = loopgrad;

int main(int argc, char** argv) {
  int status = 0;
  for (int k = 1; k < argc && status == 0; ++k) {
    const int factor = std::atoi(argv[k]);
    try {
      lg::ProgramBuilder p("times");
      auto n = p.size("n");
      auto x = p.inout<float>("x", {n});
      for (auto i : p.loop("i", 0, n)) x(i) *= factor;
      const auto times = lg::compile(p.build());
      std::vector<float> values = {1, 2, 3};
      times.run({{"x", lg::view(values.data(), {3})}});
      std::printf("%s\n", times.from_cache() ? "cached" : "compiled");
      if (values != std::vector<float>{1.0f * factor, 2.0f * factor, 3.0f * factor}) status = 1;
    } catch (const lg::Error& error) {
      std::printf("%s\n", error.what());
      status = 2;
    }
  }
  return status;
}
