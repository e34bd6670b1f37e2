// Memory-based dependences of a model, and which loop carries them. Over-approximate: what cannot be excluded is there.
#pragma once

#include "dsl/poly/model.h"

namespace loopgrad::poly {

/// Two accesses that may touch the same element, at least one of them changing it, or two operations on the run-time
/// stack. A `sum` is a pair of Reduces with one operation on one array: it forbids running the two at once, but not
/// exchanging them.
struct Conflict {
  int first = 0, second = 0;  // numbers of the statements
  const Access* a = nullptr;  // of `first`, inside the model; null for a stack operation
  const Access* b = nullptr;  // of `second`
  bool sum = false;
  isl::map pairs;  // instance of first -> instance of second
};

/// All pairs of instances in conflict where `first` is executed before `second`: RAW, WAR and WAW dependences. A pair
/// of accesses may give several conflicts, one for each loop that carries them.
std::vector<Conflict> dependences(const Model& model);

/// Those between these two statements.
std::vector<Conflict> dependences(const Model& model, int first, int second);

/// Whether some instance of statement `first` must stay before some instance of statement `second` (sums may be
/// exchanged, so they do not count).
bool must_precede(const Model& model, int first, int second);

/// Pairs (instance of statement `first`, instance of statement `second`) where the former is executed first (whether in
/// the domains or not): one relation for each loop that may decide and one for the text. Each is a conjunction, which
/// isl tests far faster than their union. Backward loops run by descending iterator, parallel loops as if forward.
std::vector<isl::map> execution_orders(const Model& model, int first, int second);

/// The union of these.
isl::map executed_before(const Model& model, int first, int second);

/// How many of the outermost loops are around both statements.
std::size_t common_loops(const Statement& a, const Statement& b);

enum class Search {
  All,           // every conflict
  UntilAny,      // stop at the first conflict
  UntilNotASum,  // stop at the first conflict that is no sum: the loop cannot be parallel then
  SkipSums,      // as UntilNotASum, without looking at sums at all
};

/// Conflicts between different iterations of `loop` (a For or While inside the model's region) within one iteration of
/// the loops around it. Empty: its iterations may run in any order or at once. `first` is in the iteration with the
/// smaller iterator.
std::vector<Conflict> carried_by(const Model& model, const ir::Stmt& loop, Search search = Search::All);

/// A concrete pair of instances for messages, e.g. "i = 0 and i = 1 (n = 2)": the values of the iterators in which the
/// two instances differ, and of the parameters.
std::string witness(const Model& model, const Conflict& conflict);

/// The conflict in words, e.g. "y[i] at f.cpp:12 and y[i - 1] at f.cpp:13 may be the same element, as for i = 0 and
/// i = 1 (n = 2)"; without an example where it is not known which iterations there are.
std::string describe(const Model& model, const Conflict& conflict);

}  // namespace loopgrad::poly
