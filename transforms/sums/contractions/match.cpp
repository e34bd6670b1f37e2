#include "transforms/sums/contractions/match.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace loopgrad::transforms {

using ir::Expr;
using ir::For;
using ir::Stmt;

namespace {

enum Operand { C, A, B };
constexpr std::array<Operand, 3> operands = {C, A, B};

constexpr std::int64_t least_constant = 8;

struct Refusal {
  std::string reason;
};

/// The operand as alpha * a * b.
struct Product {
  double alpha = 1;
  int constants = 0;
  std::vector<const ir::Load*> factors;
  Expr zero_when;
};

void collect_factors(const Expr& e, Product& product) {
  if (auto* n = e.as<ir::Binary>(); n && n->op == ir::BinaryOp::Mul) {
    collect_factors(n->a, product);
    return collect_factors(n->b, product);
  }
  if (auto* n = e.as<ir::Unary>(); n && n->op == ir::UnaryOp::Neg) {
    product.alpha = -product.alpha;
    return collect_factors(n->a, product);
  }
  if (auto* n = e.as<ir::FloatConst>()) {
    product.alpha *= n->value;
    ++product.constants;  // the product of two would have to be rounded
    return;
  }
  if (auto* n = e.as<ir::Select>(); n && !product.zero_when) {
    const bool first = ir::is_const(n->a, 0), second = ir::is_const(n->b, 0);
    if (first != second && !has_load(n->condition)) {
      product.zero_when = first ? n->condition : ir::unary(ir::UnaryOp::Not, n->condition);
      return collect_factors(first ? n->b : n->a, product);
    }
  }
  auto* n = e.as<ir::Load>();
  if (!n) throw Refusal{};
  product.factors.push_back(n);
}

/// One index of the contraction: a loop, or several that run through memory as one.
struct Axis {
  const For* loop = nullptr;
  std::array<int, 3> dims = {-1, -1, -1};  // of the outermost of its loops in c, a and b; -1: not there
  Expr extent;
  std::array<Expr, 3> strides;
  std::vector<const For*> all;
  bool in(Operand x) const { return dims[x] >= 0; }
};

class Matcher {
 public:
  Matcher(const ir::Program& program, const std::vector<const For*>& loops, const ir::Reduce& sum)
      : program_(program), loops_(loops), sum_(sum) {
    if (sum.op != ir::ReduceOp::Add || sum.atomic) throw Refusal{};
    collect_factors(sum.value, product_);
    if (product_.factors.size() != 2 || product_.constants > 1) throw Refusal{};
    arrays_ = {sum.array, product_.factors[0]->array, product_.factors[1]->array};
    indices_ = {sum.indices, product_.factors[0]->indices, product_.factors[1]->indices};
    check_arrays();
    for (const For* loop : loops_) axes_.push_back(axis_of(*loop));
  }

  ContractionMatch match() {
    choose();
    ContractionMatch result;
    result.zero_when = product_.zero_when;
    std::vector<const For*> inside;
    for (const For* loop : loops_) (is_inside(*loop) ? inside : result.outside).push_back(loop);
    Stmt nest = ir::reduce_like(sum_, sum_.array, sum_.indices, sum_.value);
    for (auto it = inside.rbegin(); it != inside.rend(); ++it) nest = with_body(**it, nest);
    const Expr one = ir::int_const(1), none = ir::int_const(0);
    std::array<std::vector<Expr>, 3> places;
    for (Operand x : operands) {
      auto stride = [&](const Axis& axis) { return axis.in(x) ? axis.strides[x] : none; };
      places[x] = {offset_of(x), batch_ ? stride(*batch_) : none, stride(x == B ? k_ : m_), stride(x == A ? k_ : n_)};
    }
    auto n = std::make_shared<ir::Contraction>(
        arrays_[C], arrays_[A], arrays_[B],
        std::vector<Expr>{batch_ ? batch_->extent : one, m_.extent, n_.extent, k_.extent}, places[C], places[A],
        places[B], product_.alpha, false, nest, sum_.location);
    if (m_.dims[C] > n_.dims[C]) transpose(*n);
    result.contraction = {std::move(n)};
    return result;
  }

 private:
  /// Rows of c first: people read it so.
  static void transpose(ir::Contraction& n) {
    std::swap(n.a, n.b);
    std::swap(n.a_place, n.b_place);
    std::swap(n.extents[1], n.extents[2]);
    for (auto* place : {&n.a_place, &n.b_place, &n.c_place}) std::swap((*place)[2], (*place)[3]);
  }

  void check_arrays() const {
    const auto& [c, a, b] = arrays_;
    if (c == a || c == b) throw Refusal{"it reads the array that it adds to"};
    if (c->type != a->type || c->type != b->type || (c->type != ScalarType::F32 && c->type != ScalarType::F64))
      throw Refusal{"its arrays are not all f32 or all f64"};
    if (ir::aliased_arrays(program_).count(c)) throw Refusal{fmt::format("'{}' may share memory", c->name)};
    for (Operand x : operands) {
      if (arrays_[x]->shape.empty()) throw Refusal{fmt::format("'{}' is a scalar", arrays_[x]->name)};
      for (const Expr& index : indices_[x])
        if (has_load(index)) throw Refusal{fmt::format("an index of '{}' is read from data", arrays_[x]->name)};
    }
  }

  Axis axis_of(const For& loop) const {
    Axis axis;
    axis.loop = &loop;
    axis.all = {&loop};
    axis.extent = simplify_indices(loop.upper - loop.lower);
    for (Operand x : operands) {
      for (std::size_t d = 0; d < indices_[x].size(); ++d) {
        if (!mentions(indices_[x][d], loop.iterator)) continue;
        // An index in which the loop does not simply advance cannot be enumerated by a library.
        const bool simple = axis.dims[x] == -1 && coefficient_of(indices_[x][d], loop.iterator) == 1;
        axis.dims[x] = simple ? static_cast<int>(d) : -2;
        if (simple) axis.strides[x] = stride_of(x, d);
      }
    }
    return axis;
  }

  Expr stride_of(Operand x, std::size_t d) const {
    Expr stride = ir::int_const(1);
    for (std::size_t e = arrays_[x]->shape.size(); e-- > d + 1;) stride = arrays_[x]->shape[e] * stride;
    return stride;
  }

  static bool simple(const Axis& axis) {
    return std::none_of(axis.dims.begin(), axis.dims.end(), [](int d) { return d == -2; });
  }

  std::vector<Axis> axes_in(bool c, bool a, bool b) const {
    std::vector<Axis> result;
    for (const Axis& axis : axes_)
      if (simple(axis) && axis.in(C) == c && axis.in(A) == a && axis.in(B) == b) result.push_back(axis);
    // Later indices first: the loops over earlier ones can join them.
    std::sort(result.begin(), result.end(), [](const Axis& x, const Axis& y) { return x.dims > y.dims; });
    return result;
  }

  void choose() {
    if (loops_.size() < 3) throw Refusal{};
    const auto rows = axes_in(true, true, false), columns = axes_in(true, false, true),
               depths = axes_in(false, true, true);
    if (rows.empty() || columns.empty() || depths.empty())
      throw Refusal{"no three loops are rows, columns and depth, each in two of the arrays"};
    std::string reason = "in some array two of the loops share an index, or none is the last index";
    for (const Axis& m : rows)
      for (const Axis& n : columns)
        for (const Axis& k : depths) {
          m_ = m;
          n_ = n;
          k_ = k;
          batch_.reset();
          if (!fits()) continue;
          if (bounds_fit()) return extend();
          reason = "the bounds of its loops, or a condition on an operand, depend on its loops";
        }
    throw Refusal{reason};
  }

  bool fits() const {
    auto fits_in = [&](Operand x, const Axis& a, const Axis& b) {
      const int last = static_cast<int>(arrays_[x]->shape.size()) - 1;
      return a.dims[x] != b.dims[x] && (a.dims[x] == last || b.dims[x] == last);
    };
    return fits_in(C, m_, n_) && fits_in(A, m_, k_) && fits_in(B, k_, n_);
  }

  bool is_inside(const For& loop) const {
    auto has = [&](const Axis& axis) { return std::find(axis.all.begin(), axis.all.end(), &loop) != axis.all.end(); };
    return has(m_) || has(n_) || has(k_) || (batch_ && has(*batch_));
  }

  /// Extents and starts are known before the contraction, and so is when an operand is zero.
  bool bounds_fit() const {
    auto depends = [&](const Expr& e) {
      return has_load(e) || std::any_of(loops_.begin(), loops_.end(), [&](const For* inner) {
               return is_inside(*inner) && mentions(e, inner->iterator);
             });
    };
    if (product_.zero_when && depends(product_.zero_when)) return false;
    return std::none_of(loops_.begin(), loops_.end(),
                        [&](const For* loop) { return depends(loop->lower) || depends(loop->upper); });
  }

  /// More loops for the axes, then a batch.
  void extend() {
    for (const Axis* axis : {&m_, &n_, &k_})
      if (const auto extent = ir::as_int(axis->extent); extent && *extent < least_constant)
        throw Refusal{"one of its extents is a small constant"};
    for (Axis* axis : {&m_, &n_, &k_})
      while (join_one(*axis)) {
      }
    for (bool a : {true, false})
      for (bool b : {true, false})
        for (const Axis& axis : axes_in(true, a, b)) {
          if (batch_ || is_inside(*axis.loop) || shares_index(axis)) continue;
          batch_ = axis;
          if (!bounds_fit()) batch_.reset();
        }
    if (!batch_) return;
    while (join_one(*batch_)) {
    }
  }

  /// Two negative extents must not make a positive one.
  Expr at_least_zero(const Expr& extent) const {
    ir::RangeContext context;
    context.non_negative = [&](const ir::Symbol& symbol) {
      return std::find(program_.sizes.begin(), program_.sizes.end(), symbol) != program_.sizes.end();
    };
    const bool surely = ir::surely_non_negative(extent, context);
    return surely ? extent : ir::binary(ir::BinaryOp::Max, extent, ir::int_const(0));
  }

  /// Elements of c must be different in every batch: no inside loop moves along the batch's index.
  bool shares_index(const Axis& batch) const {
    const Expr& index = indices_[C][static_cast<std::size_t>(batch.dims[C])];
    return std::any_of(loops_.begin(), loops_.end(),
                       [&](const For* loop) { return is_inside(*loop) && mentions(index, loop->iterator); });
  }

  bool join_one(Axis& axis) {
    for (const Axis& outer : axes_) {
      if (!simple(outer) || is_inside(*outer.loop)) continue;
      bool fits = true;
      for (Operand x : operands) {
        fits &= outer.in(x) == axis.in(x);
        if (fits && axis.in(x)) fits = outer.dims[x] + 1 == axis.dims[x] && covers(axis, x) && !is_taken(outer, x);
      }
      if (!fits) continue;
      const Axis before = axis;
      axis.loop = outer.loop;
      axis.dims = outer.dims;
      axis.extent = at_least_zero(outer.extent) * at_least_zero(before.extent);
      axis.all.push_back(outer.loop);
      if (bounds_fit()) return true;
      axis = before;
    }
    return false;
  }

  /// Rows that overlap are no matrix to a library.
  bool is_taken(const Axis& outer, Operand x) const {
    return std::any_of(axes_.begin(), axes_.end(), [&](const Axis& other) {
      return other.loop != outer.loop && other.dims[x] == outer.dims[x] && is_inside(*other.loop);
    });
  }

  /// The outermost loop of the axis runs over all of its index, and alone.
  bool covers(const Axis& axis, Operand x) const {
    const auto d = static_cast<std::size_t>(axis.dims[x]);
    const auto* plain = indices_[x][d].as<ir::Var>();
    return plain && plain->symbol == axis.loop->iterator && ir::as_int(axis.loop->lower) == 0 &&
           same_value(axis.loop->upper, arrays_[x]->shape[d]);
  }

  Expr offset_of(Operand x) const {
    ir::Substitution start;
    for (const For* loop : loops_)
      if (is_inside(*loop)) start[loop->iterator] = loop->lower;
    Expr offset = ir::int_const(0);
    for (std::size_t d = 0; d < indices_[x].size(); ++d)
      offset = offset + simplify_indices(ir::substitute(indices_[x][d], start)) * stride_of(x, d);
    return offset;
  }

  const ir::Program& program_;
  const std::vector<const For*>& loops_;
  const ir::Reduce& sum_;
  Product product_;
  std::array<ir::Array, 3> arrays_;
  std::array<std::vector<Expr>, 3> indices_;
  std::vector<Axis> axes_;
  Axis m_, n_, k_;
  std::optional<Axis> batch_;
};

/// What a nest of loops stores to, as ranges of indices, when they are a box.
struct Box {
  ir::Array array;
  std::vector<std::pair<Expr, Expr>> ranges;  // from, to
};

std::optional<Box> box_of(Stmt s, bool fill) {
  std::vector<const For*> loops;
  for (; s && s.kind() == ir::Kind::For; s = s.as<For>()->body) loops.push_back(s.as<For>());
  const auto* assign = s ? s.as<ir::Assign>() : nullptr;
  const auto* sum = s ? s.as<ir::Reduce>() : nullptr;
  if (fill ? !assign || !ir::is_const(assign->value, 0) : !sum) return std::nullopt;
  Box box{fill ? assign->array : sum->array, {}};
  std::vector<const For*> used;
  for (const Expr& index : fill ? assign->indices : sum->indices) {
    if (has_load(index)) return std::nullopt;
    const For* along = nullptr;
    for (const For* loop : loops) {
      if (!mentions(index, loop->iterator)) continue;
      if (along || coefficient_of(index, loop->iterator) != 1) return std::nullopt;
      along = loop;
    }
    auto at = [&](const Expr& value) {
      return along ? simplify_indices(ir::substitute(index, {{along->iterator, value}})) : index;
    };
    if (along && std::find(used.begin(), used.end(), along) != used.end()) return std::nullopt;
    if (along) used.push_back(along);
    box.ranges.push_back(along ? std::pair(at(along->lower), at(along->upper))
                               : std::pair(index, index + ir::int_const(1)));
  }
  for (const For* loop : loops)
    for (const For* other : loops)
      if (mentions(loop->lower, other->iterator) || mentions(loop->upper, other->iterator)) return std::nullopt;
  // Each loop along one index: a loop more than that could make the nest empty.
  if (fill && used.size() != loops.size()) return std::nullopt;
  return box;
}

}  // namespace

ContractionMatch match_contraction(const ir::Program& program, const std::vector<const For*>& loops,
                                   const ir::Reduce& sum) {
  try {
    return Matcher(program, loops, sum).match();
  } catch (const Refusal& refusal) {
    return {{}, {}, {}, refusal.reason};
  }
}

Stmt absorb_fill(const ir::Contraction& n, const Stmt& fill) {
  if (n.overwrites) return {};
  const auto zeros = box_of(fill, true), sums = box_of(n.loops, false);
  if (!zeros || !sums || zeros->array != n.c || sums->array != n.c) return {};
  for (std::size_t d = 0; d < zeros->ranges.size(); ++d) {
    if (!same_value(zeros->ranges[d].first, sums->ranges[d].first)) return {};
    if (!same_value(zeros->ranges[d].second, sums->ranges[d].second)) return {};
  }
  ir::Contraction both = n;
  both.overwrites = true;
  return ir::with_loops(both, ir::block({fill, n.loops}));
}

ir::Array filled_array(const Stmt& s) {
  const auto box = box_of(s, true);
  return box ? box->array : nullptr;
}

}  // namespace loopgrad::transforms
