// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/mpi/environment.hpp>

#include "ending.hpp"

namespace tw::tool {

/// MPI for a command. It starts when a command first asks for it: a command that needs no ranks runs without MPI.
class Session {
 public:
  /// Starts MPI on the first call, which is collective over the processes of the launcher.
  Environment& mpi();
  /// Whether this process is the one that prints what all processes would print. Starts MPI where a launcher has started several processes.
  bool is_first();
  /// Whether this session has started MPI.
  bool has_mpi() const noexcept { return mpi_.has_value(); }
  /// Writes the message of `end` and returns the exit code of the process. If MPI has started, all ranks end together; see Ending.
  int finish(const End& end) const;

 private:
  std::optional<Environment> mpi_;
  std::optional<Ending> ending_;
};

}  // namespace tw::tool
