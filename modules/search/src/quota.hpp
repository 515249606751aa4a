// SPDX-License-Identifier: Apache-2.0
// How workers share a number of evaluations without a coordinator. Pure.
#pragma once
#include <cstdint>
#include <optional>

namespace tw::search {

/// One worker's part of the remaining evaluations. When at most one is left, the worker asks the other workers in turn for half of theirs, so that
/// the answer arrives in time. The parts of all workers and the evaluations that began always add up to the total, so exactly the total begins.
class Quota {
 public:
  /// @param total total over all workers, divided evenly. @param own additional evaluations that only this worker begins
  Quota(int64_t total, int worker, int workers, int64_t own = 0)
      : worker_(worker), workers_(workers), left_(own + total / workers + (worker < total % workers ? 1 : 0)), own_(own), next_(worker) {}

  int64_t left() const noexcept { return left_; }
  /// Begins an evaluation, but not one of its own. @return false if none is left
  bool take() noexcept {
    if (left_ == own_) return false;
    --left_;
    return true;
  }
  /// Begins one of its own evaluations. At least one must be left.
  void take_own() noexcept {
    --left_;
    --own_;
    refusals_ = 0;  // earlier refusals came when it still had evaluations
  }
  /// The worker to ask now, if any. Returns none until the answer has arrived.
  std::optional<int> ask() noexcept {
    if (asked_ || left_ - own_ > 1 || refusals_ >= workers_ - 1) return std::nullopt;
    do next_ = (next_ + 1) % workers_;
    while (next_ == worker_);
    asked_ = true;
    return next_;
  }
  void answer(int64_t given) noexcept {
    asked_ = false;
    left_ += given;
    refusals_ = given > 0 ? 0 : refusals_ + 1;
  }
  /// Returns the number of evaluations for a worker that asks, and removes them from this part.
  int64_t give() noexcept {
    const int64_t given = (left_ - own_) / 2;
    left_ -= given;
    return given;
  }
  /// Whether nothing is left, and all other workers have refused since this worker last got any.
  bool is_over() const noexcept { return left_ == 0 && !asked_ && refusals_ >= workers_ - 1; }

 private:
  int worker_;
  int workers_;
  int64_t left_;  // including `own_`
  int64_t own_;
  int next_;
  bool asked_ = false;
  int refusals_ = 0;
};

}  // namespace tw::search
