#include "transforms/sums/scatter_batches.h"

#include <algorithm>
#include <memory>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

constexpr std::size_t most_together = 16;  // sums that are in registers at once

bool is_served(const SortedIterations& order, const Run& run, const Scatter& scatter) {
  return order.shift_to(scatter) && std::all_of(run.scatters.begin(), run.scatters.end(), [&](const Scatter& other) {
           return same_rows(other, scatter).has_value();
         });
}

bool is_independent(const Batch& batch, const Scatter& scatter) {
  return std::all_of(batch.runs.begin(), batch.runs.end(), [&](const Run& run) {
    return std::all_of(run.scatters.begin(), run.scatters.end(),
                       [&](const Scatter& other) { return are_independent(other, scatter); });
  });
}

}  // namespace

std::size_t Batch::size() const {
  std::size_t all = 0;
  for (const Run& run : runs) all += run.nests.size();
  return all;
}

std::vector<Stmt> Batch::nests() const {
  std::vector<Stmt> all;
  for (const Run& run : runs) all.insert(all.end(), run.nests.begin(), run.nests.end());
  return all;
}

Batch batch_of(const ir::Program& program, const std::vector<Stmt>& body, std::size_t first, const SortShares& shares,
               const std::function<bool(const Scatter&)>& stays_alone) {
  Batch batch;
  std::vector<std::unique_ptr<SortedIterations>> orders;
  for (std::size_t k = first; k < body.size() && k < first + most_together; ++k) {
    auto scatter = body[k].kind() == ir::Kind::For ? scatter_in(program, body[k]) : std::nullopt;
    if (!scatter) break;
    const bool is_alone = scatter->is_shared_out || stays_alone(*scatter);
    if (!batch.runs.empty() && (is_alone || !is_independent(batch, *scatter))) break;
    std::size_t place = 0;
    while (place < batch.runs.size() && !is_served(*orders[place], batch.runs[place], *scatter)) ++place;
    if (place == batch.runs.size()) {
      batch.runs.emplace_back();
      orders.push_back(std::make_unique<SortedIterations>(*scatter, false, shares));
    }
    batch.runs[place].nests.push_back(body[k]);
    batch.runs[place].scatters.push_back(std::move(*scatter));
    if (is_alone) break;
  }
  return batch;
}

}  // namespace loopgrad::transforms
