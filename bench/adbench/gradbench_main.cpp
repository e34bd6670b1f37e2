// A tool of GradBench: answers the messages on its standard input, a line each.
#include "bench/adbench/gradbench.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <iostream>

int main(int argc, char** argv) {
  std::string target = "serial";
  CLI::App app{"Answers the messages of a GradBench eval on standard input"};
  app.add_option("--target", target, "serial, openmp, cuda or interpreter");
  CLI11_PARSE(app, argc, argv);
  try {
    const adbench::GradBench tool(target);
    for (std::string line; std::getline(std::cin, line);)
      std::cout << tool.answer(nlohmann::json::parse(line)).dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
