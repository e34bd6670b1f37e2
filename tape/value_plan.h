// Which of the values that the backward sweep needs are saved, and which are computed again: one decision for all of
// them, made before anything is generated.
//
// Values are the nodes of a graph: local scalars and small local arrays as they are when their scope ends, reads of
// elements that are overwritten later, and conditions of branches. A local is computed from what the statements that
// write it read (its slice). Elements that still hold their value when the sweep runs cost nothing and are no nodes.
// Each value has two prices: that of saving it, the bytes that are written and read, and that of running its slice
// again, in operations. The cheapest set of values to save from which all needed ones follow is a minimum cut, with the
// slices that run again as part of what is cut: the choice between saving and computing again of
//   H. He, S. Yu, "Transferring pebbling to cuts": min-cut rematerialisation as in PyTorch's AOTAutograd partitioner
//   (functorch/_src/partitioners.py, min_cut_rematerialization_partition), which bans some nodes where we price them.
//
// Prices are those of a GPU and of a CPU with many cores, where about eight operations take as long as a byte; the
// gradient is generated before the target and the sizes are known, so there is one decision for all of them.
//
// Slices run the same statements on the same values, so that what they give has the same bits, with the exception of
// sums over loops, whose terms may be added in another order: what decides control (conditions, indices, which operand
// an extremum took) is never computed again from these. Every statement is in a sweep's copy of its body at most once,
// and once more for each loop around it in whose body a value is computed again: work is bounded by the program's text.
#pragma once

#include "tape/loop_extents.h"
#include "tape/min_cut.h"
#include "tape/sites.h"

#include <functional>
#include <optional>

namespace loopgrad::tape {

/// Operations that a node of an expression takes by itself; a read counts as one.
int operations_of(const ir::Expr& node);

/// Something that a statement reads.
struct ValueRead {
  ir::Expr load;
  ir::Stmt site;
  bool decides = false;  // control depends on it
};

/// The statements that give a local its final value.
struct Slice {
  std::vector<ir::Stmt> statements;  // that store, in no order
  std::set<ir::Array> inner;         // locals of the loops among them, which are computed along with it
  std::vector<ValueRead> reads;      // of everything else
  std::vector<ir::Stmt> branches;    // Ifs around the statements, in the local's scope, whose conditions are had apart
  double operations = 0;             // of all of them, in one go through the scope
  bool exact = true;                 // the same bits each time
};

class ValuePlan {
 public:
  /// Whether the element may have another value after `site` has read it.
  using IsOverwritten = std::function<bool(const ir::Load& load, const ir::Stmt& site)>;
  /// Where such an element is saved: by a statement that wrote it, before one that reads it, or with all that an array
  /// held at the start.
  struct Storage {
    ir::Stmt writer = {}, reader = {};
    ir::Expr read = {};  // by `reader`
    ir::Array initial = {};
    std::vector<ir::Stmt> loops = {};     // for each iteration of which one is saved, of a read
    std::vector<ir::Stmt> choosing = {};  // the loops that decide between this place and those after it
    ir::Stmt whole = {};                  // in front of which a copy of the array would serve as well
  };
  /// One for each place that the value may come from; one of nothing where it is still there after all.
  using StorageOf = std::function<std::vector<Storage>(const ir::Load& load, const ir::Stmt& site)>;
  /// `named`: locals that only name parts of statements (see name_values.h), whose adjoints have most of what these
  /// are computed from: saving them counts twice.
  ValuePlan(const Sites& sites, const LoopExtents& extents, const std::set<ir::Array>& named,
            IsOverwritten is_overwritten, StorageOf storage_of);

  /// The backward sweep needs what `e` reads at `site`; `decides`: for control.
  void need(const ir::Expr& e, const ir::Stmt& site, bool decides);
  /// All that an adjoint reads of the primal program's values.
  void need(const ir::Stmt& adjoint, const ir::Stmt& site);
  /// The value that a local has in the end. false: nothing else needs it, and as it cannot be computed again, a value
  /// that decides nothing is not worth saving.
  bool need_final(const ir::Array& local, bool decides);
  /// The condition of the If.
  void need_condition(const ir::Stmt& branch);
  void decide();

  /// Whether `local` is what it will be at the end of its scope.
  bool is_final_at(const ir::Load& load, const ir::Stmt& site) const;
  bool is_computed_again(const ir::Array& local) const { return bodies_.count(local) != 0; }
  bool is_condition_computed_again(const ir::Stmt& branch) const;
  /// Whether what `reader` would save of an element is had from a copy of the whole array.
  bool is_had_from_whole(const ir::Stmt& reader, const ir::Expr& read) const;
  /// Something needs the local, and it is not computed again.
  bool is_saved(const ir::Array& local) const;
  /// What decided about the local, as a remark: the two prices for each of its copies.
  std::string reason(const ir::Array& local) const;
  /// Why a local that is saved cannot be computed again.
  std::string why_not_again(const ir::Array& local) const;
  const Slice& slice_of(const ir::Array& local) const { return *slices_.at(local); }
  /// The locals that are computed again at the start of the sweep of `body`.
  std::vector<ir::Array> computed_again_in(const ir::Stmt& body) const;

 private:
  struct Value {
    ir::Array local;  // or
    ir::Stmt branch;  // or else a read
    double price_saved = 0, price_again = MinCut::uncuttable, copies = 1;
    std::vector<int> operands;
    bool needed = false, decides = false, exact = true, again = false;
  };

  std::vector<int> values_of(const std::vector<ValueRead>& reads);
  /// `price`: adds that of reading what is saved, and of choosing between places.
  std::vector<int> values_of(const ValueRead& read, double* price = nullptr);
  int saved_value(const ir::Load& load, const Storage& storage, bool decides);
  int whole_value(const ir::Array& array, const ir::Stmt& at);
  bool mark_needed(const ValueRead& read);
  bool is_placed(const std::vector<int>& values) const;
  int add(Value value, bool decides);
  int local_value(const ir::Array& local, bool decides);
  bool are_in_order(const std::vector<ValueRead>& reads) const;
  int condition_value(const ir::Stmt& branch);
  void expand();
  void expand(int value);
  const Slice* find_slice(const ir::Array& local);
  void spread_decisions();
  void cut();
  void save_inner_conditions();
  void place();
  double weight_of(const ir::Array& local) const { return named_.count(local) ? 2 : 1; }
  double trips(const ir::Stmt& loop) const;
  double instances(const std::vector<ir::Stmt>& loops) const;

  const Sites& sites_;
  const LoopExtents& extents_;
  const std::set<ir::Array>& named_;
  IsOverwritten is_overwritten_;
  StorageOf storage_of_;
  std::vector<Value> values_;
  std::size_t expanded_ = 0;  // of values_
  std::map<ir::Array, int> locals_;
  std::map<const ir::StmtNode*, int> conditions_;
  std::map<ir::Array, int> initial_;
  std::map<const ir::StmtNode*, int> written_;                                  // by the writer
  std::map<const ir::StmtNode*, std::vector<std::pair<ir::Expr, int>>> reads_;  // by site
  std::map<std::pair<const ir::StmtNode*, ir::Array>, int> wholes_;             // by where they are copied
  std::map<ir::Array, std::optional<Slice>> slices_;
  std::map<ir::Array, ir::Stmt> bodies_;  // of what is computed again: at the start of which
};

}  // namespace loopgrad::tape
