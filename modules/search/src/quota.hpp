// SPDX-License-Identifier: Apache-2.0
// How workers share out a number of evaluations without anyone in charge. Pure.
#pragma once
#include <cstdint>
#include <optional>

namespace tw::search {

/// One worker's part of the evaluations that are left. Whoever comes to the end of it asks others, in turn, for half of theirs, one evaluation ahead,
/// so that the answer is there in time. What all have and had adds up to the whole, so that exactly this many are begun.
class Quota {
 public:
  /// @param total of all workers, shared out evenly. @param own further ones, which go to nobody else
  Quota(int64_t total, int worker, int workers, int64_t own = 0)
      : worker_(worker), workers_(workers), left_(own + total / workers + (worker < total % workers ? 1 : 0)), own_(own), next_(worker) {}

  int64_t left() const noexcept { return left_; }
  /// Begins an evaluation, but none of its own ones. @return whether there is one
  bool take() noexcept {
    if (left_ == own_) return false;
    --left_;
    return true;
  }
  /// Begins one of its own ones, of which there are some left.
  void take_own() noexcept {
    --left_;
    --own_;
    refusals_ = 0;  // from a time when it was not yet in need
  }
  /// Whom to ask now, if anyone: after that, no more until the answer has come.
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
  /// What another one that asks is given.
  int64_t give() noexcept {
    const int64_t given = (left_ - own_) / 2;
    left_ -= given;
    return given;
  }
  /// Nothing is left, and since this worker last had more than one, all others have said so too.
  bool is_over() const noexcept { return left_ == 0 && !asked_ && refusals_ >= workers_ - 1; }

 private:
  int worker_;
  int workers_;
  int64_t left_;  // own ones included
  int64_t own_;
  int next_;
  bool asked_ = false;
  int refusals_ = 0;
};

}  // namespace tw::search
