#include "tape/sites.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

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
  if (const auto* local = s.as<ir::Allocate>()) {
    if (in_rule_) of_rules_.insert(local->array);
    else allocations_[local->array] = s;
  }
  if (const Array* array = stored_array(s); array && !in_rule_) writers_[*array].push_back(s);
  const bool outside = in_rule_;
  if (const auto* region = s.as<ir::CustomGradient>()) {
    in_rule_ = true;
    for (const auto* list : {&region->seeds, &region->gradients}) of_rules_.insert(list->begin(), list->end());
  }
  scopes.push_back(s);
  ir::for_each_child(s, ir::overloaded{[&](const Expr& e) {
                                         ir::walk(e, [&](const Expr& inner) {
                                           if (const auto* l = inner.as<ir::Load>()) ++read_count_[l->array];
                                         });
                                         collect(e, s);
                                       },
                                       [&](const Stmt& child) { collect(child, scopes); }});
  scopes.pop_back();
  in_rule_ = outside;
  last_position_[s.get()] = static_cast<int>(sites_.size());
}

void Sites::collect(const Expr& e, const Stmt& site) {
  if (const auto* choice = e.as<ir::Select>()) return collect(choice->condition, site);
  const auto* n = e.as<ir::Binary>();
  if (n && (n->op == ir::BinaryOp::And || n->op == ir::BinaryOp::Or)) return collect(n->a, site);
  // What a rule reads is read again by the backward sweep only.
  if (const auto* load = e.as<ir::Load>(); load && !in_rule_) plain_reads_[load->array].push_back({site, e});
  ir::for_each_child(e, [&](const Expr& child) { collect(child, site); });
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

const std::vector<PlainRead>& Sites::plain_reads(const Array& array) const {
  static const std::vector<PlainRead> none;
  const auto found = plain_reads_.find(array);
  return found == plain_reads_.end() ? none : found->second;
}

std::optional<Sites::EarlierRead> Sites::earlier_read(const ir::Load& load, const Stmt& site) const {
  for (const PlainRead& read : plain_reads(load.array)) {
    if (of(read.site).position >= of(site).position) break;
    if (auto found = as_earlier(read, load, site)) return found;
  }
  return std::nullopt;
}

std::optional<Sites::EarlierRead> Sites::as_earlier(const PlainRead& read, const ir::Load& load,
                                                    const Stmt& site) const {
  const Site &from = of(read.site), &to = of(site);
  if (read.site.kind() == ir::Kind::While || from.loops.size() != to.loops.size()) return std::nullopt;
  ir::Substitution there, back;  // iterators around `site` in terms of those around the read, and the other way round
  std::size_t common = 0;
  while (common < to.loops.size() && from.loops[common].same_as(to.loops[common])) ++common;
  for (std::size_t k = common; k < to.loops.size(); ++k) {
    const auto *a = from.loops[k].as<ir::For>(), *b = to.loops[k].as<ir::For>();
    if (!a || !b || ir::has_load(b->lower) || ir::has_load(b->upper)) return std::nullopt;
    const bool alike = ir::equal(a->lower, ir::substitute(b->lower, there)) &&
                       ir::equal(a->upper, ir::substitute(b->upper, there)) && a->mode == b->mode;
    if (!alike) return std::nullopt;
    there[b->iterator] = ir::var(a->iterator);
    back[a->iterator] = ir::var(b->iterator);
  }
  std::set<Array> arrays{load.array};
  const ir::Load& earlier = *read.load.as<ir::Load>();
  for (std::size_t k = 0; k < load.indices.size(); ++k) {
    if (!ir::equal(earlier.indices[k], ir::substitute(load.indices[k], there))) return std::nullopt;
    ir::walk(load.indices[k], [&](const Expr& e) {
      if (const auto* inner = e.as<ir::Load>()) arrays.insert(inner->array);
    });
  }
  const bool one_body = common == to.loops.size();
  const int first = one_body ? from.position : of(from.loops[common]).position;
  const int end = one_body ? to.position : last_position_.at(to.loops[common].get()) + 1;
  for (const Array& array : arrays)
    for (const Stmt& writer : writers(array))
      if (of(writer).position >= first && of(writer).position < end) return std::nullopt;
  if (!executes_whenever(read.site, site)) return std::nullopt;
  return EarlierRead{read, back};
}

bool Sites::is_written_in(const Array& array, const Stmt& s) const {
  const auto& all = writers(array);
  return std::any_of(all.begin(), all.end(), [&](const Stmt& writer) {
    return of(s).position <= of(writer).position && of(writer).position <= last_position_.at(s.get());
  });
}

Stmt Sites::steady_from(const Array& array, const Stmt& site) const {
  if (rule_around(site)) return {};
  const std::vector<Stmt>& scopes = of(site).scopes;
  Stmt at = site;
  bool in_loop = site.kind() == ir::Kind::For;  // of which these are the bounds
  std::size_t depth = scopes.size();
  for (; depth > 0 && !is_written_in(array, scopes[depth - 1]); --depth) {
    const auto* local = scopes[depth - 1].as<ir::Allocate>();
    if (local && local->array == array) break;
    at = scopes[depth - 1];
    in_loop |= is_loop(at);
  }
  return in_loop ? first_steady(array, at, depth) : Stmt();
}

/// From `s`, which `depth` scopes are around, back through what comes before it in its body.
Stmt Sites::first_steady(const Array& array, Stmt s, std::size_t depth) const {
  const std::vector<Stmt> scopes = of(s).scopes;
  for (; depth > 0; --depth) {
    const Stmt& around = scopes[depth - 1];
    if (const auto* block = around.as<ir::Block>()) {
      auto child = std::find_if(block->body.begin(), block->body.end(), [&](const Stmt& c) { return c.same_as(s); });
      while (child != block->body.begin() && !is_written_in(array, *std::prev(child))) --child;
      s = *child;
      if (child != block->body.begin()) return s;
    } else if (const auto* local = around.as<ir::Allocate>(); !local || local->array == array) {
      return s;
    }
    s = around;
  }
  return s;
}

bool Sites::is_known_before_rules(const Expr& e) const {
  bool known = true;
  if (e)
    ir::walk(e, [&](const Expr& part) {
      const auto* load = part.as<ir::Load>();
      known &= !load || !of_rules_.count(load->array);
    });
  return known;
}

const ir::CustomGradient* Sites::rule_around(const Stmt& s) const {
  for (const Stmt& scope : of(s).scopes)
    if (const auto* region = scope.as<ir::CustomGradient>()) return region;
  return nullptr;
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
