#include "transforms/map/cpu/sink_sum_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace loopgrad::transforms {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

/// The parallel loop that a sequential one consists of, seen through branches without `else`.
const ir::For* only_parallel_loop(const Stmt& body) {
  if (!body) return nullptr;
  if (const auto* branch = body.as<ir::If>())
    return branch->else_body ? nullptr : only_parallel_loop(branch->then_body);
  const auto* loop = body.as<ir::For>();
  return loop && loop->mode == ir::LoopMode::Parallel ? loop : nullptr;
}

class Sinking {
 public:
  Sinking(const ir::For& outer, const ir::For& inner, const std::set<Array>& aliased)
      : outer_(outer), inner_(inner), aliased_(aliased) {}

  bool check(const Stmt& whole) {
    for (const Expr& bound : {inner_.lower, inner_.upper})
      if (mentions(bound, outer_.iterator) || ir::has_load(bound)) return false;
    ir::walk(
        whole, [&](const Stmt& s) { read(s); },
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) access(load->array, load->indices);
        });
    return simple_ && sums_a_row_ && std::all_of(written_.begin(), written_.end(), [&](const Array& array) {
             return own_.count(array) || is_separate(array);
           });
  }

 private:
  void read(const Stmt& s) {
    ir::visit(
        s, ir::overloaded{
               [](const ir::Block&) {},
               [](const ir::If&) {},
               [&](const ir::For& n) { simple_ &= &n == &outer_ || &n == &inner_; },
               [&](const ir::Allocate& n) { own_.insert(n.array); },
               [&](const ir::Assign& n) { write(n.array, n.indices); },
               [&](const ir::Reduce& n) {
                 simple_ &= !n.atomic;
                 write(n.array, n.indices);
                 const bool stays = std::none_of(n.indices.begin(), n.indices.end(),
                                                 [&](const Expr& index) { return mentions(index, outer_.iterator); });
                 sums_a_row_ |= stays && !n.indices.empty() && coefficient_of(n.indices.back(), inner_.iterator) == 1;
               },
               [&](const auto&) { simple_ = false; },
           });
  }

  void write(const Array& array, const std::vector<Expr>& indices) {
    written_.insert(array);
    access(array, indices);
  }

  void access(const Array& array, const std::vector<Expr>& indices) {
    simple_ &= !aliased_.count(array);
    accesses_[array].push_back(&indices);
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const auto stride = coefficient_of(indices[d], inner_.iterator);
      const bool last = d + 1 == indices.size();
      simple_ &= stride && (*stride == 0 || (last && std::abs(*stride) == 1));
    }
  }

  /// Iterations of the parallel loop keep to elements of their own, whatever the iterations of the other loop.
  bool is_separate(const Array& array) const {
    const auto& all = accesses_.at(array);
    if (array->shape.empty()) return false;
    const std::size_t last = array->shape.size() - 1;
    const Expr& index = (*all.front())[last];
    if (coefficient_of(index, inner_.iterator).value_or(0) == 0 || mentions(index, outer_.iterator) ||
        ir::has_load(index))
      return false;
    return std::all_of(all.begin(), all.end(), [&](const auto* other) { return ir::equal((*other)[last], index); });
  }

  const ir::For& outer_;
  const ir::For& inner_;
  const std::set<Array>& aliased_;
  std::map<Array, std::vector<const std::vector<Expr>*>> accesses_;
  std::set<Array> written_, own_;
  bool simple_ = true, sums_a_row_ = false;
};

class Sinker final : public ir::Rewriter {
 public:
  explicit Sinker(const ir::Program& program) { aliased_ = ir::aliased_arrays(program); }
  using ir::Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ir::For>();
    if (!loop) return rewrite_children(s);
    if (ir::is_parallel(loop->mode)) {
      ++parallel_depth_;
      Stmt result = rewrite_children(s);
      --parallel_depth_;
      return result;
    }
    const ir::For* inner = only_parallel_loop(loop->body);
    if (parallel_depth_ == 0 || !inner || !Sinking(*loop, *inner, aliased_).check(s)) return rewrite_children(s);
    const Stmt body = ir::rewrite(loop->body, {}, [&](const Stmt& t) -> std::optional<Stmt> {
      return t.as<ir::For>() == inner ? std::optional(inner->body) : std::nullopt;
    });
    const Stmt sum =
        ir::for_loop(loop->iterator, loop->lower, loop->upper, body, loop->mode, loop->location, loop->at_most);
    return ir::for_loop(inner->iterator, inner->lower, inner->upper, sum, inner->mode, inner->location, inner->at_most);
  }

 private:
  std::set<Array> aliased_;
  int parallel_depth_ = 0;
};

}  // namespace

ir::Program sink_sum_loops(const ir::Program& program) {
  return program.body ? ir::with_body(program, Sinker(program).rewrite(program.body)) : program;
}

}  // namespace loopgrad::transforms
