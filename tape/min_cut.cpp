#include "tape/min_cut.h"

#include <algorithm>

namespace loopgrad::tape {

int MinCut::add_node() {
  outgoing_.emplace_back();
  level_.push_back(0);
  return static_cast<int>(outgoing_.size()) - 1;
}

void MinCut::add_edge(int from, int to, double price) {
  edges_of(from).push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, price});
  edges_of(to).push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::find_levels() {
  std::fill(level_.begin(), level_.end(), -1);
  level_[source] = 0;
  std::vector<int> reached{source};
  for (std::size_t k = 0; k < reached.size(); ++k) {
    const int node = reached[k];
    for (const int index : edges_of(node)) {
      const Edge& e = edge(index);
      int& level = level_[static_cast<std::size_t>(e.to)];
      if (level >= 0 || e.left <= 0) continue;
      level = level_[static_cast<std::size_t>(node)] + 1;
      reached.push_back(e.to);
    }
  }
  return level_[sink] >= 0;
}

/// Along one more path of the level graph; 0: there is none. Without recursion: graphs are as deep as programs long.
double MinCut::push() {
  double most = uncuttable;
  std::vector<int> path;  // edges
  int node = source;
  while (node != sink) {
    std::size_t& next = next_[static_cast<std::size_t>(node)];
    const std::vector<int>& edges = edges_of(node);
    const int deeper = level_[static_cast<std::size_t>(node)] + 1;
    const auto leads_on = [&](const Edge& e) { return e.left > 0 && level_[static_cast<std::size_t>(e.to)] == deeper; };
    while (next < edges.size() && !leads_on(edge(edges[next]))) ++next;
    if (next < edges.size()) {
      path.push_back(edges[next]);
      node = edge(edges[next]).to;
      continue;
    }
    if (path.empty()) return 0;
    const int back = path.back();  // a dead end
    path.pop_back();
    node = edge(back ^ 1).to;
    ++next_[static_cast<std::size_t>(node)];
  }
  for (const int index : path) most = std::min(most, edge(index).left);
  if (most == uncuttable) return most;
  for (const int index : path) {
    edge(index).left -= most;
    edge(index ^ 1).left += most;
  }
  return most;
}

double MinCut::solve() {
  double price = 0;
  while (find_levels()) {
    next_.assign(outgoing_.size(), 0);
    for (double flow = push(); flow > 0; flow = push()) {
      if (flow == uncuttable) return uncuttable;
      price += flow;
    }
  }
  return price;
}

}  // namespace loopgrad::tape
