#include "tape/min_cut.h"

#include <gtest/gtest.h>

namespace loopgrad::tape {
namespace {

TEST(MinCut, TakesTheCheapestEdgeOfAPath) {
  MinCut graph;
  const int a = graph.add_node(), b = graph.add_node();
  graph.add_edge(MinCut::source, a, 5);
  graph.add_edge(a, b, 2);
  graph.add_edge(b, MinCut::sink, 9);
  EXPECT_EQ(graph.solve(), 2);
  EXPECT_FALSE(graph.is_cut_off(a));
  EXPECT_TRUE(graph.is_cut_off(b));
}

TEST(MinCut, SendsFlowBackWhereAnotherPathIsBetter) {
  // The first path of least length takes a -> d, which is the only way for one of the two units.
  MinCut graph;
  const int a = graph.add_node(), b = graph.add_node(), c = graph.add_node(), d = graph.add_node();
  graph.add_edge(MinCut::source, a, 1);
  graph.add_edge(MinCut::source, b, 1);
  graph.add_edge(a, d, 1);
  graph.add_edge(a, c, 1);
  graph.add_edge(b, d, 1);
  graph.add_edge(c, MinCut::sink, 1);
  graph.add_edge(d, MinCut::sink, 1);
  EXPECT_EQ(graph.solve(), 2);
}

TEST(MinCut, OfEqualCutsLeavesMostWithTheSink) {
  MinCut graph;
  const int a = graph.add_node(), b = graph.add_node();
  graph.add_edge(MinCut::source, a, 3);
  graph.add_edge(a, b, 3);
  graph.add_edge(b, MinCut::sink, 3);
  EXPECT_EQ(graph.solve(), 3);
  EXPECT_TRUE(graph.is_cut_off(a));
  EXPECT_TRUE(graph.is_cut_off(b));
}

TEST(MinCut, KnowsWhereThereIsNone) {
  MinCut graph;
  const int a = graph.add_node();
  graph.add_edge(MinCut::source, a, MinCut::uncuttable);
  graph.add_edge(a, MinCut::sink, 1);
  EXPECT_EQ(graph.solve(), 1);
  graph.add_edge(a, MinCut::sink, MinCut::uncuttable);
  EXPECT_EQ(graph.solve(), MinCut::uncuttable);
}

TEST(MinCut, LongPathsNeedNoStack) {
  MinCut graph;
  int last = graph.add_node();
  graph.add_edge(MinCut::source, last, 7);
  for (int k = 0; k < 200000; ++k) {
    const int next = graph.add_node();
    graph.add_edge(last, next, 7);
    last = next;
  }
  graph.add_edge(last, MinCut::sink, 4);
  EXPECT_EQ(graph.solve(), 4);
}

}  // namespace
}  // namespace loopgrad::tape
