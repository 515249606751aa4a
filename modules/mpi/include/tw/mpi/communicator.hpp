// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/mpi/rank.hpp>

namespace tw {

namespace mpi {
class Runtime;
struct CommunicatorState;
}  // namespace mpi

/// A group of ranks that talk among themselves. Owns its MPI communicator; move-only. Errors are reported as MpiError.
///
/// Destroying one is not collective: the MPI handle is queued and freed when the `Environment` is left.
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
  /// For messages, such as "world/dup".
  const std::string& name() const noexcept;

  /// A communicator of the same ranks with messages of its own. Collective.
  Communicator dup() const;
  /// The ranks that give the same `color`, ordered by `key` and then by rank here. Collective. @param color at least 0.
  Communicator split(int color, int key) const;
  /// Returns when every rank has called it. Collective.
  void barrier() const;

  /// Whether collectives check that all ranks agree; see EnvironmentOptions::audit.
  bool audited() const noexcept;

  /// For the sources of `mpi` and for interop.hpp.
  const mpi::CommunicatorState& state() const noexcept { return *state_; }
  explicit Communicator(std::unique_ptr<mpi::CommunicatorState> state) noexcept;
  static Communicator duplicate_native(const void* mpi_comm);
  const void* native() const noexcept;

 private:
  std::unique_ptr<mpi::CommunicatorState> state_;
};

}  // namespace tw
