// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

namespace tw {

namespace mpi {
struct Operation;
}

/// An operation in flight. Keeps its tensors alive; do not access them until completion (audited communicators detect changes). Move-only.
///
/// The destructor does not wait, throw or free anything: the operation continues with its tensors, and completes in later calls or when the
/// `Environment` ends. A failure that no wait has reported is logged, unless it is a RevokedError.
/// For tensors on a device, each wait() or successful test() makes the calling thread's current stream wait for the results, while the host
/// continues. Every wait yields the core, is monitored (see EnvironmentOptions::stall_warning), and ends with a RevokedError if the communicator is
/// revoked.
class [[nodiscard]] Work {
 public:
  /// An empty handle; counts as complete.
  Work() noexcept;
  explicit Work(std::shared_ptr<mpi::Operation> operation) noexcept;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// Advances all operations. @return whether this one is complete; may be called again. @throws the operation's error
  bool test();
  /// Returns when the operation is complete; may be called again. @throws the operation's error
  void wait();
  /// Like wait(), for waits that may last long while other ranks remain active. It calls `activity` repeatedly, and the times of stall_warning
  /// and stall_abort start again whenever `activity` returns a different number.
  void wait(const std::function<int64_t()>& activity);
  /// Like wait(); results on a device are then also complete for the host.
  void wait_on_host();
  /// Whether the operation is known to be complete. Advances nothing, and does not report failures.
  bool done() const noexcept;
  /// Like wait(), but returns false after `timeout`; the operation then continues. @throws the operation's error
  bool wait_for(std::chrono::nanoseconds timeout);

 private:
  std::shared_ptr<mpi::Operation> operation_;
};

/// Waits for all of `works`, even if some fail. @throws the error of the first of `works` that failed
template <class Works>
void wait_all(Works& works) {
  std::exception_ptr failure;
  for (Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tw
