#include "backends/emit/entry_writer.h"

#include "backends/c_text/code_text.h"
#include "backends/c_text/expr_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::backend {

using ir::Array;

std::vector<std::string> EntryWriter::given_sizes() const {
  std::vector<std::string> given;
  for (const std::string& size : plan_.sizes)
    if (std::find(plan_.computed.begin(), plan_.computed.end(), size) == plan_.computed.end()) given.push_back(size);
  return given;
}

std::string EntryWriter::parameters_of_layout() const {
  std::string out;
  for (const std::string& size : plan_.sizes)
    out += fmt::format("{}[[maybe_unused]] Number {}", out.empty() ? "" : ", ", name(size));
  return out;
}

std::string EntryWriter::array_bytes(const Array& array) const {
  return fmt::format("bytes_of({}, {}).value", bytes_of(array->type), extents_of(array, plan_.names));
}

std::string EntryWriter::spare_bytes() const {
  std::string most = "Number(64)";
  std::set<std::string> seen;
  for (const EmitArray& one : plan_.all_arrays()) {
    std::string bytes = fmt::format("Number({})", bytes_of(one.array->type));
    for (const ir::Expr& extent : one.array->callers_shape())
      bytes += fmt::format(" * larger({}, 1)", number_of(extent, plan_.names));
    if (seen.insert(bytes).second) most = fmt::format("larger({}, {})", most, bytes);
  }
  return most;
}

std::string EntryWriter::parameters_of(const std::vector<EmitArray>& arrays) const {
  std::string out = size_parameters(plan_, "[[maybe_unused]] int64_t");
  for (const EmitArray& one : arrays)
    out += fmt::format("{}[[maybe_unused]] {}{}* {}", out.empty() ? "" : ", ", one.is_written ? "" : "const ",
                       storage_cpp_type(one.array), name(one.array->name));
  return out;
}

std::string EntryWriter::arguments_of(const std::vector<EmitArray>& arrays) const {
  std::string out = size_arguments(plan_);
  for (const EmitArray& one : arrays) out += (out.empty() ? "" : ", ") + name(one.array->name);
  return out;
}

std::string EntryWriter::sizing_arguments(bool to_compare) const {
  std::string out;
  for (const std::string& size : given_sizes()) out += name(size) + ", ";
  for (const EmitArray& one : plan_.of_sizing) out += name(one.array->name) + ", ";
  for (const std::string& size : plan_.computed) out += (to_compare ? "&" + computed_name(size) : name(size)) + ", ";
  return out + where_;
}

std::string EntryWriter::begin(Entry entry, bool computed_known) const {
  std::string sizes;
  for (const std::string& size : plan_.sizes) {
    const bool known =
        computed_known || std::find(plan_.computed.begin(), plan_.computed.end(), size) == plan_.computed.end();
    sizes += (sizes.empty() ? "" : ", ") + (known ? name(size) : std::string("0"));
  }
  return fmt::format(
      "\n{} {{\n  {}\n"
      "  if (const int status = look_at_sizes({})) return status;\n",
      prototype(plan_, entry, words_), begins_, sizes);
}

std::string EntryWriter::memory_entry() const {
  return begin(Entry::Memory) +
         fmt::format(
             "  const Layout memory = layout_of({}, {});\n  if (!memory.fits) return {};\n"
             "  *tape_bytes = memory.tape_bytes;\n  *workspace_bytes = memory.workspace_bytes;\n  return {};\n}}\n",
             layout_arguments(), where_, status(StatusKind::BadSize), status(StatusKind::Ok));
}

std::string EntryWriter::check_arguments(const std::vector<EmitArray>& arrays,
                                         const std::vector<std::string>& more) const {
  std::vector<std::string> items;
  for (const EmitArray& one : arrays)
    items.push_back(fmt::format("{{{}, {}, {}, {}, {}}}", name(one.array->name), array_bytes(one.array),
                                bytes_of(one.array->type), one.is_written, one.status));
  items.insert(items.end(), more.begin(), more.end());
  std::string list;
  for (const std::string& item : items) list += "       " + item + ",\n";
  return fmt::format(
      "  if (const int status = check_arguments(\n      {{\n{}      }},\n      {{{}}}))\n    return status;\n", list,
      pairs_text());
}

std::string EntryWriter::pairs_text() const {
  std::string out;
  std::map<std::string, int> numbers;
  for (const EmitArray& one : plan_.all_arrays()) numbers[one.array->name] = one.status;
  std::set<std::pair<std::string, std::string>> seen;
  for (const ir::Program* program : {&plan_.forward.program, &plan_.backward.program})
    for (const ir::Fact& fact : program->facts) {
      if (fact.kind != ir::FactKind::MayAlias || !seen.insert({fact.array->name, fact.other->name}).second) continue;
      out += fmt::format("{}{{{}, {}}}", out.empty() ? "" : ", ", numbers[fact.array->name], numbers[fact.other->name]);
    }
  return out;
}

std::string EntryWriter::sizes_entry() const {
  std::string out = begin(Entry::Sizes, false) + check_arguments(plan_.of_sizing, {});
  if (plan_.verifies && plan_.has_facts()) {
    std::string arguments;
    for (const std::string& size : plan_.sizes)
      arguments +=
          (std::find(plan_.computed.begin(), plan_.computed.end(), size) == plan_.computed.end() ? name(size)
                                                                                                 : std::string("0")) +
          ", ";
    for (const EmitArray& one : plan_.of_facts) arguments += name(one.array->name) + ", ";
    out += fmt::format("  if (const int status = look_at_facts({}nullptr, {})) return status;\n", arguments, where_);
  }
  out += fmt::format("  return computed_sizes({});\n}}\n", sizing_arguments(false));
  return out;
}

int EntryWriter::memory_number() {
  if (memory_number_ == 0)
    memory_number_ = plan_.statuses.add(
        {{StatusKind::Overlap, "the tape or the workspace shares memory with something that is written"}});
  return memory_number_;
}

std::string EntryWriter::compare_sizes() {
  std::string out = "  {\n", condition;
  for (const std::string& size : plan_.computed) {
    out += fmt::format("    int64_t {} = 0;\n", computed_name(size));
    condition += fmt::format("{}{} != {}", condition.empty() ? "" : " || ", computed_name(size), name(size));
  }
  out += fmt::format("    if (const int status = computed_sizes({})) return status;\n", sizing_arguments(true));
  return out + fmt::format("    if ({}) return {};\n  }}\n", condition,
                           plan_.statuses.of(StatusKind::BadSize,
                                             fmt::format("other sizes than those that {}_sizes computes from these "
                                                         "arrays",
                                                         plan_.name)));
}

std::string EntryWriter::check_entry() const {
  return begin(Entry::Check) + check_arguments(plan_.of_facts, {}) +
         fmt::format("  return look_at_facts({}, nullptr, {});\n}}\n", arguments_of(plan_.of_facts), where_);
}

std::string EntryWriter::checks_of_run(Entry entry) {
  std::string out = begin(entry);
  out += fmt::format("  const Layout memory = layout_of({}, {});\n  if (!memory.fits) return {};\n", layout_arguments(),
                     where_, status(StatusKind::BadSize));
  out += fmt::format(
      "  if (tape_bytes < memory.tape_bytes || workspace_bytes < memory.workspace_bytes ||\n"
      "      (memory.tape_bytes > 0 && !tape) || (memory.workspace_bytes > 0 && !workspace))\n    return {};\n",
      status(StatusKind::SmallMemory));
  const int number = memory_number();
  out += check_arguments(
      arrays_of(plan_, entry),
      {fmt::format("{{tape, static_cast<int64_t>(memory.tape_bytes), 1, {}, {}}}", entry == Entry::Forward, number),
       fmt::format("{{workspace, static_cast<int64_t>(memory.workspace_bytes), 1, true, {}}}", number)});
  out += "  [[maybe_unused]] char* const base = aligned(workspace);\n";
  return out + "  [[maybe_unused]] const bool verified = flags & 1, stale = !(flags & 2);\n";
}

std::string EntryWriter::bad_fact() const {
  std::string stated;
  for (const ir::Fact& fact : plan_.facts) {
    if (!ir::is_about_data(fact.kind)) continue;
    stated += fmt::format("{}{} of '{}'", stated.empty() ? "" : ", ", name_of(fact.kind), fact.array->name);
    if (fact.location.known()) stated += fmt::format(" ({})", fact.location.str());
  }
  if (stated.empty()) return status(StatusKind::BadFact);
  return plan_.statuses.of(StatusKind::BadFact,
                           fmt::format("what the program states does not hold ({}), or an index that data decide is "
                                       "outside of its array",
                                       stated));
}

std::string EntryWriter::site_status(const transforms::RecordedSite& site) const {
  const std::string where = site.location.known() ? fmt::format(" ({})", site.location.str()) : "";
  return plan_.statuses.of(
      StatusKind::BadIndex,
      site.array ? fmt::format("an index is outside of '{}', dimension {}; it was left out, and results are wrong{}",
                               site.array->name, site.dimension, where)
                 : fmt::format("loop '{}' makes more trips than at_most promises; they were left out, and results are "
                               "wrong{}",
                               site.loop, where));
}

void EntryWriter::LayoutText::add(const std::string& member, const std::vector<std::string>& adds,
                                  const std::string& about) {
  if (adds.empty()) return;
  members += fmt::format("  Block {}[{}];  // {}\n", member, adds.size(), comment_text(about));
  for (std::size_t k = 0; k < adds.size(); ++k) lines += fmt::format("  all.{}[{}] = {};\n", member, k, adds[k]);
}

void EntryWriter::add_tape(LayoutText& layout) const {
  std::vector<std::string> adds;
  std::string about;
  for (const Array& array : plan_.tape()) {
    adds.push_back(fmt::format("tape.add(1, {}, {})", bytes_of(array->type), extents_of(array, plan_.names)));
    about += (about.empty() ? "" : ", ") + array->name;
  }
  layout.add("tape", adds, about);
}

void EntryWriter::add_kept(LayoutText& layout, const EmitPart& part, const char* part_name) const {
  std::vector<std::string> adds;
  std::string about;
  for (const Array& array : own_arrays(part)) {
    adds.push_back(fmt::format("workspace.add(1, {}, {})", bytes_of(array->type), extents_of(array, plan_.names)));
    about += (about.empty() ? "" : ", ") + array->name;
  }
  layout.add(std::string(part_name) + "_kept", adds, about);
}

void EntryWriter::add_spare(LayoutText& layout) const {
  if (!has_records()) return;
  layout.members += "  Block spare;  // for arrays without elements\n";
  layout.lines += fmt::format("  all.spare = workspace.add(1, 1, {{{}}});\n", spare_bytes());
}

bool EntryWriter::has_records() const {
  for (const EmitPart* part : {&plan_.sizing, &plan_.forward, &plan_.backward})
    if (!part->records.empty()) return true;
  return false;
}

std::string EntryWriter::pointers_text(const EmitPart& part, const char* part_name) const {
  std::string out;
  const std::vector<Array> tape = plan_.tape(), own = own_arrays(part);
  const char* const constant = &part == &plan_.forward ? "" : "const ";
  if (!tape.empty()) out += "  [[maybe_unused]] char* const on_tape = aligned(tape);\n";
  for (std::size_t k = 0; k < tape.size(); ++k)
    out += fmt::format(
        "  [[maybe_unused]] {0}{1}* const {2} =\n      reinterpret_cast<{0}{1}*>(on_tape + memory.tape[{3}].place);\n",
        constant, storage_cpp_type(tape[k]), name(tape[k]->name), k);
  for (std::size_t k = 0; k < own.size(); ++k)
    out += fmt::format("  {0}* const {1} = reinterpret_cast<{0}*>(base + memory.{2}_kept[{3}].place);\n",
                       storage_cpp_type(own[k]), name(own[k]->name), part_name, k);
  return out;
}

std::string EntryWriter::array_argument(const EmitPart& part, const std::string& array) const {
  if (part.records.empty()) return name(array);
  for (const EmitArray& given : plan_.all_arrays())
    if (given.array->name == array)
      return fmt::format("or_spare({}, {}, spare)", name(array), array_bytes(given.array));
  return name(array);
}

std::string EntryWriter::any_is_empty(const std::vector<EmitArray>& arrays) const {
  std::string out;
  for (const EmitArray& given : arrays)
    out += fmt::format("{}{} == 0", out.empty() ? "" : " || ", array_bytes(given.array));
  return out.empty() ? "false" : out;
}

}  // namespace loopgrad::backend
