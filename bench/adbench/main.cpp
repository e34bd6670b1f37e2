// Runs problems of ADBench from its files, and makes such files.
#include "bench/adbench/generate.h"
#include "bench/adbench/measure.h"
#include "bench/adbench/write.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace {

using namespace adbench;

struct Arguments {
  std::string kind, target = "openmp";
  std::filesystem::path input;
  std::string prefix;
  MeasureOptions measure;
  int runs_of_objective = 10, runs_of_jacobian = 10;
  bool replicate = false;
  std::vector<std::filesystem::path> files;
  GeneratorOptions generator;
};

/// Measures, writes times and results, and prints them as one line.
template <class Data, class Write>
void run(const Arguments& arguments, const Data& data, const Write& write) {
  const auto problem = make_problem(data, place_of(arguments.target));
  MeasureOptions measure = arguments.measure;
  measure.runs = arguments.runs_of_objective;
  problem->objective(), problem->jacobian();  // memory and tapes are allocated
  const double objective = shortest_time(measure, [&] { problem->objective(); });
  measure.runs = arguments.runs_of_jacobian;
  const double jacobian = shortest_time(measure, [&] { problem->jacobian(); });
  const ResultFiles files{arguments.prefix, arguments.input.stem().string()};
  files.write_times(objective, jacobian);
  write(files, problem->result());
  fmt::print("{} {} on {}: objective {:.4g} ms, jacobian {:.4g} ms\n", arguments.kind, files.problem, arguments.target,
             1e3 * objective, 1e3 * jacobian);
}

void run(const Arguments& arguments) {
  if (arguments.kind == "gmm")
    run(arguments, read_gmm(arguments.input, arguments.replicate),
        [](const ResultFiles& files, const Result& result) { files.write_scalar(result); });
  else if (arguments.kind == "lstm")
    run(arguments, read_lstm(arguments.input),
        [](const ResultFiles& files, const Result& result) { files.write_scalar(result); });
  else if (arguments.kind == "ba") {
    const Ba ba = read_ba(arguments.input);
    run(arguments, ba, [&](const ResultFiles& files, const Result& result) { files.write_bundle(result, ba); });
  } else {
    const Hand hand = read_hand(arguments.input, arguments.kind == "hand-complicated");
    run(arguments, hand, [&](const ResultFiles& files, const Result& result) { files.write_hand(result, hand); });
  }
}

void add_run(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand("run", "measures a problem and writes what it computes");
  command->add_option("kind", arguments.kind, "gmm, ba, hand, hand-complicated or lstm")
      ->required()
      ->transform(CLI::IsMember({"gmm", "ba", "hand", "hand-complicated", "lstm"}, CLI::ignore_case));
  command->add_option("input", arguments.input, "the problem's file")->required()->check(CLI::ExistingFile);
  command->add_option("prefix", arguments.prefix, "what the names of the files of results begin with")->required();
  command->add_option("--target", arguments.target, "openmp, serial, cuda or interpreter");
  command->add_option("--minimum-measurable-time", arguments.measure.minimum_measurable_time, "seconds of a sample");
  command->add_option("--nruns-f", arguments.runs_of_objective, "samples of the objective at most");
  command->add_option("--nruns-j", arguments.runs_of_jacobian, "samples of the Jacobian at most");
  command->add_option("--time-limit", arguments.measure.time_limit, "seconds after which no sample begins");
  command->add_flag("--rep", arguments.replicate, "gmm: the file has one point, which stands for all");
}

void add_generate(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand("generate", "writes problems of the sizes that their names say");
  command->add_option("files", arguments.files, "such as gmm_d2_K5.txt")->required();
  command->add_option("--seed", arguments.generator.seed, "of the random numbers");
  command->add_option("--points", arguments.generator.points, "gmm: how many");
  command->add_option("--vertices", arguments.generator.vertices, "hand: of the model");
  command->add_flag("--complicated", arguments.generator.complicated, "hand: points in triangles");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Problems of ADBench, from its files"};
  app.require_subcommand(1);
  add_run(app, arguments);
  add_generate(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    if (app.got_subcommand("run")) run(arguments);
    for (const auto& file : arguments.files) generate(file, arguments.generator);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
