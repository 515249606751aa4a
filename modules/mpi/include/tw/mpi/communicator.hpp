// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tw/mpi/rank.hpp>
#include <vector>

namespace tw {

namespace mpi {
class Runtime;
struct CommunicatorState;
}  // namespace mpi

/// A group of ranks that communicate with each other. Owns its MPI communicator, unless it is Environment::world(); move-only. Functions throw
/// MpiError if an MPI call fails.
///
/// Destroying one is not collective: the MPI handle is queued and freed later, at the latest when the `Environment` ends; see
/// Environment::free_communicators().
class Communicator {
 public:
  /// An independent copy of `comm`; `comm` stays untouched. Collective over `comm`. Defined in <tw/mpi/interop.hpp>.
  /// @param comm an MPI_Comm.
  template <class NativeCommunicator>
  static Communicator duplicate_of(NativeCommunicator comm);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  Rank rank() const noexcept;
  int size() const noexcept;
  /// The name in logs and error messages, such as "world/dup".
  const std::string& name() const noexcept;

  // Communicators derived from this one. Revoking this one also revokes them.

  /// A duplicate: the same ranks with separate messages. Collective.
  Communicator dup() const;
  /// The ranks that pass the same `color`, ordered by `key`, then by their rank in this communicator. Collective. @param color at least 0. @param
  /// name the last part of the new communicator's name; empty: "split" and the color
  Communicator split(int color, int key, std::string_view name = {}) const;
  /// The ranks that pass the same `group`, in their order here. Collective. @param group any text; it becomes part of the name.
  Communicator split(std::string_view group) const;
  /// The ranks that share memory with this one, in their order here. Collective.
  Communicator split_by_node() const;

  /// Returns when every rank has called it. Collective.
  void barrier() const;

  // Error handling.

  /// Ends all current and future waits of all members, on this communicator and on communicators derived from it, with a RevokedError. Local: the
  /// other members are notified while they wait. Operations in flight never complete; their tensors stay allocated, if MPI may still access them.
  /// @param reason part of the error message on every rank; other ranks receive its first 255 characters.
  void revoke(std::string_view reason) const;
  bool revoked() const noexcept;
  /// A new communicator of `members` only, in this order. Making one is the only operation that a revoked communicator still supports. Revoking this
  /// communicator does not revoke the new one; revoking one from which this communicator was derived does. Collective over `members`.
  /// @param members ranks of this communicator, including this rank; the same list on each.
  /// @throws Error if some members have not called subset() within `timeout`; all may then try again. A late member may also receive this error,
  /// because the first attempt of the others has timed out.
  Communicator subset(const std::vector<Rank>& members, std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;

  /// Whether collectives first check that all ranks make the same call; see EnvironmentOptions::audit.
  bool audited() const noexcept;

  // For the library itself, like <tw/mpi/library.hpp>.

  const std::shared_ptr<mpi::CommunicatorState>& state() const noexcept { return state_; }
  explicit Communicator(std::shared_ptr<mpi::CommunicatorState> state) noexcept;

 private:
  std::shared_ptr<mpi::CommunicatorState> state_;
};

}  // namespace tw
