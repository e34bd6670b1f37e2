// What the functions of the C interface have in common, whatever they run on: the checks of what the caller passes, and
// what they are given of it.
#pragma once

#include "backends/emit/interface_text.h"
#include "backends/emit/size_text.h"

namespace loopgrad::backend {

/// Base of what writes a target's source. The source defines `Layout layout_of(sizes, WHERE)`, `look_at_facts(sizes,
/// arrays, MEMORY, WHERE)`, where MEMORY is null for memory of its own, `computed_sizes(sizes, arrays, results, WHERE)`
/// and `is_reachable(pointer)`; WHERE is a variable that says where the functions run.
class EntryWriter {
 protected:
  /// `where`: the name of that variable; `begins`: the line that defines it from the caller's parameter.
  EntryWriter(const EmitPlan& plan, InterfaceWords words, std::string where, std::string begins)
      : plan_(plan), words_(std::move(words)), where_(std::move(where)), begins_(std::move(begins)) {}

  std::string status(StatusKind kind) const { return plan_.statuses.kind(kind); }
  const std::string& name(const std::string& user_name) const { return plan_.names.of(user_name); }
  std::vector<std::string> given_sizes() const;
  std::string parameters_of_layout() const;
  std::string layout_arguments() const { return plan_.sizes.empty() ? "0" : size_arguments(plan_); }
  std::string array_bytes(const ir::Array& array) const;
  /// The most that an array without elements may be read and written of.
  std::string spare_bytes() const;
  std::string parameters_of(const std::vector<EmitArray>& arrays) const;
  std::string arguments_of(const std::vector<EmitArray>& arrays) const;
  std::string sizing_arguments(bool to_compare) const;
  /// The variable that a size is computed into, which is no name of the user's.
  const std::string& computed_name(const std::string& size) const { return plan_.names.of("computed " + size); }
  std::string begin(Entry entry, bool computed_known = true) const;
  std::string memory_entry() const;
  std::string check_arguments(const std::vector<EmitArray>& arrays, const std::vector<std::string>& more) const;
  std::string pairs_text() const;
  std::string sizes_entry() const;
  int memory_number();
  /// What the caller got from NAME_sizes must be what it would be now.
  std::string compare_sizes();
  /// The entry that tells whether facts hold.
  std::string check_entry() const;
  /// The lines with which forward and backward start: sizes, memory, arguments, flags.
  std::string checks_of_run(Entry entry);
  /// Its text has all that is stated: only how many facts do not hold is counted.
  std::string bad_fact() const;
  /// The condition that an element of a record has been written, as a status: `what` stands for the element.
  std::string site_status(const transforms::RecordedSite& site) const;
  /// Members of `Layout` and what fills them: tape, kept arrays, memory for arrays without elements.
  struct LayoutText {
    std::string members, lines;
    void add(const std::string& member, const std::vector<std::string>& adds, const std::string& about);
  };
  void add_tape(LayoutText& layout) const;
  void add_kept(LayoutText& layout, const EmitPart& part, const char* part_name) const;
  void add_spare(LayoutText& layout) const;
  bool has_records() const;
  /// Pointers to the arrays of the tape and to those that the part keeps.
  std::string pointers_text(const EmitPart& part, const char* part_name) const;
  /// What a work function is given for an array: memory for one without elements where records may clamp an index.
  std::string array_argument(const EmitPart& part, const std::string& array) const;
  /// "x has no elements || ..", of the caller's arrays.
  std::string any_is_empty(const std::vector<EmitArray>& arrays) const;

  const EmitPlan& plan_;
  const InterfaceWords words_;
  const std::string where_, begins_;

 private:
  int memory_number_ = 0;
};

}  // namespace loopgrad::backend
