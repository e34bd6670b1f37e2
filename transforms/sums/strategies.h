// The strategies for sums: a file of strategies/ and a row of `sum_strategies` each. plan_sums.h chooses by them.
#pragma once

#include "transforms/sums/exact_sums.h"
#include "transforms/sums/sum_cost.h"
#include "transforms/sums/sum_groups.h"

namespace loopgrad::transforms {

/// One way of doing the sums of a group.
struct SumStrategy {
  Strategy strategy;
  bool in_own_nest = false;  // the sums leave the nest, for one that does nothing else
  /// It takes sums from another strategy that their shape suggests where it is estimated to be faster.
  bool by_estimate = false;

  /// Why the sums cannot be done so. `kept`: what has to be kept for all iterations, if they can.
  std::optional<std::string> (*obstacle)(SumNest&, const SumGroup&, std::vector<ir::Array>& kept);
  /// What the shape of the sums says against it, whatever the sizes; empty: nothing, it is suggested. Asked where there
  /// is no obstacle. Null: no shape suggests it.
  std::string (*doubt)(const SumNest&, const SumGroup&) = nullptr;
  /// Why they are done so whatever the estimates say; asked where there is no obstacle. Null: never.
  std::optional<std::string> (*claim)(const SumNest&, const SumGroup&, Strategy suggested) = nullptr;
  /// The estimate. Null: no candidate by itself.
  PlanCandidate (*cost)(SumCosts&, const SumGroup&) = nullptr;
  /// Whether reports name the candidate. Null: always.
  bool (*suits)(const SumNest&, const SumGroup&) = nullptr;
  /// The code of `piece`, a part of the nest that has the sums of these groups. Empty: they have to keep their order
  /// after all. Null: as it stands; the mapping to a machine does what there is to do.
  ir::Stmt (*apply)(SumNest&, const ir::Stmt& piece, const std::vector<SumGroup*>&) = nullptr;
  /// What is done in place of the sums of the groups, which stay in the nest, and around it. Nullopt: they need another
  /// way after all. Null: nothing.
  std::optional<ExactSums> (*in_place)(SumNest&, const std::vector<const SumGroup*>&) = nullptr;
  /// What is done, for the report; `why` it was chosen may be empty, and is all there is to say unless it is set.
  std::string (*reason)(const SumGroup&, const std::string& why) = [](const SumGroup&, const std::string& why) {
    return why;
  };
};

extern const SumStrategy gather_strategy, split_strategy, partials_strategy, segments_strategy, apart_strategy,
    exact_strategy, atomic_strategy, serial_strategy;

/// Whether the nest is in a loop, all of whose iterations meet it: those that are looked at below a loop have one
/// around them that runs in order.
bool runs_again(const SumNest& nest);
/// Whether only integers that the program does not change decide about the elements: their order is kept for as long as
/// the caller says that they stay (keep_orders.h), and in all steps of a loop around.
bool has_lasting_order(const SumNest& nest, const SumGroup& group);
/// How many terms an element can get from these sums of the nest, unless it is `many_terms` or more (exact_sums.h): the
/// host knows it. Null where only data tell.
ir::Expr most_terms_of(const ir::Program& program, const ir::Stmt& nest, const std::vector<ir::Stmt>& sums);
/// Whether what the sums add is found in loops that the sums are not in: in whole numbers these run twice.
bool finds_terms_in_loops(const SumNest& nest, const std::vector<ir::Stmt>& sums);
/// Whether all sums of the nest are into one vector, and each of these has a key of its own for each term. Then there
/// are as many terms as keys whatever the sizes, while rows that share a key are sorted together. Few elements, for
/// which terms would wait, have a plan of their own (restructure_nest.cpp).
bool are_one_vector(const SumNest& nest, const std::vector<ir::Stmt>& sums);

/// In the order in which a shape suggests them and reports name them.
const std::vector<const SumStrategy*>& sum_strategies();
const SumStrategy& strategy(Strategy which);

}  // namespace loopgrad::transforms
