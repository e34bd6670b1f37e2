#include "tools/fuzz/false_facts.h"

#include "backends/runtime/binding.h"
#include "tools/support/random.h"

#include <vector>

namespace loopgrad::fuzz {
namespace {

bool can_break(const ir::Fact& fact, const Arrays& arrays) {
  if (fact.array->role != ir::ArrayRole::Input || is_float(fact.array->type)) return false;
  const std::int64_t count = arrays.at(fact.array->name).size();
  switch (fact.kind) {
    case ir::FactKind::InRange: return count >= 1;
    case ir::FactKind::Sorted:
    case ir::FactKind::Injective: return count >= 2;
    case ir::FactKind::CsrPointer: return count >= 1;
    case ir::FactKind::MayAlias:
    case ir::FactKind::ReadUpTo: return false;
  }
  return false;
}

}  // namespace

std::optional<std::string> break_a_fact(const Case& c, Arrays& arrays) {
  std::vector<const ir::Fact*> candidates;
  for (const ir::Fact& fact : c.program.ir().facts)
    if (can_break(fact, arrays)) candidates.push_back(&fact);
  if (candidates.empty()) return std::nullopt;
  tools::Random random(c.seed + 29);
  const ir::Fact& fact =
      *candidates[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(candidates.size())))];
  HostArray& array = arrays.at(fact.array->name);
  backend::SizeValues sizes;
  for (const ir::Symbol& size : c.program.ir().sizes) sizes[size] = c.sizes.at(size.name);
  const std::int64_t last = array.size() - 1, some = random.below(array.size());
  switch (fact.kind) {
    case ir::FactKind::InRange: {
      const std::int64_t outside = random.below(2) == 0 ? backend::evaluate(fact.upper, sizes) + random.below(1000)
                                                        : backend::evaluate(fact.lower, sizes) - 1 - random.below(1000);
      array.set(some, static_cast<double>(outside));
      break;
    }
    case ir::FactKind::Sorted: array.set(0, array.get(last) + 1); break;
    case ir::FactKind::Injective: array.set(some == 0 ? 1 : some, array.get(0)); break;
    case ir::FactKind::CsrPointer: array.set(last, array.get(last) + (random.below(2) == 0 ? 1 : -1)); break;
    default: return std::nullopt;
  }
  return fact.array->name;
}

}  // namespace loopgrad::fuzz
