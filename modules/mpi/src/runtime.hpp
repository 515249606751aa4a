// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tw::mpi {

/// @throws MpiError unless `code` is MPI_SUCCESS.
void check(int code, const char* call, const std::string& communicator);

/// What outlives the handles of users: operations whose handle was dropped, and communicators that wait to be freed.
/// One per Environment; shared by its communicators, so that it lives as long as any of them.
class Runtime {
 public:
  explicit Runtime(bool audit) : audit_(audit) {}

  /// The runtime of the Environment that exists, or null.
  static std::shared_ptr<Runtime> find_current();
  /// The same. @throws NotInitialisedError, naming `user`, where there is none.
  static std::shared_ptr<Runtime> current(const std::string& user);
  static void set_current(const std::shared_ptr<Runtime>& runtime);

  bool audit() const noexcept { return audit_; }

  /// Orders communicators by age, so that all ranks free them in one order.
  uint64_t next_communicator() noexcept { return made_communicators_++; }
  void free_later(MPI_Comm comm, uint64_t age);

  void park(MPI_Request request, std::shared_ptr<void> keep_alive);
  /// Completes what it can of the parked operations, without waiting.
  void reap();
  /// Completes all parked operations. False when `timeout` passed first.
  bool drain(std::chrono::milliseconds timeout);
  /// Frees the queued communicators, oldest first. Collective over each of them.
  void free_communicators();
  /// Lets go of everything without touching it: buffers of messages that may still be on their way are leaked, not freed.
  void abandon();

 private:
  struct Parked {
    MPI_Request request;
    std::shared_ptr<void> keep_alive;
  };
  struct Retired {
    MPI_Comm comm;
    uint64_t age;
  };
  bool reap_locked();

  const bool audit_;
  uint64_t made_communicators_ = 0;
  std::mutex mutex_;
  std::vector<Parked> parked_;
  std::vector<Retired> retired_;
};

struct CommunicatorState {
  MPI_Comm handle = MPI_COMM_NULL;
  bool owned = true;
  uint64_t age = 0;
  int rank = 0;
  int size = 1;
  std::string name;
  std::shared_ptr<Runtime> runtime;
};

struct RequestState {
  MPI_Request handle = MPI_REQUEST_NULL;
  const char* call = "";
  std::string communicator;
  std::shared_ptr<void> keep_alive;
  std::shared_ptr<Runtime> runtime;
};

/// Describes `handle`, which it takes over when `owned`.
std::unique_ptr<CommunicatorState> make_communicator_state(MPI_Comm handle, bool owned, std::string name, std::shared_ptr<Runtime> runtime);

}  // namespace tw::mpi
