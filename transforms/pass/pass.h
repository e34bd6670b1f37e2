// What passes share.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/options.h"
#include "transforms/pass/record.h"
#include "transforms/pass/sum_plan.h"

#include <loopgrad/report.h>

#include <functional>
#include <memory>
#include <set>

namespace loopgrad::transforms {

class Analyses;

struct PassContext {
  const LowerOptions& options;
  Report& report;
  std::vector<Record> records = {};          // arrays that the program has been given to note in
  KeptOrders kept = {};                      // and arrays that it finds again
  std::vector<SumPlan> plans = {};           // of its sums; see add_plan
  std::set<std::int64_t> introduced = {};    // arrays that the user's program does not have
  std::set<std::int64_t> partials = {};      // those of them that hold partial results of sums
  std::set<std::int64_t> started_sums = {};  // arrays in which assign_first_sums let a sum start by an assignment
  unsigned long isl_budget = 0;              // isl operations per question; 0: the default
  std::shared_ptr<Analyses> analyses = {};   // see analyses.h
};

inline void note_partials(PassContext& context, const ir::Array& array) {
  context.introduced.insert(array->id);
  context.partials.insert(array->id);
}

/// Decides about sums. For a sum that a library may do, `plan` is what its loops do.
void add_plan(PassContext& context, SumPlan plan);
/// Whether there is a plan for a sum of that line into that array, whose loops may be others by now.
bool has_plan(const PassContext& context, const ir::Reduce& sum);
/// The sums of that line into that array are done in another way than their plans say: `change` makes these say it.
using PlanChange = std::function<void(SumPlan&)>;
void replan(PassContext& context, const ir::Reduce& sum, const PlanChange& change);
/// All plans, as they are now, go to the report, but for those of what the program notes for whoever runs it.
void report_plans(PassContext& context);

/// A pass: a function from program to program that adds its decisions to the report.
using PassFunction = ir::Program (*)(const ir::Program&, PassContext&);

struct Pass {
  const char* name;
  Part part;
  PassFunction run;
  const char* why_here;
  bool required = false;  // what follows does not work without it, or nothing would be safe
};

/// The passes for these options, in the order in which `lower_for` runs them.
std::vector<Pass> passes(const LowerOptions& options);

/// Runs one of them: timed, dumped, verified.
ir::Program run_pass(const Pass& pass, const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
