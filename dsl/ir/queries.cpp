#include "dsl/ir/queries.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <cctype>

namespace loopgrad::ir {

bool has_load(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& node) { found |= node.kind() == Kind::Load; });
  return found;
}

bool is_of_sizes(const Expr& e, const Program& program) {
  bool all = true;
  walk(e, [&](const Expr& x) {
    const auto* v = x.as<Var>();
    all &= x.kind() != Kind::Load &&
           (!v || std::find(program.sizes.begin(), program.sizes.end(), v->symbol) != program.sizes.end());
    return all;
  });
  return all;
}

bool chooses_element(const std::vector<Expr>& indices) {
  const auto from_data = [](const Expr& index) { return has_load(index); };
  const auto fits = [&](const Expr& index) { return from_data(index) || as_int(index).has_value(); };
  return std::any_of(indices.begin(), indices.end(), from_data) && std::all_of(indices.begin(), indices.end(), fits);
}

bool mentions(const Expr& e, const Symbol& symbol) {
  bool found = false;
  walk(e, [&](const Expr& node) {
    const auto* v = node.as<Var>();
    found |= v && v->symbol == symbol;
  });
  return found;
}

bool is_fixed(const Expr& e, const std::vector<Symbol>& variables) {
  return !has_load(e) &&
         std::none_of(variables.begin(), variables.end(), [&](const Symbol& symbol) { return mentions(e, symbol); });
}

void collect_operands(const Expr& e, BinaryOp op, std::vector<Expr>& found) {
  const auto* n = e.as<Binary>();
  if (!n || n->op != op) return found.push_back(e);
  collect_operands(n->a, op, found);
  collect_operands(n->b, op, found);
}

bool contains_loop(const Stmt& s) {
  bool found = false;
  if (s) walk_stmts(s, [&](const Stmt& t) { found |= t.kind() == Kind::For || t.kind() == Kind::While; });
  return found;
}

bool has_one_trip(const For& loop) { return equal(loop.upper, loop.lower + int_const(1)); }

bool has_mode(const Stmt& s, LoopMode mode) {
  const auto* loop = s ? s.as<For>() : nullptr;
  return loop && loop->mode == mode;
}

bool uses_stack(const Stmt& s) {
  bool found = false;
  walk_stmts(s, [&](const Stmt& t) { found |= t.kind() == Kind::Push || t.kind() == Kind::Pop; });
  return found;
}

bool reads(const Stmt& s, const Array& array) {
  bool found = false;
  walk(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* l = e.as<Load>();
        found |= l && l->array == array;
      });
  return found;
}

bool is_identifier(const std::string& name) {
  const auto word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), word);
}

namespace {

Expr times_extents(std::int64_t each, const Array& array) {
  Expr result = int_const(each);
  for (const Expr& extent : array->shape) result = result * extent;
  return result;
}

}  // namespace

Expr element_count(const Array& array) { return times_extents(1, array); }
Expr byte_count(const Array& array) { return times_extents(static_cast<std::int64_t>(bytes_of(array->type)), array); }

std::optional<std::int64_t> constant_bytes(const Array& array) {
  std::int64_t bytes = static_cast<std::int64_t>(bytes_of(array->type));
  for (const Expr& extent : array->shape) {
    const auto n = as_int(extent);
    if (!n || *n < 0 || __builtin_mul_overflow(bytes, *n, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::set<Array> aliased_arrays(const Program& program) {
  std::set<Array> aliased;
  for (const Fact& fact : program.facts)
    if (fact.kind == FactKind::MayAlias) aliased.insert({fact.array, fact.other});
  return aliased;
}

}  // namespace loopgrad::ir
