#include "backends/cuda/width_text.h"

#include "backends/c_text/code_text.h"
#include "backends/c_text/expr_text.h"
#include "backends/cuda/index_width.h"
#include "backends/emit/size_text.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

namespace loopgrad::backend {

using namespace ir;

const char* const interval_text = R"(
// What an integer of a kernel can be. `narrow`: it and all that it is computed from are between -2^30 and 2^30, so that the
// sum of any two fits in 32 bits.
struct Interval {
  Number low, high;
  bool narrow;
  Interval(Number from, Number to, bool steps = true)
      : low(from), high(to), narrow(steps && from.fits && to.fits && from.value > -limit && to.value < limit) {}
  Interval(int64_t number) : Interval(Number(number), Number(number)) {}

 private:
  static constexpr int64_t limit = int64_t(1) << 30;
};
inline bool steps_of(const Interval& a, const Interval& b) { return a.narrow && b.narrow; }
[[maybe_unused]] inline Interval unknown() { return {Number(0, false), Number(0, false)}; }
[[maybe_unused]] inline Interval operator+(const Interval& a, const Interval& b) {
  return {a.low + b.low, a.high + b.high, steps_of(a, b)};
}
[[maybe_unused]] inline Interval operator-(const Interval& a, const Interval& b) {
  return {a.low - b.high, a.high - b.low, steps_of(a, b)};
}
[[maybe_unused]] inline Interval operator*(const Interval& a, const Interval& b) {
  const Number p = a.low * b.low, q = a.low * b.high, r = a.high * b.low, s = a.high * b.high;
  return {smaller(smaller(p, q), smaller(r, s)), larger(larger(p, q), larger(r, s)), steps_of(a, b)};
}
[[maybe_unused]] inline Interval quotient(const Interval& a, const Interval& b) {
  if (b.low.value <= 0 && b.high.value >= 0) {  // division by zero gives 0
    const Number most = larger(larger(a.high, Number(0) - a.low), 0);
    return {Number(0) - most, most, steps_of(a, b)};
  }
  const Number p = quotient(a.low, b.low), q = quotient(a.low, b.high), r = quotient(a.high, b.low),
               s = quotient(a.high, b.high);
  return {smaller(smaller(p, q), smaller(r, s)), larger(larger(p, q), larger(r, s)), steps_of(a, b)};
}
[[maybe_unused]] inline Interval rest(const Interval& a, const Interval& b) {
  if (a.low.value == a.high.value && b.low.value == b.high.value)
    return {rest(a.low, b.low), rest(a.low, b.low), steps_of(a, b)};
  return {smaller(b.low, 0), larger(b.high, 0), steps_of(a, b)};
}
[[maybe_unused]] inline Interval smaller(const Interval& a, const Interval& b) {
  return {smaller(a.low, b.low), smaller(a.high, b.high), steps_of(a, b)};
}
[[maybe_unused]] inline Interval larger(const Interval& a, const Interval& b) {
  return {larger(a.low, b.low), larger(a.high, b.high), steps_of(a, b)};
}
// What is decided is exact where both sides are.
[[maybe_unused]] inline Interval is_less(const Interval& a, const Interval& b) {
  return {is_less(a.high, b.low), is_less(a.low, b.high), steps_of(a, b)};
}
[[maybe_unused]] inline Interval is_same(const Interval& a, const Interval& b) {
  const Number apart = either(is_less(a.high, b.low), is_less(b.high, a.low));
  const Number one = both(both(is_same(a.low, a.high), is_same(b.low, b.high)), is_same(a.low, b.low));
  return {one, negated(apart), steps_of(a, b)};
}
[[maybe_unused]] inline Interval negated(const Interval& a) { return {negated(a.high), negated(a.low), a.narrow}; }
[[maybe_unused]] inline Interval both(const Interval& a, const Interval& b) {
  return {both(a.low, b.low), both(a.high, b.high), steps_of(a, b)};
}
[[maybe_unused]] inline Interval either(const Interval& a, const Interval& b) {
  return {either(a.low, b.low), either(a.high, b.high), steps_of(a, b)};
}
[[maybe_unused]] inline Interval chosen(const Interval& condition, const Interval& a, const Interval& b) {
  if (condition.low.value == condition.high.value) {
    const Interval& one = condition.low.value ? a : b;
    return {one.low, one.high, condition.narrow && steps_of(a, b)};
  }
  return {smaller(a.low, b.low), larger(a.high, b.high), condition.narrow && steps_of(a, b)};
}
)";

namespace {

/// Follows WidthCheck of index_width.cpp, statement by statement, but for loops without iterations: what is in them
/// counts as well. So each thing is looked at once, wherever it stands.
class WidthWriter {
 public:
  WidthWriter(const EmitPlan& plan, const EmitPart& part)
      : plan_(plan), part_(part), stale_(part.kept.stale), text_(part.program) {
    text_.index_type = either_width;
  }

  std::string write(const std::string& name, const Stmt& body, bool mapped) {
    for (const std::string& size : plan_.sizes) names_.fresh(size);
    for (const Symbol& size : part_.program.sizes) check(interval(var(size)));
    visit(body, !mapped, "Interval(1)");
    return fmt::format(
        "\n// Whether all indices fit in 32 bits for these sizes.\ninline bool {}({}) {{\n  bool narrow = "
        "true;\n{}  return narrow;\n}}\n",
        name, parameters(), code_.take());
  }

 private:
  std::string parameters() const {
    std::string out;
    for (const std::string& size : plan_.sizes_of(part_))
      out += fmt::format("{}[[maybe_unused]] int64_t {}", out.empty() ? "" : ", ", plan_.names.of(size));
    return out;
  }

  void visit(const Stmt& s, bool in_kernel, const std::string& blocks) {
    if (!s) return;
    if (const auto* loop = s.as<For>()) return visit_loop(*loop, in_kernel || loop->mode == LoopMode::Grid, blocks);
    if (const auto* product = s.as<Contraction>()) return visit(product->loops, in_kernel, blocks);
    if (const auto* loop = s.as<While>()) {
      if (in_kernel) note_width(loop->iterator, loop->max_trips);
      define(loop->iterator, "Interval(0)", interval(loop->max_trips));
    }
    if (in_kernel) {
      if (const auto* local = s.as<Allocate>()) check_count(local->array);
      if (const auto* n = s.as<Assign>()) check_element(n->array, n->indices);
      if (const auto* n = s.as<Reduce>()) check_element(n->array, n->indices);
    }
    ir::for_each_child(s, overloaded{[&](const Expr& e) {
                                       if (in_kernel) check_parts(e);
                                     },
                                     [&](const Stmt& child) { visit(child, in_kernel, blocks); }});
  }

  void visit_loop(const For& n, bool in_kernel, const std::string& blocks) {
    if (in_kernel) {
      check_parts(n.lower);
      check_parts(n.upper);
    }
    std::string outside = blocks;
    if (n.mode == LoopMode::Grid) {
      const std::string extent = interval(n.upper - n.lower);
      outside = blocks == "Interval(1)" ? extent : fmt::format("({} * {})", blocks, extent);
      check(outside);
    }
    if (in_kernel) {
      note_width(n.iterator, n.lower);
      note_width(n.iterator, n.upper);
    }
    define(n.iterator, interval(n.lower), interval(n.upper));
    visit(n.body, in_kernel, outside);
  }

  /// The iterator of a loop with these bounds.
  void define(const Symbol& iterator, const std::string& first, const std::string& end) {
    std::string& name = defined_[first + " .. " + end];
    if (name.empty()) {
      name = names_.fresh(iterator.name);
      code_.line("const Interval {}({}.low, {}.high - 1);", name, first, end);
    }
    known_[iterator] = name;
  }

  void note_width(const Symbol& iterator, const Expr& bound) {
    if (is_wide(bound, text_)) text_.wide.insert(iterator);
  }

  void check(const std::string& value) {
    if (checked_.insert(value).second) code_.line("narrow &= {}.narrow;", value);
  }

  void check_value(const Expr& e) {
    if (as_int(e) || is_wide(e, text_)) return;
    check(interval(e));
  }

  void check_parts(const Expr& e) {
    walk(e, [&](const Expr& part) {
      if (const auto* load = part.as<Load>()) check_element(load->array, load->indices);
      if (part.type() != ScalarType::I64 || is_wide(part, text_)) return true;
      check_value(part);
      return false;  // its parts are steps of it
    });
  }

  void check_element(const Array& array, const std::vector<Expr>& indices) {
    check_count(array);
    Expr position = int_const(0);
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const Expr next = position * array->shape[d] + indices[d];
      if (is_wide(next, text_)) break;
      position = next;
    }
    if (!as_int(position)) check_value(position);
  }

  void check_count(const Array& array) {
    const Expr count = element_count(array);
    if (!as_int(count)) check_value(count);
  }

  std::string interval(const Expr& e) {
    if (const auto c = as_int(e)) return fmt::format("Interval({})", *c);
    if (const auto* v = e.as<Var>()) {
      const auto found = known_.find(v->symbol);
      if (found != known_.end()) return found->second;
      for (const std::string& size : plan_.sizes)
        if (size == v->symbol.name) return fmt::format("Interval({})", plan_.names.of(size));
      return v->symbol == stale_ ? "Interval(Number(0), Number(2))" : "unknown()";
    }
    if (const auto* n = e.as<Unary>()) {
      if (n->op == UnaryOp::Neg) return fmt::format("(Interval(0) - {})", interval(n->a));
      return n->op == UnaryOp::Not ? fmt::format("negated({})", interval(n->a)) : "unknown()";
    }
    if (const auto* n = e.as<Select>())
      return fmt::format("chosen({}, {}, {})", decision(n->condition), interval(n->a), interval(n->b));
    if (const auto* n = e.as<Cast>(); n && n->type != ScalarType::Bool && !is_float(n->type) && !is_float(n->a.type()))
      return interval(n->a);
    if (const auto* n = e.as<Binary>(); n && !is_float(n->a.type())) return binary(*n);
    return "unknown()";
  }

  /// What data decide may be either; indices in it are steps all the same.
  std::string decision(const Expr& e) {
    if (!has_load(e)) return interval(e);
    check_parts(e);
    return "Interval(Number(0), Number(1))";
  }

  std::string binary(const Binary& n) {
    const std::string a = interval(n.a), b = interval(n.b);
    switch (n.op) {
      case BinaryOp::Add: return fmt::format("({} + {})", a, b);
      case BinaryOp::Sub: return fmt::format("({} - {})", a, b);
      case BinaryOp::Mul: return fmt::format("({} * {})", a, b);
      case BinaryOp::FloorDiv: return fmt::format("quotient({}, {})", a, b);
      case BinaryOp::Mod: return fmt::format("rest({}, {})", a, b);
      case BinaryOp::Min: return fmt::format("smaller({}, {})", a, b);
      case BinaryOp::Max: return fmt::format("larger({}, {})", a, b);
      case BinaryOp::Lt: return fmt::format("is_less({}, {})", a, b);
      case BinaryOp::Gt: return fmt::format("is_less({}, {})", b, a);
      case BinaryOp::Le: return fmt::format("negated(is_less({}, {}))", b, a);
      case BinaryOp::Ge: return fmt::format("negated(is_less({}, {}))", a, b);
      case BinaryOp::Eq: return fmt::format("is_same({}, {})", a, b);
      case BinaryOp::Ne: return fmt::format("negated(is_same({}, {}))", a, b);
      case BinaryOp::And: return fmt::format("both({}, {})", a, b);
      case BinaryOp::Or: return fmt::format("either({}, {})", a, b);
      default: return "unknown()";
    }
  }

  const EmitPlan& plan_;
  const EmitPart& part_;
  const Symbol stale_;
  EmitState text_;  // knows what the emitted code computes with 64 bits
  NameTable names_{generated_name};
  std::map<Symbol, std::string> known_;
  std::map<std::string, std::string> defined_;  // iterators by their bounds
  std::set<std::string> checked_;
  CodeText code_;
};

}  // namespace

std::string width_text(const EmitPlan& plan, const EmitPart& part, const std::string& name) {
  bool mapped = false;
  walk_stmts(part.program.body, [&](const Stmt& s) {
    const auto* loop = s.as<For>();
    mapped |= loop && loop->mode == LoopMode::Grid;
  });
  return WidthWriter(plan, part).write(name, part.program.body, mapped);
}

}  // namespace loopgrad::backend
