// A line of progress on standard error, when that is a terminal.
#pragma once

#include <string>

namespace loopgrad::tools {

/// Shows `[#####     ] 50 % text`; removes the line when it goes out of scope. Silent when standard error is no
/// terminal.
class Progress {
 public:
  explicit Progress(double total) : total_(total) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }
  /// `done` of `total` is finished and `text` is going on now.
  void show(double done, const std::string& text);
  /// As `show`, one further than the last time.
  void next(const std::string& text);
  /// Removes the line, so that something else can be printed.
  void clear();

 private:
  double total_;
  double done_ = -1;
  bool shown_ = false;
};

}  // namespace loopgrad::tools
