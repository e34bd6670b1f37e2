#include "backends/interpreter/shadow.h"

#include <algorithm>

namespace loopgrad::backend::interpreter {

void Shadow::Touch::add(std::int64_t i, const Site& site) {
  if (!first_site) {
    first = i;
    first_site = &site;
  } else if (!second_site && first != i) {
    second = i;
    second_site = &site;
  }
}

void Shadow::reset(std::int64_t elements, std::size_t private_levels, std::size_t shared) {
  initialised_.assign(static_cast<std::size_t>(elements), 0);
  private_levels_ = private_levels;
  shared_ = shared;
  // Logs of loops that are over are told by their instance; only a changed extent makes them useless.
  for (auto& level : logs_) {
    if (level.size() != initialised_.size()) level.clear();
  }
}

void Shadow::set_initialised(std::int64_t begin, std::int64_t end) {
  std::fill(initialised_.begin() + begin, initialised_.begin() + end, std::uint8_t{1});
}

std::optional<Conflict> Shadow::access(std::int64_t element, AccessKind kind, ir::ReduceOp op, const Site& site,
                                       const ParallelStack& parallel) {
  for (std::size_t level = std::min(private_levels_, shared_); level < parallel.frames.size(); ++level) {
    if (level < private_levels_ && level != shared_) continue;
    if (logs_.size() <= level) logs_.resize(level + 1);
    if (logs_[level].empty()) logs_[level].resize(initialised_.size());
    const ParallelFrame& frame = parallel.frames[level];
    Log& log = logs_[level][static_cast<std::size_t>(element)];
    if (log.instance != frame.instance) log = Log{.instance = frame.instance};
    if (auto conflict = add(log, kind, op, site, frame)) return conflict;
  }
  return std::nullopt;
}

std::optional<Conflict> Shadow::add(Log& log, AccessKind kind, ir::ReduceOp op, const Site& site,
                                    const ParallelFrame& frame) {
  const std::int64_t i = frame.iteration;
  const auto conflict = [&](const Touch& touch, AccessKind other_kind) {
    const bool by_first = touch.first != i;
    return Conflict{frame.loop,
                    i,
                    by_first ? touch.first : touch.second,
                    other_kind,
                    by_first ? touch.first_site : touch.second_site,
                    frame.of_threads};
  };
  const bool mixes_ops = kind == AccessKind::AtomicReduce && log.atomic.first_site && log.op != op;
  if (log.write.by_other_than(i)) return conflict(log.write, AccessKind::Write);
  if (kind != AccessKind::Read && log.read.by_other_than(i)) return conflict(log.read, AccessKind::Read);
  if ((kind != AccessKind::AtomicReduce || mixes_ops) && log.atomic.by_other_than(i)) {
    return conflict(log.atomic, AccessKind::AtomicReduce);
  }
  switch (kind) {
    case AccessKind::Read: log.read.add(i, site); break;
    case AccessKind::Write: log.write.add(i, site); break;
    case AccessKind::AtomicReduce:
      // Two ops by one iteration: no op of another iteration commutes with both, just as with a write.
      if (mixes_ops) log.write.add(i, site);
      else log.op = op;
      log.atomic.add(i, site);
      break;
  }
  return std::nullopt;
}

}  // namespace loopgrad::backend::interpreter
