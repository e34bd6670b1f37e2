#include "backends/interpreter/elements.h"
#include "backends/interpreter/operations.h"
#include "dsl/ir/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace loopgrad::backend::interpreter {
namespace {

/// Verifies one fact about an array with elements of `Storage`.
template <class Storage>
class FactCheck {
 public:
  using Value = typename Storage::Value;
  FactCheck(Machine& machine, const ir::Fact& fact)
      : machine_(machine),
        fact_(fact),
        slot_(machine.array(fact.array)),
        site_(machine.add_site(nullptr, fact.location, fact.array)),
        count_(element_count(slot_.shape, fact.array->type, fact.array->name)) {}

  void run() const {
    switch (fact_.kind) {
      case ir::FactKind::InRange: return in_range();
      case ir::FactKind::Sorted: return sorted("sorted");
      case ir::FactKind::Injective: return injective();
      case ir::FactKind::CsrPointer: return csr_pointer();
      case ir::FactKind::MayAlias: return;  // allows, promises nothing
      case ir::FactKind::ReadUpTo: return;  // about other programs
      case ir::FactKind::Distinct: return;  // verified as elements are read and written
    }
  }

 private:
  Value at(std::int64_t i) const {
    return Storage::decode(reinterpret_cast<const typename Storage::Memory*>(slot_.data)[i]);
  }
  std::string show(std::int64_t i) const { return fmt::format("{} = {}", slot_.element(i), at(i)); }
  [[noreturn]] void broken(const std::string& what) const {
    fail(site_, ErrorCode::BadFact, what, "correct the data or drop the fact from the program");
  }

  void in_range() const {
    const std::int64_t lower = evaluate(fact_.lower, machine_.sizes), upper = evaluate(fact_.upper, machine_.sizes);
    for (std::int64_t i = 0; i < count_; ++i) {
      const bool inside = std::is_floating_point_v<Value>
                              ? at(i) >= static_cast<Value>(lower) && at(i) < static_cast<Value>(upper)
                              : static_cast<std::int64_t>(at(i)) >= lower && static_cast<std::int64_t>(at(i)) < upper;
      if (!inside) broken(fmt::format("{} is not in the stated range [{}, {})", show(i), lower, upper));
    }
  }

  void sorted(const char* promise) const {
    for (std::int64_t i = 1; i < count_; ++i) {
      if (!(at(i - 1) <= at(i))) broken(fmt::format("is not {}: {} follows {}", promise, show(i), show(i - 1)));
    }
  }

  void injective() const {
    std::int64_t least = 0, most = -1;
    for (std::int64_t i = 0; i < count_; ++i) {
      const auto value = static_cast<std::int64_t>(at(i));
      least = i == 0 ? value : std::min(least, value);
      most = i == 0 ? value : std::max(most, value);
    }
    std::int64_t values = 0;
    const bool overflows = __builtin_sub_overflow(most, least, &values) || __builtin_add_overflow(values, 1, &values);
    if (!overflows && values <= most_values_each * count_) by_table(least, values);
    else by_order();
  }

  static constexpr std::int64_t most_values_each = 16;

  /// Where the values lie close together: who has each of them.
  void by_table(std::int64_t least, std::int64_t values) const {
    std::vector<std::int64_t> owner(static_cast<std::size_t>(values), -1);
    for (std::int64_t i = 0; i < count_; ++i) {
      std::int64_t& first = owner[static_cast<std::size_t>(static_cast<std::int64_t>(at(i)) - least)];
      if (first >= 0) occurs_twice(first, i);
      first = i;
    }
  }
  void by_order() const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count_));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](std::int64_t a, std::int64_t b) { return at(a) != at(b) ? at(a) < at(b) : a < b; });
    for (std::size_t k = 1; k < order.size(); ++k)
      if (at(order[k - 1]) == at(order[k])) occurs_twice(order[k - 1], order[k]);
  }
  [[noreturn]] void occurs_twice(std::int64_t a, std::int64_t b) const {
    broken(fmt::format("is not injective: {} and {}", show(a), show(b)));
  }

  void csr_pointer() const {
    const std::int64_t total = evaluate(fact_.upper, machine_.sizes);
    if (count_ == 0) broken("a CSR pointer has at least one element");
    if (at(0) != Value(0)) broken(fmt::format("is no CSR pointer: {} instead of 0", show(0)));
    sorted("a CSR pointer");
    if (static_cast<std::int64_t>(at(count_ - 1)) != total) {
      broken(fmt::format("is no CSR pointer: {} instead of {}", show(count_ - 1), total));
    }
  }

  Machine& machine_;
  const ir::Fact& fact_;
  const ArraySlot& slot_;
  const Site& site_;
  const std::int64_t count_;
};

}  // namespace

void verify_facts(Machine& machine) {
  for (const ir::Fact& fact : machine.program.facts) {
    // Of an array that the program itself fills there is nothing to verify yet.
    if (fact.array->role != ir::ArrayRole::Input && fact.array->role != ir::ArrayRole::InOut) continue;
    with_storage(machine.run_type(fact.array->type), [&]<class Storage>() { FactCheck<Storage>(machine, fact).run(); });
  }
}

}  // namespace loopgrad::backend::interpreter
