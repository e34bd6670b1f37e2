#include "dsl/symbolic/numbered_entries.h"

#include "dsl/ir/known_scalars.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <vector>

namespace loopgrad::ir {
namespace {

Expr wide(const Load& n) { return cast(ScalarType::I64, load(n.array, n.indices)); }

/// Whether the place in a row is asked for: the iterator, less what the row's pointer says.
bool is_place(const Expr& index, const Symbol& iterator) {
  bool mentions_it = false, loads = false;
  walk(index, [&](const Expr& part) {
    const auto* variable = part.as<Var>();
    mentions_it |= variable && variable->symbol == iterator;
    loads |= part.kind() == Kind::Load;
    return part.kind() != Kind::Load;
  });
  return mentions_it && loads;
}

/// Whether an index in `s` is the number of an entry, up to a constant, and none is its place in a row: locals that
/// have a row are understood by places alone.
bool are_entries(const Stmt& s, const Symbol& iterator) {
  bool found = false, places = false;
  const auto look = [&](const std::vector<Expr>& indices) {
    for (const Expr& index : indices) {
      found |= distance(cast(ScalarType::I64, index), var(iterator)).has_value();
      places |= is_place(index, iterator);
    }
  };
  walk(
      s,
      [&](const Stmt& one) {
        if (const auto* n = one.as<Assign>()) look(n->indices);
        if (const auto* n = one.as<Reduce>()) look(n->indices);
      },
      [&](const Expr& e) {
        if (const auto* n = e.as<Load>()) look(n->indices);
      });
  return found && !places;
}

class Numbering : public Rewriter {
 public:
  explicit Numbering(const Program& program) : program_(program), scalars_(program) {}

  using Rewriter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* n = s.as<For>();
    if (!n) return rewrite_children(s);
    const std::vector<Row> rows = rows_of(*n);
    for (const Row& row : rows) {
      const Stmt body = with_known_indices(*n, {{n->iterator, var(n->iterator) - row.first}});
      if (!are_entries(body, n->iterator)) continue;
      starts_.push_back(row.first);
      const Stmt inside = rewrite(body);
      starts_.pop_back();
      return for_loop(n->iterator, row.lower, row.end, inside, n->mode, n->location, n->at_most);
    }
    if (rows.empty()) return rewrite_children(s);
    // Places in a row are places only as far as its pointer is seen.
    const Stmt body = with_known_indices(*n, {});
    return rewrite_children(for_loop(n->iterator, n->lower, n->upper, body, n->mode, n->location, n->at_most));
  }

 private:
  struct Row {
    Expr first;       // entry of the row
    Expr lower, end;  // of the loop, by number: all in i64
  };

  /// Rows that the loop may count from: that of its bounds, or one that a loop around it goes through.
  std::vector<Row> rows_of(const For& n) const {
    std::vector<Row> rows;
    const auto add = [&](const Expr& first, const Expr& end) {
      const Expr lower = simplify_indices(first + n.lower);
      if (!has_load(n.lower) || !has_load(lower)) rows.push_back({first, lower, end});
    };
    const Entry end = entry_of(n.upper);
    if (const auto [first, next] = row_length(end.base); first && is_known_row(*first))
      add(wide(*first), simplify_indices(wide(*next) + int_const(end.offset)));
    for (const Expr& first : starts_)
      if (const Expr last = simplify_indices(first + n.upper); !has_load(last)) add(first, last);
    return rows;
  }

  bool is_known_row(const Load& first) const {
    return first.array->role == ArrayRole::Input && csr_fact(program_, first.array) && scalars_.is_known(wide(first));
  }

  /// What the loop does, with known scalars looked through where they follow its iterator, which `values` may replace.
  Stmt with_known_indices(const For& n, const Substitution& values) const {
    return ir::rewrite(n.body, [&](const Expr& e) -> std::optional<Expr> {
      if (!is_integer(e.type())) return std::nullopt;
      const Expr known = scalars_.look_through(e);
      if (!mentions(known, n.iterator)) return std::nullopt;
      return values.empty() ? known : simplify_indices(substitute(known, values));
    });
  }

  const Program& program_;
  const KnownScalars scalars_;
  std::vector<Expr> starts_;  // of the rows that loops around go through
};

}  // namespace

Program with_numbered_entries(const Program& program) {
  const bool has_rows = std::any_of(program.facts.begin(), program.facts.end(),
                                    [](const Fact& fact) { return fact.kind == FactKind::CsrPointer; });
  return has_rows && program.body ? with_body(program, Numbering(program).rewrite(program.body)) : program;
}

}  // namespace loopgrad::ir
