#include "dsl/poly/dataflow.h"

namespace loopgrad::poly {
namespace {

enum class Order { Before, After, SameOrAfter };

bool writes(const Access& access) { return access.kind != AccessKind::Read; }

/// Pairs of times (t1, t2) in the given order.
isl::map time_order(const isl::space& time, Order order) {
  switch (order) {
    case Order::Before: return isl::manage(isl_map_lex_gt(time.copy()));
    case Order::After: return isl::manage(isl_map_lex_lt(time.copy()));
    case Order::SameOrAfter: return isl::manage(isl_map_lex_le(time.copy()));
  }
  throw InternalError("unknown order");
}

/// Whether two accesses may touch one element, the second at a time in `order` relative to the first.
bool touch(const Model& model, const Statement& first, const Access& a, const Statement& second, const Access& b,
           Order order) {
  isl::map pairs = touching_pairs(model, first, a, second, b);
  pairs = pairs.intersect_domain(first.domain).intersect_range(second.domain);
  pairs = pairs.intersect(possible_pairs(first, second)).intersect_params(model.assumptions);
  if (pairs.is_empty()) return false;
  pairs = pairs.apply_domain(first.schedule).apply_range(second.schedule);
  return !pairs.intersect(time_order(first.schedule.space().range(), order)).is_empty();
}

/// Whether some write conflicts with `access`, at a time in `order` relative to it.
bool conflicts(const Model& model, int index, const Access& access, Order order) {
  for (const Statement& other : model.statements) {
    for (const Access& write : other.accesses) {
      if (!writes(write) || (write.array != access.array && model.aliases.empty())) continue;
      if (touch(model, model.statements[index], access, other, write, order)) return true;
    }
  }
  return false;
}

/// Whether the element that is read is an exact function of the instance (its domain need not be exact).
bool subscripts_are_exact(const Model& model, const Statement& statement, const Access& read) {
  if (read.exact) return true;
  if (statement.exact) return false;
  const Scope scope{model.context, statement.iterators, statement.name};
  for (const ir::Expr& index : read.indices) {
    if (!to_pw_aff(index, scope)) return false;
  }
  return true;
}

}  // namespace

bool may_be_overwritten(const Model& model, int index, const Access& access) {
  return guarded([&] { return conflicts(model, index, access, Order::SameOrAfter); });
}

bool may_be_written_before(const Model& model, int index, const Access& access) {
  return guarded([&] { return conflicts(model, index, access, Order::Before); });
}

bool may_be_written_after(const Model& model, int index, const Access& access) {
  return guarded([&] { return conflicts(model, index, access, Order::After); });
}

bool may_follow(const Model& model, int first_index, const Access& first, int second_index, const Access& second) {
  return guarded([&] {
    return touch(model, model.statements[first_index], first, model.statements[second_index], second, Order::After);
  });
}

Dataflow last_writes(const Model& model, int reader, const Access& read) {
  return guarded([&]() -> Dataflow {
    const Statement& sink = model.statements[reader];
    if (!subscripts_are_exact(model, sink, read) || !model.aliases.empty()) return {};
    isl::union_map sources = isl::union_map::empty(model.context->isl());
    isl::union_map schedule(sink.schedule.intersect_domain(sink.domain));
    for (const Statement& s : model.statements) {
      for (const Access& a : s.accesses) {
        if (!writes(a) || a.array != read.array) continue;
        if (!a.exact || !s.exact) {
          // What is written later, or elsewhere, is not what is read.
          if (touch(model, sink, read, s, a, Order::Before)) return {};
          continue;
        }
        sources = sources.unite(isl::union_map(a.relation.intersect_domain(s.domain)));
        schedule = schedule.unite(isl::union_map(s.schedule.intersect_domain(s.domain)));
      }
    }
    const isl::union_access_info info =
        isl::union_access_info(isl::union_map(read.relation.intersect_domain(sink.domain)))
            .set_must_source(sources)
            .set_schedule_map(schedule);
    const isl::union_flow flow = info.compute_flow();

    Dataflow result{true, {}};
    const isl::union_map producers = flow.must_dependence();  // writer instance -> reader instance
    for (int w = 0; w < static_cast<int>(model.statements.size()); ++w) {
      const Statement& source = model.statements[w];
      const isl::union_map from_here = producers.intersect_domain(isl::union_set(source.domain));
      if (from_here.is_empty()) continue;
      const isl::map instance = from_here.reverse().as_map().intersect_params(model.assumptions).coalesce();
      if (instance.is_empty()) continue;
      if (!instance.is_single_valued()) return {};
      result.sources.push_back({w, instance, instance.domain()});
    }
    const isl::union_map from_entry = flow.must_no_source().intersect_params(model.assumptions);
    if (!from_entry.is_empty()) {
      const isl::map reads = from_entry.as_map();
      result.sources.push_back({-1, reads, reads.domain().coalesce()});
    }
    return result;
  });
}

}  // namespace loopgrad::poly
