// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/mpi/communicator.hpp>

#include "order_check.hpp"
#include "parameter_slices.hpp"
#include "unit_order.hpp"

namespace tw {

class Reducer;

/// Provides the values of units while operators use their parameters.
class UnitValues {
 public:
  struct Figures {
    Seconds exposed{0};
    int64_t payload_bytes = 0;
    int64_t buffer_bytes = 0;  ///< of persistent buffers
    int64_t gatherings = 0;
    int64_t late = 0;  ///< gathered only when an operator used the unit
  };

  virtual ~UnitValues() = default;
  /// An operator is about to use parameters of `units`; the same calls on all ranks.
  virtual void use(std::span<const size_t> units, const UseMoment& moment) = 0;
  /// An operator is about to write a slice of `unit`, and uses parameters of `used`.
  virtual void write(size_t unit, std::span<const size_t> used) = 0;
  /// All slices were written.
  virtual void written() = 0;
  /// Called in a backward pass, in this order: when it begins to accumulate gradients, when all gradients of this rank are ready, and when they are
  /// reduced.
  virtual void begin_pass() = 0;
  virtual void before_reduction() = 0;
  virtual void end_pass() = 0;
  /// Drops gathered values and begins again after a failed step, whose communicators have been replaced. Collective.
  virtual void restart(std::shared_ptr<OrderCheck> orders) = 0;
  const Figures& figures() const noexcept { return figures_; }

 protected:
  Figures figures_;
};

/// Gathers each unit from the ranks' slices. Collective; borrows its arguments. @param orders checks that the ranks gather the same units
/// @param reducer its step fingerprint reports that a rank found changed parameters @param give_up called with the error on each rank if the ranks
/// gather different units; wakes ranks that wait elsewhere
std::unique_ptr<UnitValues> gathered_values(const Communicator& comm, std::shared_ptr<OrderCheck> orders, const ParameterSlices& slices,
                                            Reducer& reducer, const FullyShardedOptions& options,
                                            std::function<void(const std::string& why)> give_up);

/// All ranks use the node's one copy. Collective.
std::unique_ptr<UnitValues> one_copy_values(const Communicator& comm, const ParameterSlices& slices);

}  // namespace tw
