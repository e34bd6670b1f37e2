#include "backends/cuda/host_text.h"

#include "backends/c_text/code_text.h"
#include "backends/emit/size_text.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend {
namespace {

using namespace ir;

/// Prints what cuda::Executor does: `visit` and `prepare` there.
class HostWriter {
 public:
  HostWriter(const EmitPlan& plan, const EmitPart& part, const std::vector<CudaKernel>& kernels, bool any_form)
      : plan_(plan), part_(part), any_form_(any_form) {
    for (const CudaKernel& kernel : kernels) kernel_of_[kernel.node] = &kernel;
  }

  HostText write(const std::string& name) {
    visit(part_.program.body);
    std::string parameters = "Run& run";
    for (const std::string& size : plan_.sizes_of(part_))
      parameters += ", [[maybe_unused]] int64_t " + plan_.names.of(size);
    parameters += ", [[maybe_unused]] int64_t " + stale_name();
    for (const Array& array : part_.program.arrays)
      parameters += ", [[maybe_unused]] const void* " + plan_.names.of(array->name);
    out_.definition = fmt::format("\ninline void {}({}) {{\n{}}}\n", name, parameters, code_.take());
    return std::move(out_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    code_.line(format, std::forward<Args>(args)...);
  }

  std::string number(const Expr& e) { return number_of(substitute(e, renamed_), plan_.names); }
  std::string value(const Expr& e) { return fmt::format("run.value({})", number(e)); }

  const std::string& name_of(const Array& array) {
    std::string& known = locals_[array];
    if (!known.empty()) return known;
    const bool is_local = array->role == ArrayRole::Local;
    known = plan_.names.of(is_local ? fmt::format("{} {}", array->name, locals_.size()) : array->name);
    return known;
  }

  /// Of the size that says whether what was sorted is to be sorted again.
  std::string stale_name() { return part_.kept.arrays.empty() ? "unused" : plan_.names.of(part_.kept.stale.name); }

  std::string name_of(const Symbol& symbol) {
    const auto found = renamed_.find(symbol);
    return plan_.names.of(found == renamed_.end() ? symbol.name : found->second.as<Var>()->symbol.name);
  }

  void visit(const Stmt& s) {
    if (!s) return;
    if (const auto found = kernel_of_.find(s.get()); found != kernel_of_.end()) return launch(*found->second);
    if (const auto* n = s.as<Block>()) {
      for (const Stmt& child : n->body) visit(child);
    } else if (const auto* branch = s.as<If>()) {
      visit_branch(*branch);
    } else if (const auto* local = s.as<Allocate>()) {
      line("const void* const {} = run.memory({}, bytes_of({}, {}));", name_of(local->array), out_.slots++,
           bytes_of(local->array->type), extents(local->array->shape));
      visit(local->body);
    } else if (const auto* loop = s.as<For>()) {
      visit_loop(*loop);
    } else if (const auto* product = s.as<Contraction>()) {
      visit_contraction(*product);
    } else {
      throw InternalError("the host has been left a statement that only a kernel can execute");
    }
  }

  std::string extents(const std::vector<Expr>& shape) {
    std::vector<Expr> all;
    for (const Expr& extent : shape) all.push_back(substitute(extent, renamed_));
    return extents_of(all, plan_.names);
  }

  void visit_branch(const If& n) {
    line("if ({}) {{", value(n.condition));
    code_.indented([&] { visit(n.then_body); });
    if (n.else_body) {
      line("}} else {{");
      code_.indented([&] { visit(n.else_body); });
    }
    line("}}");
  }

  void visit_loop(const For& n) {
    const Symbol own = make_symbol(fmt::format("{} {}", n.iterator.name, ++loops_));
    const std::string& name = plan_.names.of(own.name);
    const std::string from = value(n.lower), to = value(n.upper);
    const bool once = equal(n.upper, n.lower + int_const(1));
    if (once) line("{{");
    else if (n.mode == LoopMode::Backward)
      line("for (int64_t {0} = {1} - 1, {0}end = {2}; {0} >= {0}end; --{0}) {{", name, to, from);
    else line("for (int64_t {0} = {1}, {0}end = {2}; {0} < {0}end; ++{0}) {{", name, from, to);
    const Substitution before = renamed_;
    renamed_[n.iterator] = var(own);
    code_.indented([&] {
      if (once) line("const int64_t {} = {};", name, from);
      visit(n.body);
    });
    renamed_ = before;
    line("}}");
  }

  void visit_contraction(const Contraction& n) {
    out_.uses_products = true;
    const auto matrix = [&](const Array& array, const std::vector<Expr>& place) {
      return fmt::format("{{{}, {}, {}, {}, {}}}", name_of(array), number(place[0]), number(place[1]), number(place[2]),
                         number(place[3]));
    };
    std::vector<std::string> extents;
    for (const Expr& e : n.extents) extents.push_back(number(e));
    code_.comment(n.location);
    line("if (!run.multiply<{}>({}, {{{}}}, {}, {}, {}, {}, {})) {{", n.c->type == ScalarType::F32 ? "float" : "double",
         out_.slots++, fmt::join(extents, ", "), n.alpha, n.overwrites ? 0 : 1, matrix(n.a, n.a_place),
         matrix(n.b, n.b_place), matrix(n.c, n.c_place));
    code_.indented([&] { visit(n.loops); });
    line("}}");
  }

  void launch(const CudaKernel& kernel) {
    if (kernel.uses_stack) throw InternalError("a program with a stack cannot be emitted");
    code_.comment(kernel.node->location);
    std::vector<std::string> grid, threads, locals, words;
    for (auto it = kernel.grid.rbegin(); it != kernel.grid.rend(); ++it) {
      const Expr extent = (*it)->upper - (*it)->lower;
      const bool teams = kernel.teams && grid.empty();
      grid.push_back(
          number(teams ? binary(BinaryOp::FloorDiv, extent + (kernel.teams - int_const(1)), kernel.teams) : extent));
    }
    for (const Expr& extent : kernel.threads) threads.push_back(number(extent));
    if (kernel.teams) threads.push_back(number(kernel.teams));
    for (const KernelLocal& local : kernel.locals) {
      std::string count = "Number(1)";
      for (const Expr& extent : local.shape) count += fmt::format(" * larger({}, 0)", number(extent));
      locals.push_back(
          fmt::format("{{{}, {}, {}, {}}}", bytes_of(local.array->type), count, local.per_thread, out_.slots++));
    }
    for (const Symbol& symbol : kernel.symbols) words.push_back(name_of(symbol));
    for (const Array& array : kernel.arrays) words.push_back(fmt::format("word({})", name_of(array)));
    out_.most_words = std::max(out_.most_words, static_cast<int>(words.size() + 2 * locals.size()));
    std::vector<std::string> forms;
    for (const char* form : {"one_turn_form", "narrow_form", "wide_form"})
      forms.push_back(
          fmt::format("reinterpret_cast<const void*>({}{})", any_form_ ? std::string(form) + "::" : "", kernel.name));
    if (!any_form_) forms = {forms[0], forms[0], forms[0]};
    line("run.launch({{{}}},", fmt::join(forms, ", "));
    code_.indented([&] {
      line("     {{{}}}, {{{}}},", fmt::join(grid, ", "), fmt::join(threads, ", "));
      line("     {{{}}}, {{{}}});", fmt::join(locals, ", "), fmt::join(words, ", "));
    });
  }

  const EmitPlan& plan_;
  const EmitPart& part_;
  const bool any_form_;
  std::map<const StmtNode*, const CudaKernel*> kernel_of_;
  std::map<Array, std::string> locals_;
  Substitution renamed_;
  CodeText code_;
  HostText out_;
  int loops_ = 0;
};

}  // namespace

HostText host_text(const EmitPlan& plan, const EmitPart& part, const std::vector<CudaKernel>& kernels,
                   const std::string& name, bool any_form) {
  return HostWriter(plan, part, kernels, any_form).write(name);
}

}  // namespace loopgrad::backend
