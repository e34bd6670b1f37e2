#include "backends/interpreter/elements.h"

#include <fmt/format.h>

namespace loopgrad::backend::interpreter {
namespace {

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::Read: return "reads";
    case AccessKind::Write: return "writes";
    case AccessKind::AtomicReduce: return "atomically updates";
  }
  return "?";
}

}  // namespace

void Place::bad_index(std::size_t dimension, std::int64_t index) const {
  fail(site, ErrorCode::BadIndex,
       fmt::format("index {} is outside of [0, {}), dimension {} of {}", index, slot.shape[dimension], dimension,
                   slot.decl->name),
       "check the bounds of the loops and the contents of index arrays");
}

void Place::check_distinct(std::int64_t offset, std::int64_t value) const {
  const auto [seen, is_new] = slot.element_of->try_emplace(value, offset);
  if (is_new || seen->second == offset) return;
  fail(site, ErrorCode::BadFact,
       fmt::format("is not distinct: {} = {} and {} = {}", slot.element(seen->second), value, slot.element(offset),
                   value),
       "this is a mistake in loopgrad: please report it");
}

bool Place::has_value(std::int64_t offset) const { return slot.shadow->initialised(slot.shadow_offset + offset); }

Origin Place::origin(std::int64_t offset) const {
  return slot.copied_from.slot ? slot.copied_from : Origin{&slot, offset, &site};
}

void Place::check_initialised(std::int64_t offset) const {
  if (has_value(offset)) return;
  const Origin read = origin(offset);
  fail(*read.site, ErrorCode::UninitialisedRead,
       fmt::format("{} is read before it is written", read.slot->element(read.offset)),
       parallel.frames.empty() ? "write the element first"
                               : "write the element first, in this iteration or before the parallel loop");
}

void Place::check_access(std::int64_t offset, AccessKind kind, ir::ReduceOp op) const {
  const auto conflict = slot.shadow->access(slot.shadow_offset + offset, kind, op, site, parallel);
  if (!conflict) return;
  const SourceLocation other = conflict->other_site->location;
  const std::string where = other.known() ? fmt::format(" (line {})", other.str()) : "";
  if (conflict->of_threads) {
    const auto who = [](std::int64_t thread) {
      return thread == all_threads ? std::string("every thread") : fmt::format("thread {}", thread);
    };
    fail(site, ErrorCode::Race,
         fmt::format("{} {} {}, {} {} it{}, and no barrier is between them;", who(conflict->this_iteration), verb(kind),
                     slot.element(offset), who(conflict->other_iteration), verb(conflict->other_kind), where),
         "put a barrier between them", conflict->loop);
  }
  fail(site, ErrorCode::Race,
       fmt::format("{0} = {1} {2} {3}, {0} = {4} {5} it{6}, though the loop is parallel;", conflict->loop->name,
                   conflict->this_iteration, verb(kind), slot.element(offset), conflict->other_iteration,
                   verb(conflict->other_kind), where),
       "run the loop in order, or give each iteration elements of its own", conflict->loop);
}

void Place::check_read(std::int64_t offset) const {
  check_access(offset, AccessKind::Read, {});
  check_initialised(offset);
}

void Place::check_write(std::int64_t offset) const {
  check_access(offset, AccessKind::Write, {});
  slot.shadow->set_initialised(slot.shadow_offset + offset);
}

bool Place::check_copy(const Place& from, std::int64_t offset_from, std::int64_t offset) const {
  from.check_access(offset_from, AccessKind::Read, {});
  check_access(offset, AccessKind::Write, {});
  if (!from.has_value(offset_from)) {
    const Origin read = from.origin(offset_from);
    if (read.slot == &slot && read.offset == offset && !has_value(offset)) return false;
    if (slot.decl->role == ir::ArrayRole::Local && slot.shape.empty()) {
      slot.copied_from = read;
      slot.shadow->clear(slot.shadow_offset + offset);
      return false;
    }
  }
  from.check_initialised(offset_from);
  slot.shadow->set_initialised(slot.shadow_offset + offset);
  return true;
}

bool Place::check_reduce(std::int64_t offset, ir::ReduceOp op, bool atomic, bool adds_identity) const {
  if (atomic) {
    check_access(offset, AccessKind::AtomicReduce, op);
  } else {
    check_access(offset, AccessKind::Read, {});
    check_access(offset, AccessKind::Write, {});
  }
  if (adds_identity && !has_value(offset)) return false;
  check_initialised(offset);
  return true;
}

}  // namespace loopgrad::backend::interpreter
