#include "dsl/ir/stmt.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <limits>

namespace loopgrad::ir {

const char* name_of(ReduceOp op) {
  static const char* const names[] = {"+=", "*=", "min=", "max="};
  return names[static_cast<int>(op)];
}

BinaryOp binary_of(ReduceOp op) {
  static const BinaryOp ops[] = {BinaryOp::Add, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max};
  return ops[static_cast<int>(op)];
}

Expr identity_of(ReduceOp op, ScalarType type) {
  const bool floating = is_float(type);
  switch (op) {
    case ReduceOp::Add: return const_of(0, type);
    case ReduceOp::Mul: return const_of(1, type);
    case ReduceOp::Min:
    case ReduceOp::Max: {
      const bool largest = op == ReduceOp::Min;
      if (floating) {
        const double infinity = std::numeric_limits<double>::infinity();
        return float_const(largest ? infinity : -infinity, value_type(type));
      }
      if (type == ScalarType::I32) {
        using Limits = std::numeric_limits<std::int32_t>;
        return int_const(largest ? Limits::max() : Limits::min(), type);
      }
      using Limits = std::numeric_limits<std::int64_t>;
      return int_const(largest ? Limits::max() : Limits::min(), type);
    }
  }
  throw InternalError("unknown reduction");
}

Stmt block(std::vector<Stmt> body) {
  std::vector<Stmt> flat;
  for (Stmt& s : body) {
    if (is_empty(s)) continue;
    if (const auto* inner = s.as<Block>()) flat.insert(flat.end(), inner->body.begin(), inner->body.end());
    else flat.push_back(std::move(s));
  }
  if (flat.size() == 1) return flat.front();
  return {std::make_shared<Block>(std::move(flat))};
}

bool is_empty(const Stmt& s) {
  if (!s) return true;
  const auto* b = s.as<Block>();
  return b && b->body.empty();
}

Stmt for_loop(const Symbol& iterator, Expr lower, Expr upper, Stmt body, LoopMode mode, SourceLocation location,
              Expr at_most, LoopShape shape) {
  if (is_empty(body)) return block({});
  auto loop = std::make_shared<For>(iterator, std::move(lower), std::move(upper), std::move(body), mode,
                                    std::move(at_most), shape, location);
  if (shape.chunk > 0 && !chunk_of(*loop)) loop->shape.chunk = 0;
  if (shape.strided && !stride_of(*loop)) loop->shape.strided = false;
  return {std::move(loop)};
}

Stmt chunk_loop(const Symbol& i, const Chunk& chunk, std::int64_t width, Stmt body, SourceLocation location) {
  const Expr first = chunk.lowest ? binary(BinaryOp::Max, chunk.start, chunk.lowest) : chunk.start;
  const Expr end = binary(BinaryOp::Min, chunk.start + int_const(width), chunk.upper);
  return for_loop(i, first, end, std::move(body), LoopMode::Forward, location, {}, {.chunk = width});
}

std::optional<Chunk> chunk_of(const For& n) {
  const auto* end = n.upper.as<Binary>();
  if (n.shape.chunk < 1 || n.mode != LoopMode::Forward || !end || end->op != BinaryOp::Min) return std::nullopt;
  const Expr width = int_const(n.shape.chunk);
  if (equal(end->a, n.lower + width)) return Chunk{n.lower, {}, end->b};
  const auto* first = n.lower.as<Binary>();
  if (!first || first->op != BinaryOp::Max || !equal(end->a, first->a + width)) return std::nullopt;
  return Chunk{first->a, first->b, end->b};
}

std::optional<ChunkStride> stride_of(const For& n) {
  const auto* inner = n.body.as<For>();
  if (!n.shape.strided || n.mode != LoopMode::Forward || as_int(n.lower) != 0 || !inner) return std::nullopt;
  const auto chunk = chunk_of(*inner);
  const auto* sum = chunk ? chunk->start.as<Binary>() : nullptr;
  if (!sum || sum->op != BinaryOp::Add) return std::nullopt;
  const auto* step = sum->b.as<Binary>();
  const auto* trip = step && step->op == BinaryOp::Mul ? step->a.as<Var>() : nullptr;
  if (!trip || trip->symbol != n.iterator) return std::nullopt;
  const Expr trips = binary(BinaryOp::FloorDiv, chunk->upper - sum->a + (step->b - int_const(1)), step->b);
  return equal(trips, n.upper) ? std::optional(ChunkStride{sum->a, step->b}) : std::nullopt;
}

Stmt while_loop(const Symbol& iterator, Expr max_trips, Expr condition, Stmt body, SourceLocation location) {
  if (!body) body = block({});
  return {std::make_shared<While>(iterator, std::move(max_trips), std::move(condition), std::move(body), location)};
}

Stmt if_then(Expr condition, Stmt then_body, Stmt else_body, SourceLocation location) {
  if (is_empty(else_body)) else_body = {};
  if (is_empty(then_body)) {
    if (!else_body) return block({});
    return if_then(unary(UnaryOp::Not, condition), std::move(else_body), {}, location);
  }
  if (const auto c = as_int(condition)) return *c ? then_body : (else_body ? else_body : block({}));
  return {std::make_shared<If>(std::move(condition), std::move(then_body), std::move(else_body), location)};
}

namespace {

void check_store(const Array& array, const std::vector<Expr>& indices, const Expr& value) {
  if (indices.size() != array->shape.size()) throw InternalError("rank of store to '" + array->name + "'");
  if (value && value.type() != value_type(array->type)) throw InternalError("type of store to '" + array->name + "'");
}

}  // namespace

Stmt assign(const Array& array, std::vector<Expr> indices, Expr value, SourceLocation location) {
  check_store(array, indices, value);
  return {std::make_shared<Assign>(array, std::move(indices), std::move(value), location)};
}

Stmt reduce(const Array& array, std::vector<Expr> indices, ReduceOp op, Expr value, SourceLocation location,
            bool atomic) {
  check_store(array, indices, value);
  const bool fused = op == ReduceOp::Add && !atomic && product_of(value);
  return {
      std::make_shared<Reduce>(array, std::move(indices), op, std::move(value), atomic, fused, false, false, location)};
}

Stmt reduce_like(const Reduce& n, const Array& array, std::vector<Expr> indices, Expr value) {
  check_store(array, indices, value);
  const bool fused = n.fused && product_of(value);
  const bool by_segments = n.by_segments && std::any_of(indices.begin(), indices.end(), has_load);
  auto result = std::make_shared<Reduce>(array, std::move(indices), n.op, std::move(value), n.atomic, fused, n.of_block,
                                         by_segments, n.location);
  result->of_lanes = n.of_lanes;
  return {std::move(result)};
}

Stmt with_segments(const Reduce& n, bool by_segments) {
  Reduce result = n;
  result.by_segments = by_segments;
  return {std::make_shared<Reduce>(std::move(result))};
}

std::optional<Factors> product_of(const Expr& e) {
  const auto* negated = e.as<Unary>();
  if (negated && negated->op != UnaryOp::Neg) return std::nullopt;
  const Expr& magnitude = negated ? negated->a : e;
  const auto* product = magnitude.as<Binary>();
  if (!product || product->op != BinaryOp::Mul || !is_float(e.type())) return std::nullopt;
  return Factors{negated ? -product->a : product->a, product->b};
}

Expr combined(const Reduce& n, const Expr& before) {
  if (!n.fused) return binary(binary_of(n.op), before, n.value);
  const auto factors = product_of(n.value);
  return fma(factors->a, factors->b, before);
}

Stmt allocate(const Array& array, Stmt body, SourceLocation location, Home home) {
  if (is_empty(body)) return block({});
  return {std::make_shared<Allocate>(array, std::move(body), home, location)};
}

Stmt push(Expr value, SourceLocation location) { return {std::make_shared<Push>(std::move(value), location)}; }

Stmt pop(const Array& array, std::vector<Expr> indices, SourceLocation location) {
  check_store(array, indices, {});
  return {std::make_shared<Pop>(array, std::move(indices), location)};
}

Stmt barrier(SourceLocation location) { return {std::make_shared<Barrier>(location)}; }

namespace {
template <class Node>
Stmt changed(const Stmt& s, const std::function<void(Node&)>& change) {
  Node copy = *s.as<Node>();
  copy.id = next_id();
  change(copy);
  return {std::make_shared<Node>(std::move(copy))};
}
}  // namespace

Stmt with_mapping(const Stmt& loop, const std::function<void(For&)>& change) { return changed(loop, change); }
Stmt with_mapping(const Stmt& local, const std::function<void(Allocate&)>& change) { return changed(local, change); }

Stmt with_run(const Stmt& loop, const LoopRun& run, Expr work, Expr streams) {
  const auto& n = *loop.as<For>();
  if (n.run == run && n.work.same_as(work) && n.streams.same_as(streams)) return loop;
  For copy = n;
  copy.id = next_id();
  copy.run = run;
  copy.work = std::move(work);
  copy.streams = std::move(streams);
  return {std::make_shared<For>(std::move(copy))};
}

Stmt mapped_like(const For& n, const Stmt& s) {
  if (!s.as<For>()) return s;
  const Stmt loop = with_run(s, n.run, n.work, n.streams);
  if (n.block.empty() && n.wide.empty()) return loop;
  return with_mapping(loop, [&](For& copy) {
    copy.block = n.block;
    copy.wide = n.wide;
  });
}

Stmt mapped_like(const Assign& n, const Stmt& s) {
  const auto* made = s.as<Assign>();
  if (!made || made->streamed == n.streamed) return s;
  Assign copy = *made;
  copy.id = next_id();
  copy.streamed = n.streamed;
  return {std::make_shared<Assign>(std::move(copy))};
}

Stmt mapped_like(const Allocate& n, const Stmt& s) {
  const auto* made = s.as<Allocate>();
  if (!made || (made->home == n.home && made->reserved_out == n.reserved_out && n.largest.empty())) return s;
  return with_mapping(s, [&](Allocate& copy) {
    copy.home = n.home;
    copy.reserved_out = n.reserved_out;
    copy.largest = n.largest;
  });
}

Stmt with_parts(const CustomGradient& n, Stmt body, Stmt adjoint, Stmt tangent) {
  CustomGradient copy = n;
  copy.id = next_id();
  copy.body = body ? std::move(body) : block({});
  copy.adjoint = adjoint ? std::move(adjoint) : block({});
  copy.tangent = std::move(tangent);
  return {std::make_shared<CustomGradient>(std::move(copy))};
}

Stmt with_loops(const Contraction& n, Stmt loops) {
  if (is_empty(loops)) return block({});
  Contraction copy = n;
  copy.id = next_id();
  copy.loops = std::move(loops);
  return {std::make_shared<Contraction>(std::move(copy))};
}

}  // namespace loopgrad::ir
