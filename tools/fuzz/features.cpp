#include "tools/fuzz/features.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::fuzz {
namespace {

using namespace ir;

class Collector {
 public:
  explicit Collector(const Case& c) {
    const ir::Program& program = c.program.ir();
    for (const Array& array : program.arrays) see(array);
    for (const Fact& fact : program.facts) add("fact: ", ir::name_of(fact.kind));
    if (!c.shared.empty()) add("fact: ", "two arguments in one memory");
    statements(program.body, 0);
    for (const std::string& trait : c.traits) features.insert(trait);
    for (const auto& [name, size] : c.sizes) {
      if (size < 2) add("size: ", size == 0 ? "zero" : "one");
    }
    std::int64_t largest = 0;
    for (const auto& [name, size] : c.medium) largest = std::max(largest, size);
    add("size when compiled: ", largest < 32 ? "below 32" : largest < 256 ? "32 to 255" : "256 and more");
    const GradientOptions what = gradient_options(c);
    if (!what.wrt.empty()) add("gradient: ", "by some arrays only");
    if (!what.of.empty()) add("gradient: ", "of some outputs only");
  }

  std::set<std::string> features;

 private:
  void add(const std::string& kind, const std::string& what) { features.insert(kind + what); }

  void see(const Array& array) {
    static const char* const roles[] = {"input", "output", "in-out", "local", "tape"};
    const char* const role = roles[static_cast<int>(array->role)];
    add("type: ", loopgrad::name_of(array->type));
    add("rank: ", std::to_string(array->shape.size()));
    if (!is_float(array->type)) add("integers: ", fmt::format("{} {}", role, loopgrad::name_of(array->type)));
    else add("floats: ", role);
  }

  void statements(const Stmt& s, int depth) {
    if (!s) return;
    int inner = depth;
    if (const auto* loop = s.as<For>()) {
      ++inner;
      add("depth: ", std::to_string(std::min(inner, 5)));
      add("loop: ", has_load(*loop) ? "bounds from data" : has_var(loop->lower, loop->upper) ? "triangular" : "plain");
      if (loop->at_most) add("loop: ", "at_most");
    } else if (s.as<While>()) {
      ++inner;
      add("loop: ", "while");
    } else if (s.as<If>()) {
      add("statement: ", depth > 0 ? "if in a loop" : "if");
    } else if (const auto* local = s.as<Allocate>()) {
      see(local->array);
      if (local->array->on_tape != TapeChoice::Planned)
        add("chosen for the tape: ", local->array->on_tape == TapeChoice::Saved ? "saved" : "recomputed");
      add("local at depth: ", std::to_string(std::min(depth, 4)));
    } else if (const auto* sum = s.as<Reduce>()) {
      add("statement: ", ir::name_of(sum->op));
      if (ir::reads(s, sum->array)) add("statement: ", "a sum that reads its target");
      indices(sum->indices, "written");
    } else if (const auto* store = s.as<Assign>()) {
      add("statement: ", "=");
      indices(store->indices, "written");
    }
    if (const auto* loop = s.as<For>()) iterators_.push_back(loop->iterator);
    for_each_child(s, overloaded{[&](const Expr& e) { expressions(e); }, [&](const Stmt& c) { statements(c, inner); }});
    if (s.as<For>()) iterators_.pop_back();
  }

  static bool has_load(const For& loop) {
    bool found = false;
    for (const Expr& e : {loop.lower, loop.upper}) walk(e, [&](const Expr& x) { found |= x.as<Load>() != nullptr; });
    return found;
  }
  bool has_var(const Expr& lower, const Expr& upper) const {
    bool found = false;
    for (const Expr& e : {lower, upper})
      walk(e, [&](const Expr& x) {
        const auto* v = x.as<Var>();
        found |= v && std::find(iterators_.begin(), iterators_.end(), v->symbol) != iterators_.end();
      });
    return found;
  }

  void expressions(const Expr& root) {
    walk(root, [&](const Expr& e) {
      if (const auto* n = e.as<Load>()) indices(n->indices, "read");
      if (const auto* n = e.as<Unary>()) add("function: ", ir::name_of(n->op));
      if (const auto* n = e.as<Binary>();
          n && (n->op == BinaryOp::Pow || n->op == BinaryOp::Atan2 || n->op == BinaryOp::Min || n->op == BinaryOp::Max))
        add("function: ", ir::name_of(n->op));
      if (e.as<Select>()) add("function: ", "select");
    });
  }

  void indices(const std::vector<Expr>& list, const std::string& use) {
    for (const Expr& index : list) {
      int nested = 0;
      bool ring = false, clamp = false, data = false;
      depth_of_loads(index, 0, nested);
      walk(index, [&](const Expr& e) {
        const auto* n = e.as<Binary>();
        ring |= n && n->op == BinaryOp::Mod;
        clamp |= n && (n->op == BinaryOp::Min || n->op == BinaryOp::Max);
        const auto* c = e.as<Cast>();
        data |= c && is_float(c->a.type());
      });
      if (nested == 1) add("index: ", "from an array, " + use);
      if (nested > 1) add("index: ", "from nested arrays, " + use);
      if (ring) add("index: ", "modulo, " + use);
      if (clamp) add("index: ", "min or max, " + use);
      if (data) add("index: ", "cast of a float, " + use);
    }
  }
  static void depth_of_loads(const Expr& e, int depth, int& most) {
    if (e.as<Load>()) most = std::max(most, ++depth);
    for_each_child(e, [&](const Expr& child) { depth_of_loads(child, depth, most); });
  }

  std::vector<Symbol> iterators_;
};

}  // namespace

std::set<std::string> features_of(const Case& c) { return Collector(c).features; }

std::string features_page(const SessionOptions& options, const SessionResult& result) {
  std::string page = fmt::format(
      "# What `loopgrad fuzz` reaches\n\nWritten by the fuzzer itself:\n\n    OMP_WAIT_POLICY=passive loopgrad fuzz "
      "--seed {} --count {} --features docs/design/fuzzing.md\n\n{} programs, {} refused, {} compiled, {} without a "
      "derivative, {} mismatches. A program counts once in each row.\n",
      options.seed, options.count, result.programs, result.refused, result.compiled, result.flat,
      result.findings.size());
  std::string group;
  for (const auto& [feature, count] : result.features) {
    const std::size_t colon = feature.find(": ");
    const std::string head = feature.substr(0, colon);
    if (head != group) page += fmt::format("\n| {} | programs |\n|---|---|\n", head);
    group = head;
    page += fmt::format("| {} | {} |\n", feature.substr(colon + 2), count);
  }
  return page;
}

}  // namespace loopgrad::fuzz
