#include "transforms/pipeline.h"

#include "dsl/ir/extremum_searches.h"
#include "dsl/ir/known_scalars.h"
#include "dsl/ir/narrow_scopes.h"
#include "dsl/ir/own_values.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/verifier.h"
#include "dsl/poly/unflatten.h"
#include "dsl/symbolic/closed_counters.h"
#include "dsl/symbolic/numbered_entries.h"
#include "transforms/bounds/bound_accesses.h"
#include "transforms/locality/fuse_rows.h"
#include "transforms/loops/find_takers.h"
#include "transforms/loops/hoist_steps.h"
#include "transforms/loops/parallelize_loops.h"
#include "transforms/loops/search_loops.h"
#include "transforms/loops/split_loops_at_guards.h"
#include "transforms/loops/unswitch.h"
#include "transforms/map/cpu/hoist_indices.h"
#include "transforms/map/cpu/jam_sums.h"
#include "transforms/map/cpu/join_regions.h"
#include "transforms/map/cpu/place_arrays.h"
#include "transforms/map/cpu/share_loops.h"
#include "transforms/map/cpu/sink_sum_loops.h"
#include "transforms/map/cpu/stream_rows.h"
#include "transforms/map/cpu/tile_lanes.h"
#include "transforms/map/cpu/vectorize_loops.h"
#include "transforms/map/gpu/flatten_rows.h"
#include "transforms/map/gpu/fuse_nests.h"
#include "transforms/map/gpu/hoist_parallel_loops.h"
#include "transforms/map/gpu/map_to_gpu.h"
#include "transforms/map/gpu/name_constants.h"
#include "transforms/map/gpu/narrow_bands.h"
#include "transforms/map/gpu/place_barriers.h"
#include "transforms/map/gpu/place_locals.h"
#include "transforms/map/gpu/reserve_locals.h"
#include "transforms/map/gpu/shape_blocks.h"
#include "transforms/map/gpu/split_kernels.h"
#include "transforms/map/gpu/unroll_short_loops.h"
#include "transforms/map/gpu/widen_accesses.h"
#include "transforms/pass/pass.h"
#include "transforms/schedule/apply_schedule.h"
#include "transforms/storage/accumulate_in_registers.h"
#include "transforms/storage/fold_arrays.h"
#include "transforms/storage/forward_elements.h"
#include "transforms/storage/join_scalars.h"
#include "transforms/storage/keep_last_elements.h"
#include "transforms/storage/merge_copies.h"
#include "transforms/storage/narrow_fills.h"
#include "transforms/storage/read_before.h"
#include "transforms/storage/read_levels.h"
#include "transforms/storage/repeat_scalars.h"
#include "transforms/storage/store_last_level.h"
#include "transforms/storage/unread_stores.h"
#include "transforms/sums/assign_first_sums.h"
#include "transforms/sums/contractions/recognize_contractions.h"
#include "transforms/sums/count_from_zero.h"
#include "transforms/sums/delay_sums.h"
#include "transforms/sums/invert_scatters.h"
#include "transforms/sums/join_scatters.h"
#include "transforms/sums/keep_orders.h"
#include "transforms/sums/lane_copies.h"
#include "transforms/sums/merge_updates.h"
#include "transforms/sums/restructure_sums.h"
#include "transforms/sums/scans/isolate_recurrences.h"
#include "transforms/sums/scans/scan_recurrences.h"
#include "transforms/sums/sort_scatters.h"
#include "transforms/sums/sum_rows_first.h"
#include "transforms/sums/zero_fills.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <loopgrad/error.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

namespace loopgrad::transforms {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool verifies() {
#ifdef NDEBUG
  return environment("LOOPGRAD_VERIFY") == "1";
#else
  return true;
#endif
}

/// A function that needs no more than the program, as a pass.
template <ir::Program (*transform)(const ir::Program&)>
ir::Program plain(const ir::Program& program, PassContext&) {
  return transform(program);
}

}  // namespace

ir::Program run_pass(const Pass& pass, const ir::Program& program, PassContext& context) {
  auto start = std::chrono::steady_clock::now();
  ir::Program result = pass.run(program, context);
  if (environment("LOOPGRAD_TIME") == "1") {
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    fmt::print(stderr, "{:8.2f} ms  {} ({})\n", ms.count(), pass.name, program.name);
  }
  if (verifies()) ir::verify(result, pass.name);
  if (environment("LOOPGRAD_DUMP") == std::string("after:") + pass.name) {
    bool same = result.body.same_as(program.body);
    fmt::print(stderr, "{}\n", same ? program.name + ": unchanged by " + pass.name : ir::print(result));
  }
  return result;
}

namespace {

/// Adds rows to a part of the list.
auto adder(std::vector<Pass>& list, Part part) {
  return [&list, part](const char* name, PassFunction run, const char* why_here, bool required = false) {
    list.push_back({name, part, run, why_here, required});
  };
}

ir::Program without_rules(const ir::Program& program, PassContext&) {
  return ir::with_body(program, ir::without_rules(program.body));
}

ir::Program without_stops(const ir::Program& program, PassContext&) {
  return ir::with_body(program, ir::without_stops(program.body));
}

/// Says which arguments are no longer what callers declared.
ir::Program matrices(const ir::Program& program, PassContext& context) {
  ir::Program result = poly::unflatten(program);
  for (const ir::Array& array : result.arrays) {
    if (array->given.empty()) continue;
    const auto text = [](const std::vector<ir::Expr>& extents) {
      std::string list;
      for (const ir::Expr& extent : extents) list += (list.empty() ? "" : ", ") + ir::print(extent);
      return "[" + list + "]";
    };
    context.report.remarks.push_back({fmt::format("'{}{}' is taken as {}: all of its indices are written so",
                                                  array->name, text(array->given), text(array->shape)),
                                      array->location});
  }
  return result;
}

ir::Program extremum_searches(const ir::Program& program, PassContext& context) {
  const bool stays = context.options.by_hand || !context.options.schedule.empty();
  constexpr std::int64_t least_searched = 65;  // iterations: fewer are unrolled, in lanes of a loop around
  const auto guarded = context.options.machine.is_gpu() ? ir::GuardedSearch::InAnyOrder : ir::GuardedSearch::None;
  return stays ? program : ir::with_extremum_searches(program, least_searched, guarded);
}

Notes notes_on(const Machine& machine) { return machine.is_gpu() ? Notes::Atomic : Notes::AsSums; }

void add_bounds(std::vector<Pass>& list, const LowerOptions& options) {
  const auto add = adder(list, Part::Bounds);
  add("without_rules", without_rules, "first: no pass nor emitter knows a region with a gradient of its own", true);
  add("without_stops", without_stops, "early: where derivatives end is settled, and no pass needs to look through it");
  add("known_bounds", plain<ir::with_known_bounds>, "early: bounds that are read once are known to all passes");
  if (options.mode != SumMode::Serial) {
    add("closed_counters", plain<ir::with_closed_counters>,
        "early: what follows from iterators is no data to any pass");
    add("own_values", plain<ir::with_own_values>, "after closed_counters: what is left is values, no indices");
    if (options.mode == SumMode::Restructured)
      add("extremum_searches", extremum_searches, "after closed_counters: what is stored is made of iterators");
  }
  add("number_entries", plain<ir::with_numbered_entries>,
      "after known_bounds, which shows how long loops over rows are");
  add("unflatten", matrices, "before anything asks which elements are touched");
  if (options.bounded == Bounded::Nothing) return;
  const auto trips = [](const ir::Program& program, PassContext& context) {
    Record record;
    ir::Program result =
        bound_trips(program, context.options.records_trips ? &record : nullptr, notes_on(context.options.machine));
    context.records.push_back(std::move(record));
    return result;
  };
  const auto accesses = [](const ir::Program& program, PassContext& context) {
    Record record;
    const bool reads = context.options.bounded == Bounded::Accesses;
    ir::Program result =
        bound_accesses(program, reads, record, context.options.computed, notes_on(context.options.machine));
    context.records.push_back(std::move(record));
    return result;
  };
  add("bound_trips", trips, "before any pass relies on what a loop promises", true);
  add("bound_accesses", accesses, "whatever sums or sorts by an index finds one in range", true);
}

void add_shared(std::vector<Pass>& list, const LowerOptions& options) {
  const auto add = adder(list, Part::Shared);
  const bool restructures = options.mode == SumMode::Restructured;
  if (options.mode != SumMode::Serial)
    add("narrow_scopes", plain<ir::with_narrow_scopes>,
        "first: a workspace from outside would keep the loops around it in order");
  if (options.machine.counts_kernels && options.mode != SumMode::Serial)
    add("hoist_steps", hoist_steps, "early: loops of a step are nests then, like those of one problem alone");
  if (restructures) {
    add("unread_sums", drop_unread_sums, "early: cleared adjoints that nobody reads hide copies");
    add("sum_rows_first", sum_rows_first, "before anything asks which sums need their terms brought together");
  }
  add("narrow_fills", plain<narrow_fills>, "early: what rows are filled for nothing would count as work");
  if (restructures) {
    add("recognize_contractions", recognize_contractions, "early: loops as written are perfect nests");
    if (options.machine.sorts_scatters)
      add("count_from_zero", plain<count_from_zero>, "before sums get plans: which elements data choose");
    add("shared_searches", plain<search_shared_loops>,
        "before sums get plans: a search has one term, not one a candidate");
    add("find_takers", find_takers, "before sums get plans: what else a loop carries keeps it in order");
    add("isolate_recurrences", isolate_recurrences,
        "before sums get plans, for which the rest of a loop is parallel then");
    if (options.machine.counts_kernels)
      add("read_before", read_before, "before sums get plans, in loops that are parallel but for sums then");
    add("assign_single_sums", assign_single_sums, "before sums are cut into blocks, whose bounds are no longer affine");
    add("single_zero_fills", shrink_zero_fills, "zeros that no sum starts from any more");
    add("restructure_sums", restructure_sums, "early: works on the loops as written");
    add("delay_sums", delay_sums, "sums are gathered, and none is an assignment yet");
  }
  add("apply_schedule", apply_schedule, "the user's steps: on the loops that do the sums, perfect nests yet", true);
  if (restructures) {
    add("assign_first_sums", assign_first_sums, "one gathered sum often writes all of its target");
    add("unread_elements", drop_unread_elements, "before zero_fills, which would keep their zeros");
    add("zero_fills", shrink_zero_fills, "zeros that no sum starts from any more");
    add("unread_stores", drop_unread_stores, "again: also locals whose values were forwarded, zeros of the next step");
    add("merge_copies", merge_copies, "once every local has the writers that it keeps");
    add("read_levels", read_levels, "new states are on the tape before they are copied to their array");
    add("store_last_level", store_last_level, "what read_levels copies after the loop is one case");
  }
  if (options.mode == SumMode::Serial) return;
  add("parallelize_loops", parallelize_loops, "late: loops are final, so what is proved stays true");
  if (restructures) add("fold_arrays", fold_arrays, "last: only loops that are not parallel give up levels");
}

/// Arrays that follow from indices become arguments, which the report names.
ir::Program kept_orders(const ir::Program& program, PassContext& context) {
  ir::Program result = keep_orders(program, context.kept, context.options);
  std::string arrays, deciding;
  const KeptOrders& kept = context.kept;
  const std::size_t orders = kept.arrays.size() - (kept.compares ? kept.deciding.size() : 0);
  for (std::size_t k = 0; k < orders; ++k) arrays += (arrays.empty() ? "" : ", ") + kept.arrays[k]->name;
  for (const ir::Array& array : kept.deciding)
    deciding += fmt::format("{}'{}'", deciding.empty() ? "" : ", ", array->name);
  if (!arrays.empty())
    context.report.remarks.push_back(
        {fmt::format("{} follow from {}: they are kept from run to run while the caller passes these as `versioned`{}",
                     arrays, deciding,
                     kept.compares ? ", or each run finds them as they were, element by element" : ""),
         kept.arrays.front()->location});
  return result;
}

constexpr const char* why_keep_orders = "sorts and inverses of index arrays are nests of their own now";

void add_cpu(std::vector<Pass>& list, const LowerOptions& options) {
  const auto add = adder(list, Part::Mapping);
  const auto merge_all = [](const ir::Program& program, PassContext&) { return merge_updates(program, Updates::All); };
  add("search_loops", plain<search_loops>, "a search is a maximum, which the passes on sums know");
  add("scan_recurrences", scan_recurrences, "before nests that follow each other are joined again");
  add("invert_scatters", invert_scatters, "before rows are fused, which takes the loop over iterations apart");
  if (options.orders != Orders::Computed) add("keep_orders", kept_orders, why_keep_orders);
  add("fuse_rows", fuse_rows, "whole nests, before loops in them are changed one by one");
  add("sink_sum_loops", sink_sum_loops, "sums outermost in a row become loops around it");
  add("split_loops_at_guards", plain<split_loops_at_guards>, "lanes want loops without conditions");
  add("unswitch_rows", plain<unswitch_rows>, "what a split leaves of conditions does not depend on the row");
  add("accumulate_in_registers", plain<accumulate_in_registers>, "innermost loops are final");
  add("merge_updates", merge_all, "sums in registers are updated once in each iteration");
  add("tile_lanes", tile_lanes, "rectangles without branches, with their sums in registers");
  add("split_outer_loops_at_guards", plain<split_outer_loops_at_guards>,
      "after the lanes, which want rectangles and mask what a branch leaves out");
  add("jam_sums", jam_sums, "sums that no lanes took");
  add("hoist_indices", plain<hoist_indices>, "last of those that change loops: names what they repeat");
}

/// How the threads and lanes of a CPU run the loops, which are final.
void run_on_cpu(std::vector<Pass>& list) {
  const auto add = adder(list, Part::Running);
  add("vectorize_loops", vectorize_loops, "first: there are no threads in a loop over lanes");
  add("share_loops", share_loops, "the outermost parallel loops that are left; nests of them leave their lanes");
  add("stream_rows", stream_rows, "of loops in lanes that one thread does");
  add("place_arrays", place_arrays, "threads are decided: who is inside of them needs memory of its own", true);
  add("join_regions", join_regions, "last: loops whose memory can run out stay apart");
}

void add_gpu(std::vector<Pass>& list, const LowerOptions& options) {
  const auto add = adder(list, Part::Mapping);
  const auto repeat = [](const ir::Program& program, PassContext& context) {
    return repeat_scalars(program, most_repeating(context.options.machine));
  };
  const auto sort = [](const ir::Program& program, PassContext& context) {
    return sort_scatters(program, context.options.machine.enough_threads, context.options.threads_per_block, &context);
  };
  const auto constants = [](const ir::Program& program, PassContext&) {
    return ir::with_body(program, name_constants(program.body));
  };
  add("search_loops", plain<search_loops>, "a search is a maximum, which the passes on sums know");
  add("hoist_parallel_loops", hoist_parallel_loops, "kernels are nests of parallel loops, outermost");
  add("split_kernels", split_kernels, "what should not be one kernel, before nests are fused");
  add("join_scalars", plain<join_scalars>, "single assignments in a row are one kernel");
  add("unroll_short_loops", plain<unroll_short_loops>, "copies of an iteration fuse like other nests");
  add("fuse_nests", fuse_nests, "fewer kernels, and values stay in registers between them");
  add("keep_last_elements", plain<keep_last_elements>, "fused nests write and read one element");
  add("repeat_scalars", repeat, "scalars that are cheaper to compute in each block than in a kernel");
  add("forward_elements", plain<forward_elements>, "what a repeated kernel has stored is read from registers");
  add("unswitch_kernels", plain<unswitch_kernels>, "the host asks for conditions that hold for a whole launch");
  add("scan_recurrences", scan_recurrences, "whole nests, before they are cut into blocks: its own are blocks already");
  add("join_scatters", plain<join_scatters>, "what is one stream is sorted once");
  add("sort_scatters", sort, "targets from data: on whole nests, before they are cut into blocks");
  if (options.orders != Orders::Computed) add("keep_orders", kept_orders, why_keep_orders);
  add("lane_copies", lane_copies, "few targets: copies for lanes, on whole nests too");
  add("flatten_rows", plain<flatten_rows>, "rows are as long as they are: what looks for rows in nests has found them");
  add("narrow_bands", plain<narrow_bands>, "a grid is a box: nests are as they become one");
  add("map_to_gpu", map_to_gpu, "nests are final: each becomes a kernel or several", true);
  add("name_constants", constants, "names what all threads of a launch would compute: loops are final");
}

/// How the blocks and threads of a GPU run the loops, which are final.
void run_on_gpu(std::vector<Pass>& list) {
  const auto add = adder(list, Part::Running);
  add("place_locals", plain<place_locals>, "first: who shares a local follows from the loops over threads", true);
  add("reserve_locals", plain<reserve_locals>, "of those that threads share, and those of each", true);
  add("widen_accesses", plain<widen_accesses>, "locals of a thread are no memory, and are not moved by wide accesses");
  const auto shape = [](const ir::Program& program, PassContext& context) {
    return shape_blocks(program, context.options.machine.enough_threads);
  };
  add("shape_blocks", shape, "columns without wide accesses want many blocks at once", true);
  add("place_barriers", plain<place_barriers>, "last: what threads share is decided, and which kernels have several",
      true);
}

std::set<std::string> names_in(const std::string& list) {
  std::set<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');)
    if (!name.empty()) names.insert(name);
  return names;
}

/// The pass that LOOPGRAD_DUMP=after:PASS names; empty where it is not set.
std::string dumped_pass(const std::string& program) {
  const std::string asked = environment("LOOPGRAD_DUMP"), after = "after:";
  if (asked.empty() || asked.starts_with(after)) return asked.substr(std::min(asked.size(), after.size()));
  throw UsageError({.code = ErrorCode::BadInput,
                    .message = "LOOPGRAD_DUMP is '" + asked + "', which names no pass",
                    .program = program,
                    .hint = "set it to after:PASS"});
}

/// Refuses a name that no pass of any target has; a pass that another target has is left out there.
void check_names(const std::set<std::string>& names, const std::string& program) {
  std::set<std::string> known;
  for (const Machine& machine : {cpu_machine(), gpu_machine()}) {
    const LowerOptions all = {.machine = machine, .bounded = Bounded::Accesses, .orders = Orders::Kept};
    for (const Pass& pass : passes(all)) known.insert(pass.name);
  }
  for (const std::string& name : names) {
    if (known.count(name)) continue;
    throw UsageError({.code = ErrorCode::BadInput,
                      .message = "there is no pass '" + name + "'",
                      .program = program,
                      .hint = fmt::format("one of {}", fmt::join(known, ", "))});
  }
}

}  // namespace

std::vector<Pass> passes(const LowerOptions& options) {
  std::vector<Pass> list;
  add_bounds(list, options);
  add_shared(list, options);
  if (!options.machine.is_gpu()) add_cpu(list, options);
  else if (options.mode != SumMode::Serial) add_gpu(list, options);  // a stack is one thread's
  if (options.machine.is_gpu()) run_on_gpu(list);
  else run_on_cpu(list);
  std::erase_if(list, [&](const Pass& pass) { return pass.part < options.first || pass.part > options.last; });
  return list;
}

Lowered lower_for(const ir::Program& program, const LowerOptions& options, Report& report) {
  if (ir::is_empty(program.body)) return {program};
  PassContext context{options, report};
  const auto known = static_cast<std::ptrdiff_t>(report.kernels.size());  // of other programs
  std::set<std::string> skip = options.skip;
  skip.merge(names_in(environment("LOOPGRAD_SKIP")));
  std::set<std::string> named = skip;
  if (!options.until.empty()) named.insert(options.until);
  if (!environment("LOOPGRAD_DUMP").empty()) named.insert(dumped_pass(program.name));
  if (!named.empty()) check_names(named, program.name);
  ir::Program result = program;
  for (const Pass& pass : passes(options)) {
    if (pass.required || !skip.count(pass.name)) result = run_pass(pass, result, context);
    if (pass.name == options.until) break;
  }
  // In every build: a pass that is wrong is an error here, not a kernel whose threads wait for each other for ever.
  if (!verifies()) ir::verify(result, "the passes");
  report_plans(context);
  return {std::move(result),
          std::move(context.records),
          {report.kernels.begin() + known, report.kernels.end()},
          std::move(context.kept)};
}

namespace {

LowerOptions up_to(PassFunction end, LowerOptions options) {
  for (const Pass& pass : passes(options)) {
    if (pass.run == end) break;
    options.until = pass.name;
  }
  return options;
}

}  // namespace

LowerOptions up_to_schedule(LowerOptions options) {
  options.schedule = {};
  options.by_hand = true;
  return up_to(apply_schedule, options);
}

LowerOptions up_to_mapping(LowerOptions options) { return up_to(map_to_gpu, options); }

ir::Program before_schedule(const ir::Program& program, const LowerOptions& options) {
  Report report;
  return lower_for(program, up_to_schedule(options), report).program;
}

}  // namespace loopgrad::transforms
