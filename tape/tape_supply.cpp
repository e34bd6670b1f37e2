// Where one value comes from: the decisions of the tape plan, in order of preference.
#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "tape/stores.h"
#include "tape/tape_plan.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::tape {

using ir::Array;
using ir::ArrayRole;
using ir::Expr;
using ir::Stmt;
using poly::ask;

namespace {

constexpr int longest_copy = 3;  // what replaces a writer's tape: little more than a load
/// Number of dimensions whose extent is not a constant: the degree by which an array grows with the sizes.
int growing_dimensions(const Array& array) {
  return static_cast<int>(
      std::count_if(array->shape.begin(), array->shape.end(), [](const Expr& e) { return !ir::as_int(e); }));
}

}  // namespace

/// `within`: loops between the site and what reads the value.
const Expr* TapePlan::already_supplied(const Expr& load, const Stmt& site, const Expr& guard,
                                       const std::vector<Stmt>& within) const {
  const auto list = supplied_.find(site.get());
  if (list == supplied_.end()) return nullptr;
  for (const Supplied& known : list->second) {
    const bool guarded_alike = !known.guard || (guard && ir::equal(known.guard, guard));
    const bool is_there = std::all_of(known.within.begin(), known.within.end(), [&](const Stmt& loop) {
      return std::any_of(within.begin(), within.end(), [&](const Stmt& other) { return other.same_as(loop); });
    });
    if (guarded_alike && is_there && ir::equal(known.load, load)) return &known.value;
  }
  return nullptr;
}

Expr TapePlan::supply(const Expr& value, const Stmt& site, const Expr& guard) {
  if (const Expr* known = already_supplied(value, site, guard)) return *known;
  const ir::Load& load = *value.as<ir::Load>();
  const bool overwritten = is_overwritten(load, site);
  auto supplied = [&](const Expr& result) {
    supplied_[site.get()].push_back({value, guard, result, {}});
    return result;
  };
  if (load.array->role != ArrayRole::Local && !overwritten) {
    note(value, site->location, "direct", {}, {},
         sites_.is_written(load.array) ? "not overwritten after this read" : "never written");
    return supplied(ir::load(load.array, provide_all(load.indices, site, guard), load.location));
  }
  if (const auto again = computed_again(load, site, guard)) {
    const std::string reason = values_.reason(load.array);
    note(value, site->location, "recomputed", {}, {}, (reason.empty() ? "" : reason + ": ") + ir::print(*again));
    return supplied(*again);
  }
  if (load.array->on_tape == ir::TapeChoice::Recomputed) refuse_to_save(load, site);
  if (load.array->role == ArrayRole::Local && !overwritten)
    if (const auto kept = from_kept(load, site, guard)) return supplied(*kept);
  if (const auto from_writer = from_writers(load, site, guard)) return supplied(*from_writer);
  return supplied(from_reader(value, load.array->name, site, guard,
                              "overwritten later, by writes that are not an exact function of the iterators or that "
                              "cost more to save"));
}

void TapePlan::refuse_to_save(const ir::Load& load, const Stmt& site) const {
  if (collecting_) return;
  const bool is_final = values_.is_final_at(load, site);
  throw DifferentiationError(
      {.code = ErrorCode::NotDifferentiable,
       .message = is_final ? "the program asks to compute this local again, which is not possible: " +
                                 values_.why_not_again(load.array)
                           : "the program asks to compute this local again, but the gradient needs values that it has "
                             "before the last one",
       .program = prepared_.program.name,
       .array = load.array->name,
       .hint = is_final ? "drop the recompute(), or ask for what it is computed from"
                        : "drop the recompute(), or give each value a local of its own",
       .location = site->location});
}

/// The expression from arrays that still hold their values and short recomputations only.
std::optional<Expr> TapePlan::without_tape(const Expr& e, const Stmt& site, int& budget) {
  bool ok = true;
  const Expr result = ir::rewrite(e, [&](const Expr& node) -> std::optional<Expr> {
    budget -= operations_of(node);
    if (budget < 0) ok = false;
    if (!ok) return node;
    const auto* load = node.as<ir::Load>();
    if (!load || !primal_.count(load->array)) return std::nullopt;
    if (load->array->role != ArrayRole::Local && !is_overwritten(*load, site)) {
      std::vector<Expr> index;
      for (const Expr& i : load->indices) {
        const auto provided = without_tape(i, site, budget);
        if (!provided) return ok = false, node;
        index.push_back(*provided);
      }
      return ir::load(load->array, std::move(index), load->location);
    }
    const auto again = recomputed(*load, site, budget);
    if (!again) ok = false;
    return again ? *again : node;
  });
  return ok ? std::optional(result) : std::nullopt;
}

std::optional<Expr> TapePlan::recomputed(const ir::Load& load, const Stmt& site, int& budget) {
  if (!holds_at(load.array, site)) return std::nullopt;
  const Stmt& writer = *sites_.only_writer(load.array);
  return without_tape(writer.as<ir::Assign>()->value, writer, budget);
}

const KeptArray* TapePlan::keep(const Array& array) {
  const auto known = additions_.kept.find(array);
  if (known != additions_.kept.end()) return &known->second;
  const Stmt& allocation = sites_.allocation(array);
  std::vector<Stmt> loops = extents_.dimensions(site_of(allocation).loops);
  if (!can_index(loops)) return nullptr;
  if (array->shape.empty()) loops = in_layout(std::move(loops), true);
  const auto inner_shape = largest_shape(array);
  if (!inner_shape) return nullptr;
  const Array tape = new_tape(array->name + "_kept", array->type, loops, *inner_shape, array->location);
  // A scalar that is surely assigned stays a scalar in the forward sweep and is copied once.
  const Stmt& scope = allocation.as<ir::Allocate>()->body;
  bool surely_assigned = false;
  auto assigns = [&](const Stmt& s) {
    const auto* a = s.as<ir::Assign>();
    return a && a->array == array;
  };
  surely_assigned |= assigns(scope);
  const Stmt* inner = &scope;
  while (const auto* nested = inner->as<ir::Allocate>()) inner = &nested->body;
  if (const auto* b = inner->as<ir::Block>())
    for (const Stmt& s : b->body) surely_assigned |= assigns(s);
  const bool at_scope_end = array->shape.empty() && surely_assigned;
  return &(additions_.kept[array] = {tape, tape_index(loops), at_scope_end});
}

std::optional<Expr> TapePlan::from_kept(const ir::Load& load, const Stmt& site, const Expr& guard) {
  const std::size_t declared = extents_.dimensions(site_of(sites_.allocation(load.array)).loops).size();
  const std::size_t reading = extents_.dimensions(site_of(site).loops).size();
  if (declared + growing_dimensions(load.array) > reading && !additions_.kept.count(load.array)) return std::nullopt;
  const KeptArray* kept = keep(load.array);
  if (!kept) return std::nullopt;
  const std::vector<Expr> index = concatenate(kept->leading, provide_all(load.indices, site, guard));
  const Expr result = ir::load(kept->tape, index, load.location);
  note(ir::load(load.array, load.indices), site->location, "kept", result, kept->tape,
       "local to an iteration and not overwritten within it: one copy per iteration is kept; " +
           values_.reason(load.array));
  return result;
}

const std::optional<poly::Dataflow>& TapePlan::writers_of(const ir::Load& load, const Stmt& site) {
  std::optional<std::optional<poly::Dataflow>>& known = asked(load, site).writers;
  if (!known) known = find_writers(load, site);
  return *known;
}

/// The statements whose tapes the read can be had from; nullopt where none can, or it costs more than a tape of its
/// own.
std::optional<poly::Dataflow> TapePlan::find_writers(const ir::Load& load, const Stmt& site) {
  const Site& where = site_of(site);
  const auto access = find_access(load, where);
  if (!access) return std::nullopt;
  const poly::Dataflow flow =
      ask(*model_, poly::Dataflow{}, [&] { return poly::last_writes(*model_, where.model_index, *access); });
  constexpr std::size_t most_sources = 4;  // more would cost more to select than to save at the reader
  if (!flow.exact || flow.sources.empty() || flow.sources.size() > most_sources) return std::nullopt;
  const std::size_t reading = extents_.dimensions(where.loops).size();
  std::size_t writing = 0;
  for (const poly::Source& source : flow.sources) {
    if (source.writer < 0) {
      if (load.array->role != ArrayRole::InOut) return std::nullopt;
      writing = std::max<std::size_t>(writing, growing_dimensions(load.array));
      continue;
    }
    const auto& loops = model_->statements[source.writer].loops;
    if (!can_index(loops)) return std::nullopt;
    writing = std::max(writing, loops.size());
  }
  const bool selection_pays = flow.sources.size() == 1 || sites_.read_count(load.array) > 1;
  if (writing > reading || (writing == reading && !selection_pays)) return std::nullopt;
  return flow;
}

/// The statement that reads the value first, where it is read more often than once between two writes; one tape serves
/// all of these. What is read in front of loops has a tape of its own.
std::optional<Sites::EarlierRead> TapePlan::reader_of(const ir::Load& load, const Stmt& site) const {
  const auto stays = [&](const Expr& read, const Stmt& where) { return hoisted(read, where).same_as(where); };
  if (!stays(ir::load(load.array, load.indices), site)) return std::nullopt;
  auto earlier = sites_.earlier_read(load, site);
  if (!earlier) earlier = Sites::EarlierRead{{site, ir::load(load.array, load.indices)}, {}};
  const bool usable = stays(earlier->read.load, earlier->read.site) &&
                      can_index(extents_.dimensions(site_of(earlier->read.site).loops));
  return usable ? earlier : std::nullopt;
}

/// Where an element that is overwritten would be saved.
std::vector<ValuePlan::Storage> TapePlan::storage_of(const ir::Load& load, const Stmt& site) {
  const auto& flow = writers_of(load, site);
  if (!flow) {
    const Expr read = ir::load(load.array, load.indices);
    if (const auto earlier = reader_of(load, site)) {
      const SavePlace place = place_to_save(earlier->read.load, earlier->read.site);
      const Stmt whole = place_of_copy(*earlier->read.load.as<ir::Load>(), earlier->read.site);
      return {{.reader = earlier->read.site, .read = earlier->read.load, .loops = place.loops, .whole = whole}};
    }
    const SavePlace place = place_to_save(read, site);
    return {{.reader = place.at, .read = read, .loops = place.loops, .whole = place_of_copy(load, site)}};
  }
  const int reader = site_of(site).model_index;
  const std::vector<Stmt>& loops = model_->statements[reader].loops;
  std::vector<ValuePlan::Storage> result;
  for (const poly::Source& source : flow->sources) {
    ValuePlan::Storage& place = result.emplace_back();
    if (&source != &flow->sources.back()) {
      const std::size_t deciding =
          ask(*model_, loops.size(), [&] { return poly::deciding_loops(*model_, reader, source); });
      place.choosing = {loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(deciding)};
    }
    if (source.writer < 0) {
      place.initial = load.array;
      continue;
    }
    const Stmt& writer = model_->statements[source.writer].stmt;
    if (!copied(writer)) place.writer = writer;
  }
  return result;
}

/// What a statement stores, where that is little more than a read of what is still there.
std::optional<Expr> TapePlan::copied(const Stmt& writer) {
  int budget = longest_copy;
  const auto* assign = writer.as<ir::Assign>();
  return assign ? without_tape(assign->value, writer, budget) : std::nullopt;
}

std::optional<Expr> TapePlan::from_writers(const ir::Load& load, const Stmt& site, const Expr& guard) {
  const Site& where = site_of(site);
  const auto& flow = writers_of(load, site);
  if (!flow) return std::nullopt;

  try {
    model_->context->restart_budget();
    const poly::Statement& reader = model_->statements[where.model_index];
    std::vector<Expr> dims;
    for (const ir::Symbol& i : reader.iterators) dims.push_back(ir::var(i));
    Expr result;
    for (auto source = flow->sources.rbegin(); source != flow->sources.rend(); ++source) {
      const auto value = value_from(*source, load, site, guard);
      if (!value) return std::nullopt;
      if (!result) result = *value;
      else
        result = ir::select(poly::to_condition(source->domain, dims, *model_->context, reader.domain), *value, result);
    }
    return result;
  } catch (const poly::BudgetError&) {
    return std::nullopt;
  }
}

Array TapePlan::initial_contents(const Array& array) {
  for (const auto& [of, tape] : additions_.initial)
    if (of == array) return tape;
  const Array tape = new_tape(array->name + "_initial", array->type, {}, array->shape, array->location);
  additions_.initial.push_back({array, tape});
  return tape;
}

/// The value of one piece of a read's dataflow, and the forward statement that saves it.
std::optional<Expr> TapePlan::value_from(const poly::Source& source, const ir::Load& load, const Stmt& site,
                                         const Expr& guard) {
  const Expr read = ir::load(load.array, load.indices);
  if (source.writer < 0) {
    const Array tape = initial_contents(load.array);
    const Expr value = ir::load(tape, provide_all(load.indices, site, guard), load.location);
    note(read, site->location, "tape (initial contents)", value, tape,
         "overwritten later; some reads see the initial contents");
    return value;
  }
  const poly::Statement& writer = model_->statements[source.writer];
  const poly::Statement& reader = model_->statements[site_of(site).model_index];
  std::vector<Expr> dims;
  for (const ir::Symbol& i : reader.iterators) dims.push_back(ir::var(i));
  const std::vector<Expr> instance = poly::guarded(*model_->context, [&] {
    const isl::multi_pw_aff function(source.instance.as_pw_multi_aff());
    return poly::to_exprs(function, dims, *model_->context, source.domain);
  });
  ir::Substitution at;
  for (std::size_t k = 0; k < writer.iterators.size(); ++k) at[writer.iterators[k]] = instance[k];
  if (const auto same = copied(writer.stmt)) {
    note(read, site->location, "recomputed", {}, {},
         "some instances read what line " + writer.stmt->location.str() + " copied: " + ir::print(*same));
    return ir::substitute(*same, at);
  }
  Array& tape = writer_tapes_[writer.stmt.get()];
  if (!tape) {
    tape = new_writer_tape(writer.stmt);
    const Expr written = ir::load(*stored_array(writer.stmt), stored_indices(writer.stmt));
    additions_.after[writer.stmt.get()].push_back(
        ir::assign(tape, writer_tape_index(writer.stmt), written, writer.stmt->location));
  }
  const Expr value = ir::load(tape, writer_tape_index(writer.stmt, at), load.location);
  note(read, site->location, "tape (writer's index)", value, tape,
       "overwritten later; written by line " + writer.stmt->location.str());
  return value;
}

/// From the tape of a read that other reads share.
Expr TapePlan::from_tape_of(const Sites::EarlierRead& first, const std::string& name) {
  const Stmt& site = first.read.site;
  auto& tapes = early_tapes_[site.get()];
  auto known = std::find_if(tapes.begin(), tapes.end(),
                            [&](const auto& entry) { return ir::equal(entry.first, first.read.load); });
  if (known == tapes.end()) {
    const Expr saved = save_at(place_to_save(first.read.load, site), first.read.load, name, {});
    known = tapes.insert(known, {first.read.load, saved});
  }
  return ir::substitute(known->second, first.iterators);
}

/// The forward sweep goes through the loops and branches of a custom gradient's rule in order to save what is read
/// there, so these may not depend on what only the backward sweep knows.
void TapePlan::refuse_in_rule(const Expr& value, const Expr& guard, const Stmt& site) const {
  if (!sites_.rule_around(site)) return;
  const auto is_known = [&](const Expr& e) { return sites_.is_known_before_rules(e); };
  bool possible = is_known(value) && is_known(guard);
  if (const auto* loop = site.as<ir::While>()) possible &= !ir::mentions(value, loop->iterator);
  bool inside = false;
  for (const Stmt& scope : site_of(site).scopes) {
    inside |= scope.kind() == ir::Kind::CustomGradient;
    if (!inside) continue;
    possible &= scope.kind() != ir::Kind::While;
    if (const auto* loop = scope.as<ir::For>()) possible &= is_known(loop->lower) && is_known(loop->upper);
    if (const auto* branch = scope.as<ir::If>()) possible &= is_known(branch->condition);
  }
  if (possible) return;
  const auto* load = value.as<ir::Load>();
  throw DifferentiationError(
      {.code = ErrorCode::NotDifferentiable,
       .message =
           "the adjoint of a custom gradient reads a value that is overwritten later, where only the backward run "
           "knows whether and which: it cannot be saved",
       .program = prepared_.program.name,
       .array = load ? load->array->name : "",
       .hint = "copy what is needed to a local of the adjoint, in front of the loop or branch",
       .location = site->location});
}

Expr TapePlan::from_reader(const Expr& value, const std::string& name, const Stmt& reader, const Expr& guard,
                           const std::string& why) {
  if (const auto* load = value.as<ir::Load>()) {
    if (const auto copied = from_copy(*load, reader, guard, why)) return *copied;
    const auto earlier = reader_of(*load, reader);
    if (earlier && (!guard || !earlier->read.site.same_as(reader))) {
      const Expr result = from_tape_of(*earlier, name);
      note(value, reader->location, "tape (reader's index)", result, result.as<ir::Load>()->array, why);
      return result;
    }
  }
  const SavePlace place = guard ? SavePlace{reader, {}, site_of(reader).loops} : place_to_save(value, reader);
  const bool chosen =
      std::any_of(place.inside.begin(), place.inside.end(), [](const LoopInside& l) { return l.chooses; });
  std::vector<Stmt> within;
  for (const LoopInside& inside : place.inside) within.push_back(inside.loop);
  if (!chosen)
    if (const Expr* known = already_supplied(value, place.at, guard, within)) return *known;
  refuse_in_rule(value, guard, place.at);
  const Expr result = save_at(place, value, name, guard);
  if (!chosen && !place.at.same_as(reader)) supplied_[place.at.get()].push_back({value, {}, result, within});
  note(value, reader->location, "tape (reader's index)", result, result.as<ir::Load>()->array, why);
  return result;
}

bool TapePlan::can_index(const std::vector<Stmt>& loops) const {
  return std::all_of(loops.begin(), loops.end(), [&](const Stmt& loop) { return extents_.knows(loop); });
}

std::vector<Expr> TapePlan::tape_index(const std::vector<Stmt>& loops, const ir::Substitution& at) const {
  std::vector<Expr> index;
  for (const Stmt& loop : loops)
    index.push_back(ir::substitute(ir::var(iterator_of(loop)) - extents_.of(loop).origin, at));
  return index;
}

Array TapePlan::new_tape(const std::string& name, ScalarType type, const std::vector<Stmt>& loops,
                         const std::vector<Expr>& inner_shape, SourceLocation where) {
  std::vector<Expr> shape;
  for (const Stmt& loop : loops) shape.push_back(extents_.of(loop).extent);
  shape.insert(shape.end(), inner_shape.begin(), inner_shape.end());
  std::string unique = name;
  for (int k = 1; !names_.insert(unique).second; ++k) unique = name + "_" + std::to_string(k);
  tape_.push_back(ir::make_array(unique, type, std::move(shape), ArrayRole::Tape, where));
  return tape_.back();
}

void TapePlan::note(const Expr& value, SourceLocation where, const std::string& decision, const Expr& storage,
                    const Array& tape, const std::string& reason) {
  const std::string elements = tape ? ir::print(ir::element_count(tape)) : "";
  report_.tape.push_back({ir::print(value), where, decision, storage ? ir::print(storage) : "", elements, reason});
}

}  // namespace loopgrad::tape
