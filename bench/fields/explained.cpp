// Whether sums are done as reports say: each row of a report beside the loops of the program as it is emitted.
#include "backends/lowering.h"
#include "bench/fields/fields.h"
#include "dsl/ir/notes.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "tools/programs/programs.h"

#include <loopgrad/autodiff.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <set>

namespace loopgrad::fields {
namespace {

using ir::For, ir::LoopMode, ir::Reduce, ir::Stmt;

/// What statements of a line do: how, and into which array.
struct Form {
  std::string
      how;  // "parallel", "in order", "lanes", "ordered" (by an order that a pass has made), "whole", "block", ..
  std::string array;
  bool operator<(const Form& other) const { return std::tie(how, array) < std::tie(other.how, other.array); }
};

/// By the lines that statements come from.
class Forms {
 public:
  Forms(const ir::Program& before, const ir::Program& after) {
    for (const ir::Array& array : before.arrays) own_.insert(array->name);
    ir::walk_stmts(before.body, [&](const Stmt& s) {
      if (const auto* local = s.as<ir::Allocate>()) own_.insert(local->array->name);
    });
    look(after.body, {});
  }

  const std::set<Form>& at(const SourceLocation& line) const {
    static const std::set<Form> none;
    const auto found = forms_.find(line.str());
    return found == forms_.end() ? none : found->second;
  }

 private:
  struct Around {
    bool parallel = false, ordered = false, product = false;
  };

  /// An integer array of a pass.
  bool reads_order(const ir::Expr& bound) const {
    bool found = false;
    ir::walk(bound, [&](const ir::Expr& e) {
      const auto* load = e.as<ir::Load>();
      found |= load && !is_float(load->array->type) && !own_.count(load->array->name);
    });
    return found;
  }

  static std::string how(const Stmt& s, const Reduce& sum, const Around& around) {
    if (sum.atomic) return sum.of_block ? "block" : ir::is_order_free(s) ? "whole" : "atomic";
    if (around.ordered) return "ordered";
    if (sum.of_lanes) return "lanes";
    return around.parallel ? "parallel" : "in order";
  }

  void look(const Stmt& s, Around around) {
    if (!s) return;
    if (const auto* loop = s.as<For>()) {
      const bool shared = ir::is_parallel(loop->mode) || loop->run.threads;
      around.parallel |= shared && !ir::has_one_trip(*loop);
      around.ordered |= reads_order(loop->lower) && reads_order(loop->upper);
    }
    around.product |= s.kind() == ir::Kind::Contraction;
    if (const auto* sum = s.as<Reduce>()) {
      std::set<Form>& here = forms_[sum->location.str()];
      here.insert({how(s, *sum, around), sum->array->name});
      if (around.product) here.insert({"product", sum->array->name});
    }
    if (const auto* assign = s.as<ir::Assign>()) forms_[assign->location.str()].insert({"set", assign->array->name});
    ir::for_each_child(s, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& child) { look(child, around); }});
  }

  std::set<std::string> own_;  // names of the program's arrays
  std::map<std::string, std::set<Form>> forms_;
};

std::string target_of(const SumDecision& row) { return row.sum.substr(0, row.sum.find_first_of("[ ")); }

/// Whether passes have named the array after the target of the sum, or it is a total of theirs.
bool belongs_to(const std::string& array, const std::string& target) {
  return array == target || array.starts_with(target + "_") || array.starts_with("total");
}

/// Whether the loops do what the row says. What storage passes have put into another array is judged by its line.
bool is_done(const SumDecision& row, const std::set<Form>& forms) {
  const std::string target = target_of(row);
  const bool any_own =
      std::any_of(forms.begin(), forms.end(), [&](const Form& form) { return belongs_to(form.array, target); });
  const auto has = [&](const std::set<std::string>& ways, const char* part = "") {
    return std::any_of(forms.begin(), forms.end(), [&](const Form& form) {
      return ways.count(form.how) && form.array.find(part) != std::string::npos &&
             (!any_own || belongs_to(form.array, target));
    });
  };
  const std::set<std::string> plain = {"parallel", "lanes", "set", "in order"},
                              any = {"parallel", "lanes", "set", "in order", "ordered"};
  if (has({"atomic"})) return row.plan == "atomic";
  if (row.plan == "segments") return has({"ordered"});
  if (row.plan == "exact")
    return std::any_of(forms.begin(), forms.end(), [](const Form& form) { return form.how == "whole"; });
  if (row.plan == "library") return has({"product"});
  if (row.plan == "gather" || row.plan == "apart") return has({"parallel", "lanes", "set", "ordered", "in order"});
  if (row.plan == "none" || row.plan == "serial") return has(plain) || has({"block", "ordered"});
  if (row.plan == "tree" || row.plan == "partials" || row.plan == "split")
    return has({"block", "lanes"}) || has(any, "_part") || has(any, "_own");
  return false;
}

/// Sums that passes have joined with others into the same array stand on the lines of these.
bool is_joined(const Report& report, const SumDecision& row, const Forms& forms) {
  const std::set<Form>& own = forms.at(row.where);
  const bool stands = std::any_of(own.begin(), own.end(),
                                  [&](const Form& form) { return form.how != "set" && form.array == target_of(row); });
  return !stands && std::any_of(report.sums.begin(), report.sums.end(), [&](const SumDecision& other) {
    return other.plan == row.plan && target_of(other) == target_of(row) && is_done(other, forms.at(other.where));
  });
}

int differences(const ProgramEntry& entry, Target target) {
  const Gradient gradient = differentiate(entry.build(), {.wrt = entry.wrt});
  Report reports[2];
  const backend::LoweredGradient lowered =
      backend::lower_gradient(gradient, {.target = target, .expected_sizes = entry.sizes}, reports[0], reports[1]);
  int count = 0;
  for (const bool backward : {false, true}) {
    const Report& report = reports[backward];
    const Forms forms((backward ? gradient.backward : gradient.forward).ir(),
                      (backward ? lowered.backward : lowered.forward).program);
    for (const SumDecision& row : report.sums) {
      if (is_done(row, forms.at(row.where)) || is_joined(report, row, forms)) continue;
      std::string found;
      for (const Form& form : forms.at(row.where)) found += " " + form.how + ":" + form.array;
      fmt::print("{} {} {}: '{}' ({}) is said to be {}, but is{}\n", entry.name, name_of(target),
                 backward ? "backward" : "forward", row.sum, row.where.str(), row.plan, found);
      ++count;
    }
  }
  return count;
}

}  // namespace

int check_explained(const std::vector<std::string>& only) {
  std::vector<ProgramEntry> entries = programs::all();
  for (const Field& field : all_fields()) entries.push_back(field.entry);
  int count = 0;
  for (const ProgramEntry& entry : entries)
    if (only.empty() || std::find(only.begin(), only.end(), entry.name) != only.end())
      for (const Target target : {Target::OpenMP, Target::Cuda}) count += differences(entry, target);
  fmt::print("{} sums are done in another way than explained\n", count);
  return count == 0 ? 0 : 1;
}

}  // namespace loopgrad::fields
