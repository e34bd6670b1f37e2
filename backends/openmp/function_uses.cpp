#include "backends/openmp/function_uses.h"

#include "dsl/ir/visit.h"

#include <loopgrad/error.h>

namespace loopgrad::backend {
namespace {

using namespace ir;

class Collector {
 public:
  explicit Collector(FunctionUses& uses) : uses_(uses) {}

  void look(const Stmt& s) {
    if (const auto* n = s.as<Allocate>()) place(s, *n);
    const auto* loop = s.as<For>();
    uses_.stack |= s.kind() == Kind::Push || s.kind() == Kind::Pop;
    uses_.contractions |= s.kind() == Kind::Contraction;
    uses_.threads |= loop && loop->run.threads;
    const bool repeats = loop || s.kind() == Kind::While;
    if (repeats) loops_.push_back(s.get());
    for_each_child(s, overloaded{[](const Expr&) {}, [&](const Stmt& child) { look(child); }});
    if (repeats) loops_.pop_back();
  }

 private:
  void place(const Stmt& s, const Allocate& n) {
    if (n.array->shape.empty()) return;
    if (n.home < Home::Stack) throw InternalError("no place on a CPU for '" + n.array->name + "'");
    uses_.heap |= n.home == Home::Call || n.home == Home::PerThread;
    uses_.can_fail |= n.home == Home::Iteration;
    if (n.reserved_out > 0)
      uses_.reserved_before[loops_.at(loops_.size() - static_cast<std::size_t>(n.reserved_out))].push_back(s);
  }

  FunctionUses& uses_;
  std::vector<const StmtNode*> loops_;  // around
};

}  // namespace

FunctionUses uses_of(const Program& program) {
  FunctionUses uses;
  if (program.body) Collector(uses).look(program.body);
  return uses;
}

}  // namespace loopgrad::backend
