#include "tape/checkpoints.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tape/segmented_loop.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;

class Composer {
 public:
  Composer(const Prepared& whole, Report& report) : whole_(whole), report_(report) {
    for (const Array& array : whole.program.arrays) taken_.insert({array->name, "d_" + array->name});
    ir::walk_stmts(whole.program.body, [&](const Stmt& s) {
      if (const auto* local = s.as<ir::Allocate>()) taken_.insert(local->array->name);
    });
  }

  DirectGradient gradient(std::int64_t most_bytes) {
    refuse_own_name();
    refuse_extents_from_data();
    const Parts parts = parts_of(whole_.program.body);
    locals_.insert(parts.locals.begin(), parts.locals.end());
    find_units(parts.parts);
    std::vector<Stmt> forward, backward;
    for (int k = static_cast<int>(units_.size()) - 1; k >= 0; --k) backward.push_back(backward_of(k));
    forward.push_back(saved_after(-1));
    for (int k = 0; k < static_cast<int>(units_.size()); ++k) {
      forward.push_back(forward_of(units_[static_cast<std::size_t>(k)]));
      forward.push_back(saved_after(k));
    }
    DirectGradient result;
    result.forward = ir::block(std::move(forward));
    result.backward = ir::block(std::move(backward));
    for (auto local = parts.locals.rbegin(); local != parts.locals.rend(); ++local) declare(*local, result);
    for (const Array& array : whole_.program.arrays)
      if (array->role == ArrayRole::Output && is_copied(array))
        result.forward = ir::block({zero_fill(array), result.forward});
    result.tape = tape_;
    add_sizes(most_bytes, result);
    return result;
  }

 private:
  /// Statements that are differentiated together: a loop in segments, or some in a row.
  struct Unit {
    std::optional<SegmentedLoop> loop;
    DirectGradient gradient;
    OuterArrays outer;
  };

  void refuse_own_name() const {
    const ir::Program& program = whole_.program;
    const Array array = ir::find_array(program, needed_tape_bytes);
    const bool is_size = std::any_of(program.sizes.begin(), program.sizes.end(),
                                     [](const ir::Symbol& size) { return size.name == needed_tape_bytes; });
    if (!array && !is_size) return;
    throw UsageError(
        {.code = ErrorCode::BadArgument,
         .message = std::string("with max_tape_bytes the size '") + needed_tape_bytes + "' is one of loopgrad's own",
         .program = program.name,
         .array = array ? array->name : "",
         .hint = "rename it, or leave out max_tape_bytes",
         .location = array ? array->location : program.location});
  }

  void refuse_extents_from_data() const {
    ir::walk_stmts(whole_.program.body, [&](const Stmt& s) {
      const auto* local = s.as<ir::Allocate>();
      if (!local) return;
      for (const Expr& extent : local->array->shape)
        if (ir::has_load(extent))
          throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                                      .message = "there is no tape within a budget for a program with a local array "
                                                 "whose extent depends on data",
                                      .program = whole_.program.name,
                                      .array = local->array->name,
                                      .hint = "give it a largest extent in sizes, or leave max_tape_bytes out",
                                      .location = local->location});
    });
  }

  void find_units(const std::vector<Stmt>& parts) {
    std::vector<Stmt> together;
    const auto finish = [&] {
      if (together.empty()) return;
      const Stmt part = ir::block(std::move(together));
      together.clear();
      units_.push_back({std::nullopt, gradient_of_part(whole_, part, {}, taken_, report_), outer_arrays(part)});
    };
    std::set<Array> set_before;
    for (const Stmt& part : parts) {
      auto loop = SegmentedLoop::of(whole_, part, set_before, taken_, report_);
      set_before.merge(outer_arrays(part).written);
      if (!loop) {
        together.push_back(part);
        continue;
      }
      finish();
      const OuterArrays outer = loop->outer();
      units_.push_back({std::move(loop), {}, outer});
    }
    finish();
    for (const Unit& unit : units_) {
      const std::vector<Array> tape = unit.loop ? unit.loop->tape() : unit.gradient.tape;
      tape_.insert(tape_.end(), tape.begin(), tape.end());
    }
  }

  /// The last unit up to `unit` that writes the array; -1: none.
  int last_writer(const Array& array, int unit) const {
    for (; unit >= 0; --unit)
      if (units_[static_cast<std::size_t>(unit)].outer.written.count(array)) return unit;
    return -1;
  }

  /// Where the backward run finds what the array held after `unit`.
  Array after(const Array& array, int unit) {
    const int writer = last_writer(array, unit);
    const bool stays = last_writer(array, static_cast<int>(units_.size()) - 1) == writer;
    if (stays && !locals_.count(array)) return array;
    Array& saved = saved_[{writer, array}];
    if (!saved) {
      const std::string name = unique_name(array->name + "_saved", taken_);
      saved = ir::make_array(name, array->type, array->shape, ArrayRole::Tape, array->location);
      tape_.push_back(saved);
      report_.tape.push_back({array->name, array->location, "kept", name, "", "changed by later parts of the program"});
    }
    return saved;
  }

  Stmt saved_after(int unit) const {
    std::vector<Stmt> all;
    for (const auto& [what, saved] : saved_)
      if (what.first == unit) all.push_back(copy_all(saved, what.second));
    return ir::block(std::move(all));
  }

  static Stmt forward_of(const Unit& unit) { return unit.loop ? unit.loop->forward() : unit.gradient.forward; }

  Stmt backward_of(int index) {
    const Unit& unit = units_[static_cast<std::size_t>(index)];
    const auto from = [&](const Array& array) { return after(array, index); };
    if (unit.loop) return unit.loop->backward(from);
    std::map<Array, Array> arrays;
    for (const Array& array : outer_arrays(unit.gradient.backward).read)
      if (unit.outer.read.count(array) || unit.outer.written.count(array)) arrays[array] = from(array);
    return ir::replace_arrays(unit.gradient.backward, arrays);
  }

  /// Copies are of whole arrays, also of elements that have no value yet: those are zero.
  bool is_copied(const Array& array) const {
    const auto copies = [&](const Unit& unit) {
      return unit.loop ? unit.loop->saves(array) : unit.gradient.copied.count(array) > 0;
    };
    const auto of_it = [&](const auto& entry) { return entry.first.second == array; };
    return std::any_of(units_.begin(), units_.end(), copies) || std::any_of(saved_.begin(), saved_.end(), of_it);
  }

  void declare(const Array& local, DirectGradient& gradient) const {
    if (is_copied(local)) gradient.forward = ir::block({zero_fill(local), gradient.forward});
    gradient.forward = ir::allocate(local, gradient.forward, local->location);
    const auto adjoint = whole_.adjoints.find(local);
    if (adjoint == whole_.adjoints.end()) return;
    const Stmt body = ir::block({zero_fill(adjoint->second), gradient.backward});
    gradient.backward = ir::allocate(adjoint->second, body, local->location);
  }

  /// The sizes of all units, and the program that finds them.
  void add_sizes(std::int64_t most_bytes, DirectGradient& result) const {
    std::vector<LoopToDecide> loops;
    std::set<Array> of_loops;
    ir::Program& sizing = result.sizing;
    std::vector<Stmt> all;
    for (const Unit& unit : units_) {
      const std::vector<ir::Symbol>& own = unit.loop ? unit.loop->measured() : unit.gradient.sizes;
      result.sizes.insert(result.sizes.end(), own.begin(), own.end());
      add_sizing(unit.loop ? unit.loop->sizing() : unit.gradient.sizing, sizing, all);
      if (!unit.loop) continue;
      loops.push_back(unit.loop->to_decide());
      const LoopLengths& l = unit.loop->lengths();
      result.sizes.insert(result.sizes.end(), {l.taped, l.blocks, l.leaves, l.leaf});
      for (const Array& tape : unit.loop->tape()) of_loops.insert(tape);
    }
    ir::Substitution measured;  // sizes that come from data are results of this very program
    for (const Array& array : sizing.arrays)
      for (const ir::Symbol& size : result.sizes)
        if (array->name == size.name) measured[size] = ir::load(array, {});
    for (LoopToDecide& loop : loops)
      loop.bytes_of_tape = [of_measured = loop.bytes_of_tape, measured](const Expr& iterations) {
        return ir::substitute(of_measured(iterations), measured);
      };
    Expr fixed = ir::int_const(0);
    for (const Array& tape : tape_)
      if (!of_loops.count(tape)) fixed = fixed + bytes_of_array(tape->type, tape->shape);
    std::vector<Array> outputs;
    all.push_back(decide_lengths(loops, ir::substitute(fixed, measured), most_bytes, outputs));
    result.sizes.push_back(ir::make_symbol(needed_tape_bytes));
    sizing.name = whole_.program.name + "_sizing";
    sizing.sizes = whole_.program.sizes;
    sizing.location = whole_.program.location;
    sizing.arrays.insert(sizing.arrays.end(), outputs.begin(), outputs.end());
    sizing.body = ir::block(std::move(all));
  }

  void add_sizing(const ir::Program& from, ir::Program& to, std::vector<Stmt>& all) const {
    if (ir::is_empty(from.body)) return;
    std::map<Array, Array> known;  // parts have the arguments as arrays of their own
    for (const Array& array : from.arrays) {
      if (array->role == ArrayRole::Input) refuse_computed(array);
      const Array same = array->role == ArrayRole::Output ? Array() : ir::find_array(to, array->name);
      if (!same) to.arrays.push_back(array);
      else if (same != array) known[array] = same;
    }
    all.push_back(ir::replace_arrays(from.body, known));
  }

  void refuse_computed(const Array& array) const {
    const Array own = ir::find_array(whole_.program, array->name);
    if (own && own->role == ArrayRole::Input) return;
    throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                                .message = "the extents of the tape depend on values that the program itself computes",
                                .program = whole_.program.name,
                                .array = array->name,
                                .hint = "state bounds of loops: p.loop(name, lower, upper, {.at_most = {n}})",
                                .location = array->location});
  }

  const Prepared& whole_;
  Report& report_;
  std::set<std::string> taken_;
  std::set<Array> locals_;
  std::vector<Unit> units_;
  std::vector<Array> tape_;
  std::map<std::pair<int, Array>, Array> saved_;  // (after which unit, array)
};

}  // namespace

DirectGradient checkpointed_gradient(const Prepared& prepared, std::int64_t most_bytes, Report& report) {
  return Composer(prepared, report).gradient(most_bytes);
}

}  // namespace loopgrad::tape
