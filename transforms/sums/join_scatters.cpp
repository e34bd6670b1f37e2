#include "transforms/sums/join_scatters.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/scatters.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::size_t most_joined = 32, longest_run = 256;

/// An expression with other operands.
class WithOperands final : public ir::Rewriter {
 public:
  explicit WithOperands(std::vector<Expr> operands) : operands_(std::move(operands)) {}
  Expr of(const Expr& e) { return rewrite_children(e); }
  using Rewriter::rewrite;
  Expr rewrite(const Expr&) override { return operands_[next_++]; }

 private:
  const std::vector<Expr> operands_;
  std::size_t next_ = 0;
};

std::vector<Expr> operands_of(const Expr& e) {
  std::vector<Expr> result;
  ir::visit(e,
            [&](const auto& node) { ir::for_each_child(node, [&](const Expr& child) { result.push_back(child); }); });
  return result;
}

bool all_equal(const std::vector<Expr>& list) {
  return std::all_of(list.begin() + 1, list.end(), [&](const Expr& e) { return ir::equal(e, list[0]); });
}

/// first + step*number for integers at equal distances; null for others.
Expr progression(const std::vector<Expr>& list, const Expr& number) {
  std::vector<std::int64_t> values;
  for (const Expr& e : list) {
    const auto value = ir::as_int(e);
    if (!value || e.type() != ScalarType::I64) return {};
    values.push_back(*value);
  }
  const std::int64_t step = values[1] - values[0];
  for (std::size_t k = 2; k < values.size(); ++k)
    if (values[k] - values[k - 1] != step) return {};
  return list[0] + ir::int_const(step) * number;
}

/// What is alike but for its operands, with operands by number; null for others.
Expr alike(const std::vector<Expr>& list, const Expr& number) {
  const std::vector<Expr> first = operands_of(list[0]);
  if (first.empty()) return {};
  std::vector<std::vector<Expr>> by_operand;
  for (const Expr& operand : first) by_operand.push_back({operand});
  for (std::size_t k = 1; k < list.size(); ++k) {
    const std::vector<Expr> operands = operands_of(list[k]);
    if (list[k].kind() != list[0].kind() || operands.size() != first.size()) return {};
    if (!ir::equal(WithOperands(first).of(list[k]), list[0])) return {};
    for (std::size_t d = 0; d < operands.size(); ++d) by_operand[d].push_back(operands[d]);
  }
  std::vector<Expr> operands;
  for (const std::vector<Expr>& one : by_operand) {
    operands.push_back(by_number(one, number));
    if (!operands.back()) return {};
  }
  return WithOperands(operands).of(list[0]);
}

/// A scatter that may be joined: perfect loops around its sum, at most under one condition.
struct Part {
  Scatter scatter;
  Loops loops;
  Expr condition;  // or null
};

std::optional<Part> part_of(const ir::Program& program, const Stmt& s) {
  if (s.kind() != ir::Kind::For) return std::nullopt;
  auto scatter = scatter_in(program, s);
  if (!scatter) return std::nullopt;
  // What is parallel for one sum, as its rows are each iteration's own, need not be for several.
  if (std::any_of(scatter->sequential.begin(), scatter->sequential.end(),
                  [](const ir::For* loop) { return ir::is_parallel(loop->mode); }))
    return std::nullopt;
  Part part{std::move(*scatter), {}, {}};
  Stmt at = s;
  for (const auto* loop = at.as<ir::For>(); loop; loop = at.as<ir::For>()) {
    part.loops.push_back(loop);
    at = loop->body;
  }
  const auto* branch = at.as<ir::If>();
  if (branch && !branch->else_body) {
    part.condition = branch->condition;
    at = branch->then_body;
  }
  if (at.as<ir::Reduce>() != part.scatter.sum) return std::nullopt;
  return part;
}

/// The iterators of `part`'s loops as those of `like`; nullopt where the loops differ.
std::optional<ir::Substitution> same_loops(const Part& like, const Part& part) {
  if (like.loops.size() != part.loops.size()) return std::nullopt;
  ir::Substitution names;
  for (std::size_t k = 0; k < like.loops.size(); ++k) {
    const ir::For &a = *like.loops[k], &b = *part.loops[k];
    const auto same = [&](const Expr& x, const Expr& y) {
      return !x == !y && (!x || ir::equal(x, ir::substitute(y, names)));
    };
    if (a.mode != b.mode || !same(a.lower, b.lower) || !same(a.upper, b.upper) || !same(a.at_most, b.at_most))
      return std::nullopt;
    names[b.iterator] = ir::var(a.iterator);
  }
  return names;
}

bool same_sums(const ir::Reduce& a, const ir::Reduce& b) {
  return a.array == b.array && a.op == b.op && a.fused == b.fused && a.value.type() == b.value.type();
}

/// Parts of equal loops, with names of iterators that are those of the first.
class Parts {
 public:
  explicit Parts(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) names_.push_back(*same_loops(parts_[0], part));
  }

  /// A nest for all parts that can be one; none where nothing can be joined.
  std::vector<Stmt> nests(const ir::Program& program) const {
    const std::vector<Set> all = sets();
    if (std::all_of(all.begin(), all.end(), [](const Set& set) { return set.size() == 1 && set[0].size() == 1; }))
      return {};
    std::vector<Stmt> result;
    for (const Set& set : all) {
      const Stmt nest = nest_of(set);
      if (!nest || !scatter_in(program, nest)) return {};
      result.push_back(result.empty() ? nest : ir::with_fresh_names(nest));
    }
    return result;
  }

 private:
  using Group = std::vector<std::size_t>;  // parts with equal indices: terms of one instance
  using Set = std::vector<Group>;          // of as many terms each, with equal indices but for those of the key

  Expr renamed(std::size_t part, const Expr& e) const { return ir::substitute(e, names_[part]); }
  std::vector<Expr> indices_of(std::size_t part) const {
    std::vector<Expr> list;
    for (const Expr& index : parts_[part].scatter.sum->indices) list.push_back(renamed(part, index));
    return list;
  }
  bool differ_in_keys_only(std::size_t a, std::size_t b) const {
    const std::vector<std::size_t>& dims = parts_[a].scatter.dims;
    if (dims != parts_[b].scatter.dims) return false;
    const std::vector<Expr> one = indices_of(a), other = indices_of(b);
    for (std::size_t d = 0; d < one.size(); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end() && !ir::equal(one[d], other[d])) return false;
    return true;
  }

  /// One sort serves both as they are.
  bool are_at_a_distance(std::size_t a, std::size_t b) const {
    return key_distance(parts_[a].scatter, parts_[b].scatter, *same_loops(parts_[a], parts_[b])).has_value();
  }

  std::vector<Group> groups() const {
    std::vector<Group> all;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const auto found = std::find_if(
          all.begin(), all.end(), [&](const Group& group) { return ir::equal(indices_of(group[0]), indices_of(k)); });
      if (found == all.end()) all.push_back({k});
      else found->push_back(k);
    }
    return all;
  }
  std::vector<Set> sets() const {
    std::vector<Set> all;
    for (const Group& group : groups()) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const Set& set) {
        return set[0].size() == group.size() && differ_in_keys_only(set[0][0], group[0]) &&
               !are_at_a_distance(set[0][0], group[0]);
      });
      if (found == all.end()) all.push_back({group});
      else found->push_back(group);
    }
    return all;
  }

  /// What the parts of a set have, by the number of the group and that of the term in it; a missing one is `true`.
  template <class F>
  Expr together(const Set& set, const ir::Symbol& which, const ir::Symbol& term, const F& expression_of) const {
    std::vector<Expr> of_groups;
    for (const Group& group : set) {
      std::vector<Expr> of_terms;
      for (const std::size_t part : group) {
        const Expr e = expression_of(parts_[part]);
        of_terms.push_back(e ? renamed(part, e) : ir::bool_const(true));
      }
      of_groups.push_back(by_number(of_terms, ir::var(term)));
      if (!of_groups.back()) return {};
    }
    return by_number(of_groups, ir::var(which));
  }

  Stmt nest_of(const Set& set) const {
    const ir::Symbol which = ir::make_symbol("which"), term = ir::make_symbol("term");
    Stmt body = sum_of(set, which, term);
    if (!body) return {};
    const Part& first = parts_[set[0][0]];
    const ir::For* last = first.scatter.sequential.back();
    const auto numbered = [&](const ir::Symbol& number, std::size_t count) {
      if (count > 1)
        body = ir::for_loop(number, ir::int_const(0), ir::int_const(static_cast<std::int64_t>(count)), body,
                            ir::LoopMode::Forward, last->location);
    };
    numbered(term, set[0].size());
    for (std::size_t k = first.loops.size(); k-- > 0;) {
      if (first.loops[k] == last) numbered(which, set.size());
      body = with_body(*parts_[0].loops[k], body);
    }
    return body;
  }

  /// The sums of a set as one; null where their types differ.
  Stmt sum_of(const Set& set, const ir::Symbol& which, const ir::Symbol& term) const {
    const auto all = [&](const auto& expression_of) { return together(set, which, term, expression_of); };
    const ir::Reduce& first = *parts_[set[0][0]].scatter.sum;
    std::vector<Expr> places;
    for (std::size_t d = 0; d < first.indices.size(); ++d) {
      places.push_back(all([&](const Part& part) { return part.scatter.sum->indices[d]; }));
      if (!places.back()) return {};
    }
    Expr value;
    if (first.fused) {  // a product at its top
      const Expr a = all([](const Part& part) { return ir::product_of(part.scatter.sum->value)->a; });
      const Expr b = all([](const Part& part) { return ir::product_of(part.scatter.sum->value)->b; });
      value = a && b ? a * b : Expr();
    } else {
      value = all([](const Part& part) { return part.scatter.sum->value; });
    }
    if (!value) return {};
    const Stmt sum = ir::reduce_like(first, first.array, std::move(places), value);
    const Expr condition = all([](const Part& part) { return part.condition; });
    return ir::if_then(condition, sum, {}, first.location);
  }

  const std::vector<Part> parts_;
  std::vector<ir::Substitution> names_;
};

/// Neighbours with equal loops from `first` on, in any order the same.
std::vector<Part> run_of(const ir::Program& program, const std::vector<Stmt>& body, std::size_t first) {
  std::vector<Part> run;
  for (std::size_t next = first; next < body.size() && run.size() < longest_run; ++next) {
    auto part = part_of(program, body[next]);
    if (!part || (!run.empty() && !same_loops(run[0], *part))) break;
    if (!std::all_of(run.begin(), run.end(),
                     [&](const Part& other) { return are_independent(other.scatter, part->scatter); }))
      break;
    run.push_back(std::move(*part));
  }
  return run;
}

/// By the array that they add to, each of the run's parts, in the order of the first of them.
std::vector<std::vector<std::size_t>> by_target(const std::vector<Part>& run) {
  std::vector<std::vector<std::size_t>> result;
  for (std::size_t k = 0; k < run.size(); ++k) {
    const auto found = std::find_if(result.begin(), result.end(), [&](const std::vector<std::size_t>& all) {
      return all.size() < most_joined && same_sums(*run[all[0]].scatter.sum, *run[k].scatter.sum);
    });
    if (found == result.end()) result.push_back({k});
    else found->push_back(k);
  }
  return result;
}

std::vector<Stmt> with_joined(const ir::Program& program, const std::vector<Stmt>& body) {
  std::vector<Stmt> result;
  for (std::size_t k = 0; k < body.size();) {
    const std::vector<Part> run = run_of(program, body, k);
    if (run.size() < 2) {
      result.push_back(body[k++]);
      continue;
    }
    for (const std::vector<std::size_t>& numbers : by_target(run)) {
      std::vector<Part> parts;
      for (const std::size_t number : numbers) parts.push_back(run[number]);
      std::vector<Stmt> nests = numbers.size() > 1 ? Parts(std::move(parts)).nests(program) : std::vector<Stmt>();
      if (nests.empty())
        for (const std::size_t number : numbers) nests.push_back(body[k + number]);
      result.insert(result.end(), nests.begin(), nests.end());
    }
    k += run.size();
  }
  return result;
}

}  // namespace

Expr by_number(const std::vector<Expr>& list, const Expr& number) {
  if (std::any_of(list.begin(), list.end(), [&](const Expr& e) { return e.type() != list[0].type(); })) return {};
  if (all_equal(list)) return list[0];
  if (const Expr steps = progression(list, number)) return steps;
  if (const Expr same = alike(list, number)) return same;
  Expr result = list.back();
  for (std::size_t k = list.size() - 1; k-- > 0;)
    result = ir::select(ir::binary(BinaryOp::Eq, number, ir::int_const(static_cast<std::int64_t>(k))), list[k], result);
  return result;
}

ir::Program join_scatters(const ir::Program& program) {
  const ir::StmtRewrite join = [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* block = s.as<ir::Block>();
    if (!block) return std::nullopt;
    std::vector<Stmt> body = with_joined(program, block->body);
    for (Stmt& child : body)
      if (!scatter_in(program, child)) child = ir::rewrite(child, {}, join);
    return ir::block(std::move(body));
  };
  return ir::with_body(program, ir::rewrite(program.body, {}, join));
}

}  // namespace loopgrad::transforms
