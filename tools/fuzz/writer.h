// The random writer of one program: what is in scope, and random indices, conditions, expressions and statements.
#pragma once

#include "tools/fuzz/case.h"
#include "tools/fuzz/generator.h"
#include "tools/support/random.h"

#include <functional>
#include <optional>
#include <vector>

namespace loopgrad::fuzz {

/// An extent or exclusive upper bound: scale * size + second size + pad. Sizes are indices into Writer::sizes, or -1.
struct Extent {
  int size = -1;
  int second = -1;
  int scale = 1;
  int pad = 0;
  bool operator==(const Extent&) const = default;
};

struct SizeInfo {
  std::string name;
  Value value;
};

/// A loop iterator in scope: 0 <= value < upper.
struct IteratorInfo {
  Value value;
  Extent upper;
};

struct ArrayInfo {
  std::string name;
  ScalarType type = ScalarType::F64;
  ArrayHandle handle;
  std::vector<Extent> extents;
  bool input = false;  // never written, elements in [-1, 1)
  bool writable = false;
  bool readable = true;  // every element has been written
};

/// An integer input: each element is below `target`, or it is the row pointer of entries numbered below `target`.
struct IndexInfo {
  ArrayHandle handle;
  Extent extent;
  Extent target;
  std::optional<Extent> second = {};  // extent of a second dimension
};

/// Integers that the program changes as it goes on: every element stays in [0, bound), or in [0, 2^31) where it is a
/// random-number generator's.
struct StateInfo {
  ArrayHandle handle;
  ScalarType type = ScalarType::I64;
  std::vector<Extent> extents;
  Extent bound;
  bool generator = false;
};

class Writer {
 public:
  Writer(std::uint64_t seed, const Axes& axes);
  Case write();

 private:
  // ---- choices ----
  std::int64_t below(std::int64_t n) { return random_.below(n); }
  bool chance(int percent) { return random_.below(100) < percent; }
  double constant();  // never such that ties or exact zeros are likely
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }

  // ---- declarations (declarations.cpp, integer_inputs.cpp, sizes.cpp) ----
  void declare_sizes();
  void declare_arguments();
  ArrayInfo declare(ir::ArrayRole role, const char* stem, std::vector<Extent> extents);
  void declare_indices();
  IndexInfo add_index(const char* stem, const Extent& extent, const Extent& target, ScalarType type,
                      bool two_dimensions);
  void declare_pointers();
  void declare_integers();
  void declare_twin();
  Extent random_extent();
  std::vector<Extent> random_extents();
  Value value_of(const Extent& extent);
  ScalarType float_type();
  void choose_types();
  std::vector<Value> shape_of(const std::vector<Extent>& extents);
  /// Writes every element of the array: a nest over its extents.
  void initialise(const ArrayInfo& array);
  std::string fresh(const char* stem);
  Sizes choose_sizes();
  Sizes with_some_large(Sizes sizes, const ir::Program& program);
  Sizes medium_sizes(const ir::Program& program);

  // ---- indices (indices.cpp) ----
  /// A valid index for a dimension, from the iterators in scope; nothing where none is known to fit.
  std::optional<Value> index_for(const Extent& extent, bool allow_indirect = true);
  std::optional<Value> indirect_index(const Extent& extent, bool allow_indirect);
  std::optional<Value> affine_index(const IteratorInfo& iterator, const Extent& extent);
  std::optional<Value> wrapped_index(const IteratorInfo& iterator, const Extent& extent);
  /// From the value of a float input: floor of data, clamped.
  std::optional<Value> data_index(const Extent& extent);
  std::optional<Value> index_value(const IndexInfo& index, bool allow_indirect);
  bool known_positive(int size) const;
  std::optional<Element> element_of(const ArrayInfo& array);
  std::optional<Element> random_element(const std::function<bool(const ArrayInfo&)>& wanted);

  // ---- terms (terms.cpp) ----
  Value read();        // of anything, or a constant
  Value read_input();  // of an input, or a constant
  Value condition(int depth = 1);
  /// An expression that does not exceed its operands by much.
  Value tame(int depth);
  /// An expression in [-1, 1] or little more.
  Value bounded(int depth);
  Value smooth_function(const Value& a, const Value& b);
  Value rational_function(const Value& a, const Value& b);
  /// In [-1, 1]: tanh, or a fraction in programs without functions that are approximated.
  Value squash(const Value& a);
  Value wave(const Value& a);

  // ---- statements (statements.cpp) ----
  void body(int depth, int statements);
  void statement(int depth);
  void update();
  void loop(int depth);
  LoopOptions other_order();
  void branch(int depth);
  void local_scalar();
  void local_array(int depth);
  /// Records a loop over [lower, upper) with the iterator in scope as below `extent`.
  void each(const Value& lower, const Value& upper, const Extent& extent, const std::function<void(const Value&)>& f,
            const LoopOptions& options = {});
  void each(const Extent& extent, const std::function<void(const Value&)>& f) { each(0, value_of(extent), extent, f); }
  /// Runs `f` and forgets the locals that it declared.
  void scope(const std::function<void()>& f);

  // ---- shapes known to be hard (patterns.cpp) ----
  struct Shape {
    void (Writer::*write)();
    const char* name;
  };
  void write(const Shape& shape) {
    traits_.insert(std::string("shape: ") + shape.name);
    (this->*shape.write)();
  }
  void pattern();
  void double_buffered_time_loop();
  void time_indexed_array();
  void ping_pong();
  void carried_scalar();
  void recurrence();
  void linear_recurrence();
  void tables();
  void softmax_row();
  void csr_sum();
  void cells_of_grid();
  void indirect_scatter();
  void compaction();
  void bounded_while();
  void convolution();
  void triangular_solve();
  void argmax();
  void data_dependent_loop();
  void shaped_local();

  // ---- dense nests that libraries, tiles and lanes take (patterns_dense.cpp) ----
  ArrayInfo operand(const char* stem, std::vector<Extent> extents);
  void product_of_matrices();
  void batched_product();
  void images();
  void rows();
  void stencil_in_place();
  void transposed();
  void flattened();
  void attention();

  // ---- integers and computed indices (patterns_integers.cpp) ----
  ArrayHandle integer_output(const char* stem, ScalarType type, const Extent& extent);
  void counts();
  void masked();
  void rounded_result();
  void position_of_largest();
  void nested_indices();
  void periodic_steps();
  void data_bins();
  void sorted_segments();

  // ---- control that rounding decides (patterns_rounding.cpp) ----
  void largest_product();
  void floor_of_product();
  void branch_at_equality();
  void tied_extrema();

  // ---- what users write (patterns_users.cpp) ----
  void later_pattern();
  void pass_on(const ArrayInfo& result, const Value& i);
  void keyed_update(const Element& bin, int kind, const Value& value);
  void turns();
  void table_of_weights();
  void other_views();
  void small_vectors();
  void stopped();
  void optional_keys();
  void guarded_accesses();
  void hashed();
  void computed_trips();
  void nested_while();
  void followed_links();
  void by_key();
  void scalar_sums();

  // ---- gradients of one's own (patterns_rules.cpp) ----
  struct Sloped;
  static Sloped sloped(int kind, const Value& a, const Value& b);
  void own_rule();

  // ---- integers that change, and what hangs on them (state.cpp) ----
  /// Whether something of these kinds is drawn here; never in programs that are as they were without them.
  bool draws(int percent) { return is_changing_ && kinds_.below(100) < percent; }
  void declare_states();
  void add_state();
  void fill_state(const StateInfo& state);
  std::optional<std::vector<Operand>> place_in(const StateInfo& state);
  std::optional<Value> read_state(const StateInfo& state);
  /// An element of a state that is below the bound, where it is known that there is something below it.
  std::optional<Value> state_value(const Extent& bound);
  std::optional<Value> state_condition();
  bool has_values(const Extent& bound) const;
  void change_state();
  void set_state(const StateInfo& state, const Element& element);
  bool loop_by_state(const std::function<void(const Value&)>& nested, LoopOptions options);
  void in_steps(const std::function<void()>& f);
  void kind_pattern();
  IndexInfo indices_between(const Extent& extent, const Extent& target);
  ArrayHandle small_integers(const char* stem, const std::vector<Extent>& extents, int bound);
  ArrayHandle integers(const char* stem, const std::vector<Extent>& extents);
  ArrayInfo new_scalar(const char* stem);
  void change_float(const Element& element, const Value& value);
  LoopOptions some_order();
  Value fixed(const Value& bound, const LoopOptions& options);
  Extent some_steps();
  Value as_float(const Value& integer) { return cast(value_type(main_type_), integer); }

  // ---- integers from step to step (patterns_steps.cpp) ----
  void random_numbers();
  void moving_permutation();
  void moving_places();
  void cursor();
  void counted_down();
  void changing_while();
  void index_by_itself();

  // ---- scalars and branches in inner loops (patterns_trips.cpp) ----
  void trip_before();
  void inner_conditions();
  void last_of_inner();
  void one_iteration();
  void branch_with_array();
  void guarded_condition();
  void side_by_side();
  void band();
  void shared_recurrence();

  // ---- bounds that change, rows (patterns_bounds.cpp) ----
  void changing_bounds();
  void changing_rows();
  void grid_again();
  void two_graphs();
  void rows_beyond();
  void no_step();
  void local_by_size();

  // ---- places that the program gives out (patterns_places.cpp), rows (patterns_rows.cpp) ----
  void place_pattern();
  void keep_at(const ArrayInfo& out, const std::vector<Operand>& row, const Value& place, int kind, const Value& value);
  void part_of_row(const Value& lo, const Value& hi, const Extent& entries,
                   const std::function<void(const Value&, const Value&)>& f);
  void packed();
  void packed_rows();
  void rows_one_after_another();
  void stacked();
  void parts_of_rows();
  void chosen_keys();
  void chosen_rows();
  void bins_in_steps();
  void batch_of_steps();

  // ---- stores and who reads them (patterns_stores.cpp) ----
  void takers();
  void kept_extrema();
  void taken_and_cleared();
  void stale_elements();
  void masked_fill();
  void levels();
  void neighbours();
  void strided_stores();

  int some_size();
  ArrayInfo filled_local(const char* stem, std::vector<Extent> extents);
  void sink(const Value& value);

  Axes axes_;
  std::uint64_t seed_;
  tools::Random random_;
  tools::Random orders_;   // of loops
  tools::Random later_;    // whether later_pattern() adds something
  tools::Random rules_;    // whether own_rule() does
  tools::Random targets_;  // whether a sum reads its target
  tools::Random kinds_;    // whether something changes integers, or hangs on them
  tools::Random places_;   // whether place_pattern() adds something
  bool is_changing_ = false;
  ProgramBuilder builder_;
  ScalarType main_type_ = ScalarType::F64;
  bool mixed_ = false;     // arrays of all float types
  bool rational_ = false;  // only operations that every machine rounds alike
  std::vector<SizeInfo> sizes_;
  std::vector<ArrayInfo> arrays_;  // floats in scope
  std::vector<IndexInfo> indices_;
  std::vector<std::string> names_of_indices_;
  std::vector<IndexInfo> segments_;  // of indices_: sorted
  std::vector<IndexInfo> pointers_;  // extents rows + 1
  std::vector<StateInfo> states_;
  std::vector<std::string> empty_sizes_;  // sizes of loops that have no trip
  std::vector<IteratorInfo> iterators_;
  std::vector<ArrayInfo> flags_, whole_;  // bool inputs, and integer inputs that are data
  std::map<std::string, IndexContents> contents_;
  std::set<std::string> coarse_, traits_;
  std::map<std::string, std::string> shared_;
  int names_ = 0;
  int budget_ = 0;  // statements left
};

}  // namespace loopgrad::fuzz
