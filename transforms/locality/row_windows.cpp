#include "transforms/locality/row_windows.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// Calls f(array, indices, writes) for every access at or below `s`.
template <class F>
void for_each_access(const Stmt& s, F&& f) {
  ir::walk(
      s,
      [&](const Stmt& child) {
        for_each_store(child, [&](const ir::Array& a, const std::vector<Expr>& indices) { f(a, indices, true); });
      },
      [&](const Expr& e) {
        if (auto* load = e.as<ir::Load>()) f(load->array, load->indices, false);
      });
}

// How one nest uses an array: its rows are those of the nest, so many further.
struct Use {
  std::size_t nest;
  std::int64_t offset;
  bool writes;
};

struct Uses {
  std::vector<Use> uses;
  std::size_t count = 0;  // accesses
  bool regular = true;
};

std::map<ir::Array, Uses> uses_of(const std::vector<RowNest>& nests) {
  std::map<ir::Array, Uses> found;
  for (std::size_t k = 0; k < nests.size(); ++k) {
    for_each_access(nests[k].loop, [&](const ir::Array& array, const std::vector<Expr>& indices, bool writes) {
      Uses& all = found[array];
      ++all.count;
      const auto offset = indices.size() < 2 ? std::nullopt : distance(indices[0], ir::var(nests[k].rows().iterator));
      all.regular = all.regular && offset;
      if (offset) all.uses.push_back({k, *offset, writes});
    });
  }
  return found;
}

// One nest assigns the rows, as they are, and later ones read them within their strips.
std::optional<RowWindow> window_of(const Uses& all, const std::vector<RowNest>& nests) {
  const auto writer = std::find_if(all.uses.begin(), all.uses.end(), [](const Use& use) { return use.writes; });
  if (!all.regular || writer == all.uses.end()) return std::nullopt;
  const RowNest& by = nests[writer->nest];
  RowWindow window;
  window.first = by.peel_low;
  window.last = by.behind;
  for (const Use& use : all.uses) {
    if (use.writes) {
      if (use.nest != writer->nest || use.offset != 0) return std::nullopt;
      continue;
    }
    const RowNest& reader = nests[use.nest];
    if (use.nest <= writer->nest || reader.peel_low + use.offset < by.peel_low ||
        reader.behind - use.offset < by.behind)
      return std::nullopt;
    window.first = std::max(window.first, reader.peel_low + use.offset);
    window.last = std::max(window.last, reader.behind - use.offset);
    window.shared = std::max(window.shared, reader.behind - use.offset - by.behind + 1);
  }
  return window;
}

class Windowed {
 public:
  Windowed(const RowWindows& windows, const Expr& strip, const Expr& start, const Expr& rows, bool peeled)
      : windows_(windows), strip_(strip), start_(start), rows_(rows), peeled_(peeled) {}

  Stmt moved(const Stmt& row) {
    const Stmt code = ir::move_elements(
        row, [&](const ir::Array& array, const std::vector<Expr>& indices) -> std::optional<ir::ElementPlace> {
          const auto window = windows_.find(array);
          if (window == windows_.end()) return std::nullopt;
          return ir::ElementPlace{window->second.array, moved(window->second, indices)};
        });
    return with_places(code);
  }

 private:
  // A row with the places that its code asks for computed before it.
  Stmt with_places(const Stmt& row) const {
    std::vector<Stmt> code;
    for (const Place& place : places_) code.push_back(ir::assign(place.number, {}, place.value, row->location));
    code.push_back(row);
    Stmt result = ir::block(std::move(code));
    for (const Place& place : places_) result = ir::allocate(place.number, result, row->location);
    return result;
  }

  struct Place {
    ir::Array array, number;
    Expr row, value;
  };

  std::vector<Expr> moved(const RowWindow& window, std::vector<Expr> indices) {
    const Expr row = simplify_indices(indices[0] - start_), before = strip_ * ir::int_const(window.rows());
    // Rows before the start are the last ones of the strip before, whose places precede this strip's.
    indices[0] = peeled_ ? simplify_indices(before + row) : place_of(window, row, before);
    return indices;
  }

  Expr place_of(const RowWindow& window, const Expr& row, const Expr& before) {
    for (const Place& place : places_)
      if (place.array == window.array && same_value(place.row, row)) return ir::load(place.number, {});
    const ir::Array number = ir::make_array("place", ScalarType::I64, {}, ir::ArrayRole::Local, window.array->location);
    places_.push_back({window.array, number, row, simplify_indices(before + place(window, row))});
    return ir::load(number, {});
  }

  // Of a row of the strip, from the strip's first place on.
  Expr place(const RowWindow& window, const Expr& row) const {
    const Expr first = ir::int_const(window.first);
    const Expr shared = first + ir::binary(BinaryOp::Mod, row - first, ir::int_const(window.shared));
    const Expr last = row - (rows_ - ir::int_const(window.rows()));
    const Expr late = ir::binary(BinaryOp::Ge, row, rows_ - ir::int_const(window.last));
    return ir::select(ir::binary(BinaryOp::Lt, row, first), row, ir::select(late, last, shared));
  }

  const RowWindows& windows_;
  const Expr &strip_, &start_, &rows_;
  bool peeled_;
  std::vector<Place> places_;
};

}  // namespace

RowWindows row_windows(const ir::Program& program, const RowDistances& distances, const std::vector<RowNest>& nests) {
  std::map<ir::Array, std::size_t> everywhere;
  for_each_access(program.body, [&](const ir::Array& array, const auto&, bool) { ++everywhere[array]; });
  RowWindows windows;
  for (const auto& [array, uses] : uses_of(nests)) {
    if (array->role != ir::ArrayRole::Local || uses.count != everywhere[array]) continue;
    auto window = window_of(uses, nests);
    if (!window || !distances.assigned_before_read(array, nests)) continue;
    window->array = array;
    windows[array] = *window;
  }
  return windows;
}

Stmt in_windows(const Stmt& row, const RowWindows& windows, const Expr& strip, const Expr& start, const Expr& rows,
                bool peeled) {
  return Windowed(windows, strip, start, rows, peeled).moved(row);
}

}  // namespace loopgrad::transforms
