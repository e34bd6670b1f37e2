#include "transforms/map/cpu/vector_lanes.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <map>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// Loops inside of a vectorised one are unrolled; more trips than this are too many.
constexpr std::int64_t most_inner_trips = 4;

struct ById {  // what is decided, and said, must follow the program
  bool operator()(const Array& a, const Array& b) const { return a->id < b->id; }
};

/// What a loop body consists of.
struct Body {
  std::string other;       // what is not straight-line code or a branch; empty: nothing
  int contiguous = 0;      // accesses that move by one element (or none) from one iteration to the next
  int scattered = 0;       // all others
  std::set<Array> own;     // rank-0 locals declared inside
  std::set<Symbol> inner;  // iterators of loops inside
  std::set<Array, ById> read, written;
  std::map<Array, std::vector<const std::vector<Expr>*>> indices;  // of every access
  std::map<Array, std::set<ReduceOp>, ById> reductions;            // into scalars from outside
};

/// The iterator plus or minus something without it.
bool is_offset(const Expr& index, const Symbol& iterator) {
  const Expr* e = &index;
  while (const auto* b = e->as<Binary>()) {
    if (b->op != BinaryOp::Add && b->op != BinaryOp::Sub) return false;
    const bool left = mentions(b->a, iterator), right = mentions(b->b, iterator);
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
                   if (n.atomic) body_.other = "an atomic sum";
                   const bool outside = is_variable(n.array) && !body_.own.count(n.array);
                   if (outside) body_.reductions[n.array].insert(n.op);
                   else body_.written.insert(n.array);
                   access(n.array, n.indices);
                 },
                 [&](const Allocate& n) {
                   if (n.array->shape.empty()) body_.own.insert(n.array);
                   else body_.other = "the array '" + n.array->name + "'";
                 },
                 [&](const For& n) {
                   const auto lower = as_int(n.lower), upper = as_int(n.upper);
                   if (!lower || !upper || *upper - *lower > most_inner_trips) body_.other = "a loop";
                   body_.inner.insert(n.iterator);
                 },
                 [&](const auto&) { body_.other = "what runs one by one"; },
             });
  }

  void access(const Array& array, const std::vector<Expr>& indices) {
    bool contiguous = true;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (!mentions(indices[d], loop_.iterator)) continue;
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
    for (const Symbol& s : body.inner) fits &= !mentions(index, s);
    for (const auto* other : accesses) fits = fits && equal((*other)[d], index);
    if (fits) return true;
  }
  return false;
}

/// The sums of a sequential loop whose iterations share nothing else.
LanePlan sequential(const For& loop, const Body& body, const std::set<Array>& aliased, const std::set<Array>& shared) {
  const auto no = [](const Array& array, const char* why) {
    return LanePlan{false, "iterations share '" + array->name + "'" + why, {}};
  };
  for (const Array& array : body.written)
    if (!body.own.count(array) && (aliased.count(array) || !is_separate(array, loop, body))) return no(array, "");
  LanePlan plan{true, "", {}};
  for (const auto& [array, ops] : body.reductions) {
    const bool wide = array->type == ScalarType::F32 || array->type == ScalarType::F64 ||
                      array->type == ScalarType::I32 || array->type == ScalarType::I64;
    if (!wide) return no(array, ", of a type that lanes cannot sum");
    if (ops.size() != 1 || body.read.count(array) || body.written.count(array))
      return no(array, ", which they not only sum into");
    if (shared.count(array)) return no(array, " with those of a parallel loop around");
    plan.sums.push_back(array);
  }
  return plan;
}

constexpr std::size_t eight = 8;  // as many as lanes, so that adding up the lanes of all sums fills one vector

/// Whether a term has the same operations in every lane, on neighbouring elements or on one.
bool fits(const Expr& e, ScalarType type, const Symbol& iterator) {
  if (e.type() != type) return false;
  if (e.kind() == Kind::FloatConst) return true;
  if (const auto* negated = e.as<Unary>()) return negated->op == UnaryOp::Neg && fits(negated->a, type, iterator);
  if (const auto* all = e.as<Fma>())
    return fits(all->a, type, iterator) && fits(all->b, type, iterator) && fits(all->c, type, iterator);
  if (const auto* both = e.as<Binary>()) {
    static constexpr BinaryOp arithmetic[] = {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div};
    return std::find(std::begin(arithmetic), std::end(arithmetic), both->op) != std::end(arithmetic) &&
           fits(both->a, type, iterator) && fits(both->b, type, iterator);
  }
  const auto* load = e.as<Load>();
  if (!load || load->array->type != type) return false;
  for (std::size_t d = 0; d < load->indices.size(); ++d) {
    const auto stride = coefficient_of(load->indices[d], iterator);
    const bool last = d + 1 == load->indices.size();
    if (!stride || (*stride != 0 && !(last && *stride == 1))) return false;
  }
  return true;
}

}  // namespace

LanePlan plan_lanes(const For& loop, const std::set<Array>& aliased, const std::set<Array>& shared) {
  const Body body = BodyReader(loop).take();
  if (!body.other.empty()) return {false, "there is " + body.other + " inside", {}};
  if (body.scattered > body.contiguous) return {false, "most accesses are not to neighbouring elements", {}};
  return is_parallel(loop.mode) ? LanePlan{true, "", {}} : sequential(loop, body, aliased, shared);
}

bool is_eight_sums(const For& loop) {
  const auto* body = loop.body.as<Block>();
  if (!body || body->body.size() != eight) return false;
  std::set<Array> sums;
  for (const Stmt& s : body->body) {
    const auto* sum = s.as<Reduce>();
    if (!sum || sum->atomic || sum->op != ReduceOp::Add || !sum->array->shape.empty()) return false;
    const ScalarType type = sum->array->type;
    if ((type != ScalarType::F32 && type != ScalarType::F64) || !fits(sum->value, type, loop.iterator)) return false;
    if (!sums.insert(sum->array).second || (*sums.begin())->type != type) return false;
  }
  return true;
}

}  // namespace loopgrad::transforms
