// Statements. A program's meaning is its sequential execution in textual order; loop modes only say which other orders
// give the same result.
#pragma once

#include "dsl/ir/expr.h"

#include <functional>

namespace loopgrad::ir {

struct StmtNode {
  const Kind kind;
  std::int64_t id = next_id();  // identity of this copy; not part of equality
  SourceLocation location;      // the user's line that this statement stems from; not part of equality

 protected:
  StmtNode(Kind kind, SourceLocation location) : kind(kind), location(location) {}
};

template <Kind K>
struct StmtOf : StmtNode {
  static constexpr Kind static_kind = K;
  explicit StmtOf(SourceLocation location) : StmtNode(K, location) {}
};

inline Kind Stmt::kind() const { return node_->kind; }
template <class T>
const T* Stmt::as() const {
  return node_ && node_->kind == T::static_kind ? static_cast<const T*>(node_.get()) : nullptr;
}

struct Block : StmtOf<Kind::Block> {
  std::vector<Stmt> body;
  explicit Block(std::vector<Stmt> body) : StmtOf(SourceLocation{}), body(std::move(body)) {}
  static constexpr auto fields() { return std::tuple{&Block::body}; }
};

enum class LoopMode : std::uint8_t {
  Forward,   // iterator runs lower, lower+1, ..., upper-1
  Backward,  // iterator runs upper-1, ..., lower
  Parallel,  // any order or all at once gives the same bits (atomic Reduces excepted)
  Grid,  // parallel, and each iteration is one block of threads of a GPU kernel (see transforms/map/gpu/map_to_gpu.h)
  Threads,  // parallel, and each iteration is one thread of the block; all threads wait for each other at the end, but
            // in a kernel with `barriers` (see LoopRun) at its Barriers only
};
/// Any order of the iterations, or all at once, is right.
inline bool is_parallel(LoopMode mode) { return mode >= LoopMode::Parallel; }

/// What a loop that the mapping to a GPU made is for. It says nothing about the order of the iterations, and a loop
/// means the same without it.
struct LoopShape {
  std::int64_t chunk = 0;  // above 0: so many neighbouring iterations of one thread, of those that exist (see chunk_of)
  bool strided = false;    // the chunks that one thread takes, equally far apart (see stride_of)
  bool operator==(const LoopShape&) const = default;
};

/// How a machine runs a loop, as the last passes of the mapping to it decided. It says nothing about the order of the
/// iterations, and a loop means the same without it.
struct LoopRun {
  // A CPU.
  bool threads = false;         // the threads of a region share its iterations
  int together = 1;             // with those of the loops perfectly nested in it: so many loops in all
  bool uneven = false;          // iterations differ in work: threads fetch small shares
  bool joins = false;           // in the region of the loop before it in its block
  bool or_alone = false;        // where threads do not pay, one does it all without a region
  std::int64_t least_work = 0;  // threads pay from so many operations in all (see For::work); 0: always
  int lanes = 1;                // iterations side by side in vector lanes; 0: as many as the compiler finds good
  bool lane_sums = false;       // the lanes of eight sums, all that the loop does, are added up all at once
  // A GPU. The first three are of a kernel, the outermost Grid loop; its block has For::block threads.
  std::int64_t most_threads = 0;  // in a block; 0: not decided, or one
  bool many_blocks = false;       // registers are left for many of its blocks on a multiprocessor
  bool teams = false;             // For::block is threads by teams; each team has iterations along x of its own
  bool barriers = false;          // threads of a block wait for each other at Barriers, and nowhere else
  std::int64_t unroll = 0;        // so many iterations are written in a row; 0: as the compiler likes
  bool wide_trips = false;        // whether the chunk that is its body has wide accesses is asked once, for all trips
  bool operator==(const LoopRun&) const = default;
};

/// Neighbouring elements that the iterations of a chunk, or of a tile of two, use: each iteration one place, which
/// moves by one with the iterator that its last index mentions. They may be loaded all before, and stored all after the
/// iterations, with one access for each chunk.
struct WideAccess {
  Array array;
  std::vector<Expr> indices;  // inside the loops
  bool loads = false, stores = false;
  bool even_rows = true;  // of a tile: its rows are equally far apart, so that all are aligned where two are
};

/// for iterator in [lower, upper): body. Bounds are evaluated once, on entry; empty when upper <= lower.
struct For : StmtOf<Kind::For> {
  Symbol iterator;
  Expr lower, upper;  // i64
  Stmt body;
  LoopMode mode;
  Expr at_most;  // promise upper - lower <= at_most, the user's or that of a While (no loads), or null
  LoopShape shape;
  LoopRun run;
  Expr work;     // run.least_work: operations of one iteration, an estimate without loads; null: threads always pay
  Expr streams;  // bytes that the loop uses: where no cache holds them, its streamed Assigns go past; or null
  std::vector<Expr> block;       // of a kernel: threads of a block along x, y, z; empty: not decided, or one
  std::vector<WideAccess> wide;  // of a chunk, the inner one of a tile: what is moved by wide accesses
  For(Symbol iterator, Expr lower, Expr upper, Stmt body, LoopMode mode, Expr at_most, LoopShape shape,
      SourceLocation location)
      : StmtOf(location),
        iterator(std::move(iterator)),
        lower(std::move(lower)),
        upper(std::move(upper)),
        body(std::move(body)),
        mode(mode),
        at_most(std::move(at_most)),
        shape(shape) {}
  static constexpr auto fields() {
    return std::tuple{&For::iterator, &For::lower, &For::upper, &For::body,    &For::mode,  &For::at_most,
                      &For::shape,    &For::run,   &For::work,  &For::streams, &For::block, &For::wide};
  }
};

/// for iterator = 0; iterator < max_trips && condition; ++iterator: body. The condition is evaluated before each trip.
struct While : StmtOf<Kind::While> {
  Symbol iterator;
  Expr max_trips;  // i64, in sizes, constants and outer iterators
  Expr condition;  // bool
  Stmt body;
  While(Symbol iterator, Expr max_trips, Expr condition, Stmt body, SourceLocation location)
      : StmtOf(location),
        iterator(std::move(iterator)),
        max_trips(std::move(max_trips)),
        condition(std::move(condition)),
        body(std::move(body)) {}
  static constexpr auto fields() {
    return std::tuple{&While::iterator, &While::max_trips, &While::condition, &While::body};
  }
};

struct If : StmtOf<Kind::If> {
  Expr condition;  // bool
  Stmt then_body;
  Stmt else_body;  // may be null
  If(Expr condition, Stmt then_body, Stmt else_body, SourceLocation location)
      : StmtOf(location),
        condition(std::move(condition)),
        then_body(std::move(then_body)),
        else_body(std::move(else_body)) {}
  static constexpr auto fields() { return std::tuple{&If::condition, &If::then_body, &If::else_body}; }
};

/// array[indices] = value. The value has type value_type(array->type). `streamed`: of a row that nobody reads, which
/// may be stored past the caches (see For::streams).
struct Assign : StmtOf<Kind::Assign> {
  Array array;
  std::vector<Expr> indices;
  Expr value;
  bool streamed = false;
  Assign(Array array, std::vector<Expr> indices, Expr value, SourceLocation location)
      : StmtOf(location), array(std::move(array)), indices(std::move(indices)), value(std::move(value)) {}
  static constexpr auto fields() {
    return std::tuple{&Assign::array, &Assign::indices, &Assign::value, &Assign::streamed};
  }
};

enum class ReduceOp : std::uint8_t { Add, Mul, Min, Max };
const char* name_of(ReduceOp op);                // "+=", "*=", "min=", "max="
BinaryOp binary_of(ReduceOp op);                 // the operation that combines old value and operand
Expr identity_of(ReduceOp op, ScalarType type);  // 0, 1, +inf (or the largest integer), -inf (or the smallest)

/// array[indices] = array[indices] op value. Two Reduces with one op on one element commute (up to rounding); `atomic`
/// says that iterations of a parallel loop may do so at the same time. `fused`: the value is a product, or a negated
/// one, and is not rounded before it is added (see product_of()). `of_block`: all threads of a block do it once each,
/// on a scalar of which every thread keeps a copy; their values are combined in a tree whose shape depends on the
/// number of threads only. Such a Reduce is atomic as well, for whoever runs the threads one by one. `by_segments`:
/// data choose the element, and by the summation plan the mapping may do the iterations in the order of their elements;
/// for everybody else it says nothing. `of_lanes`: each vector lane of the loop around has a sum of its own, and these
/// are added up after it.
struct Reduce : StmtOf<Kind::Reduce> {
  Array array;
  std::vector<Expr> indices;
  ReduceOp op;
  Expr value;
  bool atomic, fused, of_block, by_segments;
  bool of_lanes = false;
  Reduce(Array array, std::vector<Expr> indices, ReduceOp op, Expr value, bool atomic, bool fused, bool of_block,
         bool by_segments, SourceLocation location)
      : StmtOf(location),
        array(std::move(array)),
        indices(std::move(indices)),
        op(op),
        value(std::move(value)),
        atomic(atomic),
        fused(fused),
        of_block(of_block),
        by_segments(by_segments) {}
  static constexpr auto fields() {
    return std::tuple{&Reduce::array, &Reduce::indices,  &Reduce::op,          &Reduce::value,   &Reduce::atomic,
                      &Reduce::fused, &Reduce::of_block, &Reduce::by_segments, &Reduce::of_lanes};
  }
};

/// Where the elements of a local array live in a program that is mapped: on a GPU, who shares them (see place_locals);
/// on a CPU, what memory it is (see place_arrays).
enum class Home : std::uint8_t {
  Unplaced,  // not mapped; or a scalar of a CPU, which is a variable
  Grid,      // outside of kernels: all threads of all launches in its extent
  Block,     // the threads of one block
  Thread,  // nobody: each thread has its own. Outside of loops over threads either a scalar, which all threads compute
           // alike, or an array whose first index is the number of the thread
  Stack,   // of whoever executes the Allocate: small, of constant extents
  Call,    // outside of what threads share: memory of the call
  PerThread,  // inside: a part of such memory for each thread
  Iteration,  // inside: memory that each iteration asks for, as only it knows the extents
};

/// Declares a local array for the extent of `body`; its elements start uninitialised on every entry.
struct Allocate : StmtOf<Kind::Allocate> {
  Array array;
  Stmt body;
  Home home;
  int reserved_out = 0;  // loops around the Allocate outside of which its memory is reserved (Call, PerThread)
  std::vector<Expr>
      largest;  // Block and Thread: its memory comes with the launch, for these extents at most; else empty
  Allocate(Array array, Stmt body, Home home, SourceLocation location)
      : StmtOf(location), array(std::move(array)), body(std::move(body)), home(home) {}
  static constexpr auto fields() {
    return std::tuple{&Allocate::array, &Allocate::body, &Allocate::home, &Allocate::reserved_out, &Allocate::largest};
  }
};

/// Pushes a value on the run-time stack (naive tape only; never inside a parallel loop).
struct Push : StmtOf<Kind::Push> {
  Expr value;
  Push(Expr value, SourceLocation location) : StmtOf(location), value(std::move(value)) {}
  static constexpr auto fields() { return std::tuple{&Push::value}; }
};

/// Pops the value that was pushed last into array[indices]; types must agree.
struct Pop : StmtOf<Kind::Pop> {
  Array array;
  std::vector<Expr> indices;
  Pop(Array array, std::vector<Expr> indices, SourceLocation location)
      : StmtOf(location), array(std::move(array)), indices(std::move(indices)) {}
  static constexpr auto fields() { return std::tuple{&Pop::array, &Pop::indices}; }
};

/// A product of matrices that a library may do instead of the loops. For all p < batch, i < m and j < n
///
///     c(p, i, j) (+)= alpha * sum over l < k of a(p, i, l)*b(p, l, j)
///
/// `loops` computes this, up to the order of each sum and up to where alpha is multiplied in. They are what the
/// statement means: analyses and whoever has no library look at them only. The rest tells a library the same: element
/// (p, row, column) of an operand is number place[0] + p*place[1] + row*place[2] + column*place[3] of its row-major
/// memory, and place[2] or place[3] is 1. The three arrays share no memory with c.
struct Contraction : StmtOf<Kind::Contraction> {
  Array c, a, b;
  std::vector<Expr> extents;                    // batch, m, n, k; i64, negative ones stand for 0
  std::vector<Expr> c_place, a_place, b_place;  // offset, batch stride, row stride, column stride
  double alpha;
  bool overwrites;  // the old c does not count, as `loops` set it to zero first
  Stmt loops;
  Contraction(Array c, Array a, Array b, std::vector<Expr> extents, std::vector<Expr> c_place,
              std::vector<Expr> a_place, std::vector<Expr> b_place, double alpha, bool overwrites, Stmt loops,
              SourceLocation location)
      : StmtOf(location),
        c(std::move(c)),
        a(std::move(a)),
        b(std::move(b)),
        extents(std::move(extents)),
        c_place(std::move(c_place)),
        a_place(std::move(a_place)),
        b_place(std::move(b_place)),
        alpha(alpha),
        overwrites(overwrites),
        loops(std::move(loops)) {}
  static constexpr auto fields() {
    return std::tuple{&Contraction::c,          &Contraction::a,       &Contraction::b,       &Contraction::extents,
                      &Contraction::c_place,    &Contraction::a_place, &Contraction::b_place, &Contraction::alpha,
                      &Contraction::overwrites, &Contraction::loops};
  }
};

/// All threads of the block get here before any goes on: each finds what the others have stored before it.
struct Barrier : StmtOf<Kind::Barrier> {
  explicit Barrier(SourceLocation location) : StmtOf(location) {}
  static constexpr auto fields() { return std::tuple{}; }
};

/// `body` with a gradient, and perhaps a tangent, that the user wrote. Only derivatives look at the rules; for whoever
/// runs the program the statement is its body (see without_rules). Both rules are ordinary statements that run after
/// the body, with all values as they are then, and write nothing but what is said here, and locals of their own:
///
///   adjoint   reads `seeds`, the adjoints of `outputs`, and adds to `gradients`, those of `inputs`
///   tangent   reads `gradients`, here the tangents of `inputs`, and writes `seeds`, those of `outputs`; or null: then
///             forward mode is that of the body
///
/// `seeds` and `gradients` are arrays of the shapes of `outputs` and `inputs`, in scope in the rules only. What the
/// body overwrites in `outputs` loses its adjoint, in what it adds to the adjoint stays.
struct CustomGradient : StmtOf<Kind::CustomGradient> {
  std::vector<Array> outputs, inputs, seeds, gradients;
  Stmt body, adjoint, tangent;
  CustomGradient(std::vector<Array> outputs, std::vector<Array> inputs, std::vector<Array> seeds,
                 std::vector<Array> gradients, Stmt body, Stmt adjoint, Stmt tangent, SourceLocation location)
      : StmtOf(location),
        outputs(std::move(outputs)),
        inputs(std::move(inputs)),
        seeds(std::move(seeds)),
        gradients(std::move(gradients)),
        body(std::move(body)),
        adjoint(std::move(adjoint)),
        tangent(std::move(tangent)) {}
  static constexpr auto fields() {
    return std::tuple{&CustomGradient::outputs,   &CustomGradient::inputs, &CustomGradient::seeds,
                      &CustomGradient::gradients, &CustomGradient::body,   &CustomGradient::adjoint,
                      &CustomGradient::tangent};
  }
};

/// Flattens nested blocks and drops null statements and empty blocks; one statement stands for itself.
Stmt block(std::vector<Stmt> body);
bool is_empty(const Stmt& s);  // null or an empty block

/// A shape that does not fit the loop, as its bounds were simplified, is left out: it then is an ordinary loop.
Stmt for_loop(const Symbol& iterator, Expr lower, Expr upper, Stmt body, LoopMode mode = LoopMode::Forward,
              SourceLocation location = {}, Expr at_most = {}, LoopShape shape = {});
Stmt while_loop(const Symbol& iterator, Expr max_trips, Expr condition, Stmt body, SourceLocation location = {});
Stmt if_then(Expr condition, Stmt then_body, Stmt else_body = {}, SourceLocation location = {});
Stmt assign(const Array& array, std::vector<Expr> indices, Expr value, SourceLocation location = {});
/// A new Reduce: fused where it adds a floating-point product and is not atomic. This is the rule for what users write
/// and for the sums of gradients; what is made from a Reduce that is there keeps its rounding by reduce_like().
Stmt reduce(const Array& array, std::vector<Expr> indices, ReduceOp op, Expr value, SourceLocation location = {},
            bool atomic = false);
/// The same operation, rounded and planned in the same way, on another element or with another value.
Stmt reduce_like(const Reduce& n, const Array& array, std::vector<Expr> indices, Expr value);
/// The same Reduce, with or without that word of the summation plan.
Stmt with_segments(const Reduce& n, bool by_segments);
/// The factors of a*b or -(a*b), a floating-point product; the sign goes to the first one.
struct Factors {
  Expr a, b;
};
std::optional<Factors> product_of(const Expr& e);
/// What the element holds after the Reduce, when it held `before`: `before op value`, or an Fma.
Expr combined(const Reduce& n, const Expr& before);
Stmt allocate(const Array& array, Stmt body, SourceLocation location = {}, Home home = Home::Unplaced);
Stmt push(Expr value, SourceLocation location = {});
Stmt pop(const Array& array, std::vector<Expr> indices, SourceLocation location = {});
Stmt barrier(SourceLocation location = {});
/// The same statement with other parts; `tangent` may be null.
Stmt with_parts(const CustomGradient& n, Stmt body, Stmt adjoint, Stmt tangent);

/// Iterations start..start + width of a loop, less those below `lowest` (null: there are none) or not below `upper`.
struct Chunk {
  Expr start, lowest, upper;
};
/// for i in max(start, lowest)..min(start + width, upper): body, whose shape says `chunk`
Stmt chunk_loop(const Symbol& i, const Chunk& chunk, std::int64_t width, Stmt body, SourceLocation location = {});
/// The parts of such a loop; nullopt where the shape says nothing, or what does not fit the bounds.
std::optional<Chunk> chunk_of(const For& n);

/// Which chunks a thread takes: the k-th one starts at first + k*stride.
struct ChunkStride {
  Expr first, stride;
};
/// for k in 0..(upper - first + stride - 1)//stride: the chunk that starts at first + k*stride. The parts of such a
/// loop, whose shape says `strided`; nullopt as for chunk_of.
std::optional<ChunkStride> stride_of(const For& n);

/// `loop`, a For, as a CPU runs it.
Stmt with_run(const Stmt& loop, const LoopRun& run, Expr work = {}, Expr streams = {});
/// A For or an Allocate with some fields changed.
Stmt with_mapping(const Stmt& loop, const std::function<void(For&)>& change);
Stmt with_mapping(const Stmt& local, const std::function<void(Allocate&)>& change);
/// `s`, made from `n` and of its kind, with what a mapping said of `n` and the factory of `s` does not ask for. Another
/// kind of statement stays as it is.
Stmt mapped_like(const For& n, const Stmt& s);
Stmt mapped_like(const Assign& n, const Stmt& s);
Stmt mapped_like(const Allocate& n, const Stmt& s);

/// `n` with other loops that compute the same; nothing when they are empty.
Stmt with_loops(const Contraction& n, Stmt loops);

}  // namespace loopgrad::ir
