#include "transforms/map/gpu/long_sums.h"

#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/spread_loops.h"

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t most_partials = 1024;  // blocks that share one long sum

/// Sums up `body` over a loop, by the threads of one block, into scalars of that block; `then` uses them.
Stmt block_sums(std::int64_t threads, const std::vector<SharedSum>& sums, const std::vector<ir::Array>& parts,
                const std::vector<ir::Array>& totals, const ir::Symbol& t, const Stmt& loop, Stmt then) {
  std::vector<Stmt> own, all;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    const Expr zero = ir::identity_of(sums[k].op, sums[k].array->type);
    own.push_back(ir::assign(parts[k], {}, zero, sums[k].location));
    all.push_back(ir::assign(totals[k], {}, zero, sums[k].location));
  }
  own.push_back(loop);
  for (std::size_t k = 0; k < sums.size(); ++k)
    own.push_back(ir::reduce(totals[k], {}, sums[k].op, ir::load(parts[k], {}), sums[k].location, true));
  Stmt one_thread = ir::block(std::move(own));
  for (const ir::Array& part : parts) one_thread = ir::allocate(part, one_thread, part->location);
  all.push_back(threads_loop(t, number(threads), one_thread));
  all.push_back(threads_loop(ir::make_symbol("t"), number(1), std::move(then)));
  Stmt result = ir::block(std::move(all));
  for (const ir::Array& total : totals) result = ir::allocate(total, result, total->location);
  return result;
}

std::vector<ir::Array> arrays_for(const std::vector<SharedSum>& sums, const char* suffix,
                                  const std::vector<Expr>& shape) {
  std::vector<ir::Array> arrays;
  for (const SharedSum& sum : sums)
    arrays.push_back(
        ir::make_array(sum.array->name + suffix, sum.array->type, shape, ir::ArrayRole::Local, sum.location));
  return arrays;
}

}  // namespace

Stmt long_sum(const ir::For& loop, const std::vector<SharedSum>& sums, std::int64_t threads) {
  const ir::Symbol blocks = ir::make_symbol("blocks"), b = ir::make_symbol("b"), t = ir::make_symbol("t");
  const ir::Symbol t2 = ir::make_symbol("t"), p = ir::make_symbol("p");
  const auto partials = arrays_for(sums, "_partial", {ir::var(blocks)});
  const auto totals = arrays_for(sums, "_all", {}), totals2 = arrays_for(sums, "_all", {});
  const auto parts2 = arrays_for(sums, "_part", {});

  const PartialSums first = redirect_sums(sums, loop.body, "_part");
  const Expr start = ir::var(b) * number(threads) + ir::var(t);
  const Stmt own = strided_loop(loop.iterator, loop.lower, loop.upper, start, ir::var(blocks) * number(threads),
                                first.body, loop.location);
  std::vector<Stmt> store, combine, finish;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    const SharedSum& sum = sums[k];
    store.push_back(ir::assign(partials[k], {ir::var(b)}, ir::load(totals[k], {}), sum.location));
    combine.push_back(ir::reduce(parts2[k], {}, sum.op, ir::load(partials[k], {ir::var(p)}), sum.location));
    finish.push_back(ir::reduce(sum.array, sum.indices, sum.op, ir::load(totals2[k], {}), sum.location));
  }
  const Stmt partial_kernel =
      grid_loop(b, number(0), ir::var(blocks), block_sums(threads, sums, first.parts, totals, t, own, ir::block(store)),
                loop.location);
  const Stmt over_partials = strided_loop(p, number(0), ir::var(blocks), ir::var(t2), number(threads),
                                          ir::block(std::move(combine)), loop.location);
  const Stmt combining_kernel = grid_loop(
      ir::make_symbol("b"), number(0), number(1),
      block_sums(threads, sums, parts2, totals2, t2, over_partials, ir::block(std::move(finish))), loop.location);
  Stmt both = ir::block({partial_kernel, combining_kernel});
  for (const ir::Array& partial : partials) both = ir::allocate(partial, both, partial->location);
  const Expr wanted = ceil_div(loop.upper - loop.lower, number(4 * threads));
  return let(blocks, ir::binary(BinaryOp::Min, ir::binary(BinaryOp::Max, wanted, number(1)), number(most_partials)),
             ir::if_then(ir::binary(BinaryOp::Lt, loop.lower, loop.upper), both));
}

}  // namespace loopgrad::transforms
