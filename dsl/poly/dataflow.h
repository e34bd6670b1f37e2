// Array dataflow on the model: which write a read sees, and whether an element is written again.
// Method: Feautrier, "Dataflow analysis of array and scalar references" (1991), as implemented by isl.
#pragma once

#include "dsl/poly/model.h"

namespace loopgrad::poly {

/// Where some instances of a read get their value: the instance of statement `writer` given by `instance`, or, with
/// writer < 0, what the element held before the region.
struct Source {
  int writer = -1;
  isl::map instance;  // reader instance -> writer instance; for writer < 0: -> element
  isl::set domain;    // the reader instances concerned
};

struct Dataflow {
  bool exact = false;           // otherwise `sources` is empty: nothing is known
  std::vector<Source> sources;  // disjoint domains that cover the reader's domain
};

/// The last write before each instance of a read. Exact only when every possible writer of the array is exact (affine
/// domain and subscripts) and so are the read's subscripts. A Reduce counts as a write of a new value.
Dataflow last_writes(const Model& model, int reader, const Access& read);

/// How many of the loops around the reader, from the outermost one on, decide whether an instance is of this source.
std::size_t deciding_loops(const Model& model, int reader, const Source& source);

/// True when some write to the array may hit an element read (by `access` of statement `index`) at the same instance of
/// the statement or later. Over-approximate.
bool may_be_overwritten(const Model& model, int index, const Access& access);

/// True when some write to the array may hit an element written by `access` at an earlier instance (`before`) or at a
/// later one. Over-approximate.
bool may_be_written_before(const Model& model, int index, const Access& access);
bool may_be_written_after(const Model& model, int index, const Access& access);

/// True when `second` may touch an element after `first` has touched it. Over-approximate.
bool may_follow(const Model& model, int first_index, const Access& first, int second_index, const Access& second);

/// Asks one question with a fresh budget; beyond it the answer is `when_over_budget`, which must always be right.
template <class Result, class Question>
Result ask(const Model& model, const Result& when_over_budget, const Question& question) {
  try {
    model.context->restart_budget();
    return guarded(*model.context, question);
  } catch (const BudgetError&) {
    return when_over_budget;
  }
}

}  // namespace loopgrad::poly
