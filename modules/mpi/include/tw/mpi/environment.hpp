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
               ///< backward(); but for tensors on devices, and in backward passes nested 60 deep, they run on an autograd thread
  serialized,  ///< any thread, one at a time
  multiple,    ///< any thread
};

std::string_view to_string(ThreadLevel level);

/// What advances operations in flight while the program computes.
enum class ProgressDriver {
  inlined,  ///< the program's own waits, tests and calls of progress(); needs no thread. Best if all cores compute
  thread,   ///< as `inlined`, and a thread of the library; needs MPI_THREAD_MULTIPLE. Pays off with a spare core or a slow network
};

struct EnvironmentOptions {
  /// The level requested from MPI_Init_thread; an error if MPI grants only a lower one. A running MPI is adopted at the level that it has. If that
  /// level is at most `funneled`, construct the Environment on the thread that will communicate.
  ThreadLevel thread_level = ThreadLevel::funneled;
  /// Whether every collective first checks that all ranks make the same call. Each rank then sends 256 more bytes to every other rank. Unset: on in
  /// audit builds, off in others.
  std::optional<bool> audit = {};
  ProgressDriver progress = ProgressDriver::inlined;
  /// How long a single wait may last before the late ranks and their last known calls are logged.
  std::chrono::milliseconds stall_warning = std::chrono::seconds(60);
  /// How long a single wait may last before the late ranks are logged again and the job is aborted. On an adopted MPI, nothing is
  /// logged and the job continues: the communicator is revoked, and all members that wait on it get a RevokedError that names the late ranks.
  std::chrono::milliseconds stall_abort = std::chrono::seconds(600);
  /// Maximum number of elements (or bytes) in one MPI call; longer messages are split. At most 2^31 - 1, which is the default; lower it for an MPI
  /// that fails at smaller sizes.
  int64_t largest_message = 2147483647;
  /// Whether MPI accepts pointers to device memory, so that tensors there need no staging. Unset: as MPI itself reports. Must be the same on all
  /// ranks.
  std::optional<bool> device_aware = {};
  /// How long the destructor of Environment waits for operations still in flight. After that, it aborts the job; on an adopted MPI, it instead logs
  /// an error and abandons the operations.
  std::chrono::milliseconds drain_timeout = std::chrono::seconds(30);
};

/// The lifetime of MPI, tied to a scope. Construct it in `main`, before anything that communicates.
///
/// Leaving the scope normally completes operations in flight, frees communicators and finalises MPI; collective. Leaving it by an exception aborts
/// the job, because MPI_Finalize would wait for ranks that wait for this one. An uncaught exception logs its message and rank, and aborts the job.
///
/// If the program has initialised MPI itself, the Environment only adopts MPI. It then never finalises MPI, never ends the process or the job, and
/// leaves std::terminate's handler alone. If an exception leaves the scope, the Environment frees nothing, since the program may handle the
/// exception. To pass log lines to the program's own log, use set_log_function(). An Environment inside the scope of another one shares the outer
/// one's state and options.
class Environment {
 public:
  /// Initialises MPI, or adopts it if it runs already. Initialising is collective over the world; adopting is local.
  /// @throws Error if the thread level is not granted, or if MPI was already finalised.
  Environment(int& argc, char**& argv, const EnvironmentOptions& options = {});
  /// Like the constructor above, for a `main` without arguments.
  explicit Environment(const EnvironmentOptions& options = {});

  /// For programs that initialise and finalise MPI themselves: adopts the running MPI. Not collective. Destroy the result before MPI_Finalize.
  /// @throws NotInitialisedError if MPI is not running.
  static Environment adopt(const EnvironmentOptions& options = {});

  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// All ranks. This is MPI_COMM_WORLD itself: `dup()` it before use if the program also communicates on it.
  const Communicator& world() const noexcept { return *world_; }
  ThreadLevel thread_level() const noexcept { return thread_level_; }
  /// Whether MPI was already running; this Environment then does not finalise it.
  bool adopted() const noexcept { return adopted_; }
  /// Frees the MPI handles of communicators that all their members have destroyed. MPI supports only some thousands of handles. Collective over the
  /// world. The members of a new communicator also do this among themselves, if one of them has destroyed 32 communicators since the last time. A
  /// handle is kept until the Environment ends if an MPI operation on it failed, if a message was not received, or if subset() was called on it.
  void free_communicators();
  /// The number of MPI handles that wait to be freed on this rank. Local.
  int64_t communicators_to_free() const;
  /// Sets EnvironmentOptions::stall_warning and stall_abort for waits that begin later. For programs that know these times only after MPI has
  /// started. Local.
  void watch(std::chrono::milliseconds stall_warning, std::chrono::milliseconds stall_abort);
  /// The MPI library's own description of itself, one line.
  static std::string library_version();

  /// Ends all ranks of the job at once. First logs `message` with this rank, unless the message is empty. Suppresses the text that Open MPI 4 adds.
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
