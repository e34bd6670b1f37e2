// Regions with a gradient of their own, which is the one that they have: whoever takes the rule and whoever
// differentiates the region must come to the same.
#include "tools/fuzz/writer.h"

namespace loopgrad::fuzz {

/// A function of two numbers and its derivatives, written from the numbers alone.
struct Writer::Sloped {
  Value value, by_a, by_b;
};

Writer::Sloped Writer::sloped(int kind, const Value& a, const Value& b) {
  switch (kind) {
    case 0: return {a * b, b, a};
    case 1: {
      const Value below = 1.25 + b * b;
      return {a / below, 1 / below, -2 * a * b / (below * below)};
    }
    case 2: {
      const Value root = sqrt(1 + a * a);
      return {0.5 * root * b, 0.5 * a * b / root, 0.5 * root};
    }
    default:
      return {select(a > b + 0.0173, a * a, 0.5 * b), select(a > b + 0.0173, 2 * a, 0), select(a > b + 0.0173, 0, 0.5)};
  }
}

// q[i] = f(a[i], b[..]), or a sum of such terms, in steps that overwrite a; one region for all elements or for each.
void Writer::own_rule() {
  const Extent n{.size = some_size()}, steps{.pad = 1 + static_cast<int>(below(3))};
  const ArrayInfo a = filled_local("a", {n}), b = operand("b", {n}), q = filled_local("q", {n});
  const int kind = static_cast<int>(below(4)), beside = static_cast<int>(below(4));
  const bool sum = chance(30), for_each_element = chance(50), own_tangent = chance(30), guarded = chance(30);
  const auto other = [&](const Value& i) {
    return beside == 0 ? i : beside == 1 ? value_of(n) - 1 - i : beside == 2 ? (i + 1) % value_of(n) : max(i - 1, 0);
  };
  const auto terms = [&](const Value& i, const std::function<void(const Value&, const Value&, const Sloped&)>& f) {
    // In f64, whatever the arrays hold, here and in the rules: numbers have the type of what they meet, and 0.3 of f32
    // is another factor than 0.3 of f64.
    const auto term = [&](const Value& j) {
      f(j, other(i), sloped(kind, cast<double>(a.handle(j)), cast<double>(b.handle(other(i)))));
    };
    if (sum) each(n, term);
    else term(i);
  };
  const auto compute = [&](const Element& result, const Value& i, const auto& value_of_term) {
    if (sum) result = 0;
    terms(i, [&](const Value& j, const Value& k, const Sloped& term) {
      if (sum) result += 0.3 * value_of_term(j, k, term);
      else result = value_of_term(j, k, term);
    });
  };
  const auto region = [&](const std::function<void(const std::function<void(const Value&)>&)>& elements) {
    CustomRule rule;
    rule.forward = [&] {
      elements([&](const Value& i) {
        compute(q.handle(i), i, [](const Value&, const Value&, const Sloped& term) { return term.value; });
      });
    };
    rule.adjoint = [&](const Derivatives& d) {
      elements([&](const Value& i) {
        terms(i, [&](const Value& j, const Value& k, const Sloped& term) {
          const Value incoming = cast<double>(d(q.handle)(i)), seed = sum ? 0.3 * incoming : incoming;
          d(a.handle)(j) += seed * term.by_a;
          d(b.handle)(k) += seed * term.by_b;
        });
      });
    };
    if (own_tangent)
      rule.tangent = [&](const Derivatives& d) {
        elements([&](const Value& i) {
          compute(d(q.handle)(i), i, [&](const Value& j, const Value& k, const Sloped& term) {
            return term.by_a * d(a.handle)(j) + term.by_b * d(b.handle)(k);
          });
        });
      };
    if (guarded) builder_.when(condition(), [&] { builder_.custom_gradient({q.handle}, {a.handle, b.handle}, rule); });
    else builder_.custom_gradient({q.handle}, {a.handle, b.handle}, rule);
  };
  each(steps, [&](const Value&) {
    if (!for_each_element) region([&](const std::function<void(const Value&)>& f) { each(n, f); });
    each(n, [&](const Value& i) {
      if (for_each_element) region([&](const std::function<void(const Value&)>& f) { f(i); });
      a.handle(i) = 0.6 * a.handle(i) + 0.4 * squash(q.handle(i));
    });
  });
  each(n, [&](const Value& i) { pass_on(q, i); });
}

}  // namespace loopgrad::fuzz
