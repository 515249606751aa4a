// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>

namespace tw {

using Seconds = std::chrono::duration<double>;

/// Wall time since construction or the last `restart()`.
class Stopwatch {
 public:
  Seconds elapsed() const noexcept { return std::chrono::steady_clock::now() - start_; }
  /// Returns the elapsed time and restarts.
  Seconds restart() noexcept {
    const auto now = std::chrono::steady_clock::now();
    const Seconds passed = now - start_;
    start_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tw
