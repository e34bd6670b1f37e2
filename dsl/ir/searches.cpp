#include "dsl/ir/searches.h"

#include "dsl/ir/visit.h"

namespace loopgrad::ir {

std::optional<Search> as_search(const For& loop) {
  const auto* list = loop.body.as<Block>();
  const auto* sum = (list && list->body.size() == 1 ? list->body[0] : loop.body).as<Reduce>();
  const auto* choice = sum && sum->op == ReduceOp::Max ? sum->value.as<Select>() : nullptr;
  if (!choice || !sum->array->shape.empty() || !is_integer(sum->array->type)) return std::nullopt;
  const auto* found = choice->a.as<Var>();
  const auto otherwise = as_int(choice->b);
  if (!found || found->symbol != loop.iterator || !otherwise) return std::nullopt;
  bool reads_match = false;
  walk(choice->condition, [&](const Expr& e) {
    const auto* load = e.as<Load>();
    reads_match |= load && load->array == sum->array;
  });
  if (reads_match) return std::nullopt;
  return Search{sum, choice->condition, *otherwise};
}

bool is_of_branches(const Search& search) {
  bool any = false, all = true;
  walk(search.condition, [&](const Expr& e) {
    if (e.kind() != Kind::Load) return;
    any = true;
    all &= e.type() == ScalarType::Bool;
  });
  return any && all;
}

}  // namespace loopgrad::ir
