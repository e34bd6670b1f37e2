#include "transforms/sums/sum_cost.h"

#include "dsl/ir/queries.h"
#include "transforms/analysis/deciding_leaves.h"
#include "transforms/storage/invariant_locals.h"
#include "transforms/sums/exact_sums.h"
#include "transforms/sums/invert_scatters.h"
#include "transforms/sums/scatters.h"
#include "transforms/sums/strategies.h"
#include "transforms/sums/tree_sums.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

// Of iterations in the order of their targets: counted, summed up and moved, each time read and written.
constexpr double bytes_of_words = 16, passes_of_keys = 4, bytes_per_key = passes_of_keys * bytes_of_words;
constexpr double bytes_of_bins_in_use = 16;  // of an element: those that most terms are in
constexpr double lines_of_bins = 6;          // times as many are there for threads to add to, of few elements
constexpr double work_of_two = 1.8;          // of doubles, which have two whole numbers, for that of floats
constexpr double operations_of_bins = 25;    // that find the bin of a term
// Times as long for what is in memory, not in the cache of all threads: an atomic operation, and a key to be sorted.
constexpr double whole_beyond_shared_cache = 6, sort_beyond_shared_cache = 4;
constexpr double kernels_of_exact = 4;
constexpr double positions_of_piece = 128;  // of a long segment, which a thread sums up (sort_scatters.h)
// Of a loop that each thread goes through to find where to add, beside sums in memory, which wait for each other: the
// nearest of 1,003 segments for each of 4,001 points took 80 us.
constexpr double waits_in_order = 7;
constexpr double loops_of_sort = 10;  // that are started one after the other, however few the keys are

double microseconds(double nanoseconds, double parallel, const Machine& machine) {
  return 1e-3 * nanoseconds / std::max(1.0, std::min(parallel, machine.threads));
}

}  // namespace

// Whether tree_sums accumulates in a local of each block.
bool SumCosts::is_small(const Stmt& sum) {
  std::int64_t count = 1;
  for (const ir::Expr& extent : sum.as<ir::Reduce>()->array->shape)
    count *= ir::as_int(extent).value_or(small_array + 1);
  return count <= small_array;
}

PlanCandidate SumCosts::gather(const std::vector<Stmt>& sums, const Separators& separators,
                               const std::vector<ir::Array>& kept) {
  PlanCandidate result{Strategy::Gather};
  double nanoseconds = 0, tiled_us = 0;
  for (const Stmt& sum : sums) {
    std::vector<Loop> order = gather_loops(sum, separators, result.parallel);
    Work work = work_of(sum, loops_around(sum), order, true);
    result.operations += work.operations;
    result.bytes += work.bytes;
    if (const auto tiled = nanoseconds_in_tiles(sum, work)) {
      tiled_us += microseconds(*tiled, machine_.threads, machine_);
      continue;
    }
    nanoseconds += work.nanoseconds;
    // Terms of the innermost loop are shared out where there are not elements enough, and neighbours meet neighbours.
    // (Not where the loops stay as they are, in blocks of one of them.)
    if (separators.exact_bounds && is_contiguous(sum, order) && result.parallel < machine_.threads / 8)
      result.parallel *= std::clamp(innermost_terms(sum, order), 1.0, machine_.block_threads);
  }
  double extra = bytes_kept(kept);
  result.bytes += extra;
  result.microseconds = microseconds(nanoseconds + extra * machine_.ns_per_byte, result.parallel, machine_) + tiled_us +
                        machine_.start_us;
  return result;
}

bool SumCosts::keeps_more(const std::vector<ir::Array>& kept, const std::vector<Stmt>& sums, const ir::Expr& blocks) {
  const double elements = elements_of(sums[0]),
               bytes = static_cast<double>(bytes_of(sums[0].as<ir::Reduce>()->array->type));
  return bytes_kept(kept) > 2 * value_of(blocks) * elements * bytes;
}

// In the order of the program, block by block. Blocks for which there is no iteration do nothing. (On a GPU, where
// there are no more blocks than iterations, plans have been measured as they are without that.)
SumCosts::Work SumCosts::work_of_blocks(const Stmt& sum, double blocks) {
  const std::vector<Loop> written = loops_around(sum);
  if (!machine_.is_gpu()) blocks = std::max(1.0, std::min(blocks, written[0].trips));
  std::vector<Loop> order = written;
  order[0].trips = std::max(1.0, order[0].trips / blocks);
  Work work = work_of(sum, written, order, true);
  for (double* all : {&work.instances, &work.operations, &work.bytes, &work.nanoseconds}) *all *= blocks;
  return work;
}

// Threads that combine the partial results of one element take a few of them each.
double SumCosts::combining_us(double blocks, double elements, double partial_bytes) const {
  const double each = machine_.block_threads > 1 ? std::max(1.0, blocks / 8) : 1;
  return microseconds(partial_bytes * machine_.ns_per_byte, elements * each, machine_);
}

PlanCandidate SumCosts::split(const std::vector<Stmt>& sums, const Separators& separators,
                              const std::vector<ir::Array>& kept, const ir::Expr& in_blocks) {
  PlanCandidate result{Strategy::Split, Level::Grid};
  const double elements = elements_of(sums[0]), blocks = value_of(in_blocks);
  for (const Stmt& sum : sums) {
    // Threads of a block are about as far in its iterations: what one has loaded is there for the others.
    const Work work = work_of_blocks(sum, blocks);
    double parallel = 1;
    gather_loops(sum, separators, parallel);
    // Threads whose element has no terms in their block have nothing to do.
    parallel *= std::max(1.0, blocks * elements_of_iteration(sum) / std::max(1.0, elements));
    result.parallel = std::max(result.parallel, parallel);
    result.operations += work.operations;
    result.bytes += work.bytes;
    result.microseconds += microseconds(work.nanoseconds, parallel, machine_);
  }
  const double partial_bytes = blocks * elements * static_cast<double>(bytes_of(sums[0].as<ir::Reduce>()->array->type));
  const double extra = bytes_kept(kept);
  result.operations += blocks * elements;
  result.bytes += 2 * partial_bytes + extra;
  result.microseconds += microseconds(extra * machine_.ns_per_byte, result.parallel, machine_) +
                         combining_us(blocks, elements, 2 * partial_bytes) +
                         (1 + static_cast<double>(sums.size())) * machine_.start_us;
  return result;
}

/// How many iterations of the nest could run at once if it had not these sums: all loops around them that would be
/// shared out, and the threads of a block for the terms of a sum in each.
double SumCosts::rest_alone(const std::vector<Stmt>& sums) {
  const std::vector<Loop> around = loops_around(sums[0]);
  double terms = 1;
  const StmtSet own = set_of(sums);
  for (const Stmt& leaf : leaves_) {
    if (own.count(leaf.get()) || leaf.kind() != ir::Kind::Reduce) continue;
    const std::vector<Loop> loops = loops_around(leaf);
    double own_terms = 1;
    for (std::size_t k = around.size(); k < loops.size(); ++k) own_terms *= loops[k].trips;
    terms = std::max(terms, own_terms);
  }
  return around[0].trips * shared_out(around) * std::clamp(terms, 1.0, machine_.block_threads);
}

PlanCandidate SumCosts::partials(const std::vector<Stmt>& sums, const ir::Expr& in_blocks) {
  double elements = elements_of(sums[0]);
  bool small = is_small(sums[0]);
  PlanCandidate result{Strategy::Partials, small ? Level::Register : Level::Grid};
  double root = loops_around(sums[0])[0].trips;
  const double blocks = value_of(in_blocks);
  const double shared = shared_by_block(loops_around(sums[0]));
  result.parallel = std::max(1.0, std::min(blocks, root)) * shared;
  double nanoseconds = 0;
  const bool is_alone = leaves_.size() == sums.size();
  for (const Stmt& sum : sums) {
    const Work work = work_of_blocks(sum, blocks);
    result.operations += work.operations;
    result.bytes += work.bytes;
    nanoseconds += work.nanoseconds;
    if (!small && !is_alone) nanoseconds += updates_of(sum) * machine_.ns_per_update;
  }
  double partial_bytes = blocks * elements * static_cast<double>(bytes_of(sums[0].as<ir::Reduce>()->array->type));
  result.operations += blocks * elements;
  result.bytes += 2 * partial_bytes;
  result.microseconds = microseconds(nanoseconds + partial_bytes * machine_.ns_per_byte, result.parallel, machine_) +
                        combining_us(blocks, elements, partial_bytes) + machine_.start_us * (small ? 1 : 2);
  // The other statements of the nest have to make do with the blocks, too.
  const double rest = rest_nanoseconds(sums);
  result.microseconds +=
      std::max(0.0, microseconds(rest, result.parallel, machine_) - microseconds(rest, rest_alone(sums), machine_));
  return result;
}

/// How many times longer it takes than in the shared cache where `bytes` have to be at hand.
double SumCosts::in_memory(double bytes, double times_longer) const {
  if (machine_.shared_cache_bytes == 0) return 1;
  return 1 + (times_longer - 1) * std::max(0.0, 1 - machine_.shared_cache_bytes / bytes);
}

/// Iterations of loops around the sum that have no say in what its iterations are sorted by, and of those whose terms
/// all go to the element of one iteration.
double SumCosts::rows_with_one_key(const Scatter& scatter, const std::vector<Loop>& written) {
  std::set<ir::Symbol> rows;
  for (const ir::For* row : scatter.outer) rows.insert(row->iterator);
  for (const ir::For* row : scatter.inner) rows.insert(row->iterator);
  for (const ir::For* term : scatter.summed) rows.insert(term->iterator);
  const std::vector<ir::Expr> deciders = scatter.deciders();
  for (const LocalArray& local : locals_of(nest_)) {
    const bool decides =
        std::any_of(deciders.begin(), deciders.end(), [&](const ir::Expr& e) { return uses(e, local.array); });
    if (!decides) continue;
    const std::set<ir::Symbol> without_say = loops_without_say(program_, nest_, local.array);
    for (const Stmt& around : local.around) {
      const auto* loop = around.as<ir::For>();
      if (loop && !without_say.count(loop->iterator)) rows.erase(loop->iterator);
    }
  }
  double result = 1;
  for (const Loop& loop : written)
    if (rows.count(loop.iterator)) result *= loop.trips;
  return result;
}

/// Kernels: of each order, and of each sum. Of sizes that nobody has stated only those that there are in any case:
/// there may be few targets, for which blocks that have copies of them are faster than anything that this would speak
/// for.
double SumCosts::starts_of_sorting(std::size_t orders, std::size_t sums) const {
  if (assumed_sizes()) return loops_of_sort;
  return loops_of_sort * static_cast<double>(std::max<std::size_t>(orders, 1)) + static_cast<double>(sums - 1);
}

// The order of all instances comes first: their keys are moved a few times. Then each target takes its own terms.
PlanCandidate SumCosts::segments(const std::vector<Stmt>& sums, const std::vector<ir::Array>& kept) {
  PlanCandidate result{Strategy::Segments};
  double nanoseconds = 0, keys = 0, sorting = 0, instances = 0, widest = 1, targets = 1;
  std::vector<Scatter> known;  // with an order of their own
  for (const Stmt& sum : sums) {
    const std::vector<Loop> written = loops_around(sum);
    const Work work = work_of(sum, written, written, true);
    result.operations += work.operations;
    result.bytes += work.bytes;
    nanoseconds += work.nanoseconds;
    instances = std::max(instances, work.instances);
    const auto scatter = scatter_form(program_, without_allocations(slice(nest_, {sum.get()})));
    if (scatter && std::any_of(known.begin(), known.end(),
                               [&](const Scatter& other) { return key_distance(other, *scatter, {}).has_value(); }))
      continue;
    double places = work.instances;  // also those where data leave no iteration are looked at
    for (const Loop& loop : written) places *= loop.most / std::max(1.0, loop.trips);
    const double rows = scatter ? rows_with_one_key(*scatter, written) : 1;
    widest = std::max(widest, rows);
    if (scatter) targets = std::max(targets, value_of(scatter->targets()));
    places /= std::max(1.0, std::min(rows, work.instances));
    // Where data say how long rows are, there is room for the longest that there may be, in each.
    if (scatter) places = std::max(places, value_of(scatter->iterations()));
    keys += places;
    sorting +=
        microseconds(places * machine_.ns_per_sorted_key * in_memory(places * bytes_of_words, sort_beyond_shared_cache),
                     places, machine_);
    if (scatter) known.push_back(*scatter);
  }
  const double extra = bytes_kept(kept);
  if (!machine_.sorts_scatters) return inverse(std::move(result), nanoseconds, extra, {keys, targets, widest});
  result.bytes += extra + keys * bytes_per_key;
  result.parallel = std::max(elements_of(sums[0]), instances / positions_of_piece);
  result.microseconds = microseconds(nanoseconds + extra * machine_.ns_per_byte, result.parallel, machine_) + sorting +
                        starts_of_sorting(known.size(), sums.size()) * machine_.start_us;
  return result;
}

// A CPU leaves sums with narrow rows in their order, and makes the inverse of others in few blocks (invert_scatters.h).
PlanCandidate SumCosts::inverse(PlanCandidate result, double nanoseconds, double extra, const InverseSizes& n) const {
  const bool stays = n.rows < least_inverted_width;
  result.bytes += extra + (stays ? 0 : n.keys * bytes_of_words);
  result.parallel = stays ? 1 : n.targets;
  const double blocks = std::clamp(n.keys / (2 * n.targets), 1.0, static_cast<double>(most_inverted_blocks));
  result.microseconds = microseconds(nanoseconds, result.parallel, machine_) +
                        microseconds(extra * machine_.ns_per_byte, machine_.threads, machine_) +
                        (stays ? 0 : microseconds(n.keys * machine_.ns_per_sorted_key, blocks, machine_));
  return result;
}

ExactForm SumCosts::form_of_exact(const std::vector<Stmt>& sums) {
  const ExactForm twice = {.in_bins = false};
  if (!can_have_bins(sums[0].as<ir::Reduce>()->array, machine_)) return twice;
  const double elements = elements_of(sums[0]);
  double terms = 0;
  for (const Stmt& sum : sums) {
    const std::vector<Loop> written = loops_around(sum);
    terms += work_of(sum, written, written, true).instances;
  }
  const bool is_few = !assumed_sizes() && elements <= few_with_bins && terms >= many_of_few * elements;
  const ExactForm bins = {.few = is_few};
  return exact(sums, bins).microseconds <= exact(sums, twice).microseconds ? bins : twice;
}

// Where there are no bins the terms are made twice, the first time with all that the nest finds them by.
PlanCandidate SumCosts::exact(const std::vector<Stmt>& sums, const ExactForm& form) {
  PlanCandidate result{Strategy::Exact};
  const ir::Array& target = sums[0].as<ir::Reduce>()->array;
  const bool bins = form.in_bins, in_two = target->type == ScalarType::F64;
  const double elements = elements_of(sums[0]), times = bins ? 1 : 2;
  const double in_use = elements * (bins ? bytes_of_bins_in_use : bytes_of_exact(target, form, 1));
  const double contended =
      machine_.ns_per_contended_whole_sum / (std::max(1.0, elements) * (bins && form.few ? lines_of_bins : 1));
  const double per_sum =
      (in_two ? work_of_two : 1) * std::max((bins ? machine_.ns_per_atomic : machine_.ns_per_whole_sum) *
                                                in_memory(in_use, whole_beyond_shared_cache),
                                            contended);
  double nanoseconds = 0;
  for (const Stmt& sum : sums) {
    const std::vector<Loop> written = loops_around(sum);
    const Work work = work_of(sum, written, written, true);
    double at_once = work.instances;
    for (const Loop& loop : written) at_once /= loop.is_parallel ? 1 : std::max(1.0, loop.trips);
    result.parallel = std::max(result.parallel, at_once);
    result.operations += times * work.operations + (bins ? operations_of_bins * work.instances : 0);
    result.bytes += times * work.bytes;
    nanoseconds += times * work.nanoseconds + work.instances * per_sum;
    if (bins) nanoseconds += work.instances * operations_of_bins * machine_.ns_per_operation;
  }
  // What finds them, loops that the sums are not in among it, each iteration of the nest does in order.
  double in_order = 0;
  if (!bins) {
    const auto finding = DecidingLeaves(program_, nest_).of(sums);
    in_order = nanoseconds_of(finding ? *finding : set_of(leaves_));
  }
  const ir::Expr terms = most_terms_of(program_, nest_, sums);
  const double most = terms ? value_of(terms) : static_cast<double>(many_terms);
  const double extra = 2 * elements * bytes_of_exact(target, form, most);
  result.bytes += extra;
  result.microseconds = microseconds(nanoseconds, result.parallel, machine_) +
                        microseconds(waits_in_order * in_order, result.parallel, machine_) +
                        microseconds(extra * machine_.ns_per_byte, extra / bytes_of_words, machine_) +
                        kernels_of_exact * machine_.start_us;
  return result;
}

/// Iterations of the loops that have a say in the element: of a sum alone, which meets none twice.
double SumCosts::chosen_elements(const Stmt& sum, const std::vector<Loop>& written) {
  double result = 1;
  for (const Loop& loop : written)
    for (const ir::Expr& index : sum.as<ir::Reduce>()->indices)
      if (mentions(index, loop.iterator)) {
        result *= loop.trips;
        break;
      }
  return std::max(result, written[0].trips);
}

PlanCandidate SumCosts::apart(const std::vector<Stmt>& sums, const std::vector<ir::Array>& kept) {
  PlanCandidate result{Strategy::Apart};
  for (const Stmt& sum : sums) {
    const std::vector<Loop> written = loops_around(sum);
    const Work work = work_of(sum, written, written, true);
    result.parallel = machine_.is_gpu() ? chosen_elements(sum, written) : written[0].trips;
    result.operations += work.operations;
    result.bytes += work.bytes;
    result.microseconds += microseconds(work.nanoseconds, result.parallel, machine_) + machine_.start_us;
  }
  const double extra = bytes_kept(kept);
  result.bytes += extra;
  result.microseconds += microseconds(extra * machine_.ns_per_byte, result.parallel, machine_);
  return result;
}

PlanCandidate SumCosts::atomic(const std::vector<Stmt>& sums) {
  PlanCandidate result{Strategy::Atomic};
  const double per_update =
      std::max(machine_.ns_per_atomic, machine_.ns_per_contended_atomic / std::max(1.0, elements_of(sums[0])));
  double nanoseconds = 0;
  for (const Stmt& sum : sums) {
    std::vector<Loop> written = loops_around(sum);
    Work work = work_of(sum, written, written, false);
    result.parallel = written[0].trips;
    result.operations += work.operations;
    result.bytes += work.bytes;
    nanoseconds += work.nanoseconds + work.instances * per_update;
  }
  result.microseconds = microseconds(nanoseconds, result.parallel, machine_) + machine_.start_us;
  return result;
}

/// The sums as they are written, so many iterations of the nest's outermost loop at once.
PlanCandidate SumCosts::in_order(const std::vector<Stmt>& sums, double parallel) {
  PlanCandidate result{Strategy::Serial};
  result.parallel = parallel;
  for (const Stmt& sum : sums) {
    const std::vector<Loop> written = loops_around(sum);
    const Work work = work_of(sum, written, written, false);
    result.operations += work.operations;
    result.bytes += work.bytes;
    result.microseconds += microseconds(work.nanoseconds, parallel, machine_);
  }
  return result;
}

PlanCandidate SumCosts::serial(const std::vector<Stmt>& sums) {
  PlanCandidate result = in_order(sums, 1);
  // The other statements of the nest stay in order, too.
  const double rest = rest_nanoseconds(sums);
  result.microseconds += microseconds(rest, 1, machine_) - microseconds(rest, loops_around(sums[0])[0].trips, machine_);
  return result;
}

PlanCandidate SumCosts::as_written(const std::vector<Stmt>& sums) {
  return in_order(sums, loops_around(sums[0])[0].trips);
}

}  // namespace loopgrad::transforms
