#include "backends/openmp/streams.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <map>

namespace loopgrad::backend {

using namespace ir;

const char* const stream_text = R"(
// Stores for rows of arrays that, with what is read beside them, no cache holds: past the caches, without fetching what is
// overwritten.
constexpr int64_t stream_part = 256;
inline bool is_streamed(int64_t bytes) { return bytes >= int64_t(48) << 20; }
// The end of the part that starts with element `begin`: a line's, or the row's.
template <class T>
inline int64_t end_of_part(const T* to, int64_t begin, int64_t end) {
  const int64_t over = int64_t(reinterpret_cast<uintptr_t>(to + stream_part) % 64 / sizeof(T));
  return end - begin <= stream_part - over ? end : begin + stream_part - over;
}
typedef float stream_line __attribute__((vector_size(64), may_alias));
inline void stream(stream_line* to, const stream_line& line) {
#if defined(__clang__)
  __builtin_nontemporal_store(line, to);
#elif defined(__AVX512F__)
  __builtin_ia32_movntps512(reinterpret_cast<float*>(to), line);
#elif defined(__SSE__)
  typedef float quarter __attribute__((vector_size(16), may_alias));
  quarter parts[4];
  std::memcpy(parts, &line, 64);
  for (int k = 0; k < 4; ++k) __builtin_ia32_movntps(reinterpret_cast<float*>(to) + 4 * k, parts[k]);
#else
  *to = line;
#endif
}
template <class T>
inline void stream(T* to, const T* from, int64_t count) {
  constexpr int64_t each = 64 / sizeof(T);
  int64_t done = 0;
  for (; done < count && reinterpret_cast<uintptr_t>(to + done) % 64 != 0; ++done) to[done] = from[done];
  for (; done + each <= count; done += each) {
    stream_line line;
    std::memcpy(&line, from + done, 64);
    stream(reinterpret_cast<stream_line*>(to + done), line);
  }
  for (; done < count; ++done) to[done] = from[done];
}
inline void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}
)";

void emit_streamed(const For& loop, const LoopHeader& header, CodeText& code, EmitState& state,
                   const std::function<void(const Stmt&)>& emit_body) {
  std::vector<const Assign*> rows;
  walk_stmts(loop.body, [&](const Stmt& s) {
    const auto* n = s.as<Assign>();
    if (n && n->streamed) rows.push_back(n);
  });
  state.helpers.insert(Helper::Streams);
  const std::string iterator = state.names.of(loop.iterator);
  const Symbol begin = make_symbol(iterator + "_part");
  if (state.non_negative.count(loop.iterator)) state.non_negative.insert(begin);
  const std::string part = state.names.of(begin), end = state.names.fresh(iterator + "_end");

  const std::string pays =
      fmt::format("{} >= stream_part && is_streamed({})", text_of(loop.upper - loop.lower, state, Level::Relation),
                  text_of(loop.streams, state));
  std::map<const StmtNode*, Array> buffers;
  std::vector<std::string> starts;
  for (const Assign* row : rows) {
    buffers[row] =
        make_array(row->array->name + "_part", row->array->type, {int_const(256)}, ArrayRole::Local, row->location);
    std::vector<Expr> start;
    for (const Expr& index : row->indices) start.push_back(substitute(index, {{loop.iterator, var(begin)}}));
    starts.push_back("&" + element_text(row->array, start, state));
  }
  const Stmt in_buffers = rewrite(loop.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto buffer = buffers.find(s.get());
    if (buffer == buffers.end()) return std::nullopt;
    return assign(buffer->second, {var(loop.iterator) - var(begin)}, s.as<Assign>()->value, s->location);
  });

  code.line("if ({}) {{", pays);
  code.indented([&] {
    code.line("for (int64_t {0} = {1}, {2}; {0} < {3}; {0} = {2}) {{", part, header.lower, end, header.upper);
    code.indented([&] {
      for (const Assign* row : rows)
        code.line("alignas(64) {} {}[stream_part];", storage_cpp_type(row->array), state.names.of(buffers.at(row)));
      code.line("{} = end_of_part({}, {}, {});", end, starts[0], part, header.upper);
      code.line("#pragma omp simd");
      code.line("for (int64_t {0} = {1}; {0} < {2}; ++{0}) {{", iterator, part, end);
      code.indented([&] { emit_body(in_buffers); });
      code.line("}}");
      for (std::size_t k = 0; k < rows.size(); ++k)
        code.line("stream({}, {}, {} - {});", starts[k], state.names.of(buffers.at(rows[k])), end, part);
    });
    code.line("}}");
  });
  code.line("}} else {{");
}

}  // namespace loopgrad::backend
