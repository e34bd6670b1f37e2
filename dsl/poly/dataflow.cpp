#include "dsl/poly/dataflow.h"

#include "dsl/poly/coalesced.h"
#include "dsl/poly/dependences.h"
#include "dsl/poly/intersections.h"

#include <isl/flow.h>

#include <algorithm>

namespace loopgrad::poly {
namespace {

enum class Order { Before, After, SameOrAfter };

bool writes(const Access& access) { return access.kind != AccessKind::Read; }

/// Whether two accesses may touch one element, the second at a time in `order` relative to the first.
bool touch(const Model& model, int first, const Access& a, int second, const Access& b, Order order) {
  if (are_in_different_planes(a, b)) return false;
  const Statement &s = model.statements[first], &t = model.statements[second];
  isl::map pairs = with_range(with_domain(touching_pairs(model, s, a, t, b), s.domain), t.domain);
  pairs = with_parameters(intersection(pairs, possible_pairs(s, t)), model.assumptions);
  if (pairs.is_empty()) return false;
  const auto some_are = [&](const isl::map& related) { return !intersection(pairs, related).is_empty(); };
  if (order == Order::Before) {
    const auto orders = execution_orders(model, second, first);
    return std::any_of(orders.begin(), orders.end(),
                       [&](const isl::map& before) { return some_are(before.reverse()); });
  }
  if (order == Order::SameOrAfter && first == second &&
      some_are(isl::manage(isl_map_identity(pairs.space().release()))))
    return true;
  const auto orders = execution_orders(model, first, second);
  return std::any_of(orders.begin(), orders.end(), some_are);
}

/// Whether some write conflicts with `access`, at a time in `order` relative to it. The one that does is most often
/// near, on the side that `order` says, so those are asked first: in a long program each question about all of them
/// counts.
bool conflicts(const Model& model, int index, const Access& access, Order order) {
  const auto conflicts_at = [&](int other) {
    const auto& accesses = model.statements[other].accesses;
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& write) {
      if (!writes(write) || (write.array != access.array && model.aliases.empty())) return false;
      return touch(model, index, access, other, write, order);
    });
  };
  const int count = static_cast<int>(model.statements.size()), step = order == Order::Before ? -1 : 1;
  for (int other = index; other >= 0 && other < count; other += step)
    if (conflicts_at(other)) return true;
  for (int other = index - step; other >= 0 && other < count; other -= step)
    if (common_loops(model.statements[index], model.statements[other]) > 0 && conflicts_at(other)) return true;
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

/// One question to isl: which instances of some exact writers did the instances of a read get their values from?
/// isl takes the order of instances of one statement to be that of their iterators, and asks how two statements share
/// loops; so iterators of backward loops are negated on the way in and on the way out.
class Flow {
 public:
  Flow(const Model& model, const Statement& reader, const Access& read) : context_(*model.context), reader_(reader) {
    isl_map* sink = forward_domain(read.relation, reader).release();
    const auto most = static_cast<int>(model.statements.size());
    info_.reset(isl_access_info_alloc(sink, user(reader), level, most));
  }

  /// Writers come in textual order, each at most once.
  void add_writer(const Statement& s, const Access& write) {
    isl::map source = forward_domain(write.relation, s);
    info_.reset(isl_access_info_add_source(info_.release(), source.release(), 1, user(s)));
  }

  void compute() {
    flow_.reset(isl_access_info_compute_flow(info_.release()));
    if (!flow_ || isl_flow_foreach(flow_.get(), collect, &found_) < 0) isl::exception::throw_last_error(context_.isl());
  }

  /// Reader instance -> instance of `s`; nothing when no instance of it was the last writer.
  std::optional<isl::map> written_by(const Statement& s) const {
    std::optional<isl::map> pairs;
    for (const auto& [writer, some] : found_) {
      if (writer == &s) pairs = pairs ? pairs->unite(some) : some;
    }
    if (!pairs) return std::nullopt;
    return forward_domain(forward_domain(*pairs, s).reverse(), reader_);
  }

  /// Reader instance -> element, where nobody wrote it before.
  isl::map written_by_none() const {
    return forward_domain(checked(context_, isl_flow_get_no_source(flow_.get(), 1)), reader_);
  }

 private:
  struct Free {
    void operator()(isl_access_info* info) const { isl_access_info_free(info); }
    void operator()(isl_flow* flow) const { isl_flow_free(flow); }
  };
  using Found = std::vector<std::pair<const Statement*, isl::map>>;  // writer instance -> reader instance

  // isl hands it back to `level` and `collect`, which take it as const again.
  static void* user(const Statement& s) { return const_cast<Statement*>(&s); }

  static int level(void* first, void* second) {
    const auto *a = static_cast<const Statement*>(first), *b = static_cast<const Statement*>(second);
    const int shared = 2 * static_cast<int>(common_loops(*a, *b));
    return a < b ? shared + 1 : shared;  // statements are numbered in textual order
  }

  // Called from C, so nothing may be thrown.
  static isl_stat collect(isl_map* pairs, int, void* writer, void* found) noexcept {
    try {
      const isl::map owned = isl::manage(pairs);
      static_cast<Found*>(found)->emplace_back(static_cast<const Statement*>(writer), owned);
      return isl_stat_ok;
    } catch (const std::exception&) {  // out of memory
      return isl_stat_error;
    }
  }

  // `map` from instances of `s` with the iterators of backward loops negated; its own inverse.
  isl::map forward_domain(const isl::map& map, const Statement& s) const {
    isl_multi_aff* negated = isl_multi_aff_identity_on_domain_space(s.domain.space().release());
    bool backward = false;
    for (std::size_t k = 0; k < s.loops.size(); ++k) {
      auto* loop = s.loops[k].as<ir::For>();
      if (!loop || loop->mode != ir::LoopMode::Backward) continue;
      const auto dim = static_cast<int>(k);
      negated = isl_multi_aff_set_aff(negated, dim, isl_aff_neg(isl_multi_aff_get_aff(negated, dim)));
      backward = true;
    }
    const isl::multi_aff function = checked(context_, negated);
    return backward ? checked(context_, isl_map_preimage_domain_multi_aff(map.copy(), function.copy())) : map;
  }

  const Context& context_;
  const Statement& reader_;
  std::unique_ptr<isl_access_info, Free> info_;
  std::unique_ptr<isl_flow, Free> flow_;
  Found found_;
};

}  // namespace

bool may_be_overwritten(const Model& model, int index, const Access& access) {
  return guarded(*model.context, [&] { return conflicts(model, index, access, Order::SameOrAfter); });
}

bool may_be_written_before(const Model& model, int index, const Access& access) {
  return guarded(*model.context, [&] { return conflicts(model, index, access, Order::Before); });
}

bool may_be_written_after(const Model& model, int index, const Access& access) {
  return guarded(*model.context, [&] { return conflicts(model, index, access, Order::After); });
}

bool may_follow(const Model& model, int first_index, const Access& first, int second_index, const Access& second) {
  return guarded(*model.context, [&] { return touch(model, first_index, first, second_index, second, Order::After); });
}

Dataflow last_writes(const Model& model, int reader, const Access& read) {
  return guarded(*model.context, [&]() -> Dataflow {
    const Statement& sink = model.statements[reader];
    if (!subscripts_are_exact(model, sink, read) || !model.aliases.empty()) return {};
    Flow flow(model, sink, read);
    for (int w = 0; w < static_cast<int>(model.statements.size()); ++w) {
      const Statement& s = model.statements[w];
      if (w > reader && common_loops(s, sink) == 0) break;  // and all that follow come after the read
      for (const Access& a : s.accesses) {
        if (!writes(a) || a.array != read.array || are_in_different_planes(a, read)) continue;
        if (a.exact && s.exact) {
          flow.add_writer(s, a);
        } else if (touch(model, reader, read, w, a, Order::Before)) {
          return {};  // what is written later, or elsewhere, is not what is read
        }
      }
    }
    flow.compute();

    Dataflow result{true, {}};
    for (int w = 0; w < static_cast<int>(model.statements.size()); ++w) {
      const std::optional<isl::map> from_here = flow.written_by(model.statements[w]);
      if (!from_here) continue;
      const isl::map instance = coalesced(from_here->intersect_params(model.assumptions));
      if (instance.is_empty()) continue;
      if (!instance.is_single_valued()) return {};
      result.sources.push_back({w, instance, instance.domain()});
    }
    const isl::map from_entry = flow.written_by_none().intersect_params(model.assumptions);
    if (!from_entry.is_empty()) result.sources.push_back({-1, from_entry, coalesced(from_entry.domain())});
    return result;
  });
}

std::size_t deciding_loops(const Model& model, int reader, const Source& source) {
  return guarded(*model.context, [&] {
    const isl::set simple = coalesced(source.domain.gist(model.statements[reader].domain));
    std::size_t loops = model.statements[reader].iterators.size();
    const auto decides = [&](std::size_t loop) {
      return isl_set_involves_dims(simple.get(), isl_dim_set, static_cast<unsigned>(loop), 1) != isl_bool_false;
    };
    while (loops > 0 && !decides(loops - 1)) --loops;
    return loops;
  });
}

}  // namespace loopgrad::poly
