// The names of the user's files appear in comments of generated code, and nothing in them is run.
#include "backends/c_text/code_text.h"
#include "backends/cuda/emitter.h"
#include "backends/openmp/emitter.h"
#include "tests/error/cache_fixture.h"
#include "transforms/map/gpu/place_locals.h"

#include <loopgrad/compile.h>

#include <algorithm>

namespace loopgrad::test {
namespace {

/// Lines of `text` that are more than a comment.
int code_lines(const std::string& text) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find_first_not_of(' ') != line.find("//");
  return count;
}

TEST(FileNames, StayInTheirComment) {
  for (const char* name : {"a\nint x;\n.cpp", "a\rint x;", "ends in\\", "trigraph?\?/", "*/ int x; /*", "\v\f\x7f",
                           "\xe2\x80\xa8", "\n#pragma omp parallel"}) {
    SourceLocation where;
    where.file = name;
    where.line = 1;
    backend::CodeText text;
    text.comment(where);
    text.line("int after;");
    const std::string code = text.take();
    EXPECT_EQ(code_lines(code), 1) << code;
    EXPECT_EQ(std::count(code.begin(), code.end(), '\n'), 2) << code;
    for (const char* bad : {"\\", "*/", "?\?/", "\r", "\v", "\f", "\xe2"})
      EXPECT_EQ(code.find(bad), std::string::npos) << code;
  }
}

// clang-format off
#line 3000 "a\n; std::fclose(std::fopen(\"run_by_a_file_name\", \"w\"));\n#pragma x\\"
Program program_of_a_hostile_file() { ProgramBuilder p("hostile"); auto n = p.size("n"); auto x = p.inout<float>("x", {n}); for (auto i : p.loop("i", 0, n)) { auto t = p.scalar<float>("t"); t = x(i); x(i) = t + 1.0f; } return p.build(); }
#line 43 "file_names_test.cpp"
// clang-format on

TEST(FileNames, StayInTheirCommentInBothEmitters) {
  const Program program = program_of_a_hostile_file();
  for (const std::string& code : {backend::emit_openmp({program.ir()}).source,
                                  backend::emit_cuda({transforms::place_locals(program.ir())}).source()}) {
    EXPECT_NE(code.find("// a_; std::fclose("), std::string::npos) << code;
    EXPECT_EQ(code.find("\n; std::fclose("), std::string::npos) << code;
  }
}

TEST_F(Cache, RunsNothingThatIsInAFileName) {
  fs::remove("run_by_a_file_name");
  std::vector<float> x = {1, 2};
  compile(program_of_a_hostile_file()).run({{"x", view(x.data(), {2})}});
  EXPECT_EQ(x, (std::vector<float>{2, 3}));
  EXPECT_FALSE(fs::exists("run_by_a_file_name"));
  fs::remove("run_by_a_file_name");
}

}  // namespace
}  // namespace loopgrad::test
