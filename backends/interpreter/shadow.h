// What checked execution remembers about every element of an array: whether it has been written, and which iterations
// of the parallel loops that are running have touched it.
#pragma once

#include "dsl/ir/stmt.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace loopgrad::backend::interpreter {

struct LoopSlot;
struct Site;

/// A parallel loop that is running and the iteration it is at. `instance` numbers entries into parallel loops, so that
/// what was logged for an earlier entry is known to be over.
struct ParallelFrame {
  std::int64_t instance = 0;
  std::int64_t iteration = 0;
  const LoopSlot* loop = nullptr;
  bool of_threads = false;  // of a block that has barriers
};

/// The iteration of a block of threads that wait for each other at barriers only, outside of its loops over threads:
/// what happens there all of them do. (That some may be ahead of others there goes unnoticed.) Its frame is the
/// threads': inside of their loops the iteration is the number of the thread, and each barrier begins another instance.
inline constexpr std::int64_t all_threads = -1;

/// The parallel loops that are running, outermost first.
struct ParallelStack {
  std::vector<ParallelFrame> frames;
  std::int64_t entries = 0;
  std::size_t block = 0;  // which of them is the threads' of a block that has barriers
};

enum class AccessKind : std::uint8_t { Read, Write, AtomicReduce };

/// Two iterations of one parallel loop that touch one element without being allowed to.
struct Conflict {
  const LoopSlot* loop = nullptr;
  std::int64_t this_iteration = 0, other_iteration = 0;
  AccessKind other_kind = AccessKind::Read;
  const Site* other_site = nullptr;
  bool of_threads = false;  // of a block that has barriers, by their numbers
};

class Shadow {
 public:
  static constexpr std::size_t no_level = static_cast<std::size_t>(-1);

  /// For `elements` elements, none of them written. The iterations of the outermost `private_levels` running parallel
  /// loops have such memory each (a local array allocated in their bodies); those of other loops share it, and of the
  /// loop at level `shared`.
  void reset(std::int64_t elements, std::size_t private_levels, std::size_t shared = no_level);

  bool initialised(std::int64_t element) const { return initialised_[static_cast<std::size_t>(element)] != 0; }
  void set_initialised(std::int64_t element) { initialised_[static_cast<std::size_t>(element)] = 1; }
  void set_initialised(std::int64_t begin, std::int64_t end);
  /// The element no longer has a value.
  void clear(std::int64_t element) { initialised_[static_cast<std::size_t>(element)] = 0; }

  /// Logs an access for every running parallel loop that shares the memory. Returns the first conflict, outermost loop
  /// first. `op` counts for AtomicReduce only: those of one op do not conflict.
  std::optional<Conflict> access(std::int64_t element, AccessKind kind, ir::ReduceOp op, const Site& site,
                                 const ParallelStack& parallel);

 private:
  /// The first two iterations that made accesses of one kind: enough to know whether one other than i did.
  struct Touch {
    std::int64_t first = 0, second = 0;
    const Site *first_site = nullptr, *second_site = nullptr;  // null when there was none
    bool by_other_than(std::int64_t i) const { return first_site && (first != i || second_site); }
    void add(std::int64_t i, const Site& site);
  };
  /// All accesses to one element in one entry into one parallel loop.
  struct Log {
    std::int64_t instance = 0;
    Touch read = {}, write = {}, atomic = {};
    ir::ReduceOp op = ir::ReduceOp::Add;  // of `atomic`
  };
  static std::optional<Conflict> add(Log& log, AccessKind kind, ir::ReduceOp op, const Site& site,
                                     const ParallelFrame& frame);

  std::vector<std::uint8_t> initialised_;
  std::vector<std::vector<Log>> logs_;  // by level of the parallel stack, then by element; made on first use
  std::size_t private_levels_ = 0, shared_ = no_level;
};

}  // namespace loopgrad::backend::interpreter
