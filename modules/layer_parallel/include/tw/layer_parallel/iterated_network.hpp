// SPDX-License-Identifier: Apache-2.0
// What networks that are solved by iterations have in common.
#pragma once
#include <iosfwd>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/parallel_in_time/mgrit.hpp>
#include <vector>

namespace tw::layer_parallel {

/// How the last passes went.
struct NetworkReport {
  struct BlockReport {
    std::string name;
    Report forward;
    Report backward;  ///< empty before the first backward pass
    /// Of a forward and backward pass over one rank, for equal steps and free messages; 0: there is no model of this solver.
    double modelled_speed_up = 1;
  };
  std::vector<BlockReport> blocks;  ///< what was solved, one after the other: ODE blocks, or recurrent layers in each direction
  Seconds forward{0};               ///< wall time of this rank
  Seconds backward{0};              ///< of the blocks, after the last forward pass that was recorded
};
std::ostream& operator<<(std::ostream& out, const NetworkReport& report);

/// At most, of each pass; 0: all steps one after the other.
struct Iterations {
  int forward = 2;
  int backward = 1;

  bool operator==(const Iterations&) const = default;
};

class IteratedNetwork {
 public:
  virtual ~IteratedNetwork() = default;

  /// Of the passes to come. Collective. @throws ContractError for negative ones
  virtual void set_iterations(Iterations iterations) = 0;
  virtual Iterations iterations() const = 0;
  /// Of the ranks that hold it together.
  virtual const Communicator& comm() const noexcept = 0;
  /// How the last passes went. Local.
  virtual NetworkReport report() const = 0;
  /// Reports each phase on this rank to `observer` from now on. Local.
  virtual void observe(PhaseObserver observer) = 0;

 protected:
  IteratedNetwork() = default;
  IteratedNetwork(const IteratedNetwork&) = default;
  IteratedNetwork& operator=(const IteratedNetwork&) = default;
};

}  // namespace tw::layer_parallel
