#include "transforms/map/gpu/place_locals.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "transforms/analysis/nest.h"

#include <set>

namespace loopgrad::transforms {
namespace {

using namespace ir;
using ir::Program;

constexpr std::int64_t most_private_elements = 64;  // of one thread

/// How a kernel uses what it declares outside of its loops over threads.
class BlockLocals {
 public:
  explicit BlockLocals(const Stmt& kernel) { visit(kernel); }

  Home home_of(const Array& array) const {
    const bool own = array->shape.empty() ? !set_by_threads_.count(array) : !exchanged_.count(array) && is_small(array);
    return own ? Home::Thread : Home::Block;
  }

 private:
  void visit(const Stmt& s) {
    if (!s) return;
    if (const auto* n = s.as<Assign>()) note(n->array, n->indices, true);
    if (const auto* n = s.as<Reduce>()) note(n->array, n->indices, !n->atomic);
    if (const auto* n = s.as<Pop>()) note(n->array, n->indices, true);
    const auto* loop = s.as<For>();
    const bool threads = loop && loop->mode == LoopMode::Threads;
    ir::for_each_child(s, overloaded{[&](const Expr& e) {
                                       walk(e, [&](const Expr& x) {
                                         if (const auto* l = x.as<Load>()) note(l->array, l->indices, false);
                                       });
                                     },
                                     [&](const Stmt& child) {
                                       if (threads) threads_.push_back(loop);
                                       visit(child);
                                       if (threads) threads_.pop_back();
                                     }});
  }

  void note(const Array& array, const std::vector<Expr>& indices, bool sets) {
    if (sets && !threads_.empty()) set_by_threads_.insert(array);
    const auto* first = indices.empty() || threads_.size() != 1 ? nullptr : indices[0].as<Var>();
    const bool own = first && first->symbol == threads_[0]->iterator && as_int(threads_[0]->lower) == 0 &&
                     equal(threads_[0]->upper, array->shape[0]);
    if (!own) exchanged_.insert(array);
  }

  static bool is_small(const Array& array) {
    std::int64_t elements = 1;
    for (std::size_t d = 1; d < array->shape.size(); ++d) {
      const auto extent = as_int(array->shape[d]);
      if (!extent || *extent < 1 || *extent > most_private_elements) return false;
      elements *= *extent;
    }
    return array->shape.size() > 1 && elements <= most_private_elements;
  }

  std::vector<const For*> threads_;  // around
  std::set<Array> set_by_threads_, exchanged_;
};

class Placer final : public Rewriter {
 public:
  /// `host`: there are kernels, and what is outside of them is the host's.
  explicit Placer(bool host) : host_(host) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<For>();
    if (loop && loop->mode == LoopMode::Grid && !block_) {
      const BlockLocals block(s);
      block_ = &block;
      Stmt result = rewrite_children(s);
      block_ = nullptr;
      return result;
    }
    if (loop && loop->mode == LoopMode::Threads) {
      ++threads_;
      Stmt result = rewrite_children(s);
      --threads_;
      return result;
    }
    if (loop && loop->mode == LoopMode::Parallel) {
      const int before = plain_;
      const Stmt result = rewrite_children(s);
      // A thread has these iterations one after the other.
      return plain_ == before ? result : with_mode(*result.as<For>(), LoopMode::Forward);
    }
    if (const auto* n = s.as<Allocate>()) {
      const bool of_block = block_ && threads_ == 0;
      const Home home = of_block ? block_->home_of(n->array) : host_ && !block_ ? Home::Grid : Home::Thread;
      if (of_block && home == Home::Thread && n->array->shape.empty()) copied_.insert(n->array);
      if (home == Home::Thread) own_.insert(n->array);
      return allocate(n->array, rewrite(n->body), n->location, home);
    }
    const auto* sum = s.as<Reduce>();
    if (!sum || !sum->atomic || !own_.count(sum->array)) return rewrite_children(s);
    Reduce changed = *sum;
    if (threads_ > 0 && copied_.count(sum->array)) changed.of_block = true;
    else changed.atomic = false, ++plain_;
    return {std::make_shared<Reduce>(std::move(changed))};
  }

 private:
  const bool host_;
  const BlockLocals* block_ = nullptr;  // of the kernel around
  int plain_ = 0;                       // sums so far that need not be atomic
  int threads_ = 0;                     // loops over threads around
  std::set<Array> copied_;              // scalars of which every thread keeps a copy
  std::set<Array> own_;                 // all that is a thread's
};

}  // namespace

bool has_kernels(const Program& program) {
  bool found = false;
  walk_stmts(program.body, [&](const Stmt& s) { found |= has_mode(s, LoopMode::Grid); });
  return found;
}

Program place_locals(const Program& program) {
  return with_body(program, Placer(has_kernels(program)).rewrite(program.body));
}

}  // namespace loopgrad::transforms
