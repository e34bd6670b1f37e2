#include "tools/fuzz/compiled.h"

#include "backends/c_text/prelude.h"
#include "backends/compile_together.h"
#include "dsl/ir/visit.h"
#include "tools/fuzz/agreement.h"
#include "tools/fuzz/cost.h"
#include "tools/fuzz/exactness.h"
#include "tools/fuzz/execution.h"
#include "tools/fuzz/false_facts.h"
#include "tools/fuzz/memory.h"
#include "tools/fuzz/schedules.h"
#include "tools/support/random.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace loopgrad::fuzz {
namespace {

constexpr const char *scheduled = "scheduled", *refused_step = "compiled: a refused step of a schedule",
                     *with_broken_promise = "broken promise";

/// One way of compiling a program's gradient.
struct Way {
  std::string name;
  Gradient gradient;
  CompileOptions options;
  std::vector<int> threads;
  std::optional<GradientExecutable> executable = {};
};

/// Work from which on generated code uses more than one thread.
constexpr double work_for_threads = 20000;

/// A gradient whose forward program is the primal one, and whose backward program does nothing.
Gradient primal_only(const Program& program) {
  ir::Program nothing;
  nothing.body = ir::block({});
  const Program empty(std::make_shared<const ir::Program>(std::move(nothing)));
  return {empty, program, empty, Variant::Restructured, {}};
}

class CompiledCase {
 public:
  CompiledCase(const Case& c, const CompiledOptions& options)
      : case_(at_medium_sizes(c)), small_(c.sizes), options_(options) {
    outcome.unfinished = true;
  }

  Outcome outcome;
  std::string stage;

  /// Differentiates. Names are made from `number`, so that many programs fit one unit.
  void prepare(std::size_t number, Target target) {
    ways_.clear();
    if (options_.device && target == Target::OpenMP && !also_on_host()) return;
    tools::Random random(case_.seed * 11 + 3);
    const bool naive = random.below(100) < 40, atomic = random.below(100) < 40;
    const bool with_schedule = random.below(100) < 15;
    try {
      stage = "compiled: differentiate";
      if (target == Target::Cuda) {
        const Variant variant = atomic_on_device() ? Variant::Atomic : Variant::Restructured;
        add(name_of(variant), differentiated(variant), number, target, {0});
        return add_broken_promise(number, target);
      }
      const Gradient gradient = differentiated(Variant::Restructured);
      add("restructured", gradient, number, target, {1, 2, 3, 7});
      if (naive) add("naive-tape", differentiated(Variant::NaiveTape), number, target, {1});
      if (atomic) add("atomic", differentiated(Variant::Atomic), number, target, {3});
      if (with_schedule) {
        stage = "compiled: schedule";
        const transforms::LowerOptions lowered = {.expected_sizes = case_.expected};
        add(scheduled, gradient, number, target, {2});
        ways_.back().options.schedule = random_schedule(gradient.forward, case_.seed, 4, lowered).schedule;
        ways_.back().options.backward_schedule =
            random_schedule(gradient.backward, case_.seed + 1, 6, lowered).schedule;
      }
      add_broken_promise(number, target);
    } catch (const DifferentiationError& error) {
      outcome.refusal = error.what();
      ways_.clear();
      add("primal", primal_only(case_.program), number, target, {1, 3});
    }
  }

  std::vector<Way>& ways() { return ways_; }
  /// Nothing of it is run on this target.
  void refuse(const char* what) {
    ways_.clear();
    outcome.tried.insert(what);
  }

  void finished_on(Target target) {
    if (target == Target::Cuda || !options_.device) outcome.unfinished = false;
  }

  void check(Target target) {
    if (ways_.empty()) return;
    if (!reference_) reference_.emplace(case_, gradient_options(case_), outcome.refusal.empty());
    for (const Way& way : ways_) {
      if (way.name == with_broken_promise) {
        broken_promise(way, target);
        continue;
      }
      stage = way.name + ": bits";
      std::optional<Arrays> first;
      const std::set<std::string> same_bits = options_.axes.same_bits ? due_bits(way, target) : std::set<std::string>();
      for (const int threads : way.threads) {
        stage = target == Target::Cuda ? fmt::format("{}: cuda", way.name)
                                       : fmt::format("{}: openmp, {} threads", way.name, threads);
        const Arrays result = run_way(way, threads, target, reference_->inputs());
        reference_->expect(result, same_bits);
        if (first) expect_same_bits(*first, result, "depends on the number of threads");
        else first = copy_of(result);
      }
      if (target == Target::Cuda && way.name == "restructured")
        expect_same_bits(*first, run_way(way, 0, target, reference_->inputs()), "changes from run to run");
      if (way.name == "restructured") {
        expect_same_again(way, target, *first);
        expect_others_right(way, target, *first);
      }
      note(way, target);
    }
    if (options_.axes.false_facts_compiled) false_fact(target);
    if (reference_->was_unstable()) outcome.tried.insert("compiled: too sensitive to rounding to compare all");
  }

 private:
  // Compilers take most of the time where there is a GPU as well. There each program has one variant on the GPU, and
  // few are compiled for the CPU, which other sessions do.
  bool also_on_host() const { return tools::Random(case_.seed * 17 + 9).below(100) < 20; }
  bool atomic_on_device() const { return tools::Random(case_.seed * 19 + 1).below(100) < 30; }

  Gradient differentiated(Variant variant) const { return differentiated(case_.program, variant); }
  Gradient differentiated(const Program& program, Variant variant) const {
    GradientOptions what = gradient_options(case_);
    what.variant = variant;
    return differentiate(program, what);
  }

  /// One more way where a loop has an `at_most`, in a third of the programs.
  void add_broken_promise(std::size_t number, Target target) {
    if (!options_.axes.false_facts_compiled || tools::Random(case_.seed * 23 + 7).below(3) > 0) return;
    if (!promise_) promise_ = break_a_promise(case_, make_arrays(case_, false), false);
    if (!promise_) return;
    stage = "compiled: differentiate with a broken promise";
    add(with_broken_promise, differentiated(promise_->program, Variant::Restructured), number, target, {2});
  }

  void broken_promise(const Way& way, Target target) {
    stage = target == Target::Cuda ? "a broken at_most, compiled for a GPU" : "a broken at_most, compiled";
    outcome.tried.insert("check: " + stage);
    try {
      run_way(way, 2, target, reference_->inputs());
    } catch (const Error& error) {
      return expect_broken(*promise_, error);
    }
    throw Disagreement(fmt::format("the broken promise of '{}' is not found", promise_->loop));
  }

  void add(const std::string& name, const Gradient& gradient, std::size_t number, Target target,
           std::vector<int> threads) {
    const auto part = [&](const Program& program, const char* what) {
      return renamed(program, fmt::format("p{}_{}_{}", number, ways_.size(), what));
    };
    Way way{name,
            {part(gradient.sizing, "sizing"),
             part(gradient.forward, "forward"),
             part(gradient.backward, "backward"),
             gradient.variant,
             {}},
            {.target = target},
            std::move(threads)};
    ways_.push_back(std::move(way));
  }

  /// The arrays of which the interpreter's bits are due. The naive tape's programs are run as they are written, unless
  /// the emitter shares out a sum.
  std::set<std::string> due_bits(const Way& way, Target target) {
    SumOrder order = SumOrder::Free;
    if (way.gradient.variant == Variant::NaiveTape && target == Target::OpenMP) {
      order = SumOrder::AsWritten;
      for (const Program& program : {way.gradient.sizing, way.gradient.forward, way.gradient.backward})
        if (reorders_sums(generated_text(way, program.name()))) order = SumOrder::Free;
    }
    const auto& shared = case_.shared;
    const std::set<std::string> expected = exact_arrays(reference_->programs(), order, shared);
    std::set<std::string> due =
        exact_arrays({way.gradient.sizing, way.gradient.forward, way.gradient.backward}, order, shared);
    std::erase_if(due, [&](const std::string& name) { return !expected.contains(name); });
    note_bits(way, target, order, due);
    return due;
  }

  /// For the table of features.
  void note_bits(const Way& way, Target target, SumOrder order, const std::set<std::string>& due) {
    const std::string where = target == Target::Cuda ? "cuda" : "openmp";
    if (order == SumOrder::AsWritten) outcome.tried.insert("compiled: " + where + ", sums in the order of the program");
    for (const Program& program : {way.gradient.forward, way.gradient.backward})
      for (const ir::Array& array : program.ir().arrays)
        if (is_float(array->type) && array->role != ir::ArrayRole::Input && due.contains(array->name))
          outcome.tried.insert(fmt::format("compiled: {}, {}, the interpreter's bits", where, way.name));
  }

  /// The generated function of that name. Throws where there is none: what is looked for in it would never be found.
  static std::string generated_text(const Way& way, const std::string& name) {
    const std::string& source = way.executable->source();
    const std::size_t begin = source.find("static int " + backend::generated_name(name) + "run(");
    if (begin == std::string::npos) throw std::logic_error("no generated function of the program '" + name + "'");
    return source.substr(begin, source.find("\nextern", begin) - begin);
  }

  /// What stays from run to run: index arrays in one place, with a version.
  struct Versioned {
    std::map<std::string, GuardedArray> memory;
    std::uint64_t version = 0;
  };

  /// An input of integers of the user's program: nothing writes it.
  bool is_index_array(const std::string& name) const {
    const ir::Array array = ir::find_array(case_.program.ir(), name);
    return array && array->role == ir::ArrayRole::Input && !is_float(array->type);
  }

  /// With what an earlier run has kept of the same index arrays.
  void expect_same_again(const Way& way, Target target, const Arrays& due) {
    static std::uint64_t versions = 0;  // memory is used again for other programs
    stage = way.name + ": versioned index arrays";
    outcome.tried.insert("compiled: versioned index arrays");
    Versioned kept{{}, ++versions};
    for (int repetition = 0; repetition < 2; ++repetition)
      expect_same_bits(due, run_way(way, way.threads.front(), target, reference_->inputs(), &kept),
                       "changes when index arrays are versioned");
  }

  /// Other arrays, and fewer elements, in between: whatever an earlier run has left is not theirs.
  void expect_others_right(const Way& way, Target target, const Arrays& due) {
    outcome.tried.insert("compiled: other arrays and sizes in between");
    for (const Sizes* sizes : {&case_.sizes, &small_}) {
      stage = way.name + (sizes == &case_.sizes ? ": other arrays" : ": other sizes");
      Case other = case_;
      other.seed += 1;
      other.sizes = *sizes;
      NativeReference reference(other, gradient_options(case_), outcome.refusal.empty());
      reference.expect(run_way(way, 2, target, reference.inputs(), nullptr, sizes), {});
    }
    stage = way.name + ": after other arrays and sizes";
    expect_same_bits(due, run_way(way, 2, target, reference_->inputs()), "changes after a run of others");
  }

  Arrays run_way(const Way& way, int threads, Target target, const Arrays& inputs, Versioned* kept = nullptr,
                 const Sizes* other_sizes = nullptr) const {
    const Sizes& sizes = other_sizes ? *other_sizes : case_.sizes;
    const Device device = target == Target::Cuda ? Device::Cuda : Device::Host;
    std::map<std::string, GuardedArray> memory;
    std::map<const void*, std::string> owners;
    std::map<std::string, std::string> owner_of;
    const auto arguments = [&](const ir::Program& program) {
      Arguments result;
      for (const ir::Array& array : program.arrays) {
        if (array->role == ir::ArrayRole::Tape) continue;
        const std::string& name = array->name;
        if (!owner_of.contains(name)) {
          const auto known = inputs.find(name);
          HostArray initial =
              known != inputs.end()
                  ? known->second
                  : HostArray(array->type, backend::shape_of(array, values_of(case_.program.ir(), sizes)));
          if (known == inputs.end()) std::memset(initial.data(), 0x5A, static_cast<std::size_t>(initial.bytes()));
          const auto [owner, is_new] = owners.try_emplace(initial.data(), name);
          owner_of[name] = owner->second;
          if (is_new)
            memory.emplace(name, GuardedArray(initial, static_cast<int>((case_.seed + name.size()) % 4), device));
          if (known == inputs.end()) owners.erase(initial.data());
        }
        result[name] = memory.at(owner_of.at(name)).view();
        if (!kept || owner_of.at(name) != name || !is_index_array(name)) continue;
        if (!kept->memory.contains(name)) kept->memory.emplace(name, GuardedArray(inputs.at(name), 0, device));
        result[name] = versioned(kept->memory.at(name).view(), kept->version);
      }
      return result;
    };
    omp_set_num_threads(std::max(1, threads));
    way.executable->forward(arguments(way.gradient.forward.ir()), sizes);
    way.executable->backward(arguments(way.gradient.backward.ir()), sizes);
    if (target == Target::Cuda) cuda_synchronize();
    Arrays result;
    for (const auto& [name, owner] : owner_of) result.emplace(name, memory.at(owner).contents(name));
    return result;
  }

  static void expect_same_bits(const Arrays& one, const Arrays& other, const std::string& message) {
    for (const auto& [name, array] : one) {
      const auto bytes = static_cast<std::size_t>(array.bytes());
      if (bytes > 0 && std::memcmp(array.data(), other.at(name).data(), bytes) != 0)
        throw Disagreement("'" + name + "' " + message);
    }
  }

  void false_fact(Target target) {
    Arrays inputs = copy_of(reference_->inputs());
    const auto broken = break_a_fact(case_, inputs);
    if (!broken) return;
    const std::string what = target == Target::Cuda ? "a false fact, compiled for a GPU" : "a false fact, compiled";
    stage = what;
    outcome.tried.insert("check: " + what);
    try {
      run_way(ways_.front(), 2, target, inputs);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::BadFact && error.array() == *broken) return;
      throw Disagreement(fmt::format("the false fact about '{}' gives: {}", *broken, error.what()));
    }
    throw Disagreement(fmt::format("the false fact about '{}' is not found", *broken));
  }

  /// For the table of features: what the generated code does.
  void note(const Way& way, Target target) {
    const std::string where = target == Target::Cuda ? "cuda" : "openmp";
    outcome.tried.insert(fmt::format("compiled: {}, {}", where, way.name));
    if (target == Target::Cuda) return;
    for (const Program& program : {way.gradient.forward, way.gradient.backward}) {
      const std::string text = generated_text(way, program.name());
      const auto has = [&](const char* what) { return text.find(what) != std::string::npos; };
      if (has("omp parallel")) outcome.tried.insert("code: parallel region");
      if (has("omp parallel") && estimated_work(case_.program.ir(), case_.sizes, case_.contents) >= work_for_threads)
        outcome.tried.insert("code: parallel region with enough work for threads");
      if (has("omp simd") || has(" simd")) outcome.tried.insert("code: lanes");
      if (has("multiply<")) outcome.tried.insert("code: product of matrices for a library");
      if (has("atomic")) outcome.tried.insert("code: atomic update");
      if (has("Stack stack")) outcome.tried.insert("code: stack");
      if (has("Lanes")) outcome.tried.insert("code: sums in lanes");
    }
  }

  const Case case_;
  const Sizes small_;
  const CompiledOptions options_;
  std::vector<Way> ways_;
  std::optional<NativeReference> reference_;
  std::optional<BrokenPromise> promise_;
};

/// Runs `f` for a program; what it throws becomes the program's outcome.
void guarded(CompiledCase& c, const std::function<void()>& f) {
  if (c.outcome.failure) return;
  try {
    f();
  } catch (const CompileError& error) {
    // At a line of the program it is a refusal, such as of local arrays that a GPU has no place for.
    if (error.info().location.known()) c.refuse("compiled: refused for the target");
    else c.outcome.failure = Failure{c.stage, error.what()};
  } catch (const TransformError&) {
    c.refuse(refused_step);
  } catch (const UsageError& error) {
    // Notes of what is out of range come before the schedule and may make nests imperfect.
    if (c.stage == std::string(scheduled) + ": compile") c.refuse(refused_step);
    else c.outcome.failure = Failure{c.stage, error.what()};
  } catch (const std::exception& error) {
    c.outcome.failure = Failure{c.stage, error.what()};
  }
}

void compile_ways(const std::vector<Way*>& ways) {
  if (ways.empty()) return;
  std::vector<Gradient> gradients;
  std::vector<CompileOptions> options;
  for (const Way* way : ways) {
    gradients.push_back(way->gradient);
    options.push_back(way->options);
  }
  const std::vector<GradientExecutable> built = backend::compile_together(gradients, options);
  for (std::size_t i = 0; i < ways.size(); ++i) ways[i]->executable = built[i];
}

/// All in one unit; when that fails, one after the other, to learn whose fault it is.
void compile_all(std::vector<CompiledCase>& cases, const CompiledWatch& watch) {
  std::vector<Way*> all;
  for (CompiledCase& c : cases) {
    if (c.outcome.failure) continue;
    for (Way& way : c.ways()) all.push_back(&way);
  }
  try {
    watch.now(0, fmt::format("compiling {} programs", cases.size()));
    return compile_ways(all);
  } catch (const std::exception&) {
  }
  for (std::size_t i = 0; i < cases.size() && !watch.is_over(); ++i) {
    guarded(cases[i], [&] {
      for (Way& way : cases[i].ways()) {
        cases[i].stage = way.name + ": compile";
        watch.now(i, cases[i].stage);
        compile_ways({&way});
      }
    });
  }
}

/// False when it was over before all programs had run.
bool check_on(Target target, std::vector<CompiledCase>& all, const CompiledWatch& watch) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (watch.is_over()) return false;
    watch.now(i, "differentiating for a compiled run");
    guarded(all[i], [&] { all[i].prepare(i, target); });
  }
  if (watch.is_over()) return false;
  compile_all(all, watch);
  bool is_spoilt = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (watch.is_over() || is_spoilt) return false;
    watch.now(i, fmt::format("running compiled ({})", name_of(target)));
    const bool failed_before = all[i].outcome.failure.has_value();
    guarded(all[i], [&] { all[i].check(target); });
    all[i].finished_on(target);
    // What goes wrong on a device shows in all that is asked of it afterwards.
    is_spoilt = target == Target::Cuda && all[i].outcome.failure && !failed_before;
  }
  return true;
}

}  // namespace

std::vector<Outcome> check_compiled(const std::vector<Case>& cases, const CompiledOptions& options,
                                    const CompiledWatch& watch) {
  std::vector<CompiledCase> all;
  for (const Case& c : cases) all.emplace_back(c, options);
  if (check_on(Target::OpenMP, all, watch) && options.device) check_on(Target::Cuda, all, watch);
  std::vector<Outcome> outcomes;
  for (CompiledCase& c : all) outcomes.push_back(std::move(c.outcome));
  return outcomes;
}

}  // namespace loopgrad::fuzz
