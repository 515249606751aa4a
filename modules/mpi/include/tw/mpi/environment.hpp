// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// The thread levels of the MPI standard: which threads may call MPI.
enum class ThreadLevel {
  funneled,    ///< only the thread that initialised MPI; calls from other threads throw ContractError. Gradient hooks run on the thread that calls
               ///< backward(), except for tensors on devices and in backward passes nested 60 deep: there they run on an autograd thread
  serialized,  ///< any thread, one at a time
  multiple,    ///< any thread
};

std::string_view to_string(ThreadLevel level);

/// What advances operations in flight while the program computes.
enum class ProgressDriver {
  inlined,  ///< the program's own waits, tests and progress(); needs no thread. Best if all cores compute.
  thread,   ///< in addition, a thread of the library; needs MPI_THREAD_MULTIPLE. Pays off with a spare core or a slow network
};

struct EnvironmentOptions {
  /// Requested from MPI_Init_thread; a lower level is an error. A running MPI is adopted at its own level; if that is at most `funneled`, construct
  /// the Environment on the thread that will use it.
  ThreadLevel thread_level = ThreadLevel::funneled;
  /// Whether every collective first checks that all ranks agree on it (one more message of 256 bytes between each pair of ranks).
  /// Unset: on in audit builds, off in others.
  std::optional<bool> audit = {};
  ProgressDriver progress = ProgressDriver::inlined;
  /// How long a rank waits before it logs the late ranks and their last known calls.
  std::chrono::milliseconds stall_warning = std::chrono::seconds(60);
  /// How long a rank waits before it logs the same and aborts the job. On an adopted MPI it revokes the communicator instead: all members that wait
  /// on it get a RevokedError.
  std::chrono::milliseconds stall_abort = std::chrono::seconds(600);
  /// Maximum number of elements (or bytes) in one MPI call; longer messages are split. At most 2^31 - 1, the default; lower it for an MPI that fails
  /// at smaller sizes.
  int64_t largest_message = 2147483647;
  /// Whether MPI accepts pointers to device memory, so that tensors there need no staging. Unset: as MPI itself reports. Must be the same on all
  /// ranks.
  std::optional<bool> device_aware = {};
  /// How long the destructor waits for operations whose handles were dropped. After that it aborts the job; on an adopted MPI, it logs an error and
  /// abandons the operations.
  std::chrono::milliseconds drain_timeout = std::chrono::seconds(30);
};

/// The lifetime of MPI, tied to a scope. Construct it in `main`, before anything that communicates.
///
/// Leaving the scope normally completes operations in flight, frees communicators and finalises MPI; collective. Leaving it by an exception aborts
/// the job, because MPI_Finalize would wait for ranks that wait for this one. An uncaught exception ends the job with its message and rank.
///
/// If the program owns MPI, the Environment only adopts it. It then never finalises MPI, never ends the process or the job, and leaves
/// std::terminate's handler alone. If an exception leaves its scope, it frees nothing, since the program may handle the exception. See also
/// set_log_function(). An Environment inside the scope of another one shares the state and all options of that one.
class Environment {
 public:
  /// Initialises MPI, or adopts it if it runs already. Collective over the world when it initialises.
  /// @throws Error if the thread level is not granted, or if MPI was already finalised.
  Environment(int& argc, char**& argv, const EnvironmentOptions& options = {});
  /// The same for a `main` without arguments.
  explicit Environment(const EnvironmentOptions& options = {});

  /// For programs that own MPI: uses it and never finalises it. Not collective. Destroy the result before MPI_Finalize.
  /// @throws NotInitialisedError if MPI is not running.
  static Environment adopt(const EnvironmentOptions& options = {});

  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// All ranks. This is MPI_COMM_WORLD itself: `dup()` it before use if the program also communicates on it.
  const Communicator& world() const noexcept { return *world_; }
  ThreadLevel thread_level() const noexcept { return thread_level_; }
  /// Whether MPI was running before and will not be finalised here.
  bool adopted() const noexcept { return adopted_; }
  /// Frees the MPI handles of communicators that all their members have destroyed, because MPI supports only some thousands of handles. Collective
  /// over the world. When a communicator is created, its members do the same among themselves if one of them has destroyed 32 communicators since the
  /// last time. A handle is kept until the end if operations failed in MPI's own collectives, or if messages were not received.
  void free_communicators();
  /// The number of MPI handles that wait to be freed on this rank. Local.
  int64_t communicators_to_free() const;
  /// Sets EnvironmentOptions::stall_warning and stall_abort for waits that begin later. For programs that know these times only after MPI has
  /// started. Local.
  void watch(std::chrono::milliseconds stall_warning, std::chrono::milliseconds stall_abort);
  /// The MPI library's own description of itself, one line.
  static std::string library_version();

  /// Ends all ranks of the job at once. First logs `message` with this rank, unless it is empty. Suppresses the text that Open MPI 4 would add.
  [[noreturn]] static void abort(std::string_view message, int exit_code = 1);

 private:
  struct AdoptTag {};
  Environment(AdoptTag, const EnvironmentOptions& options);
  void initialise(int* argc, char*** argv, const EnvironmentOptions& options);
  void attach(const EnvironmentOptions& options);

  bool adopted_ = false;
  int exceptions_at_entry_ = 0;
  ThreadLevel thread_level_ = ThreadLevel::funneled;
  std::shared_ptr<mpi::Runtime> runtime_;
  bool made_runtime_ = false;
  int finalize_key_ = 0;  // attribute of an adopted MPI; its deletion completes operations before the program finalises MPI
  std::unique_ptr<Communicator> world_;
};

}  // namespace tw
