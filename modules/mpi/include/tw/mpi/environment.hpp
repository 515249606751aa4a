// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// What threads may do with MPI; the levels of the MPI standard.
enum class ThreadLevel {
  funneled,    ///< the thread that initialised MPI makes all calls; another's are a ContractError. The hooks of gradients are such calls: they run on
               ///< the thread that calls backward(), but on one of autograd's for tensors on devices, and in backward passes nested 60 deep
  serialized,  ///< any thread, one at a time
  multiple,    ///< any thread
};

std::string_view to_string(ThreadLevel level);

/// How operations in flight advance while the program computes.
enum class ProgressDriver {
  inlined,  ///< waits, tests and progress() of the program itself; needs no thread. Best where all cores compute.
  thread,   ///< also a thread of our own; needs MPI_THREAD_MULTIPLE and pays where the node has a core to spare, or a slow network to wait for
};

struct EnvironmentOptions {
  /// Asked of MPI_Init_thread; less than this is an error. A running MPI is adopted at whatever level it has; up to `funneled`, by the thread that
  /// will use it.
  ThreadLevel thread_level = ThreadLevel::funneled;
  /// Make every collective check first that all ranks agree on it (one more message of 256 bytes between each two ranks).
  /// Unset: on in audit builds, off in others.
  std::optional<bool> audit = {};
  ProgressDriver progress = ProgressDriver::inlined;
  /// After so long a wait, this rank writes which ranks are late and what they were last seen doing.
  std::chrono::milliseconds stall_warning = std::chrono::seconds(60);
  /// After so long a wait, it writes the same and aborts the job.
  std::chrono::milliseconds stall_abort = std::chrono::seconds(600);
  /// The most elements (or bytes) of one MPI call; longer messages are cut. At most 2^31 - 1, the default; less for an MPI that fails before.
  int64_t largest_message = 2147483647;
  /// Whether MPI accepts pointers to device memory, so that tensors there need not be staged. Unset: as MPI itself reports. The same on all
  /// ranks.
  std::optional<bool> device_aware = {};
  /// Maximum wait, on leaving the scope, for operations whose handles were dropped; after it the job is aborted.
  std::chrono::milliseconds drain_timeout = std::chrono::seconds(30);
};

/// MPI's life, tied to a scope. Made in `main`, before anything that communicates.
///
/// Leaving the scope normally drains what is in flight, frees communicators and finalises MPI; collective. Leaving it by an exception aborts the
/// job, because MPI_Finalize would wait for ranks that wait for this one. An exception that nobody catches ends the job with its message and rank.
///
/// Where the program owns MPI, the Environment only adopts it: it never finalises, and when an exception leaves its scope it aborts nothing and frees
/// nothing, since the program may know what to do. One inside the scope of another shares the other's state and its `audit`.
class Environment {
 public:
  /// Initialises MPI, or adopts it if it runs already. Collective over the world when it initialises.
  /// @throws Error when the thread level is not granted, or when MPI was finalised already.
  Environment(int& argc, char**& argv, const EnvironmentOptions& options = {});
  /// The same for a `main` without arguments.
  explicit Environment(const EnvironmentOptions& options = {});

  /// For programs that own MPI: uses it and never finalises it. Not collective. Destroy the result before MPI_Finalize.
  /// @throws NotInitialisedError when MPI is not running.
  static Environment adopt(const EnvironmentOptions& options = {});

  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// All ranks. MPI_COMM_WORLD itself: `dup()` it before use where the program also talks on it.
  const Communicator& world() const noexcept { return *world_; }
  ThreadLevel thread_level() const noexcept { return thread_level_; }
  /// Whether MPI was running before and will not be finalised here.
  bool adopted() const noexcept { return adopted_; }
  /// Frees the MPI handles of communicators that all their members have destroyed. Collective over the world. MPI supports some thousands of handles;
  /// when a communicator is created and a member has destroyed 32, its members free the destroyed ones automatically. A handle is kept until the end
  /// where operations failed in MPI's own collectives, or messages were not received.
  void free_communicators();
  /// How many MPI handles wait for that on this rank. Local.
  int64_t communicators_to_free() const;
  /// Sets EnvironmentOptions::stall_warning and stall_abort for waits that begin later, for programs that learn them only once MPI runs. Local.
  void watch(std::chrono::milliseconds stall_warning, std::chrono::milliseconds stall_abort);
  /// The MPI library's own description of itself, one line.
  static std::string library_version();

  /// Ends all ranks of the job at once, after writing `message`, unless it is empty, with this rank. Open MPI 4 adds no text.
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
  int finalize_key_ = 0;  // of an adopted MPI: an attribute whose deletion drains before the host finalises
  std::unique_ptr<Communicator> world_;
};

}  // namespace tw
