// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tw {

/// A thread that runs jobs in order. It uses no MPI and receives no signals.
class Writer {
 public:
  Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Starts `job` after the previous one. An exception becomes failure().
  void run(std::function<void()> job);
  bool idle();
  /// @return whether it is idle, after at most `timeout`.
  bool wait_for(std::chrono::milliseconds timeout);
  /// Error of the last job, or "". Call it only while idle.
  std::string failure();
  /// Ends the thread and the current job, early if the job checks cancelled(). Later jobs fail at once.
  void stop();
  std::stop_token cancelled() const noexcept { return thread_.get_stop_token(); }

 private:
  void work(const std::stop_token& cancelled);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> job_;
  std::string failure_;
  std::jthread thread_;  // last member: it uses all of the above, and is joined first
};

}  // namespace tw
