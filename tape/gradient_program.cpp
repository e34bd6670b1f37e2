#include "tape/gradient_program.h"

#include "dsl/ir/element_loops.h"
#include "dsl/ir/narrow_scopes.h"
#include "dsl/ir/rewriter.h"
#include "tape/invariant_values.h"
#include "tape/name_values.h"
#include "tape/single_values.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {
namespace {

using ir::Array;
using ir::ArrayRole;
using ir::Stmt;

bool contains(const std::vector<Array>& list, const Array& array) {
  return std::find(list.begin(), list.end(), array) != list.end();
}

Array checked_array(const ir::Program& program, const std::string& name, bool as_input) {
  const Array array = ir::find_array(program, name);
  const char* what = as_input ? "wrt" : "of";
  ErrorInfo info{.code = ErrorCode::BadArgument, .program = program.name, .array = name, .location = program.location};
  if (!array) {
    info.message = std::string("the program has no such array, but '") + what + "' names it";
    info.hint = "name an array that the program declares";
    throw UsageError(info);
  }
  info.location = array->location;
  const bool role_fits =
      array->role == ArrayRole::InOut || array->role == (as_input ? ArrayRole::Input : ArrayRole::Output);
  if (!role_fits) {
    info.message = as_input ? "'wrt' names an output" : "'of' names an input";
    info.hint = "'wrt' takes inputs and in-outs, 'of' takes outputs and in-outs";
    throw UsageError(info);
  }
  if (!is_float(array->type)) {
    info.code = ErrorCode::BadType;
    info.message = std::string("an array of type ") + name_of(array->type) + " has no gradient";
    info.hint = "only floating-point arrays are differentiated";
    throw UsageError(info);
  }
  return array;
}

/// An array whose gradient is only ever added to.
Array checked_sum(const ir::Program& program, const std::string& name, const Request& request) {
  const Array array = checked_array(program, name, true);
  if (array->role == ArrayRole::Input && request.wants(array)) return array;
  const bool updated = array->role == ArrayRole::InOut;
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = updated
                                   ? "'accumulate' names an in-out, whose gradient takes the place of the incoming one"
                                   : "'accumulate' names an array whose gradient is not asked for",
                    .program = program.name,
                    .array = name,
                    .hint = updated ? "add its gradient up in the caller" : "name it in 'wrt' as well",
                    .location = array->location});
}

void refuse_written_aliases(const ir::Program& program) {
  std::set<Array> written;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    if (const auto* a = s.as<ir::Assign>()) written.insert(a->array);
    if (const auto* r = s.as<ir::Reduce>()) written.insert(r->array);
  });
  for (const ir::Fact& fact : program.facts) {
    if (fact.kind != ir::FactKind::MayAlias) continue;
    if (!written.count(fact.array) && !written.count(fact.other)) continue;
    throw DifferentiationError({.code = ErrorCode::NotDifferentiable,
                                .message = "it may share memory with '" + fact.other->name +
                                           "' and one of them is written, so a value may change under another name",
                                .program = program.name,
                                .array = fact.array->name,
                                .hint = "use one in-out array, or drop may_alias and pass separate memory",
                                .location = fact.location});
  }
}

struct Uses {
  std::set<Array> read, written;
};

Uses uses_of(const Stmt& body) {
  Uses uses;
  ir::walk(
      body,
      [&](const Stmt& s) {
        if (const auto* a = s.as<ir::Assign>()) uses.written.insert(a->array);
        if (const auto* r = s.as<ir::Reduce>()) uses.written.insert(r->array);
        if (const auto* p = s.as<ir::Pop>()) uses.written.insert(p->array);
      },
      [&](const ir::Expr& e) {
        if (const auto* l = e.as<ir::Load>()) uses.read.insert(l->array);
      });
  return uses;
}

void check_options(const ir::Program& program, const GradientOptions& options) {
  ErrorInfo info{.code = ErrorCode::BadArgument, .program = program.name, .location = program.location};
  if (options.max_tape_bytes < 0) {
    info.message = "`max_tape_bytes` is " + std::to_string(options.max_tape_bytes);
    info.hint = "give it a number of bytes, or 0 for no limit";
    throw UsageError(info);
  }
  switch (options.variant) {
    case Variant::NaiveTape:
    case Variant::Atomic:
    case Variant::Restructured: return;
  }
  info.message = "`variant` is " + std::to_string(static_cast<int>(options.variant)) + ", which is no Variant";
  info.hint = "use Variant::NaiveTape, Variant::Atomic or Variant::Restructured";
  throw UsageError(info);
}

}  // namespace

bool Request::wants(const Array& array) const { return contains(wrt, array); }
bool Request::given(const Array& array) const { return contains(of, array); }
bool Request::accumulates(const Array& array) const { return contains(accumulated, array); }

Request resolve_request(const ir::Program& program, const GradientOptions& options) {
  Request request;
  for (const std::string& name : options.wrt) request.wrt.push_back(checked_array(program, name, true));
  for (const std::string& name : options.of) request.of.push_back(checked_array(program, name, false));
  for (const Array& array : program.arrays) {
    if (!is_float(array->type)) continue;
    if (options.wrt.empty() && array->role != ArrayRole::Output) request.wrt.push_back(array);
    if (options.of.empty() && array->role != ArrayRole::Input) request.of.push_back(array);
  }
  for (const std::string& name : options.accumulate) request.accumulated.push_back(checked_sum(program, name, request));
  return request;
}

Prepared prepare(const ir::Program& recorded, const GradientOptions& options, RuleMode mode) {
  check_options(recorded, options);
  refuse_derivatives_of_rules(recorded);
  refuse_written_aliases(recorded);
  const ir::Program program = ir::with_body(recorded, rules_beside_bodies(recorded.body, mode));
  Prepared prepared{program, resolve_request(program, options), {}, {}, {}};
  Activity& activity = prepared.activity;
  const IsActive active = [&](const Array& a) { return activity.active(a); };
  activity = analyze_activity(program, prepared.request.wrt, prepared.request.of);
  refuse_unnamed_inputs(recorded, activity, mode);
  prepared.program.body = expand_reductions(program.body, {ir::ReduceOp::Mul}, active);
  if (options.variant != Variant::NaiveTape) {
    prepared.program.body = single_values(ir::with_narrow_scopes(prepared.program).body);
    prepared.program.body = name_invariants(prepared.program, active, prepared.named);
  }
  prepared.program.body = name_values(prepared.program.body, active, prepared.named);
  activity = analyze_activity(prepared.program, prepared.request.wrt, prepared.request.of);
  auto add = [&](const Array& a) {
    if (!activity.active(a)) return;
    prepared.adjoints[a] = ir::make_array_like(a, "d_" + a->name, value_type(a->type), ArrayRole::Local);
  };
  for (const Array& a : program.arrays) add(a);
  ir::walk_stmts(prepared.program.body, [&](const Stmt& s) {
    if (const auto* local = s.as<ir::Allocate>()) add(local->array);
  });
  return prepared;
}

Stmt zero_fill(const Array& array) {
  return ir::over_elements(array->shape, array->location, [&](const std::vector<ir::Expr>& indices) {
    return ir::assign(array, indices, ir::const_of(0, array->type), array->location);
  });
}

Stmt copy_all(const Array& to, const Array& from) {
  return ir::over_elements(to->shape, to->location, [&](const std::vector<ir::Expr>& indices) {
    return ir::assign(to, indices, ir::load(from, indices), to->location);
  });
}

void refuse_equal_names(const ir::Program& program) {
  std::set<std::string> names;
  for (const Array& array : program.arrays)
    if (!names.insert(array->name).second)
      throw UsageError(
          {.code = ErrorCode::BadArgument,
           .message = "a derivative would have the name of another array of the program",
           .program = program.name,
           .array = array->name,
           .hint = "arrays that start with 'd_' (gradients) or 't_' (tangents) are named after others: rename it",
           .location = array->location});
}

ir::Program backward_program(const Prepared& prepared, const Stmt& sweep, const std::vector<Array>& tape,
                             const std::vector<ir::Symbol>& extra_sizes) {
  const ir::Program& primal = prepared.program;
  ir::Program backward{primal.name + "_backward", primal.sizes, {}, {}, {}, primal.location};
  backward.sizes.insert(backward.sizes.end(), extra_sizes.begin(), extra_sizes.end());

  const Uses uses = uses_of(sweep);
  std::vector<Stmt> prologue;
  std::vector<Array> locals;       // adjoints that are neither given nor asked for, and working copies
  std::map<Array, Array> renamed;  // adjoint as the sweep knows it -> declared array
  std::vector<Array> gradients;
  auto declare = [&](const Array& like, ArrayRole role) {
    Array a = ir::make_array_like(like, like->name, like->type, role);
    gradients.push_back(a);
    return a;
  };
  for (const Array& array : primal.arrays) {
    const bool wanted = prepared.request.wants(array), given = prepared.request.given(array);
    const auto it = prepared.adjoints.find(array);
    if (it == prepared.adjoints.end()) {
      // Asked for although nothing depends on it: the gradient is zero, except for what an in-out passes through.
      if (!wanted && !given) continue;
      const Array like = ir::make_array_like(array, "d_" + array->name, value_type(array->type), ArrayRole::Local);
      if (wanted && given) declare(like, ArrayRole::InOut);
      else if (prepared.request.accumulates(array)) declare(like, ArrayRole::InOut);
      else if (wanted) prologue.push_back(zero_fill(declare(like, ArrayRole::Output)));
      else declare(like, ArrayRole::Input);
      continue;
    }
    const Array& adjoint = it->second;
    if ((wanted && given) || prepared.request.accumulates(array)) {
      renamed[adjoint] = declare(adjoint, ArrayRole::InOut);
    } else if (wanted) {
      renamed[adjoint] = declare(adjoint, ArrayRole::Output);
      prologue.push_back(zero_fill(renamed[adjoint]));
    } else if (given && !uses.written.count(adjoint)) {
      renamed[adjoint] = declare(adjoint, ArrayRole::Input);
    } else {
      const Array working = ir::make_array(given ? adjoint->name + "_now" : adjoint->name, adjoint->type,
                                           adjoint->shape, ArrayRole::Local, adjoint->location);
      locals.push_back(working);
      renamed[adjoint] = working;
      prologue.push_back(given ? copy_all(working, declare(adjoint, ArrayRole::Input)) : zero_fill(working));
    }
  }

  for (const Array& array : primal.arrays) {
    if (!uses.read.count(array)) continue;
    const Array as_input = ir::make_array_like(array, array->name, array->type, ArrayRole::Input);
    renamed[array] = as_input;
    backward.arrays.push_back(as_input);
  }
  for (const Array& array : tape) {
    if (uses.read.count(array)) backward.arrays.push_back(array);
  }
  backward.arrays.insert(backward.arrays.end(), gradients.begin(), gradients.end());
  for (ir::Fact fact : primal.facts) {
    const auto it = renamed.find(fact.array);
    if (it == renamed.end() || fact.kind == ir::FactKind::MayAlias) continue;
    fact.array = it->second;
    backward.facts.push_back(fact);
  }

  prologue.push_back(ir::replace_arrays(sweep, renamed));
  Stmt body = ir::block(std::move(prologue));
  for (auto local = locals.rbegin(); local != locals.rend(); ++local)
    body = ir::allocate(*local, body, (*local)->location);
  backward.body = body;
  refuse_equal_names(backward);
  return backward;
}

}  // namespace loopgrad::tape
