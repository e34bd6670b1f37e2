#include "dsl/ir/set_elements.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <algorithm>
#include <vector>

namespace loopgrad::ir {
namespace {

/// An element that has been set; null: whatever the index is.
struct Place {
  Array array;
  std::vector<Expr> indices;

  bool covers(const Array& other, const std::vector<Expr>& wanted) const {
    if (other != array) return false;
    for (std::size_t d = 0; d < indices.size(); ++d)
      if (indices[d] && !(wanted[d] && ir::equal(indices[d], wanted[d]))) return false;
    return true;
  }
};

class Reader {
 public:
  explicit Reader(const std::set<Array>& candidates) : candidates_(candidates) {}

  std::set<Array> found;

  void visit(const Stmt& s) {
    ir::visit(s, ir::overloaded{
                     [&](const ir::Block& n) {
                       for (const Stmt& child : n.body) visit(child);
                     },
                     [&](const ir::For& n) { visit_loop(n); },
                     [&](const ir::While& n) { aside(n.body); },
                     [&](const ir::If& n) { visit_branch(n); },
                     [&](const ir::Allocate& n) { visit(n.body); },
                     [&](const ir::Assign& n) {
                       look_at(n.value);
                       if (candidates_.count(n.array) && std::none_of(n.indices.begin(), n.indices.end(), ir::has_load))
                         set_.push_back({n.array, n.indices});
                     },
                     [&](const ir::Reduce& n) {
                       look_at(n.value);
                       look_at(n.array, n.indices);
                     },
                     [&](const auto& n) {  // whatever else there may be
                       ir::for_each_child(n, ir::overloaded{[&](const Expr& e) { look_at(e); },
                                                            [&](const Stmt& child) { aside(child); }});
                     },
                 });
  }

 private:
  /// What is set in there, beside what was set before, which stays.
  std::vector<Place> aside(const Stmt& body) {
    const std::size_t before = set_.size();
    visit(body);
    std::vector<Place> more(set_.begin() + static_cast<std::ptrdiff_t>(before), set_.end());
    set_.resize(before);
    return more;
  }

  void visit_loop(const ir::For& loop) {
    for (Place place : aside(loop.body)) {
      int through = 0;
      bool all = true;
      for (std::size_t d = 0; d < place.indices.size(); ++d) {
        Expr& index = place.indices[d];
        if (!index || !ir::mentions(index, loop.iterator)) continue;
        const auto* var = index.as<ir::Var>();
        all = all && var && ir::as_int(loop.lower) == 0 && ir::equal(loop.upper, place.array->shape[d]);
        index = {};
        ++through;
      }
      if (through == 1 && all) set_.push_back(place);
    }
  }

  void visit_branch(const ir::If& n) {
    const std::vector<Place> in_then = aside(n.then_body);
    const std::vector<Place> in_else = n.else_body ? aside(n.else_body) : std::vector<Place>();
    for (const Place& place : in_then)
      if (std::any_of(in_else.begin(), in_else.end(),
                      [&](const Place& other) { return other.covers(place.array, place.indices); }))
        set_.push_back(place);
  }

  void look_at(const Expr& value) {
    ir::walk(value, [&](const Expr& e) {
      if (const auto* load = e.as<ir::Load>()) look_at(load->array, load->indices);
    });
  }

  void look_at(const Array& array, const std::vector<Expr>& indices) {
    if (!candidates_.count(array)) return;
    if (std::none_of(set_.begin(), set_.end(), [&](const Place& place) { return place.covers(array, indices); }))
      found.insert(array);
  }

  const std::set<Array>& candidates_;
  std::vector<Place> set_;
};

}  // namespace

std::set<Array> read_before_set_in_text(const Stmt& s, const std::set<Array>& candidates) {
  Reader reader(candidates);
  if (!candidates.empty()) reader.visit(s);
  return std::move(reader.found);
}

}  // namespace loopgrad::ir
