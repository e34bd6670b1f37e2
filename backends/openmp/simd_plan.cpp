#include "backends/openmp/simd_plan.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"

#include <algorithm>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// Loops inside of a vectorised one are unrolled; more trips than this are too many.
constexpr std::int64_t most_inner_trips = 4;

/// What a loop body consists of.
struct Body {
  bool simple = true;      // straight-line code and branches only
  int contiguous = 0;      // accesses that move by one element (or none) from one iteration to the next
  int scattered = 0;       // all others
  std::set<Array> own;     // rank-0 locals declared inside
  std::set<Symbol> inner;  // iterators of loops inside
  std::set<Array> read, written;
  std::map<Array, std::vector<const std::vector<Expr>*>> indices;  // of every access
  std::map<Array, std::set<ReduceOp>> reductions;                  // into scalars from outside
};

/// The iterator plus or minus something without it.
bool is_offset(const Expr& index, const Symbol& iterator) {
  const Expr* e = &index;
  while (const auto* b = e->as<Binary>()) {
    if (b->op != BinaryOp::Add && b->op != BinaryOp::Sub) return false;
    const bool left = symbols_in(b->a).count(iterator) > 0, right = symbols_in(b->b).count(iterator) > 0;
    if (left == right) return false;
    e = left ? &b->a : &b->b;
  }
  const auto* v = e->as<Var>();
  return v && v->symbol == iterator;
}

bool is_variable(const Array& array) { return array->role == ArrayRole::Local && array->shape.empty(); }

class BodyReader {
 public:
  explicit BodyReader(const For& loop) : loop_(loop) {
    walk(
        loop.body, [this](const Stmt& s) { read(s); }, [this](const Expr& e) { read(e); });
  }
  Body take() { return std::move(body_); }

 private:
  void read(const Expr& e) {
    const auto* l = e.as<Load>();
    if (!l) return;
    body_.read.insert(l->array);
    access(l->array, l->indices);
  }

  void read(const Stmt& s) {
    visit(s, overloaded{
                 [](const Block&) {},
                 [](const If&) {},
                 [&](const Assign& n) {
                   body_.written.insert(n.array);
                   access(n.array, n.indices);
                 },
                 [&](const Reduce& n) {
                   if (n.atomic) body_.simple = false;
                   const bool outside = is_variable(n.array) && !body_.own.count(n.array);
                   if (outside) body_.reductions[n.array].insert(n.op);
                   else body_.written.insert(n.array);
                   access(n.array, n.indices);
                 },
                 [&](const Allocate& n) {
                   if (n.array->shape.empty()) body_.own.insert(n.array);
                   else body_.simple = false;
                 },
                 [&](const For& n) {
                   const auto lower = as_int(n.lower), upper = as_int(n.upper);
                   if (!lower || !upper || *upper - *lower > most_inner_trips) body_.simple = false;
                   body_.inner.insert(n.iterator);
                 },
                 [&](const auto&) { body_.simple = false; },
             });
  }

  void access(const Array& array, const std::vector<Expr>& indices) {
    bool contiguous = true;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (!symbols_in(indices[d]).count(loop_.iterator)) continue;
      contiguous &= d + 1 == indices.size() && is_offset(indices[d], loop_.iterator);
    }
    ++(contiguous ? body_.contiguous : body_.scattered);
    body_.indices[array].push_back(&indices);
  }

  const For& loop_;
  Body body_;
};

/// Every iteration keeps to elements of its own: all accesses agree on an index that differs from iteration to
/// iteration.
bool is_separate(const Array& array, const For& loop, const Body& body) {
  const auto& accesses = body.indices.at(array);
  for (std::size_t d = 0; d < array->shape.size(); ++d) {
    const Expr& index = (*accesses.front())[d];
    bool fits = is_offset(index, loop.iterator) && !has_load(index);
    for (const Symbol& s : symbols_in(index)) fits &= !body.inner.count(s);
    for (const auto* other : accesses) fits = fits && equal((*other)[d], index);
    if (fits) return true;
  }
  return false;
}

/// The reductions of a sequential loop whose iterations share nothing else.
std::optional<SimdReductions> reductions_of(const For& loop, const Body& body, const std::set<Array>& aliased) {
  for (const Array& array : body.written) {
    if (body.own.count(array)) continue;
    if (aliased.count(array) || !is_separate(array, loop, body)) return std::nullopt;
  }
  SimdReductions out;
  for (const auto& [array, ops] : body.reductions) {
    const bool wide = array->type == ScalarType::F32 || array->type == ScalarType::F64 ||
                      array->type == ScalarType::I32 || array->type == ScalarType::I64;
    if (!wide || ops.size() != 1 || body.read.count(array) || body.written.count(array)) return std::nullopt;
    out[*ops.begin()].push_back(array);
  }
  // Maps are ordered by address; what is printed must follow the program.
  for (auto& [op, arrays] : out)
    std::sort(arrays.begin(), arrays.end(), [](const Array& a, const Array& b) { return a->id < b->id; });
  return out;
}

}  // namespace

std::optional<SimdReductions> plan_simd(const For& loop, const std::set<Array>& aliased) {
  const Body body = BodyReader(loop).take();
  if (!body.simple || body.scattered > body.contiguous) return std::nullopt;
  if (is_parallel(loop.mode)) return SimdReductions{};
  return reductions_of(loop, body, aliased);
}

std::set<Symbol> symbols_in(const Expr& e) {
  std::set<Symbol> out;
  walk(e, [&](const Expr& x) {
    if (const auto* v = x.as<Var>()) out.insert(v->symbol);
  });
  return out;
}

}  // namespace loopgrad::backend
