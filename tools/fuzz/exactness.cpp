#include "tools/fuzz/exactness.h"

#include "dsl/ir/library_calls.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

/// Collects what is not exact. Loops carry values around, so one looks until nothing is added any more.
class Inexact {
 public:
  Inexact(SumOrder order, const std::map<std::string, std::string>& shared) : order_(order), shared_(shared) {}

  void add(const ir::Program& program) {
    if (order_ == SumOrder::Free) add_carried(program);
    std::size_t before;
    do {
      before = found_.size();
      visit_stmt(program.body, false);
    } while (found_.size() != before);
  }
  bool has(const Array& array) const { return found_.count(key(array)) > 0; }

 private:
  /// Arguments and tapes are the same ones in all programs.
  std::string key(const Array& array) const {
    if (array->role == ArrayRole::Local) return fmt::format("{}#{}", array->name, array->id);
    const auto owner = shared_.find(array->name);
    return owner == shared_.end() ? array->name : owner->second;
  }

  bool is_inexact(const Expr& e) const {
    bool found = false;
    if (e)
      walk(e, [&](const Expr& x) {
        const auto* load = x.as<Load>();
        found |= ir::is_library_call(x) || (load && has(load->array));
      });
    return found;
  }

  void write(const Array& array, const std::vector<Expr>& indices, bool inexact) {
    for (const Expr& index : indices) inexact |= is_inexact(index);
    if (inexact) found_.insert(key(array));
  }

  /// Floats that come from earlier values of themselves may be scans, which compose steps in another order. Taken for
  /// one: every cycle of assignments, whatever their steps and indices.
  void add_carried(const ir::Program& program) {
    std::map<std::string, std::set<std::string>> sources;
    walk_stmts(program.body, [&](const Stmt& s) {
      const auto* assign = s.as<Assign>();
      if (!assign || !is_float(assign->array->type)) return;
      std::set<std::string>& read = sources[key(assign->array)];
      walk(assign->value, [&](const Expr& e) {
        if (const auto* load = e.as<Load>(); load && is_float(load->array->type)) read.insert(key(load->array));
      });
    });
    for (const auto& [name, direct] : sources) {
      std::set<std::string> reached;
      std::vector<std::string> open(direct.begin(), direct.end());
      while (!open.empty()) {
        const std::string next = open.back();
        open.pop_back();
        if (!reached.insert(next).second) continue;
        if (const auto more = sources.find(next); more != sources.end())
          open.insert(open.end(), more->second.begin(), more->second.end());
      }
      if (reached.count(name)) found_.insert(name);
    }
  }

  /// `control`: whether it runs depends on what is not exact.
  void visit_stmt(const Stmt& s, bool control) {
    if (!s) return;
    visit(s, overloaded{
                 [&](const Block& n) {
                   for (const Stmt& child : n.body) visit_stmt(child, control);
                 },
                 [&](const For& n) { visit_stmt(n.body, control || is_inexact(n.lower) || is_inexact(n.upper)); },
                 [&](const While& n) {
                   visit_stmt(n.body, control || is_inexact(n.max_trips) || is_inexact(n.condition));
                 },
                 [&](const If& n) {
                   const bool depends = control || is_inexact(n.condition);
                   visit_stmt(n.then_body, depends);
                   visit_stmt(n.else_body, depends);
                 },
                 [&](const Assign& n) { write(n.array, n.indices, control || is_inexact(n.value)); },
                 [&](const Reduce& n) {
                   const bool sums = (n.op == ReduceOp::Add || n.op == ReduceOp::Mul) && is_float(n.array->type);
                   write(n.array, n.indices, control || is_inexact(n.value) || (sums && order_ == SumOrder::Free));
                 },
                 [&](const Allocate& n) { visit_stmt(n.body, control); },
                 [&](const Push& n) {
                   if (control || is_inexact(n.value)) found_.insert(stack);
                 },
                 [&](const Pop& n) { write(n.array, n.indices, control || found_.count(stack) > 0); },
                 [&](const Contraction& n) { visit_stmt(n.loops, control); },
                 [](const Barrier&) {},
                 [&](const CustomGradient& n) { visit_stmt(n.body, control); },
             });
  }

  static constexpr const char* stack = "(stack)";
  const SumOrder order_;
  const std::map<std::string, std::string>& shared_;
  std::set<std::string> found_;
};

}  // namespace

std::set<std::string> exact_arrays(const std::vector<loopgrad::Program>& programs, SumOrder order,
                                   const std::map<std::string, std::string>& shared) {
  Inexact inexact(order, shared);
  for (const loopgrad::Program& program : programs) inexact.add(program.ir());
  std::set<std::string> exact;
  for (const loopgrad::Program& program : programs)
    for (const Array& array : program.ir().arrays)
      if (!inexact.has(array)) exact.insert(array->name);
  return exact;
}

bool reorders_sums(const std::string& generated) {
  for (const char* way : {"reduction(+", "reduction(*", "Lanes<", "multiply<"})
    if (generated.find(way) != std::string::npos) return true;
  return false;
}

}  // namespace loopgrad::fuzz
