// Identity, kinds and the symbols and arrays that nodes refer to.
#pragma once

#include <loopgrad/types.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace loopgrad::ir {

enum class Kind : std::uint8_t {
#define LOOPGRAD_EXPR(Name) Name,
#define LOOPGRAD_STMT(Name) Name,
#include "dsl/ir/nodes.def"
};

/// A fresh number, unique in the process. Used for identity only; nothing printed or emitted depends on its value.
std::int64_t next_id();

/// A symbolic size or a loop iterator, of type i64. Identity is the id; the name is for people and need not be unique.
struct Symbol {
  std::int64_t id = 0;
  std::string name;
  bool operator==(const Symbol& other) const { return id == other.id; }
  bool operator<(const Symbol& other) const { return id < other.id; }
};

Symbol make_symbol(std::string name);

struct ExprNode;

/// A shared pointer to an immutable expression. Null only when default-constructed.
class Expr {
 public:
  Expr() = default;
  Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  const ExprNode* get() const { return node_.get(); }
  const ExprNode* operator->() const { return node_.get(); }
  const std::shared_ptr<const ExprNode>& ptr() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Expr& other) const { return node_ == other.node_; }
  Kind kind() const;
  ScalarType type() const;
  template <class T>
  const T* as() const;  // the node as T, or null when it is of another kind

 private:
  std::shared_ptr<const ExprNode> node_;
};

/// What an array is to the program that declares it.
enum class ArrayRole : std::uint8_t {
  Input,   // read only
  Output,  // contents before the program are unspecified; every element that is read afterwards must be written
  InOut,   // read and written
  Local,   // lives inside one Allocate statement; starts uninitialised each time
  Tape,    // written by a forward program and read by its backward program; owned by the runtime
};

/// What the program wants a gradient to do about a local whose value its backward sweep needs.
enum class TapeChoice : std::uint8_t {
  Planned,     // what is cheaper
  Saved,       // never compute it again
  Recomputed,  // never save it
};

/// An array declaration. Identity is the id. Row-major; `shape` refers to sizes and, for locals, outer iterators.
struct ArrayDecl {
  std::int64_t id = 0;
  std::string name;
  ScalarType type = ScalarType::F32;
  std::vector<Expr> shape;
  ArrayRole role = ArrayRole::Local;
  SourceLocation location;
  std::vector<Expr> given;  // the extents of the same elements in an argument, where callers have others than `shape`
  TapeChoice on_tape = TapeChoice::Planned;

  /// The extents that an argument has.
  const std::vector<Expr>& callers_shape() const { return given.empty() ? shape : given; }
};
using Array = std::shared_ptr<const ArrayDecl>;

/// In the order in which they were declared, whoever compares: sets, pairs, sorts. What is generated must not depend on
/// where memory happens to lie, or kernels would not be found in the cache, and sums might round differently. (Chosen
/// before the comparison of pointers, which is a template.)
inline std::strong_ordering operator<=>(const Array& a, const Array& b) { return (a ? a->id : 0) <=> (b ? b->id : 0); }
inline bool operator<(const Array& a, const Array& b) { return (a <=> b) < 0; }

Array make_array(std::string name, ScalarType type, std::vector<Expr> shape, ArrayRole role, SourceLocation location,
                 std::vector<Expr> given = {});
/// A new array that takes the place of another one, whose extents are written otherwise.
Array make_array_in_place_of(const Array& old, std::vector<Expr> shape);
/// A new array with the extents of another one.
Array make_array_like(const Array& like, std::string name, ScalarType type, ArrayRole role);

struct StmtNode;

/// A shared pointer to an immutable statement. Null only when default-constructed (an absent `else`).
class Stmt {
 public:
  Stmt() = default;
  Stmt(std::shared_ptr<const StmtNode> node) : node_(std::move(node)) {}
  const StmtNode* get() const { return node_.get(); }
  const StmtNode* operator->() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Stmt& other) const { return node_ == other.node_; }
  Kind kind() const;
  template <class T>
  const T* as() const;

 private:
  std::shared_ptr<const StmtNode> node_;
};

}  // namespace loopgrad::ir
