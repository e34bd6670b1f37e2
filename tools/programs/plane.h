// What triangles on a screen need beside <loopgrad/small.h>.
#pragma once

#include <loopgrad/small.h>

namespace loopgrad::programs {

/// Twice the area of the triangle from the origin to a and b, signed.
inline Value cross(const Vec<2>& a, const Vec<2>& b) { return a[0] * b[1] - a[1] * b[0]; }

/// The square of the distance of p to the edge from a to b.
inline Value squared_distance(const Vec<2>& p, const Vec<2>& a, const Vec<2>& b) {
  auto edge = b - a, from = p - a;
  auto t = min(max(dot(from, edge) / dot(edge, edge), 0.0f), 1.0f);
  const Vec<2> away = {from[0] - t * edge[0], from[1] - t * edge[1]};
  return dot(away, away);
}

/// The same of the nearest edge of the triangle a b c.
inline Value squared_distance(const Vec<2>& p, const Vec<2>& a, const Vec<2>& b, const Vec<2>& c) {
  return min(min(squared_distance(p, a, b), squared_distance(p, b, c)), squared_distance(p, c, a));
}

}  // namespace loopgrad::programs
