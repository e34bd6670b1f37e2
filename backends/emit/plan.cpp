#include "backends/emit/plan.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

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
      {BadFact,
       {"bad_fact",
        "what the program states about its index arrays does not hold, or an index that they decide is outside of its "
        "array"}},
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

bool holds(const std::vector<EmitArray>& arrays, const std::string& name) {
  return std::any_of(arrays.begin(), arrays.end(), [&](const EmitArray& one) { return one.array->name == name; });
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

bool EmitPlan::has_products() const {
  bool any = false;
  for (const EmitPart* part : {&forward, &backward, &sizing})
    if (!part->is_empty())
      ir::walk_stmts(part->program.body, [&](const ir::Stmt& s) { any |= s.kind() == ir::Kind::Contraction; });
  return any;
}

std::vector<Array> EmitPlan::tape() const {
  std::vector<Array> all;
  for (const Array& array : forward.program.arrays)
    if (array->role == ir::ArrayRole::Tape) all.push_back(array);
  return all;
}

std::vector<std::string> EmitPlan::sizes_of(const EmitPart& part) const {
  std::vector<std::string> known = sizes;
  if (&part == &sizing)
    std::erase_if(known, [&](const std::string& size) {
      return std::find(computed.begin(), computed.end(), size) != computed.end();
    });
  return known;
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

}  // namespace loopgrad::backend
