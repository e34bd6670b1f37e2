#include "transforms/map/gpu/reserve_locals.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/least_values.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/map/gpu/place_locals.h"

namespace loopgrad::transforms {
namespace {

using namespace ir;

constexpr std::int64_t most_block_bytes = 20 * 1024, most_block_bytes_in_all = 40 * 1024;
constexpr std::int64_t most_thread_bytes = 1024, most_thread_bytes_in_all = 32 * 1024;

class Reserver final : public Rewriter {
 public:
  explicit Reserver(const Program& program)
      : program_(program), least_(program), kernel_(!has_kernels(program)), threads_(kernel_) {
    ranges_.leaf = [](const Expr&) { return std::optional<Range>(); };
    ranges_.non_negative = [this](const Symbol& symbol) { return least_.is_at_least(var(symbol), 0); };
    for (const Symbol& size : program.sizes) is_known(size);
  }
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<For>();
    const auto* local = s.as<Allocate>();
    if (local && (local->home == Home::Block || local->home == Home::Thread)) return reserved(s, *local);
    if (!loop) return rewrite_children(s);
    const bool outside = kernel_, in_threads = threads_;
    if (loop->mode == LoopMode::Grid && !kernel_) block_bytes_ = thread_bytes_ = 0;
    kernel_ |= loop->mode == LoopMode::Grid;
    threads_ |= loop->mode == LoopMode::Threads;
    if (kernel_) enter(*loop);
    else is_known(loop->iterator);
    Stmt result = rewrite_children(s);
    kernel_ = outside;
    threads_ = in_threads;
    return result;
  }

 private:
  /// What the host knows stands for itself.
  void is_known(const Symbol& symbol) { ranges_.variables[symbol] = {var(symbol), var(symbol)}; }

  void enter(const For& loop) {
    const auto lower = range_of(loop.lower, ranges_);
    const auto end = highest_of(loop.upper, ranges_);
    if (!end) return;
    const Expr highest = *end - int_const(1);
    if (lower) ranges_.variables[loop.iterator] = {lower->lowest, highest};
    else if (least_.is_at_least(loop.lower, 0)) ranges_.variables[loop.iterator] = {int_const(0), highest};
    else ranges_.highest[loop.iterator] = highest;
  }

  Stmt reserved(const Stmt& s, const Allocate& n) {
    // Of what is declared outside of loops over threads each thread keeps a small part.
    const bool of_thread = n.home == Home::Thread, kept = n.array->shape.empty() || (of_thread && kernel_ && !threads_);
    const auto bytes = constant_bytes(n.array);
    if (kept || (bytes && takes(*bytes, of_thread))) return rewrite_children(s);
    std::vector<Expr> largest;
    for (const Expr& extent : n.array->shape) {
      if (is_of_sizes(extent, program_)) largest.push_back(extent);
      else if (const auto bound = highest_of(extent, ranges_)) largest.push_back(*bound);
    }
    const Stmt result = rewrite_children(s);
    if (largest.size() < n.array->shape.size()) return result;
    return with_mapping(result, [&](Allocate& copy) { copy.largest = largest; });
  }

  /// Whether this much more may be declared in the kernel.
  bool takes(std::int64_t bytes, bool of_thread) {
    std::int64_t& all = of_thread ? thread_bytes_ : block_bytes_;
    if (bytes > (of_thread ? most_thread_bytes : most_block_bytes)) return false;
    if (bytes > (of_thread ? most_thread_bytes_in_all : most_block_bytes_in_all) - all) return false;
    all += bytes;
    return true;
  }

  const Program& program_;
  const LeastValues least_;
  RangeContext ranges_;
  bool kernel_, threads_;                            // inside of
  std::int64_t block_bytes_ = 0, thread_bytes_ = 0;  // declared in the kernel so far
};

}  // namespace

Program reserve_locals(const Program& program) { return with_body(program, Reserver(program).rewrite(program.body)); }

}  // namespace loopgrad::transforms
