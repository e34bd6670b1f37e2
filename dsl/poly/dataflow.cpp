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

/// Whether some write of the array conflicts with `access`, at a time in `order` relative to it.
bool conflicts(const Model& model, int index, const Access& access, Order order) {
  const Statement& subject = model.statements[index];
  const isl::map own = access.relation.intersect_domain(subject.domain);
  for (const Statement& other : model.statements) {
    for (const Access& write : other.accesses) {
      if (!writes(write) || write.array != access.array) continue;
      const isl::map theirs = write.relation.intersect_domain(other.domain);
      isl::map pairs = own.apply_range(theirs.reverse());  // own instance -> their instance, one element
      pairs = pairs.apply_domain(subject.schedule).apply_range(other.schedule);
      if (!pairs.intersect(time_order(subject.schedule.space().range(), order)).is_empty()) return true;
    }
  }
  return false;
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

Dataflow last_writes(const Model& model, int reader, const Access& read) {
  return guarded([&]() -> Dataflow {
    const Statement& sink = model.statements[reader];
    if (!read.exact) return {};
    isl::union_map sources = isl::union_map::empty(model.context->isl());
    isl::union_map schedule(sink.schedule.intersect_domain(sink.domain));
    for (const Statement& s : model.statements) {
      for (const Access& a : s.accesses) {
        if (!writes(a) || a.array != read.array) continue;
        if (!a.exact || !s.exact) return {};
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
      const isl::map instance = from_here.reverse().as_map().coalesce();
      if (!instance.is_single_valued()) return {};
      result.sources.push_back({w, instance, instance.domain()});
    }
    const isl::union_map from_entry = flow.must_no_source();
    if (!from_entry.is_empty()) result.sources.push_back({-1, {}, from_entry.as_map().domain().coalesce()});
    return result;
  });
}

}  // namespace loopgrad::poly
