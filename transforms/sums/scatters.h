// Nests that are one sum into elements that data choose, as a stream of instances with a key each:
//
//   parallel for b in ..:                          rows: b, k       the same keys for all of their iterations
//     for v in 0..n:                               instances: v, e  numbered 0..count, those that do not exist included
//       for e in ptr[v]..ptr[v + 1]:       ->      key: idx[e]*m + cell[e]
//         parallel for k in ..:
//           d_x[idx[e], cell[e], b, k] += w[e]*d_y[v, b, k]
//
// An index is part of the key when data or an instance decide about it. A loop is one over rows when it takes part in
// none of these, and each of its iterations adds to elements of its own. A short loop that takes part in no index and
// decides nothing belongs to each instance: its terms all go to one element.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/ir/rewriter.h"
#include "transforms/analysis/nest.h"

#include <functional>
#include <optional>
#include <set>
#include <vector>

namespace loopgrad::transforms {

using Loops = std::vector<const ir::For*>;

/// The loops over the rows of a CSR structure and over the entries of each.
struct CsrLoops {
  const ir::For *rows = nullptr, *entries = nullptr;
  ir::Expr count;  // a bound of the entry number
};

/// A loop over instances: one whose bounds the host knows, the rows of a CSR structure with all of their entries, or
/// one of which a bound of its trips is known. Entries may be the rows of another structure (the words of the sentences
/// of documents): the number of an innermost one tells all the others.
struct ScatterFactor {
  const ir::For* loop = nullptr;   // for CSR structures that over the innermost entries
  ir::Expr extent;                 // how often it runs, or at most; for CSR structures a bound of the entry number
  bool is_ragged = false;          // there may be fewer trips: those with loop->lower + number < loop->upper
  std::vector<CsrLoops> csr = {};  // outermost first; empty: no CSR structure
};

struct Scatter {
  ir::Stmt nest;                       // kept: the loops are its
  Loops outer, sequential, inner;      // rows around all instances, loops over instances, other rows
  std::vector<ScatterFactor> factors;  // what the loops over instances are, outermost first
  Loops summed;                        // short ones of each instance, which all add to its element
  ir::Stmt leaf;                       // the sum, with conditions and locals of one iteration around it
  const ir::Reduce* sum = nullptr;
  std::vector<std::size_t> dims;  // the indices of the sum that make up the key
  bool is_shared_out = false;     // the outermost loop is parallel, though one over instances
  bool may_miss = false;          // instances may have no target: these do not exist

  /// The leaf is nothing but the sum, so every instance within its bounds exists.
  bool is_plain() const { return leaf.kind() == ir::Kind::Reduce; }
  /// A number in 0..targets() that is different for different elements of one row.
  ir::Expr key() const;
  ir::Expr targets() const;
  /// The indices `dims` of a target.
  std::vector<ir::Expr> places_of(const ir::Expr& target) const;
  /// Loops over all targets; body(places, target).
  ir::Stmt over_targets(const std::function<ir::Stmt(const std::vector<ir::Expr>&, const ir::Expr&)>& body) const;
  /// All that the loops over instances have: a bound.
  ir::Expr iterations() const;
  /// The same up to `limit`: bounds of trips may be far above these, and their product no number of 64 bits.
  ir::Expr iterations_up_to(std::int64_t limit) const;
  /// The leaf for one target, given as its places, and one instance, given as values of the iterators. Without places
  /// indices are what the instance says.
  ir::Stmt sum_into(const std::vector<ir::Expr>& places, const std::vector<ir::Expr>& instance) const;
  /// What decides whether an instance exists, and which target it has, besides bounds of loops: the key, and...
  std::vector<ir::Expr> deciders() const;
  /// ... conditions, and what scalars of the leaf are set to.
  std::vector<ir::Expr> conditions() const;
  /// The leaf with something else in place of the sum: done for the instances that exist.
  ir::Stmt for_each(const ir::Stmt& in_place_of_sum) const;
  /// The number of the target with these places.
  ir::Expr number_of(const std::vector<ir::Expr>& places) const;
  /// Of the loops over instances and rows.
  std::vector<ir::Symbol> iterators() const;
};

/// Whether `e` may read an element that the sum changes in loops with these iterators: not one on another level, as
/// z[l + 2, i] is where z[l + 1, k[i]] is added to.
bool may_read_target(const ir::Expr& e, const ir::Reduce& sum, const std::vector<ir::Symbol>& iterators);

/// A bound of the trips of a loop, in sizes; null where none is known. `inside`: the loops around it.
ir::Expr most_trips_of(const ir::Program& program, const ir::For& loop, const Loops& inside);

/// Whether data choose the sum's element.
bool has_index_from_data(const ir::Reduce& sum);
/// The scatter that `nest`, a part of the program, is, whatever its plan. Nullopt for anything else: no index from
/// data; atomic sums; targets of which the nest reads what it changes, or that may alias; loops of which only data
/// tells how often they run, without a bound (rows of a CSR structure are known to have all its entries together).
std::optional<Scatter> scatter_form(const ir::Program& program, const ir::Stmt& nest);
/// The same where the plan says that the sum is done by segments.
std::optional<Scatter> scatter_in(const ir::Program& program, const ir::Stmt& nest);
/// The key of `b`, whose iterators are `names`, less that of `a`, where it is one number for all instances: made of
/// sizes. Nullopt where it is not, or where they count their elements in different ways.
std::optional<ir::Expr> key_distance(const Scatter& a, const Scatter& b, const ir::Substitution& names);
/// Whether each of their indices is the same. A distance of zero may be that of the next row, as many columns before.
bool have_same_targets(const Scatter& a, const Scatter& b, const ir::Substitution& names);
/// Whether two scatters may be done in any order: none reads what the other one adds to, nor adds to it in another way.
bool are_independent(const Scatter& a, const Scatter& b);

/// Sums into elements that data choose, but those into `partials` (results of parts of sums): what the plan tells the
/// mapping.
ir::Stmt plan_segments(const ir::Stmt& body, const std::set<std::int64_t>& partials);
/// Without that, once the mapping has done what there is to do.
ir::Program without_segments(const ir::Program& program);

/// A loop over columns that was cut into blocks for several threads, as one loop again; null for others.
ir::Stmt whole_loop(const ir::For& blocks, const ir::For& columns, const ir::Stmt& body);

}  // namespace loopgrad::transforms
