#include "backends/cuda/chunk_text.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"

#include <algorithm>

namespace loopgrad::backend {

using namespace ir;

constexpr std::int64_t width_of_chunks = 4;  // those with wide accesses

/// for i in e..min(e + 1, n): `i = e, if (i < n)`; for wider ones see `write_wide`.
bool ChunkWriter::write_single(const For& n) {
  const auto chunk = chunk_of(n);
  if (!chunk) return false;
  const Symbol start = start_of(n, *chunk);
  declare_start(start, *chunk);
  write_at(n, start, *chunk);
  return true;
}

/// for step in 0..trips: for i in start + step*stride..min(.. + width, upper)
bool ChunkWriter::write_strided(const For& n) {
  const auto stride = stride_of(n);
  if (!stride) return false;
  const For& inner = *n.body.as<For>();
  const Chunk chunk = *chunk_of(inner);
  scope_.enter(inner);
  const bool single = inner.shape.chunk == 1 && !chunk.lowest;
  const Symbol start = start_of(inner, chunk);
  const std::string& name = scope_.name_of(start);
  scope_.code.line("for ({4} {0} = {1}; {0} < {2}; {0} += {3}) {{", name, scope_.text(stride->first),
                   scope_.text(chunk.upper, Level::Sum), scope_.text(stride->stride), scope_.type_of(start));
  scope_.code.indented([&] {
    if (single) write_body_(inner.body);
    else write_at(inner, start, chunk);
  });
  scope_.code.line("}}");
  return true;
}

/// The name of the first iteration: that of the only one, or one of its own.
Symbol ChunkWriter::start_of(const For& n, const Chunk& chunk) {
  if (n.shape.chunk == 1 && !chunk.lowest) return n.iterator;
  if (const auto* named = chunk.start.as<Var>()) return named->symbol;
  const Symbol start = make_symbol(n.iterator.name + "_start");
  scope_.note_width(start, {chunk.start, chunk.upper});
  if (is_non_negative(chunk.start, scope_.state)) scope_.state.non_negative.insert(start);
  return start;
}

void ChunkWriter::declare_start(const Symbol& start, const Chunk& chunk) {
  if (const auto* named = chunk.start.as<Var>(); named && named->symbol == start) return;
  scope_.code.line("const {} {} = {};", scope_.type_of(start), scope_.name_of(start), scope_.text(chunk.start));
}

void ChunkWriter::write_at(const For& n, const Symbol& start, const Chunk& chunk) {
  if (start == n.iterator) {
    scope_.code.line("if ({} < {}) {{", scope_.name_of(start), scope_.text(chunk.upper, Level::Sum));
    scope_.code.indented([&] { write_with_places(n.body); });
    scope_.code.line("}}");
    return;
  }
  std::vector<ChunkLoop> loops = {{&n, start, chunk}};
  const auto* inner = n.body.as<For>();
  const auto below = inner && inner->shape == n.shape ? chunk_of(*inner) : std::nullopt;
  if (below) {
    scope_.enter(*inner);
    const Symbol inner_start = start_of(*inner, *below);
    declare_start(inner_start, *below);
    loops.push_back({inner, inner_start, *below});
  }
  write_wide(loops);
}

/// All iterations at once with wide accesses if all of them exist and the accesses are aligned, else one by one.
void ChunkWriter::write_wide(const std::vector<ChunkLoop>& loops) {
  const Stmt& body = loops.back().loop->body;
  if (decided_ == loops.back().loop) {
    if (decided_wide_) write_wide_body(loops, body, wides_of(loops, {}));
    else write_narrow(loops, 0);
    return;
  }
  const std::vector<Wide> wides = wides_of(loops, {});
  if (wides.empty()) return loops.size() == 1 ? write_column(loops[0]) : write_narrow(loops, 0);
  uses_wide_accesses_ = true;
  scope_.code.line("if ({}{}) {{", all_exist(loops), all_aligned(wides));
  scope_.code.indented([&] { write_wide_body(loops, body, wides); });
  scope_.code.line("}} else {{");
  scope_.code.indented([&] { write_narrow(loops, 0); });
  scope_.code.line("}}");
}

bool ChunkWriter::write_for_all_trips(const For& n, const std::function<void()>& write_loop) {
  if (!n.run.wide_trips) return false;
  const auto* inner = n.body.as<For>();
  const Chunk chunk = *chunk_of(*inner);
  const std::vector<ChunkLoop> loops = {{inner, chunk.start.as<Var>()->symbol, chunk}};
  const Expr next = n.lower + int_const(1);
  std::vector<Wide> wides = wides_of(loops, {{n.iterator, n.lower}});
  // The accesses of one trip are as far from those of the next in all trips.
  const std::vector<Wide> then = wides_of(loops, {{n.iterator, next}});
  wides.insert(wides.end(), then.begin(), then.end());
  uses_wide_accesses_ = true;
  decided_ = inner;
  scope_.code.line("if ({}{}) {{", all_exist(loops), all_aligned(wides));
  decided_wide_ = true;
  scope_.code.indented(write_loop);
  scope_.code.line("}} else {{");
  decided_wide_ = false;
  scope_.code.indented(write_loop);
  scope_.code.line("}}");
  decided_ = nullptr;
  return true;
}

/// "first iteration is there && last one is there && "
std::string ChunkWriter::all_exist(const std::vector<ChunkLoop>& loops) const {
  std::string condition;
  for (const ChunkLoop& l : loops) {
    const std::string& start = scope_.name_of(l.start);
    if (l.chunk.lowest) condition += fmt::format("{} >= {} && ", start, scope_.text(l.chunk.lowest, Level::Sum));
    condition += fmt::format("{} + {} <= {} && ", start, width_of_chunks, scope_.text(l.chunk.upper, Level::Sum));
  }
  return condition;
}

/// Of an element that wide accesses with the same alignment begin with, each once.
std::string ChunkWriter::all_aligned(const std::vector<Wide>& wides) {
  std::vector<std::string> conditions;
  for (const Wide& wide : wides) {
    // When two rows that are equally far apart are aligned, so are all.
    const std::size_t rows = wide.access.even_rows ? std::min<std::size_t>(wide.rows.size(), 2) : wide.rows.size();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::string own = fmt::format("is_aligned(&{})", wide.rows[row]);
      if (std::find(conditions.begin(), conditions.end(), own) == conditions.end()) conditions.push_back(own);
    }
  }
  return fmt::format("{}", fmt::join(conditions, " && "));
}

/// The wide accesses of the innermost of some loops; `outside`: what symbols around them stand for.
std::vector<ChunkWriter::Wide> ChunkWriter::wides_of(const std::vector<ChunkLoop>& loops, const Substitution& outside) {
  Substitution starts = outside;
  for (const ChunkLoop& l : loops) starts[l.loop->iterator] = var(l.start);
  std::vector<Wide> wides;
  for (const WideAccess& access : loops.back().loop->wide) wides.push_back(wide_of(access, loops, starts));
  return wides;
}

ChunkWriter::Wide ChunkWriter::wide_of(const WideAccess& access, const std::vector<ChunkLoop>& loops,
                                       const Substitution& starts) {
  Wide wide{access, {}, {}, {}};
  const std::size_t along = mentions(access.indices.back(), loops[0].loop->iterator) ? 0 : 1;
  auto element = [&](std::int64_t row) {
    Substitution at = starts;
    if (loops.size() > 1) {
      Expr& other = at[loops[1 - along].loop->iterator];
      other = other + int_const(row);
    }
    std::vector<Expr> indices;
    for (const Expr& index : access.indices) indices.push_back(substitute(index, at));
    return scope_.element(access.array, indices);
  };
  const std::int64_t rows = loops.size() > 1 ? width_of_chunks : 1;
  for (std::int64_t row = 0; row < rows; ++row) wide.rows.push_back(element(row));
  std::vector<Expr> shape(loops.size(), int_const(width_of_chunks));
  wide.registers = make_array(access.array->name + "_wide", access.array->type, shape, ArrayRole::Local, {});
  auto lane_of = [&](const Symbol& iterator) { return var(iterator) - starts.at(iterator); };
  if (loops.size() > 1) wide.lanes.push_back(lane_of(loops[1 - along].loop->iterator));
  wide.lanes.push_back(lane_of(loops[along].loop->iterator));
  return wide;
}

void ChunkWriter::write_wide_body(const std::vector<ChunkLoop>& loops, const Stmt& body,
                                  const std::vector<Wide>& wides) {
  CodeText& code = scope_.code;
  auto for_each_row = [&](const Wide& wide, auto&& f) {
    for (std::size_t row = 0; row < wide.rows.size(); ++row)
      f(wide.rows[row], scope_.state.names.of(wide.registers), width_of_chunks * static_cast<std::int64_t>(row));
  };
  for (const Wide& wide : wides) {
    code.line("alignas(16) {} {}[{}];", storage_cpp_type(wide.registers), scope_.state.names.of(wide.registers),
              width_of_chunks * static_cast<std::int64_t>(wide.rows.size()));
    if (!wide.access.loads) continue;
    for_each_row(wide, [&](const std::string& element, const std::string& registers, std::int64_t at) {
      code.line("copy_four({} + {}, &{});", registers, at, element);
    });
  }
  std::function<void(std::size_t)> write_loops = [&](std::size_t level) {
    if (level == loops.size()) return write_body_(in_registers(body, wides));
    const ChunkLoop& l = loops[level];
    code.line("#pragma unroll");
    code.line("for ({3} {0} = {1}; {0} < {1} + {2}; ++{0}) {{", scope_.name_of(l.loop->iterator),
              scope_.name_of(l.start), width_of_chunks, scope_.type_of(l.loop->iterator));
    code.indented([&] { write_loops(level + 1); });
    code.line("}}");
  };
  write_loops(0);
  for (const Wide& wide : wides) {
    if (!wide.access.stores) continue;
    for_each_row(wide, [&](const std::string& element, const std::string& registers, std::int64_t at) {
      code.line("copy_four(&{}, {} + {});", element, registers, at);
    });
  }
}

Stmt ChunkWriter::in_registers(const Stmt& body, const std::vector<Wide>& wides) {
  return move_elements(body, [&](const Array& array, const std::vector<Expr>& at) -> std::optional<ElementPlace> {
    for (const Wide& wide : wides)
      if (wide.access.array == array && equal(wide.access.indices, at)) return ElementPlace{wide.registers, wide.lanes};
    return std::nullopt;
  });
}

/// All iterations in a row if they exist: without loops around them, what one computes for its addresses helps the
/// next.
void ChunkWriter::write_column(const ChunkLoop& l) {
  CodeText& code = scope_.code;
  const std::string& start = scope_.name_of(l.start);
  std::string condition =
      fmt::format("{} + {} <= {}", start, l.loop->shape.chunk, scope_.text(l.chunk.upper, Level::Sum));
  if (l.chunk.lowest) condition += fmt::format(" && {} >= {}", start, scope_.text(l.chunk.lowest, Level::Sum));
  code.line("if ({}) {{", condition);
  code.indented([&] {
    code.line("#pragma unroll");
    code.line("for ({3} {0} = {1}; {0} < {1} + {2}; ++{0}) {{", scope_.name_of(l.loop->iterator), start,
              l.loop->shape.chunk, scope_.type_of(l.loop->iterator));
    code.indented([&] { write_with_places(l.loop->body); });
    code.line("}}");
  });
  code.line("}} else {{");
  code.indented([&] { write_narrow({l}, 0); });
  code.line("}}");
}

void ChunkWriter::write_with_places(const Stmt& body) {
  places_.around(body, [&] { write_body_(body); });
}

void ChunkWriter::write_narrow(const std::vector<ChunkLoop>& loops, std::size_t level) {
  if (level == loops.size()) return write_with_places(loops.back().loop->body);
  const ChunkLoop& l = loops[level];
  if (loops.size() == 1 && l.loop->run.unroll > 0) return write_guarded(l);
  const std::string upper = scope_.text(l.chunk.upper, Level::Sum), &start = scope_.name_of(l.start);
  const std::string first =
      l.chunk.lowest ? fmt::format("{0} < {1} ? {1} : {0}", start, scope_.text(l.chunk.lowest, Level::Sum)) : start;
  scope_.code.line("for ({5} {0} = {1}; {0} < {2} + {3} && {0} < {4}; ++{0}) {{", scope_.name_of(l.loop->iterator),
                   first, start, l.loop->shape.chunk, upper, scope_.type_of(l.loop->iterator));
  scope_.code.indented([&] { write_narrow(loops, level + 1); });
  scope_.code.line("}}");
}

/// Each iteration behind a condition: an array stays in registers only while all its indices are constants.
void ChunkWriter::write_guarded(const ChunkLoop& l) {
  CodeText& code = scope_.code;
  const std::string& name = scope_.name_of(l.loop->iterator);
  std::string condition = fmt::format("{} < {}", name, scope_.text(l.chunk.upper, Level::Sum));
  if (l.chunk.lowest) condition += fmt::format(" && {} >= {}", name, scope_.text(l.chunk.lowest, Level::Sum));
  code.line("#pragma unroll");
  code.line("for ({3} {0} = {1}; {0} < {1} + {2}; ++{0}) {{", name, scope_.name_of(l.start), l.loop->shape.chunk,
            scope_.type_of(l.loop->iterator));
  code.indented([&] {
    code.line("if ({}) {{", condition);
    code.indented([&] { write_with_places(l.loop->body); });
    code.line("}}");
  });
  code.line("}}");
}

}  // namespace loopgrad::backend
