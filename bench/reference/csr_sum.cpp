// Weighted sums over the neighbours in a graph: edges ptr[v] .. ptr[v+1] end at v, start at src[e] and weigh w[e].
#include "bench/reference/reference.h"
#include "bench/reference/tape.h"
#include "bench/reference/threads.h"
#include "bench/reference/vec.h"

#include <algorithm>
#include <memory>

namespace loopgrad::bench {
namespace {

struct Graph {
  std::int64_t nodes, edges, d;
  const std::int32_t *ptr, *src;
};

/// Consecutive nodes with about as many edges for every thread.
template <class T>
Range balanced_share(const T* ptr, std::int64_t nodes) {
  const auto boundary = [&](std::int64_t thread, std::int64_t threads) {
    if (thread == threads) return nodes;
    return static_cast<std::int64_t>(std::lower_bound(ptr, ptr + nodes, ptr[nodes] * thread / threads) - ptr);
  };
  const std::int64_t me = omp_get_thread_num(), threads = omp_get_num_threads();
  return {me == 0 ? 0 : boundary(me, threads), boundary(me + 1, threads)};
}

/// The edges by source: where[starts[s]] .. where[starts[s+1]] are the numbers of those that start at s.
struct Inverse {
  std::vector<std::int64_t> starts;
  std::vector<std::int32_t> edge, end;
};

Inverse invert(const Graph& graph) {
  Inverse inverse{std::vector<std::int64_t>(static_cast<std::size_t>(graph.nodes) + 1),
                  std::vector<std::int32_t>(static_cast<std::size_t>(graph.edges)),
                  std::vector<std::int32_t>(static_cast<std::size_t>(graph.edges))};
  for (std::int64_t e = 0; e < graph.edges; ++e) ++inverse.starts[static_cast<std::size_t>(graph.src[e]) + 1];
  for (std::size_t s = 0; s + 1 < inverse.starts.size(); ++s) inverse.starts[s + 1] += inverse.starts[s];
  std::vector<std::int64_t> next(inverse.starts.begin(), inverse.starts.end() - 1);
  for (std::int64_t v = 0; v < graph.nodes; ++v) {
    for (std::int32_t e = graph.ptr[v]; e < graph.ptr[v + 1]; ++e) {
      const auto slot = static_cast<std::size_t>(next[static_cast<std::size_t>(graph.src[e])]++);
      inverse.edge[slot] = e;
      inverse.end[slot] = static_cast<std::int32_t>(v);
    }
  }
  return inverse;
}

/// out[j] = sum over i of weight(i) row(i)[j], with as many columns in registers as there are.
template <class Weight, class Row>
void weighted_rows(std::int64_t begin, std::int64_t end, std::int64_t d, Weight weight, Row row, float* out) {
  std::int64_t j = 0;
  for (; j + 2 * kLanes <= d; j += 2 * kLanes) {
    Vec first = {}, second = {};
    for (std::int64_t i = begin; i < end; ++i) {
      const Vec factor = splat(weight(i));
      first += factor * load(row(i) + j);
      second += factor * load(row(i) + j + kLanes);
    }
    store(out + j, first);
    store(out + j + kLanes, second);
  }
  for (; j < d; ++j) {
    float sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += weight(i) * row(i)[j];
    out[j] = sum;
  }
}

float dot(const float* a, const float* b, std::int64_t d) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < d; ++j) sum += a[j] * b[j];
  return sum;
}

/// The inverse of the index array is made once: it holds as long as the graph does.
Implementation by_hand(const Data& data) {
  const Graph graph{data.size("V"), data.size("E"), data.size("D"), data.ints("ptr"), data.ints("src")};
  const std::int64_t d = graph.d;
  const float *x = data.floats("x"), *w = data.floats("w"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *dw = data.floats("d_w");
  auto inverse = std::make_shared<const Inverse>(invert(graph));
  return {[=] {
#pragma omp parallel
            {
              const Range mine = balanced_share(graph.ptr, graph.nodes);
              for (std::int64_t v = mine.begin; v < mine.end; ++v)
                weighted_rows(
                    graph.ptr[v], graph.ptr[v + 1], d, [&](std::int64_t e) { return w[e]; },
                    [&](std::int64_t e) { return x + graph.src[e] * d; }, y + v * d);
            }
          },
          [=] {
#pragma omp parallel
            {
              const Range ends = balanced_share(graph.ptr, graph.nodes);
              for (std::int64_t v = ends.begin; v < ends.end; ++v)
                for (std::int32_t e = graph.ptr[v]; e < graph.ptr[v + 1]; ++e)
                  dw[e] = dot(dy + v * d, x + graph.src[e] * d, d);
              const Range starts = balanced_share(inverse->starts.data(), graph.nodes);
              for (std::int64_t s = starts.begin; s < starts.end; ++s)
                weighted_rows(
                    inverse->starts[static_cast<std::size_t>(s)], inverse->starts[static_cast<std::size_t>(s) + 1], d,
                    [&](std::int64_t i) { return w[inverse->edge[static_cast<std::size_t>(i)]]; },
                    [&](std::int64_t i) { return dy + inverse->end[static_cast<std::size_t>(i)] * d; }, dx + s * d);
            }
          }};
}

Implementation by_tape(const Data& data) {
  const Graph graph{data.size("V"), data.size("E"), data.size("D"), data.ints("ptr"), data.ints("src")};
  const std::int64_t d = graph.d;
  const float *x = data.floats("x"), *w = data.floats("w"), *dy = data.floats("d_y");
  float *y = data.floats("y"), *dx = data.floats("d_x"), *dw = data.floats("d_w");
  auto tapes = std::make_shared<Tapes>();
  auto shadow = std::make_shared<PerThread>(graph.nodes * d);
  return {[=] {
#pragma omp parallel
            {
              Tape& tape = tapes->mine();
              const Range mine = balanced_share(graph.ptr, graph.nodes);
              for (std::int64_t v = mine.begin; v < mine.end; ++v) {
                std::fill_n(y + v * d, d, 0.0f);
                for (std::int32_t e = graph.ptr[v]; e < graph.ptr[v + 1]; ++e) {
                  for (std::int64_t j = 0; j < d; ++j) {
                    tape.push(x[graph.src[e] * d + j]);
                    tape.push(w[e]);
                    y[v * d + j] += w[e] * x[graph.src[e] * d + j];
                  }
                }
              }
            }
          },
          [=] {
#pragma omp parallel
            {
              Tape& tape = tapes->mine();
              float* mine_dx = shadow->mine();
              std::fill_n(mine_dx, graph.nodes * d, 0.0f);
              const Range mine = balanced_share(graph.ptr, graph.nodes);
              for (std::int64_t v = mine.end - 1; v >= mine.begin; --v) {
                for (std::int32_t e = graph.ptr[v + 1] - 1; e >= graph.ptr[v]; --e) {
                  float by_w = 0;
                  for (std::int64_t j = d - 1; j >= 0; --j) {
                    const float weight = tape.pop(), value = tape.pop();
                    by_w += dy[v * d + j] * value;
                    mine_dx[graph.src[e] * d + j] += dy[v * d + j] * weight;
                  }
                  dw[e] = by_w;
                }
              }
            }
            shadow->sum_into(dx);
          }};
}

}  // namespace

Reference csr_sum() {
  return {"csr_sum", by_hand, by_tape,
          [](const Sizes& s) { return 8.0 * static_cast<double>(s.at("E")) * static_cast<double>(s.at("D")); }};
}

}  // namespace loopgrad::bench
