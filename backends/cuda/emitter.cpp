#include "backends/cuda/emitter.h"

#include "backends/c_text/code_text.h"
#include "backends/cuda/index_width.h"
#include "backends/cuda/kernel_text.h"
#include "backends/cuda/prelude.h"
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// The outermost Grid loops, in textual order.
void collect_kernels(const Stmt& s, std::vector<Stmt>& out) {
  if (!s) return;
  if (const auto* loop = s.as<For>(); loop && loop->mode == LoopMode::Grid) return out.push_back(s);
  for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { collect_kernels(child, out); }});
}

std::vector<std::size_t> written_arrays(const Stmt& root, const std::vector<Array>& arrays) {
  std::set<Array> changed;
  walk_stmts(root, [&](const Stmt& s) {
    if (const auto* assign = s.as<Assign>()) changed.insert(assign->array);
    if (const auto* reduce = s.as<Reduce>()) changed.insert(reduce->array);
    if (const auto* pop = s.as<Pop>()) changed.insert(pop->array);
  });
  std::vector<std::size_t> written;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (changed.count(arrays[i])) written.push_back(i);
  return written;
}

/// The user's line that a kernel does, as the decisions about nests name it.
SourceLocation location_of(const Stmt& root) {
  const auto* block = root.as<Block>();
  return block && !block->body.empty() ? location_of(block->body.front()) : root->location;
}

/// "// i, j (conv1d.cpp:31), threads: a thread for each iteration". A nest for which the host chooses among shapes has
/// a line for each of them.
std::string reasons_for(const Stmt& root, const std::vector<KernelDecision>& decisions) {
  const SourceLocation where = location_of(root);
  std::vector<std::string> lines;
  for (const KernelDecision& one : decisions) {
    if (!where.known() || one.where.str() != where.str()) continue;
    const std::string nest = one.loops.empty() ? where.str() : fmt::format("{} ({})", one.loops, where.str());
    const std::string text = comment_text(fmt::format("{}, {}: {}", nest, one.shape, one.reason));
    if (std::find(lines.begin(), lines.end(), text) == lines.end()) lines.push_back(text);
  }
  const bool one = lines.size() == 1;
  std::string result = lines.size() > 1 ? "// One of these, as sizes are:\n" : "";
  for (const std::string& line : lines) result += (one ? "// " : "//   ") + line + "\n";
  return result;
}

}  // namespace

CudaUnit emit_cuda(const std::vector<Program>& programs, const std::vector<std::vector<KernelDecision>>& reasons) {
  CudaUnit unit;
  NameTable names(generated_name);
  std::set<Helper> helpers;
  std::string definitions;
  bool block_reduce = false, wide = false, stack = false;
  const bool any_width = std::all_of(programs.begin(), programs.end(), may_have_narrow_indices);
  for (const Program& program : programs) {
    std::vector<CudaKernel>& kernels = unit.kernels.emplace_back();
    std::vector<Stmt> roots;
    collect_kernels(program.body, roots);
    if (roots.empty() && !is_empty(program.body)) roots.push_back(program.body);
    for (std::size_t k = 0; k < roots.size(); ++k) {
      KernelText text = kernel_text(program, roots[k], names.fresh(fmt::format("{}_{}", program.name, k)), any_width);
      text.kernel.written = written_arrays(roots[k], text.kernel.arrays);
      const std::size_t p = unit.kernels.size() - 1;
      definitions += "\n" + (p < reasons.size() ? reasons_for(roots[k], reasons[p]) : "") + text.definition;
      helpers.insert(text.helpers.begin(), text.helpers.end());
      block_reduce |= text.uses_block_reduce;
      wide |= text.uses_wide_accesses;
      stack |= text.kernel.uses_stack;
      kernels.push_back(std::move(text.kernel));
    }
  }
  unit.any_form = any_width;
  unit.prelude = cuda_prelude(helpers, block_reduce, wide, stack);
  unit.definitions = std::move(definitions);
  return unit;
}

std::string CudaUnit::source(KernelForm form) const {
  if (!any_form) return prelude + definitions;
  return prelude +
         fmt::format(
             "\n// Indices: 32 bits where all of a launch fit, else 64.\nusing index_t = {};\n"
             "// Whether the grid has a block for each iteration of the loops over blocks, or blocks take turns.\n"
             "constexpr bool one_turn = {};\n"
             "// Blocks that a multiprocessor should have at once where threads take columns of a stencil.\n"
             "constexpr int column_blocks = {};\n",
             form == KernelForm::Wide ? "int64_t" : "int32_t", form == KernelForm::OneTurn,
             form == KernelForm::Wide ? 1 : 7) +
         definitions;
}

}  // namespace loopgrad::backend
