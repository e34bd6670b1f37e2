#include "transforms/map/gpu/keep_rows.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

bool has_loops(const Stmt& body) {
  bool found = false;
  ir::walk_stmts(body, [&](const Stmt& s) { found |= s.kind() == ir::Kind::For || s.kind() == ir::Kind::While; });
  return found;
}

/// One use of an array in a region.
struct RowUse {
  const ir::For* loop = nullptr;  // the row loop around it; null: none
  std::vector<Expr> indices;      // with `canonical` for the iterator of that loop
  bool write = false, assign = false, atomic = false;
  bool always = false;    // in every iteration of its loop
  bool top = false;       // its loop is executed whenever the region is
  bool repeated = false;  // its loop is inside another one of the region
};

using Uses = std::map<ir::Array, std::vector<RowUse>>;

/// All uses of arrays in a region, in order of execution.
class UseFinder {
 public:
  UseFinder(const std::set<const ir::StmtNode*>& row_loops, ir::Symbol canonical)
      : row_loops_(row_loops), canonical_(std::move(canonical)) {}

  Uses uses;
  std::set<ir::Array> locals;
  std::set<ir::Symbol> bound;

  void visit(const Stmt& s) {
    if (!s) return;
    if (const auto* n = s.as<ir::Block>()) {
      for (const Stmt& child : n->body) visit(child);
    } else if (const auto* local = s.as<ir::Allocate>()) {
      locals.insert(local->array);
      visit(local->body);
    } else if (const auto* loop = s.as<ir::For>()) {
      visit_loop(s, *loop);
    } else if (const auto* branch = s.as<ir::If>()) {
      visit(branch->condition, state_.always);
      const State before = state_;
      state_.always = false;
      if (!loop_) state_.top = false;
      visit(branch->then_body);
      visit(branch->else_body);
      state_ = before;
    } else if (const auto* assign = s.as<ir::Assign>()) {
      visit(assign->value, state_.always);
      for (const Expr& index : assign->indices) visit(index, state_.always);
      note(assign->array, assign->indices, use_of(true, true, false));
    } else if (const auto* sum = s.as<ir::Reduce>()) {
      visit(sum->value, state_.always);
      for (const Expr& index : sum->indices) visit(index, state_.always);
      note(sum->array, sum->indices, use_of(true, false, sum->atomic));
    } else {
      ir::walk(
          s, [](const Stmt&) {}, [&](const Expr& e) { note_load(e, false); });
      ir::walk_stmts(s, [&](const Stmt& child) {
        if (const auto* trips = child.as<ir::While>()) bound.insert(trips->iterator);
        if (const auto* inner = child.as<ir::For>()) bound.insert(inner->iterator);
        if (const auto* own = child.as<ir::Allocate>()) locals.insert(own->array);
        for_each_store(child, [&](const ir::Array& array, const std::vector<Expr>&) {
          uses[array].push_back(use_of(true, false, false));
        });
      });
    }
  }

 private:
  struct State {
    bool top = true, always = true, repeated = false;
  };

  static RowUse use_of(bool write, bool assign, bool atomic) {
    RowUse use;
    use.write = write;
    use.assign = assign;
    use.atomic = atomic;
    return use;
  }

  void visit_loop(const Stmt& s, const ir::For& loop) {
    visit(loop.lower, false);
    visit(loop.upper, false);
    bound.insert(loop.iterator);
    const State before = state_;
    if (row_loops_.count(s.get())) {
      loop_ = &loop;
      state_.always = true;
      visit(loop.body);
      loop_ = nullptr;
    } else {
      state_ = {false, true, true};
      visit(loop.body);
    }
    state_ = before;
  }

  void visit(const Expr& e, bool always) {
    if (!e) return;
    note_load(e, always);
    if (const auto* n = e.as<ir::Select>()) {
      visit(n->condition, always);
      visit(n->a, false);
      visit(n->b, false);
      return;
    }
    const auto* n = e.as<ir::Binary>();
    const bool shortcut = n && (n->op == ir::BinaryOp::And || n->op == ir::BinaryOp::Or);
    bool first = true;
    ir::for_each_child(e, ir::overloaded{[&](const Expr& child) {
                                           visit(child, always && (first || !shortcut));
                                           first = false;
                                         },
                                         [](const Stmt&) {}});
  }

  void note_load(const Expr& e, bool always) {
    const auto* load = e.as<ir::Load>();
    if (!load) return;
    const bool before = state_.always;
    state_.always = always;
    note(load->array, load->indices, use_of(false, false, false));
    state_.always = before;
  }

  void note(const ir::Array& array, const std::vector<Expr>& indices, RowUse use) {
    use.loop = loop_;
    use.always = loop_ && state_.always;
    use.top = loop_ && state_.top;
    use.repeated = state_.repeated;
    for (const Expr& index : indices)
      use.indices.push_back(loop_ ? ir::substitute(index, {{loop_->iterator, ir::var(canonical_)}}) : index);
    uses[array].push_back(std::move(use));
  }

  const std::set<const ir::StmtNode*>& row_loops_;
  const ir::Symbol canonical_;
  const ir::For* loop_ = nullptr;
  State state_;
};

/// An array to keep over a region, and how.
struct Keep {
  ir::Array array, row;
  std::vector<Expr> indices;  // with `canonical`
  std::int64_t lower = 0;
  bool load = false, store = false;
};

class Keeper {
 public:
  Keeper(const Analysed& program, RowLoops rows) : program_(program), rows_(std::move(rows)) {
    aliases_ = ir::aliased_arrays(program);
  }

  bool changed = false;

  Stmt run(const Stmt& body) {
    ir::walk_stmts(body, [&](const Stmt& s) {
      if (rows_.contains(program_, s)) row_loops_.insert(s.get());
    });
    return region(body);
  }

 private:
  /// `s` with what is worth it kept over all of it, or over loops inside.
  Stmt region(const Stmt& s) {
    UseFinder finder(row_loops_, canonical_);
    finder.visit(s);
    std::vector<Keep> keeps;
    std::map<ir::Array, const Keep*> keep_of;
    for (const auto& [array, uses] : finder.uses)
      if (auto keep = plan(array, uses, finder, false)) keeps.push_back(*keep);
    // All loads of a row together, before the first sum has to wait for one of them.
    if (!keeps.empty())
      for (const auto& [array, uses] : finder.uses)
        if (auto keep = plan(array, uses, finder, true)) keeps.push_back(*keep);
    std::sort(keeps.begin(), keeps.end(), [](const Keep& a, const Keep& b) { return a.array->id < b.array->id; });
    for (const Keep& keep : keeps) keep_of[keep.array] = &keep;
    for (const Keep& keep : keeps) taken_.insert(keep.array);
    // The loops inside first: they are found by identity.
    Stmt inside = ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      const auto* loop = child.as<ir::For>();
      if (!loop || child.same_as(s)) return std::nullopt;
      if (row_loops_.count(child.get())) return child;
      return with_body(*loop, region(loop->body));
    });
    if (keeps.empty()) return inside;
    changed = true;
    return wrap(keeps, in_locals(inside, keep_of));
  }

  /// Whether to keep an array of which each element is used more than once, or, `once`, is only read once.
  std::optional<Keep> plan(const ir::Array& array, std::vector<RowUse> uses, const UseFinder& finder, bool once) const {
    if (taken_.count(array) || aliases_.count(array) || finder.locals.count(array) || array->shape.empty())
      return std::nullopt;
    const bool writes = std::any_of(uses.begin(), uses.end(), [](const RowUse& use) { return use.write; });
    // What is only read may be read elsewhere, too.
    if (!writes)
      uses.erase(std::remove_if(uses.begin(), uses.end(), [](const RowUse& u) { return !u.loop; }), uses.end());
    if (uses.empty()) return std::nullopt;
    const RowUse& first = uses.front();
    std::set<const ir::For*> loops;
    bool repeated = false;
    std::optional<std::int64_t> lower;
    for (const RowUse& use : uses) {
      if (!use.loop || use.atomic || !ir::equal(use.indices, first.indices)) return std::nullopt;
      loops.insert(use.loop);
      repeated |= use.repeated;
      const std::int64_t begin = *ir::as_int(use.loop->lower);
      lower = std::min(lower.value_or(begin), begin);
    }
    const bool used_once = loops.size() < 2 && !repeated;
    if (used_once != once || (once && writes)) return std::nullopt;
    if (!is_row(first.indices, finder)) return std::nullopt;
    if (!writes && is_same_everywhere(first.indices)) return std::nullopt;  // found in the nearest cache
    // Where it is certain that each of the elements exists, or gets a value.
    auto covers = [&](const RowUse& use) {
      return use.top && use.always && !use.repeated && *ir::as_int(use.loop->lower) == *lower;
    };
    if (std::none_of(uses.begin(), uses.end(), covers)) return std::nullopt;
    // Nothing is loaded where a first assignment gives each element a value: what conditions read before that, which
    // may not exist, is read in its place.
    const auto set = std::find_if(uses.begin(), uses.end(), [](const RowUse& u) { return u.write || u.always; });
    Keep keep{array, {}, first.indices, *lower, set == uses.end() || !set->assign || !covers(*set), writes};
    // A row that is loaded must be there before a condition decides what is stored first.
    const auto proof = std::find_if(uses.begin(), uses.end(), covers);
    if (keep.load && std::any_of(uses.begin(), proof, [](const RowUse& use) { return use.write; })) return std::nullopt;
    keep.row = ir::make_array(array->name + "_row", array->type, {rows_.length}, ir::ArrayRole::Local, array->location);
    return keep;
  }

  /// One index moves with the iterator, all else stands still in the region.
  bool is_row(const std::vector<Expr>& indices, const UseFinder& finder) const {
    int moving = 0;
    for (const Expr& index : indices) {
      if (has_load(index)) return false;
      bool fixed = true;
      for (const ir::Symbol& symbol : finder.bound) fixed &= !mentions(index, symbol);
      if (!fixed) return false;
      if (!mentions(index, canonical_)) continue;
      const auto step = coefficient_of(index, canonical_);
      if (!step || *step == 0) return false;
      ++moving;
    }
    return moving == 1;
  }

  bool is_same_everywhere(const std::vector<Expr>& indices) const {
    bool same = true;
    for (const Expr& index : indices)
      ir::walk(index, [&](const Expr& e) {
        const auto* v = e.as<ir::Var>();
        same &= !v || v->symbol == canonical_;
      });
    return same;
  }

  /// The arrays' elements replaced by those of the rows.
  Stmt in_locals(const Stmt& s, const std::map<ir::Array, const Keep*>& keep_of) {
    class Replacer final : public ir::Rewriter {
     public:
      Replacer(Keeper& keeper, const std::map<ir::Array, const Keep*>& keep_of) : keeper_(keeper), keep_of_(keep_of) {}
      using Rewriter::rewrite;
      Expr rewrite(const Expr& e) override {
        const auto* load = e.as<ir::Load>();
        const Keep* keep = load ? find(load->array) : nullptr;
        if (keep && !keep->load && !set_.count(load->array)) keep = nullptr;
        return keep ? ir::load(keep->row, {element()}, load->location) : rewrite_children(e);
      }
      Stmt rewrite(const Stmt& s) override {
        if (!keeper_.row_loops_.count(s.get())) return rewritten(s);
        row_ = s.as<ir::For>();
        Stmt result = rewritten(s);
        row_ = nullptr;
        keeper_.row_loops_.insert(result.get());
        keeper_.alive_.push_back(result);
        return result;
      }

     private:
      Stmt rewritten(const Stmt& s) {
        if (const auto* n = s.as<ir::Assign>(); n && find(n->array)) {
          const Expr value = rewrite(n->value);
          set_.insert(n->array);
          return ir::assign(find(n->array)->row, {element()}, value, n->location);
        }
        if (const auto* n = s.as<ir::Reduce>(); n && find(n->array))
          return ir::reduce_like(*n, find(n->array)->row, {element()}, rewrite(n->value));
        return rewrite_children(s);
      }
      const Keep* find(const ir::Array& array) const {
        const auto found = keep_of_.find(array);
        return found == keep_of_.end() || !row_ ? nullptr : found->second;
      }
      Expr element() const { return ir::var(row_->iterator); }

      Keeper& keeper_;
      const std::map<ir::Array, const Keep*>& keep_of_;
      const ir::For* row_ = nullptr;  // around
      std::set<ir::Array> set_;       // those that have been assigned
    };
    return Replacer(*this, keep_of).rewrite(s);
  }

  Stmt wrap(const std::vector<Keep>& keeps, Stmt s) const {
    std::vector<Stmt> before, after;
    for (const Keep& keep : keeps) {
      auto moves = [&](std::vector<Stmt>& list, bool load) {
        const ir::Symbol c = ir::make_symbol("c");
        std::vector<Expr> element;
        for (const Expr& index : keep.indices) element.push_back(ir::substitute(index, {{canonical_, ir::var(c)}}));
        const SourceLocation& where = keep.array->location;
        const Stmt move = load ? ir::assign(keep.row, {ir::var(c)}, ir::load(keep.array, element), where)
                               : ir::assign(keep.array, element, ir::load(keep.row, {ir::var(c)}), where);
        list.push_back(ir::for_loop(c, ir::int_const(keep.lower), rows_.length, move, ir::LoopMode::Parallel, where));
      };
      if (keep.load) moves(before, true);
      if (keep.store) moves(after, false);
    }
    before.push_back(std::move(s));
    before.insert(before.end(), after.begin(), after.end());
    Stmt all = ir::block(std::move(before));
    for (const Keep& keep : keeps) all = ir::allocate(keep.row, all, keep.row->location);
    return all;
  }

  const Analysed program_;
  const RowLoops rows_;
  const ir::Symbol canonical_ = ir::make_symbol("element");
  std::set<const ir::StmtNode*> row_loops_;
  std::vector<Stmt> alive_;  // those of them that were made here
  std::set<ir::Array> aliases_, taken_;
};

bool has_kept_locals(const Analysed& program, const Stmt& body, const RowLoops& rows) {
  bool found = false;
  ir::walk_stmts(body, [&](const Stmt& s) {
    const auto* local = s.as<ir::Allocate>();
    found |= local && is_kept(program, *local, rows);
  });
  return found;
}

}  // namespace

bool RowLoops::contains(const Analysed& program, const Stmt& s) const {
  const auto* loop = s.as<ir::For>();
  if (!loop || ir::as_int(loop->lower).value_or(-1) < 0 || !ir::equal(loop->upper, length)) return false;
  return !has_loops(loop->body) && shared_sums(program, s, scalars).has_value();
}

bool is_kept(const Analysed& program, const ir::Allocate& local, const RowLoops& rows) {
  if (local.array->shape.size() != 1 || !ir::equal(local.array->shape[0], rows.length)) return false;
  std::size_t inside = 0, all = 0;
  auto count = [&](const Stmt& s, const ir::Symbol* iterator, std::size_t& n) {
    auto note = [&](const ir::Array& array, const std::vector<Expr>& indices) {
      if (array != local.array) return;
      const auto* index = indices[0].as<ir::Var>();
      n += !iterator || (index && index->symbol == *iterator);
    };
    ir::walk(
        s, [&](const Stmt& child) { for_each_store(child, note); },
        [&](const Expr& e) {
          if (const auto* load = e.as<ir::Load>()) note(load->array, load->indices);
        });
  };
  count(local.body, nullptr, all);
  ir::walk_stmts(local.body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (loop && uses(loop->body, local.array) && rows.contains(program, s)) count(loop->body, &loop->iterator, inside);
  });
  return all > 0 && inside == all;
}

std::optional<KeptRows> keep_rows(const Analysed& program, const ParallelNest& nest) {
  if (!nest.body.same_as(nest.loops.back()->body)) return std::nullopt;  // guarded: not a part of the program
  RowLoops rows;
  std::vector<OwnElement> scalars;
  ir::walk_stmts(nest.body, [&](const Stmt& s) {
    const auto* local = s.as<ir::Allocate>();
    if (local && local->array->shape.empty()) scalars.push_back({local->array, {}});
  });
  ir::walk_stmts(nest.body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::For>();
    if (rows.length || !loop || ir::as_int(loop->upper) || !nest.fits(*loop)) return;
    const RowLoops candidate{loop->upper, scalars};
    bool inner = false;  // bounds by iterators inside
    ir::walk_stmts(nest.body, [&](const Stmt& other) {
      if (const auto* f = other.as<ir::For>()) inner |= mentions(loop->upper, f->iterator);
    });
    if (!inner && candidate.contains(program, s)) rows = candidate;
  });
  if (!rows.length) return std::nullopt;
  Keeper keeper(program, rows);
  const Stmt body = keeper.run(nest.body);
  KeptRows kept{ir::with_body(program, replace(program->body, nest.body, body)), body, rows};
  if (!keeper.changed && !has_kept_locals(program, body, rows)) return std::nullopt;
  return kept;
}

}  // namespace loopgrad::transforms
