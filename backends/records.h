// What a compiled program has left out because it would have been out of range, and the error that this is.
#pragma once

#include "backends/interface/memory.h"
#include "backends/runtime/binding.h"
#include "transforms/bounds/bound_accesses.h"

#include <memory>
#include <mutex>

namespace loopgrad::backend {

/// Throws RuntimeError(BadIndex) for what has been recorded; `what_now` says what became of the access.
[[noreturn]] void throw_out_of_range(const transforms::RecordedSite& site, std::int64_t value, const SizeValues& sizes,
                                     const std::string& program, const char* what_now);

/// The memory of the records of one program.
class Records {
 public:
  /// `memory`: where the program runs; must outlive it.
  Records(std::vector<transforms::Record> records, const Memory& memory, std::string program);

  /// To be held from before a run until `check` is over: two runs must not record in one place.
  std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }
  /// The same records in memory of their own.
  std::shared_ptr<Records> independent() const {
    return std::make_shared<Records>(records_, memory_of_runs_, program_);
  }

  bool holds(const ir::Array& array) const { return memory_.count(array) > 0; }
  View view_of(const ir::Array& array) const { return memory_.at(array).array.view; }
  /// Gives arrays without elements memory of some: an index that was brought into range is 0 there.
  void give_elements(std::vector<View>& arrays);
  /// After a run that failed by itself.
  void forget();
  /// After a run: throws RuntimeError(BadIndex) when something has been recorded, which is forgotten then. On a device
  /// it waits for the run, except while the stream is captured: what runs of the graph record is found after the next
  /// run outside of it.
  void check(const SizeValues& sizes, void* stream);

 private:
  struct Kept {
    OwnedArray array;
    std::vector<std::int64_t> seen;  // what is on the host
  };
  void forget(Kept& memory) const;

  const std::vector<transforms::Record> records_;
  const Memory& memory_of_runs_;
  const std::string program_;
  std::map<ir::Array, Kept> memory_;
  OwnedArray spare_;  // for arrays without elements
  std::mutex mutex_;
};

}  // namespace loopgrad::backend
