#include "backends/emit/size_text.h"

#include "backends/runtime/size_checks.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <algorithm>
#include <functional>

namespace loopgrad::backend {

using ir::BinaryOp;
using ir::Expr;

const char* const number_text = R"(
// What is computed from sizes: an integer, or that it does not fit in 64 bits.
struct Number {
  int64_t value;
  bool fits;
  Number(int64_t number, bool is_known = true) : value(number), fits(is_known) {}
  bool holds() const { return fits && value != 0; }
};
[[maybe_unused]] inline Number operator+(Number a, Number b) {
  int64_t sum = 0;
  const bool wraps = __builtin_add_overflow(a.value, b.value, &sum);
  return {sum, a.fits && b.fits && !wraps};
}
[[maybe_unused]] inline Number operator-(Number a, Number b) {
  int64_t difference = 0;
  const bool wraps = __builtin_sub_overflow(a.value, b.value, &difference);
  return {difference, a.fits && b.fits && !wraps};
}
[[maybe_unused]] inline Number operator*(Number a, Number b) {
  int64_t product = 0;
  const bool wraps = __builtin_mul_overflow(a.value, b.value, &product);
  return {product, a.fits && b.fits && !wraps};
}
// Rounded towards minus infinity; division by zero gives 0.
[[maybe_unused]] inline Number quotient(Number a, Number b) {
  if (b.value == 0) return {0, a.fits && b.fits};
  if (b.value == -1) return Number(0) - a * Number(1, b.fits);
  return {a.value / b.value - (a.value % b.value != 0 && (a.value < 0) != (b.value < 0)), a.fits && b.fits};
}
[[maybe_unused]] inline Number rest(Number a, Number b) {
  if (b.value == 0 || b.value == -1) return {0, a.fits && b.fits};
  const int64_t left = a.value % b.value;
  return {left + (left != 0 && (a.value < 0) != (b.value < 0) ? b.value : 0), a.fits && b.fits};
}
[[maybe_unused]] inline Number smaller(Number a, Number b) { return {b.value < a.value ? b.value : a.value, a.fits && b.fits}; }
[[maybe_unused]] inline Number larger(Number a, Number b) { return {a.value < b.value ? b.value : a.value, a.fits && b.fits}; }
[[maybe_unused]] inline Number is_less(Number a, Number b) { return {a.value < b.value, a.fits && b.fits}; }
[[maybe_unused]] inline Number is_same(Number a, Number b) { return {a.value == b.value, a.fits && b.fits}; }
// The second one only counts where the first has not decided.
[[maybe_unused]] inline Number both(Number a, Number b) { return {a.value && b.value, a.fits && (!a.value || b.fits)}; }
[[maybe_unused]] inline Number either(Number a, Number b) { return {a.value || b.value, a.fits && (a.value || b.fits)}; }
// To 32 bits, as loops have it.
[[maybe_unused]] inline Number wrapped(Number a) { return {int32_t(a.value), a.fits}; }
[[maybe_unused]] inline Number negated(Number a) { return {!a.value, a.fits}; }
[[maybe_unused]] inline Number chosen(Number condition, Number a, Number b) {
  const Number one = condition.value ? a : b;
  return {one.value, condition.fits && one.fits};
}

// The bytes of an array; not `fits` for extents below zero as well.
[[maybe_unused]] inline Number bytes_of(int64_t element, std::initializer_list<Number> extents) {
  Number bytes = element;
  bool good = true, empty = false;
  for (const Number& extent : extents) {
    bytes = bytes * extent;
    good &= extent.fits && extent.value >= 0;
    empty |= extent.value == 0;
  }
  return empty ? Number(0, good) : Number(bytes.value, bytes.fits && good);
}
)";

const char* const argument_text_of_caller = R"(
// What the caller passes for an array.
struct Argument {
  const void* data;
  int64_t bytes, alignment;
  bool written;
  int number;  // of the array, for the status
};
struct Pair {
  int first, second;  // numbers of arrays that may share memory
};
// Whether two arrays share memory that is written.
inline bool overlap(const Argument& a, const Argument& b) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(a.data), second = reinterpret_cast<uintptr_t>(b.data);
  return (a.written || b.written) && a.bytes > 0 && b.bytes > 0 && first < second + static_cast<uintptr_t>(b.bytes) &&
         second < first + static_cast<uintptr_t>(a.bytes);
}
inline int check_arguments(std::initializer_list<Argument> arguments, std::initializer_list<Pair> may_share) {
  for (const Argument& a : arguments)
    if (a.bytes > 0 && (!a.data || !is_reachable(a.data) || reinterpret_cast<uintptr_t>(a.data) % static_cast<uintptr_t>(a.alignment) != 0))
      return bad_argument + 256 * a.number;
  for (const Argument* b = arguments.begin(); b != arguments.end(); ++b)
    for (const Argument* a = arguments.begin(); a != b; ++a) {
      bool allowed = false;
      for (const Pair& pair : may_share)
        allowed |= (pair.first == a->number && pair.second == b->number) ||
                   (pair.first == b->number && pair.second == a->number);
      if (!allowed && overlap(*a, *b)) return overlaps + 256 * b->number;
    }
  return 0;
}
)";

const char* const layout_end_text = R"(
// Any address will do for a tape or a workspace: `aligned` may go on by less than a line.
template <class Layout>
inline Layout finished(Layout all, const Places& tape, const Places& workspace) {
  const Number on_tape = tape.wanted(), in_workspace = workspace.wanted();
  all.fits = on_tape.fits && in_workspace.fits && on_tape.value <= PTRDIFF_MAX && in_workspace.value <= PTRDIFF_MAX;
  all.tape_bytes = static_cast<size_t>(on_tape.value);
  all.workspace_bytes = static_cast<size_t>(in_workspace.value);
  return all;
}
)";

const char* const spare_text = R"(
// Memory for an array without elements: an index that was brought into range is 0 there.
template <class T>
inline T* or_spare(T* array, int64_t bytes, char* spare) {
  return bytes > 0 ? array : reinterpret_cast<T*>(spare);
}
)";

std::string places_text(int line) {
  return fmt::format(R"(
// Arrays one after the other, each on cache lines of its own.
constexpr int64_t line = {};
struct Block {{
  int64_t place, bytes;
}};
struct Places {{
  Number end = 0;
  // `parts` arrays, `more` bytes longer than their extents say; of a negative extent there is nothing.
  Block add(int64_t parts, int64_t element, std::initializer_list<Number> extents, int64_t more = line - 1) {{
    Number bytes = element;
    bool empty = false;
    for (const Number& extent : extents) {{
      bytes = bytes * larger(extent, 0);
      empty |= extent.fits && extent.value <= 0;
    }}
    if (empty) bytes = 0;  // however large the other extents are
    const Number all = quotient(bytes + more, line) * line * parts;
    const int64_t place = end.value;
    end = end + all;
    return {{place, all.value}};
  }}
  Number wanted() const {{ return end.value == 0 ? end : end + line; }}
}};
inline char* aligned(const void* memory) {{
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory), step = static_cast<uintptr_t>(line);
  return reinterpret_cast<char*>((address + step - 1) / step * step);
}}
)",
                     line);
}

namespace {

/// What stands for a composite expression, given its text.
using Naming = std::function<std::string(const std::string&)>;

std::string number(const Expr& e, Spelling& names, const Naming& naming);

std::string binary(const ir::Binary& n, Spelling& names, const Naming& naming) {
  const std::string a = number(n.a, names, naming), b = number(n.b, names, naming);
  const auto call = [&](const char* name, const std::string& x, const std::string& y) {
    return fmt::format("{}({}, {})", name, x, y);
  };
  switch (n.op) {
    case BinaryOp::Add: return fmt::format("({} + {})", a, b);
    case BinaryOp::Sub: return fmt::format("({} - {})", a, b);
    case BinaryOp::Mul: return fmt::format("{} * {}", a, b);
    case BinaryOp::FloorDiv: return call("quotient", a, b);
    case BinaryOp::Mod: return call("rest", a, b);
    case BinaryOp::Min: return call("smaller", a, b);
    case BinaryOp::Max: return call("larger", a, b);
    case BinaryOp::Lt: return call("is_less", a, b);
    case BinaryOp::Gt: return call("is_less", b, a);
    case BinaryOp::Le: return fmt::format("negated({})", call("is_less", b, a));
    case BinaryOp::Ge: return fmt::format("negated({})", call("is_less", a, b));
    case BinaryOp::Eq: return call("is_same", a, b);
    case BinaryOp::Ne: return fmt::format("negated({})", call("is_same", a, b));
    case BinaryOp::And: return call("both", a, b);
    case BinaryOp::Or: return call("either", a, b);
    case BinaryOp::Div:
    case BinaryOp::Pow:
    case BinaryOp::Atan2: break;
  }
  throw InternalError(fmt::format("'{}' in an expression of sizes", name_of(n.op)));
}

std::string location_words(const SourceLocation& where) {
  return where.known() ? fmt::format(" ({})", where.str()) : "";
}

std::string shortened(const std::string& text) {
  return text.size() > 60 ? fmt::format("{}..", text.substr(0, 60)) : text;
}

/// Lines of look_at_sizes, each condition once.
class SizeCheckWriter {
 public:
  explicit SizeCheckWriter(const EmitPlan& plan) : plan_(plan) {}

  std::string write() {
    for (const std::string& size : plan_.sizes)
      check(fmt::format("{}.value < 0", plan_.names.of(size)), StatusKind::BadSize,
            fmt::format("size '{}' is negative", size));
    for (const EmitArray& one : plan_.all_arrays()) check_extents(one.array);
    for (const ir::Array& array : plan_.tape()) check_extents(array);
    for (const WrittenBounds::Bound& bound : plan_.bounds) check_bound(bound);
    for (const EmitPart* part : {&plan_.sizing, &plan_.forward, &plan_.backward, &plan_.facts_part}) check_part(*part);
    if (plan_.verifies)
      for (const LeavingAccess& one : plan_.leaving)
        check(fmt::format("{}.holds()", number(one.broken)), StatusKind::BadIndex,
              fmt::format("for these sizes an index leaves the array '{}', dimension {}{}", one.array->name,
                          one.dimension, location_words(one.location)));
    return fmt::format("\n// What sizes alone can tell.\ninline int look_at_sizes({}) {{\n{}  return 0;\n}}\n",
                       size_parameters(plan_, "Number"), lines_);
  }

 private:
  /// Long expressions that repeat get a name.
  std::string number(const Expr& e) {
    return fmt::format("({})", loopgrad::backend::number(e, plan_.names, [&](const std::string& text) {
                         if (text.size() < 40) return text;
                         std::string& name = named_[text];
                         if (name.empty()) {
                           name = fmt::format("part{}", named_.size());
                           lines_ += fmt::format("  const Number {} = {};\n", name, text);
                         }
                         return name;
                       }));
  }

  void check(const std::string& condition, StatusKind kind, const std::string& text) {
    if (!seen_.insert(condition).second) return;
    lines_ += fmt::format("  if ({}) return {};\n", condition, plan_.statuses.of(kind, text));
  }

  void check_extents(const ir::Array& array) {
    check(fmt::format("!bytes_of({}, {}).fits", bytes_of(array->type), extents_of(array, plan_.names)),
          StatusKind::BadSize,
          fmt::format("the extents of '{}', {}, are negative or its bytes do not fit in 64 bits{}", array->name,
                      shape_words(array), location_words(array->location)));
  }

  void check_bound(const WrittenBounds::Bound& bound) {
    if (!is_of_sizes(bound.value, plan_.sizes)) return;
    const std::string value = number(bound.value), place = location_words(bound.location),
                      words = fmt::format("the bound {} of loop '{}'", shortened(ir::print(bound.value)), bound.loop);
    check(fmt::format("!{}.fits", value), StatusKind::BadSize,
          fmt::format("{} does not fit in 64 bits{}", words, place));
    if (bound.is_counted)
      check(fmt::format("is_less({0}, -{1}).value || is_less({1}, {0}).value", value, ir::furthest_bound),
            StatusKind::BadSize, fmt::format("{} is further from zero than {}{}", words, ir::furthest_bound, place));
  }

  void check_part(const EmitPart& part) {
    if (part.is_empty()) return;
    const SizeChecks checks(part.program);
    for (const SizeChecks::Bound& bound : checks.bounds())
      if (is_of_sizes(bound.value, plan_.sizes))
        check(fmt::format("!{}.fits", number(bound.value)), StatusKind::BadSize,
              fmt::format("the bound {} of loop '{}' does not fit in 64 bits{}", shortened(ir::print(bound.value)),
                          bound.loop, location_words(bound.location)));
    for (const SizeChecks::Local& local : checks.locals()) {
      if (!std::all_of(local.extents.begin(), local.extents.end(),
                       [&](const Expr& e) { return is_of_sizes(e, plan_.sizes); }))
        continue;
      std::string positive;  // an extent below zero counts as zero
      for (const Expr& extent : local.extents)
        positive += fmt::format("{}larger({}, 0)", positive.empty() ? "" : ", ", number(extent));
      check(fmt::format("!bytes_of({}, {{{}}}).fits", bytes_of(local.array->type), positive), StatusKind::BadSize,
            fmt::format("the bytes of the local array '{}' do not fit in 64 bits{}", local.array->name,
                        location_words(local.array->location)));
    }
  }

  const EmitPlan& plan_;
  std::string lines_;
  std::set<std::string> seen_;
  std::map<std::string, std::string> named_;
};

std::string number(const Expr& e, Spelling& names, const Naming& naming) {
  if (const auto c = ir::as_int(e)) {
    const bool is_short = *c > -2147483647 && *c < 2147483647;
    return is_short ? fmt::format("Number({})", *c) : fmt::format("Number(int64_t({}))", *c);
  }
  if (const auto* v = e.as<ir::Var>()) return fmt::format("Number({})", names.of(v->symbol.name));
  if (const auto* n = e.as<ir::Binary>()) {
    const std::string value = binary(*n, names, naming);
    return naming(e.type() == ScalarType::I32 ? fmt::format("wrapped({})", value) : value);
  }
  if (const auto* n = e.as<ir::Select>())
    return naming(fmt::format("chosen({}, {}, {})", number(n->condition, names, naming), number(n->a, names, naming),
                              number(n->b, names, naming)));
  if (const auto* n = e.as<ir::Unary>()) {
    const std::string a = number(n->a, names, naming);
    const auto in_type = [&](const std::string& value) {
      return e.type() == ScalarType::I32 ? fmt::format("wrapped({})", value) : value;
    };
    if (n->op == ir::UnaryOp::Neg) return in_type(fmt::format("(Number(0) - {})", a));
    if (n->op == ir::UnaryOp::Abs) return in_type(fmt::format("larger({0}, Number(0) - {0})", a));
    if (n->op == ir::UnaryOp::Not) return fmt::format("negated({})", a);
  }
  if (const auto* n = e.as<ir::Cast>(); n && !is_float(n->type)) {
    const std::string a = number(n->a, names, naming);
    if (n->type == ScalarType::Bool) return fmt::format("negated(is_same({}, 0))", a);
    return n->type == ScalarType::I32 ? fmt::format("wrapped({})", a) : a;
  }
  throw InternalError("not an expression of sizes: " + ir::print(e));
}

}  // namespace

std::string number_of(const Expr& e, Spelling& names) {
  return number(e, names, [](const std::string& text) { return text; });
}

std::string extents_of(const std::vector<Expr>& shape, Spelling& names) {
  std::string out;
  for (const Expr& extent : shape) {
    const auto* v = extent.as<ir::Var>();
    const auto c = ir::as_int(extent);
    out += out.empty() ? "" : ", ";
    out += v ? names.of(v->symbol.name) : c ? std::to_string(*c) : number_of(extent, names);
  }
  return "{" + out + "}";
}

std::string extents_of(const ir::Array& array, Spelling& names) { return extents_of(array->callers_shape(), names); }

bool is_of_sizes(const Expr& e, const std::vector<std::string>& sizes) {
  bool all = true;
  ir::walk(e, [&](const Expr& part) {
    const auto* v = part.as<ir::Var>();
    all &= part.kind() != ir::Kind::Load && !is_float(part.type()) &&
           (!v || std::find(sizes.begin(), sizes.end(), v->symbol.name) != sizes.end());
  });
  return all;
}

std::string size_parameters(const EmitPlan& plan, const char* type) {
  std::string out;
  for (const std::string& size : plan.sizes)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", type, plan.names.of(size));
  return out;
}

std::string size_arguments(const EmitPlan& plan) {
  std::string out;
  for (const std::string& size : plan.sizes) out += (out.empty() ? "" : ", ") + plan.names.of(size);
  return out;
}

std::string look_at_sizes_text(const EmitPlan& plan) { return SizeCheckWriter(plan).write(); }

}  // namespace loopgrad::backend
