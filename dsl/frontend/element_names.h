// Elements that C++ code keeps in variables: names for one place of memory.
//
// `auto t = x(i); x(i) = x(j); x(j) = t;` reads like an exchange of two numbers, but `t` is another name of `x(i)` and
// holds no number. A program is therefore recorded only where names and numbers come to the same: while a name is in
// use, its element is reached through that name only. Two rules follow, both checked where an element is read:
//   - a name is stale once its element (or one that may be the same) was written without it;
//   - an element is not read as `x(i)`, or through the name that `t` was copied from, while `t` lives and wrote it
//   last.
// Copies are names of their own, with one exception: what a copy writes does not make stale what it was copied from,
// so that functions may take elements by value and write them.
#pragma once

#include "dsl/ir/expr.h"

#include <map>
#include <optional>
#include <set>

namespace loopgrad::ir {

class ProgramRecorder;

/// What an Element refers to. Every Element has one of its own; moving an Element hands it on.
struct ElementName {
  Array array;
  std::vector<Expr> indices;  // i64
  SourceLocation location;    // where it was formed first
  std::weak_ptr<ProgramRecorder> recorder;
  std::int64_t id = 0;
  std::set<std::int64_t> copied_from = {};               // directly or not
  std::int64_t formed = 0;                               // time of the recorder
  std::optional<SourceLocation> written_elsewhere = {};  // stale since that write
  bool wrote_last = false;                               // this name, and not another of the same indices
};

/// The names that are alive, by array.
class ElementNames {
 public:
  void add(const std::shared_ptr<ElementName>& name);
  /// A write through `by`: what was known of other names of the array changes.
  void note_write(const ElementName& by, SourceLocation where);
  /// A living name that hides the element from reads through `reader`, or null.
  std::shared_ptr<const ElementName> hides(const ElementName& reader) const;

 private:
  struct Names {
    std::vector<std::weak_ptr<ElementName>> names;
    std::size_t sweep_at = 8;  // number of names at which those that are gone are removed
  };
  std::map<std::int64_t, Names> of_array_;
};

/// Whether the two elements of one array are different whatever the values of variables: cheap, index by index.
bool differ_at_any_time(const std::vector<Expr>& a, const std::vector<Expr>& b);

/// The name behind an Element; throws UsageError when the Element was moved from.
const ElementName& name_of(const std::shared_ptr<ElementName>& name, SourceLocation where);

/// A name of its own for a copy.
std::shared_ptr<ElementName> copy_of(const ElementName& name);

}  // namespace loopgrad::ir
