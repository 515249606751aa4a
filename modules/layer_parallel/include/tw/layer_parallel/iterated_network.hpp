// SPDX-License-Identifier: Apache-2.0
// The common interface of networks that are solved by iterations.
#pragma once
#include <iosfwd>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/parallel_in_time/mgrit.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Statistics of the last forward and backward pass.
struct NetworkReport {
  struct BlockReport {
    std::string name;
    Report forward;
    Report backward;  ///< empty before the first backward pass
    /// Modelled speed-up of a forward and backward pass compared with one rank. The model assumes that all layers cost the same and that messages
    /// cost nothing. 0: there is no model of this solver.
    double modelled_speed_up = 1;
  };
  std::vector<BlockReport> blocks;  ///< in order, one entry per ODE block, or per recurrent layer and direction
  Seconds forward{0};               ///< wall time of the forward pass on this rank
  Seconds backward{0};              ///< wall time on this rank of all blocks' backward passes since the last recorded forward pass
};
std::ostream& operator<<(std::ostream& out, const NetworkReport& report);

/// Maximum number of iterations of each pass; 0: serial, all steps one after the other.
struct Iterations {
  int forward = 2;
  int backward = 1;

  bool operator==(const Iterations&) const = default;
};

class IteratedNetwork {
 public:
  virtual ~IteratedNetwork() = default;

  /// Sets the iterations of later passes. Collective. @throws ContractError if a number is negative, only one is 0, or ranks differ
  virtual void set_iterations(Iterations iterations) = 0;
  virtual Iterations iterations() const = 0;
  /// The ranks among which the network is divided.
  virtual const Communicator& comm() const noexcept = 0;
  /// Statistics of the last passes. Local.
  virtual NetworkReport report() const = 0;
  /// Reports each later phase on this rank to `observer`. Local.
  virtual void observe(PhaseObserver observer) = 0;

 protected:
  IteratedNetwork() = default;
  IteratedNetwork(const IteratedNetwork&) = default;
  IteratedNetwork& operator=(const IteratedNetwork&) = default;
};

}  // namespace tw::layer_parallel
