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

/// An operation in flight. It keeps its tensors alive; leave them alone until completion (checked in audit builds). Move-only.
///
/// Dropping it neither waits, throws nor frees: the operation goes on with its tensors, completed by later calls or when the `Environment` is left.
/// What made it fail is then logged, unless that was a revocation.
/// Of tensors on a device, results come with a stream: each wait() or successful test() makes the calling thread's current stream wait for them, and
/// the host goes on. Every wait yields the core, is watched (see EnvironmentOptions::stall_warning), and ends with a RevokedError when the
/// communicator is revoked.
class [[nodiscard]] Work {
 public:
  /// Holds nothing; complete.
  Work() noexcept;
  explicit Work(std::shared_ptr<mpi::Operation> operation) noexcept;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// Whether the operation is complete; advances it and all others; may be called again. @throws what made the operation fail
  bool test();
  /// Returns when the operation is complete; may be called again. @throws what made the operation fail
  void wait();
  /// The same. The watchdog restarts whenever `activity()`, which is called repeatedly, returns a different number: for waits that may last long
  /// while other ranks remain active.
  void wait(const std::function<int64_t()>& activity);
  /// The same; results on a device are there for the host, too.
  void wait_on_host();
  /// Whether it is known to be complete. Advances nothing, and does not report failures.
  bool done() const noexcept;
  /// Like wait(), but returns false after `timeout`; the operation then continues. @throws what made the operation fail
  bool wait_for(std::chrono::nanoseconds timeout);

 private:
  std::shared_ptr<mpi::Operation> operation_;
};

/// Completes every one of `works`. @throws the first failure
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
