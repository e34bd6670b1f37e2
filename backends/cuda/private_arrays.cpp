#include "backends/cuda/private_arrays.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

namespace loopgrad::backend {

using namespace ir;

namespace {

constexpr std::int64_t most_elements = 64;  // of one thread

class Finder {
 public:
  std::set<Array> locals, shared;

  void visit(const Stmt& s) {
    if (!s) return;
    const auto* loop = s.as<For>();
    const bool threads = loop && loop->mode == LoopMode::Threads;
    if (const auto* n = s.as<Allocate>(); n && !threads_) locals.insert(n->array);
    if (const auto* n = s.as<Assign>()) note(n->array, n->indices);
    if (const auto* n = s.as<Reduce>()) note(n->array, n->indices);
    if (const auto* n = s.as<Pop>()) note(n->array, n->indices);
    const For* const outer = threads_;
    const bool was_nested = nested_;
    ir::visit(s, [&](const auto& node) {
      for_each_child(node, overloaded{[&](const Expr& e) {
                                        walk(e, [&](const Expr& x) {
                                          if (const auto* l = x.as<Load>()) note(l->array, l->indices);
                                        });
                                      },
                                      [&](const Stmt& child) {
                                        if (threads) nested_ |= outer != nullptr;
                                        if (threads) threads_ = loop;
                                        visit(child);
                                        threads_ = outer;
                                        nested_ = was_nested;
                                      }});
    });
  }

 private:
  void note(const Array& array, const std::vector<Expr>& indices) {
    const auto* first = indices.empty() ? nullptr : indices[0].as<Var>();
    const bool own = first && threads_ && !nested_ && first->symbol == threads_->iterator &&
                     as_int(threads_->lower) == 0 && equal(threads_->upper, array->shape[0]);
    if (!own) shared.insert(array);
  }

  const For* threads_ = nullptr;  // around
  bool nested_ = false;           // inside another one
};

bool is_small(const Array& array) {
  std::int64_t elements = 1;
  for (std::size_t d = 1; d < array->shape.size(); ++d) {
    const auto extent = as_int(array->shape[d]);
    if (!extent || *extent < 1 || *extent > most_elements) return false;
    elements *= *extent;
  }
  return array->shape.size() > 1 && elements <= most_elements;
}

class Dropper final : public Rewriter {
 public:
  explicit Dropper(const std::map<Array, Array>& parts) : parts_(parts) {}
  using Rewriter::rewrite;

  Expr rewrite(const Expr& e) override {
    const auto* l = e.as<Load>();
    const Array* part = l ? find(l->array) : nullptr;
    return part ? load(*part, rest(l->indices), l->location) : rewrite_children(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<Assign>(); n && find(n->array))
      return assign(*find(n->array), rest(n->indices), rewrite(n->value), n->location);
    if (const auto* n = s.as<Reduce>(); n && find(n->array))
      return reduce_like(*n, *find(n->array), rest(n->indices), rewrite(n->value));
    if (const auto* n = s.as<Allocate>(); n && find(n->array))
      return allocate(*find(n->array), rewrite(n->body), n->location);
    return rewrite_children(s);
  }

 private:
  const Array* find(const Array& array) const {
    const auto found = parts_.find(array);
    return found == parts_.end() ? nullptr : &found->second;
  }
  std::vector<Expr> rest(const std::vector<Expr>& indices) {
    std::vector<Expr> result;
    for (std::size_t d = 1; d < indices.size(); ++d) result.push_back(rewrite(indices[d]));
    return result;
  }

  const std::map<Array, Array>& parts_;
};

}  // namespace

Stmt with_private_arrays(const Stmt& kernel, std::set<Array>& found) {
  Finder finder;
  finder.visit(kernel);
  std::map<Array, Array> parts;
  for (const Array& array : finder.locals) {
    if (finder.shared.count(array) || !is_small(array)) continue;
    const std::vector<Expr> shape(array->shape.begin() + 1, array->shape.end());
    parts[array] = make_array(array->name, array->type, shape, array->role, array->location);
    found.insert(parts[array]);
  }
  return parts.empty() ? kernel : Dropper(parts).rewrite(kernel);
}

}  // namespace loopgrad::backend
