// From Python's arguments of a call to those of a run, and back to its results.
#pragma once

#include "memory.h"

#include <loopgrad/compile.h>
#include <loopgrad/signature.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace loopgrad::python {

/// An array with the promise of `loopgrad::versioned`.
struct PyVersioned {
  nb::object array;
  std::uint64_t version = 0;
};

/// How one program is called. What does not change from call to call is kept, so that a call does no more than look at
/// its arrays. Used with the GIL held; the run itself is without it.
class Call {
 public:
  explicit Call(const Program& program);

  const std::vector<ArgumentInfo>& arguments() const { return arguments_; }
  const std::vector<std::string>& sizes() const { return sizes_; }

  /// One object for each argument, null where there is none; numbers that are named like a size go to `sizes`. A name
  /// that `is_other` knows is skipped; for any other one throws UsageError.
  std::vector<nb::object> in_order(const nb::dict& named, Sizes& sizes,
                                   const std::function<bool(const std::string&)>& is_other = {}) const;

  using Run = std::function<void(const Arguments&, const Sizes&, const RunOptions&)>;
  /// Shapes of arrays that the program does not have to be given, or null.
  using ShapeOf = std::function<const std::vector<std::int64_t>*(const std::string&)>;
  /// Makes the outputs that are missing, runs, and returns all outputs. `stream`: none, or a number.
  nb::tuple run(std::vector<nb::object>& objects, const Sizes& sizes, nb::handle stream, const Run& run,
                bool may_require_grad, const ShapeOf& shape_of = {});
  /// Of the last run.
  const std::shared_ptr<const Extents>& extents() const { return extents_; }

  /// What a call returns: nothing, an array, or a named tuple of them.
  nb::object result(const nb::tuple& outputs);

 private:
  void find_extents(const std::deque<std::optional<Borrowed>>& borrowed, const Sizes& sizes);
  void borrow(nb::object& object, std::size_t at, std::optional<Borrowed>& to, bool may_require_grad) const;
  [[noreturn]] void refuse_name(const std::string& name) const;

  Program program_;
  std::string name_;
  std::vector<ArgumentInfo> arguments_;
  std::vector<std::string> sizes_;
  std::map<std::string, std::size_t> positions_;
  std::vector<Arguments> spare_;   // maps of former calls, whose nodes are used again
  std::vector<std::int64_t> key_;  // shapes and sizes that `extents_` are of
  std::shared_ptr<const Extents> extents_;
  nb::object tuple_type_;
};

/// A mapping and keyword arguments as one.
nb::dict merged(nb::handle mapping, const nb::kwargs& named);
Sizes sizes_of(nb::handle mapping);

}  // namespace loopgrad::python
