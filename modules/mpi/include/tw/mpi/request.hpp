// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

namespace tw::mpi {

struct RequestState;

/// A non-blocking operation in flight. Owns what keeps its buffers alive. Dropping it neither waits nor frees: the operation is
/// parked with its buffers and completed by later calls, or when the `Environment` is left.
class [[nodiscard]] Request {
 public:
  Request() noexcept;
  explicit Request(std::unique_ptr<RequestState> state) noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// Whether the operation is complete; advances it. True for a Request that holds nothing. @throws MpiError
  bool test();
  /// Returns when the operation is complete; yields the core while it waits. @throws MpiError
  void wait();

 private:
  void park() noexcept;
  std::unique_ptr<RequestState> state_;  // null once complete
};

}  // namespace tw::mpi
