#include "dsl/frontend/shared_values.h"

#include "dsl/frontend/expression_graph.h"
#include "dsl/ir/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace loopgrad::ir {

namespace {

constexpr int deepest = 64;  // operations on top of each other in one statement
constexpr int steep = 4;     // what an operation counts whose derivative holds its operands: that is quadratic in depth
constexpr double largest = 1024;        // nodes in one statement
constexpr double worth_a_name = 64;     // nodes of a shared value that may be an index
constexpr double worth_a_branch = 256;  // nodes of a shared value that is not always needed
constexpr double small_tree = 32;       // nodes
constexpr std::size_t most_terms = 8;

/// An expression of the result, with its size.
struct Part {
  Expr e;
  double size = 1;
  int depth = 1;
};

/// constant + sum of coefficient * term, of type i64. Wraps, as the generated code does.
struct IntegerSum {
  std::vector<std::pair<Part, std::uint64_t>> terms;
  std::uint64_t constant = 0;

  bool add(const IntegerSum& other, std::uint64_t factor) {
    constant += factor * other.constant;
    for (const auto& [part, coefficient] : other.terms) {
      const auto* symbol = part.e.as<Var>();
      const auto same = std::find_if(terms.begin(), terms.end(), [&](const auto& term) {
        const auto* other_symbol = term.first.e.template as<Var>();
        return term.first.e.same_as(part.e) || (symbol && other_symbol && symbol->symbol == other_symbol->symbol);
      });
      if (same == terms.end()) terms.emplace_back(part, factor * coefficient);
      else same->second += factor * coefficient;
    }
    std::erase_if(terms, [](const auto& term) { return term.second == 0; });
    return terms.size() <= most_terms;
  }

  Part part() const {
    Part result;
    for (const auto& [term, coefficient] : terms) {
      Part next = term;
      if (coefficient != 1)
        next = {int_const(static_cast<std::int64_t>(coefficient)) * term.e, term.size + 2, term.depth + 1};
      result = result.e ? Part{result.e + next.e, result.size + next.size + 1, std::max(result.depth, next.depth) + 1}
                        : next;
    }
    const Expr last = int_const(static_cast<std::int64_t>(constant));
    if (!result.e) return {last, 1, 1};
    return constant == 0 ? result : Part{result.e + last, result.size + 2, result.depth + 1};
  }
};

int steps_of(const Expr& e) {
  const auto* two = e.as<Binary>();
  const bool linear = two && (two->op == BinaryOp::Add || two->op == BinaryOp::Sub);
  return is_float(e.type()) && !linear && (two || e.kind() == Kind::Unary) ? steep : 1;
}

/// Gives a node other operands.
class Operands final : public Rewriter {
 public:
  explicit Operands(const std::function<const Part&(const Expr&)>& part_of) : part_of_(part_of) {}
  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override { return part_of_(e).e; }
  Expr of(const Expr& e) { return rewrite_children(e); }

 private:
  const std::function<const Part&(const Expr&)>& part_of_;
};

/// Goes through the nodes, operands first and without recursion, and emits locals as soon as they can be evaluated.
class Splitter {
 public:
  using Wanted = std::function<bool(const Expr&)>;
  Splitter(const ExpressionGraph& graph, const KnownValues& known, SourceLocation where, bool with_names,
           const Wanted& wanted = {})
      : graph_(graph), known_(known), where_(where), with_names_(with_names), wanted_(wanted) {
    const auto nodes = static_cast<std::size_t>(graph.size());
    parts_.resize(nodes);
    sums_.resize(nodes);
    is_open_.resize(nodes);
    guards_.resize(static_cast<std::size_t>(graph.regions()));
    guards_[0].state = Guard::Known;
  }

  SharedValues split() {
    work_.push_back({false, graph_.root()});
    while (!work_.empty()) {
      const Task task = work_.back();
      if (task.is_guard ? step_of_guard(task) : step_of_node(task)) work_.pop_back();
    }
    result_.result = parts_.back()->e;
    result_.largest = std::max(result_.largest, parts_.back()->size);
    return std::move(result_);
  }

 private:
  struct Task {
    bool is_guard;
    int number;
    int step = 0;
  };
  struct Guard {
    enum State { Unknown, Open, Known, Impossible } state = Unknown;
    Part part;  // null expression: always
  };

  static std::size_t at(int k) { return static_cast<std::size_t>(k); }
  const std::optional<Part>& part(int n) const { return parts_[at(n)]; }

  void demand(int n) {
    if (!part(n) && !is_open_[at(n)]) work_.push_back({false, n});
  }

  // True when the task is done. A node whose operands wait for it (through a guard) is left for later.
  bool step_of_node(const Task& task) {
    const int n = task.number;
    const auto& operands = graph_.node(n).operands;
    if (task.step == 0) {
      if (part(n)) return true;
      is_open_[at(n)] = true;
      work_.back().step = 1;
      std::for_each(operands.rbegin(), operands.rend(), [&](int k) { demand(k); });
      return false;
    }
    if (task.step == 1) {
      is_open_[at(n)] = std::all_of(operands.begin(), operands.end(), [&](int k) { return part(k).has_value(); });
      if (!is_open_[at(n)]) return true;
      build(n);
      if (!with_names_ || !deserves_name(n)) return true;
      work_.back().step = 2;
      const int region = graph_.node(n).region;
      if (guards_[at(region)].state == Guard::Unknown) {
        work_.push_back({true, region});
        return false;
      }
    }
    const Guard& guard = guards_[at(graph_.node(n).region)];
    if (guard.state != Guard::Known) return true;  // evaluated where it is used
    parts_[at(n)] = named(*part(n), guard.part.e, guard.part.e ? Expr() : graph_.node(n).e);
    if (graph_.node(n).tree >= worth_a_name) result_.locals.back().is_large = !guard.part.e;
    sums_[at(n)] = term(*part(n));
    return true;
  }

  bool step_of_guard(const Task& task) {
    const Region& region = graph_.region(task.number);
    Guard& guard = guards_[at(task.number)];
    std::vector<int> needed = region.members;
    if (region.condition >= 0) needed.push_back(region.parent);
    if (task.step == 0) {
      if (guard.state != Guard::Unknown) return true;
      guard.state = Guard::Open;
      work_.back().step = 1;
      if (region.condition >= 0) demand(region.condition);
      for (int r : needed)
        if (guards_[at(r)].state == Guard::Unknown) work_.push_back({true, r});
      return false;
    }
    const bool possible =
        !needed.empty() && (region.condition < 0 || part(region.condition)) &&
        std::all_of(needed.begin(), needed.end(), [&](int r) { return guards_[at(r)].state == Guard::Known; });
    guard.state = possible ? Guard::Known : Guard::Impossible;
    if (!possible) return true;
    if (region.condition >= 0) {
      Part condition = *part(region.condition);
      if (region.negated) condition = {unary(UnaryOp::Not, condition.e), condition.size + 1, condition.depth + 1};
      guard.part = both(BinaryOp::And, guards_[at(region.parent)].part, condition);
    } else {
      for (int r : region.members) guard.part = both(BinaryOp::Or, guard.part, guards_[at(r)].part);
    }
    if (guard.part.size >= worth_a_name / 2) guard.part = named(guard.part, {}, {});
    return true;
  }

  static Part both(BinaryOp op, const Part& a, const Part& b) {
    if (!a.e) return b;
    return {binary(op, a.e, b.e), a.size + b.size + 1, std::max(a.depth, b.depth) + 1};
  }

  void build(int n) {
    const Expr& e = graph_.node(n).e;
    if (const Expr local = known_ ? known_(e) : Expr()) {
      parts_[at(n)] = Part{local};
      sums_[at(n)] = term(*part(n));
      return;
    }
    Part result;
    const int steps = steps_of(e);
    const std::function<const Part&(const Expr&)> part_of = [&](const Expr& operand) -> const Part& {
      const Part& known = *part(graph_.number_of(operand));
      result.size += known.size;
      result.depth = std::max(result.depth, known.depth + steps);
      return known;
    };
    result.e = Operands(part_of).of(e);
    sums_[at(n)] = result.e.type() == ScalarType::I64 ? sum(e, result) : IntegerSum();
    if (result.e.type() == ScalarType::I64) {
      Part collected = sums_[at(n)].part();
      if (2 * collected.size <= result.size) result = std::move(collected);
    }
    parts_[at(n)] = std::move(result);
  }

  static IntegerSum term(const Part& part) {
    IntegerSum result;
    if (const auto value = as_int(part.e)) result.constant = static_cast<std::uint64_t>(*value);
    else result.terms.emplace_back(part, 1);
    return result;
  }

  /// The operation `e`, which is `part` now, as a sum: of a single term when it is none, or one of too many terms.
  IntegerSum sum(const Expr& e, const Part& part) {
    const auto of = [&](const Expr& operand) -> const IntegerSum& { return sums_[at(graph_.number_of(operand))]; };
    IntegerSum result;
    bool fits = false;
    if (const auto* n = e.as<Unary>(); n && n->op == UnaryOp::Neg) fits = result.add(of(n->a), ~std::uint64_t{0});
    if (const auto* n = e.as<Binary>()) {
      if (n->op == BinaryOp::Add || n->op == BinaryOp::Sub) {
        fits = result.add(of(n->a), 1) && result.add(of(n->b), n->op == BinaryOp::Add ? 1 : ~std::uint64_t{0});
      } else if (n->op == BinaryOp::Mul) {
        const IntegerSum &a = of(n->a), &b = of(n->b);
        if (b.terms.empty()) fits = result.add(a, b.constant);
        else if (a.terms.empty()) fits = result.add(b, a.constant);
      }
    }
    return fits ? result : term(part);
  }

  bool deserves_name(int n) const {
    const ExpressionGraph::Node& node = graph_.node(n);
    const Part& now = *part(n);
    if (n == graph_.root() || now.size < 2) return false;
    if (is_wanted(n)) return true;
    if (now.depth >= deepest || now.size >= largest) return true;
    if (node.parents < 2) return false;
    if (now.size >= (node.region == 0 ? worth_a_name : worth_a_branch)) return true;
    return is_float(now.e.type()) && node.region == 0 && node.tree >= ExpressionGraph::least_tree;
  }

  bool is_wanted(int n) const {
    const ExpressionGraph::Node& node = graph_.node(n);
    return wanted_ && node.tree >= ExpressionGraph::least_tree && wanted_(node.e);
  }

  Part named(const Part& value, const Expr& guard, const Expr& of) {
    const std::string name = fmt::format("value{}", result_.locals.size());
    const Array local = make_array(name, value.e.type(), {}, ArrayRole::Local, where_);
    result_.locals.push_back({local, value.e, guard, of, false});
    result_.largest = std::max(result_.largest, value.size);
    return {load(local, {}, where_), 1, 1};
  }

  const ExpressionGraph& graph_;
  const KnownValues& known_;
  SourceLocation where_;
  bool with_names_;
  Wanted wanted_;
  SharedValues result_;
  std::vector<Task> work_;
  std::vector<std::optional<Part>> parts_;  // of finished nodes
  std::vector<IntegerSum> sums_;            // of finished nodes of type i64
  std::vector<bool> is_open_;
  std::vector<Guard> guards_;  // of regions
};

}  // namespace

SharedValues name_shared_values(const Expr& value, SourceLocation where, const KnownValues& known,
                                double largest_tree) {
  bool uses_known = false;
  const ExpressionGraph graph(value, [&](const Expr& e) {
    const bool leaf = known && known(e);
    uses_known |= leaf;
    return leaf;
  });
  if (graph.node(graph.root()).tree <= largest_tree && !uses_known)
    return {.locals = {}, .result = value, .largest = largest_tree};
  return Splitter(graph, known, where, true).split();
}

SharedValues name_wanted_values(const Expr& value, SourceLocation where, const KnownValues& known,
                                const std::function<bool(const Expr&)>& wanted) {
  const ExpressionGraph graph(value, [&](const Expr& e) { return known && known(e); });
  return Splitter(graph, known, where, true, wanted).split();
}

Expr collect_large_sums(const Expr& value) {
  const ExpressionGraph graph(value, [](const Expr&) { return false; });
  if (graph.node(graph.root()).tree <= small_tree) return value;
  const KnownValues none;
  return Splitter(graph, none, {}, false).split().result;
}

}  // namespace loopgrad::ir
