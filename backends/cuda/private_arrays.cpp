#include "backends/cuda/private_arrays.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"

namespace loopgrad::backend {

using namespace ir;

namespace {

/// For each array of the threads that is declared outside of their loops, the part of one thread.
void find_parts(const Stmt& s, std::map<Array, Array>& parts) {
  const auto* loop = s ? s.as<For>() : nullptr;
  if (!s || (loop && loop->mode == LoopMode::Threads)) return;
  if (const auto* n = s.as<Allocate>(); n && n->home == Home::Thread && !n->array->shape.empty()) {
    const std::vector<Expr> shape(n->array->shape.begin() + 1, n->array->shape.end());
    parts[n->array] = make_array(n->array->name, n->array->type, shape, n->array->role, n->array->location);
  }
  for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { find_parts(child, parts); }});
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
      return allocate(*find(n->array), rewrite(n->body), n->location, n->home);
    const Stmt result = rewrite_children(s);
    const auto* loop = result.as<For>();
    if (!loop || loop->wide.empty()) return result;
    return with_mapping(result, [&](For& copy) {
      for (WideAccess& access : copy.wide)
        if (const Array* part = find(access.array))
          access = {*part, rest(access.indices), access.loads, access.stores, access.even_rows};
    });
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

Stmt with_private_arrays(const Stmt& kernel) {
  std::map<Array, Array> parts;
  find_parts(kernel, parts);
  return parts.empty() ? kernel : Dropper(parts).rewrite(kernel);
}

}  // namespace loopgrad::backend
