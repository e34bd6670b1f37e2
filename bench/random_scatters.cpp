// Times sums into rows that random indices choose, in loops of several kinds, restructured against atomic and, on a
// CPU, serial; and compares what they compute. python bench/random_scatters.py draws the results.
#include "bench/experiments/timing.h"
#include "tools/support/random.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

namespace lg = loopgrad;
using experiments::Bound;
using experiments::Place;
using Json = nlohmann::ordered_json;

constexpr double kTolerance = 1e-3;
constexpr std::int64_t kSteps = 4, kLongestRow = 31;

/// The gradient by `table` is the sum. Names of index arrays: k0, k1, k2; `table` has as many dimensions, and the row.
struct Reads {
  explicit Reads(const std::string& kind, int keys) : p(kind), n(p.size("n")), length(p.size("length")) {
    std::vector<lg::Value> shape;
    for (int k = 0; k < keys; ++k) {
      shape.push_back(p.size("targets" + std::to_string(k)));
      key.push_back(p.input<int>("k" + std::to_string(k), {n}));
      p.in_range(key.back(), 0, shape.back());
    }
    shape.push_back(length);
    table.push_back(p.input<float>("table", shape));
  }
  lg::Value row(const lg::Value& i, const lg::Value& j) {
    std::vector<lg::Operand> at;
    for (const lg::ArrayHandle& k : key) at.push_back(k(i));
    at.push_back(j);
    return table[0].at(at);
  }

  lg::ProgramBuilder p;
  lg::Value n, length;
  std::vector<lg::ArrayHandle> key, table;
};

lg::Program plain(int keys) {
  Reads r("plain", keys);
  auto w = r.p.input<float>("w", {r.n});
  auto y = r.p.output<float>("y", {r.n, r.length});
  for (auto i : r.p.loop("i", 0, r.n))
    for (auto j : r.p.loop("j", 0, r.length)) y(i, j) = w(i) * r.row(i, j);
  return r.p.build();
}

lg::Program condition(int keys) {
  Reads r("condition", keys);
  auto w = r.p.input<float>("w", {r.n});
  auto y = r.p.output<float>("y", {r.n, r.length});
  for (auto i : r.p.loop("i", 0, r.n))
    for (auto j : r.p.loop("j", 0, r.length)) {
      y(i, j) = 0.0f;
      r.p.when(w(i) > 0.0f, [&] { y(i, j) = w(i) * r.row(i, j); });
    }
  return r.p.build();
}

lg::Program steps(int keys) {
  Reads r("steps", keys);
  auto count = r.p.size("steps");
  auto w = r.p.input<float>("w", {r.n});
  auto y = r.p.output<float>("y", {r.n, r.length});
  for (auto i : r.p.loop("i", 0, r.n))
    for (auto j : r.p.loop("j", 0, r.length)) y(i, j) = 0.0f;
  for (auto step : r.p.loop("step", 0, count)) {
    static_cast<void>(step);
    for (auto i : r.p.loop("i", 0, r.n))
      for (auto j : r.p.loop("j", 0, r.length)) y(i, j) = 0.5f * y(i, j) + w(i) * r.row(i, j);
  }
  return r.p.build();
}

/// Rows of a graph by their starts; with `ragged`, by starts and lengths, which could overlap.
lg::Program rows(bool ragged, int keys) {
  Reads r(ragged ? "ragged" : "csr", keys);
  auto nodes = r.p.size("nodes");
  auto w = r.p.input<float>("w", {r.n});
  auto ptr = r.p.input<int>("ptr", {nodes + 1});
  auto y = r.p.output<float>("y", {nodes, r.length});
  if (!ragged) r.p.csr(ptr, r.n);
  else r.p.in_range(ptr, 0, r.n + 1);
  for (auto v : r.p.loop("v", 0, nodes)) {
    for (auto j : r.p.loop("j", 0, r.length)) y(v, j) = 0.0f;
    auto sum_up = [&](const lg::Value& e) {
      for (auto j : r.p.loop("j", 0, r.length)) y(v, j) += w(e) * r.row(e, j);
    };
    if (ragged) {
      for (auto e : r.p.loop("e", ptr(v), ptr(v + 1), {.at_most = {kLongestRow}})) sum_up(e);
    } else {
      for (auto e : r.p.loop("e", ptr(v), ptr(v + 1))) sum_up(e);
    }
  }
  return r.p.build();
}

lg::Program program_of(const std::string& kind, int keys) {
  if (kind == "plain") return plain(keys);
  if (kind == "condition") return condition(keys);
  if (kind == "steps") return steps(keys);
  return rows(kind == "ragged", keys);
}

struct Case {
  std::string kind, skew;
  int keys;
  std::int64_t targets, length;
};

/// Those that show the most come first.
std::vector<Case> cases(bool quick) {
  std::vector<Case> result;
  const std::vector<std::string> skews = {"none", "zipf", "equal"};
  for (const std::int64_t length : {32, 1})
    for (const std::int64_t targets : {1'000, 100'000})
      for (const std::string& skew : skews) {
        for (const char* kind : {"csr", "ragged", "condition", "steps"})
          result.push_back({kind, skew, 1, targets, length});
        for (const int keys : {2, 3}) result.push_back({"plain", skew, keys, targets, length});
      }
  for (const std::int64_t targets : {1, 32, 1'000, 100'000, 10'000'000})
    for (const std::string& skew : skews)
      for (const std::int64_t length : {1, 8, 32, 128}) {
        if (targets * length > std::int64_t(1) << (quick ? 24 : 27)) continue;
        result.push_back({"plain", skew, 1, targets, length});
      }
  if (quick)
    std::erase_if(result, [](const Case& c) { return c.length == 8 || (c.kind != "plain" && c.targets != 1000); });
  return result;
}

/// About the power 1 / keys of the targets along every dimension.
lg::Sizes sizes_of(const Case& c, std::int64_t elements) {
  lg::Sizes sizes = {{"n", std::max<std::int64_t>(1, elements / c.length)}, {"length", c.length}};
  const auto side = static_cast<std::int64_t>(std::round(std::pow(static_cast<double>(c.targets), 1.0 / c.keys)));
  for (int k = 0; k < c.keys; ++k) sizes["targets" + std::to_string(k)] = side;
  if (c.kind == "csr" || c.kind == "ragged") sizes["nodes"] = std::max<std::int64_t>(1, sizes["n"] / 8);
  if (c.kind == "steps") sizes["steps"] = kSteps;
  return sizes;
}

/// zipf: targets by 1 / (1 + rank), found by inverting the integral of it.
std::int64_t draw(const std::string& skew, std::int64_t targets, lg::tools::Random& random) {
  if (skew == "equal") return targets / 2;
  if (skew == "none") return random.below(targets);
  const double rank = std::pow(static_cast<double>(targets) + 1, random.uniform()) - 1;
  return std::min(static_cast<std::int64_t>(rank), targets - 1);
}

lg::cli::Buffers make_buffers(const Case& c, const lg::Gradient& gradient, const lg::Sizes& sizes) {
  lg::cli::Buffers buffers({gradient.forward, gradient.backward}, sizes, {}, false);
  for (const std::size_t program : {0u, 1u})
    for (const auto& [name, view] : buffers.arguments(program)) {
      const lg::HostArray& array = buffers.at(name);
      std::uint64_t seed = 7;  // by name: programs of different variants have different arguments
      for (const char letter : name) seed = 31 * seed + static_cast<unsigned char>(letter);
      lg::tools::Random random(seed);
      if (name == "ptr") {
        for (std::int64_t v = 0; v < array.size(); ++v)
          array.as<int>()[v] = static_cast<int>(sizes.at("n") * v / std::max<std::int64_t>(1, array.size() - 1));
      } else if (name[0] == 'k') {
        const std::int64_t targets = sizes.at("targets" + name.substr(1));
        for (std::int64_t i = 0; i < array.size(); ++i)
          array.as<int>()[i] = static_cast<int>(draw(c.skew, targets, random));
      } else if (array.type() == lg::ScalarType::F32) {
        for (std::int64_t i = 0; i < array.size(); ++i)
          array.as<float>()[i] = static_cast<float>(random.uniform(-1, 1));
      }
    }
  return buffers;
}

struct Options {
  bool quick = false;
  std::string json, target = "openmp";
  int threads = 0;
  std::int64_t elements = 1 << 22;
  double seconds = 1e9;
};

using Clock = std::chrono::steady_clock;

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), place_{options.target, {}} {
    place_.options.threads = options.threads;
    if (options.target == "cuda") place_.options.target = lg::Target::Cuda;
    variants_ = {lg::Variant::Restructured, lg::Variant::Atomic};
    if (!place_.on_device()) variants_.push_back(lg::Variant::NaiveTape);
  }

  Json measure(const Case& c) {
    const lg::Sizes sizes = sizes_of(c, options_.elements);
    Json row = {{"kind", c.kind},       {"keys", c.keys},     {"skew", c.skew},
                {"targets", c.targets}, {"length", c.length}, {"instances", sizes.at("n")}};
    std::optional<lg::HostArray> first;
    double worst = 0;
    for (const lg::Variant variant : variants_) {
      const lg::GradientExecutable& compiled = executable(c, variant);
      const lg::cli::Buffers buffers = make_buffers(c, gradients_.at(key_of(c, variant)), sizes);
      worst = std::max(worst,
                       run(compiled, variant == lg::Variant::NaiveTape, buffers, row[lg::name_of(variant)], first, c));
      if (variant == lg::Variant::Restructured)
        worst = std::max(worst, run(compiled, false, buffers, row["versioned"], first, c, true));
    }
    row["max_rel_difference"] = worst;
    if (!(worst <= kTolerance)) wrong_ = true;
    return row;
  }
  bool wrong() const { return wrong_; }

 private:
  static std::string key_of(const Case& c, lg::Variant variant) {
    return fmt::format("{} {} {}", c.kind, c.keys, lg::name_of(variant));
  }

  const lg::GradientExecutable& executable(const Case& c, lg::Variant variant) {
    const std::string key = key_of(c, variant);
    const auto found = compiled_.find(key);
    if (found != compiled_.end()) return found->second;
    const lg::Gradient& gradient =
        gradients_
            .emplace(key,
                     lg::differentiate(program_of(c.kind, c.keys), {.wrt = {"table"}, .of = {}, .variant = variant}))
            .first->second;
    return compiled_.emplace(key, lg::compile(gradient, place_.options)).first->second;
  }

  /// Milliseconds of backward go to `ms`. Returns the difference from the variant before. `versioned`: what follows
  /// from the indices is kept from call to call.
  double run(const lg::GradientExecutable& compiled, bool popped, const lg::cli::Buffers& buffers, Json& ms,
             std::optional<lg::HostArray>& first, const Case& c, bool versioned = false) {
    const Bound bound(buffers, place_, 2);
    lg::Arguments forward = bound.arguments(0), backward = bound.arguments(1);
    if (versioned) {
      // Buffers of several cases may lie in the same memory.
      for (lg::Arguments* all : {&forward, &backward})
        for (auto& [name, view] : *all)
          if (!lg::is_float(view.type)) view = lg::versioned(view, version_);
      ++version_;
    }
    compiled.forward(forward, buffers.sizes());
    if (popped) {  // a tape that backward pops needs a forward each time
      const double alone = experiments::milliseconds(place_, [&] { compiled.forward(forward, buffers.sizes()); });
      ms = experiments::milliseconds(place_,
                                     [&] {
                                       compiled.forward(forward, buffers.sizes());
                                       compiled.backward(backward, buffers.sizes());
                                     }) -
           alone;
    } else {
      ms = experiments::milliseconds(place_, [&] { compiled.backward(backward, buffers.sizes()); });
    }
    bound.first("d_table");  // downloads it
    if (!first) {
      first = lg::cli::copy_of(buffers.at("d_table"));
      return 0;
    }
    const double terms = static_cast<double>(options_.elements) / static_cast<double>(c.targets * c.length);
    return lg::cli::relative_error(buffers.at("d_table"), *first, std::sqrt(terms));
  }

  const Options& options_;
  Place place_;
  std::vector<lg::Variant> variants_;
  std::map<std::string, lg::Gradient> gradients_;
  std::map<std::string, lg::GradientExecutable> compiled_;
  std::uint64_t version_ = 1;
  bool wrong_ = false;
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%F", std::localtime(&now));
  return text;
}

void write(const Options& options, const std::string& command, const Json& rows) {
  const Json result = {{"date", today()},
                       {"cpu", cpu_name()},
                       {"gpu", lg::has_cuda() ? Json(lg::cuda_device_name()) : Json(nullptr)},
                       {"target", options.target},
                       {"threads", options.threads},
                       {"compiler", __VERSION__},
                       {"command", command},
                       {"times", "medians of the backward program, ms"},
                       {"rows", rows}};
  std::ofstream file(options.json);
  file << result.dump(1) << "\n";
  if (!file.flush()) throw std::runtime_error("cannot write '" + options.json + "'");
}

std::string described(const Case& c) {
  return fmt::format("{:9} {} {:5} {:>9} {:>4}", c.kind, c.keys, c.skew, c.targets, c.length);
}

/// Writes what there is after every case: a run that is cut off leaves its rows.
int run(const Options& options, const std::string& command) {
  const auto start = Clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const std::vector<Case> all = cases(options.quick);
  Bench bench(options);
  Json rows = Json::array();
  std::size_t left = 0;
  fmt::print(
      "kind keys skew   targets  row | ms: restructured, with versioned indices, atomic, naive tape | largest "
      "difference\n");
  for (const Case& c : all) {
    if (seconds() > options.seconds) {
      ++left;
      continue;
    }
    rows.push_back(bench.measure(c));
    const Json& row = rows.back();
    const double naive = row.contains("naive-tape") ? row["naive-tape"].get<double>() : NAN;
    fmt::print("{} | {:9.3f} {:9.3f} {:9.3f} {:9.3f} | {:.0e} | {}/{} {:.0f} s\n", described(c),
               row["restructured"].get<double>(), row["versioned"].get<double>(), row["atomic"].get<double>(), naive,
               row["max_rel_difference"].get<double>(), rows.size(), all.size(), seconds());
    std::fflush(stdout);
    if (!options.json.empty()) write(options, command, rows);
  }
  if (left != 0) fmt::print("{} cases left out: {} s are over\n", left, options.seconds);
  if (bench.wrong()) fmt::print(stderr, "variants differ by more than {}\n", kTolerance);
  return bench.wrong() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Times sums into rows that random indices choose"};
  app.add_flag("--quick", options.quick, "fewer cases");
  app.add_option("--json", options.json, "file for the results");
  app.add_option("--target", options.target, "openmp or cuda")->check(CLI::IsMember({"openmp", "cuda"}));
  app.add_option("--threads", options.threads, "of openmp (default: OMP_NUM_THREADS)")->check(CLI::NonNegativeNumber);
  app.add_option("--elements", options.elements, "summed in every case: instances times the length of a row")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "begin no case after this time")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::string command = "bench_random_scatters";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  try {
    return run(options, command);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
