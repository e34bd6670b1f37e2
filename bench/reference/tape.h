// The naive tape: a stack of numbers per thread, as operator overloading and classic source transformation have it.
#pragma once

#include <omp.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace loopgrad::bench {

/// Grows as needed and keeps its memory. Popped in reverse order of pushing.
class alignas(64) Tape {
 public:
  void push(float value) {
    if (top_ == end_) grow();
    *top_++ = value;
  }
  float pop() { return *--top_; }

 private:
  [[gnu::noinline, gnu::cold]] void grow() {
    const std::ptrdiff_t size = top_ - data_.get(), capacity = 2 * size + (1 << 14);
    auto* larger = static_cast<float*>(std::realloc(data_.get(), sizeof(float) * static_cast<std::size_t>(capacity)));
    if (!larger) throw std::bad_alloc();
    static_cast<void>(data_.release());
    data_.reset(larger);
    top_ = larger + size;
    end_ = larger + capacity;
  }
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
  float *top_ = nullptr, *end_ = nullptr;
};

/// A tape per thread. What a thread pushes in one parallel region it pops in another.
class Tapes {
 public:
  Tapes() : tapes_(static_cast<std::size_t>(omp_get_max_threads())) {}
  Tape& mine() { return tapes_[static_cast<std::size_t>(omp_get_thread_num())]; }

 private:
  std::vector<Tape> tapes_;
};

}  // namespace loopgrad::bench
