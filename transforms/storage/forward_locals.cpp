#include "transforms/storage/forward_locals.h"

#include "dsl/ir/queries.h"
#include "dsl/poly/dataflow.h"
#include "dsl/poly/dependences.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <map>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

// Computing a value again may cost this many operations and loads.
constexpr int cheap = 16;
constexpr int cheaper_than_pairs = 256;  // where it would be kept for all pairs of entries of rows, or of neighbours
constexpr int rounds = 8;                // locals set from locals set from locals ...

bool is_costly(const Expr& e) {
  if (auto* node = e.as<ir::Unary>()) {
    return node->op != ir::UnaryOp::Neg && node->op != ir::UnaryOp::Not && node->op != ir::UnaryOp::Abs;
  }
  auto* node = e.as<ir::Binary>();
  return node && (node->op == ir::BinaryOp::Pow || node->op == ir::BinaryOp::Atan2);
}

bool is_cheap(const Expr& e, int most, bool costly_too) {
  int nodes = 0;
  bool costly = false;
  ir::walk(e, [&](const Expr& child) {
    ++nodes;
    costly = costly || is_costly(child);
  });
  return (costly_too || !costly) && nodes <= 2 * most;
}

// Another element costs no more to read than the local.
bool is_free(const Expr& e) {
  int loads = 0;
  ir::walk(e, [&](const Expr& child) { loads += child.kind() == ir::Kind::Load; });
  return e.kind() == ir::Kind::Load && loads == 1;
}

// Neither data nor quotients.
bool is_linear(const Expr& index) {
  bool linear = true;
  ir::walk(index, [&](const Expr& e) {
    const auto* both = e.as<ir::Binary>();
    linear &=
        e.kind() != ir::Kind::Load && (!both || (both->op != ir::BinaryOp::FloorDiv && both->op != ir::BinaryOp::Mod));
  });
  return linear;
}

// The statements around `target` within `s` that decide whether and how often it is executed.
bool find_path(const Stmt& s, const Stmt& target, std::vector<const ir::StmtNode*>& path) {
  if (!s) return false;
  if (s.get() == target.get()) return true;
  bool decides = s.kind() == ir::Kind::For || s.kind() == ir::Kind::While || s.kind() == ir::Kind::If;
  // The two sides of an If are told apart by their bodies.
  bool found = false;
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                       [&](const Stmt& child) {
                                         if (found) return;
                                         if (decides) path.push_back(child.get());
                                         found = find_path(child, target, path);
                                         if (!found && decides) path.pop_back();
                                       }});
  return found;
}

class Forwarder {
 public:
  Forwarder(const poly::Model& model, const Stmt& nest, const Stmt& sum)
      : model_(model), nest_(nest), sum_(sum), around_(surroundings(nest)) {
    find_path(nest, sum, path_);
    const std::vector<Stmt>& around = around_.at(sum.get());
    const auto rows = std::count_if(around.begin(), around.end(), [](const Stmt& s) {
      const auto* loop = s.as<ir::For>();
      return loop && ir::has_load(loop->lower);
    });
    const auto loops = static_cast<std::size_t>(
        std::count_if(around.begin(), around.end(), [](const Stmt& s) { return s.kind() == ir::Kind::For; }));
    const std::vector<Expr>& indices = sum.as<ir::Reduce>()->indices;
    costly_too_ = std::all_of(indices.begin(), indices.end(), is_linear) && loops > largest_rank() + 1;
    if (costly_too_ || rows > 1) most_ = cheaper_than_pairs;
    for (const LocalArray& local : locals_of(nest)) {
      // A 16-bit local rounds what it is given.
      bool keeps_value = value_type(local.array->type) == local.array->type;
      if (local.array->shape.empty() && keeps_value) scalars_.push_back(local.array);
    }
  }

  Stmt run() {
    const ir::Reduce& node = *sum_.as<ir::Reduce>();
    const Expr value = forwarded(node.value, false);
    std::vector<Expr> indices;
    bool changed = !value.same_as(node.value);
    for (const Expr& index : node.indices) {
      indices.push_back(forwarded(index, true));
      changed |= !indices.back().same_as(index);
    }
    return changed ? ir::reduce_like(node, node.array, std::move(indices), value) : sum_;
  }

 private:
  // Of arrays that the nest uses: what would be kept for each of the terms may be far larger than all of them.
  std::size_t largest_rank() const {
    std::size_t rank = 0;
    ir::walk(
        nest_,
        [&](const Stmt& s) {
          for_each_store(
              s, [&](const ir::Array& array, const std::vector<Expr>&) { rank = std::max(rank, array->shape.size()); });
        },
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) rank = std::max(rank, load->array->shape.size());
        });
    return rank;
  }

  // An index that is computed is kept, so that it is found once.
  Expr forwarded(Expr e, bool only_free) const {
    for (int round = 0; round < rounds; ++round) {
      Expr next = replaced(e, only_free);
      if (!only_free && !is_cheap(next, most_, costly_too_)) next = replaced(e, true);
      if (next.same_as(e)) break;
      e = next;
    }
    return e;
  }

  Expr replaced(const Expr& value, bool only_free) const {
    return ir::rewrite(value, [&](const Expr& e) -> std::optional<Expr> {
      auto* load = e.as<ir::Load>();
      std::optional<Expr> held = load ? repeated_value_of(load->array) : std::nullopt;
      return held && only_free && !is_free(*held) ? std::nullopt : held;
    });
  }

  // What the scalar local holds when the sum reads it.
  std::optional<Expr> value_of(const ir::Array& local) const {
    if (std::find(scalars_.begin(), scalars_.end(), local) == scalars_.end()) return std::nullopt;
    std::vector<const poly::Statement*> setters;
    for (const poly::Statement& s : model_.statements) {
      bool stores = false;
      for_each_store(s.stmt, [&](const ir::Array& array, const std::vector<Expr>&) { stores |= array == local; });
      if (stores) setters.push_back(&s);
    }
    if (setters.empty() || setters.size() > 2 || !setters[0]->stmt.as<ir::Assign>() || !always_before_sum(*setters[0]))
      return std::nullopt;
    const Expr value = setters[0]->stmt.as<ir::Assign>()->value;
    // What a loop further in adds to runs up from one iteration to the next.
    if (setters.size() == 2 && setters[0]->iterators.size() != setters[1]->iterators.size()) return std::nullopt;
    const std::optional<Expr> held = setters.size() == 1 ? value : value_with_second(value, *setters[1]);
    if (!held) return std::nullopt;
    for (const poly::Statement* setter : setters)
      for (const poly::Access& access : setter->accesses)
        if (access.kind == poly::AccessKind::Read && access.array != local && may_change(*setter, access))
          return std::nullopt;
    return held;
  }

  // The same where it is worth being had again for each term: what loops around the terms have in common, and an array
  // no larger than others would keep, has to be cheap.
  std::optional<Expr> repeated_value_of(const ir::Array& local) const {
    const std::optional<Expr> held = value_of(local);
    if (!held || !costly_too_) return held;
    const auto setter = std::find_if(model_.statements.begin(), model_.statements.end(), [&](const poly::Statement& s) {
      const auto* assign = s.stmt.as<ir::Assign>();
      return assign && assign->array == local;
    });
    const std::size_t loops = setter->iterators.size();
    if (loops == sum().iterators.size() || loops > largest_rank() + 1) return held;
    Expr all = *held;
    for (int round = 0; round < rounds; ++round)
      all = ir::rewrite(all, [&](const Expr& e) -> std::optional<Expr> {
        const auto* load = e.as<ir::Load>();
        return load ? value_of(load->array) : std::nullopt;
      });
    return is_cheap(all, cheap, false) ? held : std::nullopt;
  }

  // `t = value` and then `t += term`, in the same iteration, or `if condition: t += term`: a choice. Nullopt for
  // anything else.
  std::optional<Expr> value_with_second(const Expr& value, const poly::Statement& second) const {
    const auto* sum = second.stmt.as<ir::Reduce>();
    if (!sum || sum->op != ir::ReduceOp::Add || &second > &this->sum()) return std::nullopt;
    if (costly_too_ && always_before_sum(second) && !uses(sum->value, sum->array)) return added(value, sum->value);
    const ir::If* branch = nullptr;
    for (const Stmt& s : around_.at(second.stmt.get())) branch = s.as<ir::If>() ? s.as<ir::If>() : branch;
    if (!branch || branch->else_body) return std::nullopt;
    std::vector<const ir::StmtNode*> path;
    find_path(nest_, second.stmt, path);
    if (path.empty() || path.back() != branch->then_body.get()) return std::nullopt;
    path.pop_back();
    const bool is_in_iteration = path.size() <= path_.size() && std::equal(path.begin(), path.end(), path_.begin());
    if (!is_in_iteration || uses(sum->value, sum->array) || condition_may_change(*branch)) return std::nullopt;
    return ir::select(branch->condition, added(value, sum->value), value);
  }

  static Expr added(const Expr& value, const Expr& term) {
    const auto* start = value.as<ir::FloatConst>();
    return start && start->value == 0 ? term : value + term;
  }

  bool condition_may_change(const ir::If& branch) const {
    if (!ir::has_load(branch.condition)) return false;
    const auto header = std::find_if(model_.statements.begin(), model_.statements.end(),
                                     [&](const poly::Statement& s) { return s.stmt.get() == &branch; });
    return header == model_.statements.end() ||
           std::any_of(header->accesses.begin(), header->accesses.end(),
                       [&](const poly::Access& read) { return may_change(*header, read); });
  }

  const poly::Statement& sum() const { return model_.statements[static_cast<std::size_t>(number_of_sum())]; }

  int number_of_sum() const {
    for (std::size_t k = 0; k < model_.statements.size(); ++k) {
      if (model_.statements[k].stmt.get() == sum_.get()) return static_cast<int>(k);
    }
    throw InternalError("a sum is missing in the model of its nest");
  }

  // The setter runs in every iteration of the loops around it that runs the sum, and earlier: its path is a part of the
  // sum's, and statements are numbered in textual order.
  bool always_before_sum(const poly::Statement& setter) const {
    if (&setter > &sum()) return false;
    std::vector<const ir::StmtNode*> path;
    find_path(nest_, setter.stmt, path);
    return path.size() <= path_.size() && std::equal(path.begin(), path.end(), path_.begin());
  }

  // Whether an element that the setter reads may be written before the sum of the same iteration.
  bool may_change(const poly::Statement& setter, const poly::Access& read) const {
    return poly::ask(model_, true, [&] {
      isl_map* same = poly::unrelated_pairs(setter, sum(), true).release();
      for (int k = 0; k < static_cast<int>(setter.iterators.size()); ++k) {
        same = isl_map_equate(same, isl_dim_in, k, isl_dim_out, k);
      }
      isl::map same_iteration = poly::checked(*model_.context, same);
      auto number = [&](const poly::Statement& s) { return static_cast<int>(&s - model_.statements.data()); };
      for (const poly::Statement& writer : model_.statements) {
        for (const poly::Access& write : writer.accesses) {
          if (write.kind == poly::AccessKind::Read) continue;
          if (write.array != read.array && model_.aliases.empty()) continue;
          isl::map touched = poly::touching_pairs(model_, setter, read, writer, write);
          if (touched.is_empty()) continue;
          touched = touched.intersect(poly::executed_before(model_, number(setter), number(writer)));
          isl::map then = touched.apply_range(poly::executed_before(model_, number(writer), number_of_sum()));
          if (!then.intersect(same_iteration).is_empty()) return true;
        }
      }
      return false;
    });
  }

  const poly::Model& model_;
  const Stmt& nest_;
  const Stmt& sum_;
  const std::map<const ir::StmtNode*, std::vector<Stmt>> around_;
  int most_ = cheap;
  bool costly_too_ = false;
  std::vector<const ir::StmtNode*> path_;
  std::vector<ir::Array> scalars_;
};

}  // namespace

Stmt forward_locals(const poly::Model& model, const Stmt& nest, const Stmt& sum) {
  return Forwarder(model, nest, sum).run();
}

}  // namespace loopgrad::transforms
