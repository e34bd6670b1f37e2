// Where the statements of a program stand, and which of them write which array: what its text alone tells.
#pragma once

#include "tape/stores.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace loopgrad::tape {

struct Site {
  std::vector<ir::Stmt> scopes;  // enclosing loops, branches and blocks, outermost first
  std::vector<ir::Stmt> loops;   // the loops among them
  int model_index = -1;          // of the statement in a polyhedral model, for who has one
  int position = 0;              // textual order
};

/// A read that happens whenever its statement runs.
struct PlainRead {
  ir::Stmt site;
  ir::Expr load;
};

class Sites {
 public:
  explicit Sites(const ir::Stmt& body);

  const Site& of(const ir::Stmt& s) const { return sites_.at(s.get()); }
  Site* find(const ir::Stmt& s);

  bool is_written(const ir::Array& array) const { return writers_.count(array) != 0; }
  /// The statements that store to the array, in textual order.
  const std::vector<ir::Stmt>& writers(const ir::Array& array) const;
  /// Arrays that only a custom gradient's rule sees: derivatives, and locals of its own. They hold no values of the
  /// program, so that nothing else here knows them.
  const std::set<ir::Array>& of_rules() const { return of_rules_; }
  /// Whether `e`, which may be null, reads none of these: then it is known in front of a rule.
  bool is_known_before_rules(const ir::Expr& e) const;
  /// The CustomGradient whose rule `s` stands in; null: none.
  const ir::CustomGradient* rule_around(const ir::Stmt& s) const;
  const std::map<ir::Array, ir::Stmt>& allocations() const { return allocations_; }
  /// The Allocate of a local array.
  const ir::Stmt& allocation(const ir::Array& local) const { return allocations_.at(local); }
  /// How often it is read in the text.
  int read_count(const ir::Array& array) const;

  /// Those reads of the array that no select, `and` or `or` stands around, in textual order.
  const std::vector<PlainRead>& plain_reads(const ir::Array& array) const;
  /// An earlier plain read of the value that `load` reads at `site`, by a statement that runs whenever `site` does, in
  /// the same iteration, or in the same one of a loop with the same bounds: `iterators` gives its iterators in terms of
  /// those around `site`.
  struct EarlierRead {
    PlainRead read;
    std::map<ir::Symbol, ir::Expr> iterators;
  };
  std::optional<EarlierRead> earlier_read(const ir::Load& load, const ir::Stmt& site) const;

  /// The statement in front of which all elements of the array already are what they are at `site`, in the same
  /// iteration of the loops around it: the first such one of a body, so that it is one for all readers of a version.
  /// Null where there is no loop between it and `site`, nor is `site` one, and in custom gradients.
  ir::Stmt steady_from(const ir::Array& array, const ir::Stmt& site) const;

  /// The one Assign to a local scalar, with no loop between it and the declaration; null when there is none.
  const ir::Stmt* only_writer(const ir::Array& scalar) const;
  /// Nothing writes the local array from `site` on, until its scope ends, whatever sizes and data are.
  bool is_final_at(const ir::Array& local, const ir::Stmt& site) const;
  /// Every branch that decides whether `a` runs is also around `b`, on the same side.
  bool executes_whenever(const ir::Stmt& a, const ir::Stmt& b) const;
  /// The statement that is the body of the innermost loop or branch around `s`, or the whole program.
  const ir::Stmt& body_around(const ir::Stmt& s) const;

 private:
  void collect(const ir::Stmt& s, std::vector<ir::Stmt>& scopes);
  void collect(const ir::Expr& e, const ir::Stmt& site);
  bool is_written_in(const ir::Array& array, const ir::Stmt& s) const;
  ir::Stmt first_steady(const ir::Array& array, ir::Stmt s, std::size_t depth) const;
  std::optional<EarlierRead> as_earlier(const PlainRead& read, const ir::Load& load, const ir::Stmt& site) const;

  std::map<const ir::StmtNode*, Site> sites_;
  std::set<ir::Array> of_rules_;
  bool in_rule_ = false;
  std::map<ir::Array, ir::Stmt> allocations_;           // local array -> its Allocate
  std::map<ir::Array, std::vector<ir::Stmt>> writers_;  // array -> statements that store to it
  std::map<ir::Array, int> read_count_;
  std::map<ir::Array, std::vector<PlainRead>> plain_reads_;
  std::map<const ir::StmtNode*, int> last_position_;  // of what is in a statement
};

}  // namespace loopgrad::tape
