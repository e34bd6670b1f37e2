#include "transforms/analysis/lifetimes.h"

#include "dsl/ir/queries.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/dependences.h"
#include "dsl/poly/intersections.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <map>
#include <set>

namespace loopgrad::transforms {

using poly::AccessKind;
using poly::Statement;

namespace {

bool stores(const poly::Access& access) { return access.kind != AccessKind::Read; }
bool reads(const poly::Access& access) { return access.kind != AccessKind::Write; }

bool is_in_order(const ir::Stmt& loop) {
  auto* node = loop.as<ir::For>();
  return node && node->mode != ir::LoopMode::Parallel;
}

// How far apart elements lie that are alive at once.
class Distances {
 public:
  // False when they are too many. In a space of one dimension.
  bool add(const isl::set& of_sizes) {
    const isl::set found = of_sizes.project_out_all_params();
    if (found.is_empty()) return true;
    const isl::val least = isl::manage(isl_set_dim_min_val(found.copy(), 0));
    const isl::val most = isl::manage(isl_set_dim_max_val(found.copy(), 0));
    if (!least.is_int() || !most.is_int()) return false;  // infinite
    if (std::max(-least.num_si(), most.num_si()) >= most_places) return false;
    for (long distance = least.num_si(); distance <= most.num_si(); ++distance) {
      const isl::set point = isl::manage(isl_set_fix_si(found.copy(), isl_dim_set, 0, static_cast<int>(distance)));
      if (!point.is_empty()) known_.insert(std::abs(distance));
    }
    return true;
  }

  void merge(const Distances& other) { known_.insert(other.known_.begin(), other.known_.end()); }
  bool has(std::int64_t distance) const { return distance == 0 || known_.count(std::abs(distance)) > 0; }

  std::int64_t least_modulus() const {
    std::int64_t modulus = 1;
    const auto collide = [&](std::int64_t distance) { return distance != 0 && distance % modulus == 0; };
    while (std::any_of(known_.begin(), known_.end(), collide)) ++modulus;
    return modulus;
  }

 private:
  std::set<std::int64_t> known_;
};

// One nest inside of the loops that time goes by: all that happens in it happens at once. Indices by iterators of these
// loops.
struct Nest {
  std::vector<int> statements;
  std::vector<ir::Stmt> loops;
  std::optional<isl::map> stored, read;
};

class Lifetimes {
 public:
  Lifetimes(const poly::Model& model, const ir::Array& array, std::size_t dimension)
      : model_(model), array_(array), dimension_(dimension) {
    find_loops();
    find_nests();
  }

  std::optional<Places> places() {
    for (const Nest& nest : nests_)
      if (nest.stored && !(add_other_nests(nest) && add_same_nest(nest))) return std::nullopt;
    apart_.merge(in_place_);
    return Places{apart_.least_modulus(), in_place_.least_modulus()};
  }

 private:
  template <class F>
  void for_each_access(F&& f) const {
    for (std::size_t k = 0; k < model_.statements.size(); ++k)
      for (const poly::Access& access : model_.statements[k].accesses)
        if (access.array == array_) f(static_cast<int>(k), access);
  }
  const Statement& statement(int k) const { return model_.statements[static_cast<std::size_t>(k)]; }

  void find_loops() {
    for_each_access([&](int k, const poly::Access& access) {
      const Statement& s = statement(k);
      for (std::size_t d = 0; d < s.loops.size() && is_in_order(s.loops[d]); ++d)
        if (ir::mentions(access.indices[dimension_], s.iterators[d]))
          for (std::size_t outer = 0; outer <= d; ++outer) through_.insert(s.loops[outer].get());
    });
  }

  std::size_t depth_of(const Statement& s) const {
    std::size_t depth = 0;
    while (depth < s.loops.size() && through_.count(s.loops[depth].get())) ++depth;
    return depth;
  }

  void find_nests() {
    const ir::StmtNode* last = nullptr;
    for_each_access([&](int k, const poly::Access& access) {
      const Statement& s = statement(k);
      const std::size_t depth = depth_of(s);
      const ir::Stmt& outermost = depth < s.loops.size() ? s.loops[depth] : s.stmt;
      if (outermost.get() != last)
        nests_.push_back({{}, {s.loops.begin(), s.loops.begin() + static_cast<std::ptrdiff_t>(depth)}, {}, {}});
      last = outermost.get();
      Nest& nest = nests_.back();
      if (nest.statements.empty() || nest.statements.back() != k) nest.statements.push_back(k);
      const isl::map index = index_by_time(s, access, depth);
      if (stores(access)) unite(nest.stored, index);
      if (reads(access)) unite(nest.read, index);
    });
  }

  static void unite(std::optional<isl::map>& all, const isl::map& some) {
    if (!all) all = some;
    else if (!some.is_subset(*all)) all = poly::coalesced(all->unite(some));
  }

  const isl::map& elements(const Statement& s, const poly::Access& access) {
    isl::map& known = elements_[&access];
    if (known.is_null())
      known = poly::with_parameters(poly::with_domain(access.relation, s.domain), model_.assumptions);
    return known;
  }

  // What differs from an element in one index alone has an image in common with it.
  isl_map* without_index(const isl::map& elements) const {
    return isl_map_project_out(elements.copy(), isl_dim_out, static_cast<unsigned>(dimension_), 1);
  }

  isl::map index_of(const isl::map& elements) const {
    const auto d = static_cast<unsigned>(dimension_), dims = static_cast<unsigned>(array_->shape.size());
    isl_map* map = isl_map_project_out(elements.copy(), isl_dim_out, d + 1, dims - d - 1);
    map = isl_map_project_out(map, isl_dim_out, 0, d);
    return isl::manage(isl_map_reset_tuple_id(map, isl_dim_out));
  }

  isl::map index_by_time(const Statement& s, const poly::Access& access, std::size_t depth) {
    isl_map* map = index_of(elements(s, access)).release();
    const auto inner = static_cast<unsigned>(s.iterators.size() - depth);
    map = isl_map_project_out(map, isl_dim_in, static_cast<unsigned>(depth), inner);
    return poly::coalesced(isl::manage(isl_map_reset_tuple_id(map, isl_dim_in)));
  }

  // Times of nest a -> later times of nest b; `same`: also the same.
  std::vector<isl::map> times(const Nest& a, const Nest& b, bool same) const {
    std::vector<isl::map> result;
    isl_space* space = isl_space_alloc(model_.assumptions.ctx().get(), 0, static_cast<unsigned>(a.loops.size()),
                                       static_cast<unsigned>(b.loops.size()));
    isl_map* equal = isl_map_universe(space);
    for (int k = 0; k < static_cast<int>(std::min(a.loops.size(), b.loops.size())); ++k) {
      const ir::Stmt& loop = a.loops[static_cast<std::size_t>(k)];
      if (!loop.same_as(b.loops[static_cast<std::size_t>(k)])) break;
      const bool falling = loop.as<ir::For>()->mode == ir::LoopMode::Backward;
      isl_map* some = isl_map_copy(equal);
      some = falling ? isl_map_order_gt(some, isl_dim_in, k, isl_dim_out, k)
                     : isl_map_order_lt(some, isl_dim_in, k, isl_dim_out, k);
      result.push_back(isl::manage(some));
      equal = isl_map_equate(equal, isl_dim_in, k, isl_dim_out, k);
    }
    const isl::map at_once = isl::manage(equal);
    if (&a < &b || (&a == &b && same)) result.push_back(at_once);
    return result;
  }

  // Indices alive, but for what the nest itself reads, while it stores.
  bool add_other_nests(const Nest& nest) {
    std::optional<isl::map> before, after;
    for (const Nest& other : nests_) {
      if (other.stored)
        for (const isl::map& time : times(other, nest, true)) unite(before, time.reverse().apply_range(*other.stored));
      if (other.read)
        for (const isl::map& time : times(nest, other, false)) unite(after, time.apply_range(*other.read));
    }
    if (!before || !after) return true;
    return in_place_.add(nest.stored->reverse().apply_range(before->intersect(*after)).deltas());
  }

  // Elements that it reads while, or after, it stores to others in their place.
  bool add_same_nest(const Nest& nest) {
    bool few = true;
    for (const int c : nest.statements) {
      for (const poly::Access& store : statement(c).accesses) {
        if (store.array != array_ || !stores(store)) continue;
        for (const int r : nest.statements)
          for (const poly::Access& other : statement(r).accesses) {
            if (other.array != array_) continue;
            if (reads(other)) few = few && add_pair(c, store, r, other, nest.loops.size());
            if (stores(other)) few = few && add_stores(c, store, r, other, nest.loops.size());
          }
      }
    }
    return few;
  }

  bool add_pair(int c, const poly::Access& store, int r, const poly::Access& read, std::size_t depth) {
    const auto known = ir::distance(read.indices[dimension_], store.indices[dimension_]);
    const bool stand = stands_still(c, store, depth) && stands_still(r, read, depth);
    if (stand && known && in_place_.has(*known)) return true;
    const isl::map &stored = elements(statement(c), store), &used = elements(statement(r), read);
    const isl::map in_line = isl::manage(without_index(stored)).apply_range(isl::manage(without_index(used)).reverse());
    const isl::map from = index_of(stored).reverse(), to = index_of(used);
    const auto add = [&](const isl::map& order, Distances& distances) {
      const isl::map both = in_line.intersect(order);
      return both.is_empty() || distances.add(from.apply_range(both).apply_range(to).deltas());
    };
    for (const isl::map& order : orders_within(c, r, depth))
      if (!add(order, in_place_)) return false;
    return c != r || add(isl::manage(isl_map_identity(in_line.space().release())), apart_);
  }

  // Iterations at once store to places of their own, also what nobody reads.
  bool add_stores(int c, const poly::Access& store, int r, const poly::Access& other, std::size_t depth) {
    if (c == r && stands_still(c, store, depth)) return true;
    const isl::map &stored = elements(statement(c), store), &others = elements(statement(r), other);
    const isl::map in_line =
        isl::manage(without_index(stored)).apply_range(isl::manage(without_index(others)).reverse());
    const isl::map from = index_of(stored).reverse(), to = index_of(others);
    const std::vector<isl::map> orders = poly::execution_orders(model_, c, r);
    for (std::size_t k = depth; k < poly::common_loops(statement(c), statement(r)); ++k) {
      if (is_in_order(statement(c).loops[k]) || statement(c).loops[k].as<ir::While>()) continue;
      const isl::map both = in_line.intersect(orders[k]);
      if (!both.is_empty() && !in_place_.add(from.apply_range(both).apply_range(to).deltas())) return false;
    }
    return true;
  }

  // Whether the index is the same for all that happens at once.
  bool stands_still(int k, const poly::Access& access, std::size_t depth) const {
    const Statement& s = statement(k);
    return std::none_of(s.iterators.begin() + static_cast<std::ptrdiff_t>(depth), s.iterators.end(),
                        [&](const ir::Symbol& i) { return ir::mentions(access.indices[dimension_], i); });
  }

  // Instances in one iteration of the outer loops of which the first may run before the second.
  std::vector<isl::map> orders_within(int first, int second, std::size_t depth) const {
    std::vector<isl::map> result = poly::execution_orders(model_, first, second);
    result.erase(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(depth));
    const Statement &a = statement(first), &b = statement(second);
    std::vector<isl::map> others;
    for (std::size_t k = depth; k < poly::common_loops(a, b); ++k) {
      if (is_in_order(a.loops[k]) || a.loops[k].as<ir::While>()) continue;
      if (others.empty()) others = poly::execution_orders(model_, second, first);
      result.push_back(others[k].reverse());
    }
    return result;
  }

  const poly::Model& model_;
  const ir::Array& array_;
  const std::size_t dimension_;
  std::set<const ir::StmtNode*> through_;  // the loops that time goes by
  std::vector<Nest> nests_;                // in textual order
  std::map<const poly::Access*, isl::map> elements_;
  Distances in_place_, apart_;
};

}  // namespace

std::optional<Places> places_alive(const poly::Model& model, const ir::Array& array, std::size_t dimension) {
  return poly::guarded(*model.context, [&] { return Lifetimes(model, array, dimension).places(); });
}

}  // namespace loopgrad::transforms
