#include "transforms/map/cpu/place_arrays.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {
namespace {

using namespace ir;

/// Of one array, and of all that are alive at once: threads may have little stack.
constexpr std::int64_t max_stack_bytes = 16 * 1024, max_stack_bytes_in_all = 64 * 1024;

class Placer final : public Rewriter {
 public:
  explicit Placer(Report& report) : report_(report) {}
  using Rewriter::rewrite;

  Expr rewrite(const Expr& e) override { return e; }

  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<Allocate>()) {
      Allocate placed = *n;
      place(placed);
      return mapped_like(placed, rewrite_children(s));
    }
    const auto* loop = s.as<For>();
    const auto* goes_on = s.as<While>();
    if (!loop && !goes_on && s.kind() != Kind::If) return rewrite_children(s);
    // What stands in braces of its own leaves the stack as it was; an array outside of any lives to the end.
    const std::int64_t before = stack_bytes_;
    const int threads_around = threads_;
    if (loop && loop->run.threads) threads_ = static_cast<int>(loops_.size());
    if (loop || goes_on) loops_.push_back(loop ? loop->iterator : goes_on->iterator);
    Stmt result = rewrite_children(s);
    if (loop || goes_on) loops_.pop_back();
    threads_ = threads_around;
    stack_bytes_ = before;
    return result;
  }

 private:
  void place(Allocate& n) {
    n.home = Home::Unplaced;
    n.reserved_out = 0;
    if (n.array->shape.empty()) return;
    const auto bytes = constant_bytes(n.array);
    if (bytes && *bytes <= max_stack_bytes && stack_bytes_ + *bytes <= max_stack_bytes_in_all) {
      n.home = Home::Stack;
      stack_bytes_ += std::max<std::int64_t>(*bytes, 64);
      return;
    }
    // The outermost position at which the extents are known.
    std::size_t level = 0;
    for (const Expr& extent : n.array->shape)
      for (std::size_t k = 0; k < loops_.size(); ++k)
        if (mentions(extent, loops_[k])) level = std::max(level, k + 1);
    const bool known_outside = threads_ < 0 || level <= static_cast<std::size_t>(threads_);
    n.home = threads_ < 0 ? Home::Call : known_outside ? Home::PerThread : Home::Iteration;
    if (known_outside) n.reserved_out = static_cast<int>(loops_.size() - level);
    say(n);
  }

  void say(const Allocate& n) {
    std::string extents;
    for (const Expr& extent : n.array->shape) extents += (extents.empty() ? "" : ", ") + print(extent);
    const bool apart = n.home == Home::Iteration;
    report_.runs.push_back({fmt::format("local {}[{}]", n.array->name, extents), n.location,
                            n.home == Home::Call ? "memory of the call"
                            : apart              ? "memory of the iteration"
                                                 : "memory of each thread",
                            apart                ? "its extents depend on the iteration"
                            : n.reserved_out > 0 ? fmt::format("reserved once, outside of {} loop{}", n.reserved_out,
                                                               n.reserved_out == 1 ? "" : "s")
                                                 : "too large for the stack"});
  }

  Report& report_;
  std::vector<Symbol> loops_;     // around
  int threads_ = -1;              // position among them of the one on threads
  std::int64_t stack_bytes_ = 0;  // of the arrays around
};

}  // namespace

ir::Program place_arrays(const ir::Program& program, PassContext& context) {
  return with_body(program, Placer(context.report).rewrite(program.body));
}

}  // namespace loopgrad::transforms
