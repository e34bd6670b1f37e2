#include "dsl/poly/dependences.h"

#include "dsl/ir/notes.h"
#include "dsl/ir/queries.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/examples.h"
#include "dsl/poly/intersections.h"
#include "dsl/poly/separation.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::poly {

namespace {

bool uses_stack(const Statement& s) { return s.stmt.kind() == ir::Kind::Push || s.stmt.kind() == ir::Kind::Pop; }

bool is_sum(const Access& a, const Access& b) {
  return a.kind == AccessKind::Reduce && b.kind == AccessKind::Reduce && a.op == b.op && a.array == b.array;
}

isl::map all_pairs(const Model& model, const Statement& a, const Statement& b) {
  return checked(*model.context, isl_map_from_domain_and_range(a.domain.copy(), b.domain.copy()));
}

// Pairs of instances of a and b that agree in the iterators before `depth` and, with a direction, where a's iterator
// `depth` is smaller (Rising) or larger (Falling).
enum class Direction { Rising, Falling, None };

isl::map related_at(const Model& model, const Statement& a, const Statement& b, int depth, Direction direction) {
  isl_map* map = unrelated_pairs(a, b, true).release();
  for (int k = 0; k < depth; ++k) map = isl_map_equate(map, isl_dim_in, k, isl_dim_out, k);
  if (direction == Direction::Rising) map = isl_map_order_lt(map, isl_dim_in, depth, isl_dim_out, depth);
  if (direction == Direction::Falling) map = isl_map_order_gt(map, isl_dim_in, depth, isl_dim_out, depth);
  return checked(*model.context, map);
}

using Relations = std::vector<isl::map>;

// The number of `loop` among the loops around a statement, or -1.
int depth_of(const Statement& s, const ir::Stmt& loop) {
  for (std::size_t k = 0; k < s.loops.size(); ++k) {
    if (s.loops[k].get() == loop.get()) return static_cast<int>(k);
  }
  return -1;
}

// Collects the conflicts among instances of two statements that are in one of some relations.
class Collector {
 public:
  Collector(const Model& model, Search search) : model_(model), search_(search) {}

  // The first relation is about different iterations of the loop at `depth`, and so on for all loops around both
  // statements; one more is about their order in the text.
  template <class MakeOrders>  // returns Relations
  void collect(int first, int second, std::size_t depth, MakeOrders make_orders) {
    const Statement& s = model_.statements[static_cast<std::size_t>(first)];
    const Statement& t = model_.statements[static_cast<std::size_t>(second)];
    const std::size_t shared = common_loops(s, t);
    std::optional<Relations> orders;
    if (uses_stack(s) && uses_stack(t)) {
      orders = make_orders();
      for (const isl::map& order : *orders)
        if (!done_) add({first, second, nullptr, nullptr, false, all_pairs(model_, s, t)}, order);
    }
    for (const Access& a : s.accesses) {
      for (const Access& b : t.accesses) {
        if (a.kind == AccessKind::Read && b.kind == AccessKind::Read) continue;
        if (a.array != b.array && model_.aliases.empty()) continue;
        if (are_in_different_planes(a, b)) continue;
        if (is_sum(a, b) && (search_ == Search::SkipSums || (ir::is_order_free(s.stmt) && ir::is_order_free(t.stmt))))
          continue;
        if (!orders) orders = make_orders();
        isl::map touching;
        for (std::size_t k = 0; k < orders->size(); ++k) {
          if (done_) return;
          if (depth + k < shared && are_separated(model_, s, a, t, b, depth + k)) continue;
          if (touching.is_null()) touching = touching_pairs(model_, s, a, t, b);
          add({first, second, &a, &b, is_sum(a, b), touching}, (*orders)[k]);
        }
      }
    }
  }

  bool done() const { return done_; }
  std::vector<Conflict> take() { return std::move(conflicts_); }

 private:
  void add(Conflict conflict, const isl::map& order) {
    conflict.pairs = with_parameters(intersection(conflict.pairs, order), model_.assumptions);
    if (conflict.pairs.is_empty()) return;
    const Statement& s = model_.statements[static_cast<std::size_t>(conflict.first)];
    const Statement& t = model_.statements[static_cast<std::size_t>(conflict.second)];
    if (!s.entries.empty() && !t.entries.empty()) {
      conflict.pairs = coalesced(conflict.pairs.intersect(possible_pairs(s, t)));
      if (conflict.pairs.is_empty()) return;
    }
    done_ = search_ == Search::UntilAny || (search_ != Search::All && !conflict.sum);
    conflicts_.push_back(std::move(conflict));
  }

  const Model& model_;
  Search search_;
  std::vector<Conflict> conflicts_;
  bool done_ = false;
};

std::string access_text(const Statement& s, const Access* access) {
  return access ? element_text(access) + line_of(s, access) : element_text(access);
}

}  // namespace

std::vector<isl::map> execution_orders(const Model& model, int first, int second) {
  const Statement& a = model.statements[static_cast<std::size_t>(first)];
  const Statement& b = model.statements[static_cast<std::size_t>(second)];
  std::vector<isl::map> result;
  int depth = 0;
  auto limit = static_cast<int>(std::min(a.loops.size(), b.loops.size()));
  for (; depth < limit; ++depth) {
    const ir::Stmt& loop = a.loops[static_cast<std::size_t>(depth)];
    if (loop.get() != b.loops[static_cast<std::size_t>(depth)].get()) break;
    auto* node = loop.as<ir::For>();
    bool falling = node && node->mode == ir::LoopMode::Backward;
    result.push_back(related_at(model, a, b, depth, falling ? Direction::Falling : Direction::Rising));
  }
  // Statements are numbered in textual order.
  if (first < second) result.push_back(related_at(model, a, b, depth, Direction::None));
  return result;
}

std::vector<Conflict> dependences(const Model& model) {
  return guarded(*model.context, [&] {
    Collector collector(model, Search::All);
    auto n = static_cast<int>(model.statements.size());
    for (int first = 0; first < n; ++first) {
      for (int second = 0; second < n; ++second) {
        collector.collect(first, second, 0, [&] { return execution_orders(model, first, second); });
      }
    }
    return collector.take();
  });
}

std::vector<Conflict> dependences(const Model& model, int first, int second) {
  return guarded(*model.context, [&] {
    Collector collector(model, Search::All);
    collector.collect(first, second, 0, [&] { return execution_orders(model, first, second); });
    return collector.take();
  });
}

bool must_precede(const Model& model, int first, int second) {
  return guarded(*model.context, [&] {
    Collector collector(model, Search::SkipSums);
    collector.collect(first, second, 0, [&] { return execution_orders(model, first, second); });
    return collector.done();
  });
}

isl::map executed_before(const Model& model, int first, int second) {
  return guarded(*model.context, [&] {
    isl::map result = unrelated_pairs(model.statements[static_cast<std::size_t>(first)],
                                      model.statements[static_cast<std::size_t>(second)], false);
    for (const isl::map& order : execution_orders(model, first, second)) result = result.unite(order);
    return result;
  });
}

std::vector<Conflict> carried_by(const Model& model, const ir::Stmt& loop, Search search) {
  return guarded(*model.context, [&] {
    Collector collector(model, search);
    auto n = static_cast<int>(model.statements.size());
    for (int first = 0; first < n && !collector.done(); ++first) {
      const Statement& s = model.statements[static_cast<std::size_t>(first)];
      int depth = depth_of(s, loop);
      if (depth < 0) continue;
      for (int second = 0; second < n && !collector.done(); ++second) {
        const Statement& t = model.statements[static_cast<std::size_t>(second)];
        if (depth_of(t, loop) < 0) continue;
        collector.collect(first, second, static_cast<std::size_t>(depth),
                          [&] { return Relations{related_at(model, s, t, depth, Direction::Rising)}; });
      }
    }
    return collector.take();
  });
}

std::string witness(const Model& model, const Conflict& conflict) {
  return guarded(*model.context, [&]() -> std::string {
    const isl::set wrapped = conflict.pairs.wrap();
    const Example example = example_at(model, conflict, checked(*model.context, isl_set_sample_point(wrapped.copy())));
    const Statement& s = model.statements[static_cast<std::size_t>(conflict.first)];
    const Statement& t = model.statements[static_cast<std::size_t>(conflict.second)];
    auto differs = [&](std::size_t k) {
      return k >= s.iterators.size() || k >= t.iterators.size() || s.loops[k].get() != t.loops[k].get() ||
             example.first[k] != example.second[k];
    };
    auto shown = [&](const std::vector<ir::Symbol>& iterators, const std::vector<std::int64_t>& values) {
      std::string text;
      for (std::size_t k = 0; k < iterators.size(); ++k) {
        if (differs(k)) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", iterators[k].name, values[k]);
      }
      return text;
    };
    const std::string text = shown(s.iterators, example.first) + " and " + shown(t.iterators, example.second);
    return example.sizes.empty() ? text : text + " (" + example.sizes + ")";
  });
}

std::size_t common_loops(const Statement& a, const Statement& b) {
  std::size_t count = 0;
  while (count < a.loops.size() && count < b.loops.size() && a.loops[count].same_as(b.loops[count])) ++count;
  return count;
}

std::string describe(const Model& model, const Conflict& conflict) {
  std::string a = access_text(model.statements[static_cast<std::size_t>(conflict.first)], conflict.a);
  std::string b = access_text(model.statements[static_cast<std::size_t>(conflict.second)], conflict.b);
  // Where data or divisions bound a loop, an example could be of iterations that there are not.
  const auto is_known = [&](int statement) {
    return model.statements[static_cast<std::size_t>(statement)].exact_bounds;
  };
  const bool known = is_known(conflict.first) && is_known(conflict.second);
  const std::string where = known ? ", as for " + witness(model, conflict) : "";
  if (a == b) return fmt::format("{} may be one element in several iterations{}", a, where);
  return fmt::format("{} and {} may be the same element{}{}", a, b, known ? "" : " in different iterations", where);
}

}  // namespace loopgrad::poly
