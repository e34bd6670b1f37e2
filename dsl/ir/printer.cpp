#include "dsl/ir/printer.h"

#include "dsl/ir/visit.h"

#include <loopgrad/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace loopgrad::ir {
namespace {

/// How tightly an expression binds; an operand that binds less tightly than its place needs parentheses.
enum Precedence { Lowest, OrLevel, AndLevel, CompareLevel, SumLevel, ProductLevel, SignLevel, Primary };

struct Spelling {
  const char* infix;  // null: printed as a function
  Precedence level;
};

Spelling spelling_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return {" + ", SumLevel};
    case BinaryOp::Sub: return {" - ", SumLevel};
    case BinaryOp::Mul: return {"*", ProductLevel};
    case BinaryOp::Div: return {"/", ProductLevel};
    case BinaryOp::FloorDiv: return {"//", ProductLevel};
    case BinaryOp::Mod: return {"%", ProductLevel};
    case BinaryOp::Lt: return {" < ", CompareLevel};
    case BinaryOp::Le: return {" <= ", CompareLevel};
    case BinaryOp::Gt: return {" > ", CompareLevel};
    case BinaryOp::Ge: return {" >= ", CompareLevel};
    case BinaryOp::Eq: return {" == ", CompareLevel};
    case BinaryOp::Ne: return {" != ", CompareLevel};
    case BinaryOp::And: return {" && ", AndLevel};
    case BinaryOp::Or: return {" || ", OrLevel};
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::Pow:
    case BinaryOp::Atan2: return {nullptr, Primary};
  }
  throw InternalError("unknown binary operation");
}

std::string number(const FloatConst& c) {
  return c.type == ScalarType::F32 ? fmt::format("{}", static_cast<float>(c.value)) : fmt::format("{}", c.value);
}

/// The type that the place of an expression gives it; none where only the expression itself can say it.
using KnownType = std::optional<ScalarType>;

/// An index read from an i32 array: as an index it is printed without its conversion, which is noise there.
bool is_widened_load(const Cast& c) {
  return c.type == ScalarType::I64 && c.a.type() == ScalarType::I32 && c.a.as<Load>();
}

/// The text of the expression says its type wherever it stands. Constants do not, nor what is printed without its
/// conversion where the type is known.
bool says_type(const Expr& e) {
  return visit(e, overloaded{
                      [](const IntConst& c) { return c.type == ScalarType::Bool; },
                      [](const FloatConst&) { return false; },
                      [](const Var&) { return true; },
                      [](const Load&) { return true; },
                      [](const Unary& u) { return says_type(u.a); },
                      [](const Binary& b) { return b.type == ScalarType::Bool || says_type(b.a) || says_type(b.b); },
                      [](const Fma& f) { return says_type(f.a) || says_type(f.b) || says_type(f.c); },
                      [](const Select& s) { return says_type(s.a) || says_type(s.b); },
                      [](const Cast& c) { return !is_widened_load(c); },
                  });
}

/// What operands of one type know of it: from outside, or from one of them.
template <class... Operands>
KnownType shared_type(KnownType known, const Expr& first, const Operands&... others) {
  if (known || says_type(first) || (says_type(others) || ...)) return first.type();
  return std::nullopt;
}

/// The text has a conversion to i32 that tells what is compared: integers are compared as i64 otherwise.
bool says_i32(const Expr& e) {
  return e.type() == ScalarType::I32 && visit(e, overloaded{
                                                     [](const Cast&) { return true; },
                                                     [](const Unary& u) { return says_i32(u.a); },
                                                     [](const Binary& b) { return says_i32(b.a) || says_i32(b.b); },
                                                     [](const Select& s) { return says_i32(s.a) || says_i32(s.b); },
                                                     [](const auto&) { return false; },
                                                 });
}

class ExprPrinter {
 public:
  explicit ExprPrinter(NameTable& names) : names_(names) {}

  std::string text(const Expr& e, int place = Lowest) { return e ? text(e, place, e.type()) : "<none>"; }

  /// As above where nothing around it says what type it has.
  std::string text_and_type(const Expr& e) { return text(e, Lowest, std::nullopt); }

  std::string element(const Array& array, const std::vector<Expr>& indices) {
    std::string result = names_.of(array);
    if (indices.empty()) return result;
    std::vector<std::string> texts;
    for (const Expr& index : indices) texts.push_back(text(index));
    return fmt::format("{}[{}]", result, fmt::join(texts, ", "));
  }

 private:
  std::string text(const Expr& e, int place, KnownType known) {
    if (!e) return "<none>";
    int level = Primary;
    std::string result = visit(e, [&](const auto& node) { return text_of(node, level, known); });
    return level < place ? "(" + result + ")" : result;
  }
  std::string text_of(const IntConst& c, int& level, KnownType known) {
    if (c.type == ScalarType::Bool) return c.value ? "true" : "false";
    if (c.value < 0) level = SignLevel;
    // What nobody types is i64, or f64 when it has a point, an exponent or is no number.
    return fmt::format("{}{}", c.value, known || c.type == ScalarType::I64 ? "" : name_of(c.type));
  }
  std::string text_of(const FloatConst& c, int& level, KnownType known) {
    std::string result = number(c);
    if (result[0] == '-') level = SignLevel;
    const bool looks_whole = result.find_first_of(".en") == std::string::npos;
    if (!known && (looks_whole || c.type != ScalarType::F64)) result += name_of(c.type);
    return result;
  }
  std::string text_of(const Var& v, int&, KnownType) { return names_.of(v.symbol); }
  std::string text_of(const Load& load, int&, KnownType) { return element(load.array, load.indices); }
  std::string text_of(const Unary& u, int& level, KnownType known) {
    if (u.op != UnaryOp::Neg && u.op != UnaryOp::Not)
      return fmt::format("{}({})", name_of(u.op), text(u.a, Lowest, known));
    level = SignLevel;
    return (u.op == UnaryOp::Neg ? "-" : "!") + text(u.a, SignLevel + 1, known);
  }
  std::string text_of(const Binary& b, int& level, KnownType known) {
    const Spelling spelling = spelling_of(b.op);
    if (is_comparison(b.op)) return comparison(b, level);
    const KnownType operands = shared_type(known, b.a, b.b);
    if (!spelling.infix)
      return fmt::format("{}({}, {})", name_of(b.op), text(b.a, Lowest, operands), text(b.b, Lowest, operands));
    level = spelling.level;
    // All operators group to the left.
    return text(b.a, spelling.level, operands) + spelling.infix + text(b.b, spelling.level + 1, operands);
  }
  /// Comparisons do not chain.
  std::string comparison(const Binary& b, int& level) {
    const Spelling spelling = spelling_of(b.op);
    level = spelling.level;
    const ScalarType type = b.a.type();
    const KnownType operands = is_integer(type) ? type : shared_type(std::nullopt, b.a, b.b);
    std::string left;
    if (type == ScalarType::I32 && !says_i32(b.a) && !says_i32(b.b)) left = fmt::format("i32({})", text_and_type(b.a));
    else left = text(b.a, level + 1, operands);
    return left + spelling.infix + text(b.b, level + 1, operands);
  }
  std::string text_of(const Fma& f, int&, KnownType known) {
    const KnownType type = shared_type(known, f.a, f.b, f.c);
    return fmt::format("fma({}, {}, {})", text(f.a, Lowest, type), text(f.b, Lowest, type), text(f.c, Lowest, type));
  }
  std::string text_of(const Select& s, int&, KnownType known) {
    const KnownType type = shared_type(known, s.a, s.b);
    return fmt::format("select({}, {}, {})", text(s.condition), text(s.a, Lowest, type), text(s.b, Lowest, type));
  }
  std::string text_of(const Cast& c, int& level, KnownType known) {
    if (known && is_widened_load(c))
      return visit(c.a, [&](const auto& node) { return text_of(node, level, c.a.type()); });
    return fmt::format("{}({})", name_of(c.type), text_and_type(c.a));
  }

  NameTable& names_;
};

class StmtPrinter {
 public:
  StmtPrinter(NameTable& names, const PrintOptions& options) : names_(names), exprs_(names), options_(options) {}

  void print_stmt(const Stmt& s, int indent) {
    visit(s, [&](const auto& node) { print_node(node, indent); });
  }
  void print_body(const Stmt& s, int indent) {
    if (!s || (s.as<Block>() && s.as<Block>()->body.empty())) line(indent, "pass", {});
    else print_stmt(s, indent);
  }
  std::string declaration(const Array& array) {
    std::vector<std::string> extents;
    for (const Expr& extent : array->shape) extents.push_back(exprs_.text(extent));
    const std::string shape = extents.empty() ? "" : fmt::format("[{}]", fmt::join(extents, ", "));
    return fmt::format("{} {}{}", name_of(array->type), names_.of(array), shape);
  }
  void print_fact(const Fact& fact) {
    std::string text = names_.of(fact.array);
    switch (fact.kind) {
      case FactKind::InRange:
        text += fmt::format(" in {}..{}", exprs_.text(fact.lower), exprs_.text(fact.upper));
        break;
      case FactKind::Sorted: text += " sorted"; break;
      case FactKind::Injective: text += " injective"; break;
      case FactKind::CsrPointer:
        text += " csr pointer of " + exprs_.text(fact.upper);
        if (fact.longest) text += ", at most " + exprs_.text(fact.longest) + " a row";
        break;
      case FactKind::MayAlias: text += " may alias " + names_.of(fact.other); break;
      case FactKind::ReadUpTo:
        text += fmt::format("[{}, ..] is the last that is read later", exprs_.text(fact.upper));
        break;
      case FactKind::Distinct: text += " distinct"; break;
    }
    line(1, "fact   " + text, fact.location);
  }
  void line(int indent, const std::string& text, const SourceLocation& location) {
    text_.append(static_cast<std::size_t>(2 * indent), ' ').append(text);
    if (options_.locations && location.known()) text_ += "  // " + location.str();
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  void print_node(const Block& b, int indent) {
    for (const Stmt& s : b.body) {
      const auto* local = s.as<Allocate>();
      if (local && !s.same_as(b.body.back())) print_local(*local, ":", indent, indent + 1);
      else print_stmt(s, indent);
    }
  }
  void print_node(const For& f, int indent) {
    std::string text;
    if (f.mode == LoopMode::Parallel) text = "parallel ";
    if (f.mode == LoopMode::Grid) text = "grid ";
    if (f.mode == LoopMode::Threads) text = "threads ";
    text += "for ";
    text += fmt::format("{} in {}..{}", names_.of(f.iterator), exprs_.text(f.lower), exprs_.text(f.upper));
    if (f.mode == LoopMode::Backward) text += " reversed";
    if (f.at_most) text += fmt::format(" (at most {})", exprs_.text(f.at_most));
    if (f.shape.chunk > 0) text += fmt::format(" (chunk of {})", f.shape.chunk);
    if (f.shape.strided) text += " (strided)";
    line(indent, text + run_of(f) + ":", f.location);
    print_body(f.body, indent + 1);
    names_.release(f.iterator);
  }
  /// How a machine runs the loop.
  std::string run_of(const For& f) {
    std::string text;
    std::vector<std::string> threads, wide;
    for (const Expr& extent : f.block) threads.push_back(exprs_.text(extent, ProductLevel));
    for (const WideAccess& access : f.wide)
      wide.push_back(fmt::format("{} {}{}",
                                 !access.stores ? "loads"
                                 : access.loads ? "updates"
                                                : "stores",
                                 exprs_.element(access.array, access.indices), access.even_rows ? "" : " unevenly"));
    if (!threads.empty())
      text += fmt::format(" (block of {}, at most {})", fmt::join(threads, " x "), f.run.most_threads);
    if (f.run.teams) text += " (teams)";
    if (f.run.many_blocks) text += " (many blocks)";
    if (f.run.barriers) text += " (barriers)";
    if (f.run.unroll > 0) text += fmt::format(" (unroll {})", f.run.unroll);
    if (f.run.wide_trips) text += " (wide in all trips)";
    if (!wide.empty()) text += fmt::format(" (wide {})", fmt::join(wide, ", "));
    if (f.run.joins) text += " (joined)";
    if (f.run.threads) text += " (threads)";
    if (f.run.together > 1) text += fmt::format(" (together {})", f.run.together);
    if (f.run.uneven) text += " (uneven)";
    if (f.work) text += fmt::format(" (pays from {} at {})", f.run.least_work, exprs_.text(f.work));
    if (f.run.or_alone) text += " (or alone)";
    if (f.run.lanes == 0) text += " (lanes)";
    if (f.run.lanes > 1) text += fmt::format(" (lanes {})", f.run.lanes);
    if (f.run.lane_sums) text += " (sums of lanes)";
    if (f.streams) text += fmt::format(" (streams {})", exprs_.text(f.streams));
    return text;
  }
  void print_node(const While& w, int indent) {
    line(indent,
         fmt::format("for {} in 0..{} while {}:", names_.of(w.iterator), exprs_.text(w.max_trips),
                     exprs_.text(w.condition)),
         w.location);
    print_body(w.body, indent + 1);
    names_.release(w.iterator);
  }
  void print_node(const If& branch, int indent, const char* keyword) {
    line(indent, fmt::format("{} {}:", keyword, exprs_.text(branch.condition)), branch.location);
    print_body(branch.then_body, indent + 1);
    if (!branch.else_body) return;
    if (const auto* chained = branch.else_body.as<If>()) {
      print_node(*chained, indent, "else if");
      return;
    }
    line(indent, "else:", {});
    print_body(branch.else_body, indent + 1);
  }
  void print_node(const If& branch, int indent) { print_node(branch, indent, "if"); }
  void print_node(const Assign& a, int indent) {
    const char* const note = a.streamed ? " = (streamed) " : " = ";
    line(indent, exprs_.element(a.array, a.indices) + note + exprs_.text(a.value), a.location);
  }
  void print_node(const Reduce& r, int indent) {
    // Sums of products are fused; what is not is said.
    const bool rounded = r.op == ReduceOp::Add && !r.atomic && !r.fused && product_of(r.value);
    const char* note = r.of_block ? "(block) " : r.atomic ? "(atomic) " : rounded ? "(rounded product) " : "";
    const char* lanes = r.of_lanes ? "(lanes) " : "";
    const char* plan = r.by_segments ? "(segments) " : "";
    line(indent,
         fmt::format("{} {} {}{}{}{}", exprs_.element(r.array, r.indices), name_of(r.op), lanes, plan, note,
                     exprs_.text(r.value)),
         r.location);
  }
  /// A local lives to the end of the body that it is in, or, with a colon, in what is indented below it.
  void print_node(const Allocate& a, int indent) { print_local(a, "", indent, indent); }
  void print_local(const Allocate& a, const char* colon, int indent, int body_indent) {
    static const char* const choices[] = {"", " saved", " recomputed"};
    static const char* const places[] = {"",         " (grid)", " (block)",      " (thread)",
                                         " (stack)", " (call)", " (per thread)", " (iteration)"};
    std::string out = a.reserved_out > 0 ? fmt::format(" (out {})", a.reserved_out) : "";
    std::vector<std::string> largest;
    for (const Expr& extent : a.largest) largest.push_back(exprs_.text(extent));
    if (!largest.empty()) out += fmt::format(" (of the launch: {})", fmt::join(largest, ", "));
    const std::string choice = choices[static_cast<int>(a.array->on_tape)];
    line(indent, "local " + declaration(a.array) + choice + places[static_cast<int>(a.home)] + out + colon, a.location);
    print_body(a.body, body_indent);
    names_.release(a.array);
  }
  void print_node(const Push& p, int indent) {
    line(indent, fmt::format("push({})", exprs_.text_and_type(p.value)), p.location);
  }
  void print_node(const Pop& p, int indent) {
    line(indent, exprs_.element(p.array, p.indices) + " = pop()", p.location);
  }
  void print_node(const Barrier& b, int indent) { line(indent, "barrier", b.location); }
  void print_node(const CustomGradient& n, int indent) {
    const auto list = [this](const std::vector<Array>& arrays) {
      std::vector<std::string> names;
      for (const Array& array : arrays) names.push_back(names_.of(array));
      return fmt::format("{}", fmt::join(names, ", "));
    };
    line(indent, fmt::format("custom gradient of {} by {}:", list(n.outputs), list(n.inputs)), n.location);
    print_body(n.body, indent + 1);
    line(indent, fmt::format("adjoint {} to {}:", list(n.seeds), list(n.gradients)), {});
    print_body(n.adjoint, indent + 1);
    if (n.tangent) {
      line(indent, fmt::format("tangent {} to {}:", list(n.gradients), list(n.seeds)), {});
      print_body(n.tangent, indent + 1);
    }
    for (const auto* arrays : {&n.seeds, &n.gradients})
      for (const Array& array : *arrays) names_.release(array);
  }
  void print_node(const Contraction& n, int indent) {
    std::vector<std::string> extents;
    for (std::size_t k = is_one(n.extents[0]) ? 1 : 0; k < n.extents.size(); ++k)
      extents.push_back(exprs_.text(n.extents[k], ProductLevel));
    const std::string factor = n.alpha == 1 ? "" : fmt::format("{}*", n.alpha);
    line(indent,
         fmt::format("contraction {} {} {}{}*{} ({}):", names_.of(n.c), n.overwrites ? "=" : "+=", factor,
                     names_.of(n.a), names_.of(n.b), fmt::join(extents, " x ")),
         n.location);
    line(indent + 1, fmt::format("at {} = {}*{}", place(n.c, n.c_place), place(n.a, n.a_place), place(n.b, n.b_place)),
         {});
    print_body(n.loops, indent + 1);
  }
  /// Where a matrix lies: its offset, and the steps from batch to batch, row to row and column to column.
  std::string place(const Array& array, const std::vector<Expr>& parts) {
    std::vector<std::string> steps;
    for (std::size_t k = 1; k < parts.size(); ++k) steps.push_back(exprs_.text(parts[k]));
    return fmt::format("{}[{}; {}]", names_.of(array), exprs_.text(parts[0]), fmt::join(steps, ", "));
  }
  static bool is_one(const Expr& e) { return as_int(e) == 1; }

  NameTable& names_;
  ExprPrinter exprs_;
  PrintOptions options_;
  std::string text_;
};

const char* keyword_of(ArrayRole role) {
  switch (role) {
    case ArrayRole::Input: return "input ";
    case ArrayRole::Output: return "output";
    case ArrayRole::InOut: return "inout ";
    case ArrayRole::Tape: return "tape  ";
    case ArrayRole::Local: return "local ";
  }
  return "?";
}

}  // namespace

const std::string& NameTable::of(const Symbol& symbol) {
  const auto [entry, is_new] = names_.try_emplace(symbol.id);
  if (is_new) entry->second = fresh(symbol.name);
  return entry->second;
}

const std::string& NameTable::of(const Array& array) {
  const auto [entry, is_new] = names_.try_emplace(array->id);
  if (is_new) entry->second = fresh(array->name);
  return entry->second;
}

void NameTable::release(std::int64_t id) {
  const auto entry = names_.find(id);
  if (entry == names_.end()) return;
  used_.erase(entry->second);
  names_.erase(entry);
}

std::string NameTable::fresh(const std::string& wish) {
  const auto spelled = [this](const std::string& name) { return spelling_ ? spelling_(name) : name; };
  std::string name = spelled(wish);
  for (int number = 1; !used_.insert(name).second; ++number) name = spelled(fmt::format("{}_{}", wish, number));
  return name;
}

std::string print(const Expr& e) {
  NameTable names;
  return print(e, names);
}

std::string print(const Expr& e, NameTable& names) { return ExprPrinter(names).text(e); }

std::string print(const Stmt& s, const PrintOptions& options) {
  NameTable names;
  StmtPrinter printer(names, options);
  printer.print_body(s, 0);
  return printer.take();
}

std::string print(const Program& program, const PrintOptions& options) {
  NameTable names;
  StmtPrinter printer(names, options);
  std::vector<std::string> sizes;
  for (const Symbol& size : program.sizes) sizes.push_back(names.of(size));
  for (const Array& array : program.arrays) names.of(array);  // arguments keep their names, locals give way
  printer.line(0, fmt::format("program {}({})", program.name, fmt::join(sizes, ", ")), program.location);
  for (const Array& array : program.arrays)
    printer.line(1, fmt::format("{} {}", keyword_of(array->role), printer.declaration(array)), array->location);
  for (const Fact& fact : program.facts) printer.print_fact(fact);
  printer.print_body(program.body, 0);
  return printer.take();
}

}  // namespace loopgrad::ir
