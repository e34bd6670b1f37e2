// What a ProgramBuilder has recorded so far: open scopes, declared arrays and sizes, facts. All checks of the user's
// program happen here, at the line of the mistake, so that later stages may rely on well-formed IR.
#pragma once

#include "dsl/frontend/element_names.h"
#include "dsl/ir/program.h"

#include <loopgrad/error.h>
#include <loopgrad/program.h>
#include <loopgrad/value.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace loopgrad::ir {

/// A statement that opens a scope, before its body is known.
struct ScopeHeader {
  Kind kind = Kind::Block;  // Block (the program), For, While, If or CustomGradient (a part of one)
  Symbol iterator;          // For, While
  Expr value;               // For, While: what the body calls the iterator
  Expr lower, upper;        // For; `upper` is max_trips of a While
  Expr at_most;             // For
  bool descending = false;  // For
  Expr condition;           // While, If
  SourceLocation location;

  bool is_loop() const { return kind == Kind::For || kind == Kind::While; }
};

class ProgramRecorder {
 public:
  ProgramRecorder(std::string name, SourceLocation location);

  Symbol declare_size(const std::string& name, SourceLocation where);
  /// Declares an array of any role; a Local belongs to the innermost open scope from here on.
  Array declare(ArrayRole role, ScalarType type, const std::string& name, const std::vector<Value>& shape,
                SourceLocation where);
  void state(Fact fact);
  /// Throws unless a fact of that kind can be stated about the array.
  void check_fact(FactKind kind, const Array& array, SourceLocation where) const;
  void refuse_facts_that_may_not_last() const;
  /// What a gradient does about a local in scope, or what such a local holds. Throws for anything else.
  void choose_tape(const Array& array, TapeChoice choice, SourceLocation where);
  void choose_tape(const Expr& value, TapeChoice choice, SourceLocation where);
  /// An expression in sizes and constants, as i64; `what` names it in the error otherwise.
  Expr size_expr(const Value& value, const std::string& what, SourceLocation where) const;

  /// The type of a value, after checking that there is one.
  ScalarType type_of(const Value& value, SourceLocation where) const;

  /// A name for the element, after checking rank and types of the indices. `self` is this recorder.
  std::shared_ptr<ElementName> element(const Array& array, const std::vector<Operand>& operands,
                                       const std::weak_ptr<ProgramRecorder>& self, SourceLocation where);
  /// Another name for the same element, as stale as `name` is.
  std::shared_ptr<ElementName> copy(const ElementName& name);
  /// A Load, after checking that the element can be read here and through this name.
  Expr read(const ElementName& name, SourceLocation where);
  void assign(const ElementName& target, const Value& value, SourceLocation where);
  void reduce(const ElementName& target, ReduceOp op, const Value& value, SourceLocation where);

  /// Scopes nest; `depth()` identifies the innermost one. All return the depth of the scope that they opened.
  std::size_t open_for(const std::string& name, const Value& lower, const Value& upper, const LoopOptions& options,
                       SourceLocation where);
  std::size_t open_while(const std::string& name, const Value& max_trips,
                         const std::function<Value(const Value&)>& condition, SourceLocation where);
  std::size_t open_if(const Value& condition, SourceLocation where);
  /// Reopens the branch recorded last for its else body. Throws unless `branch` is that one, or the last of its
  /// else-ifs, and has none yet. `open_else_if` opens a branch that is all of the else body, and closed with it.
  std::size_t open_else(std::int64_t branch, SourceLocation where);
  std::size_t open_else_if(std::int64_t branch, const Value& condition, SourceLocation where);
  /// Ends the scope and records its statement. Returns the identity of a branch for `open_else`, 0 for loops.
  std::int64_t close(std::size_t depth);
  /// Drops the scope and everything in it: its body was left before the end. `build` will refuse the program.
  void abandon(std::size_t depth);

  /// A region with a custom gradient, without its parts, after checking its arrays. Each part is the body of a scope
  /// that `open_part` opens, `close` ends and `take_part` gives; rules see the derivatives. `append_region` checks what
  /// the parts write and records the region.
  CustomGradient new_region(const std::vector<Array>& outputs, const std::vector<Array>& inputs,
                            SourceLocation where) const;
  std::size_t open_part(const CustomGradient& region, bool is_rule);
  Stmt take_part(const CustomGradient& region);
  void append_region(const CustomGradient& region);
  /// What iterations of the innermost loop are known by: its iterator, or where that counts steps an expression of it.
  Expr iterator() const { return scopes_.back().header.value; }

  std::shared_ptr<const Program> build(SourceLocation where);

  /// Throws UsageError(BadProgram) naming the program and the innermost loop.
  [[noreturn]] void fail(SourceLocation where, std::string message, std::string hint, std::string array = {}) const;

 private:
  struct Item {  // a statement, or the declaration of a local whose Allocate holds the items after it
    Stmt stmt;
    Array local;
    // A branch, so that an else body can be added.
    std::int64_t branch = 0;
    bool has_else = false;
    bool is_else_if = false;
    ScopeHeader header;
    Stmt then_body;
    std::vector<Item> else_items;  // where they end in an else-if
  };
  struct Touch {
    std::int64_t time = 0;
    SourceLocation where;
  };
  struct NamedValue {  // of a node
    Expr of, local;
    std::set<std::int64_t> reads;  // arrays
    bool is_large = false;         // stands for all of a statement's value as well
  };
  /// A load, or a name that is read, which is older than the loop that uses it.
  struct EarlyRead {
    SourceLocation where;
    std::int64_t name = 0;  // 0: a load
    std::vector<Expr> indices;
  };
  struct Scope {
    ScopeHeader header;
    std::vector<Item> items;
    std::int64_t opened = 0;                                     // time
    std::map<std::int64_t, std::vector<EarlyRead>> early_reads;  // of a loop, by array
    std::int64_t branch = 0;                                     // If: its identity
    bool in_else = false;     // If: the else body is being recorded; `then_body` is complete
    bool is_else_if = false;  // If: ends with the else body that it is in
    Stmt then_body;
    std::map<const ExprNode*, NamedValue> named;                   // values that locals of this scope hold
    std::map<std::int64_t, std::vector<const ExprNode*>> readers;  // of arrays, among them
  };

  void require_recording(SourceLocation where) const;
  void check_identifier(const std::string& name, const std::string& what, SourceLocation where) const;
  void check_new_name(const std::string& name, const std::string& what, SourceLocation where);
  Expr shape_expr(const Value& value, const std::string& array, bool local, SourceLocation where) const;
  Expr bound(const Value& value, const std::string& what, SourceLocation where);
  Expr condition(const Value& value, const std::string& what, SourceLocation where);
  void check_write(const Array& array, SourceLocation where) const;
  void check_use(const Expr& e, SourceLocation where);
  void check_load(const Load& load, const std::shared_ptr<const ExprNode>& node, SourceLocation where);
  void check_name_read(const ElementName& name, SourceLocation where);
  void note_early_read(std::int64_t made, const Array& array, const EarlyRead& read);
  void note_write(const ElementName& by, SourceLocation where);
  [[noreturn]] void fail_stale(const Load& load, SourceLocation where, SourceLocation written) const;
  Expr stored(const Array& array, const Value& value, SourceLocation where) const;
  /// Appends `target op= value`, all of it checked and of the type that is stored.
  void update(const ElementName& target, ReduceOp op, const Expr& value, SourceLocation where);
  /// `value`, after recording locals for what it shares; see shared_values.h.
  Expr with_names(const Expr& value, SourceLocation where);
  void remember(const Expr& value, const Expr& local, bool is_large);
  Expr without_names(const Expr& value, const std::string& what, SourceLocation where) const;
  std::size_t open(ScopeHeader header);
  void append(Stmt s);
  void forget_names(const Scope& scope);
  void check_forward(const CustomGradient& region) const;
  void check_rule(const CustomGradient& region, const Stmt& rule, const std::string& name) const;
  static Stmt fold(const std::vector<Item>& items);
  std::string innermost_loop() const;

  Program program_;
  std::vector<Scope> scopes_;
  std::set<std::string> names_;                                // of sizes and program arrays
  std::set<std::int64_t> visible_;                             // ids of sizes, open iterators and arrays in scope
  std::map<std::int64_t, std::shared_ptr<ArrayDecl>> locals_;  // whose declarations may still be added to
  std::int64_t time_ = 0;  // counts loads, scopes and writes in the order of recording
  std::map<std::shared_ptr<const ExprNode>, std::int64_t> load_times_;
  std::map<std::int64_t, Touch> last_writes_;  // by array
  ElementNames names_in_use_;
  Stmt part_;  // of a region with a custom gradient, closed last
  std::optional<SourceLocation> abandoned_;
  bool finished_ = false;
};

/// The recorder behind a handle; throws UsageError when the program is finished or its builder is gone.
std::shared_ptr<ProgramRecorder> recorder_of(const std::weak_ptr<ProgramRecorder>& recorder, SourceLocation where);

/// Throws UsageError about a handle (a Value, an Element, ...) that was moved from or made from nothing.
[[noreturn]] void fail_empty(const std::string& handle, SourceLocation where);

}  // namespace loopgrad::ir
