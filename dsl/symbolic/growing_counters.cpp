#include "dsl/symbolic/growing_counters.h"

#include "dsl/ir/target.h"
#include "dsl/ir/visit.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

namespace loopgrad::ir {
namespace {

// So small that no loop adds up to 2^64 with them.
constexpr std::int64_t largest_step = std::int64_t{1} << 20;

/// What a statement changes.
Array changed_by(const Stmt& s) {
  const auto* pop = s.as<Pop>();
  return pop ? pop->array : target_of(s);
}

bool is_load_of(const Expr& e, const Array& scalar) {
  const auto* n = e.as<Load>();
  return n && n->array == scalar;
}

/// What a statement adds to its target; nullopt where it does anything else with it.
std::optional<std::int64_t> step_of(const Stmt& s) {
  std::optional<std::int64_t> step;
  if (const auto* n = s.as<Reduce>(); n && n->op == ReduceOp::Add && !n->atomic) step = as_int(n->value);
  if (const auto* n = s.as<Assign>()) {
    const auto* sum = n->value.as<Binary>();
    if (sum && sum->op == BinaryOp::Add && is_load_of(sum->a, n->array)) step = as_int(sum->b);
    else if (sum && sum->op == BinaryOp::Add && is_load_of(sum->b, n->array)) step = as_int(sum->a);
    else if (sum && sum->op == BinaryOp::Sub && is_load_of(sum->a, n->array) && as_int(sum->b))
      step = static_cast<std::int64_t>(-static_cast<std::uint64_t>(*as_int(sum->b)));
  }
  return step && *step >= -largest_step && *step <= largest_step ? step : std::nullopt;
}

bool is_loop(const Stmt& s) { return s.kind() == Kind::For || s.kind() == Kind::While; }

/// How a loop changes the scalars from outside of it: 1, -1, or 0 where a step is of another kind.
class Signs {
 public:
  explicit Signs(const Stmt& loop) {
    std::set<Array> inside;
    walk_stmts(loop, [&](const Stmt& s) {
      if (const auto* n = s.as<Allocate>()) inside.insert(n->array);
      regular_ &= s.kind() != Kind::CustomGradient && s.kind() != Kind::Push && s.kind() != Kind::Pop;
      if (const Array array = changed_by(s)) add(array, step_of(s));
    });
    for (const Array& array : inside) signs_[array] = 0;
  }

  bool is_one_way(const Array& array) const {
    const auto found = signs_.find(array);
    return regular_ && found != signs_.end() && found->second != 0;
  }

 private:
  void add(const Array& array, const std::optional<std::int64_t>& step) {
    if (array->type != ScalarType::I64 || !array->shape.empty() || array->role != ArrayRole::Local) return;
    if (step && *step == 0) return;
    const int sign = !step ? 0 : *step > 0 ? 1 : -1;
    const auto [known, is_new] = signs_.try_emplace(array, sign);
    if (!is_new && known->second != sign) known->second = 0;
  }

  std::map<Array, int> signs_;
  bool regular_ = true;
};

/// What runs in a row in `s`, through blocks and declarations.
void append_row(const Stmt& s, std::vector<Stmt>& row) {
  if (!s) return;
  if (const auto* n = s.as<Block>())
    for (const Stmt& child : n->body) append_row(child, row);
  else if (const auto* local = s.as<Allocate>()) append_row(local->body, row);
  else row.push_back(s);
}

bool writes(const Stmt& s, const Array& array) {
  bool found = false;
  walk_stmts(s, [&](const Stmt& child) { found |= changed_by(child) == array; });
  return found;
}

class Finder {
 public:
  using Found = std::set<std::pair<const StmtNode*, Array>>;
  Finder(Found& moved, Found& repeated) : moved_(moved), repeated_(repeated) {}

  void outside(const Stmt& s) {
    if (!s || s.kind() == Kind::CustomGradient) return;
    if (!is_loop(s)) return for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& c) { outside(c); }});
    const Signs signs(s);
    inside(s, signs);
  }

 private:
  /// The rows of statements at and below `s`.
  void inside(const Stmt& s, const Signs& signs) {
    for_each_child(s, overloaded{[](const Expr&) {},
                                 [&](const Stmt& child) {
                                   std::vector<Stmt> row;
                                   append_row(child, row);
                                   note(row, signs);
                                   for (const Stmt& item : row) inside(item, signs);
                                 }});
  }

  void note(const std::vector<Stmt>& row, const Signs& signs) {
    for (const Stmt& update : row) {
      const Array counter = changed_by(update);
      if (!counter || !signs.is_one_way(counter) || step_of(update).value_or(0) == 0) continue;
      for (const Stmt& item : row)
        if (!writes(item, counter)) note_below(item, counter, true);
    }
  }

  /// `once`: `s` is executed once at most when its row is.
  void note_below(const Stmt& s, const Array& counter, bool once) {
    if (!s) return;
    (once ? moved_ : repeated_).insert({s.get(), counter});
    once = once && !is_loop(s);
    for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { note_below(child, counter, once); }});
  }

  Found &moved_, &repeated_;
};

}  // namespace

GrowingCounters::GrowingCounters(const Stmt& body) {
  Finder(moved_, repeated_).outside(body);
  if (moved_.empty()) return;
  // A node that stands in two places is no statement of one row.
  std::map<const StmtNode*, int> places;
  walk_stmts(body, [&](const Stmt& s) { ++places[s.get()]; });
  for (auto* found : {&moved_, &repeated_})
    std::erase_if(*found, [&](const auto& entry) { return places[entry.first] > 1; });
}

}  // namespace loopgrad::ir
