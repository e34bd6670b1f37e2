#include "tools/support/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace loopgrad::tools {
namespace {

constexpr int kWidth = 30;

}  // namespace

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::show(double done, const std::string& text) {
  done_ = done;
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (!terminal) return;
  shown_ = true;
  double share = total_ > 0 ? std::clamp(done / total_, 0.0, 1.0) : 1.0;
  int filled = static_cast<int>(share * kWidth);
  std::string bar = std::string(static_cast<std::size_t>(filled), '#');
  std::fprintf(stderr, "\r\033[K[%-*s] %3.0f %% %s", kWidth, bar.c_str(), 100 * share, text.c_str());
  std::fflush(stderr);
}

void Progress::next(const std::string& text) { show(done_ + 1, text); }

}  // namespace loopgrad::tools
