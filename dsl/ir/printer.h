// Readable pseudo-code for any stage's IR. The text depends on the program only, never on ids, so it can be compared.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <set>
#include <string>

namespace loopgrad::ir {

/// Gives every symbol and array a name of its own: the declared one where it is free, else name_1, name_2, ... Shared
/// by the printer and the emitters, so that a message, the pseudo-code and the generated code agree.
class NameTable {
 public:
  /// How a name is spelled. Names of one spelling are told apart by numbers, which a spelling must keep.
  using Spelling = std::string (*)(const std::string& name);
  /// Without a spelling names are as declared.
  explicit NameTable(Spelling spelling = nullptr) : spelling_(spelling) {}
  const std::string& of(const Symbol& symbol);
  const std::string& of(const Array& array);
  /// A name that nothing else has, starting from `wish`.
  std::string fresh(const std::string& wish);
  /// The scope has ended: its name may be given out again, so that two loops in a row are both called `i`.
  void release(const Symbol& symbol) { release(symbol.id); }
  void release(const Array& array) { release(array->id); }

 private:
  void release(std::int64_t id);

  std::map<std::int64_t, std::string> names_;
  std::set<std::string> used_;
  Spelling spelling_;
};

struct PrintOptions {
  bool locations = false;  // append `// file:line` to statements that have one
};

std::string print(const Expr& e);
std::string print(const Stmt& s, const PrintOptions& options = {});
std::string print(const Program& program, const PrintOptions& options = {});
/// As above with the caller's names, for messages that print several expressions of one program.
std::string print(const Expr& e, NameTable& names);

}  // namespace loopgrad::ir
