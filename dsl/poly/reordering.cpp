#include "dsl/poly/reordering.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/rewriter.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::poly {

namespace {

using ir::BinaryOp;
using ir::Expr;

// The values of a time in terms of fresh symbols for the iterators, which are added to the scope.
std::vector<Expr> renamed(const Statement& s, const std::vector<Expr>& time, std::size_t length, Scope& scope) {
  ir::Substitution fresh;
  for (const ir::Symbol& iterator : s.iterators) {
    scope.iterators.push_back(ir::make_symbol(iterator.name));
    fresh[iterator] = ir::var(scope.iterators.back());
  }
  std::vector<Expr> result;
  for (const Expr& value : time) result.push_back(ir::substitute(value, fresh));
  result.resize(length, ir::int_const(0));
  return result;
}

// Pairs (instance of a, instance of b) where b's time is earlier than a's: one relation per deciding position.
std::vector<isl::map> reversed_pairs(const Model& model, const Statement& a, const std::vector<Expr>& time_a,
                                     const Statement& b, const std::vector<Expr>& time_b) {
  Scope scope{model.context, {}, ""};
  std::size_t length = std::max(time_a.size(), time_b.size());
  std::vector<Expr> x = renamed(a, time_a, length, scope), y = renamed(b, time_b, length, scope);
  std::vector<isl::map> result;
  Expr equal_so_far = ir::bool_const(true);
  for (std::size_t k = 0; k < length; ++k) {
    Expr earlier = both(equal_so_far, ir::binary(BinaryOp::Lt, y[k], x[k]));
    equal_so_far = both(equal_so_far, ir::binary(BinaryOp::Eq, y[k], x[k]));
    if (ir::as_int(earlier) == 0) continue;
    auto points = to_set(earlier, scope);
    if (!points) throw InternalError("a new time is not affine");
    isl_map* map = isl_map_from_range(points->release());
    map = isl_map_move_dims(map, isl_dim_in, 0, isl_dim_out, 0, static_cast<unsigned>(a.iterators.size()));
    map = isl_map_set_tuple_name(map, isl_dim_in, a.name.c_str());
    map = isl_map_set_tuple_name(map, isl_dim_out, b.name.c_str());
    result.push_back(checked(*model.context, map));
  }
  return result;
}

const char* action_of(const Access* access) {
  if (!access) return "used";
  switch (access->kind) {
    case AccessKind::Read: return "read";
    case AccessKind::Write: return "written";
    case AccessKind::Reduce: break;
  }
  return access->op == ir::ReduceOp::Add ? "added to" : "updated";
}

std::string iteration_text(const Statement& s, const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t k = 0; k < values.size(); ++k) {
    text += fmt::format("{}{} = {}", k ? ", " : "", s.iterators[k].name, values[k]);
  }
  return values.empty() ? "" : " for (" + text + ")";
}

// A point whose parameters are as small as possible, else any. Small sizes read better.
isl::point small_point(const Model& model, const isl::set& set) {
  auto count = static_cast<unsigned>(isl_set_dim(set.get(), isl_dim_param));
  isl::set limited = set;
  for (std::int64_t limit : {4, 16}) {
    isl::set within = set;
    for (unsigned k = 0; k < count; ++k) {
      within =
          checked(*model.context, isl_set_upper_bound_si(within.release(), isl_dim_param, k, static_cast<int>(limit)));
    }
    if (within.is_empty()) continue;
    limited = within;
    break;
  }
  return checked(*model.context, isl_set_sample_point(limited.copy()));
}

}  // namespace

std::optional<Conflict> exchanged_by(const Model& model, const Times& times, Exchanged which) {
  return guarded(*model.context, [&]() -> std::optional<Conflict> {
    const auto n = static_cast<int>(model.statements.size());
    for (int first = 0; first < n; ++first) {
      for (int second = 0; second < n; ++second) {
        const auto& time_a = times[static_cast<std::size_t>(first)];
        const auto& time_b = times[static_cast<std::size_t>(second)];
        if (!time_a || !time_b) continue;
        // Most pairs keep their order whatever they touch: what these depend on is not asked.
        const std::vector<isl::map> reversed =
            reversed_pairs(model, model.statements[static_cast<std::size_t>(first)], *time_a,
                           model.statements[static_cast<std::size_t>(second)], *time_b);
        if (reversed.empty()) continue;
        for (Conflict& conflict : dependences(model, first, second)) {
          if (conflict.sum != (which == Exchanged::Sums)) continue;
          for (const isl::map& pairs : reversed) {
            isl::map wrong = conflict.pairs.intersect(pairs);
            if (wrong.is_empty()) continue;
            conflict.pairs = wrong;
            return conflict;
          }
        }
      }
    }
    return std::nullopt;
  });
}

bool is_time(const Model& model, const ir::Expr& value) {
  return guarded(*model.context, [&] { return to_pw_aff(value, {model.context, {}, ""}).has_value(); });
}

Example example_of(const Model& model, const Conflict& conflict) {
  return guarded(*model.context,
                 [&] { return example_at(model, conflict, small_point(model, conflict.pairs.wrap())); });
}

std::string describe_pair(const Model& model, const Conflict& conflict) {
  const Statement& s = model.statements[static_cast<std::size_t>(conflict.first)];
  const Statement& t = model.statements[static_cast<std::size_t>(conflict.second)];
  Example example = example_of(model, conflict);
  std::string a = element_text(conflict.a), b = element_text(conflict.b);
  bool exact = (!conflict.a || conflict.a->exact) && (!conflict.b || conflict.b->exact);
  std::string text = fmt::format("{} {} {}{}{} and {}{}{}{}", a, exact ? "is" : "may be", action_of(conflict.a),
                                 line_of(s, conflict.a), iteration_text(s, example.first), action_of(conflict.b),
                                 a == b ? "" : " as " + b, line_of(t, conflict.b), iteration_text(t, example.second));
  return example.sizes.empty() ? text : text + ", with " + example.sizes;
}

}  // namespace loopgrad::poly
