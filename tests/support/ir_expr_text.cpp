#include "tests/support/ir_expr_text.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace loopgrad::ir {
namespace {

using KnownType = std::optional<ScalarType>;

/// An expression before types: the type of a constant depends on what stands beside it.
struct Tree {
  enum class Kind { Constant, Element, Call, Unary, Binary };
  Kind kind = Kind::Constant;
  std::string text;  // the number, name, function or operator
  std::vector<Tree> operands = {};
  const TextScope::Meaning* meaning = nullptr;  // of a name
  std::string suffix = {};                      // the type of a constant, when it has one
};

const std::vector<std::map<std::string, BinaryOp>>& operators() {
  static const std::vector<std::map<std::string, BinaryOp>> levels = {
      {{"||", BinaryOp::Or}},
      {{"&&", BinaryOp::And}},
      {{"<", BinaryOp::Lt},
       {"<=", BinaryOp::Le},
       {">", BinaryOp::Gt},
       {">=", BinaryOp::Ge},
       {"==", BinaryOp::Eq},
       {"!=", BinaryOp::Ne}},
      {{"+", BinaryOp::Add}, {"-", BinaryOp::Sub}},
      {{"*", BinaryOp::Mul}, {"/", BinaryOp::Div}, {"//", BinaryOp::FloorDiv}, {"%", BinaryOp::Mod}},
  };
  return levels;
}
constexpr std::size_t comparisons = 2, products = 4;

/// The functions of the IR by name; `f16` and `bf16` round.
template <class Op>
std::optional<Op> operation_named(const std::string& name, Op last) {
  for (int op = 0; op <= static_cast<int>(last); ++op)
    if (name == name_of(static_cast<Op>(op))) return static_cast<Op>(op);
  return std::nullopt;
}

class Reader {
 public:
  Reader(TokenReader& in, const TextScope& scope) : in_(in), scope_(scope) {}

  Tree read(std::size_t level) {
    if (level == operators().size()) return read_signed();
    Tree left = read(level + 1);
    while (operators()[level].count(in_.peek().text) && in_.peek().kind == Token::Kind::Sign) {
      Tree whole{Tree::Kind::Binary, in_.take().text};
      whole.operands = {std::move(left), read(level + 1)};
      left = std::move(whole);
      if (level == comparisons) break;
    }
    return left;
  }

 private:
  bool at_constant() const {
    const Token& next = in_.peek();
    const bool word = next.text.rfind("inf", 0) == 0 || next.text.rfind("nan", 0) == 0;
    return next.kind == Token::Kind::Number || (word && !scope_.find(next.text));
  }
  Tree constant(const std::string& sign) {
    Tree result{Tree::Kind::Constant, sign + in_.take().text};
    for (const char* type : {"i32", "i64", "f32", "f64"}) {
      const std::size_t length = result.text.size();
      if (length <= 3 || result.text.compare(length - 3, 3, type) != 0) continue;
      result.suffix = type;
      result.text.resize(length - 3);
    }
    return result;
  }
  Tree read_signed() {
    if (in_.accept("-")) {
      if (at_constant()) return constant("-");
      return {Tree::Kind::Unary, "-", {read_signed()}};
    }
    if (in_.accept("!")) return {Tree::Kind::Unary, "!", {read_signed()}};
    return read_primary();
  }
  Tree read_primary() {
    if (in_.accept("(")) {
      Tree inner = read(0);
      in_.expect(")");
      return inner;
    }
    if (at_constant()) return constant("");
    if (in_.is_next("true") || in_.is_next("false")) return {Tree::Kind::Constant, in_.take().text};
    const std::string name = in_.expect_word("an expression");
    const TextScope::Meaning* meaning = scope_.find(name);
    if (!meaning && in_.is_next("(")) return {Tree::Kind::Call, name, read_list("(", ")")};
    if (!meaning) throw TextError(in_.line(), "nothing is called '" + name + "' here");
    Tree element{Tree::Kind::Element, name, {}, meaning};
    if (in_.is_next("[")) element.operands = read_list("[", "]");
    return element;
  }
  std::vector<Tree> read_list(const char* open, const char* close) {
    std::vector<Tree> list;
    in_.expect(open);
    do list.push_back(read(0));
    while (in_.accept(","));
    in_.expect(close);
    return list;
  }

  TokenReader& in_;
  const TextScope& scope_;
};

KnownType common(KnownType a, KnownType b) {
  const bool mixed = a && b && is_integer(*a) && is_integer(*b);
  if (mixed) return *a == *b ? *a : ScalarType::I64;
  return a ? a : b;
}

BinaryOp operator_named(const std::string& sign) {
  for (const auto& level : operators()) {
    if (const auto op = level.find(sign); op != level.end()) return op->second;
  }
  throw InternalError("unknown operator " + sign);
}

/// What the text says of its type by itself.
KnownType type_of(const Tree& t) {
  switch (t.kind) {
    case Tree::Kind::Constant:
      if (t.text == "true" || t.text == "false") return ScalarType::Bool;
      return type_named(t.suffix);
    case Tree::Kind::Element:
      if (const auto* array = std::get_if<Array>(t.meaning)) return value_type((*array)->type);
      return ScalarType::I64;
    case Tree::Kind::Call: {
      if (t.text != "f16" && t.text != "bf16")
        if (const KnownType named = type_named(t.text)) return named;
      KnownType type;
      for (std::size_t k = t.text == "select" ? 1 : 0; k < t.operands.size(); ++k)
        type = common(type, type_of(t.operands[k]));
      return type;
    }
    case Tree::Kind::Unary: return t.text == "!" ? KnownType(ScalarType::Bool) : type_of(t.operands[0]);
    case Tree::Kind::Binary: {
      const BinaryOp op = operator_named(t.text);
      if (is_comparison(op) || op == BinaryOp::And || op == BinaryOp::Or) return ScalarType::Bool;
      return common(type_of(t.operands[0]), type_of(t.operands[1]));
    }
  }
  return std::nullopt;
}

/// Whether a conversion or a constant says that integers are i32, which elements are not taken for where they are
/// compared.
bool says_i32(const Tree& t) {
  if (t.text == "i32" || t.suffix == "i32") return true;
  if (t.kind == Tree::Kind::Element) return false;
  const std::size_t first = t.kind == Tree::Kind::Call && t.text == "select" ? 1 : 0;
  return std::any_of(t.operands.begin() + static_cast<std::ptrdiff_t>(std::min(first, t.operands.size())),
                     t.operands.end(), says_i32) &&
         type_of(t) == ScalarType::I32;
}

class Builder {
 public:
  explicit Builder(int line) : line_(line) { location_.file = "text", location_.line = static_cast<unsigned>(line); }

  Expr build(const Tree& t, KnownType known) {
    const Expr result = make(t, known);
    if (known && result.type() != *known)
      throw TextError(line_, std::string("expected an expression of type ") + name_of(*known) + ", found '" + t.text +
                                 "' of type " + name_of(result.type()));
    return result;
  }

 private:
  Expr make(const Tree& t, KnownType known) {
    switch (t.kind) {
      case Tree::Kind::Constant: return constant(t, known);
      case Tree::Kind::Element: return element(t, known);
      case Tree::Kind::Call: return call(t, known);
      case Tree::Kind::Unary: return unary(t.text == "!" ? UnaryOp::Not : UnaryOp::Neg, build(t.operands[0], known));
      case Tree::Kind::Binary: {
        const BinaryOp op = operator_named(t.text);
        const std::vector<Expr> both = alike(t.operands, 0, is_comparison(op) ? compared_type(t) : known);
        return binary(op, both[0], both[1]);
      }
    }
    throw InternalError("unknown tree");
  }

  KnownType compared_type(const Tree& t) {
    const KnownType said = common(type_of(t.operands[0]), type_of(t.operands[1]));
    const bool as_i32 = says_i32(t.operands[0]) || says_i32(t.operands[1]);
    return said == ScalarType::I32 && !as_i32 ? ScalarType::I64 : said;
  }

  /// Operands of one type, which is known or which one of them says.
  std::vector<Expr> alike(const std::vector<Tree>& operands, std::size_t first, KnownType known) {
    KnownType type = known;
    for (std::size_t k = first; k < operands.size() && !known; ++k) type = common(type, type_of(operands[k]));
    std::vector<Expr> result;
    for (std::size_t k = first; k < operands.size(); ++k) result.push_back(build(operands[k], type));
    for (const Expr& e : result)
      if (e.type() != result[0].type()) throw TextError(line_, "expected operands of one type");
    return result;
  }

  Expr constant(const Tree& t, KnownType known) {
    if (t.text == "true" || t.text == "false") return bool_const(t.text == "true");
    const bool whole = t.text.find_first_of(".en") == std::string::npos;
    const KnownType said = type_named(t.suffix);
    const ScalarType type = said ? *said : known ? *known : whole ? ScalarType::I64 : ScalarType::F64;
    const char* end = nullptr;
    char* stop = nullptr;
    Expr result;
    if (type == ScalarType::F32) result = float_const(std::strtof(t.text.c_str(), &stop), type);
    else if (is_float(type)) result = float_const(std::strtod(t.text.c_str(), &stop), type);
    else result = int_const(std::strtoll(t.text.c_str(), &stop, 10), type);
    end = stop;
    if (*end || type == ScalarType::Bool)
      throw TextError(line_, std::string("expected a constant of type ") + name_of(type) + ", found '" + t.text + "'");
    return result;
  }

  Expr element(const Tree& t, KnownType known) {
    const auto* array = std::get_if<Array>(t.meaning);
    if (!array) {
      if (!t.operands.empty()) throw TextError(line_, "'" + t.text + "' is no array");
      return var(std::get<Symbol>(*t.meaning));
    }
    std::vector<Expr> indices;
    for (const Tree& index : t.operands) indices.push_back(build(index, ScalarType::I64));
    if (indices.size() != (*array)->shape.size())
      throw TextError(line_, "expected " + std::to_string((*array)->shape.size()) + " indices of '" + t.text + "'");
    const Expr value = load(*array, std::move(indices), location_);
    return known == ScalarType::I64 && value.type() == ScalarType::I32 ? cast(*known, value) : value;
  }

  Expr call(const Tree& t, KnownType known) {
    const auto takes = [&](std::size_t count) {
      if (t.operands.size() != count)
        throw TextError(line_, "expected " + std::to_string(count) + " arguments of '" + t.text + "'");
    };
    if (t.text == "select") {
      takes(3);
      const Expr condition = build(t.operands[0], ScalarType::Bool);
      const std::vector<Expr> both = alike(t.operands, 1, known);
      return select(condition, both[0], both[1]);
    }
    if (t.text == "fma") {
      takes(3);
      const std::vector<Expr> all = alike(t.operands, 0, known);
      return fma(all[0], all[1], all[2]);
    }
    if (const auto op = operation_named(t.text, UnaryOp::Stop)) {
      takes(1);
      return unary(*op, build(t.operands[0], known));
    }
    if (const auto op = operation_named(t.text, BinaryOp::Or)) {
      takes(2);
      const std::vector<Expr> both = alike(t.operands, 0, known);
      return binary(*op, both[0], both[1]);
    }
    const KnownType type = type_named(t.text);
    if (!type) throw TextError(line_, "nothing is called '" + t.text + "' here");
    takes(1);
    return cast(*type, build(t.operands[0], std::nullopt));
  }

  int line_;
  SourceLocation location_;
};

}  // namespace

const TextScope::Meaning* TextScope::find(const std::string& name) const {
  for (auto entry = names_.rbegin(); entry != names_.rend(); ++entry)
    if (entry->first == name) return &entry->second;
  return nullptr;
}

std::optional<ScalarType> type_named(const std::string& word) {
  for (int type = 0; is_known(static_cast<ScalarType>(type)); ++type)
    if (word == name_of(static_cast<ScalarType>(type))) return static_cast<ScalarType>(type);
  return std::nullopt;
}

Expr read_expr(TokenReader& in, const TextScope& scope, std::optional<ScalarType> type, Reach reach) {
  const Tree tree = Reader(in, scope).read(reach == Reach::All ? 0 : products);
  return Builder(in.line()).build(tree, type);
}

Array read_array(TokenReader& in, const TextScope& scope) {
  const std::string name = in.peek().text;
  const TextScope::Meaning* meaning = scope.find(name);
  const auto* array = meaning ? std::get_if<Array>(meaning) : nullptr;
  if (!array) in.fail("the name of an array");
  in.take();
  return *array;
}

std::vector<Expr> read_indices(TokenReader& in, const TextScope& scope) {
  std::vector<Expr> indices;
  if (!in.accept("[")) return indices;
  do indices.push_back(read_expr(in, scope, ScalarType::I64));
  while (in.accept(","));
  in.expect("]");
  return indices;
}

}  // namespace loopgrad::ir
