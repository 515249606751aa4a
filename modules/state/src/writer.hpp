// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tw {

/// A thread that does one job after the other. It touches no MPI and takes no signals.
class Writer {
 public:
  Writer();
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Begins `job`, once the one before it is done. What it throws becomes failure().
  void run(std::function<void()> job);
  bool idle();
  /// Whether it is idle after at most `timeout`.
  bool wait_for(std::chrono::milliseconds timeout);
  /// What the last job threw, or "". Only while idle.
  std::string failure();
  /// Ends the job in flight, early where it looks at cancelled(), and the thread. Later jobs fail at once.
  void stop();
  const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  std::string failure_;
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
};

}  // namespace tw
