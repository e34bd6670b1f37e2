#include "tests/support/ir_text.h"

#include "tests/support/ir_expr_text.h"

#include <loopgrad/error.h>

namespace loopgrad::ir {
namespace {

const std::pair<const char*, ArrayRole> roles[] = {
    {"input", ArrayRole::Input}, {"output", ArrayRole::Output}, {"inout", ArrayRole::InOut}, {"tape", ArrayRole::Tape}};

class ProgramReader {
 public:
  explicit ProgramReader(std::vector<TextLine> lines) : lines_(std::move(lines)) {}

  Program read() {
    read_header();
    for (; is_at(1); ++at_) read_declaration();
    program_.body = read_body(0);
    if (at_ < lines_.size()) throw TextError(lines_[at_].number, "expected no further indentation");
    return std::move(program_);
  }
  /// Where reading is, for errors of the factories.
  int line() const { return lines_.empty() ? 1 : lines_[std::min(at_, lines_.size() - 1)].number; }

 private:
  bool is_at(int indent) const { return at_ < lines_.size() && lines_[at_].indent == indent; }
  SourceLocation here() const {
    SourceLocation location;
    location.file = "text";
    location.line = static_cast<std::uint32_t>(lines_[at_].number);
    return location;
  }
  Symbol declare(const std::string& name) {
    const Symbol symbol = make_symbol(name);
    scope_.add(name, symbol);
    return symbol;
  }
  Expr index(TokenReader& in) { return read_expr(in, scope_, ScalarType::I64); }
  Expr condition(TokenReader& in) { return read_expr(in, scope_, ScalarType::Bool); }

  // ---- declarations ----

  void read_header() {
    if (lines_.empty()) throw TextError(1, "expected 'program NAME(SIZES)'");
    TokenReader in(lines_[at_]);
    program_.location = here();
    in.expect("program");
    program_.name = in.expect_word("the name of the program");
    in.expect("(");
    while (!in.accept(")")) {
      program_.sizes.push_back(declare(in.expect_word("the name of a size")));
      if (!in.is_next(")")) in.expect(",");
    }
    in.expect_end();
    ++at_;
  }
  void read_declaration() {
    TokenReader in(lines_[at_]);
    if (in.accept("fact")) return read_fact(in);
    for (const auto& [word, role] : roles) {
      if (!in.accept(word)) continue;
      program_.arrays.push_back(read_array_declaration(in, role));
      return in.expect_end();
    }
    in.fail("input, output, inout, tape or fact");
  }
  Array read_array_declaration(TokenReader& in, ArrayRole role) {
    const auto type = type_named(in.peek().text);
    if (!type) in.fail("an element type");
    in.take();
    const std::string name = in.expect_word("the name of an array");
    ArrayDecl declared = *make_array(name, *type, read_indices(in, scope_), role, here());
    if (in.accept("saved")) declared.on_tape = TapeChoice::Saved;
    else if (in.accept("recomputed")) declared.on_tape = TapeChoice::Recomputed;
    const auto array = std::make_shared<const ArrayDecl>(std::move(declared));
    scope_.add(name, array);
    return array;
  }
  void read_fact(TokenReader& in) {
    Fact fact{FactKind::Sorted, read_array(in, scope_), {}, {}, nullptr, here()};
    if (in.accept("in")) {
      fact.kind = FactKind::InRange;
      fact.lower = index(in);
      in.expect("..");
      fact.upper = index(in);
    } else if (in.accept_all({"csr", "pointer", "of"})) {
      fact.kind = FactKind::CsrPointer;
      fact.upper = index(in);
      if (in.accept_all({",", "at", "most"})) {
        fact.longest = index(in);
        if (!in.accept_all({"a", "row"})) in.fail("'a row'");
      }
    } else if (in.accept_all({"may", "alias"})) {
      fact.kind = FactKind::MayAlias;
      fact.other = read_array(in, scope_);
    } else if (in.accept("[")) {
      fact.kind = FactKind::ReadUpTo;
      fact.upper = index(in);
      if (!in.accept_all({",", "..", "]", "is", "the", "last", "that", "is", "read", "later"}))
        in.fail("', ..] is the last that is read later'");
    } else if (in.accept("injective")) {
      fact.kind = FactKind::Injective;
    } else if (in.accept("distinct")) {
      fact.kind = FactKind::Distinct;
    } else if (!in.accept("sorted")) {
      in.fail("a fact");
    }
    in.expect_end();
    program_.facts.push_back(std::move(fact));
  }

  // ---- statements ----

  /// What stands at that indentation, to its end. Names that are declared there end with it.
  Stmt read_body(int indent) {
    const std::size_t outer = scope_.size();
    if (!is_at(indent)) throw TextError(line(), "expected a body, or 'pass'");
    std::vector<Stmt> body;
    while (is_at(indent)) body.push_back(read_stmt(indent));
    scope_.shrink(outer);
    return block(std::move(body));
  }
  Stmt read_indented_body(TokenReader& in, int indent) {
    in.expect(":");
    in.expect_end();
    ++at_;
    return read_body(indent + 1);
  }
  Stmt read_stmt(int indent) {
    TokenReader in(lines_[at_]);
    const auto* name = scope_.find(in.peek().text);
    const bool stores = name && std::holds_alternative<Array>(*name) && !in.is_next("for", 1);
    if (!stores) {
      if (in.accept("pass")) return finished(in, block({}));
      if (in.accept("barrier")) return finished(in, barrier(here()));
      if (in.accept("local")) return read_local(in, indent);
      if (in.accept("if")) return read_if(in, indent);
      if (in.accept("contraction")) return read_contraction(in, indent);
      if (in.accept_all({"custom", "gradient", "of"})) return read_custom_gradient(in, indent);
      if (in.accept_all({"push", "("})) {
        const Expr value = read_expr(in, scope_, std::nullopt);
        in.expect(")");
        return finished(in, push(value, here()));
      }
      LoopMode mode = LoopMode::Forward;
      if (in.accept("parallel")) mode = LoopMode::Parallel;
      else if (in.accept("grid")) mode = LoopMode::Grid;
      else if (in.accept("threads")) mode = LoopMode::Threads;
      if (in.accept("for")) return read_loop(in, mode, indent);
      in.fail("a statement");
    }
    return read_store(in);
  }
  Stmt finished(TokenReader& in, Stmt s) {
    in.expect_end();
    ++at_;
    return s;
  }
  Stmt read_local(TokenReader& in, int indent) {
    const std::size_t outer = scope_.size();
    const SourceLocation location = here();
    const Array array = read_array_declaration(in, ArrayRole::Local);
    Home home = Home::Unplaced;
    if (in.accept_all({"(", "grid", ")"})) home = Home::Grid;
    else if (in.accept_all({"(", "block", ")"})) home = Home::Block;
    else if (in.accept_all({"(", "thread", ")"})) home = Home::Thread;
    else if (in.accept_all({"(", "stack", ")"})) home = Home::Stack;
    else if (in.accept_all({"(", "call", ")"})) home = Home::Call;
    else if (in.accept_all({"(", "per", "thread", ")"})) home = Home::PerThread;
    else if (in.accept_all({"(", "iteration", ")"})) home = Home::Iteration;
    Allocate like(array, {}, home, location);
    like.reserved_out = static_cast<int>(read_number(in, {"(", "out"}).value_or(0));
    if (in.accept_all({"(", "of", "the", "launch", ":"})) {
      do like.largest.push_back(index(in));
      while (in.accept(","));
      in.expect(")");
    }
    if (in.is_next(":")) {
      Stmt inner = read_indented_body(in, indent);
      scope_.shrink(outer);
      return mapped_like(like, allocate(array, std::move(inner), location));
    }
    in.expect_end();
    ++at_;
    return mapped_like(like, allocate(array, read_body(indent), location));
  }
  Stmt read_loop(TokenReader& in, LoopMode mode, int indent) {
    const SourceLocation location = here();
    const std::string name = in.expect_word("the name of the iterator");
    in.expect("in");
    const Expr lower = index(in);
    in.expect("..");
    const Expr upper = index(in);
    const std::size_t outer = scope_.size();
    const Symbol iterator = declare(name);
    Stmt result;
    if (in.accept("while")) {
      if (as_int(lower) != 0 || mode != LoopMode::Forward) in.fail("a sequential loop from 0 before 'while'");
      const Expr goes_on = condition(in);
      Stmt body = read_indented_body(in, indent);
      result = while_loop(iterator, upper, goes_on, std::move(body), location);
    } else {
      if (in.accept("reversed")) {
        if (mode != LoopMode::Forward) in.fail("no order of a parallel loop");
        mode = LoopMode::Backward;
      }
      Expr at_most;
      if (in.accept_all({"(", "at", "most"})) {
        at_most = index(in);
        in.expect(")");
      }
      LoopShape shape;
      if (in.accept_all({"(", "chunk", "of"})) {
        shape.chunk = as_int(index(in)).value_or(0);
        in.expect(")");
      }
      shape.strided = in.accept_all({"(", "strided", ")"});
      For like(iterator, lower, upper, {}, mode, {}, {}, location);
      read_run(in, like);
      Stmt body = read_indented_body(in, indent);
      // The factory would leave out a shape that does not fit: that is for the verifier to say.
      if (shape == LoopShape{}) result = for_loop(iterator, lower, upper, std::move(body), mode, location, at_most);
      else result = {std::make_shared<For>(iterator, lower, upper, std::move(body), mode, at_most, shape, location)};
      result = mapped_like(like, result);
    }
    scope_.shrink(outer);
    return result;
  }
  void read_run(TokenReader& in, For& loop) {
    LoopRun& run = loop.run;
    run.joins = in.accept_all({"(", "joined", ")"});
    run.threads = in.accept_all({"(", "threads", ")"});
    run.together = static_cast<int>(read_number(in, {"(", "together"}).value_or(1));
    run.uneven = in.accept_all({"(", "uneven", ")"});
    if (in.accept_all({"(", "pays", "from"})) {
      run.least_work = as_int(index(in)).value_or(0);
      in.expect("at");
      loop.work = index(in);
      in.expect(")");
    }
    run.or_alone = in.accept_all({"(", "or", "alone", ")"});
    if (in.accept_all({"(", "lanes", ")"})) run.lanes = 0;
    else run.lanes = static_cast<int>(read_number(in, {"(", "lanes"}).value_or(1));
    run.lane_sums = in.accept_all({"(", "sums", "of", "lanes", ")"});
    if (in.accept_all({"(", "streams"})) {
      loop.streams = index(in);
      in.expect(")");
    }
    read_run_on_gpu(in, loop);
  }
  void read_run_on_gpu(TokenReader& in, For& loop) {
    LoopRun& run = loop.run;
    if (in.accept_all({"(", "block", "of"})) {
      do loop.block.push_back(read_expr(in, scope_, ScalarType::I64, Reach::Product));
      while (in.accept("x"));
      in.expect(",");
      run.most_threads = read_number(in, {"at", "most"}).value_or(0);
    }
    run.teams = in.accept_all({"(", "teams", ")"});
    run.many_blocks = in.accept_all({"(", "many", "blocks", ")"});
    run.barriers = in.accept_all({"(", "barriers", ")"});
    run.unroll = read_number(in, {"(", "unroll"}).value_or(0);
    run.wide_trips = in.accept_all({"(", "wide", "in", "all", "trips", ")"});
    if (!in.accept_all({"(", "wide"})) return;
    do {
      WideAccess access;
      access.loads = !in.accept("stores");
      access.stores = !access.loads || in.accept("updates");
      if (!access.stores) in.expect("loads");
      access.array = read_array(in, scope_);
      access.indices = read_indices(in, scope_);
      access.even_rows = !in.accept("unevenly");
      loop.wide.push_back(std::move(access));
    } while (in.accept(","));
    in.expect(")");
  }
  /// A number after these words, and a parenthesis; or nothing, where the text goes on in another way.
  std::optional<std::int64_t> read_number(TokenReader& in, const std::vector<std::string>& words) {
    if (!in.accept_all(words)) return std::nullopt;
    const auto number = as_int(index(in));
    in.expect(")");
    return number;
  }
  Stmt read_if(TokenReader& in, int indent) {
    const SourceLocation location = here();
    const Expr holds = condition(in);
    Stmt then_body = read_indented_body(in, indent), else_body;
    if (is_at(indent)) {
      TokenReader next(lines_[at_]);
      if (next.accept_all({"else", "if"})) else_body = read_if(next, indent);
      else if (next.accept("else")) else_body = read_indented_body(next, indent);
    }
    return if_then(holds, std::move(then_body), std::move(else_body), location);
  }
  Stmt read_store(TokenReader& in) {
    const Array array = read_array(in, scope_);
    std::vector<Expr> indices = read_indices(in, scope_);
    if (indices.size() != array->shape.size())
      throw TextError(in.line(),
                      "expected " + std::to_string(array->shape.size()) + " indices of '" + array->name + "'");
    const ScalarType type = value_type(array->type);
    if (in.accept("=")) {
      if (in.accept_all({"pop", "(", ")"})) return finished(in, pop(array, std::move(indices), here()));
      const bool streamed = in.accept_all({"(", "streamed", ")"});
      Assign like(array, {}, {}, here());
      like.streamed = streamed;
      const Expr value = read_expr(in, scope_, type);
      return finished(in, mapped_like(like, assign(array, std::move(indices), value, here())));
    }
    ReduceOp op = ReduceOp::Add;
    if (in.accept("*=")) op = ReduceOp::Mul;
    else if (in.accept_all({"min", "="})) op = ReduceOp::Min;
    else if (in.accept_all({"max", "="})) op = ReduceOp::Max;
    else if (!in.accept("+=")) in.fail("=, +=, *=, min= or max=");
    const bool of_lanes = in.accept_all({"(", "lanes", ")"}), by_segments = in.accept_all({"(", "segments", ")"});
    const bool of_block = in.accept_all({"(", "block", ")"});
    const bool atomic = of_block || in.accept_all({"(", "atomic", ")"});
    const bool rounded = in.accept_all({"(", "rounded", "product", ")"});
    const Expr value = read_expr(in, scope_, type);
    const bool fused = !rounded && !atomic && op == ReduceOp::Add && product_of(value);
    auto sum =
        std::make_shared<Reduce>(array, std::move(indices), op, value, atomic, fused, of_block, by_segments, here());
    sum->of_lanes = of_lanes;
    return finished(in, {std::move(sum)});
  }

  // custom gradient of y by x:
  //   body
  // adjoint d_y to d_x:
  //   rule
  // tangent d_x to d_y:
  //   rule
  Stmt read_custom_gradient(TokenReader& in, int indent) {
    const SourceLocation location = here();
    const auto arrays = [&](TokenReader& from) {
      std::vector<Array> list;
      do list.push_back(read_array(from, scope_));
      while (from.accept(","));
      return list;
    };
    const auto derivatives = [&](TokenReader& from, const std::vector<Array>& of) {
      std::vector<Array> list;
      for (const Array& array : of) {
        if (!list.empty()) from.expect(",");
        const std::string name = from.expect_word("the name of a derivative");
        list.push_back(make_array(name, value_type(array->type), array->shape, ArrayRole::Local, location));
      }
      return list;
    };
    const std::vector<Array> outputs = arrays(in);
    in.expect("by");
    const std::vector<Array> inputs = arrays(in);
    Stmt body = read_indented_body(in, indent), tangent;
    if (!is_at(indent)) throw TextError(line(), "expected 'adjoint'");
    TokenReader rule(lines_[at_]);
    rule.expect("adjoint");
    const std::vector<Array> seeds = derivatives(rule, outputs);
    rule.expect("to");
    const std::vector<Array> gradients = derivatives(rule, inputs);
    const std::size_t outer = scope_.size();
    for (const auto* list : {&seeds, &gradients})
      for (const Array& array : *list) scope_.add(array->name, array);
    Stmt adjoint = read_indented_body(rule, indent);
    if (is_at(indent)) {
      TokenReader next(lines_[at_]);
      if (next.accept("tangent")) {
        if (arrays(next) != gradients) next.fail("the derivatives of the inputs");
        next.expect("to");
        if (arrays(next) != seeds) next.fail("the derivatives of the outputs");
        tangent = read_indented_body(next, indent);
      }
    }
    scope_.shrink(outer);
    return {std::make_shared<CustomGradient>(outputs, inputs, seeds, gradients, std::move(body), std::move(adjoint),
                                             std::move(tangent), location)};
  }

  // contraction c += 2*a*b (m x n x k):
  //   at c[0; 0, n, 1] = a[0; 0, k, 1]*b[0; 0, n, 1]
  //   loops
  Stmt read_contraction(TokenReader& in, int indent) {
    const SourceLocation location = here();
    const Array c = read_array(in, scope_);
    const bool overwrites = in.accept("=");
    if (!overwrites) in.expect("+=");
    double alpha = 1;
    if (!scope_.find(in.peek().text)) {
      alpha = in.accept("-") ? -1 : 1;
      if (in.peek().kind != Token::Kind::Number) in.fail("a factor");
      alpha *= std::stod(in.take().text);
      in.expect("*");
    }
    const Array a = read_array(in, scope_);
    in.expect("*");
    const Array b = read_array(in, scope_);
    std::vector<Expr> extents;
    in.expect("(");
    do extents.push_back(read_expr(in, scope_, ScalarType::I64, Reach::Product));
    while (in.accept("x"));
    in.expect(")");
    if (extents.size() == 3) extents.insert(extents.begin(), int_const(1));
    if (extents.size() != 4) in.fail("three or four extents before");
    in.expect(":");
    in.expect_end();
    ++at_;
    if (!is_at(indent + 1)) throw TextError(line(), "expected where the matrices lie: 'at ...'");
    TokenReader places(lines_[at_]);
    places.expect("at");
    std::vector<Expr> c_place = read_place(places, c);
    places.expect("=");
    std::vector<Expr> a_place = read_place(places, a);
    places.expect("*");
    std::vector<Expr> b_place = read_place(places, b);
    places.expect_end();
    ++at_;
    Stmt loops = read_body(indent + 1);
    return {std::make_shared<Contraction>(c, a, b, std::move(extents), std::move(c_place), std::move(a_place),
                                          std::move(b_place), alpha, overwrites, std::move(loops), location)};
  }
  std::vector<Expr> read_place(TokenReader& in, const Array& array) {
    if (read_array(in, scope_) != array) in.fail("the arrays in the order of the line above");
    in.expect("[");
    std::vector<Expr> parts{index(in)};
    in.expect(";");
    do parts.push_back(index(in));
    while (in.accept(","));
    in.expect("]");
    return parts;
  }

  std::vector<TextLine> lines_;
  std::size_t at_ = 0;
  Program program_;
  TextScope scope_;
};

}  // namespace

Program parse_program(const std::string& text) {
  ProgramReader reader(lines_of(text));
  try {
    return reader.read();
  } catch (const InternalError& error) {  // a factory was given what it does not take
    throw TextError(reader.line(), error.what());
  }
}

}  // namespace loopgrad::ir
