#include "transforms/analysis/contiguous.h"

#include "dsl/ir/notes.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_register_bytes = 64;

/// All uses of one array in a body, or of places in it that are not a constant distance apart and only read.
struct Use {
  ir::Array array;
  std::vector<Expr> indices;          // of the first
  bool one_place = true;              // all have these indices
  bool always = false;                // at least one happens in every iteration
  bool always_first_written = false;  // the first use is a plain assignment in every iteration
  bool reads = false, writes = false;
};

/// Places of which the sizes or data tell how far apart they are, as in rows of a matrix that share a loop.
bool far_apart(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (std::size_t d = 0; d < a.size(); ++d)
    if (!linear_form(a[d] - b[d]).terms.empty()) return true;
  return false;
}

class UseFinder {
 public:
  /// `apart`: places that are far apart are uses of their own.
  explicit UseFinder(bool apart = false, std::function<bool(const ir::Array&)> in_registers = is_in_registers)
      : apart_(apart), in_registers_(std::move(in_registers)) {}

  bool has_loops = false;
  std::vector<Use> uses;  // in order of execution
  std::set<ir::Array> locals;

  void visit(const Stmt& s, bool always) {
    if (!s) return;
    if (const auto* n = s.as<ir::Block>()) {
      for (const Stmt& child : n->body) visit(child, always);
    } else if (const auto* local = s.as<ir::Allocate>()) {
      locals.insert(local->array);
      visit(local->body, always);
    } else if (const auto* branch = s.as<ir::If>()) {
      visit(branch->condition, always);
      visit(branch->then_body, false);
      visit(branch->else_body, false);
    } else if (const auto* assign = s.as<ir::Assign>()) {
      for (const Expr& index : assign->indices) visit(index, always);
      visit(assign->value, always);
      note(assign->array, assign->indices, always, false, true);
    } else if (const auto* sum = s.as<ir::Reduce>()) {
      visit(sum->value, always);
      if (ir::is_note(s)) return;
      has_loops |= sum->atomic;  // neither is moved
      for (const Expr& index : sum->indices) visit(index, always);
      note(sum->array, sum->indices, always, true, true);
    } else {
      has_loops = true;
    }
  }

 private:
  void visit(const Expr& e, bool always) {
    if (const auto* n = e.as<ir::Select>()) {
      visit(n->condition, always);
      visit(n->a, false);
      visit(n->b, false);
      return;
    }
    if (const auto* n = e.as<ir::Binary>(); n && (n->op == BinaryOp::And || n->op == BinaryOp::Or)) {
      visit(n->a, always);
      visit(n->b, false);
      return;
    }
    if (const auto* n = e.as<ir::Load>()) note(n->array, n->indices, always, true, false);
    ir::for_each_child(e, ir::overloaded{[&](const Expr& child) { visit(child, always); }, [](const Stmt&) {}});
  }

  void note(const ir::Array& array, const std::vector<Expr>& indices, bool always, bool read, bool write) {
    if (in_registers_(array)) return;
    auto use = std::find_if(uses.begin(), uses.end(), [&](const Use& u) {
      return u.array == array && !(apart_ && !write && !u.writes && far_apart(u.indices, indices));
    });
    if (use == uses.end()) {
      uses.push_back({array, indices});
      use = uses.end() - 1;
      use->always_first_written = always && !read;
    }
    use->one_place = use->one_place && ir::equal(use->indices, indices);
    use->always |= always;
    use->reads |= read;
    use->writes |= write;
  }

  const bool apart_;
  const std::function<bool(const ir::Array&)> in_registers_;
};

/// Which iterator the element moves along, if by one in the last index and in no other way that matters; else -1.
int direction(const std::vector<Expr>& indices, const std::vector<ir::Symbol>& iterators) {
  for (std::size_t k = 0; k < iterators.size(); ++k) {
    if (indices.empty() || coefficient_of(indices.back(), iterators[k]) != 1) continue;
    bool fits = true;
    for (std::size_t d = 0; d + 1 < indices.size(); ++d) fits &= !mentions(indices[d], iterators[k]);
    for (std::size_t other = 0; other < iterators.size(); ++other) {
      if (other == k) continue;
      bool moves = false;
      for (std::size_t d = 0; d + 1 < indices.size(); ++d) moves |= mentions(indices[d], iterators[other]);
      fits &= moves && !mentions(indices.back(), iterators[other]);
    }
    if (fits) return static_cast<int>(k);
  }
  return -1;
}

std::vector<ContiguousAccess> accesses_of(const UseFinder& found, const std::vector<ir::Symbol>& iterators,
                                          const std::set<ir::Array>& may_alias) {
  std::vector<ContiguousAccess> result;
  if (found.has_loops) return result;
  for (const Use& use : found.uses) {
    const int along = direction(use.indices, iterators);
    bool fits = along >= 0 && use.one_place && use.always && !found.locals.count(use.array) &&
                !may_alias.count(use.array) && use.array->type != ScalarType::Bool;
    // The place must be known before the iterations begin.
    for (const Use& other : found.uses) {
      if (!other.writes && !found.locals.count(other.array)) continue;
      for (const Expr& index : use.indices) fits = fits && !uses(index, other.array);
    }
    if (!fits) continue;
    const auto& iterator = iterators[static_cast<std::size_t>(along)];
    const ir::LinearForm rest = linear_form(use.indices.back() - ir::var(iterator));
    result.push_back({use.array, use.indices, along, !use.always_first_written, use.writes, rest.constant});
  }
  return result;
}

bool same_alignment(std::int64_t a, std::int64_t b) { return (a - b) % chunk_width == 0; }

/// Less the arrays of which some places are wide and others are not, or not aligned at the same time.
std::vector<ContiguousAccess> with_all_places(const UseFinder& found, std::vector<ContiguousAccess> wide) {
  auto disagrees = [&](const ContiguousAccess& access) {
    std::size_t places = 0, wide_places = 0;
    for (const Use& use : found.uses) places += use.array == access.array;
    for (const ContiguousAccess& other : wide)
      wide_places +=
          other.array == access.array && other.along == access.along && same_alignment(other.offset, access.offset);
    return wide_places < places;
  };
  std::vector<ContiguousAccess> result;
  std::copy_if(wide.begin(), wide.end(), std::back_inserter(result), [&](const auto& a) { return !disagrees(a); });
  return result;
}

/// How far from the iterator the indices are that move with it, for each array that is loaded from.
std::map<ir::Array, std::set<std::int64_t>> offsets_along(const Stmt& body, const ir::Symbol& iterator) {
  std::map<ir::Array, std::set<std::int64_t>> offsets;
  ir::walk(
      body, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load) return;
        for (const Expr& index : load->indices)
          if (coefficient_of(index, iterator) == 1)
            offsets[load->array].insert(linear_form(index - ir::var(iterator)).constant);
      });
  return offsets;
}

}  // namespace

bool is_in_registers(const ir::Array& array) {
  return array->role == ir::ArrayRole::Local && !array->shape.empty() &&
         ir::constant_bytes(array).value_or(most_register_bytes + 1) <= most_register_bytes;
}

std::vector<ContiguousAccess> contiguous_accesses(const Stmt& body, const std::vector<ir::Symbol>& iterators,
                                                  const std::set<ir::Array>& may_alias,
                                                  const std::function<bool(const ir::Array&)>& in_registers) {
  UseFinder found(true, in_registers);
  found.visit(body, true);
  return with_all_places(found, accesses_of(found, iterators, may_alias));
}

bool are_evenly_apart(const std::vector<Expr>& indices, const ir::Symbol& iterator) {
  return std::all_of(indices.begin(), indices.end(), [&](const Expr& index) {
    const Expr next = ir::substitute(index, {{iterator, ir::var(iterator) + ir::int_const(1)}});
    return !mentions(ir::to_expr(linear_form(next - index)), iterator);
  });
}

std::optional<std::int64_t> shift_for_chunks(const Stmt& body, const ir::Symbol& iterator, const Expr& lower) {
  UseFinder found;
  found.visit(body, true);
  const std::vector<ContiguousAccess> wide = accesses_of(found, {iterator}, {});
  if (wide.empty()) return std::nullopt;
  const std::int64_t offset = wide.front().offset;
  for (const ContiguousAccess& access : wide)
    if (!same_alignment(access.offset, offset)) return std::nullopt;
  std::size_t others = 0;
  for (const Use& use : found.uses) {
    const bool moves = std::any_of(use.indices.begin(), use.indices.end(),
                                   [&](const Expr& index) { return mentions(index, iterator); });
    const bool is_wide = std::any_of(wide.begin(), wide.end(),
                                     [&](const ContiguousAccess& access) { return access.array == use.array; });
    others += moves && !is_wide;
  }
  if (wide.size() <= others) return std::nullopt;
  const std::int64_t start = ir::as_int(lower).value_or(-offset);
  return ((start + offset) % chunk_width + chunk_width) % chunk_width;
}

bool gains_from_tiles(const Stmt& body, const ir::Symbol& outer, const ir::Symbol& inner) {
  UseFinder found;
  found.visit(body, true);
  const std::vector<ContiguousAccess> wide = accesses_of(found, {outer, inner}, {});
  bool both[2] = {false, false};
  for (const ContiguousAccess& access : wide) both[access.along] = true;
  return both[0] && both[1];
}

bool writes_along_outer(const Stmt& body, const ir::Symbol& outer, const ir::Symbol& inner) {
  bool written[2] = {false, false};
  for (const ContiguousAccess& access : contiguous_accesses(body, {outer, inner}, {}))
    written[access.along] |= access.writes;
  return written[0] && !written[1];
}

bool reads_neighbours(const Stmt& body, const ir::Symbol& iterator) {
  const auto offsets = offsets_along(body, iterator);
  return std::any_of(offsets.begin(), offsets.end(), [](const auto& of) { return of.second.size() > 1; });
}

bool is_stencil(const Stmt& body, const ir::Symbol& iterator) {
  if (contains_loop(body)) return false;
  // Loads from an array that is written as well have to wait for the stores of the iteration before.
  const auto offsets = offsets_along(body, iterator);
  bool waits = false;
  ir::walk_stmts(body, [&](const Stmt& s) {
    for_each_store(s, [&](const ir::Array& array, const std::vector<Expr>&) { waits |= offsets.count(array) > 0; });
  });
  return !waits && reads_neighbours(body, iterator);
}

std::int64_t column_width(const Stmt& body) {
  constexpr int most_loads = 20;
  int loads = 0;
  ir::walk(
      body, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        loads += load && !load->indices.empty();
      });
  return loads > most_loads ? short_column : chunk_width;
}

}  // namespace loopgrad::transforms
