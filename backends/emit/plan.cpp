#include "backends/emit/plan.h"

#include "backends/lowering.h"
#include "dsl/ir/printer.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend {
namespace {

using ir::Array;

const std::vector<std::pair<StatusKind, std::pair<const char*, const char*>>>& kinds() {
  using enum StatusKind;
  static const std::vector<std::pair<StatusKind, std::pair<const char*, const char*>>> all = {
      {Ok, {"ok", "no error"}},
      {BadArgument, {"bad_argument", "an array is null or not aligned to its elements"}},
      {Overlap, {"overlap", "two arrays share memory, and one of them is written"}},
      {BadSize, {"bad_size", "a size is negative, or something computed from sizes does not fit in 64 bits"}},
      {SmallMemory, {"small_memory", "the tape or the workspace is null or has fewer bytes than the sizes need"}},
      {OutOfMemory, {"out_of_memory", "there is no memory for a local array; outputs may be partly written"}},
      {BadFact, {"bad_fact", "what the program states about its index arrays does not hold, or an index that they decide is outside of its array"}},
      {BadIndex, {"bad_index", "an index is outside of its array"}},
      {DeviceFailed, {"device_failed", "a call of the CUDA runtime or of cuBLAS failed"}}};
  return all;
}

std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c < ' ' || c > '~' ? '_' : c;
  }
  return '"' + out + '"';
}

std::string where_text(const SourceLocation& where) { return where.known() ? fmt::format(" ({})", where.str()) : ""; }

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

bool holds(const std::vector<EmitArray>& arrays, const std::string& name) {
  return std::any_of(arrays.begin(), arrays.end(), [&](const EmitArray& one) { return one.array->name == name; });
}

[[noreturn]] void refuse(const ir::Program& program, const std::string& message, const std::string& hint,
                         const SourceLocation& where = {}) {
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = message,
                    .program = program.name,
                    .hint = hint,
                    .location = where});
}

void check_can_be_emitted(const Gradient& gradient, const EmitPlan& plan) {
  const ir::Program& program = gradient.forward.ir();
  if (gradient.variant == Variant::NaiveTape)
    refuse(program, "the naive tape needs a stack that grows while the program runs, and is not emitted",
           "emit the variant restructured or atomic");
  if (plan.verifies && !plan.facts.on_host.empty())
    refuse(program,
           fmt::format("'injective' is stated about '{}' without 'in_range' from 0 on, which emitted code cannot verify",
                       plan.facts.on_host.front().array->name),
           "state in_range of the array too, or use --facts trust", plan.facts.on_host.front().location);
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

}  // namespace

const std::string& Spelling::of(const std::string& name) {
  std::string& spelled = known_[name];
  if (spelled.empty()) spelled = table_.fresh(name);
  return spelled;
}

std::string Statuses::kind(StatusKind kind) const {
  for (const auto& [one, words] : kinds())
    if (one == kind) return fmt::format("{}_{}", program_, words.first);
  throw InternalError("unknown kind of status");
}

int Statuses::add(const std::map<StatusKind, std::string>& texts) {
  ++last_;
  for (const auto& [kind, text] : texts) texts_[static_cast<int>(kind) + 256 * last_] = text;
  return last_;
}

std::string Statuses::of(StatusKind kind, const std::string& text) {
  return fmt::format("{} + 256 * {}", this->kind(kind), add({{kind, text}}));
}

std::string Statuses::declaration() const {
  std::string out = fmt::format("enum {}_status {{\n", program_);
  for (const auto& [kind, words] : kinds())
    out += fmt::format("  {}_{} = {}{} /* {} */\n", program_, words.first, static_cast<int>(kind),
                       kind == StatusKind::DeviceFailed ? "" : ",", words.second);
  return out + "};\n";
}

std::string Statuses::switch_text() const {
  std::string out = "  switch (status) {\n";
  for (const auto& [status, text] : texts_)
    out += fmt::format("    case {}: return {};\n", status, quoted(program_ + ": " + text));
  out += "  }\n  switch (status & 255) {\n";
  for (const auto& [kind, words] : kinds())
    out += fmt::format("    case {}_{}: return {};\n", program_, words.first, quoted(program_ + ": " + words.second));
  return out + fmt::format("  }}\n  return {};\n", quoted(program_ + ": unknown status"));
}

std::vector<EmitArray> EmitPlan::all_arrays() const {
  std::vector<EmitArray> all;
  for (const std::vector<EmitArray>* list : {&of_forward, &of_backward, &of_facts, &of_sizing})
    for (const EmitArray& one : *list)
      if (!holds(all, one.array->name)) all.push_back(one);
  return all;
}

std::vector<Array> EmitPlan::tape() const {
  std::vector<Array> all;
  for (const Array& array : forward.program.arrays)
    if (array->role == ir::ArrayRole::Tape) all.push_back(array);
  return all;
}

std::vector<Array> own_arrays(const EmitPart& part) {
  std::vector<Array> all;
  for (const transforms::Record& record : part.records) all.push_back(record.array);
  all.insert(all.end(), part.kept.arrays.begin(), part.kept.arrays.end());
  return all;
}

std::string shape_words(const Array& array) {
  std::string out;
  for (const ir::Expr& extent : array->callers_shape()) out += (out.empty() ? "" : ", ") + ir::print(extent);
  return "[" + out + "]";
}

EmitPlan emit_plan(const Gradient& gradient, const CompileOptions& options, const std::string& name) {
  std::string own = generated_name(name);  // a C identifier that ends in '_'
  own.pop_back();
  EmitPlan plan{own, {}, {}, {}, {}, facts_program(gradient.forward.ir()), options.facts != Facts::Trust,
                {},  {}, {}, {}, {}, {}, {}, Statuses(own)};
  check_can_be_emitted(gradient, plan);
  Report ignored;
  LoweredGradient lowered = lower_gradient(gradient, options, ignored, ignored);
  plan.sizing = part_of(std::move(lowered.sizing));
  plan.forward = part_of(std::move(lowered.forward));
  plan.backward = part_of(std::move(lowered.backward));
  if (!ir::is_empty(plan.facts.program.body)) plan.facts_part.program = lowered_facts(plan.facts.program, options);
  plan.sizes = sizes_of(plan, gradient);
  for (const std::string& size : plan.sizes) plan.names.of(size);
  plan.of_forward = callers_arrays(gradient.forward.ir());
  plan.of_backward = callers_arrays(gradient.backward.ir());
  for (const Array& array : plan.facts.stated.arrays)
    if (plan.facts.deciding.count(array)) plan.of_facts.push_back({array, false, 0});
  if (plan.has_sizing()) {
    for (const Array& array : gradient.sizing.ir().arrays) {
      if (array->role == ir::ArrayRole::Output) plan.computed.push_back(array->name);
      else plan.of_sizing.push_back({array, false, 0});
    }
    for (const EmitArray& one : plan.of_facts)
      if (!holds(plan.of_sizing, one.array->name)) plan.of_sizing.push_back(one);
  }
  // Backward is safe by itself: it looks at the index arrays that it is given, unless the caller has.
  if (plan.verifies && plan.has_facts())
    for (const EmitArray& one : plan.of_facts)
      if (!holds(plan.of_backward, one.array->name)) plan.of_backward.push_back(one);
  number_arrays(plan);
  return plan;
}

}  // namespace loopgrad::backend
