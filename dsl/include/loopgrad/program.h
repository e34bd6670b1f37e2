/// @file
/// Writing a loop program. The body of every loop runs once, while recording.
#pragma once

#include <loopgrad/value.h>

#include <array>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace loopgrad {
/// @addtogroup recording
/// @{

namespace ir {
struct ArrayDecl;
struct Program;
class ProgramRecorder;
}  // namespace ir

/// A finished program. Cheap to copy; immutable. One that was moved from holds nothing: using it is a UsageError.
class Program {
 public:
  /// Of its IR, for code that makes programs from programs.
  explicit Program(std::shared_ptr<const ir::Program> program) : program_(std::move(program)) {}
  /// As the builder was given it.
  const std::string& name() const;
  /// Readable pseudo-code.
  std::string str() const;
  /// The IR, whose headers are not public. `ptr` is null where `ir` would throw.
  /// @{
  const ir::Program& ir() const;
  const std::shared_ptr<const ir::Program>& ptr() const { return program_; }
  /// @}

 private:
  std::shared_ptr<const ir::Program> program_;
};

class ArrayView;

/// A declared array. `x(i, j)` is an element; a rank-0 array is written `s()`. Elements can be named until its
/// program is built: after that, and of a handle that was moved from, it is a UsageError.
class ArrayHandle {
 public:
  /// The element at these indices, integers that count from 0, as many as the array has dimensions: else a UsageError.
  /// @{
  Element operator()(SourceLocation where = std::source_location::current()) const;
  Element operator()(const Operand& i) const;
  Element operator()(const Operand& i, const Operand& j) const;
  Element operator()(const Operand& i, const Operand& j, const Operand& k) const;
  Element operator()(const Operand& i, const Operand& j, const Operand& k, const Operand& l) const;
  /// @}
  /// Any rank.
  Element at(const std::vector<Operand>& indices, SourceLocation where = std::source_location::current()) const {
    return element(indices, where);
  }
  /// The declared extent of a dimension, which counts from 0. Throws UsageError where there is no such dimension.
  Value extent(int dimension, SourceLocation where = std::source_location::current()) const;
  /// The number of dimensions, 0 of a scalar.
  int rank() const;

  /// What is left of the array when its first indices are these: `x.row(i)(j)` is `x(i, j)`. A name for a place, like
  /// `x` itself: nothing is copied.
  /// @{
  ArrayView row(const Operand& i) const;
  ArrayView row(const Operand& i, const Operand& j) const;
  /// @}
  /// An array of rank one as one with this shape: `x.reshaped({n, m})(i, j)` is `x(i*m + j)`. The product of the
  /// extents must be the array's own; everything else is a UsageError.
  ArrayView reshaped(std::vector<Value> shape, SourceLocation where = std::source_location::current()) const;

 private:
  friend class ArrayView;
  friend class Derivatives;
  friend class ProgramBuilder;
  ArrayHandle(std::shared_ptr<const ir::ArrayDecl> array, std::weak_ptr<ir::ProgramRecorder> recorder)
      : array_(std::move(array)), recorder_(std::move(recorder)) {}
  Element element(const std::vector<Operand>& indices, const SourceLocation& where) const;

  std::shared_ptr<const ir::ArrayDecl> array_;
  std::weak_ptr<ir::ProgramRecorder> recorder_;
};

/// An array seen in another way: rows of it, or another shape (see `ArrayHandle::row` and `reshaped`), or buffers that
/// take turns (`ProgramBuilder::ring`). Elements are named as those of an array are.
class ArrayView {
 public:
  /// All of the array, as it is.
  ArrayView(ArrayHandle array) : array_(std::move(array)) {}

  /// The element at these indices, as many as the view has dimensions: else a UsageError.
  /// @{
  Element operator()(SourceLocation where = std::source_location::current()) const;
  Element operator()(const Operand& i) const;
  Element operator()(const Operand& i, const Operand& j) const;
  Element operator()(const Operand& i, const Operand& j, const Operand& k) const;
  Element operator()(const Operand& i, const Operand& j, const Operand& k, const Operand& l) const;
  Element at(const std::vector<Operand>& indices, SourceLocation where = std::source_location::current()) const {
    return element(indices, where);
  }
  /// @}
  /// The extent of a dimension of the view, which counts from 0; of a ring's first one, how many buffers take turns.
  /// Throws UsageError where there is no such dimension.
  Value extent(int dimension, SourceLocation where = std::source_location::current()) const;
  /// The number of indices that an element needs. Throws UsageError where rows of more dimensions were taken than there
  /// are.
  int rank(SourceLocation where = std::source_location::current()) const;
  /// What is left of the view when its first index is this one.
  ArrayView row(const Operand& i) const;

 private:
  friend class ArrayHandle;
  friend class ProgramBuilder;
  Element element(const std::vector<Operand>& indices, const SourceLocation& where) const;

  ArrayHandle array_;
  std::vector<Operand> leading_;  // indices that come first
  std::vector<Value> shape_;      // reshaped to this; empty: as declared
  std::int64_t turns_ = 0;        // the first index counts modulo this; 0: it does not
};

/// A loop being recorded: iterating over it once yields the iterator as a Value. Lives in a range-based `for` only:
/// leaving that with `break` or `return` makes `build()` refuse the program. A range that outlives its builder, and an
/// iterator that outlives its range, refuse to go on.
class LoopRange {
  struct State;

 public:
  class Iterator {
   public:
    Value operator*() const;
    Iterator& operator++();
    bool operator!=(const Iterator&) const { return !at_end_; }

   private:
    friend class LoopRange;
    std::weak_ptr<State> state_;
    bool at_end_ = true;
  };
  /// For the `for` statement: the loop is opened here, once. A second time is a UsageError.
  /// @{
  Iterator begin();
  Iterator end() { return {}; }
  /// @}
  LoopRange(const LoopRange&) = delete;
  LoopRange& operator=(const LoopRange&) = delete;
  /// Drops the loop when its body was left before the end, for example by an exception.
  ~LoopRange();

 private:
  friend class ProgramBuilder;
  /// `open` opens the loop and gives its depth among the scopes.
  LoopRange(std::weak_ptr<ir::ProgramRecorder> recorder, std::function<std::size_t(ir::ProgramRecorder&)> open,
            const SourceLocation& where);
  std::shared_ptr<State> state_;
};

/// Options of a loop.
struct LoopOptions {
  /// A promise that the loop makes at most this many trips (an expression in sizes). Lets a gradient size its tape when
  /// the bounds are computed by the program itself.
  std::vector<Value> at_most = {};
  /// Every so manieth iteration: lower, lower + step, ... At least 1.
  std::int64_t step = 1;
  /// The same iterations from the last to the first.
  bool descending = false;
};

/// One loop of several in one `for`: 0, ..., upper - 1, or lower, ..., upper - 1.
struct Axis {
  /// The iterator's name and bounds, as `ProgramBuilder::loop` takes them.
  /// @{
  Axis(std::string name, Value upper) : name(std::move(name)), lower(0), upper(std::move(upper)) {}
  Axis(std::string name, Value lower, Value upper)
      : name(std::move(name)), lower(std::move(lower)), upper(std::move(upper)) {}
  /// @}
  std::string name;  ///< of the iterator
  /// The first index.
  Value lower, upper;  ///< The one after the last.
};

/// Loops inside each other as one range: `for (auto [i, j] : p.loop({"i", n}, {"j", m}))`. What holds for a LoopRange
/// holds for it.
template <std::size_t N>
struct LoopNest {
  class Iterator {
   public:
    std::array<Value, N> operator*() const {
      std::array<Value, N> values;
      for (std::size_t k = 0; k < N; ++k) values[k] = *at_[k];
      return values;
    }
    Iterator& operator++() {
      for (std::size_t k = N; k-- > 0;) ++at_[k];
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_[0] != other.at_[0]; }

   private:
    friend struct LoopNest;
    std::array<LoopRange::Iterator, N> at_;
  };
  /// For the `for` statement: the loops are opened here, once.
  /// @{
  Iterator begin() {
    Iterator first;
    for (std::size_t k = 0; k < N; ++k) first.at_[k] = loops[k].begin();
    return first;
  }
  Iterator end() { return {}; }
  /// @}

  std::array<LoopRange, N> loops;  ///< outermost first
};

class OpenBody;

/// Lets `p.when(a, [&]{...}).otherwise(b, [&]{...}).otherwise([&]{...})` read as if, else if, else.
class Branch {
 public:
  /// Records what is done where the condition is false. At most once, right after the branch: else a UsageError.
  void otherwise(const std::function<void()>& body, SourceLocation where = std::source_location::current()) const;
  /// What is done where the condition is false and `condition` holds, which is asked only there. What follows it
  /// belongs to what this returns.
  Branch otherwise(const Value& condition, const std::function<void()>& body,
                   SourceLocation where = std::source_location::current()) const;
  /// The same for a body that is no function, see `ProgramBuilder::open_when`.
  /// @{
  [[nodiscard]] OpenBody open_otherwise(SourceLocation where = std::source_location::current()) const;
  [[nodiscard]] OpenBody open_otherwise(const Value& condition,
                                        SourceLocation where = std::source_location::current()) const;
  /// @}

 private:
  friend class OpenBody;
  friend class ProgramBuilder;
  Branch(std::weak_ptr<ir::ProgramRecorder> recorder, std::int64_t branch)
      : recorder_(std::move(recorder)), branch_(branch) {}
  std::weak_ptr<ir::ProgramRecorder> recorder_;
  std::int64_t branch_;  // identity among the recorder's branches
};

/// The body of a branch while it is recorded: everything up to `close` belongs to it. For bindings to languages in
/// which a block of statements is no function. Destroyed before that, it is dropped, and `build()` refuses the program,
/// as for a body that is left by an exception.
class OpenBody {
 public:
  /// The body goes on in this object.
  OpenBody(OpenBody&& other) noexcept : recorder_(std::move(other.recorder_)), depth_(std::exchange(other.depth_, 0)) {}
  OpenBody& operator=(OpenBody&&) = delete;
  /// Drops a body that was not closed.
  ~OpenBody();
  /// Ends the body. Bodies are closed from the inside out; a second time, or out of order, is a UsageError.
  Branch close(SourceLocation where = std::source_location::current());

 private:
  friend class Branch;
  friend class ProgramBuilder;
  OpenBody(std::weak_ptr<ir::ProgramRecorder> recorder, std::size_t depth)
      : recorder_(std::move(recorder)), depth_(depth) {}
  std::weak_ptr<ir::ProgramRecorder> recorder_;
  std::size_t depth_;  // 0: closed
};

/// What the rules of a custom gradient work on: `d(x)` is the derivative of the array x, of its shape. Valid in the
/// function that it is passed to.
class Derivatives {
 public:
  /// Throws UsageError for an array that is none of the outputs and inputs.
  const ArrayHandle& operator()(const ArrayHandle& array, SourceLocation where = std::source_location::current()) const;

 private:
  friend class ProgramBuilder;
  std::vector<std::pair<ArrayHandle, ArrayHandle>> of_;
};

/// A region of a program with its derivatives, see `ProgramBuilder::custom_gradient`.
struct CustomRule {
  /// What is computed.
  std::function<void()> forward;
  /// Adds to the derivative of each input what follows from those of the outputs, which it reads.
  std::function<void(const Derivatives&)> adjoint;
  /// Writes the derivatives of the outputs, from those of the inputs, which it reads. Where it is left out, forward
  /// mode differentiates `forward`.
  std::function<void(const Derivatives&)> tangent = {};
};

/// Several numbers under one name: the vectors, matrices and complex numbers of `<loopgrad/small.h>`.
template <class T>
concept SmallNumbers = requires(const T& numbers, const std::string& name,
                                Value (*f)(const std::string&, const Value&)) {
  { numbers.with_each(name, f) } -> std::same_as<T>;
};

/// Records one program. Throws UsageError at the line of the mistake.
///
/// Names are C identifiers. Sizes, inputs, outputs and in-outs have names of their own; locals and iterators may reuse
/// names (the printer numbers them), so that a C++ function that declares some can be called twice.
/// Copies of a builder record into one program; one that was moved from refuses everything.
///
/// **Example**
/// ```
/// lg::ProgramBuilder p("scale");
/// auto n = p.size("n");
/// auto x = p.input<float>("x", {n});
/// auto y = p.output<float>("y", {n});
/// for (auto i : p.loop("i", 0, n)) y(i) = 2 * x(i);
/// lg::Program program = p.build();
/// ```
class ProgramBuilder {
 public:
  /// Begins a program of that name, which its function in generated code and its messages have.
  explicit ProgramBuilder(std::string name, SourceLocation where = std::source_location::current());

  /// A symbolic size, a non-negative i64 fixed when the program is run.
  Value size(const std::string& name, SourceLocation where = std::source_location::current());

  /// A read-only array. `shape` holds expressions in sizes.
  template <ElementType T>
  ArrayHandle input(const std::string& name, std::vector<Value> shape,
                    SourceLocation where = std::source_location::current()) {
    return input(scalar_type<T>(), name, std::move(shape), where);
  }
  /// A write-first array: reading an element that the program has not written is an error in checked execution.
  template <ElementType T>
  ArrayHandle output(const std::string& name, std::vector<Value> shape,
                     SourceLocation where = std::source_location::current()) {
    return output(scalar_type<T>(), name, std::move(shape), where);
  }
  /// An array updated in place.
  template <ElementType T>
  ArrayHandle inout(const std::string& name, std::vector<Value> shape,
                    SourceLocation where = std::source_location::current()) {
    return inout(scalar_type<T>(), name, std::move(shape), where);
  }
  /// An array that lives until the end of the enclosing loop body (or branch); starts uninitialised each time. Its
  /// shape may use sizes and the iterators of enclosing loops.
  template <ElementType T>
  ArrayHandle local(const std::string& name, std::vector<Value> shape = {},
                    SourceLocation where = std::source_location::current()) {
    return local(scalar_type<T>(), name, std::move(shape), where);
  }
  /// A local of rank 0. **Example:** `auto s = p.scalar<float>("s"); s = 0; s += x(i);`
  template <ElementType T>
  Element scalar(const std::string& name, SourceLocation where = std::source_location::current()) {
    return local(scalar_type<T>(), name, {}, where)();
  }
  /// The same with an initial value. **Example:** `auto s = p.scalar<float>("s", 0);`
  template <ElementType T>
  Element scalar(const std::string& name, const Operand& initial) {
    Element s = local(scalar_type<T>(), name, {}, initial.location)();
    s = initial;
    return s;
  }
  /// A value that is computed here, once, under a name that listings show: what is returned stays what it is, whatever
  /// is written later. **Example:** `auto r2 = p.let("r2", dx*dx + dy*dy);`
  Value let(const std::string& name, const Operand& value);
  /// Values of one type, which is that of their sum, each under its name.
  std::vector<Value> let(const std::vector<std::string>& names, const std::vector<Value>& values,
                         SourceLocation where = std::source_location::current());
  /// The numbers of a vector `v` are called `v_0`, `v_1`, .., of a matrix `m_0_0`, .., of a complex number `z_re` and
  /// `z_im`. **Example:** `auto at = p.let("at", load<3>(x.row(i)));`
  template <SmallNumbers T>
  T let(const std::string& name, const T& numbers, SourceLocation where = std::source_location::current());
  /// A local array that holds these numbers. **Example:** `auto w = p.table<float>("w", {0.25, 0.5, 0.25});`
  template <ElementType T>
  ArrayHandle table(const std::string& name, const std::vector<T>& numbers,
                    SourceLocation where = std::source_location::current()) {
    ArrayHandle array = local(scalar_type<T>(), name, {static_cast<std::int64_t>(numbers.size())}, where);
    for (std::size_t k = 0; k < numbers.size(); ++k)
      array.at({Operand(static_cast<std::int64_t>(k), where)}, where) = Operand(T(numbers[k]), where);
    return array;
  }
  /// `count` buffers of that shape that take turns: `u(t, i)` is element i of the buffer of number t modulo `count`, so
  /// that a step of a time loop reads `u(t, i)` and writes `u(t + 1, i)`, and nothing is swapped or copied.
  template <ElementType T>
  ArrayView ring(const std::string& name, std::int64_t count, std::vector<Value> shape,
                 SourceLocation where = std::source_location::current()) {
    return ring(scalar_type<T>(), name, count, std::move(shape), where);
  }
  /// The same for a type that is known only when the program is recorded.
  /// @{
  ArrayHandle input(ScalarType type, const std::string& name, std::vector<Value> shape,
                    SourceLocation where = std::source_location::current());
  ArrayHandle output(ScalarType type, const std::string& name, std::vector<Value> shape,
                     SourceLocation where = std::source_location::current());
  ArrayHandle inout(ScalarType type, const std::string& name, std::vector<Value> shape,
                    SourceLocation where = std::source_location::current());
  ArrayHandle local(ScalarType type, const std::string& name, std::vector<Value> shape,
                    SourceLocation where = std::source_location::current());
  ArrayView ring(ScalarType type, const std::string& name, std::int64_t count, std::vector<Value> shape,
                 SourceLocation where = std::source_location::current()) {
    shape.insert(shape.begin(), count);
    return in_turns(local(type, name, std::move(shape), where), count, where);
  }
  /// @}

  /// for i in [lower, upper). Bounds may use sizes, outer iterators and data. Loops state no parallelism: it is found.
  [[nodiscard]] LoopRange loop(const std::string& name, const Value& lower, const Value& upper,
                               const LoopOptions& options = {}, SourceLocation where = std::source_location::current());

  /// The same from 0. **Example:** `p.loop("i", n, {.step = 2})`
  [[nodiscard]] LoopRange loop(const std::string& name, const Value& upper, const LoopOptions& options = {},
                               SourceLocation where = std::source_location::current());
  /// Loops inside each other. **Example:** `for (auto [i, j] : p.loop({"i", n}, {"j", 1, m - 1})) y(i, j) = 0;`
  /// @{
  [[nodiscard]] LoopNest<2> loop(const Axis& a, const Axis& b,
                                 std::source_location where = std::source_location::current());
  [[nodiscard]] LoopNest<3> loop(const Axis& a, const Axis& b, const Axis& c,
                                 std::source_location where = std::source_location::current());
  [[nodiscard]] LoopNest<4> loop(const Axis& a, const Axis& b, const Axis& c, const Axis& d,
                                 std::source_location where = std::source_location::current());
  /// @}

  /// A loop of at most `max_trips` trips that ends when the condition is false; `condition` is recorded once and
  /// evaluated before each trip, with the iterator (0, 1, ...) as its argument.
  [[nodiscard]] LoopRange loop_while(const std::string& name, const Value& max_trips,
                                     const std::function<Value(const Value&)>& condition,
                                     SourceLocation where = std::source_location::current());

  /// if (condition) then. **Example:** `p.when(x(i) > 0, [&] { y(i) = x(i); }).otherwise([&] { y(i) = 0; });`
  Branch when(const Value& condition, const std::function<void()>& then,
              SourceLocation where = std::source_location::current());
  /// The same for a body that is no function. **Example:** `auto then = p.open_when(c); y(i) = x(i); then.close();`
  [[nodiscard]] OpenBody open_when(const Value& condition, SourceLocation where = std::source_location::current());

  /// Statements whose gradient is yours. `adjoint` (and `tangent`, if there is one) is recorded as any other body and
  /// reads all arrays as they are when `forward` has run. The region writes no float arrays but `outputs` and locals
  /// of its own, and its adjoint adds to `d(input)` only; what else `forward` reads counts as constant, and a gradient
  /// that would have to go through it is refused. `d(output)` is that of the elements which `forward` wrote: what it
  /// overwrites is cleared afterwards, what it adds to is not.
  ///
  /// **Example:** the straight-through gradient of a rounding
  /// ```
  /// p.custom_gradient({y}, {x}, {
  ///   .forward = [&] { for (auto i : p.loop("i", n)) y(i) = floor(x(i) + 0.5); },
  ///   .adjoint = [&](auto& d) { for (auto i : p.loop("i", n)) d(x)(i) += d(y)(i); },
  ///   .tangent = [&](auto& d) { for (auto i : p.loop("i", n)) d(y)(i) = d(x)(i); }});
  /// ```
  void custom_gradient(const std::vector<ArrayHandle>& outputs, const std::vector<ArrayHandle>& inputs,
                       const CustomRule& rule, SourceLocation where = std::source_location::current());

  /// @name Facts
  /// Facts about arrays that a compiler cannot see; they are verified before a run. All but `may_alias` are about
  /// inputs of integer type.
  /// @{

  /// Every element is in [lower, upper).
  void in_range(const ArrayHandle& array, const Value& lower, const Value& upper,
                SourceLocation where = std::source_location::current());
  /// The elements of a rank-1 array never decrease.
  void sorted(const ArrayHandle& array, SourceLocation where = std::source_location::current());
  /// No value occurs twice: iterations that write `y(array(i))` write different elements.
  void injective(const ArrayHandle& array, SourceLocation where = std::source_location::current());
  /// `ptr` holds the row starts of a CSR structure with `total` entries: ptr[0] = 0, never decreasing, ptr[last] =
  /// total.
  void csr(const ArrayHandle& ptr, const Value& total, SourceLocation where = std::source_location::current());
  /// The two arrays may share memory. Without this, overlapping arguments are refused.
  void may_alias(const ArrayHandle& a, const ArrayHandle& b, SourceLocation where = std::source_location::current());
  /// @}

  /// @name Tape
  /// What a gradient does about a local scalar or array (or what `let` returned), where its backward run needs the
  /// value, in place of what is found to be cheaper. UsageError for anything but a local that is in scope. What a run
  /// computes stays the same, and no value is saved or computed for this alone.
  /// @{

  /// It is saved, and never computed again.
  void save(const ArrayHandle& local, SourceLocation where = std::source_location::current());
  void save(const Operand& value);
  template <SmallNumbers T>
  void save(const T& numbers, SourceLocation where = std::source_location::current());
  /// It is computed again from what is there or saved, and never saved itself. Where that is not possible, because
  /// what it is computed from is not known, or would not have the same bits and decides control, or because values that
  /// it has on the way are needed, the gradient is refused (DifferentiationError). Scalars, and arrays of at most 64
  /// elements.
  void recompute(const ArrayHandle& local, SourceLocation where = std::source_location::current());
  void recompute(const Operand& value);
  template <SmallNumbers T>
  void recompute(const T& numbers, SourceLocation where = std::source_location::current());
  /// @}

  /// Ends recording and checks the whole program. Arrays and values of the builder cannot be used afterwards.
  Program build(SourceLocation where = std::source_location::current());

 private:
  Value let_as(ScalarType type, const std::string& name, const Operand& value);
  ArrayView in_turns(ArrayHandle array, std::int64_t count, const SourceLocation& where) const;
  /// Throws UsageError when the builder was moved from.
  ir::ProgramRecorder& recorder(const SourceLocation& where) const;

  std::shared_ptr<ir::ProgramRecorder> recorder_;
};

/// @}
}  // namespace loopgrad
