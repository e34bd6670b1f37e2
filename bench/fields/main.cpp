// Programs from many fields, as their users would write them: are gradients right, and what do they cost?
//
//   bench_fields check --only ctc,lu          against differences in f64, every variant, 1, 2 and 5 threads
//   bench_fields time --target cuda           a line of JSON for each program and variant
//   bench_fields export --only ctc --out F    inputs and results as files, for peers
#include "bench/fields/fields.h"

#include "bench/median.h"
#include "bench/reference/export.h"
#include "tools/cli/buffers.h"
#include "tools/cli/promote.h"
#include "tools/cli/timed_gradient.h"
#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace loopgrad::fields {
namespace {

using cli::Arrays;
using cli::Buffers;
using Json = nlohmann::ordered_json;

constexpr Variant kVariants[] = {Variant::Restructured, Variant::Atomic, Variant::NaiveTape};
constexpr std::int64_t kProbes = 10;  // elements of each array whose derivative is looked at

struct Options {
  std::string command = "check", target = "openmp";
  std::vector<std::string> only, variants;
  std::vector<int> threads = {1, 2};
  int seeds = 3, runs = 5;
  bool interpreted = false, assumed = false, cpu = false;
  std::vector<Facts> facts = {Facts::Verify};  // to be timed
  std::vector<std::string> sizes;              // name=value
  std::string out;                             // folder of an export
  bool small = false;                          // export at sizes of check
};

/// One program at some sizes, with inputs and incoming gradients.
struct Case {
  Program program, promoted;
  Sizes sizes;
  std::vector<std::string> wrt, of;
  Arrays inputs, incoming;

  Case(const ProgramEntry& entry, const Sizes& at, std::uint64_t seed)
      : program(entry.build()),
        promoted(cli::promote_to_f64(program)),
        sizes(at),
        wrt(cli::resolve_wrt(program, entry.wrt)),
        of(cli::resolve_of(program)),
        inputs(cli::make_inputs(entry, program, sizes, seed)),
        incoming(cli::make_incoming(program, sizes, seed)) {}
  Arrays initial() const {
    Arrays all = inputs;
    all.insert(incoming.begin(), incoming.end());
    return all;
  }
  std::vector<std::string> results() const {
    std::vector<std::string> names = of;
    for (const std::string& name : wrt) names.push_back("d_" + name);
    return names;
  }
};

/// A derivative along one element of an array, or along a direction of all of them.
struct Probe {
  std::string array;
  std::int64_t element = -1;
  Arrays direction = {};
  std::vector<double> estimates = {};
};

/// sum of incoming * output where the inputs are moved along the direction.
double value_at(const Case& c, const Executable& primal, const Arrays& direction, double step) {
  Arrays moved;
  for (const auto& [name, array] : c.inputs) moved[name] = cli::as_f64(array);
  for (const auto& [name, d] : direction)
    for (std::int64_t i = 0; i < d.size(); ++i) moved.at(name).set(i, moved.at(name).get(i) + step * d.get(i));
  Buffers buffers({c.promoted}, c.sizes, moved, true);
  primal.run(buffers.arguments(0), c.sizes);
  double sum = 0;
  for (const std::string& name : c.of)
    for (std::int64_t i = 0; i < buffers.at(name).size(); ++i)
      sum += buffers.at(name).get(i) * c.incoming.at("d_" + name).get(i);
  return sum;
}

std::vector<Probe> make_probes(const Case& c, std::uint64_t seed) {
  tools::Random random(seed * 31 + 7);
  const Executable primal = compile(c.promoted, {.target = Target::Interpreter, .checked = true});
  std::vector<Probe> probes;
  for (const std::string& name : c.wrt) {
    const HostArray& array = c.inputs.at(name);
    for (std::int64_t k = 0; k < std::min(kProbes, array.size()); ++k) {
      Probe probe{.array = name, .element = array.size() <= kProbes ? k : random.below(array.size())};
      HostArray d(ScalarType::F64, array.shape());
      d.set(probe.element, 1);
      probe.direction[name] = d;
      probes.push_back(probe);
    }
  }
  Probe dense;
  for (const std::string& name : c.wrt) {
    HostArray d(ScalarType::F64, c.inputs.at(name).shape());
    for (std::int64_t i = 0; i < d.size(); ++i) d.set(i, random.uniform(-1, 1));
    dense.direction[name] = d;
  }
  probes.push_back(dense);
  for (Probe& probe : probes)
    for (double step : {1e-5, 1e-6, 1e-4, 1e-7})
      probe.estimates.push_back(
          (value_at(c, primal, probe.direction, step) - value_at(c, primal, probe.direction, -step)) / (2 * step));
  return probes;
}

double along(const Case& c, const Probe& probe, const Buffers& gradient) {
  double sum = 0;
  for (const auto& [name, d] : probe.direction)
    for (std::int64_t i = 0; i < d.size(); ++i) sum += d.get(i) * gradient.at("d_" + name).get(i);
  (void)c;
  return sum;
}

Buffers run_gradient(const Case& c, const GradientExecutable& gradient, bool f64, Target target) {
  Buffers buffers({gradient.gradient().forward, gradient.gradient().backward}, c.sizes, c.initial(), f64);
  for (const std::string& name : c.of) {  // garbage that must not be read
    const HostArray& array = buffers.at(name);
    if (!c.inputs.contains(name))
      for (std::int64_t i = 0; i < array.size(); ++i) const_cast<HostArray&>(array).set(i, 1e4);
  }
  if (target == Target::Cuda) {
    cli::TimedGradient on_device(gradient, buffers, target);
    on_device.run();
    on_device.fetch();
    return buffers;
  }
  gradient.forward(buffers.arguments(0), c.sizes);
  gradient.backward(buffers.arguments(1), c.sizes);
  return buffers;
}

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

struct Verdict {
  double worst = 0;
  int failures = 0;
};

/// Against differences; prints what is off.
void compare(const std::string& what, const Case& c, const std::vector<Probe>& probes, const Buffers& gradient,
             double tolerance, Verdict& verdict) {
  for (const Probe& probe : probes) {
    const double value = along(c, probe, gradient);
    double error = HUGE_VAL, best = 0;
    for (double estimate : probe.estimates) {
      const double e = std::abs(value - estimate) / std::max(1.0, std::abs(estimate));
      if (e < error) error = e, best = estimate;
    }
    verdict.worst = std::max(verdict.worst, std::isnan(error) ? HUGE_VAL : error);
    if (error <= tolerance) continue;
    ++verdict.failures;
    fmt::print("  WRONG {} d_{}[{}]: {:.8g}, differences {:.8g}\n", what, probe.array, probe.element, value, best);
    return;
  }
}

std::map<std::string, GradientExecutable> compiled;  // by program, variant, precision and threads

const GradientExecutable& executable(const Case& c, Variant variant, bool f64, Target target, int threads,
                                     bool gpu_mapped = false) {
  if (target == Target::Cuda) threads = 1;  // one program for all
  const std::string key =
      fmt::format("{} {} {} {} {}", c.program.name(), name_of(variant), f64, name_of(target), threads);
  auto it = compiled.find(key);
  if (it == compiled.end())
    it =
        compiled
            .emplace(key, compile_gradient(f64 ? c.promoted : c.program, {.wrt = c.wrt, .of = c.of, .variant = variant},
                                           {.target = target,
                                            .checked = target == Target::Interpreter,
                                            .gpu_mapped = gpu_mapped,
                                            .threads = threads}))
            .first;
  return it->second;
}

/// One variant at some sizes, with inputs of some seed.
void check_variant(const Case& c, const std::vector<Probe>& probes, Variant variant, const std::string& where,
                   const Options& options, Verdict& verdict) {
  const Target target = options.target == "cuda" ? Target::Cuda : Target::OpenMP;
  const auto name = [&](const char* on) { return fmt::format("{} {}", on, where); };
  compare(name("interpreter"), c, probes,
          run_gradient(c, executable(c, variant, true, Target::Interpreter, 1, target == Target::Cuda), true,
                       Target::Interpreter),
          1e-5, verdict);
  if (options.interpreted) return;
  compare(name("compiled f64"), c, probes, run_gradient(c, executable(c, variant, true, target, 2), true, target), 1e-5,
          verdict);
  std::set<std::uint64_t> bits;
  Verdict in_floats;  // of programs as they are written, which may have fewer digits
  for (int threads : {1, 2, 5, 5}) {
    const Buffers run = run_gradient(c, executable(c, variant, false, target, threads), false, target);
    bits.insert(cli::hash_bits(run, c.results()));
    if (threads == 1) compare(name("compiled f32"), c, probes, run, 2e-2, in_floats);
  }
  verdict.failures += in_floats.failures;
  if (variant != Variant::Atomic && bits.size() > 1) {
    ++verdict.failures;
    fmt::print("  BITS {} f32 {}\n", name_of(target), where);
  }
}

Verdict check(const Field& field, const Options& options) {
  Verdict verdict;
  for (const Sizes& sizes : field.checked)
    for (int seed = 1; seed <= options.seeds; ++seed) {
      std::string where = fmt::format("{} seed {} [{}]", field.entry.name, seed, text_of(sizes));
      try {
        const Case c(field.entry, sizes, static_cast<std::uint64_t>(seed));
        const std::vector<Probe> probes = make_probes(c, static_cast<std::uint64_t>(seed));
        for (Variant variant : kVariants) {
          where = fmt::format("{} {} seed {} [{}]", field.entry.name, name_of(variant), seed, text_of(sizes));
          check_variant(c, probes, variant, where, options, verdict);
        }
      } catch (const std::exception& error) {
        ++verdict.failures;
        fmt::print("  ERROR {}: {}\n", where, error.what());
      }
    }
  return verdict;
}

double now_ms(bool cpu = false) {
  if (cpu) return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

/// A variant ready to be timed.
struct Contestant {
  Variant variant;
  Facts facts;
  double generation_ms = 0;
  GradientExecutable gradient;
  Buffers buffers;
  std::optional<cli::TimedGradient> timed;
  std::vector<double> forward, backward;
};

void time(const Field& field, const Options& options, int threads) {
  const Target target = options.target == "cuda" ? Target::Cuda : Target::OpenMP;
  loopgrad::Sizes sizes = field.entry.sizes;
  for (const std::string& given : options.sizes) {
    const auto equals = std::min(given.find('='), given.size() - 1);
    if (auto it = sizes.find(given.substr(0, equals)); it != sizes.end())
      it->second = std::stoll(given.substr(equals + 1));
  }
  const Case c(field.entry, sizes, 1);
  std::vector<std::unique_ptr<Contestant>> all;
  for (Variant variant : kVariants) {
    const std::vector<std::string>& chosen = options.variants;
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), name_of(variant)) == chosen.end()) continue;
    if (target == Target::Cuda && variant == Variant::NaiveTape) continue;  // one thread of a GPU takes minutes
    for (const Facts facts : options.facts) {
      try {
        const CompileOptions compile_options{
            .target = target, .facts = facts, .threads = threads, .expected_sizes = options.assumed ? Sizes{} : sizes};
        const double start = now_ms();
        GradientExecutable gradient =
            compile_gradient(c.program, {.wrt = c.wrt, .of = c.of, .variant = variant}, compile_options);
        const double generation = now_ms() - start;
        Buffers buffers({gradient.gradient().forward, gradient.gradient().backward}, c.sizes, c.initial(), false);
        auto one = std::make_unique<Contestant>(Contestant{variant, facts, generation, gradient, buffers, {}, {}, {}});
        one->timed.emplace(one->gradient, one->buffers, target);
        one->timed->run();
        all.push_back(std::move(one));
      } catch (const std::exception& error) {
        fmt::print("{} {}: {}\n", field.entry.name, name_of(variant), error.what());
      }
    }
  }
  for (int run = 0; run < options.runs; ++run)
    for (auto& contestant : all) {
      if (options.cpu) {
        contestant->buffers.reset();
        const double start = now_ms(true);
        contestant->gradient.forward(contestant->buffers.arguments(0), c.sizes);
        const double between = now_ms(true);
        contestant->gradient.backward(contestant->buffers.arguments(1), c.sizes);
        contestant->forward.push_back(between - start);
        contestant->backward.push_back(now_ms(true) - between);
        continue;
      }
      const auto ms = contestant->timed->run();
      contestant->forward.push_back(ms.forward);
      contestant->backward.push_back(ms.backward);
    }
  double primal_ms = 0;
  if (target == Target::OpenMP) {
    const Executable primal = compile(c.program, {.threads = threads, .expected_sizes = sizes});
    Buffers buffers({c.program}, c.sizes, c.inputs, false);
    std::vector<double> times;
    for (int run = 0; run < options.runs; ++run) {
      buffers.reset();
      const double start = now_ms(options.cpu);
      primal.run(buffers.arguments(0), c.sizes);
      times.push_back(now_ms(options.cpu) - start);
    }
    primal_ms = least(times);
  }
  for (auto& contestant : all) contestant->timed->fetch();
  for (auto& contestant : all) {
    double error = 0;  // against the last variant: the naive tape on a CPU
    for (const std::string& name : c.results())
      error = std::max(error, cli::relative_error(contestant->buffers.at(name), all.back()->buffers.at(name)));
    Json line;
    line["program"] = field.entry.name;
    line["variant"] = name_of(contestant->variant);
    line["facts"] = name_of(contestant->facts);
    line["target"] = options.target;
    line["threads"] = threads;
    line["forward_ms"] = least(contestant->forward);
    line["backward_ms"] = least(contestant->backward);
    line["median_forward_ms"] = bench::median(contestant->forward);
    line["median_backward_ms"] = bench::median(contestant->backward);
    line["primal_ms"] = primal_ms;
    line["tape_bytes"] = contestant->gradient.tape_bytes();
    line["build_ms"] = contestant->generation_ms;
    line["cached"] = contestant->gradient.from_cache();
    line["kernels"] = contestant->gradient.kernel_count();
    line["difference"] = error;
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }
}

std::vector<Field> chosen_fields(const Options& options) {
  std::vector<Field> fields = all_fields();
  if (options.only.empty()) return fields;
  for (const ProgramEntry& entry : programs::all()) fields.push_back({entry, {entry.check_sizes}});
  std::erase_if(fields, [&](const Field& field) {
    return std::find(options.only.begin(), options.only.end(), field.entry.name) == options.only.end();
  });
  return fields;
}

int export_fields(const Options& options) {
  const std::vector<Field> fields = chosen_fields(options);
  std::vector<bench::Case> cases;
  for (const Field& field : fields)
    cases.push_back({&field.entry, options.small ? field.checked.front() : field.entry.sizes, {}, {}});
  const Target target = options.interpreted ? Target::Interpreter : Target::OpenMP;
  bench::export_data(cases, 1, options.out, {.target = target, .threads = options.threads.front()});
  return 0;
}

int run(const Options& options) {
  int failures = 0;
  for (const Field& field : chosen_fields(options)) {
    if (options.command == "time") {
      for (int threads : options.target == "cuda" ? std::vector<int>{0} : options.threads)
        time(field, options, threads);
      continue;
    }
    const Verdict verdict = check(field, options);
    compiled.clear();
    failures += verdict.failures;
    fmt::print("{:24} {} worst {:.1e}\n", field.entry.name, verdict.failures == 0 ? "ok  " : "FAIL", verdict.worst);
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace loopgrad::fields

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "tool") {  // the commands of loopgrad: bench_fields tool explain lu
    std::vector<loopgrad::ProgramEntry> entries;
    for (const auto& field : loopgrad::fields::all_fields()) {
      entries.push_back(field.entry);
      entries.back().check_sizes = field.checked.front();
      entries.back().summary = "one of many fields";
    }
    return loopgrad::main_with(argc - 1, argv + 1, entries);
  }
  loopgrad::fields::Options options;
  CLI::App app("gradients of programs from many fields");
  app.add_option("command", options.command,
                 "check, time, export, tape: what gradients keep in memory, or sums: whether reports of them are true")
      ->check(CLI::IsMember({"check", "time", "export", "tape", "sums"}));
  app.add_option("--target", options.target, "openmp or cuda")->check(CLI::IsMember({"openmp", "cuda"}));
  app.add_option("--only", options.only, "programs")->delimiter(',');
  std::vector<std::string> variants;
  for (const loopgrad::Variant variant : loopgrad::fields::kVariants) variants.emplace_back(loopgrad::name_of(variant));
  app.add_option("--variants", options.variants, "of gradients, to be timed (all)")
      ->delimiter(',')
      ->check(CLI::IsMember(variants));
  const std::map<std::string, loopgrad::Facts> facts = {
      {loopgrad::name_of(loopgrad::Facts::Verify), loopgrad::Facts::Verify},
      {loopgrad::name_of(loopgrad::Facts::Trust), loopgrad::Facts::Trust},
      {loopgrad::name_of(loopgrad::Facts::CheckAccesses), loopgrad::Facts::CheckAccesses}};
  app.add_option("--facts", options.facts, "how much of facts and indices is looked at, to be timed (verify)")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(facts));
  app.add_option("--threads", options.threads, "numbers of threads")->delimiter(',');
  app.add_option("--seeds", options.seeds, "inputs of each size");
  app.add_option("--runs", options.runs, "timed runs");
  app.add_flag("--interpreted", options.interpreted, "check or export without compiling");
  app.add_flag("--cpu", options.cpu, "processor time instead of time: on a busy machine, with one thread");
  app.add_flag("--assumed", options.assumed, "time code that was not told the sizes");
  app.add_option("--size", options.sizes, "other sizes, name=value");
  app.add_option("--out", options.out, "folder of an export");
  app.add_flag("--small", options.small, "export at sizes that are checked");
  CLI11_PARSE(app, argc, argv);
  if (options.command == "tape") return loopgrad::fields::print_tapes(options.only);
  if (options.command == "sums") return loopgrad::fields::check_explained(options.only);
  if (options.command == "export") return loopgrad::fields::export_fields(options);
  return loopgrad::fields::run(options);
}
