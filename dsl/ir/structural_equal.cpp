#include "dsl/ir/structural_equal.h"

#include "dsl/ir/visit.h"

#include <bit>
#include <map>
#include <type_traits>

namespace loopgrad::ir {
namespace {

/// Compares two trees field by field. When renaming is allowed, the first sight of a pair of symbols or arrays ties
/// them together for good; otherwise they must be the same.
class Comparison {
 public:
  explicit Comparison(bool rename) : rename_(rename) {}

  bool same(const Expr& a, const Expr& b) {
    if (!rename_ && a.same_as(b)) return true;
    if (!a || !b) return !a && !b;
    return a.kind() == b.kind() && a.type() == b.type() && same_fields(a, b);
  }
  bool same(const Stmt& a, const Stmt& b) {
    if (!rename_ && a.same_as(b)) return true;
    if (!a || !b) return !a && !b;
    return a.kind() == b.kind() && same_fields(a, b);
  }
  template <class T>
  bool same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return false;
    }
    return true;
  }
  bool same(const Symbol& a, const Symbol& b) { return tie(a.id, b.id) != Tie::Broken; }
  bool same(const Array& a, const Array& b) {
    if (!a || !b) return !a && !b;
    switch (tie(a->id, b->id)) {
      case Tie::Broken: return false;
      case Tie::Known: return true;
      case Tie::New:
        return a->type == b->type && a->role == b->role && a->on_tape == b->on_tape && same(a->shape, b->shape);
    }
    return false;
  }
  bool same(const Fact& a, const Fact& b) {
    return a.kind == b.kind && same(a.array, b.array) && same(a.lower, b.lower) && same(a.upper, b.upper) &&
           same(a.other, b.other);
  }
  /// Bit by bit: NaN equals itself, 0 and -0 differ.
  bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
  bool same(const LoopShape& a, const LoopShape& b) { return a == b; }
  bool same(const LoopRun& a, const LoopRun& b) { return a == b; }
  bool same(const WideAccess& a, const WideAccess& b) {
    return same(a.array, b.array) && same(a.indices, b.indices) && a.loads == b.loads && a.stores == b.stores &&
           a.even_rows == b.even_rows;
  }
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) bool same(T a, T b) { return a == b; }

 private:
  enum class Tie { New, Known, Broken };

  Tie tie(std::int64_t a, std::int64_t b) {
    if (!rename_) return a == b ? Tie::Known : Tie::Broken;
    const auto [forward, new_a] = forward_.emplace(a, b);
    const auto [backward, new_b] = backward_.emplace(b, a);
    if (forward->second != b || backward->second != a) return Tie::Broken;
    return new_a && new_b ? Tie::New : Tie::Known;
  }

  template <class Tree>
  bool same_fields(const Tree& a, const Tree& b) {
    return visit(a, [&](const auto& x) {
      using Node = std::decay_t<decltype(x)>;
      const Node& y = *b.template as<Node>();
      return std::apply([&](auto... member) { return (same(x.*member, y.*member) && ...); }, Node::fields());
    });
  }

  bool rename_;
  std::map<std::int64_t, std::int64_t> forward_, backward_;
};

}  // namespace

bool equal(const Expr& a, const Expr& b) { return Comparison(false).same(a, b); }
bool equal(const std::vector<Expr>& a, const std::vector<Expr>& b) { return Comparison(false).same(a, b); }

bool structurally_equal(const Stmt& a, const Stmt& b) { return Comparison(true).same(a, b); }

bool structurally_equal(const Program& a, const Program& b) {
  Comparison comparison(true);
  return comparison.same(a.sizes, b.sizes) && comparison.same(a.arrays, b.arrays) &&
         comparison.same(a.facts, b.facts) && comparison.same(a.body, b.body);
}

}  // namespace loopgrad::ir
