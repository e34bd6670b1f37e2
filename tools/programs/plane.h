// Points of a plane as values, for the programs that draw triangles.
#pragma once

#include <loopgrad/program.h>

namespace loopgrad::programs {

struct Vec2 {
  Value x, y;
};

inline Vec2 operator-(const Vec2& a, const Vec2& b) { return {a.x - b.x, a.y - b.y}; }
inline Value dot(const Vec2& a, const Vec2& b) { return a.x * b.x + a.y * b.y; }
inline Value cross(const Vec2& a, const Vec2& b) { return a.x * b.y - a.y * b.x; }

/// The square of the distance of p to the edge from a to b.
inline Value squared_distance(const Vec2& p, const Vec2& a, const Vec2& b) {
  auto edge = b - a, from = p - a;
  auto t = min(max(dot(from, edge) / dot(edge, edge), 0.0f), 1.0f);
  const Vec2 away = {from.x - t * edge.x, from.y - t * edge.y};
  return dot(away, away);
}

}  // namespace loopgrad::programs
