#include "tape/sites.h"

#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// The side of each branch around a statement: (branch, true for then).
std::vector<std::pair<Stmt, bool>> branches_around(const Stmt& s, const std::vector<Stmt>& scopes) {
  std::vector<std::pair<Stmt, bool>> result;
  for (std::size_t k = 0; k < scopes.size(); ++k) {
    const auto* branch = scopes[k].as<ir::If>();
    if (!branch) continue;
    const Stmt& inside = k + 1 < scopes.size() ? scopes[k + 1] : s;
    result.emplace_back(scopes[k], branch->then_body.same_as(inside));
  }
  return result;
}

}  // namespace

Sites::Sites(const Stmt& body) {
  std::vector<Stmt> scopes;
  collect(body, scopes);
}

void Sites::collect(const Stmt& s, std::vector<Stmt>& scopes) {
  Site& site = sites_[s.get()];
  site.scopes = scopes;
  site.position = static_cast<int>(sites_.size());
  std::copy_if(scopes.begin(), scopes.end(), std::back_inserter(site.loops), is_loop);
  if (const Array* array = stored_array(s)) writers_[*array].push_back(s);
  if (const auto* local = s.as<ir::Allocate>()) allocations_[local->array] = s;
  scopes.push_back(s);
  ir::visit(s, [&](const auto& node) {
    ir::for_each_child(node, ir::overloaded{[&](const Expr& e) {
                                              ir::walk(e, [&](const Expr& inner) {
                                                if (const auto* l = inner.as<ir::Load>()) ++read_count_[l->array];
                                              });
                                            },
                                            [&](const Stmt& child) { collect(child, scopes); }});
  });
  scopes.pop_back();
}

Site* Sites::find(const Stmt& s) {
  const auto found = sites_.find(s.get());
  return found == sites_.end() ? nullptr : &found->second;
}

const std::vector<Stmt>& Sites::writers(const Array& array) const {
  static const std::vector<Stmt> none;
  const auto found = writers_.find(array);
  return found == writers_.end() ? none : found->second;
}

int Sites::read_count(const Array& array) const {
  const auto found = read_count_.find(array);
  return found == read_count_.end() ? 0 : found->second;
}

const Stmt* Sites::only_writer(const Array& scalar) const {
  if (scalar->role != ir::ArrayRole::Local || !scalar->shape.empty()) return nullptr;
  const std::vector<Stmt>& all = writers(scalar);
  if (all.size() != 1) return nullptr;
  const bool assigned_once = of(all.front()).loops.size() == of(allocation(scalar)).loops.size();
  return assigned_once && all.front().kind() == ir::Kind::Assign ? &all.front() : nullptr;
}

bool Sites::is_final_at(const Array& local, const Stmt& site) const {
  const Site& to = of(site);
  const std::size_t outside = of(allocation(local)).loops.size();
  return std::all_of(writers(local).begin(), writers(local).end(), [&](const Stmt& writer) {
    const Site& from = of(writer);
    const bool in_one_loop =
        from.loops.size() > outside && to.loops.size() > outside && from.loops[outside].same_as(to.loops[outside]);
    return from.position < to.position && !in_one_loop;
  });
}

bool Sites::executes_whenever(const Stmt& a, const Stmt& b) const {
  const auto around_a = branches_around(a, of(a).scopes), around_b = branches_around(b, of(b).scopes);
  if (around_a.size() > around_b.size()) return false;
  for (std::size_t k = 0; k < around_a.size(); ++k)
    if (!around_a[k].first.same_as(around_b[k].first) || around_a[k].second != around_b[k].second) return false;
  return true;
}

const Stmt& Sites::body_around(const Stmt& s) const {
  const std::vector<Stmt>& scopes = of(s).scopes;
  for (std::size_t k = scopes.size(); k-- > 0;)
    if (is_loop(scopes[k]) || scopes[k].kind() == ir::Kind::If) return k + 1 < scopes.size() ? scopes[k + 1] : s;
  return scopes.empty() ? s : scopes.front();
}

}  // namespace loopgrad::tape
