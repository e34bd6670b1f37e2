#include "backends/emit_files.h"

#include "backends/facts_program.h"
#include "backends/lowering.h"
#include "backends/runtime/size_checks.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <cctype>

namespace loopgrad::backend {
namespace {

using ir::Array;

std::string where_text(const SourceLocation& where) { return where.known() ? fmt::format(" ({})", where.str()) : ""; }

bool passed(const std::vector<EmitArray>& arrays, const std::string& name) {
  return std::any_of(arrays.begin(), arrays.end(), [&](const EmitArray& one) { return one.array->name == name; });
}

EmitPart part_of(transforms::Lowered lowered) {
  std::erase_if(lowered.records, [](const transforms::Record& record) { return record.array == nullptr; });
  return {std::move(lowered.program), std::move(lowered.records), std::move(lowered.kept), std::move(lowered.kernels)};
}

std::vector<EmitArray> callers_arrays(const ir::Program& program, const std::set<Array>& others = {}) {
  std::vector<EmitArray> all;
  for (const Array& array : program.arrays)
    if (array->role != ir::ArrayRole::Tape && !others.count(array))
      all.push_back({array, array->role != ir::ArrayRole::Input, 0});
  return all;
}

/// Whether NAME.h is what C++'s own headers include, those of OpenMP and CUDA too: they would find it in place of
/// theirs.
bool is_header_of_the_system(const std::string& name) {
  static const std::set<std::string> all = {
      "aio",       "alloca",      "alloc",    "argz",      "assert",       "atomic",       "bits",
      "complex",   "ctype",       "cuda",     "cuda_fp16", "cuda_bf16",    "cuda_runtime", "cuda_runtime_api",
      "cublas_v2", "cublas",      "dirent",   "dlfcn",     "elf",          "endian",       "errno",
      "execinfo",  "fcntl",       "features", "fenv",      "float",        "getopt",       "grp",
      "iconv",     "immintrin",   "inttypes", "iso646",    "langinfo",     "libintl",      "limits",
      "link",      "locale",      "malloc",   "math",      "memory",       "monetary",     "netdb",
      "nl_types",  "omp",         "poll",     "pthread",   "pwd",          "regex",        "sched",
      "semaphore", "setjmp",      "signal",   "spawn",     "stdalign",     "stdarg",       "stdatomic",
      "stdbool",   "stdc-predef", "stddef",   "stdint",    "stdio",        "stdlib",       "stdnoreturn",
      "string",    "strings",     "syscall",  "tgmath",    "threads",      "time",         "uchar",
      "ucontext",  "unistd",      "utime",    "values",    "vector_types", "wait",         "wchar",
      "wctype",    "xlocale"};
  std::string lower = name;  // there are file systems that do not tell them apart
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all.count(lower) > 0;
}

[[noreturn]] void refuse(const ir::Program& program, const std::string& message, const std::string& hint,
                         const SourceLocation& where = {}) {
  throw UsageError(
      {.code = ErrorCode::BadArgument, .message = message, .program = program.name, .hint = hint, .location = where});
}

void check_can_be_emitted(const Gradient& gradient, const FactsProgram& facts, bool verifies) {
  const ir::Program& program = gradient.forward.ir();
  if (gradient.variant == Variant::NaiveTape)
    refuse(program, "the naive tape needs a stack that grows while the program runs, and is not emitted",
           "emit the variant restructured or atomic");
  if (gradient.max_tape_bytes > 0)
    refuse(program, "emitted code does not keep a budget for the tape", "leave max_tape_bytes out");
  if (verifies && !facts.on_host.empty())
    refuse(
        program,
        fmt::format("'injective' is stated about '{}' without 'in_range' from 0 on, which emitted code cannot verify",
                    facts.on_host.front().array->name),
        "state in_range of the array too, or use --facts trust", facts.on_host.front().location);
}

/// Every size that a function may need, those of the user's program first.
std::vector<std::string> sizes_of(const EmitPlan& plan, const Gradient& gradient) {
  std::vector<std::string> all;
  const auto add = [&](const ir::Program& program, const EmitPart& part) {
    for (const ir::Symbol& size : program.sizes)
      if (size.name != part.kept.stale.name && std::find(all.begin(), all.end(), size.name) == all.end())
        all.push_back(size.name);
  };
  add(gradient.forward.ir(), plan.forward);
  add(gradient.backward.ir(), plan.backward);
  add(plan.facts_part.program, plan.facts_part);
  add(plan.sizing.program, plan.sizing);
  return all;
}

/// One number for each array of the caller's, the same in all functions.
void number_arrays(EmitPlan& plan) {
  std::map<std::string, int> numbers;
  for (std::vector<EmitArray>* list : {&plan.of_forward, &plan.of_backward, &plan.of_facts, &plan.of_sizing})
    for (EmitArray& one : *list) {
      int& number = numbers[one.array->name];
      const std::string where = where_text(one.array->location);
      if (number == 0)
        number = plan.statuses.add(
            {{StatusKind::BadArgument,
              fmt::format("array '{}' is null or not aligned to its elements{}", one.array->name, where)},
             {StatusKind::Overlap,
              fmt::format("array '{}' shares memory with another one, and one of them is written{}", one.array->name,
                          where)}});
      one.status = number;
    }
}

/// Lowers a gradient for a target.
EmitPlan emit_plan(const Gradient& gradient, const CompileOptions& options, const std::string& name) {
  std::string own = generated_name(name);  // a C identifier that ends in '_'
  own.pop_back();
  EmitPlan plan(own);
  plan.verifies = options.facts != Facts::Trust;
  const FactsProgram facts = facts_program(gradient.verified().ir());
  check_can_be_emitted(gradient, facts, plan.verifies);
  plan.facts = facts.stated.facts;
  plan.violations = facts.result;
  plan.needed = facts.needed;
  for (const FactsProgram::OfSizes& one : facts.of_sizes)
    plan.leaving.push_back({one.broken, one.access.array, one.access.dimension, one.access.location});
  plan.bounds = WrittenBounds(gradient.verified().ir()).bounds();
  Report ignored;
  LoweredGradient lowered =
      lower_gradient(gradient, options, ignored, ignored, Until::Emitted, transforms::Orders::Kept);
  plan.sizing = part_of(std::move(lowered.sizing));
  plan.forward = part_of(std::move(lowered.forward));
  plan.backward = part_of(std::move(lowered.backward));
  if (!ir::is_empty(facts.program.body)) plan.facts_part.program = lowered_facts(facts.program, options);
  plan.sizes = sizes_of(plan, gradient);
  for (const std::string& size : plan.sizes) plan.names.of(size);
  plan.of_forward = callers_arrays(gradient.forward.ir());
  plan.of_backward = callers_arrays(gradient.backward.ir());
  for (const Array& array : facts.stated.arrays)
    if (facts.deciding.count(array)) plan.of_facts.push_back({array, false, 0});
  if (plan.has_sizing()) {
    for (const Array& array : gradient.sizing.ir().arrays) {
      if (array->role == ir::ArrayRole::Output) plan.computed.push_back(array->name);
      else plan.of_sizing.push_back({array, false, 0});
    }
    for (const EmitArray& one : plan.of_facts)
      if (!passed(plan.of_sizing, one.array->name)) plan.of_sizing.push_back(one);
  }
  // Backward is safe by itself: it looks at the index arrays that it is given, unless the caller has.
  if (plan.verifies && plan.has_facts())
    for (const EmitArray& one : plan.of_facts)
      if (!passed(plan.of_backward, one.array->name)) plan.of_backward.push_back(one);
  number_arrays(plan);
  return plan;
}

}  // namespace

EmittedFiles emit_files(const Gradient& gradient, const CompileOptions& options, const std::string& name) {
  if (is_header_of_the_system(name))
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = fmt::format("'{0}.h' is a header of the system, which '{0}' would hide", name),
                      .program = gradient.forward.name(),
                      .hint = fmt::format("give another name, for example --name {}_gradient", name)});
  const Backend& backend = backend_of(options.target);
  if (backend.interprets()) backend.source({gradient.backward.ir()}, {});  // which says that there is none
  return backend.files(emit_plan(gradient, options, name));
}

}  // namespace loopgrad::backend
