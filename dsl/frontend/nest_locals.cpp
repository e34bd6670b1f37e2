#include "dsl/frontend/nest_locals.h"

#include "dsl/ir/visit.h"

#include <algorithm>
#include <unordered_map>

namespace loopgrad::ir {
namespace {

constexpr std::size_t few_locals = 64;

struct Extent {
  Array local;
  std::size_t first = 0, last = 0;  // statements
};

/// Nests in the order of declaration, to the end of the range.
Stmt as_declared(const std::vector<Stmt>& statements, std::size_t begin, std::size_t end,
                 const std::vector<Extent>& locals) {
  std::vector<Stmt> reversed;  // statements of the innermost open Allocate, last first
  std::size_t position = end;
  for (auto local = locals.rbegin(); local != locals.rend(); ++local) {
    while (position > local->first) reversed.push_back(statements[--position]);
    Stmt body = block({reversed.rbegin(), reversed.rend()});
    reversed.assign(1, allocate(local->local, std::move(body), local->local->location));
  }
  while (position > begin) reversed.push_back(statements[--position]);
  return block({reversed.rbegin(), reversed.rend()});
}

/// Allocates what both halves of the range use around it, the rest within its half.
Stmt halved(const std::vector<Stmt>& statements, std::size_t begin, std::size_t end, std::vector<Extent> locals) {
  constexpr std::size_t enough = 8;
  if (locals.size() <= enough || end - begin < 2) return as_declared(statements, begin, end, locals);
  const std::size_t middle = begin + (end - begin) / 2;
  std::vector<Extent> left, right, both;
  for (const Extent& extent : locals) {
    const bool ends = extent.last < middle, starts = extent.first >= middle;
    (ends ? left : starts ? right : both).push_back(extent);
  }
  Stmt result =
      block({halved(statements, begin, middle, std::move(left)), halved(statements, middle, end, std::move(right))});
  for (auto local = both.rbegin(); local != both.rend(); ++local)
    result = allocate(local->local, std::move(result), local->local->location);
  return result;
}

std::vector<Extent> extents_of(const std::vector<Stmt>& statements, const std::vector<DeclaredLocal>& locals) {
  std::vector<Extent> extents;
  std::unordered_map<std::int64_t, std::size_t> number;
  for (const DeclaredLocal& local : locals) {
    number.emplace(local.array->id, extents.size());
    extents.push_back({local.array, local.before, local.before});
  }
  for (std::size_t k = 0; k < statements.size(); ++k) {
    const auto use = [&](const Array& array) {
      const auto found = number.find(array->id);
      if (found != number.end()) extents[found->second].last = std::max(extents[found->second].last, k);
    };
    walk(
        statements[k],
        [&](const Stmt& s) {
          if (const auto* n = s.as<Assign>()) use(n->array);
          if (const auto* n = s.as<Reduce>()) use(n->array);
        },
        [&](const Expr& e) {
          if (const auto* n = e.as<Load>()) use(n->array);
        });
  }
  return extents;
}

}  // namespace

Stmt nest_locals(const std::vector<Stmt>& statements, const std::vector<DeclaredLocal>& locals) {
  if (locals.size() > few_locals) return halved(statements, 0, statements.size(), extents_of(statements, locals));
  std::vector<Extent> extents;
  for (const DeclaredLocal& local : locals) extents.push_back({local.array, local.before, local.before});
  return as_declared(statements, 0, statements.size(), extents);
}

}  // namespace loopgrad::ir
