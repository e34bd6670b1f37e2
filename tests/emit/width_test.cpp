// Emitted CUDA decides by itself whether indices fit in 32 bits: as has_narrow_indices does, or more carefully.
#include "backends/cuda/index_width.h"
#include "backends/cuda/nvrtc.h"
#include "backends/cuda/width_text.h"
#include "backends/emit/size_text.h"
#include "backends/emit_files.h"
#include "backends/lowering.h"
#include "tools/programs/programs.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace loopgrad {
namespace {

namespace fs = std::filesystem;

struct Checked {
  std::string name;
  ProgramEntry entry;
  std::vector<std::string> sizes;  // in the order of the function's parameters
  ir::Program forward, backward;
};

/// The function of that name in an emitted source.
std::string function_of(const std::string& source, const std::string& name) {
  const std::size_t begin = source.find("inline bool " + name + "(");
  return source.substr(begin, source.find("\n}\n", begin) + 3 - begin);
}

/// Half of a spectrum, whose length takes a floating-point number: blocks have to find that by themselves.
TEST(EmittedKernels, ComputeWhatTheHostDoesNot) {
  ProgramBuilder p("half_spectrum");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto y = p.output<double>("y", {n, m});
  for (auto [i, j] : p.loop({"i", n}, {"j", m})) y(i, j) = 0.0;
  for (auto i : p.loop("i", n)) {
    for (auto j : p.loop("j", 0, cast<std::int64_t>(cast<double>(m) * 0.5))) y(i, j) += x(i, j) * x(i, j);
    p.when(i < cast<std::int64_t>(sqrt(cast<double>(m))), [&] {
      for (auto j : p.loop("j", m)) y(i, j) += x(i, j);
    });
  }
  const Gradient gradient = differentiate(p.build(), {.wrt = {"x"}});
  EXPECT_NO_THROW(backend::emit_files(gradient, {.target = Target::Cuda}, "half_spectrum"));
}

/// What the host computes of sizes, in a condition around kernels, wraps as it would in them.
TEST(EmittedHosts, WrapNumbersOf32Bits) {
  const ir::Symbol m = ir::make_symbol("m");
  const ir::Expr narrow = ir::cast(ScalarType::I32, ir::var(m));
  backend::Spelling names;
  EXPECT_EQ(backend::number_of(narrow * narrow, names), "wrapped(wrapped(Number(m_)) * wrapped(Number(m_)))");
}

TEST(EmittedWidths, AreThoseOfTheExecutor) {
  std::string code = "#include <cstdint>\n#include <initializer_list>\nnamespace {\n" +
                     std::string(backend::number_text) + backend::interval_text + "}\n";
  std::vector<Checked> all;
  for (ProgramEntry (*build)() :
       {programs::conv1d, programs::csr_sum, programs::histogram, programs::wave3d, programs::softmax}) {
    const ProgramEntry entry = build();
    const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt});
    const CompileOptions options{.target = Target::Cuda};
    const std::string source = backend::emit_files(gradient, options, entry.name).source;
    Report ignored;
    auto lowered = backend::lower_gradient(gradient, options, ignored, ignored);
    Checked one{entry.name, entry, {}, lowered.forward.program, lowered.backward.program};
    const std::string text = function_of(source, "forward_is_narrow");
    const std::string list = text.substr(text.find('('), text.find(')') - text.find('('));
    std::string arguments;
    for (std::size_t at = list.find("int64_t "); at != std::string::npos; at = list.find("int64_t ", at + 1)) {
      const std::size_t end = list.find_first_of(",)", at);
      std::string name = list.substr(at + 8, (end == std::string::npos ? list.size() : end) - at - 8);
      name.pop_back();
      arguments += fmt::format("{}s[{}]", arguments.empty() ? "" : ", ", one.sizes.size());
      one.sizes.push_back(name);
    }
    code += fmt::format(
        "namespace {0} {{\n{1}\n{2}\n}}\nextern \"C\" int narrow_{0}(const int64_t* s) {{ return "
        "{0}::forward_is_narrow({3}) + 2 * {0}::backward_is_narrow({3}); }}\n",
        entry.name, text, function_of(source, "backward_is_narrow"), arguments);
    all.push_back(std::move(one));
  }
  const fs::path folder = fs::path(LOOPGRAD_EMIT_FOLDER) / fmt::format("widths.{}", getpid());
  fs::create_directories(folder);
  std::ofstream(folder / "widths.cpp") << code;
  ASSERT_EQ(
      std::system(fmt::format("{0} -std=c++17 -O1 -Wall -Wextra -Werror -shared -fPIC {1}/widths.cpp -o {1}/widths.so",
                              LOOPGRAD_TEST_CXX, folder.string())
                      .c_str()),
      0);
  void* const library = dlopen((folder / "widths.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  int narrow = 0, wide = 0;
  for (const Checked& one : all) {
    const auto code_of = reinterpret_cast<int (*)(const std::int64_t*)>(dlsym(library, ("narrow_" + one.name).c_str()));
    for (const std::int64_t factor : {1, 40, 5000}) {
      std::vector<std::int64_t> values;
      for (const std::string& size : one.sizes) values.push_back(one.entry.sizes.at(size) * factor);
      const int found = code_of(values.data());
      for (const auto& [bit, program] : {std::pair{1, &one.forward}, std::pair{2, &one.backward}}) {
        backend::SizeValues sizes;
        for (const ir::Symbol& size : program->sizes) {
          const auto at = std::find(one.sizes.begin(), one.sizes.end(), size.name);
          sizes[size] = at == one.sizes.end() ? 1 : values[static_cast<std::size_t>(at - one.sizes.begin())];
        }
        const bool expected = backend::has_narrow_indices(*program, sizes), is_narrow = (found & bit) != 0;
        (is_narrow ? narrow : wide) += 1;
        EXPECT_TRUE(expected || !is_narrow) << one.name << ", sizes times " << factor << ": 32 bits are not enough";
        if (factor != 1) continue;
        EXPECT_EQ(expected, is_narrow) << one.name << ": 64 bits where 32 would do";
      }
    }
  }
  EXPECT_GT(narrow, 10);
  EXPECT_GT(wide, 10);
  fs::remove_all(folder);
}

/// Nobody looks through the assembly that nvcc makes of it.
TEST(EmittedExtrema, AreSeparateWhereTheAssemblerWouldLoseAMinus) {
  const auto source_of = [](const ProgramEntry& entry) {
    const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt});
    return backend::emit_files(gradient, {.target = Target::Cuda}, entry.name).source;
  };
  const std::string stencil = source_of(programs::heat2d()), window = source_of(programs::window_attention());
  EXPECT_NE(stencil.find("vmax.s32"), std::string::npos);
  EXPECT_NE(window.find("max_of("), std::string::npos);
  EXPECT_EQ(window.find("vmax.s32") == std::string::npos, backend::has_nvrtc());
}

}  // namespace
}  // namespace loopgrad
