// Minimum cuts of small directed graphs, by Dinic's algorithm (E. A. Dinic, "Algorithm for solution of a problem of
// maximum flow in networks with power estimation", Soviet Math. Doklady 11, 1970).
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace loopgrad::tape {

/// Before -> after: source -5-> a -2-> b -9-> sink is cut between a and b, at the price of 2.
class MinCut {
 public:
  static constexpr double uncuttable = std::numeric_limits<double>::infinity();

  static constexpr int source = 0, sink = 1;  // nodes that are there from the start
  int add_node();
  /// Cutting `from` off from `to` costs `price`; several edges between two nodes add up.
  void add_edge(int from, int to, double price);
  /// The least price for which no path is left from the source to the sink, which may be infinite.
  double solve();
  /// After solve(): whether the node is cut off from the source. Of several cheapest cuts, the one that leaves most
  /// nodes with the sink.
  bool is_cut_off(int node) const { return level_[static_cast<std::size_t>(node)] < 0; }

 private:
  struct Edge {
    int to;
    double left;  // of the price, that no flow has taken yet
  };
  bool find_levels();
  double push();
  std::vector<int>& edges_of(int node) { return outgoing_[static_cast<std::size_t>(node)]; }
  Edge& edge(int index) { return edges_[static_cast<std::size_t>(index)]; }

  std::vector<Edge> edges_;                    // edge k and its reverse k ^ 1
  std::vector<std::vector<int>> outgoing_{2};  // of each node
  std::vector<int> level_ = {0, 0};            // distance from the source over edges with something left; -1: none
  std::vector<std::size_t> next_;
};

}  // namespace loopgrad::tape
